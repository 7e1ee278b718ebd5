# SPDX-License-Identifier: BSD-2-Clause
"""The line that a waiting command shows on a terminal: what it says, and that it is gone before the command starts."""
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

from conftest import BINARY, Redlock
from servers import until
from test_terminal import PROMPT, Terminal

CLEAR = b"\r\x1b[K"
LINE = re.compile(r"waiting (\d+) s for '([^']*)'(?:, (next|\d+(?:st|nd|rd|th)) in the queue)?: held by (.+), (\d+)\.\d s left")


def screen(written):
    """The lines that a terminal shows; it knows \\r, \\n and the erasing of a line's rest."""
    lines, column = [""], 0
    for piece in re.findall(r"\x1b\[K|\r|\n|[^\x1b\r\n]+", written.decode()):
        if piece == "\r":
            column = 0
        elif piece == "\n":
            lines.append("")
        elif piece == "\x1b[K":
            lines[-1] = lines[-1][:column]
        else:
            lines[-1] = lines[-1][:column] + piece + lines[-1][column + len(piece):]
            column += len(piece)
    return lines


class Screen:
    """One command on a terminal of that size; its output passes through it too, as on a person's terminal."""

    def __init__(self, environ, *command, columns=80, term="xterm"):
        self.fd, ours = pty.openpty()
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.process = subprocess.Popen([BINARY, *command], env={**environ, "TERM": term}, stdin=subprocess.DEVNULL,
                                        stdout=ours, stderr=ours, start_new_session=True)
        os.close(ours)
        self.written = b""

    def read(self, seconds=0.05):
        if select.select([self.fd], [], [], seconds)[0]:
            try:
                self.written += os.read(self.fd, 65536)
            except OSError:
                return False
        return True

    def line(self, condition=lambda found: True, seconds=10):
        """The first line that says what is awaited."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.read()
            found = LINE.fullmatch(screen(self.written)[-1])
            if found and condition(found):
                return found
        raise AssertionError(f"the line did not come; on the screen: {screen(self.written)}")

    def end(self, seconds=20):
        end = time.monotonic() + seconds
        while self.read(0.2) and time.monotonic() < end:
            continue
        status = self.process.wait(timeout=10)
        os.close(self.fd)
        return status, screen(self.written)


def hold(locked, resource, ttl, owner="db1:8949"):
    done = locked("acquire", "--json", "-t", ttl, "-o", owner, resource)
    assert done.returncode == 0
    return json.loads(done.stdout)["token"]


def test_holder_time_left_place_and_time_waited(locked, resource):
    name = resource[-8:]
    hold(locked, name, "3s")
    shown = Screen(locked.environ, "run", name, "--", "echo", "the command")
    first = shown.line(lambda found: found[3] is not None)
    assert (first[2], first[3], first[4]) == (name, "next", "db1:8949")
    assert int(first[5]) <= 2
    later = shown.line(lambda found: int(found[1]) > int(first[1]))
    assert int(later[5]) <= int(first[5])
    status, left = shown.end()
    assert (status, left) == (0, ["the command", ""])
    # One line, rewritten in place and erased before the command printed anything.
    before, after = shown.written.split(b"the command")
    assert b"\n" not in before
    assert before.count(CLEAR) >= 3 and before.endswith(CLEAR)
    assert after == b"\r\n"


def test_place_in_the_queue(locked, quorum, resource):
    name = resource[-8:]
    token = hold(locked, name, "60s")
    first = Screen(locked.environ, "acquire", "-w", "60s", name)
    first.line(lambda found: found[3] == "next")
    second = Screen(locked.environ, "run", name, "true")
    second.line(lambda found: found[3] == "2nd")
    # The first gives up: had it taken the lock, the second could have been faster, for a place is a hint.
    first.process.send_signal(signal.SIGTERM)
    assert first.end() == (128 + signal.SIGTERM, [""])
    second.line(lambda found: found[3] == "next")
    assert locked("release", "--token", token, name).returncode == 0
    assert second.end() == (0, [""])


def test_no_longer_than_the_terminal_is_wide(locked, resource):
    hold(locked, resource, "60s", "deployment of the web frontend by alice@build-host-17.example.com")
    for columns in (40, 80, 200):
        shown = Screen(locked.environ, "acquire", "-w", "2500ms", resource, columns=columns)
        shown.end()
        lines = [piece.decode() for piece in re.findall(rb"\x1b\[K(waiting[^\r\n\x1b]*)", shown.written)]
        assert len(lines) >= 2
        assert max(map(len, lines)) < columns
        if columns == 200:
            assert "alice@build-host-17.example.com" in lines[-1] and resource in lines[-1]
        else:
            assert "…" in lines[-1]


@pytest.mark.parametrize("options, term", [(["-q"], "xterm"), (["-w", "0"], "xterm"), ([], "dumb")], ids=["quiet", "once", "dumb"])
def test_no_line(locked, resource, options, term):
    hold(locked, resource, "1500ms")
    shown = Screen(locked.environ, "run", *options, resource, "true", term=term)
    shown.end()
    assert b"waiting" not in shown.written
    assert b"\x1b" not in shown.written


def test_nothing_where_standard_error_is_no_terminal(locked, resource):
    hold(locked, resource, "1500ms")
    done = locked("run", resource, "true", environ={"TERM": "xterm"})
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_message_takes_the_place_of_the_line(locked, resource):
    name = resource[-8:]
    hold(locked, name, "60s")
    shown = Screen(locked.environ, "acquire", "-w", "1500ms", name)
    status, left = shown.end()
    assert status == 75
    assert re.fullmatch(rf"redlock: {name}: held by db1:8949, \d+\.\d s left \(5 of 5\)", left[0])


def test_stop_and_background(locked, resource):
    name = resource[-8:]
    hold(locked, name, "60s")
    shell = Terminal({**locked.environ, "COLUMNS": "100"})
    try:
        shell.expect(PROMPT)
        shell.command("export TERM=xterm")
        shell.command(f"$redlock run {name} true & sleep 2")
        assert b"waiting" not in shell.seen
        shell.type(f"$redlock run {name} true\n")
        shell.expect(b"waiting \\d+ s for")
        shell.type("\x1a")
        assert b"Stopped" in shell.expect(PROMPT)
        shell.seen = b""
        assert "waiting" not in shell.command("sleep 2")
        shell.type("fg\n")
        shell.expect(b"waiting \\d+ s for")
        shell.type("\x03")
        shell.expect(PROMPT)
        assert shell.command("echo status $?") == "status 130\n"
        shell.command("kill %1; wait")
    finally:
        shell.close()


def test_a_stopped_terminal_delays_nothing(locked, quorum, resource, tmp_path):
    """^S is typed while the line is shown: the command still starts at once."""
    ran = tmp_path / "ran"
    token = hold(locked, resource, "60s")
    shown = Screen(locked.environ, "run", resource, "--", "sh", "-c", f": >{ran}")
    until(lambda: shown.read() and b"waiting" in shown.written)
    os.write(shown.fd, b"\x13")
    time.sleep(2.5)  # lines that cannot be written
    began = time.monotonic()
    assert locked("release", "--token", token, resource).returncode == 0
    until(ran.exists, 5)
    assert time.monotonic() - began < 3
    os.write(shown.fd, b"\x11")
    assert shown.end()[0] == 0


def test_too_few_nodes(own_quorum, resource):
    asking = Redlock(own_quorum.nodes)
    for server in own_quorum.servers[:3]:
        server.pause()
    shown = Screen(asking.environ, "acquire", "-w", "3s", resource)
    assert shown.end()[0] == 69
    assert b": 2 of 5 nodes answer, 3 needed" in shown.written
