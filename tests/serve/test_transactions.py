# SPDX-License-Identifier: BSD-2-Clause
"""WATCH, MULTI, EXEC as StackExchange.Redis sends them for LockRelease and LockExtend, and what else may come."""
import itertools
import time

import pytest

from conftest import guarded
from resp import Connection
from servers import Quorum

@pytest.fixture
def held(client, key):
    client("SET", key, "mine", "NX", "PX", 20000)
    yield key
    client("DEL", key)


def test_lock_release(quorum, client, held):
    assert client("WATCH", held) == "OK"
    assert client("GET", held) == b"mine"
    assert client("MULTI") == "OK"
    assert client("DEL", held) == "QUEUED"
    assert client("EXEC") == [1]
    assert quorum.values(held) == [None] * 5


def test_lock_extend(client, held):
    client("WATCH", held)
    assert client("GET", held) == b"mine"
    client("MULTI")
    assert client("PEXPIRE", held, 60000) == "QUEUED"
    assert client("EXEC") == [1]
    assert client("PTTL", held) > 58000


@pytest.mark.parametrize("effect", [("DEL",), ("PEXPIRE", 60000), ("GET",), ("SET",)])
def test_exec_does_nothing_when_the_lock_is_another_by_then(quorum, gateway, client, held, effect):
    client("WATCH", held)
    with gateway.connect() as other:
        other("DEL", held)
        other("SET", held, "theirs", "NX", "PX", 20000)
    client("MULTI")
    words = {"DEL": ("DEL", held), "PEXPIRE": ("PEXPIRE", held, 60000), "GET": ("GET", held), "SET": ("SET", held, "v", "NX", "PX", 20000)}
    client(*words[effect[0]])
    assert client("EXEC") is None
    assert client("GET", held) == b"theirs"
    assert client("PTTL", held) <= 20000


def test_the_same_when_it_was_deleted_on_the_nodes(quorum, client, held):
    client("WATCH", held)
    for server in quorum.servers:
        server.ask("SET", held, "theirs", "PX", 20000)
    client("MULTI")
    client("DEL", held)
    assert client("EXEC") is None
    assert quorum.values(held) == [b"theirs"] * 5


def test_watched_while_free(gateway, client, key):
    client("WATCH", key)
    client("MULTI")
    client("SET", key, "v", "NX", "PX", 20000)
    assert client("EXEC") == ["OK"]
    client("DEL", key)
    client("WATCH", key)
    with gateway.connect() as other:
        other("SET", key, "theirs", "NX", "PX", 20000)
    client("MULTI")
    client("SET", key, "v", "NX", "PX", 20000)
    assert client("EXEC") is None
    client("DEL", key)


def test_several_commands_in_one_turn(client, key):
    client("MULTI")
    for words in [("SET", key, "v", "NX", "PX", 20000), ("GET", key), ("EXISTS", key), ("TTL", key), ("PEXPIRE", key, 60000), ("DEL", key), ("GET", key)]:
        assert client(*words) == "QUEUED"
    assert client("EXEC") == ["OK", b"v", 1, 20, 1, 1, None]


def test_unwatch_and_discard_forget(gateway, client, held):
    for forget in [("UNWATCH",), ("MULTI", "DISCARD")]:
        client("WATCH", held)
        for word in forget:
            assert client(word) == "OK"
        with gateway.connect() as other:
            other("PEXPIRE", held, 60000)
        client("MULTI")
        client("GET", held)
        assert client("EXEC") == [b"mine"]


def test_the_first_watch_counts(gateway, client, held):
    client("WATCH", held)
    with gateway.connect() as other:
        other("DEL", held)
        other("SET", held, "theirs", "NX", "PX", 20000)
    client("WATCH", held)
    client("MULTI")
    client("DEL", held)
    assert client("EXEC") is None


