# SPDX-License-Identifier: BSD-2-Clause
"""docs/use/cookbook.md: each recipe as it stands on the page. A "machine" is a process with an environment of its own."""
import configparser
import contextlib
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

import pytest

from documents import Document
from recipes import Missing, PostgreSQL
from servers import Quorum, accepts, until

PAGE = Document("docs/use/cookbook.md")
HELD, NO_QUORUM, LOST = 75, 69, 80


@pytest.fixture
def fleet(shell):
    """Three guarded servers, named in a configuration file as in /etc/redlock.conf."""
    with Quorum(3) as servers:
        file = shell.directory / "redlock.conf"
        # A node is waited for longer than by default: the machine may be busy.
        file.write_text(f"nodes = {servers.nodes}\nmode = guarded\nttl-max = 1m\nnode-timeout = 250ms\n")
        shell.environ["REDLOCK_CONFIG"] = str(file)
        shell("redlock quorum init --never-used --yes")
        yield servers


def ini(label):
    parser = configparser.ConfigParser(interpolation=None, strict=True)
    parser.optionxform = str
    parser.read_string(PAGE.one("ini", label))
    return parser


def exec_start(label):
    """The unit's command with the redlock under test; systemd's quoting is that of the shell here."""
    words = shlex.split(ini(label)["Service"]["ExecStart"])
    assert words[0] == "/usr/local/bin/redlock"
    return ["redlock", *words[1:]]


def verify_units(shell, *labels):
    if shutil.which("systemd-analyze") is None:
        return
    for label in labels:
        text = PAGE.one("ini", label)
        (shell.directory / label).write_text(text.replace("/usr/local/bin/redlock", "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", *labels], cwd=shell.directory, capture_output=True, text=True,
                          check=False)
    ours = [line for line in done.stderr.splitlines() if any(label in line for label in labels)]
    assert ours == [], done.stderr


def once_in_a_fleet(shell, command):
    """Three machines run a short job, the last one when the first has long finished it."""
    backups = shell.directory / "backups"
    shell.program("backup", f"#!/bin/sh\necho x >> {backups}\n")
    first, second = shell.start(command), shell.start(command)
    until(backups.exists, what="a backup")
    third = shell.start(command)
    for process in (first, second, third):
        process.communicate(timeout=60)
    assert backups.read_text() == "x\n"
    return sorted(process.returncode for process in (first, second, third))


def shortened(text):
    """The same command in less time: it waits for less long than the lock stays held."""
    assert text.count("--min-hold 1m") == 1 and text.count("--wait 10s") == 1
    return text.replace("--min-hold 1m", "--min-hold 4s").replace("--wait 10s", "--wait 1s")


def test_cron(shell, fleet):
    settings, line = PAGE.one("cron").splitlines()
    assert settings == "PATH=/usr/local/bin:/usr/bin:/bin"
    assert "%" not in line
    schedule, user, command = re.fullmatch(r"((?:\S+ ){5})(\w+) (.*)", line).groups()
    assert (schedule, user) == ("0 3 * * * ", "root")
    command = shortened(command)
    assert once_in_a_fleet(shell, command) == [0, 0, 0]
    for server in fleet.servers[:2]:
        server.process.kill()
    said = shell(command, status=NO_QUORUM)  # cron sends this as mail
    assert said.startswith("redlock: nightly: "), said


def test_systemd_timer(shell, fleet):
    verify_units(shell, "nightly.service", "nightly.timer")
    service = ini("nightly.service")["Service"]
    assert "SuccessExitStatus" not in service and service["Type"] == "oneshot" and service["KillMode"] == "mixed"
    assert ini("nightly.timer")["Timer"]["AccuracySec"] == "1s"
    command = shlex.join(exec_start("nightly.service"))
    assert once_in_a_fleet(shell, shortened(command)) == [0, 0, 0]


def test_migration_in_ci(shell, fleet):
    with contextlib.ExitStack() as stack:
        try:
            database = PostgreSQL(shell.directory)
        except Missing as missing:
            pytest.skip(str(missing))
        stack.callback(database.close)
        shell.environ.update(PGHOST=str(database.directory), PGUSER="gate", PGDATABASE="postgres")
        (shell.directory / "gate.sql").write_text(PAGE.one("sql", "gate.sql"))
        shell.program("../migrate", PAGE.one("sh", "migrate"))
        migrations = shell.directory / "migrations"
        migrations.mkdir()
        (migrations / "01-customer.sql").write_text("CREATE TABLE customer (id int);\n")
        (migrations / "02-two-customers.sql").write_text("INSERT INTO customer VALUES (1);\nINSERT INTO customer VALUES (2);\n")

        command = PAGE.one("sh", "migrate in CI")
        pipelines = [shell.start(command) for _ in range(3)]
        said = [pipeline.communicate(timeout=60)[0] for pipeline in pipelines]
        assert [pipeline.returncode for pipeline in pipelines] == [0, 0, 0], said
        assert sorted(said) == ["", "", "applying 01-customer\napplying 02-two-customers\n"]
        assert database.ask("SELECT count(*) FROM customer;") == "2"

        (migrations / "03-broken.sql").write_text("INSERT INTO customer VALUES (3);\nnonsense;\n")
        shell(command, status=3)
        assert database.ask("SELECT count(*) FROM customer;") == "2", "a failed migration leaves nothing"

        # A holder that was paused since before the others' locks.
        (migrations / "03-broken.sql").write_text("INSERT INTO customer VALUES (3);\n")
        shell("./migrate", environ={"REDLOCK_FENCE": "7"}, status=3)
        assert database.ask("SELECT count(*) FROM customer;") == "2"
        assert shell(command) == "applying 03-broken\n"
        assert database.ask("SELECT count(*) FROM customer;") == "3"


