# SPDX-License-Identifier: BSD-2-Clause
"""Shared locks of the module: readers, their ends, their copy among the keys, and their turn."""
import time

import pytest

import native
from native import until
from test_turns import MINUTE, hear, listen

MARKER = b"redlock:shared"


def share(node, token, ttl=30000, key="a"):
    return node("REDLOCK.SHARE", key, token, ttl)


def readers(node, key="a"):
    return [item.split(b" ", 1)[1] for item in node("REDLOCK.READERS", key, 100, 0, 0)[3:]]


def test_hello_says_that_there_are_shared_locks(node):
    hello = node("REDLOCK.HELLO", 1)
    pairs = dict(zip(hello[::2], hello[1::2])) if isinstance(hello, list) else hello
    assert pairs[b"shared"] == 1


def test_readers_together_and_a_writer_alone(either):
    node = either
    assert share(node, "r1") == 0 and share(node, "r2") == 0
    assert node("REDLOCK.GET", "a", 99) == MARKER
    denied = node.acquire("a", token="w")
    assert denied[0] == 0 and 29000 < denied[1] <= 30000 and denied[2:] == [-1, MARKER]
    assert node("REDLOCK.LOCK", "a", "w", 1000)[0] == 0
    assert node("REDLOCK.UNSHARE", "a", "r1") == 1 and node("REDLOCK.UNSHARE", "a", "r1") == 0
    assert node.acquire("a", token="w")[0] == 0
    assert node("REDLOCK.UNSHARE", "a", "r2") == 1 and node("REDLOCK.UNSHARE", "a", "r2") == 0
    assert node.acquire("a", token="w") == 1
    denied = share(node, "r1")
    assert denied[0] == 0 and denied[2:] == [-1, b"w"]
    assert node("REDLOCK.SHAREEXTEND", "a", "r1", 1000) == -1 and node("REDLOCK.UNSHARE", "a", "r1") == -1
    assert node("REDLOCK.READERS", "a", 9, 0, 0) == -1
    assert node.release("a", token="w") == 1
    assert node("REDLOCK.READERS", "a", 9, 0, 0) == 0


def test_each_reader_has_its_own_end(either):
    node = either
    assert share(node, "short", 300) == 0 and share(node, "long", 20000) == 0
    assert readers(node) == [b"short", b"long"]
    time.sleep(0.35)
    assert readers(node) == [b"long"]
    assert node("REDLOCK.SHAREEXTEND", "a", "short", 1000) == 0, "its place is lost"
    assert node("REDLOCK.SHAREEXTEND", "a", "long", 100) == 1 and 19000 < node("REDLOCK.PTTL", "a") < 20000, "never shorter"
    assert share(node, "short", 100) == 0 and node("REDLOCK.UNSHARE", "a", "long") == 1
    assert node("REDLOCK.PTTL", "a") <= 100
    until(lambda: node.info()["redlock_locks"] == "0", 2, "the end of the last reader")
    assert node.info()["redlock_shared_locks"] == "0"


def test_the_copy_among_the_keys(node):
    assert share(node, "r1", 5000) == 0 and share(node, "r2", 20000) == 0
    assert node("GET", "a") == MARKER and 19000 < node("PTTL", "a") <= 20000
    assert node("SET", "a", "stranger", "NX", "PX", 1000) is None
    assert node("REDLOCK.UNSHARE", "a", "r2") == 1
    assert node("GET", "a") == MARKER and 4000 < node("PTTL", "a") <= 5000
    node("DEL", "a")
    assert node("REDLOCK.SHAREEXTEND", "a", "r1", 9000) == 1, "the table decides"
    assert node("GET", "a") == MARKER and 8000 < node("PTTL", "a") <= 9000
    assert node("REDLOCK.UNSHARE", "a", "r1") == 1 and node("EXISTS", "a") == 0


def test_nobody_joins_readers_whose_key_a_stranger_has(node):
    """Their copy was deleted, or ended by the wall clock. Who is there stays, as a writer does."""
    assert share(node, "r1") == 0
    node("SET", "a", "stranger", "PX", 5000)
    denied = share(node, "r2")
    assert denied[0] == 0 and 4000 < denied[1] <= 5000 and denied[2:] == [-1, b"stranger"]
    assert node("REDLOCK.SHAREEXTEND", "a", "r1", 30000) == 1 and share(node, "r1") == 0 and node("GET", "a") == b"stranger"
    node("DEL", "a")
    assert share(node, "r2") == 0 and node("GET", "a") == MARKER, "the copy is there again"
    node("DEL", "a")
    node("RPUSH", "a", "x")
    assert share(node, "r3")[0] == 0
    assert node("REDLOCK.UNSHARE", "a", "r1") == 1 and node("REDLOCK.UNSHARE", "a", "r2") == 1


