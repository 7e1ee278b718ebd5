#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The examples in other languages, on real servers: they hold, say what they are refused, and are told of a loss in time.

usage: bindings.py SOURCE_DIR LIBREDLOCK_SO python|node CASE
Exit status 77: skipped, and why.
"""
import fcntl
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

SOURCE, LIBRARY, LANGUAGE, CASE = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
sys.path[:0] = [str(SOURCE / "tests" / "cli"), str(SOURCE / "bench" / "peers"), str(SOURCE / "examples" / "python_ctypes")]
import installing  # noqa: E402
from servers import Quorum, die_with_us, until  # noqa: E402

ENVIRON = {**os.environ, "REDLOCK_LIBRARY": LIBRARY, "PYTHONDONTWRITEBYTECODE": "1"}
SKIPPED = 77
MARGIN_MS = 500  # the lock's own, of a TTL of 5 s


class NodePackage:
    """examples/node_ffi, installed by npm outside of the source tree, as the peers of bench/peers are."""

    def __init__(self):
        self.source = SOURCE / "examples" / "node_ffi"
        builds = installing.default_builds() / "examples"
        builds.mkdir(parents=True, exist_ok=True)
        self.build, self.log = builds / "node_ffi", builds / "node_ffi.log"
        self.needs, self.install_commands = ["node", "npm"], [["npm", "install", "--no-audit", "--no-fund"]]

    def command(self, words):
        return words


def program():
    if LANGUAGE == "python":
        return [sys.executable, str(SOURCE / "examples" / "python_ctypes" / "hold.py")]
    package = NodePackage()
    try:
        with open(package.build.with_suffix(".lock"), "w", encoding="ascii") as alone:  # its other cases may want it too
            fcntl.flock(alone, fcntl.LOCK_EX)
            installing.install(package)
    except installing.Skipped as why:
        print(f"skipped: {why}")
        sys.exit(SKIPPED)
    return ["node", str(package.build / "hold.js")]


def start(command, quorum, *words):
    return subprocess.Popen([*command, quorum.nodes, *words], env=ENVIRON, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, preexec_fn=die_with_us)


def run(command, quorum, *words):
    with start(command, quorum, *words) as running:
        return running.communicate(timeout=60)[0], running.returncode


def read_until(running, words):
    said = ""
    for line in running.stdout:
        said += line
        if words in line:
            return said
    raise AssertionError(f"it never said '{words}':\n{said}")


def free(quorum):
    return all(server.ask("EXISTS", "tide") == 0 for server in quorum.servers)


def case_held(command, quorum):
    """For three times its TTL, so it was renewed; then it is given back."""
    said, status = run(command, quorum, "tide", "3", "1000")
    assert status == 0 and "released: ok" in said, f"{status}\n{said}"
    assert LANGUAGE == "node" or said.count("renewed, ") >= 3, said
    assert "told by the main thread" not in said, said
    assert free(quorum)


def case_taken(command, quorum):
    for server in quorum.servers:
        server.ask("SET", "tide", "another's", "PX", 60000)
    said, status = run(command, quorum, "tide", "1")
    assert status == 75 and "held by another" in said, f"{status}\n{said}"
    assert quorum.values("tide") == [b"another's"] * 3


def case_lost(command, quorum):
    """Two of three servers are killed: it is told before validity ends, by about the margin."""
    with start(command, quorum, "tide", "60", "5000") as running:
        read_until(running, "sure for ")
        for server in quorum.servers[1:]:
            server.process.kill()
        said = read_until(running, "lost: ")
        assert running.wait(30) == 80, said
    left = int(re.search(r"(-?\d+) ms before validity ends", said).group(1))
    assert 0 < left <= MARGIN_MS, said
    assert "unsure, " in said, said
    assert quorum[0].ask("EXISTS", "tide") == 0, "what could be released was not"


def somebody_waits(quorum):
    """Whoever is refused asks the servers to be told of a change."""
    return any(b"tracking_total_keys:0" not in server.ask("INFO", "stats") for server in quorum.servers)


def case_interrupted(command, quorum):
    """^C while it waits, and while it holds: nothing is left behind."""
    with start(command, quorum, "tide", "60") as holding:
        read_until(holding, "sure for ")
        with start(command, quorum, "tide", "60") as waiting:
            until(lambda: somebody_waits(quorum), what="one that waits")
            waiting.send_signal(signal.SIGINT)
            said = waiting.communicate(timeout=30)[0]
        assert waiting.returncode == 130, f"{waiting.returncode}\n{said}"
        holding.send_signal(signal.SIGINT)
        said = holding.communicate(timeout=30)[0]
    assert holding.returncode == 130, f"{holding.returncode}\n{said}"
    until(lambda: free(quorum), what="the lock free")


def case_wrong_url(command, quorum):
    done = subprocess.run([*command, "redis://:not:a:url", "tide", "1"], env=ENVIRON, capture_output=True, text=True, timeout=60,
                          check=False)
    assert done.returncode == 78 and "not a URL" in done.stderr, done


BUSY = """
const redlock = require("./redlock.js");
(async () => {
    const client = new redlock.Client(process.argv[1]), lock = new redlock.Lock(client, "tide", { ttl_ms: 500 });
    const result = await lock.acquire(2000);
    for (const end = performance.now() + 2000; performance.now() < end;);
    console.log(redlock.text(result), lock.validityMs > 0 ? "still held" : "gone");
    await lock.free();
    await client.free();
})();
"""


def case_busy(command, quorum):
    """An event loop that is busy for four TTLs does not lose the lock."""
    done = subprocess.run(["node", "-e", BUSY, quorum.nodes], cwd=pathlib.Path(command[1]).parent, env=ENVIRON, text=True,
                          capture_output=True, timeout=60, check=False)
    assert done.returncode == 0 and "still held" in done.stdout, done
    assert free(quorum)


def header_size(struct):
    """What a C compiler says of it."""
    program = f"#include <redlock.h>\n#include <stdio.h>\nint main(void) {{ printf(\"%zu\", sizeof(struct {struct})); }}\n"
    with tempfile.TemporaryDirectory() as directory:
        built = pathlib.Path(directory) / "size"
        subprocess.run(["cc", "-x", "c", "-I", str(SOURCE / "include"), "-o", str(built), "-"], input=program, text=True, check=True)
        return int(subprocess.run([str(built)], capture_output=True, text=True, check=True).stdout)


def header_fields(struct):
    header = (SOURCE / "include" / "redlock.h").read_text(encoding="utf-8")
    block = re.search(rf"^struct {struct} {{\n(.*?)^}};", re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL), re.DOTALL | re.MULTILINE)
    return re.findall(r"(\w+)\s*;", block[1])


def case_layout(_command, _quorum):
    """The struct as Python knows it is the header's: the same size, and the defaults are where they are looked for."""
    os.environ["REDLOCK_LIBRARY"] = LIBRARY
    import ctypes
    import redlock
    options = redlock.LockOptions()
    redlock.LIBRARY.redlock_lock_options_fill(ctypes.byref(options), ctypes.sizeof(options))
    assert options.size == ctypes.sizeof(options), options.size
    assert ctypes.sizeof(options) == header_size("redlock_lock_options")
    # A new field may fit into the padding at the end.
    assert header_fields("redlock_lock_options") == [name for name, *_ in redlock.LockOptions._fields_]
    told = {name: getattr(options, name) for name, *_ in redlock.LockOptions._fields_ if name not in ("size", "on_change")}
    assert told == {"ttl_ms": 30000, "validity_ms_min": 1, "renew": 1, "renew_interval_ms": 0, "hold_ms_max": 0,
                    "renew_count_max": 0, "lost_margin_ms": -1, "retry_count_max": 0, "retry_delay_ms_min": 50,
                    "retry_delay_ms_max": 250, "owner": None, "owner_bytes": 0, "on_change_context": None, "leader": 0, "slots": 0, "shared": 0}, told


def main():
    case = globals()[f"case_{CASE}"]
    command = program()
    with Quorum(3) as quorum:
        case(command, quorum)


if __name__ == "__main__":
    main()
