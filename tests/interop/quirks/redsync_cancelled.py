#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""redsync 4.18: a LockContext() whose context ends during a try leaves its keys, on all servers in the worst case.

The release of a failed try gets a context made of the caller's, which is over: it is not sent. Here three of five servers
are stopped, and A gives up after 1 s (go-redis comes back after 5 s: it does not heed the context while it reads). The two
that answered keep A's key; the other three execute its SET when they go on. So nobody holds the lock, and nobody can have
it for the whole TTL. It harms nobody's exclusion: a lock too many, not one too few.
"""
import alone

TTL_MS = 60000


def quirk(peer):
    with alone.Quorum(5) as quorum, peer.begin(quorum.servers) as b:
        alone.warm(b)
        with peer.begin(quorum.servers) as a:
            alone.warm(a)
            for server in quorum.servers[2:]:
                server.pause()
            given_up = a.ask("acquire", "r", TTL_MS, 1000)
            for server in quorum.servers[2:]:
                server.resume()
        refused = b.ask("acquire", "r", TTL_MS, 0)
        left = [server.ask("PTTL", "r") for server in quorum.servers]
        if given_up["ok"] or refused["ok"] or sum(ms > TTL_MS / 2 for ms in left) < 3:
            return None
        return f"nobody has the lock, and nobody can have it; the keys that are left end in {left} ms"


if __name__ == "__main__":
    alone.show("redsync", quirk)
