# SPDX-License-Identifier: BSD-2-Clause
"""The wait queue of the module: first come, first served, and every message that a waiter gets."""
import time

import pytest

import native

MINUTE = 60_000_000


@pytest.fixture
def node(node):  # noqa: F811
    """The shared one, with an empty queue."""
    while enter(node, "cleaner")[0] != 0 or node("REDLOCK.QUEUE", "a")[0] > 1:
        node("REDLOCK.UNWAIT", "a", "cleaner", 1)
    node("REDLOCK.UNWAIT", "a", "cleaner", 0)
    native.until(lambda: count(node, "waiters") == 0, 2, "the end of another key's reservation")
    return node


def enter(node, waiter, key="a", since=0, waited=0, remember=MINUTE):
    return node("REDLOCK.WAIT", key, waiter, since, waited, remember)


def contend(node, waiter, token, fence=()):
    return node(*try_words(waiter, token, fence))


def try_words(waiter, token, fence=()):
    return ("REDLOCK.ACQUIRE", 1, "a", token, 30000, *(("FENCE=%s:%d:%d" % fence,) if fence else ()), *(("WAITER", waiter, 0, 0, MINUTE) if waiter else ()))


def at_once(node, *requests):
    """In one transaction: a reservation lasts 100 ms, which a busy machine may take between two requests."""
    node("MULTI")
    for request in requests:
        node(*request)
    return node("EXEC")


def listen(node, waiter):
    connection = node.connect()
    connection.ask("SUBSCRIBE", f"redlock:wake:{waiter}")
    return connection


def hear(connection):
    kind, _, text = connection.receive()
    assert kind == b"message"
    return text


def count(node, name):
    return int(node.info()[f"redlock_{name}"])


def test_a_lock_goes_to_the_first_that_waits(either):
    node = either
    second, first = listen(node, "w2"), listen(node, "w1")
    assert node.acquire("a", token="t0") == 1
    assert enter(node, "w1", waited=20000)[0] == 0
    rank, left = enter(node, "w2")
    assert rank == 1 and 29000 < left <= 30000
    released, denied, early, won = at_once(node, ("REDLOCK.RELEASE", 1, "a", "t0"), try_words("", "stranger"),
                                           try_words("w2", "t2"), try_words("w1", "t1"))
    assert released == 1 and won == 2, "won, and others wait"
    assert denied[0] == 0 and 0 < denied[1] <= 100 and denied[2:] == [-1, b""], "nobody else gets it"
    assert early[0] == 0 and 0 < early[1] <= 100 and early[2:] == [1, b""]
    assert hear(first) == b"turn a"
    assert at_once(node, ("REDLOCK.RELEASE", 1, "a", "t1"), try_words("w2", "t2")) == [1, 1]
    assert hear(second) == b"turn a"
    assert count(node, "waiters") == 0 and count(node, "reservations") == 0
    assert node("REDLOCK.GET", "a", 9) == b"t2"
    first.close()
    second.close()


def test_a_denied_try_enters_the_queue_and_a_won_one_leaves_it(node):
    assert node.acquire("a", token="t0") == 1
    denied = contend(node, "w", "t1")
    assert denied[0] == 0 and denied[2:] == [0, b"t0"]
    assert node("REDLOCK.QUEUE", "a")[0] == 1
    assert contend(node, "w", "t1")[2] == 0, "it keeps its place"
    assert node("REDLOCK.QUEUE", "a")[0] == 1
    assert at_once(node, ("REDLOCK.RELEASE", 1, "a", "t0"), try_words("w", "t1"), ("REDLOCK.QUEUE", "a")) == [1, 1, [0, 0]]


def test_a_turn_that_nobody_takes_is_passed_on_in_time(node):
    """After 100 ms, by a timer, and not when the server looks after itself, ten times a second: Redis 6.2 has no such timer."""
    took, late = [], 0.12 if native.VERSION >= (7, 0) else 0.22
    for i in range(9):
        second = listen(node, "w2")
        assert node.acquire("a", token="t") == 1
        enter(node, "w1", waited=20000)
        enter(node, "w2")
        time.sleep(0.01 * i)
        begin = time.monotonic()
        assert node("REDLOCK.UNLOCK", "a", "t") == 1
        assert hear(second) == b"turn a"
        took.append(time.monotonic() - begin)
        second.close()
        node("REDLOCK.UNWAIT", "a", "w2", 0)
        node("REDLOCK.UNWAIT", "a", "w1", 0)
        native.until(lambda: count(node, "reservations") == 0, 2, "the end of the reservation")
    assert 0.09 < sorted(took)[4] < late, took


