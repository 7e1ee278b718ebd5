# SPDX-License-Identifier: BSD-2-Clause
"""What the library does on real servers is a run of the proved system (proof/README.md).

usage: real_traces.py MODE BUILD_DIR CHECK [--seconds N] [--seed N] [--least FACTS] [--mutant NAME]

Three servers, each behind a recorder (recorder.py), and three processes of the library (worker.c). What they wrote down
becomes the lines of sim/world/steps.h (steps.py), which the extracted checker reads. Messages are late, connections break, servers
and processes stop for a while, and servers are killed and start again: in classic mode with all their data, in guarded mode
without. There, servers also lose their data while they run.
"""
import argparse
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "cli"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "chaos"))
import mutants  # noqa: E402
from servers import SAFE, Server, ServerError, die_with_us, free_ports, urls  # noqa: E402
from steps import World  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent.parent.parent
NODES, CLIENTS, THREADS, RESOURCES = 3, 3, 4, 8
TTL_MS, EPOCH_MS = 500, 2000
MS = 1_000_000
SKIPPED = 77


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

def record(mode, worker_program, build, directory, seconds, seed):
    """Plays for some seconds; the logs are in the directory. False: the server cannot say when a key ends."""
    servers = [Server(*(() if mode == "guarded" else SAFE)) for _ in range(NODES)]
    started = []
    try:
        try:
            servers[0].ask("PEXPIRETIME", "x")
        except ServerError:
            return False
        if mode == "guarded":
            subprocess.run([build / "cli/redlock", "quorum", "init", "--yes", "--never-used", "--ttl-max", f"{TTL_MS}ms",
                            "--nodes", urls(*servers)], check=True, capture_output=True)
        ports = free_ports(NODES * CLIENTS)
        recorders = [start([sys.executable, "-B", HERE / "recorder.py", ",".join(str(port) for port in ports[i::NODES]), server.port,
                            directory / f"node{i}", seed + i, SOURCE / "src/node",
                            *(f"p0-{n}" for n in range(RESOURCES) if mode == "guarded")], started, subprocess.PIPE)
                     for i, server in enumerate(servers)]
        for port in ports:
            wait_for(port)
        workers = []
        for i in range(CLIENTS):
            mine = ",".join(f"redis://127.0.0.1:{port}" for port in ports[i * NODES:(i + 1) * NODES])
            with open(directory / f"client{i}", "w", encoding="ascii") as out:
                workers.append(start([worker_program, mine, mode, TTL_MS, THREADS, seed + 100 * i, RESOURCES,
                                      EPOCH_MS if mode == "classic" else 10**15], started, out))
        play(workers, servers, recorders, mode == "guarded", seconds, seed)
        for process in [*workers, *recorders]:
            process.send_signal(signal.SIGTERM)
            if process.wait(timeout=30) != 0:
                sys.exit(f"{process.args[0]} failed")
        return True
    finally:
        for process in started:
            process.kill()
        for server in servers:
            server.close()


def start(words, started, out=None):
    started.append(subprocess.Popen([str(word) for word in words], stdout=out, preexec_fn=die_with_us))
    return started[-1]


def wait_for(port):
    for _ in range(500):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            time.sleep(0.02)
    sys.exit(f"nothing listens on port {port}")


def all_intact(servers):
    try:
        records = [server.ask("HGETALL", "redlock:node") for server in servers]
    except OSError:
        return False
    return all(b"intact" in record for record in records)


def restart(server, recorder, pause):
    def turn(answer):
        recorder.send_signal(signal.SIGUSR2)
        assert recorder.stdout.readline() == answer
    turn(b"down\n")
    server.process.kill()
    server.process.wait()
    time.sleep(pause)
    server._start()
    assert server._answers()
    while b"loading:0" not in server.ask("INFO", "persistence"):
        time.sleep(0.01)
    turn(b"up\n")


def play(workers, servers, recorders, may_lose, seconds, seed):
    """Servers and processes stop for a while now and then, and a server loses its data if all others have theirs."""
    draw = random.Random(seed)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(min(draw.random(), max(0, end - time.monotonic())))
        process = draw.choice(workers + [server.process for server in servers])
        process.send_signal(signal.SIGSTOP)
        time.sleep(draw.choice([0.01, 0.1, 0.3, 1.2 * TTL_MS / 1000]))
        process.send_signal(signal.SIGCONT)
        if draw.random() < 0.5 and (not may_lose or all_intact(servers)):
            which = draw.randrange(NODES)
            if may_lose and draw.random() < 0.5:
                recorders[which].send_signal(signal.SIGUSR1)
            else:
                restart(servers[which], recorders[which], draw.choice([0, 0.1, 0.5]))


# ---- all ----

def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("mode", choices=["classic", "guarded"])
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
        if not record(words.mode, program, words.build, directory, words.seconds, words.seed):
            print("the server does not know PEXPIRETIME")
            return SKIPPED
        if abs(clocks_differ_by() - keys_apart) > MS // 10:
            print("the wall clock was stepped meanwhile: nothing is judged")
            return SKIPPED
        facts = 0
        with open(directory / "steps", "w", encoding="ascii") as out:
            world = World(directory, words.mode, NODES, CLIENTS, keys_apart, TTL_MS)
            for run in world.runs.values():
                for line in run.lines_of():
                    print(line, file=out)
                facts += len(run.lines)
        if facts < words.least:
            print(f"{facts} facts, expected {words.least}")
            return 1
        with open(directory / "steps", encoding="ascii") as steps:
            accepted = subprocess.run([words.check, "100"], stdin=steps, check=False).returncode == 0
        return 0 if accepted != bool(words.mutant) else 1


if __name__ == "__main__":
    sys.exit(main())
