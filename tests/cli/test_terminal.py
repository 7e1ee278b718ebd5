# SPDX-License-Identifier: BSD-2-Clause
"""Job control as a person at a terminal meets it: an interactive bash on a pseudo-terminal."""
import os
import pty
import re
import select
import signal
import time

import pytest

from conftest import BINARY
from processes import gone, state
from servers import until

PROMPT = b"ready> "


class Terminal:
    """bash -i, or another command, on a terminal of its own."""

    def __init__(self, environ, *command):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.clear()
            os.environ.update({**environ, "PS1": PROMPT.decode(), "TERM": "dumb", "redlock": BINARY})
            command = command or ("bash", "--norc", "--noprofile", "--noediting", "-i")
            os.execvp(command[0], command)
        self.seen = b""

    def type(self, text):
        os.write(self.fd, text.encode())

    def expect(self, pattern, seconds=10):
        """Reads on until the pattern has come; returns what came up to its end."""
        end = time.monotonic() + seconds
        while True:
            found = re.search(pattern, self.seen)
            if found:
                text, self.seen = self.seen[:found.end()], self.seen[found.end():]
                return text.replace(b"\r\n", b"\n")
            assert time.monotonic() < end, f"{pattern!r} did not come; seen: {self.seen!r}"
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self.fd, 65536)
                except OSError as error:
                    raise AssertionError(f"the terminal closed; seen: {self.seen!r}") from error

    def command(self, line):
        """Runs a line to its end and returns its output."""
        self.type(line + "\n")
        self.expect(b"\n")  # the echo
        return self.expect(PROMPT)[:-len(PROMPT)].decode()

    def close(self):
        os.kill(self.pid, signal.SIGKILL)
        os.close(self.fd)
        os.waitpid(self.pid, 0)


@pytest.fixture
def terminal(locked):
    shell = Terminal(locked.environ)
    shell.expect(PROMPT)
    yield shell
    shell.close()


def pid_in(path):
    return int(until(lambda: path.exists() and path.read_text().endswith("\n") and path.read_text()))


def test_stop_resume_interrupt(terminal, quorum, resource, tmp_path):
    pid = tmp_path / "pid"
    terminal.type(f"$redlock run -t 600ms {resource} -- sh -c 'echo $$ >{pid}; exec sleep 60'\n")
    command = pid_in(pid)
    token = until(lambda: quorum.holder(resource))
    terminal.seen = b""
    terminal.type("\x1a")  # ^Z
    assert b"Stopped" in terminal.expect(PROMPT)
    assert state(command) == "T"
    assert "Stopped" in terminal.command("jobs")
    end = time.monotonic() + 1.5  # more than two TTLs
    while time.monotonic() < end:
        assert quorum.holder(resource) == token
        time.sleep(0.05)
    terminal.type("fg\n")
    until(lambda: state(command) == "S")
    assert quorum.holder(resource) == token
    terminal.type("\x03")  # ^C
    terminal.expect(PROMPT)
    assert terminal.command("echo status $?") == "status 130\n"
    assert gone(command)
    assert until(lambda: quorum.values(resource) == [None] * 5)


def test_stop_twice_and_go_on_in_the_background(terminal, resource, tmp_path):
    pid = tmp_path / "pid"
    terminal.type(f"$redlock run {resource} -- bash -c 'echo $$ >{pid}; while [ ! -e {pid}.end ]; do sleep 0.05; done; exit 7'\n")
    command = pid_in(pid)
    for _ in range(2):
        terminal.seen = b""
        terminal.type("\x1a")
        terminal.expect(PROMPT)
        assert state(command) == "T"
        terminal.type("fg\n")
        until(lambda: state(command) != "T")
    terminal.seen = b""
    terminal.type("\x1a")
    terminal.expect(PROMPT)
    terminal.command("bg")
    until(lambda: state(command) != "T")
    assert "Running" in terminal.command("jobs")
    (tmp_path / "pid.end").touch()
    terminal.type("wait %1; echo status $?\n")
    terminal.expect(b"status 7\r?\n")


