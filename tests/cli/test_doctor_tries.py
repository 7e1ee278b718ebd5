# SPDX-License-Identifier: BSD-2-Clause
"""doctor has tried what it calls fit: a lock of its own on each node, and more than one connection to each address."""
import contextlib
import json
import pathlib
import socket
import subprocess
import sys
import threading
import time

import pytest

from conftest import Redlock
from fake_node import RUN_ID, FakeNode, bulk
from servers import SAFE, server_project, server_version, started, until

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "support"))
from balancer import Balancer  # noqa: E402

SECRET, LOST = "geheim", 80
WITH_SCRIPTS = ("~*", "&*", "-@all", "+set", "+get", "+del", "+exists", "+pttl", "+pexpire", "+eval",
                "+evalsha", "+info", "+hget")
WITH_TRANSACTIONS = ("+watch", "+unwatch", "+multi", "+exec", "+getrange")


def examine(nodes, *options, **environ):
    """Patient: a busy machine answers late, and that is SLOW's affair."""
    done = Redlock(nodes, environ)("doctor", "--json", "--samples", "2", "--node-timeout", "2s", *options)
    assert done.stderr == b"", done
    return done.returncode, json.loads(done.stdout)


def named(report, name):
    return [finding for finding in report["findings"] if finding["name"] == name]


def user(server, *rules):
    """A URL with such a user."""
    if server_version() < (7, 0):
        rules = [rule.removeprefix("%R") for rule in rules]
    server.ask("ACL", "SETUSER", "tried", "reset", "on", f">{SECRET}", *rules)
    return server.url.replace("//", f"//tried:{SECRET}@")


def own_keys(server):
    return server.ask("KEYS", "*redlock:doctor:*")


@pytest.fixture
def safe_server():
    with started(SAFE) as (server,):
        yield server


# ---- permissions ----

def test_a_user_who_may_take_and_not_renew(safe_server):
    """Without scripts, transactions do what they do: this user may run neither."""
    url = user(safe_server, "~*", "&*", "-@all", "+set", "+get", "+del", "+pttl", "+pexpire", "+exists", "+hget", "+info")
    done = Redlock(url)("run", "-t", "1s", "job", "sleep", "5", timeout=20)
    assert done.returncode == LOST, done
    status, report = examine(url)
    unfit, = named(report, "UNFIT")
    assert (status, report["tried"]) == (1, True)
    assert "could not be extended" in unfit["why"] and "no permission (ACL) for +watch." in unfit["why"], unfit
    assert "+eval and +evalsha" in unfit["cure"]


@pytest.mark.parametrize("command", [rule[1:] for rule in WITH_TRANSACTIONS])
def test_each_command_of_a_transaction_is_named(safe_server, command):
    url = user(safe_server, *WITH_SCRIPTS, *WITH_TRANSACTIONS, "-eval", "-evalsha")
    assert examine(url)[0] == 0
    url = user(safe_server, *WITH_SCRIPTS, *WITH_TRANSACTIONS, "-eval", "-evalsha", f"-{command}")
    status, report = examine(url)
    if command == "unwatch":  # a transaction that changes nothing
        assert status == 0 or f"+{command}" in json.dumps(report)
        return
    assert status == 1 and f"no permission (ACL) for +{command}." in json.dumps(named(report, "UNFIT")), report


@pytest.mark.parametrize("command", ["get", "del", "pttl", "pexpire"])
def test_each_command_inside_a_script_is_named(safe_server, command):
    status, report = examine(user(safe_server, *WITH_SCRIPTS, f"-{command}"))
    assert status == 1 and f"+{command}." in json.dumps(named(report, "UNFIT")), report


def test_a_command_that_is_renamed_away_is_no_permission():
    with started((*SAFE, "--rename-command", "EVAL", "", "--rename-command", "EVALSHA", "", "--rename-command", "WATCH", "")) as (server,):
        done = Redlock(server.url)("run", "-t", "1s", "job", "sleep", "5", timeout=20)
        assert done.returncode == LOST, done
        status, report = examine(server.url)
        unfit, = named(report, "UNFIT")
        assert status == 1 and "could not be extended there: the server does not know watch." in unfit["why"], unfit
        assert "rename-command" in unfit["cure"] and "no permission" not in json.dumps(unfit)


