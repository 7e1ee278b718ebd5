# SPDX-License-Identifier: BSD-2-Clause
"""run: the command's status, signals, streams and surroundings."""
import json
import os
import signal
import subprocess
import time

import pytest

from conftest import BINARY, Redlock
from processes import gone, holder_of, state, zombies_below
from servers import until

HELD, NO_QUORUM = 75, 69


def started(process, path):
    """Waits for the command to have written its process id, and returns it."""
    until(lambda: path.exists() and path.read_text().endswith("\n"), what="the command")
    assert process.poll() is None
    return int(path.read_text())


@pytest.mark.parametrize("script, status", [("exit 0", 0), ("exit 3", 3), ("exit 75", 75), ("kill -TERM $$", 143), ("kill -KILL $$", 137)])
def test_status_of_the_command(locked, quorum, resource, script, status):
    done = locked("run", resource, "--", "sh", "-c", script)
    assert (done.returncode, done.stdout, done.stderr) == (status, b"", b"")
    assert quorum.values(resource) == [None] * 5


@pytest.mark.parametrize("command, status, message", [("/does/not/exist", 127, "No such file"), ("redlock-no-such-command", 127, "No such file"),
                                                      ("/etc/passwd", 126, "Permission denied"), ("/", 126, "Permission denied")])
def test_command_that_cannot_be_run(locked, quorum, resource, tmp_path, command, status, message):
    report = tmp_path / "status"
    done = locked("run", "--status-file", str(report), resource, command)
    assert done.returncode == status
    assert f"cannot run '{command}': {message}" in done.stderr.decode()
    assert json.loads(report.read_text())["outcome"] == "not-run"
    assert quorum.values(resource) == [None] * 5


@pytest.mark.parametrize("verb", ["run", "elect"])
def test_a_command_that_is_not_there_is_not_waited_for(locked, quorum, resource, tmp_path, verb):
    """The lock is another's: without a look at the program it would wait for ever."""
    metrics, plain = tmp_path / "run.prom", tmp_path / "plain"
    plain.write_text("no program\n")
    holder = locked.start("run", resource, "--", "sleep", "60")
    token = until(lambda: quorum.holder(resource))
    options = ["--mode", "classic"] if verb == "elect" else ["--metrics-file", str(metrics)]
    done = locked(verb, *options, "--json", resource, "--", "nosuchprog", "x", timeout=5)
    message, outcome = done.stderr.decode().splitlines()
    assert (done.returncode, message) == (127, "redlock: cannot run 'nosuchprog': No such file or directory")
    assert json.loads(outcome)["outcome"] == "not-run"
    assert verb == "elect" or "exit_code{" in metrics.read_text()
    done = locked(verb, *options, resource, str(plain), timeout=5)
    assert (done.returncode, b"Permission denied" in done.stderr) == (126, True)
    assert quorum.holder(resource) == token
    holder.terminate()
    holder.wait(5)


def test_what_begins_with_a_dash_after_two(locked, resource):
    """A resource and a program of such a name."""
    assert locked("run", "--", "-x", "--", "true").returncode == 0
    assert locked("run", "--", "-x", "true").returncode == 0
    assert locked("run", resource, "--", "-x").returncode == 127


def test_the_program_is_found_as_exec_finds_it(locked, resource, tmp_path):
    """An empty part of PATH is the current directory, and a file that cannot be executed hides no later one."""
    first, second = tmp_path / "first", tmp_path / "second"
    for directory in (first, second):
        directory.mkdir()
        (directory / "job").write_text("#!/bin/sh\necho runs\n")
    (second / "job").chmod(0o755)
    for path, where in ((f"{first}:{second}", "/"), (f"{first}:", second), ("", second), (f"/nowhere:{second}:{first}", "/")):
        done = locked("run", resource, "job", environ={"PATH": path}, cwd=where)
        assert (done.returncode, done.stdout) == (0, b"runs\n"), (path, done.stderr)
    done = locked("run", resource, "job", environ={"PATH": str(first)})
    assert (done.returncode, b"Permission denied" in done.stderr) == (126, True)


