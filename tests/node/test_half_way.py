# SPDX-License-Identifier: BSD-2-Clause
"""A script that is refused has written nothing. Redis does not roll back: whatever may be refused comes before the first write.

Each script of src/node runs with each of its commands denied in turn, with each of its keys denied, with memory full, without
the replicas that the server asks for, and on a replica. Its commands come from its text: each must be reached by a scene."""
import contextlib
import os
import pathlib
import re
import socket
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "cli"))
from servers import ServerError, _receive, _send, server_project, server_version, started  # noqa: E402

# scripts/mutate-lua names a directory with one script.
TEXTS = pathlib.Path(os.environ.get("REDLOCK_SCRIPTS", ROOT / "src" / "node"))
SCRIPTS = {path.stem: re.sub(r"--[^\n]*\n", "", path.read_text()) for path in TEXTS.glob("*.lua")}
OURS, OTHER, MARKER = "a" * 40, "b" * 40, "redlock:shared"
A, B, RECORD, KEPT = "lock:a", "lock:b", "redlock:node", "redlock:fences:kept"
NONCE, NEXT = "000000000000000a", "000000000000000b"
FENCES, NEXT_FENCES, LIST = "redlock:fences:" + NONCE, "redlock:fences:" + NEXT, "redlock:shared:" + A
WAITING, WAITERS, OWNER = "redlock:waiting:" + A, "redlock:waiters:" + A, "redlock:setnx:" + A
DENIED = "ACL failure in script|The user executing the script can't "  # as src/net/codec/error_reply.c knows it
SOON, LATE = 20000, 600000  # milliseconds
LOW = [["ZADD", FENCES, 5, 7, 5, 9]]
HELD = [["SET", key, OURS, "PX", SOON] for key in (A, B)]
RECORDED = [["HSET", RECORD, "quorum", "1", "nonce", NONCE]]
SLOT = "lock:a:slot:"
TWO_SLOTS = OURS + "/2"
FIELDS = ["quorum", "1", "nonce", NEXT]


def list_of(now, *ends):
    """Readers with these ends, the first of which is ours; the key and the list end with the last."""
    last = max(ends)
    return [["SET", A, MARKER, "PX", last],
            *[["ZADD", LIST, now + end, OURS if i == 0 else f"{i:040d}"] for i, end in enumerate(ends)],
            ["PEXPIREAT", LIST, now + last]]


def queue_of(now, *waiters):
    """(name, came before, forgotten in): milliseconds."""
    return [command for name, age, left in waiters for command in
            (["ZADD", WAITING, (now - age) * 1000, name], ["ZADD", WAITERS, (now + left) * 1000, name])]