def test_scripts_that_are_renamed_away():
    with started((*SAFE, "--rename-command", "EVAL", "", "--rename-command", "EVALSHA", "")) as (server,):
        status, report = examine(server.url)
        refused, = named(report, "SCRIPTS-REFUSED")
        assert status == 0 and "does not know EVAL" in refused["why"] and "rename-command" in refused["cure"]
        assert "llow" not in refused["cure"]


def test_questions_that_are_renamed_away():
    with started((*SAFE, "--rename-command", "CONFIG", "")) as (server,):
        unknown, = named(examine(server.url)[1], "UNKNOWN")
        assert "does not know CONFIG GET" in unknown["why"] and "No permission helps" in unknown["cure"]


def test_keys_that_this_user_may_not_use(safe_server):
    """doctor's own lock has the prefix of the others."""
    url = user(safe_server, "~lock:*", "%R~redlock:node", *WITH_SCRIPTS[1:])
    status, report = examine(url)
    untried, = named(report, "UNTRIED")
    assert status == 0 and "--prefix" in untried["cure"], report
    status, report = examine(url, "--prefix", "lock:")
    assert status == 0 and report["tried"] and not named(report, "UNTRIED"), report


def test_a_user_that_only_examines_tries_nothing(safe_server):
    url = user(safe_server, "%R~redlock:node", "-@all", "+eval", "+evalsha", "+info", "+time", "+hget", "+config|get" if server_version() >= (7, 0) else "+config")
    with monitored(safe_server) as seen:
        status, report = examine(url)
    assert (status, report["tried"]) == (0, False), report
    assert not any(b'"redlock:doctor:' in line for line in seen)


@contextlib.contextmanager
def monitored(server):
    """What the server executes meanwhile."""
    lines = []
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        stream = connection.makefile("rwb")
        stream.write(b"MONITOR\r\n")
        stream.flush()
        stream.readline()

        def read():
            with contextlib.suppress(OSError, ValueError):
                for line in stream:
                    lines.append(line)
        reader = threading.Thread(target=read)
        reader.start()
        yield lines
        server.ask("ECHO", "the end")
        until(lambda: any(b"the end" in line for line in lines), what="the end")
        connection.shutdown(socket.SHUT_RDWR)
        reader.join()


def test_other_features_are_noted(safe_server):
    status, report = examine(user(safe_server, *WITH_SCRIPTS))
    said = json.dumps(named(report, "FEATURES"))
    assert status == 0 and "refuses shared locks" in said and "locks with slots" in said, report
    assert not named(examine(safe_server.url)[1], "FEATURES")


# ---- it does no harm ----

def test_nothing_is_left_behind(safe_server):
    assert examine(safe_server.url)[0] == 0
    assert own_keys(safe_server) == []
    examine(user(safe_server, *WITH_SCRIPTS, "-del"))
    assert all(safe_server.ask("PTTL", key) in (-2, *range(8001)) for key in own_keys(safe_server))
    until(lambda: own_keys(safe_server) == [], 20, "the end of its keys")


def test_locks_that_are_held_stay_held(three, resource):
    """Guarded: a trial raises the fences of its stripes, as any other acquisition does. The holder keeps its lock and its
    fence, which are those of one of 64 resources and so of many stripes; the next fence of each is higher."""
    redlock = Redlock(three.nodes, {"REDLOCK_MODE": "guarded"})
    assert redlock("quorum", "init", "--yes", "--never-used", "--ttl-max", "10s").returncode == 0
    names = [f"{resource}-{number}" for number in range(8)]
    ready = "echo $REDLOCK_FENCE; cat; echo end"
    holders = [redlock.start("run", "-t", "1s", name, "--", "sh", "-c", ready, stdin=subprocess.PIPE) for name in names]
    fences = [int(holder.stdout.readline()) for holder in holders]
    for _ in range(5):
        status, report = examine(three.nodes, REDLOCK_MODE="guarded")
        assert status == 0 and report["tried"], report
    for name, holder, fence in zip(names, holders, fences):
        out, err = holder.communicate(b"", timeout=20)
        assert (holder.returncode, out, err) == (0, b"end\n", b"")
        after = redlock("run", "-t", "1s", name, "--", "sh", "-c", "echo $REDLOCK_FENCE")
        assert int(after.stdout) > fence
    assert [own_keys(server) for server in three.servers] == [[], [], []]


