#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Holds a lock for a while and says what becomes of it.

usage: hold.py URLS RESOURCE SECONDS [TTL_MS]     (libredlock.so.0 from where the loader finds it, or REDLOCK_LIBRARY)
Exit status: 0 held to the end; 75 held by another; 69 no quorum; 80 lost meanwhile; 64 usage; 78 wrong URL.
"""
import queue
import sys
import threading
import time

import redlock

WAIT_MS = 2000


def say(*words):
    print(*words, flush=True)


class Changes:
    """What the service thread tells, for the main thread. Its callback must be short: the renewals of all locks wait for it."""

    def __init__(self):
        self.told = queue.SimpleQueue()

    def __call__(self, lock, change):
        now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        self.told.put((change, now, lock.validity_end_ns, threading.current_thread() is threading.main_thread()))

    def next(self, seconds):
        try:
            return self.told.get(timeout=max(0, seconds))
        except queue.Empty:
            return None


def watch(lock, changes, seconds):
    """Until the time is over (0) or the lock is (80). A program would do its work here, and stop it when told so."""
    end, valid_until = time.monotonic() + seconds, lock.validity_end_ns
    while told := changes.next(end - time.monotonic()):
        change, now, validity_end, in_main = told
        valid_until = validity_end or valid_until  # a lost lock has none
        left_ms = (valid_until - now) // 1_000_000
        by = "the main thread" if in_main else "the service thread"
        if change == redlock.GONE:
            say(f"lost: {by} told it {left_ms} ms before validity ends")
            return 80
        say({redlock.RENEWED: "renewed", redlock.UNSURE: "unsure", redlock.SURE: "sure again"}.get(change, "?") +
            f", {left_ms} ms left, told by {by}")
    return 0


def hold(nodes, resource, seconds, ttl_ms):
    changes = Changes()
    with redlock.Client(nodes) as client, redlock.Lock(client, resource, changes, ttl_ms=ttl_ms, owner=b"hold.py") as lock:
        result = lock.acquire(WAIT_MS)
        if result != redlock.OK:
            say(f"{resource}: {redlock.text(result)}")
            return 75 if result == redlock.HELD else 69
        say(f"{resource}: held as {lock.token.decode()}, sure for {lock.validity_ms} ms")
        status = watch(lock, changes, seconds)
        if status == 0:
            say(f"released: {redlock.text(lock.release())}")
        return status


def main():
    if len(sys.argv) not in (4, 5):
        print(__doc__, file=sys.stderr)
        return 64
    ttl_ms = int(sys.argv[4]) if len(sys.argv) == 5 else 30000
    try:
        return hold(sys.argv[1], sys.argv[2], float(sys.argv[3]), ttl_ms)
    except redlock.Failed as why:
        print(why, file=sys.stderr)
        return 78
    except KeyboardInterrupt:  # it has been released on the way here
        return 130


if __name__ == "__main__":
    sys.exit(main())
