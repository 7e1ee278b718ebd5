# SPDX-License-Identifier: BSD-2-Clause
"""The units under a systemd of their own: with their hardening, each does what it is for. serve.units judges them by themselves."""
import pathlib

import pytest

from machines import Fleet
from pods import Cluster, own_network
from servers import until

PORTS = (6379, 6380, 6381)
# By the drop-in for the distribution's unit, where there is one.
NODE = "redis-server@redlock"
HAS_NODE = pathlib.Path("/lib/systemd/system/redis-server@.service").exists()
# Says where it is and who it is, and whether it may write elsewhere.
PROGRAM = """#!/bin/sh
echo "$(pwd) $(id -u) ${REDLOCK_TERM:-none} $(touch /etc/mine /tmp/mine 2>&1)" >> said
"""


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    """One with three lock servers, and a quorum of them."""
    own_network()
    directory = tmp_path_factory.mktemp("machine")
    fleet = Fleet(Cluster(directory), directory)
    try:
        made = fleet.machine()
        fleet.boot()
        made.write(f"/etc/redis/redis-{NODE.split('@')[1]}.conf", f'port {PORTS[0]}\nsave ""\n', 0o644)
        for port in PORTS:
            made.said(*(["systemctl", "start", NODE] if HAS_NODE and port == PORTS[0] else ["systemd-run", "redis-server", "--port", port, "--save", ""]))
        made.write("/etc/redlock.conf", "".join(f"nodes = redis://127.0.0.1:{port}\n" for port in PORTS) + "mode = guarded\nttl-max = 60s\n")
        until(lambda: all("PONG" in made.run("redis-cli", "-p", port, "PING")[0] for port in PORTS), 30, "three servers")
        made.said("redlock", "quorum", "init", "--yes", "--never-used")
        yield made
    finally:
        fleet.close()


def shown(machine, unit, *names):
    said = machine.said("systemctl", "show", *(word for name in names for word in ("-p", name)), unit)
    made = dict(line.split("=", 1) for line in said.splitlines())
    return [made[name] for name in names]


def not_root(machine, unit):
    (pid,) = shown(machine, unit, "MainPID")
    return machine.said("ps", "-o", "uid=", "-p", pid).strip() not in ("", "0")


def test_node(machine):
    if not HAS_NODE:
        pytest.skip("needs the unit redis-server@.service, which is not installed")
    assert "redlock.so" in machine.said("redis-cli", "-p", PORTS[0], "MODULE", "LIST") and not_root(machine, NODE)


def test_gateway(machine):
    """The socket starts it; a script of a stranger runs in its confined process."""
    machine.said("systemctl", "start", "redlock-serve.socket")
    socket = ["redis-cli", "-s", "/run/redlock/gateway.sock"]
    assert machine.said(*socket, "SET", "mine", "me", "NX", "PX", "30000") == "OK\n"
    assert machine.said(*socket, "EVAL", "return redis.call('get', KEYS[1]) .. 1", 1, "mine") == "me1\n"
    assert shown(machine, "redlock-serve", "ActiveState") == ["active"] and not_root(machine, "redlock-serve")
    machine.said("systemctl", "reload", "redlock-serve")


def test_exporter(machine):
    """While another process has its port, it goes on trying."""
    machine.said("systemd-run", "--unit=other", "python3", "-m", "http.server", "-b", "127.0.0.1", "16390")
    until(lambda: "16390" in machine.run("ss", "-ltn")[0], 20, "the other process")
    machine.run("systemctl", "start", "redlock-exporter")
    assert shown(machine, "redlock-exporter", "ExecMainStatus") == ["71"]
    machine.said("systemctl", "stop", "other")
    until(lambda: shown(machine, "redlock-exporter", "ActiveState") == ["active"], 20, "the exporter")
    page = machine.said("python3", "-c", "import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:16390/metrics').read().decode())")
    assert page.count("redlock_node_up{") == 3 and not_root(machine, "redlock-exporter")


def test_quorum_init(machine):
    """A majority is intact, so it does nothing, and that is a success."""
    before = machine.said("redlock", "quorum", "status", "--json")
    machine.said("systemctl", "start", "redlock-quorum-init@60s")
    assert "nothing to do" in machine.said("journalctl", "--no-pager", "-u", "redlock-quorum-init@60s")
    assert machine.said("redlock", "quorum", "status", "--json") == before


