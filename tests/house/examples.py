#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The examples on real servers: they do what they say, also when the lock is taken, and leave no key.

usage: examples.py BUILD_DIR CASE
"""
import os
import pathlib
import subprocess
import sys

BUILD = pathlib.Path(sys.argv[1])
CASES = {
    # case: (shell to run inside `redlock up --mode classic`, exit status, what the output must hold)
    "ten_lines": ('"$EXAMPLES/ten_lines" && redlock show nightly', 0, ["nightly: ok, sure for ", "here the work is done", "free"]),
    "ten_lines_no_nodes": ('REDLOCK_NODES= REDLOCK_CONFIG=/dev/null "$EXAMPLES/ten_lines"', 78, ["no nodes: name them in REDLOCK_NODES"]),
    "event_loop": ('"$EXAMPLES/event_loop" tide 1500 && redlock show tide', 0, ["acquired: ok", "renewed", "released: ok", "free"]),
    "tracing": ('"$EXAMPLES/tracing" spanned && redlock show spanned', 0,
                ["lock.acquire resource=spanned start=1", 'result="ok"', "lock.extend resource=spanned", "lock.release resource=spanned", "free"]),
    "prefork": ('"$EXAMPLES/prefork" 3 && redlock show server', 0,
                ["worker 1 has its turn", "worker 2 has", "worker 3 has", "the server: held, 0 workers failed", "free"]),
    "plugin": ('"$EXAMPLES/plugin" "$EXAMPLES/../src/client/libredlock.so" plugged && redlock show plugged', 0, ["plugged: held", "free"]),
    # Taken elsewhere with a TTL beyond the ten seconds that it waits.
    "event_loop_held": ('redlock acquire -t 60 tide >/dev/null && "$EXAMPLES/event_loop" tide 10', 75, ["acquired: held by another"]),
}


def main():
    shell, status, words = CASES[sys.argv[2]]
    environ = {**os.environ, "PATH": f"{BUILD}/cli:{os.environ['PATH']}", "EXAMPLES": str(BUILD / "examples")}
    # The examples name no mode, and so take no lock on nodes of a guarded quorum.
    done = subprocess.run(["redlock", "up", "-n", "3", "--mode", "classic", "--", "sh", "-c", shell], env=environ, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60)
    said = done.stdout + done.stderr
    assert done.returncode == status, f"exit status {done.returncode}, expected {status}:\n{said}"
    for word in words:
        assert word in said, f"'{word}' is not in:\n{said}"
    return 0


if __name__ == "__main__":
    sys.exit(main())
