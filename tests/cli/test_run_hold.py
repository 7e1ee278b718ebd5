# SPDX-License-Identifier: BSD-2-Clause
"""run --min-hold: the lock stays held although the command has ended."""
import os
import re
import signal
import time

import pytest

from conftest import Redlock
from processes import children
from servers import until
from test_terminal import Terminal

LOST, HELD, USAGE = 80, 75, 64


def longest(quorum, resource):
    """Of a majority: the least of their three longest remaining TTLs, in ms."""
    return sorted(server.ask("PTTL", resource) for server in quorum.servers)[len(quorum.servers) // 2]


def is_free(quorum, resource):
    return quorum.values(resource) == [None] * len(quorum.servers)


@pytest.fixture
def guarded(three):
    """ttl_max is 3 s."""
    redlock = Redlock(three.nodes)
    assert redlock("quorum", "init", "--yes", "--never-used", "--ttl-max", "3s").returncode == 0
    return redlock


@pytest.mark.parametrize("end", ["exit 0", "exit 3", "kill -SEGV $$"], ids=["success", "failure", "a fault"])
def test_a_short_job_of_two_hosts_runs_once(locked, quorum, resource, tmp_path, end):
    ran = tmp_path / "ran"
    job = ["run", "-t", "1s", "--wait", "500ms", "--min-hold", "5s", resource, "--", "sh", "-c", f"echo x >>{ran}; {end}"]
    begun = time.monotonic()
    first = locked(*job)
    assert first.returncode == {"exit 0": 0, "exit 3": 3}.get(end, 139)
    assert time.monotonic() - begun < 3, "it does not stay"
    assert 2000 < longest(quorum, resource) <= 5000
    time.sleep(0.5)
    assert locked(*job).returncode == HELD
    assert ran.read_text() == "x\n"
    until(lambda: is_free(quorum, resource), 8)
    assert 4.9 < time.monotonic() - begun < 7


def test_the_rest_is_shorter_than_the_keys_last(locked, quorum, resource):
    """An extension never shortens: so it stays, and the lock ends in time."""
    begun = time.monotonic()
    done = locked("run", "-t", "30s", "--min-hold", "1500ms", resource, "--", "sh", "-c", "exit 4")
    assert (done.returncode, done.stdout, done.stderr) == (4, b"", b"")
    assert 1.45 < time.monotonic() - begun < 3
    assert is_free(quorum, resource)


def test_a_command_that_takes_longer(locked, quorum, resource):
    begun = time.monotonic()
    assert locked("run", "--min-hold", "500ms", resource, "--", "sleep", "1").returncode == 0
    assert time.monotonic() - begun < 3
    assert is_free(quorum, resource)


@pytest.mark.parametrize("name", ["TERM", "INT"])
def test_a_signal_while_it_stays_leaves_the_lock(locked, quorum, resource, tmp_path, name):
    process = locked.start("run", "-v", "-t", "20s", "--min-hold", "10s", resource, "--", "sh", "-c", "exit 4")
    assert any(b"the lock stays held for " in line for line in iter(process.stderr.readline, b""))
    process.send_signal(getattr(signal, f"SIG{name}"))
    _, said = process.communicate(timeout=3)
    assert process.returncode == 4, "the status is that of the command, which had ended"
    assert re.search(rf"'{resource}' is not released \(--min-hold\): its keys last for 1[789]\.\d s more\n$", said.decode()), said
    assert longest(quorum, resource) > 15000


def test_a_command_that_was_ended_keeps_it_too(locked, quorum, resource):
    process = locked.start("run", "-t", "2s", "--min-hold", "10s", resource, "--", "sleep", "60")
    until(lambda: quorum.holder(resource))
    time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    assert process.wait(5) == -signal.SIGTERM
    assert longest(quorum, resource) > 7000


def test_longer_than_ttl_max(guarded, three, resource):
    """No key may last for the rest: it is renewed until one may."""
    begun = time.monotonic()
    assert guarded("run", "-t", "2s", "--min-hold", "6s", resource, "true").returncode == 0
    stayed = time.monotonic() - begun
    assert 2.9 < stayed < 5
    assert longest(three, resource) > 1000
    until(lambda: is_free(three, resource), 8)
    assert 5.9 < time.monotonic() - begun < 8


def test_term_leaves_as_much_as_ttl_max_allows(guarded, three, resource):
    process = guarded.start("run", "-t", "1s", "--min-hold", "60s", resource, "true")
    until(lambda: three.holder(resource))
    time.sleep(1.5)
    process.terminate()
    _, said = process.communicate(timeout=3)
    assert process.returncode == 0 and b"its keys last for 2." in said, said
    assert 1500 < longest(three, resource) <= 3000


def test_lost_while_it_stays(guarded, three, resource):
    process = guarded.start("run", "-t", "1s", "-v", "--min-hold", "60s", resource, "--", "sh", "-c", "exit 4")
    until(lambda: three.holder(resource))
    for server in three.servers:
        server.ask("DEL", resource)
    _, said = process.communicate(timeout=10)
    assert process.returncode == 4, "the command ended under its lock"
    assert b"lost '" in said and b"key" in said, said


def test_a_command_that_cannot_run_frees_the_lock(locked, quorum, resource, tmp_path):
    script = tmp_path / "script"
    script.write_text("#!/does/not/exist\n")
    script.chmod(0o755)
    assert locked("run", "--min-hold", "60s", resource, str(script)).returncode == 127
    assert is_free(quorum, resource)


def test_longer_than_the_maximum_hold(locked, resource, tmp_path):
    done = locked("run", "--max-hold", "30s", "--min-hold", "1m", resource, "true")
    assert done.returncode == USAGE
    assert b"--min-hold 60.0 s is longer than --max-hold 30.0 s" in done.stderr
    file = tmp_path / "redlock.conf"
    file.write_text("max-hold = 30s\nmin-hold = 1m\n")
    assert locked("run", resource, "true", environ={"REDLOCK_CONFIG": str(file)}).returncode == USAGE
    file.write_text("max-hold = 1s\nmin-hold = 1s\n")
    assert locked("run", resource, "true", environ={"REDLOCK_CONFIG": str(file)}).returncode == 0


def test_a_terminal_shows_why_it_stays(locked, resource):
    terminal = Terminal({**locked.environ, "COLUMNS": "80"})
    try:
        terminal.expect(b"ready> ")
        terminal.type(f"TERM=xterm $redlock run --min-hold 10s {resource} true\n")
        assert re.search(rb"stays held for [89]\.\d s more", terminal.expect(rb"\(--min-hold\)"))
        terminal.type("\x03")  # ^C: the line is cleared, and the prompt is there
        assert b"\r\x1b[K" in terminal.expect(b"ready> ", 3)
    finally:
        terminal.close()


def test_nodes_that_are_away_while_it_stays(locked, quorum, resource):
    """The lock counts as lost, and its keys stay: they must not be given to the next host."""
    process = locked.start("run", "-t", "6s", "--min-hold", "10s", resource, "sleep", "2")
    until(lambda: all(quorum.values(resource)))
    for server in quorum.servers[:3]:
        server.process.send_signal(signal.SIGSTOP)
    try:
        _, said = process.communicate(timeout=15)
    finally:
        for server in quorum.servers[:3]:
            server.process.send_signal(signal.SIGCONT)
    assert process.returncode == 0 and b"lost '" in said, said
    assert locked("acquire", resource).returncode == HELD


@pytest.mark.parametrize("options", [["-k", "1s"], ["--grace", "3s"]])
def test_as_long_as_max_hold(locked, quorum, resource, options):
    """--max-hold ends the command before, and the keys last."""
    begun = time.monotonic()
    process = locked.start("run", "-t", "10s", "--min-hold", "6s", "--max-hold", "6s", *options, resource, "--", "sleep", "20")
    process.communicate(timeout=15)
    assert process.returncode == LOST and time.monotonic() - begun < 5.9
    assert locked("run", "-w", "10s", resource, "true").returncode == 0
    assert time.monotonic() - begun > 5.5


def test_the_command_had_ended_when_the_holder_is_killed(locked, quorum, resource):
    process = locked.start("run", "-v", "-t", "20s", "--min-hold", "10s", resource, "--", "sh", "-c", "exit 4")
    assert any(b"the lock stays held for " in line for line in iter(process.stderr.readline, b""))
    [holder] = children(process.pid)
    os.kill(holder, signal.SIGKILL)
    assert process.wait(5) == 4
    assert longest(quorum, resource) > 15000
