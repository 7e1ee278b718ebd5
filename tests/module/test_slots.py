# SPDX-License-Identifier: BSD-2-Clause
"""Slots of the module: one of several locks in one request, their number, strangers among the keys, and their turn."""
import pytest

from native import until
from test_turns import MINUTE, hear, listen


def token(number, count=3):
    return f"{number:040x}/{count}"


def take(node, number, order="1 2 3", count=3, ttl=30000, waiter=None, more=""):
    words = ("WAITER", waiter, 0, 0, MINUTE) if waiter else ()
    return node("REDLOCK.SLOT", "a", token(number, count), count, order, f"{ttl}{more}", *words)


def test_hello_says_that_there_are_slots(node):
    hello = node("REDLOCK.HELLO", 1)
    pairs = dict(zip(hello[::2], hello[1::2])) if isinstance(hello, list) else hello
    assert pairs[b"slots"] == 1


def test_as_many_as_there_are(either):
    node = either
    assert take(node, 1, "2 1 3") == [1, 2] and take(node, 2, "2 1 3") == [1, 1] and take(node, 3, "2 1 3", ttl=9000) == [1, 3]
    what, left, rank = take(node, 4)
    assert what == 0 and 8000 < left <= 9000 and rank == -1
    assert node("REDLOCK.GET", "a:slot:2", 99) == token(1).encode()
    assert node("GET", "a:slot:2") == (token(1).encode() if node.mirror else None)
    assert node("REDLOCK.UNLOCK", "a:slot:2", token(1)) == 1
    assert take(node, 4) == [1, 2] and take(node, 4) == [1, 2], "the same request again"
    assert take(node, 4, "02") == [1, 2], "as a client writes the one on which it settled"


def test_a_client_that_settles_leaves_the_other_one(either):
    node = either
    assert take(node, 1, "1") == [1, 1] and take(node, 1, "3") == [1, 3]
    assert node("REDLOCK.PTTL", "a:slot:1") == -2 and node("GET", "a:slot:1") is None
    assert take(node, 2, "3") == [0, pytest.approx(30000, abs=5000), -1]


def test_another_number_is_refused(either):
    node = either
    assert take(node, 1, "5", count=5) == [1, 5]
    assert take(node, 2) == [-2, 5] and take(node, 2, "1", waiter="w") == [-2, 5]
    assert node("REDLOCK.QUEUE", "a:slot:1")[0] == 0
    assert node("REDLOCK.UNLOCK", "a:slot:5", token(1, 5)) == 1
    assert take(node, 2) == [1, 1]


def test_what_strangers_keep(node):
    assert node("SET", "a:slot:1", "strange", "PX", 5000) == b"OK"
    assert take(node, 1) == [1, 2] and node("GET", "a:slot:1") == b"strange"
    assert take(node, 2, "1 2")[0] == 0
    node("LPUSH", "a:slot:3", "x")
    what, left, _ = take(node, 3)
    assert what == 0 and 4000 < left <= 5000, "the key of the stranger ends first"
    waits = node("REDLOCK.WAIT", "a:slot:1", "w", 0, 0, MINUTE, "SLOTS", 3)
    assert waits[0] == 0 and 29000 < waits[1] <= 30000
    node("REDLOCK.UNWAIT", "a:slot:1", "w", 0)
    node("SET", "a:slot:64", token(9, 64))
    assert take(node, 3) == [-2, 64], "it holds with another number, wherever it is"
    node("DEL", "a:slot:1", "a:slot:3", "a:slot:64")
    assert take(node, 3) == [1, 1]


def test_without_the_mirror_strangers_do_not_count(either):
    if either.mirror:
        return
    either("SET", "a:slot:1", token(9, 64))
    assert take(either, 1) == [1, 1]


def test_each_slot_has_its_fence(node):
    node("REDLOCK.RECORDWRITE", "", "", "000000000000000b", "7 100", "1", "nonce", "000000000000000b")
    fence = ":000000000000000b:%d:7,9,7"
    assert take(node, 1, "1", more=fence % 100) == [-1, 1], "the key is set, and its fence is not"
    assert take(node, 1, "1", more=fence % 101) == [1, 1]
    assert take(node, 2, "2", more=fence % 50) == [1, 2], "the second slot has another stripe"
    assert take(node, 3, "3", more=":000000000000000c:500:7,9,7") == [-1, 3], "another nonce"


