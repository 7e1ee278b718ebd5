# SPDX-License-Identifier: BSD-2-Clause
"""Stands between clients and one server, and writes down what the server does with each request.

usage: recorder.py PORTS SERVER_PORT LOG SEED SCRIPTS_DIR [RESOURCE...]

Each client has a port of its own, in PORTS, with commas; it is known by the place of this port.
The recorder gives the server one request at a time and looks at the keys behind each, so that the order is known and every
change has a cause. Requests and replies are late by times drawn from the seed, and connections break. SIGUSR1: the server
loses its data. SIGUSR2: the server is about to be killed, and the second time it has been started again, without its data
if there are resources, else with all of it; each time the recorder answers with a line on standard output. With resources,
their fences are written down too, behind each record.

The lines of the log, times in nanoseconds of CLOCK_BOOTTIME. AFTER is for each key what it is behind the request: its value
("-": none), when it ends in milliseconds of the server's clock, and the fence of its stripe:

    REQUEST ARRIVED SENT REPLIED CLIENT OP TOKEN TTL_MS FENCE RESOURCES REPLY AFTER...
    ANSWERED AT REQUEST     the client is given the answer to the request with this number, counted from 0
    RECORD AT WRITER INTACT MEMBER,NUMBER,RUN_ID;... FENCE...    client WRITER - 1 wrote it; 0: it was there
    LOSS AT
"""
import hashlib
import heapq
import pathlib
import random
import re
import selectors
import signal
import socket
import sys
import time


def now():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Resp:
    """Values out of a stream of bytes: requests, or replies of RESP2 and RESP3."""

    def __init__(self):
        self.data = bytearray()

    def line(self, at):
        end = self.data.find(b"\r\n", at)
        return None if end < 0 else (bytes(self.data[at + 1:end]), end + 2)

    def value(self, at=0):
        """(value, where it ends), or None: it is not there yet. A push is a tuple."""
        found = self.line(at) if at < len(self.data) else None
        if found is None:
            return None
        kind, (text, at) = chr(self.data[at]), found
        if kind in "+-:,#_(":
            return (kind + text.decode() if kind == "-" else text), at
        count = int(text)
        if kind in "$=":
            if count < 0:
                return None, at
            return (bytes(self.data[at:at + count]), at + count + 2) if len(self.data) >= at + count + 2 else None
        items = []
        for _ in range(2 * count if kind == "%" else max(count, 0)):
            item = self.value(at)
            if item is None:
                return None
            items.append(item[0])
            at = item[1]
        return (tuple(items) if kind == ">" else items), at

    def take(self):
        """(value, its bytes), or None."""
        found = self.value()
        if found is None:
            return None
        raw = bytes(self.data[:found[1]])
        del self.data[:found[1]]
        return found[0], raw


def words_of(*words):
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def stripe_of(key):
    hashed = 0xcbf29ce484222325  # FNV-1a
    for byte in key:
        hashed = (hashed ^ byte) * 0x100000001b3 % 2**64
    return hashed % 4096


class Request:
    """What a command is about: SET, Extend, X releases, Z raises behind a SET, T raises again, Fences are read, Write."""

    def __init__(self, op, keys=(), token=b"-", ttl=b"0", fence=b"0"):
        self.op, self.keys, self.token, self.ttl, self.fence = op, keys, token, ttl, fence


class Scripts:
    # What they do not change is not written down.
    OTHERS = ("waiting", "waiters", "confirm")

    def __init__(self, directory):
        self.names = {}
        for path in directory.glob("*.lua"):
            text = re.sub(r"--[^\n]*\n", "", path.read_text())
            self.names[hashlib.sha1(text.encode()).hexdigest()] = path.stem

    def request_of(self, words, last_set):
        """None: it is about no lock, no fence and no record."""
        command = words[0].upper()
        if command == b"SET" and len(words) == 6 and words[3].upper() == b"NX":
            return Request("S", [words[1]], words[2], words[5])
        if command == b"ZADD" and len(words) == 7 and last_set:
            return Request("Z", last_set.keys, last_set.token, last_set.ttl, words[5])
        if command == b"ZRANGE" and words[1].startswith(b"redlock:fences:"):
            return Request("F")
        # A key of the waiters' is that of a trial.
        if command in (b"DELEX", b"DELIFEQ") and len(words) > 2 and not words[1].startswith(b"redlock:waiting:"):
            return Request("X", [words[1]], words[-1])
        if command not in (b"EVAL", b"EVALSHA") or words[2] == b"0":
            return None
        sha = words[1].decode().lower() if command == b"EVALSHA" else hashlib.sha1(words[1]).hexdigest()
        count = int(words[2])
        keys, rest = words[3:3 + count], words[3 + count:]
        name = self.names.get(sha)
        if name in Scripts.OTHERS:
            return None
        return {
            "acquire_many": lambda: Request("S", keys, rest[0], rest[1]),
            "extend": lambda: Request("E", keys, rest[0], rest[1]),
            "extend_guarded": lambda: Request("E", keys[:-1], rest[0], rest[1], rest[2]),
            "release": lambda: Request("X", keys, rest[0]),
            "raise": lambda: Request("T", keys[:-1], rest[0], b"0", rest[1]),
            "record_write": lambda: Request("Write"),
        }[name]()


