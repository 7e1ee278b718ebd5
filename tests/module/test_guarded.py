# SPDX-License-Identifier: BSD-2-Clause
"""Record, fences, and the votes that carry a fence."""
import random
import time

import pytest

import native
from conftest import everything
from native import fenced

FIRST, SECOND = "00c0ffee00000000", "ffffffffffffffff"


def stripe(key):
    value = 0xcbf29ce484222325
    for byte in key if isinstance(key, bytes) else key.encode():
        value = (value ^ byte) * 0x100000001b3 % 2**64
    return value % 4096


def write(node, expected, new, floors="", flag=1, old=None, place=None, **fields):
    words = [word for pair in {"nonce": new, **fields}.items() for word in pair]
    return node("REDLOCK.RECORDWRITE", expected, expected if old is None else old, new if place is None else place, floors, flag, *words)


def fences(node, name):
    """All 4096, or an empty dict: there are none of that name."""
    flat = node("REDLOCK.FENCES", name)
    assert flat == [] or flat[0] == 0 and flat[::2] == sorted(set(flat[::2])) and all(flat[3::2])
    return dict.fromkeys(range(4096), 0) | dict(zip(flat[::2], flat[1::2])) if flat else {}


@pytest.fixture
def guarded():
    with native.node() as made:
        assert write(made, "", FIRST, quorum="1234567890abcdef") == 1
        yield made


def test_no_record_at_first():
    with native.node() as made:
        assert made("REDLOCK.RECORD") == [] and made("REDLOCK.FENCES", FIRST) == [] and made("REDLOCK.FENCES", "kept") == []
        assert made.acquire("a", fence=(FIRST, 5, stripe("a"))) == -1, "the key is set, no fence is raised"
        assert everything(made) == {b"a"}
        assert made.extend("a", fence=(FIRST, 5, stripe("a"))) == -2
        assert made("REDLOCK.RAISE", 1, "a", "t", fenced(FIRST, 5, stripe("a"))) == -2
        assert made("REDLOCK.CONFIRM", 1, "a", "t", fenced(FIRST, 5, stripe("a"))) == -2


def test_record(guarded):
    assert guarded("REDLOCK.RECORD") == [b"nonce", FIRST.encode(), b"quorum", b"1234567890abcdef"]
    hello = guarded("REDLOCK.HELLO", 1)
    assert (hello[b"quorum"] if isinstance(hello, dict) else hello[-1]) == b"1234567890abcdef"
    assert write(guarded, SECOND, SECOND) == 0, "another nonce is expected"
    assert write(guarded, "", SECOND) == 0, "there is a record"
    assert write(guarded, FIRST, SECOND, flag=0, other="x\r\n", empty="") == 1
    assert guarded("REDLOCK.RECORD") == [b"nonce", SECOND.encode(), b"other", b"x\r\n", b"empty", b""]
    assert fences(guarded, FIRST) == {} and len(fences(guarded, SECOND)) == 4096


def test_floors_and_places(guarded):
    assert fences(guarded, FIRST) == {i: 0 for i in range(4096)}
    assert write(guarded, FIRST, SECOND, floors="0 7 4095 9007199254740991", place="kept") == 1
    assert fences(guarded, SECOND) == {}
    kept = fences(guarded, "kept")
    assert kept[0] == 7 and kept[4095] == 2**53 - 1 and kept[1] == 0
    assert write(guarded, SECOND, FIRST, old="kept", floors="0 5") == 1
    assert fences(guarded, "kept") == {} and fences(guarded, FIRST)[0] == 7, "a floor never lowers a fence"


@pytest.mark.parametrize("words", [
    (FIRST, FIRST, SECOND, "", 1),
    (FIRST, FIRST, SECOND, "", 1, "nonce"),
    (FIRST, FIRST, SECOND, "", 1, "other", "x"),
    (FIRST, FIRST, SECOND, "", 1, "nonce", FIRST),
    (FIRST, FIRST, SECOND, "", 1, "nonce", SECOND, "nonce", SECOND),
    (FIRST, FIRST, SECOND, "", 1, "nonce", SECOND, "a", "1", "a", "2"),
    (FIRST, FIRST, SECOND, "", 1, "nonce", SECOND, "odd"),
    (FIRST, FIRST, SECOND, "", 1, "nonce", "0000000000000000"),
    (FIRST, FIRST, SECOND, "", 1, "nonce", SECOND[:-1]),
    (FIRST, FIRST, SECOND, "", 1, "nonce", SECOND, "a", b"x" * 65536),
    (FIRST, FIRST, SECOND, "", 1, "nonce", SECOND, *(f"f{i // 2}" for i in range(128))),
    ("x", FIRST, SECOND, "", 1, "nonce", SECOND),
    (FIRST, SECOND, SECOND, "", 1, "nonce", SECOND),
    (FIRST, FIRST, "x", "", 1, "nonce", SECOND),
    *((FIRST, FIRST, SECOND, floors, 1, "nonce", SECOND)
      for floors in ("1", "1 ", " 1 1", "1 1 ", "4096 1", "-1 1", "1 -1", "1 9007199254740992", "1  1", "a 1", "1 1 2", b"1 1\0", "1,1")),
], ids=range(27))
def test_unsound_records_are_refused(guarded, words):
    assert guarded.error("REDLOCK.RECORDWRITE", *words)
    assert guarded("REDLOCK.RECORD")[1] == FIRST.encode() and len(fences(guarded, FIRST)) == 4096