def processes_of(machine):
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if f"MACHINE={machine}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
    return found


def test_leader(shell, fleet):
    verify_units(shell, "scheduler.service")
    service = ini("scheduler.service")["Service"]
    assert service["Restart"] == "always" and service["KillMode"] == "mixed"
    terms = shell.directory / "terms"
    shell.program("scheduler", f"#!/bin/sh\necho \"$MACHINE $REDLOCK_FENCE\" >> {terms}\nexec sleep 1000\n")
    words = exec_start("scheduler.service")
    assert words[words.index("--ttl") + 1] == "10s"

    def machine(name, ttl="10s"):
        command = shlex.join(ttl if word == "10s" else word for word in words)
        return shell.start(f"exec {command}", environ={"MACHINE": name})

    def leaders():
        return [line.split() for line in terms.read_text().splitlines()] if terms.exists() else []

    first = machine("a", ttl="2s")
    until(lambda: len(leaders()) == 1, what="the first leader")
    second = machine("b", ttl="2s")
    time.sleep(1)
    assert len(leaders()) == 1
    begun = time.monotonic()
    for pid in processes_of("a"):  # the machine dies: nobody releases anything
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    until(lambda: len(leaders()) == 2, what="the second leader")
    assert time.monotonic() - begun < 10
    third = machine("a")
    second.terminate()  # the unit stops: the lock is released
    until(lambda: len(leaders()) == 3, what="the third leader")
    assert second.wait(10) == -signal.SIGTERM
    third.terminate()
    assert third.wait(10) == -signal.SIGTERM
    first.wait(10)
    assert [name for name, _ in leaders()] == ["a", "b", "a"]
    fences = [int(fence) for _, fence in leaders()]
    assert fences == sorted(set(fences)), "each term is higher"


def test_kubernetes_job(shell, fleet):
    yaml = pytest.importorskip("yaml")
    job = yaml.safe_load(PAGE.one("yaml", "job"))
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "Job")
    pod = job["spec"]["template"]["spec"]
    assert pod["restartPolicy"] == "Never" and pod["terminationGracePeriodSeconds"] > 5
    assert job["spec"]["podFailurePolicy"]["rules"][0]["onExitCodes"]["values"] == [64, 78]
    (container,) = pod["containers"]
    assert all(isinstance(word, str) for word in container["command"])
    secret = re.search(r"create secret generic (\w+) --from-literal=(\w+)=", PAGE.section("A Kubernetes Job")).groups()
    environ = {"REDLOCK_CONFIG": "/dev/null"}
    for each in container["env"]:
        if "value" in each:
            environ[each["name"]] = each["value"]
        else:
            reference = each["valueFrom"]["secretKeyRef"]
            assert (reference["name"], reference["key"]) == secret
            environ[each["name"]] = fleet.nodes
    assert environ.keys() == {"REDLOCK_CONFIG", "REDLOCK_NODES", "REDLOCK_MODE"}
    shell.program("make-report", "#!/bin/sh\necho \"begin $*\" >> log\nsleep 0.5\necho end >> log\n")
    pods = [shell.start(f"exec {shlex.join(container['command'])}", environ=environ) for _ in range(3)]
    said = [pod.communicate(timeout=60)[0] for pod in pods]
    assert [pod.returncode for pod in pods] == [0, 0, 0], said
    assert (shell.directory / "log").read_text() == "begin --all\nend\n" * 3
    wrong = {**environ, "REDLOCK_NODES": "gopher://nowhere"}
    assert shell(shlex.join(container["command"]), environ=wrong, status=78)


def test_several_commands(shell, fleet):
    script = PAGE.one("sh", "several commands")
    for step in ("first-step", "second-step"):
        shell.program(f"../{step}", f"#!/bin/sh\necho {step} >> log\nredlock run -q --nonblock deploy -- true\necho $? >> log\n")
    script = script.replace("--wait 1m", "--wait 1s")
    shell(script)
    log = shell.directory / "log"
    assert log.read_text() == f"first-step\n{HELD}\nsecond-step\n{HELD}\n"
    shell("redlock run --nonblock deploy -- true")  # released at the end
    shell("redlock acquire -t 30s deploy")
    log.unlink()
    shell(script, status=HELD)
    assert not log.exists()


def rows():
    """The command cells of the table under From flock(1)."""
    found = re.findall(r"^\| `(flock .*?)` \| `(redlock .*?)` \|$", PAGE.section("From flock(1)"), re.MULTILINE)
    assert len(found) == 6
    return found