def test_empty_and_out_of_order(client):
    client("MULTI")
    assert client("EXEC") == []
    assert str(client.error("EXEC")) == "ERR EXEC without MULTI"
    assert str(client.error("DISCARD")) == "ERR DISCARD without MULTI"
    client("MULTI")
    assert str(client.error("MULTI")) == "ERR MULTI calls can not be nested"
    assert str(client.error("WATCH", "k")) == "ERR WATCH inside MULTI is not allowed"
    assert client("DISCARD") == "OK"


@pytest.mark.parametrize("words", [("FLUSHALL",), ("SET", "k", "v"), ("GET",), ("EVAL", "return 1", 1, "k"), ("DEL", "k", "l"), ("GET", "another"), ("PING",),
                                   ("SET", "k", "v", "NX", "PX", "soon"), ("PEXPIRE", "k", "1s"), ("PEXPIRE", "k", 1, "LT")])
def test_what_is_refused_between_them_breaks_it(client, key, words):
    client("MULTI")
    client("DEL", key)
    assert client.error(*words).code == "ERR"
    assert client.error("EXEC").code == "EXECABORT"
    assert client("GET", key) is None


def test_it_is_on_one_lock(client, key):
    client("WATCH", key)
    assert "one lock" in str(client.error("WATCH", key + "2"))
    assert client("UNWATCH") == "OK"
    assert "one lock" in str(client.error("WATCH", key, key + "2"))


def test_more_than_a_transaction_holds(client, key):
    client("MULTI")
    for _ in range(32):
        assert client("GET", key) == "QUEUED"
    assert "32" in str(client.error("GET", key))
    assert client.error("EXEC").code == "EXECABORT"


def test_more_bytes_than_a_transaction_holds(client, key):
    """A long key counts once."""
    long = key + "k" * 60000
    client("MULTI")
    for _ in range(20):
        assert client("DEL", long) == "QUEUED"
    assert client("SET", long, "v" * 60000, "NX", "PX", 20000) == "QUEUED"
    assert "128 KiB" in str(client.error("SET", long, "v" * 60000, "NX", "PX", 20000))
    assert client.error("EXEC").code == "EXECABORT"
    client("MULTI")
    for words in [("DEL", long), ("SET", long, "v", "NX", "PX", 20000), ("GET", long), ("DEL", long)]:
        assert client(*words) == "QUEUED"
    assert client("EXEC") == [0, "OK", b"v", 1]


def test_nil_of_exec_in_resp3(gateway, held):
    with gateway.connect() as client, gateway.connect() as other:
        client("HELLO", 3)
        client("WATCH", held)
        other("DEL", held)
        client("MULTI")
        client("DEL", held)
        client.send("EXEC")
        assert client._line() == b"_"


# ---- what changed between WATCH and EXEC ----

HELD = [("held", "DEL"), ("held", "DEL SET"), ("held", "DEL SET DEL"), ("held", "PEXPIRE"), ("free", "SET"), ("free", "SET DEL"), ("free", "SET DEL SET")]
COMMANDS = ["GET", "EXISTS", "PTTL", "DEL", "PEXPIRE", "SET"]


def words(name, key, value):
    return {"SET": ("SET", key, value, "NX", "PX", 20000), "PEXPIRE": ("PEXPIRE", key, 30000)}.get(name, (name, key))


def executed(client, other, key, first, meanwhile, command):
    client("DEL", key)
    if first == "held":
        client(*words("SET", key, "mine"))
    client("WATCH", key)
    client("GET", key)
    for name in meanwhile.split():
        other(*words(name, key, "theirs"))
    client("MULTI")
    client(*words(command, key, "new"))
    return client("EXEC")


@pytest.fixture(scope="module")
def guarded_quorum():
    with Quorum(5) as servers:
        yield guarded(servers)


@pytest.fixture(params=["classic", "guarded"])
def nodes(request):
    if request.param == "classic":
        return request.getfixturevalue("quorum").nodes
    return request.getfixturevalue("guarded_quorum").nodes