@pytest.mark.parametrize("named", [True, False])
def test_a_script_whose_interpreter_is_missing(locked, resource, tmp_path, named):
    script = tmp_path / "no-interpreter"
    script.write_text("#!/does/not/exist\n")
    script.chmod(0o755)
    locked.environ["PATH"] = f"{locked.environ['PATH']}:{tmp_path}"
    done = locked("run", resource, str(script) if named else script.name)
    assert done.returncode == 127 and b"the interpreter that its first line names is missing" in done.stderr
    assert b"cannot run '': No such file" in locked("run", resource, "").stderr


def test_holds_the_lock_meanwhile(locked, quorum, resource, tmp_path):
    pid = tmp_path / "pid"
    process = locked.start("run", "-t", "1500ms", "-k", "50ms", "--grace", "50ms", "-o", "me", resource, "--",
                           "sh", "-c", f"echo $$ >{pid}; exec sleep 4")
    started(process, pid)
    token = quorum.holder(resource)
    assert token.endswith(b":me")
    end = time.monotonic() + 3.5  # more than twice the TTL: it is renewed
    while time.monotonic() < end:
        assert quorum.holder(resource) == token
        time.sleep(0.05)
    assert process.wait(10) == 0
    assert quorum.values(resource) == [None] * 5


def test_environment_of_the_command(locked, quorum, resource):
    done = locked("run", "-t", "20s", resource, "--", "sh", "-c",
                  'echo "$REDLOCK_RESOURCE"; echo "$REDLOCK_TOKEN"; echo "$REDLOCK_NODES"; redlock=$1; "$redlock" extend -t 60s "$REDLOCK_RESOURCE"',
                  "sh", BINARY, environ={"REDLOCK_TOKEN": "an outer lock's"})
    name, token, nodes, validity = done.stdout.decode().splitlines()
    assert (name, nodes) == (resource, quorum.nodes)
    assert len(token) > 40
    assert int(validity) > 55000
    assert done.returncode == 0


def test_streams_and_descriptors_are_passed_through(locked, resource):
    data = os.urandom(300000)
    assert locked("run", resource, "cat", input=data).stdout == data
    reading, writing = os.pipe()
    done = locked("run", resource, "--", "bash", "-c", f"echo hello >&{writing}", pass_fds=[writing])
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        assert pipe.read() == b"hello\n"  # and its end: nobody else has the descriptor
    assert done.returncode == 0


def test_command_inherits_no_descriptor_of_ours(locked, resource):
    done = locked("run", resource, "ls", "/proc/self/fd")
    assert done.stdout.split() == [b"0", b"1", b"2", b"3"]  # 3 is what ls reads


def test_signal_dispositions_are_as_inherited(locked, resource):
    report = ["grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"]

    def ignore_pipe():
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)

    for prepare in (None, ignore_pipe):
        plain = subprocess.run(report, capture_output=True, preexec_fn=prepare, check=True).stdout
        assert locked("run", resource, *report, preexec_fn=prepare).stdout == plain


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP", "QUIT", "USR1", "USR2"])
def test_signals_are_passed_on(locked, quorum, resource, tmp_path, name):
    pid = tmp_path / "pid"
    script = f"trap 'echo got {name}; exit 9' {name}; echo $$ >{pid}; while :; do sleep 0.02; done"
    process = locked.start("run", resource, "--", "bash", "-c", script)
    started(process, pid)
    process.send_signal(getattr(signal, f"SIG{name}"))
    assert process.communicate(timeout=10)[0] == b"got %s\n" % name.encode()
    assert process.returncode == 9
    assert quorum.values(resource) == [None] * 5


