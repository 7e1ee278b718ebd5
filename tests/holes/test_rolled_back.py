# SPDX-License-Identifier: BSD-2-Clause
"""A FAILOVER is answered OK, and rolled back: the server was a replica for a while and is the master again. Its process and its
data are the same, its replication id is another one, so guarded clients treat it as a node that lost its data. They bring it
back: no operator does anything."""
import time

from crowd import ALLOW_REPLICAS
from nodes import until, urls
from stage import Stage
from test_round_trip import Member

TTL = 3000  # ms, also ttl_max
BUSY = 20   # seconds that a busy machine may add


def replication_id(node):
    return node.info("replication", "master_replid").encode()


def fails_over_and_back(member):
    """Its replica stands still, so it takes no part. Between the two commands the server is a replica."""
    until(member.in_step, what="the replica in step")
    member.replica.pause()
    assert member.node.ask("FAILOVER", "TO", "127.0.0.1", member.replica.port, "FORCE", "TIMEOUT", "200") == b"OK"
    until(lambda: member.node.info("replication", "role") == "slave", what="the failover under way")
    assert member.node.ask("FAILOVER", "ABORT") == b"OK"
    assert member.node.info("replication", "role") == "master"
    member.replica.resume()


def test_failover_rolled_back(directory, told):
    with Stage(directory, "guarded") as stage:
        member = Member(stage)
        member.replica.ask("REPLICAOF", "127.0.0.1", member.node.port)
        until(member.in_step, what="the replica in step")
        others = stage.servers(2)
        nodes = urls([member.node, *others])
        stage.init(nodes, TTL, settings=ALLOW_REPLICAS)
        client = stage.actor(nodes, TTL, "-R")
        client.wins()
        client.leaves()
        run_id, was = member.node.info("server", "run_id"), replication_id(member.node)

        fails_over_and_back(member)
        began = time.monotonic()
        assert member.node.info("server", "run_id") == run_id and replication_id(member.node) != was
        until(lambda: member.node.standing == b"recovering", what="a node that does not vote")
        client.wins()  # the other two are a majority
        client.leaves()

        def votes():
            fits = member.node.ask("HGET", "redlock:node", "replid") == replication_id(member.node)
            return fits and member.node.standing == b"intact"

        until(votes, TTL / 1000 * 1.01 + BUSY, "its recovery by the clients alone")
        took = time.monotonic() - began
        assert took > TTL / 1000, took
        for node in others:
            assert node.standing == b"intact"
        told(f"votes again {took:.1f} s after the rollback, with a ttl_max of {TTL / 1000:.1f} s")
