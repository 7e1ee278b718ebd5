#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""rslock 0.10: an extension that fails gives the lock away, while its holder still counts on it.

extend() shares its loop with lock(): a try without a majority is followed by a release on all servers, then by the next
try, which cannot succeed any more. Here two of three servers are away for half a second while A, who holds the lock for
30 s, extends it. B has the lock before A's extend() returns; A's validity_time says some 29 s. What is right: a failed
extension changes nothing, the lock lasts for what is left of it.
"""
import alone


def quirk(peer):
    with alone.Quorum(3) as quorum, peer.begin(quorum.servers) as a, peer.begin(quorum.servers) as b:
        alone.warm(a)
        alone.warm(b)
        assert a.ask("acquire", "r", 30000, 0)["ok"]
        for server in quorum[1], quorum[2]:
            server.pause()
        a.send("extend", "r", 30000)
        alone.until(lambda: not quorum[0].ask("EXISTS", "r"), what="A's own key gone from the server that is there")
        for server in quorum[1], quorum[2]:
            server.resume()
        b.send("acquire", "r", 30000, 500)
        got, got_at = b.answer_and_when()
        told, told_at = a.answer_and_when()
        if not got["ok"] or told["ok"] or got_at > told_at:
            return None
        return f"B has A's lock of 30 s, {(told_at - got_at) * 1000:.0f} ms before A's extend() returns: {told['why']}"


if __name__ == "__main__":
    alone.show("rslock", quirk, tries=5)
