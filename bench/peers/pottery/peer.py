# SPDX-License-Identifier: BSD-2-Clause
"""pottery as one of the peers: its defaults, but for the TTL. One at a time and in line: Redlock; many in flight:
AIORedlock on one event loop. ../README.md has the protocol.

usage: peer.py cycles|holds WORKERS WARM_MS OPEN_MS TTL_MS RESOURCE   (nodes from REDLOCK_NODES)
"""
import asyncio
import importlib.metadata
import json
import logging
import os
import sys
import time

import redis
import redis.asyncio
from pottery import AIORedlock, Redlock
from pottery.exceptions import ReleaseUnlockedLock

LONG_ENOUGH_S = 20
POOL = 1000  # redis-py's own limit is less than the 256 in flight, and past it every acquisition fails


def now_us():
    return time.monotonic_ns() // 1000


def say(told):
    print(json.dumps(told), flush=True)


class Task:
    def __init__(self, arguments):
        self.kind, self.resource = arguments[0], arguments[5]
        self.workers, self.warm_ms, self.open_ms, self.ttl_ms = map(int, arguments[1:5])
        self.latencies, self.failed = [], 0

    def begin(self):
        self.opens = now_us() + self.warm_ms * 1000
        self.closes = self.opens + self.open_ms * 1000

    def count(self, start, end, went_well):
        if not went_well:
            self.failed += 1
        elif self.opens <= end < self.closes:
            self.latencies.append(end - start)

    def result(self):
        ordered = sorted(self.latencies)
        p50, p99, most = (ordered[(len(ordered) - 1) * percent // 100] if ordered else 0 for percent in (50, 99, 100))
        return {"cycles": len(ordered), "open_us": self.closes - self.opens, "failed": self.failed, "p50_us": p50,
                "p99_us": p99, "max_us": most}


def run_one(lock, task):
    start = now_us()
    while start < task.closes:
        went_well = lock.acquire(timeout=LONG_ENOUGH_S)
        try:
            lock.release()
        except ReleaseUnlockedLock:
            went_well = False
        end = now_us()
        task.count(start, end, went_well)
        start = end
    return task.result()


async def cycle(lock, task):
    start = now_us()
    while start < task.closes:
        went_well = await lock.acquire(timeout=LONG_ENOUGH_S)
        try:
            await lock.release()
        except ReleaseUnlockedLock:
            went_well = False
        end = now_us()
        task.count(start, end, went_well)
        start = end


async def run_flight(nodes, task):
    masters = [redis.asyncio.Redis.from_url(url, max_connections=POOL) for url in nodes]
    locks = [AIORedlock(key=f"{task.resource}:{number}", masters=masters, auto_release_time=task.ttl_ms / 1000)
             for number in range(task.workers)]
    await asyncio.gather(*(cycle(lock, task) for lock in locks))
    for master in masters:
        await master.aclose()
    return task.result()


def run_holds(lock, task):
    """Each worker is a process, so one here."""
    turns, asked = [], now_us()
    while (now := now_us()) < task.closes:
        if not lock.acquire(timeout=(task.closes - now) / 1e6):
            continue  # it goes on waiting
        got = now_us()
        time.sleep(0.001)
        turns.append([asked, got, now_us()])
        try:
            lock.release()
        except ReleaseUnlockedLock:
            pass
        asked = now_us()
    return {"workers": [[*turns, [asked, now_us()]]]}


def main():
    logging.disable(logging.CRITICAL)
    task, nodes = Task(sys.argv[1:]), os.environ["REDLOCK_NODES"].split(",")
    masters = [redis.Redis.from_url(url) for url in nodes]
    for master in masters:
        master.ping()
    name = task.resource if task.kind == "holds" else f"{task.resource}:0"
    lock = Redlock(key=name, masters=masters, auto_release_time=task.ttl_ms / 1000)
    version = importlib.metadata.version
    say({"version": version("pottery"),
         "defaults": f"redis-py {version('redis')}; no limit of tries, 0 to 200 ms apart; a thread for each node; "
                     f"in flight: AIORedlock, at most {POOL} connections instead of 100"})
    if not sys.stdin.readline():
        return 1  # nobody wants it any more
    task.begin()
    if task.kind == "holds":
        say(run_holds(lock, task))
    elif task.workers == 1:
        say(run_one(lock, task))
    else:
        say(asyncio.run(run_flight(nodes, task)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
