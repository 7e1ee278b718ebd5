# SPDX-License-Identifier: BSD-2-Clause
"""The password of the nodes changes while a hundred jobs and a gateway's clients hold locks."""
import os
import signal
import subprocess
import uuid

from conftest import BINARY, CLEAN, EXTEND
from servers import die_with_us, until

JOBS = 100


def rotate(quorum, password):
    """As the cookbook says: the new one is added, the file is replaced, the old one is taken away."""
    for server in quorum.servers:
        server.ask("ACL", "SETUSER", "app", ">second")
    fresh = password.with_suffix(".new")
    fresh.write_text("second\n")
    os.replace(fresh, password)
    for server in quorum.servers:
        server.ask("ACL", "SETUSER", "app", "<first")
        server.ask("CLIENT", "KILL", "TYPE", "normal")


def refused_logins(quorum):
    return [entry for server in quorum.servers for entry in server.ask("ACL", "LOG")]


def holds(connection, key, token):
    return connection("EVAL", EXTEND, 1, key, token, 20000) == 1


def test_no_lock_is_lost(start, own_quorum, tmp_path):
    password, mark = tmp_path / "password", str(uuid.uuid4())
    password.write_text("first\n")
    password.chmod(0o600)
    for server in own_quorum.servers:
        server.ask("ACL", "SETUSER", "app", "on", ">first", "~*", "+@all", "allchannels")
    login = {"file": ["--node-user", "app", "--node-password-file", str(password)],
             "command": ["--node-user", "app", "--node-password-command", f"cat {password}"]}
    gateway = start(own_quorum.nodes, *login["file"])
    jobs = [subprocess.Popen([BINARY, "run", "-N", own_quorum.nodes, "-t", "15s", "--node-timeout", "500ms", *login["file" if i % 2 else "command"],
                              f"{mark}-{i}", "--", "sh", "-c", f"until test -e {tmp_path}/end; do sleep 0.5; done"],
                             stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=CLEAN, preexec_fn=die_with_us) for i in range(JOBS)]
    with gateway.connect() as before:
        tokens = {f"{mark}-client-{i}": f"token-{i}" for i in range(20)}
        for key, token in tokens.items():
            assert before("SET", key, token, "NX", "PX", 20000) == "OK"
        until(lambda: all(len(server.ask("KEYS", f"{mark}-*")) >= JOBS + 20 for server in own_quorum.servers[:3]), 60, "all locks")

        rotate(own_quorum, password)
        os.kill(gateway.process.pid, signal.SIGHUP)
        until(lambda: any("read again" in line for line in gateway.said), what="the gateway's word")
        # All are back: each has at least its main connections.
        until(lambda: all(server.ask("CLIENT", "LIST").count(b"user=app") >= JOBS + 1 for server in own_quorum.servers), 60, "the connections")
        assert all(holds(before, key, token) for key, token in tokens.items())
        with gateway.connect() as after:
            assert after("SET", f"{mark}-client-0", "other", "NX", "PX", 20000) is None
            assert after("SET", f"{mark}-late", "other", "NX", "PX", 20000) == "OK"
    (tmp_path / "end").touch()
    said = [job.communicate(timeout=60)[1].decode() for job in jobs]
    assert [job.returncode for job in jobs] == [0] * JOBS, said
    assert "".join(said) == ""
    assert not [line for line in gateway.said if "lost" in line]
    assert refused_logins(own_quorum) == []
