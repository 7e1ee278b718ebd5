# SPDX-License-Identifier: BSD-2-Clause
"""A lock that is held, lost or impossible: the message, and the JSON, say by whom, for how long and because of which nodes."""
import json
import os
import re
import signal
import time

import pytest

from conftest import Redlock
from processes import holder_of

USAGE, NO_QUORUM, HELD, CONFIG, LOST = 64, 69, 75, 78, 80
TOKEN = "0123456789abcdef0123456789abcdef01234567"
NOT_A_LOCK = "the key holds a list: not a lock"


@pytest.fixture
def redlock3(three):
    return Redlock(three.nodes)


def names(*servers):
    return " and ".join(server.url.removeprefix("redis://") for server in servers)


def put(servers, key, token, *more):
    for server in servers:
        server.ask("SET", key, token, *more)


def started(redlock, *arguments):
    """The process of `run`, when its command runs."""
    process = redlock.start("run", *arguments, "--", "sh", "-c", "echo runs; sleep 20")
    assert process.stdout.readline() == b"runs\n"
    return process


def lines(done):
    return done.stderr.decode().splitlines()


# ---- held ----

@pytest.mark.parametrize("words", [["acquire", "x"], ["run", "-n", "x", "true"]], ids=["acquire", "run"])
def test_the_holder_in_one_line(three, redlock3, words):
    assert redlock3("acquire", "-o", "db1:8949", "x").returncode == 0
    done = redlock3(*words)
    assert done.returncode == HELD and len(lines(done)) == 1
    assert re.fullmatch(r"redlock: x: held by db1:8949, 29\.\d s left \(3 of 3\)", lines(done)[0])
    three[0].close()
    assert lines(redlock3(*words))[0].endswith(" s left (2 of 3)")
    assert f"{three[1].url}: held by another" in redlock3(words[0], "-v", *words[1:]).stderr.decode()


def test_a_holder_without_a_name_or_an_end(three, redlock3):
    put(three.servers, "x", "somebody", "PX", "20000")
    assert re.fullmatch(r"redlock: x: held by another client, 19\.\d s left \(3 of 3\)", lines(redlock3("acquire", "x"))[0])
    put(three.servers, "x", TOKEN + ":me")
    assert lines(redlock3("acquire", "x")) == ["redlock: x: held by me, without an end: the key has no TTL (3 of 3)"]


def test_votes_that_are_divided(three, redlock3):
    for number, server in enumerate(three.servers):
        put([server], "x", f"client {number}", "PX", "20000")
    assert lines(redlock3("acquire", "x"))[0] == "redlock: x: held by another: the nodes hold the tokens of several clients"


def test_a_key_that_is_no_lock(three, redlock3):
    for server in three.servers:
        server.ask("RPUSH", "x", "1")
    for words in (["acquire", "x"], ["run", "-n", "x", "true"]):
        done = redlock3(*words)
        assert (done.returncode, lines(done)) == (HELD, [f"redlock: x: {NOT_A_LOCK}"])
    assert redlock3("show", "x").stdout.decode().splitlines()[0] == f"x: {NOT_A_LOCK}"
    done = redlock3("run", "-w", "3s", "x", "true")
    assert (done.returncode, done.stderr.decode().count(f"waiting for 'x': {NOT_A_LOCK}. Delete the key")) == (HELD, 1)
    assert json.loads(redlock3("acquire", "--json", "x").stdout)["reason"] == NOT_A_LOCK
    for words in (["release"], ["extend", "-t", "20s"]):
        done = redlock3(*words, "--token", TOKEN, "x")
        assert (done.returncode, lines(done)) == (LOST, [f"redlock: x: {NOT_A_LOCK}"])


# ---- mode auto ----

def test_a_record_that_may_not_be_read_is_not_absent(three, redlock3):
    for server in three.servers:
        server.ask("ACL", "SETUSER", "u", "on", ">p", "~x", "+@all")
    user = Redlock(three.nodes.replace("redis://", "redis://u:p@"))
    done = user("acquire", "x")
    assert done.returncode == CONFIG and "allow +hget %R~redlock:node" in done.stderr.decode(), done
    assert user("acquire", "--mode", "classic", "x").returncode == 0
    assert redlock3("acquire", "-n", "x").returncode == HELD
    for server in three.servers:
        server.ask("ACL", "SETUSER", "u", "~redlock:node")
        server.ask("DEL", "x")
    process = started(user, "-t", "3s", "-k", "100ms", "x")
    for server in three.servers:  # the permission is taken away while the lock is held
        server.ask("ACL", "SETUSER", "u", "resetkeys", "~x")
    said = process.communicate(timeout=15)[1].decode()
    assert process.returncode == LOST and "may not read whether the server belongs to a guarded quorum" in said, said


