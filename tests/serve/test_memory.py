# SPDX-License-Identifier: BSD-2-Clause
"""Every allocation of the gateway fails in turn: it may end that connection, but neither itself nor others, and no client
reads another request's answer."""
import http.client
import mmap
import os
import struct
import uuid

import pytest

from conftest import EXTEND, RELEASE
from resp import Closed, Error
from test_metrics import page

PRELOAD = os.environ.get("REDLOCK_FAILING_MALLOC", "")
LONG = "x" * 40000


class Failing:
    """What failing_malloc.c shares with us."""

    def __init__(self, path):
        path.write_bytes(bytes(16))
        self.path = path
        with open(path, "r+b") as file:
            self.page = mmap.mmap(file.fileno(), 16)

    def arm(self, nth):
        self.page[:8] = struct.pack("q", nth)

    def failed(self):
        return struct.unpack("q", self.page[8:])[0]


def requests(key):
    """What a client sends, and what it must read."""
    token = uuid.uuid4().hex
    return [
        (("PING",), "PONG"),
        (("SET", key, token, "NX", "PX", "20000"), "OK"),
        (("GET", key), token.encode()),
        (("ECHO", token), token.encode()),
        (("EVAL", EXTEND, "1", key, token, "20000"), 1),
        (("EVAL", "return ARGV[1] .. ARGV[1]", "1", key, token), (token + token).encode()),
        (("MULTI",), "OK"),
        (("GET", key), "QUEUED"),
        (("EXEC",), [token.encode()]),
        (("ECHO", LONG), LONG.encode()),
        (("EVAL", RELEASE, "1", key, token), 1),
        (("ECHO", token[::-1]), token[::-1].encode()),
    ]


def scrape(gateway, tolerant):
    try:
        assert "redlock_serve_connections" in page(gateway)
    except (OSError, http.client.HTTPException):
        assert tolerant


def listen(gateway, key, tolerant):
    """A subscriber reads of the end of a lock that another connection deletes."""
    try:
        with gateway.connect() as listener, gateway.connect() as client:
            assert listener("SUBSCRIBE", "__keyevent@0__:del") == [b"subscribe", b"__keyevent@0__:del", 1]
            assert client("SET", key, "v", "NX", "PX", "20000") in ["OK"] + tolerant * [None]
            if client("DEL", key) == 1:
                assert listener.read() == [b"message", b"__keyevent@0__:del", key.encode()]
    except (Closed, Error, OSError):
        assert tolerant


def use(gateway, tolerant):
    session(gateway, f"key-{uuid.uuid4()}", tolerant)
    listen(gateway, f"key-{uuid.uuid4()}", tolerant)
    scrape(gateway, tolerant)


def session(gateway, key, tolerant):
    """One connection's requests. Tolerant: it may end, and a request may be answered by an error."""
    try:
        with gateway.connect() as client:
            for words, right in requests(key):
                client.send(*words)
                answer = client.read()
                if isinstance(answer, Error) or (tolerant and answer in (None, 0)):
                    assert tolerant, answer
                    return
                assert answer == right, (words[0], answer)
    except (Closed, OSError):
        assert tolerant


@pytest.mark.skipif(not PRELOAD, reason="the sanitizers bring a malloc of their own")
def test_every_allocation_fails_in_turn(start, quorum, tmp_path):
    failing = Failing(tmp_path / "failing")
    gateway = start(quorum.nodes, "--metrics", "127.0.0.1:0", environ={"LD_PRELOAD": PRELOAD, "FAILING_MALLOC": str(failing.path)})
    use(gateway, tolerant=False)
    nth = 0
    while True:
        nth += 1
        before = failing.failed()
        failing.arm(nth)
        use(gateway, tolerant=True)
        failing.arm(0)
        assert gateway.process.poll() is None, (nth, gateway.said[-5:])
        use(gateway, tolerant=False)
        if failing.failed() == before:
            break
        assert nth < 5000
    assert nth > 50
