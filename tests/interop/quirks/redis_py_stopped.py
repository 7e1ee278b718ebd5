#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""redis-py 8.1: Lock.acquire() at a stopped server raises and leaves its key, for the whole TTL: the server executes the SET when
it goes on. It raises after 5 s if the client comes from Redis.from_url(), and after a minute if it comes from Redis(host=...),
which tries each command eleven times; from_url() tries once."""
import alone
from stopped import raises_late

if __name__ == "__main__":
    alone.show("redis-py", raises_late(1, "it raises after {:.1f} s with from_url(), after {:.1f} s with host=..., and its key stays"))