def test_keys_of_strangers(node):
    node("SET", "a", "stranger", "PX", 5000)
    denied = share(node, "r")
    assert denied[0] == 0 and 4000 < denied[1] <= 5000 and denied[2:] == [-1, b"stranger"]
    assert node("REDLOCK.SHAREEXTEND", "a", "r", 1000) == -1 and node("REDLOCK.UNSHARE", "a", "r") == -1
    assert node("REDLOCK.READERS", "a", 9, 0, 0) == -1
    node("SET", "b", MARKER, "PX", 5000)  # of readers before a restart: nobody knows them
    assert share(node, "r", key="b")[0] == 0 and node("REDLOCK.SHAREEXTEND", "b", "r", 1000) == 0
    assert node("REDLOCK.UNSHARE", "b", "r") == 0 and node("GET", "b") == MARKER
    node("SET", "c", "r", "PX", 5000)  # a writer's that became a reader, from before a restart
    assert node("REDLOCK.UNSHARE", "c", "r") == 1 and node("EXISTS", "c") == 0
    node("RPUSH", "list", "x")
    assert share(node, "r", key="list")[0] == 0
    for words in (("SHAREEXTEND", "list", "r", 1000), ("UNSHARE", "list", "r"), ("READERS", "list", 1, 0, 0)):
        assert node.error("REDLOCK." + words[0], *words[1:]).startswith("WRONGTYPE")


def test_a_writer_becomes_a_reader(either):
    node = either
    assert node.acquire("a", token="w", ttl=20000) == 1
    assert node("REDLOCK.SHAREEXTEND", "a", "other", 1000) == -1
    assert node("REDLOCK.SHAREEXTEND", "a", "w", 1000) == 1
    assert node("REDLOCK.GET", "a", 99) == MARKER and 19000 < node("REDLOCK.PTTL", "a") <= 20000
    if node.mirror:
        assert node("GET", "a") == MARKER and 19000 < node("PTTL", "a") <= 20000
    assert readers(node) == [b"w"] and share(node, "r") == 0
    assert node("REDLOCK.EXTEND", 1, "a", "w", 1000) == -1, "it is no writer any more"
    assert node("REDLOCK.UNSHARE", "a", "w") == 1 and node("REDLOCK.UNSHARE", "a", "r") == 1
    assert node.acquire("a", token="w") == 1 and node("REDLOCK.UNSHARE", "a", "w") == 1, "a node that did not learn of it"
    assert node.acquire("a", token="x") == 1 and node.release("a", token="x") == 1


