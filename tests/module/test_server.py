# SPDX-License-Identifier: BSD-2-Clause
"""The module as a guest: loading, unloading, roles, restarts, access rules, tracking, memory."""
import os
import random
import re
import signal
import time

import pytest

import native
from conftest import everything
from native import fenced

NONCE = "000000000000000b"


def incarnation(node):
    return node.info()["redlock_incarnation"]


# ---- loading -----------------------------------------------------------------------------------

def test_does_not_load_in_cluster_mode():
    assert "cluster mode" in native.start_fails("--cluster-enabled", "yes")


def test_does_not_load_on_a_replica():
    assert "is a replica" in native.start_fails("--replicaof", "127.0.0.1", "1")
    with native.server(*native.MAY_LOAD, "--logfile", "log", environ=native.SANITIZED) as stock:
        stock.ask("REPLICAOF", "127.0.0.1", 1)
        with pytest.raises(native.ServerError):
            stock.ask("MODULE", "LOAD", native.MODULE)
        assert "this server is a replica" in native.log_of(stock)


def test_does_not_load_while_clients_may_be_connected():
    """They would go on with plain keys and the stock node's record, which no later init reaches: two holders."""
    with native.server(*native.MAY_LOAD, "--logfile", "log", environ=native.SANITIZED) as stock:
        for options in [], ["mirror", "yes"], ["mirror", "no"]:
            with pytest.raises(native.ServerError):
                stock.ask("MODULE", "LOAD", native.MODULE, *options)
            assert "load it at the start of the server" in native.log_of(stock)
            with pytest.raises(native.ServerError, match="unknown command"):
                stock.ask("REDLOCK.STATE")


def test_unloads_when_it_holds_nothing():
    with native.node() as node:
        assert node("MODULE", "UNLOAD", "redlock") == b"OK"
        assert "unknown command" in node.error("REDLOCK.STATE")
        assert "load" in node.error("MODULE", "LOAD", native.MODULE)


@pytest.mark.parametrize("options", ["mirror", "mirror maybe", "memory 5", "memory 1023kb", "memory x", "memory 1tb", "memory",
                                     "memory 99999999999999999999", "db -1", "db x", "db 16", "nonsense 1", "mirror yes extra"])
def test_options_that_are_none(options):
    text = native.start_fails(module=f"{native.MODULE} {options}")
    assert "cannot use the option" in text or "there is no database 16" in text


def test_options():
    with native.node("memory", "64mb", "mirror", "NO", "db", "3") as node:
        info = node.info()
        assert info["redlock_locks_bytes_max"] == str(64 << 20) and info["redlock_mirror"] == "0" and info["redlock_database"] == "3"
    with native.node() as node:
        assert node.info()["redlock_locks_bytes_max"] == str(256 << 20) and node.info()["redlock_mirror"] == "1"


def test_unloading_is_refused_while_it_holds_something():
    with native.node() as node:
        assert node.acquire("a", ttl=500) == 1
        assert "nload" in node.error("MODULE", "UNLOAD", "redlock")
        assert re.search("holds 1 locks and no record.*Wait until they have ended", node.log)
        assert node.acquire("a")[0] == 0
        time.sleep(0.6)
        assert node("REDLOCK.RECORDWRITE", "", "", NONCE, "", 1, "nonce", NONCE) == 1
        node("FLUSHALL")
        assert "nload" in node.error("MODULE", "UNLOAD", "redlock")
        assert re.search("holds 0 locks and a record.*restart the server without loadmodule", node.log)
        assert node("REDLOCK.RECORD")


def test_a_server_that_refuses_every_write_refuses_extensions_and_releases():
    """As a stock one. A lack of memory does not stop them."""
    with native.node() as node:
        assert node.acquire("a") == node.acquire("b") == 1
        node("CONFIG", "SET", "min-replicas-to-write", 1)
        for words in (("EXTEND", 1, "a", "t", 1000), ("RELEASE", 1, "a", "t"), ("UNLOCK", "a", "t")):
            assert node.error("REDLOCK." + words[0], *words[1:]).startswith("NOREPLICAS"), words
        node("CONFIG", "SET", "min-replicas-to-write", 0)
        node("CONFIG", "SET", "maxmemory", 1)
        assert node.error("REDLOCK.LOCK", "c", "t", 1000).startswith("OOM")
        assert node.extend("a") == node.release("a") == 1


# ---- roles and restarts ------------------------------------------------------------------------

