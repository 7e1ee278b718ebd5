# SPDX-License-Identifier: BSD-2-Clause
"""redlock-py on the same locks: its defaults. ../README.md has the protocol. usage: peer.py URL ..."""
import importlib.metadata
import pathlib
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import redis  # noqa: E402
import redlock  # noqa: E402
from speaking import Speaker  # noqa: E402


class RedlockPy(Speaker):
    def __init__(self, urls):
        super().__init__()
        self.manager = redlock.Redlock([redis.Redis.from_url(url) for url in urls])
        self.greeting = {
            "name": "redlock-py", "version": importlib.metadata.version("redlock-py"), "key": "R",
            "token": "22 characters a-z A-Z 0-9",
            "defaults": {"ttl": "none: it is always said", "tries": self.manager.retry_count,
                         "delay_ms": self.manager.retry_delay * 1000,
                         "drift": f"{self.manager.clock_drift_factor:.0%} + 2 ms", "nodes": "one after the other",
                         "redis-py": importlib.metadata.version("redis")}}

    def acquire(self, resource, ttl_ms, wait_ms):
        end = time.monotonic() + wait_ms / 1000
        while True:
            if lock := self.manager.lock(resource, ttl_ms):
                return lock
            if time.monotonic() >= end:
                return False

    def token(self, lock):
        return lock.key.decode()

    def release(self, lock):
        self.manager.unlock(lock)


RedlockPy(sys.argv[1:]).run()
