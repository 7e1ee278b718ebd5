# SPDX-License-Identifier: BSD-2-Clause
"""Five nodes without persistence are restarted one after the other, each when the one before is intact again, under load."""
import statistics

from crowd import EIGHT, SHORT, Crowd, init, now, wait_intact
from nodes import Group, urls

TTL_MAX = 2000
NODE_TIMEOUT_MS = 50
# A node timeout is the library's share of a stop in acquiring. The rest is what two processors that run some fifteen
# processes may take to let the prober, three servers and the prober again have their turns; a stop that came from the
# protocol would last until a node is intact again (2 s) or until a connection is tried again (up to 1 s).
SCHEDULER_MS = 200


def stops_ms(grants):
    """From each leaving of the prober to its next win."""
    return [(after.told - before.left) / 1e6 for before, after in zip(grants, grants[1:])]


def test_rolling_restart(directory, told):
    with Group(5) as nodes:
        init(urls(nodes), TTL_MAX)
        with Crowd(directory, "guarded", TTL_MAX, node_timeout_ms=NODE_TIMEOUT_MS) as crowd:
            crowd.hold(SHORT)
            keeper, = crowd.start(urls(nodes), 1, "-k", resource="kept")
            for number in range(EIGHT):
                crowd.start(urls(nodes), 1, resource=f"load-{number}")
            prober, = crowd.start(urls(nodes), 1, "-f", "-p", "5", resource="fresh")
            crowd.entered(20)
            began = now()
            for node in nodes:
                node.kill()
                node.restart()
                wait_intact(urls(nodes))
            ended = now()
        grants = crowd.no_two_at_once()
        crowd.fences_grow()
        kept, = [grant for grant in grants if grant.pid == keeper.pid]
        assert kept.told < began and kept.until > ended, "the lease was lost"
        stops = stops_ms([grant for grant in grants if grant.pid == prober.pid and began < grant.asked < ended])
        told(f"{(ended - began) / 1e9:.1f} s, {len(grants)} grants; fresh ones {len(stops)}, stops median "
             f"{statistics.median(stops):.1f} ms, longest {sorted(stops)[-5:]} ms")
        assert max(stops) <= NODE_TIMEOUT_MS + SCHEDULER_MS
