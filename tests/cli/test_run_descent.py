# SPDX-License-Identifier: BSD-2-Clause
"""What the command of `redlock run` starts, in whatever group or session: it ends before another client has the lock.

Each test has one command of each kind at once."""
import contextlib
import itertools
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

from conftest import BINARY, Redlock
from processes import children, gone, holder_of, name
from servers import until
from worker import COMMAND, Worked

LOST = 80
GOES = "({kind}) & until [ -e {go} ]; do sleep 0.02; done; exit 7"
TTL = 3  # on a busy machine a shorter one is lost for other reasons
# Each runs {work} in a group that is not the command's, but for the first.
KINDS = {"group": "{work} & wait",
         "timeout": "timeout 60 {work} & wait",
         "setsid -w": "setsid -w {work}; true",
         "set -m": "set -m; {work} & wait",
         "start_new_session": "{python} -c 'import subprocess, sys; subprocess.run(sys.argv[1:], start_new_session=True)' {work}",
         "hydra": "{work}; while kill -0 $PPID; do sleep 0.02; done",
         "daemon": "(setsid sh -c '{work} & wait' & ); until [ -s {pid} ]; do sleep 0.02; done; while kill -0 $(cat {pid}); do sleep 0.02; done"}


# Works in a process after the other, each in a session of its own, which lives for some milliseconds. It ignores TERM. A test that
# fails cannot end it.
HYDRA = COMMAND.replace("time.sleep(0.001)", "time.sleep(0.004)\n    if os.fork(): os._exit(0)\n    os.setsid()").replace("300", "60")


