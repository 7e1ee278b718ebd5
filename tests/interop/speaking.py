# SPDX-License-Identifier: BSD-2-Clause
"""The protocol of README.md for peers in Python: a peer says how it takes, extends and releases a lock."""
import json
import pathlib
import sys
import time
import traceback


def say(told):
    print(json.dumps(told), flush=True)


def why(error):
    return f"{type(error).__name__}: {error}"[:200]


class Speaker:
    """What a peer's own class has: `greeting` (name, version, key, token, defaults) and these three. An exception is a failure
    as well as False is, and is told."""

    greeting = {}

    def acquire(self, resource, ttl_ms, wait_ms):
        """What the client gave, kept for the other two; None or False: not got."""
        raise NotImplementedError

    def token(self, lock):
        """As it stands under the key; None: the client keeps it to itself."""

    def extend(self, lock, ttl_ms):
        """None: it cannot."""

    def release(self, lock):
        raise NotImplementedError

    # ---- the commands ----

    def __init__(self):
        self.locks = {}

    def command_acquire(self, resource, ttl_ms, wait_ms):
        lock = self.acquire(resource, int(ttl_ms), int(wait_ms))
        if lock is None or lock is False:
            return {"ok": False, "why": "held by another"}
        self.locks[resource] = lock
        token = self.token(lock)
        return {"ok": True} if token is None else {"ok": True, "token": token}

    def command_extend(self, resource, ttl_ms):
        told = self.extend(self.locks[resource], int(ttl_ms))
        return {"unsupported": True} if told is None else {"ok": bool(told)}

    def command_release(self, resource):
        return {"ok": self.release(self.locks[resource]) is not False}

    def command_count(self, resource, path, seconds, ttl_ms):
        turns, failed, end = 0, 0, time.monotonic() + float(seconds)
        while (left := end - time.monotonic()) > 0:
            try:
                lock = self.acquire(resource, int(ttl_ms), round(left * 1000))
            except Exception:  # whatever the client throws when a node is away
                lock = False
                time.sleep(0.01)
            if lock is None or lock is False:
                failed += 1
                continue
            self.turn(pathlib.Path(path))
            turns += 1
            try:
                self.release(lock)
            except Exception:  # it has counted, whether or not all nodes know that it is over
                traceback.print_exc()
        return {"turns": turns, "failed": failed}

    @staticmethod
    def turn(path):
        """Not atomic on purpose: whoever looks meanwhile finds it empty."""
        value = int(path.read_text(encoding="ascii"))
        time.sleep(0.002)
        path.write_text(str(value + 1), encoding="ascii")

    def obey(self, words):
        try:
            return getattr(self, f"command_{words[0]}")(*words[1:])
        except Exception as error:
            return {"ok": False, "why": why(error)}

    def run(self):
        say({"ready": True, **self.greeting})
        for line in sys.stdin:
            if (words := line.split())[0] == "quit":
                return
            say(self.obey(words))
