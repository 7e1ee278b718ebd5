# SPDX-License-Identifier: BSD-2-Clause
"""up: a quorum that works, and nothing of it left however it ends."""
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import time

import pytest

from conftest import BINARY, Redlock
from blocked import fill
from processes import children, name
from servers import Asking, ServerError, until


@pytest.fixture
def up(room):
    return Redlock(environ=room.environ)


def listens(port):
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", int(port))) == 0


def ports_in(nodes):
    return re.findall(r"redis://:[0-9a-f]{32}@127\.0\.0\.1:(\d+)", nodes)


def begin(up, path, *arguments, script="sleep 60", **more):
    """Starts up with a command; returns it and the ports, when the command runs."""
    process = up.start("up", *arguments, "--", "sh", "-c", f"echo $REDLOCK_NODES >{path}; {script}", **more)
    until(lambda: path.exists() and path.read_text().endswith("\n") or process.poll() is not None)
    assert process.poll() is None, process.stderr.read()
    return process, ports_in(path.read_text())


def nothing_left(room, ports):
    until(lambda: room.leftovers() == [], what="the end of every process")
    # A process that is being killed loses its environment, by which it is found, a moment before its sockets.
    until(lambda: not any(listens(port) for port in ports), 2, "the end of every port")


def test_runs_a_command_with_a_quorum(up, room, tmp_path):
    script = 'echo "$REDLOCK_NODES"; ls "$REDLOCK_UP_DIR"; "$1" acquire -q x >&2 && "$1" run -n y true && cat "$REDLOCK_UP_DIR"/node-3/port; exit 4'
    done = up("up", "-n", "3", "--", "sh", "-c", script, "sh", BINARY)
    assert done.returncode == 4, done.stderr
    nodes, *directories, port = done.stdout.decode().split()
    assert len(ports_in(nodes)) == 3
    assert directories == ["node-1", "node-2", "node-3"]
    assert port == ports_in(nodes)[2]
    nothing_left(room, ports_in(nodes))


@pytest.mark.parametrize("other", ["none", "before", "after", "link"])
def test_the_command_finds_this_redlock(up, room, tmp_path, other):
    """A PATH without it, with another redlock before or after it, and one that leads to it."""
    (tmp_path / "other").mkdir()
    stranger = tmp_path / "other" / "redlock"
    if other == "link":
        stranger.symlink_to(BINARY)
    elif other != "none":
        stranger.write_text("#!/bin/sh\nexit 33\n")
        stranger.chmod(0o755)
    own, usual = os.path.dirname(os.path.realpath(BINARY)), os.environ["PATH"].split(":")
    rest = [each for each in usual if not os.path.exists(f"{each}/redlock")]
    place = [own, f"{tmp_path}/other"] if other == "after" else [f"{tmp_path}/other"]
    path = ":".join([*rest[:1], *place, *rest[1:]])
    up.environ["PATH"] = path
    done = up("up", "-q", "-n", "1", "--", "sh", "-c", 'echo "$PATH"; redlock run x -- redlock --version')
    assert done.returncode == 0, done.stderr
    said, version = done.stdout.decode().splitlines()
    assert said == (f"{own}:{path}" if other in ("none", "before") else path)
    assert version.startswith("redlock ")
    # It also finds COMMAND itself.
    assert up("up", "-q", "-n", "1", "--", "redlock", "run", "x", "true").returncode == 0


@pytest.mark.parametrize("script, status", [("kill -9 $$", 137), ("kill -SEGV $$", 139), ("exit 0", 0)])
def test_crash_of_the_command(up, room, script, status):
    assert up("up", "-n", "1", "--", "sh", "-c", script).returncode == status
    nothing_left(room, [])


@pytest.mark.parametrize("command, status", [("/does/not/exist", 127), ("/etc/passwd", 126)])
def test_command_that_cannot_be_run(up, room, command, status):
    done = up("up", "-n", "1", "--", command)
    assert done.returncode == status
    assert f"cannot run '{command}'" in done.stderr.decode()
    nothing_left(room, [])


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP", "KILL"])
def test_signal_with_a_command(up, room, tmp_path, name):
    process, ports = begin(up, tmp_path / "nodes", script="sleep 60 & exec sleep 60")
    assert len(ports) == 5 and all(listens(port) for port in ports)
    number = getattr(signal, f"SIG{name}")
    process.send_signal(number)
    assert process.wait(10) == (-number if name == "KILL" else 128 + number)
    nothing_left(room, ports)


def test_the_janitor_is_killed(up, room, tmp_path):
    process, ports = begin(up, tmp_path / "nodes", "-n", "3", script="exec sleep 60")
    (janitor,) = [pid for pid in children(process.pid) if name(pid) == "redlock-janitor"]
    os.kill(janitor, signal.SIGKILL)
    time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 128 + signal.SIGTERM
    nothing_left(room, ports)


