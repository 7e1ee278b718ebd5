#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""scripts/demo with few increments: it ends well, fails when the counter is wrong, and leaves nothing behind.

usage: demo.py SOURCE_DIR BUILD_DIR CASE
"""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

from leftovers import room

SOURCE, BUILD = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
# More than any machine does before the interrupt comes.
ENDLESS = "100000"


def start(here, *options, built=BUILD):
    return subprocess.Popen([SOURCE / "scripts/demo", "--built", built, *options], env=here.environ, text=True,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            start_new_session=True)


def until_working(demo):
    """Reads until the workers are at it; the progress line tells."""
    said = ""
    for line in demo.stdout:
        said += line
        if "nodes killed" in line:
            return
    sys.exit(f"the demo ended before it was interrupted:\n{said}")


def settle(here, demo, status):
    try:
        out = demo.communicate(timeout=30)[0]
    except subprocess.TimeoutExpired:
        left = here.processes()
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        sys.exit(f"the demo did not end; it had {left}")
    assert demo.returncode == status, f"exit status {demo.returncode}, expected {status}:\n{out}"
    left = here.leftovers()
    assert not left, f"left behind: {left}"
    return out


def complete(here):
    demo = start(here, "-n", "40", "-w", "8")
    out = settle(here, demo, 0)
    assert "counter        320 (expected 320)" in out, out
    assert "acquisitions   320" in out, out
    typed = out.split("Try next:\n")[1].splitlines()
    assert len(typed) == 2, out
    for line in typed:
        subprocess.run(["bash", "-ec", line], env=here.environ, stdin=subprocess.DEVNULL, check=True, timeout=30)


def interrupted(here):
    """^C reaches the whole foreground process group, as from a terminal."""
    demo = start(here, "-n", ENDLESS)
    until_working(demo)
    os.killpg(demo.pid, signal.SIGINT)
    settle(here, demo, 130)


def terminated(here):
    """SIGTERM reaches one process only."""
    demo = start(here, "-n", ENDLESS)
    until_working(demo)
    demo.terminate()
    settle(here, demo, 143)


def crashed(here):
    """What `redlock up` runs is killed; its workers must not live on."""
    demo = start(here, "-n", ENDLESS)
    until_working(demo)
    driver = [pid for pid, line in here.processes().items() if "bash" in line and "scripts/demo-workers" in line and "up -n" not in line]
    assert driver, here.processes()
    os.kill(min(driver), signal.SIGKILL)
    settle(here, demo, 137)


def wrong_counter(here):
    """A worker that increments nothing and says it did: the demo must fail."""
    with tempfile.TemporaryDirectory() as directory:
        built = pathlib.Path(directory)
        (built / "examples").mkdir()
        (built / "cli").symlink_to(BUILD / "cli")
        worker = built / "examples/counter"
        worker.write_text("#!/bin/sh\necho \"$2 0 0 0 0\"\n")
        worker.chmod(0o755)
        out = settle(here, start(here, "-n", "5", "-w", "2", built=built), 1)
    assert "10 increments are missing" in out, out


def main():
    case = {f.__name__: f for f in (complete, interrupted, terminated, crashed, wrong_counter)}[sys.argv[3]]
    with room() as here:
        case(here)
    return 0


if __name__ == "__main__":
    sys.exit(main())