def test_lost_because_the_nodes_were_made_a_quorum(three, redlock3):
    process = started(redlock3, "-t", "3s", "-k", "100ms", "x")
    assert redlock3("quorum", "init", "--yes", "--never-used", "--ttl-max", "10s").returncode == 0
    said = process.communicate(timeout=15)[1].decode()
    assert process.returncode == LOST and "lost 'x': its nodes were made a guarded quorum" in said, said


# ---- no quorum ----

def test_healthy_nodes_are_not_listed(three, redlock3):
    for server in three.servers[:2]:
        server.close()
    done = redlock3("acquire", "x")
    assert done.returncode == NO_QUORUM
    assert lines(done)[0] == "redlock: x: no quorum: 1 of 3 nodes answered, 2 needed"
    assert [line.split(": ")[1].strip() for line in lines(done)[1:]] == [three[0].url, three[1].url]


def test_nodes_that_answer_and_cannot_vote(three):
    redlock = Redlock(three.nodes, {"REDLOCK_MODE": "guarded"})
    assert redlock("quorum", "init", "--yes", "--never-used", "--ttl-max", "60s").returncode == 0
    for server in three.servers:
        server.ask("FLUSHALL")
    done = redlock("acquire", "-t", "1s", "x")
    said = done.stderr.decode()
    assert "x: no quorum: 0 of 3 nodes can vote, 2 needed\n" in said and "too few" not in said, said
    assert done.returncode in (NO_QUORUM, CONFIG) and said.count(three[0].url) == 1


# ---- lost ----

@pytest.mark.parametrize("setting, value, reason", [("maxmemory", "1", "server out of memory"), ("min-replicas-to-write", "1", "replicas")])
def test_waiting_for_nodes_that_take_no_writes(three, redlock3, setting, value, reason):
    """They answer, and a lock without a limit waits: why is said once."""
    for server in three.servers[:2]:
        server.ask("CONFIG", "SET", setting, value)
    process = redlock3.start("run", "-t", "1s", "x", "true")
    said = [process.stderr.readline().decode() for _ in range(4)]
    for server in three.servers[:2]:
        server.ask("CONFIG", "SET", setting, "0")
    assert "0 of 3 nodes can vote" in said[0] or "1 of 3 nodes can vote" in said[0], said
    assert sum(reason in line for line in said) == 2, said
    assert said[3] == "redlock: waiting for a majority that takes writes; --wait sets a limit\n", said
    assert (process.wait(20), process.stderr.read()) == (0, b"")
    process.stderr.close()


def test_a_database_that_does_not_exist(three):
    nodes = ",".join(server.url + "/99" for server in three.servers)
    done = Redlock(nodes)("run", "-w", "10s", "x", "true")
    assert done.returncode == CONFIG
    assert "DB index is out of range" in done.stderr.decode()


def test_lost_because_nodes_do_not_answer(three, redlock3):
    process = started(redlock3, "-t", "2s", "-k", "200ms", "job")
    for server in three.servers[1:]:
        server.pause()
    said = process.communicate(timeout=15)[1].decode()
    assert process.returncode == LOST
    assert f"redlock: lost 'job': {names(*three.servers[1:])} timed out; sent TERM\n" in said


def test_lost_because_the_keys_are_gone(three, redlock3):
    process = started(redlock3, "-t", "1s", "job")
    for server in three.servers:
        server.ask("DEL", "job")
    assert process.wait(5) == LOST
    assert re.search(r"lost 'job': .* do not have the key; sent TERM\n", process.stderr.read().decode())


def test_lost_to_another_client(three, redlock3):
    process = started(redlock3, "-t", "1s", "--on-lost", "ignore", "job")
    put(three.servers, "job", "another's", "PX", "60000")
    said = process.stderr.readline().decode()
    process.terminate()
    process.wait(10)
    assert re.search(r"lost 'job': .* have another token; the command goes on without it", said)


def test_lost_because_the_holder_stood_still(redlock3):
    process = started(redlock3, "-t", "700ms", "job")
    holder = holder_of(process.pid)
    os.kill(process.pid, signal.SIGSTOP)  # or it would end the holder
    os.kill(holder, signal.SIGSTOP)
    assert redlock3("acquire", "-w", "5s", "job").returncode == 0
    os.kill(holder, signal.SIGCONT)
    time.sleep(0.5)
    os.kill(process.pid, signal.SIGCONT)
    said = process.communicate(timeout=10)[1].decode()
    assert process.returncode == LOST
    assert "lost 'job': its validity ended while this process, or the machine, stood still; sent KILL\n" in said


