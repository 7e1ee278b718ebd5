# SPDX-License-Identifier: BSD-2-Clause
"""Which clock ends a lease, and when: the machine's boot time, whatever the wall clock does, and however long the server
sleeps."""
import os
import signal
import time

import pytest

import native
from conftest import everything

HOUR = 3600


@pytest.fixture
def stepped():
    clock = native.WallClock()
    with native.node(environ=clock.environ) as made:
        made.clock = clock
        yield made


def check_wall_clock(node, seconds):
    """The server goes by the clock that was stepped, or the test proves nothing."""
    native.until(lambda: abs(int(node("TIME")[0]) - time.time() - seconds) < 2)


@pytest.mark.parametrize("seconds", [HOUR, -HOUR])
def test_a_step_of_the_wall_clock_ends_no_lock_and_keeps_none(stepped, seconds):
    node = stepped
    assert node.acquire("long", ttl=60000) == 1 and node.acquire("short", ttl=1500) == 1
    node.clock.step(seconds)
    check_wall_clock(node, seconds)
    time.sleep(0.15)
    assert node.acquire("long", token="other")[3] == b"t"
    assert 58000 < node("REDLOCK.PTTL", "long") <= 60000
    assert node.acquire("short", token="other")[3] == b"t"
    time.sleep(1.5)
    assert node("REDLOCK.PTTL", "short") == -2
    native.until(lambda: node("EXISTS", "short") == 0, 2, "the end of the key of the ended lock")
    assert node.acquire("short", token="other") == 1
    assert node.extend("long") == 1 and node("GET", "long") == b"t", "an extension sets the key again"
    assert node.release("long") == 1 and node("EXISTS", "long") == 0


def test_a_forward_step_and_back(stepped):
    node = stepped
    node.clock.step(HOUR)
    assert node.acquire("a", ttl=400) == 1
    node.clock.step(0)
    assert node("PTTL", "a") > 1000000, "the plain key would live an hour"
    assert node.acquire("a", token="other")[1] <= 400
    native.until(lambda: node("EXISTS", "a") == 0, 5, "the lock is gone, and its plain key too")
    assert node.acquire("a", token="other") == 1


def test_a_stock_server_on_the_same_clock_loses_the_lock():
    """What the test above is about."""
    clock = native.WallClock()
    server = native.Server(environ=clock.environ)
    try:
        server.ask("SET", "a", "t", "NX", "PX", 60000)
        clock.step(HOUR)
        time.sleep(0.05)
        assert server.ask("GET", "a") is None
    finally:
        server.close()


def test_a_lock_ends_while_the_server_sleeps(either):
    assert either.acquire("a", ttl=300) == 1
    either("DEBUG", "SLEEP", "0.6")
    assert either.acquire("a", token="other") == 1


def test_a_lock_ends_while_the_server_is_stopped(either):
    assert either.acquire("a", ttl=300) == 1 and either.acquire("b", ttl=60000) == 1
    os.kill(either.process.pid, signal.SIGSTOP)
    time.sleep(0.6)
    os.kill(either.process.pid, signal.SIGCONT)
    assert either.extend("a") == 0
    assert either.acquire("a", token="other") == 1
    assert either.acquire("b", token="other")[0] == 0


