# SPDX-License-Identifier: BSD-2-Clause
"""The processes that run scripts: what they can reach, whose they are, and what becomes of a script when one ends."""
import os
import pathlib
import random
import resource
import shutil
import subprocess
import threading
import time

import pytest

import processes
import unfiltered
from conftest import BINARY, RELEASE
from resp import Error
from servers import until

# Not one that is known by heart.
COUNTS = "local n = 0 for i = 1, 10 do n = n + i end return n + #ARGV"
TAKES = "local r = redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) local n = 1 if r then return n else return 0 end"
GIVES = "local v = redis.call('get', KEYS[1]) local n = 0 if v == ARGV[1] then n = redis.call('del', KEYS[1]) end return n"
PROGRAM = pathlib.Path(shutil.which(BINARY)).resolve().parent / "redlock-script"
SANITIZED = any(name in PROGRAM.read_bytes() for name in (b"__asan_init", b"__tsan_init"))


@pytest.fixture
def own(start, quorum):
    """A gateway of one test's own, with its first worker."""
    gateway = start(quorum.nodes)
    until(lambda: processes.workers(gateway), what="a worker")
    return gateway


def test_the_gateway_has_no_interpreter(own):
    maps = pathlib.Path(f"/proc/{own.process.pid}/maps").read_text()
    assert "liblua" not in maps
    pid = processes.spawner(own)
    assert "liblua" in pathlib.Path(f"/proc/{pid}/maps").read_text()


def test_a_worker_can_reach_nothing(own, key):
    with own.connect() as client:
        assert client("EVAL", COUNTS, 1, key) == 55
        until(lambda: len(processes.workers(own)) == 2, what="its worker and a spare")
        until(lambda: all(processes.status(pid)["Seccomp"] == "2" for pid in processes.workers(own)), what="they are confined")
        for pid in processes.workers(own):
            files = [int(entry) for entry in os.listdir(f"/proc/{pid}/fd")]
            assert files == ([0, 2] if SANITIZED else [0])
            assert os.readlink(f"/proc/{pid}/fd/0").startswith("socket:")
            assert pathlib.Path(f"/proc/{pid}/environ").read_bytes() == b""
            said = processes.status(pid)
            assert (said["Seccomp"], said["NoNewPrivs"]) == ("2", "1")
            assert said["Threads"] == "1" or SANITIZED
            limits = processes.limits(pid)
            for name in ("Max open files", "Max processes", "Max core file size", "Max file size", "Max locked memory"):
                assert limits[name] == ("0", "0"), name
            if not SANITIZED:
                assert limits["Max address space"] == (str(32 << 20), str(32 << 20))


def test_the_process_that_starts_them_knows_nothing(start, quorum):
    gateway = start(quorum.nodes, environ={"REDLOCK_NODES": "redis://:secret@127.0.0.1:1", "SECRET": "of mine"})
    pid = until(lambda: processes.spawner(gateway), what="the process")
    assert pathlib.Path(f"/proc/{pid}/environ").read_bytes() == b""
    assert pathlib.Path(f"/proc/{pid}/cmdline").read_bytes() == b"redlock-script\0"
    until(lambda: len(os.listdir(f"/proc/{pid}/fd")) == (2 if SANITIZED else 1), what="one descriptor")


def test_each_connection_has_one_of_its_own(own, key):
    until(lambda: len(processes.workers(own)) == 1, what="a spare")
    clients = [own.connect() for _ in range(4)]
    for count, client in enumerate(clients):
        assert client("EVAL", COUNTS, 1, f"{key}{count}", "x") == 56
        assert client("EVAL", COUNTS, 1, f"{key}{count}", "x", "y") == 57
        until(lambda expected=count + 2: len(processes.workers(own)) == expected, what="another")
    before = processes.workers(own)
    for client in clients:
        assert client("EVAL", COUNTS, 1, key) == 55
    assert processes.workers(own) == before
    for client in clients:
        client.close()
    until(lambda: len(processes.workers(own)) == 1, what="their end")


def test_scripts_known_by_heart_need_none(own, key):
    before = processes.workers(own)
    with own.connect() as client:
        assert client("SET", key, "v", "NX", "PX", 20000) == "OK"
        assert client("EVAL", RELEASE, 1, key, "v") == 1
        sha = client("SCRIPT", "LOAD", RELEASE)
        assert client("EVALSHA", sha, 1, key, "v") == 0
        assert processes.workers(own) == before


