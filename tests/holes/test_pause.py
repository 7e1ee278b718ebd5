# SPDX-License-Identifier: BSD-2-Clause
"""PAUSE-WRITE and PAUSE-REPLY at a row of a real PostgreSQL: eight processes read it, add one and write it, and one of them
is stopped past its validity. Behind a fence no update is lost; without one it is, whatever the lock."""
import os
import pathlib
import shlex
import signal
import sys
import time

import pytest

from crowd import EVERYONE, NOBODY, RESOURCE, Crowd, init, now
from nodes import Group, until, urls

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "gate"))
from recipes import Missing, PostgreSQL, recipe  # noqa: E402

TTL = 1500
TRIES = 4
UNFENCED_READ = "SELECT balance FROM account WHERE id = :'id';\n"
UNFENCED_WRITE = "UPDATE account SET balance = :balance WHERE id = :'id' RETURNING balance;\n"


class Table:
    """The row, and the command by which workers get at it."""

    def __init__(self, server, directory, fenced):
        self.server, self.fenced = server, fenced
        texts = (recipe("postgresql-read"), recipe("postgresql-write")) if fenced else (UNFENCED_READ, UNFENCED_WRITE)
        for name, text in zip(("read", "write"), texts):
            (directory / f"{name}.sql").write_text(text)
        # pylint: disable=protected-access
        psql = shlex.join(map(str, server._command({"id": "job"})[:-2]))
        script = directory / "table"
        script.write_text(f'#!/bin/sh\nexec {psql} -v fence="$2" -v balance="$3" -f {directory}/"$1".sql\n')
        script.chmod(0o755)
        self.command = str(script)
        server.ask("DELETE FROM account; INSERT INTO account (id, fence) VALUES ('job', 0);")

    def lost(self, crowd):
        """How many acknowledged updates are not in the row; nobody may be inside."""
        return len(crowd.witness.wrote()) - self.server.peek()


@pytest.fixture(scope="module")
def postgresql():
    try:
        server = PostgreSQL(None)
    except Missing as missing:
        pytest.exit(str(missing), returncode=77)
    yield server
    server.close()


@pytest.fixture(params=["classic-unfenced", "guarded-unfenced", "guarded-fenced"])
def table(request, directory, postgresql):
    request.node.lock_mode, fence = request.param.split("-")
    return Table(postgresql, directory, fence == "fenced")


def others_write(crowd, pid, count=2):
    """Waits until others have written meanwhile."""
    before = len(crowd.witness.wrote())
    until(lambda: len(crowd.witness.wrote()) >= before + count, 20, "updates of others")
    assert all(writer != pid for writer, *_ in crowd.witness.wrote()[before:])


def pause_write(crowd):
    """One is stopped between its look at its validity and its write, until others have written; its id."""
    pid = crowd.stop_before_writing()
    others_write(crowd, pid)
    os.kill(pid, signal.SIGCONT)
    resumed = now()
    until(lambda: any(grant.pid == pid and (grant.left or 0) > resumed for grant in crowd.witness.grants()), what="its leaving")
    return pid


def test_pause_write(directory, table, request, told):
    mode = request.node.lock_mode
    with Group(3) as nodes:
        if mode == "guarded":
            init(urls(nodes), TTL)
        with Crowd(directory, mode, TTL, table.command) as crowd:
            crowd.start(urls(nodes))
            crowd.entered(2)
            for number in range(1, TRIES + 1):
                pid = pause_write(crowd)
                crowd.quiet()
                if table.fenced:
                    assert any(writer == pid for writer, _ in crowd.witness.fenced()), "the write was not refused"
                if table.fenced and number < 2:
                    assert table.lost(crowd) == 0
                elif table.fenced or table.lost(crowd) > 0:
                    break
                crowd.only(EVERYONE)
        lost = table.lost(crowd)
        crowd.no_two_at_once()  # it was outside when it wrote: the lock has kept its word
        told(f"{lost} of {len(crowd.witness.wrote())} updates lost, pause {number}")
        assert (lost == 0) == table.fenced


def stop_before_reply(crowd, nodes, victim):
    """The victim asks, and is stopped before it hears that it has won."""
    for node in nodes:
        node.pause()
    crowd.only(victim)
    time.sleep(0.1)  # too short on a busy machine: then it has not asked, which is seen below
    os.kill(victim, signal.SIGSTOP)
    for node in nodes:
        node.resume()
    tokens = [node.ask("GET", RESOURCE) for node in nodes]
    return None not in tokens and len(set(tokens)) == 1


def pause_reply(crowd, nodes, victim):
    crowd.quiet()
    stopped = now()
    while not stop_before_reply(crowd, nodes, victim):
        crowd.only(NOBODY)
        os.kill(victim, signal.SIGCONT)
        crowd.quiet()
        stopped = now()
    crowd.only(EVERYONE)
    others_write(crowd, victim)
    resumed = now()
    os.kill(victim, signal.SIGCONT)
    until(lambda: any(grant.pid == victim and grant.asked > resumed for grant in crowd.witness.grants()), 20, "its next turn")
    late = [grant for grant in crowd.witness.grants() if grant.pid == victim and stopped < grant.asked < resumed]
    assert late == [], "it took votes for good that were worth nothing any more"


def test_pause_reply(directory, table, request, told):
    mode = request.node.lock_mode
    with Group(3) as nodes:
        if mode == "guarded":
            init(urls(nodes), TTL)
        with Crowd(directory, mode, TTL, table.command, node_timeout_ms=1000) as crowd:
            workers = crowd.start(urls(nodes))
            crowd.entered(2)
            pause_reply(crowd, nodes, workers[0].pid)
            crowd.quiet()
        crowd.no_two_at_once()
        assert table.lost(crowd) == 0  # the clock is read after the votes: this one needs no fence
        told(f"none of {len(crowd.witness.wrote())} updates lost")
