# SPDX-License-Identifier: BSD-2-Clause
"""LOSSES-IN-REMOVE: as many nodes as may be lost lose their data while a member is removed, after it was looked whether the rest
suffices. Of one member fewer they are too many, and the quorum cannot bring them back any more."""
import pytest

from crowd import redlock
from nodes import Address, urls
from stage import play

TTL = 1000
STUCK = "a quorum that is stuck"


@pytest.mark.parametrize("count", [3, 7])
def test_remove_losses(directory, count, told):
    """Of three one is lost, of seven three: a majority of two or of six is not left without the one that goes."""
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
