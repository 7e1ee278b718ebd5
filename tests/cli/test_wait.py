# SPDX-License-Identifier: BSD-2-Clause
"""wait: until nobody holds the lock, and nothing is taken."""
import json
import re
import signal
import time

import pytest

from conftest import Redlock
from servers import Asking, Quorum
from test_wait_line import Screen

TOKEN = "0123456789abcdef0123456789abcdef01234567"


def keys(quorum):
    return [server.ask("DBSIZE") for server in quorum.servers]


def put(quorum, resource, ms, owner="db1:8949"):
    for server in quorum.servers:
        server.ask("SET", resource, f"{TOKEN}:{owner}", "PX", ms)


def remove(quorum, resource):
    for server in quorum.servers:
        server.ask("DEL", resource)


def test_free_at_once(locked, resource):
    began = time.monotonic()
    done = locked("wait", resource)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert time.monotonic() - began < 5


def test_until_it_is_released(locked, own_quorum, resource):
    asking = Redlock(own_quorum.nodes)
    put(own_quorum, resource, 60000)
    waits = asking.start("wait", resource)
    time.sleep(1)
    assert waits.poll() is None
    assert keys(own_quorum) == [1] * 5  # no place in a queue either
    released = time.monotonic()
    remove(own_quorum, resource)
    assert waits.wait(timeout=10) == 0
    assert time.monotonic() - released < 3
    assert waits.communicate() == (b"", b"")
    assert keys(own_quorum) == [0] * 5


def test_until_it_ends(locked, quorum, resource):
    put(quorum, resource, 1200)
    began = time.monotonic()
    assert locked("wait", resource).returncode == 0
    assert time.monotonic() - began > 1.1


def test_two_of_five_do_not_count(locked, quorum, resource):
    for server in quorum.servers[:2]:
        server.ask("SET", resource, TOKEN, "PX", "60000")
    assert locked("wait", "-w", "0", resource).returncode == 0


@pytest.mark.parametrize("options, status, least", [(["-w", "600ms"], 75, 0.6), (["-n"], 75, 0), (["-E", "3", "--timeout", "0"], 3, 0)])
def test_still_held(locked, quorum, resource, options, status, least):
    put(quorum, resource, 60000)
    began = time.monotonic()
    done = locked("wait", *options, resource)
    assert time.monotonic() - began >= least
    assert done.returncode == status
    text = done.stderr.decode()
    assert text.startswith(f"redlock: {resource}: held by db1:8949, ") and text.endswith(" s left (5 of 5)\n")
    assert locked("wait", "-q", *options, resource).stderr == b""


def test_several_are_free_in_one_look(locked, quorum, resource):
    """The first one is taken again while the second one is awaited."""
    first, second = resource + "-1", resource + "-2"
    put(quorum, first, 1000)
    put(quorum, second, 60000)
    waits = locked.start("wait", first, second)
    time.sleep(2)
    put(quorum, first, 60000)
    remove(quorum, second)
    time.sleep(1)
    assert waits.poll() is None
    remove(quorum, first)
    assert waits.wait(timeout=10) == 0
    done = locked("wait", "--json", first, second)
    assert json.loads(done.stdout) == {"result": "ok", "resources": [first, second]}
    put(quorum, second, 60000)
    failed = json.loads(locked("wait", "--json", "-n", first, second).stdout)
    assert (failed["result"], failed["resources"], failed["owner"], failed["exit"]) == ("held", [first, second], "db1:8949", 75)
    assert failed["failed"] == second and "resource" not in failed
    failed = json.loads(locked("wait", "--json", first, "-p", "x" * 70000).stdout)
    assert (failed["result"], failed["resources"]) == ("usage", [first])


def test_nodes_that_are_down(own_quorum, resource):
    asking = Redlock(own_quorum.nodes)
    for server in own_quorum.servers[:3]:
        server.pause()
    done = asking("wait", "-w", "1s", resource)
    assert done.returncode == 69
    assert f"{resource}: no quorum: 2 of 5 nodes answered, 3 needed" in done.stderr.decode()
    waits = asking.start("wait", resource)
    time.sleep(1)
    assert waits.poll() is None
    for server in own_quorum.servers[:3]:
        server.resume()
    assert waits.wait(timeout=20) == 0


def test_the_time_to_connect_is_part_of_the_wait(own_quorum, resource):
    for server in own_quorum.servers[:3]:
        server.pause()
    redlock = Redlock(own_quorum.nodes)
    began = time.monotonic()
    assert redlock("wait", "-w", "1500ms", resource).returncode == 69
    assert 1.4 < time.monotonic() - began < 2.3  # connecting alone takes a second


def test_what_waiting_does_not_cure(redlock, resource):
    with Quorum(2) as servers:
        done = redlock("wait", "-N", f"redis://:wrong@127.0.0.1:{servers[0].port}", resource, timeout=20)
    assert done.returncode == 78
    assert b"password" in done.stderr
    done = redlock("wait", environ={"REDLOCK_NODES": "redis://127.0.0.1:1"})
    assert (done.returncode, done.stderr) == (64, b"redlock: redlock wait needs a resource; try 'redlock wait --help'\n")


def test_interrupted(locked, quorum, resource):
    put(quorum, resource, 60000)
    waits = locked.start("wait", resource)
    time.sleep(0.5)
    waits.send_signal(signal.SIGINT)
    assert waits.wait(timeout=5) == -signal.SIGINT


def test_a_guarded_node_that_recovers_is_not_free(redlock, resource):
    """Its key may be lost: it has no say."""
    up = redlock.start("up", "-q", "-n", "3", "--mode", "guarded", "--ttl-max", "20s", "--", "sh", "-c", "echo $REDLOCK_NODES; exec sleep 60")
    try:
        nodes = up.stdout.readline().decode().strip()
        asking = Redlock(nodes, {"REDLOCK_MODE": "guarded"})
        assert asking("acquire", "-t", "20s", resource).returncode == 0
        for url in nodes.split(",")[:2]:
            password, port = re.fullmatch(r"redis://:(.*)@[0-9.]+:(\d+)", url).groups()
            Asking(int(port), password).ask("FLUSHALL")
        assert asking("wait", "-w", "500ms", resource).returncode == 69
    finally:
        up.send_signal(signal.SIGTERM)
        up.wait(timeout=20)


def test_line_on_a_terminal(locked, quorum, resource):
    name = resource[-8:]
    put(quorum, name, 60000)
    shown = Screen(locked.environ, "wait", name)
    found = shown.line(lambda found: int(found[1]) >= 1)
    assert (found[2], found[3], found[4]) == (name, None, "db1:8949")
    remove(quorum, name)
    assert shown.end() == (0, [""])
    put(quorum, name, 60000)
    shown = Screen(locked.environ, "wait", "-w", "1500ms", name)
    status, lines = shown.end()
    assert (status, lines[1:]) == (75, [""])
    assert lines[0].startswith(f"redlock: {name}: held by db1:8949, ")
