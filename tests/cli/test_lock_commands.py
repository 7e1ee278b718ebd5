# SPDX-License-Identifier: BSD-2-Clause
"""acquire, extend, release: round trips, tokens of any bytes, what is not ours."""
import json
import os
import re
import signal
import time

import pytest

from blocked import fill
from conftest import Redlock
from servers import until

HELD, LOST, NO_QUORUM = 75, 80, 69


def acquire(locked, *arguments):
    done = locked("acquire", *arguments)
    assert done.returncode == 0, done.stderr
    token, validity = done.stdout.decode().rstrip("\n").rsplit(" ", 1)
    return token, int(validity)


def test_round_trip(locked, quorum, resource):
    token, validity = acquire(locked, "-t", "20s", resource)
    assert re.fullmatch(r"[0-9a-f]{40}:\S+:\d+", token)
    assert 19000 < validity < 19800
    assert quorum.holder(resource) == token.encode()  # it outlives the process

    done = locked("extend", "-t", "60s", resource, environ={"REDLOCK_TOKEN": token})
    assert (done.returncode, done.stderr) == (0, b"")
    assert 58000 < int(done.stdout) < 59500
    assert quorum.holder(resource) == token.encode()
    assert all(ttl > 55000 for ttl in (server.ask("PTTL", resource) for server in quorum.servers))

    done = locked("release", resource, environ={"REDLOCK_TOKEN": token})
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert quorum.values(resource) == [None] * 5


@pytest.mark.parametrize("json_too", [False, True])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_nobody_reads_the_token(locked, quorum, resource, json_too, number):
    """A signal ends the command, which takes the lock back."""
    reader, writer = os.pipe()
    fill(writer)
    process = locked.start("acquire", "-t", "30s", *(["--json"] if json_too else []), resource, stdout=writer)
    os.close(writer)
    until(lambda: quorum.values(resource).count(None) <= 2, what="the lock")
    time.sleep(0.1)
    process.send_signal(number)
    assert process.wait(5) == 128 + number
    process.stderr.close()
    os.close(reader)
    until(lambda: quorum.values(resource) == [None] * 5, what="the release")


def test_nobody_reads_the_token_in_time(locked, resource):
    reader, writer = os.pipe()
    fill(writer)
    process = locked.start("acquire", "-t", "300ms", resource, stdout=writer)
    os.close(writer)
    assert process.wait(5) == LOST
    assert b"nobody read the token" in process.stderr.read()
    process.stderr.close()
    os.close(reader)


def test_extend_never_shortens(locked, quorum, resource):
    token, _ = acquire(locked, "-t", "60s", resource)
    assert locked("extend", "-t", "5s", "--token", token, resource).returncode == 0
    assert min(server.ask("PTTL", resource) for server in quorum.servers) > 50000


def test_held_by_another(locked, quorum, resource):
    token, _ = acquire(locked, resource)
    done = locked("acquire", resource)
    assert done.returncode == HELD
    assert f"{resource}: held by {token.split(':', 1)[1]}, 29." in done.stderr.decode()
    assert done.stderr.decode().count("\n") == 1
    assert locked("acquire", "-q", resource).stderr == b""
    assert locked("acquire", "-E", "33", resource).returncode == 33
    started = time.monotonic()
    assert locked("acquire", "-w", "600ms", resource).returncode == HELD
    assert 0.5 < time.monotonic() - started < 3
    assert quorum.holder(resource) == token.encode()


def test_wait_until_it_is_free(locked, resource):
    acquire(locked, "-t", "700ms", resource)
    started = time.monotonic()
    acquire(locked, "-w", "10s", resource)
    assert time.monotonic() - started < 1.1


def test_token_by_every_way(locked, quorum, resource):
    for way in ("environment", "option", "input", "input with newline"):
        token, _ = acquire(locked, resource)
        for command in ("extend", "release"):
            if way == "environment":
                done = locked(command, resource, environ={"REDLOCK_TOKEN": token})
            elif way == "option":
                done = locked(command, "--token", token, resource)
            else:
                data = token.encode() + (b"\n" if way == "input with newline" else b"")
                done = locked(command, resource, "-", input=data, environ={"REDLOCK_TOKEN": "wrong"})
            assert done.returncode == 0, (way, command, done.stderr)
        assert quorum.values(resource) == [None] * 5


def test_binary_token(locked, quorum, resource):
    token = b"\x00\xff\r\n\n binary \x80"
    for server in quorum.servers:
        server.ask("SET", resource, token, "NX", "PX", "20000")
    assert locked("extend", "-t", "40s", resource, "-", input=token + b"\n").returncode == 0
    assert min(server.ask("PTTL", resource) for server in quorum.servers) > 35000
    assert locked("release", resource, "-", input=token[:-1]).returncode == LOST
    assert quorum.values(resource) == [token] * 5
    assert locked("release", resource, "-", input=token).returncode == 0
    assert quorum.values(resource) == [None] * 5


def test_not_ours(locked, quorum, resource):
    for command in ("extend", "release"):
        done = locked(command, "--token", "nobody", resource)
        assert done.returncode == LOST, command
        assert f"{resource}: lost: " in done.stderr.decode()
    assert quorum.values(resource) == [None] * 5  # extend brings nothing back
    token, _ = acquire(locked, resource)
    for command in ("extend", "release"):
        assert locked(command, "--token", token[:-1], resource).returncode == LOST, command
    assert quorum.values(resource) == [token.encode()] * 5


