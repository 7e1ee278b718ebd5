# SPDX-License-Identifier: BSD-2-Clause
"""A server that is far away: what it is sent, and what it answers, is on its way for a while."""
import collections
import contextlib
import selectors
import socket
import threading
import time


class _Side:
    """One direction of a connection."""

    def __init__(self, source, sink, begins):
        self.source, self.sink, self.begins = source, sink, begins
        self.under_way = collections.deque()
        self.ended = False


class Distance:
    """In front of a server on this machine; `ms` there and back."""

    def __init__(self, server, ms):
        self.port = server.port
        self.delay = ms / 2000
        self.selector = selectors.DefaultSelector()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.sides = []
        self.ending = False
        self.thread = threading.Thread(target=self._carry, daemon=True)
        self.thread.start()

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.listener.getsockname()[1]}"

    def _connect(self):
        client, _ = self.listener.accept()
        try:
            server = socket.create_connection(("127.0.0.1", self.port), timeout=5)
        except OSError:
            client.close()
            return
        begins = time.monotonic() + 2 * self.delay  # TCP's own handshake
        for source, sink in ((client, server), (server, client)):
            source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.sides.append(_Side(source, sink, begins))
            self.selector.register(source, selectors.EVENT_READ, self.sides[-1])

    def _read(self, side):
        try:
            data = side.source.recv(1 << 16)
        except OSError:
            data = b""
        side.under_way.append((max(time.monotonic(), side.begins) + self.delay, data))
        if not data:
            self.selector.unregister(side.source)

    def _deliver(self, side, now):
        while side.under_way and side.under_way[0][0] <= now:
            _, data = side.under_way.popleft()
            with contextlib.suppress(OSError):
                if data:
                    side.sink.sendall(data)
                else:
                    side.ended = True
                    side.sink.shutdown(socket.SHUT_WR)

    def _carry(self):
        while not self.ending:
            dues = [side.under_way[0][0] for side in self.sides if side.under_way]
            wait = max(0, min(dues) - time.monotonic()) if dues else 0.05
            for key, _ in self.selector.select(min(wait, 0.05)):
                if key.data is None:
                    self._connect()
                else:
                    self._read(key.data)
            for side in self.sides:
                self._deliver(side, time.monotonic())

    def close(self):
        self.ending = True
        self.thread.join()
        for side in self.sides:
            side.source.close()
        self.listener.close()
        self.selector.close()