def scenes(now):
    """What is there before, the keys, the arguments, and patterns of the names that the script makes itself."""
    stamp = now // 1000
    queue = [["one", 9000, SOON], ["gone", 8000, -1000], ["two", 7000, SOON], ["three", 6000, SOON]]
    wait = lambda name, ms, passes: [name, ms, 0, 2, "redlock:wake:", A, passes]  # noqa: E731
    return {
        ("acquire_many", "free"): ([], [A, B], [OURS, LATE]),
        ("acquire_guarded", "free"): (LOW, [A, B, FENCES], [OURS, LATE, 10, 7, 9]),
        ("acquire_guarded", "stale"): (LOW, [A, B, FENCES], [OURS, LATE, 5, 7, 9]),
        ("extend", "ours"): (HELD, [A, B], [OURS, LATE]),
        ("extend_guarded", "raises"): (HELD + LOW, [A, B, FENCES], [OURS, LATE, 10, 7, 9]),
        ("extend_guarded", "as it is"): (HELD + LOW, [A, FENCES], [OURS, LATE, 5, 7]),
        ("extend_guarded", "only raises"): (HELD + LOW, [A, FENCES], [OURS, 1000, 10, 7]),
        ("raise", "ours"): (HELD + LOW, [A, B, FENCES], [OURS, 10, 7, 9]),
        ("confirm", "ours"): (HELD + LOW, [A, B, FENCES], [OURS, 5, 7, 9]),
        ("release", "ours"): (HELD, [A, B], [OURS]),
        ("record_write", "new"): ([], [RECORD, KEPT, NEXT_FENCES], ["", "7 100", 1, *FIELDS]),
        ("record_write", "moves"): (RECORDED + LOW, [RECORD, FENCES, NEXT_FENCES], [NONCE, "7 100", 1, *FIELDS]),
        ("record_write", "moves over"): (RECORDED + LOW + [["ZADD", KEPT, 3, 7]], [RECORD, FENCES, KEPT],
                                         [NONCE, "", 0, *FIELDS]),
        ("record_write", "stays"): (RECORDED + LOW, [RECORD, FENCES, FENCES], [NONCE, "", 0, *FIELDS]),
        ("record_write", "moves from another type"): (RECORDED + [["SET", FENCES, "x"]], [RECORD, FENCES, NEXT_FENCES],
                                                      [NONCE, "7 100", 1, *FIELDS]),
        ("record_write", "moves over another type"): (RECORDED + LOW + [["SET", KEPT, "x"]], [RECORD, FENCES, KEPT],
                                                      [NONCE, "", 0, *FIELDS]),
        ("record_write", "new over another type"): ([["RPUSH", KEPT, "x"]], [RECORD, KEPT, NEXT_FENCES], ["", "", 1, *FIELDS]),
        ("break", "held"): (HELD + LOW + RECORDED, [A, RECORD, FENCES], [OURS, 10, "0" * 15 + "1", 7, 9], [NEXT_FENCES]),
        ("break", "another's"): (HELD + LOW + RECORDED, [A, RECORD, FENCES], [OTHER, 10, "0" * 15 + "1", 7, 9], [NEXT_FENCES]),
        ("waiters", "some"): (queue_of(now, *queue), [WAITING, WAITERS], []),
        ("waiting", "first"): ([], [WAITING, WAITERS], wait("new", 9000, 0)),
        ("waiting", "again"): (queue_of(now, *queue), [WAITING, WAITERS], wait("two", 9000, 0)),
        ("waiting", "leaves"): (queue_of(now, *queue), [WAITING, WAITERS], wait("two", 0, 0)),
        ("waiting", "passes"): (queue_of(now, *queue), [WAITING, WAITERS], wait("two", 0, 1)),
        ("acquire_slot", "free"): ([["SET", SLOT + "1", OTHER, "PX", SOON]], [A], [TWO_SLOTS, LATE, 2, "1 2"], [SLOT + "*"]),
        ("acquire_slot", "full"): ([["SET", SLOT + "1", OTHER, "PX", SOON]], [A], [OURS + "/1", LATE, 1, "1"], [SLOT + "*"]),
        ("acquire_slot", "full with fences"): ([["SET", SLOT + "1", OTHER, "PX", SOON]] + LOW, [A, FENCES],
                                               [OURS + "/1", LATE, 1, "1", 10, 7, 9], [SLOT + "*"]),
        ("acquire_slot", "fence"): (LOW, [A, FENCES], [TWO_SLOTS, LATE, 2, "1 2", 10, 7, 9], [SLOT + "*"]),
        ("acquire_slot", "two of ours"): ([["SET", SLOT + "1", TWO_SLOTS, "PX", SOON], ["SET", SLOT + "2", TWO_SLOTS, "PX", SOON]]
                                          + LOW, [A, FENCES], [TWO_SLOTS, LATE, 2, "2 1", 10, 7, 9], [SLOT + "*"]),
        ("acquire_slot", "moves"): ([["SET", SLOT + "2", TWO_SLOTS, "PX", SOON]] + LOW, [A, FENCES],
                                    [TWO_SLOTS, LATE, 2, "1", 10, 7, 9], [SLOT + "*"]),
        ("acquire_slot", "moves past another type"): ([["SET", SLOT + "2", OURS + "/3", "PX", SOON], ["RPUSH", SLOT + "1", "x"]], [A],
                                                      [OURS + "/3", LATE, 3, "1 3"], [SLOT + "*"]),
        ("acquire_slot", "gives up"): ([["SET", SLOT + "1", OTHER, "PX", SOON], ["SET", SLOT + "2", TWO_SLOTS, "PX", SOON]], [A],
                                       [TWO_SLOTS, LATE, 2, "1"], [SLOT + "*"]),
        ("share", "first"): ([], [A, LIST], [MARKER, OURS, LATE]),
        ("share", "first after others"): ([["ZADD", LIST, now + SOON, OTHER]], [A, LIST], [MARKER, OURS, LATE]),
        ("share", "first over another type"): ([["SET", LIST, "x"]], [A, LIST], [MARKER, OURS, LATE]),
        ("share", "first with a fence"): (LOW, [A, LIST, FENCES], [MARKER, OURS, LATE, 10, 7]),
        ("share", "second"): (list_of(now, SOON)[:1] + [["ZADD", LIST, now + 2 * SOON, OTHER], ["ZADD", LIST, now - 1, "gone"]],
                              [A, LIST], [MARKER, OURS, LATE]),
        ("share", "again"): (list_of(now, SOON, SOON, -1000) + LOW, [A, LIST, FENCES], [MARKER, OURS, LATE, 10, 7]),
        ("share_extend", "listed"): (list_of(now, SOON, SOON, -1000), [A, LIST], [MARKER, OURS, LATE]),
        ("share_extend", "with a fence"): (list_of(now, SOON) + LOW, [A, LIST, FENCES], [MARKER, OURS, LATE, 10, 7]),
        ("share_extend", "shorter"): (list_of(now, LATE, -1000) + LOW, [A, LIST, FENCES], [MARKER, OURS, SOON, 10, 7]),
        ("share_extend", "as it is"): (list_of(now, LATE) + LOW, [A, LIST, FENCES], [MARKER, OURS, SOON, 5, 7]),
        ("share_extend", "was a writer"): (HELD, [A, LIST], [MARKER, OURS, LATE]),
        ("share_extend", "was a writer after readers"): (HELD + [["ZADD", LIST, now + LATE, OTHER, now + LATE, OURS]] + LOW,
                                                         [A, LIST, FENCES], [MARKER, OURS, LATE, 10, 7]),
        ("share_extend", "was a writer, another type"): (HELD + [["SET", LIST, "x"]], [A, LIST], [MARKER, OURS, LATE]),
        ("share_release", "last"): (list_of(now, SOON), [A, LIST], [MARKER, OURS]),
        ("share_release", "last of all in time"): (list_of(now, SOON, -1000), [A, LIST], [MARKER, OURS]),
        ("share_release", "one of two"): (list_of(now, LATE, SOON, -1000), [A, LIST], [MARKER, OURS]),
        ("share_release", "too late"): (list_of(now, -1000, SOON), [A, LIST], [MARKER, OURS]),
        ("share_release", "was a writer"): (HELD, [A, LIST], [MARKER, OURS]),
        ("readers", "two"): (list_of(now, SOON, LATE), [A, LIST], [MARKER, 10, 0, 0]),
        ("setnx_acquire", "free"): ([], [A, OWNER], [OURS, LATE, 1000000]),
        ("setnx_acquire", "after another"): ([["HMSET", OWNER, "value", 1, "token", OTHER], ["PEXPIRE", OWNER, SOON]], [A, OWNER],
                                             [OURS, LATE, 1000000]),
        ("setnx_acquire", "over"): ([["SET", A, stamp - 5]], [A, OWNER], [OURS, LATE, 1000000]),
        ("setnx_acquire", "over another's"): ([["SET", A, stamp - 5], ["HMSET", OWNER, "value", stamp - 5, "token", OTHER],
                                               ["PEXPIRE", OWNER, SOON]], [A, OWNER], [OURS, LATE, 1000000]),
        ("setnx_acquire", "over strange notes"): ([["SET", A, stamp - 5], ["HSET", OWNER, "x", "y"]], [A, OWNER],
                                                  [OURS, LATE, 1000000]),
        ("setnx_acquire", "another type"): ([["SET", OWNER, "x"]], [A, OWNER], [OURS, LATE, 1000000]),
        ("setnx_extend", "ours"): ([["SET", A, stamp + 20], ["HMSET", OWNER, "value", stamp + 20, "token", OURS],
                                    ["PEXPIRE", OWNER, SOON]], [A, OWNER], [OURS, LATE, 1000000]),
        ("setnx_release", "ours"): ([["SET", A, stamp + 20], ["HMSET", OWNER, "value", stamp + 20, "token", OURS]], [A, OWNER],
                                    [OURS]),
    }


