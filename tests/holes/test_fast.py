# SPDX-License-Identifier: BSD-2-Clause
"""CLOCK-FAST: the clocks of all nodes run fast together, as chrony slews them, so every key ends
early. Fencing tokens hold anyway; exclusion holds because clients measure how fast the clocks
run."""
import threading
import time

from nodes import ClockedNode, urls
from stage import judge, rounds

FAST_PPM = 83333  # chrony's default maxslewrate
TTL = 5000


class Slew(threading.Thread):
    """Lets the clocks of these nodes run fast."""

    def __init__(self, nodes):
        super().__init__(daemon=True)
        self.nodes, self.ended = nodes, threading.Event()
        self.start()

    def run(self):
        begin, gained = time.monotonic(), [0.0] * len(self.nodes)
        while not self.ended.wait(0.002):
            for i, node in enumerate(self.nodes):
                gain = (time.monotonic() - begin) * FAST_PPM / 1e6
                node.jump(gain - gained[i])
                gained[i] += int((gain - gained[i]) * 1e6) / 1e6  # a clock counts microseconds

    def end(self):
        self.ended.set()
        self.join()


def clocked(stage, count):
    nodes = []
    for i in range(count):
        path = stage.directory / f"node-{i}"
        path.mkdir()
        nodes.append(stage.server(lambda path=path: ClockedNode(path)))
    return nodes


def one_round(stage):
    """A new client takes the lock, and keeps it until its validity ends, without a renewal. Another
    one tries all the time until then."""
    nodes = clocked(stage, 3)
    stage.init(urls(nodes), 2 * TTL)
    slew = Slew(nodes)
    stage.callback(slew.end)
    holder, other = (stage.actor(urls(nodes), TTL, "-e") for _ in range(2))
    grant = holder.wins()
    stage.tries_while(other, grant)


def test_clock_fast(directory, mode, told):
    """In classic mode too no round may show two holders."""
    judge(rounds(one_round, directory, mode), "guarded", told)
