# SPDX-License-Identifier: BSD-2-Clause
"""Many locks that end together, and many who listen to that: a bystander and the watchdog hardly notice."""
import contextlib
import multiprocessing
import selectors
import socket
import threading
import time

from resp import Connection, encode
from servers import until
from test_metrics import ask, page, samples

SUBSCRIBERS, LOCKS, LEFT_S = 20, 1000, 2.5
WATCHDOG_S = 0.3
STALL_S = 0.5  # before events waited in a queue, it was many seconds


def prefixes(text, count):
    return [text[:length] + "*" for length in range(count)]


def read_all(sockets):
    """What they are sent, as fast as it comes."""
    with selectors.DefaultSelector() as selector:
        for one in sockets:
            one.setblocking(False)
            selector.register(one, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select():
                try:
                    data = key.fileobj.recv(1 << 20)
                except ConnectionError:
                    data = b""
                if not data:
                    selector.unregister(key.fileobj)


@contextlib.contextmanager
def reader(connections):
    """A process of its own: this one should notice only what the gateway does."""
    process = multiprocessing.get_context("fork").Process(target=read_all, args=([one.socket for one in connections],), daemon=True)
    process.start()
    yield
    process.kill()
    process.join()


class Watchdog:
    """The service manager's side; `longest` is the longest time between two messages."""

    def __init__(self, path):
        self.environ = {"NOTIFY_SOCKET": path, "WATCHDOG_USEC": str(int(WATCHDOG_S * 3e6))}
        self.receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.receiver.bind(path)
        self.longest, self.last = 0, None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while (message := self.receiver.recv(4096)) != b"end":
            if message == b"WATCHDOG=1":
                now = time.monotonic()
                self.longest = max(self.longest, now - self.last) if self.last is not None else 0
                self.last = now

    def stop(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"end", self.environ["NOTIFY_SOCKET"])
        self.thread.join()
        self.receiver.close()


def take_all(client, names, end):
    """They end together, whenever they were taken."""
    for at in range(0, len(names), 10):
        left_ms = max(300, int((end - time.monotonic()) * 1000))
        some = names[at:at + 10]
        client.raw(b"".join(encode("SET", name, "v", "NX", "PX", left_ms) for name in some))
        assert [client.read() for _ in some] == ["OK"] * len(some)


def longest_wait(client, gateway, until_s):
    """For an answer to a client, or to an orchestrator."""
    longest = 0
    while time.monotonic() < until_s:
        for asks in (lambda: client("PING"), lambda: ask(gateway, "/healthz")):
            began = time.monotonic()
            assert asks() in ("PONG", (200, "ok\n"))
            longest = max(longest, time.monotonic() - began)
        time.sleep(0.002)
    return longest


def counted(gateway, what):
    return samples(page(gateway))[f"redlock_serve_{what}_total", None]


def test_locks_that_end_together_stall_nobody(start, quorum, key, tmp_path):
    name = key + "-" + "n" * 400
    patterns = prefixes("__keyevent@0__:expired", 20) + prefixes("__keyspace@0__:" + name, 64)[20:]
    with contextlib.ExitStack() as stack:
        watchdog = Watchdog(str(tmp_path / "notify"))
        stack.callback(watchdog.stop)
        gateway = start(quorum.nodes, "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0", environ=watchdog.environ)
        client = stack.enter_context(Connection(gateway.address()))
        subscribers = [stack.enter_context(Connection(gateway.address())) for _ in range(SUBSCRIBERS)]
        for one in subscribers:
            assert one("PSUBSCRIBE", *patterns)[2] == 1
            assert [one.read()[2] for _ in patterns[1:]] == list(range(2, 65))
        stack.enter_context(reader(subscribers))
        end = time.monotonic() + LEFT_S
        take_all(client, [f"{name}{number}" for number in range(LOCKS)], end)
        assert longest_wait(client, gateway, end + 2) < STALL_S
        assert watchdog.longest < WATCHDOG_S + STALL_S
        until(lambda: counted(gateway, "expired") == LOCKS, what="the end of all")
        assert counted(gateway, "notifications") > 10 * LOCKS
