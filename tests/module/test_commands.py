# SPDX-License-Identifier: BSD-2-Clause
"""The replies of each command, and the order of its checks."""
import re
import time

import pytest

import native
from conftest import everything
from native import fenced

LONG = b"k" * 65536


def test_hello(node):
    hello = node("REDLOCK.HELLO", 1)
    pairs = dict(zip(hello[::2], hello[1::2])) if isinstance(hello, list) else hello
    assert pairs.keys() == {b"protocol", b"version", b"incarnation", b"mirror", b"shared", b"slots", b"quorum"}
    assert pairs[b"protocol"] == 1 and pairs[b"mirror"] == 1 and pairs[b"quorum"] == b""
    assert re.fullmatch(rb"[0-9a-f]{40}", pairs[b"incarnation"]) and re.fullmatch(rb"\d+\.\d+\.\d+", pairs[b"version"])
    assert node("REDLOCK.HELLO", 9) == hello  # a later client gets what this one knows
    assert "protocol" in node.error("REDLOCK.HELLO", "x")
    assert "protocol" in node.error("REDLOCK.HELLO", 0)


def test_hello_is_a_map_in_resp3(node):
    hello = node.connect(resp3=True).ask("REDLOCK.HELLO", 1)
    if native.VERSION >= (7, 0):
        assert hello[b"protocol"] == 1 and hello[b"mirror"] == 1


def test_state(node):
    first = node("REDLOCK.STATE")
    assert first[1:] == [b"master", 0, node.info()["redlock_incarnation"].encode()]
    assert abs(first[0] - time.clock_gettime(time.CLOCK_BOOTTIME) * 1e6) < 1e6
    assert node("REDLOCK.STATE")[0] > first[0]


def test_acquire_and_deny(node):
    assert node.acquire("a", ttl=5000) == 1
    denied = node.acquire("a", token="other")
    assert denied[0] == 0 and 4000 < denied[1] <= 5000 and denied[2:] == [-1, b"t"]
    assert node.acquire("a")[0] == 0  # its own token is no excuse


def test_all_or_nothing(node):
    assert node.acquire("b", token="other") == 1
    assert node.acquire("a", "b", "c")[3] == b"other"
    assert everything(node) == {b"b"}
    assert node.acquire("a", "c", "d") == 1
    assert everything(node) == {b"a", b"b", b"c", b"d"}


def test_a_key_named_twice(node):
    assert node.acquire("a", "a") == 1
    assert node.extend("a", "a") == 1
    assert node.release("a", "a") == 1
    assert everything(node) == set() and node("EXISTS", "a") == 0


def test_a_denial_shows_the_beginning_of_a_long_token(node):
    assert node.acquire("a", token=b"x" * 1000) == 1
    assert node.acquire("a")[3] == b"x" * 128


def test_extend(node):
    assert node.acquire("a", ttl=1000) == 1
    assert node.extend("a", ttl=30000) == 1
    assert node("REDLOCK.PTTL", "a") > 29000
    assert node.extend("a", ttl=1000) == 1
    assert node("REDLOCK.PTTL", "a") > 29000, "an extension never shortens"
    assert node.extend("a", token="other") == -1
    assert node.extend("b") == 0
    assert node.extend("b", "a") == 0
    assert node.extend("b", "a", token="other") == -1, "another's comes before absent"


def test_release(node):
    assert node.acquire("a") == 1 and node.acquire("b", token="other") == 1
    assert node.release("a", token="other") == -1
    assert node.release("c") == 0
    assert node.release("b", "a", "c") == -1, "what is ours goes all the same"
    assert everything(node) == {b"b"}
    assert node.acquire("a") == 1
    assert node.release("c", "a") == 1


def test_a_lock_ends_at_its_end(either):
    assert either.acquire("a", ttl=1000) == 1
    time.sleep(0.2)
    assert either.acquire("a")[0] == 0
    time.sleep(1)
    assert either("REDLOCK.PTTL", "a") == -2 and either("REDLOCK.GET", "a", 9) == b""
    assert either.extend("a") == 0 and either.release("a") == 0
    assert either.acquire("a", token="next") == 1
    assert int(either.info()["redlock_ended"]) == 1


def test_looks(node):
    assert node("REDLOCK.PTTL", "a") == -2 and node("REDLOCK.GET", "a", 10) == b""
    assert node.acquire("a", token="token") == 1
    assert node("REDLOCK.GET", "a", 3) == b"tok" and node("REDLOCK.GET", "a", 0) == b""
    assert node("REDLOCK.GET", "a", 10**9) == b"token"
    assert "max-bytes" in node.error("REDLOCK.GET", "a", -1)


