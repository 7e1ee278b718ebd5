#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Two gateways under everything at once, for long runs: clients of all kinds, and nodes that stop, restart, pause, lose
their memory and change permissions. One node speaks TLS. Afterwards both gateways must serve, and end well.

usage: REDLOCK_BIN=.../cli/redlock tests/serve/mixed_load.py [--seconds S] [--clients N] [--seed N] [--guarded]
Prints the memory of the gateways and of their processes every 5 seconds. Exit status 1: a gateway ended, did not serve
afterwards, gave an answer to another request, or a sanitizer reported something.
"""
import argparse
import collections
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import uuid

import processes  # ours, before conftest looks in tests/cli first
from conftest import BINARY, CLEAN, EXTEND, RELEASE, Gateway
from resp import Closed, Connection, Error, Push, encode
from servers import Server, ServerError, server_knows_tls, until
from test_reload import make_certificate
from test_workers import GIVES, TAKES

PASSWORD, NODES, KEYS = "secret", 5, 40
TTL_MAX = ("--ttl-max", "3s")
REPORTS = re.compile(r"Sanitizer|runtime error|assert|SUMMARY|core dumped", re.IGNORECASE)
# What a node's user may lose for a while.
COMMANDS = ("set", "get", "eval", "evalsha", "del", "pttl", "pexpire", "exists", "info", "mget", "time", "hget", "multi", "watch")
BROKEN = (b"*1000000000\r\n$3\r\nSET\r\n", b"*2\r\n$-7\r\nGET\r\n", b"*1\r\n*1\r\n*1\r\n", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"*2\r\n$3\r\nGET\r\n$99\r\n",
          b"\"\\x00 unbalanced\r\nDEL\r\n", b":1\r\n+OK\r\n$-1\r\n*-1\r\n*0\r\n", b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n")


class Wrong(Exception):
    """An answer that belongs to another request."""


class Load:
    def __init__(self, gateways, seed):
        self.gateways, self.seed, self.ends = gateways, seed, threading.Event()
        self.files = {gateway: files(gateway) for gateway, _ in gateways}
        self.done, self.errors, self.wrong = collections.Counter(), collections.Counter(), []

    def client(self, number):
        """One of many: a kind of behaviour after the other, each on a connection of its own."""
        draw = random.Random(f"{self.seed}-{number}")
        while not self.ends.is_set():
            kind = draw.choice(KINDS)
            gateway, password = draw.choice(self.gateways)
            try:
                address = gateway.path if draw.random() < 0.5 else gateway.address()
                with Connection(address, timeout=draw.choice([0.2, 2, 15])) as connection:
                    if password and kind is not guesses:
                        connection.send("AUTH", password)
                        connection.read()
                    kind(connection, draw)
                    self.done[kind.__name__] += 1
            except Wrong:
                self.wrong.append(traceback.format_exc())
            except (Closed, OSError, ValueError) as error:
                self.errors[f"{kind.__name__} {type(error).__name__}"] += 1


def ask(connection, *words):
    connection.send(*words)
    answer = connection.read()
    while isinstance(answer, Push):
        answer = connection.read()
    ANSWERS[answer.code if isinstance(answer, Error) else type(answer).__name__] += 1
    return answer


def echoes(connection):
    """It reads its own answers."""
    word = uuid.uuid4().hex.encode()
    answer = ask(connection, "ECHO", word)
    if answer != word and not isinstance(answer, Error):
        raise Wrong(answer)


def key_of(draw):
    return f"key-{draw.randrange(KEYS)}"


def holds(connection, draw):
    for _ in range(draw.randrange(1, 20)):
        key, value = key_of(draw), uuid.uuid4().hex
        if ask(connection, "SET", key, value, "NX", "PX", draw.randrange(20, 2000)) == "OK":
            ask(connection, "GET", key)
            ask(connection, "PTTL", key)
            ask(connection, "EVAL", EXTEND, 1, key, value, 2000)
            ask(connection, "PEXPIRE", key, 2500)
        ask(connection, "EVAL", RELEASE, 1, key, draw.choice([value, "another's"]))
        echoes(connection)


def runs_scripts(connection, draw):
    mark = f" -- {draw.randrange(400)}"
    for _ in range(draw.randrange(1, 10)):
        key, value = key_of(draw), uuid.uuid4().hex
        ask(connection, "EVAL", TAKES + mark, 1, key, value, 500)
        ask(connection, "EVAL", GIVES + mark, 1, key, value)
        ask(connection, "EVAL", "return ARGV[1] .. ARGV[1]" + mark, 1, key, "x" * draw.randrange(20000))
        ask(connection, "EVAL", draw.choice(["while true do end", "return {", "local t = {} for i = 1, 1e6 do t[i] = {} end", "error('no')",
                                             "return redis.call('keys', '*')", "return string.rep('x', 1e9)"]), 1, key)
        ask(connection, "EVAL", "local n = 0 " + "n = n + #KEYS " * draw.randrange(400) + "return n", 1, key)
        sha = ask(connection, "SCRIPT", "LOAD", GIVES + mark + "x" * draw.randrange(100))
        if not isinstance(sha, Error):
            ask(connection, "EVALSHA", sha, 1, key, value)
        if draw.random() < 0.05:
            ask(connection, "SCRIPT", "FLUSH")
        echoes(connection)


def subscribes(connection, draw):
    if draw.random() < 0.5:
        ask(connection, "HELLO", 3)
    for _ in range(draw.randrange(1, 10)):
        connection.send(*draw.choice([("SUBSCRIBE", "__keyevent@0__:del", f"__keyspace@0__:{key_of(draw)}"), ("PSUBSCRIBE", "__key*@0__:*"),
                                      ("PSUBSCRIBE", f"__keyspace@0__:*{draw.randrange(9)}*"), ("UNSUBSCRIBE",), ("PUNSUBSCRIBE", "*")]))
    connection.socket.settimeout(draw.choice([0.05, 1]))
    for _ in range(draw.randrange(200)):
        connection.read()


def transacts(connection, draw):
    key = key_of(draw)
    for _ in range(draw.randrange(1, 6)):
        ask(connection, "WATCH", key)
        value = ask(connection, "GET", key)
        ask(connection, "MULTI")
        for words in draw.sample([("DEL", key), ("PEXPIRE", key, 500), ("GET", key), ("SET", key, "v", "NX", "PX", 500), ("NONSENSE",), ("EXISTS", "other")], 2):
            ask(connection, *words)
        ask(connection, draw.choice(["EXEC", "EXEC", "DISCARD", "UNWATCH", "RESET"]))
        if isinstance(value, bytes) and draw.random() < 0.2:
            return  # in the midst of it
    ask(connection, "DISCARD")
    echoes(connection)


def guesses(connection, draw):
    if draw.random() < 0.9:  # more of them, and the gateway lets everybody wait
        return
    for _ in range(draw.randrange(1, 3)):
        ask(connection, "AUTH", "wrong")
    ask(connection, "HELLO", 3, "AUTH", "default", "wrong")


def leaves(connection, draw):
    """Closes before the answer, within a request or by a reset."""
    request = encode("SET", key_of(draw), "v", "NX", "PX", 300) + encode("EVAL", TAKES, 1, key_of(draw), "v", 300)
    connection.raw(request[:draw.randrange(1, len(request) + 1)])
    end = draw.randrange(3)
    if end == 0:
        connection.socket.shutdown(socket.SHUT_WR)
        connection.at_end()
    elif end == 1:
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def pipes_garbage(connection, draw):
    pieces = [encode("PING"), encode("GET", key_of(draw)), encode("EVAL", TAKES, 1, key_of(draw), "v", 100), encode("ECHO", "x" * 30000),
              encode("MULTI"), encode("EXEC"), encode("SUBSCRIBE", "a"), encode("CLIENT", "INFO"), encode("COMMAND"), encode("INFO")]
    connection.raw(b"".join(draw.choice(pieces) for _ in range(draw.randrange(100))) + draw.choice([*BROKEN, draw.randbytes(3000)]))
    while connection.stream.read(4096):
        continue


def asks_what_clients_ask(connection, draw):
    for words in draw.sample([("HELLO", 3), ("HELLO", 2), ("CLIENT", "SETNAME", "x"), ("CLIENT", "LIST"), ("COMMAND",), ("INFO",), ("CONFIG", "GET", "*"),
                              ("TIME",), ("ROLE",), ("SELECT", 0), ("CLUSTER", "INFO"), ("EXISTS", *map(str, range(30))), ("TTL", "a"), ("RESET",)], 6):
        ask(connection, *words)


def scrapes(_connection, draw):
    gateway = draw.choice(LOADED)
    with socket.create_connection(gateway.address("metrics"), timeout=5) as page:
        page.sendall(b"GET /metrics HTTP/1.1\r\n\r\n"[:draw.choice([5, 100])])
        if draw.random() < 0.7:
            page.settimeout(0.5)
            page.recv(100)


KINDS = [holds] * 6 + [runs_scripts] * 4 + [subscribes] * 2 + [transacts] * 3 + [leaves] * 3 + [pipes_garbage] * 2
KINDS += [guesses, asks_what_clients_ask, scrapes]
LOADED, ANSWERS = [], collections.Counter()


class Node(Server):
    """One with a user of the gateways; half of its life under another permission or another trouble."""

    def __init__(self, certificate=None):
        self.certificate = certificate
        super().__init__()
        self.arguments = ("--user", "gate", "on", f">{PASSWORD}", "~*", "&*", "+@all")
        if certificate is not None:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self.tls = free.getsockname()[1]
            self.arguments += ("--tls-port", str(self.tls), "--tls-cert-file", str(certificate), "--tls-key-file", f"{certificate}.key",
                               "--tls-auth-clients", "no")
        self.restart()

    def restart(self):
        self.process.kill()
        self.process.wait()
        self._start()
        if not self._answers():
            raise AssertionError("a node does not start again")

    @property
    def url(self):
        scheme, port = ("redis", self.port) if self.certificate is None else ("rediss", self.tls)
        return f"{scheme}://gate:{PASSWORD}@127.0.0.1:{port}"

    def heal(self):
        self.resume()
        try:
            self._undo()
        except (ServerError, OSError):  # it takes nobody else, not even us
            self.restart()

    def _undo(self):
        for words in [("CLIENT", "UNPAUSE"), ("CONFIG", "SET", "maxmemory", 0), ("CONFIG", "SET", "min-replicas-to-write", 0), ("CONFIG", "SET", "maxclients", 1000),
                      ("REPLICAOF", "NO", "ONE"), ("ACL", "SETUSER", "gate", "resetpass", f">{PASSWORD}", "on", "+@all", "~*")]:
            self.ask(*words)


def trouble(node, draw):
    one = draw.randrange(12)
    if one < 4:
        node.ask("ACL", "SETUSER", "gate", *[f"-{name}" for name in draw.sample(COMMANDS, draw.randrange(1, 4))])
    elif one == 4:
        node.ask("ACL", "SETUSER", "gate", draw.choice(["off", "resetpass", "resetkeys", "-@all"]))
    elif one == 5:
        node.ask("CLIENT", "PAUSE", draw.randrange(100, 2000), draw.choice(["ALL", "WRITE"]))
    elif one == 6:
        node.ask("CONFIG", "SET", *draw.choice([("maxmemory", 1), ("min-replicas-to-write", 1), ("maxclients", 1), ("timeout", 1)]))
    elif one == 7:
        node.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    elif one == 8:
        node.pause()
    elif one == 9:
        node.restart()
    elif one == 10:
        node.ask(*draw.choice([("FLUSHALL",), ("SCRIPT", "FLUSH"), ("REPLICAOF", "127.0.0.1", 1), ("LPUSH", f"key-{draw.randrange(KEYS)}", "a list")]))
    else:
        node.heal()


def troubles(load, nodes, tally, end, repair):
    """In the main thread: a server ends with the thread that started it."""
    draw = random.Random(f"{load.seed}-faults")
    while time.monotonic() < end and all(gateway.process.poll() is None for gateway in LOADED):
        time.sleep(draw.uniform(0.05, 0.5))
        node = draw.choice(nodes)
        try:
            share = 0.3 if int(time.monotonic() / 20) % 2 else 0.65  # there is a majority mostly, or mostly not
            trouble(node, draw) if draw.random() < share else node.heal()
            tally["troubles"] += 1
        except (ServerError, OSError):
            node.resume()
        if draw.random() < 0.1:
            os.kill(draw.choice(LOADED).process.pid, signal.SIGHUP)
        if draw.random() < 0.2:
            found = processes.workers(draw.choice(LOADED))
            if found:
                processes.kill(draw.choice(found))
                tally["workers ended"] += 1
        if draw.random() < 0.02:
            repair()
        if draw.random() < 0.01:
            processes.kill(processes.spawner(draw.choice(LOADED)) or 2**22)


def resident_kib(pid):
    try:
        return int(processes.status(pid)["VmRSS"].split()[0])
    except (FileNotFoundError, ProcessLookupError, KeyError):
        return 0


def state(gateway):
    """What it takes, and the process that starts workers, and the largest worker."""
    pid, starts = gateway.process.pid, processes.spawner(gateway)
    workers = [resident_kib(worker) for worker in processes.workers(gateway)]
    return (f"gateway {resident_kib(pid)} KiB, {files(gateway)} files, spawner {resident_kib(starts) if starts else 0}, "
            f"{len(workers)} workers to {max(workers, default=0)}")


def files(gateway):
    return len(os.listdir(f"/proc/{gateway.process.pid}/fd"))


def sample(load, began):
    """Every 5 seconds."""
    while True:
        states = "; ".join(state(gateway) for gateway in LOADED)
        print(f"{time.monotonic() - began:5.0f} s  {states}; done {sum(load.done.values())}", flush=True)
        if load.ends.wait(5):
            return


def serves(gateway, password):
    """A whole cycle, by scripts that a worker runs."""
    key, value = f"key-{uuid.uuid4()}", uuid.uuid4().hex
    try:
        with gateway.connect() as client:
            if password:
                client("AUTH", password)
            return client("EVAL", TAKES, 1, key, value, 2500) == 1 and client("GET", key) == value.encode() and client("EVAL", GIVES, 1, key, value) == 1
    except (Error, Closed, OSError):
        return False


def tls_options(certificate):
    return ["--tls-ca-file", str(certificate), "--tls-server-name", "ca"]


def make_quorum(nodes, certificate, *options):
    """As an operator does at first, and when a majority has lost its data."""
    subprocess.run([BINARY, "quorum", "init", "--yes", *options, *tls_options(certificate), "--nodes", ",".join(node.url for node in nodes)],
                   check=True, capture_output=True, env=CLEAN, timeout=60)


def started(nodes, directory, certificate):
    (directory / "password").write_text(PASSWORD)
    urls = ",".join(node.url for node in nodes)
    options = ["--metrics", "127.0.0.1:0", "--listen", "127.0.0.1:0", *tls_options(certificate)]
    LOADED.append(Gateway(urls, *options))
    LOADED.append(Gateway(urls, *options, "--password-file", str(directory / "password")))
    return [(LOADED[0].wait_ready(), None), (LOADED[1].wait_ready(), PASSWORD)]


def run(options, nodes, load, tally):
    began = time.monotonic()
    threads = [threading.Thread(target=load.client, args=(number,)) for number in range(options.clients)]
    threads.append(threading.Thread(target=sample, args=(load, began)))
    for thread in threads:
        thread.start()

    def repair():
        for node in nodes:
            node.heal()
        if options.guarded:
            make_quorum(nodes, options.certificate, *TTL_MAX)
    troubles(load, nodes, tally, began + options.seconds, repair)
    load.ends.set()
    for thread in threads:
        thread.join()
    repair()


def judge(load, tally):
    wrong = load.wrong[:5]
    for gateway, password in load.gateways:
        try:
            until(lambda g=gateway, p=password: serves(g, p), 20, "a cycle")
            # Each node may have one more connection.
            until(lambda g=gateway: files(g) <= load.files[g] + NODES, 30, "the end of its clients' files")
            print(f"afterwards: {state(gateway)}")
            status = gateway.terminate()
        except (AssertionError, FileNotFoundError) as error:
            wrong.append(str(error))
            status = gateway.process.poll()
        if status != 0:
            wrong.append(f"exit status {status}")
        found = [i for i, line in enumerate(gateway.said) if REPORTS.search(line)]
        if found:
            wrong += gateway.said[max(0, found[0] - 2):found[-1] + 60]
        if status != 0:
            wrong += gateway.said[-20:]
    print(dict(load.done), dict(load.errors), dict(ANSWERS), dict(tally), sep="\n")
    print("\n".join(wrong) if wrong else "ok")
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--guarded", action="store_true", help="nodes that are members of a quorum; now and then a majority loses its data")
    options = parser.parse_args()
    print(f"--seconds {options.seconds} --clients {options.clients} --seed {options.seed}")
    directory, nodes, tally = pathlib.Path(tempfile.mkdtemp(prefix="redlock-test-mixed-")), [], collections.Counter()
    try:
        options.certificate = directory / "ca.pem"
        make_certificate(options.certificate)
        for i in range(NODES):
            nodes.append(Node(options.certificate if i == 0 and server_knows_tls() else None))
        if options.guarded:
            make_quorum(nodes, options.certificate, "--never-used", *TTL_MAX)
        load = Load(started(nodes, directory, options.certificate), options.seed)
        run(options, nodes, load, tally)
        return judge(load, tally)
    finally:
        for gateway in LOADED:
            gateway.kill()
        for node in nodes:
            node.close()
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
