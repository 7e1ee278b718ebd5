#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""node-redlock 5: acquire() gives a lock that is over. It computes when the lock ends, and does not look whether that is
past. Here the answers take longer than the TTL, and two have the lock. Version 4 looks, and tries again."""
import alone
from late import quirk

if __name__ == "__main__":
    alone.show("node-redlock", quirk)