def test_more_connections_than_workers(own, key):
    clients = [own.connect() for _ in range(40)]
    for _ in range(3):
        for count, client in enumerate(clients):
            client.send("EVAL", COUNTS, 1, f"{key}{count}", "x")
        assert [client.read() for client in clients] == [56] * 40
        assert len(processes.workers(own)) <= 16
    for client in clients:
        client.close()


def test_a_worker_that_was_ended_is_replaced(own, key):
    with own.connect() as client:
        for _ in range(5):
            assert client("EVAL", COUNTS, 1, key) == 55
            for pid in processes.workers(own):
                processes.kill(pid)
            assert client("EVAL", COUNTS, 1, key) == 55
        first = processes.spawner(own)
        processes.kill(first)
        until(lambda: processes.spawner(own) not in (first, None), what="another that starts them")
        assert client("EVAL", COUNTS, 1, key) == 55
        sha = client("SCRIPT", "LOAD", COUNTS + " ")
        for pid in [processes.spawner(own), *processes.workers(own)]:
            processes.kill(pid)
        assert client("EVALSHA", sha, 1, key) == 55


def test_a_script_that_did_something_is_not_begun_again(start, own_quorum, key):
    """The worker ends in the midst of it, while the nodes keep the gateway waiting."""
    gateway = start(own_quorum.nodes, "--node-timeout", "20s")
    with gateway.connect(timeout=30) as client:
        text = "redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', 60000) redis.call('del', KEYS[1]) return 'done'"
        client("SCRIPT", "LOAD", text)
        for server in own_quorum.servers[:3]:
            server.pause()
        client.send("EVAL", text, 1, key, "v")
        until(lambda: all(server.ask("EXISTS", key) for server in own_quorum.servers[3:]), what="its beginning")
        for pid in processes.workers(gateway):
            processes.kill(pid)
        for server in own_quorum.servers[:3]:
            server.resume()
        said = client.read()
        assert isinstance(said, Error) and "ended the process" in str(said), said
        assert client("PING") == "PONG"
        assert client("DEL", key) == 1, "what it had done is done"


def test_ends_with_the_gateway(start, quorum, key):
    for end in ("terminate", "kill"):
        gateway = start(quorum.nodes)
        clients = [gateway.connect() for _ in range(3)]
        for client in clients:
            assert client("EVAL", COUNTS, 1, key) == 55
        pids = [processes.spawner(gateway), *processes.workers(gateway)]
        assert len(pids) > 3
        for client in clients:
            client.close()
        getattr(gateway, end)()
        assert processes.wait_gone(pids)


def test_by_hand_it_says_what_it_is():
    done = subprocess.run([PROGRAM], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=10, check=False)
    assert done.returncode == 64 and "redlock serve" in done.stderr


def test_without_the_program_known_scripts_are_served(start, quorum, key, tmp_path):
    """A directory with the gateway alone."""
    source = PROGRAM.parent
    for name in ("redlock", "redlock-serve"):
        (tmp_path / name).write_bytes((source / name).read_bytes())
        (tmp_path / name).chmod(0o755)
    gateway = start(quorum.nodes, binary=str(tmp_path / "redlock"))
    with gateway.connect() as client:
        assert client("SET", key, "v", "NX", "PX", 20000) == "OK"
        assert "runs only the scripts that it knows by heart" in str(client.error("EVAL", COUNTS, 1, key))
        assert client("EVAL", RELEASE, 1, key, "v") == 1
        assert "runs only the scripts that it knows by heart" in str(client.error("SCRIPT", "LOAD", COUNTS))
    said = [line for line in gateway.said if "by heart" in line]
    assert len(said) == 1 and "redlock-script" in said[0], gateway.said


def serves_known_scripts_alone(client, key):
    assert client("SET", key, "v", "NX", "PX", 20000) == "OK"
    assert "runs only the scripts that it knows by heart" in str(client.error("EVAL", COUNTS, 1, key))
    assert client("EVAL", RELEASE, 1, key, "v") == 1


def test_where_there_are_no_filters_scripts_are_refused(start, quorum, key):
    if not unfiltered.KNOWN:
        pytest.skip("the number of prctl is not known here")
    gateway = start(quorum.nodes, preexec=unfiltered.forbid_filters)
    with gateway.connect() as client:
        serves_known_scripts_alone(client, key)
        serves_known_scripts_alone(client, key)
    said = until(lambda: [line for line in gateway.said if "seccomp" in line], what="a line about seccomp")
    assert len(said) == 1 and "(seccomp: Invalid argument); see --scripts" in said[0], gateway.said


