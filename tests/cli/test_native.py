# SPDX-License-Identifier: BSD-2-Clause
"""What people see of native nodes: servers with the module, alone and next to stock ones."""
import json
import os
import socket
import struct
import threading
import time

import pytest

from conftest import Redlock
from servers import SAFE, Server, started, urls

MODULE = os.environ.get("REDLOCK_MODULE", "")
pytestmark = pytest.mark.skipif(not MODULE, reason="the module is not built")
NATIVE = ("--loadmodule", MODULE)
GUARDED = {"REDLOCK_MODE": "guarded"}


@pytest.fixture
def mixed():
    with started(NATIVE, (), NATIVE) as servers:
        yield servers


def make_quorum(nodes):
    done = Redlock(nodes)("quorum", "init", "--never-used", "--yes", "--ttl-max=2s")
    assert done.returncode == 0, done.stderr


def examine(nodes, **environ):
    done = Redlock(nodes)("doctor", "--json", "--samples", "2", environ=environ)
    return done.returncode, json.loads(done.stdout)


def found(report):
    return {finding["name"]: (finding["severity"], finding["nodes"]) for finding in report["findings"]}


def test_quorum_status(mixed):
    nodes = urls(*mixed)
    make_quorum(nodes)
    done = Redlock(nodes)("quorum", "status", environ=GUARDED)
    lines = done.stdout.decode().splitlines()
    assert done.returncode == 0
    assert lines[1].split() == ["MEMBER", "NODE", "KIND", "STANDING"]
    assert {tuple(line.split()[1:]) for line in lines[2:5]} == {
        (mixed[0].url, "native", "intact"), (mixed[1].url, "stock", "intact"), (mixed[2].url, "native", "intact")}
    assert lines[5:] == ["All 3 members are intact.",
                         "2 of 3 members are native nodes. The guarantee is that of the stock ones: redlock doctor."]
    members = json.loads(Redlock(nodes)("quorum", "status", "--json", environ=GUARDED).stdout)["members"]
    assert {member["url"]: member["native"] for member in members} == {
        mixed[0].url: True, mixed[1].url: False, mixed[2].url: True}
    mixed[1].process.kill()
    mixed[1].process.wait()
    done = Redlock(nodes)("quorum", "status", "--json", environ=GUARDED)
    members = json.loads(done.stdout)["members"]
    assert {member["url"]: member["native"] for member in members}[mixed[1].url] is None


def test_a_quorum_of_one_kind():
    with started(NATIVE, NATIVE, NATIVE) as servers:
        make_quorum(urls(*servers))
        lines = Redlock(urls(*servers))("quorum", "status", environ=GUARDED).stdout.decode().splitlines()
        assert lines[-1] == "All members are native nodes."
        assert "MIXED-QUORUM" not in found(examine(urls(*servers), **GUARDED)[1])
    with started((), (), ()) as servers:
        make_quorum(urls(*servers))
        text = Redlock(urls(*servers))("quorum", "status", environ=GUARDED).stdout.decode()
        assert "KIND" not in text and "native" not in text


def test_doctor_of_a_mixed_quorum(mixed):
    make_quorum(urls(*mixed))
    status, report = examine(urls(*mixed), **GUARDED)
    assert status == 0 and found(report)["MIXED-QUORUM"] == ("note", [1, 2, 3])
    assert [node["native"] for node in report["nodes"]] == [True, False, True]
    assert [node["mirror"] for node in report["nodes"]] == [True, None, True]
    assert report["nodes"][0]["module"] and report["nodes"][1]["module"] is None
    # The identity that is shown is the process's: what INFO and the server's log have too.
    for server, node in zip(mixed, report["nodes"]):
        assert node["run_id"] in server.ask("INFO", "server").decode()
    table = Redlock(urls(*mixed))("doctor", "--samples", "2", environ=GUARDED).stdout.decode().splitlines()
    assert [line.split()[4] for line in table[1:4]] == ["native", "master", "native"]


def test_eviction_is_information_on_a_native_node(mixed):
    for server in mixed:
        server.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    status, report = examine(urls(*mixed), REDLOCK_MODE="classic")
    severities = {tuple(finding["nodes"]): finding["severity"] for finding in report["findings"] if finding["name"] == "EVICTION"}
    assert status == 1 and severities == {(1, 3): "note", (2,): "error"}


def test_the_wall_clock_is_information_on_a_native_node(tmp_path):
    path = tmp_path / "clock"
    path.write_bytes(struct.pack("q", 3600 * 1000000))
    environ = {"LD_PRELOAD": os.environ["STEPCLOCK"], "STEPCLOCK_FILE": str(path), "STEPCLOCK_RUNS": "1"}
    for arguments, severity in (NATIVE, "note"), ((), "warning"):
        server = Server(*arguments, environ=environ)
        try:
            assert found(examine(server.url)[1])["CLOCK-OFFSET"] == (severity, [1])
        finally:
            server.close()


def test_without_a_mirror():
    with started(NATIVE + ("mirror", "no")) as (server,):
        report = examine(server.url, REDLOCK_MODE="classic")[1]
        assert found(report)["NO-MIRROR"] == ("note", [1])
        assert found(report)["RESTART-FORGETS"] == ("warning", [1])
    with started(NATIVE + SAFE) as (server,):
        report = examine(server.url, REDLOCK_MODE="classic")[1]
        assert "NO-MIRROR" not in found(report) and "RESTART-FORGETS" not in found(report)