def test_signals_amid_the_release_change_nothing(locked, quorum, resource, tmp_path):
    """A signal that the holder has not read when it is done must not cost the front its result."""
    pid = tmp_path / "pid"
    for _ in range(5):
        pid.unlink(missing_ok=True)
        process = locked.start("run", resource, "--", "sh", "-c", f"trap '' USR1; echo $$ >{pid}; sleep 0.05; exit 7")
        started(process, pid)
        while process.poll() is None:
            process.send_signal(signal.SIGUSR1)
        assert (process.returncode, process.stderr.read()) == (7, b"")
    assert quorum.values(resource) == [None] * 5


def test_signals_while_waiting_cancel(locked, quorum, resource, tmp_path):
    holder = locked("acquire", resource).stdout.split()[0]
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
        report = tmp_path / "status"
        process = locked.start("run", "--status-file", str(report), resource, "touch", str(tmp_path / "ran"))
        until(lambda: holder_of(process.pid))
        time.sleep(0.2)  # somewhere amid its tries
        process.send_signal(number)
        assert process.wait(5) == -number
        assert json.loads(report.read_text()) == {"outcome": "cancelled", "exit": 128 + number, "command_status": None,
                                                  "command_signal": None}
    assert quorum.values(resource) == [holder] * 5
    assert not (tmp_path / "ran").exists()


def test_signals_that_are_ignored_stay_ignored(locked, resource, tmp_path):
    assert locked("acquire", "-t", "1s", resource).returncode == 0
    pid = tmp_path / "pid"
    process = locked.start("run", resource, "--", "sh", "-c", f"echo $$ >{pid}; sleep 0.5; exit 6",
                           preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    until(lambda: holder_of(process.pid))
    process.send_signal(signal.SIGHUP)  # while waiting, and while the command runs
    until(pid.exists)
    process.send_signal(signal.SIGHUP)
    assert process.wait(5) == 6


def test_mutual_exclusion_of_many(locked, resource, tmp_path):
    witness = tmp_path / "witness"
    script = f"set -C; : >{witness} || exit 99; sleep 0.02; rm {witness}"
    processes = [locked.start("run", resource, "--", "sh", "-c", script) for _ in range(6)]
    assert [process.wait(30) for process in processes] == [0] * 6


def test_held_by_another(locked, resource, tmp_path):
    assert locked("acquire", resource).returncode == 0
    report = tmp_path / "status"
    done = locked("run", "-n", "--status-file", str(report), resource, "true")
    assert done.returncode == HELD
    assert f"{resource}: held by " in done.stderr.decode()
    assert json.loads(report.read_text()) == {"outcome": "held", "exit": 75, "command_status": None, "command_signal": None}
    assert locked("run", "-q", "-n", "-E", "9", resource, "true").stderr == b""
    assert locked("run", "-q", "-n", "-E", "9", resource, "true").returncode == 9
    assert locked("run", "-w", "300ms", resource, "true").returncode == HELD


def test_verbose_wait_names_the_holder(locked, resource):
    assert locked("acquire", "--json", "-o", "backup on host1", resource).returncode == 0
    done = locked("run", "-v", "-w", "1s", resource, "true")
    assert f"waiting for '{resource}': held by backup on host1, for 29." in done.stderr.decode()
    assert done.returncode == HELD


def test_a_job_that_stopped_itself_acts_on_term(locked, resource, tmp_path):
    ready = tmp_path / "ready"
    job = locked.start("run", resource, "--", "sh", "-c", f"touch {ready}; kill -STOP $$; sleep 60")
    until(ready.exists, what="the job")
    time.sleep(0.3)
    job.terminate()
    assert job.wait(10) == -signal.SIGTERM
    job.communicate()


def test_wait_for_nodes_that_do_not_answer_is_reported_once(redlock, resource):
    nodes = {"REDLOCK_NODES": "redis://127.0.0.1:1"}
    told = redlock("run", "-w", "3s", resource, "true", environ=nodes).stderr.decode()
    assert "redis://127.0.0.1:1: cannot connect: Connection refused" in told.split("waiting for a majority to answer; --wait sets a limit")[0]
    assert told.count("waiting for") == 1
    told = redlock("run", "-q", "-w", "3s", resource, "true", environ=nodes).stderr
    assert b"no quorum" in told and b"waiting for" not in told, "-q hides contention, and no failure"


def test_wait_for_a_holder_is_not_reported_unasked(locked, resource):
    assert locked("acquire", "-t", "3s", resource).returncode == 0
    assert locked("run", resource, "true").stderr == b""


@pytest.mark.parametrize("status", [69, 75, 80])
def test_status_file_tells_the_commands_status_from_ours(locked, resource, tmp_path, status):
    report = tmp_path / "status"
    assert locked("run", "--status-file", str(report), resource, "--", "sh", "-c", f"exit {status}").returncode == status
    assert json.loads(report.read_text()) == {"outcome": "command", "exit": status, "command_status": status, "command_signal": None}
    assert report.read_text().count("\n") == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["status"]


def test_status_file_of_other_ends(locked, redlock, resource, tmp_path):
    report = tmp_path / "status"
    locked("run", "--status-file", str(report), resource, "--", "sh", "-c", "kill -9 $$")
    assert json.loads(report.read_text()) == {"outcome": "command", "exit": 137, "command_status": None, "command_signal": 9}
    redlock("run", "--status-file", str(report), resource, "true")
    assert json.loads(report.read_text())["outcome"] == "config"
    locked("run", "--status-file", str(report), "", "true")
    assert json.loads(report.read_text())["outcome"] == "usage"


@pytest.mark.parametrize("verb", ["run", "elect"])
def test_a_status_file_that_cannot_be_written_is_reported_before_the_job(locked, quorum, resource, tmp_path, verb):
    ran, link = tmp_path / "ran", tmp_path / "link"
    link.symlink_to("/does/not/exist")
    for path, why in (("/does/not/exist", "No such file or directory; make its directory first"), ("", "No such file"), (tmp_path, "Is a directory"),
                      ("/proc/1/x", ""), ("/dev/null/x", "Not a directory"), (link, "No such file or directory; make its directory first")):
        done = locked(verb, "--mode", "classic", "--status-file", str(path), resource, "touch", str(ran), timeout=5)
        assert done.returncode == 64, done
        assert f"cannot write the status file '{path}': {why}" in done.stderr.decode()
    assert not ran.exists() and quorum.values(resource) == [None] * 5
    assert list(tmp_path.iterdir()) == [link], "no draft is left"


PRIVATE = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]


