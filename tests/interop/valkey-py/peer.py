# SPDX-License-Identifier: BSD-2-Clause
"""valkey-py's own Lock: one server, its defaults. ../README.md has the protocol. usage: peer.py URL"""
import importlib.metadata
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import valkey  # noqa: E402
from speaking import Speaker  # noqa: E402


class ValkeyPy(Speaker):
    greeting = {"name": "valkey-py", "version": importlib.metadata.version("valkey"), "key": "R", "token": "UUID 1, 32 hex digits",
                "defaults": {"ttl": "none: held until released", "tries": "no limit", "delay_ms": 100, "drift": "none"}}

    def __init__(self, url):
        super().__init__()
        self.client = valkey.Valkey.from_url(url)

    def acquire(self, resource, ttl_ms, wait_ms):
        lock = self.client.lock(resource, timeout=ttl_ms / 1000)
        return lock.acquire(blocking=wait_ms > 0, blocking_timeout=wait_ms / 1000) and lock

    def token(self, lock):
        return lock.local.token.decode()

    def extend(self, lock, ttl_ms):
        return lock.extend(ttl_ms / 1000, replace_ttl=True)

    def release(self, lock):
        lock.release()


ValkeyPy(sys.argv[1]).run()