def test_the_end_of_a_lease_wakes_the_first(either):
    waiter = listen(either, "w")
    assert either.acquire("a", token="t0", ttl=300) == 1
    began = time.monotonic()
    assert enter(either, "w")[0] == 0
    assert hear(waiter) == b"turn a"
    late = 0.15 if native.VERSION < (7, 0) else 0.1
    assert 0.2 < time.monotonic() - began < 0.3 + late + 0.5
    waiter.close()


def test_a_waiter_that_does_not_come_loses_its_place(node):
    second = listen(node, "w2")
    assert node.acquire("a", token="t0") == 1
    enter(node, "w1", waited=20000)
    enter(node, "w2")
    assert node.release("a", token="t0") == 1
    assert hear(second) == b"turn a", "by the timer: nobody asks meanwhile"
    native.until(lambda: count(node, "waiters") == 0, 2, "the end of both reservations")
    assert node.acquire("a", token="stranger") == 1
    second.close()


def test_the_eldest_comes_first_wherever_it_enters(node):
    assert node.acquire("a", token="t0") == 1
    enter(node, "young")
    assert enter(node, "old", waited=5_000_000)[0] == 0
    assert enter(node, "young")[0] == 1
    waiters, age = node("REDLOCK.QUEUE", "a")
    assert waiters == 2 and 5_000_000 <= age < 10_000_000


def test_the_waiters_clocks_order_those_that_come_together(node):
    assert node.acquire("a", token="t0") == 1
    now = time.time_ns() // 1000
    enter(node, "second", since=now - 10)
    assert enter(node, "first", since=now - 20)[0] == 0
    assert enter(node, "wrong clock", since=now - 60_000_000)[0] == 2
    assert enter(node, "wrong, too", since=now + 60_000_000)[0] == 3


def test_leaving(node):
    assert node.acquire("a", token="t0") == 1
    for i, waited in ((1, 90000), (2, 60000), (3, 30000)):
        enter(node, f"w{i}", waited=waited)
    assert node("REDLOCK.UNWAIT", "a", "nobody", 0) == 3
    assert node("REDLOCK.UNWAIT", "a", "w2", 0) == 2
    assert node("REDLOCK.UNWAIT", "a", "w3", 1) == 0, "the one before it goes too"
    assert node("REDLOCK.UNWAIT", "a", "w3", 1) == 0


def test_who_may_try(node):
    assert enter(node, "w", waited=20000) == [0, -2], "the lock is free"
    assert node.acquire("a", token="t0") == 2, "others wait"
    assert enter(node, "w", waited=20000)[1] > 29000
    assert enter(node, "v")[0] == 1
    _, (rank, left), first = at_once(node, ("REDLOCK.RELEASE", 1, "a", "t0"), ("REDLOCK.WAIT", "a", "v", 0, 0, MINUTE),
                                     ("REDLOCK.WAIT", "a", "w", 0, 0, MINUTE))
    assert rank == 1 and 0 < left <= 100, "it is reserved for the first"
    assert first == [0, -2]


def test_a_stranger_holds_it(node):
    node("SET", "a", "x", "PX", 60000)
    rank, left = enter(node, "w")
    assert rank == 0 and 59000 < left <= 60000
    assert contend(node, "w", "t")[3] == b"x"


def test_a_forgotten_waiter(node):
    assert node.acquire("a", token="t0") == 1
    enter(node, "w", remember=100_000)
    native.until(lambda: count(node, "waiters") == 0, 2, "the end of the waiter's time")


def test_the_message_has_the_whole_key(node):
    key = b"a \r\n\x00" + b"k" * 60000
    waiter = listen(node, "w")
    assert node.acquire(key, token="t0") == 1
    enter(node, "w", key=key)
    assert node.release(key, token="t0") == 1
    assert hear(waiter) == b"turn " + key
    waiter.close()


def test_watchers_and_flushes_do_not_reach_the_queue(node):
    assert node.acquire("a", token="t0") == 1
    enter(node, "w")
    node("FLUSHALL")
    assert node("REDLOCK.QUEUE", "a")[0] == 1


