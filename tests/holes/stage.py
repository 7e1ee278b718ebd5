# SPDX-License-Identifier: BSD-2-Clause
"""Sequences on real servers, driven step by step: nothing in them is left to luck. A round has servers and clients of its
own, so each begins anew."""
import contextlib
import itertools

from conftest import COUNT, ROUNDS
from crowd import ALL_VALIDITY, NOBODY, RESOURCE, Crowd, init, redlock
from nodes import Address, Group, until
from witness import Grant, Witness, fence_violations, now, overlaps

MISSES = 3  # rounds that a busy machine may spoil
TWO_HOLDERS, FALLS = "two holders", "a token that does not grow"


class Missed(Exception):
    """The round did not come to its point: a step took too long."""


class Actor(Crowd):
    """One client. It does nothing but what it is asked to, and goes on watching the nodes meanwhile."""

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
        """Once: the grant, or the result. Who has won stays inside."""
        since = now()
        self.only(self.worker.pid)
        return until(lambda: self._result(since), 20, "the result of a try")

    def wins(self):
        grant = self.tries()
        assert isinstance(grant, Grant), f"the result was {grant}"
        return grant

    def leaves(self):
        self.hold(0)
        until(lambda: len(self._said("leave")) == len(self._said("enter")), what="its leaving")
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
        """The URL of a node that a client cannot reach."""
        address = Address(0)
        address.close()
        return address.url

    def init(self, nodes, ttl_ms, **more):
        if self.mode == "guarded":
            init(nodes, ttl_ms, **more)

    def actor(self, nodes, ttl_ms, *options, mode=None):
        return self.enter_context(Actor(self, f"control-{next(self.names)}", nodes, ttl_ms, *options, mode=mode or self.mode))

    def acquire(self, nodes, ttl_ms, mode):
        """By a command that ends at once and leaves the lock held: the grant, or how the command ended."""
        asked, number = now(), -next(self.names)
        done = redlock(nodes, "acquire", "-t", f"{ttl_ms}ms", "--node-timeout", "300ms", RESOURCE, mode=mode)
        if done.returncode != 0:
            return done
        token, validity_ms, *fence = done.stdout.split()
        end = asked + int(validity_ms) * 1000000  # or somewhat later
        with open(self.witness.path, "a", encoding="ascii") as file:
            print("enter", RESOURCE, number, *(fence or [0]), asked, now(), end, token, file=file)
        return self.witness.grants()[-1]

    def tries_while(self, actor, grant):
        """Again and again until it comes inside or the other one's validity is over."""
        if grant.end - now() < 0.1e9:
            raise Missed("the holder is out before the other has tried")
        while now() < grant.end and not isinstance(actor.tries(), Grant):
            pass

    def shown(self):
        """What should not be."""
        grants = self.witness.grants()
        found = {TWO_HOLDERS} if overlaps(grants) else set()
        if self.mode != "classic" and fence_violations(grants):
            found.add(FALLS)
        return found


class Orphan:
    """A key that somebody left behind at a node, so that a lease comes to lie on the others: on a bare majority."""

    TOKEN = "orphan"

    def __init__(self, node):
        self.node = node
        until(lambda: node.ask("SET", RESOURCE, self.TOKEN, "NX", "PX", 60000) == b"OK", what="nobody inside there")

    def remove(self):
        assert self.node.ask("GET", RESOURCE) == self.TOKEN.encode()
        self.node.ask("DEL", RESOURCE)


def lies_on(grant, nodes):
    tokens = [node.ask("GET", RESOURCE) for node in nodes]
    return tokens == [grant.token.encode()] * len(tokens)


def rounds(one_round, directory, mode):
    """What each round has shown; a round may return more of it."""
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
    """In classic mode each round shows two holders; in guarded mode none shows anything that should not be."""
    every = [TWO_HOLDERS, *sorted(set().union(*found) - {TWO_HOLDERS})]
    told("; ".join(f"{what} in {sum(what in shown for shown in found)} of {len(found)} rounds" for what in every))
    if COUNT:
        return
    if mode == "classic":
        assert all(TWO_HOLDERS in shown for shown in found)
        return
    assert set().union(*found) <= set(allowed)


def play(one_round, directory, mode, told, allowed=()):
    judge(rounds(one_round, directory, mode), mode, told, allowed)