def test_a_replica_does_not_vote_and_has_its_locks_when_it_is_a_master_again(either):
    node = either
    assert node("REDLOCK.RECORDWRITE", "", "", NONCE, "", 1, "nonce", NONCE) == 1
    assert node.acquire("a", ttl=60000, fence=(NONCE, 5, 0)) == 1 and node.acquire("b", ttl=300) == 1
    before = incarnation(node)
    with native.server() as master:
        master.ask("SET", "theirs", "x")
        node("REPLICAOF", "127.0.0.1", master.port)
        for read_only in ("yes", "no"):
            node("CONFIG", "SET", "replica-read-only", read_only)
            for words in (("ACQUIRE", 1, "c", "t", 1000), ("EXTEND", 1, "a", "t", 1000), ("RELEASE", 1, "a", "t"),
                          ("RAISE", 1, "a", "t", f"FENCE={NONCE}:9:0"), ("CONFIRM", 1, "a", "t", f"FENCE={NONCE}:5:0"),
                          ("BREAK", "a", "t", f"FENCE={NONCE}:9:0"), ("LOCK", "c", "t", 1000), ("UNLOCK", "a", "t"),
                          ("RECORDWRITE", NONCE, NONCE, NONCE, "", 0, "nonce", NONCE)):
                assert node.error("REDLOCK." + words[0], *words[1:]).startswith("READONLY"), words
        assert node("REDLOCK.STATE")[1] == b"replica"
        native.until(lambda: node("EXISTS", "theirs"))
        time.sleep(0.3)
        assert node("REDLOCK.PTTL", "b") == -2
        node("REPLICAOF", "NO", "ONE")
    assert incarnation(node) == before
    assert node.acquire("a", token="other")[3] == b"t", "a full resynchronisation is nothing to the table"
    assert node("REDLOCK.CONFIRM", 1, "a", "t", fenced(NONCE, 5, 0)) == 1
    assert node.extend("a") == 1 and node.release("a") == 1


def test_a_restart_is_another_incarnation_and_holds_nothing():
    with native.node(arguments=("--save", "3600", "1")) as node:
        first = incarnation(node)
        assert node("REDLOCK.RECORDWRITE", "", "", NONCE, "", 1, "nonce", NONCE) == 1
        assert node.acquire("a", ttl=60000) == 1
        node("SAVE")
        node.process.kill()
        node.process.wait()
        node._start()
        assert node._answers()
        node.connection = node.connect()
        assert incarnation(node) != first and node("REDLOCK.RECORD") == []
        assert node.info()["redlock_locks"] == "0"
        # What the snapshot brought back still refuses rivals, and its holder may go on with it.
        assert node.acquire("a", token="other")[3] == b"t"
        assert node.extend("a") == 1 and node.info()["redlock_locks"] == "1"
        assert node.release("a") == 1 and node("EXISTS", "a") == 0


def test_a_reload_of_the_data_is_nothing_to_the_table(either):
    assert either.acquire("a", ttl=60000) == 1
    either("DEBUG", "RELOAD")
    assert either.acquire("a", token="other")[3] == b"t" and either.release("a") == 1
    assert either("EXISTS", "a") == 0


def load_of(node, draw):
    """Requests of every kind; nobody waits for the answers."""
    send = node.connection.send
    for i in range(draw.randrange(400)):
        key, token, ttl, fence = f"k{i}", f"t{draw.randrange(3)}", draw.randrange(1, 500), draw.randrange(1, 1 << 40)
        send(*draw.choice([("REDLOCK.ACQUIRE", 1, key, token, ttl), ("REDLOCK.ACQUIRE", 2, key, "k0", token, ttl, fenced(NONCE, fence, 1, 2)),
                           ("REDLOCK.LOCK", key, token, ttl), ("REDLOCK.LOCK", key, token, f"{ttl}:{NONCE}:{fence}:{i}"),
                           ("REDLOCK.EXTEND", 1, key, token, ttl), ("REDLOCK.RELEASE", 1, key, token), ("REDLOCK.UNLOCK", f"k{draw.randrange(i + 1)}", token),
                           ("REDLOCK.SHARE", f"k{draw.randrange(i + 1)}", token, ttl), ("REDLOCK.SHAREEXTEND", key, token, f"{ttl}:{NONCE}:{fence}:{i}"),
                           ("REDLOCK.UNSHARE", f"k{draw.randrange(i + 1)}", token), ("REDLOCK.SLOT", f"s{i % 9}", f"{i:040x}/3", 3, "2 3 1", ttl),
                           ("REDLOCK.WAIT", key, token, 0, 100000, 100000), ("REDLOCK.BREAK", key, token, fenced(NONCE, fence, i)),
                           ("SET", key, token, "NX", "PX", ttl), ("DEL", key)]))
    send(*draw.choice([("PING",), ("BGSAVE",), ("BGREWRITEAOF",), ("FLUSHALL",), ("REDLOCK.RECORDWRITE", "", "", NONCE, "", 1, "nonce", NONCE)]))
    node.connection.stream.flush()


