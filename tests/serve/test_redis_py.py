# SPDX-License-Identifier: BSD-2-Clause
"""redis-py's own test of its lock, unchanged, against a gateway with two of its five nodes gone. redis_py/suite_conftest.py says what
of it does not apply."""
import os
import pathlib
import re
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "bench" / "peers"))
import installing  # noqa: E402


class Suite:
    """As bench/peers/installing.py wants it."""
    name, source = "redis_py", HERE / "redis_py"
    build = installing.default_builds() / "serve" / name
    log = build.parent / f"{name}.log"
    needs = ["python3"]
    install_commands = [["python3", "-m", "venv", "venv"],
                        ["venv/bin/pip", "install", "--quiet", "-r", "requirements.txt"],
                        ["venv/bin/pip", "download", "--quiet", "--no-deps", "--no-binary", "redis", "-d", "sdist", "-c", "requirements.txt", "redis"],
                        ["venv/bin/python", "unpack.py"]]

    def command(self, words):
        return words


@pytest.fixture(scope="module")
def suite():
    it = Suite()
    it.build.parent.mkdir(parents=True, exist_ok=True)
    try:
        installing.install(it)
    except installing.Skipped as why:
        pytest.skip(f"redis-py's tests: {why}")
    return it


def test_redis_pys_own_tests_of_its_lock(start, own_quorum, suite):
    # Some of its locks live for 100 ms.
    gateway = start(own_quorum.nodes, "--node-timeout", "45ms")
    for server in own_quorum.servers[:2]:
        server.process.kill()
        server.process.wait()
    done = subprocess.run([suite.build / "venv/bin/python", "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"],
                          cwd=suite.build / "suite", env={**os.environ, "GATEWAY_URL": f"unix://{gateway.path}"}, capture_output=True, text=True,
                          timeout=200, check=False)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    passed, left_out = re.search(r"(\d+) passed, (\d+) deselected", done.stdout).groups()
    assert (int(passed), int(left_out)) == (25, 7)
