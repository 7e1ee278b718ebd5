# SPDX-License-Identifier: BSD-2-Clause
"""What the gateway says is for people; whether they read it is nothing to its clients."""
import os
import re
import socket
import subprocess
import tempfile
import time

from blocked import fill
from conftest import BINARY, CLEAN, die_with_us, until
from resp import Connection


def test_a_log_that_nobody_reads_stops_no_client(own_quorum):
    ends = os.pipe()
    with tempfile.TemporaryDirectory(prefix="redlock-test-serve-") as directory:
        path = os.path.join(directory, "gateway.sock")
        command = [BINARY, "serve", "-v", "--node-timeout", "2s", "-N", own_quorum.nodes, "--listen", f"unix://{path}"]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=ends[1], env=CLEAN,
                                   start_new_session=True, preexec_fn=die_with_us)
        said = b""
        while b"redlock: ready" not in said:
            said += os.read(ends[0], 4096)
        fill(ends[1])
        with Connection(path, timeout=5) as client:
            assert client("SET", "before", "me", "NX", "PX", "30000") == "OK"
            for server in own_quorum.servers[:2]:
                server.process.kill()  # there is something to say, and no room for it
            end = time.monotonic() + 3
            turns = 0
            while time.monotonic() < end:
                assert client("SET", f"after-{turns}", "me", "NX", "PX", "30000") == "OK"
                turns += 1
                time.sleep(0.05)
        assert turns > 20
        process.terminate()
        assert process.wait(10) == 0
        assert until(lambda: not os.path.exists(path))
    for end in ends:
        os.close(end)


def accepts(path):
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(path) == 0


def test_the_start_is_one_line(own_quorum):
    """Address, mode, quorum, and how many nodes vote; without -v there is no other line."""
    def first_lines(*options, nodes=own_quorum.nodes):
        with tempfile.TemporaryDirectory(prefix="redlock-test-serve-") as directory:
            path = os.path.join(directory, "gateway.sock")
            process = subprocess.Popen([BINARY, "serve", "-N", nodes, "--listen", f"unix://{path}", *options],
                                       stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=CLEAN, preexec_fn=die_with_us)
            until(lambda: accepts(path), what="the gateway")
            with Connection(path, timeout=5) as client:
                assert client("PING") == "PONG"
            process.terminate()
            said = process.communicate(timeout=10)[1].decode().replace(f"unix://{path}", "ADDRESS")
            assert process.returncode == 0
            return said

    assert first_lines() == "redlock: serving on ADDRESS: auto mode, 5 of 5 nodes vote\n"
    assert first_lines("-q") == ""
    made = subprocess.run([BINARY, "quorum", "init", "--yes", "--never-used", "--ttl-max", "2s", "-N", own_quorum.nodes],
                          env=CLEAN, capture_output=True, check=True)
    assert made.returncode == 0
    quorum_id = own_quorum[0].ask("HGET", "redlock:node", "quorum").decode()
    assert first_lines("--mode", "guarded", "--ttl", "1s") == (
        f"redlock: serving on ADDRESS: guarded mode, quorum {quorum_id}, 5 of 5 nodes vote\n")
    own_quorum[0].close()
    assert ", 4 of 5 nodes vote\n" in first_lines("--mode", "guarded", "--ttl", "1s")
    own_quorum[1].ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    said = first_lines("--mode", "guarded", "--ttl", "1s")
    assert ", 3 of 5 nodes vote\n" in said and "warning: 1 of 5 nodes cannot vote until corrected" in said


class Quiet:
    """A gateway without -v; `said()` is what its log has."""

    def __init__(self, nodes, directory, *options):
        self.path = os.path.join(directory, "gateway.sock")
        self.log = os.path.join(directory, "log")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([BINARY, "serve", "-N", nodes, "--listen", f"unix://{self.path}", *options],
                                            stdin=subprocess.DEVNULL, stderr=log, env=CLEAN, preexec_fn=die_with_us)

    def __enter__(self):
        until(lambda: accepts(self.path), what="the gateway")
        return self

    def __exit__(self, *exception):
        self.process.terminate()
        assert self.process.wait(10) == 0

    def said(self, text):
        with open(self.log, encoding="utf-8") as log:
            return [line for line in log if text in line]


def test_a_client_that_breaks_the_protocol_is_logged(quorum, tmp_path):
    with Quiet(quorum.nodes, tmp_path) as gateway:
        def send(data):
            with Connection(gateway.path, timeout=5) as client:
                client.raw(data)
                while not client.at_end():
                    pass

        send(b"*1\r\n:5\r\n")
        line = until(lambda: gateway.said("protocol error"), what="a line")
        assert line == ["redlock: closed the connection from unix: protocol error: a number where a bulk string belongs\n"]
        for _ in range(50):
            send(b"POST /secret-of-a-page HTTP/1.1\r\n")
        assert len(gateway.said("protocol error")) == 1, "a flood does not fill the log"

        def another():
            send(b"POST /secret-of-a-page HTTP/1.1\r\n")
            return gateway.said("protocol error")[1:]

        last = until(another, seconds=20, what="the next line")[0]
        times = re.fullmatch(r"redlock: closed the connection from unix: protocol error: it speaks HTTP "
                             r"\(and (\d+) times since this was last logged\)\n", last)
        assert times and int(times[1]) >= 50, last
        assert gateway.said("secret") == []


def test_a_wrong_password_is_logged_without_the_password(quorum, tmp_path):
    path = tmp_path / "password"
    path.write_text("open sesame\n")
    with Quiet(quorum.nodes, tmp_path, "--password-file", str(path)) as gateway:
        with Connection(gateway.path, timeout=20) as client:
            assert client.error("AUTH", "nearly-right").code == "WRONGPASS"
            assert until(lambda: gateway.said("refused"), what="a line") == [
                "redlock: refused the user or the password of a client at unix\n"]
            assert client.error("HELLO", 3, "AUTH", "intruder", "open sesame").code == "WRONGPASS"
            for _ in range(8):
                assert client.error("AUTH", "nearly-right").code == "WRONGPASS"
        until(lambda: gateway.said("many wrong passwords"), what="the line about many")
        assert len(gateway.said("refused")) == 1
        assert gateway.said("nearly") + gateway.said("sesame") + gateway.said("intruder") == []
