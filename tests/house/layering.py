#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Who may know whom: the layers of the source tree, checked over its includes and over objects; and no crowded folder.

usage: layering.py SOURCE_DIR [OBJECT...] [--policy OBJECT... --net OBJECT... --sim ARCHIVE] [--build BUILD_DIR]
OBJECT: of the rooms that must be pure, src/core and src/policy. With the others: every decision of src/policy that
src/net asks for, the simulator asks for too. With a build: only few files call each other in a circle.
Prints each violation on a line and exits 1 if there is one.
"""
import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys

# C11's freestanding headers; with these two more, the pure rooms can run where there is no operating system.
FREESTANDING = {"float.h", "iso646.h", "limits.h", "stdalign.h", "stdarg.h", "stdbool.h", "stddef.h", "stdint.h",
                "stdnoreturn.h"}
PURE = ("src/core", "src/policy")
PURE_HEADERS = FREESTANDING | {"string.h", "assert.h"}
PURE_SYMBOLS = {"memcpy", "memset", "memmove", "memcmp", "strcmp", "strlen", "__assert_fail", "__stack_chk_fail", "_GLOBAL_OFFSET_TABLE_"}
# What sanitizers, coverage and fortification put into any object.
INSTRUMENTS = re.compile(r"^(__asan_|__ubsan_|__tsan_|__sanitizer_|__sancov_|__gcov_|__llvm_|__mem(cpy|set|move)_chk$)")
# Sockets, clocks of the kernel's, TLS, the codec and URLs are known to src/net only.
NET_ONLY = re.compile(r"^(sys/(socket|un|epoll|timerfd|eventfd)\.h|netinet/|arpa/|netdb\.h|poll\.h|hiredis/|openssl/|uriparser/)")
BELOW_ROOMS = {"src/abi", "src/core", "src/net", "src/client/schedule", "src/client/client.h", "src/client/ask", "include"}
BELOW_WORLD = {"src/core", "src/node", "src/net", "sim/history", "include"}
CLI_BELOW = {"cli/process", "src/config", "cli/frame"}
# What a folder holds can be seen in one look. This one has no rooms.
SOURCES_MAX = 25
CROWDED = {"src/core"}
# Files that call each other in a circle can only be understood together: they are few, and in one room.
CIRCLE_MAX = 6
# Of our own headers, each directory may include those of these directories. A file belongs to the longest name that fits.
LAYERS = {
    "src/core": {"src/core"},
    "src/node": {"src/core", "src/node", "include"},
    # What is decided about connections, for src/net and the simulator alike.
    "src/policy": {"src/core", "src/policy", "include"},
    # net.h is all that others see; below it, requests and answers as bytes, and the connections that carry them.
    "src/net": {"src/core", "src/policy", "src/net", "include"},
    "src/net/codec": {"src/core", "src/node", "src/policy", "src/net", "src/net/codec", "include"},
    "src/net/conn": {"src/core", "src/node", "src/policy", "src/net", "src/net/codec", "src/net/conn", "include"},
    # The sizes of the public structs.
    "src/abi": {"src/abi", "include"},
    # The configuration file, for the client and the programs.
    "src/config": {"src/config", "include"},
    # The words of traces: no I/O but into memory.
    "src/trace": {"src/core", "src/trace"},
    # What a service puts before its resource: it knows no client and no server.
    "src/gate": {"src/abi", "src/gate", "include"},
    # The client's rooms, from the lowest up. All share client.h, which knows no room but the schedule.
    "src/client/schedule": {"src/core", "src/net", "src/client/schedule", "include"},
    "src/client/client.h": {"src/config", "src/core", "src/net", "src/client/schedule", "include"},
    "src/client/ask": {"src/core", "src/net", "src/client/schedule", "src/client/client.h", "src/client/ask", "include"},
    "src/client/guarding": {*BELOW_ROOMS, "src/client/guarding"},
    "src/client/locks": {*BELOW_ROOMS, "src/trace", "src/client/guarding", "src/client/locks"},
    # These two do not know each other.
    "src/client/look": {*BELOW_ROOMS, "src/client/guarding", "src/client/locks", "src/client/look"},
    "src/client/change": {*BELOW_ROOMS, "src/client/guarding", "src/client/locks", "src/client/change"},
    "src/client/why": {*BELOW_ROOMS, "src/client/guarding", "src/client/locks", "src/client/why"},
    "src/client": {*BELOW_ROOMS, "src/config", "src/client/guarding", "src/client/locks", "src/client/look", "src/client/change", "src/client"},
    # The simulator's rooms, from the lowest up. A judge learns from a history alone.
    "sim/history": {"src/core", "src/policy", "sim/history", "include"},
    "sim/judges": {"src/core", "sim/history", "sim/judges"},
    # The world is another src/net: it sees the seams, and nothing of what is behind them.
    "sim/world": {*BELOW_WORLD, "sim/world"},
    # And records are written by the client's codec, so that both speak of the same text.
    "sim/nodes": {*BELOW_WORLD, "src/client/guarding", "sim/world", "sim/nodes"},
    "sim/clients": {*BELOW_WORLD, "src/policy", "src/client/look", "src/client/change", "sim/world", "sim/nodes", "sim/clients"},
    "sim/run": {*BELOW_WORLD, "sim/world", "sim/nodes", "sim/clients", "sim/run"},
    "sim/pictures": {"src/core", "src/net", "sim/history", "sim/judges", "sim/pictures", "include"},
    "sim/seeds": {"src/core", "sim/history", "sim/judges", "sim/world", "sim/clients", "sim/run", "sim/seeds"},
    "sim/scene_runner": {"src/net", "sim/history", "sim/judges", "sim/run", "sim/pictures", "sim/scene_runner"},
    "sim/fleet": {"src/core", "sim/history", "sim/world", "sim/run", "sim/fleet"},
    "sim": {"sim/fleet", "sim/seeds", "sim/scene_runner", "sim"},
    # src/node inside a server. It links none of the libraries.
    "module/state": {"src/node", "module/state", "include"},
    "module/commands": {"src/node", "module/state", "module/commands", "include"},
    "module": {"src/node", "module/state", "module/commands", "module", "include"},
    # What is read over HTTP: the server, which knows no program.
    "web/http": {"web/http", "include"},
    # And what looks at the nodes show there: the model of redlock top.
    "web/look": {*CLI_BELOW, "cli/explain", "top", "web/http", "web/look", "include"},
    # The gateway's rooms, from the lowest up; serve.h is for all.
    "serve": {"serve", "include"},
    "serve/script": {"serve/script"},
    "serve/loop": {"web/http", "serve", "serve/script", "serve/loop", "include"},
    "serve/key": {"serve/script", "serve/loop", "serve/key", "include"},
    "serve/connection": {"web/http", "serve", "serve/script", "serve/loop", "serve/key", "serve/connection", "include"},
    "serve/command": {"serve", "serve/script", "serve/loop", "serve/key", "serve/connection", "serve/command", "include"},
    "serve/run": {"web/http", "serve", "serve/script", "serve/loop", "serve/key", "serve/connection", "serve/command", "serve/run", "include"},
    # The command line's rooms, from the lowest up. The commands are above; of each other they know what starts servers.
    "cli/process": {"cli/process", "include"},
    "cli/frame": {"cli/process", "src/config", "cli/frame", "include"},
    "cli/explain": {*CLI_BELOW, "cli/explain", "include"},
    "cli/lock": {*CLI_BELOW, "cli/explain", "cli/lock", "include"},
    "cli/run": {*CLI_BELOW, "cli/explain", "cli/run", "include"},
    "cli/look": {*CLI_BELOW, "cli/explain", "cli/look", "include"},
    "cli/quorum": {*CLI_BELOW, "cli/explain", "cli/quorum", "include"},
    "cli/doctor": {*CLI_BELOW, "cli/explain", "cli/doctor", "include"},
    "cli/gate": {*CLI_BELOW, "cli/gate", "include"},
    "cli/up": {*CLI_BELOW, "cli/up", "include"},
    # Three of the programs.
    "cli": {*CLI_BELOW, "cli/explain", "cli", "serve", "web/http", "web/look", "include"},
    # And two more, redlock-top and redlock-bench. The floor of bench speaks to servers by bytes of its own.
    "top": {*CLI_BELOW, "cli/explain", "top", "include"},
    "bench/program": {*CLI_BELOW, "cli/up", "bench/program", "include"},
    "examples": {"include"},
    "bindings/go": {"bindings/go", "include"},
    "bindings/python": {"bindings/python", "include"},
    "bindings/node": {"bindings/node", "include"},
}
# What the simulator has no use for: its memory never fails, and its nodes run scripts, so that nothing waits its turn for
# a transaction.
NOT_SIMULATED = {"policy_put_back", "policy_keeps", "policy_start_again"}
# Of these, others see the seam and nothing else.
SEAM = {
    "src/net": "src/net/net.h",
    "serve": "serve/serve.h",
    "src/client/schedule": "src/client/schedule/schedule.h",
    "src/client/ask": "src/client/ask/ask.h",
    "src/client/guarding": "src/client/guarding/guarding.h",
    "src/client/locks": "src/client/locks/locks.h",
    "src/client/look": "src/client/look/look.h",
    "src/client/change": "src/client/change/change.h",
    "web/look": "web/look/watcher.h",
    "cli/up": "cli/up/janitor.h and cli/up/servers.h",
    "sim/judges": "sim/judges/check.h and sim/judges/lists.h",
    "sim/nodes": "sim/nodes/nodes.h",
    "sim/clients": "sim/clients/clients.h",
    "sim/run": "sim/run/run.h",
    "sim/fleet": "sim/fleet/fleet.h",
    "sim/seeds": "sim/seeds/explore.h",
    "sim/scene_runner": "sim/scene_runner/scenario.h",
}
# Another seam for these.
SEAM_FOR = {
    ("sim/nodes", "src/client/guarding"): "src/client/guarding/record.h",
}
MODULE_MAY = {("ends.c", "sys/timerfd.h")}  # for the server's event loop
# The one reader of requests, and a digest for scripts.
SERVE_MAY = {("request.c", "hiredis/hiredis.h"), ("script_name.c", "openssl/evp.h")}
# Where the compiler looks for headers of one folder, next to src, include and the folder itself.
ALSO = {"bench": ("cli",), "top": ("cli",), "serve": ("web",), "cli": ("web",), "web": ("cli", "top")}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def includes(path):
    return INCLUDE.findall(path.read_text(encoding="utf-8"))


def own_header(root, path, quote, name):
    """The file of this tree that an include means, or None for a system header."""
    top = path.relative_to(root).parts[0]
    places = [root / "src", root / "include", root / top, *(root / more for more in ALSO.get(top, ()))]
    if quote == '"':
        places.insert(0, path.parent)
    for place in places:
        found = (place / name).resolve()
        if found.is_file() and root in found.parents:
            return found.relative_to(root).as_posix()
    return None


def layer_of(name):
    fitting = [layer for layer in [*LAYERS, "include"] if name == layer or name.startswith(layer + "/")]
    return max(fitting, key=len, default=None)


def judge_include(root, path, layer, quote, name):
    own = own_header(root, path, quote, name)
    if own is None:
        if layer in PURE and name not in PURE_HEADERS:
            return f"{layer.removeprefix('src/')} includes <{name}>: freestanding headers, string.h and assert.h only"
        if layer.startswith(("src/client", "src/gate", "src/node", "module")) and NET_ONLY.match(name) and (path.name, name) not in MODULE_MAY:
            return f"only src/net may include <{name}>"
        # The gateway reads requests with the reader that the library has for replies; to the nodes it speaks through redlock.h.
        if layer.startswith("serve") and re.match(r"^(hiredis|openssl|uriparser)/", name) and (path.name, name) not in SERVE_MAY:
            return f"{layer} must not include <{name}>"
        # The command line waits for processes and starts servers, so it polls and asks the kernel for free ports;
        # how a Redis is spoken to is the library's business.
        if layer.startswith(("cli", "top", "web", "bench", "examples")) and re.match(r"^(hiredis|openssl|uriparser)/", name):
            return f"only src/net may include <{name}>"
        return None
    other = layer_of(own)
    if other not in LAYERS[layer]:
        return f"{layer} must not know {own}"
    seam = SEAM_FOR.get((layer, other), SEAM.get(other))
    if seam and other != layer and own not in seam.split(" and "):
        return f"{layer} sees {other} through {seam} only, not {own}"
    return None


def circle(knows):
    """Layers of which each knows the next, and the last the first; None: there is no such circle."""
    done = set()

    def walk(layer, path):
        if layer in path:
            return [*path[path.index(layer):], layer]
        if layer in done:
            return None
        found = next(filter(None, (walk(other, [*path, layer]) for other in sorted(knows.get(layer, ())))), None)
        done.add(layer)
        return found

    return next(filter(None, (walk(layer, []) for layer in sorted(knows))), None)


def check_folders(root, paths):
    counts = collections.Counter(path.parent.relative_to(root).as_posix() for path in paths)
    return [f"{folder}: {count} source files, more than {SOURCES_MAX}" for folder, count in sorted(counts.items())
            if count > SOURCES_MAX and folder not in CROWDED]


def check_includes(root):
    seen, knows = 0, {}
    paths = {path for layer in LAYERS for path in (root / layer).rglob("*.[ch]")}
    wrong = check_folders(root, paths)
    for path in sorted(paths):
        seen += 1
        layer = layer_of(path.relative_to(root).as_posix())
        for quote, name in includes(path):
            verdict = judge_include(root, path, layer, quote, name)
            if verdict:
                wrong.append(f"{path.relative_to(root)}: {verdict}")
            own = own_header(root, path, quote, name)
            if own and layer_of(own) not in (layer, None):
                knows.setdefault(layer, set()).add(layer_of(own))
    if circle(knows):
        wrong.append("a circle of includes: " + " -> ".join(circle(knows)))
    public = [root / "include/redlock.h", *sorted((root / "include/redlock").glob("*.h"))]
    for path in public:
        for quote, name in includes(path):
            if quote == '"' and (path.parent / name).resolve() in public:
                continue
            if quote != "<" or name not in FREESTANDING | {"string.h"}:
                wrong.append(f"{path.relative_to(root)}: includes {name}, which its users may not have")
    if not seen:
        wrong.append(f"{root}: no sources found")
    return wrong


def symbols(objects, kind):
    out = subprocess.run(["nm", kind, "--format=posix", *objects], check=True, capture_output=True, text=True).stdout
    return {line.split()[0] for line in out.splitlines() if line and not line.endswith(":")}


def check_symbols(objects):
    foreign = symbols(objects, "--undefined-only") - symbols(objects, "--defined-only") - PURE_SYMBOLS
    return [f"the pure rooms' objects use {name}: no I/O, no clock, no malloc, no randomness there"
            for name in sorted(foreign) if not INSTRUMENTS.match(name)]


def check_decisions(policy, net, sim):
    """What the simulator judges is what ships only where both ask the same functions."""
    # Queues are only where calls are; who asks for them depends on what the compiler has inlined.
    decisions = {name for name in symbols(policy, "--defined-only") if not name.startswith("calls_")}
    asked, judged = (symbols(objects, "--undefined-only") & decisions for objects in (net, sim))
    wrong = [f"src/net asks {name}(), and the simulator does not" for name in sorted(asked - judged - NOT_SIMULATED)]
    return wrong if asked else ["src/net asks src/policy nothing"]


def callees(root, build):
    """{source file: the files that define what it uses}. Of several definitions the nearest counts: the simulator has a
    net of its own."""
    objects = {}
    for path in sorted(build.rglob("*.c.o"), key=lambda path: path.stat().st_mtime):
        source = re.sub(r"CMakeFiles/[^/]+\.dir/", "", path.relative_to(build).as_posix()).removesuffix(".o")
        if layer_of(source) and (root / source).is_file():
            objects[source] = str(path)
    sources = {path: source for source, path in objects.items()}
    uses, where = {source: set() for source in objects}, collections.defaultdict(set)
    out = subprocess.run(["nm", "-A", "--extern-only", "--format=posix", *sources], check=True, capture_output=True, text=True).stdout
    for line in out.splitlines():
        path, name, kind = re.match(r"(.*): (\S+) (\S)", line).groups()
        if kind == "U":
            uses[sources[path]].add(name)
        else:
            where[name].add(sources[path])
    return {source: {max(sorted(where[name]), key=lambda other: len(os.path.commonpath([source, other])))
                     for name in names if where[name] and source not in where[name]} for source, names in uses.items()}


def check_circles(root, build):
    calls = callees(root, build)
    reached = {}
    for source in calls:
        reached[source], left = set(), [source]
        while left:
            new = calls[left.pop()] - reached[source]
            reached[source] |= new
            left += new
    circles = {tuple(sorted(other for other in reached[source] if source in reached[other])) for source in calls}
    wrong = [] if calls else [f"{build}: no objects found"]
    for files in sorted(circles):
        rooms = {layer_of(name) for name in files}
        if len(files) > CIRCLE_MAX or len(rooms) > 1:
            wrong.append(f"{' and '.join(sorted(rooms))}: {len(files)} files call each other in a circle: {' '.join(files)}")
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("objects", nargs="*")
    for room in ("policy", "net", "sim"):
        parser.add_argument(f"--{room}", nargs="+", default=[])
    parser.add_argument("--build", type=pathlib.Path)
    options = parser.parse_args()
    wrong = check_includes(options.source.resolve())
    if options.objects:
        wrong += check_symbols(options.objects)
    if options.net:
        wrong += check_decisions(options.policy, options.net, options.sim)
    if options.build:
        wrong += check_circles(options.source.resolve(), options.build)
    print("\n".join(wrong) if wrong else "the layers hold")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
