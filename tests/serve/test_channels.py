# SPDX-License-Identifier: BSD-2-Clause
"""Keyspace notifications of locks that end here."""
import pytest

from resp import Push


@pytest.fixture
def listener(gateway):
    with gateway.connect() as connection:
        yield connection


def test_deleted(client, listener, key):
    assert listener("SUBSCRIBE", f"__keyspace@0__:{key}", "__keyevent@0__:del") == [b"subscribe", f"__keyspace@0__:{key}".encode(), 1]
    assert listener.read() == [b"subscribe", b"__keyevent@0__:del", 2]
    client("SET", key, "v", "NX", "PX", 20000)
    client("DEL", key)
    assert listener.read() == [b"message", f"__keyspace@0__:{key}".encode(), b"del"]
    assert listener.read() == [b"message", b"__keyevent@0__:del", key.encode()]


def test_expired_when_the_nodes_have_forgotten_it(client, listener, key):
    listener("SUBSCRIBE", f"__keyspace@0__:{key}")
    client("SET", key, "v", "NX", "PX", 500)
    assert listener.read() == [b"message", f"__keyspace@0__:{key}".encode(), b"expired"]
    assert client("SET", key, "w", "NX", "PX", 20000) == "OK", "told too soon"
    client("DEL", key)


def test_each_that_expires_is_reported(client, listener, key):
    """The loop's timers may come early by what its clock is coarse; with so many, some do. None is
    reported while a node still has it."""
    listener("SUBSCRIBE", "__keyevent@0__:expired")
    for number in range(100):
        assert client("SET", f"{key}:{number}", "v", "NX", "PX", 400 + number) == "OK"
    reported, too_soon = set(), []
    while len(reported) < 100:
        name = bytes(listener.read()[2]).decode()
        reported.add(name)
        if client("SET", name, "w", "NX", "PX", 20000) != "OK":
            too_soon.append(name)
    assert reported == {f"{key}:{number}" for number in range(100)}
    assert too_soon == []


def test_an_extension_puts_it_off(client, listener, key):
    listener("SUBSCRIBE", f"__keyspace@0__:{key}")
    client("SET", key, "v", "NX", "PX", 500)
    client("PEXPIRE", key, 20000)
    listener.socket.settimeout(0.9)
    with pytest.raises(TimeoutError):
        listener.read()
    client("DEL", key)


def test_patterns(client, listener, key):
    assert listener("PSUBSCRIBE", "__key*__:key-?*") == [b"psubscribe", b"__key*__:key-?*", 1]
    client("SET", key, "v", "NX", "PX", 20000)
    client("DEL", key)
    assert listener.read() == [b"pmessage", b"__key*__:key-?*", f"__keyspace@0__:{key}".encode(), b"del"]
    assert listener("PUNSUBSCRIBE") == [b"punsubscribe", b"__key*__:key-?*", 0]


def test_while_listening_in_resp2(listener):
    listener("SUBSCRIBE", "a", "b")
    listener.read()
    assert "only (P)SUBSCRIBE" in str(listener.error("GET", "k"))
    assert listener("PING") == [b"pong", b""]
    assert listener("PING", "x") == [b"pong", b"x"]
    assert listener("UNSUBSCRIBE", "a") == [b"unsubscribe", b"a", 1]
    assert listener("UNSUBSCRIBE") == [b"unsubscribe", b"b", 0]
    assert listener("UNSUBSCRIBE") == [b"unsubscribe", None, 0]
    assert listener("GET", "k") is None


def test_in_resp3_it_comes_beside_answers(client, listener, key):
    listener("HELLO", 3)
    reply = listener("SUBSCRIBE", "__keyevent@0__:del")
    assert isinstance(reply, Push) and reply == [b"subscribe", b"__keyevent@0__:del", 1]
    listener("SET", key, "v", "NX", "PX", 20000)
    listener.send("DEL", key)
    assert sorted([str(type(reply)), str(reply)] for reply in [listener.read(), listener.read()]) == \
        sorted([[str(type(1)), "1"], [str(Push), str([b"message", b"__keyevent@0__:del", key.encode()])]])
    assert listener("PING") == "PONG"


