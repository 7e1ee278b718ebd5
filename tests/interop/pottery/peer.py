# SPDX-License-Identifier: BSD-2-Clause
"""pottery's Redlock on the same locks: its defaults. ../README.md has the protocol. usage: peer.py URL ..."""
import importlib.metadata
import logging
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import redis  # noqa: E402
from pottery import Redlock  # noqa: E402
from speaking import Speaker  # noqa: E402


class Pottery(Speaker):
    def __init__(self, urls):
        super().__init__()
        self.masters = [redis.Redis.from_url(url) for url in urls]
        self.greeting = {
            "name": "pottery", "version": importlib.metadata.version("pottery"), "key": "redlock:R", "token": "UUID",
            "defaults": {"ttl_ms": Redlock._AUTO_RELEASE_TIME * 1000, "tries": "no limit",
                         "delay_ms": f"0 to {Redlock._RETRY_DELAY * 1000:g}", "drift": f"{Redlock._CLOCK_DRIFT_FACTOR:.0%} + 2 ms",
                         "extensions": Redlock._NUM_EXTENSIONS, "redis-py": importlib.metadata.version("redis")}}

    def acquire(self, resource, ttl_ms, wait_ms):
        lock = Redlock(key=resource, masters=self.masters, auto_release_time=ttl_ms / 1000)
        got = lock.acquire(blocking=False) if wait_ms == 0 else lock.acquire(timeout=wait_ms / 1000)
        return got and lock

    def extend(self, lock, ttl_ms):
        lock.auto_release_time = ttl_ms / 1000
        lock.extend()
        return True

    def release(self, lock):
        lock.release()


logging.disable(logging.CRITICAL)
Pottery(sys.argv[1:]).run()