def start_what_is_left_running(terminal, quorum, resource, pid):
    """The command has ended, and a process that it started in the background keeps the lock. The shell made it ignore ^C."""
    terminal.type(f"$redlock run -t 600ms {resource} -- sh -c 'sh -c \"echo \\$\\$ >{pid}; exec sleep 60\" & sleep 0.3; exit 7'\n")
    left = pid_in(pid)
    terminal.expect(b"what it left running")
    return left, quorum.holder(resource)


def test_interrupt_ends_what_is_left_running(terminal, quorum, resource, tmp_path):
    left, token = start_what_is_left_running(terminal, quorum, resource, tmp_path / "pid")
    assert token
    terminal.type("\x03")
    terminal.expect(PROMPT)
    assert gone(left)
    assert terminal.command("echo status $?") == "status 7\n"
    assert quorum.values(resource) == [None] * 5


def test_stop_while_something_is_left_running(terminal, quorum, resource, tmp_path):
    """The job is stopped, the shell has its terminal; what is left goes on and keeps the lock, and its end ends the job."""
    left, token = start_what_is_left_running(terminal, quorum, resource, tmp_path / "pid")
    terminal.type("\x1a")
    assert b"Stopped" in terminal.expect(PROMPT)
    time.sleep(1.5)  # more than two TTLs
    assert quorum.holder(resource) == token
    assert state(left) == "S"
    os.kill(left, signal.SIGKILL)
    until(lambda: quorum.values(resource) == [None] * 5)
    assert terminal.command("wait %1; echo status $?").endswith("status 7\n")


def test_background_command_that_reads_is_stopped_until_fg(terminal, resource, tmp_path):
    pid = tmp_path / "pid"
    terminal.command(f"$redlock run {resource} -- sh -c 'echo $$ >{pid}; read line; echo \"<$line>\"' &")
    command = pid_in(pid)
    until(lambda: state(command) == "T")
    until(lambda: "Stopped" in terminal.command("jobs"))
    terminal.type("fg\n")
    until(lambda: state(command) == "S")
    terminal.type("typed\n")
    terminal.expect(b"<typed>")
    terminal.expect(PROMPT)


def test_command_reads_the_terminal(terminal, resource, tmp_path):
    pid = tmp_path / "pid"
    terminal.type(f"$redlock run {resource} -- sh -c 'echo $$ >{pid}; read line; echo \"<$line>\"; exit 3'\n")
    pid_in(pid)
    terminal.type("typed\n")
    terminal.expect(b"<typed>")
    terminal.expect(PROMPT)
    assert terminal.command("echo status $?") == "status 3\n"
    assert terminal.command("echo the shell has its terminal again") == "the shell has its terminal again\n"


def test_interrupt_while_waiting(terminal, locked, quorum, resource):
    token = locked("acquire", resource).stdout.split()[0]
    terminal.type(f"$redlock run -v {resource} true\n")
    terminal.expect(b"held by ")
    terminal.type("\x03")
    terminal.expect(PROMPT)
    assert terminal.command("echo status $?") == "status 130\n"
    assert until(lambda: quorum.values(resource) == [token] * 5)


def test_stopped_while_waiting_keeps_nobody_waiting(terminal, locked, quorum, resource, tmp_path):
    locked("acquire", "-t", "1500ms", resource)
    ran = tmp_path / "ran"
    terminal.type(f"$redlock run -v -t 2s {resource} touch {ran}\n")
    terminal.expect(b"held by ")
    terminal.type("\x1a")
    assert b"Stopped" in terminal.expect(PROMPT)
    for _ in range(3):  # others get the lock meanwhile, again and again
        assert locked("run", "-w", "10s", resource, "true").returncode == 0
        time.sleep(0.3)
    assert until(lambda: quorum.values(resource) == [None] * 5)
    assert not ran.exists()
    terminal.command("fg")
    assert ran.exists()


def test_stopped_until_its_wait_is_over(terminal, locked, quorum, resource):
    locked("acquire", "-t", "1s", resource)
    terminal.type(f"$redlock run -v -w 2s {resource} true\n")
    terminal.expect(b"held by ")
    terminal.type("\x1a")
    terminal.expect(b"its wait ended while it was stopped")
    terminal.command("fg")
    assert quorum.values(resource) == [None] * 5