def test_sigkill_of_the_command(up, room, tmp_path):
    process, ports = begin(up, tmp_path / "nodes", "-n", "3", script="echo $$ >&2; sleep 60 & sleep 60")
    os.kill(int(process.stderr.readline()), signal.SIGKILL)
    assert process.wait(10) == 137
    nothing_left(room, ports)


@pytest.mark.parametrize("name", ["TERM", "INT", "KILL"])
def test_signal_without_a_command(up, room, name):
    process = up.start("up", "-n", "3")
    export = process.stdout.readline().decode()
    found = re.fullmatch(r"export REDLOCK_NODES='(\S+)'\n", export)
    assert found, process.stderr.read()
    assert process.stdout.readline() == b"export REDLOCK_MODE='guarded'\n"
    ports = ports_in(found.group(1))
    assert len(ports) == 3 and all(listens(port) for port in ports)
    assert Redlock(found.group(1), {"REDLOCK_MODE": "guarded"})("acquire", "x").returncode == 0
    process.send_signal(getattr(signal, f"SIG{name}"))
    assert process.wait(10) == (-signal.SIGKILL if name == "KILL" else 0)
    nothing_left(room, ports)


def test_signal_while_starting(up, room):
    for delay in (0.0, 0.01, 0.03, 0.06, 0.1):
        process = up.start("up", "-q")
        time.sleep(delay)
        process.terminate()
        assert process.wait(10) in (0, 143, -15)
        assert room.leftovers() == []


def test_stopped_servers_are_ended_too(up, room, tmp_path):
    process, ports = begin(up, tmp_path / "nodes", "-n", "3", script="kill -STOP $(cat $REDLOCK_UP_DIR/node-*/pid); sleep 60")
    time.sleep(0.2)
    process.terminate()
    assert process.wait(10) == 143
    nothing_left(room, ports)


def test_servers_do_not_hold_inherited_descriptors(up, tmp_path):
    reading, writing = os.pipe()
    # The command closes its own copy; up's goes with it; what the servers and the janitor hold would be seen here.
    process, _ = begin(up, tmp_path / "nodes", "-n", "1", script=f"exec bash -c 'exec {writing}>&-; sleep 60'", pass_fds=[writing])
    os.close(writing)
    process.kill()
    process.wait()
    with os.fdopen(reading, "rb") as pipe:
        assert pipe.read() == b""


def test_a_dead_server_is_reported_and_started_again_on_its_port(up, room, tmp_path):
    process, ports = begin(up, tmp_path / "nodes", "-n", "3", "--restart-after", "300ms",
                           script="p=$REDLOCK_UP_DIR/node-2/pid; cat $p; kill -9 $(cat $p); sleep 60")
    old = process.stdout.readline().strip()
    assert b"node-2 (port %s) was ended by signal 9; starting it again in 300 ms" % ports[1].encode() in process.stderr.readline()
    assert not listens(ports[1])
    until(lambda: listens(ports[1]))
    pid = next(room.directory.glob("*/node-2/pid")).read_text().strip()
    assert pid != old.decode()
    process.terminate()
    assert process.wait(10) == 143
    nothing_left(room, ports)


def test_a_dead_server_stays_dead_by_default(up, room, tmp_path):
    process, ports = begin(up, tmp_path / "nodes", "-n", "3", script="kill -9 $(cat $REDLOCK_UP_DIR/node-1/pid); sleep 60")
    line = process.stderr.readline()
    assert line == b"redlock: node-1 (port %s) was ended by signal 9\n" % ports[0].encode()
    time.sleep(0.3)
    assert not listens(ports[0])
    process.terminate()
    process.wait(10)
    nothing_left(room, ports)


def test_directory_is_kept(up, tmp_path):
    directory = tmp_path / "quorum"
    for _ in range(2):
        done = up("up", "-n", "1", "--dir", str(directory), "--", "sh", "-c", 'echo "$REDLOCK_UP_DIR"')
        assert done.returncode == 0, done.stderr
        assert done.stdout.decode().strip() == str(directory)
        assert sorted(entry.name for entry in (directory / "node-1").iterdir()) == ["pid", "port", "redis.log"]
        again = up("up", "-n", "1", "--dir", str(directory), "--", "true")
        assert again.returncode == 64
        assert b"name one that is absent or empty" in again.stderr
        for entry in sorted(directory.rglob("*"), reverse=True):  # an empty one will do
            entry.rmdir() if entry.is_dir() else entry.unlink()


