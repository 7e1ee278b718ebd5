# SPDX-License-Identifier: BSD-2-Clause
"""Four of ours and four of a peer's add to one number, while a server stops."""
import contextlib
import time

import programs
from servers import Quorum

EACH, SECONDS = 4, 10
STOPPED_AT_S, STOPPED_FOR_S = 2, 3
BEYOND_S = 60  # a peer may be a while inside its own retries when the time is over


def trouble(quorum, began):
    """One of five is stopped, and later killed. One of one is stopped, and goes on: else nobody has anything to count."""
    victim = quorum[1] if len(quorum.servers) > 1 else quorum[0]
    time.sleep(began + STOPPED_AT_S - time.monotonic())
    victim.pause()
    time.sleep(STOPPED_FOR_S if len(quorum.servers) > 1 else 1)
    if len(quorum.servers) > 1:
        victim.process.kill()
        victim.process.wait()
    else:
        victim.resume()


def turns_of(worker):
    said = worker.answer(SECONDS + BEYOND_S)
    assert "turns" in said, f"{worker.greeting['name']}: {said}: the counter is not as it left it"
    return said["turns"]


def test_counter(peer, theirs, resource, tmp_path, row):
    path = tmp_path / "counter"
    path.write_text("0")
    with contextlib.ExitStack() as stack:
        quorum = stack.enter_context(Quorum(peer.nodes))
        us = [stack.enter_context(programs.ours(quorum.servers)) for _ in range(EACH)]
        them = [stack.enter_context(peer.begin(quorum.servers)) for _ in range(EACH)]
        began = time.monotonic()
        for worker in us:
            worker.send("count", theirs.key(resource), path, SECONDS, peer.counter_ttl_ms)
        for worker in them:
            worker.send("count", resource, path, SECONDS, peer.counter_ttl_ms)
        trouble(quorum, began)
        our_turns, their_turns = ([turns_of(worker) for worker in side] for side in (us, them))
        row["turns"] = [sum(our_turns), sum(their_turns)]
        assert int(path.read_text()) == sum(our_turns) + sum(their_turns), f"lost updates; turns {our_turns}, {their_turns}"
        assert sum(our_turns) > 0 and sum(their_turns) > 0, f"turns {our_turns}, {their_turns}"
