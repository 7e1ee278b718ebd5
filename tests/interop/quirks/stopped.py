# SPDX-License-Identifier: BSD-2-Clause
"""A lock of redis-py or redlock-py that is asked for while the last server is stopped."""
import contextlib
import time

import alone
from programs import Program

LONGEST_S = 120  # redis-py's own limits add up to a minute


@contextlib.contextmanager
def waiting(peer, way, nodes):
    """The servers, and the client that has just asked for the lock `r` of ten minutes; `way`: pylocks.py."""
    with alone.Quorum(nodes) as quorum:
        command = [peer.build / "venv/bin/python", alone.HERE / "pylocks.py", peer.name, way]
        command += (server.port for server in quorum.servers)
        with Program([str(word) for word in command]) as a:
            alone.warm(a)
            quorum[nodes - 1].pause()
            a.send("acquire", "r", 600000, 0)
            yield quorum, a


def seconds_to_raise(peer, way, nodes):
    """None unless it raises, and each server has its key all the same once the stopped one goes on."""
    with waiting(peer, way, nodes) as (quorum, a):
        asked_at = time.monotonic()
        said, told_at = a.answer_and_when(LONGEST_S)
        quorum[nodes - 1].resume()
        if said["ok"] or "Timeout" not in said["why"]:
            return None
        alone.until(lambda: all(quorum.values("r")), what="A's keys")
        return told_at - asked_at


def raises_late(nodes, words):
    """A quirk for alone.show(); `words` name the seconds with a URL, and with a host."""
    def quirk(peer):
        by_url, by_host = seconds_to_raise(peer, "url", nodes), seconds_to_raise(peer, "host", nodes)
        if by_url is None or by_host is None or not 4 < by_url < 15 or not 50 < by_host < 90:
            return None
        return words.format(by_url, by_host)
    return quirk
