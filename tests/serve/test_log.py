# SPDX-License-Identifier: BSD-2-Clause
"""What the gateway says is for people; whether they read it is nothing to its clients."""
import os
import subprocess
import tempfile
import time

from blocked import fill
from conftest import BINARY, CLEAN, die_with_us, until
from resp import Connection


def test_a_log_that_nobody_reads_stops_no_client(own_quorum):
    ends = os.pipe()
    with tempfile.TemporaryDirectory(prefix="redlock-test-serve-") as directory:
        path = os.path.join(directory, "gateway.sock")
        command = [BINARY, "serve", "-v", "--node-timeout", "2s", "-N", own_quorum.nodes, "--listen", f"unix://{path}"]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=ends[1], env=CLEAN,
                                   start_new_session=True, preexec_fn=die_with_us)
        said = b""
        while b"redlock: ready" not in said:
            said += os.read(ends[0], 4096)
        fill(ends[1])
        with Connection(path, timeout=5) as client:
            assert client("SET", "before", "me", "NX", "PX", "30000") == "OK"
            for server in own_quorum.servers[:2]:
                server.process.kill()  # there is something to say, and no room for it
            end = time.monotonic() + 3
            turns = 0
            while time.monotonic() < end:
                assert client("SET", f"after-{turns}", "me", "NX", "PX", "30000") == "OK"
                turns += 1
                time.sleep(0.05)
        assert turns > 20
        process.terminate()
        assert process.wait(10) == 0
        assert until(lambda: not os.path.exists(path))
    for end in ends:
        os.close(end)
