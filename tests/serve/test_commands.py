# SPDX-License-Identifier: BSD-2-Clause
"""Each command about a lock: what it answers, and what it leaves on the nodes."""
import re
import time

import pytest

from conftest import EXTEND, RELEASE
from servers import until


def token(quorum, key):
    return quorum.holder(key)


def test_set_takes_and_the_nodes_hold_token_and_value(quorum, client, key):
    assert client("SET", key, "mine", "NX", "PX", 20000) == "OK"
    assert re.fullmatch(rb"[0-9a-f]{40}:mine", token(quorum, key))
    assert client("SET", key, "other", "NX", "PX", 20000) is None
    assert client("GET", key) == b"mine"
    assert client("DEL", key) == 1
    assert quorum.values(key) == [None] * 5


@pytest.mark.parametrize("words", [("NX", "PX", 20000), ("PX", 20000, "NX"), ("ex", 20, "nx"), ("nx", "Ex", 20)])
def test_options_of_set_in_any_order(client, key, words):
    assert client("SET", key, "v", *words) == "OK"
    assert 19000 < client("PTTL", key) <= 20000
    client("DEL", key)


def test_set_with_get_reports_what_was_there(client, key):
    assert client("SET", key, "a", "NX", "PX", 20000, "GET") is None
    assert client("SET", key, "b", "GET", "NX", "PX", 20000) == b"a"
    assert client("GET", key) == b"a"
    client("DEL", key)


def test_each_try_has_a_token_of_its_own(quorum, client, key):
    seen = set()
    for _ in range(3):
        client("SET", key, "v", "NX", "PX", 20000)
        seen.add(token(quorum, key))
        client("DEL", key)
    assert len(seen) == 3


def test_setnx_lives_as_long_as_ttl_says_and_expire_follows(start, quorum, key):
    with start(quorum.nodes, "--ttl", "7s").connect() as client:
        assert client("SETNX", key, "v") == 1
        assert client("SETNX", key, "w") == 0
        assert 6000 < client("PTTL", key) <= 7000
        assert client("EXPIRE", key, 60) == 1
        assert 58 <= client("TTL", key) <= 60
        client("DEL", key)


def test_absent(client, key):
    assert client("GET", key) is None
    assert client("PTTL", key) == -2
    assert client("TTL", key) == -2
    assert client("EXISTS", key) == 0
    assert client("PEXPIRE", key, 1000) == 0
    assert client("DEL", key) == 0
    assert client("UNLINK", key) == 0


def test_several_keys(client, key):
    keys = [f"{key}-{i}" for i in range(5)]
    for one in keys[:3]:
        client("SET", one, "v", "NX", "PX", 20000)
    assert client("EXISTS", *keys) == 3
    assert client("EXISTS", keys[0], keys[0]) == 2
    assert client("DEL", *keys) == 3
    assert client("UNLINK", *keys) == 0


def test_pexpire_never_shortens(client, key):
    client("SET", key, "v", "NX", "PX", 20000)
    assert client("PEXPIRE", key, 1000) == 1
    assert client("PTTL", key) > 19000
    assert client("PEXPIRE", key, 40000) == 1
    assert client("PTTL", key) > 39000
    client("DEL", key)


@pytest.mark.parametrize("command, ttl", [("PEXPIRE", 0), ("PEXPIRE", -5), ("EXPIRE", 0), ("EXPIRE", -1)])
def test_expiry_of_nothing_deletes(quorum, client, key, command, ttl):
    client("SET", key, "v", "NX", "PX", 20000)
    assert client(command, key, ttl) == 1
    assert quorum.values(key) == [None] * 5


def test_a_lock_ends_with_its_time(quorum, client, key):
    assert client("SET", key, "v", "NX", "PX", 500) == "OK"
    assert client("EXISTS", key) == 1
    until(lambda: client("SET", key, "w", "NX", "PX", 20000) == "OK", seconds=3)
    assert client("GET", key) == b"w"
    client("DEL", key)


def test_compare_and_delete(quorum, client, key):
    client("SET", key, "v", "NX", "PX", 20000)
    assert client("EVAL", RELEASE, 1, key, "w") == 0
    assert client("EXISTS", key) == 1
    assert client("EVAL", RELEASE, 1, key, "v") == 1
    assert quorum.values(key) == [None] * 5
    assert client("EVAL", RELEASE, 1, key, "v") == 0


def test_compare_and_pexpire(client, key):
    client("SET", key, "v", "NX", "PX", 20000)
    assert client("EVAL", EXTEND, 1, key, "w", 60000) == 0
    assert client("PTTL", key) <= 20000
    assert client("EVAL", EXTEND, 1, key, "v", 60000) == 1
    assert client("PTTL", key) > 58000
    client("DEL", key)