def test_ends_come_without_any_request(either):
    watcher = either.connect(resp3=True)
    watcher.ask("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "a")
    for i in range(500):
        assert either.acquire(f"a{i}", ttl=200 + i % 50) == 1
    native.until(lambda: int(either.info()["redlock_ended"]) == 500, 2)
    assert int(either.info()["redlock_locks"]) == 0
    watcher.ask("PING")
    ended = [key for push in watcher.pushes for key in push[1]]
    assert {f"a{i}".encode() for i in range(500)} <= set(ended)
    assert everything(either) == set()


@pytest.mark.skipif(native.VERSION < (7, 0), reason="before 7.0 the server's cron ends leases, ten times a second")
def test_an_end_is_announced_on_time(either):
    watcher = either.connect(resp3=True)
    watcher.ask("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "a")
    late = []
    for i in range(30):
        began, ttl = time.monotonic(), 30 + i * 37 % 100  # the cron comes every 100 ms
        assert either.acquire(f"a{i}", ttl=ttl) == 1
        while not any(b"a%d" % i in key for push in watcher.pushes[1:] for key in push[1]) and time.monotonic() < began + 1:
            watcher.ask("PING")
        late.append(time.monotonic() - began - ttl / 1000)
        watcher.pushes.clear()
    assert sorted(late)[10] < 0.02, "the cron would announce a fifth of the ends that soon; a busy machine may delay most"


def longest_ping_while_many_end(node):
    for i in range(0, 30000, 100):
        for k in range(i, i + 100):
            node.connection.send("REDLOCK.ACQUIRE", 1, f"k{k}", "t", 2500 - i // 30)
        assert [node.connection.receive() for _ in range(100)] == [1] * 100
    longest, end = 0, time.monotonic() + 10
    while time.monotonic() < end and int(node.info()["redlock_locks"]) > 0:
        began = time.monotonic()
        node("PING")
        longest = max(longest, time.monotonic() - began)
    assert int(node.info()["redlock_locks"]) == 0
    return longest


def test_many_ends_at_once_do_not_stall_the_server(either):
    """A busy machine stalls it now and then, a stall of its own comes every time. bench/native_node.c measures it."""
    assert any(longest_ping_while_many_end(either) < 0.1 for _ in range(4))
    assert int(either.info()["redlock_ending_us_max"]) > 0


def test_nothing_ends_in_the_middle_of_a_slow_script(stepped):
    """A server that serves others during a script must not change keys under it."""
    node = stepped
    node("CONFIG", "SET", "busy-reply-threshold" if native.VERSION >= (7, 0) else "lua-time-limit", 20)
    assert node.acquire("a", ttl=200) == 1
    node.clock.step(-HOUR)  # the plain key would outlive the lock, so the module deletes it
    script = node.connect()
    script.send("EVAL", "for i = 1, 150000000 do end return redis.call('GET', KEYS[1])", 1, "a")
    script.stream.flush()
    time.sleep(0.3)
    assert node.error("PING").startswith("BUSY")
    assert script.receive() == b"t"
    native.until(lambda: node("EXISTS", "a") == 0 and node.info()["redlock_locks"] == "0", 2)


@pytest.mark.parametrize("arguments", [(), ("--appendonly", "yes")])
def test_an_end_after_a_backward_step_reaches_the_replica(arguments):
    """The copy must be deleted then, between commands, and the deletion passed on. Redis 7.0 ended with a failed assertion:
    it had something to pass on that it did not know of."""
    clock = native.WallClock()
    with native.node(arguments=arguments, environ=clock.environ) as node, native.server() as replica:
        replica.ask("REPLICAOF", "127.0.0.1", node.port)
        native.until(lambda: b"master_link_status:up" in replica.ask("INFO", "replication"))
        clock.step(HOUR)
        check_wall_clock(node, HOUR)
        assert node.acquire("a", ttl=300) == 1
        clock.step(0)
        check_wall_clock(node, 0)
        native.until(lambda: node("EXISTS", "a") == 0, what="the copy deleted")
        native.until(lambda: replica.ask("EXISTS", "a") == 0, what="the copy deleted at the replica")
        replica.ask("REPLICAOF", "NO", "ONE")  # the master keeps its backlog
        clock.step(HOUR)
        check_wall_clock(node, HOUR)
        assert node.acquire("b", ttl=300) == 1
        clock.step(0)
        native.until(lambda: node("EXISTS", "b") == 0, what="the copy deleted")
        time.sleep(0.2)
        assert node("PING") == b"PONG"
