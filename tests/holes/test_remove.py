# SPDX-License-Identifier: BSD-2-Clause
"""LOSSES-IN-REMOVE: a minority of the nodes loses its data while a member is removed, after the
check that enough members stay intact. With one member fewer the rest is not a majority, and the
quorum cannot bring the others back."""
import pytest

from crowd import redlock
from nodes import Address, urls
from stage import play

TTL = 1000
STUCK = "a quorum that is stuck"


@pytest.mark.parametrize("count", [3, 7])
def test_remove_losses(directory, count, told):
    """One of three nodes loses its data, or three of seven; without the removed member one of two
    is intact, or three of six."""
    def one_round(stage):
        nodes = stage.servers(count)
        stage.init(urls(nodes), TTL)
        client = stage.actor(urls(nodes), TTL)
        address = Address(nodes[0].port)
        stage.callback(address.close)
        lost, struck = nodes[1:1 + count // 2], []

        def strike():
            for node in lost:
                node.ask("FLUSHALL")
            struck.append(True)
        address.before(b"ballot", strike)
        listed = ",".join([address.url, urls(nodes[1:])])
        done = redlock(listed, "quorum", "remove", "--yes", nodes[-1].url)
        assert struck, done.stderr
        waited = redlock(urls(nodes), "quorum", "status", "--wait=10s")
        if waited.returncode != 0:
            return {STUCK}
        client.wins()
        return set()
    play(one_round, directory, "guarded", told)
