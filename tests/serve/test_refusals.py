# SPDX-License-Identifier: BSD-2-Clause
"""What is not taken is refused with a sentence that says why, and nothing happens to the lock."""
import pytest

from conftest import RELEASE

REFUSED = [
    (("FLUSHALL",), "unknown command 'FLUSHALL'"),
    (("HSET", "k", "f", "1"), "SET with NX"),
    (("PUBLISH", "c", "x"), "/serve.md lists"),
    (("SET", "k", "v"), "SET without NX"),
    (("SET", "k", "v", "PX", 1000), "SET without NX"),
    (("SET", "k", "v", "NX"), "without a time to live"),
    (("SET", "k", "v", "XX"), "without a time to live"),
    (("SET", "k", "v", "NX", "XX", "PX", 1000), "syntax error"),
    (("SET", "k", "v", "XX", "IFEQ", "v", "PX", 1000), "syntax error"),
    (("SET", "k", "v", "IFEQ"), "syntax error"),
    (("SET", "k", "v", "IFEQ", "w", "PX", 1000), "keeps the value it was taken with"),
    (("SET", "k", "v", "IFEQ", "v", "PX", 1000, "GET"), "answers OK, or nil"),
    (("SET", "k", "v", "IFEQ", "v", "PX", 0), "invalid expire time"),
    (("SET", "k", "v", "IFNE", "v", "PX", 1000), "IFNE"),
    (("SET", "k", "v", "NX", "PXAT", 1000), "10 milliseconds"),
    (("SET", "k", "v", "NX", "EXAT", -2 ** 62), "10 milliseconds"),
    (("SET", "k", "v", "NX", "PXAT", 2 ** 62), "24 hours"),
    (("SET", "k", "v", "NX", "PX", 1000, "PXAT", 1), "syntax error"),
    (("PEXPIREAT", "k", "x"), "not an integer"),
    (("EXPIREAT", "k", 1, "GT"), "never shortens"),
    (("DELEX", "k", "IFEQ"), "wrong number of arguments"),
    (("DELEX", "k", "IFNE", "v"), "no condition but IFEQ"),
    (("DELIFEQ", "k"), "wrong number of arguments"),
    (("SET", "k", "v", "NX", "KEEPTTL"), "KEEPTTL"),
    (("SET", "k", "v", "NX", "PX", 1000, "EX", 1), "syntax error"),
    (("SET", "k", "v", "NX", "PX"), "syntax error"),
    (("SET", "k", "v", "NX", "PX", "soon"), "not an integer"),
    (("SET", "k", "v", "NX", "PX", "1e3"), "not an integer"),
    (("SET", "k", "v", "NX", "PX", " 1000"), "not an integer"),
    (("SET", "k", "v", "NX", "PX", 9), "10 milliseconds"),
    (("SET", "k", "v", "NX", "PX", 0), "10 milliseconds"),
    (("SET", "k", "v", "NX", "PX", -1000), "10 milliseconds"),
    (("SET", "k", "v", "NX", "PX", 86400001), "24 hours"),
    (("SET", "k", "v", "NX", "EX", 2 ** 62), "24 hours"),
    (("SET", "k", "", "NX", "PX", 1000), "from 1 to 128 bytes"),
    (("SET", "k", "v" * 129, "NX", "PX", 1000), "this one is 129"),
    (("SET", "", "v", "NX", "PX", 1000), "resource is empty"),
    (("GET",), "wrong number of arguments for 'get'"),
    (("GET", "a", "b"), "wrong number of arguments"),
    (("PEXPIRE", "k", "x"), "not an integer"),
    (("PEXPIRE", "k", 1000, "LT"), "never shortens"),
    (("EVAL", RELEASE, 2, "k", "l"), "one key"),
    (("EVAL", RELEASE, 0), "one key"),
    (("EVAL", RELEASE, "x"), "not an integer"),
    (("EVAL", RELEASE, 1), "greater than number of args"),
    (("EVAL", "return redis.call('flushall')", 1, "k"), ""),
    (("SCRIPT", "KILL"), "LOAD, EXISTS and FLUSH"),
    (("CONFIG", "SET", "maxmemory", 1), "nothing to configure"),
    (("REDLOCK.FENCE", "k"), "classic mode"),
    (("COMMAND", "GETKEYS", "GET", "k"), "COUNT, DOCS and INFO"),
]


