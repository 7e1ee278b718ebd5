#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Redisson 4.7: RLock.forceUnlock() deletes the key, whoever's it is and whatever it holds: another Redisson's hash, and the
string of a client of another project. (ForceUnlock.java calls it.)"""
import subprocess

import alone


def force_unlock(peer, server):
    done = subprocess.run(["java", "-cp", f"{peer.build}/target/lib/*", str(alone.HERE / "ForceUnlock.java"), "r", server.url],
                          capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.strip() == "true" and not server.ask("EXISTS", "r")


def quirk(peer):
    with alone.Quorum(1) as quorum, peer.begin(quorum.servers) as b:
        assert b.ask("acquire", "r", 600000, 0)["ok"]
        if not force_unlock(peer, quorum[0]):
            return None
        quorum[0].ask("SET", "r", "0123456789abcdef0123456789abcdef01234567", "NX", "PX", 600000)
        if not force_unlock(peer, quorum[0]):
            return None
    return "it ended the lock of another Redisson, and a lock that no Redisson had taken"


if __name__ == "__main__":
    alone.show("redisson-rlock", quirk)
