#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Who may know whom: the layers of the source tree, checked over its includes and over core's objects.

usage: layering.py SOURCE_DIR [CORE_OBJECT...]
Prints each violation on a line and exits 1 if there is one.
"""
import pathlib
import re
import subprocess
import sys

# C11's freestanding headers; with these two more, core can run where there is no operating system.
FREESTANDING = {"float.h", "iso646.h", "limits.h", "stdalign.h", "stdarg.h", "stdbool.h", "stddef.h", "stdint.h",
                "stdnoreturn.h"}
CORE_HEADERS = FREESTANDING | {"string.h", "assert.h"}
CORE_SYMBOLS = {"memcpy", "memset", "memmove", "memcmp", "strcmp", "strlen", "__assert_fail", "__stack_chk_fail", "_GLOBAL_OFFSET_TABLE_"}
# What sanitizers, coverage and fortification put into any object.
INSTRUMENTS = re.compile(r"^(__asan_|__ubsan_|__tsan_|__sanitizer_|__sancov_|__gcov_|__llvm_|__mem(cpy|set|move)_chk$)")
# Sockets, clocks of the kernel's, TLS, the codec and URLs are known to src/net only.
NET_ONLY = re.compile(r"^(sys/(socket|un|epoll|timerfd|eventfd)\.h|netinet/|arpa/|netdb\.h|poll\.h|hiredis/|openssl/|uriparser/)")
# Of our own headers, each directory may include those of these directories.
LAYERS = {
    "src/core": {"src/core"},
    "src/node": {"src/core", "src/node", "include"},
    "src/net": {"src/core", "src/node", "src/net", "include"},
    # The sizes of the public structs.
    "src/abi": {"src/abi", "include"},
    # What a service puts before its resource: it knows no client and no server.
    "src/gate": {"src/abi", "src/gate", "include"},
    "src/client": {"src/abi", "src/core", "src/net", "src/client", "include"},
    # The world is another src/net: it sees the seams, and nothing of what is behind them.
    # And records are written by the client's codec, so that both speak of the same text.
    "sim": {"src/core", "src/node", "src/net", "src/client", "sim", "include"},
    "serve": {"serve", "include"},
    "cli": {"cli", "serve", "include"},
    "examples": {"include"},
}
# Of these, others see the seam and nothing else. (The simulator's operators are the client's.)
SEAM = {"src/net": "src/net/net.h", "src/client": ("src/client/record.h", "src/client/operator/task.h"), "serve": "serve/serve.h"}
# The one reader of requests, and a digest for scripts.
SERVE_MAY = {("request.c", "hiredis/hiredis.h"), ("script_name.c", "openssl/evp.h")}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def includes(path):
    return INCLUDE.findall(path.read_text(encoding="utf-8"))


def own_header(root, path, quote, name):
    """The file of this tree that an include means, or None for a system header."""
    places = [root / "src", root / "include"]
    if quote == '"':
        places.insert(0, path.parent)
    for place in places:
        found = (place / name).resolve()
        if found.is_file() and root in found.parents:
            return found.relative_to(root).as_posix()
    return None


def layer_of(name):
    return next((layer for layer in [*LAYERS, "include"] if name.startswith(layer + "/")), None)


def judge_include(root, path, layer, quote, name):
    own = own_header(root, path, quote, name)
    if own is None:
        if layer == "src/core" and name not in CORE_HEADERS:
            return f"core includes <{name}>: freestanding headers, string.h and assert.h only"
        if layer in ("src/client", "src/gate", "src/node") and NET_ONLY.match(name):
            return f"only src/net may include <{name}>"
        # The gateway reads requests with the reader that the library has for replies; to the nodes it speaks through redlock.h.
        if layer == "serve" and re.match(r"^(hiredis|openssl|uriparser)/", name) and (path.name, name) not in SERVE_MAY:
            return f"serve must not include <{name}>"
        # The command line waits for processes and starts servers, so it polls and asks the kernel for free ports;
        # how a Redis is spoken to is the library's business.
        if layer in ("cli", "examples") and re.match(r"^(hiredis|openssl|uriparser)/", name):
            return f"only src/net may include <{name}>"
        return None
    other = layer_of(own)
    if other not in LAYERS[layer]:
        return f"{layer} must not know {own}"
    seam = SEAM.get(other, own)
    if other != layer and own not in (seam if isinstance(seam, tuple) else (seam,)):
        return f"{layer} sees {other} through {seam} only, not {own}"
    return None


def check_includes(root):
    wrong, seen = [], 0
    for layer in LAYERS:
        for path in sorted((root / layer).rglob("*.[ch]")):
            seen += 1
            for quote, name in includes(path):
                verdict = judge_include(root, path, layer, quote, name)
                if verdict:
                    wrong.append(f"{path.relative_to(root)}: {verdict}")
    for quote, name in includes(root / "include/redlock.h"):
        if quote != "<" or name not in FREESTANDING:
            wrong.append(f"include/redlock.h: includes {name}, which its users may not have")
    if not seen:
        wrong.append(f"{root}: no sources found")
    return wrong


def symbols(objects, kind):
    out = subprocess.run(["nm", kind, "--format=posix", *objects], check=True, capture_output=True, text=True).stdout
    return {line.split()[0] for line in out.splitlines() if line and not line.endswith(":")}


def check_symbols(objects):
    foreign = symbols(objects, "--undefined-only") - symbols(objects, "--defined-only") - CORE_SYMBOLS
    return [f"core's objects use {name}: no I/O, no clock, no malloc, no randomness there"
            for name in sorted(foreign) if not INSTRUMENTS.match(name)]


def main():
    wrong = check_includes(pathlib.Path(sys.argv[1]).resolve())
    if len(sys.argv) > 2:
        wrong += check_symbols(sys.argv[2:])
    print("\n".join(wrong) if wrong else "the layers hold")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
