# SPDX-License-Identifier: BSD-2-Clause
"""A server with the module, and connections that understand RESP2 and RESP3."""
import contextlib
import mmap
import os
import pathlib
import re
import socket
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "cli"))
from servers import Server, ServerError, until  # noqa: E402, F401

MODULE = os.environ["REDLOCK_MODULE"]
STEPCLOCK = os.environ["STEPCLOCK"]
# The library of a sanitizer that the module was built with: the server knows nothing of it.
SANITIZER = os.environ.get("SANITIZER_LIBRARY", "")
SANITIZED = {"LD_PRELOAD": SANITIZER, "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1"} if SANITIZER else {}


def server_version():
    """(7, 0) of Redis; Valkey counts its own, which begins above."""
    text = subprocess.run(["redis-server", "--version"], check=True, capture_output=True, text=True).stdout
    return tuple(int(part) for part in re.search(r"v=(\d+)\.(\d+)", text).groups())


VERSION = server_version()
# a client may send MODULE
MAY_LOAD = ["--enable-module-command", "local"] if VERSION >= (7, 0) else []


def fenced(nonce="", fence=None, *stripes):
    """The last word of a guarded vote; fewer parts make one that is wrong."""
    nonce = nonce if isinstance(nonce, bytes) else nonce.encode()
    parts = [nonce] + [str(fence).encode()] * (fence is not None) + [",".join(map(str, stripes)).encode()] * bool(stripes)
    return b"FENCE=" + b":".join(parts)


def fields(info):
    lines = info.decode().split("\r\n")
    return dict(line.split(":", 1) for line in lines if ":" in line)


class Connection:
    """Requests and replies in turn; what the server pushes in between is kept in `pushes`."""

    def __init__(self, port, resp3=False):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.stream = self.socket.makefile("rwb")
        self.pushes = []
        if resp3:
            self.ask("HELLO", 3)

    def send(self, *words):
        words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        self.stream.write(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))

    def receive(self):
        self.stream.flush()
        while True:
            reply = self._one()
            if not isinstance(reply, Push):
                return reply
            self.pushes.append(reply.items)

    def ask(self, *words):
        self.send(*words)
        reply = self.receive()
        if isinstance(reply, ServerError):
            raise reply
        return reply

    def error(self, *words):
        """The text of the error that it must be."""
        try:
            reply = self.ask(*words)
        except ServerError as error:
            return str(error)
        raise AssertionError(f"{words}: no error, but {reply!r}")

    def _one(self):
        line = self.stream.readline()
        if not line.endswith(b"\r\n"):
            raise OSError("connection closed")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            return ServerError(rest.decode())
        if kind == b":":
            return int(rest)
        if kind in b"$=":
            return None if rest == b"-1" else self.stream.read(int(rest) + 2)[:-2]
        if kind in b"*~":
            return None if rest == b"-1" else [self._one() for _ in range(int(rest))]
        if kind == b">":
            return Push([self._one() for _ in range(int(rest))])
        if kind == b"%":
            return {self._one(): self._one() for _ in range(int(rest))}
        if kind == b"_":
            return None
        return rest

    def close(self):
        self.socket.close()


class Push:
    def __init__(self, items):
        self.items = items


def log_of(server):
    """Of one that was started with --logfile log."""
    return pathlib.Path(server.directory, "log").read_text(encoding="utf-8")


class Node(Server):
    """A native node, and a connection to it: node("GET", "a")."""

    def __init__(self, *options, arguments=(), environ=None, module=MODULE):
        more = ["--enable-debug-command", "local"] if VERSION >= (7, 0) else []
        more += MAY_LOAD
        super().__init__(*more, *arguments, "--logfile", "log", "--loadmodule", module, *options,
                         environ={**SANITIZED, **(environ or {})})
        self.connection = Connection(self.port)

    def __call__(self, *words):
        return self.connection.ask(*words)

    def error(self, *words):
        return self.connection.error(*words)

    def connect(self, resp3=False):
        return Connection(self.port, resp3)

    def acquire(self, *keys, token="t", ttl=30000, fence=()):
        return self("REDLOCK.ACQUIRE", len(keys), *keys, token, ttl, *((fenced(*fence),) if fence else ()))

    def extend(self, *keys, token="t", ttl=30000, fence=()):
        return self("REDLOCK.EXTEND", len(keys), *keys, token, ttl, *((fenced(*fence),) if fence else ()))

    def release(self, *keys, token="t"):
        return self("REDLOCK.RELEASE", len(keys), *keys, token)

    def info(self):
        return fields(self("INFO", "redlock"))

    @property
    def log(self):
        return log_of(self)

    def close(self):
        self.connection.close()
        super().close()


@contextlib.contextmanager
def server(*arguments, environ=None):
    """A stock one."""
    made = Server(*arguments, environ=environ)
    try:
        yield made
    finally:
        made.close()


@contextlib.contextmanager
def node(*options, **more):
    made = Node(*options, **more)
    try:
        yield made
    finally:
        made.close()


class WallClock:
    """The wall clock of a server, moved by a number of seconds. CLOCK_BOOTTIME stays true."""

    def __init__(self):
        self.file = tempfile.NamedTemporaryFile(prefix="redlock-clock-")
        self.file.write(struct.pack("q", 0))
        self.file.flush()
        self.map = mmap.mmap(self.file.fileno(), 8)
        self.environ = {"LD_PRELOAD": f"{SANITIZER}:{STEPCLOCK}".strip(":"), "STEPCLOCK_FILE": self.file.name, "STEPCLOCK_RUNS": "1"}

    def step(self, seconds):
        self.map[:8] = struct.pack("q", int(seconds * 1000000))


def start_fails(*arguments, module=MODULE):
    """What a server says that must not start."""
    with tempfile.TemporaryDirectory() as directory:
        port = 65535
        while port > 55535:  # the cluster's own port is 10000 higher
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
        done = subprocess.run(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", directory, *arguments, "--loadmodule", *module.split()],
                              capture_output=True, timeout=20, check=False, env={**os.environ, **SANITIZED})
        assert done.returncode != 0
        return done.stdout.decode()