def test_a_vote_with_a_fence(guarded):
    a, b = stripe("a"), stripe("b")
    assert guarded.acquire("a", "b", fence=(FIRST, 10, a, b)) == 1
    assert fences(guarded, FIRST)[a] == 10 and fences(guarded, FIRST)[b] == 10
    assert guarded("REDLOCK.CONFIRM", 2, "a", "b", "t", fenced(FIRST, 10, a, b)) == 1
    assert guarded("REDLOCK.CONFIRM", 1, "a", "other", fenced(FIRST, 10, a)) == 0
    assert guarded("REDLOCK.CONFIRM", 1, "a", "t", fenced(FIRST, 11, a)) == 0
    assert guarded("REDLOCK.CONFIRM", 1, "a", "t", fenced(SECOND, 10, a)) == -2
    assert guarded.acquire("a", token="other", fence=(FIRST, 99, a))[0] == 0
    assert fences(guarded, FIRST)[a] == 10, "a denied request raises nothing"
    assert guarded.release("a", "b") == 1
    assert guarded.acquire("a", fence=(FIRST, 10, a)) == -1, "not strictly more"
    assert guarded("REDLOCK.RAISE", 1, "a", "t", fenced(FIRST, 10, a)) == 10
    assert guarded("REDLOCK.RAISE", 1, "a", "other", fenced(FIRST, 11, a)) == -1
    assert guarded("REDLOCK.RAISE", 1, "a", "t", fenced(SECOND, 11, a)) == -2
    assert guarded("REDLOCK.RAISE", 1, "a", "t", fenced(FIRST, 11, a)) == 0
    assert fences(guarded, FIRST)[a] == 11


def test_extend_checks_in_the_order_of_its_script(guarded):
    a = stripe("a")
    assert guarded.acquire("a", fence=(FIRST, 10, a)) == 1
    assert guarded.extend("a", token="other", fence=(SECOND, 10, a)) == -2, "an unknown nonce comes first"
    assert guarded.extend("b", "a", token="other", fence=(FIRST, 10, a)) == -1, "then another's"
    assert guarded.extend("b", "a", fence=(FIRST, 12, a)) == 0, "then absent"
    assert fences(guarded, FIRST)[a] == 10, "and nothing was raised"
    assert guarded.extend("a", fence=(FIRST, 12, a)) == 1 and fences(guarded, FIRST)[a] == 12
    assert guarded.extend("a", fence=(FIRST, 11, a)) == 1 and fences(guarded, FIRST)[a] == 12


def test_a_busy_neighbour_of_the_stripe_does_not_matter(guarded):
    of = {}
    for i in range(10**6):
        first = of.setdefault(stripe(f"k{i}"), f"k{i}")
        if first != f"k{i}":
            break
    second, shared = f"k{i}", stripe(first)
    assert guarded.acquire(first, fence=(FIRST, 100, shared)) == 1
    assert guarded.acquire(second, fence=(FIRST, 50, shared)) == 1, "exact while the other is held"
    assert guarded.release(first) == 1 and guarded.release(second) == 1
    assert guarded.acquire(second, fence=(FIRST, 100, shared)) == -1, "what was freed is the floor of all"
    assert guarded.release(second) == 1
    assert guarded.acquire(second, fence=(FIRST, 101, shared)) == 1
    assert fences(guarded, FIRST)[shared] == 101