def test_a_lower_limit_on_memory_stays_and_is_no_lack_of_confinement(start, quorum, key):
    if any(name in pathlib.Path(BINARY).read_bytes() for name in (b"__asan_init", b"__tsan_init")):
        pytest.skip("a sanitizer needs terabytes")
    most = 28 << 20
    gateway = start(quorum.nodes, preexec=lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most)))
    with gateway.connect() as client:
        assert client("EVAL", COUNTS, 1, key) == 55
        for pid in processes.workers(gateway):
            assert processes.limits(pid)["Max address space"] == (str(most), str(most))
    assert not [line for line in gateway.said if "confine" in line], gateway.said


def test_unconfined_they_have_their_limits_all_the_same(start, quorum, key):
    if not unfiltered.KNOWN:
        pytest.skip("the number of prctl is not known here")
    gateway = start(quorum.nodes, "--scripts", "unconfined", preexec=unfiltered.forbid_filters)
    with gateway.connect() as client:
        for _ in range(3):
            assert client("EVAL", COUNTS, 1, key) == 55
        until(lambda: all(processes.limits(pid)["Max open files"] == ("0", "0") for pid in processes.workers(gateway)),
              what="their limits")
    assert len([line for line in gateway.said if "seccomp" in line]) == 1, gateway.said


def test_known_scripts_alone_if_that_is_wanted(start, quorum, key):
    gateway = start(quorum.nodes, "--scripts", "known")
    with gateway.connect() as client:
        serves_known_scripts_alone(client, key)
    assert processes.children(gateway.process.pid) == []


def test_another_program_in_its_place_is_not_taken_for_it(start, quorum, key, tmp_path):
    """As a package does that is upgraded while the gateway runs."""
    source = PROGRAM.parent
    for name in ("redlock", "redlock-serve", "redlock-script"):
        (tmp_path / name).write_bytes((source / name).read_bytes())
        (tmp_path / name).chmod(0o755)
    gateway = start(quorum.nodes, binary=str(tmp_path / "redlock"))
    with gateway.connect() as client:
        assert client("EVAL", COUNTS, 1, key) == 55
        (tmp_path / "redlock-script").unlink()
        (tmp_path / "redlock-script").write_text("#!/bin/sh\nexit 1\n")
        first = processes.spawner(gateway)
        processes.kill(first)
        until(lambda: processes.spawner(gateway) not in (first, None), what="another that starts them")
        assert client("EVAL", COUNTS, 1, key) == 55


def cycles(gateway, key, number, ends, counts):
    """Takes and gives back by scripts that a worker runs; a client that is granted the lock has it alone."""
    with gateway.connect(timeout=30) as client:
        value = f"v{number}"
        while not ends.is_set():
            client.send("EVAL", TAKES, 1, key, value, 20000)
            taken = client.read()
            if isinstance(taken, Error):  # it may have it or not
                counts["lost"] += 1
                client.send("EVAL", RELEASE, 1, key, value)
                client.read()
                continue
            if taken != 1:
                continue
            counts["holders"] += 1
            counts["twice"] += counts["holders"] > 1
            counts["taken"] += 1
            time.sleep(0.003)  # the others try meanwhile
            counts["holders"] -= 1
            client.send("EVAL", GIVES, 1, key, value)
            if client.read() != 1:
                client.send("EVAL", RELEASE, 1, key, value)
                client.read()


@pytest.mark.parametrize("spawners", [False, True])
def test_no_lock_is_granted_twice_while_they_are_ended(own, key, spawners):
    counts, ends = {"lost": 0, "holders": 0, "twice": 0, "taken": 0}, threading.Event()
    threads = [threading.Thread(target=cycles, args=(own, key, number, ends, counts)) for number in range(6)]
    with processes.Killer(own, 0.05, random.Random(7), spawners) as killer:
        for thread in threads:
            thread.start()
        time.sleep(3)
        until(lambda: killer.killed > 10 and counts["taken"] > 20, 30, "enough cycles")  # a busy machine has few
        ends.set()
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()
    assert counts["twice"] == 0, counts
    with own.connect() as client:
        assert client("EVAL", COUNTS, 1, key) == 55
