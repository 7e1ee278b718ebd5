# SPDX-License-Identifier: BSD-2-Clause
"""show --watch: each change once for a program, the present state for a terminal, and ^C ends it well."""
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pytest

from blocked import fill
from conftest import BINARY, Redlock
from servers import until

TOKEN = "0123456789abcdef0123456789abcdef01234567"


class Reader:
    """The lines of a command, as they come."""

    def __init__(self, process):
        self.process = process
        self.bytes = b""

    def line(self, seconds=10):
        end = time.monotonic() + seconds
        while b"\n" not in self.bytes:
            assert time.monotonic() < end, f"no line came; so far: {self.bytes!r}"
            if select.select([self.process.stdout], [], [], 0.1)[0]:
                more = os.read(self.process.stdout.fileno(), 65536)
                assert more, f"it ended: {self.process.communicate()}"
                self.bytes += more
        line, self.bytes = self.bytes.split(b"\n", 1)
        return line.decode()

    def block(self):
        lines = [self.line()]
        while lines[-1]:
            lines.append(self.line())
        assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", lines[0])
        return lines[1:-1]

    def silent(self, seconds):
        time.sleep(seconds)
        return not select.select([self.process.stdout], [], [], 0)[0] and self.bytes == b""

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)
        rest, errors = self.process.communicate(timeout=10)
        return self.process.returncode, self.bytes + rest, errors


def put(quorum, resource, token, ms):
    for server in quorum.servers:
        server.ask("SET", resource, token, "PX", ms)


def remove(quorum, resource):
    for server in quorum.servers:
        server.ask("DEL", resource)


def test_a_block_for_each_change(locked, quorum, resource):
    watch = Reader(locked.start("show", "--watch=200ms", resource))
    assert watch.block() == [f"{resource}: free"] + [f"  {server.url}  free" for server in quorum.servers]
    put(quorum, resource, TOKEN + ":db1:8949", 60000)
    while not (block := watch.block())[0].startswith(f"{resource}: held by db1:8949, token 01234567…, ends in "):
        assert "split" in block[0] or "free" in block[0]  # a look that fell between two SETs
    while "(5 of 5 nodes)" not in block[0]:
        block = watch.block()
    put(quorum, resource, TOKEN + ":db1:8949", 90000)  # renewed: nothing new
    assert watch.silent(1)
    remove(quorum, resource)
    while not watch.block() == [f"{resource}: free"] + [f"  {server.url}  free" for server in quorum.servers]:
        continue
    assert watch.interrupt() == (0, b"", b"")


def test_json_lines(locked, quorum, resource):
    watch = Reader(locked.start("show", "--watch=200ms", "--json", resource, resource + "-2"))
    first, second = json.loads(watch.line()), json.loads(watch.line())
    assert [(one["resource"], one["verdict"]) for one in (first, second)] == [(resource, "free"), (resource + "-2", "free")]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first["time"])
    put(quorum, resource, TOKEN + ":me", 60000)
    while (event := json.loads(watch.line()))["verdict"] != "held":
        assert event["resource"] == resource
    assert (event["owner"], event["resource"], len(event["nodes"])) == ("me", resource, 5)
    status, rest, errors = watch.interrupt()
    assert (status, errors) == (0, b"")
    assert all(json.loads(line) for line in rest.splitlines())


def test_every_lock_and_those_that_end(locked, quorum, resource):
    prefix = resource + ":"
    put(quorum, prefix + "old", TOKEN, 60000)
    watch = Reader(locked.start("show", "--watch=200ms", "--json", "-p", prefix))
    assert json.loads(watch.line())["resource"] == "old"
    put(quorum, prefix + "cached", "a page", 60000)  # not a lock
    put(quorum, prefix + "new", TOKEN, 60000)
    event = json.loads(watch.line())
    assert event["resource"] == "new"
    remove(quorum, prefix + "old")
    while (event := json.loads(watch.line()))["resource"] != "old" or event["verdict"] != "free":
        assert event["resource"] in ("old", "new")
    remove(quorum, prefix + "new")
    while (event := json.loads(watch.line()))["verdict"] != "free":
        assert event["resource"] == "new"
    assert watch.silent(0.7)
    assert watch.interrupt()[0] == 0


def test_nodes_that_come_and_go(own_quorum, resource):
    watch = Reader(Redlock(own_quorum.nodes).start("show", "--watch=100ms", resource))
    assert watch.block()[0] == f"{resource}: free"
    for server in own_quorum.servers[:3]:
        server.pause()
    while watch.block()[0] != f"{resource}: unknown: 2 of 5 nodes answered, 3 are needed":
        continue
    for server in own_quorum.servers[:3]:
        server.resume()
    while watch.block() != [f"{resource}: free"] + [f"  {server.url}  free" for server in own_quorum.servers]:
        continue
    status, _, errors = watch.interrupt()
    assert (status, errors) == (0, b"")