def test_nil_when_it_changed_through_this_gateway(start, nodes, key):
    """Even if it is as it was, and whatever the transaction would do."""
    with start(nodes).connect() as client, Connection(client.socket.getpeername()) as other:
        for (first, meanwhile), command in itertools.product(HELD, COMMANDS):
            found = executed(client, other, key, first, meanwhile, command)
            assert found is None, (first, meanwhile, command, found)
            assert client("GET", key) == (b"theirs" if meanwhile.endswith("SET") else b"mine" if meanwhile == "PEXPIRE" else None)


def test_not_nil_when_it_did_not_change(start, nodes, key):
    with start(nodes).connect() as client, Connection(client.socket.getpeername()) as other:
        for first, command in itertools.product(["held", "free"], COMMANDS):
            found = executed(client, other, key, first, "", command)
            assert found is not None and len(found) == 1, (first, command, found)
            assert first == "free" or command in ("GET", "PTTL") or found == [{"SET": None}.get(command, 1)]


def test_nil_when_it_changed_through_another_gateway(start, nodes, key):
    one, another = start(nodes), start(nodes)
    with one.connect() as client, another.connect() as other:
        for (first, meanwhile), command in itertools.product([("held", "DEL"), ("held", "DEL SET"), ("free", "SET")], ["DEL", "PEXPIRE", "SET"]):
            found = executed(client, other, key, first, meanwhile, command)
            assert found is None, (first, meanwhile, command, found)
            assert other("GET", key) == (b"theirs" if meanwhile.endswith("SET") else None)
            other("DEL", key)


def test_nil_when_its_time_ended(start, nodes, key):
    with start(nodes).connect() as client:
        for command in ["DEL", "PEXPIRE", "SET"]:
            client("SET", key, "mine", "NX", "PX", 600)
            client("WATCH", key)
            time.sleep(0.7)
            client("MULTI")
            client(*words(command, key, "new"))
            assert client("EXEC") is None


def test_a_lock_of_another_gateway_that_did_not_change(start, nodes, key):
    """Guarded, its fencing token is not known here: that is an error, and no nil."""
    one, another = start(nodes), start(nodes)
    with one.connect() as here, another.connect() as there:
        there("SET", key, "v", "NX", "PX", 20000)
        for command, answer in [("SET", [None]), ("GET", [b"v"]), ("PEXPIRE", [1]), ("DEL", [1])]:
            here("WATCH", key)
            here("MULTI")
            here(*words(command, key, "new"))
            here.send("EXEC")
            found = here.read()
            assert found == answer or (command == "PEXPIRE" and "fencing token is not known" in str(found)), (command, found)


@pytest.mark.parametrize("command", ["GET", "SET", "DEL", "PEXPIRE"])
def test_an_error_when_it_cannot_know(start, own_quorum, key, command):
    """Nothing has changed, as far as it knows, and too few nodes answer."""
    one, another = start(own_quorum.nodes), start(own_quorum.nodes)
    with one.connect() as here, another.connect() as there:
        there("SET", key, "v", "NX", "PX", 20000)
        here("WATCH", key)
        for server in own_quorum.servers[:3]:
            server.pause()
        here("MULTI")
        here(*words(command, key, "new"))
        assert here.error("EXEC").code == "NOQUORUM"
        for server in own_quorum.servers[:3]:
            server.resume()


def test_a_watched_key_is_forgotten_with_its_client(start, quorum, key):
    """One that watches keeps the key; those that leave, in whatever state, leave nothing."""
    gateway = start(quorum.nodes)
    with gateway.connect() as client:
        for last in [(), ("MULTI",), ("UNWATCH",), ("RESET",)]:
            with gateway.connect() as one:
                one("WATCH", key)
                client("SET", key, "v", "NX", "PX", 20000)
                client("DEL", key)
                if last:
                    one(*last)
        with gateway.connect() as one:
            one.send("WATCH", key)
        assert client("SET", key, "v", "NX", "PX", 20000) == "OK"
        assert client("DEL", key) == 1
