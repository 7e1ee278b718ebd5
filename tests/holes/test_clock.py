# SPDX-License-Identifier: BSD-2-Clause
"""JUMP-FORWARD: a server whose wall clock jumps ends keys before their time. On stock servers guarded mode cannot prevent
that a second holder comes, only that he comes with a lower fence; and it keeps the server out when it has seen the jump."""
import time

from conftest import ROUNDS, TRIES
from crowd import SHORT, Crowd, Staged, hit_in_guarded, init, show_in_classic, strike, wait_intact
from nodes import ClockedNode, Group, until, urls

TTL = 1200


def play(nodes, clocked, directory, mode, told):
    nodes = [nodes[0], clocked, nodes[1]]
    if mode == "guarded":
        init(urls(nodes), TTL)
    with Crowd(directory, mode, TTL) as crowd:
        crowd.hold(SHORT)
        crowd.start(urls(nodes))
        crowd.entered(3)
        time.sleep(2.2 if mode == "guarded" else 0)  # a jump is told from a clock that is off by what was seen before
        staged = Staged(crowd, nodes[:2], nodes[2])
        one_try = lambda: strike(staged, lambda: clocked.jump(2 * TTL / 1000))  # noqa: E731
        if mode == "classic":
            told(f"two holders at once in try {show_in_classic(TRIES, one_try)}")
            return

        def noticed():
            """By the clients' look at the clocks about once a second, which marks it; then it comes back as any other."""
            until(lambda: clocked.standing == b"recovering", what="the jump noticed")
            wait_intact(urls(nodes))
            before = clocked.ask("HGET", "redlock:node", "nonce")
            crowd.entered(3)
            time.sleep(2.2)
            assert clocked.ask("HGET", "redlock:node", "nonce") == before, "one jump was waited out twice"
        tries = hit_in_guarded(ROUNDS, one_try, noticed)
    grants = crowd.fences_grow()
    told(f"{ROUNDS} hits in {tries} tries, {len(grants)} grants, two holders {len(crowd.two_at_once())} times, fences grow")


def test_jump_forward(directory, mode, told):
    clocked = ClockedNode(directory)
    try:
        with Group(2) as nodes:
            play(nodes, clocked, directory, mode, told)
    finally:
        clocked.close()
