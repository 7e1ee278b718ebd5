#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""redis-semaphore: RedlockMutex says "acquired" for a lock that is over. It waits for the answers of all nodes, and looks neither at
how long that took nor at its TTL. One slow node of five is enough, and two have the lock. A dead node is one: ioredis
tries 20 times to connect to it before it gives a command up, which takes more than ten seconds, the default TTL."""
import alone


def quirk(peer):
    with alone.Quorum(5) as quorum, peer.begin(quorum.servers) as a, peer.begin(quorum.servers) as b:
        alone.warm(a)
        alone.warm(b)
        *quick, slow = quorum.servers
        slow.pause()
        a.send("acquire", "r", 500, 0)
        alone.until(lambda: all(server.ask("EXISTS", "mutex:r") for server in quick), what="A's keys")
        alone.until(lambda: not any(server.ask("EXISTS", "mutex:r") for server in quick), what="A's keys expired")
        b.send("acquire", "r", 30000, 0)
        alone.until(lambda: all(server.ask("EXISTS", "mutex:r") for server in quick), what="B's keys")
        slow.resume()
        if not (a.answer()["ok"] and b.answer()["ok"]):
            return None
        return "A, whose lock was over before the slow node answered, and B were both told that they have it"


if __name__ == "__main__":
    alone.show("redis-semaphore", quirk)
