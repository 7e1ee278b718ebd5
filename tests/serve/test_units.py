# SPDX-License-Identifier: BSD-2-Clause
"""The systemd units: well-formed, and shutting out what the gateway does not need."""
import configparser
import os
import pathlib
import re
import shutil
import subprocess

import pytest

SERVICE = pathlib.Path(os.environ["REDLOCK_BUILD"]) / "redlock-serve.service"
SOCKET = pathlib.Path(os.environ["REDLOCK_SOURCE"]) / "packaging" / "systemd" / "redlock-serve.socket"


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
    """The units with the binary that was built."""
    text = SERVICE.read_text().replace(f"ExecStart={read(SERVICE)['Service']['ExecStart'].split()[0]}", f"ExecStart={os.environ['REDLOCK_BIN']}")
    (tmp_path / SERVICE.name).write_text(text)
    shutil.copy(SOCKET, tmp_path)
    return tmp_path


def analyze(*arguments, path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    return subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True, check=False, timeout=60,
                          env={**os.environ, "SYSTEMD_UNIT_PATH": f"{path}:"})


def test_systemd_finds_nothing_wrong(units):
    done = analyze("verify", "--man=no", str(units / SERVICE.name), str(units / SOCKET.name), path=units)
    ours = [line for line in done.stderr.splitlines() if "redlock" in line]
    assert (done.returncode, ours) == (0, []), done


def test_hardening(units):
    """systemd's own mark from 0 (safe) to 10."""
    done = analyze("security", "--offline=true", "--no-pager", str(units / SERVICE.name), path=units)
    if "Overall exposure" not in done.stdout:
        pytest.skip(f"this systemd does not judge units offline: {done.stderr}")
    mark = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert mark and float(mark[1]) < 2.0, done.stdout
