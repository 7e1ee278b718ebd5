# SPDX-License-Identifier: BSD-2-Clause
"""One measurement in Python, by the protocol of bench/peers/README.md: cycles of acquire and release.

usage: worker.py KIND cycles WORKERS WARM_MS OPEN_MS TTL_MS RESOURCE   (nodes from REDLOCK_NODES)
KIND: blocking and asyncio are this binding; redis-blocking and redis-asyncio are redis-py's Lock on the first node alone.
"""
import asyncio
import json
import os
import sys
import threading
import time

NODES = os.environ["REDLOCK_NODES"]
NODE_TIMEOUT_S = 5  # on a machine that is busy on purpose, a late answer is a slow cycle and not a failed one


def now_us():
    return time.monotonic_ns() // 1000


class Task:
    def __init__(self, words):
        self.workers, self.warm_ms, self.open_ms, self.ttl_ms = map(int, words[:4])
        self.resource, self.took = words[4], []

    def begin(self):
        print('{"version": "", "defaults": ""}', flush=True)
        if not sys.stdin.readline():
            sys.exit(1)
        self.opens = now_us() + self.warm_ms * 1000
        self.closes = self.opens + self.open_ms * 1000

    def count(self, start, end):
        if self.opens <= end < self.closes:
            self.took.append(end - start)

    def show(self):
        ordered = sorted(self.took)
        p50, p99, most = (ordered[(len(ordered) - 1) * percent // 100] if ordered else 0 for percent in (50, 99, 100))
        print(json.dumps({"cycles": len(ordered), "open_us": self.open_ms * 1000, "failed": 0, "p50_us": p50, "p99_us": p99,
                          "max_us": most}))


def cycle(task, lock):
    start = now_us()
    while start < task.closes:
        with lock:
            pass
        end = now_us()
        task.count(start, end)
        start = end


async def async_cycle(task, lock):
    start = now_us()
    while start < task.closes:
        async with lock:
            pass
        end = now_us()
        task.count(start, end)
        start = end


def run_threads(task, locks):
    with locks[0]:
        pass
    task.begin()
    if len(locks) == 1:
        cycle(task, locks[0])
        return
    threads = [threading.Thread(target=cycle, args=(task, lock)) for lock in locks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


async def run_loop(task, make):
    locks = make()
    await asyncio.gather(*(async_cycle_once(lock) for lock in locks))
    task.begin()
    await asyncio.gather(*(async_cycle(task, lock) for lock in locks))


async def async_cycle_once(lock):
    async with lock:
        pass


def main():
    kind, task = sys.argv[1], Task(sys.argv[3:])
    names, ttl = [f"{task.resource}:{number}" for number in range(task.workers)], task.ttl_ms / 1000
    if kind == "blocking":
        import redlock
        client = redlock.Client(NODES)
        run_threads(task, [client.lock(name, ttl=ttl) for name in names])
    elif kind == "asyncio":
        import redlock
        client = redlock.Client(NODES, node_timeout=NODE_TIMEOUT_S)
        asyncio.run(run_loop(task, lambda: [client.async_lock(name, ttl=ttl) for name in names]))
    elif kind == "redis-blocking":
        import redis
        server = redis.Redis.from_url(NODES.split(",")[0], max_connections=1000)
        run_threads(task, [server.lock(name, timeout=ttl) for name in names])
    else:
        import redis.asyncio
        server = redis.asyncio.Redis.from_url(NODES.split(",")[0], max_connections=1000)
        asyncio.run(run_loop(task, lambda: [server.lock(name, timeout=ttl) for name in names]))
    task.show()


if __name__ == "__main__":
    main()