@pytest.mark.parametrize("mode", ["classic", "guarded"])
def test_show_and_break(mixed, mode):
    if mode == "guarded":
        make_quorum(urls(*mixed))
    redlock = Redlock(urls(*mixed))
    assert redlock("acquire", "-t2s", "x", "--json").returncode == 0
    (view,) = json.loads(redlock("show", "--json", "x").stdout)
    assert [node["verdict"] for node in view["nodes"]] == ["held"] * 3
    assert b"x: held by" in redlock("show").stdout  # found by walking over the keys of both kinds
    assert redlock("acquire", "-n", "-t1s", "x").returncode == 75
    assert redlock("break", "--yes", "--reason", "a test", "x").returncode == 0
    assert b"free" in redlock("show", "x").stdout
    assert redlock("run", "-n", "-t1s", "x", "--", "true").returncode == 0


@pytest.mark.parametrize("mode", ["classic", "guarded"])
def test_slots(mixed, mode):
    if mode == "guarded":
        make_quorum(urls(*mixed))
    redlock = Redlock(urls(*mixed))
    slots = [redlock("acquire", "-t2s", "--slots=2", "job", "--json") for _ in range(3)]
    assert [done.returncode for done in slots] == [0, 0, 75], [done.stderr for done in slots]
    views = json.loads(redlock("show", "--json", "--slots=2", "job").stdout)
    # a node that answered late may hold none of them
    assert all(sum(node["verdict"] == "held" for node in view["nodes"]) >= 2 for view in views), views
    refused = redlock("run", "-t1s", "-w", "9s", "--slots=3", "job", "--", "true")
    assert refused.returncode == 78 and b"2" in refused.stderr and b"3" in refused.stderr, refused.stderr
    done = redlock("run", "-t1s", "--slots=2", "job", "--", "sh", "-c", "echo $REDLOCK_SLOT")
    assert done.returncode == 0 and done.stdout in (b"1\n", b"2\n"), (done.stdout, done.stderr)


@pytest.mark.parametrize("mode", ["classic", "guarded"])
def test_readers_of_native_nodes(mixed, mode):
    if mode == "guarded":
        make_quorum(urls(*mixed))
    redlock = Redlock(urls(*mixed))
    tokens = []
    for _ in range(2):
        done = redlock("acquire", "--shared", "-t2s", "x", "--json")
        assert done.returncode == 0, done.stderr
        tokens.append(json.loads(done.stdout)["token"])
    assert redlock("acquire", "-n", "-t1s", "x").returncode == 75
    (view,) = json.loads(redlock("show", "--json", "x").stdout)
    assert view["readers_count"] == 2 and len(view["readers"]) == 2
    assert redlock("release", "--shared", "x", "--token", tokens[0]).returncode == 0
    assert redlock("break", "--yes", "--reason", "a test", "x").returncode == 0
    assert redlock("extend", "--shared", "-t1s", "x", "--token", tokens[1]).returncode != 0
    assert redlock("run", "-n", "-t1s", "x", "--", "true").returncode == 0


class OldModule(threading.Thread):
    """In front of a native node: its greeting does not say that it keeps readers, or has slots."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.to = port
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = "redis://127.0.0.1:%d" % self.socket.getsockname()[1]
        self.start()

    def run(self):
        while True:
            client, _ = self.socket.accept()
            node = socket.create_connection(("127.0.0.1", self.to))
            for source, target in ((client, node), (node, client)):
                threading.Thread(target=self.copy, args=(source, target), daemon=True).start()

    @staticmethod
    def copy(source, target):
        try:
            while data := source.recv(65536):
                target.sendall(data.replace(b"$6\r\nshared\r\n", b"$6\r\nlatest\r\n").replace(b"$5\r\nslots\r\n", b"$5\r\nfirst\r\n"))
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass


@pytest.mark.parametrize("option, what", [("--shared", b"shared locks"), ("--slots=2", b"slots")])
def test_an_old_module(mixed, option, what):
    """It is said at once, and by name: nobody waits for a node that cannot."""
    nodes = [OldModule(mixed[0].port).url, mixed[1].url, mixed[2].url]
    done = Redlock(",".join(nodes))("run", "-w", "5s", option, "job", "--", "true")
    assert done.returncode == 78, done.stderr
    assert b"keeps no " + what + b": update its module" in done.stderr and b"newer module" in done.stderr, done.stderr
    done = Redlock(",".join(nodes))("run", "-w", "5s", "job", "--", "true")
    assert done.returncode == 0, done.stderr


def test_the_nodes_survive_pauses_while_people_look_at_the_locks():
    """A look that finds a lock at its end once deleted its copy and passed that on: a paused server ended by a failed assertion."""
    node = (*NATIVE, *SAFE)
    with started(node, node, node) as servers:
        redlock, stop, survived = Redlock(urls(*servers)), threading.Event(), 0

        def look():
            while not stop.is_set():
                redlock("show")
                redlock("wait", "--nonblock", "job:1", "job:2")

        lookers = [threading.Thread(target=look) for _ in range(2)]
        top = redlock.start("top", "--json", "--interval", "100ms")
        threading.Thread(target=top.stdout.read).start()
        for looker in lookers:
            looker.start()
        for _ in range(8):
            for job in range(6):
                redlock("acquire", "--ttl", f"{400 + 50 * job}ms", "--wait", "5s", f"job:{job}")
            for server in servers:
                server.ask("CLIENT", "PAUSE", 700, "WRITE")
            time.sleep(0.7)
            if any(server.process.poll() is not None for server in servers):
                break
            assert servers[0].ask("SET", "job:1", "stranger", "NX", "PX", 10) == b"OK", "it is free when the pause is over"
            survived += 1
        stop.set()
        top.terminate()
        for looker in lookers:
            looker.join()
        assert survived == 8
        assert redlock("acquire", "--ttl", "30s", "job:7").returncode == 0
        assert [server.ask("SET", "job:7", "stranger", "NX", "PX", 1000) for server in servers] == [None] * 3, "a stranger's lock"
