# SPDX-License-Identifier: BSD-2-Clause
"""Gateways (redlock serve) under test, in front of real redis-servers of the tests' own."""
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import uuid

import pytest

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "cli"))
from servers import Quorum, die_with_us, until  # noqa: E402

from resp import Connection  # noqa: E402

BINARY = os.environ.get("REDLOCK_BIN", "redlock")
CLEAN = {**{name: value for name, value in os.environ.items() if not name.startswith("REDLOCK_")}, "REDLOCK_CONFIG": "/dev/null"}

# As redis-py and a hundred others send them.
RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"
EXTEND = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end"


class Gateway:
    """A process on a Unix socket of its own; what it says on standard error is in `said`."""

    def __init__(self, nodes, *arguments, socket=None, environ=None, listen=True, binary=BINARY,
                 preexec=None):
        self.directory = tempfile.mkdtemp(prefix="redlock-test-serve-")
        self.path = socket or os.path.join(self.directory, "gateway.sock")
        # The machine may be busy with other tests: a node is waited for longer than by default.
        patience = [] if "--node-timeout" in arguments else ["--node-timeout", "250ms"]
        command = [binary, "serve", "-v", "-N", nodes, *patience, *(["--listen", f"unix://{self.path}"] if listen else []), *arguments]
        self.said = []
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env={**CLEAN, **(environ or {})},
                                        start_new_session=True, preexec_fn=lambda: (die_with_us(), preexec and preexec()))
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stderr:
            self.said.append(line.decode().rstrip("\n"))

    def wait_ready(self):
        until(lambda: "redlock: ready" in self.said or self.process.poll() is not None, what="the gateway")
        assert self.process.poll() is None, self.said
        return self

    def address(self, what="listening"):
        """HOST:PORT as the kernel gave it."""
        line = until(lambda: next((line for line in self.said if f"{what} on " in line), None), what=f"{what} on")
        host, port = re.search(r"on (\S+):(\d+)$", line).groups()
        return host, int(port)

    def connect(self, **more):
        return Connection(self.path, **more)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.reader.join()

    def ends(self, seconds=15):
        """Its exit status, when it ends by itself."""
        status = self.process.wait(seconds)
        self.reader.join()
        return status

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)
        return self.ends()

    def close(self):
        """Every test ends with a gateway that ends well, too."""
        status = self.process.poll()
        if status is None:
            status = self.terminate()
        self.process.stderr.close()
        shutil.rmtree(self.directory, ignore_errors=True)
        assert status in (0, -signal.SIGKILL), self.said


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
def start():
    """Starts gateways; each is ended after the test."""
    with contextlib.ExitStack() as stack:
        def begin(nodes, *arguments, ready=True, **more):
            gateway = Gateway(nodes, *arguments, **more)
            stack.callback(gateway.close)
            return gateway.wait_ready() if ready else gateway
        yield begin


@pytest.fixture(scope="module")
def gateway(quorum):
    """One gateway for the tests of a file."""
    one = Gateway(quorum.nodes).wait_ready()
    yield one
    one.close()


@pytest.fixture
def client(gateway):
    with gateway.connect() as connection:
        yield connection


@pytest.fixture
def key():
    return f"key-{uuid.uuid4()}"


def guarded(quorum):
    """Makes the servers a guarded quorum that is ready at once."""
    done = subprocess.run([BINARY, "quorum", "-N", quorum.nodes, "--mode", "guarded", "init", "--never-used", "--yes"], env=CLEAN,
                          capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return quorum
