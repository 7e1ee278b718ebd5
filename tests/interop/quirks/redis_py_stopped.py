#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""redis-py 8.1: Lock.acquire() at a stopped server raises and leaves its key, for the whole TTL: the server executes the SET when
it goes on. It raises after 5 s if the client comes from Redis.from_url(), and after a minute if it comes from Redis(host=...),
which tries each command eleven times; from_url() tries once."""
import alone
from stopped import seconds_to_raise


def quirk(peer):
    by_url, by_host = seconds_to_raise(peer, "url", 1), seconds_to_raise(peer, "host", 1)
    if by_url is None or by_host is None or not 4 < by_url < 15 or not 50 < by_host < 90:
        return None
    return f"it raises after {by_url:.1f} s with from_url(), after {by_host:.1f} s with host=..., and its key stays"


if __name__ == "__main__":
    alone.show("redis-py", quirk)
