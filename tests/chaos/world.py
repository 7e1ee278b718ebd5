# SPDX-License-Identifier: BSD-2-Clause
"""Servers, links, workers and the judge of one run, and what is due when."""
import heapq
import itertools
import json
import random
import subprocess
import time

import workers
from judge import Judge, Reader
from machines import SAFE, Links, Node, ServerError, now

CALM_BOUND_S = 8     # after the faults stop, somebody acquires
INTACT_BOUND_S = 25  # and all servers vote again
ORPHAN_MARGIN_S = 0.6
SEMAPHORES, ELECTIONS = 4, 2
WALL_CLOCKS_S = (0, -3600, 2, 0, 900)  # how far those of clients are ahead
# Of each key, the tokens that hold it now. A reader's place may outlive its own end, as long as others read.
HOLDERS = """
local time, all = redis.call('TIME'), {}
for i, key in ipairs(KEYS) do
    local token = redis.call('GET', key)
    if token == 'redlock:shared' then
        all[i] = redis.call('ZRANGEBYSCORE', 'redlock:shared:' .. key, time[1] * 1000 + time[2] / 1000, '+inf')
        if #all[i] == 0 then all[i] = {token} end
    else
        all[i] = {token or nil}
    end
end
return all
"""


class World:
    def __init__(self, options, directory):
        self.mode, self.seed, self.build, self.directory = options.mode, options.seed, options.build, directory
        self.random = random.Random(f"{options.mode} {options.seed}")
        self.random_of_runs = random.Random(f"runs {options.seed}")
        self.mode_option = "classic" if self.mode == "classic" else "guarded"
        self.ttl_ms, self.ttl_max_ms = 1000, 1000
        self.resources, self.hold_us = options.resources, 1500
        self.judge = Judge()
        self.reader = Reader(self.judge, directory)
        self.due, self.order = [], itertools.count()
        self.faults, self.kinds = [], {}
        self.clients = itertools.count()
        self.ending = False
        self.operating = False
        self.orphans = []  # (worker, owner, since): keys that must go
        self.workers, self.runners = [], None
        self.links = None
        self.nodes, self.members, self.replica = [], [], None
        self.quorum = None  # its id: lists name servers that are no members, too
        count = options.nodes or self.random.choice((3, 5))
        self.errors = open(directory / "links.err", "wb")  # until close()
        self._start_servers(count)
        self._start_workers(options)

    # ---- beginning ----

    def _start_servers(self, count):
        native = self.mode == "native"
        arguments = {"classic": SAFE, "guarded": (), "native": ()}[self.mode]
        extra = 0 if self.mode == "classic" else 1
        for number in range(count + extra):
            self.nodes.append(Node(number, self.directory, *arguments,
                                   module=self.build / "module/redlock.so" if native else None,
                                   stepclock=self.build / "tests/node/libstepclock.so" if native else None))
        if extra:
            self.replica = Node(count + extra, self.directory)
        self.members = self.nodes[:count]
        self.links = Links(self.build / "tests/chaos/chaos_links", self.errors)
        if self.mode != "classic":
            done = self.redlock("quorum", "init", "--yes", "--never-used", "--ttl-max", f"{self.ttl_max_ms}ms")
            if done.returncode != 0:
                raise RuntimeError(f"quorum init: {done.stderr}")
            self.quorum = json.loads(self.redlock("quorum", "status", "-j").stdout)["id"]

    def _start_workers(self, options):
        program = options.worker
        every = [] if options.exclusive else ["-S", "40", "-K", str(SEMAPHORES)]
        self.workers = [workers.linked(self, name, *every, *more, slots=slots, program=program)
                        for name, slots, *more in (("loop0", 16, "-e"), ("loop1", 16, "-e"), ("block0", 4))]
        if self.mode_option == "guarded" and not options.exclusive:
            elects = ["-e", "-O", "-L", str(ELECTIONS)]
            self.workers += [workers.linked(self, name, *elects, slots=slots, program=program)
                             for name, slots in (("lead0", 3), ("lead1", 3), ("watch0", 0))]
        if program or options.plain:
            return
        if self.mode_option == "guarded":
            self.workers.append(workers.linked(self, "confirm0", "-e", "-C", *every, slots=3))
        elif every:
            self.workers.append(workers.linked(self, "block1", *every, slots=3))
        port = self.nodes[0].port  # any that is not free: look for one of our own
        while port in {node.port for node in self.nodes}:
            port = _free_port()
        redlock = str(self.build / "cli/redlock")
        self.workers += [workers.gateway(self, "gateway", port),
                         workers.script(self, "through0", "gateway", str(port), self.mode_option, nodes=False),
                         workers.script(self, "shell0", "shell", redlock, *self.which_quorum, nodes=False)]
        self.workers += [workers.script(self, name.replace("-", ""), "peer", name) for name in options.peers]
        self.runners = workers.Runners(self, 1)

    def next_client(self):
        return next(self.clients)

    @property
    def urls(self):
        """The same for all clients; each reaches them by its own links (route.c)."""
        return ",".join(node.url for node in self.nodes)

    @property
    def which_quorum(self):
        """Options of redlock."""
        return ["-N", self.urls, *(["--quorum", self.quorum] if self.quorum else ["--mode", "classic"])]

    def environment(self, client):
        routes = " ".join(f"{node.port}={self.links.open(client, node)}" for node in self.nodes)
        return {**workers.clean_environment(), "CHAOS_AHEAD_S": str(WALL_CLOCKS_S[client % len(WALL_CLOCKS_S)]), "LD_PRELOAD": str(self.build / "tests/chaos/libchaos_route.so"), "CHAOS_ROUTES": routes}

    def redlock(self, *words, nodes=None, seconds=30):
        urls = ",".join(node.url for node in nodes or self.members)
        return subprocess.run([str(self.build / "cli/redlock"), *words, "-N", urls], capture_output=True, text=True, check=False,
                              timeout=seconds, env=workers.clean_environment())

    # ---- time ----

    def after(self, seconds, act):
        heapq.heappush(self.due, (time.monotonic() + seconds, next(self.order), act))

    def play(self, steps):
        """A generator that yields for how many seconds it waits."""
        try:
            self.after(next(steps), lambda: self.play(steps))
        except StopIteration:
            pass

    def note(self, kind, text, seconds=0.0):
        self.faults.append((now(), kind, text, seconds))
        self.kinds[kind] = self.kinds.get(kind, 0) + 1

    def tick(self):
        """What is due; and what workers wrote."""
        while self.due and self.due[0][0] <= time.monotonic():
            heapq.heappop(self.due)[2]()
        for worker in self.workers:
            worker.look()
        if self.runners:
            self.runners.look()

    def run_for(self, seconds, until=lambda: False):
        end = time.monotonic() + seconds
        while time.monotonic() < end and not until():
            self.tick()
            time.sleep(0.004)

    # ---- what is known of nodes ----

    @property
    def majority(self):
        return len(self.members) // 2 + 1

    def fine(self, node):
        return (node.up and not node.stopped and not node.busy and node.lost_nonce is None
                and node.troubled_until < time.monotonic())

    def lost(self):
        """Nodes that lost their data, and may not have it again."""
        return [node for node in self.nodes if node.lost_nonce is not None or now() - node.lost_at < self.ttl_max_ms * 1.2e6]

    def loses(self, node):
        """It is about to."""
        if self.mode == "classic":
            return
        node.lost_nonce = node.record().get("nonce", "unknown") if node.up and not node.stopped else node.lost_nonce or "unknown"
        node.lost_at = now()

    def look_at_nodes(self):
        for node in self.nodes:
            if not node.up and not node.killed and not node.busy:
                node.killed = True
                self.judge.blame("crash", now(), f"the server of node {node.number} ended by itself with status {node.process.returncode}")
            if node.lost_nonce is None or not node.up or node.stopped or node.busy or now() - node.lost_at < self.ttl_max_ms * 1.02e6:
                continue
            record = node.record()
            if record.get("nonce") not in (None, node.lost_nonce) and self.is_back(node, record):
                node.lost_nonce = None

    def is_back(self, node, record):
        """It votes: the record is of this process and its data, and a majority of the members knows that."""
        run_id = record.get("run_id")
        if record.get("standing") != "intact" or not self._is_of_now(node, record):
            return False
        knows = [member for member in self.members
                 if any(line.split()[0::2] == [record["node"], run_id] for line in self._lines(member))]
        return len(knows) >= self.majority

    def _lines(self, member):
        """Of its record: node, slot, run_id and URL of each member of the quorum, without the URL."""
        record = member.record() if member.up and not member.stopped else {}
        return [line.rsplit(" ", 1)[0] for line in record.get("members", "").splitlines()]

    def _is_of_now(self, node, record):
        """What clients compare when they look."""
        try:
            if node.native:
                return record["run_id"] == node.ask("REDLOCK.STATE")[3].decode()
            lines = node.ask("INFO").decode().split("\r\n")
        except (OSError, ServerError):
            return False
        return {f"run_id:{record['run_id']}", f"master_replid:{record['replid']}", f"evicted_keys:{record['evicted']}"} <= set(lines)

    def settle_members(self):
        """After a change of the quorum: who belongs to it, by what the members say."""
        try:
            done = self.redlock("quorum", "status", "-j", nodes=self.nodes, seconds=10)
            told = json.loads(done.stdout)
        except (subprocess.TimeoutExpired, ValueError):
            return None
        ports = {int(member["url"].rsplit(":", 1)[1]) for member in told.get("members", [])}
        if ports:
            self.members = [node for node in self.nodes if node.port in ports]
        return told

    def status(self):
        """What the quorum says of itself, for who looks for the cause."""
        if self.mode == "classic":
            return ""
        try:
            done = self.redlock("quorum", "status", nodes=self.nodes, seconds=10)
        except subprocess.TimeoutExpired:
            return "quorum status does not end within 10 s"
        records = "\n".join(f"node {node.number}, {node.url}, pid {node.process.pid}, lost {node.lost_nonce}: {node.record()}"
                            for node in self.nodes)
        return f"{done.stdout}{done.stderr}\n{records}"

    # ---- orphans ----

    def killed(self, worker, name):
        self.orphans.append((worker, name, time.monotonic()))

    def _quiet(self, node, worker):
        """Neither stopped nor cut off from the worker that died for as long as its last request may live there."""
        since = time.monotonic() - self.ttl_ms / 1000 - ORPHAN_MARGIN_S
        return node.up and not node.stopped and max(node.troubled_until, worker.troubled_until) < since

    def look_for_orphans(self):
        for entry in list(self.orphans):
            worker, owner, since = entry
            if time.monotonic() - since < self.ttl_ms / 1000 + ORPHAN_MARGIN_S:
                continue
            quiet = [node for node in self.nodes if self._quiet(node, worker)]
            for node in quiet:
                for key, tokens in self.keys(node).items():
                    if any(token.endswith(f":{owner}") for token in tokens):
                        self.judge.blame("orphan", now(), f"{key} of {owner} lives on node {node.number}, {time.monotonic() - since:.1f} s "
                                                          "after its death")
            if len(quiet) == len(self.nodes) or time.monotonic() - since > 20:
                self.orphans.remove(entry)

    def keys(self, node):
        """{key: tokens} of all locks there; of a shared one, those of its readers."""
        names = [f"r{number}" for number in range(self.resources)]
        try:
            if node.native:
                answers = [node.ask("REDLOCK.GET", name, 200) for name in names]
                tokens = [[token] if token else [] for token in answers]
            else:
                names += [f"s{number}:slot:{slot}" for number in range(SEMAPHORES) for slot in range(1, 5)]
                names += [f"l{number}" for number in range(ELECTIONS)]
                tokens = node.ask("EVAL", HOLDERS, len(names), *names)
        except (OSError, ServerError):
            return {}
        return {name: [token.decode(errors="replace") for token in those] for name, those in zip(names, tokens) if those}

    # ---- the end ----

    def calm(self, final=False):
        """The faults that were begun end; then somebody must acquire. Returns seconds until then."""
        self.run_for(12, until=lambda: not self.operating and not any(node.busy for node in self.nodes)
                     and all(worker.process.poll() is None and not worker.stopped for worker in self.workers)
                     and all(node.up and not node.stopped for node in self.nodes))
        began = now()
        self.run_for(CALM_BOUND_S, until=lambda: self.judge.last_grant > began)
        if self.judge.last_grant <= began:
            self.judge.blame("progress", now(), f"nobody acquired anything within {CALM_BOUND_S} s after the faults stopped\n"
                                                f"{self.status()}")
        if final and self.mode != "classic":
            def intact():
                self.look_at_nodes()
                return not any(node.lost_nonce is not None for node in self.members)
            self.run_for(INTACT_BOUND_S, until=intact)
            if not intact():
                self.judge.blame("progress", now(), f"nodes {[node.number for node in self.members if node.lost_nonce is not None]} "
                                                    f"do not vote {INTACT_BOUND_S} s after the faults stopped\n{self.status()}")
        return (self.judge.last_grant - began) / 1e9

    def end(self):
        """Ends the workers, and looks whether anything is left of them."""
        self.ending = True
        for worker in [each for each in self.workers if not each.serves] + [each for each in self.workers if each.serves]:
            worker.process.terminate()
            worker.end()
        if self.runners:
            self.runners.end()
        time.sleep(self.ttl_ms / 1000 + ORPHAN_MARGIN_S)
        self.judge.leaders.finish()
        for node in self.nodes:
            if left := self.keys(node):
                self.judge.blame("orphan", now(), f"keys of nobody on node {node.number}: {left}")

    def close(self):
        for worker in self.workers:
            if worker.process.poll() is None:
                worker.process.kill()
                worker.process.wait()
        for process in self.runners.living.values() if self.runners else ():
            process.kill()
            process.wait()
        if self.links:
            self.links.close()
        for node in [*self.nodes, *([self.replica] if self.replica else [])]:
            node.close()
        self.errors.close()


def _free_port():
    import socket
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]
