# SPDX-License-Identifier: BSD-2-Clause
"""The Go module: its own tests (bindings/go/redlock_test.go), and its page typed in an empty folder.

REDLOCK_SOAK_S: how many seconds of random operations (3).
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

SOURCE, BUILD, BINARY = (pathlib.Path(os.environ[f"REDLOCK_{name}"]) for name in ("SOURCE", "BUILD", "BIN"))
MODULE = SOURCE / "bindings" / "go"
sys.path.insert(0, str(SOURCE / "tests" / "docs"))
from documents import Document  # noqa: E402

for program in ("go", "gofmt", "pkg-config"):
    if shutil.which(program) is None:
        pytest.exit(f"skipped: {program} is not installed", returncode=77)


def run(*words, cwd, environ, timeout=600):
    done = subprocess.run(words, cwd=cwd, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=timeout, check=False)
    assert done.returncode == 0, f"{' '.join(map(str, words))}: {done.returncode}\n{done.stdout[-5000:]}"
    return done.stdout


@pytest.fixture(name="environ", scope="module")
def installed():
    """The library as cmake installs it, and Go without any module. Always in one place: Go's cache of builds does not see that
    what pkg-config says has changed."""
    place = BUILD / "tests" / "bindings" / "go-installed"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("REDLOCK_", "GO"))}
    run("cmake", "--install", BUILD, "--prefix", place, cwd=place, environ=environ)
    library = next(place.rglob("redlock.pc")).parent.parent
    soak = {"REDLOCK_SOAK_S": os.environ["REDLOCK_SOAK_S"]} if "REDLOCK_SOAK_S" in os.environ else {}
    return {**environ, **soak, "PATH": f"{BINARY.parent}:{environ['PATH']}", "PKG_CONFIG_PATH": str(library / "pkgconfig"),
            "LD_LIBRARY_PATH": str(library), "REDLOCK_CONFIG": "/dev/null", "GOTOOLCHAIN": "local", "GOPROXY": "off"}


def test_the_module(environ):
    for place in (MODULE, SOURCE / "bench" / "bindings" / "go"):
        unformatted = run("gofmt", "-l", ".", cwd=place, environ=environ)
        assert unformatted == "", unformatted
        run("go", "vet", "-tags", "dynamic", "./...", cwd=place, environ=environ)
    run("go", "test", "-race", "-count=1", "-tags", "dynamic", "-timeout", "900s", "./...", cwd=MODULE, environ=environ, timeout=1000)
    run("go", "test", "-count=1", "-tags", "dynamic", "-timeout", "900s", "-run", "TestSoak$", ".", cwd=MODULE, environ=environ, timeout=1000)


@pytest.fixture(name="empty", scope="module")
def an_empty_folder(tmp_path_factory, environ):
    """And the module, as a server of modules has it."""
    place = tmp_path_factory.mktemp("empty")
    run(sys.executable, MODULE / "package", "module", place / "proxy", cwd=place, environ=environ)
    more = {"GOPROXY": f"file://{place}/proxy", "GONOSUMDB": "*", "GOMODCACHE": str(place / "modules"), "GOFLAGS": "-modcacherw"}
    return place, {**environ, **more}


SNIPPET = re.compile(r"`(?:[a-z, ]+ := )?((?:client|lock|redlock)\.\w+\([^`]*\))`")


def compiled(page):
    """The other examples, in functions."""
    kinds = "\n".join(f"ignore({each})" for title in ("Kinds", "Moving from redsync") for each in SNIPPET.findall(page.section(title)))
    assert kinds.count("ignore") > 10, kinds
    return f"""package main

import ("context"; "errors"; "log"; "time"; "redlock.example.org/go")

func ignore(...any) {{}}
func work(ctx context.Context) error {{ return ctx.Err() }}
func loss(ctx context.Context) error {{ {page.one("go", "loss")} return err }}
func kinds(ctx context.Context, client *redlock.Client, lock *redlock.Lock, ttl time.Duration, name string) {{ {kinds} }}
"""


def test_the_page(empty):
    """The first example, with the library inside, and with the installed one."""
    place, environ = empty
    page = Document("docs/use/go.md")
    work = place / "nightly"
    work.mkdir()
    (work / "main.go").write_text(page.one("go", "first"))
    said = run("sh", "-ec", page.one("sh", "try"), cwd=work, environ=environ)
    assert re.search(r"^backup with fence [1-9]\d*$", said, re.MULTILINE), said
    run("go", "build", "-o", "inside", ".", cwd=work, environ=environ)
    run("go", "build", "-tags", "dynamic", "-o", "outside", ".", cwd=work, environ=environ)
    for name, linked in (("inside", False), ("outside", True)):
        said = run("redlock", "up", "-q", "--mode", "classic", "-n", "3", "--", f"./{name}", cwd=work, environ=environ)
        assert said == "backup with fence 0\n", said
        assert ("libredlock.so" in run("ldd", name, cwd=work, environ=environ)) == linked
    (work / "others.go").write_text(compiled(page))
    run("go", "vet", ".", cwd=work, environ=environ)
    run("go", "mod", "vendor", cwd=work, environ=environ)
    run("go", "build", "-mod=vendor", ".", cwd=work, environ={**environ, "GOPROXY": "off"})


def test_no_library(empty):
    """Of a platform that the module has no library for, the compiler says what to do."""
    place, environ = empty
    bare = place / "bare"
    shutil.copytree(MODULE, bare, ignore=lambda _, names: [name for name in names if name == "internal" or name.startswith("libredlock_")])
    done = subprocess.run(["go", "build", "."], cwd=bare, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "build with -tags dynamic" in done.stderr, done
