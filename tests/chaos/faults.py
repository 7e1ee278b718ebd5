# SPDX-License-Identifier: BSD-2-Clause
"""What happens to servers, links and workers, drawn from the seed; for each mode what it promises to survive (docs/safety.md).

A fault is a generator that yields for how many seconds it lasts, or that ends at once if it cannot be now.
"""
import subprocess
import time

from machines import ServerError, now
from workers import clean_environment

AGAIN = 0.2  # of the nodes that recover, so many may be struck again
ROUGH = 0.03  # of the faults that lose no data may leave fewer than a majority


class Faults:
    def __init__(self, world, losses=True):
        self.world, self.random = world, world.random
        self.losses = losses
        everywhere = {self.stop_server: 4, self.stop_worker: 3, self.kill_worker: 1, self.kill_run: 1, self.delay: 4, self.cut: 5,
                      self.reset: 4, self.refuse: 2, self.noise: 2}
        of_mode = {
            "classic": {self.kill_with_data: 2, self.rolling: 0.1},
            "guarded": {self.kill_with_data: 1.5, self.kill_empty: 2, self.flush: 2, self.policy: 0.7, self.evict: 0.5, self.attach: 0.7,
                        self.memory: 0.7, self.round_trip: 0.7, self.failover: 0.4, self.change_quorum: 0.7, self.agent: 0.5},
            "native": {self.kill_with_data: 1.5, self.kill_empty: 1.5, self.flush: 4, self.delete: 4, self.step_clock: 4, self.evict: 1,
                       self.memory: 1, self.attach: 1, self.demote: 1, self.change_quorum: 0.7, self.agent: 0.5},
        }
        self.table = {**everywhere, **of_mode[world.mode]}

    def one(self):
        """Begins one fault; those that cannot be now are drawn again."""
        for _ in range(10):
            fault, = self.random.choices(list(self.table), weights=list(self.table.values()))
            steps = fault()
            before = len(self.world.faults)
            self.world.play(steps)
            if len(self.world.faults) > before:
                return

    # ---- whom ----

    def _any(self, nodes):
        return self.random.choice(nodes) if nodes else None

    def _spared(self):
        """A node that can be away while a majority is not; or, now and then, any."""
        fine = [node for node in self.world.members if self.world.fine(node)]
        if len(fine) > self.world.majority or (fine and self.random.random() < ROUGH):
            return self._any(fine)
        return None

    def _to_lose(self):
        """A node that may lose its data: with those that lost theirs within ttl_max, or still have none, fewer than a majority."""
        world = self.world
        if world.mode == "classic":
            return self._any([node for node in world.members if node.up and not node.stopped and not node.busy])
        if not self.losses or world.operating:
            return None
        lost = world.lost()
        able = [node for node in world.members if node.up and not node.stopped and not node.busy]
        if len(world.members) - len(lost) <= world.majority:
            # What is lost may be lost again: so recovery is interrupted, but not for ever.
            able = [node for node in able if node in lost and self.random.random() < AGAIN]
        return self._any(able)

    def _span(self, least, most):
        return self.random.uniform(least, most)

    def _trouble(self, node, seconds):
        node.troubled_until = max(node.troubled_until, time.monotonic() + seconds)

    # ---- processes ----

    def stop_server(self):
        node, span = self._spared(), self.random.choice((0.02, 0.1, 0.4, 1.5))
        if node is None:
            return
        self.world.note("stop_server", f"node {node.number}", span)
        self._trouble(node, span)
        node.pause()
        yield span
        node.resume()

    def stop_worker(self):
        worker, span = self._any([each for each in self.world.workers if not each.stopped]), self.random.choice((0.02, 0.2, 0.7, 2.2))
        if worker is None or worker.process.poll() is not None:
            return
        self.world.note("stop_worker", worker.name, span)
        worker.pause()
        worker.troubled_until = max(worker.troubled_until, time.monotonic() + span)
        process = worker.process
        yield span
        if worker.process is process:
            worker.resume()

    def kill_worker(self):
        worker = self._any(self.world.workers)
        if worker.process.poll() is not None:
            return
        name = worker.name
        self.world.note("restart_gateway" if worker.serves else "kill_worker", name)
        worker.kill()
        self.world.killed(worker, name)
        yield self._span(0.02, 0.5)
        worker.start()

    def kill_run(self):
        if self.world.runners and (name := self.world.runners.kill_one(self.random)):
            self.world.note("kill_run", name)
            yield 0

    def _killed(self, node, empty):
        node.busy = True
        node.kill()
        yield self._span(0.01, 0.6)
        node.start_again(empty)
        node.busy = False
        end = time.monotonic() + 10
        while time.monotonic() < end:
            try:
                node.ask("PING")
                return
            except (OSError, ServerError):
                if not node.up:
                    node.start_again(empty)
            yield 0.02

    def kill_with_data(self):
        classic = self.world.mode == "classic"
        node = self._spared() if classic else self._to_lose()
        if node is None:
            return
        self.world.note("kill_with_data", f"node {node.number}")
        if not classic:
            self.world.loses(node)
            if not node.native:
                try:
                    node.ask("SAVE", seconds=2)
                except (OSError, ServerError):
                    pass
        yield from self._killed(node, empty=False)

    def kill_empty(self):
        node = self._to_lose()
        if node is None:
            return
        self.world.note("kill_empty", f"node {node.number}")
        self.world.loses(node)
        yield from self._killed(node, empty=True)

    def rolling(self):
        """One after the other, each when the one before is back."""
        nodes = [node for node in self.world.members if self.world.fine(node)]
        if len(nodes) <= self.world.majority:
            return
        self.world.note("rolling_restart", f"nodes {[node.number for node in nodes]}")
        for node in nodes:
            if self.world.fine(node):
                yield from self._killed(node, empty=False)

    # ---- links ----

    def _some_links(self):
        """Of one node, of one client, or one alone; and the nodes they lead to."""
        links, kind = self.world.links, self.random.choice(("node", "client", "pair", "pair"))
        if kind == "node":
            node = self._spared()
            return (links.of(node=node.number), f"all to node {node.number}", node) if node else (None, "", None)
        if kind == "client":
            client = self._any(sorted({client for client, _ in links.of()}))
            return links.of(client=client), f"all of client {client}", None
        pair = self._any(links.of())
        return [pair], f"client {pair[0]} to node {pair[1]}", None

    def delay(self):
        pairs, text, _ = self._some_links()
        if not pairs:
            return
        late = [self.random.choice((0, 500, 5000, 20000, 60000)) for _ in range(3)]
        span = self._span(0.1, 1.5)
        self.world.note("delay", f"{text}: {late[0] / 1000} ms there, {late[1] / 1000} ms back, up to {late[2] / 1000} ms more", span)
        self.world.links.tell(pairs, "late", *late)
        yield span
        self.world.links.tell(pairs, "late", 0, 0, 0)

    def noise(self):
        """Each link of a node has its own delay: requests of several clients come in any order."""
        node = self._any(self.world.members)
        span = self._span(0.2, 2)
        pairs = self.world.links.of(node=node.number)
        self.world.note("reorder", f"node {node.number}", span)
        for pair in pairs:
            self.world.links.tell([pair], "late", self.random.randrange(8000), self.random.randrange(8000), self.random.randrange(3000))
        yield span
        self.world.links.tell(pairs, "late", 0, 0, 0)

    def cut(self):
        pairs, text, node = self._some_links()
        if not pairs:
            return
        which, span = self.random.choice((1, 2, 3)), self.random.choice((0.03, 0.1, 0.4, 1.5))
        words = {1: "requests", 2: "replies", 3: "requests and replies"}
        self.world.note("partition" if which == 3 else "one_way", f"{text}: {words[which]} stall", span)
        for number in {number for _, number in pairs}:
            if node is None:
                # Not the whole node: only what was on its way there may come late.
                for worker in self.world.workers:
                    if worker.client in {client for client, _ in pairs}:
                        worker.troubled_until = max(worker.troubled_until, time.monotonic() + span)
            else:
                self._trouble(self.world.nodes[number], span)
        self.world.links.tell(pairs, "hold", which)
        yield span
        self.world.links.tell(pairs, "hold", 0)

    def reset(self):
        pairs, text, _ = self._some_links()
        if not pairs:
            return
        percent = self.random.choice((30, 100))
        self.world.note("reset", f"{text}: {percent} % of the connections")
        self.world.links.tell(pairs, "reset", percent)
        yield 0

    def refuse(self):
        pairs, text, node = self._some_links()
        if not pairs:
            return
        span = self._span(0.05, 1)
        self.world.note("refuse", text, span)
        if node is not None:
            self._trouble(node, span)
        self.world.links.tell(pairs, "refuse", 1)
        self.world.links.tell(pairs, "reset", 100)
        yield span
        self.world.links.tell(pairs, "refuse", 0)

    # ---- what operators and strangers do ----

    def _ask(self, node, *words, seconds=0.5):
        """None: no answer, or an error."""
        try:
            return node.ask(*words, seconds=seconds)
        except (OSError, ServerError):
            return None

    def flush(self):
        node = self._any([each for each in self.world.members if each.up and not each.stopped]) if self.world.mode == "native" \
            else self._to_lose()
        if node is None:
            return
        self.world.note("flushall", f"node {node.number}")
        if self.world.mode != "native":
            self.world.loses(node)
        self._ask(node, "FLUSHALL")
        yield 0

    def delete(self):
        node = self._any([each for each in self.world.members if each.up and not each.stopped])
        if node is None:
            return
        names = [f"r{number}" for number in self.random.sample(range(self.world.resources), 5)]
        self.world.note("delete", f"node {node.number}: {' '.join(names)}")
        self._ask(node, "DEL", *names)
        yield 0

    def step_clock(self):
        node, seconds = self._any(self.world.members), self.random.choice((-3600, -2, -0.5, 0.5, 2, 3600))
        self.world.note("step_clock", f"node {node.number}: {seconds} s")
        node.step(seconds)
        yield 0

    def policy(self):
        """Eviction is allowed, and nothing is evicted: clients refuse the node, and it recovers."""
        node = self._to_lose()
        if node is None:
            return
        span = self._span(0.1, 2.5)
        self.world.note("maxmemory_policy", f"node {node.number}: allkeys-lru", span)
        self.world.loses(node)
        node.busy = True
        self._ask(node, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        yield span
        yield from self._configured(node, "maxmemory-policy", "noeviction")
        yield from self._looked_at(node)

    def _looked_at(self, node):
        """What made the node unfit is over. If clients saw it, its record says so within their next look, and it recovers."""
        yield 1.3
        record = node.record()
        if record.get("standing") == "intact":
            node.lost_nonce = None
        node.lost_at, node.busy = now(), False

    def _configured(self, node, name, value):
        end = time.monotonic() + 5
        while self._ask(node, "CONFIG", "SET", name, value) != b"OK" and node.up and time.monotonic() < end:
            yield 0.05

    def evict(self):
        """Eviction is allowed and, on a stock node once that was seen, happens (before: EVICT-LATER, a documented hole)."""
        native = self.world.mode == "native"
        node = self._spared() if native else self._to_lose()
        if node is None:
            return
        self.world.note("evict", f"node {node.number}")
        if not native:
            self.world.loses(node)
        node.busy = True
        self._ask(node, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        seen, end = native, time.monotonic() + 3
        while not seen and time.monotonic() < end:
            yield 0.1
            record = node.record()
            seen = bool(record) and record.get("standing") != "intact"
        if seen:
            self._ask(node, "CONFIG", "SET", "maxmemory", "1")
            yield 0.2
            yield from self._configured(node, "maxmemory", "0")
        yield from self._configured(node, "maxmemory-policy", "noeviction")
        if native:
            node.busy = False
        else:
            yield from self._looked_at(node)

    def memory(self):
        """No memory is left for writes; nothing is evicted."""
        node, span = self._spared(), self._span(0.1, 1)
        if node is None:
            return
        self.world.note("maxmemory", f"node {node.number}: 1 byte", span)
        node.busy = True
        self._ask(node, "CONFIG", "SET", "maxmemory", "1")
        yield span
        yield from self._configured(node, "maxmemory", "0")
        node.busy = False

    def _synchronised(self, node):
        """Until it has its master's data; it is asked for 4 s."""
        end = time.monotonic() + 4
        while time.monotonic() < end:
            yield 0.03
            if b"master_link_status:up" in (self._ask(node, "INFO", "replication") or b""):
                return

    def _replica_of(self, replica, node):
        self._ask(replica, "REPLICAOF", "127.0.0.1", node.port)
        yield from self._synchronised(replica)

    def attach(self):
        """A replica comes and goes."""
        native = self.world.mode == "native"
        node, replica, span = self._spared() if native else self._to_lose(), self.world.replica, self._span(0.1, 2)
        if node is None or replica.busy:
            return
        self.world.note("replica", f"of node {node.number}", span)
        if not native:
            self.world.loses(node)
        node.busy = replica.busy = True
        yield from self._replica_of(replica, node)
        yield span
        yield from self._alone(replica)
        replica.busy = False
        if native:
            node.busy = False
        else:
            yield from self._looked_at(node)

    def _alone(self, node):
        self._ask(node, "REPLICAOF", "NO", "ONE")
        if node is self.world.replica:
            self._ask(node, "FLUSHALL")
        yield 0.05

    def round_trip(self):
        """ROUND-TRIP: the replica is promoted and lags; the member becomes its replica, and is promoted back."""
        node, replica = self._to_lose(), self.world.replica
        if node is None or replica.busy:
            return
        self.world.note("round_trip", f"node {node.number}")
        self.world.loses(node)  # soon
        node.busy = replica.busy = True
        yield from self._replica_of(replica, node)
        self._ask(replica, "REPLICAOF", "NO", "ONE")
        yield self._span(0.05, 0.6)
        self.world.loses(node)
        yield from self._replica_of(node, replica)
        self.world.loses(node)
        self._ask(node, "REPLICAOF", "NO", "ONE")
        yield from self._alone(replica)
        node.busy = replica.busy = False

    def failover(self):
        """DUP-VOTER: a lagging replica is promoted; some clients come to it, and others stay at the old master."""
        node, replica, links = self._to_lose(), self.world.replica, self.world.links
        if node is None or replica.busy or self.world.lost():
            return
        span = self._span(0.3, 3)
        self.world.note("failover", f"node {node.number}", span)
        self.world.loses(node)  # soon
        node.busy = replica.busy = True
        yield from self._replica_of(replica, node)
        self._ask(replica, "REPLICAOF", "NO", "ONE")
        yield self._span(0.02, 0.4)
        self.world.loses(node)
        moved = [pair for pair in links.of(node=node.number) if self.random.random() < 0.6]
        links.tell(moved, "move", replica.port)
        links.tell(moved, "reset", 100)
        yield span
        links.tell(moved, "move", node.port)
        links.tell(moved, "reset", 100)
        # Until the quorum has taken the old master back; its own record may say all the time that it is intact.
        for _ in range(3):
            self.world.loses(node)
            yield self.world.ttl_max_ms / 1000
        node.lost_nonce = None
        yield from self._alone(replica)
        node.busy = replica.busy = False

    def demote(self):
        """A native member becomes a replica, and comes back: its locks are not among the data."""
        node, replica = self._spared(), self.world.replica
        if node is None or replica.busy:
            return
        span = self._span(0.05, 0.6)
        self.world.note("demote", f"node {node.number}", span)
        node.busy = replica.busy = True
        yield from self._replica_of(node, replica)
        yield span
        yield from self._alone(node)
        node.busy = replica.busy = False

    def agent(self):
        """A short-lived command, which recovers what it can while it runs."""
        self.world.note("agent", "quorum status --wait")
        command = [str(self.world.build / "cli/redlock"), "quorum", "status", "-q", "--wait=300ms", "-N",
                   ",".join(node.url for node in self.world.members)]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   env=clean_environment())
        yield from self._until_over(process, 10, "quorum status")

    def _until_over(self, process, seconds, name):
        end = time.monotonic() + seconds
        while process.poll() is None:
            if time.monotonic() > end:
                self.world.judge.blame("hang", now(), f"{name} does not end within {seconds} s")
                process.kill()
                process.wait()
            yield 0.05
        if process.returncode < 0 and process.returncode != -9:
            self.world.judge.blame("crash", now(), f"{name} ended by signal {-process.returncode}")

    def change_quorum(self):
        """A change of members or of ttl_max; some operators are killed in the middle of it, and the next one goes on."""
        world = self.world
        if world.operating or world.lost() or any(node.busy for node in world.nodes):
            return
        spare = [node for node in world.nodes if node not in world.members]
        others = [node for node in spare if node.up and not node.stopped]
        kind = self.random.choice(("replace", "replace", "add", "remove", "set-ttl-max"))
        member = self._any(world.members)
        words = {"set-ttl-max": [f"{self.random.choice((1000, 1400))}ms"]}.get(kind)
        if kind in ("replace", "add"):
            if not others:
                return
            words = [member.url, others[0].url] if kind == "replace" else [others[0].url]
            yield from self._emptied(others[0])
        elif kind == "remove":
            if spare:
                return  # as many as at first
            words = [member.url]
        world.operating = True
        world.note("quorum", f"{kind} {' '.join(words)}")
        before = set(world.members)
        killed = self.random.random() < 0.25
        for _ in range(3):
            process = self._operator(kind, words)
            if killed:
                yield self._span(0.02, 1.5)
                process.kill()
            yield from self._until_over(process, 40, f"quorum {kind}")
            told = world.settle_members()
            if told and told.get("settled") and not told.get("unfinished") and not killed:
                break
            killed = False  # the next one goes on with what was begun
        if told and told.get("ttl_max_ms"):
            world.ttl_max_ms = max(told["ttl_max_ms"], told.get("ttl_allowed_ms") or 0)
        for node in set(world.members) - before:
            node.lost_nonce, node.lost_at = "none yet", now()  # until it votes
        world.operating = False

    def _operator(self, kind, words):
        world = self.world
        urls = ",".join(node.url for node in world.nodes)
        with open(world.directory / "operators.err", "ab") as errors:
            errors.write(f"\n{now()} quorum {kind} {' '.join(words)}\n".encode())
            errors.flush()
            return subprocess.Popen([str(world.build / "cli/redlock"), "quorum", kind, *words, "--yes", "-N", urls],
                                    stdin=subprocess.DEVNULL, stdout=errors, stderr=errors, env=clean_environment())

    def _emptied(self, node):
        """A server that was never a member, or is no longer."""
        node.busy = True
        if node.native:
            yield from self._killed(node, empty=True)
        else:
            self._ask(node, "FLUSHALL")
        node.lost_nonce, node.lost_at, node.busy = None, 0, False

    def go_beyond(self):
        """Classic: what it does not promise to survive."""
        self.table = {self.stop_server: 1, self.cut: 2, self.delay: 2, self.kill_empty: 4, self.flush: 4}