def test_pages_of_readers(node):
    for i in range(25):
        share(node, f"r{i}", 20000 + 1000 * (i // 10))
    seen, end, skip = [], 0, 0
    while True:
        count, end, skip, *some = node("REDLOCK.READERS", "a", 10, end, skip)
        assert count == 25 and len(some) <= 10
        seen += [item.split(b" ")[1].decode() for item in some]
        if end == 0:
            break
    assert sorted(seen) == sorted(f"r{i}" for i in range(25))
    assert node("REDLOCK.READERS", "a", 0, 0, 0) == [25, 0, 0]
    for words in (("a", -1, 0, 0), ("a", 1, "x", 0), ("a", 1, 0, -1)):
        assert "numbers" in node.error("REDLOCK.READERS", *words)
    for i in range(25):
        assert node("REDLOCK.UNSHARE", "a", f"r{i}") == 1


def test_requests_that_are_wrong(node):
    nonce = "00000000000000aa"
    assert "TTL" in node.error("REDLOCK.SHARE", "a", "r", "x") and "TTL" in node.error("REDLOCK.SHARE", "a", "r", 0)
    assert "stripe" in node.error("REDLOCK.SHARE", "a", "r", f"1000:{nonce}:5:1,2")
    assert node("REDLOCK.SHARE", "a", "r", f"1000:{nonce}:5:1") == -2, "there is no record"
    assert node("REDLOCK.SHAREEXTEND", "a", "r", f"1000:{nonce}:5:1") == -2
    for words in (("SHARE", "a", "r"), ("SHAREEXTEND", "a", "r"), ("UNSHARE", "a"), ("READERS", "a"), ("UNSHARE", "a", "r", "x")):
        assert "arguments" in node.error("REDLOCK." + words[0], *words[1:])
    assert "syntax" in node.error("REDLOCK.WAIT", "a", "w", 0, 0, MINUTE, "x")


def test_memory_is_limited_and_given_back():
    with native.node("memory", "1mb") as node:
        count = 0
        while True:
            try:
                share(node, f"reader-{count:040}")
            except native.ServerError as error:
                assert str(error).startswith("OOM")
                break
            count += 1
        assert 3000 < count < 12000 and int(node.info()["redlock_locks_bytes"]) <= 1 << 20
        assert share(node, f"reader-{0:040}", 40000) == 0, "one that is there stays"
        assert node("REDLOCK.SHAREEXTEND", "a", f"reader-{1:040}", 40000) == 1
        for i in range(count):
            assert node("REDLOCK.UNSHARE", "a", f"reader-{i:040}") == 1
        assert node.acquire("a") == 1
        assert int(node.info()["redlock_locks_bytes"]) < 1 << 18


def test_many_readers_go_at_once_and_their_memory_soon_after(either):
    """Else the server stands still while it frees them: 9 ms for 100,000."""
    def locked():
        return int(either.info()["redlock_locks_bytes"])

    before = locked()
    for i in range(10000):
        either("REDLOCK.SHARE", "a", f"reader-{i:040}", 60000)
    full = locked()
    either("MULTI")
    either("REDLOCK.UNLOCK", "a", MARKER)
    either("REDLOCK.ACQUIRE", 1, "a", "writer", 30000)
    either("INFO", "redlock")
    released, acquired, info = either("EXEC")
    assert released == 1 and acquired == 1, "nobody reads"
    left = int(native.fields(info)["redlock_locks_bytes"])
    assert full - left < (full - before) / 10, "in portions"
    until(lambda: locked() < before + (full - before) / 10, 2, "nearly all of it")
    assert either("REDLOCK.UNLOCK", "a", "writer") == 1


def test_readers_stand_behind_a_writer(either):
    node = either
    writer, reader, other = listen(node, "W"), listen(node, "R"), listen(node, "Q")
    assert share(node, "r1") == 0
    assert node("REDLOCK.ACQUIRE", 1, "a", "w", 30000, "WAITER", "W", 0, 0, MINUTE)[2] == 0
    assert share(node, "r1") == 0, "it is there"
    assert share(node, "r2")[0] == 0, "a writer waits"
    assert node("REDLOCK.SHARE", "a", "r3", 30000, "WAITER", "R", 0, 0, MINUTE)[2] == 1
    assert node("REDLOCK.WAIT", "a", "Q", 0, 0, MINUTE, "SHARED")[0] == 2
    node("MULTI")
    node("REDLOCK.UNSHARE", "a", "r1")
    node("REDLOCK.ACQUIRE", 1, "a", "w", 30000, "WAITER", "W", 0, 0, MINUTE)
    assert node("EXEC") == [1, 2] and hear(writer) == b"turn a"
    node("MULTI")
    node.release("a", token="w")
    node("REDLOCK.SHARE", "a", "r3", 30000, "WAITER", "R", 0, 0, MINUTE)
    node("REDLOCK.WAIT", "a", "Q", 0, 0, MINUTE, "SHARED")
    node("REDLOCK.SHARE", "a", "r4", 30000, "WAITER", "Q", 0, 0, MINUTE)
    assert node("EXEC") == [1, 0, [0, -2], 0]
    assert hear(reader) == b"turn a" and hear(other) == b"turn a", "readers come together"
    assert readers(node) == [b"r3", b"r4"] and node("REDLOCK.QUEUE", "a")[0] == 0


def test_a_downgrade_and_a_writer_that_gives_up_let_readers_in(either):
    node = either
    reader, other = listen(node, "R"), listen(node, "Q")
    assert node.acquire("a", token="w") == 1
    assert node("REDLOCK.SHARE", "a", "r1", 30000, "WAITER", "R", 0, 0, MINUTE)[2] == 0
    assert node("REDLOCK.SHAREEXTEND", "a", "w", 30000) == 1 and hear(reader) == b"turn a"
    assert node("REDLOCK.SHARE", "a", "r1", 30000, "WAITER", "R", 0, 0, MINUTE) == 0
    assert node("REDLOCK.ACQUIRE", 1, "a", "w2", 30000, "WAITER", "W", 0, 0, MINUTE)[2] == 0
    assert node("REDLOCK.SHARE", "a", "r2", 30000, "WAITER", "Q", 0, 0, MINUTE)[2] == 1
    assert node("REDLOCK.UNWAIT", "a", "W", 0) == 1 and hear(other) == b"turn a"
    assert node("REDLOCK.SHARE", "a", "r2", 30000, "WAITER", "Q", 0, 0, MINUTE) == 0
    assert sorted(readers(node)) == [b"r1", b"r2", b"w"]


@pytest.mark.parametrize("mirror", ["yes", "no"])
def test_a_sleeping_server_and_a_step_of_the_wall_clock(mirror):
    clock = native.WallClock()
    with native.node("mirror", mirror, environ=clock.environ) as node:
        assert share(node, "r", 60000) == 0
        clock.step(3600)
        assert readers(node) == [b"r"] and node.acquire("a", token="w")[0] == 0
        clock.step(-3600)
        assert node("REDLOCK.SHAREEXTEND", "a", "r", 1500) == 1 and node("REDLOCK.UNSHARE", "a", "r") == 1
        assert share(node, "r", 500) == 0
        time.sleep(0.6)
        assert node.acquire("a", token="w") == 1