def test_shell_code_is_quoted(up, tmp_path):
    directory = tmp_path / "it's here"
    process = up.start("up", "-q", "-n", "1", "--dir", str(directory))
    code = b"".join(process.stdout.readline() for _ in range(4))
    process.terminate()
    assert process.wait(10) == 0
    told = subprocess.run(["sh", "-c", code.decode() + 'printf %s "$REDLOCK_UP_DIR"'], capture_output=True, check=True).stdout
    assert told.decode() == str(directory)


@pytest.mark.parametrize("count", ["1", "2", "3"])
def test_guarded_at_once(up, room, count):
    script = '"$1" acquire x && echo "$REDLOCK_MODE $REDLOCK_QUORUM" && "$1" quorum status --json'
    done = up("up", "-n", count, "--ttl-max", "45s", "--", "sh", "-c", script, "sh", BINARY)
    assert done.returncode == 0, done.stderr
    grant, mode, report = done.stdout.decode().splitlines()
    report = json.loads(report)
    assert (len(grant.split()), mode) == (3, f"guarded {report['id']}")
    assert report["state"] == "intact" and report["ttl_max_ms"] == 45000
    nothing_left(room, [])


def test_classic_on_demand(up, room):
    script = '"$1" acquire x && echo "$REDLOCK_MODE"; "$1" quorum status --json'
    done = up("up", "-n", "3", "--mode", "classic", "--", "sh", "-c", script, "sh", BINARY)
    assert done.returncode == 69
    grant, mode, report = done.stdout.decode().splitlines()
    assert (len(grant.split()), mode) == (2, "classic")
    assert json.loads(report)["state"] == "no-record"
    assert up("up", "--mode", "classic", "--ttl-max", "5s", "--", "true").returncode == 64
    nothing_left(room, [])


def test_a_server_that_came_back_empty_votes_again_in_time(up, room):
    script = ('kill -9 $(cat "$REDLOCK_UP_DIR"/node-2/pid); "$1" acquire -t 1s x >&2 || exit 9; '
              'sleep 0.5; "$1" quorum status -q; echo $?; "$1" quorum status --wait=20s -q')
    done = up("up", "-n", "3", "--ttl-max", "1s", "--restart-after", "50ms", "--", "sh", "-c", script, "sh", BINARY)
    assert (done.returncode, done.stdout) == (0, b"1\n"), done.stderr
    nothing_left(room, [])


def test_no_server_program(up, room, tmp_path):
    done = up("up", "--", "true", environ={"PATH": str(tmp_path)})
    assert done.returncode == 78
    assert b"neither redis-server nor valkey-server is in PATH; install one" in done.stderr
    done = up("up", "--server", "/does/not/exist", "--", "true")
    assert (done.returncode, b"/does/not/exist" in done.stderr) == (78, True)
    nothing_left(room, [])


def test_server_that_does_not_start(up, room, tmp_path):
    broken = tmp_path / "broken-server"
    broken.write_text("#!/bin/sh\necho 'no such thing today' >\"$PWD/x\" 2>/dev/null\nexit 3\n")
    broken.chmod(0o755)
    done = up("up", "-n", "2", "--server", str(broken), "--", "true", cwd=tmp_path)
    assert done.returncode == 71
    assert b"does not start" in done.stderr
    nothing_left(room, [])


def kill_and_wait(node):
    """Until the server is started again."""
    before = (node / "pid").read_text()
    os.kill(int(before), signal.SIGKILL)
    until(lambda: (node / "pid").read_text() not in ("", before), what=f"{node.name}, again")


def program(path, script):
    """A server program that is a script around the real one."""
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_servers_that_start_slowly_are_waited_for(up, room, tmp_path):
    """A busy machine: they live, so they will answer."""
    slow = program(tmp_path / "server", 'sleep 11; exec redis-server "$@"')
    done = up("up", "-n", "1", "--server", slow, "--", "true", timeout=60)
    assert (done.returncode, "still waiting: the servers run" in done.stderr.decode()) == (0, True), done
    assert room.leftovers() == []


def test_servers_that_hardly_run_are_waited_for(up, room, tmp_path):
    """Each answers in short bursts only, longer apart than any timeout of a client on a machine with time."""
    bursts = 'own=$$; (while sleep 0.02 && kill -STOP $own && sleep 1.5 && kill -CONT $own; do :; done) & exec redis-server "$@"'
    done = up("up", "--server", program(tmp_path / "server", bursts), "--", "true", timeout=120)
    assert done.returncode == 0, done
    assert room.leftovers() == []


def test_the_wait_for_servers_can_be_ended(up, room, tmp_path):
    never = program(tmp_path / "server", "exec sleep 600")
    process = up.start("up", "-n", "1", "--server", never, "--", "true")
    until(lambda: children(process.pid), what="a server")
    process.terminate()
    assert process.wait(10) == 128 + signal.SIGTERM
    assert room.leftovers() == []


