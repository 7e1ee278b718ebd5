# SPDX-License-Identifier: BSD-2-Clause
"""Sequences on real servers, driven step by step, so that no step depends on luck. Each round has
servers and clients of its own."""
import contextlib
import itertools
import socket

from conftest import COUNT, ROUNDS
from crowd import ALL_VALIDITY, NOBODY, RESOURCE, Crowd, init, redlock
from nodes import Group, until
from witness import Grant, Witness, fence_violations, now, overlaps

MISSES = 3  # rounds that a busy machine may spoil before the test fails
TWO_HOLDERS, FALLS = "two holders", "a token that does not grow"


class Missed(Exception):
    """A step took too long, so the round proves nothing."""


class Actor(Crowd):
    """One client. It acquires and releases when the test asks for it; its library watches the nodes
    all the time."""

    def __init__(self, stage, name, nodes, ttl_ms, *options, mode):
        super().__init__(stage.directory, mode, ttl_ms, control=name)
        self.hold(ALL_VALIDITY)
        self.only(NOBODY)
        self.worker, = self.start(nodes, 1, "-s", "-p", "2", *options)
        until(lambda: self._said("ready"), what="a client that is ready")

    def _said(self, kind):
        return [words for words in self.witness.records(kind) if int(words[2]) == self.worker.pid]

    def _result(self, since):
        for grant in self.witness.grants():
            if grant.pid == self.worker.pid and grant.asked > since:
                return grant
        return next((int(words[3]) for words in self._said("tried") if int(words[4]) > since), None)

    def tries(self):
        """Tries once. Returns the grant, which it then holds, or the result."""
        since = now()
        self.only(self.worker.pid)
        return until(lambda: self._result(since), 20, "the result of a try")

    def wins(self):
        grant = self.tries()
        assert isinstance(grant, Grant), f"the result was {grant}"
        return grant

    def is_out(self):
        return len(self._said("leave")) == len(self._said("enter"))

    def leaves(self):
        self.hold(0)
        until(self.is_out, what="its leaving")
        self.hold(ALL_VALIDITY)


class Stage(contextlib.ExitStack):
    """One round: its servers, its clients, and what they have shown."""

    def __init__(self, directory, mode):
        super().__init__()
        self.directory, self.mode = directory, mode
        self.witness = Witness(directory / "witness")
        self.names = itertools.count(1)

    def servers(self, count, *arguments):
        return self.enter_context(Group(count, *arguments))

    def server(self, make):
        node = make()
        self.callback(node.close)
        return node

    def unreachable(self):
        """The URL of a node that a client cannot reach. The port is taken until the end of the round: a server of another
        test that got it would be a node of another quorum."""
        taken = self.enter_context(socket.socket())
        taken.bind(("127.0.0.1", 0))
        return f"redis://127.0.0.1:{taken.getsockname()[1]}"

    def init(self, nodes, ttl_ms, **more):
        if self.mode == "guarded":
            init(nodes, ttl_ms, **more)

    def actor(self, nodes, ttl_ms, *options, mode=None):
        name = f"control-{next(self.names)}"
        actor = Actor(self, name, nodes, ttl_ms, *options, mode=mode or self.mode)
        return self.enter_context(actor)

    def acquire(self, nodes, ttl_ms, mode):
        """A command takes the lock and leaves it held. Returns the grant, or how the command
        ended."""
        asked, number = now(), -next(self.names)
        done = redlock(nodes, "acquire", "-t", f"{ttl_ms}ms", "--node-timeout", "300ms", RESOURCE,
                       mode=mode)
        if done.returncode != 0:
            return done
        token, validity_ms, *fence = done.stdout.split()
        end = asked + int(validity_ms) * 1000000  # or somewhat later
        with open(self.witness.path, "a", encoding="ascii") as file:
            print("enter", RESOURCE, number, *(fence or [0]), asked, now(), end, token, file=file)
        return self.witness.grants()[-1]

    def tries_while(self, actor, grant):
        """Tries again and again until the actor holds the lock too, or the grant's validity
        ends."""
        if grant.end - now() < 0.1e9:
            raise Missed("the holder is out before the other has tried")
        while now() < grant.end and not isinstance(actor.tries(), Grant):
            pass

    def shown(self):
        """The violations in this round."""
        grants = self.witness.grants()
        found = {TWO_HOLDERS} if overlaps(grants) else set()
        if self.mode != "classic" and fence_violations(grants):
            found.add(FALLS)
        return found


class Orphan:
    """A key that a dead client left behind on one node: a lease then lies on the others, a bare
    majority."""

    TOKEN = "orphan"

    def __init__(self, node):
        self.node = node
        until(lambda: node.ask("SET", RESOURCE, self.TOKEN, "NX", "PX", 60000) == b"OK",
              what="a free lock on this node")

    def remove(self):
        assert self.node.ask("GET", RESOURCE) == self.TOKEN.encode()
        self.node.ask("DEL", RESOURCE)


def lies_on(grant, nodes):
    tokens = [node.ask("GET", RESOURCE) for node in nodes]
    return tokens == [grant.token.encode()] * len(tokens)


def rounds(one_round, directory, mode):
    """The violations of each round: what the witness saw, and what the round returned."""
    found, missed = [], 0
    for number in itertools.count(1):
        if len(found) == ROUNDS:
            return found
        path = directory / f"round-{number}"
        path.mkdir()
        try:
            with Stage(path, mode) as stage:
                more = one_round(stage)
                found.append(stage.shown() | (more or set()))
        except Missed:
            missed += 1
            if missed > MISSES:
                raise


def judge(found, mode, told, allowed=()):
    """Every round in classic mode shows two holders, no round in guarded mode shows any violation
    but the allowed ones."""
    every = [TWO_HOLDERS, *sorted(set().union(*found) - {TWO_HOLDERS})]
    counts = [f"{what} in {sum(what in shown for shown in found)}" for what in every]
    told("; ".join(f"{count} of {len(found)} rounds" for count in counts))
    if COUNT:
        return
    if mode == "classic":
        assert all(TWO_HOLDERS in shown for shown in found)
        return
    assert set().union(*found) <= set(allowed)


def play(one_round, directory, mode, told, allowed=()):
    judge(rounds(one_round, directory, mode), mode, told, allowed)
