#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The Rust crates: their declarations, their own tests, and the first example of docs/use/rust.md, typed in an empty
project that has the packaged crates. Exit status 77: skipped, and why."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

SOURCE, BUILD, BINARY = (pathlib.Path(os.environ[f"REDLOCK_{name}"]) for name in ("SOURCE", "BUILD", "BIN"))
sys.path.insert(0, str(SOURCE / "tests/docs"))
from documents import Document  # noqa: E402

CRATES, TARGET = SOURCE / "bindings/rust", BUILD / "bindings-rust"
VENDORED = SOURCE / "build/packages/library"  # by scripts/package library
PAGE = Document("docs/use/rust.md")
MANIFEST = """[package]
name = "nightly"
version = "0.0.0"
edition = "2021"

[dependencies]
libredlock = { path = "crates/libredlock", features = [%s] }
%s

[patch.crates-io]
libredlock-sys = { path = "crates/libredlock-sys" }
"""
VERSION = 'fn main() { println!("{}", libredlock::version()); }'
TOKIO = 'tokio = { version = "1", features = ["macros", "rt-multi-thread", "time"] }'


def run(*words, status=0, where=CRATES, **environment):
    words = [str(word) for word in words]
    environment = {**os.environ, "CARGO_TARGET_DIR": str(TARGET), "CARGO_NET_OFFLINE": "true", **environment}
    ended = subprocess.run(words, cwd=where, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True, check=False)
    assert ended.returncode == status, f"{' '.join(words)}: {ended.returncode}\n{ended.stdout[-6000:]}"
    return ended.stdout


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def install(folder):
    """The library, where pkg-config finds it."""
    run("cmake", "--install", BUILD, "--prefix", folder)
    [pc] = folder.rglob("redlock.pc")
    return {"PKG_CONFIG_PATH": str(pc.parent), "LD_LIBRARY_PATH": str(pc.parent.parent)}


def clean(crate):
    """The crate as its developers check it."""
    run(CRATES / "generate", "--check")
    run("cargo", "fmt", "--check")
    run("cargo", "clippy", "--all-targets", "--features", "tokio", "--", "-D", "warnings", **crate)
    run("cargo", "doc", "--no-deps", "--features", "tokio", RUSTDOCFLAGS="-D warnings", **crate)


def tested(crate):
    for features in ("", "tokio"):
        said = run("cargo", "test", "--features", features, **crate)
        assert not re.search(r"[1-9]\d* ignored", said), said
    assert len(re.findall("test result: ok. [1-9]", said)) == 4, said  # locks, tasks, soak, and those of the documentation


def new_project(folder):
    """An empty one, with the crates as the registry would give them."""
    run("cargo", "package", "--workspace", "--no-verify", "--allow-dirty")
    for archive in (TARGET / "package").glob("*.crate"):
        with tarfile.open(archive) as crate:
            crate.extractall(folder / "crates", filter="data")
    for crate in (folder / "crates").iterdir():
        crate.rename(crate.with_name(re.sub(r"-[\d.]+$", "", crate.name)))
    (folder / "src").mkdir()
    write(folder, "fn main() {}\n")
    shutil.copy(CRATES / "Cargo.lock", folder)


def write(folder, program):
    needs = ('"tokio"', TOKIO) if "tokio" in program else ("", "")
    (folder / "Cargo.toml").write_text(MANIFEST % needs, encoding="utf-8")
    (folder / "src/main.rs").write_text(program, encoding="utf-8")


def typed(folder, program, crate, **more):
    """The program of a block of the page, and what it prints."""
    write(folder, program)
    run("cargo", "build", "--quiet", where=folder, **crate)
    return run(BINARY, "up", "-q", "-n", "3", "--", TARGET / "debug/nightly", where=folder, **{**crate, **more})


def without_library(folder):
    said = run("cargo", "build", status=101, where=folder, PKG_CONFIG_PATH="/nonexistent", PKG_CONFIG_LIBDIR="/nonexistent")
    assert "libredlock-dev" in said and "PKG_CONFIG_PATH" in said and "LIBREDLOCK_DIR" in said, said


def main():
    for tool in ("cargo", "pkg-config", "redis-server"):
        if not shutil.which(tool):
            skip(f"needs {tool}")
    if subprocess.run(["cargo", "fetch", "--quiet", "--locked"], cwd=CRATES, check=False).returncode != 0:
        skip("cargo cannot get the crates that Cargo.lock names")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        crate = install(folder / "prefix")
        clean(crate)
        tested(crate)
        project = folder / "nightly"
        project.mkdir()
        new_project(project)
        without_library(project)
        said = typed(project, PAGE.one("rust", "first"), crate)
        assert re.fullmatch(r"nightly: valid for [\d.]+m?s, fence Some\(\d+\)\n", said), said
        said = typed(project, PAGE.one("rust", "tasks"), {**crate, "REDLOCK_LINK": "static"}, LD_LIBRARY_PATH="")
        assert said == "backed up\n", said
        if (VENDORED / "lib/libredlock.a").exists():
            none = {"PKG_CONFIG_PATH": "/nonexistent", "PKG_CONFIG_LIBDIR": "/nonexistent", "LD_LIBRARY_PATH": ""}
            said = typed(project, VERSION, {**none, "LIBREDLOCK_DIR": str(VENDORED)})
            assert re.fullmatch(r"\d+\.\d+\.\d+\n", said), said


if __name__ == "__main__":
    main()
