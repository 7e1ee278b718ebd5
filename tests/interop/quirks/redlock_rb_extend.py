#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""redlock-rb: lock(..., extend: lock) brings a lost lock back, unless extend_only_if_locked is said too. Here another has the
lock in between and gives it back, and the first is told that it still has its lock. (redlock_rb_extend.rb is both.)"""
import subprocess

import alone


def quirk(peer):
    with alone.Quorum(3) as quorum:
        done = subprocess.run(["ruby", str(alone.HERE / "redlock_rb_extend.rb"), *(server.url for server in quorum.servers)],
                              cwd=peer.build, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


if __name__ == "__main__":
    alone.show("redlock-rb", quirk)