class Connection:
    def __init__(self, server):
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=10)
        self.stream = self.socket.makefile("rwb")

    def ask(self, *words):
        _send(self.stream, *words)
        return _receive(self.stream)

    def all(self, commands):
        for words in commands:
            _send(self.stream, *words)
        return [_receive(self.stream) for _ in commands]

    def close(self):
        self.socket.close()


@pytest.fixture(scope="module")
def node():
    """As its owner, and as a user whose rights change."""
    with contextlib.ExitStack() as stack:
        try:
            (server,) = stack.enter_context(started(()))
        except AssertionError as error:  # not a failure of a test: scripts/mutate-lua tells them apart
            pytest.exit(f"no server: {error}", returncode=3)
        owner, user = (stack.enter_context(contextlib.closing(Connection(server))) for _ in range(2))
        owner.ask("ACL", "SETUSER", "user", "on", ">geheim", "allkeys", "allchannels", "+@all")
        user.ask("AUTH", "user", "geheim")
        yield owner, user


ALL_KEYS = """
local all = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
    all[#all + 1] = key
    all[#all + 1] = redis.call('DUMP', key)
    all[#all + 1] = redis.call('PTTL', key)
end
return all"""


def snapshot(owner):
    """Every key with its value, and its end to ten seconds: no script moves an end by less."""
    flat = owner.ask("EVAL", ALL_KEYS, 0)
    return {flat[i]: (flat[i + 1], -1 if flat[i + 2] < 0 else round((flat[i + 2] + 2500) / 10000)) for i in range(0, len(flat), 3)}