def test_a_break_raises_and_deletes_in_one_step(guarded):
    a = stripe("a")
    assert guarded.acquire("a", fence=(FIRST, 10, a)) == 1
    assert guarded("REDLOCK.BREAK", "a", "t", fenced(FIRST, 10, a)) == 10
    assert guarded("REDLOCK.BREAK", "a", "t", fenced(SECOND, 20, a)) == -2
    assert guarded("REDLOCK.BREAK", "a", "other", fenced(FIRST, 20, a)) == -1
    assert fences(guarded, FIRST)[a] == 20
    assert guarded("REDLOCK.CONFIRM", 1, "a", "t", fenced(FIRST, 10, a)) == 1
    assert guarded("EXISTS", "a") == 1
    assert guarded("REDLOCK.BREAK", "a", "t", fenced(FIRST, 30, a)) == -3
    assert guarded("EXISTS", "a") == 0, "and its mirror"
    assert guarded("REDLOCK.RAISE", 1, "a", "t", fenced(FIRST, 40, a)) == -1, "the holder comes too late"
    assert guarded("REDLOCK.BREAK", "a", "t", fenced(FIRST, 31, a)) == 0
    assert guarded.acquire("a", fence=(FIRST, 31, a)) == -1


def test_a_break_of_a_key_that_only_the_keyspace_has(guarded):
    a = stripe("a")
    guarded("SET", "a", "t")
    assert guarded("REDLOCK.BREAK", "a", "other", fenced(FIRST, 20, a)) == -1
    assert guarded("REDLOCK.BREAK", "a", "t", fenced(FIRST, 21, a)) == -3
    assert guarded("EXISTS", "a") == 0
    guarded("LPUSH", "a", "t")
    assert guarded.error("REDLOCK.BREAK", "a", "t", fenced(FIRST, 22, a)).startswith("WRONGTYPE")
    for words in (*(("a", "t", fenced(*wrong)) for wrong in ((FIRST, 23), ("x", 23, a), (FIRST, 0, a), (FIRST, 23, 4096))), ("a", "t")):
        assert guarded.error("REDLOCK.BREAK", *words)
    assert fences(guarded, FIRST)[a] == 22


def test_tokens_grow_over_many_random_requests(guarded):
    """At most one grant of a fence for each key, and a later grant has a higher one."""
    draw, last = random.Random(1), {}
    for _ in range(3000):
        key, token = f"r{draw.randrange(5)}", f"t{draw.randrange(3)}"
        fence = max(1, max(last.values(), default=0) + draw.randrange(-3, 4))
        if draw.randrange(3) == 0:
            guarded.release(key, token=token)
        elif guarded.acquire(key, token=token, ttl=10000, fence=(FIRST, fence, stripe(key))) == 1:
            assert fence > last.get(key, 0)
            last[key] = fence
    assert len(last) == 5
    found = fences(guarded, FIRST)
    assert all(found[stripe(key)] >= fence for key, fence in last.items())


def test_record_and_fences_outlive_what_harms_a_stock_node(guarded):
    a = stripe("a")
    assert guarded.acquire("a", fence=(FIRST, 10, a)) == 1
    guarded("FLUSHALL"), guarded("SWAPDB", 0, 1), guarded("DEL", "redlock:node", f"redlock:fences:{FIRST}", "a")
    assert guarded("REDLOCK.CONFIRM", 1, "a", "t", fenced(FIRST, 10, a)) == 1
    guarded("DEBUG", "RELOAD")
    assert guarded("REDLOCK.CONFIRM", 1, "a", "t", fenced(FIRST, 10, a)) == 1
    assert guarded("REDLOCK.RECORD") != [] and len(fences(guarded, FIRST)) == 4096


def test_a_write_is_announced_to_who_tracks_the_record(guarded):
    watcher = guarded.connect(resp3=True)
    watcher.ask("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "redlock:node")
    assert write(guarded, FIRST, SECOND) == 1
    time.sleep(0.05)
    watcher.ask("PING")
    assert watcher.pushes == [[b"invalidate", [b"redlock:node"]]]


@pytest.mark.skipif(native.VERSION < (7, 0), reason="modules cannot ask about keys before 7.0")
def test_the_record_obeys_the_rules_about_its_key(guarded):
    guarded("ACL", "SETUSER", "u", "on", ">p", "~job:*", "+@all")
    user = guarded.connect()
    user.ask("AUTH", "u", "p")
    for words in (("RECORD",), ("FENCES", FIRST), ("RECORDWRITE", FIRST, FIRST, SECOND, "", 1, "nonce", SECOND)):
        assert user.error("REDLOCK." + words[0], *words[1:]).startswith("NOPERM")
    guarded("ACL", "SETUSER", "u", "%R~redlock:node")
    assert user.ask("REDLOCK.RECORD") and user.ask("REDLOCK.FENCES", FIRST)
    assert user.error("REDLOCK.RECORDWRITE", FIRST, FIRST, SECOND, "", 1, "nonce", SECOND).startswith("NOPERM")
    guarded("ACL", "SETUSER", "u", "~redlock:node")
    assert user.ask("REDLOCK.RECORDWRITE", FIRST, FIRST, SECOND, "", 1, "nonce", SECOND) == 1