def test_servers_let_in_only_those_who_know_the_password(up, room, tmp_path):
    """Any user of the machine can connect to a port of it."""
    process, ports = begin(up, tmp_path / "nodes", "-n", "2", "--mode", "classic", "--restart-after", "50ms",
                           script='echo "$REDISCLI_AUTH"; echo "$REDLOCK_UP_DIR"; sleep 60')
    password, directory = (process.stdout.readline().decode().strip() for _ in range(2))
    assert re.search(f"redis://:{password}@", (tmp_path / "nodes").read_text())
    kill_and_wait(pathlib.Path(directory) / "node-2")
    until(lambda: listens(ports[1]), what="the second server, again")
    for port in ports:
        stranger, client = Asking(port), Asking(port, password)
        with pytest.raises(ServerError, match="NOAUTH"):
            stranger.ask("SHUTDOWN", "NOSAVE")
        assert client.ask("PING") == b"PONG"
    assert not any(password in line for line in room.processes().values())
    process.terminate()
    assert process.wait(10) == 128 + signal.SIGTERM
    nothing_left(room, ports)


def test_standard_error_that_nobody_reads_stops_nothing(up, room):
    ends = os.pipe()
    process = up.start("up", "-n", "3", "--mode", "classic", "--restart-after", "100ms", stderr=ends[1])
    lines = [process.stdout.readline().decode() for _ in range(4)]
    ports = ports_in(lines[0])
    directory = pathlib.Path(re.search("'(.*)'", lines[3]).group(1))
    until(lambda: b"are up" in os.read(ends[0], 4096))
    try:
        fill(ends[1])
        kill_and_wait(directory / "node-1")
        kill_and_wait(directory / "node-2")
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait()
        for end in ends:
            os.close(end)
    nothing_left(room, ports)


MODULE = os.environ.get("REDLOCK_MODULE", "")


@pytest.mark.parametrize("options", [["--native"], ["--module", MODULE], ["--native", "--module", MODULE]])
def test_native_nodes(up, room, options):
    script = 'for n in 1 2 3; do redis-cli -p $(cat "$REDLOCK_UP_DIR/node-$n/port") --no-auth-warning REDLOCK.STATE; done; "$1" acquire -q x'
    done = up("up", "-n", "3", *options, "--", "sh", "-c", script, "sh", BINARY)
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode().count("master") == 3
    nothing_left(room, [])


def test_native_nodes_without_the_module(up, room, tmp_path):
    done = up("up", "--module", "/does/not/exist", "--", "true")
    assert done.returncode == 78 and b"--module /does/not/exist: No such file" in done.stderr
    other = tmp_path / "other.so"
    other.write_text("not a module")
    done = up("up", "-n", "1", "--module", str(other), "--", "true")
    assert done.returncode != 0 and b"node-1 does not start" in done.stderr and b"other.so" in done.stderr
    moved = tmp_path / "redlock"
    moved.write_bytes(pathlib.Path(BINARY).read_bytes())
    moved.chmod(0o755)
    done = subprocess.run([moved, "up", "--native", "--", "true"], env=up.environ, capture_output=True, check=False)
    assert done.returncode == 78 and b"the module is not installed" in done.stderr and b"redlock-node" in done.stderr
    nothing_left(room, [])


@pytest.mark.skipif(not MODULE, reason="the module is not built")
def test_a_module_that_is_not_executable(up, room, tmp_path):
    copy = tmp_path / "redlock.so"
    copy.write_bytes(pathlib.Path(MODULE).read_bytes())
    copy.chmod(0o644)
    done = up("up", "-n", "1", "--module", str(copy), "--", "true")
    assert done.returncode == 71 and b"node-1 does not start" in done.stderr, done.stderr
    assert f"chmod +x {copy}".encode() in done.stderr
    copy.chmod(0o755)
    assert up("up", "-n", "1", "--module", str(copy), "--", "true").returncode == 0
    nothing_left(room, [])


def test_nodes_that_cannot_be_printed_are_ended(up, room):
    with open("/dev/full", "wb") as full:
        process = up.start("up", "-n", "3", stdout=full)
        said = process.communicate(timeout=15)[1].decode()
    assert (process.returncode, said.count("cannot write the result: No space left on device")) == (71, 1), said
    nothing_left(room, [])


def test_nodes_that_nobody_reads_are_ended(up, room):
    reader, writer = os.pipe()
    os.close(reader)
    process = up.start("up", "-n", "3", stdout=writer)
    os.close(writer)
    said = process.communicate(timeout=15)[1].decode()
    assert (process.returncode, "cannot write the result: Broken pipe" in said) == (71, True), said
    nothing_left(room, [])
