#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""redlock-py on redis-py 8.1, with one stopped node of three: lock() has a majority, throws all the same, and leaves its keys. It
throws after 5 s with URLs, and after a minute with dictionaries, which its README uses (redis_py_stopped.py says why)."""
import alone
from stopped import seconds_to_raise


def quirk(peer):
    by_url, by_host = seconds_to_raise(peer, "url", 3), seconds_to_raise(peer, "host", 3)
    if by_url is None or by_host is None or not 4 < by_url < 15 or not 50 < by_host < 90:
        return None
    return f"lock() throws after {by_url:.1f} s with URLs, after {by_host:.1f} s with dictionaries, and its keys stay"


if __name__ == "__main__":
    alone.show("redlock-py", quirk)