def test_killed_under_load_it_starts_again():
    """REDLOCK_KILLS=10000 for a long run."""
    kills = int(os.environ.get("REDLOCK_KILLS", "16"))
    draw = random.Random(kills)
    held = 0
    for begun in range(0, kills, 8):
        with native.node("mirror", draw.choice(["yes", "no"]), arguments=("--appendonly", draw.choice(["yes", "no"]))) as node:
            for _ in range(min(8, kills - begun)):
                load_of(node, draw)
                time.sleep(draw.random() * 0.02)
                node.connection.close()
                node.connection = node.connect()
                info = node.info()
                held += int(info["redlock_locks"])
                load_of(node, draw)
                time.sleep(draw.random() * 0.01)
                node.process.kill()
                node.process.wait()
                node._start()
                assert node._answers() and node.process.poll() is None, node.log[-2000:]
                node.connection.close()
                node.connection = node.connect()
                native.until(lambda: b"\nloading:0" in node("INFO", "persistence"))
                assert incarnation(node) != info["redlock_incarnation"] and node.info()["redlock_locks"] == "0" and node("REDLOCK.RECORD") == []
            assert "crash" not in node.log.lower() and "assert" not in node.log.lower(), node.log[-4000:]
    assert held > 0, "no lock was held when it was killed"


def test_a_snapshot_is_taken_while_locks_come_and_go(either):
    for i in range(200):
        assert either.acquire(f"k{i}", ttl=50 + i) == 1
    either("BGSAVE")
    native.until(lambda: b"rdb_bgsave_in_progress:0" in either("INFO", "persistence"))
    assert b"rdb_last_bgsave_status:ok" in either("INFO", "persistence")


# ---- access and tracking -----------------------------------------------------------------------

def test_access_rules_about_keys(either):
    either("ACL", "SETUSER", "u", "on", ">p", "~job:*", "+@all")
    user = either.connect()
    user.ask("AUTH", "u", "p")
    assert user.ask("REDLOCK.ACQUIRE", 2, "job:1", "job:2", "t", 30000) == 1
    for words in (("ACQUIRE", 2, "job:3", "other", "t", 1000), ("EXTEND", 2, "job:1", "other", "t", 1000), ("RELEASE", 1, "other", "t"),
                  ("RAISE", 1, "other", "t", f"FENCE={NONCE}:1:0"), ("CONFIRM", 1, "other", "t", f"FENCE={NONCE}:1:0"), ("PTTL", "other"),
                  ("BREAK", "other", "t", f"FENCE={NONCE}:1:0"), ("LOCK", "other", "job:1", 1000), ("UNLOCK", "other", "job:1"),
                  ("GET", "other", 1)):
        assert user.error("REDLOCK." + words[0], *words[1:]).startswith("NOPERM"), words
    assert user.ask("REDLOCK.EXTEND", 1, "job:1", "t", 1000) == 1
    assert everything(either) == {b"job:1", b"job:2"}
    either("ACL", "SETUSER", "u", "-redlock.acquire")
    assert user.error("REDLOCK.ACQUIRE", 1, "job:9", "t", 1000).startswith("NOPERM")


@pytest.mark.skipif(native.VERSION < (7, 0), reason="read and write permissions are of 7.0")
def test_access_rules_about_reading_and_writing(either):
    either("ACL", "SETUSER", "u", "on", ">p", "%R~job:*", "+@all")
    user = either.connect()
    user.ask("AUTH", "u", "p")
    assert user.ask("REDLOCK.PTTL", "job:1") == -2
    for words in (("ACQUIRE", 1, "job:1", "t", 1000), ("EXTEND", 1, "job:1", "t", 1000), ("RELEASE", 1, "job:1", "t"),
                  ("LOCK", "job:1", "t", 1000), ("UNLOCK", "job:1", "t")):
        assert user.error("REDLOCK." + words[0], *words[1:]).startswith("NOPERM"), words


