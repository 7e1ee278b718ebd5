# SPDX-License-Identifier: BSD-2-Clause
"""run while its command starts: exec that takes long, and processes that stand still before it."""
import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import struct
import threading
import time

import pytest

from conftest import Redlock
from processes import children, gone, holder_of
from servers import LIBC, Quorum, until

LOST = 80
FAN_CLASS_CONTENT, FAN_CLOEXEC, FAN_OPEN_EXEC_PERM, FAN_ALLOW, FAN_DENY, FAN_MARK_ADD, AT_FDCWD = 4, 1, 0x40000, 1, 2, 1, -100
PTRACE_DETACH, PTRACE_SEIZE, PTRACE_GETEVENTMSG, PTRACE_O_TRACEFORK, WALL = 17, 0x4206, 0x4201, 2, 0x40000000


class Scanner:
    """An on-access scanner: who executes the file waits until the scanner has looked at it."""

    def __init__(self, path, seconds):
        libc = ctypes.CDLL(None, use_errno=True)
        self.seconds, self.answer, self.asked, self.answered, self.closed = seconds, FAN_ALLOW, threading.Event(), None, threading.Event()
        self.fd = libc.fanotify_init(FAN_CLASS_CONTENT | FAN_CLOEXEC, os.O_RDONLY)
        if self.fd < 0 or libc.fanotify_mark(self.fd, FAN_MARK_ADD, ctypes.c_uint64(FAN_OPEN_EXEC_PERM), AT_FDCWD, bytes(path)) != 0:
            pytest.skip(f"no scanner can be made here: {os.strerror(ctypes.get_errno())}")
        self.thread = threading.Thread(target=self._scan, daemon=True)
        self.thread.start()

    def _scan(self):
        while not self.closed.is_set():
            if not select.select([self.fd], [], [], 0.05)[0]:
                continue
            file = struct.unpack("IBBHqii", os.read(self.fd, 24))[5]
            self.asked.set()
            self.closed.wait(self.seconds)
            self.answered = time.monotonic()
            with contextlib.suppress(OSError):  # who asked was killed
                os.write(self.fd, struct.pack("iI", file, self.answer))
            os.close(file)

    def close(self):
        self.closed.set()
        self.thread.join()
        os.close(self.fd)


@pytest.fixture
def scanned(tmp_path):
    """A shell that a scanner looks at for 2.5 s: twice the TTL of these tests."""
    shell = tmp_path / "shell"
    shutil.copy(shutil.which("bash"), shell)
    scanner = Scanner(shell, 2.5)
    scanner.shell = str(shell)
    yield scanner
    scanner.close()


def start(redlock, scanned, tmp_path, resource, *options, verb="run"):
    script = f"date +%s.%N >>{tmp_path}/ran; sleep 0.3; date +%s.%N >>{tmp_path}/ran"
    process = redlock.start(verb, "-t", "1200ms", "-k", "200ms", "--grace", "400ms", "--status-file", str(tmp_path / "status"), *options,
                            resource, "--", scanned.shell, "-c", script)
    assert scanned.asked.wait(10)
    return process


def outcome(tmp_path):
    return json.loads((tmp_path / "status").read_text())["outcome"]


def test_the_lock_is_renewed_while_exec_takes_long(locked, resource, tmp_path, scanned):
    process = start(locked, scanned, tmp_path, resource)
    follower = locked("run", "-w", "20s", resource, "--", "date", "+%s.%N")
    assert process.wait(10) == 0
    assert float(follower.stdout) > float((tmp_path / "ran").read_text().split()[-1])


def test_terms_do_not_fall_while_exec_takes_long(resource, tmp_path, scanned):
    """elect: a leader of a lower term does not work after one of a higher."""
    with Quorum(3) as servers:
        redlock = Redlock(servers.nodes)
        assert redlock("quorum", "init", "--mode", "guarded", "--never-used", "--yes", "--ttl-max", "60s").returncode == 0
        process = start(redlock, scanned, tmp_path, resource, verb="elect")
        follower = redlock("elect", resource, "--", "date", "+%s.%N")
        assert process.wait(10) == 0
        assert float(follower.stdout) > float((tmp_path / "ran").read_text().split()[-1])