@pytest.mark.parametrize("words, says", REFUSED, ids=[" ".join(str(word)[:12] for word in words) for words, _ in REFUSED])
def test_refused_with_a_sentence(client, words, says):
    error = client.error(*words)
    assert error.code == "ERR" and says in str(error), error
    assert client("PING") == "PONG"


def test_pexpire_beyond_a_day_leaves_the_lock_as_it_is(client, key):
    client("SET", key, "v", "NX", "PX", 20000)
    assert "24 hours" in str(client.error("PEXPIRE", key, 86400001))
    assert client("PTTL", key) <= 20000
    client("DEL", key)


@pytest.mark.parametrize("command", ["GET", "DEL", "PTTL"])
def test_a_key_that_holds_no_string(quorum, client, key, command):
    for server in quorum.servers:
        server.ask("HSET", key, "f", "1")
    assert client.error(command, key).code == "WRONGTYPE"
    assert client("SET", key, "v", "NX", "PX", 1000) is None
    assert quorum[0].ask("HGET", key, "f") == b"1"


def test_a_key_that_holds_too_much(quorum, client, key):
    for server in quorum.servers:
        server.ask("SET", key, "v" * 1025)
    assert "1024 bytes" in str(client.error("GET", key))
    assert "1024 bytes" in str(client.error("DEL", key))
    assert client("SET", key, "v", "NX", "PX", 1000) is None


@pytest.mark.parametrize("words", [("DEL",), ("PEXPIRE", 20000), ("EVAL", RELEASE)], ids=lambda words: words[0])
def test_a_lock_of_readers(quorum, client, key, words):
    marker = "redlock:shared"
    for server in quorum.servers:
        server.ask("SET", key, marker, "PX", 20000)
    assert client("SET", key, "v", "NX", "PX", 1000) is None
    request = ("EVAL", RELEASE, 1, key, marker) if words[0] == "EVAL" else (words[0], key, *words[1:])
    assert "each reader releases and extends its own place" in str(client.error(*request))
    assert [server.ask("GET", key) for server in quorum.servers] == [marker.encode()] * len(quorum.servers)


GARBAGE = [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"*1\r\n:5\r\n", b"*1\r\n*1\r\n$1\r\na\r\n", b"*100000\r\n", b"*1\r\n$-1\r\n",
           b"*x\r\n", b"*1\r\n$x\r\n", b"*2\r\n$1\r\na\r\nb\r\n", b"*1\r\n+OK\r\n", b"\x00\x00\x00\x00\n", b'GET "k\r\n', b"x" * 5000,
           b"*-5\r\n", b"*1\r\n$99999999999999999999\r\n"]


@pytest.mark.parametrize("data", GARBAGE, ids=[repr(data[:16]) for data in GARBAGE])
def test_garbage_ends_the_connection_and_no_other(gateway, client, data):
    with gateway.connect() as stranger:
        stranger.raw(data)
        error = stranger.read()
        assert str(error).startswith("ERR Protocol error"), error
        assert stranger.at_end()
    assert client("PING") == "PONG"


def test_a_request_of_more_than_128_kib(gateway, client):
    with gateway.connect() as stranger:
        try:
            stranger.raw(b"*2\r\n$4\r\nECHO\r\n$1000000\r\n" + b"x" * 1000000)
        except OSError:
            pass  # refused before all of it was sent
        assert "the request is too long" in str(stranger.read())
    assert client("PING") == "PONG"


def test_empty_requests_are_passed_over(client):
    client.raw(b"*0\r\n*-1\r\n\r\n*1\r\n$4\r\nPING\r\n")
    assert client.read() == "PONG"
