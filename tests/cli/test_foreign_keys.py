# SPDX-License-Identifier: BSD-2-Clause
"""Another program writes under names that begin with redlock: what can recover does, and else the key, its type and the cure
are named."""
import json
import re
import time

import pytest

from conftest import Redlock
from servers import until

DEGRADED, NO_QUORUM, LOST = 1, 69, 80


@pytest.fixture
def guarded(three):
    """redlock(1) on three servers that are a quorum, whose members recover after a second."""
    redlock = Redlock(three.nodes, {"REDLOCK_MODE": "guarded"})
    done = redlock("quorum", "init", "--yes", "--never-used", "--ttl-max", "1s")
    assert done.returncode == 0, done.stderr
    return redlock


def fences_of(server):
    return "redlock:fences:" + server.ask("HGET", "redlock:node", "nonce").decode()


def findings(redlock):
    report = json.loads(redlock("doctor", "--json", "--samples=1").stdout)
    return {finding["name"]: finding for finding in report["findings"]}


def comes_back(redlock, resource):
    """All three are intact, and vote. A command hands on what it has waited: it has to live for a while."""
    def intact():
        assert redlock("run", "-t", "1s", "--wait=10s", resource, "sleep", "0.2").returncode == 0
        report = json.loads(redlock("quorum", "status", "--json").stdout)
        return [member["standing"] for member in report["members"]] == ["intact"] * 3
    until(intact, 20, "a quorum of three intact members")


@pytest.mark.parametrize("value", [("SET", "x"), ("RPUSH", "x"), ("HSET", "x", "y")])
def test_fences_of_a_recovering_member(three, guarded, resource, value):
    three[0].ask("FLUSHALL")
    three[0].ask(value[0], "redlock:fences:kept", *value[1:])
    comes_back(guarded, resource)
    assert sorted(three[0].ask("KEYS", "redlock:*")) == sorted([b"redlock:node", fences_of(three[0]).encode()])


def test_fences_of_a_member_that_votes(three, guarded, resource):
    three[0].ask("SET", fences_of(three[0]), "x")
    found = findings(guarded)["FOREIGN-KEY"]
    assert found["severity"] == "error" and found["nodes"] == [1]
    assert f"wrote redlock's key {fences_of(three[0])}: it holds a value of type string" in found["why"]
    assert "DEL that key" in found["cure"]
    # A node that answers after the majority may not be asked again before the lock ends.
    until(lambda: guarded("run", "-t", "1s", resource, "sleep", "0.2").returncode == 0 and
          three[0].ask("TYPE", fences_of(three[0])) == b"zset", 30)
    comes_back(guarded, resource)
    assert "FOREIGN-KEY" not in findings(guarded)


# The record stays, and votes need the fences.

def bare(server, value):
    server.ask("DEL", fences_of(server))
    if value:
        server.ask("SET", fences_of(server), value)


def status(redlock):
    """The exit status, the state, and of each member the standing, when it votes again, and whether its fences are missing."""
    done = redlock("quorum", "status", "--json")
    report = json.loads(done.stdout)
    members = [(member["standing"], member["recovering_ms"], "its fences are missing" in (member["reason"] or "")) for member in report["members"]]
    return done.returncode, report["state"], members


@pytest.mark.parametrize("value", [None, "x"], ids=["deleted", "overwritten"])
def test_a_majority_without_fences(three, guarded, resource, value):
    done = guarded("run", "-t", "1s", resource, "--", "sh", "-c", "echo $REDLOCK_FENCE")
    assert done.returncode == 0, done
    fence = int(done.stdout)
    for server in three.servers[:2]:
        bare(server, value)
    bares = ("recovering", None, True)
    assert status(guarded) == (NO_QUORUM, "no-quorum", [bares, bares, ("intact", None, False)])
    done = guarded("quorum", "status")
    table = done.stdout.decode()
    assert done.returncode == NO_QUORUM and table.count(
        "recovering: its fences are missing; it votes again some time after a majority of the quorum is intact\n") == 2, table
    assert table.endswith("1 of 3 members is intact, and 2 are needed: no lock can be taken. "
                          "If the data of a majority is lost for good: redlock quorum init\n")

    done = guarded("quorum", "set-ttl-max", "--yes", "2s")  # no change begins
    assert done.returncode == NO_QUORUM and b"nothing is done: " in done.stderr, done
    began = time.monotonic()
    done = guarded("quorum", "init", "--yes")
    assert done.returncode == 0 and time.monotonic() - began >= 1, done
    assert b"fewer than a majority of this quorum is intact" in done.stderr
    assert status(guarded) == (0, "intact", [("intact", None, False)] * 3)
    assert [server.ask("TYPE", fences_of(server)) for server in three.servers] == [b"zset"] * 3
    done = guarded("run", "-t", "1s", resource, "--", "sh", "-c", "echo $REDLOCK_FENCE")
    assert done.returncode == 0 and int(done.stdout) > fence, done


