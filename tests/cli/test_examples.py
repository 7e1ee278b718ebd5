# SPDX-License-Identifier: BSD-2-Clause
"""The examples in --help, as a shell runs them, on servers of the test's own."""
import contextlib
import os
import pathlib
import re
import signal
import socket
import subprocess
import urllib.request

import pytest

from conftest import BINARY, Redlock
from servers import Server
from test_manual import COMMANDS

SCRIPTS = {"backup.sh": "echo saved", "scheduler.sh": "echo term $REDLOCK_TERM", "report.sh": "echo report"}


def example(redlock, *command):
    return re.search(r"^Example: (.*\bredlock .*)$", redlock("help", *command).stdout.decode(), re.M)[1]


class Shell:
    """Runs a line in a directory of its own, with the scripts of the examples in it."""

    def __init__(self, directory, nodes):
        self.directory = directory
        (directory / "redlock.conf").write_text("node-timeout = 5s\n")  # for a busy machine
        self.redlock = Redlock(nodes, {"REDLOCK_MODE": "guarded", "REDLOCK_CONFIG": str(directory / "redlock.conf")})
        for name, text in SCRIPTS.items():
            (directory / name).write_text(f"#!/bin/sh\n{text}\n")
            (directory / name).chmod(0o755)

    def start(self, line, **environ):
        path = f"{os.path.dirname(BINARY)}:{os.environ['PATH']}"
        return subprocess.Popen(["bash", "-c", line], cwd=self.directory, env={**self.redlock.environ, "PATH": path, **environ},
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def __call__(self, line, **environ):
        """What it prints; its exit status must be 0."""
        done = self.start(line, **environ)
        said, wrong = done.communicate(timeout=120)
        assert done.returncode == 0, wrong
        return said


@pytest.fixture
def shell(three, tmp_path):
    found = Shell(tmp_path, three.nodes)
    assert found.redlock("quorum", "init", "--yes", "--never-used", "--ttl-max", "10m").returncode == 0
    return found


@pytest.mark.parametrize("command, said", [
    ("run", r"saved\n"), ("acquire", r"\S+ [0-9]+ [0-9]+\n"), ("show", r"nightly: free.*"), ("wait", r".*"), ("top", r".*\bquorum [0-9a-f]{16}.*"),
    ("doctor", r".*Fit to hold locks: 0 errors.*"), ("quorum", r".*All 3 members are intact\.\n"), ("gate", r""), ("elect", r"term [0-9]+\n"),
    ("up", r".* [0-9]{2}:[0-9]{2}:[0-9]{2} .*\n"), ("sim", r".*guarded: holds.*"), ("bench", r".*\bblocking\b.*")])
def test_example(shell, command, said):
    assert re.fullmatch(said, shell(example(shell.redlock, command), LC_ALL="C"), re.S)
    assert command != "gate" or (shell.directory / "report.txt").read_text() == "report\n"


@pytest.mark.parametrize("command", ["extend", "release"])
def test_example_with_a_token(shell, command):
    token, _, fence = shell(example(shell.redlock, "acquire")).split()
    said = shell(example(shell.redlock, command), token=token, fence=fence)
    assert (said == "") == (command == "release")
    assert shell.redlock("show", "deploy").stdout.startswith(b"deploy: held" if command == "extend" else b"deploy: free")


def test_example_of_break(shell):
    assert shell.redlock("acquire", "-t", "5m", "nightly").returncode == 0
    refused = shell.start(example(shell.redlock, "break"))
    assert "--yes" in refused.communicate(timeout=30)[1] and refused.returncode == 64  # no terminal to ask on
    shell(example(shell.redlock, "break") + " --yes --no-syslog")
    assert shell.redlock("show", "nightly").stdout.startswith(b"nightly: free")


def test_example_of_watch(shell):
    leader = shell.start("exec redlock elect scheduler -- sh -c 'echo leads; exec sleep 60'")
    assert leader.stdout.readline() == "leads\n"
    assert re.search(r"\bterm [0-9]+", shell(example(shell.redlock, "watch")))
    leader.send_signal(signal.SIGTERM)
    leader.communicate(timeout=30)


@contextlib.contextmanager
def serving(shell, command, port):
    """The example, on a free port in place of its own. It says where it serves."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        free = held.getsockname()[1]
    process = shell.start("exec " + example(shell.redlock, command).replace(port, str(free)))
    assert f"127.0.0.1:{free}" in process.stderr.readline()
    yield free
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 0


def test_example_of_serve(shell):
    with serving(shell, "serve", "6390") as port, socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(b"SET nightly me NX PX 30000\r\n")
        assert client.recv(100) == b"+OK\r\n"


def test_example_of_exporter(shell):
    with serving(shell, "exporter", "16390") as port, urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as reply:
        assert b"\nredlock_quorum_up 1\n" in reply.read()


def test_examples_of_quorum(shell, three):
    """Each verb in turn: c is the third server, d another, and the other way round for the replacement."""
    nodes, c = three.nodes, three[2].url
    d = Server()
    try:
        for verb in ("status", "init", "set-ttl-max", "add", "remove", "replace"):
            line = example(shell.redlock, "quorum", verb).replace("10m", "1s").replace("5m", "900ms")
            line = re.sub("redis://([cd])", lambda match: d.url if (match[1] == "d") != (verb == "replace") else c, line)
            if verb == "init":
                assert [server.ask("FLUSHALL") for server in three.servers] == [b"OK"] * 3
            said = shell(line if verb == "status" else f"{line} --yes", REDLOCK_NODES=nodes)
            nodes = re.search("REDLOCK_NODES='(.*)'", said)[1] if verb != "status" else nodes
    finally:
        d.close()
    assert set(nodes.split(",")) == set(three.nodes.split(","))


def test_every_command_is_typed_here():
    text = pathlib.Path(__file__).read_text(encoding="utf-8")
    assert [command for command in COMMANDS if f'"{command}"' not in text] == []
