# SPDX-License-Identifier: BSD-2-Clause
"""show: ours and other clients' locks, what a majority says, and no secrets."""
import json

import pytest

TOKEN = "0123456789abcdef0123456789abcdef01234567"


def put(servers, resource, token, *more):
    for server in servers:
        server.ask("SET", resource, token, *more)


def test_free(locked, resource):
    done = locked("show", resource)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode().splitlines()[0] == f"{resource}: free"
    assert done.stdout.decode().count("  free") == 5


def test_lock_of_another_client(locked, quorum, resource):
    put(quorum.servers, resource, "v", "NX", "PX", "15000")
    done = locked("show", resource)
    first, *nodes = done.stdout.decode().splitlines()
    assert first.startswith(f"{resource}: held by token …, ends in 14.")
    assert first.endswith("(5 of 5 nodes)")
    assert len(nodes) == 5
    assert all(server.url in line and "ends in 14." in line for server, line in zip(quorum.servers, nodes))
    assert "token v," in locked("show", "--tokens", resource).stdout.decode()


def test_ours_shows_the_owner_and_not_the_token(locked, resource):
    token = json.loads(locked("acquire", "--json", "-o", "backup on host1", resource).stdout)["token"]
    shown = locked("show", resource).stdout.decode()
    assert f"{resource}: held by backup on host1, token {token[:8]}…, ends in 29." in shown
    assert token[:10] not in shown
    assert token in locked("show", "--tokens", resource).stdout.decode()


def test_no_ttl_and_wrong_type(locked, quorum, resource):
    put(quorum.servers, resource, TOKEN)
    assert "never ends: the key has no TTL" in locked("show", resource).stdout.decode()
    for server in quorum.servers:
        server.ask("DEL", resource)
        server.ask("RPUSH", resource, "x")
    done = locked("show", resource)
    assert "key holds something other than a string" in done.stdout.decode()
    assert f"{resource}: the key holds a list: not a lock" in done.stdout.decode()
    assert done.returncode == 0
    shown = json.loads(locked("show", "--json", resource).stdout)[0]
    assert (shown["verdict"], shown["type"]) == ("foreign", "list")


@pytest.mark.parametrize("command, text", [
    (["HSET", "f", "v"], "a hash"), (["SADD", "x"], "a set"), (["ZADD", "1", "x"], "a sorted set"), (["XADD", "*", "f", "v"], "a stream")])
def test_names_what_a_key_holds(locked, quorum, resource, command, text):
    for server in quorum.servers:
        server.ask(command[0], resource, *command[1:])
    assert locked("show", resource).stdout.decode().startswith(f"{resource}: the key holds {text}: not a lock\n")
    done = locked("acquire", resource)
    assert (done.returncode, done.stderr.decode()) == (75, f"redlock: {resource}: the key holds {text}: not a lock\n")


def test_a_type_that_the_user_may_not_ask_for(redlock, quorum, resource):
    for server in quorum.servers:
        server.ask("RPUSH", resource, "x")
        server.ask("ACL", "SETUSER", "typeless", "on", ">x", "~*", "+@all", "-type")
    nodes = quorum.nodes.replace("redis://", "redis://typeless:x@")
    done = redlock("acquire", resource, environ={"REDLOCK_NODES": nodes})
    assert (done.returncode, done.stderr.decode()) == (75, f"redlock: {resource}: the key holds a list, a hash or another structure: not a lock\n")


def test_the_type_is_asked_for_only_then(locked, quorum, resource):
    for server in quorum.servers:
        server.ask("CONFIG", "RESETSTAT")
    locked("acquire", resource)
    locked("acquire", resource)
    locked("show", resource)
    for server in quorum.servers:
        assert b"cmdstat_type" not in server.ask("INFO", "commandstats")


def test_split(locked, quorum, resource):
    put(quorum.servers[:2], resource, "aaaaaaaa", "PX", "9000")
    put(quorum.servers[2:4], resource, "bbbbbbbb", "PX", "9000")
    done = locked("show", resource)
    assert done.stdout.decode().startswith(f"{resource}: split: no majority")
    assert done.returncode == 0


def test_the_end_is_that_of_the_majority(locked, quorum, resource):
    for server, ms in zip(quorum.servers, (60000, 9500, 50000, 20500, 1000000)):
        server.ask("SET", resource, TOKEN, "PX", ms)
    # Sorted: 1000 s, 60 s, 50 s, ...: when the third ends, two are left.
    assert f"{resource}: held by token 01234567…, ends in 49." in locked("show", resource).stdout.decode()


def test_no_majority_answers(own_quorum, redlock, resource):
    put(own_quorum.servers, resource, TOKEN, "PX", "60000")
    for server in own_quorum.servers[:2]:
        server.pause()
    done = redlock("show", resource, environ={"REDLOCK_NODES": own_quorum.nodes})
    assert done.returncode == 0
    assert "(3 of 5 nodes)" in done.stdout.decode()
    own_quorum[2].pause()
    done = redlock("show", resource, environ={"REDLOCK_NODES": own_quorum.nodes})
    assert done.returncode == 69
    assert f"{resource}: unknown: 2 of 5 nodes answered, 3 are needed" in done.stdout.decode()


def test_list(locked, quorum, resource):
    for name in ("b", "a"):
        put(quorum.servers, f"{resource}:{name}", TOKEN, "PX", "60000")
    put(quorum.servers, f"{resource}:no-lock", "value")
    done = locked("show", "-p", f"{resource}:")
    heads = [line for line in done.stdout.decode().splitlines() if not line.startswith(" ")]
    assert [line.split(":")[0] for line in heads] == ["a", "b"]
    assert done.returncode == 0
    empty = locked("show", "-p", f"{resource}-empty:")
    assert (empty.returncode, empty.stdout) == (0, b"")
    assert b"no locks" in empty.stderr


def test_controls_do_not_reach_the_terminal(locked, quorum, resource):
    put(quorum.servers, resource, TOKEN.encode() + b":evil\x1b[2J\x9b\xc2\x9b\n", "PX", "60000")
    shown = locked("show", resource).stdout
    assert b"evil\\x1b[2J\\x9b\\xc2\\x9b\\x0a" in shown
    assert b"\x1b" not in shown


def test_json(locked, quorum, resource):
    put(quorum.servers[:4], resource, TOKEN + ":me", "PX", "60000")
    one, free = json.loads(locked("show", "--json", resource, resource + "-free").stdout)
    assert (one["verdict"], one["owner"], one["token"]) == ("held", "me", "01234567…")
    assert 55000 < one["remaining_ms"] <= 60000
    assert [node["verdict"] for node in one["nodes"]] == ["held"] * 4 + ["absent"]
    assert [node["url"] for node in one["nodes"]] == [server.url for server in quorum.servers]
    assert (free["resource"], free["verdict"]) == (resource + "-free", "free")
    (whole,) = json.loads(locked("show", "--json", "--tokens", resource).stdout)
    assert whole["token"] == TOKEN + ":me"
