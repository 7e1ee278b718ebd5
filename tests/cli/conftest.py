# SPDX-License-Identifier: BSD-2-Clause
"""redlock(1) under test, and servers of the tests' own on ports the kernel gives."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import uuid

import pytest

from servers import Quorum

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "house"))
from leftovers import Room  # noqa: E402

BINARY = os.environ.get("REDLOCK_BIN", "redlock")


class Redlock:
    """Calls the program with a clean environment: no configuration file, no nodes but those said here."""

    def __init__(self, nodes=None, environ=None):
        clean = {name: value for name, value in os.environ.items() if not name.startswith("REDLOCK_")}
        self.environ = {**clean, "REDLOCK_CONFIG": "/dev/null", **(environ or {})}
        if nodes:
            self.environ["REDLOCK_NODES"] = nodes

    def __call__(self, *arguments, environ=None, timeout=30, input=b"", **more):
        """Runs it to its end; output as bytes."""
        return subprocess.run([BINARY, *arguments], env={**self.environ, **(environ or {})}, input=input, timeout=timeout,
                              capture_output=True, **more)

    def start(self, *arguments, environ=None, **more):
        """Starts it in a session of its own, as cron does."""
        more = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
        return subprocess.Popen([BINARY, *arguments], env={**self.environ, **(environ or {})}, start_new_session=True, **more)


@pytest.fixture
def redlock():
    return Redlock()


@pytest.fixture(scope="module")
def quorum():
    """Five servers, shared by the tests of a file; none may harm them."""
    with Quorum(5) as servers:
        yield servers


@pytest.fixture
def own_quorum():
    """Five servers of one test's own, to stop and to kill."""
    with Quorum(5) as servers:
        yield servers


@pytest.fixture
def three():
    """Three servers of one test's own."""
    with Quorum(3) as servers:
        yield servers


@pytest.fixture
def locked(quorum):
    """redlock(1) on the shared servers."""
    return Redlock(quorum.nodes)


@pytest.fixture
def resource():
    return f"resource-{uuid.uuid4()}"


@pytest.fixture
def room():
    """A TMPDIR and a mark in the environment: what is left of a run can be found by them."""
    directory = tempfile.mkdtemp(prefix="redlock-test-")
    yield Room(directory)
    shutil.rmtree(directory, ignore_errors=True)