def test_extend_without_quorum_releases_nothing(own_quorum, redlock, resource):
    nodes = {"REDLOCK_NODES": own_quorum.nodes}
    done = redlock("acquire", resource, environ=nodes)
    token = done.stdout.split()[0]
    for server in own_quorum.servers[:3]:
        server.pause()
    done = redlock("extend", "--token", token, resource, environ=nodes)
    assert done.returncode == NO_QUORUM
    for server in own_quorum.servers[:3]:
        server.resume()
    assert own_quorum.values(resource) == [token] * 5


def test_no_quorum_leaves_no_key(own_quorum, redlock, resource):
    for server in own_quorum.servers[:3]:
        server.pause()
    started = time.monotonic()
    done = redlock("acquire", resource, environ={"REDLOCK_NODES": own_quorum.nodes})
    assert done.returncode == NO_QUORUM
    assert time.monotonic() - started < 2.5
    assert [server.ask("GET", resource) for server in own_quorum.servers[3:]] == [None, None]


def test_two_of_five_stopped(own_quorum, redlock, resource):
    for server in own_quorum.servers[:2]:
        server.pause()
    done = redlock("acquire", resource, environ={"REDLOCK_NODES": own_quorum.nodes})
    assert done.returncode == 0, done.stderr


def test_json(locked, resource):
    done = locked("acquire", "--json", "-t", "20s", "-o", "jäger", resource)
    result = json.loads(done.stdout)
    assert result["resource"] == resource
    assert result["token"].endswith(":jäger")
    assert result["ttl_ms"] == 20000
    assert 19000 < result["validity_ms"] < 20000
    assert len(result["nodes"]) == 5
    # A majority suffices, so the last nodes may still be under way.
    assert [node["verdict"] for node in result["nodes"]].count("granted") >= 3
    done = locked("extend", "--json", "-t", "30s", "--token", result["token"], resource)
    assert 29000 < json.loads(done.stdout)["validity_ms"] < 30000
    done = locked("release", "--json", "--token", result["token"], resource)
    assert [node["verdict"] for node in json.loads(done.stdout)["nodes"]].count("granted") >= 3


@pytest.mark.parametrize("owner", ["job 7", "job\t7", "job\n7"])
def test_an_owner_with_a_blank_needs_json(locked, resource, owner):
    """`set -- $(redlock acquire ...)` would take the validity for the fence."""
    done = locked("acquire", "-o", owner, resource)
    assert done.returncode == 64 and done.stdout == b"" and b"use --json" in done.stderr
    done = locked("acquire", "--json", "-o", owner, resource)
    assert json.loads(done.stdout)["token"].endswith(f":{owner}")


def test_json_owner_that_is_no_utf8(locked, resource):
    done = locked("acquire", "--json", "-o", b"\xff\xfe", resource)
    result = json.loads(done.stdout)
    assert "token" not in result
    assert bytes.fromhex(result["token_hex"]).endswith(b":\xff\xfe")


def test_token_that_cannot_be_printed_is_released(locked, quorum, resource):
    with open("/dev/full", "wb") as full:
        process = locked.start("acquire", resource, stdout=full)
        assert process.wait(10) == 71
    assert b"cannot write the token" in process.stderr.read()
    assert quorum.values(resource) == [None] * 5


def test_a_signal_ends_the_wait_and_leaves_nothing(locked, quorum, resource):
    holder, _ = acquire(locked, "-t", "20s", resource)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        process = locked.start("acquire", "-w", "forever", resource)
        time.sleep(0.3)  # somewhere amid its tries
        process.send_signal(number)
        assert process.wait(5) == 128 + number
        assert until(lambda: quorum.values(resource) == [holder.encode()] * 5)


def test_a_node_that_hangs_is_not_waited_for(three, resource):
    """The kernel accepts its connections, so only time shows that it hangs: not all of --connect-timeout, once a
    majority is connected."""
    redlock = Redlock(three.nodes, {"REDLOCK_MODE": "guarded"})
    done = redlock("quorum", "init", "--yes", "--never-used", "--ttl-max", "60s")
    assert done.returncode == 0, done.stderr
    done = redlock("acquire", "-t", "30s", resource)
    token, _, fence = done.stdout.decode().rsplit(" ", 2)
    hung = three.servers[1].process
    hung.send_signal(signal.SIGSTOP)
    try:
        for status, command in ((0, ["extend", "--token", token, "--fence", fence.strip(), resource]), (0, ["show", resource]),
                                (HELD, ["wait", "-w", "0s", resource]), (0, ["show"]),
                                (0, ["release", "--token", token, resource]),
                                (0, ["acquire", resource]),
                                (0, ["break", "--yes", "--no-syslog", "--reason", "a test", resource])):
            started = time.monotonic()
            done = redlock(*command, "--connect-timeout", "8s")
            assert done.returncode == status, (command, done.stderr)
            assert time.monotonic() - started < 5, command
    finally:
        hung.send_signal(signal.SIGCONT)
