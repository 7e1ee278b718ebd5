# SPDX-License-Identifier: BSD-2-Clause
"""What the library does on real servers is a run of the proved system (docs/proof.md).

usage: real_traces.py BUILD_DIR CHECK [--seconds N] [--seed N] [--least FACTS] [--mutant NAME]

Three servers, each behind a recorder (recorder.py), and three processes of the library (worker.c). What they wrote down
becomes the lines of sim/steps.h, which the extracted checker reads. A run is what happened to two resources in one epoch.
"""
import argparse
import bisect
import collections
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "cli"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "chaos"))
import mutants  # noqa: E402
from servers import Server, ServerError, die_with_us  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent.parent.parent
NODES, CLIENTS, THREADS, RESOURCES = 3, 3, 4, 8
TTL_MS, EPOCH_MS = 500, 2000
MS = 1_000_000
ROUND = 20 * MS   # requests of one extension leave within this
SKIPPED = 77


def free_ports(count):
    with_ports = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in with_ports]
    for each in with_ports:
        each.close()
    return ports


def clocks_differ_by():
    """What CLOCK_REALTIME, by which servers end keys, shows more than CLOCK_BOOTTIME: the narrowest of some looks."""
    looks = []
    for _ in range(100):
        before = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        real = time.clock_gettime_ns(time.CLOCK_REALTIME)
        after = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        looks.append((after - before, real - (before + after) // 2))
    return min(looks)[1]


# ---- recording ----

def record(worker_program, directory, seconds, seed):
    """Plays for some seconds; the logs are in the directory. False: the server cannot say when a key ends."""
    servers = [Server("--save", "", "--appendonly", "no") for _ in range(NODES)]
    started = []
    try:
        try:
            servers[0].ask("PEXPIRETIME", "x")
        except ServerError:
            return False
        ports = free_ports(NODES * CLIENTS)
        for i, server in enumerate(servers):
            mine = ",".join(str(port) for port in ports[i * CLIENTS:(i + 1) * CLIENTS])
            started.append(subprocess.Popen(
                [sys.executable, "-B", HERE / "recorder.py", mine, str(server.port), directory / f"node{i}", str(seed + i),
                 SOURCE / "src/node"], preexec_fn=die_with_us))
        for port in ports:
            wait_for(port)
        workers = []
        for i in range(CLIENTS):
            urls = ",".join(f"redis://127.0.0.1:{port}" for port in ports[i::CLIENTS])
            with open(directory / f"client{i}", "w", encoding="ascii") as out:
                workers.append(subprocess.Popen(
                    [worker_program, urls, "classic", str(TTL_MS), str(THREADS), str(seed + 100 * i),
                     str(RESOURCES), str(EPOCH_MS)], stdout=out, preexec_fn=die_with_us))
        play(workers, servers, seconds, seed)
        for worker in workers:
            worker.send_signal(signal.SIGTERM)
        for worker in workers:
            if worker.wait(timeout=30) != 0:
                sys.exit("a worker failed")
        for recorder in started:
            recorder.send_signal(signal.SIGTERM)
            if recorder.wait(timeout=30) != 0:
                sys.exit("a recorder failed")
        return True
    finally:
        for process in started:
            process.kill()
        for server in servers:
            server.close()


def wait_for(port):
    for _ in range(500):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            time.sleep(0.02)
    sys.exit(f"nothing listens on port {port}")


def play(workers, servers, seconds, seed):
    """Servers and processes stop for a while now and then."""
    import random
    draw = random.Random(seed)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(min(draw.random(), max(0, end - time.monotonic())))
        process = draw.choice(workers + [server.process for server in servers])
        process.send_signal(signal.SIGSTOP)
        time.sleep(draw.choice([0.01, 0.1, 0.3, 1.2 * TTL_MS / 1000]))
        process.send_signal(signal.SIGCONT)


# ---- what was written down ----

class Request:
    def __init__(self, node, line):
        words = line.split()
        self.node = node
        self.arrived, self.sent, self.replied = (int(word) for word in words[:3])
        self.client, self.op, self.token, self.ttl = int(words[3]), words[4], words[5], int(words[6])
        self.keys, self.reply = words[8].split(","), words[9]
        self.after = [(None, 0) if value == "-" else (value, int(ends)) for value, ends in zip(words[10::2], words[11::2])]

    @property
    def executed(self):
        return self.reply == "-" or not self.reply.startswith("-") or self.reply == "-1"

    @property
    def granted(self):
        return self.reply in ("OK", "1")


def run_of(key):
    epoch, number = re.fullmatch(r"p(\d+)-(\d+)", key).groups()
    return int(epoch), int(number) // 2


class Run:
    """What happened to the two resources of a run, as lines with the times by which they are sorted."""

    SENT, SERVED, TOLD = range(3)

    def __init__(self, number, keys_apart):
        self.number = number
        self.keys_apart = keys_apart  # what servers' clocks show more
        self.requests = []
        self.told = []                # (time, kind, token, words)
        self.lines = []
        self.tokens = {}
        self.messages = 0

    def token(self, text):
        return self.tokens.setdefault(text, len(self.tokens) + 1)

    def add(self, at, order, *words):
        self.lines.append((at, order, len(self.lines), " ".join(str(word) for word in words)))

    def write(self, out):
        self.add_requests()
        for at, kind, token, words in self.told:
            # The fence comes last, and classic mode has none.
            self.add(at, Run.TOLD, kind, at, self.token(token), *words[:1])
        print("seed", self.number, file=out)
        for k in range(CLIENTS):
            print(f"D {k} 10000 {2 * MS}\nN {k}", *range(NODES), file=out)
            print(f"C {k} 0 0 1000000", file=out)
        for m in range(NODES):
            print(f"K {m} 0 {self.keys_apart} 1000000", file=out)
        for line in sorted(self.lines):
            print(line[3], file=out)
        print(".", file=out)
        return len(self.lines)

    # A request may be said to have been sent earlier than it was: that explains less. So the requests of one round are sent
    # in one instant, that in which the first one arrives.

    def add_requests(self):
        won = {token: at for at, kind, token, _ in self.told if kind == "W"}
        left = {token: at for at, kind, token, _ in reversed(self.told) if kind in "RL"}
        began = {}
        for request in self.requests:
            if request.op == "S" and request.arrived < won.get(request.token, request.arrived + 1):
                began[request.token] = min(request.arrived, began.get(request.token, request.arrived))
        rounds = collections.defaultdict(list)
        for request in sorted(self.requests, key=lambda r: r.arrived):
            if request.op == "E":
                mine = rounds[request.token]
                if not mine or request.arrived > mine[-1] + ROUND:
                    mine.append(request.arrived)
        held = [{} for _ in range(NODES)]
        for request in sorted(self.requests, key=lambda r: r.sent):
            at = request.arrived
            if request.op == "S" and at < won.get(request.token, at + 1):
                at = began[request.token]
            elif request.op == "E":
                mine = rounds[request.token]
                at = mine[bisect.bisect_right(mine, at) - 1]
            if request.op != "X":
                at = min(at, left.get(request.token, at))
            self.add_request(request, at, held[request.node])

    def add_request(self, request, at, held):
        self.messages += 1
        words = [request.op, at, request.client, self.token(request.token), request.node, self.messages]
        if request.op != "X":
            words.append(request.ttl * MS)
        if request.op == "S":
            words.extend(number_of(key) for key in request.keys)
        self.add(at, Run.SENT, *words)
        if request.executed:
            self.add_served(request, held)

    def add_served(self, request, held):
        at, node = request.replied, request.node
        said = self.said_of(request, held)
        if request.granted and request.op != "X" and said[0]:
            # The key's end says in which millisecond it was, at the latest.
            at = max(request.sent, min(at, (said[0] - request.ttl + 1) * MS - self.keys_apart - 1))
        before, after = ended_around(request, held)
        for key in before:
            self.add(at, Run.SERVED, "Z", at, node, number_of(key))
            del held[key]
        self.add(at, Run.SERVED, "V", at, node, self.messages, int(request.granted))
        for key, (value, ends), says in zip(request.keys, request.after, said):
            if key in after:
                late = max(at, (held.pop(key).ends + 1) * MS - self.keys_apart)
                self.add(late, Run.SERVED, "Z", late, node, number_of(key))
                continue
            held.pop(key, None)
            if value:
                held[key] = Held(value, ends, says)
            self.add(at, Run.SERVED, "Y", at, node, number_of(key), self.token(value) if value else 0, says * MS)

    # Redis before 7.2 reads its clock for each command of a script, so the keys of one request may end in two milliseconds.
    # In the proof they end in one, the first: a key may stay longer than it has to.

    def said_of(self, request, held):
        """When each key ends, in the trace."""
        moved = [ends for key, (value, ends) in zip(request.keys, request.after)
                 if value and (key not in held or held[key].ends != ends)]
        return [0 if not value else held[key].said if key in held and held[key].ends == ends else min(moved)
                for key, (value, ends) in zip(request.keys, request.after)]


Held = collections.namedtuple("Held", "token ends said")


def ended_around(request, held):
    """The keys whose time was over before the request was served, and those whose time was over behind it."""
    gone = [key for key, (value, _) in zip(request.keys, request.after) if key in held and value is None]
    if request.op == "S":
        return ([key for key in request.keys if key in held], []) if request.granted else ([], gone)
    if request.reply == "0":
        return gone, []
    if request.op == "E":
        return [], gone
    return [], [key for key in gone if held[key].token != request.token]


def number_of(key):
    return int(key.rpartition("-")[2]) % 2


def runs_of(directory, keys_apart):
    runs, run_of_token = {}, {}

    def run(which):
        return runs.setdefault(which, Run(len(runs) + 1, keys_apart))
    for node in range(NODES):
        for line in open(directory / f"node{node}", encoding="ascii"):
            request = Request(node, line)
            run_of_token[request.token] = run_of(request.keys[0])
            run(run_of(request.keys[0])).requests.append(request)
    for client in range(CLIENTS):
        for line in open(directory / f"client{client}", encoding="ascii"):
            kind, at, token, *words = line.split()
            run(run_of_token[token]).told.append((int(at), kind, token, words))
    for each in runs.values():
        each.told.sort()
    return [runs[which] for which in sorted(runs)]


# ---- all ----

def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("build", type=pathlib.Path)
    options.add_argument("check", type=pathlib.Path)
    options.add_argument("--seconds", type=float, default=10)
    options.add_argument("--seed", type=int, default=time.time_ns() // 1000 % 1_000_000)
    options.add_argument("--least", type=int, default=1, help="facts")
    options.add_argument("--keep", type=pathlib.Path, help="where logs and steps stay")
    options.add_argument("--mutant", help="the library lacks this rule (sim/mutants), and a run must be refused")
    words = options.parse_args()
    if not words.check.exists():
        print(f"not extracted, because Coq is missing: scripts/proof-extract {words.check.parent}")
        return SKIPPED
    print(f"seed {words.seed}", flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        directory = words.keep or pathlib.Path(temporary)
        directory.mkdir(exist_ok=True)
        program = words.build / "tests/proof/proof_worker"
        if words.mutant:
            program, _ = mutants.make(words.build, words.mutant, directory, "proof_worker")
        keys_apart = clocks_differ_by()
        if not record(program, directory, words.seconds, words.seed):
            print("the server does not know PEXPIRETIME")
            return SKIPPED
        if abs(clocks_differ_by() - keys_apart) > MS // 10:
            print("the wall clock was stepped meanwhile: nothing is judged")
            return SKIPPED
        facts = 0
        with open(directory / "steps", "w", encoding="ascii") as out:
            for run in runs_of(directory, keys_apart):
                facts += run.write(out)
        if facts < words.least:
            print(f"{facts} facts, expected {words.least}")
            return 1
        with open(directory / "steps", encoding="ascii") as steps:
            accepted = subprocess.run([words.check, "1"], stdin=steps, check=False).returncode == 0
        return 0 if accepted != bool(words.mutant) else 1


if __name__ == "__main__":
    sys.exit(main())
