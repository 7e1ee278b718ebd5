# SPDX-License-Identifier: BSD-2-Clause
"""The role of Ansible on three machines, each with a systemd of its own: it makes a quorum, run again it changes nothing, and it restarts a
server only when the others are intact. A lock is held meanwhile."""
import importlib.util
import json
import os
import pathlib
import re
import shutil
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
TTL_MAX = 6000  # ms: the role's; the quorum's own is then lowered
LOWER = 4000
PASSWORD, OTHER = "s/@cret", "an other"
UNIT = "redis-server@redlock"
SERVERS = pathlib.Path(os.environ.get("REDLOCK_SERVERS", SOURCE / "build/servers"))  # where scripts/install-servers puts them


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
               "ANSIBLE_STRATEGY": "free",  # the play has its own
               "ANSIBLE_CONNECTION_PLUGINS": str(pathlib.Path(__file__).parent / "connection")}
    done = subprocess.run([ansible / program, *map(str, arguments)], cwd=PLACE, env=environ, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_lint(ansible, tmp_path):
    status, said = run(ansible, tmp_path, "ansible-lint", "--offline", "--strict", "--profile", "production", "playbook.yml", "roles")
    assert status == 0, said


def test_the_user_is_that_of_the_page():
    """Without what it has where the module is loaded."""
    page = Document("docs/operate/acl.md").one("", "every command")
    role = (PLACE / "roles/redlock/templates/users.acl.j2").read_text(encoding="utf-8").split("{%")[0].replace("{{ redlock_prefix }}", "lock:")
    assert page.split("resetkeys")[1].strip() == role.split("resetkeys")[1].strip()


def plugin():
    spec = importlib.util.spec_from_file_location("redlock_filter", PLACE / "roles/redlock/filter_plugins/redlock.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FILE = "nodes = redis://locks:s%2F%40cret@db1:6390\nnodes = redis://locks:s%2F%40cret@db2:6390\nprefix = lock:\nttl-max = 60s\n"


@pytest.mark.parametrize("text, ttl_max, port, password, prefix, refused", [
    (FILE, "60s", 6390, PASSWORD, "lock:", []),
    (FILE, "1m", "6390", PASSWORD, "lock:", []),
    (FILE, "0.5h", 6390, PASSWORD, "lock:", []),
    (FILE, 60, 6390, PASSWORD, "lock:", []),
    (FILE, "59999ms", 6390, PASSWORD, "lock:", ["redlock_ttl_max is 59999ms, but ttl-max in /etc/redlock.conf is 60s on db1, db2."]),
    (FILE, "9s", 6390, PASSWORD, "lock:", ["Keep redlock_ttl_max: 60s."]),
    (FILE.replace("60s", '"1.5h"  # the longest'), "89m", 6390, PASSWORD, "lock:", ["Keep redlock_ttl_max: 1.5h."]),
    (FILE + "[other]\nttl-max = 2m\n", "60s", 6390, PASSWORD, "lock:", ["Keep redlock_ttl_max: 2m."]),
    (FILE, "60s", 6391, PASSWORD, "lock:", ["redlock_port is 6391, but /etc/redlock.conf on db1, db2 has servers at port 6390"]),
    (FILE, "60s", 6390, OTHER, "lock:", ["redlock_password is another than in /etc/redlock.conf on db1, db2"]),
    (FILE.replace("db2", "db3"), "60s", 6390, PASSWORD, "lock:", ["the servers are db1 db2, but db1 db3 in /etc/redlock.conf on db1, db2"]),
    (FILE + "nodes = redis://locks:s%2F%40cret@db3:6390\n", "60s", 6390, PASSWORD, "lock:", ["the servers are db1 db2, but db1 db2 db3 in"]),
    (FILE, "60s", 6390, PASSWORD, "mine:", ["redlock_prefix is 'mine:', but prefix in /etc/redlock.conf is 'lock:' on db1, db2"]),
    ("nodes = redis://:x@db1:1,redis://db2\nprefix = y\nttl-max = 1m", "60s", 6390, PASSWORD, "lock:", []),
    ("", "1s", 6390, PASSWORD, "lock:", []),
])
def test_what_is_refused(text, ttl_max, port, password, prefix, refused):
    said = plugin().refusals([{"item": "db1", "stdout": text}, {"item": "db2", "stdout": text}], ttl_max, port, password, prefix, [("db2", "host2"), ("", "db1")])
    assert len(said) == len(refused) and all(part in sentence for part, sentence in zip(refused, said)), said
    assert not any(secret in sentence for sentence in said for secret in (PASSWORD, OTHER))


@pytest.mark.parametrize("text, ms", [("500ms", 500), ("30s", 30000), ("2m", 120000), ("1h", 3600000), (7, 7000), (".5", 500), ("0.0001s", 1), ("1.5h", 5400000)])
def test_a_duration(text, ms):
    assert plugin().milliseconds(text) == ms


@pytest.mark.parametrize("text", ["", "1d", "-1s", "1 h", "s"])
def test_what_is_not_a_duration(text):
    with pytest.raises(ValueError):
        plugin().milliseconds(text)


def made_package(directory, name):
    """Of what is in the directory's `tree`."""
    control = f"Package: {name}\nVersion: 0.1.0\nArchitecture: all\nMaintainer: redlock <redlock@example.org>\nDescription: {name}\n"
    (directory / "tree/DEBIAN").mkdir(exist_ok=True)
    (directory / "tree/DEBIAN/control").write_text(control)
    subprocess.run(["dpkg-deb", "-Znone", "--root-owner-group", "-b", directory / "tree", directory / f"{name}.deb"], check=True, capture_output=True)
    return directory / f"{name}.deb"


def package(directory):
    """A package with what this build installs, without the module's drop-in, which the packages of redlock have apart."""
    directory.mkdir()
    install(directory / "tree")
    subprocess.run(["rm", "-rf", directory / "tree/usr/local/lib/systemd/system/redis-server@redlock.service.d"], check=True)
    return made_package(directory, "redlock-test")


def valkey(directory):
    """The distribution's package, or one of a server that scripts/install-servers has: as Debian has its Redis, with the libraries of
    the server's own release. None: it is installed."""
    if shutil.which("valkey-server"):
        return None
    theirs, unit = SERVERS / "valkey-8", pathlib.Path("/lib/systemd/system/redis-server@.service")
    if not (theirs / "lib").is_dir():
        pytest.skip("needs valkey-server: a package of the distribution, or scripts/install-servers valkey-8")
    tree = directory / "tree"
    shutil.copytree(theirs / "lib", tree / "usr/lib/valkey")
    shutil.copy(theirs / "bin/redis-server", tree / "usr/lib/valkey/valkey-server")
    for each in ("usr/bin", "etc/valkey", "var/lib/valkey", "var/log/valkey", "lib/systemd/system", "DEBIAN"):
        (tree / each).mkdir(parents=True)
    (tree / "usr/bin/valkey-server").symlink_to("/usr/lib/valkey/valkey-server")
    text, loader = unit.read_text(encoding="utf-8").replace("redis", "valkey"), next((theirs / "lib").glob("ld-linux-*")).name
    command = f"ExecStart=/usr/lib/valkey/{loader} --library-path /usr/lib/valkey /usr/lib/valkey/valkey-server"
    (tree / "lib/systemd/system/valkey-server@.service").write_text(text.replace("ExecStart=/usr/bin/valkey-server", command))
    (tree / "DEBIAN/postinst").write_text("#!/bin/sh\nset -e\nuseradd -r valkey\nchown valkey:valkey /etc/valkey /var/lib/valkey /var/log/valkey\n")
    (tree / "DEBIAN/postinst").chmod(0o755)
    return made_package(directory, "valkey-server")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A directory for the machines, and the network that they have in common."""
    own_network()
    return tmp_path_factory.mktemp("machines")


@pytest.fixture(scope="module")
def machines(place):
    """Four: three for a quorum of Redis, one for Valkey."""
    fleet = Fleet(Cluster(place), place, installed=False)
    try:
        made = [fleet.machine() for _ in (*NAMES, "db4")]
        fleet.boot()
        if "install ok" not in made[0].run("dpkg-query", "-W", "-f", "${Status}", "redis-server", "python3-apt")[0]:
            pytest.skip("redis-server or python3-apt is not a package here")
        yield made
    finally:
        fleet.close()


@pytest.fixture(scope="module")
def deb(place):
    return package(place / "package")


class Role:
    """Runs the playbook on some machines."""

    def __init__(self, ansible, directory, machines, log, **settings):
        self.ansible, self.directory, self.log, self.settings, self.number = ansible, directory, log, settings, len(machines)
        hosts = "".join(f"{name} ansible_host={machine.pid} redlock_address={machine.address}\n" for name, machine in machines.items())
        directory.mkdir()
        (directory / "inventory").write_text(f"[locks]\n{hosts}[locks:vars]\nansible_python_interpreter=/usr/bin/python3\nansible_connection=machine\nansible_become=false\n")

    def play(self, *arguments, fails=False, **settings):
        """How many tasks changed something on each host, and what was said."""
        begun = time.monotonic()
        given = self.settings | {f"redlock_{name}": value for name, value in settings.items()}
        status, said = run(self.ansible, self.directory / "home", "ansible-playbook", "-i", self.directory / "inventory", "playbook.yml",
                           "-e", json.dumps(given), *arguments)
        assert (status != 0) == fails and PASSWORD not in said and OTHER not in said, said
        counts = {host: int(count) for host, count in re.findall(r"(?m)^(\w+) .*changed=(\d+) ", said)}
        self.log(f"ansible-playbook: {time.monotonic() - begun:.0f} s, changed {counts}")
        return counts, said


class Watched:
    """The servers of some machines, and a lock that is held on them."""

    def __init__(self, machines):
        self.machines = machines
        self.processes = self.pids()
        self.holder = machines[2].start("redlock", "run", "--ttl", f"{LOWER}ms", "held", "--", "sleep", "1000")
        until(lambda: "held by" in machines[1].run("redlock", "show", "held")[0], 10, "the lock")

    def pids(self):
        return [machine.said("systemctl", "show", "-p", "MainPID", "--value", UNIT).strip() for machine in self.machines]

    def restarted(self):
        """Those that run in another process than before."""
        before, self.processes = self.processes, self.pids()
        assert self.holder.poll() is None, "the lock was lost"
        return [name for name, old, new in zip(NAMES, before, self.processes) if old != new]


def test_the_role(ansible, place, machines, deb, log):
    made = machines[:3]
    role = Role(ansible, place / "redis", dict(zip(NAMES, made)), log, redlock_password=PASSWORD, redlock_ttl_max=f"{TTL_MAX}ms", redlock_packages=[str(deb)])
    assert min(role.play()[0].values()) > 0
    assert "Fit to hold locks: 0 errors, 0 warnings" in made[1].said("redlock", "doctor")

    # The quorum's own ttl_max is lowered without the role, which then changes nothing.
    made[0].said("redlock", "quorum", "set-ttl-max", "--yes", f"{LOWER}ms")
    record, files = made[0].said("redlock", "quorum", "status", "--json"), made[0].read("/etc/redlock.conf")
    counts, said = role.play()
    assert counts == dict.fromkeys(NAMES, 0), said
    assert made[0].said("redlock", "quorum", "status", "--json") == record
    assert files.count("nodes = ") == 3 and files == made[1].read("/etc/redlock.conf")

    # It refuses, also for hosts that --limit leaves out, what would cost locks, and changes nothing.
    watched = Watched(made)
    made[0].said("mv", "/etc/redlock.conf", "/etc/elsewhere")
    counts, said = role.play("--limit", "db1", fails=True, ttl_max=5, port=7000, password=OTHER, prefix="mine:")
    made[0].said("mv", "/etc/elsewhere", "/etc/redlock.conf")
    assert counts == {"db1": 0} and [f"redlock_{name} is " in said for name in ("ttl_max", "port", "password", "prefix")] == [True] * 4, said

    # Of two servers to restart, the first one does not come back: the second one goes on.
    made[0].write(f"/etc/systemd/system/{UNIT}.service.d/broken.conf", "[Service]\nExecStartPre=/bin/false\n", 0o644)
    for machine in made[:2]:
        machine.said("sed", "-i", "s/noeviction/allkeys-lru/", "/etc/redis/redis-redlock.conf")
    counts, said = role.play("--limit", "db1,db2", fails=True)
    assert f"Job for {UNIT}.service failed" in said and watched.restarted() == ["db1"], said
    made[0].said("rm", f"/etc/systemd/system/{UNIT}.service.d/broken.conf")
    made[0].said("systemctl", "daemon-reload")
    made[0].run("systemctl", "reset-failed", UNIT)

    # The next run restarts what the first one left, when the others are intact and locks are on all of them. It gets a module, too.
    shutil.copy(pathlib.Path(os.environ["REDLOCK_BUILD"]) / "redlock-node.conf", made[1].at(f"/etc/systemd/system/{UNIT}.service.d/redlock.conf"))
    role.play("--limit", "db1,db2")
    assert watched.restarted() == ["db1", "db2"] and [machine.read("/etc/redlock.conf") for machine in made] == [files] * 3
    assert [member["native"] for member in json.loads(made[0].said("redlock", "quorum", "status", "--json"))["members"]] == [False, True, False]

    # An upgrade of the module, as dpkg does it.
    made[1].said("sh", "-c", "cd /usr/local/lib/redlock && cp redlock.so new && mv new redlock.so")
    assert role.play("--limit", "db2")[0] == {"db2": 1} and watched.restarted() == ["db2"]

    # Another password, as the page has it: a server accepts both.
    block = Document("docs/operate/packaging.md").one("sh", "another password")
    made[2].said("env", f"new={OTHER}", "sh", "-ec", block.replace("sleep 60", f"sleep {LOWER / 1000}"))
    for password in (PASSWORD, OTHER):
        assert made[2].said("redis-cli", "-p", 6390, "--user", "locks", "--pass", password, "--no-auth-warning", "TYPE", "lock:held") == "string\n"
    assert watched.restarted() == ["db3"]

    # The quorum's ttl_max was raised without the role.
    made[0].said("sed", "-i.role", "s/^ttl-max = .*/ttl-max = 1m/", "/etc/redlock.conf")
    made[0].said("redlock", "quorum", "set-ttl-max", "--yes", "1m")
    made[0].said("mv", "/etc/redlock.conf.role", "/etc/redlock.conf")
    assert "Set redlock_ttl_max to 60000ms." in " ".join(role.play("--limit", "db3", fails=True)[1].split())
    assert watched.restarted() == []
    watched.holder.kill()
    watched.holder.wait()


def test_valkey(ansible, place, machines, deb, log):
    """On one machine, whose quorum is of one."""
    (place / "valkey").mkdir()
    packed, machine = valkey(place / "valkey"), machines[3]
    if packed:
        shutil.copy(packed, machine.at("/root/valkey.deb"))
        machine.said("dpkg", "-i", "/root/valkey.deb")
    role = Role(ansible, place / "one", {"db4": machine}, log, redlock_password=PASSWORD, redlock_ttl_max="1s", redlock_server="valkey",
                redlock_packages=[str(deb)])
    assert role.play()[0]["db4"] > 0
    assert "server_name:valkey" in machine.said("redis-cli", "-p", 6390, "--user", "locks", "--pass", PASSWORD, "--no-auth-warning", "INFO", "server")
    assert machine.said("redlock", "run", "--ttl", "1s", "x", "--", "echo", "held") == "held\n"
    counts, said = role.play()
    assert counts == {"db4": 0}, said
