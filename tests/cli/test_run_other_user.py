# SPDX-License-Identifier: BSD-2-Clause
"""Processes of another user under `redlock run`, which kill(2) refuses to signal: as with sudo(8)."""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import pytest

from conftest import BINARY
from processes import gone, holder_of
from servers import until
from worker import COMMAND, Worked

LOST = 80
NOBODY = 65534


@pytest.fixture
def tmp_path():
    """That of pytest is for its own user alone, whatever one test changes: another run sets it back."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="redlock-test-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def other_user(tmp_path):
    """A set-user-ID program as sudo(8) is one: what it runs cannot be signalled by its caller."""
    program = tmp_path / "as-root"
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("needs root, and setpriv(1)")
    shutil.copy(shutil.which("setpriv"), program)
    program.chmod(0o4755)
    if os.statvfs(program).f_flag & os.ST_NOSUID:
        pytest.skip("nosuid")
    directory = tmp_path / "ours"
    directory.mkdir(mode=0o777)
    directory.chmod(0o777)
    return f"{program} --reuid 0 --clear-groups"


def as_nobody(redlock, tmp_path, errors, *words):
    binary = tmp_path / "redlock"
    shutil.copy(BINARY, binary)
    binary.chmod(0o755)

    def become():
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    return subprocess.Popen([binary, *words], env={**redlock.environ, "HOME": "/"}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=errors, start_new_session=True, preexec_fn=become, cwd="/")


class Other:
    """A worker of another user under `redlock run`: the command itself, or left in the group."""

    def __init__(self, locked, resource, tmp_path, how, script, *options):
        self.worked = Worked(tmp_path / "ours" / "worked")
        work = tmp_path / "ours" / "work"
        work.write_text(f"import os\nopen({str(work)!r} + '.pid', 'w').write(str(os.getpid()))\n" + COMMAND)
        command = f"{how} {os.path.realpath(sys.executable)} {work} {self.worked.path} hears"
        self.report = tmp_path / "ours" / "status"
        self.errors = tmp_path / "errors"  # a pipe would not end before the worker does
        with open(self.errors, "wb") as errors:
            self.process = as_nobody(locked, tmp_path, errors, "run", "-t", "3s", "-k", "200ms", "--grace", "400ms", "--status-file", str(self.report),
                                     *options, resource, "--", "sh", "-c", script.format(other=command, pid=f"{work}.pid"))
        until(lambda: self.worked.last() > 0, 20, "work of the other user")
        self.worker = int(pathlib.Path(f"{work}.pid").read_text())
        assert pathlib.Path(f"/proc/{self.worker}").stat().st_uid == 0

    def said(self):
        return self.errors.read_text()

    def end(self):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.worker, signal.SIGKILL)

    def status(self):
        return json.loads(self.report.read_text())


@pytest.fixture
def other(locked, resource, tmp_path, other_user):
    started = []

    def start(script, *options):
        started.append(Other(locked, resource, tmp_path, other_user, script, *options))
        return started[0]
    yield start
    for each in started:
        each.end()
        each.process.wait()


def test_another_users_process_keeps_the_lock(quorum, resource, other):
    """A set-user-ID child that is left in the group."""
    run = other("{other} & until [ -s {pid} ]; do sleep 0.05; done; exit 0")
    time.sleep(4)  # longer than its TTL
    assert run.process.poll() is None and not gone(run.worker)
    assert quorum.holder(resource)
    run.end()
    assert run.process.wait(10) == 0
    assert f"the lock is kept for what it left running: pid {run.worker} (" in run.said()
    assert quorum.values(resource) == [None] * 5


@pytest.mark.parametrize("script", ["exec {other}", "{other}; true", "{other} & wait"], ids=["the command", "a child", "in the background"])
def test_a_signal_that_another_users_process_does_not_get(quorum, resource, other, script):
    """It is reported, and the lock is kept for as long as the process lives."""
    run = other(script)
    run.process.terminate()
    time.sleep(4)  # longer than its TTL
    assert run.process.poll() is None and not gone(run.worker)
    assert quorum.holder(resource)
    run.end()
    run.process.wait(10)
    said = run.said()
    assert f"pid {run.worker} (" in said and "uid 0): Operation not permitted" in said, said
    assert "sent" not in said
    assert quorum.values(resource) == [None] * 5


def test_the_front_of_another_users_process_is_killed(quorum, resource, other):
    run = other("{other} & wait")
    run.process.kill()
    time.sleep(4)  # longer than its TTL
    assert not gone(run.worker)
    assert quorum.holder(resource)
    run.end()
    until(lambda: quorum.values(resource) == [None] * 5)


@pytest.mark.parametrize("script", ["exec {other}", "{other} & wait"], ids=["the command", "a child"])
def test_a_lost_lock_of_another_users_process(quorum, resource, other, script):
    """Nothing keeps a lost lock: it is said plainly."""
    run = other(script)
    for server in quorum.servers:
        server.ask("SET", resource, "another's", "PX", "60000")
    said = until(lambda: "cannot end" in run.said() and run.said())
    assert f"cannot end pid {run.worker} (" in said and "it goes on without the lock" in said, said
    if script.startswith("exec"):
        assert "sent" not in said, said
    assert run.process.wait(10) == LOST
    assert not gone(run.worker)
    assert f"still running, without the lock: pid {run.worker} (" in run.said()
    status = run.status()
    assert status["outcome"] == "lost" and status["left_running"] == 1
    if script.startswith("exec"):
        assert status["command_status"] is None and status["command_signal"] is None, status


def test_the_maximum_hold_of_another_users_process(quorum, resource, other):
    """The lock is kept until then, and not given up sooner."""
    begun = time.monotonic()
    run = other("{other} & until [ -s {pid} ]; do sleep 0.05; done; exit 0", "--max-hold", "8s")
    assert run.process.wait(15) == LOST
    assert time.monotonic() - begun > 7.9
    assert not gone(run.worker)
    assert run.status()["outcome"] == "lost" and run.status()["left_running"] == 1
    assert f"pid {run.worker} (" in run.said()


def test_the_holder_of_another_users_process_is_killed(quorum, resource, other):
    run = other("{other} & wait")
    os.kill(holder_of(run.process.pid), signal.SIGKILL)
    assert run.process.wait(10) == LOST
    assert not gone(run.worker)
    assert f"still running: pid {run.worker} (" in run.said()
    assert run.status()["left_running"] == 1


def test_a_stopped_holder_of_another_users_process(quorum, resource, other):
    run = other("{other} & wait")
    holder = holder_of(run.process.pid)
    os.kill(holder, signal.SIGSTOP)
    said = until(run.said)
    assert f"still running without the lock: pid {run.worker} (" in said and "sent KILL" not in said, said
    assert run.process.wait(10) == LOST