def test_stopped_by_a_signal_while_waiting_and_ended(locked, quorum, resource):
    locked("acquire", "-t", "1s", resource)
    process = locked.start("run", "-v", resource, "true")
    os.kill(process.pid, signal.SIGSTOP)
    assert locked("run", "-w", "10s", resource, "true").returncode == 0
    os.kill(process.pid, signal.SIGTERM)
    os.kill(process.pid, signal.SIGCONT)
    # The lock was free. The signal ends the wait, or the command, or comes after the command.
    assert process.wait(10) in (0, -signal.SIGTERM, 128 + signal.SIGTERM)
    assert until(lambda: quorum.values(resource) == [None] * 5)


PIPED = pytest.mark.parametrize("arguments", ["run x", "up -q -n 1"], ids=["run", "up"])


@PIPED
def test_the_reader_of_a_pipe_keeps_the_terminal(terminal, arguments, tmp_path):
    """As a pager does: it reads keys from the terminal while the command goes on."""
    pid, interrupts = tmp_path / "pid", tmp_path / "interrupts"
    command, pager = tmp_path / "command", tmp_path / "pager"
    command.write_text(f"trap 'echo INT >>{interrupts}' INT; echo $$ >{pid}\nseq 1 300000\nwhile [ ! -e {pid}.end ]; do sleep 0.02; done\n")
    pager.write_text('trap : INT; read line; read key </dev/tty; echo "[$line $key]"; while read -r line || [ $? -gt 128 ]; do :; done\n')
    terminal.type(f"$redlock {arguments} -- bash {command} | bash {pager}\n")
    command = pid_in(pid)
    terminal.type("typed\n")
    terminal.expect(rb"\[1 typed\]")
    terminal.seen = b""
    terminal.type("\x1a")
    assert b"Stopped" in terminal.expect(PROMPT)
    assert state(command) == "T"
    terminal.type("fg\n")
    until(lambda: state(command) != "T")
    terminal.type("\x03")
    until(interrupts.exists)
    time.sleep(0.3)
    assert interrupts.read_text() == "INT\n"  # once
    (tmp_path / "pid.end").touch()
    terminal.expect(PROMPT)
    assert gone(command)


@PIPED
def test_a_command_in_a_pipeline_gets_the_terminal_when_it_reads_it(terminal, arguments):
    terminal.type(f"$redlock {arguments} -- sh -c 'read line </dev/tty; echo \"<$line>\"' | cat\n")
    time.sleep(0.5)
    terminal.type("typed\n")
    terminal.expect(b"<typed>")
    terminal.expect(PROMPT)
    assert terminal.command("echo the shell has its terminal again") == "the shell has its terminal again\n"


@pytest.mark.parametrize("arguments", [["run", "x"], ["up", "-q", "-n", "1"]], ids=["run", "up"])
def test_stop_without_a_shell_to_go_on_stops_nothing(locked, tmp_path, arguments):
    """As under ssh -t or docker run -t, where nobody could continue it."""
    pid = tmp_path / "pid"
    script = f"trap 'echo continued' CONT; echo $$ >{pid}; while :; do sleep 0.02; done"
    alone = Terminal(locked.environ, BINARY, *arguments, "--", "bash", "-c", script)
    try:
        command = pid_in(pid)
        for _ in range(2):
            alone.type("\x1a")
            alone.expect(b"continued")
            until(lambda: state(command) != "T")
        alone.type("\x03")
        until(lambda: gone(command))
    finally:
        alone.close()


@pytest.mark.parametrize("arguments", [["run", "-v", "-t", "2s"], ["acquire", "-w", "20s"]], ids=["run", "acquire"])
def test_stop_while_waiting_without_a_shell_to_go_on(locked, resource, arguments):
    locked("acquire", "-t", "1500ms", resource)
    alone = Terminal(locked.environ, BINARY, *arguments, resource, *(["true"] if arguments[0] == "run" else []))
    try:
        time.sleep(0.3)  # it waits
        for _ in range(3):
            alone.type("\x1a")
            time.sleep(0.1)
        assert until(lambda: state(alone.pid) in (None, "Z"))
    finally:
        alone.close()


