# SPDX-License-Identifier: BSD-2-Clause
"""The systemd units: well-formed, and shutting out what the services do not need. fleet.units runs them."""
import configparser
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import subprocess
import time

import pytest

from servers import until

BUILD, PACKAGING = pathlib.Path(os.environ["REDLOCK_BUILD"]), pathlib.Path(os.environ["REDLOCK_SOURCE"]) / "packaging" / "systemd"
SERVICE, SOCKET = BUILD / "redlock-serve.service", PACKAGING / "redlock-serve.socket"
# systemd's own mark for each, from 0 (safe) to 10; a template is judged by an instance.
EXPOSURE = {"redlock-serve.service": 1.0, "redlock-exporter.service": 1.0, "redlock-quorum-init@10m.service": 1.0,
            "redlock-elect@true.service": 1.5, "redlock-run@true.service": 1.5}
NODE = "redis-server@redlock.service"


def read(path):
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str
    parser.read(path)
    return parser


def test_what_the_service_runs():
    service = read(SERVICE)["Service"]
    assert service["Type"] == "notify"
    assert service["ExecStart"].endswith("/redlock serve") and service["ExecStart"].startswith("/")
    assert read(SERVICE)["Unit"]["Requires"] == SOCKET.name
    assert read(SOCKET)["Socket"]["SocketMode"] == "0660"


@pytest.fixture
def units(tmp_path):
    """The units with the binary that was built, and a program where theirs would be."""
    for path in BUILD.glob("redlock-*.service"):
        text = re.sub(r"(?m)^ExecStart=\S+", f"ExecStart={os.environ['REDLOCK_BIN']}", path.read_text())
        (tmp_path / path.name).write_text(re.sub("-- /etc/redlock/(elect|run)/", "-- /bin/", text))
    for path in (SOCKET, PACKAGING / "redlock-run@.timer"):
        shutil.copy(path, tmp_path)
    return tmp_path


def template(unit):
    return re.sub("@.*[.]", "@.", unit)


def analyze(*arguments, path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    return subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True, check=False, timeout=60,
                          env={**os.environ, "SYSTEMD_UNIT_PATH": f"{path}:"})


def test_systemd_finds_nothing_wrong(units):
    names = [*EXPOSURE, SOCKET.name, "redlock-run@true.timer"]
    assert {template(name) for name in names} == {path.name for path in units.iterdir()}, "each unit that is installed"
    done = analyze("verify", "--man=no", *(str(units / name) for name in names), path=units)
    ours = [line for line in done.stderr.splitlines() if "redlock" in line]
    assert (done.returncode, ours) == (0, []), done


def judged(units, unit, most):
    """systemd's mark, printed; above the threshold it fails."""
    done = analyze("security", "--offline=true", f"--threshold={round(most * 10)}", "--no-pager", unit, path=units)
    mark = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    if not mark:
        pytest.skip(f"this systemd does not judge units offline: {done.stderr}")
    print(f"{pathlib.Path(unit).name}: {mark[1]}")
    assert done.returncode == 0, f"{mark[0]}, at most {most}:\n" + "\n".join(re.findall("✗.*", done.stdout))


@pytest.mark.parametrize("unit, most", EXPOSURE.items())
def test_hardening(units, unit, most):
    judged(units, str(units / unit), most)


def test_hardening_of_the_node(tmp_path):
    """The drop-in with the distribution's unit."""
    theirs = pathlib.Path("/lib/systemd/system/redis-server@.service")
    if not theirs.exists():
        pytest.skip("needs the unit redis-server@.service, which is not installed")
    shutil.copy(theirs, tmp_path)
    (tmp_path / f"{NODE}.d").mkdir()
    shutil.copy(BUILD / "redlock-node.conf", tmp_path / f"{NODE}.d/redlock.conf")
    judged(tmp_path, NODE, 1.1)


def test_what_ends_it_does_not_end_the_service():
    unit, service = read(SERVICE)["Unit"], read(SERVICE)["Service"]
    assert unit["StartLimitIntervalSec"] == "0" and service["Restart"] == "on-failure"
    assert service["RestartPreventExitStatus"].split() == ["64", "78"]
    assert (service["WatchdogSec"], service["WatchdogSignal"], service["LimitCORE"]) == ("10", "SIGKILL", "0")


def test_reload_needs_no_program_called_kill(start, quorum, tmp_path):
    """ExecReload as systemd runs it: `$$` is a dollar, and MAINPID is in the environment."""
    password = tmp_path / "password"
    password.write_text("first\n")
    gateway = start(quorum.nodes, "--password-file", str(password))
    words = shlex.split(read(SERVICE)["Service"]["ExecReload"].replace("$$", "$"))
    assert words[0] == "/bin/sh", "each machine has this one"
    subprocess.run(words, env={"MAINPID": str(gateway.process.pid), "PATH": str(tmp_path)}, check=True)
    until(lambda: any("read again" in line for line in gateway.said), what="the password file read again")


class Notified:
    """What a service says to systemd."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.path = str(path)

    def within(self, seconds):
        """(when, words) of all that comes in that time."""
        end, got = time.monotonic() + seconds, []
        while (left := end - time.monotonic()) > 0:
            self.socket.settimeout(left)
            try:
                got.append((time.monotonic(), self.socket.recv(4096).decode()))
            except TimeoutError:
                break
        return got

    def wait_for(self, words, seconds=10):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if any(words in said for _, said in self.within(0.1)):
                return
        raise AssertionError(f"{words} was not said")


def test_a_manager_that_reads_nothing(start, quorum, tmp_path):
    """The kernel keeps eleven messages or so for it: the gateway waits for no reader."""
    notified = Notified(tmp_path / "notify")
    gateway = start(quorum.nodes, environ={"NOTIFY_SOCKET": notified.path, "WATCHDOG_USEC": "20000"})
    with gateway.connect() as client:
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            assert client("PING") == "PONG"
            time.sleep(0.01)
    gateway.process.terminate()
    assert gateway.process.wait(10) == 0


def test_watchdog(start, quorum, tmp_path):
    """It is fed from the loop: a loop that stands still feeds it no more."""
    notified = Notified(tmp_path / "notify")
    gateway = start(quorum.nodes, environ={"NOTIFY_SOCKET": notified.path, "WATCHDOG_USEC": "300000"})
    fed = [at for at, said in notified.within(1.5) if said == "WATCHDOG=1"]
    assert len(fed) >= 8
    os.kill(gateway.process.pid, signal.SIGSTOP)
    try:
        notified.within(0.3)
        assert notified.within(1) == []
    finally:
        os.kill(gateway.process.pid, signal.SIGCONT)
    notified.wait_for("WATCHDOG=1")
