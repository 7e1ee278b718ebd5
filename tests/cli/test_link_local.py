# SPDX-License-Identifier: BSD-2-Clause
"""Nodes on IPv6 addresses of one link, whose URLs name the interface: in a network of the test's own."""
import json
import shutil
import subprocess

import pytest

from conftest import BINARY
from servers import die_with_us

NETWORK = ["unshare", "--user", "--map-root-user", "--net", "--pid", "--fork", "--kill-child", "sh", "-ec"]
LINK = "ip link set lo up; ip address add fe80::1/64 dev lo nodad"
SCRIPT = LINK + """
for port in 7001 7002 7003; do
    mkdir $port
    redis-server --port $port --bind fe80::1%lo --protected-mode no --save '' --dir $port >$port/log 2>&1 &
done
for port in 7001 7002 7003; do until redis-cli -h fe80::1%lo -p $port ping; do sleep 0.1; done; done >/dev/null 2>&1
$REDLOCK quorum init --never-used --yes --ttl-max 60s >init
$REDLOCK run nightly -- env >environment
$REDLOCK quorum status --json >status
"""


@pytest.fixture
def network():
    made = shutil.which("unshare") and shutil.which("ip") and subprocess.run([*NETWORK, LINK], capture_output=True, check=False).returncode == 0
    if not made:
        pytest.skip("no network of its own can be made here")


def test_a_quorum_on_one_link(redlock, network, tmp_path):
    nodes = [f"redis://[fe80::1%25lo]:{port}" for port in (7001, 7002, 7003)]
    environ = {**redlock.environ, "REDLOCK": BINARY, "REDLOCK_NODES": ",".join(nodes)}
    done = subprocess.run([*NETWORK, SCRIPT], cwd=tmp_path, env=environ, stdin=subprocess.DEVNULL, capture_output=True, timeout=60,
                          preexec_fn=die_with_us, check=False)
    assert done.returncode == 0, done.stderr
    assert "REDLOCK_MODE=guarded" in (tmp_path / "environment").read_text()
    members = json.loads((tmp_path / "status").read_text())["members"]
    assert sorted(member["url"] for member in members) == nodes


def test_an_interface_that_is_not_there(redlock):
    done = redlock("acquire", "-N", "redis://[fe80::1%25none0]:7001", "x")
    assert (done.returncode, b"redis://[fe80::1%25none0]:7001: host name not found" in done.stderr) == (69, True), done.stderr