class Run:
    """One `redlock run` whose command has started a worker of this kind, which ignores TERM."""

    def __init__(self, redlock, kind, name, directory, *options, script="{kind}"):
        self.kind, self.name, self.redlock, self.taken = kind, name, redlock, None
        self.report = directory / f"{name}.status"
        self.go = directory / f"{name}.go"
        self.worked = Worked(directory / f"{name}.worked")
        program = directory / f"{name}.work"
        program.write_text(f"#!{sys.executable}\n" + f"import os\nopen({str(program)!r} + '.pid', 'w').write(str(os.getpid()))\n" +
                           (HYDRA if kind == "hydra" else COMMAND))
        program.chmod(0o755)
        self.pid_file = pathlib.Path(f"{program}.pid")
        line = KINDS[kind].format(pid=self.pid_file, work=f"{program} {self.worked.path} deaf", python=sys.executable)
        self.process = redlock.start("run", "-t", f"{int(TTL * 1000)}ms", "-k", "200ms", "--grace", "400ms", "--status-file", str(self.report),
                                     *options, name, "--", "bash", "-c", script.format(kind=line, go=self.go))

    def wait_working(self):
        until(lambda: self.worked.last() > 0, 20, f"work of {self.kind}")
        self.holder = holder_of(self.process.pid)
        self.worker = int(self.pid_file.read_text())

    def follow(self):
        """Another client waits for the lock, and `taken` becomes the time when it has it."""
        def wait():
            if self.redlock("acquire", "-t", "30s", "-w", "20s", self.name).returncode == 0:
                self.taken = time.monotonic()
        self.follower = threading.Thread(target=wait, daemon=True)
        self.follower.start()

    def status(self):
        return json.loads(self.report.read_text())

    def close(self):
        for pid in (self.holder, self.worker, self.process.pid):
            with contextlib.suppress(ProcessLookupError, TypeError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        for stream in (self.process.stdout, self.process.stderr):
            stream.close()


@contextlib.contextmanager
def runs(quorum, resource, tmp_path, *options, script="{kind}", kinds=tuple(KINDS)):
    with contextlib.ExitStack() as stack:
        started = []
        for i, kind in enumerate(kinds):
            run = Run(Redlock(quorum.nodes), kind, f"{resource}-{i}", tmp_path, *options, script=script)
            run.holder = run.worker = None
            stack.callback(run.close)
            started.append(run)
        for run in started:
            run.wait_working()
        yield started


def go(started):
    """The commands end, and leave their workers running."""
    for run in started:
        run.command = next(pid for pid in children(run.holder) if name(pid) == "bash")
        run.go.touch()
    for run in started:
        until(lambda run=run: gone(run.command), 20, f"the end of the command of {run.kind}")


def judge(started):
    """None has worked after another client had its lock, nor works now."""
    for run in started:
        run.follower.join(25)
    time.sleep(0.2)
    wrong = {run.kind: round(run.worked.last() - run.taken, 3) if run.taken else "the lock was never free"
             for run in started if run.taken is None or run.worked.last() > run.taken or not gone(run.worker)}
    assert not wrong


def test_term(quorum, resource, tmp_path):
    """The lock is released when the workers, too, have ended: by KILL, since they ignore TERM."""
    with runs(quorum, resource, tmp_path) as started:
        for run in started:
            run.follow()
            run.process.terminate()
        judge(started)
        assert [run.process.wait(10) for run in started if run.kind != "start_new_session"] == [-signal.SIGTERM] * (len(started) - 1)


def test_sigkill_of_the_front(quorum, resource, tmp_path):
    with runs(quorum, resource, tmp_path) as started:
        for run in started:
            run.follow()
            run.process.kill()
        judge(started)


def test_sigkill_of_the_holder(quorum, resource, tmp_path):
    with runs(quorum, resource, tmp_path) as started:
        for run in started:
            run.follow()
            os.kill(run.holder, signal.SIGKILL)
        judge(started)
        assert [run.process.wait(10) for run in started] == [LOST] * len(started)


def test_a_stopped_holder(quorum, resource, tmp_path):
    with runs(quorum, resource, tmp_path) as started:
        for run in started:
            run.follow()
            os.kill(run.holder, signal.SIGSTOP)
        judge(started)
        assert [run.process.wait(10) for run in started] == [LOST] * len(started)


# As HYDRA, without a pause: none of its processes lives as long as a look at all of them takes.
STORM = """
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

int main(int count, char **words) {
    struct timespec now;
    volatile long long *place = mmap(0, 8, PROT_READ | PROT_WRITE, MAP_SHARED, open(words[count - 1], O_RDWR), 0);
    signal(SIGTERM, SIG_IGN);
    for (long long end = 0; end == 0 || *place < end;) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        *place = now.tv_sec * 1000000000LL + now.tv_nsec;
        if (end == 0) end = *place + 20000000000LL;
        if (fork() != 0) _exit(0);
        setsid();
    }
}
"""


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_the_holder_of_a_storm_of_forks(locked, resource, tmp_path, sent):
    (tmp_path / "storm.c").write_text(STORM)
    subprocess.run(["cc", "-o", tmp_path / "storm", tmp_path / "storm.c"], check=True)
    worked = Worked(tmp_path / "worked")
    process = locked.start("run", "-t", f"{TTL}s", "-k", "200ms", "--grace", "400ms", "--status-file", str(tmp_path / "status"), resource, "--",
                           "sh", "-c", f"{tmp_path}/storm {worked.path}; sleep 60")
    until(worked.last)
    holder = holder_of(process.pid)
    os.kill(holder, sent)
    assert locked("acquire", "-t", "30s", "-w", "20s", resource).returncode == 0
    taken = time.monotonic()
    time.sleep(0.2)
    late = worked.last() - taken
    assert late < 0, f"it has worked {late:.3f} s longer than the lock"
    assert process.wait(10) == LOST
    said = process.stderr.read().decode()
    process.stderr.close()
    assert ("is stopped or blocked, and the validity ends; sent KILL\n" if sent == signal.SIGSTOP else
            "the process that held the lock was killed: the command is ended") in said
    assert said.count("redlock: ") == 1, said
    assert json.loads((tmp_path / "status").read_text()) == {"outcome": "lost", "exit": 80, "command_status": None, "command_signal": 9}


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_the_holder_of_what_is_left_running(quorum, resource, tmp_path, sent):
    """How the command itself ended is not known; not by a signal of redlock."""
    with runs(quorum, resource, tmp_path, script=GOES, kinds=("set -m",)) as started:
        go(started)
        time.sleep(0.5)
        started[0].follow()
        os.kill(started[0].holder, sent)
        judge(started)
        assert started[0].process.wait(10) == LOST
        assert started[0].status() == {"outcome": "lost", "exit": 80, "command_status": None, "command_signal": None}


def test_loss(own_quorum, resource, tmp_path):
    with runs(own_quorum, resource, tmp_path) as started:
        for server in own_quorum.servers[:3]:
            server.pause()
        time.sleep(TTL)
        for run in started:
            run.follow()
        for server in own_quorum.servers[:3]:
            server.resume()
        judge(started)
        assert [run.process.wait(10) for run in started] == [LOST] * len(started)


def test_break(quorum, resource, tmp_path):
    """Noticed by the next renewal; all are gone when `redlock run` is."""
    with runs(quorum, resource, tmp_path) as started:
        for run in started:
            assert run.redlock("break", "--yes", "--no-syslog", "--reason", "a test", run.name).returncode == 0
        assert [run.process.wait(10) for run in started] == [LOST] * len(started)
        assert [run.kind for run in started if not gone(run.worker)] == []


def test_max_hold(quorum, resource, tmp_path):
    with runs(quorum, resource, tmp_path, "--max-hold", "8s") as started:
        for run in started:
            run.follow()
        judge(started)
        assert [run.process.wait(10) for run in started] == [LOST] * len(started)


# ---- what the command leaves running ----

CALM = tuple(kind for kind in KINDS if kind != "hydra")  # those that the test can end, too


def test_what_is_left_running_keeps_the_lock(quorum, resource, tmp_path):
    """As with flock(1): renewed, until the last has ended; then the status is the command's."""
    with runs(quorum, resource, tmp_path, script=GOES, kinds=CALM) as started:
        for run in started:
            run.follow()
        go(started)
        time.sleep(2 * TTL)
        assert [run.kind for run in started if run.process.poll() is not None or run.taken is not None] == []
        for run in started:
            os.kill(run.worker, signal.SIGKILL)
        judge(started)
        assert [run.process.wait(10) for run in started] == [7] * len(started)
        for run in started:
            said = run.process.stderr.read().decode()
            assert said.count("the command has ended; the lock is kept for what it left running: pid ") == said.count("redlock: ") == 1, said
            assert run.status() == {"outcome": "command", "exit": 7, "command_status": 7, "command_signal": None}


def test_a_signal_ends_what_is_left_running(quorum, resource, tmp_path):
    with runs(quorum, resource, tmp_path, script=GOES) as started:
        go(started)
        for run, number in zip(started, itertools.cycle((signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT))):
            run.follow()
            run.process.send_signal(number)
        judge(started)
        assert [run.process.wait(10) for run in started] == [7] * len(started)


def test_a_command_that_a_signal_ended_leaves_nothing_running(quorum, resource, tmp_path):
    with runs(quorum, resource, tmp_path, script=GOES.replace("exit 7", "kill -KILL $$")) as started:
        for run in started:
            run.follow()
        go(started)
        judge(started)
        assert [run.process.wait(10) for run in started] == [137] * len(started)


def test_what_is_left_running_ends_when_the_front_is_killed(quorum, resource, tmp_path):
    with runs(quorum, resource, tmp_path, script=GOES) as started:
        go(started)
        for run in started:
            run.follow()
            run.process.kill()
        judge(started)


def test_what_is_left_running_ends_when_the_lock_is_lost(quorum, resource, tmp_path):
    with runs(quorum, resource, tmp_path, script=GOES) as started:
        go(started)
        for run in started:
            for server in quorum.servers:
                server.ask("DEL", run.name)
        assert [run.process.wait(10) for run in started] == [LOST] * len(started)
        assert [run.kind for run in started if not gone(run.worker)] == []


def test_leave_behind(quorum, resource, tmp_path):
    """For daemons that shall stay: the lock ends with the command, and they go on."""
    with runs(quorum, resource, tmp_path, "--leave-behind", script=GOES, kinds=CALM) as started:
        for run in started:
            run.follow()
        go(started)
        assert [run.process.wait(10) for run in started] == [7] * len(started)
        for run in started:
            run.follower.join(10)
            os.set_blocking(run.process.stderr.fileno(), False)  # the worker has it, too
            assert run.process.stderr.read() is None
        assert [run.kind for run in started if gone(run.worker)] == []


def test_leave_behind_does_not_apply_to_a_loss(quorum, resource, tmp_path):
    with runs(quorum, resource, tmp_path, "--leave-behind") as started:
        for run in started:
            run.follow()
            os.kill(run.holder, signal.SIGSTOP)
        judge(started)


def test_processes_that_redlock_has_not_started_are_spared(quorum, resource, tmp_path):
    """A script that goes on as `redlock run`, by exec, keeps the children it had: also when the holder is killed."""
    script = f"sleep 60 & echo $! >{tmp_path}/before; exec {BINARY} run {resource} -- sh -c 'echo $$ >{tmp_path}/pid; exec sleep 60'"
    process = subprocess.Popen(["sh", "-c", script], env=Redlock(quorum.nodes).environ, stderr=subprocess.PIPE)
    until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().endswith("\n"))
    before = int((tmp_path / "before").read_text())
    os.kill(holder_of(process.pid), signal.SIGKILL)
    assert process.wait(10) == LOST
    process.stderr.close()
    spared = not gone(before)
    os.kill(before, signal.SIGKILL)
    assert spared
    assert gone(int((tmp_path / "pid").read_text()))


def test_without_proc(quorum, resource, tmp_path):
    """What cannot be promised is said before the command runs; the command's own group ends with the holder."""
    redlock = Redlock(quorum.nodes)
    private = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]
    mounted = subprocess.run([*private, "mount", "-t", "tmpfs", "none", "/proc"], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("no namespace of mounts here: " + mounted.stderr.decode().strip())
    done = subprocess.run([*private, "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh", BINARY, "run", resource, "--", "true"],
                          env=redlock.environ, capture_output=True, timeout=30)
    assert done.returncode == 0
    assert b"a process that leaves the command's process group is not found, and may outlive the lock: mount /proc" in done.stderr
    pid = tmp_path / "pid"
    job = subprocess.Popen([*private, "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh", BINARY, "run", "-t", "5s", resource, "--", "sh", "-c",
                            f"sleep 60 & echo $! >{pid}; wait"], env=redlock.environ, stderr=subprocess.DEVNULL)
    until(lambda: pid.exists() and pid.read_text().endswith("\n"))
    os.kill(holder_of(job.pid), signal.SIGKILL)
    assert job.wait(10) == LOST
    assert gone(int(pid.read_text()))
