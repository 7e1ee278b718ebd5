# SPDX-License-Identifier: BSD-2-Clause
"""The password of nodes, from a file and from a command."""
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import time

import pytest

from conftest import BINARY
from servers import until

USER = ("app", "on", "reset", ">first", "~*", "+@all")
GEHEIM = "geheim" * 50


@pytest.fixture
def nodes(three):
    """Three servers with a user `app`; the default user, by which the tests ask, stays."""
    for server in three.servers:
        server.ask("ACL", "SETUSER", *USER[:2], "resetpass", *USER[3:], f">{GEHEIM}")
        if server.ask("ACL", "GETUSER", "app")[4] is not None:
            server.ask("ACL", "SETUSER", "app", "allchannels")
    return three


@pytest.fixture
def password(tmp_path):
    path = tmp_path / "password"
    path.write_text(f"{GEHEIM}\nthe second line is for people\n")
    path.chmod(0o600)
    return path


@pytest.fixture
def config(nodes, tmp_path):
    """Writes a configuration with these lines, and returns its environment."""
    def write(*lines):
        path = tmp_path / "redlock.conf"
        path.write_text("\n".join([f"nodes = {nodes.nodes}", "node-user = app", *lines, ""]))
        return {"REDLOCK_CONFIG": str(path)}
    return write


def refused_logins(nodes):
    return sum(len(server.ask("ACL", "LOG")) for server in nodes.servers)


@pytest.mark.parametrize("source", ["file", "command"])
def test_a_lock(redlock, nodes, config, password, resource, source):
    environ = config(f"node-password-file = {password}" if source == "file" else f"node-password-command = cat {password} | head -n 1")
    done = redlock("run", "-v", resource, "--", "sh", "-c", f"{BINARY} extend $REDLOCK_RESOURCE && echo held && ps -ww -eo args", environ=environ)
    assert done.returncode == 0, done.stderr
    assert b"held" in done.stdout
    assert GEHEIM.encode() not in done.stdout + done.stderr
    assert refused_logins(nodes) == 0
    assert all(b"name=" in server.ask("CLIENT", "LIST") for server in nodes.servers)


def test_the_url_comes_first(redlock, nodes, config, password, resource):
    password.write_text("wrong")
    environ = {**config(f"node-password-file = {password}"), "REDLOCK_NODES": nodes.nodes.replace("redis://", f"redis://app:{GEHEIM}@")}
    assert redlock("acquire", resource, environ=environ).returncode == 0


def test_a_profile_chooses_again(redlock, config, password, resource):
    environ = config("node-password-command = echo wrong", "[p]", f"node-password-file = {password}")
    done = redlock("acquire", resource, environ=environ)
    assert (done.returncode, b"wrong user or password" in done.stderr) == (78, True), done.stderr
    assert redlock("acquire", "--profile", "p", resource, environ=environ).returncode == 0
    done = redlock("acquire", "--profile", "p", "--node-password-command", "echo wrong", resource + "2", environ=environ)
    assert (done.returncode, b"wrong user or password" in done.stderr) == (78, True), done.stderr


@pytest.mark.parametrize("line, words", [
    ("echo no vault today >&2; exit 3", "no password: node-password-command: exit status 3"),
    ("true", "its first line is empty"),
    ("echo; echo second", "its first line is empty"),
    ("printf 'a\\000b\\n'", "it printed a NUL byte"),
    ("head -c 65536 /dev/zero | tr '\\0' x", "its first line is longer than 65535 bytes"),
    ("kill -9 $$", "ended by signal 9"),
    ("/does/not/exist", "exit status 127"),
])
def test_a_command_that_gives_none(redlock, config, resource, line, words):
    done = redlock("acquire", resource, environ=config(f"node-password-command = {line}"))
    said = done.stderr.decode()
    assert done.returncode == 69, said
    assert words in said
    assert "no vault today" in said or "vault" not in line


def test_a_command_that_goes_on_failing(redlock, config, password, tmp_path):
    """It runs whenever a connection needs a password, and is reported at the beginning, once a minute, and at the end."""
    runs, errors, works = tmp_path / "runs", tmp_path / "errors", tmp_path / "works"
    environ = config(f"node-password-command = echo x >> {runs}; [ -e {works} ] || {{ echo no vault >&2; exit 3; }}; cat {password}")
    with errors.open("wb") as stderr:
        process = redlock.start("serve", "--listen", f"unix://{tmp_path}/socket", environ=environ, stderr=stderr)
        try:
            until(lambda: runs.exists() and len(runs.read_text().split()) > 6, 20)
            works.touch()
            until(lambda: "works again" in errors.read_text(), 20)
        finally:
            process.terminate()
            process.wait(10)
    said = errors.read_text()
    assert said.count("no vault\n") == 2, said
    assert said.count("redlock: node-password-command fails: exit status 3\n") == 1, said


def children(pid):
    """With theirs. One that ends meanwhile has none."""
    found = []
    for path in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in path.read_text().split():
                found += [int(child), *children(int(child))]
    return found


def test_a_command_that_hangs(redlock, config, resource, tmp_path):
    """The command's own time is longer than that of a connection, and the end of redlock ends it."""
    mark = tmp_path / "pid"
    began = time.monotonic()
    done = redlock("acquire", "-w", "3s", resource, environ=config(f"node-password-command = echo $$ > {mark}; sleep 60; true"))
    assert (done.returncode, b"no password: none within 1000 ms" in done.stderr) == (69, True), done.stderr
    assert time.monotonic() - began < 15
    until(lambda: not os.path.exists(f"/proc/{mark.read_text().strip()}"), what="the end of the command")