CALL = re.compile(r"redis\.p?call\('(\w+)'")


def calls_of(script):
    return sorted(set(CALL.findall(SCRIPTS[script])))


def run(connection, script, scene):
    _, keys, arguments = scene[:3]
    try:
        return connection.ask("EVAL", SCRIPTS[script], len(keys), *keys, *arguments), None
    except ServerError as error:
        return None, str(error)


def now_of(owner):
    seconds, us = owner.ask("TIME")
    return int(seconds) * 1000 + int(us) // 1000


class Refused:
    """One scene: what it answers to a user who may do all, and what it does when something is denied."""

    def __init__(self, node, name):
        self.owner, self.user = node
        self.script, self.name = name[0], name
        self.allow()
        self.begin()
        self.answer, error = run(self.user, self.script, self.scene)
        assert error is None, (name, error)

    def allow(self, *rules):
        self.owner.ask("ACL", "SETUSER", "user", "resetkeys", "~*", "allchannels", "+@all")
        if rules:
            self.owner.ask("ACL", "SETUSER", "user", *rules)

    def begin(self):
        self.owner.ask("FLUSHALL")
        self.scene = scenes(now_of(self.owner))[self.name]
        self.owner.all(self.scene[0])

    def without(self, what, begin, end):
        """The error: it was refused, and nothing was written. None: it answers as it always does."""
        self.begin()
        begin()
        before = snapshot(self.owner)
        answer, error = run(self.user, self.script, self.scene)
        after = snapshot(self.owner)
        end()
        if error is not None:
            assert after == before, (self.name, what, error)
        else:
            assert answer == self.answer or isinstance(answer, list), (self.name, what, answer)
        return error


NAMES = list(scenes(1000000000000))


@pytest.mark.parametrize("script", sorted(SCRIPTS))
def test_a_command_is_denied(node, script):
    needed = set()
    for name in (name for name in NAMES if name[0] == script):
        scene = Refused(node, name)
        for command in calls_of(script):
            if error := scene.without(command, lambda: scene.allow(f"-{command.lower()}"), scene.allow):
                assert re.search(DENIED, error), (name, command, error)
                needed.add(command)
    # A message that may not be sent is no failure.
    assert needed == set(calls_of(script)) - {"PUBLISH"}, "no scene reaches this command"


