# SPDX-License-Identifier: BSD-2-Clause
"""What StackExchange.Redis sends for LockTake, LockExtend and LockRelease, command for command, on one connection as its
multiplexer has. Taken from its source, which is the same in this from 1.0 to 2.13 (and in 3.x with servers before 8.4):
RedisDatabase.cs: LockTake, GetStringSetMessage, GetLockExtendTransaction, GetLockReleaseTransaction; Condition.cs;
RedisTransaction.cs: GetMessages. The library itself is in no package manager that the tests may count on
(docs/use/interop.md). ../README.md has the protocol. usage: peer.py [3] URL, where 3 is for 3.x on servers from 8.4 on
"""
import pathlib
import socket
import sys
import time
import urllib.parse
import uuid

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from speaking import Speaker  # noqa: E402


class Connection:
    def __init__(self, url):
        parts = urllib.parse.urlsplit(url)
        self.stream = socket.create_connection((parts.hostname, parts.port)).makefile("rwb")

    def send(self, *commands):
        """In one write, as they are when nothing is waited for in between; returns the last one's answer."""
        for words in commands:
            encoded = [str(word).encode() for word in words]
            self.stream.write(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in encoded))
        self.stream.flush()
        return [self.answer() for _ in commands][-1]

    def answer(self):
        line = self.stream.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            return RuntimeError(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.stream.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return None if rest == b"-1" else [self.answer() for _ in range(int(rest))]
        if kind != b"+":
            raise OSError("connection closed")
        return rest


class StackExchange(Speaker):
    greeting = {"name": "StackExchange.Redis (what it sends)", "version": "1.0 to 2.13", "key": "R", "token": "what the caller says",
                "defaults": {"ttl": "none: it is always said", "tries": 1, "drift": "none"}}

    def __init__(self, url):
        super().__init__()
        self.redis = Connection(url)

    def lock_take(self, key, value, ttl_ms):
        """StringSet(key, value, expiry, When.NotExists): "a nice round number of seconds" or milliseconds."""
        expiry = ("PX", ttl_ms) if ttl_ms % 1000 else ("EX", ttl_ms // 1000)
        return self.redis.send(("SET", key, value, *expiry, "NX")) == b"OK"

    def transaction(self, key, value, operation):
        """Condition.StringEqual(key, value) and one operation; true: it was executed."""
        if self.redis.send(("WATCH", key), ("GET", key)) != value.encode():
            self.redis.send(("UNWATCH",))
            return False
        return self.redis.send(("MULTI",), operation, ("EXEC",)) is not None

    def lock_extend(self, key, value, ttl_ms):
        expire = ("PEXPIRE", key, ttl_ms) if ttl_ms % 1000 else ("EXPIRE", key, ttl_ms // 1000)
        return self.transaction(key, value, expire)

    def lock_release(self, key, value):
        return self.transaction(key, value, ("DEL", key))

    # ---- the protocol ----

    def acquire(self, resource, ttl_ms, wait_ms):
        """It never waits: callers try again after a while."""
        end = time.monotonic() + wait_ms / 1000
        value = str(uuid.uuid4())
        while not self.lock_take(resource, value, ttl_ms):
            if time.monotonic() >= end:
                return None
            time.sleep(0.05)
        return resource, value

    def token(self, lock):
        return lock[1]

    def extend(self, lock, ttl_ms):
        return self.lock_extend(*lock, ttl_ms)

    def release(self, lock):
        return self.lock_release(*lock)


class StackExchange3(StackExchange):
    """One command in place of a transaction."""

    greeting = {**StackExchange.greeting, "version": "3.x"}

    def lock_extend(self, key, value, ttl_ms):
        expiry = ("PX", ttl_ms) if ttl_ms % 1000 else ("EX", ttl_ms // 1000)
        return self.redis.send(("SET", key, value, *expiry, "IFEQ", value)) == b"OK"

    def lock_release(self, key, value):
        return self.redis.send(("DELEX", key, "IFEQ", value)) == 1


(StackExchange3 if sys.argv[1] == "3" else StackExchange)(sys.argv[-1]).run()
