#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The scripts that lock clients of the field send, read out of the packages that are installed here: those that call
nothing but what a quorum can answer run as on a real server, the others are refused, and the refusal names the command.

usage: field_scripts.py SERVE_SCRIPT_DIFFERENTIAL
Exits 77 where none of the packages is installed; tests/interop installs them.
"""
import ast
import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import tempfile
import zipfile

TAKEN = {"get", "getrange", "exists", "pttl", "ttl", "del", "unlink", "pexpire", "expire", "pexpireat", "expireat", "set", "select", "publish"}
CALL = re.compile(r"redis\.p?call\(?\s*['\"](\w+)['\"]", re.IGNORECASE)
MADE = re.compile(r"redis\.p?call\(\s*\w+[\[.,]")

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "redlock-peers"
GO = pathlib.Path(os.environ.get("GOMODCACHE") or pathlib.Path(os.environ.get("GOPATH") or pathlib.Path.home() / "go") / "pkg/mod")
CARGO = pathlib.Path(os.environ.get("CARGO_HOME") or pathlib.Path.home() / ".cargo")
PYTHON = [pathlib.Path(sysconfig.get_paths()["purelib"]), *CACHE.glob("**/venv/lib/python3*/site-packages")]
NODE = list(CACHE.glob("**/node_modules"))
# Where each package keeps its scripts.
PLACES = {
    "redis-py": [(root, "redis/lock.py") for root in PYTHON],
    "redlock-py": [(root, "redlock/__init__.py") for root in PYTHON],
    "pottery": [(root, "pottery/redlock.py") for root in PYTHON],
    "aioredlock": [(root, "aioredlock/redis.py") for root in PYTHON],
    "redsync": [(GO, "github.com/go-redsync/redsync/v4@*/*.go")],
    "bsm/redislock": [(GO, "github.com/bsm/redislock@*/redislock.go")],
    "redlock-universal": [(root, "redlock-universal/dist/index.js") for root in NODE],
    "node-redlock": [(root, name) for root in NODE for name in ("redlock/dist/cjs/index.js", "redlock/redlock.js")],
    "redis-semaphore": [(root, "redis-semaphore/lib/**/*.js") for root in NODE],
    "rslock": [(CARGO, "registry/src/*/rslock-*/src/*.rs")],
    "symfony/lock": [(CACHE, "**/symfony/lock/Store/RedisStore.php")],
    "Redisson": [(CACHE, "**/redisson-[0-9]*.jar")],
}


def python_texts(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]


def java_texts(path):
    """The constants of RedissonLock's class: a tag of 1, two bytes of length, the text."""
    code = zipfile.ZipFile(path).read("org/redisson/RedissonLock.class")
    found = [code[at.end():at.end() + int.from_bytes(at.group(1), "big")] for at in re.finditer(rb"(?s)\x01(..)(?=[ -~])", code)]
    return [text.decode("ascii") for text in found if text.isascii()]


def quoted_texts(path):
    text = path.read_text(encoding="utf-8")
    quotes = {".rs": r'(?s)r#"(.*?)"#', ".php": r"(?s)<<<'?LUA'?\n(.*?)\n\s*LUA"}
    return re.findall(quotes.get(path.suffix, r"(?s)`([^`]*)`"), text)


def texts_of(package):
    readers = {".py": python_texts, ".jar": java_texts}
    found = {}
    for root, pattern in PLACES[package]:
        for path in sorted(root.glob(pattern)):
            for text in readers.get(path.suffix, quoted_texts)(path):
                if CALL.search(text):
                    found[text] = path
    return sorted(found)


def reason(text):
    """Why a text must be refused, as a word of the refusal; None: it must run."""
    foreign = [name for name in CALL.findall(text) if name.lower() not in TAKEN]
    if foreign:
        return foreign[0]
    return "not written out" if MADE.search(text) else None


def run(program, directory, texts, *options):
    paths = []
    for i, text in enumerate(texts):
        paths.append(pathlib.Path(directory) / f"{i}.lua")
        paths[-1].write_text(text, encoding="utf-8", newline="")
    return subprocess.run([program, *options, *map(str, paths)], capture_output=True, text=True, timeout=300, check=False)


def judge(program, package, texts):
    runs, refused = [t for t in texts if reason(t) is None], [t for t in texts if reason(t) is not None]
    wrong = []
    with tempfile.TemporaryDirectory() as directory:
        if runs:
            done = run(program, directory, runs)
            if done.returncode != 0:
                wrong.append(f"{package}: {done.stdout}{done.stderr}")
        if refused:
            done = run(program, directory, refused, "--refused")
            for text, line in zip(refused, done.stdout.splitlines()):
                if not line.startswith("refused: ") or reason(text) not in line:
                    wrong.append(f"{package}: {reason(text)} is not in the refusal: {line}\n{text}")
    print(f"{package}: {len(runs)} run as on a server, {len(refused)} refused"
          + (f" ({', '.join(sorted({reason(t) for t in refused}))})" if refused else ""))
    return wrong


def main():
    wrong, found = [], 0
    for package in PLACES:
        texts = texts_of(package)
        found += len(texts)
        if texts:
            wrong += judge(sys.argv[1], package, texts)
        else:
            print(f"{package}: not installed here")
    print("\n".join(wrong))
    if wrong:
        return 1
    return 0 if found else 77


if __name__ == "__main__":
    sys.exit(main())