def rules_for(patterns, denied, rest):
    """All but one; `rest`: what of that one may still be done."""
    return ["resetkeys", *["~" + pattern for pattern in patterns if pattern != denied], *([rest + denied] if rest else [])]


@pytest.mark.parametrize("script", sorted(SCRIPTS))
def test_a_key_is_denied(node, script):
    # The server of 6.2 does not tell reads from writes.
    rests = [""] if server_project() == "Redis" and server_version() < (7, 0) else ["", "%R~", "%W~"]
    for name in (name for name in NAMES if name[0] == script):
        scene = Refused(node, name)
        patterns = [*scene.scene[1], *(scene.scene[3] if len(scene.scene) > 3 else [])]
        for denied in patterns:
            for rest in rests:
                rules = rules_for(patterns, denied, rest)
                refused = scene.without((denied, rest), lambda: scene.allow(*rules), scene.allow)
                assert refused or denied not in scene.scene[1], (name, denied, "a key that is named is checked")
        if script == "acquire_slot":  # one slot of all
            for slot in "123":
                rules = ["resetkeys", *["~" + key for key in scene.scene[1]],
                         *[f"~{SLOT}[{digits}]*" for digits in ["4-9", *set("123") - {slot}]]]
                scene.without(slot, lambda: scene.allow(*rules), scene.allow)


@pytest.mark.parametrize("script", sorted(SCRIPTS))
@pytest.mark.parametrize("why", ["memory", "replicas", "replica"])
def test_the_server_takes_no_writes(node, script, why):
    owner, _ = node
    begin, end = {
        "memory": ([["CONFIG", "SET", "maxmemory", 1]], [["CONFIG", "SET", "maxmemory", 0]]),
        "replicas": ([["CONFIG", "SET", "min-replicas-to-write", 1]], [["CONFIG", "SET", "min-replicas-to-write", 0]]),
        "replica": ([["REPLICAOF", "127.0.0.1", 1]], [["REPLICAOF", "NO", "ONE"]]),
    }[why]
    for name in (name for name in NAMES if name[0] == script):
        scene = Refused(node, name)
        scene.without(why, lambda: owner.all(begin), lambda: owner.all(end))


ADD_NOTHING = [("record_write", "moves"), ("extend_guarded", "as it is"), ("share_extend", "as it is"),
               ("acquire_slot", "full with fences")]


@pytest.mark.parametrize("name", [name for name in ADD_NOTHING if name[0] in SCRIPTS], ids="-".join)
def test_full_memory_does_not_matter(node, name):
    """A new record replaces one; without it, a change of the quorum cannot be finished. An extension that raises nothing adds
    nothing, and neither does a request for slots that are all held."""
    owner, _ = node
    scene = Refused(node, name)
    assert not scene.without("memory", lambda: owner.ask("CONFIG", "SET", "maxmemory", 1), lambda: owner.ask("CONFIG", "SET", "maxmemory", 0))


@pytest.mark.skipif("share" not in SCRIPTS, reason="another script is changed")
def test_a_reader_that_comes_can_leave(node):
    _, user = node
    leaves = (ROOT / "src" / "node" / "share_release.lua").read_text()
    for command in set(CALL.findall(leaves)):
        reader = Refused(node, ("share", "first"))
        reader.begin()
        reader.allow(f"-{command.lower()}")
        _, error = run(user, "share", reader.scene)
        assert error or user.ask("EVAL", leaves, 2, A, LIST, MARKER, OURS) == 1, command
        reader.allow()


@pytest.mark.parametrize("script", sorted(SCRIPTS))
def test_without_keys_it_is_only_loaded(node, script):
    owner, _ = node
    owner.ask("FLUSHALL")
    owner.ask("EVAL", SCRIPTS[script], 0)
    assert owner.ask("DBSIZE") == 0
