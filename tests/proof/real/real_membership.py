# SPDX-License-Identifier: BSD-2-Clause
"""What `redlock quorum add`, `remove` and `set-ttl-max` do on real servers is a run of the proved system (proof/README.md).

usage: real_membership.py BUILD_DIR CHECK [--seconds N] [--seed N] [--least CHANGES]

Four servers, three of them members, each behind a recorder (record_recorder.py); a process of the library that takes locks and
brings servers back (worker.c); and operators, at times two at once, of whom some are killed. Messages are late, connections
break, and servers lose their data. What records were becomes the lines of sim/world/steps.h, which the extracted checker reads.
"""
import argparse
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

from real_traces import HERE, MS, SKIPPED, SOURCE, Server, all_intact, free_ports, start, urls, wait_for

NODES, OPERATORS, TTL_MS = 4, 2, 150
CLIENTS = 1 + OPERATORS


class Fleet:
    def __init__(self, build, directory, seed, started):
        self.build, self.directory, self.started, self.draw = build, directory, started, random.Random(seed)
        self.servers = [Server() for _ in range(NODES)]
        self.redlock("init", "--yes", "--never-used", "--ttl-max", "300ms", nodes=urls(*self.servers[:3])).wait()
        ports = free_ports(NODES * CLIENTS)
        self.ports = [ports[i::NODES] for i in range(NODES)]  # by node, then by client
        self.recorders = [start([sys.executable, "-B", HERE / "record_recorder.py", ",".join(map(str, self.ports[i])), server.port,
                                 directory / f"node{i}", seed + i, SOURCE / "src/node", "x"], started)
                          for i, server in enumerate(self.servers)]
        for port in ports:
            wait_for(port)
        self.worker = start([build / "tests/proof/proof_worker", self.nodes_of(0), "guarded", TTL_MS, 2, seed, 4, 10**15], started,
                            open(directory / "worker", "w", encoding="ascii"))
        self.running, self.changes = {}, 0

    def nodes_of(self, client):
        return ",".join(self.url(node, client) for node in range(NODES))

    def url(self, node, client):
        return f"redis://127.0.0.1:{self.ports[node][client]}"

    def redlock(self, *words, nodes):
        return subprocess.Popen([self.build / "cli/redlock", "quorum", *words, "--mode", "guarded", "--nodes", nodes],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def operate(self, client):
        """Changes ttl_max, or adds the server that is not a member, or removes one of four."""
        records = [[server.ask("HGET", "redlock:node", field) or b"" for field in ("epoch", "node", "members")] for server in self.servers]
        newest = max(records, key=lambda record: int(record[0] or 0))[2]
        others = [node for node, (_, mine, _) in enumerate(records) if not mine or mine not in newest]
        if self.draw.random() < 0.3:
            words = ["set-ttl-max", f"{self.draw.choice([200, 300, 400])}ms"]
        elif others:
            words = ["add", self.url(others[0], client)]
        else:
            words = ["remove", self.draw.choice(records)[1].decode()]
        self.running[client] = self.redlock(*words, "--yes", nodes=self.nodes_of(client))

    def play(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(self.draw.choice([0.02, 0.1, 0.3]))
            for client in range(1, CLIENTS):
                process = self.running.get(client)
                if process is None:
                    if self.draw.random() < 0.4:
                        self.operate(client)
                elif process.poll() is not None:
                    self.changes += process.returncode == 0
                    del self.running[client]
                elif self.draw.random() < 0.01:
                    process.kill()
            if self.draw.random() < 0.02 and all_intact(self.servers):
                self.draw.choice(self.recorders).send_signal(signal.SIGUSR1)

    def end(self):
        for process in self.running.values():
            process.kill()
            process.wait()
        for process in [self.worker, *self.recorders]:
            process.send_signal(signal.SIGTERM)
            if process.wait(timeout=30) != 0:
                sys.exit(f"{process.args[0]} failed")


def steps_of(directory):
    yield "seed 1"
    for client in range(CLIENTS):
        yield f"D {client} 10000 {2 * MS} 0"
        yield f"C {client} 0 0 1000000"
    lines = [line.rstrip() for node in range(NODES) for line in open(directory / f"node{node}", encoding="ascii") if line[0] in "HJa"]
    yield from sorted(lines, key=lambda line: int(line.split(" ")[1]))
    yield "."


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("build", type=pathlib.Path)
    options.add_argument("check", type=pathlib.Path)
    options.add_argument("--seconds", type=float, default=10)
    options.add_argument("--seed", type=int, default=time.time_ns() // 1000 % 1_000_000)
    options.add_argument("--least", type=int, default=1, help="new epochs")
    options.add_argument("--keep", type=pathlib.Path, help="where logs and steps stay")
    words = options.parse_args()
    if not words.check.exists():
        print(f"not extracted, because Coq is missing: scripts/proof-extract {words.check.parent}")
        return SKIPPED
    print(f"seed {words.seed}", flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        directory, started = words.keep or pathlib.Path(temporary), []
        directory.mkdir(exist_ok=True)
        try:
            fleet = Fleet(words.build.resolve(), directory, words.seed, started)
            fleet.play(words.seconds)
            fleet.end()
        finally:
            for process in started:
                process.kill()
            for server in fleet.servers:
                server.close()
        text = "".join(f"{line}\n" for line in steps_of(directory))
        (directory / "steps").write_text(text, encoding="ascii")
        accepted = subprocess.run([words.check, "100"], input=text, text=True, check=False).returncode == 0
        epochs = {line.split(" ")[11] for line in text.splitlines() if line[0] == "H" and len(line.split(" ")) > 11}
        print(f"{fleet.changes} commands succeeded, {len(epochs)} epochs", flush=True)
        return 0 if accepted and len(epochs) > words.least else 1


if __name__ == "__main__":
    sys.exit(main())
