#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""redis-py 8.1: a client made by Redis(host=...) sends the SET NX of Lock.acquire() again after 5 s without an answer, and the
second one is refused by the first. Here the server is stopped for 7 s: acquire() is False, its key is there, and nobody can have
the lock for the TTL."""
import time

import alone
from stopped import waiting

STOPPED_S = 7  # between redis-py's first limit, 5 s, and its second


def quirk(peer):
    with waiting(peer, "host", 1) as (quorum, a):
        time.sleep(STOPPED_S)
        quorum[0].resume()
        said = a.answer()
        left_ms = quorum[0].ask("PTTL", "r")
        if said != {"ok": False, "why": "held by another"} or left_ms < 500000:
            return None
        return f"acquire() is False, and its own key refuses all clients for {left_ms / 1000:.0f} s more"


if __name__ == "__main__":
    alone.show("redis-py", quirk)
