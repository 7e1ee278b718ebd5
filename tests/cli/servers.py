# SPDX-License-Identifier: BSD-2-Clause
"""redis-servers for tests, and just enough of their protocol to ask them."""
import contextlib
import ctypes
import functools
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

LIBC = ctypes.CDLL(None)


def die_with_us():
    LIBC.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: also when the test runner is killed


def free_ports(count):
    """Another process may take one before it is used."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in sockets]


def accepts(path):
    """Whether a process listens at the Unix socket; its file is there a little earlier. Connects to nothing."""
    with open("/proc/net/unix", encoding="utf-8") as sockets:
        return any(line.split()[3] == "00010000" and line.split()[7:] == [str(path)] for line in sockets)


def until(condition, seconds=10, what="the condition"):
    """Waits for condition() to be true and returns what it was."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not come about within {seconds} s; last: {value!r}")
        time.sleep(0.01)


@functools.cache
def _version_line():
    """Of the redis-server in PATH: ("Valkey", "9.1.2")."""
    said = subprocess.run(["redis-server", "--version"], capture_output=True, text=True, check=True).stdout
    return re.match(r"(\w+) server v=([\d.]+)", said).groups()


def server_project():
    """Redis, Valkey or Redict. Each counts its own versions."""
    return _version_line()[0]


def server_version():
    """(major, minor)"""
    return tuple(int(part) for part in _version_line()[1].split(".")[:2])


def server_knows_tls():
    """False: it was built without."""
    said = subprocess.run(["redis-server", "--tls-port", "none"], capture_output=True, text=True, check=False)
    return "Bad directive" not in said.stdout + said.stderr


class ServerError(Exception):
    pass


class Asking:
    """A server on a port of this machine, to be asked."""

    def __init__(self, port, password=None):
        self.port = port
        self.password = password

    def ask(self, *words):
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as connection:
            stream = connection.makefile("rwb")
            if self.password is not None:
                _send(stream, "AUTH", self.password)
                _receive(stream)
            _send(stream, *words)
            return _receive(stream)


class Server(Asking):
    def __init__(self, *arguments, environ=None):
        self.arguments = arguments
        self.environ = {**os.environ, **(environ or {})}
        super().__init__(None)
        self.directory = tempfile.mkdtemp(prefix="redlock-test-server-")
        self.process = None
        for _ in range(5):
            self._start_on_a_port()
            if self._answers():
                return
        raise AssertionError("redis-server does not start")

    def _start_on_a_port(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._start()

    def _start(self):
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
                   "--dir", self.directory, *self.arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        env=self.environ, start_new_session=True, preexec_fn=die_with_us)

    def _answers(self):
        """False: it has ended, because another server was quicker to take the port, for instance. That one's answer does
        not count."""
        end = time.monotonic() + 60  # a busy machine: it lives, so it will answer
        while time.monotonic() < end and self.process.poll() is None:
            try:
                if self.ask("CONFIG", "GET", "dir")[1:] == [self.directory.encode()]:
                    return True
            except ServerError:
                return self.process.poll() is None  # wants a password, but it is there
            except OSError:
                pass
            time.sleep(0.01)
        self.process.kill()
        self.process.wait()
        return False

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    def pause(self):
        os.kill(self.process.pid, signal.SIGSTOP)

    def resume(self):
        os.kill(self.process.pid, signal.SIGCONT)

    def close(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)


def _send(stream, *words):
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    stream.write(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
    stream.flush()


def _receive(stream):
    line = stream.readline()
    if not line.endswith(b"\r\n"):
        raise OSError("connection closed")
    kind, rest = line[:1], line[1:-2]
    if kind == b"-":
        raise ServerError(rest.decode())
    if kind == b":":
        return int(rest)
    if kind == b"$":
        return None if rest == b"-1" else stream.read(int(rest) + 2)[:-2]
    if kind == b"*":
        return [_receive(stream) for _ in range(int(rest))]
    return rest


SAFE = ("--appendonly", "yes", "--appendfsync", "always")


@contextlib.contextmanager
def started(*arguments):
    """One server for each tuple of arguments."""
    with contextlib.ExitStack() as stack:
        servers = []
        for each in arguments:
            servers.append(Server(*each))
            stack.callback(servers[-1].close)
        yield servers


def urls(*servers):
    return ",".join(server.url for server in servers)


class Quorum:
    def __init__(self, count):
        self.servers = []
        with contextlib.ExitStack() as stack:
            stack.callback(self.close)
            for _ in range(count):
                self.servers.append(Server())
            stack.pop_all()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def __getitem__(self, index):
        return self.servers[index]

    @property
    def nodes(self):
        return ",".join(server.url for server in self.servers)

    def values(self, key):
        """What each node holds under the key; None where nothing."""
        return [server.ask("GET", key) for server in self.servers]

    def holder(self, key):
        """The token a majority holds, or None."""
        values = self.values(key)
        best = max(values, key=values.count)
        return best if values.count(best) > len(values) // 2 else None

    def close(self):
        for server in self.servers:
            server.close()
