# SPDX-License-Identifier: BSD-2-Clause
"""MODE-FORGOTTEN: a client without a mode uses the nodes of a guarded quorum. As a classic client
it gets no fence, and a TTL above ttl_max is accepted. So nodes that lose their data one after the
other, each when the one before is intact again, forget a lock that is still held."""
import time

from crowd import RESOURCE, init, succeed, wait_intact
from nodes import until, urls
from stage import FALLS, Missed, play
from witness import Grant, now

TTL_MAX, TTL = 1000, 10000
USAGE = 64
TTL_MAX_EXCEEDED = -14
NOTICED = 1.5  # seconds: a client that was connected before looks about once a second


def flush_one_after_the_other(nodes, grant):
    """Two of three nodes. The quorum has a majority at every moment."""
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
        assert grant.returncode == USAGE and "ttl_max is 1.0 s" in grant.stderr, grant.stderr
        assert all(node.ask("EXISTS", RESOURCE) == 0 for node in nodes)
        short = stage.acquire(urls(nodes), TTL_MAX, mode=None)
        assert isinstance(short, Grant) and short.fence > 0, short
    play(one_round, directory, "guarded", told)


def test_mode_forgotten_library(directory, told):
    def one_round(stage):
        nodes = quorum_of_three(stage)
        grant = stage.actor(urls(nodes), TTL, mode="default").tries()
        if isinstance(grant, Grant):
            next_one(stage, nodes, grant)
            return
        assert grant == TTL_MAX_EXCEEDED
        assert all(node.ask("EXISTS", RESOURCE) == 0 for node in nodes)
    play(one_round, directory, "guarded", told)


def test_mode_forgotten_connected(directory, told):
    """The client was connected before the nodes had a record."""
    def one_round(stage):
        nodes = stage.servers(3)
        early = stage.actor(urls(nodes), TTL, mode="default")
        succeed(urls(nodes), "quorum", "init", "--yes", "--ttl-max", f"{TTL_MAX}ms")
        time.sleep(NOTICED)
        grant = early.tries()
        if isinstance(grant, Grant):
            next_one(stage, nodes, grant)
            return
        assert grant == TTL_MAX_EXCEEDED
    play(one_round, directory, "guarded", told)


def test_mode_forgotten_held(directory, told):
    """The client holds the lock as classic, for longer than ttl_max, when the nodes get a record."""
    def one_round(stage):
        nodes = stage.servers(3)
        early = stage.actor(urls(nodes), TTL, mode="default")
        grant = early.wins()
        assert grant.fence == 0
        init(urls(nodes), TTL_MAX)  # by --never-used: else it waits until the lock has ended
        until(early.is_out, what="the end of its classic lease")
        assert now() < grant.end
        flush_one_after_the_other(nodes, grant)
        stage.tries_while(stage.actor(urls(nodes), TTL_MAX, mode="guarded"), grant)
    play(one_round, directory, "guarded", told, allowed={FALLS})  # the classic lock has no token


def test_mode_forgotten_named(directory, told):
    """A client that names classic mode locks as before, with the hole."""
    def one_round(stage):
        nodes = quorum_of_three(stage)
        grant = stage.acquire(urls(nodes), TTL, mode="classic")
        assert isinstance(grant, Grant), grant.stderr
        next_one(stage, nodes, grant)
    play(one_round, directory, "classic", told)
