# SPDX-License-Identifier: BSD-2-Clause
"""aioredlock as one of the peers: its defaults, but for the TTL; one event loop. ../README.md has the protocol.

usage: peer.py cycles|holds WORKERS WARM_MS OPEN_MS TTL_MS RESOURCE   (nodes from REDLOCK_NODES)
"""
import asyncio
import importlib.metadata
import json
import logging
import os
import sys
import time

from aioredlock import Aioredlock, LockError


def now_us():
    return time.monotonic_ns() // 1000


def say(told):
    print(json.dumps(told), flush=True)


class Task:
    def __init__(self, arguments):
        self.kind, self.resource = arguments[0], arguments[5]
        self.workers, self.warm_ms, self.open_ms, ttl_ms = map(int, arguments[1:5])
        self.ttl_s = ttl_ms / 1000
        self.latencies, self.failed = [], 0

    def begin(self):
        self.opens = now_us() + self.warm_ms * 1000
        self.closes = self.opens + self.open_ms * 1000

    def result(self):
        ordered = sorted(self.latencies)
        p50, p99, most = (ordered[(len(ordered) - 1) * percent // 100] if ordered else 0 for percent in (50, 99, 100))
        return {"cycles": len(ordered), "open_us": self.closes - self.opens, "failed": self.failed, "p50_us": p50,
                "p99_us": p99, "max_us": most}


async def cycle(manager, task, number):
    name, start = f"{task.resource}:{number}", now_us()
    while start < task.closes:
        try:
            lock = await manager.lock(name, lock_timeout=task.ttl_s)
            await manager.unlock(lock)
            end = now_us()
            if task.opens <= end < task.closes:
                task.latencies.append(end - start)
        except LockError:
            end = now_us()
            task.failed += 1
        start = end


async def run_cycles(manager, task):
    await asyncio.gather(*(cycle(manager, task, number) for number in range(task.workers)))
    return task.result()


async def run_holds(manager, task):
    """Each worker is a process, so one here."""
    turns, asked = [], now_us()
    while now_us() < task.closes:
        try:
            lock = await manager.lock(task.resource, lock_timeout=task.ttl_s)
        except LockError:
            continue  # it goes on waiting
        got = now_us()
        await asyncio.sleep(0.001)
        turns.append([asked, got, now_us()])
        try:
            await manager.unlock(lock)
        except LockError:
            pass
        asked = now_us()
    return {"workers": [[*turns, [asked, now_us()]]]}


async def main():
    logging.disable(logging.CRITICAL)
    task = Task(sys.argv[1:])
    manager = Aioredlock(os.environ["REDLOCK_NODES"].split(","))
    # It connects when it is first asked for something.
    await manager.unlock(await manager.lock(f"{task.resource}:{os.getpid()}:first", lock_timeout=task.ttl_s))
    version = importlib.metadata.version
    say({"version": version("aioredlock"),
         "defaults": f"aioredis {version('aioredis')}; {manager.retry_count} tries, {manager.retry_delay_min * 1000:g} to "
                     f"{manager.retry_delay_max * 1000:g} ms apart; waits for all nodes"})
    if not sys.stdin.readline():
        return 1  # nobody wants it any more
    task.begin()
    say(await (run_holds if task.kind == "holds" else run_cycles)(manager, task))
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
