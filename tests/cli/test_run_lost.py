# SPDX-License-Identifier: BSD-2-Clause
"""run when the lock is lost: the command is told in time, and nobody else's lock is touched."""
import json
import os
import signal
import time

import pytest

from conftest import Redlock
from processes import gone, holder_of
from servers import until

LOST = 80
TRAP = "trap 'date +%s.%N; exit 5' TERM; echo $$ >{0}; while :; do sleep 0.02; done"


def start(redlock, pid, *arguments, script=TRAP):
    process = redlock.start("run", *arguments, "--", "bash", "-c", script.format(pid))
    until(lambda: pid.exists() and pid.read_text())
    return process


def test_holder_stopped_past_its_ttl(locked, quorum, resource, tmp_path):
    """The front ends the command when the validity is over, before another client can have the lock."""
    report, pid = tmp_path / "status", tmp_path / "pid"
    process = start(locked, pid, "-t", "700ms", "-k", "50ms", "--grace", "50ms", "--status-file", str(report), resource)
    holder = holder_of(process.pid)
    os.kill(holder, signal.SIGSTOP)
    done = locked("acquire", "-t", "30s", "-w", "5s", resource)
    assert done.returncode == 0
    assert gone(int(pid.read_text()))
    other = done.stdout.split()[0]
    output, errors = process.communicate(timeout=5)
    assert (process.returncode, output) == (LOST, b"")
    assert b"is stopped or blocked, and the validity ends; sent KILL\n" in errors
    assert gone(holder)
    assert quorum.values(resource).count(other) >= 3  # acquire ends when a majority has granted
    until(lambda: set(quorum.values(resource)) <= {other, None}, what="the end of the first lock's last key")
    assert json.loads(report.read_text()) == {"outcome": "lost", "exit": 80, "command_status": None, "command_signal": 9}


@pytest.mark.parametrize("script", [TRAP, "trap '' TERM; echo $$ >{0}; while :; do sleep 0.02; done"], ids=["obeys", "ignores"])
def test_all_of_it_stopped_past_the_ttl(locked, resource, tmp_path, script):
    """As in a suspended machine: no time is left for TERM and --kill-after."""
    pid = tmp_path / "pid"
    process = start(locked, pid, "-t", "700ms", "-k", "5s", resource, script=script)
    holder = holder_of(process.pid)
    os.kill(process.pid, signal.SIGSTOP)
    os.kill(holder, signal.SIGSTOP)
    time.sleep(1)
    assert not gone(int(pid.read_text()))
    os.kill(holder, signal.SIGCONT)
    until(lambda: gone(int(pid.read_text())), 0.5, "the end of the command")
    os.kill(process.pid, signal.SIGCONT)
    output, errors = process.communicate(timeout=5)
    assert (process.returncode, output) == (LOST, b"")  # TERM was not first
    assert b"stood still; sent KILL" in errors and b"is stopped or blocked" not in errors


def test_holder_stopped_past_its_ttl_with_on_lost_ignore(locked, resource, tmp_path):
    process = start(locked, tmp_path / "pid", "-t", "700ms", "-k", "50ms", "--grace", "50ms", "--on-lost", "ignore", resource, script="echo $$ >{0}; sleep 1.5; exit 4")
    holder = holder_of(process.pid)
    os.kill(holder, signal.SIGSTOP)
    time.sleep(1)
    os.kill(holder, signal.SIGCONT)
    assert process.wait(5) == 4


def test_killed_inside_the_validity_when_term_is_ignored(own_quorum, resource, tmp_path):
    script = "trap '' TERM; echo $$ >{0}; while :; do date +%s.%N; sleep 0.02; done"
    process = start(Redlock(own_quorum.nodes), tmp_path / "pid", "-t", "3s", "-k", "500ms", resource, script=script)
    for server in own_quorum.servers[:3]:
        server.pause()
    # Extended no later than now: by then, and by any clock, the keys of the live ones end the latest.
    ends = time.time() + 3.0
    output, errors = process.communicate(timeout=10)
    assert process.returncode == LOST
    last = float(output.split()[-1])
    assert last < ends
    assert b" timed out; sent TERM" in errors


def test_reported_by_the_grace_before_the_end(own_quorum, resource, tmp_path):
    process = start(Redlock(own_quorum.nodes), tmp_path / "pid", "-t", "4s", "-k", "1s", "--grace", "1500ms", resource)
    for server in own_quorum.servers[:3]:
        server.pause()
    stopped = time.time()
    output, _ = process.communicate(timeout=10)
    assert process.returncode == LOST
    # Last renewed at most a third of the TTL (1.33 s) before they stopped, and validity is the TTL less 42 ms of drift:
    # told between 4 - 1.33 - 1.5 - 0.1 and 4 - 1.5 seconds afterwards.
    assert 1.0 < float(output) - stopped < 2.6