def test_evalsha_wants_a_text_that_is_known(client, key):
    sha = client("SCRIPT", "LOAD", RELEASE)
    assert client("SCRIPT", "EXISTS", sha, "0" * 40, "x") == [1, 0, 0]
    client("SET", key, "v", "NX", "PX", 20000)
    assert client("EVALSHA", sha.upper(), 1, key, "v") == 1
    fails = client("SCRIPT", "LOAD", "return #ARGV[1]")
    assert fails.decode() in str(client.error("EVALSHA", fails.upper(), 1, key))  # as in Redis: in lower case
    assert client("SCRIPT", "FLUSH") == "OK"
    assert client.error("EVALSHA", sha, 1, key, "v").code == "NOSCRIPT"


def test_value_is_bytes(quorum, client, key):
    value = bytes(range(1, 129))
    client("SET", key, value, "NX", "PX", 20000)
    assert client("GET", key) == value
    assert client("EVAL", RELEASE, 1, key, value) == 1


def test_key_is_bytes_up_to_64_kib(client):
    key = (b"\x00\r\n*1$" + b"k" * 65536)[:65536]
    assert client("SET", key, "v", "NX", "PX", 20000) == "OK"
    assert client("GET", key) == b"v"
    assert client("DEL", key) == 1
    assert "65536" in str(client.error("SET", key + b"+", "v", "NX", "PX", 20000))


def test_whole_token_of_another_client_is_a_value(quorum, client, key):
    for server in quorum.servers:
        server.ask("SET", key, "abc", "NX", "PX", 20000)
    assert client("GET", key) == b"abc"
    assert client("SET", key, "v", "NX", "PX", 20000) is None
    assert client("EVAL", RELEASE, 1, key, "ab") == 0
    assert client("EVAL", RELEASE, 1, key, "abc") == 1
    assert quorum.values(key) == [None] * 5


def test_a_minority_is_nothing(quorum, client, key):
    for server in quorum.servers[:2]:
        server.ask("SET", key, "abc", "NX", "PX", 20000)
    assert client("GET", key) is None
    assert client("EXISTS", key) == 0
    assert client("SET", key, "v", "NX", "PX", 20000) == "OK"
    client("DEL", key)


def test_deleted_behind_our_back_is_noticed(quorum, client, key):
    client("SET", key, "v", "NX", "PX", 20000)
    for server in quorum.servers:
        server.ask("DEL", key)
    until(lambda: client("GET", key) is None, seconds=2)
    assert client("SET", key, "w", "NX", "PX", 20000) == "OK"
    client("DEL", key)


def test_prefix_makes_the_key(start, quorum, key):
    with start(quorum.nodes, "--prefix", "app:").connect() as client:
        client("SET", key, "v", "NX", "PX", 20000)
        assert token(quorum, f"app:{key}").endswith(b":v")
        assert client("GET", key) == b"v"
        client("DEL", key)


def test_pipelined_requests_are_answered_in_order(client, key):
    from resp import encode
    client.raw(encode("SET", key, "v", "NX", "PX", 20000) + encode("GET", key) + encode("DEL", key) + encode("GET", key) + encode("PING"))
    assert [client.read() for _ in range(5)] == ["OK", b"v", 1, None, "PONG"]


def test_lines_as_people_type_them(client, key):
    client.raw(f'SET {key} "a \\"b\\" \\x41" NX PX 20000\r\nGET {key}\n\nDEL \'{key}\'\r\nping\r\n'.encode())
    assert [client.read() for _ in range(4)] == ["OK", b'a "b" A', 1, "PONG"]


def test_many_clients_one_key_one_holder(gateway, key):
    clients = [gateway.connect() for _ in range(30)]
    for number, one in enumerate(clients):
        one.send("SET", key, f"v{number}", "NX", "PX", 20000)
    replies = [one.read() for one in clients]
    assert replies.count("OK") == 1 and replies.count(None) == 29
    winner = replies.index("OK")
    for number, one in enumerate(clients):
        one.send("EVAL", RELEASE, 1, key, f"v{number}")
    replies = [one.read() for one in clients]
    assert replies == [int(number == winner) for number in range(30)]
    for one in clients:
        one.close()


@pytest.mark.parametrize("words", [("DELIFEQ", "{}"), ("DELEX", "IFEQ", "{}")], ids=lambda words: words[0])
def test_deletes_only_the_value_that_is_there(quorum, client, key, words):
    def delete(value):
        return client(words[0], key, *(word.format(value) for word in words[1:]))
    assert delete("v") == 0
    client("SET", key, "v", "NX", "PX", 20000)
    assert delete("w") == 0
    assert client("GET", key) == b"v"
    assert delete("v") == 1
    assert quorum.values(key) == [None] * 5


