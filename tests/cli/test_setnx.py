# SPDX-License-Identifier: BSD-2-Clause
"""A node with scheme=setnx: every command works there, and doctor says what it is."""
import json
import time

import pytest

from conftest import Redlock
from servers import Server

HELD, CONFIG, LOST = 75, 78, 80


@pytest.fixture
def server():
    one = Server()
    yield one
    one.close()


@pytest.fixture
def aged(server):
    return Redlock(f"{server.url}?scheme=setnx")


def stamp(server):
    return int(server.ask("GET", "job"))


def test_round_trip(aged, server):
    done = aged("acquire", "-t", "20s", "job")
    assert done.returncode == 0, done.stderr
    token, validity = done.stdout.decode().split()
    assert 19000 < int(validity) < 19800
    assert 20 < stamp(server) - time.time() < 22.1
    assert server.ask("PTTL", "job") == -1
    assert aged("acquire", "job").returncode == HELD

    shown = json.loads(aged("show", "--json", "job").stdout)[0]
    assert shown["verdict"] == "held" and 20000 < shown["remaining_ms"] < 23000 and token.startswith(shown["token"][:8])
    assert json.loads(aged("show", "--json").stdout)[0]["resource"] == "job"
    server.ask("SET", "old", int(time.time()) + 60)  # by a program that writes the timestamp alone
    assert [shown["resource"] for shown in json.loads(aged("show", "--json").stdout)] == ["job", "old"]
    server.ask("DEL", "old")

    before = stamp(server)
    assert aged("extend", "-t", "60s", "--token", token, "job").returncode == 0
    assert 38 <= stamp(server) - before <= 42
    assert aged("release", "--token", str(stamp(server)), "job").returncode == LOST  # the number proves nothing
    assert aged("release", "--token", token, "job").returncode == 0
    assert server.ask("DBSIZE") == 0
    assert aged("show", "job").stdout.startswith(b"job: free")


def test_run(aged, server):
    done = aged("run", "-t", "1s", "job", "--", "sh", "-c", "sleep 2; echo $REDLOCK_NODES")
    assert (done.returncode, done.stderr) == (0, b""), done
    assert done.stdout.decode().strip() == f"{server.url}?scheme=setnx"
    assert server.ask("DBSIZE") == 0


def test_run_waits_for_one_of_theirs(aged, server):
    end = int(time.time()) + 1
    server.ask("SETNX", "job", end)
    assert b"ends in" in aged("show", "job").stdout
    done = aged("run", "-w", "10s", "job", "--", "date", "+%s.%N")
    assert done.returncode == 0, done.stderr
    assert end + 1 <= float(done.stdout) < end + 3


def test_doctor(aged):
    done = aged("doctor", "--json", "--samples", "2")
    named = {finding["name"]: finding for finding in json.loads(done.stdout)["findings"]}
    assert named["OLD-PATTERN"]["severity"] == "note" and named["OLD-PATTERN"]["nodes"] == [1]
    assert "SETNX" in named["OLD-PATTERN"]["why"]
    plain = Redlock(aged.environ["REDLOCK_NODES"].partition("?")[0])("doctor", "--json", "--samples", "2")
    assert "OLD-PATTERN" not in {finding["name"] for finding in json.loads(plain.stdout)["findings"]}


def test_refused(server):
    several = Redlock(f"{server.url}?scheme=setnx,redis://127.0.0.1:1")("acquire", "job")
    assert several.returncode == CONFIG and b"a lock on one server" in several.stderr
    guarded = Redlock(f"{server.url}?scheme=setnx", {"REDLOCK_MODE": "guarded"})("acquire", "job")
    assert guarded.returncode == CONFIG and b"guarded mode" in guarded.stderr
    unknown = Redlock(f"{server.url}?scheme=old")("acquire", "job")
    assert unknown.returncode == CONFIG and b"?scheme=setnx" in unknown.stderr
