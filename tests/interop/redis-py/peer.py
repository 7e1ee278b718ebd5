# SPDX-License-Identifier: BSD-2-Clause
"""redis-py's own Lock. ../README.md has the protocol. usage: peer.py URL"""
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import redis  # noqa: E402
from redis_lock import LockSpeaker  # noqa: E402

LockSpeaker("redis-py", "redis", redis.Redis.from_url(sys.argv[1])).run()
