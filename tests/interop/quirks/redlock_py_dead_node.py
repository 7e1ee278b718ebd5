#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""redlock-py with one dead node of five: it has a majority, throws all the same, and leaves its keys behind. So nobody has
the lock, and nobody can have it until the keys expire; each try of anybody's renews that."""
import alone


def quirk(peer):
    with alone.Quorum(5) as quorum, peer.begin(quorum.servers) as a:
        alone.warm(a)
        *alive, dead = quorum.servers
        dead.process.kill()
        dead.process.wait()
        said = a.ask("acquire", "r", 30000, 0)
        left = sum(server.ask("EXISTS", "r") for server in alive)
        if said["ok"] or left < 3:
            return None
        return f"{left} nodes of 5 granted, lock() throws ({said['why'].split(':')[0]}), and the keys stay"


if __name__ == "__main__":
    alone.show("redlock-py", quirk)