@pytest.mark.parametrize("theirs, ours", rows())
def test_from_flock(shell, fleet, theirs, ours):
    if shutil.which("flock") is None:
        pytest.skip("flock(1) is not installed")
    theirs, ours = (text.replace("CMD", "echo ran") for text in (theirs, ours))
    assert shell(theirs) == shell(ours) != ""
    bounded = "-n" in ours.split() or "-w" in ours.split()
    status = 3 if "-E 3" in ours else HELD
    holder = shell.start("flock job.lock sh -c 'redlock run job -- sh -c \"touch held; sleep 1000\"'")
    until((shell.directory / "held").exists, what="both locks")
    if bounded:
        shell(theirs, status=1 if status == HELD else status)
        shell(ours, status=status)
    else:
        waiting = [shell.start(command) for command in (theirs, ours)]
        time.sleep(0.5)
        assert [process.poll() for process in waiting] == [None, None]
    for pid in shell.here.processes():
        if pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"sleep\0"):
            os.kill(pid, signal.SIGTERM)
    holder.wait(10)
    if not bounded:
        assert ["ran" in process.communicate(timeout=30)[0] for process in waiting] == [True, True]


def test_tests_inside_a_quorum(shell):
    shell.program("../tests", "redlock run nightly -- echo held")
    assert shell(PAGE.one("sh", "tests inside a quorum")) == "held\n"


HELD_ONCE = 'assert subprocess.run(["redlock", "run", "-N", redlock_nodes, "nightly", "--", "true"]).returncode == 0'


def test_pytest_fixture(shell):
    fixture = PAGE.one("python", "pytest fixture")
    test = f"import subprocess\n\nimport pytest\n\n\n{fixture}\n\ndef test_it(redlock_nodes):\n    {HELD_ONCE}\n"
    (shell.directory / "test_program.py").write_text(test)
    assert "1 passed" in shell(f"{shlex.quote(sys.executable)} -m pytest -q -p no:cacheprovider test_program.py")


NODE_TEST = """import { equal } from "node:assert";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";

%s
test("a lock", () => equal(spawnSync("redlock", ["run", "-N", nodes, "nightly", "--", "true"]).status, 0));
"""


def test_node_hooks(shell):
    if not shutil.which("node"):
        pytest.skip("node is not installed")
    (shell.directory / "program.mjs").write_text(NODE_TEST % PAGE.one("js", "node hooks"))
    assert re.search(r"^# pass 1$", shell("node --test --test-reporter tap program.mjs"), re.MULTILINE)


# What redsync sends (tests/interop has redsync itself).
REDSYNC_VALUE = "bm90IGEgdG9rZW4gb2Ygb3Vycw=="


def test_next_to_redsync(shell):
    commands = PAGE.one("sh", "next to redsync").replace("./job", "true")
    with Quorum(3) as servers:
        shell.environ["REDLOCK_NODES"] = servers.nodes
        assert shell(commands).startswith("nightly: free")
        for server in servers:
            assert server.ask("SET", "nightly", REDSYNC_VALUE, "NX", "PX", 8000) == b"OK"
        shell(commands, status=HELD)
        for server in servers:
            assert server.ask("GET", "nightly").decode() == REDSYNC_VALUE
            server.ask("DEL", "nightly")
        shell(commands)


def test_redsync_at_the_gateway(shell, fleet):
    """The Go text is Go, and the address in it is the one in the command for the gateway."""
    text = PAGE.one("go", "redsync at the gateway")
    if shutil.which("gofmt"):
        program = "package main\n\nfunc move() error {\n" + text.replace("\n", "\n\t") + "return nil\n}\n"
        subprocess.run(["gofmt", "-e"], input=program, text=True, check=True, capture_output=True)
    url = re.search(r'ParseURL\("(unix://\S+)"\)', text)[1]
    section = PAGE.section("From redsync")
    command = re.search(r"`(redlock serve --listen (\S+))`", section)
    assert command[2] == url
    socket = shell.directory / "gateway.sock"
    gateway = shell.start("exec " + command[1].replace(url, f"unix://{socket}"))
    until(lambda: accepts(socket), what="the gateway's socket")
    ask = f"redis-cli -s {socket}"
    assert shell(f"{ask} SET nightly '{REDSYNC_VALUE}' NX PX 30000") == "OK\n"
    shell("redlock run --nonblock nightly -- true", status=HELD)
    release = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end"
    assert shell(f"{ask} EVAL \"{release}\" 1 nightly '{REDSYNC_VALUE}'") == "1\n"
    shell("redlock run --nonblock nightly -- true")
    gateway.terminate()
    assert gateway.wait(15) == 0


def test_every_recipe_is_run():
    """A block without a label is one that no test here takes from the page."""
    labels = {block.label for block in PAGE.blocks if block.language != "console"}
    source = pathlib.Path(__file__).read_text(encoding="utf-8")
    assert None not in labels, [block for block in PAGE.blocks if block.label is None]
    assert [label for label in labels if f'"{label}"' not in source] == []