# ---- who is there? ----

def test_a_load_balancer(resource):
    """Three addresses, each of two servers: two clients hold one lock, and doctor said that they are fit."""
    with started(*[SAFE] * 6) as servers, contextlib.ExitStack() as stack:
        pairs = zip(servers[::2], servers[1::2])
        balancers = [stack.enter_context(Balancer(first.port, second.port)) for first, second in pairs]
        nodes = ",".join(balancer.url for balancer in balancers)
        holders = [Redlock(nodes, {"REDLOCK_MODE": "classic"})("acquire", resource) for _ in range(4)]
        assert [holder.returncode for holder in holders].count(0) > 1
        for mode in "classic", "auto":
            status, report = examine(nodes, REDLOCK_MODE=mode)
            several = sorted(node for finding in named(report, "SEVERAL-SERVERS") for node in finding["nodes"])
            assert (status, several) == (1, [1, 2, 3]), report


def test_a_client_notices_a_load_balancer(resource):
    """When one of its connections reaches a server again right after another one. Its first server alone it cannot judge."""
    with started(SAFE, SAFE) as (first, second), Balancer(first.port, second.port) as balancer:
        redlock = Redlock(balancer.url, {"REDLOCK_MODE": "classic"})
        process = redlock.start("run", "-v", "-t", "2s", "--on-lost=ignore", resource, "sleep", "10")
        until(lambda: first.ask("EXISTS", resource) + second.ask("EXISTS", resource), what="the lock")
        for _ in range(3):
            balancer.cut()
            time.sleep(0.5)
        process.terminate()
        assert b"the address leads to several servers at a time" in process.communicate(timeout=20)[1]


def test_a_proxy_before_one_server_is_none_of_that(safe_server):
    with Balancer(safe_server.port) as balancer:
        status, report = examine(balancer.url)
        assert status == 0 and not named(report, "SEVERAL-SERVERS"), report


@pytest.mark.parametrize("rules", [("-info",), ("rename",)], ids=["denied", "renamed"])
def test_an_unknown_identity_is_an_error(rules):
    renames = ("--rename-command", "INFO", "") if rules == ("rename",) else ()
    with started((*SAFE, *renames)) as (server,):
        url = server.url if renames else user(server, *WITH_SCRIPTS, *rules)
        status, report = examine(url, REDLOCK_MODE="classic")
        identity, = named(report, "NO-IDENTITY")
        assert (status, identity["severity"]) == (1, "error") and "run_id" in identity["why"]
        assert Redlock(url, {"REDLOCK_MODE": "classic"})("run", "job", "true").returncode == 0


# ---- what is no server, or not quite one ----

def emulator(info=b"-ERR unknown command 'info'\r\n", scripts=b"-ERR unknown command 'eval'\r\n", others=None):
    """A few commands alone, in the memory of `store`."""
    store = {}

    def answer(words):
        name, *rest = words[0].upper(), *words[1:]
        if name == "SET":
            if rest[0] in store:
                return b"$-1\r\n"
            store[rest[0]] = rest[1]
            return b"+OK\r\n"
        if name in ("GET", "GETRANGE"):
            return bulk(store[rest[0]]) if rest[0] in store else b"$-1\r\n" if name == "GET" else b"$0\r\n\r\n"
        if name == "PTTL":
            return b":1000\r\n" if rest[0] in store else b":-2\r\n"
        if name == "HGET":
            return b"$-1\r\n"
        if name == "INFO":
            return info
        if name in ("EVAL", "EVALSHA"):
            return scripts
        return (others or f"-ERR unknown command '{name.lower()}'\r\n".encode())
    return answer


