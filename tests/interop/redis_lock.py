# SPDX-License-Identifier: BSD-2-Clause
"""The Lock of redis-py, and of valkey-py, which is a fork of it: one server, its defaults."""
import importlib.metadata

from speaking import Speaker


class LockSpeaker(Speaker):
    def __init__(self, name, package, client):
        super().__init__()
        self.greeting = {"name": name, "version": importlib.metadata.version(package), "key": "R", "token": "UUID 1, 32 hex digits",
                         "defaults": {"ttl": "none: held until released", "tries": "no limit", "delay_ms": 100, "drift": "none"}}
        self.client = client

    def acquire(self, resource, ttl_ms, wait_ms):
        lock = self.client.lock(resource, timeout=ttl_ms / 1000)
        return lock.acquire(blocking=wait_ms > 0, blocking_timeout=wait_ms / 1000) and lock

    def token(self, lock):
        return lock.local.token.decode()

    def extend(self, lock, ttl_ms):
        return lock.extend(ttl_ms / 1000, replace_ttl=True)

    def release(self, lock):
        lock.release()
