#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""redis-py: Lock.acquire() says True for a lock that is over: it does not look how long the answer took, and there is nothing to
ask how long the lock is still held."""
import alone
from late import quirk

if __name__ == "__main__":
    alone.show("redis-py", quirk)
