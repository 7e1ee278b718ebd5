# SPDX-License-Identifier: BSD-2-Clause
"""SETNX-RACE: programs with the old pattern (SETNX, a timestamp, GETSET) find a dead lock together. Those who do it wrong, by
DEL and SETNX again, hold it together; those who do it right do not, nor does ours beside them."""
import socket
import threading
import time

import pytest

from crowd import redlock
from nodes import Node
from servers import _receive, _send

JOB = "job"
TIMEOUT = 20
LOST = 80
RACERS, ROUNDS, TRIES = 4, 200, 2000


class Field:
    """The pattern as it stands in many programs, in Python's form."""

    def __init__(self, node):
        self.connection = socket.create_connection(("127.0.0.1", node.port), timeout=10)
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.stream = self.connection.makefile("rwb")
        self.stamp = None

    def say(self, *words):
        _send(self.stream, *words)
        return _receive(self.stream)

    def close(self):
        self.stream.close()
        self.connection.close()

    def sets(self):
        self.stamp = int(time.time()) + TIMEOUT + 1
        return self.say("SETNX", JOB, self.stamp) == 1

    def finds_it_over(self):
        value = self.say("GET", JOB)
        return value is None or int(value) < time.time()

    def takes_over(self):
        raise NotImplementedError

    def acquires(self):
        return self.sets() or (self.finds_it_over() and self.takes_over())


class Wrong(Field):
    def takes_over(self):
        self.say("DEL", JOB)
        return self.sets()


class Right(Field):
    def takes_over(self):
        self.stamp = int(time.time()) + TIMEOUT + 1
        value = self.say("GETSET", JOB, self.stamp)
        return value is None or int(value) < time.time()


@pytest.fixture
def node():
    server = Node()
    yield server
    server.close()


@pytest.fixture
def field(node):
    """Makes programs of the field; they are closed with the test."""
    made = []

    def make(kind):
        made.append(kind(node))
        return made[-1]
    yield make
    for each in made:
        each.close()


def die(node):
    """Somebody took it and died, three seconds ago."""
    node.ask("SET", JOB, int(time.time()) - 3)


def ours(node, *arguments):
    return redlock(f"{node.url}?scheme=setnx", *arguments, mode="classic")


def holders(node, racers):
    """All of them try once, together, for a dead lock; who has it, keeps it. Returns how many think they do."""
    die(node)
    gate, won = threading.Barrier(len(racers)), []

    def run(racer):
        gate.wait()
        if racer():
            won.append(racer)
    threads = [threading.Thread(target=run, args=(racer,)) for racer in racers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(won)


def test_setnx_race_wrong_form_staged(node, field):
    first, second = field(Wrong), field(Wrong)
    die(node)
    assert not first.sets() and not second.sets()
    assert first.finds_it_over() and second.finds_it_over()
    assert first.takes_over()
    assert second.takes_over()  # it has deleted the first one's


def test_setnx_race_right_form_staged(node, field):
    first, second = field(Right), field(Right)
    die(node)
    assert not first.sets() and not second.sets()
    assert first.finds_it_over() and second.finds_it_over()
    assert first.takes_over()
    assert not second.takes_over()


def test_setnx_race_by_itself(node, field, told):
    """The wrong form needs no staging to break; the right one does not break as often as one likes to try."""
    wrong = [field(Wrong).acquires for _ in range(RACERS)]
    tries = next((n for n in range(1, TRIES + 1) if holders(node, wrong) > 1), None)
    assert tries is not None, f"never two holders in {TRIES} tries"
    right = [field(Right).acquires for _ in range(RACERS)]
    counts = [holders(node, right) for _ in range(ROUNDS)]
    assert counts == [1] * ROUNDS
    told(f"DEL and SETNX: two holders in try {tries}; GETSET: one in each of {ROUNDS}")


def test_setnx_race_with_ours(node, field, told):
    """Ours among programs that do it right: one holder each time."""
    won = []

    def acquire():
        done = ours(node, "acquire", "-t", "20s", JOB)
        assert done.returncode in (0, 75), done.stderr
        won.append(done.returncode == 0)
        return won[-1]
    for number in range(60):
        late = [0, 0.002, 0.004, 0.006][number % 4]  # a process takes its time to start

        def theirs(racer):
            time.sleep(late)
            return racer.acquires()
        racers = [acquire] + [lambda racer=field(Right): theirs(racer) for _ in range(2)]
        assert holders(node, racers) == 1
    told(f"one holder in each of 60, {sum(won)} times ours")


def test_setnx_race_ours_beside_the_wrong_form(node, field):
    """Whoever deletes what is not his breaks ours too. Ours learns of it when it renews, and takes nothing from him."""
    stranger = field(Wrong)
    die(node)
    assert not stranger.sets() and stranger.finds_it_over()
    done = ours(node, "acquire", "-t", "20s", JOB)
    assert done.returncode == 0, done.stderr
    token = done.stdout.split()[0]
    assert stranger.takes_over()  # two holders
    for command in "extend", "release":
        lost = ours(node, command, "--token", token, JOB)
        assert lost.returncode == LOST, lost
    assert int(node.ask("GET", JOB)) == stranger.stamp
