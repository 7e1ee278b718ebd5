# SPDX-License-Identifier: BSD-2-Clause
"""What happens to servers, links and workers, drawn from the seed; for each mode what it promises to survive (docs/use/safety.md).

A fault is a generator that yields for how many seconds it lasts, or that ends at once if it cannot be now.
"""
import time

from commands import Commands
from machines import ServerError

AGAIN = 0.2  # of the nodes that recover, so many may be struck again
ROUGH = 0.03  # of the faults that lose no data may leave fewer than a majority


class Faults(Commands):
    def __init__(self, world, losses=True):
        self.world, self.random = world, world.random
        self.losses = losses
        everywhere = {self.stop_server: 4, self.stop_worker: 3, self.kill_worker: 1, self.kill_run: 1, self.delay: 4, self.cut: 5,
                      self.reset: 4, self.refuse: 2, self.noise: 2, self.minority: 0.7}
        of_mode = {
            "classic": {self.kill_with_data: 2, self.rolling: 0.1},
            "guarded": {self.bare: 2, self.kill_leader: 1, self.kill_with_data: 1.5, self.kill_empty: 2, self.flush: 2, self.policy: 0.7,
                        self.evict: 0.5, self.attach: 0.7, self.memory: 0.7, self.round_trip: 0.7, self.failover: 0.4, self.change_quorum: 0.7, self.agent: 0.5},
            "native": {self.bare: 2, self.kill_with_data: 1.5, self.kill_empty: 1.5, self.flush: 4, self.delete: 4, self.step_clock: 4, self.evict: 1,
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
        yield from self._kill(self._any(self.world.workers))

    def kill_leader(self):
        leading = self.world.judge.leaders.now()
        worker = self._any([each for each in self.world.workers if each.name in leading])
        if worker is not None:
            yield from self._kill(worker, "kill_leader")

    def _kill(self, worker, kind="kill_worker"):
        if worker.process.poll() is not None:
            return
        name = worker.name
        self.world.note("restart_gateway" if worker.serves else kind, name)
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
        end = time.monotonic() + 10
        while self._ask(node, "PING") is None and time.monotonic() < end:
            if not node.up:
                node.start_again(empty)
            yield 0.02
        node.busy = False

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

    def _clients(self):
        return sorted({client for client, _ in self.world.links.of()})

    def _some_links(self):
        """Of one node, of one client, or one alone; and the nodes they lead to."""
        links, kind = self.world.links, self.random.choice(("node", "client", "pair", "pair"))
        if kind == "node":
            node = self._spared()
            return (links.of(node=node.number), f"all to node {node.number}", node) if node else (None, "", None)
        if kind == "client":
            client = self._any(self._clients())
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

    def _cut_off(self, kind, clients, lacking, span):
        """Each of these clients loses its links to `lacking` nodes. What undoes it."""
        world = self.world
        pairs = [(client, node.number) for client in clients for node in self.random.sample(world.members, lacking)]
        world.note(kind, " ".join(f"{client}:{node}" for client, node in pairs), span)
        for worker in world.workers:
            worker.troubled_until = max(worker.troubled_until, time.monotonic() + span)
        word, value = self.random.choice((("hold", 1), ("hold", 3), ("refuse", 1)))
        world.links.tell(pairs, word, value)
        if word == "refuse":
            world.links.tell(pairs, "reset", 100)
        return lambda: world.links.tell(pairs, word, 0)

    def minority(self):
        """Some clients reach fewer nodes than a majority, for longer than a TTL: the others take over what they hold."""
        clients, span = self._clients(), self._span(1.2, 3) * self.world.ttl_ms / 1000
        clients = self.random.sample(clients, self.random.randint(1, max(1, len(clients) // 2)))
        restore = self._cut_off("minority", clients, self.world.majority, span)
        yield span
        restore()

    def bare(self):
        """Some clients are cut off from as many nodes as they can do without, so that their leases lie on bare majorities; then data
        is lost. The others reach all nodes: they bring back what was lost, and want the locks."""
        world = self.world
        if not [node for node in world.members if world.fine(node)]:
            return
        clients, span = self._clients(), self._span(0.8, 2)
        clients = self.random.sample(clients, self.random.randint(1, len(clients) - 1))
        restore = self._cut_off("bare_majorities", clients, len(world.members) - world.majority, span)
        yield self._span(0.2, 0.5)
        for loss in self.random.sample((self.flush, self.kill_empty, self.kill_with_data), 3 if world.mode == "native" else 1):
            world.play(loss())
        yield span
        restore()

    def go_beyond(self):
        """Classic: what it does not promise to survive."""
        self.table = {self.stop_server: 1, self.cut: 2, self.delay: 2, self.kill_empty: 4, self.flush: 4}