def test_first_come_first_served(either):
    node = either
    for number in (1, 2, 3):
        take(node, number)
    second, first = listen(node, "w2"), listen(node, "w1")
    assert take(node, 5, waiter="w2")[2] == 0
    words = ("REDLOCK.SLOT", "a", token(4), 3, "1 2 3", 30000, "WAITER", "w1", 0, 1000000, MINUTE)
    assert node(*words)[2] == 0, "it has waited for longer"
    node("MULTI")
    node("REDLOCK.UNLOCK", "a:slot:3", token(3))
    node("REDLOCK.UNLOCK", "a:slot:2", token(2))
    take(node, 6)
    node("REDLOCK.WAIT", "a:slot:1", "w2", 0, 0, MINUTE, "SLOTS", 3)
    node(*words)
    take(node, 5, waiter="w2")
    freed, also, stranger, waits, one, two = node("EXEC")
    assert (freed, also) == (1, 1)
    assert stranger[0] == 0 and 0 < stranger[1] <= 100, "both slots are free, and reserved"
    assert waits[0] == 1 and 0 < waits[1] <= 100
    assert one == [2, 2] and two == [1, 3]
    assert hear(first) == b"turn a:slot:1" and hear(second) == b"turn a:slot:1"
    first.close()
    second.close()


def test_a_slot_that_ends_wakes_the_first(either):
    node = either
    for number in (1, 2, 3):
        take(node, number, ttl=30000 if number < 3 else 200)
    waits = listen(node, "w")
    rank, left = node("REDLOCK.WAIT", "a:slot:1", "w", 0, 0, MINUTE, "SLOTS", 3)
    assert rank == 0 and 0 < left <= 200
    assert hear(waits) == b"turn a:slot:1"
    # the copy among the keys ends by the wall clock, up to a millisecond later
    until(lambda: take(node, 4, waiter="w") == [1, 3], 2, "the slot that has ended")
    waits.close()


def test_nobody_else_has_the_name(node):
    """The plain lock on a slot's name, and a resource of such a name."""
    assert node.acquire("a:slot:1", token="plain") == 1
    assert take(node, 1) == [1, 2]
    assert node.acquire("a", token="plain") == 1, "the resource itself is another lock"


def test_what_is_wrong(node):
    wrong = node.error
    good = ("REDLOCK.SLOT", "a", token(1), 3, "1 2", "1000")
    assert "number of slots is 1 to 64" in wrong(*good[:3], 0, "1", "1000")
    assert "number of slots is 1 to 64" in wrong(*good[:3], 65, "1", "1000")
    for order in ("", "4", "0", "1 1", "1  2", "1 ", " 1", "1,2", "x"):
        assert "the order" in wrong(*good[:4], order, "1000"), order
    assert "TTL" in wrong(*good[:5], "0") and "TTL" in wrong(*good[:5], "x")
    assert "wrong number" in wrong(*good[:5]) and "wrong number" in wrong(*good, "x")
    assert "each slot has one stripe" in wrong(*good[:5], "1000:000000000000000b:1:1,2")
    assert "1024 bytes" in wrong("REDLOCK.SLOT", "a" * 1025, *good[2:])
    assert node("REDLOCK.SLOT", "a" * 1024, *good[2:]) == [1, 1]
    wait = ("REDLOCK.WAIT", "a:slot:1", "w", 0, 0, MINUTE)
    assert "first slot" in wrong("REDLOCK.WAIT", "a:slot:2", *wait[2:], "SLOTS", 3)
    assert "first slot" in wrong("REDLOCK.WAIT", ":slo", *wait[2:], "SLOTS", 3)
    assert "number of slots" in wrong(*wait, "SLOTS", 0)
    assert "syntax" in wrong(*wait, "SLOTS") and "syntax" in wrong(*wait, "SHARED", 3)