class Client:
    def __init__(self, connection, number, server_port):
        self.connection = connection
        self.number = number
        self.server = socket.create_connection(("127.0.0.1", server_port))
        for each in (self.connection, self.server):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.requests, self.replies = Resp(), Resp()
        self.due = 0          # of its last request
        self.reply_due = 0
        self.subscribed = False
        self.gone = False
        self.last_set = None

    def close(self):
        self.gone = True
        self.connection.close()
        self.server.close()


class Recorder:
    def __init__(self, ports, server_port, log, seed, scripts, resources):
        self.server_port, self.scripts, self.resources = server_port, scripts, resources
        self.log = open(log, "w", buffering=1 << 20)
        self.random = random.Random(seed)
        self.selector = selectors.DefaultSelector()
        for number, port in enumerate(ports):
            listener = socket.create_server(("127.0.0.1", port), backlog=128)
            self.selector.register(listener, selectors.EVENT_READ, (listener, number))
        self.clients = set()
        self.turns = 0        # SIGUSR2s that are not handled yet
        self.down = True
        self.connect()
        self.late = []        # (when, number, what to do)
        self.number = self.requests_count = 0
        self.slow_until = 0
        self.ended = self.to_lose = False
        self.fences = b""     # their name
        if resources:
            self.write_record()

    def connect(self):
        self.probe = socket.create_connection(("127.0.0.1", self.server_port))
        self.probed = Resp()
        self.down = False

    # ---- time ----

    def after(self, when, what):
        self.number += 1
        heapq.heappush(self.late, (when, self.number, what))

    def delay(self):
        """Most messages are quick; some take milliseconds, and now and then all of this node's do."""
        if self.random.random() < 0.0005:
            self.slow_until = now() + self.random.randrange(300_000_000)
        if now() < self.slow_until:
            return self.random.randrange(200_000_000)
        return self.random.randrange(8_000_000) if self.random.random() < 0.1 else 0

    def breaks(self):
        return self.random.random() < 0.0005

    # ---- connections ----

    def drop(self, client):
        if client.gone:
            return
        for each in (client.connection, client.server):
            self.selector.unregister(each)
        client.close()
        self.clients.discard(client)

    def accept(self, listener, number):
        connection, _ = listener.accept()
        if self.down:
            connection.close()
            return
        client = Client(connection, number, self.server_port)
        self.clients.add(client)
        self.selector.register(client.connection, selectors.EVENT_READ, (client, True))
        self.selector.register(client.server, selectors.EVENT_READ, (client, False))

    def readable(self, client, of_client):
        if client.gone:
            return
        source = client.connection if of_client else client.server
        try:
            data = source.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            self.drop(client)
        elif of_client:
            self.arrived(client, data)
        else:
            client.replies.data += data
            self.forward(client)

    def forward(self, client):
        """What the server says without being asked: pushes, and messages of a subscription."""
        while (found := client.replies.take()) is not None:
            self.reply(client, found[1])

    def arrived(self, client, data):
        at = now()
        client.requests.data += data
        while (found := client.requests.take()) is not None:
            client.due = max(client.due, at + self.delay())
            self.after(client.due, lambda found=found: self.serve(client, at, *found))

    def reply(self, client, raw, request=None):
        client.reply_due = max(client.reply_due, now() + self.delay())
        self.after(client.reply_due, lambda: self.send(client, raw, request))

    def send(self, client, raw, request):
        if client.gone:
            return
        if request is not None:
            self.answered(request)
        try:
            client.connection.sendall(raw)
        except OSError:
            self.drop(client)

    def answered(self, request):
        print("ANSWERED", now(), request, file=self.log)

    # ---- requests ----

    def serve(self, client, arrived, words, raw):
        if client.gone:
            return
        if self.breaks():
            self.drop(client)
            return
        request = self.scripts.request_of(words, client.last_set)
        client.last_set = request if request and request.op == "S" else None
        sent = now()
        try:
            client.server.sendall(raw)
            if words[0].upper() == b"SUBSCRIBE":
                client.subscribed = True
            if client.subscribed:
                return
            value, answer = self.answer(client)
        except (OSError, EOFError):
            self.drop(client)
            return
        number = self.executed(client, words, request, (arrived, sent, now()), value)
        if self.breaks():
            self.drop(client)
        else:
            self.reply(client, answer, number)

    def executed(self, client, words, request, times, value):
        """The number that stands for the request in the log; None: its answer is not written down."""
        if request and request.op == "Write":
            self.write_record(client.number + 1)
        elif request:
            self.write(client, request, *times, value)
            self.requests_count += 1
            return self.requests_count - 1
        return None

    def answer(self, client):
        while True:
            while (found := client.replies.take()) is not None:
                if not isinstance(found[0], tuple):
                    return found
                self.reply(client, found[1])
            data = client.server.recv(1 << 16)
            if not data:
                raise EOFError
            client.replies.data += data

    # ---- looking ----

    def look(self, *commands):
        self.probe.sendall(b"".join(words_of(*words) for words in commands))
        values = []
        while len(values) < len(commands):
            found = self.probed.take()
            if found is None:
                self.probed.data += self.probe.recv(1 << 16)
            else:
                values.append(found[0])
        return values

    def write(self, client, request, arrived, sent, replied, value):
        reply = "-" if value is None else value if isinstance(value, str) else str(len(value)) if isinstance(value, list) else value.decode()
        commands = []
        for key in request.keys:
            commands += [("GET", key), ("PEXPIRETIME", key)]
            commands.append(("ZSCORE", self.fences, stripe_of(key)) if self.resources else ("ECHO", 0))
        after = ["-" if value is None else value.decode() for value in self.look(*commands)]
        if request.op == "X" and reply == "0" and after[0] != "-":  # DELEX and DELIFEQ: another client's
            reply = "-1"
        keys = ",".join(key.decode() for key in request.keys) or "-"
        print("REQUEST", arrived, sent, replied, client.number, request.op, request.token.decode(), request.ttl.decode(),
              request.fence.decode(), keys, reply.split(" ")[0], *after, file=self.log)

    def write_record(self, writer=0):
        flat, = self.look(("HGETALL", "redlock:node"))
        at = now()
        record = {name.decode(): value.decode() for name, value in zip(flat[::2], flat[1::2])}
        self.fences = f"redlock:fences:{record.get('nonce', 'kept')}".encode()
        fences = self.look(*(("ZSCORE", self.fences, stripe_of(name.encode())) for name in self.resources))
        if all(fence is None for fence in fences):
            self.fences = b"redlock:fences:kept"
            fences = self.look(*(("ZSCORE", self.fences, stripe_of(name.encode())) for name in self.resources))
        members = ";".join(",".join(line.split(" ")[:3]) for line in record.get("members", "").splitlines()) or "-"
        print("RECORD", at, writer, int(record.get("standing") == "intact"), members, *(int(fence or 0) for fence in fences), file=self.log)

    def lose(self):
        self.to_lose = False
        self.look(("FLUSHALL",))
        print("LOSS", now(), file=self.log)
        self.write_record()

    def turn(self):
        """Between two requests, so each request that the server has executed is written down."""
        self.turns -= 1
        if self.down:
            self.connect()
            if self.resources:
                self.write_record()
        else:
            for client in list(self.clients):
                self.drop(client)
            self.probe.close()
            self.down = True
            if self.resources:
                print("LOSS", now(), file=self.log)
        print("down" if self.down else "up", flush=True)

    # ---- all ----

    def run(self):
        while not self.ended:
            wait = max(0, self.late[0][0] - now()) / 1e9 if self.late else 0.5
            for key, _ in self.selector.select(min(wait, 0.5)):
                first, second = key.data
                if isinstance(first, Client):
                    self.readable(first, second)
                else:
                    self.accept(first, second)
            while self.late and self.late[0][0] <= now():
                heapq.heappop(self.late)[2]()
            if self.to_lose and not self.down:
                self.lose()
            if self.turns > 0:
                self.turn()
        self.log.close()


def main(ports, server_port, log, seed, scripts, *resources, kind=Recorder):
    recorder = kind([int(port) for port in ports.split(",")], int(server_port), log, int(seed), Scripts(pathlib.Path(scripts)), resources)

    def end(*_):
        recorder.ended = True

    def lose(*_):
        recorder.to_lose = True

    def turn(*_):
        recorder.turns += 1
    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGUSR1, lose)
    signal.signal(signal.SIGUSR2, turn)
    recorder.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
