#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""ShedLock: without safeUpdate(true), which is not its default, unlock() deletes the key and extend() sets it, also when
another client holds the lock. A job that takes longer than its lockAtMostFor ends the lock of the next job."""
import alone


def quirk(peer):
    with alone.Quorum(1) as quorum, peer.begin(quorum.servers) as a, peer.begin(quorum.servers) as b:
        alone.warm(a)
        key = a.key("r")
        assert a.ask("acquire", "r", 500, 0)["ok"]
        alone.until(lambda: not any(quorum.values(key)), what="A's key expired")
        assert b.ask("acquire", "r", 30000, 0)["ok"]
        held = quorum.values(key)
        a.ask("extend", "r", 30000)
        extended = quorum.values(key) != held
        a.ask("release", "r")
        if not extended or any(quorum.values(key)):
            return None
        return "A, whose lock had expired, made B's lock its own by extend(), and ended it by unlock()"


if __name__ == "__main__":
    alone.show("shedlock", quirk)
