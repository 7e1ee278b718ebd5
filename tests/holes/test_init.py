# SPDX-License-Identifier: BSD-2-Clause
"""INIT-TOO-SOON: an operator runs `quorum init` after a power cut. The locks of the lost quorum may
be longer than the time that init waits."""
import time

import pytest

from conftest import ROUNDS
from crowd import ALL_VALIDITY, end_redlock, init, redlock, start_redlock
from nodes import urls
from stage import Missed, Stage, judge, play
from witness import now

USAGE = 64
LOST_TTL = 72000
DEFAULT_TTL_MAX = 60  # seconds


class Lost:
    """A quorum that loses its data while a lock is held."""

    def __init__(self, stage, ttl_ms, losses=3):
        self.stage, self.ttl_ms = stage, ttl_ms
        self.nodes = stage.servers(3)
        self.urls = urls(self.nodes)
        init(self.urls, ttl_ms)
        holder = stage.actor(self.urls, ttl_ms)
        holder.hold(ttl_ms + ALL_VALIDITY)
        self.grant = holder.wins()
        for node in self.nodes[:losses]:
            node.kill()
        for node in self.nodes[:losses]:
            node.restart()

    def next_tries(self):
        if self.grant.end - now() < 0.1e9:
            raise Missed("the holder is out before the other has tried")
        self.stage.actor(self.urls, 1000).tries()


def test_init_too_soon(directory, told):
    """No record is left, so only the operator knows the longest TTL. All rounds run at the same
    time, because a round with the hole takes a minute."""
    found = []
    with Stage(directory, "guarded") as every:
        lost, waiting = [], []
        for number in range(ROUNDS):
            path = directory / f"round-{number}"
            path.mkdir()
            lost.append(Lost(every.enter_context(Stage(path, "guarded")), LOST_TTL))
            waiting.append(start_redlock(lost[-1].urls, "quorum", "init", "--yes"))
            every.callback(waiting[-1].kill)
        for each, process in zip(lost, waiting):
            done = end_redlock(process, DEFAULT_TTL_MAX + 20)
            if done.returncode == 0:
                each.next_tries()
            else:
                assert done.returncode == USAGE and "--ttl-max" in done.stderr, done.stderr
                assert all(node.standing is None for node in each.nodes)
            found.append(each.stage.shown())
    judge(found, "guarded", told)


@pytest.mark.parametrize("known", ["option", "configuration", "record"])
def test_init_waits_for_the_longest(directory, known, told):
    """The option, the configuration, or the record of one node knows it."""
    def one_round(stage):
        lost = Lost(stage, 3000, losses=2 if known == "record" else 3)
        settings = {"REDLOCK_CONFIG": str(stage.directory / "configuration")}
        text = "ttl-max = 3s\n" if known == "configuration" else ""
        (stage.directory / "configuration").write_text(text)
        option = "3s" if known == "option" else "1s"
        began = time.monotonic()
        done = redlock(lost.urls, "quorum", "init", "--yes", "--ttl-max", option, settings=settings)
        assert done.returncode == 0, done.stderr
        assert time.monotonic() - began > 3
        other = stage.actor(lost.urls, 1000)
        stage.tries_while(other, lost.grant) if lost.grant.end > now() else other.wins()
    play(one_round, directory, "guarded", told)