@pytest.mark.parametrize("mode", ["classic", "guarded"])
@pytest.mark.parametrize("others", [None, b"-ERR unsupported command 'x'\r\n"], ids=["emulator", "proxy"])
def test_an_emulator_is_called_one(mode, others):
    with FakeNode(emulator(others=others)) as node:
        status, report = examine(node.url, REDLOCK_MODE=mode)
        assert status == 1 and not named(report, "UNREACHABLE"), report
        said = json.dumps(report["findings"])
        assert "does not know" in said and "(ACL)" not in said and "llow" not in said, said


def test_a_proxy_that_hangs_up_at_what_it_does_not_know():
    def answer(words):
        return b"+OK\r\n" if words[0].upper() in ("SET", "GET", "AUTH") else None
    with FakeNode(answer) as node:
        _, report = examine(node.url)
        proxy, = named(report, "NOT-A-SERVER")
        assert "before its first answer, to REDLOCK.HELLO" in proxy["why"] and not named(report, "UNREACHABLE"), report


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"-ERR the licence has ended\r\n"], ids=["http", "error"])
def test_another_program(answer):
    with FakeNode(lambda words: answer) as node:
        status, report = examine(node.url)
        program, = named(report, "NOT-A-SERVER")
        assert (status, program["severity"]) == (69, "error") and not named(report, "UNREACHABLE"), report


def test_any_words_for_no_info():
    """A managed service has its own."""
    with FakeNode(emulator(info=b"-FORBIDDEN ask your administrator\r\n")) as node:
        _, report = examine(node.url, REDLOCK_MODE="classic")
        assert report["nodes"][0]["verdict"] == "ready" and named(report, "NO-IDENTITY"), report


def test_a_server_without_a_lua_engine():
    missing = b"-ERR Could not find scripting engine 'lua'\r\n"
    info = bulk(f"redis_version:7.2.4\r\nvalkey_version:9.1.0\r\nserver_mode:standalone\r\nrun_id:{RUN_ID}\r\n")
    with FakeNode(emulator(info=info, scripts=missing)) as node:
        refused, = named(examine(node.url, REDLOCK_MODE="classic")[1], "SCRIPTS-REFUSED")
        assert "has no Lua engine" in refused["why"] and "module for Lua" in refused["cure"] and "llow" not in refused["cure"]
        unfit = json.dumps(examine(node.url, REDLOCK_MODE="guarded")[1]["findings"])
        assert "no Lua engine" in unfit and "UNREACHABLE" not in unfit


@pytest.mark.skipif(server_project() != "Valkey" or server_version() < (9, 1), reason="the Lua engine is a module from Valkey 9.1 on")
def test_a_real_server_without_its_lua_engine(resource):
    """Classic locks go by transactions, and wait, extend and release as before."""
    with started(*[(*SAFE, "--enable-module-command", "local")] * 3) as servers:
        for server in servers:
            assert server.ask("MODULE", "UNLOAD", "lua") == b"OK"
        nodes = ",".join(server.url for server in servers)
        status, report = examine(nodes, REDLOCK_MODE="classic")
        refused, = named(report, "SCRIPTS-REFUSED")
        assert status == 0 and report["tried"] and "has no Lua engine" in refused["why"], report
        assert [finding["why"] for finding in named(report, "FEATURES")] == [
            f"It refuses {what}: it has no Lua engine." for what in ("shared locks", "locks with slots")], report
        done = Redlock(nodes, {"REDLOCK_MODE": "classic"})("run", "-t", "1s", "--wait=10s", resource, "sleep", "2", timeout=30)
        assert done.returncode == 0 and [server.ask("EXISTS", resource) for server in servers] == [0, 0, 0], done
        status, report = examine(nodes, REDLOCK_MODE="guarded")
        assert status == 1 and "the server has no Lua engine, and guarded mode needs scripts: load its module" in json.dumps(report)
