# SPDX-License-Identifier: BSD-2-Clause
"""redlock-py as one of the peers: its defaults. Many in flight are as many threads. ../README.md has the protocol.

usage: peer.py cycles|holds WORKERS WARM_MS OPEN_MS TTL_MS RESOURCE   (nodes from REDLOCK_NODES)
"""
import importlib.metadata
import json
import os
import sys
import threading
import time

import redis
import redlock

POOL = 1000  # redis-py's own limit is less than the 256 in flight, and past it acquisitions fail, and leave their keys

def now_us():
    return time.monotonic_ns() // 1000


def say(told):
    print(json.dumps(told), flush=True)


class Task:
    def __init__(self, arguments):
        self.kind, self.resource = arguments[0], arguments[5]
        self.workers, self.warm_ms, self.open_ms, self.ttl_ms = map(int, arguments[1:5])

    def begin(self):
        self.opens = now_us() + self.warm_ms * 1000
        self.closes = self.opens + self.open_ms * 1000


def lock_or_not(manager, name, task):
    try:
        return manager.lock(name, task.ttl_ms)
    except redlock.MultipleRedlockException:
        return False


def cycle(manager, task, number, latencies, failures):
    name, took, failed, start = f"{task.resource}:{number}", [], 0, now_us()
    while start < task.closes:
        lock = lock_or_not(manager, name, task)
        if lock:
            manager.unlock(lock)
        end = now_us()
        if not lock:
            failed += 1
        elif task.opens <= end < task.closes:
            took.append(end - start)
        start = end
    latencies[number], failures[number] = took, failed


def run_cycles(manager, task):
    latencies, failures = [[]] * task.workers, [0] * task.workers
    threads = [threading.Thread(target=cycle, args=(manager, task, number, latencies, failures))
               for number in range(task.workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ordered = sorted(took for each in latencies for took in each)
    p50, p99, most = (ordered[(len(ordered) - 1) * percent // 100] if ordered else 0 for percent in (50, 99, 100))
    return {"cycles": len(ordered), "open_us": task.closes - task.opens, "failed": sum(failures), "p50_us": p50,
            "p99_us": p99, "max_us": most}


def run_holds(manager, task):
    """Each worker is a process, so one here."""
    turns, asked = [], now_us()
    while now_us() < task.closes:
        lock = lock_or_not(manager, task.resource, task)
        if not lock:
            continue  # it goes on waiting
        got = now_us()
        time.sleep(0.001)
        turns.append([asked, got, now_us()])
        manager.unlock(lock)
        asked = now_us()
    return {"workers": [[*turns, [asked, now_us()]]]}


def main():
    task = Task(sys.argv[1:])
    nodes = os.environ["REDLOCK_NODES"].split(",")
    manager = redlock.Redlock([redis.Redis.from_url(url, max_connections=POOL) for url in nodes])
    for server in manager.servers:
        server.ping()
    version = importlib.metadata.version
    say({"version": version("redlock-py"),
         "defaults": f"redis-py {version('redis')}; {manager.retry_count} tries, {manager.retry_delay * 1000:g} ms apart; "
                     f"one node after the other; in flight: threads, at most {POOL} connections instead of 100"})
    if not sys.stdin.readline():
        return 1  # nobody wants it any more
    task.begin()
    say(run_holds(manager, task) if task.kind == "holds" else run_cycles(manager, task))
    return 0


if __name__ == "__main__":
    sys.exit(main())
