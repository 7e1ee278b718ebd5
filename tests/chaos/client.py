# SPDX-License-Identifier: BSD-2-Clause
"""client.py LOG RESOURCES TTL_MS OWNER KIND ...: takes locks by other ways than the library, and writes down what record.h says.

    shell REDLOCK OPTION...    redlock acquire, redlock release
    gateway PORT MODE          SET NX PX and a script at a gateway
    peer NAME URLS             another project's client (tests/interop)
"""
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from judge import GRANT, LAYOUT, LEAVE  # noqa: E402
from machines import ServerError, _receive, _send, die_with_us, now  # noqa: E402

RELEASE = 'if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end'


def least_validity_ns(ttl_ms):
    """From before the request on: without the allowance for drift."""
    return int(ttl_ms * 0.99 - 2) * 1000000


class Shell:
    def __init__(self, owner, ttl_ms, program, *options):
        self.options = [*options, "-q"]
        self.owner, self.ttl_ms, self.program = owner, ttl_ms, program

    def _run(self, *words):
        done = subprocess.run([self.program, *words], capture_output=True, text=True, check=False, preexec_fn=die_with_us)
        if done.returncode not in (0, 69, 75, 80):
            sys.exit(f"{words[0]} ended with status {done.returncode}: {done.stderr}")
        return done

    def acquire(self, resource):
        """(end of validity at the least, fence), or None."""
        asked = now()
        done = self._run("acquire", *self.options, "-j", "-t", f"{self.ttl_ms}ms", "-w", "100ms", "-o", self.owner, resource)
        if done.returncode != 0:
            return None
        told = json.loads(done.stdout)
        self.token = told["token"]
        return asked + told["validity_ms"] * 1000000, told.get("fence") or 0

    def release(self, resource):
        self._run("release", *self.options, "--token", self.token, resource)


class Gateway:
    def __init__(self, owner, ttl_ms, port, mode):
        self.owner, self.ttl_ms, self.port, self.guarded = owner, ttl_ms, int(port), mode == "guarded"
        self.stream = None

    def _ask(self, *words):
        try:
            if self.stream is None:
                connection = socket.create_connection(("127.0.0.1", self.port), timeout=10)
                self.stream = connection.makefile("rwb")
            _send(self.stream, *words)
            return _receive(self.stream)
        except ServerError:
            return None
        except TimeoutError:
            sys.exit(f"the gateway does not answer {words[0]} within 10 s")
        except OSError:
            self.stream = None
            time.sleep(0.05)
            return None

    def acquire(self, resource):
        self.value = f"{random.getrandbits(128):032x}:{self.owner}"
        asked = now()
        if self._ask("SET", resource, self.value, "NX", "PX", self.ttl_ms) != b"OK":
            return None
        fence = self._ask("REDLOCK.FENCE", resource, self.value) if self.guarded else 0
        return None if fence is None else (asked + least_validity_ns(self.ttl_ms), int(fence))

    def release(self, resource):
        self._ask("EVAL", RELEASE, 1, resource, self.value)


class Peer:
    def __init__(self, owner, ttl_ms, name, urls):
        del owner
        sys.path.insert(0, str(HERE.parent / "interop"))
        import peers
        peer = peers.Peer(name)
        peer.install()
        self.ttl_ms = ttl_ms
        self.program = peers.Program([*peer.command(peer.start), *urls.split(",")], cwd=peer.build)

    def acquire(self, resource):
        asked = now()
        if not self.program.ask("acquire", resource, self.ttl_ms, 0).get("ok"):
            return None
        return asked + least_validity_ns(self.ttl_ms), 0

    def release(self, resource):
        self.program.ask("release", resource)


def main():
    log_path, resources, ttl_ms, owner, kind, *rest = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    client = {"shell": Shell, "gateway": Gateway, "peer": Peer}[kind](owner, int(ttl_ms), *rest)
    log = os.open(log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    turn = 0
    while True:
        turn += 1
        number = random.randrange(int(resources))
        asked = now()
        got = client.acquire(f"r{number}")
        if got is None:
            time.sleep(random.uniform(0.002, 0.02))
            continue
        end, fence = got
        os.write(log, LAYOUT.pack(now(), end, fence, asked, GRANT, number, 0, turn))
        time.sleep(random.choice((0, 0, 0.002, 0.02, 0.2)))
        os.write(log, LAYOUT.pack(now(), end, fence, asked, LEAVE, number, 0, turn))
        client.release(f"r{number}")


main()
