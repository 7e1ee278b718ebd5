# SPDX-License-Identifier: BSD-2-Clause
"""In which order a server pushes the loss of its data and answers, on the connection that carries votes: guarded mode rests on it
(docs/inside/guarded.md, "What a vote rests on")."""
import contextlib
import pathlib
import socket
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "cli"))
from servers import _receive, _send, started, until  # noqa: E402

RECORD, RACES = "redlock:node", 20
GONE = b""  # the null of RESP3


class VotingConnection:
    """As the client's: RESP3, with tracking of the record."""

    def __init__(self, stack, server):
        self.stream = stack.enter_context(socket.create_connection(("127.0.0.1", server.port))).makefile("rwb")
        self.pushes = 0
        self.send("HELLO", "3")
        self._skip()
        assert self.ask("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", RECORD, "NOLOOP") == b"OK"

    def _skip(self):
        """One value. From Redis 8 on, maps of the server's own modules are in the answer to HELLO."""
        kind = self.stream.peek(1)[:1]
        if kind not in (b"%", b"*"):
            _receive(self.stream)
            return
        for _ in range(int(self.stream.readline()[1:]) * (2 if kind == b"%" else 1)):
            self._skip()

    def send(self, *words):
        _send(self.stream, *words)

    def reply(self):
        """The next one; the pushes before it are counted."""
        while self.stream.peek(1)[:1] == b">":
            assert self.stream.readline() == b">2\r\n" and _receive(self.stream) == b"invalidate"
            names = self.stream.readline()  # "_": all keys
            for _ in range(int(names[1:]) if names[:1] == b"*" else 0):
                _receive(self.stream)
            self.pushes += 1
        return _receive(self.stream)

    def ask(self, *words):
        self.send(*words)
        return self.reply()


def sleeps(server):
    """It waits for requests. One that is stopped before that may still have a connection at the head of its queue."""
    return pathlib.Path(f"/proc/{server.process.pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0] == "S"


def race(server, voting, other, command, question=("HGET", RECORD, "field")):
    """Both requests wait when the server goes on: it executes them in one turn of its loop. Returns what the voting connection
    read, and the pushes before that answer."""
    server.ask("DEL", RECORD)
    server.ask("HSET", RECORD, "field", "old")
    voting.ask("PING")
    voting.pushes = 0
    until(lambda: sleeps(server), what="a server that waits")
    server.pause()
    _send(other, *command)
    voting.send(*question)
    server.resume()
    read = voting.reply()
    before = voting.pushes
    _receive(other)
    voting.ask("PING")
    assert voting.pushes == 1, "what is asked after the command has its answer behind the push"
    return read, before


@pytest.mark.parametrize("command", [("FLUSHALL",), ("FLUSHDB",), ("FLUSHALL", "ASYNC")], ids=" ".join)
@pytest.mark.parametrize("threads", ["1", "3"])
def test_a_flush_is_pushed_before_the_next_answer(command, threads):
    with started(("--io-threads", threads)) as (server,), contextlib.ExitStack() as stack:
        voting = VotingConnection(stack, server)
        other = stack.enter_context(socket.create_connection(("127.0.0.1", server.port))).makefile("rwb")
        seen = [race(server, voting, other, command) for _ in range(RACES)]
        assert {before for read, before in seen if read == GONE} <= {1}, seen
        assert threads != "1" or (GONE, 1) in seen, seen


@pytest.mark.parametrize("command, question, answer", [
    (("HSET", RECORD, "field", "new"), ("HGET", RECORD, "field"), b"new"),
    (("DEL", RECORD), ("HGET", RECORD, "field"), GONE),
    (("SET", RECORD, "text"), ("TYPE", RECORD), b"string")], ids=["HSET", "DEL", "SET"])
def test_a_change_of_one_key_is_pushed_behind_the_answers_of_the_turn(command, question, answer):
    """Nothing rests on it: a new record has other fences, so the vote itself fails; a record that is deleted alone takes neither
    locks nor fences with it, so the vote is as good as before."""
    with started(()) as (server,), contextlib.ExitStack() as stack:
        voting = VotingConnection(stack, server)
        other = stack.enter_context(socket.create_connection(("127.0.0.1", server.port))).makefile("rwb")
        seen = [race(server, voting, other, command, question) for _ in range(RACES)]
        assert (answer, 0) in seen, f"the servers push earlier now: docs/inside/guarded.md says otherwise: {seen}"


@pytest.mark.parametrize("load", ["disabled", "swapdb"])
def test_a_full_resynchronisation_is_pushed_before_older_data_are_seen(load):
    with started(("--repl-diskless-load", load), ("--repl-diskless-sync-delay", "0")) as (server, copy), contextlib.ExitStack() as stack:
        voting = VotingConnection(stack, server)
        for _ in range(3):
            server.ask("SET", "marker", "young")
            copy.ask("SET", "marker", "old")
            voting.ask("PING")
            voting.pushes = 0
            server.ask("REPLICAOF", "127.0.0.1", copy.port)
            until(lambda: voting.ask("GET", "marker") != b"young", 20, "the other data")
            assert voting.pushes == 1
            until(lambda: b"master_link_status:up" in server.ask("INFO", "replication"), 20, "the end of the resynchronisation")
            server.ask("REPLICAOF", "NO", "ONE")