def test_a_reader_that_does_not_read_does_not_hold_it(locked, resource):
    ends = os.pipe()
    fill(ends[1])
    watch = locked.start("show", "--watch=100ms", resource, stdout=ends[1])
    time.sleep(1)
    watch.send_signal(signal.SIGINT)
    assert watch.wait(timeout=10) == 0
    for end in ends:
        os.close(end)


def test_a_reader_that_ends(locked, quorum, resource):
    watch = Reader(locked.start("show", "--watch=100ms", resource))
    watch.block()
    watch.process.stdout.close()
    put(quorum, resource, TOKEN, 60000)
    assert watch.process.wait(timeout=10) in (71, -signal.SIGPIPE)


@pytest.mark.parametrize("value, message", [("=50ms", "--watch is from 100ms to 24h"), ("=often", "is not a duration")])
def test_bad_interval(locked, resource, value, message):
    done = locked("show", f"--watch{value}", resource)
    assert done.returncode == 64
    assert message in done.stderr.decode()


class Screen:
    """What a terminal of that size shows of it."""

    def __init__(self, environ, *arguments, rows=24, columns=80):
        self.rows, self.columns = rows, columns
        self.fd, ours = pty.openpty()
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.process = subprocess.Popen([BINARY, "show", *arguments], env={**environ, "TERM": "xterm"}, stdin=subprocess.DEVNULL,
                                        stdout=ours, stderr=ours, start_new_session=True)
        os.close(ours)
        self.written = b""

    def read(self):
        while select.select([self.fd], [], [], 0)[0]:
            try:
                self.written += os.read(self.fd, 65536)
            except OSError:
                return

    def lines(self):
        """Draws what came: home, clear to the end of the line, clear below."""
        self.read()
        screen, row, column = [""] * self.rows, 0, 0
        for piece in re.findall(r"\x1b\[[HJK]|\x1b\[2J|\r|\n|[^\x1b\r\n]+|\x1b", self.written.decode()):
            if piece == "\x1b[H":
                row = column = 0
            elif piece == "\x1b[2J":
                screen = [""] * self.rows
            elif piece == "\x1b[J":
                screen[row:] = [screen[row][:column]] + [""] * (self.rows - row - 1)
            elif piece == "\x1b[K":
                screen[row] = screen[row][:column]
            elif piece == "\r":
                column = 0
            elif piece == "\n":
                row += 1
            else:
                assert piece != "\x1b", "an unexpected control"
                screen[row] = screen[row][:column].ljust(column) + piece + screen[row][column + len(piece):]
                column += len(piece)
        assert max(map(len, screen)) <= self.columns
        return screen

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)
        status = self.process.wait(timeout=10)
        lines = self.lines()
        os.close(self.fd)
        return status, lines


def test_terminal_shows_the_present_state(locked, quorum, resource):
    name = resource[-8:]
    put(quorum, name, TOKEN + ":db1:8949", 5000)
    quorum[4].ask("DEL", name)
    screen = Screen(locked.environ, "--watch=200ms", name)
    held = until(lambda: [line for line in screen.lines() if re.fullmatch(rf"{name}: held by db1:8949, \d\.\d s left \(4 of 5\)", line)])
    assert screen.lines()[3] == f"  {quorum[4].url}  free"  # only the node that differs
    assert screen.lines()[4] == ""
    until(lambda: screen.lines()[2] not in (held[0], ""))  # the time left moves, in its place
    remove(quorum, name)
    until(lambda: screen.lines()[2:4] == [f"{name}: free", ""])
    status, lines = screen.interrupt()
    assert (status, lines[2:4]) == (0, [f"{name}: free", ""])


def test_terminal_with_more_locks_than_lines(locked, quorum, resource):
    prefix = resource + ":"
    screen = Screen(locked.environ, "--watch=200ms", "-p", prefix, rows=10, columns=50)
    until(lambda: screen.lines()[2] == "no locks")
    for i in range(20):
        put(quorum, f"{prefix}{i:02}-{'long' * 20}", TOKEN, 60000)
    until(lambda: screen.lines()[8] == "(14 more lines)")
    assert all(line.startswith(f"{i:02}-longlong") and line.endswith("…") and len(line) == 50 for i, line in enumerate(screen.lines()[2:8]))
    assert screen.lines()[9] == ""
    assert screen.interrupt()[0] == 0