def test_scan_finds_all_and_matches(either):
    names = {b"job:%d" % i for i in range(1500)} | {b"a[b", b"a\\b", b""}
    for name in names:
        assert either.acquire(name) == 1
    assert everything(either) == names

    def matching(pattern):
        cursor, keys = b"0", []
        while True:
            cursor, some = either("REDLOCK.SCAN", cursor, "MATCH", pattern, "COUNT", 500)
            keys += some
            if cursor == b"0":
                return set(keys)
    assert matching("job:1?") == {b"job:%d" % i for i in range(10, 20)}
    assert matching("job:[1-3]") == {b"job:1", b"job:2", b"job:3"}
    assert matching("*9*9*9") == {b"job:999"}
    assert matching(r"a\[*") == {b"a[b"}
    assert matching("a[^[]b") == {b"a\\b"}
    for wrong in (("x",), (-1,), (0, "MATCH"), (0, "COUNT", 0), (0, "LIMIT", 1), ("99999999999999999999999",),
                  (2**33,), (9007199254740910,)):
        assert either.error("REDLOCK.SCAN", *wrong)


@pytest.mark.parametrize("numkeys", ["0", "-1", "2", "1025", "99999999999999999999", "9223372036854775807", "-9223372036854775808",
                                     "4294967297", "", "x", "1.0", " 1", "0x1"])
@pytest.mark.parametrize("command", ["ACQUIRE", "EXTEND", "RELEASE", "RAISE", "CONFIRM"])
def test_numkeys_that_are_no_number_of_keys(node, command, numkeys):
    tail = {"ACQUIRE": ["t", 1000], "EXTEND": ["t", 1000], "RELEASE": ["t"]}.get(command, ["t", "000000000000000b", 1, 0])
    numkeys = "7" if numkeys == "2" else numkeys
    assert node.error(f"REDLOCK.{command}", numkeys, "a", *tail)
    assert everything(node) == set()


@pytest.mark.parametrize("ttl", ["0", "-1", "x", "", "1.5", "9007199254740992", "9223372036854775807", "99999999999999999999"])
def test_ttls_that_are_none(node, ttl):
    assert "TTL" in node.error("REDLOCK.ACQUIRE", 1, "a", "t", ttl)
    assert "TTL" in node.error("REDLOCK.EXTEND", 1, "a", "t", ttl)
    assert everything(node) == set()


GOOD = ("000000000000000b", 1, 0)
WRONG_FENCES = [
    ("0000000000000000", 1, 0), ("000000000000000B", 1, 0), ("00000000000000b", 1, 0), ("000000000000000bb", 1, 0), ("", 1, 0),
    ("000000000000000g", 1, 0), (b"00000000\0000000b", 1, 0),
    (GOOD[0], 0, 0), (GOOD[0], -1, 0), (GOOD[0], 2**53, 0), (GOOD[0], 2**64, 0), (GOOD[0], "x", 0), (GOOD[0], "1.0", 0),
    (GOOD[0], 1, 4096), (GOOD[0], 1, -1), (GOOD[0], 1, "x"), (GOOD[0], 1, ""), (GOOD[0], 1, "1 "), (GOOD[0], 1, "+1"),
    (GOOD[0], 1, 7, 8, 7), (GOOD[0], 1), (GOOD[0],), (), (GOOD[0], 1, *range(4096), 0),
]


WRONG_WORDS = [
    "", "FENCE", "FENCE=", "fence=000000000000000b:1:0", "FENCE 000000000000000b:1:0", "FENCE=000000000000000b",
    "FENCE=000000000000000b:", "FENCE=000000000000000b:1", "FENCE=000000000000000b:1:", "FENCE=000000000000000b::0",
    "FENCE=000000000000000b:01:0", "FENCE=000000000000000b:1:00", "FENCE=000000000000000b:1:1,", "FENCE=000000000000000b:1:,1",
    "FENCE=000000000000000b:1:1,,2", "FENCE=000000000000000b:1:1:2", "FENCE=000000000000000b:1:1 2", "FENCE=000000000000000b,1:0",
    "FENCE=000000000000000b:1,0", " FENCE=000000000000000b:1:0", b"FENCE=000000000000000b:1:1\0",
]
GUARDED_HEADS = (("REDLOCK.ACQUIRE", 1, "a", "t", 1000), ("REDLOCK.EXTEND", 1, "a", "t", 1000), ("REDLOCK.RAISE", 1, "a", "t"),
                 ("REDLOCK.CONFIRM", 1, "a", "t"), ("REDLOCK.BREAK", "a", "t"))


