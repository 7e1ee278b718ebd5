# SPDX-License-Identifier: BSD-2-Clause
"""run and elect as a service: what systemd sees of their end, and what the command sees of systemd."""
import configparser
import json
import os
import pathlib
import resource as limits
import shlex
import signal
import subprocess

import pytest

from conftest import BINARY, Redlock
from servers import until

UNIT = pathlib.Path(os.environ["REDLOCK_BUILD"]) / "redlock-elect@.service"
SIGNALS = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1]


def ready(path):
    return int(until(lambda: path.exists() and path.read_text().endswith("\n") and path.read_text()))


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("verb", ["run", "elect"])
def test_it_ends_by_the_signal_that_it_was_sent(locked, quorum, resource, tmp_path, verb, number):
    """Death by TERM is a clean end to systemd, 143 is a failure."""
    report = tmp_path / "status"
    process = locked.start(verb, "--mode", "classic", "--status-file", str(report), resource, "--", "sh", "-c",
                           f"echo $$ >{tmp_path}/pid; exec sleep 60", cwd=tmp_path,
                           preexec_fn=lambda: limits.setrlimit(limits.RLIMIT_CORE, (0, limits.getrlimit(limits.RLIMIT_CORE)[1])))
    ready(tmp_path / "pid")
    process.send_signal(number)
    assert process.wait(5) == -number
    assert json.loads(report.read_text())["exit"] == 128 + number, "what a shell shows"
    assert quorum.values(resource) == [None] * 5, "after the lock was released"


def test_a_shell_sees_the_same_status(locked, resource, tmp_path):
    script = f'"$0" run {resource} -- sh -c "echo \\$\\$ >{tmp_path}/pid; exec sleep 60" & wait_for=$!; ' \
             f'until [ -s {tmp_path}/pid ]; do sleep 0.05; done; kill $wait_for; wait $wait_for; echo "status $?"'
    done = subprocess.run(["sh", "-c", script, BINARY], env=locked.environ, capture_output=True, text=True, timeout=20, check=True)
    assert done.stdout == "status 143\n"


@pytest.mark.parametrize("script, status", [("trap 'exit 0' TERM", 0), ("trap 'exit 143' TERM", 143)],
                         ids=["it ends well", "its own 143"])
def test_the_end_of_the_command_counts(locked, resource, tmp_path, script, status):
    process = locked.start("run", resource, "--", "sh", "-c", f"{script}; echo $$ >{tmp_path}/pid; while :; do sleep 0.02; done")
    ready(tmp_path / "pid")
    process.terminate()
    assert process.wait(5) == status


def test_what_the_signal_of_somebody_else_ended_is_a_status(locked, resource):
    assert locked("run", resource, "--", "sh", "-c", "kill -TERM $$").returncode == 143


@pytest.mark.parametrize("whose", ["$$", "1", "1$$"], ids=["ours", "another's", "one like ours"])
def test_the_watchdog_and_the_sockets_are_for_the_command(locked, resource, whose):
    show = 'echo "$$ $WATCHDOG_PID $LISTEN_PID $LISTEN_FDS"'
    script = f"export WATCHDOG_PID={whose} LISTEN_PID={whose} LISTEN_FDS=1; echo {whose}; exec {BINARY} run {resource} -- sh -c '{show}'"
    done = subprocess.run(["sh", "-c", script], env=locked.environ, capture_output=True, text=True, timeout=20, check=True)
    given, line = done.stdout.splitlines()
    pid, watchdog, listen, sockets = line.split()
    assert (watchdog, listen, sockets) == ((pid, pid, "1") if whose == "$$" else (given, given, "1"))


# ---- the unit ----

def service():
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str
    parser.read(UNIT)
    return parser


def test_the_unit_runs_the_program_of_its_name_and_stops_cleanly(three, tmp_path):
    redlock = Redlock(three.nodes)
    assert redlock("quorum", "init", "--yes", "--never-used", "--ttl-max", "60s").returncode == 0
    words = shlex.split(service()["Service"]["ExecStart"].replace("%i", "scheduler"))
    assert words[1:] == ["elect", "scheduler", "--", "/etc/redlock/elect/scheduler"]
    program = tmp_path / "scheduler"
    program.write_text(f"#!/bin/sh\necho $REDLOCK_TERM >{tmp_path}/leads\nexec sleep 60\n")
    program.chmod(0o755)
    process = redlock.start(*words[1:-1], str(program))
    assert ready(tmp_path / "leads") > 0
    process.terminate()
    assert process.wait(5) == -signal.SIGTERM
    assert three.values("scheduler") == [None] * 3
    assert service()["Unit"]["AssertFileIsExecutable"] == words[-1].replace("scheduler", "%i") and service()["Service"]["Restart"] == "always"