@pytest.mark.parametrize("value", [None, "x"], ids=["deleted", "overwritten"])
def test_a_minority_without_fences(three, guarded, resource, value):
    bare(three[1], value)
    code, state, members = status(guarded)
    assert (code, state, members[0], members[2]) == (DEGRADED, "degraded", ("intact", None, False), ("intact", None, False))
    assert members[1][0] == "recovering" and members[1][1] > 0 and members[1][2], members
    done = guarded("quorum", "status")
    assert done.returncode == DEGRADED, done
    assert re.search(rb"recovering: its fences are missing; it votes again in about \d+ s\n", done.stdout), done.stdout
    done = guarded("quorum", "init", "--yes")
    assert done.returncode == 0 and b"nothing to do" in done.stderr, done
    assert guarded("quorum", "status", "-q", "--wait=20s").returncode == 0  # a client that waits brings it back
    assert three[1].ask("TYPE", fences_of(three[1])) == b"zset"
    assert guarded("run", "-t", "1s", resource, "true").returncode == 0


@pytest.mark.parametrize("junk, why", [
    ([("SET", "redlock:node", "junk")], "another program wrote redlock:node, which is not a hash any more: delete that key, and"),
    ([("DEL", "redlock:node"), ("HSET", "redlock:node", "name", "Ada")],
     "redlock:node holds a hash that is not a record, or is damaged: delete that key, and clients bring the node back"),
    ([("HSET", "redlock:node", "format", "99")], "its record (redlock:node) is of a newer version of redlock: update this program")])
def test_the_record(three, guarded, resource, junk, why):
    for command in junk:
        three[0].ask(*command)
    done = guarded("quorum", "status")
    assert done.returncode == 1 and f"{three[0].url}  {why}" in done.stdout.decode()
    assert why in findings(guarded)["UNFIT"]["why"]
    assert why.encode() in guarded("run", "-v", resource, "true").stderr
    foreign = findings(guarded).get("FOREIGN-KEY")
    if junk[0][0] == "SET":
        assert "redlock:node: it holds a value of type string" in foreign["why"]
    else:
        assert foreign is None  # the type is right
    three[0].ask("DEL", "redlock:node")  # the cure
    comes_back(guarded, resource)


@pytest.mark.parametrize("mode", ["classic", "guarded"])
def test_the_readers(three, guarded, resource, mode):
    """While the key is there, its readers are unknown; the next key has a new list."""
    redlock = Redlock(three.nodes, {"REDLOCK_MODE": mode})
    for server in three.servers:
        server.ask("SET", resource, "redlock:shared", "PX", "900")
        server.ask("SET", f"redlock:shared:{resource}", "x")
    done = redlock("acquire", "--shared", "-t", "1s", resource)
    assert done.returncode == LOST
    assert done.stderr.decode().splitlines()[0] == (
        f"redlock: {resource}: another program wrote redlock:shared:{resource} on {three[0].url}: it holds a value of type "
        "string: delete that key")
    assert redlock("run", "--shared", "-t", "1s", "--wait=10s", resource, "true").returncode in (0, LOST)
    until(lambda: redlock("run", "--shared", "-t", "1s", resource, "true").returncode == 0)
    assert [server.ask("EXISTS", f"redlock:shared:{resource}") for server in three.servers] == [0] * 3


def test_the_owner_of_an_old_lock(own_quorum, resource):
    server = own_quorum[0]
    server.ask("SET", f"redlock:setnx:{resource}", "x")
    redlock = Redlock(f"{server.url}?scheme=setnx")
    assert redlock("run", "-t", "2s", resource, "true").returncode == 0
    assert server.ask("DBSIZE") == 0
