# SPDX-License-Identifier: BSD-2-Clause
"""run under SIGKILL: nothing outlives it, and the next one gets its turn."""
import json
import os
import pathlib
import signal
import subprocess
import time

import pytest

from conftest import BINARY
from processes import children, gone, holder_of, name, state
from servers import LIBC, until

LOST = 80
PTRACE_SEIZE = 0x4206
PTRACE_INTERRUPT = 0x4207
FAMILY = "echo $$ >{0}.child; sh -c 'echo $$ >{0}.grandchild; exec sleep 60' & wait"


def family(process, path):
    """The pids of the command and of its child, once both run; and the holder's."""
    pids = []
    for name in ("child", "grandchild"):
        file = path.with_name(f"{path.name}.{name}")
        pids.append(int(until(lambda: file.exists() and file.read_text().endswith("\n") and file.read_text())))
    return *pids, holder_of(process.pid)


def all_gone(*pids):
    return until(lambda: all(gone(pid) for pid in pids), 8, "the end of all")


def test_sigkill_of_the_front_ends_all(locked, quorum, resource, tmp_path):
    process = locked.start("run", resource, "--", "sh", "-c", FAMILY.format(tmp_path / "pid"))
    child, grandchild, holder = family(process, tmp_path / "pid")
    process.kill()
    process.wait()
    all_gone(child, grandchild, holder)
    assert until(lambda: quorum.values(resource) == [None] * 5)


def test_sigkill_of_the_front_of_a_stopped_holder(locked, quorum, resource, tmp_path):
    process = locked.start("run", "-t", "1s", resource, "--", "sh", "-c", FAMILY.format(tmp_path / "pid"))
    child, grandchild, holder = family(process, tmp_path / "pid")
    os.kill(holder, signal.SIGSTOP)
    process.kill()
    process.wait()
    all_gone(child, grandchild, holder)
    assert until(lambda: quorum.values(resource) == [None] * 5)


def test_sigkill_of_the_front_ends_what_ignores_term(locked, quorum, resource, tmp_path):
    process = locked.start("run", "-k", "300ms", resource, "--", "sh", "-c", "trap '' TERM; " + FAMILY.format(tmp_path / "pid"))
    child, grandchild, holder = family(process, tmp_path / "pid")
    process.kill()
    process.wait()
    time.sleep(0.1)
    assert not gone(child)  # it ignores TERM, and KILL is not due
    assert quorum.holder(resource)
    all_gone(child, grandchild, holder)
    assert until(lambda: quorum.values(resource) == [None] * 5)


def test_sigkill_of_the_front_while_waiting(locked, quorum, resource, tmp_path):
    token = locked("acquire", resource).stdout.split()[0]
    process = locked.start("run", resource, "touch", str(tmp_path / "ran"))
    holder = until(lambda: holder_of(process.pid))
    time.sleep(0.2)
    process.kill()
    process.wait()
    all_gone(holder)
    assert quorum.values(resource) == [token] * 5
    assert not (tmp_path / "ran").exists()


def test_sigkill_of_the_holder(locked, resource, tmp_path):
    report = tmp_path / "status"
    process = locked.start("run", "--status-file", str(report), resource, "--", "sh", "-c", FAMILY.format(tmp_path / "pid"))
    child, grandchild, holder = family(process, tmp_path / "pid")
    os.kill(holder, signal.SIGKILL)
    assert process.wait(5) == LOST
    assert gone(child) and gone(grandchild)
    assert b"was killed" in process.stderr.read()
    assert json.loads(report.read_text())["outcome"] == "lost"


def test_sigkill_of_the_holder_while_waiting(locked, quorum, resource, tmp_path):
    token = locked("acquire", resource).stdout.split()[0]
    report = tmp_path / "status"
    process = locked.start("run", "--status-file", str(report), resource, "touch", str(tmp_path / "ran"))
    os.kill(until(lambda: holder_of(process.pid)), signal.SIGKILL)
    assert process.wait(5) == 71
    assert b"was killed before the command ran" in process.stderr.read()
    assert json.loads(report.read_text())["outcome"] == "system"
    assert quorum.values(resource) == [token] * 5
    assert not (tmp_path / "ran").exists()