def test_keys_removed_by_somebody(locked, quorum, resource, tmp_path):
    process = start(locked, tmp_path / "pid", "-t", "1s", resource)
    for server in quorum.servers:
        server.ask("DEL", resource)
    assert process.wait(5) == LOST
    assert quorum.values(resource) == [None] * 5  # not resurrected


def test_reason_and_nodes_of_the_status_file_agree(three, resource, tmp_path):
    """Both tell of the loss. The release comes later, and a node that it need not wait for has no verdict then."""
    report, go = tmp_path / "status", tmp_path / "go"
    script = f"exec 2>/dev/null; trap 'until [ -e {go} ]; do sleep 0.02; done; exit 5' TERM; echo $$ >{{0}}; while :; do sleep 0.02; done"
    process = start(Redlock(three.nodes), tmp_path / "pid", "-j", "--status-file", str(report), "-t", "2s", "-k", "10s", resource, script=script)
    for server in three.servers:
        server.ask("DEL", resource)
    said = process.stderr.readline().decode()
    assert "not have the key; sent TERM" in said, said
    blamed = [server for server in three.servers if "all 3 nodes" in said or f":{server.port}" in said]
    blamed[-1].pause()
    go.touch()
    process.communicate(timeout=10)
    told = json.loads(report.read_text())
    assert (told["outcome"], told["result"], process.returncode) == ("lost", "lost", LOST), told
    assert told["reason"] in said
    assert [node["url"] for node in told["nodes"] if node["verdict"] == "absent"] == [server.url for server in blamed], told
    assert [node["reason"] for node in told["nodes"] if node["verdict"] == "absent"] == ["key absent"] * len(blamed), told


def test_keys_removed_under_a_command_that_ends_before_renewal(locked, quorum, resource, tmp_path):
    process = start(locked, tmp_path / "pid", "-t", "60s", resource, script="echo $$ >{0}; sleep 0.5; exit 0")
    for server in quorum.servers:
        server.ask("SET", resource, "another's")
    assert process.wait(5) == LOST
    assert b"have another token; noticed when it was released" in process.stderr.read()
    assert quorum.values(resource) == [b"another's"] * 5


def test_on_lost_ignore(locked, quorum, resource, tmp_path):
    process = start(locked, tmp_path / "pid", "-t", "600ms", "-k", "50ms", "--grace", "50ms", "--on-lost", "ignore", resource, script="echo $$ >{0}; sleep 1.5; exit 4")
    for server in quorum.servers:
        server.ask("SET", resource, "another's")
    assert process.wait(5) == 4
    assert b"the command goes on without it" in process.stderr.read()
    assert quorum.values(resource) == [b"another's"] * 5


def test_max_hold(locked, quorum, resource, tmp_path):
    begun = time.monotonic()
    process = start(locked, tmp_path / "pid", "-t", "1s", "-k", "100ms", "--grace", "200ms", "--max-hold", "2s", resource)
    _, errors = process.communicate(timeout=10)
    assert process.returncode == LOST
    assert 1.2 < time.monotonic() - begun < 2.3
    assert b"the maximum hold of 2.0 s is over; sent TERM" in errors
    assert until(lambda: quorum.values(resource) == [None] * 5)


def test_max_hold_below_the_ttl(locked, quorum, resource, tmp_path):
    begun = time.monotonic()
    process = start(locked, tmp_path / "pid", "-k", "100ms", "--grace", "200ms", "--max-hold", "1s", resource)
    assert max(server.ask("PTTL", resource) for server in quorum.servers) <= 1000
    _, errors = process.communicate(timeout=10)
    assert process.returncode == LOST
    assert 0.6 < time.monotonic() - begun < 1.3
    assert b"the maximum hold of 1.0 s is over; sent TERM" in errors


def test_stopped_command_is_ended_too(locked, quorum, resource, tmp_path):
    pid = tmp_path / "pid"
    process = start(locked, pid, "-t", "1s", resource)
    os.kill(int(pid.read_text()), signal.SIGSTOP)
    for server in quorum.servers:
        server.ask("DEL", resource)
    assert process.wait(5) == LOST


def test_a_minority_lost_is_no_loss(own_quorum, resource, tmp_path):
    script = "echo $$ >{0}; sleep 2"
    process = start(Redlock(own_quorum.nodes), tmp_path / "pid", "-t", "900ms", resource, script=script)
    for server in own_quorum.servers[:2]:
        server.pause()
    assert process.wait(10) == 0
