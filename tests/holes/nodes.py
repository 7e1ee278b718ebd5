# SPDX-License-Identifier: BSD-2-Clause
"""Servers that lose what they had, and an address that moves from one server to another."""
import contextlib
import mmap
import os
import pathlib
import socket
import struct
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "cli"))
from servers import Server, server_version, until  # noqa: E402


class Node(Server):
    def kill(self):
        self.process.kill()
        self.process.wait()

    def restart(self):
        """On the same port and directory: with what was persisted, or empty."""
        for _ in range(20):
            self._start()
            if self._answers():
                break
        else:
            raise AssertionError("redis-server does not start again")
        until(lambda: b"loading:0" in self.ask("INFO", "persistence"), what="the data loaded")

    def info(self, section, field):
        lines = self.ask("INFO", section).decode().splitlines()
        return next(line.split(":", 1)[1] for line in lines if line.startswith(field + ":"))

    @property
    def standing(self):
        """As its record says."""
        return self.ask("HGET", "redlock:node", "standing")

    @property
    def append_only_file(self):
        here = pathlib.Path(self.directory)
        return next(here.glob("appendonlydir/*.incr.aof")) if server_version() >= (7, 0) else here / "appendonly.aof"


class Group:
    """Several nodes, closed together."""

    def __init__(self, count, *arguments, make=Node):
        self.nodes = []
        with contextlib.ExitStack() as stack:
            stack.callback(self.close)
            for _ in range(count):
                self.nodes.append(make(*arguments))
            stack.pop_all()

    def __enter__(self):
        return self.nodes

    def __exit__(self, *exception):
        self.close()

    def close(self):
        for node in self.nodes:
            node.close()


def urls(nodes):
    return ",".join(node.url for node in nodes)


class ClockedNode(Node):
    """Its wall clock goes ahead when it is told to."""

    def __init__(self, directory):
        path = directory / "clock"
        path.write_bytes(bytes(8))
        with open(path, "r+b") as file:
            self.clock = mmap.mmap(file.fileno(), 8)
        super().__init__(environ={"LD_PRELOAD": os.environ["STEPCLOCK"], "STEPCLOCK_FILE": str(path), "STEPCLOCK_RUNS": "1"})

    def jump(self, seconds):
        was, = struct.unpack("=q", self.clock[:])
        self.clock[:] = struct.pack("=q", was + int(seconds * 1e6))


class Address:
    """A TCP address in front of a server, as a virtual IP or a DNS name is: it can be moved to another one, and whoever is
    connected stays where he is. Each connection ends at one server for all its life."""

    def __init__(self, port):
        self.target = port
        self.pairs = []
        self.open_gate = threading.Event()
        self.open_gate.set()
        self.refusing = False
        self.when = None
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                if self.refusing:
                    near.close()
                    continue
                try:
                    far = socket.create_connection(("127.0.0.1", self.target))
                except OSError:
                    near.close()
                    continue
                for end in (near, far):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.pairs.append((near, far))
                for pair in (near, far, self._pass_on), (far, near, self._wait):
                    threading.Thread(target=self._pump, args=pair, daemon=True).start()

    def _wait(self, _):
        self.open_gate.wait()

    def _pass_on(self, data):
        if self.when is not None and self.when[0] in data:
            _, act = self.when
            self.when = None
            act()

    @staticmethod
    def _pump(source, sink, before):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                before(data)
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def hold(self):
        """What the server says from now on is not passed on before open()."""
        self.open_gate.clear()

    def open(self):
        self.open_gate.set()

    def before(self, word, act):
        """Acts once: when a client sends the word, and before the server gets it."""
        self.when = word, act

    def refuse(self):
        """Closes all connections, and until admit() each new one too."""
        self.refusing = True
        self.cut()

    def admit(self):
        self.refusing = False

    def cut(self, every=1):
        """Ends every so-manieth of the connections that live; returns how many."""
        live = [pair for pair in self.pairs if pair[0].fileno() >= 0 and _is_connected(pair[0])]
        for near, far in live[::every]:
            for end in (near, far):
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
        return len(live[::every])

    def close(self):
        self.open()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.cut()
        for near, far in self.pairs:
            near.close()
            far.close()


def _is_connected(end):
    try:
        end.getpeername()
        return True
    except OSError:
        return False