@pytest.mark.parametrize("word", WRONG_WORDS, ids=range(len(WRONG_WORDS)))
def test_words_that_are_no_fence(node, word):
    for head in GUARDED_HEADS:
        assert node.error(*head, word)
        assert node.error(*head, fenced(*GOOD), word)
    assert everything(node) == set()


@pytest.mark.parametrize("fence", WRONG_FENCES, ids=range(len(WRONG_FENCES)))
def test_fences_that_are_none(node, fence):
    for head in GUARDED_HEADS:
        assert node.error(*head, fenced(*fence))
    assert everything(node) == set()


WRONG_ENDS = ["", "0", "-1", "+1", "01", "x", "1.5", " 1000", "1000 ", "1000,", ":", "9007199254740992", "99999999999999999999",
              ":000000000000000b:1:0", "0:000000000000000b:1:0", "1000 000000000000000b:1:0", "1000:FENCE=000000000000000b:1:0"]
WRONG_ENDS += ["1000:" + word[len("FENCE="):] for word in WRONG_WORDS if isinstance(word, str) and word.startswith("FENCE=")]


@pytest.mark.parametrize("word", WRONG_ENDS, ids=range(len(WRONG_ENDS)))
def test_ends_and_fences_of_one_key_that_are_none(node, word):
    assert node.error("REDLOCK.LOCK", "a", "t", word)
    assert everything(node) == set()


@pytest.mark.parametrize("fence", WRONG_FENCES, ids=range(len(WRONG_FENCES)))
def test_fences_of_one_key_that_are_none(node, fence):
    assert node.error("REDLOCK.LOCK", "a", "t", b"1000:" + fenced(*fence)[len(b"FENCE="):])
    assert everything(node) == set()


def test_one_key_in_fewer_words(either):
    assert either("REDLOCK.LOCK", "1", "t", 30000) == 1
    denied, left, *rest = either("REDLOCK.LOCK", "1", "u", 30000)
    assert denied == 0 and 29000 < left <= 30000 and rest == [-1, b"t"] and everything(either) == {b"1"}
    assert 29000 < either("REDLOCK.PTTL", "1") <= 30000 and either("EXISTS", "1") == int(either.info()["redlock_mirror"])
    assert either("REDLOCK.UNLOCK", "1", "u") == -1
    assert either("REDLOCK.UNLOCK", "1", "t") == 1
    assert either("REDLOCK.UNLOCK", "1", "t") == 0 and either("EXISTS", "1") == 0
    for words in (("LOCK",), ("LOCK", "a"), ("LOCK", "a", "t"), ("LOCK", "a", "t", 1000, fenced(*GOOD)), ("UNLOCK",), ("UNLOCK", "a"),
                  ("UNLOCK", "a", "t", "more"), ("UNLOCK", 1, "a", "t"), ("LOCK", 1, "a", "t", 1000)):
        assert either.error("REDLOCK." + words[0], *words[1:])
    assert "65536" in either.error("REDLOCK.LOCK", LONG + b"k", "t", 1000)
    assert "65536" in either.error("REDLOCK.UNLOCK", "a", LONG + b"k")
    assert everything(either) == set()


def test_one_key_in_fewer_words_does_not_wait(node):
    assert node.acquire("a") == 1
    assert node("REDLOCK.ACQUIRE", 1, "a", "x", 1000, "WAITER", "w", 0, 0, 10000000)[2] == 0
    assert node("REDLOCK.LOCK", "a", "y", 1000)[2] == -1, "the waiter of the request before is not its own"
    assert node("REDLOCK.QUEUE", "a")[0] == 1
    assert node("REDLOCK.UNWAIT", "a", "w", 0) == 0 and node("REDLOCK.UNLOCK", "a", "t") == 1


def test_one_key_with_a_fence_in_fewer_words(node):
    assert node("REDLOCK.LOCK", "a", "t", "30000:000000000000000b:5:0") == -1, "there is no record: as ACQUIRE answers"
    assert node("REDLOCK.UNLOCK", "a", "t") == 1
    assert node("REDLOCK.RECORDWRITE", "", "", GOOD[0], "", 1, "nonce", GOOD[0]) == 1
    assert node("REDLOCK.LOCK", "a", "t", f"30000:{GOOD[0]}:5:0,7") == 1
    assert node("REDLOCK.CONFIRM", 1, "a", "t", fenced(GOOD[0], 5, 0)) == 1
    assert node("REDLOCK.CONFIRM", 1, "a", "t", fenced(GOOD[0], 6, 0)) == 0
    assert node("REDLOCK.UNLOCK", "a", "t") == 1
    assert node("REDLOCK.LOCK", "a", "u", f"30000:{GOOD[0]}:5:0") == -1, "stale"
    assert node("REDLOCK.UNLOCK", "a", "u") == 1


