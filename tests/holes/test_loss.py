# SPDX-License-Identifier: BSD-2-Clause
"""Nodes that lose what they had granted: FLUSHALL, RESTART-EMPTY, EVERYSEC, MAJORITY-CRASH."""
import os
import time

from conftest import ROUNDS, TRIES
from crowd import (ALL_VALIDITY, NO_QUORUM, RESOURCE, SHORT, Crowd, Staged, hit_in_guarded, init, now, show_in_classic, strike,
                   succeed, wait_intact)
from nodes import Group, until, urls

TTL = 1200


def play(nodes, directory, mode, told, fault, stage=Staged):
    """The fault at nodes[1] while a lease lies on nodes[0] and nodes[1]; again and again."""
    if mode == "guarded":
        init(urls(nodes), TTL)
    with Crowd(directory, mode, TTL) as crowd:
        crowd.hold(SHORT)
        crowd.start(urls(nodes))
        crowd.entered(3)
        staged = stage(crowd, nodes[:2], nodes[2])
        one_try = lambda: strike(staged, lambda: fault(nodes[1]))  # noqa: E731
        if mode == "classic":
            told(f"two holders at once in try {show_in_classic(TRIES, one_try)}")
            return
        nonces = set()

        def recovered():
            nonces.add(nodes[1].ask("HGET", "redlock:node", "nonce"))
            wait_intact(urls(nodes))
            crowd.entered(3)
        tries = hit_in_guarded(ROUNDS, one_try, recovered)
        assert len(nonces) == tries
    grants = crowd.no_two_at_once()
    crowd.fences_grow()
    told(f"{ROUNDS} hits in {tries} tries, {len(grants)} grants, never two holders, fences grow")


def test_flushall(directory, mode, told):
    with Group(3) as nodes:
        play(nodes, directory, mode, told, lambda node: node.ask("FLUSHALL"))


def test_restart_empty(directory, mode, told):
    def restart(node):
        node.kill()
        node.restart()
    with Group(3) as nodes:
        play(nodes, directory, mode, told, restart)


class PowerCut:
    """What a power cut leaves under appendfsync everysec: the file as it was a moment before, without the last grants."""

    def __init__(self, node):
        self.node = node
        self.bytes = None
        self.seen = None

    def look(self):
        """Remembers the file's size at a moment without a lock in it."""
        until(lambda: self.node.ask("EXISTS", RESOURCE) == 0, what="nobody inside")
        self.bytes = os.path.getsize(self.node.append_only_file)
        self.seen = time.monotonic()

    def strike(self):
        assert time.monotonic() - self.seen < 2
        self.node.kill()
        assert os.path.getsize(self.node.append_only_file) > self.bytes
        os.truncate(self.node.append_only_file, self.bytes)
        self.node.restart()


class EverysecStaged(Staged):
    def __init__(self, crowd, voters, third, cut):
        super().__init__(crowd, voters, third)
        self.cut = cut

    def prepare(self):
        super().prepare()
        self.cut.look()


def test_everysec(directory, mode, told):
    with Group(3, "--appendonly", "yes", "--appendfsync", "everysec") as nodes:
        cut = PowerCut(nodes[1])
        play(nodes, directory, mode, told, lambda node: cut.strike(), lambda *where: EverysecStaged(*where, cut))


# ---- a majority ----

def crash_majority(crowd, nodes):
    """Two of three are killed and come back empty while a lease lies on them."""
    crowd.hold(ALL_VALIDITY)
    staged = Staged(crowd, nodes[1:], None)
    holder = staged.holder(validity_ms=crowd.ttl_ms * 0.6)
    for node in nodes[1:]:
        node.kill()
    for node in nodes[1:]:
        node.restart()
    hit = staged.is_inside(holder)
    shown = staged.wait_out(holder)
    crowd.hold(SHORT)
    return hit, shown


def nobody_until_init(crowd, nodes):
    """All are refused until an operator says that there is nothing to be kept."""
    crashed = now()

    def all_refused():
        last = {pid: result for pid, result, _ in crowd.witness.tried()}
        return all(last.get(worker.pid) == NO_QUORUM for worker in crowd.workers)
    until(all_refused, what="everyone refused")
    time.sleep(crowd.ttl_ms / 1000)
    assert crowd.entered_since(crashed) == []
    refused = now()
    succeed(urls(nodes), "quorum", "init", "--yes", "--ttl-max", f"{crowd.ttl_ms}ms")
    crowd.entered(5)
    first = crowd.entered_since(refused)[0]
    assert first.told - refused > crowd.ttl_ms * 1e6


def test_majority_crash(directory, mode, told):
    with Group(3) as nodes:
        if mode == "guarded":
            init(urls(nodes), TTL)
        with Crowd(directory, mode, TTL) as crowd:
            crowd.hold(SHORT)
            crowd.start(urls(nodes))
            crowd.entered(3)
            one_try = lambda: crash_majority(crowd, nodes)  # noqa: E731
            if mode == "classic":
                told(f"two holders at once in try {show_in_classic(TRIES, one_try)}")
                return
            tries = hit_in_guarded(1, one_try, lambda: nobody_until_init(crowd, nodes))
        grants = crowd.no_two_at_once()
        crowd.fences_grow()
        told(f"1 hit in {tries} tries, {len(grants)} grants, none before quorum init, fences grow")