def test_a_token_that_is_not_there(redlock3):
    for command in ("extend", "release"):
        done = redlock3(command, "--token", TOKEN, "x")
        assert done.returncode == LOST
        assert re.fullmatch(r"redlock: x: lost: .* do not have the key", lines(done)[0])
    assert redlock3("acquire", "x").returncode == 0
    assert re.search(r"x: lost: .* have another token$", lines(redlock3("extend", "--token", TOKEN, "x"))[0])


@pytest.mark.parametrize("command", ["extend", "release"])
def test_a_token_of_a_reader_or_a_slot(redlock3, command):
    reader = redlock3("acquire", "--shared", "r").stdout.decode().split()[0]
    said = lines(redlock3(command, "--token", reader, "r"))
    assert said[1:] == ["redlock: 'r' is a shared lock now: with a reader's token, give --shared"]
    assert redlock3(command, "--shared", "--token", reader, "r").returncode == 0

    slot = redlock3("acquire", "--slots", "2", "s").stdout.decode().split()
    said = lines(redlock3(command, "--token", slot[0], "s"))
    assert said[1:] == ["redlock: this is the token of a slot: name the slot that redlock acquire printed, as in 's:slot:1'"]
    assert redlock3(command, "--token", slot[0], f"s:{slot[-1]}").returncode == 0

    done = redlock3(command, "--token", "redlock:shared", "r")
    assert done.returncode == USAGE
    assert lines(done)[0].startswith("redlock: the token given by --token is the marker of a shared lock; give the reader's token")


# ---- show ----

@pytest.mark.parametrize("token", [
    TOKEN, TOKEN + ":host:1", "aB3dE6gH9jK2mN5pQ8sT1v", "q83vEjRWeJA8kl0TVnqLzQ==", "q83vEjRWeJA8kl0TVnqLzaq83v8=", "ab" * 16,
    "0f8fad5b-d9cb-469f-a165-70867728950e", "cd" * 32])
def test_tokens_of_clients_are_listed(three, redlock3, token):
    put(three.servers, "x", token, "PX", "60000")
    done = redlock3("show")
    assert done.stdout.decode().startswith("x: held by ") and b"--all" not in done.stderr


@pytest.mark.parametrize("value", ["", "hello", "1700000000", '{"user":1,"name":"somebody"}', "x" * 32, TOKEN + "0", "a-sentence-of-22-bytes"])
def test_other_strings_are_not_listed(three, redlock3, value):
    put(three.servers, "cache", value, "PX", "60000")
    done = redlock3("show")
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"no locks" in done.stderr and b"1 other key does not have the form of a lock; --all shows it" in done.stderr
    assert json.loads(redlock3("show", "--json").stdout) == []
    for words in (["show", "--all"], ["show", "-a"], ["show", "cache"]):
        assert redlock3(*words).stdout.decode().startswith("cache: held by token"), words


# ---- JSON ----

def test_acquire_that_fails_prints_json(three, redlock3):
    assert redlock3("acquire", "-o", "me", "x").returncode == 0
    done = redlock3("acquire", "--json", "-q", "x")
    found = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (HELD, b"")
    assert (found["resource"], found["result"], found["exit"], found["owner"]) == ("x", "held", HELD, "me")
    assert 20000 < found["remaining_ms"] <= 30000 and found["reason"].startswith("held by me, ")
    assert [node["url"] for node in found["nodes"]] == [server.url for server in three.servers]
    assert [node["verdict"] for node in found["nodes"]].count("denied") >= 2
    done = redlock3("acquire", "--json", "-E", "0", "x")
    found = json.loads(done.stdout)
    assert (done.returncode, found["result"], found["exit"], found["owner"]) == (0, "held", 0, "me")
    for server in three.servers[:2]:
        server.close()
    found = json.loads(redlock3("acquire", "--json", "y").stdout)
    assert (found["result"], found["exit"], found["reason"]) == ("no_quorum", NO_QUORUM, "no quorum: 1 of 3 nodes answered, 2 needed")
    assert [node["verdict"] for node in found["nodes"]] == ["refused", "refused", "none"]
    assert "Connection refused" in found["nodes"][0]["reason"] and "reason" not in found["nodes"][2]