def test_delex_without_a_condition(quorum, client, key):
    assert client("DELEX", key) == 0
    client("SET", key, "v", "NX", "PX", 20000)
    assert client("DELEX", key) == 1
    assert quorum.values(key) == [None] * 5


@pytest.mark.parametrize("words", [("IFEQ", "{}"), ("XX",)], ids=lambda words: words[0])
def test_set_of_the_value_that_is_there_extends(quorum, client, key, words):
    def again(value, *time):
        return client("SET", key, value, *(word.format(value) for word in words), *time)
    assert again("v", "PX", 40000) is None
    assert client("EXISTS", key) == 0
    client("SET", key, "v", "NX", "PX", 20000)
    before = token(quorum, key)
    assert again("w", "PX", 40000) is None, "a lock is not overwritten, as XX would"
    assert client("PTTL", key) <= 20000
    assert again("v", "PX", 40000) == "OK"
    assert 38000 < client("PTTL", key) <= 40000
    assert again("v", "EX", 60) == "OK"
    assert 58000 < client("PTTL", key) <= 60000
    assert again("v", "PX", 1000) == "OK"
    assert client("PTTL", key) > 57000, "it never shortens"
    assert token(quorum, key) == before
    client("DEL", key)


def test_compared_in_a_transaction(client, key):
    client("SET", key, "v", "NX", "PX", 20000)
    assert client("MULTI") == "OK"
    assert client("SET", key, "v", "IFEQ", "v", "PX", 40000) == "QUEUED"
    assert client("DELIFEQ", key, "w") == "QUEUED"
    assert client("DELEX", key, "IFEQ", "v") == "QUEUED"
    assert client("EXEC") == ["OK", 0, 1]
    assert client("EXISTS", key) == 0


def at(seconds, unit_ms):
    return round((time.time() + seconds) * 1000 / unit_ms)


@pytest.mark.parametrize("option, command, unit_ms", [("PXAT", "PEXPIREAT", 1), ("EXAT", "EXPIREAT", 1000)])
def test_a_time_of_day_becomes_a_length(quorum, client, key, option, command, unit_ms):
    assert client(command, key, at(40, unit_ms)) == 0
    assert client("SET", key, "v", "NX", option, at(20, unit_ms)) == "OK"
    assert 18000 < client("PTTL", key) <= 20600
    assert client(command, key, at(40, unit_ms)) == 1
    assert 38000 < client("PTTL", key) <= 40600
    assert client("SET", key, "v", "XX", option, at(60, unit_ms)) == "OK"
    assert 58000 < client("PTTL", key) <= 60600
    assert client(command, key, at(10, unit_ms)) == 1
    assert client("PTTL", key) > 57000, "it never shortens"
    assert client(command, key, at(-1, unit_ms)) == 1
    assert quorum.values(key) == [None] * 5


def test_a_time_of_day_in_a_script(quorum, client, key):
    take = "local r = redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PXAT', ARGV[2]) redis.call('GET', KEYS[1]) return r"
    extend = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIREAT', KEYS[1], ARGV[2]) end return 0"
    assert "10 milliseconds" in str(client.error("EVAL", take, 1, key, "v", at(-5, 1)))
    assert client("EVAL", take, 1, key, "v", at(20, 1)) == "OK"
    assert 18000 < client("PTTL", key) <= 20000
    assert client("EVAL", take, 1, key, "w", at(20, 1)) is None
    assert client("EVAL", extend, 1, key, "w", at(40, 1)) == 0
    assert client("EVAL", extend, 1, key, "v", at(40, 1)) == 1
    assert 38000 < client("PTTL", key) <= 40000
    assert client("EVAL", extend, 1, key, "v", at(-1, 1)) == 1
    assert quorum.values(key) == [None] * 5


def test_a_script_returns_an_array(client, key):
    client("SET", key, "v", "NX", "PX", 20000)
    assert client("EVAL", "return {1, -2, redis.call('get', KEYS[1]), false, ''}", 1, key) == [1, -2, b"v", None, b""]
    assert client("EVAL", "return {}", 1, key) == []
    client("DEL", key)


def test_a_script_that_selects(client, key):
    """A pcall that fails is a table with the field err, and the script continues."""
    assert client("EVAL", "return redis.call('select', 0)", 1, key) == "OK"
    assert client("EVAL", "local r = redis.pcall('select', 1) return {r.err, redis.call('exists', KEYS[1])}", 1, key) == [
        b"ERR DB index is out of range", 0]
