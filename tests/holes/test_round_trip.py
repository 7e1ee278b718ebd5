# SPDX-License-Identifier: BSD-2-Clause
"""ROUND-TRIP: a member's replica, which lags, is promoted; the member becomes its replica and is
promoted back. Its process, run_id and record are the same as before, its data are older. The wall
clock of the second client is an hour behind, so it proposes a lower fencing token than the
holder's, which the member has forgotten."""
import time

import pytest

from crowd import ALLOW_REPLICAS, HELD, NO_QUORUM, RESOURCE, redlock
from nodes import Address, until, urls
from stage import Missed, lies_on, play
from witness import Grant, now

TTL = 3000
LOOKS = 2.2  # seconds: clients look at a node's replicas about once a second
HOUR_BEHIND = ("-b", "3600")


def nonce(node):
    return node.ask("HGET", "redlock:node", "nonce")


class Member:
    """A server and its replica, which lags on demand."""

    def __init__(self, stage):
        self.node, self.replica = stage.servers(2, "--repl-diskless-sync-delay", "0")
        self.stream = Address(self.node.port)
        stage.callback(self.stream.close)

    def attach(self):
        self.replica.ask("REPLICAOF", "127.0.0.1", self.stream.port)
        until(self.in_step, what="the replica in step")

    def in_step(self):
        if self.replica.info("replication", "master_link_status") != "up":
            return False
        online = b"state=online" in self.node.ask("INFO", "replication")
        return online and nonce(self.replica) == nonce(self.node)

    def lag(self):
        until(self.in_step, what="the replica in step")
        self.stream.hold()

    def goes_and_returns(self):
        """The process stays the same."""
        run_id = self.node.info("server", "run_id")
        self.replica.ask("REPLICAOF", "NO", "ONE")
        self.node.ask("REPLICAOF", "127.0.0.1", self.replica.port)
        until(lambda: self.node.info("replication", "master_link_status") == "up",
              what="the full resynchronisation")
        self.node.ask("REPLICAOF", "NO", "ONE")
        assert self.node.info("server", "run_id") == run_id


class Trio:
    """Three nodes. The holder reaches two of them: the member that makes the trip, and one that
    stays."""

    def __init__(self, stage, *options):
        self.stage, self.options = stage, options
        self.member = Member(stage)
        self.stays, self.third = stage.servers(2)
        self.urls = urls([self.stays, self.member.node, self.third])
        self.holders_urls = ",".join([urls([self.stays, self.member.node]), stage.unreachable()])

    def holder(self):
        return self.stage.actor(self.holders_urls, TTL, *self.options)

    def other(self):
        return self.stage.actor(self.urls, TTL, *HOUR_BEHIND, *self.options)

    def trip(self, grant):
        assert lies_on(grant, [self.stays, self.member.node])
        assert self.third.ask("EXISTS", RESOURCE) == 0
        self.member.goes_and_returns()
        if grant.end < now():
            raise Missed("the holder is out")


def test_round_trip_refused(directory, mode, told):
    """Replicas are not allowed: a member that gets one is refused."""
    def one_round(stage):
        trio = Trio(stage)
        stage.init(trio.urls, TTL)
        holder, other = trio.holder(), trio.other()
        trio.member.attach()
        time.sleep(LOOKS)
        trio.member.lag()
        grant = holder.tries()
        if isinstance(grant, Grant):
            trio.trip(grant)
            stage.tries_while(other, grant)
            return
        assert grant == NO_QUORUM
        shown = redlock(trio.urls, "quorum", "status").stdout
        line = next(line for line in shown.splitlines() if trio.member.node.url in line)
        assert "replica" in line, shown
        other.wins()
        trio.member.goes_and_returns()
        assert holder.tries() in (HELD, NO_QUORUM)
    play(one_round, directory, mode, told)


@pytest.fixture(params=["idle", "new"])
def client(request):
    """The second client is connected and idle during the trip, or connects afterwards."""
    return request.param


def test_round_trip_noticed(directory, mode, client, told):
    """Replicas are allowed: clients notice the trip before the next vote of the member counts."""
    def one_round(stage):
        trio = Trio(stage, "-R")
        trio.member.attach()
        stage.init(trio.urls, TTL, settings=ALLOW_REPLICAS)
        holder = trio.holder()
        other = trio.other() if client == "idle" else None
        trio.member.lag()
        grant = holder.wins()
        trio.trip(grant)
        stage.tries_while(other or trio.other(), grant)
    play(one_round, directory, mode, told)
