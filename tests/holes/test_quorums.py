# SPDX-License-Identifier: BSD-2-Clause
"""TWO-QUORUMS: a list names the servers of two quorums, as during a migration. A client that takes
the quorum with more intact nodes changes its quorum when a node fails."""
import pytest

from crowd import NO_QUORUM, RESOURCE, redlock
from nodes import urls
from stage import Missed, play
from witness import Grant, now

TTL = 3000
LONG = 6000  # two clients start within it, and each waits 2 s for nodes that do not answer
MISCONFIGURED, CONFLICT = 78, 75
TWO_QUORUMS = -16


class Two:
    """Two quorums of three, and the list of all six."""

    def __init__(self, stage, ttl_ms=TTL):
        self.quorums = [stage.servers(3), stage.servers(3)]
        self.ids = []
        for nodes in self.quorums:
            stage.init(urls(nodes), ttl_ms)
            self.ids.append(nodes[0].ask("HGET", "redlock:node", "quorum").decode())
        self.urls = urls(self.quorums[0] + self.quorums[1])

    def where(self, grant):
        """The index of the quorum that holds it."""
        token = grant.token.encode()
        on = [sum(node.ask("GET", RESOURCE) == token for node in nodes) for nodes in self.quorums]
        assert min(on) == 0 and max(on) >= 2, on
        return on.index(max(on))

    def is_refused(self):
        """A command refuses the list with a sentence that names both quorums."""
        done = redlock(self.urls, "acquire", "-t", "1s", RESOURCE)
        named = all(number in done.stderr for number in self.ids)
        return done.returncode == MISCONFIGURED and named


def one_node_fails(stage, grant, two):
    """One node of the holder's quorum fails: the other quorum now has more intact nodes."""
    two.quorums[two.where(grant)][2].kill()
    if grant.end < now():
        raise Missed("the holder is out")


@pytest.fixture(params=["idle", "new"])
def client(request):
    """The second client is connected when the node fails, or connects afterwards."""
    return request.param


def test_two_quorums_one_fails(directory, client, told):
    def one_round(stage):
        two = Two(stage)
        holder = stage.actor(two.urls, TTL)
        other = stage.actor(two.urls, TTL) if client == "idle" else None
        grant = holder.tries()
        if not isinstance(grant, Grant):
            assert grant == TWO_QUORUMS
            assert two.is_refused()
            return
        one_node_fails(stage, grant, two)
        stage.tries_while(other or stage.actor(two.urls, TTL), grant)
    play(one_round, directory, "guarded", told)


def test_two_quorums_half_seen(directory, told):
    """At its start each client reaches one of the two quorums, which is half of its list and not
    more."""
    def one_round(stage):
        two = Two(stage, LONG)
        results = []
        for unseen in (1, 0):
            for node in two.quorums[unseen]:
                node.pause()
            results.append(stage.actor(two.urls, LONG).tries())
            for node in two.quorums[unseen]:
                node.resume()
        if not stage.shown():
            assert set(results) <= {NO_QUORUM, TWO_QUORUMS}
            assert two.is_refused()
    play(one_round, directory, "guarded", told)


def test_two_quorums_pinned(directory, told):
    """A pinned client stays with its quorum when a node of it fails."""
    def one_round(stage):
        two = Two(stage)
        mine = two.ids[0]
        holder, other = (stage.actor(two.urls, TTL, "-q", mine) for _ in range(2))
        grant = holder.wins()
        if two.where(grant) != 0:
            return {"a lock on the other quorum"}
        one_node_fails(stage, grant, two)
        stage.tries_while(other, grant)
        pinned = redlock(two.urls, "acquire", "-t", "1s", "--node-timeout", "300ms", RESOURCE,
                         settings={"REDLOCK_QUORUM": mine})
        if not stage.shown():
            assert pinned.returncode in (0, CONFLICT), pinned.stderr
        return set()
    play(one_round, directory, "guarded", told)
