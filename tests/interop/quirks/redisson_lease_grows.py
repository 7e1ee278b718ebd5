#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Redisson 4.7: RedissonRedLock.lock(lease, unit) that has to wait takes the lock for 1000 times the lease, or 1000000 times.

lockInterruptibly() converts `leaseTime` to milliseconds again in each turn of its loop, so that 2 s become 2000 s in the
second turn. Here A holds the lock for 4 s more when B calls lock(2, SECONDS); when B has it, all servers say
how long it lasts. A B that dies then leaves a lock for half an hour. With the unit MILLISECONDS it does not happen.
(LeaseGrows.java is B.)
"""
import subprocess

import alone


def quirk(peer):
    with alone.Quorum(3) as quorum, peer.begin(quorum.servers) as a:
        assert a.ask("acquire", "r", 600000, 0)["ok"]
        command = ["java", "-cp", f"{peer.build}/target/lib/*", str(alone.HERE / "LeaseGrows.java"), "r",
                   *(server.url for server in quorum.servers)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as b:
            assert b.stdout.readline() == b"asking\n"
            for server in quorum.servers:  # beyond B's first turn, which lasts 2 s at most
                server.ask("PEXPIRE", "r", 4000)
            assert b.stdout.readline() == b"locked\n"
            left_s = min(server.ask("PTTL", "r") for server in quorum.servers) / 1000
            b.stdin.close()
        return f"a lock taken for 2 s lasts {left_s:.0f} s" if left_s > 100 else None


if __name__ == "__main__":
    alone.show("redisson", quirk)
