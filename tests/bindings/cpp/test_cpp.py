# SPDX-License-Identifier: BSD-2-Clause
"""redlock.hpp as it is installed, with each compiler that is here, on real servers. cases.cpp has what runs."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
SOURCE, BUILD = (pathlib.Path(os.environ[name]) for name in ("REDLOCK_SOURCE", "REDLOCK_BUILD"))
sys.path.insert(0, str(SOURCE / "tests" / "cli"))
from servers import Quorum, die_with_us  # noqa: E402

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]
COMPILERS = [name for name in ("g++", "clang++") if shutil.which(name)]
BUILDS = [(compiler, standard) for compiler in COMPILERS for standard in ("c++17", "c++20")]
CASES = ["exclusive", "wrong", "outlives", "coroutines"]

if not COMPILERS or not shutil.which("pkg-config"):
    pytest.exit("skipped: needs g++ or clang++, and pkg-config", 77)


def must(*words, status=0, **environ):
    done = subprocess.run(list(map(str, words)), env={**os.environ, **environ}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=300, check=False)
    assert done.returncode == status, f"{words}: status {done.returncode}\n{done.stdout}"
    return done.stdout


@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    """compile(source, compiler, standard): the program."""
    prefix = tmp_path_factory.mktemp("library")
    must("cmake", "--install", BUILD, "--prefix", prefix)
    [pc] = prefix.rglob("redlock.pc")
    flags = must("pkg-config", "--cflags", "--libs", "redlock", PKG_CONFIG_PATH=str(pc.parent)).split()
    made = {}

    def build(source, compiler, standard):
        key = (source, compiler, standard)
        if key not in made:
            made[key] = prefix / f"program{len(made)}"
            must(compiler, f"-std={standard}", "-g", *WARNINGS, source, "-o", made[key], *flags, "-pthread", f"-Wl,-rpath,{pc.parent.parent}")
        return made[key]
    return build


@pytest.fixture(params=BUILDS, ids="-".join)
def cases(request, compiled):
    return compiled(HERE / "cases.cpp", *request.param)


@pytest.fixture(scope="module")
def quorum():
    with Quorum(3) as three:
        yield three


@pytest.mark.parametrize("name", CASES)
def test_case(cases, quorum, request, name):
    old = "c++17" in request.node.name
    must(cases, name, quorum.nodes, status=77 if old and name == "coroutines" else 0)
    assert quorum.holder("it") is None


def test_lost(cases, quorum):
    with subprocess.Popen([cases, "lost", quorum.nodes], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          preexec_fn=die_with_us) as process:
        assert process.stdout.readline() == "held\n"
        for server in quorum.servers:
            server.ask("DEL", "it")
        process.communicate("\n", timeout=60)
    assert process.returncode == 0


def test_kinds(cases, guarded):
    must(cases, "kinds", guarded.nodes)


@pytest.fixture(scope="module")
def guarded():
    with Quorum(3) as three:
        must(os.environ["REDLOCK_BIN"], "quorum", "init", "--yes", "--never-used", "-N", three.nodes)
        yield three


def test_down(cases):
    with Quorum(3) as three:
        for server in three.servers[1:]:
            server.close()
        must(cases, "down", three.nodes)


@pytest.mark.parametrize("compiler, standard", BUILDS)
def test_first_example(compiled, quorum, tmp_path, compiler, standard):
    """Typed as it stands on the page."""
    page = (SOURCE / "docs" / "use" / "cpp.md").read_text(encoding="utf-8")
    (tmp_path / "nightly.cpp").write_text(re.search(r"```cpp\n(.*?)```", page, re.DOTALL)[1])
    program = compiled(tmp_path / "nightly.cpp", compiler, standard)
    assert must(program, REDLOCK_NODES=quorum.nodes) == "part 1\npart 2\npart 3\n"
    assert quorum.holder("nightly") is None
    assert len(page.split()) <= 300
