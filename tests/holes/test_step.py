# SPDX-License-Identifier: BSD-2-Clause
"""STEP-FORGOTTEN: the clock of one node steps forward while another node is cut off, so a client
cannot act on the step yet. When the other node is back, keys that will end early are still
there."""
import time

import pytest

from crowd import RESOURCE
from nodes import Address, ClockedNode, until, urls
from stage import Missed, lies_on, play
from witness import now

LOOKS = 2.2  # seconds: clients have looked at the clocks twice
CUT = 2.0
NOTICED = 3.5  # after the cut: up to a second until the node is connected, and two looks
STEP = 2.0
TTL = int((CUT + NOTICED + STEP) * 1000)
FAST_PPM = 10900  # within what drift allows in a second, and above it in the long run
FAST_NOTICED = 20.0


class Trio:
    """Three nodes. The clock of the second steps; subclasses cut the third off."""

    def __init__(self, stage, ttl_ms):
        self.stage, self.ttl_ms = stage, ttl_ms
        first, self.third = stage.servers(2)
        self.second = stage.server(lambda: ClockedNode(stage.directory))
        self.nodes = [first, self.second, self.third]
        stage.init(urls(self.nodes), ttl_ms)

    def actors(self):
        """The holder, which never reaches the third node, so that its lock lies on the others; and
        a client that reaches all."""
        lame = ",".join([urls(self.nodes[:2]), self.stage.unreachable()])
        return self.stage.actor(lame, self.ttl_ms), self.stage.actor(urls(self.nodes), self.ttl_ms)

    def cut(self):
        pass

    def join(self):
        pass


class Silent(Trio):
    """The third node stops and does not answer."""

    def cut(self):
        self.third.pause()

    def join(self):
        self.third.resume()


class Closed(Trio):
    """Connections to the third node are closed. The holder stays cut off, or it would give the node
    the key that it missed."""

    def __init__(self, stage, ttl_ms):
        super().__init__(stage, ttl_ms)
        self.addresses = [Address(self.third.port) for _ in range(2)]
        for address in self.addresses:
            stage.callback(address.close)

    def actors(self):
        return [self.stage.actor(",".join([urls(self.nodes[:2]), address.url]), self.ttl_ms)
                for address in self.addresses]

    def cut(self):
        for address in self.addresses:
            address.refuse()

    def join(self):
        self.addresses[1].admit()


def step(stage, kind):
    """A lock lies on the first two nodes, and its key ends early on the second, whose clock
    steps."""
    trio = kind(stage, TTL)
    holder, other = trio.actors()
    time.sleep(LOOKS)
    trio.cut()
    grant = holder.wins()
    trio.second.jump(STEP)
    time.sleep(CUT)
    trio.join()
    assert lies_on(grant, trio.nodes[:2]) and trio.third.ask("EXISTS", RESOURCE) == 0
    until(lambda: trio.second.ask("EXISTS", RESOURCE) == 0, TTL / 1000, "the end of the key")
    if grant.end - now() < 0.5e9:
        raise Missed("the holder is out")
    stage.tries_while(other, grant)


@pytest.mark.parametrize("mode, kind",
                         [("classic", Silent), ("classic", Closed), ("guarded", Silent), ("guarded", Closed)])
def test_step_forgotten(directory, mode, kind, told):
    play(lambda stage: step(stage, kind), directory, mode, told)


def test_step_while_all_answer(directory, told):
    """The same without a cut: clients act on the step at once."""
    play(lambda stage: step(stage, Trio), directory, "guarded", told)


def test_step_by_step(directory, told):
    """A clock that runs slightly too fast: the drift allowance of a second does not start anew each
    second."""
    def one_round(stage):
        trio = Trio(stage, 1000)
        trio.actors()
        time.sleep(LOOKS)
        began = last = time.monotonic()
        while time.monotonic() - began < FAST_NOTICED:
            time.sleep(0.02)
            moment = time.monotonic()
            trio.second.jump((moment - last) * FAST_PPM / 1e6)
            last = moment
            if trio.second.standing != b"intact":
                return set()
        return {"a fast clock that is not noticed"}
    play(one_round, directory, "guarded", told)