def test_a_category_of_its_own(node):
    if b"redlock" not in node("ACL", "CAT"):
        pytest.skip("this server lets modules have no category")
    node("ACL", "SETUSER", "u", "on", ">p", "~*", "-@all", "+@redlock")
    user = node.connect()
    user.ask("AUTH", "u", "p")
    assert user.ask("REDLOCK.ACQUIRE", 1, "a", "t", 1000) == 1 and user.ask("REDLOCK.STATE")[1] == b"master"
    assert user.error("GET", "a").startswith("NOPERM")


def pushes_after(node, watcher, *words):
    watcher.ask("PING")
    watcher.pushes.clear()
    reply = node(*words)
    time.sleep(0.02)
    watcher.ask("PING")
    return reply, [key for push in watcher.pushes for key in push[1]]


def test_changes_reach_tracking_clients(either):
    broadcast, default = either.connect(resp3=True), either.connect(resp3=True)
    broadcast.ask("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "a")
    default.ask("CLIENT", "TRACKING", "ON")
    for words, wanted in ((("REDLOCK.ACQUIRE", 1, "a", "t", 30000), [b"a"]), (("REDLOCK.ACQUIRE", 1, "a", "x", 30000), []),
                          (("REDLOCK.EXTEND", 1, "a", "t", 40000), [b"a"]), (("REDLOCK.RELEASE", 1, "a", "x"), []),
                          (("REDLOCK.RELEASE", 1, "a", "t"), [b"a"])):
        assert default.ask("REDLOCK.PTTL", "a") is not None
        assert pushes_after(either, broadcast, *words)[1] == wanted, words
        default.ask("PING")
        assert [key for push in default.pushes for key in push[1]] == wanted, words
        default.pushes.clear()
    assert default.ask("REDLOCK.GET", "a", 9) == b""
    assert pushes_after(either, default, "REDLOCK.ACQUIRE", 1, "a", "t", 60)[1] == [b"a"]
    assert default.ask("REDLOCK.GET", "a", 9) == b"t"
    time.sleep(0.2)
    default.ask("PING")
    assert default.pushes[-1] == [b"invalidate", [b"a"]], "the end of a lease is a change too"


def test_watch_sees_changes(either):
    watching = either.connect()
    watching.ask("WATCH", "a")
    assert either.acquire("a") == 1
    watching.ask("MULTI"), watching.ask("PING")
    assert watching.ask("EXEC") is None


# ---- memory ------------------------------------------------------------------------------------

@pytest.mark.parametrize("mirror", ["yes", "no"])
def test_a_full_table_refuses_and_goes_on(mirror):
    with native.node("memory", "1mb", "mirror", mirror) as node:
        held = 0
        while True:
            try:
                assert node.acquire(f"key:{held}") == 1
            except native.ServerError as error:
                assert str(error).startswith("OOM ")
                break
            held += 1
            assert held < 20000
        assert held > 2000 and int(node.info()["redlock_locks_bytes"]) <= 1 << 20
        assert node("EXISTS", f"key:{held}") == 0, "the refused one left no key"
        assert node.extend("key:0") == 1 and node.acquire("key:0")[0] == 0
        assert node.error("REDLOCK.ACQUIRE", 2, "x", "y", "t", 1000).startswith("OOM ")
        assert node.release("key:0", "key:1", "key:2") == 1
        assert node.acquire("again") == 1
        assert int(node.info()["redlock_refused_no_memory"]) == 2


def test_a_server_out_of_memory_refuses_locks_but_not_their_ends(either):
    assert either.acquire("a") == 1
    either("CONFIG", "SET", "maxmemory", 1)
    assert either.error("REDLOCK.ACQUIRE", 1, "b", "t", 1000).startswith("OOM ")
    assert either.extend("a") == 1 and either.release("a") == 1
    either("CONFIG", "SET", "maxmemory", 0)
    assert either.acquire("a") == 1


def test_the_server_counts_the_memory():
    with native.node("mirror", "no") as node:
        used = lambda: int(re.search(rb"used_memory:(\d+)", node("INFO", "memory")).group(1))
        before = used()
        for i in range(0, 20000, 200):
            for k in range(i, i + 200):
                node.connection.send("REDLOCK.ACQUIRE", 1, f"k{k}", "t" * 40, 60000)
            assert [node.connection.receive() for _ in range(200)] == [1] * 200
        grown, said = used() - before, int(node.info()["redlock_locks_bytes"])
        assert grown > 20000 * 60 and 0.7 < said / grown < 1.5, (grown, said)


def test_it_says_what_it_is(either):
    modules = either("MODULE", "LIST")
    assert b"redlock" in str(modules).encode()
    assert "incarnation " + incarnation(either) in either.log
    os.kill(either.process.pid, signal.SIGTERM)
    assert either.process.wait(10) == 0
