#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""redlock-py on redis-py 8.1, with one stopped node of three: lock() has a majority, throws all the same, and leaves its keys. It
throws after 5 s with URLs, and after a minute with dictionaries, which its README uses (redis_py_stopped.py says why)."""
import alone
from stopped import raises_late

if __name__ == "__main__":
    alone.show("redlock-py", raises_late(3, "lock() throws after {:.1f} s with URLs, after {:.1f} s with dictionaries, and its keys stay"))
