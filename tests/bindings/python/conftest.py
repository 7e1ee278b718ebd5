# SPDX-License-Identifier: BSD-2-Clause
"""The package libredlock: a wheel with the library inside, and a source package, each installed by pip in an empty environment."""
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
SOURCE, BUILD = (pathlib.Path(os.environ[name]) for name in ("REDLOCK_SOURCE", "REDLOCK_BUILD"))
SKIPPED = 77
TOOLS = ["setuptools", "wheel", "cffi", "mypy"]


def run(*words, cwd, **environ):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_"))}
    done = subprocess.run(list(map(str, words)), cwd=cwd, env={**clean, **environ}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900, check=False)
    return done.returncode, done.stdout


def must(*words, cwd, **environ):
    status, said = run(*words, cwd=cwd, **environ)
    assert status == 0, f"{words}: status {status}\n{said}"
    return said


class Environment:
    def __init__(self, directory, *options):
        self.directory = directory
        must(sys.executable, "-m", "venv", *options, "env", cwd=directory)
        self.python = directory / "env/bin/python"

    def pip(self, *words, **environ):
        return run(self.python, "-m", "pip", "-q", "--disable-pip-version-check", *words, cwd=self.directory, **environ)

    def must(self, *words, **environ):
        return must(self.python, *words, cwd=self.directory, **environ)


@pytest.fixture(scope="session")
def package_config(tmp_path_factory):
    """The directory of redlock.pc of the installed library."""
    prefix = tmp_path_factory.mktemp("library")
    must("cmake", "--install", BUILD, "--prefix", prefix, cwd=prefix)
    return str(next(prefix.rglob("redlock.pc")).parent)


@pytest.fixture(scope="session")
def tools(tmp_path_factory):
    """What builds packages."""
    if shutil.which("pkg-config") is None:
        pytest.exit("skipped: needs pkg-config, which is not on the PATH", SKIPPED)
    made = Environment(tmp_path_factory.mktemp("tools"))
    status, said = made.pip("install", *TOOLS)
    if status != 0:
        pytest.exit(f"skipped: pip cannot install {', '.join(TOOLS)}: {said.strip().splitlines()[-1]}", SKIPPED)
    return made


@pytest.fixture(scope="session")
def sources(tmp_path_factory):
    place = tmp_path_factory.mktemp("sources") / "python"
    shutil.copytree(SOURCE / "bindings" / "python", place, ignore=shutil.ignore_patterns("build", "dist", "*.egg-info", "_shim.c*"))
    return place


@pytest.fixture(scope="session")
def wheel(tools, sources, package_config):
    place = tools.directory / "wheel"
    status, said = tools.pip("wheel", "--no-build-isolation", "--no-deps", "-w", place, sources, PKG_CONFIG_PATH=package_config,
                             REDLOCK_LINK="static")
    assert status == 0, said
    return next(place.glob("*.whl"))


@pytest.fixture(scope="session")
def source_package(tools, sources, package_config):
    place = tools.directory / "sdist"
    must(tools.python, "setup.py", "-q", "sdist", "-d", place, cwd=sources, PKG_CONFIG_PATH=package_config)
    return next(place.glob("*.tar.gz"))


@pytest.fixture(scope="session")
def app(tmp_path_factory, tools, wheel):
    """A program's environment. Nothing of the build is needed there: the wheel has it all."""
    made = Environment(tmp_path_factory.mktemp("app"), "--without-pip")
    status, said = tools.pip("--python", made.python, "install", wheel, "pytest", PKG_CONFIG_PATH="/nonexistent", CC="/nonexistent")
    assert status == 0, said
    return made
