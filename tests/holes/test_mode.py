# SPDX-License-Identifier: BSD-2-Clause
"""MODE-FORGOTTEN: a client without a mode on the nodes of a guarded quorum. As classic it has no fence, and a TTL above ttl_max;
then nodes that lose their data one after the other, each when the one before is intact again, forget its lock."""
import time

from crowd import RESOURCE, init, succeed, wait_intact
from nodes import urls
from stage import Missed, play
from witness import Grant, now

TTL_MAX, TTL = 1000, 10000
MISCONFIGURED = 78
GUARDED_NODES = -17
NOTICED = 1.5  # seconds: a client that was connected before looks about once a second


def flush_one_after_the_other(nodes, grant):
    """Two of three, which is more than may be lost at once; as quorums go, nothing has happened."""
    for node in nodes[:2]:
        node.ask("FLUSHALL")
        wait_intact(urls(nodes))
    if grant.end < now():
        raise Missed("the holder is out")


def next_one(stage, nodes, grant):
    flush_one_after_the_other(nodes, grant)
    stage.tries_while(stage.actor(urls(nodes), TTL_MAX, mode="guarded"), grant)


def quorum_of_three(stage):
    nodes = stage.servers(3)
    init(urls(nodes), TTL_MAX)
    return nodes


def test_mode_forgotten_command(directory, told):
    def one_round(stage):
        nodes = quorum_of_three(stage)
        grant = stage.acquire(urls(nodes), TTL, mode=None)
        if isinstance(grant, Grant):
            next_one(stage, nodes, grant)
            return
        assert grant.returncode == MISCONFIGURED, grant.stderr
        assert "--mode guarded" in grant.stderr and "--mode classic" in grant.stderr, grant.stderr
        assert all(node.ask("EXISTS", RESOURCE) == 0 for node in nodes)
    play(one_round, directory, "guarded", told)


def test_mode_forgotten_library(directory, told):
    def one_round(stage):
        nodes = quorum_of_three(stage)
        grant = stage.actor(urls(nodes), TTL, mode="default").tries()
        if isinstance(grant, Grant):
            next_one(stage, nodes, grant)
            return
        assert grant == GUARDED_NODES
        assert all(node.ask("EXISTS", RESOURCE) == 0 for node in nodes)
    play(one_round, directory, "guarded", told)


def test_mode_forgotten_connected(directory, told):
    """It was there before the quorum: what it is on has changed under it."""
    def one_round(stage):
        nodes = stage.servers(3)
        early = stage.actor(urls(nodes), TTL, mode="default")
        early.wins()
        early.leaves()
        succeed(urls(nodes), "quorum", "init", "--yes", "--ttl-max", f"{TTL_MAX}ms")
        time.sleep(NOTICED)
        grant = early.tries()
        if isinstance(grant, Grant):
            next_one(stage, nodes, grant)
            return
        assert grant == GUARDED_NODES
    play(one_round, directory, "guarded", told)


def test_mode_forgotten_named(directory, told):
    """Classic, when it is asked for by name, is what it always was, on these nodes too."""
    def one_round(stage):
        nodes = quorum_of_three(stage)
        grant = stage.acquire(urls(nodes), TTL, mode="classic")
        assert isinstance(grant, Grant), grant.stderr
        next_one(stage, nodes, grant)
    play(one_round, directory, "classic", told)