def test_how_many(listener):
    for number in range(64):
        listener("SUBSCRIBE", f"c{number}")
    assert listener("SUBSCRIBE", "c0")[2] == 64
    assert "64 channels" in str(listener.error("SUBSCRIBE", "one more"))
    assert "64 channels" in str(listener.error("PSUBSCRIBE", "*"))


def test_how_long(listener):
    assert "at most 1024 bytes" in str(listener.error("SUBSCRIBE", "c" * 1025))
    assert "patterns of at most 128" in str(listener.error("PSUBSCRIBE", "c" * 129))
    assert listener("SUBSCRIBE", "c" * 1024)[2] == 1
    assert listener("PSUBSCRIBE", "c" * 128)[2] == 2


def test_a_listener_that_leaves_is_forgotten(gateway, client, key):
    with gateway.connect() as listener:
        listener("PSUBSCRIBE", "*")
    client("SET", key, "v", "NX", "PX", 20000)
    assert client("DEL", key) == 1


def test_patterns_weigh_by_what_follows_their_first_wildcard(start, quorum, key):
    """32 of 128 bytes are as much as all clients may have; the same texts again, and prefixes, weigh nothing."""
    gateway = start(quorum.nodes)
    wild = [f"*{number:03}" + "a" * 124 for number in range(32)]
    with gateway.connect() as one, gateway.connect() as two, gateway.connect() as client:
        for number, pattern in enumerate(wild):
            assert one("PSUBSCRIBE", pattern)[2] == number + 1
        assert "all clients together" in str(two.error("PSUBSCRIBE", "*b"))
        assert two("PSUBSCRIBE", wild[7])[2] == 1
        assert two("PSUBSCRIBE", f"__keyspace@0__:{key}*")[2] == 2
        client("SET", key, "v", "NX", "PX", 20000)
        client("DEL", key)
        assert two.read() == [b"pmessage", f"__keyspace@0__:{key}*".encode(), f"__keyspace@0__:{key}".encode(), b"del"]
        one("PUNSUBSCRIBE", wild[0])
        assert two("PSUBSCRIBE", "*b")[2] == 3


def test_each_pattern_and_channel_is_reported_by_itself(client, listener, key):
    patterns = [f"__keyspace@0__:{key}", f"__keyspace@0__:{key[:-1]}?", "*", f"*{key}", "__key[a-z]*@0__:del", "no*"]
    for pattern in patterns:
        listener("PSUBSCRIBE", pattern)
    listener("SUBSCRIBE", f"__keyspace@0__:{key}")
    client("SET", key, "v", "NX", "PX", 20000)
    client("DEL", key)
    told = [listener.read() for _ in range(7)]
    assert sorted(message[1].decode() for message in told) == sorted([*patterns[:5], "*", f"__keyspace@0__:{key}"])
    assert listener("PING") == [b"pong", b""]


PUBLISH = "return redis.call('publish', ARGV[1], ARGV[2])"


def test_a_script_publishes(client, listener, key):
    listener("SUBSCRIBE", f"of:{key}")
    listener("PSUBSCRIBE", f"of:{key[:12]}*")
    assert client("EVAL", PUBLISH, 1, key, f"of:{key}", "free") == 0
    assert client("EVAL", PUBLISH, 1, key, f"elsewhere:{key}", "free") == 0
    assert client("EVAL", PUBLISH, 1, key, f"of:{key}", "") == 0
    for text in (b"free", b""):
        assert listener.read() == [b"message", f"of:{key}".encode(), text]
        assert listener.read() == [b"pmessage", f"of:{key[:12]}*".encode(), f"of:{key}".encode(), text]


def test_a_message_of_a_script_has_a_bound(client, listener, key):
    listener("SUBSCRIBE", "c" * 1024)
    assert client("EVAL", PUBLISH, 1, key, "c" * 1024, "m" * 1024) == 0
    assert listener.read() == [b"message", b"c" * 1024, b"m" * 1024]
    for words in (("c" * 1025, "m"), ("c", "m" * 1025)):
        assert "at most 1024 bytes" in str(client.error("EVAL", PUBLISH, 1, key, *words))
