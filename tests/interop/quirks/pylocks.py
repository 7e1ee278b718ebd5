# SPDX-License-Identifier: BSD-2-Clause
"""redis-py's Lock and redlock-py, with connections made in either way. ../README.md has the protocol.
usage: pylocks.py redis-py|redlock-py host|url PORT..."""
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import redis  # noqa: E402
from redis_lock import LockSpeaker  # noqa: E402
from speaking import Speaker  # noqa: E402


class RedlockPy(Speaker):
    def __init__(self, nodes):
        import redlock

        super().__init__()
        self.manager = redlock.Redlock(nodes)

    def acquire(self, resource, ttl_ms, wait_ms):
        return self.manager.lock(resource, ttl_ms)

    def release(self, lock):
        self.manager.unlock(lock)


def main(client, way, *ports):
    if client == "redlock-py":
        RedlockPy([{"host": "127.0.0.1", "port": int(port)} if way == "host" else f"redis://127.0.0.1:{port}"
                   for port in ports]).run()
    elif way == "host":
        LockSpeaker("redis-py", "redis", redis.Redis(host="127.0.0.1", port=int(ports[0]))).run()
    else:
        LockSpeaker("redis-py", "redis", redis.Redis.from_url(f"redis://127.0.0.1:{ports[0]}")).run()


main(*sys.argv[1:])
