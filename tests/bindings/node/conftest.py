# SPDX-License-Identifier: BSD-2-Clause
"""The package libredlock, packed by npm and installed by npm in empty directories."""
import fcntl
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
SOURCE, BUILD = (pathlib.Path(os.environ[name]) for name in ("REDLOCK_SOURCE", "REDLOCK_BUILD"))
sys.path[:0] = [str(SOURCE / "tests" / "cli"), str(SOURCE / "bench" / "peers")]
import installing  # noqa: E402

SKIPPED = 77
NPM = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--offline"]


def pytest_sessionstart(session):
    for program in "node", "npm", "pkg-config":
        if shutil.which(program) is None:
            pytest.exit(f"skipped: needs {program}, which is not on the PATH", SKIPPED)


# No nodes and no settings but those of a test.
ENVIRON = {**{name: value for name, value in os.environ.items() if not name.startswith("REDLOCK_")}, "REDLOCK_CONFIG": "/dev/null"}


def run(*words, cwd, **environ):
    done = subprocess.run(words, cwd=cwd, env={**ENVIRON, **environ}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=300, check=False)
    return done.returncode, done.stdout


def must(*words, cwd, **environ):
    status, said = run(*words, cwd=cwd, **environ)
    assert status == 0, f"{words}: status {status}\n{said}"
    return said


@pytest.fixture(scope="session")
def package_config(tmp_path_factory):
    """The directory of redlock.pc of the installed library."""
    prefix = tmp_path_factory.mktemp("library")
    must("cmake", "--install", str(BUILD), "--prefix", str(prefix), cwd=prefix)
    return str(next(prefix.rglob("redlock.pc")).parent)


def pack(tmp_path_factory, *commands, **environ):
    """The package as npm publishes it, after these commands in its directory."""
    place = tmp_path_factory.mktemp("pack") / "package"
    shutil.copytree(SOURCE / "bindings" / "node", place, ignore=shutil.ignore_patterns("build", "prebuilds"))
    for command in commands:
        must(*command, cwd=place, **environ)
    return place / must("npm", "pack", "--silent", cwd=place).split()[-1]


@pytest.fixture(scope="session")
def packed(tmp_path_factory, package_config):
    """With the addon, and the library in it."""
    return pack(tmp_path_factory, ["node", "build.js", "--prebuild"], PKG_CONFIG_PATH=package_config)


@pytest.fixture(scope="session")
def packed_source(tmp_path_factory):
    return pack(tmp_path_factory)


def install(directory, archive, **environ):
    (directory / "package.json").write_text('{"private": true}')
    return run(*NPM, "--foreground-scripts", str(archive), cwd=directory, **environ)


@pytest.fixture(scope="session")
def app(tmp_path_factory, packed):
    """A program's directory. Nothing of the build is needed there: the addon has it all."""
    directory = tmp_path_factory.mktemp("app")
    status, said = install(directory, packed, PKG_CONFIG_PATH="/nonexistent", CC="/nonexistent")
    assert status == 0, said
    shutil.copy(HERE / "cases.js", directory)
    return directory


class Compiler:
    """TypeScript's, which npm installs once, outside of the source tree."""

    def __init__(self):
        self.source, builds = HERE, installing.default_builds() / "bindings"
        builds.mkdir(parents=True, exist_ok=True)
        self.build, self.log = builds / "node", builds / "node.log"
        self.needs, self.install_commands = ["npm"], [["npm", "install", "--no-audit", "--no-fund"]]

    def command(self, words):
        return words


@pytest.fixture(scope="session")
def compiler():
    made = Compiler()
    try:
        with open(made.build.with_suffix(".lock"), "w", encoding="ascii") as alone:
            fcntl.flock(alone, fcntl.LOCK_EX)
            installing.install(made)
    except installing.Skipped as why:
        pytest.skip(str(why))
    modules = made.build / "node_modules"
    return [str(modules / ".bin" / "tsc"), "--strict", "--target", "es2022", "--module", "nodenext", "--types", "node",
            "--typeRoots", str(modules / "@types")]
