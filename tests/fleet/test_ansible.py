# SPDX-License-Identifier: BSD-2-Clause
"""The role of Ansible on three machines, each with a systemd of its own: it makes a quorum, and run again it changes nothing."""
import os
import pathlib
import re
import subprocess
import sys
import time

import pytest

import tools
from documents import SOURCE, Document
from machines import Fleet, install
from pods import Cluster, own_network
from servers import until

PLACE = SOURCE / "packaging/ansible"
NAMES = ("db1", "db2", "db3")
TTL_MAX = 10


@pytest.fixture(scope="session")
def ansible():
    """A directory with its commands, from the registry of Python."""
    place = tools.PLACE / "ansible"
    if not (place / "bin/ansible-lint").exists():
        for command in ([sys.executable, "-m", "venv", place], [place / "bin/pip", "install", "-q", "ansible-core<2.20", "ansible-lint"]):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                pytest.skip(f"Ansible cannot be installed here: {done.stderr[-300:]}")
    return place / "bin"


def run(ansible, home, program, *arguments):
    environ = {**os.environ, "PATH": f"{ansible}:{os.environ['PATH']}", "ANSIBLE_HOME": str(home), "ANSIBLE_NOCOLOR": "1", "LC_ALL": "C.UTF-8",
               "ANSIBLE_CONNECTION_PLUGINS": str(pathlib.Path(__file__).parent / "connection")}
    done = subprocess.run([ansible / program, *map(str, arguments)], cwd=PLACE, env=environ, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_lint(ansible, tmp_path):
    status, said = run(ansible, tmp_path, "ansible-lint", "--offline", "--strict", "--profile", "production", "playbook.yml", "roles")
    assert status == 0, said


def test_the_user_is_that_of_the_page():
    page = Document("docs/operate/acl.md").one("", "every command")
    role = (PLACE / "roles/redlock/templates/users.acl.j2").read_text(encoding="utf-8").replace("{{ redlock_prefix }}", "lock:")
    assert page.split("resetkeys")[1].strip() == role.split("resetkeys")[1].strip()


def package(directory):
    """A package with what this build installs, without the module's drop-in, which the packages of redlock have apart."""
    install(directory / "tree")
    subprocess.run(["rm", "-rf", directory / "tree/usr/local/lib/systemd/system/redis-server@redlock.service.d"], check=True)
    (directory / "tree/DEBIAN").mkdir()
    control = "Package: redlock-test\nVersion: 0.1.0\nArchitecture: all\nMaintainer: redlock <redlock@example.org>\nDescription: redlock\n"
    (directory / "tree/DEBIAN/control").write_text(control)
    subprocess.run(["dpkg-deb", "-Znone", "--root-owner-group", "-b", directory / "tree", directory / "redlock.deb"], check=True, capture_output=True)
    return directory / "redlock.deb"


@pytest.fixture(scope="module")
def machines(tmp_path_factory):
    own_network()
    directory = tmp_path_factory.mktemp("machines")
    fleet = Fleet(Cluster(directory), directory, installed=False)
    try:
        made = [fleet.machine() for _ in NAMES]
        fleet.boot()
        if "install ok" not in made[0].run("dpkg-query", "-W", "-f", "${Status}", "redis-server", "python3-apt")[0]:
            pytest.skip("redis-server or python3-apt is not a package here")
        hosts = "".join(f"{name} ansible_host={machine.pid} redlock_address={machine.address}\n" for name, machine in zip(NAMES, made))
        (directory / "inventory").write_text(f"[locks]\n{hosts}[locks:vars]\nansible_connection=machine\nansible_become=false\n")
        yield directory, made
    finally:
        fleet.close()


def test_the_role(ansible, machines, log):
    directory, made = machines
    deb = package(directory)

    def play(*arguments):
        begun = time.monotonic()
        status, said = run(ansible, directory / "home", "ansible-playbook", "-i", directory / "inventory", "playbook.yml",
                           "-e", f'{{"redlock_password": "s/@cret", "redlock_ttl_max": "{TTL_MAX}s", "redlock_packages": ["{deb}"]}}', *arguments)
        assert status == 0 and "s/@cret" not in said, said
        counts = dict(re.findall(r"(?m)^(\w+) .*changed=(\d+) ", said))
        assert counts.keys() == set(NAMES), said
        log(f"ansible-playbook: {time.monotonic() - begun:.0f} s, changed {counts}")
        return counts, said

    assert all(int(count) > 0 for count in play()[0].values())
    assert "Fit to hold locks: 0 errors, 0 warnings" in made[1].said("redlock", "doctor")
    record = made[0].said("redlock", "quorum", "status", "--json")
    counts, said = play()
    assert set(counts.values()) == {"0"}, said
    assert made[0].said("redlock", "quorum", "status", "--json") == record

    # Of what somebody changed by hand, only that is put right, and that server alone restarts; locks are held meanwhile.
    processes = [machine.said("pidof", "redis-server") for machine in made]
    holder = made[0].start("redlock", "run", "--ttl", "5s", "held", "--", "sleep", "1000")
    until(lambda: "held by" in made[1].run("redlock", "show", "held")[0], 10, "the lock")
    made[2].run("sed", "-i", "s/noeviction/allkeys-lru/", "/etc/redis/redis-redlock.conf")
    assert play()[0] == {"db1": "0", "db2": "0", "db3": "2"}
    now = [machine.said("pidof", "redis-server") for machine in made]
    assert [now[number] == processes[number] for number in range(3)] == [True, True, False]
    assert holder.poll() is None, "the lock was lost"
    made[0].said("redlock", "quorum", "status")
    holder.kill()
    holder.wait()
