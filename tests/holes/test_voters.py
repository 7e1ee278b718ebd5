# SPDX-License-Identifier: BSD-2-Clause
"""Who votes, and for whom: FAILOVER, QUORUM-MISMATCH, TWICE-LISTED."""
import time

import pytest

from conftest import ROUNDS, TRIES
from crowd import (ALLOW_REPLICAS, EIGHT, RESOURCE, SHORT, TWICE_LISTED, Crowd, Staged, hit_in_guarded, init, redlock,
                   show_in_classic, strike, wait_intact)
from nodes import Address, Group, Node, until, urls

TTL = 1200


# ---- a replica that is promoted while its master lives on ----

class Pair:
    """A master and its replica behind one address. The replica hears from its master through an address of its own, so
    that it can be made to lag."""

    def __init__(self):
        self.servers = Group(2, "--repl-diskless-sync-delay", "0")
        self.master, self.replica = self.servers.nodes
        self.address = Address(self.master.port)
        self.stream = None
        self.attach()

    @property
    def url(self):
        return self.address.url

    def ask(self, *words):
        return self.master.ask(*words)

    def attach(self):
        self.stream = Address(self.master.port)
        self.replica.ask("REPLICAOF", "127.0.0.1", self.stream.port)
        until(lambda: self.replica.info("replication", "master_link_status") == "up", what="the replica in step")

    def promote(self):
        """The replica, which lags, is master now; new connections come to it. Half of the clients stay where they are."""
        self.replica.ask("REPLICAOF", "NO", "ONE")
        self.master, self.replica = self.replica, self.master
        self.address.target = self.master.port
        assert self.address.cut(every=2) >= EIGHT // 2

    def old_master_becomes_replica(self):
        """When the clients are gone from it: as an operator does, afterwards."""
        self.stream.close()
        self.attach()

    def close(self):
        self.address.close()
        self.stream.close()
        self.servers.close()


class LaggingStaged(Staged):
    def __init__(self, crowd, voters, third, pair):
        super().__init__(crowd, voters, third)
        self.pair = pair

    def prepare(self):
        super().prepare()
        until(lambda: self.pair.replica.ask("EXISTS", RESOURCE) == 0, what="the release at the replica")
        self.pair.stream.hold()


def play_failover(pair, others, directory, mode, told):
    nodes = [others[0], pair, others[1]]
    if mode == "guarded":
        init(urls(nodes), TTL, settings=ALLOW_REPLICAS)
    with Crowd(directory, mode, TTL) as crowd:
        crowd.hold(SHORT)
        crowd.start(urls(nodes), EIGHT, "-R")
        crowd.entered(3)
        staged = LaggingStaged(crowd, nodes[:2], nodes[2], pair)

        def one_try():
            hit, shown = strike(staged, pair.promote)
            assert pair.replica.info("replication", "role") == "master"  # the old one lives on as such
            return hit, shown
        if mode == "classic":
            told(f"two holders at once in try {show_in_classic(TRIES, one_try)}")
            return

        def settled():
            wait_intact(urls(nodes), settings=ALLOW_REPLICAS)
            crowd.entered(3)
            pair.address.cut()
            pair.old_master_becomes_replica()
        tries = hit_in_guarded(ROUNDS, one_try, settled)
    grants = crowd.no_two_at_once()
    crowd.fences_grow()
    told(f"{ROUNDS} hits in {tries} tries, {len(grants)} grants, never two holders, fences grow")


def test_failover(directory, mode, told):
    pair = Pair()
    try:
        with Group(2) as others:
            play_failover(pair, others, directory, mode, told)
    finally:
        pair.close()


# ---- different lists ----

