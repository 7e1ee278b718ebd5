# SPDX-License-Identifier: BSD-2-Clause
"""A peer whose answers come later than its lock lasts: whoever believes them has a lock that is over."""
import contextlib
import sys

import alone

sys.path.insert(0, str(alone.HERE.parent.parent / "holes"))
from nodes import Address  # noqa: E402


def quirk(peer):
    with contextlib.ExitStack() as stack:
        quorum = stack.enter_context(alone.Quorum(min(peer.nodes, 3)))
        addresses = [Address(server.port) for server in quorum.servers]
        for address in addresses:
            stack.callback(address.close)
        a, b = stack.enter_context(peer.begin(addresses)), stack.enter_context(peer.begin(quorum.servers))
        alone.warm(a)
        alone.warm(b)
        for address in addresses:
            address.hold()
        a.send("acquire", "r", 500, 0)
        alone.until(lambda: all(quorum.values("r")), what="A's keys")
        alone.until(lambda: not any(quorum.values("r")), what="A's keys expired")
        assert b.ask("acquire", "r", 30000, 0)["ok"]
        before = quorum.values("r")
        for address in addresses:
            address.open()
        told = a.answer()
        if not told["ok"] or quorum.values("r") != before:
            return None
        return "A, whose lock was over before it was told of it, and B were both told that they have it"
