# SPDX-License-Identifier: BSD-2-Clause
"""Servers, files and neighbours that mean no good to the one who runs redlock(1)."""
import contextlib
import json
import os
import re
import socket
import stat
import threading

import pytest

from conftest import Redlock
from servers import Server

EVIL = b"\x1b]0;yours\x07\x1b[2J"


@contextlib.contextmanager
def listener(handle):
    """Calls handle(connection) for each; yields the URL."""
    def accept(server):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=handle, args=(server.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=accept, args=(server,), daemon=True).start()
        yield f"redis://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


def refuse_everything(connection):
    with contextlib.suppress(OSError):
        while data := connection.recv(65536):
            for _ in re.findall(rb"^\*\d", data, re.MULTILINE):
                connection.sendall(b"-ERR " + EVIL + b"\r\n")


def forge(server, pattern, replacement):
    """A handler: the server, with replies that match replaced by others of the same length."""
    def copy(source, sink, change):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(re.sub(pattern, replacement, data) if change else data)
            sink.shutdown(socket.SHUT_WR)

    def handle(connection):
        there = socket.create_connection(("127.0.0.1", server.port))
        threading.Thread(target=copy, args=(connection, there, False), daemon=True).start()
        copy(there, connection, True)

    return handle


@pytest.fixture
def server():
    one = Server()
    yield one
    one.close()


@pytest.mark.parametrize("arguments", [
    ["acquire", "x"], ["acquire", "-v", "x"], ["run", "-n", "x", "--", "true"], ["show"], ["show", "x"],
    ["doctor", "--samples", "1"], ["quorum", "status"]])
def test_an_error_steers_no_terminal(arguments):
    with listener(refuse_everything) as url:
        done = Redlock(url)(*arguments)
    said = done.stdout + done.stderr
    assert done.returncode == 69 and b"\x1b" not in said and b"\x07" not in said
    assert rb"\x1b]0;yours\x07\x1b[2J" in re.sub(rb"\n *", b" ", said) or arguments == ["show", "x"]


def test_what_a_server_says_of_itself_steers_no_terminal(server):
    with listener(forge(server, rb"redis_version:\d\.\d", b"redis_version:\x1b[m")) as url:
        done = Redlock(url)("doctor", "--samples", "1")
    assert b"\x1b" not in done.stdout + done.stderr and b"PING" in done.stdout


ENDLESS = (rb"\*2\r\n\$1\r\n0\r\n", b"*2\r\n$1\r\n7\r\n")


def test_a_scan_that_does_not_end(server):
    server.ask("SET", "mine", "0123456789abcdef0123456789abcdef01234567:me", "PX", "60000")
    with listener(forge(server, *ENDLESS)) as url:
        done = Redlock(url)("show", timeout=20)
    assert done.returncode == 69
    reason = "SCAN does not end"
    assert f"{url}: {reason}" in done.stderr.decode()


def test_a_scan_that_does_not_end_on_one_of_three(server):
    others = [Server(), Server()]
    try:
        for one in others:
            one.ask("SET", "mine", "0123456789abcdef0123456789abcdef01234567:me", "PX", "60000")
        with listener(forge(server, *ENDLESS)) as url:
            done = Redlock(",".join([url, *(one.url for one in others)]))("show", "--connect-timeout", "10s", timeout=30)
        assert done.returncode == 0 and b"mine: held" in done.stdout
        assert f"{url} is left out: SCAN does not end" in done.stderr.decode()
    finally:
        for one in others:
            one.close()


def test_the_draft_of_the_status_file_follows_no_link(locked, resource, tmp_path):
    """Its name cannot be guessed, so every name that it may have had is planted."""
    directory, victim = tmp_path / "shared", tmp_path / "victim"
    directory.mkdir()
    victim.write_text("precious")
    report = directory / "status"
    names = "$(seq $(($PPID - 50)) $(($PPID + 50)))"
    script = f"for i in {names}; do ln -s {victim} {report}.$i.tmp; done"
    done = locked("run", "--status-file", str(report), resource, "--", "bash", "-c", script)
    assert done.returncode == 0, done.stderr
    assert victim.read_text() == "precious"
    assert json.loads(report.read_text())["outcome"] == "command" and not report.is_symlink()


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_the_status_file_has_the_mode_that_the_umask_leaves(locked, resource, tmp_path, mask):
    report = tmp_path / "status"
    done = locked("run", "--status-file", str(report), resource, "--", "true",
                  preexec_fn=lambda: os.umask(mask))
    assert done.returncode == 0
    assert stat.S_IMODE(report.stat().st_mode) == 0o666 & ~mask
    assert [path.name for path in tmp_path.iterdir()] == ["status"]


@pytest.mark.parametrize("mode, line, warned", [
    (0o644, "nodes = redis://:geheim@{}", True),
    (0o640, "nodes = redis://:geheim@{}", False),
    (0o600, "nodes = redis://:geheim@{}", False),
    (0o644, "nodes = redis://{}", False),
])
def test_a_password_that_everybody_can_read(server, resource, tmp_path, mode, line, warned):
    path = tmp_path / "redlock.conf"
    path.write_text(line.format(f"127.0.0.1:{server.port}") + "\n")
    path.chmod(mode)
    if "geheim" in line:
        server.ask("CONFIG", "SET", "requirepass", "geheim")
    redlock = Redlock(environ={"REDLOCK_CONFIG": str(path)})
    done = redlock("run", resource, "--", "true")
    assert done.returncode == 0, done.stderr
    warning = (f"redlock: {path} holds a password, and all users of this machine can read it: "
               f"chmod o-r {path}\n")
    assert done.stderr.decode() == (warning if warned else "")
    assert redlock("run", "-q", resource, "--", "true").stderr == b""