@pytest.mark.parametrize("options", [(), ("--on-lost", "ignore")], ids=["term", "ignore"])
def test_a_loss_while_exec_takes_long(locked, quorum, resource, tmp_path, scanned, options):
    """What has not started does not start, whatever --on-lost says."""
    process = start(locked, scanned, tmp_path, resource, *options)
    for server in quorum.servers:
        server.ask("SET", resource, "another's", "PX", "60000")
    assert process.wait(10) == LOST
    assert scanned.answered is None  # it is not waited for
    assert outcome(tmp_path) == "lost"
    time.sleep(2.5)
    assert not (tmp_path / "ran").exists()


def test_sigkill_of_the_front_while_exec_takes_long(locked, quorum, resource, tmp_path, scanned):
    process = start(locked, scanned, tmp_path, resource)
    child = until(lambda: children(holder_of(process.pid)))[0]
    process.kill()
    until(lambda: gone(child))
    assert scanned.answered is None
    until(lambda: quorum.values(resource) == [None] * 5)
    assert not (tmp_path / "ran").exists()


def test_a_stopped_holder_while_exec_takes_long(locked, resource, tmp_path, scanned):
    process = start(locked, scanned, tmp_path, resource)
    holder = holder_of(process.pid)
    os.kill(holder, signal.SIGSTOP)
    assert locked("acquire", "-t", "30s", "-w", "10s", resource).returncode == 0
    assert process.wait(10) == LOST
    time.sleep(2.5)
    assert not (tmp_path / "ran").exists()


def test_a_signal_while_exec_takes_long(locked, quorum, resource, tmp_path, scanned):
    process = start(locked, scanned, tmp_path, resource)
    process.terminate()
    assert process.wait(10) == -signal.SIGTERM
    assert scanned.answered is None
    assert quorum.values(resource) == [None] * 5
    assert not (tmp_path / "ran").exists()


def test_a_file_that_cannot_be_executed_after_a_long_look(locked, quorum, resource, tmp_path, scanned):
    """The error, too, may come late."""
    scanned.answer = FAN_DENY
    process = start(locked, scanned, tmp_path, resource)
    assert process.wait(10) == 126
    assert b"cannot run" in process.stderr.read()
    assert outcome(tmp_path) == "not-run"
    assert quorum.values(resource) == [None] * 5


@pytest.mark.parametrize("front", ["runs", "stopped"])
def test_a_child_that_stood_still_before_exec(locked, resource, tmp_path, front):
    """Holder and child stand still from fork on, until another client has the lock; the front may, too."""
    assert locked("acquire", "-t", "1s", resource).returncode == 0
    process = locked.start("run", "-t", "1200ms", "--status-file", str(tmp_path / "status"), resource, "touch", str(tmp_path / "ran"))
    holder = until(lambda: holder_of(process.pid))
    if LIBC.ptrace(PTRACE_SEIZE, holder, None, ctypes.c_void_p(PTRACE_O_TRACEFORK)) != 0:
        pytest.skip("no process may be traced here")
    os.waitpid(holder, WALL)
    child = ctypes.c_ulong(0)
    assert LIBC.ptrace(PTRACE_GETEVENTMSG, holder, None, ctypes.byref(child)) == 0
    os.waitpid(child.value, WALL)
    if front == "stopped":
        os.kill(process.pid, signal.SIGSTOP)
    assert locked("acquire", "-t", "30s", "-w", "10s", resource).returncode == 0
    LIBC.ptrace(PTRACE_DETACH, child.value, None, None)
    with contextlib.suppress(ChildProcessError):  # the front has killed it
        os.waitpid(child.value, WALL | os.WNOHANG)
    time.sleep(0.3)
    LIBC.ptrace(PTRACE_DETACH, holder, None, None)
    os.kill(process.pid, signal.SIGCONT)
    assert process.wait(10) == LOST
    assert not (tmp_path / "ran").exists()
    assert outcome(tmp_path) == "lost"
