# SPDX-License-Identifier: BSD-2-Clause
"""Servers that are killed and come back, and the links between them and the workers."""
import mmap
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from servers import Server, ServerError, _receive, _send, die_with_us  # noqa: E402

SAFE = ("--appendonly", "yes", "--appendfsync", "always")
NODES_MAX = 16


def now():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Node(Server):
    """A server. It never waits for long: a server that was stopped does not stop the harness."""

    def __init__(self, number, directory, *arguments, module=None, stepclock=None):
        self.number, self.stream = number, None
        self.native = module is not None
        self.stopped = False
        self.lost_nonce = None  # its nonce when it last lost its data, until it is intact again
        self.lost_at = 0
        self.killed = False     # by us: else it must live
        self.busy = False       # a longer fault plays on it
        self.troubled_until = 0
        self.clock, environ = None, {}
        if stepclock:
            path = pathlib.Path(directory) / f"clock{number}"
            path.write_bytes(bytes(8))
            with open(path, "r+b") as file:
                self.clock = mmap.mmap(file.fileno(), 8)
            environ = {"LD_PRELOAD": str(stepclock), "STEPCLOCK_FILE": str(path), "STEPCLOCK_RUNS": "1"}
        arguments = (*arguments, "--repl-diskless-sync-delay", "0", "--logfile", str(pathlib.Path(directory) / f"server{number}.log"))
        if module:
            arguments = (*arguments, "--loadmodule", str(module))
        super().__init__(*arguments, environ=environ)

    @property
    def up(self):
        return self.process is not None and self.process.poll() is None

    def ask(self, *words, seconds=0.5):
        """By a connection of its own. OSError: the server is away, or does not answer in time."""
        try:
            if self.stream is None:
                connection = socket.create_connection(("127.0.0.1", self.port), timeout=seconds)
                self.stream = connection.makefile("rwb")
                self.connection = connection
            self.connection.settimeout(seconds)
            _send(self.stream, *words)
            return _receive(self.stream)
        except OSError:
            self.forget()
            raise

    def forget(self):
        if self.stream is not None:
            self.connection.close()
            self.stream = None

    def record(self):
        """What it says of itself; {}: nothing, or no answer."""
        try:
            flat = self.ask("REDLOCK.RECORD") if self.native else self.ask("HGETALL", "redlock:node")
        except (OSError, ServerError, ValueError):
            return {}
        return {name.decode(): value.decode() for name, value in zip(flat[::2], flat[1::2])}

    # ---- faults ----

    def pause(self):
        if self.up:
            self.stopped = True
            super().pause()

    def resume(self):
        self.stopped = False
        if self.process.poll() is None:
            super().resume()

    def kill(self):
        self.forget()
        self.killed = True
        self.process.kill()
        self.process.wait()
        self.stopped = False

    def start_again(self, empty):
        """On the same port. Does not wait."""
        if empty:
            for each in pathlib.Path(self.directory).iterdir():
                shutil.rmtree(each) if each.is_dir() else each.unlink()
        self._start()
        self.killed = False

    def step(self, seconds):
        """Its wall clock, by so many seconds."""
        was, = struct.unpack("=q", self.clock[:])
        self.clock[:] = struct.pack("=q", was + int(seconds * 1e6))

    def close(self):
        self.forget()
        if self.up:
            os.kill(self.process.pid, signal.SIGCONT)
        super().close()


class Links:
    """One process with a listener for each pair of client and node."""

    def __init__(self, program, errors):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
                                        preexec_fn=die_with_us)
        self.ports = {}

    def send(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def open(self, client, node):
        """The port at which this client's link to the node begins."""
        if (client, node.number) not in self.ports:
            self.send("open", client * NODES_MAX + node.number, node.port)
            self.ports[client, node.number] = int(self.process.stdout.readline().split()[1])
        return self.ports[client, node.number]

    def of(self, client=None, node=None):
        return [pair for pair in self.ports if client in (None, pair[0]) and node in (None, pair[1])]

    def tell(self, pairs, word, *values):
        for client, node in pairs:
            self.send(word, client * NODES_MAX + node, *values)

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        try:
            return self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()