def test_a_command_that_leaves_another_one(redlock, config, password, resource):
    """As gpg leaves its agent, with the output open."""
    begun = time.monotonic()
    assert redlock("acquire", resource, environ=config(f"node-password-command = setsid sleep 7 2>/dev/null & cat {password}")).returncode == 0
    assert time.monotonic() - begun < 5


def test_a_job_and_the_command_do_not_know_each_other(redlock, nodes, config, password, resource, tmp_path):
    """A password is asked for while the job runs: its end neither waits for the command nor ends it early, and the
    command is not a part of the job."""
    slow, ran = tmp_path / "slow", tmp_path / "ran"
    environ = config(f"node-password-command = if test -e {slow}; then echo $$ > {ran}; sleep 60; fi; cat {password}")
    job = redlock.start("run", "-t", "3s", resource, "--", "sleep", "2", environ=environ)
    until(lambda: nodes.holder(resource), what="the lock")
    slow.touch()
    nodes[0].ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    began = time.monotonic()
    until(lambda: ran.exists() and ran.read_text().strip(), what="the command")
    out, said = job.communicate(timeout=20)
    assert (job.returncode, said) == (0, b""), out
    assert time.monotonic() - began < 8
    until(lambda: not os.path.exists(f"/proc/{ran.read_text().strip()}"), what="the end of the command")


def name_of(pid):
    """Empty: it has ended."""
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return ""


def test_signals_to_the_service_leave_the_command(redlock, nodes, config, password, resource, tmp_path):
    """TERM goes to every process of a systemd service; a job that ends slowly may still need a password."""
    environ = config(f"node-password-command = cat {password}")
    job = redlock.start("run", "-t", "2s", "-k", "10s", resource, "--", "sh", "-c", f"trap 'sleep 3; exit 5' TERM; touch {tmp_path}/ready; while :; do sleep 0.1; done", environ=environ)
    until((tmp_path / "ready").exists, what="the job")
    ours = [pid for pid in children(job.pid) if name_of(pid).startswith("redlock")]
    assert len(ours) == 3
    for pid in [job.pid, *ours]:
        os.kill(pid, signal.SIGTERM)
    for server in nodes.servers:
        server.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    out, said = job.communicate(timeout=20)
    assert (job.returncode, b"lost" in said) == (5, False), (out, said)


@pytest.fixture
def running(redlock, config, password, resource, tmp_path):
    """A job of five seconds, and the processes that get its password: the one that stays, and the one that runs the command."""
    job = redlock.start("run", "-t", "2s", resource, "--", "sh", "-c", f"touch {tmp_path}/ready; sleep 5",
                        environ=config(f"node-password-command = cat {password}"))
    until((tmp_path / "ready").exists, what="the job")
    yield job, [pid for pid in children(job.pid) if name_of(pid) == "redlock-passwd\n"]
    job.kill()


@pytest.mark.parametrize("which", [0, 1])
def test_a_stopped_password_process_delays_no_end(running, which):
    job, processes = running
    os.kill(processes[which], signal.SIGSTOP)
    out, said = job.communicate(timeout=12)
    assert (job.returncode, out, said) == (0, b"", b"")
    until(lambda: not any(name_of(pid) for pid in processes), what="their end")


def test_a_password_process_that_is_killed(running, nodes):
    job, processes = running
    os.kill(processes[1], signal.SIGKILL)
    for server in nodes.servers:
        server.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    out, said = job.communicate(timeout=20)
    assert (job.returncode, b"lost" in said) == (0, False), (out, said)


def test_files_that_cannot_be_used(redlock, config, password, resource):
    environ = config(f"node-password-file = {password}")
    password.unlink()
    done = redlock("acquire", resource, environ=environ)
    assert (done.returncode, done.stderr.decode()) == (78, f"redlock: cannot use the password file {password}: No such file or directory\n")
    password.write_text(GEHEIM)
    password.chmod(0o644)
    done = redlock("acquire", resource, environ=environ)
    assert (done.returncode, done.stderr.decode()) == (0, f"redlock: {password} holds a password, and all users of this machine can read it: chmod o-r {password}\n")
    assert redlock("acquire", "-q", "--", resource + "2", environ=environ).stderr == b""
    done = redlock("acquire", "-N", "redis://127.0.0.1:1", "--node-user", "app", resource)
    assert (done.returncode, b"user 'app' needs a password" in done.stderr) == (78, True), done.stderr


def test_doctor_and_the_written_configuration(redlock, nodes, password, resource, tmp_path):
    login = ["-N", nodes.nodes, "--node-user", "app", "--node-password-file", os.path.relpath(password, tmp_path)]
    for server in nodes.servers:
        server.ask("CONFIG", "SET", "requirepass", "another")
        server.password = "another"
    written = tmp_path / "written.conf"
    done = redlock("quorum", "init", *login, "--never-used", "--yes", "--ttl-max", "5s", "--write-config", str(written), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"node-user = app\nnode-password-file = {password}\n" in written.read_text()
    environ = {"REDLOCK_CONFIG": str(written)}
    report = json.loads(redlock("doctor", "--json", "--samples", "1", environ=environ).stdout)
    assert [node["door"]["password"] for node in report["nodes"]] == [True] * 3
    assert redlock("acquire", resource, environ=environ).returncode == 0


def test_no_process_is_left(redlock, config, password, resource):
    def helpers():
        listed = subprocess.run(["ps", "-ww", "-eo", "comm,args"], capture_output=True, text=True, check=True).stdout
        return [line for line in listed.splitlines() if line.startswith("redlock-passwd") and resource in line]
    environ = config(f"node-password-command = cat {password}")
    job = redlock.start("run", resource, "--", "sleep", "5", environ=environ)
    until(helpers, what="the process that runs the command")
    job.kill()  # the one that started it, so that nothing but the end of the socket can end it
    job.communicate(timeout=20)
    until(lambda: not helpers(), what="its end")
