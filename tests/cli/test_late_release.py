# SPDX-License-Identifier: BSD-2-Clause
"""A job of a large fleet that ends just after a node ended its connections: its key goes from that node, too."""
import contextlib
import socket
import time

import pytest

from conftest import Redlock
from servers import until

CROWD = 300  # other clients of the fleet: 5 ms each


@pytest.fixture
def fleet(three):
    """A guarded quorum whose first node counts many clients."""
    redlock = Redlock(three.nodes)
    assert redlock("quorum", "init", "--yes", "--never-used", "--ttl-max", "1m").returncode == 0
    with contextlib.ExitStack() as crowd:
        for _ in range(CROWD):
            client = crowd.enter_context(socket.create_connection(("127.0.0.1", three.servers[0].port)))
            client.sendall(b"HELLO 3\r\nCLIENT TRACKING ON BCAST PREFIX redlock:node\r\n")
        until(lambda: f"tracking_clients:{CROWD}".encode() in three.servers[0].ask("INFO", "clients"))
        yield redlock


def test_a_release_is_reason_enough_to_connect(fleet, three):
    """Each job needs nothing of the node when its connection ends, and gives the lock back 0.2 s later."""
    jobs = [fleet.start("run", "-t", "60s", f"job-{number}", "--", "sleep", "3") for number in range(8)]
    until(lambda: all(three.servers[1].ask("GET", f"job-{number}") for number in range(8)))
    begun = time.monotonic()
    time.sleep(2.5)
    three.servers[1].ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    three.servers[1].ask("CLIENT", "KILL", "TYPE", "pubsub", "SKIPME", "yes")
    assert [job.wait(20) for job in jobs] == [0] * 8
    assert time.monotonic() - begun < 10
    assert [three.servers[1].ask("PTTL", f"job-{number}") for number in range(8)] == [-2] * 8