def test_a_release_in_a_transaction_and_in_a_script(node):
    waiter = listen(node, "w")
    for how in ("MULTI", "EVAL"):
        assert node.acquire("a", token="t0") == 1
        enter(node, "w")
        if how == "MULTI":
            node("MULTI")
            node("REDLOCK.RELEASE", 1, "a", "t0")
            assert node("EXEC") == [1]
        else:
            assert node("EVAL", "return redis.call('REDLOCK.RELEASE', 1, KEYS[1], 't0')", 1, "a") == 1
        assert hear(waiter) == b"turn a"
        assert contend(node, "w", "t1") == 1 and node.release("a", token="t1") == 1
    waiter.close()


def test_with_a_fence():
    fence = ("000000000000000b", 5, 0)
    with native.node() as node:
        assert node("REDLOCK.RECORDWRITE", "", "", "000000000000000b", "", 1, "nonce", "000000000000000b") == 1
        assert node.acquire("a", token="t0") == 1
        assert contend(node, "w", "t1", fence)[2] == 0
        _, denied, won, queue = at_once(node, ("REDLOCK.RELEASE", 1, "a", "t0"), try_words("", "t2", fence), try_words("w", "t1", fence),
                                        ("REDLOCK.QUEUE", "a"))
        assert denied[0] == 0 and denied[3] == b"", "it is reserved"
        assert won == 1 and queue == [0, 0]
        assert node.release("a", token="t1") == 1
        assert contend(node, "w", "t2", fence) == -1, "the keys are set, the fence is not"


def test_the_queue_has_its_limit():
    with native.node("memory", "1mb") as node:
        assert node.acquire("a", token="t0") == 1
        ranks = [enter(node, f"waiter{i:030}")[0] for i in range(3000)]
        full = ranks.index(-1)
        assert full > 300 and ranks[:full] == list(range(full))
        assert count(node, "waiters_bytes") <= 2**17
        assert node.release("a", token="t0") == 1


@pytest.mark.parametrize("words", [
    ("WAIT", "a", "", 0, 0, 1), ("WAIT", "a", "w" * 129, 0, 0, 1), ("WAIT", "a", "w", 0, -1, 1), ("WAIT", "a", "w", 0, "x", 1),
    ("WAIT", "a", "w", -1, 0, 1), ("WAIT", "a", "w", "x", 0, 1), ("WAIT", "a", "w", 2**53, 0, 1),
    ("WAIT", "a", "w", 0, 0, 0), ("WAIT", "a", "w", 0, 0, 2**53), ("WAIT", "a", "w", 0, 2**53, 1), ("WAIT", "a", "w", 0, 0), ("WAIT", "a", "w", 0, 0, 1, 1),
    ("UNWAIT", "a", "w"), ("UNWAIT", "a", "w", 2), ("UNWAIT", "a", "", 0), ("QUEUE",), ("QUEUE", "a", "b"),
    ("ACQUIRE", 1, "a", "t", 1000, "WAITER", "w", 0, 0), ("ACQUIRE", 1, "a", "t", 1000, "WAITER", "", 0, 0, 1),
    ("ACQUIRE", 1, "a", "t", 1000, "WAITER", "w", 0, 0, 1, 1), ("EXTEND", 1, "a", "t", 1000, "WAITER", "w", 0, 0, 1)])
def test_requests_that_are_refused(node, words):
    assert node.error(f"REDLOCK.{words[0]}", *words[1:])
    assert count(node, "waiters") == 0 and node("REDLOCK.PTTL", "a") == -2


def test_a_waiter_may_have_the_name_of_an_option(node):
    assert contend(node, "WAITER", "FENCE") == 1
    assert node.acquire("WAITER", token="WAITER") == 1


def test_documents(node):
    if native.VERSION < (7, 0):
        pytest.skip("no COMMAND DOCS before 7.0")
    for name in ("wait", "unwait", "queue"):
        assert node("COMMAND", "DOCS", f"redlock.{name}")
        assert node("COMMAND", "GETKEYS", f"redlock.{name}", "k", *["w", 0, 0, 1][:{"wait": 4, "unwait": 2, "queue": 0}[name]]) == [b"k"]
