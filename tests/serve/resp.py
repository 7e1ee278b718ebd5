# SPDX-License-Identifier: BSD-2-Clause
"""Just enough of the Redis protocol to speak to a gateway byte by byte, RESP2 and RESP3."""
import socket


class Error(Exception):
    """An error reply; its first word is the code."""

    @property
    def code(self):
        return str(self).split(" ", 1)[0]


class Closed(Exception):
    """The gateway ended the connection."""


class Status(str):
    """A simple string, told apart from bytes."""


class Push(list):
    """What came unasked, in RESP3."""


def encode(*words):
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


class Connection:
    def __init__(self, address, timeout=10):
        """`address` is a path, or (host, port)."""
        self.socket = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
        self.socket.settimeout(timeout)
        self.socket.connect(address)
        self.stream = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def close(self):
        self.stream.close()
        self.socket.close()

    def send(self, *words):
        self.socket.sendall(encode(*words))

    def raw(self, data):
        self.socket.sendall(data)

    def __call__(self, *words):
        """The reply; an error reply is raised."""
        self.send(*words)
        reply = self.read()
        if isinstance(reply, Error):
            raise reply
        return reply

    def error(self, *words):
        """The error that this request is answered with."""
        self.send(*words)
        reply = self.read()
        assert isinstance(reply, Error), reply
        return reply

    def read(self):
        line = self._line()
        kind, rest = line[:1], line[1:]
        if kind == b"-":
            return Error(rest.decode())
        if kind == b"+":
            return Status(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"_":
            return None
        if kind == b"$":
            return None if rest == b"-1" else self._bytes(int(rest))
        if kind == b"%":
            return {self.read(): self.read() for _ in range(int(rest))}
        if kind == b">":
            return Push(self.read() for _ in range(int(rest)))
        assert kind == b"*", line
        return None if rest == b"-1" else [self.read() for _ in range(int(rest))]

    def at_end(self):
        """Whether nothing follows but the end of the connection."""
        try:
            return self.stream.read(1) == b""
        except ConnectionError:
            return True

    def _line(self):
        try:
            line = self.stream.readline()
        except ConnectionError as error:
            raise Closed from error
        if not line.endswith(b"\r\n"):
            raise Closed(line)
        return line[:-2]

    def _bytes(self, count):
        data = self.stream.read(count + 2)
        if len(data) < count + 2:
            raise Closed(data)
        return data[:-2]
