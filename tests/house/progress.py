#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""scripts/progress on a terminal and without one: what a long command does, the time that goes on, and nothing left of it.

usage: progress.py SOURCE_DIR
"""
import fcntl
import os
import pty
import struct
import subprocess
import sys
import tempfile
import termios

SOURCE = sys.argv[1]
# As the scripts use it. Silent for three seconds, with a long line and one that would move the cursor.
COMMAND = r"""set -o pipefail
{ echo '[1/2] one'; sleep 3.2; printf 'two\033[5A\n'; printf 'x%.0s' {1..500}; echo; exit 7; } 2>&1 | tee "$1/log" | scripts/progress building"""


def run(directory, stderr):
    return subprocess.Popen(["bash", "-c", COMMAND, "bash", directory], cwd=SOURCE, stdout=subprocess.PIPE, stderr=stderr, text=True)


def without_terminal(directory):
    process = run(directory, subprocess.PIPE)
    assert (process.communicate(timeout=30), process.returncode) == (("", ""), 7)


def on_terminal(directory):
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    process = run(directory, theirs)
    os.close(theirs)
    said = b""
    while True:
        try:
            said += os.read(ours, 4096)
        except OSError:  # the last one has closed it
            break
    assert (process.communicate(timeout=30)[0], process.returncode) == ("", 7)
    shown = said.decode().split("\r\x1b[K")
    assert shown[0] == "" and shown[-1] == "", f"something is left: {shown}"
    while_silent = [line for line in shown if line.endswith(" s: [1/2] one")]
    assert len(set(while_silent)) > 1 and while_silent[0].startswith("building, 0 min 0"), f"the time stands still: {shown}"
    assert any(line.endswith(": two [5A") for line in shown), f"a line that moves the cursor: {shown}"
    assert max(map(len, shown)) == 59, f"a line is too long for the terminal: {shown}"


def main():
    with tempfile.TemporaryDirectory() as directory:
        without_terminal(directory)
        on_terminal(directory)
        with open(f"{directory}/log", encoding="utf-8") as log:
            assert log.read().startswith("[1/2] one\ntwo"), "the log is not what the command printed"
    return 0


if __name__ == "__main__":
    sys.exit(main())
