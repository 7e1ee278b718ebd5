#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Redisson 4.7: RLock.tryLock(0, lease, unit) is true for a lock that is over. It does not compare how long the answer took
with the lease. Here the answer comes after the lease has ended and another has the lock: two are told that they have it."""
import contextlib
import sys

import alone

sys.path.insert(0, str(alone.HERE.parent.parent / "holes"))
from nodes import Address  # noqa: E402


def quirk(peer):
    with contextlib.ExitStack() as stack:
        quorum = stack.enter_context(alone.Quorum(1))
        address = Address(quorum[0].port)
        stack.callback(address.close)
        a, b = stack.enter_context(peer.begin([address])), stack.enter_context(peer.begin(quorum.servers))
        alone.warm(a)
        alone.warm(b)
        address.hold()
        a.send("acquire", "r", 500, 0)
        alone.until(lambda: quorum[0].ask("EXISTS", "r"), what="A's key")
        alone.until(lambda: not quorum[0].ask("EXISTS", "r"), what="A's key expired")
        assert b.ask("acquire", "r", 30000, 0)["ok"]
        owner = quorum[0].ask("HKEYS", "r")
        address.open()
        told = a.answer()
        if not told["ok"] or quorum[0].ask("HKEYS", "r") != owner:
            return None
        return "A, whose lock was over before it was told of it, and B were both told that they have it"


if __name__ == "__main__":
    alone.show("redisson-rlock", quirk)
