# SPDX-License-Identifier: BSD-2-Clause
"""The fixture `redlock_nodes`: the URLs of a guarded quorum of the test's own, for redlock.Client()."""
import shutil
import subprocess
from typing import Iterator

import pytest


@pytest.fixture(scope="session")
def redlock_nodes() -> Iterator[str]:
    """Starts `redlock up`, and ends it with the session."""
    command = shutil.which("redlock")
    if command is None:
        pytest.skip("the command redlock is not on the PATH: install the package redlock")
    up = subprocess.Popen([command, "up", "-q", "-n", "3", "--", "sh", "-c", 'echo "$REDLOCK_NODES"; exec cat'],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert up.stdin is not None and up.stdout is not None
    try:
        nodes = up.stdout.readline().strip()
        if not nodes:
            pytest.fail(f"redlock up ended with status {up.wait(10)}")
        yield nodes
    finally:
        up.stdin.close()
        up.wait(30)
        up.stdout.close()