def test_quorum_mismatch(directory, mode, told):
    """Three of five, and another three of five: their majorities of two need not meet, the quorum's of three must."""
    with Group(5) as nodes:
        if mode == "guarded":
            init(urls(nodes), TTL)
        with Crowd(directory, mode, TTL) as crowd:
            crowd.hold(SHORT)
            sides = [crowd.start(urls(nodes[first:first + 3]), EIGHT // 2) for first in (0, 2)]
            crowd.entered(1)
            until(lambda: crowd.two_at_once() or len(crowd.witness.grants()) >= 150, 30)
        if mode == "classic":
            assert crowd.two_at_once(), f"no two holders at once in {len(crowd.witness.grants())} grants"
            told(f"two holders at once within {len(crowd.witness.grants())} grants")
            return
        grants = crowd.no_two_at_once()
        crowd.fences_grow()
        for side in sides:
            assert any(grant.pid == worker.pid for grant in grants for worker in side)
        told(f"{len(grants)} grants to both sides, never two holders, fences grow")


# ---- one server under three names ----

@pytest.fixture
def thrice(directory):
    """Three servers, and the first of them also under localhost and a Unix socket."""
    path = directory / "socket"
    first = Node("--unixsocket", str(path))
    try:
        with Group(2) as others:
            yield [first, *others], [first.url, f"redis://localhost:{first.port}", f"unix://{path}"]
    finally:
        first.close()


def flush_first(crowd, nodes):
    staged = Staged(crowd, nodes[:2], nodes[2])
    return strike(staged, lambda: nodes[0].ask("FLUSHALL"))


def test_twice_listed_is_refused(thrice, directory, told):
    """In classic mode too, by the servers' run_id."""
    nodes, names = thrice
    everything = ",".join([*names, urls(nodes[1:])])
    done = redlock(everything, "quorum", "init", "--yes", "--never-used")
    assert done.returncode == 78 and "is a server that is in the list already" in done.stderr, done.stderr
    with Crowd(directory, "classic", TTL) as crowd:
        crowd.start(everything)
        until(lambda: len(crowd.witness.tried()) >= EIGHT, what="everyone's result")
        time.sleep(0.2)
        assert {result for _, result, _ in crowd.witness.tried()} == {TWICE_LISTED}
        assert crowd.witness.grants() == []
    told("classic and quorum init refuse the list")


def test_twice_listed_where_info_is_refused(thrice, directory, told):
    """Classic mode cannot know then. Three databases of one server are a majority of five: when it alone forgets, there
    are two holders."""
    nodes, names = thrice
    for node in nodes:
        node.ask("ACL", "SETUSER", "default", "-info")
    names = [names[0], names[1] + "/1", names[2] + "?db=2"]
    with Crowd(directory, "classic", TTL) as crowd:
        crowd.hold(SHORT)
        crowd.start(",".join([*names, urls(nodes[1:])]))
        crowd.entered(3)
        number = show_in_classic(TRIES, lambda: flush_first(crowd, nodes))
    told(f"two holders at once in try {number}")


def test_twice_listed_in_guarded_mode(thrice, directory, told):
    """A member is the same, whatever a client calls it; and who calls it by two names at once is refused."""
    nodes, names = thrice
    init(urls(nodes), TTL)
    with Crowd(directory, "guarded", TTL) as crowd:
        crowd.hold(SHORT)
        refused = crowd.start(",".join([*names, urls(nodes[1:])]), 2)
        for name in names:
            crowd.start(",".join([name, urls(nodes[1:])]), 2)
        crowd.entered(3)

        def recovered():
            wait_intact(urls(nodes))
            crowd.entered(3)
        tries = hit_in_guarded(1, lambda: flush_first(crowd, nodes), recovered)
    grants = crowd.no_two_at_once()
    crowd.fences_grow()
    pids = {worker.pid for worker in refused}
    assert {result for pid, result, _ in crowd.witness.tried() if pid in pids} == {TWICE_LISTED}
    assert pids.isdisjoint(grant.pid for grant in grants)
    assert len({grant.pid for grant in grants}) > 2
    told(f"1 hit in {tries} tries, {len(grants)} grants by three names, never two holders, fences grow; two names refused")
