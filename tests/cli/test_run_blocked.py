# SPDX-License-Identifier: BSD-2-Clause
"""run when nobody reads what it prints, and when the disk is full: the command still ends before
another client has the lock.

REDLOCK_BLOCKED_ROUNDS says how often each kind is tried; by hand: 100."""
import contextlib
import functools
import os
import pty
import resource as limits
import signal
import subprocess
import sys
import tempfile
import time

import pytest

from blocked import fill
from conftest import Redlock
from servers import until
from worker import COMMAND, Worked

ROUNDS = int(os.environ.get("REDLOCK_BLOCKED_ROUNDS", "2"))
AT_ONCE = 5  # lose their locks together: a round takes as long as its TTL
LOST = 80
TTL = 1.5


def nothing():
    """There is nothing left to do once the command works."""


@contextlib.contextmanager
def full_pipe(both=False):
    ends = os.pipe()
    stdout = ends[1] if both else subprocess.DEVNULL
    yield {"stderr": ends[1], "stdout": stdout}, lambda: fill(ends[1])
    for end in ends:
        os.close(end)


@contextlib.contextmanager
def stopped_terminal():
    """^S is typed."""
    terminal, ours = pty.openpty()
    yield {"stderr": ours, "stdout": ours}, lambda: os.write(terminal, b"\x13")
    for end in (terminal, ours):
        os.close(end)


@contextlib.contextmanager
def closed_reader():
    ends = os.pipe()
    yield {"stderr": ends[1], "stdout": ends[1]}, lambda: os.close(ends[0])
    os.close(ends[1])


@contextlib.contextmanager
def full_disk():
    """Not a byte can be written to a file, and the status file is one."""
    def limit():
        limits.setrlimit(limits.RLIMIT_FSIZE, (0, limits.RLIM_INFINITY))
    with open(os.devnull, "wb") as null:
        yield {"stderr": null, "stdout": null, "preexec_fn": limit}, nothing


@contextlib.contextmanager
def full_disk_for_all():
    """Standard error is a file on the full disk, too."""
    with full_disk() as (streams, _), tempfile.TemporaryFile() as log:
        yield {**streams, "stderr": log}, nothing


KINDS = {"pipe": full_pipe, "both-in-a-pipe": functools.partial(full_pipe, both=True),
         "terminal": stopped_terminal, "closed": closed_reader, "disk": full_disk,
         "disk-and-log": full_disk_for_all}


class Run:
    def __init__(self, nodes, kind, verbose, deaf, name, directory, stack):
        self.name = name
        self.report = directory / f"{name}.status"
        self.worked = Worked(directory / f"{name}.worked")
        streams, self.jam = stack.enter_context(KINDS[kind]())
        status = "/dev/full" if name.endswith("0") else str(self.report)
        words = ["run", *(["-v"] if verbose else []), "-t", f"{int(TTL * 1000)}ms", "-k", "200ms",
                 "--grace", "400ms", "--status-file", status, name, "--", sys.executable, "-c", COMMAND,
                 str(self.worked.path), "deaf" if deaf else "hears"]
        self.process = Redlock(nodes).start(*words, **streams)
        stack.callback(self.close)

    def close(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def wait_working(self):
        until(lambda: self.worked.last() > 0, what=f"work of {self.name}")

    def ends(self, seconds=5):
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None


def start_runs(nodes, kind, verbose, deaf, count, resource, tmp_path, stack):
    names = [f"{resource}-{i}" for i in range(count)]
    runs = [Run(nodes, kind, verbose, deaf, name, tmp_path, stack) for name in names]
    for run in runs:
        run.wait_working()
        run.jam()
    return runs


def batches():
    for first in range(0, ROUNDS, AT_ONCE):
        yield first, min(AT_ONCE, ROUNDS - first)


def wait_all(others):
    """When each of them had its lock."""
    taken = [None] * len(others)

    def look():
        for i, other in enumerate(others):
            if taken[i] is None and other.poll() is not None:
                taken[i] = time.monotonic()
        return None not in taken

    until(look, 20, "the lock for another client")
    assert [other.returncode for other in others] == [0] * len(others)
    return taken


def judge(wrong):
    assert not wrong, f"{len(wrong)} of {ROUNDS}: {wrong}"


@pytest.mark.parametrize("verbose", [False, True], ids=["quiet", "-v"])
@pytest.mark.parametrize("kind", KINDS)
def test_ends_before_another_client_has_the_lock(own_quorum, resource, tmp_path, kind, verbose):
    """A majority of the nodes is silent for longer than the TTL. The command ignores TERM: it is
    killed."""
    wrong = []
    for first, count in batches():
        with contextlib.ExitStack() as stack:
            runs = start_runs(own_quorum.nodes, kind, verbose, True, count, f"{resource}-{first}",
                              tmp_path, stack)
            for server in own_quorum.servers[:3]:
                server.pause()
            time.sleep(TTL)
            others = [Redlock(own_quorum.nodes).start("acquire", "-t", "30s", "-w", "20s", run.name)
                      for run in runs]
            for server in own_quorum.servers[:3]:
                server.resume()
            taken = wait_all(others)
            for run, at in zip(runs, taken):
                status, last = run.ends(), run.worked.last()
                if status != LOST or last > at:
                    wrong.append((run.name, status, round(last - at, 3)))
    judge(wrong)


@pytest.mark.parametrize("verbose", [False, True], ids=["quiet", "-v"])
@pytest.mark.parametrize("kind", KINDS)
def test_ends_when_its_keys_are_taken_away(quorum, resource, tmp_path, kind, verbose):
    """Nothing can stop a client that finds no key. The next renewal notices it, so the command works
    for less than a TTL."""
    wrong = []
    for first, count in batches():
        with contextlib.ExitStack() as stack:
            runs = start_runs(quorum.nodes, kind, verbose, False, count, f"{resource}-{first}",
                              tmp_path, stack)
            begun = time.monotonic()
            for run in runs:
                for server in quorum.servers:
                    server.ask("SET", run.name, "another's", "PX", "60000")
            for run in runs:
                status, worked = run.ends(), run.worked.last() - begun
                if status != LOST or worked > TTL:
                    wrong.append((run.name, status, round(worked, 3)))
    judge(wrong)