def test_elect(machine):
    machine.write("/etc/redlock/elect/leader", PROGRAM + "exec sleep 1000\n", 0o755)
    machine.said("systemctl", "start", "redlock-elect@leader")
    said = until(lambda: machine.read("/var/lib/redlock/elect/leader/said"), 20, "a leader")
    where, user, term, refused = said.split(" ", 3)
    assert where == "/var/lib/private/redlock/elect/leader" and int(user) > 60000 and int(term) > 0
    assert "/etc/mine" in refused and "/tmp/mine" not in refused, "a /tmp of its own"
    assert "leader" in machine.said("redlock", "show", "leader")
    machine.said("systemctl", "stop", "redlock-elect@leader")
    assert shown(machine, "redlock-elect@leader", "Result") == ["success"]


def test_elect_goes_on(machine):
    """A program's own 127, as of any shell, does not end the unit; without a program it does not start."""
    machine.write("/etc/redlock/elect/ends", PROGRAM + "exit 127\n", 0o755)
    machine.said("systemctl", "start", "redlock-elect@ends")
    until(lambda: machine.read("/var/lib/redlock/elect/ends/said").count("/etc/mine") >= 2, 20, "the next term")
    machine.said("systemctl", "stop", "redlock-elect@ends")
    refused, status = machine.run("systemctl", "start", "redlock-elect@missing")
    assert status != 0 and "Assertion failed" in refused
    assert shown(machine, "redlock-elect@missing", "ActiveState", "NRestarts") == ["inactive", "0"]


def test_run(machine):
    """The timer starts the job once. While its lock is held, another machine's finds it held, and that is a success."""
    machine.write("/etc/redlock/run/job", PROGRAM, 0o755)
    machine.write("/etc/systemd/system/redlock-run@job.timer.d/soon.conf", "[Timer]\nOnCalendar=\nOnActiveSec=1s\n", 0o644)
    machine.said("systemctl", "daemon-reload")
    machine.said("systemctl", "start", "redlock-run@job.timer")
    until(lambda: machine.read("/var/lib/redlock/run/job/said"), 20, "the job")
    until(lambda: shown(machine, "redlock-run@job", "ActiveState") == ["inactive"], 20, "its end")
    machine.said("systemctl", "start", "redlock-run@job")
    assert shown(machine, "redlock-run@job", "Result", "ExecMainStatus") == ["success", "0"]
    assert "job: held by" in machine.said("journalctl", "--no-pager", "-u", "redlock-run@job")
    where, user, term, _ = machine.read("/var/lib/redlock/run/job/said").split(" ", 3)
    assert (where, term) == ("/var/lib/private/redlock/run/job", "none") and int(user) > 60000
    assert machine.read("/var/lib/redlock/run/job/said").count("/etc/mine") == 1, "it ran twice"


def test_run_of_what_fails(machine):
    """A job's own 75 is not that of a lock that is held."""
    machine.write("/etc/redlock/run/fails", "#!/bin/sh\nexit 75\n", 0o755)
    machine.run("systemctl", "start", "redlock-run@fails")
    assert shown(machine, "redlock-run@fails", "Result", "ExecMainStatus") == ["exit-code", "75"]


@pytest.mark.parametrize("kind", ["run", "elect"])
def test_a_job_may_do_what_it_does_under_cron(machine, kind):
    unit, did = f"redlock-{kind}@as-{kind}", f"/var/lib/redlock/{kind}/as-{kind}/did"
    machine.write(f"/etc/redlock/{kind}/as-{kind}", """#!/bin/sh
set -ex
exec > did 2>&1
touch mine
chgrp adm mine
stat -c %G mine
stat -c %U /etc/shadow
nice -n 5 ionice -c 3 taskset 1 true
ulimit -Sn 100
echo all
sleep 1000
""", 0o755)
    machine.write(f"/etc/systemd/system/{unit}.service.d/group.conf", "[Service]\nSupplementaryGroups=adm\n", 0o644)
    machine.said("systemctl", "daemon-reload")
    machine.said("systemctl", "start", "--no-block", unit)
    until(lambda: "\nall\n" in machine.read(did) or shown(machine, unit, "Result") != ["success"], 20, "the job")
    machine.run("systemctl", "stop", unit)
    assert [line for line in machine.read(did).splitlines() if not line.startswith("+")] == ["adm", "root", "all"], machine.read(did)