def test_release_says_why_nodes_do_not_answer(three, redlock3):
    for server in three.servers:
        server.close()
    done = redlock3("release", "--token", TOKEN, "x")
    assert done.returncode == NO_QUORUM
    assert lines(done)[1:] == [f"redlock:   {server.url}: cannot connect: Connection refused" for server in three.servers]


def test_extend_and_release_that_fail_print_json(redlock3):
    for command in ("extend", "release"):
        found = json.loads(redlock3(command, "--json", "--token", TOKEN, "x").stdout)
        assert (found["result"], found["exit"]) == ("lost", LOST)
        assert found["reason"].startswith("lost: ") and [node["verdict"] for node in found["nodes"]].count("absent") >= 2
        found = json.loads(redlock3(command, "--json", "x").stdout)
        assert (found["result"], found["exit"]) == ("usage", USAGE) and found["reason"].startswith("no token")


def test_errors_before_a_client_exists_print_json(redlock):
    done = redlock("acquire", "--json", "x", environ={"REDLOCK_NODES": "http://h"})
    found = json.loads(done.stdout)
    assert (found["result"], found["exit"], done.returncode) == ("config", CONFIG, CONFIG)
    assert found["reason"] in done.stderr.decode()
    assert json.loads(redlock("acquire", "--json").stdout)["result"] == "usage"
    done = redlock("watch", "--json", "x", environ={"REDLOCK_NODES": "http://h"})
    assert (json.loads(done.stdout)["result"], done.returncode) == ("config", CONFIG)
    assert json.loads(redlock("watch", "--json").stdout)["result"] == "usage"


def test_run_json_is_the_last_line_of_standard_error(three, redlock3):
    done = redlock3("run", "--json", "x", "sh", "-c", "echo mine; exit 3")
    found = json.loads(lines(done)[-1])
    assert (done.returncode, done.stdout) == (3, b"mine\n")
    assert (found["outcome"], found["exit"], found["command_status"], found["result"]) == ("command", 3, 3, "ok")
    assert (found["resource"], len(found["nodes"])) == ("x", 3) and "token" not in found
    assert redlock3("acquire", "-o", "me", "x").returncode == 0
    found = json.loads(lines(redlock3("run", "--json", "-q", "-n", "x", "true"))[-1])
    assert (found["outcome"], found["result"], found["owner"]) == ("held", "held", "me")
    found = json.loads(lines(redlock3("run", "--json", "x"))[-1])
    assert found["outcome"] == "usage" and "needs a command" in found["reason"]


def test_run_json_in_the_status_file(three, redlock3, tmp_path):
    report = tmp_path / "status"
    process = started(redlock3, "--json", "--status-file", str(report), "-t", "2s", "-k", "200ms", "job")
    for server in three.servers[1:]:
        server.pause()
    said = process.communicate(timeout=15)[1]
    found = json.loads(report.read_text())
    assert (found["outcome"], found["result"], found["exit"]) == ("lost", "lost", LOST)
    assert found["reason"] == f"{names(*three.servers[1:])} timed out" and b"{" not in said


def test_run_json_has_the_fence(three):
    redlock = Redlock(three.nodes, {"REDLOCK_MODE": "guarded"})
    assert redlock("quorum", "init", "--yes", "--never-used", "--ttl-max", "60s").returncode == 0
    done = redlock("run", "--json", "x", "sh", "-c", "echo $REDLOCK_FENCE")
    assert json.loads(lines(done)[-1])["fence"] == int(done.stdout)


# ---- the fence of an extension ----

def test_a_wrong_fence_extends_and_changes_no_order(three):
    """The token alone proves the lock: the manual says so. The fences of the nodes keep their order."""
    redlock = Redlock(three.nodes, {"REDLOCK_MODE": "guarded"})
    assert redlock("quorum", "init", "--yes", "--never-used", "--ttl-max", "60s").returncode == 0
    token, _, fence = redlock("acquire", "-t", "20s", "x").stdout.decode().split()
    for wrong in (1, int(fence) - 1, int(fence) + 1):
        done = redlock("extend", "--json", "--fence", str(wrong), "x", environ={"REDLOCK_TOKEN": token})
        assert done.returncode == 0 and json.loads(done.stdout)["result"] == "ok"
    assert redlock("release", "x", environ={"REDLOCK_TOKEN": token}).returncode == 0
    later = redlock("acquire", "x").stdout.split()[2]
    assert int(later) > int(fence)
    assert redlock("extend", "--fence", "9007199254740991", "x", environ={"REDLOCK_TOKEN": token}).returncode == USAGE