def test_words_too_many_and_too_few(node):
    for words in (("ACQUIRE",), ("ACQUIRE", 1), ("ACQUIRE", 1, "a"), ("ACQUIRE", 1, "a", "t"), ("ACQUIRE", 1, "a", "t", 1, "FANCE"),
                  ("ACQUIRE", 1, "a", "t", 1000, "x", *GOOD), ("RELEASE", 1, "a"), ("RELEASE", 1, "a", "t", "more"), ("PTTL",),
                  ("PTTL", "a", "b"), ("GET", "a"), ("HELLO",), ("STATE", 1), ("RECORD", 1), ("FENCES",), ("SCAN",)):
        assert node.error("REDLOCK." + words[0], *words[1:])
    assert everything(node) == set()


def test_binary_and_long_names(either):
    for key in (LONG, b"\0\r\n*1\r\n", b""):
        for token in (LONG, b"\xff\0", b""):
            assert either.acquire(key, token=token) == 1
            assert either("REDLOCK.GET", key, 65536) == token
            assert either.acquire(key)[3] == token[:128]
            assert either.extend(key, token=token) == 1
            assert either.release(key, token=token + b"x" if len(token) < 65536 else b"x") == -1
            assert either.release(key, token=token) == 1
    assert "65536" in either.error("REDLOCK.ACQUIRE", 1, LONG + b"k", "t", 1000)
    assert "65536" in either.error("REDLOCK.ACQUIRE", 1, "a", LONG + b"k", 1000)
    assert everything(either) == set()


def test_many_keys(node):
    keys = [f"k{i}" for i in range(1024)]
    assert node.acquire(*keys) == 1
    assert node.extend(*keys) == 1
    assert len(everything(node)) == 1024
    assert node.release(*keys) == 1
    assert everything(node) == set()


def test_the_server_knows_where_the_keys_are(node):
    assert node("COMMAND", "GETKEYS", "REDLOCK.ACQUIRE", 2, "a", "b", "t", 1000) == [b"a", b"b"]
    assert node("COMMAND", "GETKEYS", "REDLOCK.RELEASE", 1, "a", "t") == [b"a"]
    assert node("COMMAND", "GETKEYS", "REDLOCK.LOCK", "1", "a", 1000) == [b"1"]
    assert node("COMMAND", "GETKEYS", "REDLOCK.UNLOCK", "1", "a") == [b"1"]
    assert node("COMMAND", "GETKEYS", "REDLOCK.PTTL", "a") == [b"a"]


@pytest.mark.skipif(native.VERSION < (7, 0), reason="COMMAND DOCS is of 7.0")
def test_documents(node):
    docs = node("COMMAND", "DOCS", "REDLOCK.ACQUIRE")
    assert b"redlock.acquire" in docs and b"Takes a lock on all keys, or none" in docs[1]


def test_in_a_transaction_and_in_a_script(node):
    node("MULTI")
    for words in (("ACQUIRE", 1, "a", "t", 1000), ("ACQUIRE", 1, "a", "t", 1000), ("RELEASE", 1, "a", "t")):
        assert node("REDLOCK." + words[0], *words[1:]) == b"QUEUED"
    first, second, third = node("EXEC")
    assert first == 1 and second[0] == 0 and third == 1
    if native.VERSION[0] < 9 or node("COMMAND", "COUNT"):
        script = "return redis.call('REDLOCK.ACQUIRE', 1, KEYS[1], ARGV[1], 1000)"
        assert node("EVAL", script, 1, "a", "t") == 1
        assert node("REDLOCK.GET", "a", 10) == b"t" and node("GET", "a") == b"t"


def test_another_database(node):
    other = node.connect()
    other.ask("SELECT", 1)
    assert "another database" in other.error("REDLOCK.ACQUIRE", 1, "a", "t", 1000)
    assert "another database" in other.error("REDLOCK.PTTL", "a")
    with native.node("db", "1") as second:
        assert "another database" in second.error("REDLOCK.ACQUIRE", 1, "a", "t", 1000)
        second("SELECT", 1)
        assert second.acquire("a") == 1 and second("GET", "a") == b"t"
        assert second.release("a") == 1 and second("EXISTS", "a") == 0


def test_info_counts(node):
    before = node.info()
    node.acquire("a"), node.acquire("a"), node.extend("a"), node.release("a")
    after = node.info()
    for name in ("granted", "denied", "extended", "released"):
        assert int(after["redlock_" + name]) == int(before["redlock_" + name]) + 1
    assert after["redlock_locks"] == "0" and after["redlock_mirror"] == "1"