def test_lost_while_stopped_ends_the_job(terminal, quorum, resource, tmp_path):
    pid = tmp_path / "pid"
    terminal.type(f"$redlock run -t 1s {resource} -- sh -c 'echo $$ >{pid}; exec sleep 60'\n")
    command = pid_in(pid)
    terminal.seen = b""
    terminal.type("\x1a")
    terminal.expect(PROMPT)
    for server in quorum.servers:
        server.ask("DEL", resource)
    until(lambda: gone(command))
    until(lambda: "Exit 80" in terminal.command("jobs"))  # without fg


def test_many_stops_of_a_command_under_a_stopped_job(terminal, quorum, resource, tmp_path):
    """cpulimit(1) does so; the result must get through when nobody reads the news of each stop."""
    pid = tmp_path / "pid"
    terminal.type(f"$redlock run {resource} -- bash -c 'echo $$ >{pid}; while [ ! -e {pid}.end ]; do sleep 0.01; done; exit 7'\n")
    command = pid_in(pid)
    for _ in range(1000):
        os.kill(command, signal.SIGSTOP)
        until(lambda: state(command) == "T")
        time.sleep(0.0005)
        os.kill(command, signal.SIGCONT)
    (tmp_path / "pid.end").touch()
    until(lambda: gone(command))
    until(lambda: "Exit 7" in terminal.command("jobs"))


def test_interrupt_ends_the_script_that_called(terminal, resource, tmp_path):
    pid = tmp_path / "pid"
    script = tmp_path / "script"
    script.write_text(f"$redlock run {resource} -- sh -c 'echo $$ >{pid}; exec sleep 60'\necho the next line\n")
    terminal.type(f"bash {script}\n")
    pid_in(pid)
    terminal.seen = b""
    terminal.type("\x03")
    assert b"the next line" not in terminal.expect(PROMPT)


def test_stop_stops_the_script_that_called(terminal, resource, tmp_path):
    pid = tmp_path / "pid"
    script = tmp_path / "script"
    script.write_text(f"$redlock run {resource} -- sh -c 'echo $$ >{pid}; exec sleep 60'\necho the next line\n")
    terminal.type(f"sh {script}\n")
    command = pid_in(pid)
    terminal.seen = b""
    terminal.type("\x1a")
    assert b"Stopped" in terminal.expect(PROMPT)
    terminal.type("fg\n")
    until(lambda: state(command) == "S")
    terminal.type("\x03")
    terminal.expect(PROMPT)
    assert gone(command)


def test_up_says_what_its_shell_is(terminal, room):
    environ = " ".join(f"{name}={room.environ[name]}" for name in ("TMPDIR", room.mark.split("=")[0]))
    said = b"redlock: this shell has 1 node in REDLOCK_NODES, in classic mode; exit ends it\n"
    terminal.type(f"{environ} $redlock up -n 1 --mode classic -- sh\n")
    assert said in terminal.expect(b"exit ends it\r?\n")
    terminal.expect(PROMPT)
    assert terminal.command("$redlock run x -- true; echo status $?") == "status 0\n"
    terminal.command("exit")
    assert "this shell" not in terminal.command(f"{environ} $redlock up -n 1 -- sh -c exit")
    assert room.leftovers() == []


def test_up_with_an_interactive_command(terminal, room, tmp_path):
    pid = tmp_path / "pid"
    environ = " ".join(f"{name}={room.environ[name]}" for name in ("TMPDIR", room.mark.split("=")[0]))
    terminal.type(f"{environ} $redlock up -n 1 -- sh -c 'echo $$ >{pid}; read line; echo \"<$line>\"; exec sleep 60'\n")
    command = pid_in(pid)
    terminal.type("\x1a")
    assert b"Stopped" in terminal.expect(PROMPT)
    assert state(command) == "T"
    terminal.type("fg\n")
    until(lambda: state(command) == "S")
    terminal.type("typed\n")
    terminal.expect(b"<typed>")
    terminal.type("\x03")
    terminal.expect(PROMPT)
    assert terminal.command("echo status $?") == "status 130\n"
    assert room.leftovers() == []
