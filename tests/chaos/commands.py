# SPDX-License-Identifier: BSD-2-Clause
"""Faults that operators and strangers make: commands to servers, replicas, changes of the quorum."""
import subprocess
import time

from machines import ServerError, now
from workers import clean_environment


class Commands:
    """With what faults.py draws from: world, random, _any(), _spared(), _to_lose(), _span(), _killed()."""

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
        """What made the node unfit is over. A record that is not of its data now is marked when a client looks next, however late."""
        yield 1.3
        if self.world.is_back(node, node.record()):
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
        # Its own record may say all the time that it is intact: so the quorum is asked, once who came late has been there.
        for _ in range(3):
            self.world.loses(node)
            yield self.world.ttl_max_ms / 1000
        node.lost_nonce = "unknown"
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
