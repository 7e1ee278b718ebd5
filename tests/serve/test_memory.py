# SPDX-License-Identifier: BSD-2-Clause
"""Every allocation of the gateway fails in turn: it may end that connection, but neither itself nor others, and no client
reads another request's answer. So does every allocation of the processes that run scripts: it may cost that request."""
import hashlib
import http.client
import mmap
import os
import struct
import uuid

import pytest

import processes
from conftest import EXTEND, RELEASE
from resp import Closed, Error
from servers import until
from test_metrics import page, samples

PRELOAD = os.environ.get("REDLOCK_FAILING_MALLOC", "")
LONG = "x" * 40000


class Failing:
    """What failing_malloc.c shares with us: of the gateway, or of the processes that run its scripts."""

    def __init__(self, path, of_scripts=False):
        path.write_bytes(bytes(32))
        self.environ = {"LD_PRELOAD": PRELOAD, "FAILING_MALLOC": str(path)}
        self.at = 16 if of_scripts else 0
        with open(path, "r+b") as file:
            self.page = mmap.mmap(file.fileno(), 32)

    def arm(self, nth):
        struct.pack_into("q", self.page, self.at, nth)

    def failed(self):
        return struct.unpack_from("q", self.page, self.at + 8)[0]


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
    gateway = start(quorum.nodes, "--metrics", "127.0.0.1:0", environ=failing.environ)
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


def scripts(key):
    """Scripts that no worker has compiled before, and what each returns. One has much to read, and one is long."""
    mark = f" -- {uuid.uuid4()}"
    known = "return #ARGV[1] + #KEYS" + mark
    return [
        (("EVAL", known, "1", key, "12"), 3),
        (("EVALSHA", hashlib.sha1(known.encode()).hexdigest(), "1", key, "123"), 4),
        (("EVAL", "redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', 20000) return redis.call('del', KEYS[1])" + mark, "1", key, "v"), 1),
        (("EVAL", "return #ARGV[1]" + mark, "1", key, LONG), len(LONG)),
        (("EVAL", "local n = 0 " + "n = n + #KEYS[1] " * 400 + "return n" + mark, "1", key), 400 * len(key)),
        (("SCRIPT", "LOAD", "return 2" + mark), hashlib.sha1(("return 2" + mark).encode()).hexdigest().encode()),
    ]


def run_scripts(client):
    """A script that is answered by an error runs when it is sent again. Returns the errors."""
    errors = []
    for words, right in scripts(f"key-{uuid.uuid4()}"):
        client.send(*words)
        answer = client.read()
        if isinstance(answer, Error):
            errors.append(str(answer))
            answer = client(*words)
        assert answer == right, (words[0], answer)
    return errors


def ready(gateway, count):
    """Whether there are so many workers, all of them ready."""
    found = processes.workers(gateway)
    try:
        return len(found) == count and all(processes.status(pid)["Seccomp"] == "2" for pid in found) and found
    except (FileNotFoundError, ProcessLookupError):
        return None


def deaths(gateway):
    """Of workers. A gateway sends a script that has done nothing yet to another worker: its client does not see one."""
    return samples(page(gateway))["redlock_serve_script_processes_lost_total", 'reason="itself"']


@pytest.fixture
def failing(tmp_path):
    return Failing(tmp_path / "failing", of_scripts=True)


@pytest.fixture
def confined(start, quorum, failing):
    """A gateway whose workers are armed by `failing`, with a spare one."""
    gateway = start(quorum.nodes, "--metrics", "127.0.0.1:0", environ=failing.environ)
    until(lambda: ready(gateway, 1), what="a worker")
    return gateway


@pytest.mark.skipif(not PRELOAD, reason="the sanitizers bring a malloc of their own")
def test_every_allocation_of_a_script_fails_in_turn(confined, failing):
    """It costs that script: the connection, the worker and the next script go on."""
    nth, said = 0, []
    while True:
        nth += 1
        before = failing.failed()
        with confined.connect() as client:
            assert client("EVAL", "return 1 + #KEYS", "1", "key") == 2
            until(lambda: ready(confined, 2), what="its worker and a spare")
            failing.arm(nth)
            errors = run_scripts(client)
            failing.arm(0)
            assert len(errors) == failing.failed() - before and all("out of memory" in error for error in errors), (nth, errors)
            assert run_scripts(client) == []
        until(lambda: ready(confined, 1), what="the end of its worker")
        said += errors
        if not errors:
            break
    assert len(said) > 20, said
    assert deaths(confined) == 0


@pytest.mark.skipif(not PRELOAD, reason="the sanitizers bring a malloc of their own")
def test_every_allocation_of_a_starting_worker_fails_in_turn(confined, failing):
    """Either it starts all the same, or another one starts; both run scripts."""
    nth = 0
    while True:
        nth += 1
        before = failing.failed()
        old = processes.workers(confined)
        failing.arm(nth)
        processes.kill(old[0])
        until(lambda gone=old: ready(confined, 1) not in (False, None, gone), what="another worker")
        failing.arm(0)
        with confined.connect() as client:
            assert run_scripts(client) == [], nth
        if failing.failed() == before:
            break
        until(lambda: ready(confined, 1), what="the end of its worker")
    assert nth > 5
    assert deaths(confined) == nth + 1, "those that we ended, and the one that could not begin"