def test_status_files_on_mounts(locked, quorum, resource, tmp_path):
    """A read-only file system is noticed before the job. A mounted file, as containers have them, cannot be replaced; it is written."""
    if subprocess.run([*PRIVATE, "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("no mounts of its own")
    file, other, directory, ran = tmp_path / "file", tmp_path / "other", tmp_path / "directory", tmp_path / "ran"
    file.touch()
    other.touch()
    directory.mkdir()
    script = (f'set -e; mount -t tmpfs -o ro none {directory}; mount --bind {other} {file}; '
              f'"$0" run --status-file {file} {resource} true; "$0" run --status-file {directory}/status {resource} touch {ran}')
    done = subprocess.run([*PRIVATE, "sh", "-c", script, BINARY], env=locked.environ, capture_output=True, timeout=30, check=False)
    assert (done.returncode, f"cannot write the status file '{directory}/status': Read-only file system" in done.stderr.decode()) == (64, True), done
    assert not ran.exists() and quorum.values(resource) == [None] * 5
    assert json.loads(other.read_text())["outcome"] == "command"


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_a_status_file_in_a_directory_of_others(locked, quorum, resource):
    done = subprocess.run([BINARY, "run", "--status-file", "/usr/status", resource, "true"], env=locked.environ, user=65534, group=65534, extra_groups=[],
                          capture_output=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (64, b"redlock: cannot write the status file '/usr/status': Permission denied\n")
    assert quorum.values(resource) == [None] * 5


def test_status_file_that_is_no_plain_file(locked, resource, tmp_path):
    target, link, fifo = tmp_path / "target", tmp_path / "link", tmp_path / "fifo"
    link.symlink_to(target)
    for _ in range(2):
        assert locked("run", "--status-file", str(link), resource, "true").returncode == 0
        assert json.loads(target.read_text())["outcome"] == "command"
    os.mkfifo(fifo)
    reading = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    assert locked("run", "--status-file", str(fifo), resource, "true").returncode == 0
    assert json.loads(os.read(reading, 1000))["outcome"] == "command"
    os.close(reading)
    done = locked("run", "--status-file", str(fifo), resource, "true")  # it waits for no reader
    assert done.returncode == 71 and b"cannot write the status file" in done.stderr
    assert link.is_symlink() and fifo.is_fifo()
    # What the command printed into the file behind a descriptor stays.
    with open(tmp_path / "output", "wb") as output:
        assert locked.start("run", "--status-file", "/proc/self/fd/1", resource, "echo", "printed", stdout=output).wait(10) == 0
    printed, status = (tmp_path / "output").read_text().splitlines()
    assert (printed, json.loads(status)["outcome"]) == ("printed", "command")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- 2>&-", "<&- >&- 2>&-"])
def test_closed_standard_descriptors(locked, quorum, resource, tmp_path, closed):
    """Nothing of ours may come to lie on their numbers: a message would go to a server."""
    report = tmp_path / "fds"
    look = f"ls /proc/$$/fd >{report}"
    script = f'"$1" run -v {resource} -- bash -c "$2" {closed}'
    environ = {"PATH": os.environ["PATH"]}
    plain = locked_shell(locked, f'bash -c "$2" {closed}', look, environ)
    wanted = report.read_text()
    done = locked_shell(locked, script, look, environ)
    assert (plain.returncode, done.returncode) == (0, 0)
    assert report.read_text() == wanted
    assert quorum.values(resource) == [None] * 5


def locked_shell(locked, script, argument, environ):
    return subprocess.run(["bash", "-c", script, "bash", BINARY, argument], env={**locked.environ, **environ}, input=b"",
                          capture_output=True, timeout=30, check=False)


def test_closed_output_of_acquire_leaves_no_lock(locked, quorum, resource):
    done = locked_shell(locked, f'"$1" acquire {resource} >&-', "", {})
    assert done.returncode == 71
    assert b"cannot write the token, so the lock is released again: Bad file descriptor" in done.stderr
    assert quorum.values(resource) == [None] * 5


def test_three_of_five_stopped(own_quorum, resource, tmp_path):
    for server in own_quorum.servers[:3]:
        server.pause()
    report = tmp_path / "status"
    begun = time.monotonic()
    done = Redlock(own_quorum.nodes)("run", "-n", "--status-file", str(report), resource, "true")
    assert done.returncode == NO_QUORUM
    assert time.monotonic() - begun < 2.5
    assert json.loads(report.read_text())["outcome"] == "no-quorum"
    assert [server.ask("GET", resource) for server in own_quorum.servers[3:]] == [None, None]


def test_no_zombies_and_orphans_are_waited_for(locked, quorum, resource, tmp_path):
    pid = tmp_path / "pid"
    # The shell leaves children of its own behind again and again; the last outlives it.
    script = f"for i in 1 2 3; do (sh -c 'sleep 0.05 &'); done; echo $$ >{pid}; sleep 0.5; sh -c 'trap \"\" HUP; echo $$ >{pid}.last; exec sleep 1' & sleep 0.3"
    process = locked.start("run", resource, "--", "sh", "-c", script)
    started(process, pid)
    time.sleep(0.3)
    assert zombies_below(process.pid) == []
    last = int(until(lambda: (tmp_path / "pid.last").exists() and (tmp_path / "pid.last").read_text()))
    assert process.wait(10) == 0
    assert state(last) is None
    assert quorum.values(resource) == [None] * 5


@pytest.mark.parametrize("end", ["kill -TERM $$", "kill -SEGV $$", "sleep 60"], ids=["by itself", "by a fault", "by redlock"])
def test_what_is_left_of_a_command_that_a_signal_ended_is_killed_under_the_lock(locked, quorum, resource, tmp_path, end):
    pid = tmp_path / "pid"
    script = f"(trap '' TERM; sh -c 'echo $PPID >{pid}'; while :; do sleep 0.05; done) & while [ ! -s {pid} ]; do sleep 0.01; done; {end}"
    process = locked.start("run", "-k", "400ms", resource, "--", "sh", "-c", script)
    straggler = int(until(lambda: pid.exists() and pid.read_text()))
    assert quorum.holder(resource)  # the lock protects what the straggler does, too
    if end == "sleep 60":
        process.terminate()
    assert process.wait(10) == {"sleep 60": -signal.SIGTERM, "kill -SEGV $$": 139}.get(end, 143)
    assert gone(straggler)
    assert quorum.values(resource) == [None] * 5


# ---- a line of the shell ----

def test_a_line_of_the_shell(locked, resource):
    line = 'echo "$REDLOCK_RESOURCE" && exit 7'
    for words in (["-c", line, resource], [resource, "-c", line], ["--command", line, resource]):
        done = locked("run", *words, environ={"SHELL": ""})
        assert (done.returncode, done.stdout.decode()) == (7, f"{resource}\n"), done.stderr
    done = locked("run", resource, "--", "sh", "-c", line)
    assert done.returncode == 7


def test_the_shell_is_that_of_the_user(locked, resource):
    done = locked("run", resource, "-c", "line", environ={"SHELL": "/bin/echo"})
    assert (done.returncode, done.stdout) == (0, b"-c line\n"), done.stderr


def test_a_line_without_its_shell(locked, resource):
    done = locked("run", resource, "echo hi && date")
    assert done.returncode == 127
    assert "cannot run 'echo hi && date'" in done.stderr.decode()
    assert "run starts no shell; for a line of the shell: -c 'echo hi && date'" in done.stderr.decode()
    done = locked("run", resource, "no-such-command")
    assert done.returncode == 127 and b"shell" not in done.stderr


def test_timeout_is_wait(locked, resource):
    locked("acquire", resource)
    done = locked("run", "-q", "--timeout", "0.1", resource, "true")
    assert done.returncode == 75


# ---- what is reported once ----

def test_a_wait_for_a_key_without_ttl_is_reported_once(locked, quorum, resource):
    for server in quorum.servers:
        server.ask("SET", resource, "stuck")
    said = locked("run", "-w", "13s", resource, "true").stderr.decode()
    assert said.startswith(f"redlock: waiting for '{resource}': its key has no TTL, so it never ends. Delete the key, or choose another name\n"), said
    assert said.count("waiting for") == 1
    assert locked("run", "-q", "-w", "3s", resource, "true").stderr == b""


def test_mode_classic_on_a_guarded_quorum_is_reported_once(three, resource):
    redlock = Redlock(three.nodes)
    assert redlock("run", "--mode", "classic", resource, "true").stderr == b""
    assert redlock("quorum", "init", "--mode", "guarded", "--never-used", "--yes", "--ttl-max", "60s").returncode == 0
    for verb in ("run", "elect"):
        done = redlock(verb, "--mode", "classic", resource, "sleep", "1")
        said = done.stderr.decode()
        assert done.returncode == 0
        assert said.count("\n") == 1 and "belongs to the guarded quorum" in said and "Leave --mode classic out" in said, said
    assert redlock("run", "-q", "--mode", "classic", resource, "true").stderr == b""
    assert redlock("run", resource, "true").stderr == b""