def processor_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_command_beyond_kill_is_waited_for_without_spinning(locked, quorum, resource, tmp_path):
    pid = tmp_path / "pid"
    process = locked.start("run", "-k", "0", resource, "--", "sh", "-c", f"echo $$ >{pid}; exec sleep 60")
    command = int(until(lambda: pid.exists() and pid.read_text()))
    holder = holder_of(process.pid)
    # A tracer that does not look keeps the killed from its parent, as a dead disk would.
    if LIBC.ptrace(PTRACE_SEIZE, command, None, None) != 0:
        pytest.skip("no process may be traced here")
    process.kill()
    process.wait()
    until(lambda: gone(command))
    time.sleep(1.2)  # KILL is not waited for longer than a second
    before = processor_seconds(holder)
    time.sleep(0.5)
    assert processor_seconds(holder) - before < 0.1
    assert quorum.holder(resource)
    os.waitpid(command, 0)
    all_gone(command, holder)
    assert until(lambda: quorum.values(resource) == [None] * 5)


@pytest.mark.parametrize("first", ["front", "holder"])
def test_sigkill_of_both_lets_the_next_in_when_the_ttl_ends(locked, quorum, resource, tmp_path, first):
    pid = tmp_path / "pid"
    process = locked.start("run", "-t", "2s", resource, "--", "sh", "-c", f"echo $$ >{pid}; exec sleep 60")
    child = int(until(lambda: pid.exists() and pid.read_text()))
    holder = holder_of(process.pid)
    waiter = locked.start("run", resource, "--", "date", "+%s.%N")
    time.sleep(0.3)
    # Stopped first, so that neither can react to the other's death. The holder by a tracer: a process that is only stopped is let go on
    # by the kernel (SIGHUP, SIGCONT) when its group has lost its last parent in the session.
    if LIBC.ptrace(PTRACE_SEIZE, holder, None, None) != 0:
        pytest.skip("no process may be traced here")
    LIBC.ptrace(PTRACE_INTERRUPT, holder, None, None)
    os.kill(process.pid, signal.SIGSTOP)
    until(lambda: (state(holder), state(process.pid)) == ("t", "T"))
    # A majority has let go when the third of five keys has ended; read while nobody can renew and before anybody can follow.
    ends = time.time() + sorted(server.ask("PTTL", resource) for server in quorum.servers)[2] / 1000
    for victim in ((process.pid, holder) if first == "front" else (holder, process.pid)):
        os.kill(victim, signal.SIGKILL)
    while not os.WIFSIGNALED(os.waitpid(holder, 0)[1]):
        pass
    process.wait()
    all_gone(child, holder)
    output, _ = waiter.communicate(timeout=10)
    assert waiter.returncode == 0
    assert ends - 0.05 < float(output) < ends + 0.3


def test_a_stop_while_the_command_starts(locked, resource):
    """Either all of the job is stopped or nothing is: a shell that reports it as stopped has its terminal back."""
    for attempt in range(25):
        process = subprocess.Popen([BINARY, "run", "-t", "2s", resource, "sleep", "0.8"], env=locked.environ,
                                   preexec_fn=os.setpgrp)  # in a job of its own, whose shell is this test
        time.sleep(attempt / 1000)
        os.killpg(process.pid, signal.SIGTSTP)
        time.sleep(0.25)
        holder = holder_of(process.pid)
        running = [child for child in children(holder or 0) if name(child) == "sleep" and state(child) not in ("T", "Z")]
        assert state(process.pid) != "T" or not running, attempt
        os.killpg(process.pid, signal.SIGCONT)
        assert process.wait(20) == 0
