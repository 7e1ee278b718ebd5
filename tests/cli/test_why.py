# SPDX-License-Identifier: BSD-2-Clause
"""redlock_why(), called as another language would, next to the command line: one failure, the same words."""
import contextlib
import ctypes
import os
import time

import pytest

from conftest import Redlock
from fake_node import FakeNode, bulk, old_redis

TOKEN = "0123456789abcdef0123456789abcdef01234567"
OK, NO_QUORUM, LOST = 0, -2, -4
NODES_MAX = 15


class Node(ctypes.Structure):
    _fields_ = [("verdict", ctypes.c_int), ("obstacle", ctypes.c_int), ("cure", ctypes.c_char_p), ("text", ctypes.c_char * 240)]


class Why(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("result", ctypes.c_int), ("in_vain", ctypes.c_int), ("nodes", ctypes.c_size_t),
                ("votes_needed", ctypes.c_size_t), ("votes", ctypes.c_size_t), ("silent", ctypes.c_size_t),
                ("read", ctypes.c_size_t), ("named", ctypes.c_size_t), ("head_bytes", ctypes.c_size_t),
                ("sentence", ctypes.c_char * 2048), ("cure", ctypes.c_char * 1024), ("node", Node * NODES_MAX)]


class Library:
    """A client of libredlock.so, with the defaults, and a lock of it."""

    def __init__(self, nodes, resource):
        self.calls = ctypes.CDLL(os.path.join(os.path.dirname(os.environ["REDLOCK_BIN"]), "../src/client/libredlock.so"))
        self.client, self.lock = ctypes.c_void_p(), ctypes.c_void_p()
        assert self.calls.redlock_client_open(nodes.encode(), None, ctypes.byref(self.client), None) == OK
        assert self.calls.redlock_lock_new(self.client, resource.encode(), ctypes.c_size_t(len(resource)), None,
                                           ctypes.byref(self.lock), None) == OK

    def close(self):
        self.calls.redlock_lock_free(self.lock)
        self.calls.redlock_client_free(self.client)

    def acquire(self):
        return self.calls.redlock_acquire(self.lock, ctypes.c_int64(0))

    def release(self, token):
        assert self.calls.redlock_lock_adopt(self.lock, token.encode(), ctypes.c_size_t(len(token))) == OK
        self.calls.redlock_client_wait_ready(self.client, ctypes.c_int64(2000))
        return self.calls.redlock_release(self.lock)

    def why(self, result):
        why = Why(size=ctypes.sizeof(Why))
        assert self.calls.redlock_why(self.client, self.lock, result, None, ctypes.byref(why)) == OK
        return why


@pytest.fixture
def library():
    with contextlib.ExitStack() as opened:
        yield lambda nodes: opened.enter_context(contextlib.closing(Library(nodes, "x")))


def printed(done):
    """What the command line prints of "x", as one sentence."""
    head, *rest = done.stderr.decode().splitlines()
    assert head.startswith("redlock: x: "), done.stderr
    nodes = [line.removeprefix("redlock:   ") for line in rest if line.startswith("redlock:   ")]
    return head.removeprefix("redlock: x: ") + (f" ({'; '.join(nodes)})" if nodes else "")


def same(nodes, library, command=("acquire", "x"), failed=NO_QUORUM):
    """A majority decides, and the connection to another node may not be there yet: so there are several tries."""
    end = time.monotonic() + 20
    while True:
        done = Redlock(nodes)(*command)
        here = library(nodes)
        assert (here.acquire() if command[0] == "acquire" else here.release(TOKEN)) == failed
        why = here.why(failed)
        if why.sentence.decode() == printed(done) or time.monotonic() > end:
            break
    assert why.sentence.decode() == printed(done)
    return why, done


@pytest.mark.parametrize("how", ["killed", "paused"])
def test_nodes_that_do_not_answer(three, library, how):
    for server in three.servers[1:]:
        server.close() if how == "killed" else server.pause()
    why, _ = same(three.nodes, library)
    assert (why.nodes, why.votes_needed, why.votes, why.silent, why.named, why.in_vain) == (3, 2, 1, 2, 2, 0)
    place = three[2].url.removeprefix("redis://")
    assert f"{place}: start it, or correct its URL or the network" in why.cure.decode()


def test_a_wrong_password(three, library):
    nodes = three.nodes.replace("redis://", "redis://default:secret@")
    for server in three.servers:
        server.ask("CONFIG", "SET", "requirepass", "other")
    why, done = same(nodes, library)
    assert why.in_vain == 2 and b"waiting is no cure" in done.stderr
    assert b"correct the password" in why.cure and b"secret" not in why.sentence + why.cure


def test_a_lock_that_another_client_has(three, library):
    for server in three.servers[:2]:
        server.ask("SET", "x", "somebody", "PX", "20000")
    three[2].close()  # so that a majority is all that answer
    why, _ = same(three.nodes, library, ("release", "--token", TOKEN, "x"), LOST)
    assert b" have another token" in why.sentence and why.head_bytes == len(why.sentence) and why.sentence.startswith(b"lost: ")


@pytest.mark.parametrize("error, obstacle", [("OOM command not allowed when used memory > 'maxmemory'.", 2),
                                             ("MISCONF Redis is configured to save RDB snapshots.", 2),
                                             ("BUSY Redis is busy running a script.", 2),
                                             ("WHAT is that", 2)])
def test_errors_of_a_server(library, error, obstacle):
    known = old_redis("6.2.0", None)

    def refuses(run_id):
        def answer(words):
            if words[0].upper() == "INFO":
                return bulk(f"redis_version:6.2.0\r\nredis_mode:standalone\r\nrun_id:{run_id * 40}\r\n")
            return f"-{error}\r\n".encode() if words[0].upper() == "SET" else known(words)
        return answer

    nodes = ",".join(FakeNode(refuses(digit)).url for digit in "abc")
    why, _ = same(nodes, library)
    assert [node.obstacle for node in why.node[:3]] == [obstacle] * 3
    assert why.sentence.startswith(b"no quorum: 0 of 3 nodes can vote, 2 needed (")


def test_guarded_nodes_that_lost_their_data(three, library):
    assert Redlock(three.nodes)("quorum", "init", "--yes", "--never-used", "--ttl-max", "9000s").returncode == 0
    for server in three.servers[1:]:
        server.ask("FLUSHALL")
    why, _ = same(three.nodes, library)
    assert why.sentence.count(b"it lost its lock data") == 2 and (why.votes, why.silent, why.read) == (0, 0, 3)
