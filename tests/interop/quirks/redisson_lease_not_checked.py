#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Redisson 4.7: RedissonRedLock.tryLock(0, lease, unit) returns true when the lock is over already, and two hold it.

It asks one server after the other, and does not look at the time when it is through: no validity is calculated, and what
its last PEXPIRE (on keys that have ended) says is not read. Here the third of five servers is stopped, which costs 6 s (3 s
for the lock, 3 s for giving it back); the lease is 5 s. A is told true with two servers of five. The third goes on, B asks,
and is told true as well. With a wait above 0 the time is looked at, and it does not happen.
"""
import time

import alone

LEASE_MS = 5000


def quirk(peer):
    with alone.Quorum(5) as quorum, peer.begin(quorum.servers) as a, peer.begin(quorum.servers) as b:
        alone.warm(a)
        alone.warm(b)
        quorum[2].pause()
        first = a.ask("acquire", "r", LEASE_MS, 0)
        first_at = time.monotonic()
        quorum[2].resume()
        second = b.ask("acquire", "r", LEASE_MS, 0)
        between = time.monotonic() - first_at
        if not first["ok"] or not second["ok"] or between * 1000 > LEASE_MS / 2:
            return None
        owners = [server.ask("HKEYS", "r") for server in quorum.servers]
        assert all(owners), owners
        return f"A and B both have the lock of {LEASE_MS / 1000:.0f} s, {between * 1000:.0f} ms apart"


if __name__ == "__main__":
    alone.show("redisson", quirk)
