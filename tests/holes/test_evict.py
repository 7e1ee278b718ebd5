# SPDX-License-Identifier: BSD-2-Clause
"""EVICT-LATER: a node is set to evict keys while clients are connected. The lock has a TTL and is
evicted; the record and the fences have none and stay. So the node looks intact and votes for the
next client."""
import time

from crowd import RESOURCE, wait_intact
from nodes import until, urls
from stage import TWO_HOLDERS, Missed, Orphan, lies_on, play
from witness import now

TTL = 4000
LOOKS = 2.2  # seconds: clients look at a node's settings about once a second


def may_evict(node):
    node.ask("CONFIG", "SET", "maxmemory-policy", "volatile-random")


def evict(node):
    """Memory is short on this node for as long as the lock is there."""
    before = int(node.info("stats", "evicted_keys"))
    node.ask("CONFIG", "SET", "maxmemory", "1")
    until(lambda: node.ask("EXISTS", RESOURCE) == 0, what="the eviction")
    node.ask("CONFIG", "SET", "maxmemory", "0")
    assert int(node.info("stats", "evicted_keys")) > before


def may_not_evict(node):
    node.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")


def connected(stage, pause):
    """Both clients stay connected."""
    nodes = stage.servers(3)
    stage.init(urls(nodes), TTL)
    holder, other = (stage.actor(urls(nodes), TTL) for _ in range(2))
    orphan = Orphan(nodes[2])
    grant = holder.wins()
    assert lies_on(grant, nodes[:2])
    may_evict(nodes[1])
    time.sleep(pause)
    if nodes[1].ask("EXISTS", RESOURCE) == 0 or grant.end < now():
        raise Missed("the lock ended before it could be evicted")
    evict(nodes[1])
    orphan.remove()
    stage.tries_while(other, grant)
    return nodes


def test_evict_later(directory, mode, told):
    def one_round(stage):
        connected(stage, LOOKS)
    play(one_round, directory, mode, told)


def test_evict_at_once(directory, mode, told):
    """Between two looks exclusion can fail; tokens still grow."""
    def one_round(stage):
        connected(stage, 0)
    play(one_round, directory, mode, told, allowed=[TWO_HOLDERS])


def test_evict_unseen(directory, mode, told):
    """No client is connected during the eviction, and the policy is set back before the next one
    connects."""
    def one_round(stage):
        nodes = stage.servers(3)
        stage.init(urls(nodes), TTL)
        orphan = Orphan(nodes[2])
        grant = stage.acquire(urls(nodes), TTL, stage.mode)
        assert lies_on(grant, nodes[:2])
        may_evict(nodes[1])
        evict(nodes[1])
        may_not_evict(nodes[1])
        orphan.remove()
        stage.tries_while(stage.actor(urls(nodes), TTL), grant)
    play(one_round, directory, mode, told)


def test_evict_comes_back(directory, told):
    """When it may not evict any more, the node comes back as one that lost its data."""
    def one_round(stage):
        nodes = connected(stage, LOOKS)
        may_not_evict(nodes[1])
        wait_intact(urls(nodes))
        assert nodes[1].standing == b"intact"
        orphan = Orphan(nodes[2])  # so that the vote of the node is needed
        stage.actor(urls(nodes), TTL).wins()
        orphan.remove()
    play(one_round, directory, "guarded", told)
