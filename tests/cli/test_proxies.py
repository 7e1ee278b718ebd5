# SPDX-License-Identifier: BSD-2-Clause
"""Proxies between clients and servers (docs/operate/servers.md): what they pass on, and what is refused with their name."""
import contextlib
import json
import os
import shutil
import socket
import subprocess
import time

import pytest

from conftest import Redlock
from fake_node import RUN_ID, FakeNode, bulk
from servers import SAFE, die_with_us, free_ports, started, until

CONFIG, NO_QUORUM = 78, 69
PATH = f"{os.environ['PATH']}:/usr/sbin"
HAPROXY, NUTCRACKER = (shutil.which(name, path=PATH) for name in ("haproxy", "nutcracker"))
needs_haproxy = pytest.mark.skipif(not HAPROXY, reason="haproxy is not installed")
needs_nutcracker = pytest.mark.skipif(not NUTCRACKER, reason="nutcracker is not installed")


def answers(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
        connection.sendall(b"*1\r\n$4\r\nPING\r\n")
        return connection.recv(7) == b"+PONG\r\n"
    return False


@contextlib.contextmanager
def running(command, ports):
    """The proxy, until the end. Another process may have been quicker to take a port: then the proxy does not start."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               start_new_session=True, preexec_fn=die_with_us)
    try:
        until(lambda: all(answers(port) for port in ports), 20, "the proxy")
        assert process.poll() is None
        yield [f"redis://127.0.0.1:{port}" for port in ports]
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def haproxy(directory, *backends, idle="1h"):
    """One address for each list of servers, in TCP mode, with HAProxy's own check of Redis servers."""
    ports = free_ports(len(backends))
    lines = ["defaults", "mode tcp", "option redis-check", "timeout connect 5s", f"timeout client {idle}", f"timeout server {idle}"]
    for port, servers in zip(ports, backends):
        lines += [f"listen l{port}", f"bind 127.0.0.1:{port}", "balance roundrobin", "default-server check inter 100ms fall 2 rise 1"]
        lines += [f"server s{server.port} 127.0.0.1:{server.port}" for server in servers]
    config = directory / "haproxy.cfg"
    config.write_text("\n".join(lines) + "\n")
    with running([HAPROXY, "-q", "-f", str(config)], ports) as urls:
        yield urls


@contextlib.contextmanager
def nutcracker(directory, *servers):
    ports = free_ports(len(servers) + 1)
    config = directory / "nutcracker.yml"
    config.write_text("".join(f"p{port}:\n  listen: 127.0.0.1:{port}\n  redis: true\n  servers:\n   - 127.0.0.1:{server.port}:1\n"
                              for port, server in zip(ports, servers)))
    with running([NUTCRACKER, "-c", str(config), "-s", str(ports[-1])], ports[:-1]) as urls:
        yield urls


def examine(nodes, mode):
    done = Redlock(nodes, {"REDLOCK_MODE": mode})("doctor", "--json", "--samples", "2", "--node-timeout", "2s")
    return done.returncode, json.loads(done.stdout)["findings"]


def why(findings, name):
    return [finding["why"] for finding in findings if finding["name"] == name]


# ---- HAProxy ----

@pytest.fixture(params=["classic", "guarded"])
def behind_haproxy(request, tmp_path):
    """(client, servers, nodes, mode)"""
    mode = request.param
    with started(SAFE, SAFE, SAFE) as servers, haproxy(tmp_path, *[[server] for server in servers]) as urls:
        nodes = ",".join(urls)
        redlock = Redlock(nodes, {"REDLOCK_MODE": mode})
        if mode == "guarded":
            assert redlock("quorum", "init", "--yes", "--never-used", "--ttl-max=3s").returncode == 0
        yield redlock, servers, nodes, mode


@needs_haproxy
def test_haproxy_in_tcp_mode(behind_haproxy, resource):
    """Also the announcements of guarded mode pass, or doctor would report UNANNOUNCED."""
    redlock, servers, nodes, mode = behind_haproxy
    done = redlock("run", "-t", "2s", "--wait=10s", resource, "--", "sh", "-c", "echo fence $REDLOCK_FENCE")
    assert done.returncode == 0 and done.stdout.split()[0] == b"fence" and len(done.stdout.split()) == (2 if mode == "guarded" else 1)
    status, findings = examine(nodes, mode)
    assert (status, {finding["name"] for finding in findings}) == (0, {"ALL-ON-ONE-HOST"}), findings


@needs_haproxy
def test_a_server_behind_haproxy_fails(behind_haproxy, resource):
    """A lock that is held is kept, new ones are taken, and a guarded server that comes back empty is recovered."""
    redlock, servers, nodes, mode = behind_haproxy
    holder = redlock.start("run", "-t", "2s", "--wait=10s", resource, "--", "sh", "-c", "echo held; read line; echo kept",
                           stdin=subprocess.PIPE)
    assert holder.stdout.readline() == b"held\n"
    servers[0].process.kill()
    servers[0].process.wait()
    until(lambda: not answers(int(nodes.split(",", maxsplit=1)[0].rsplit(":", 1)[1])), what="a server that HAProxy finds dead")
    status, findings = examine(nodes, mode)
    assert "a proxy that does not pass the command on, another program, or a server that fails" in why(findings, "NOT-A-SERVER")[0]
    assert redlock("run", "-t", "2s", "--wait=10s", f"{resource}-2", "true").returncode == 0
    time.sleep(2.5)  # more than its TTL
    shutil.rmtree(servers[0].directory)
    os.mkdir(servers[0].directory)
    servers[0]._start()
    out, err = holder.communicate(b"\n", timeout=20)
    assert (holder.returncode, out) == (0, b"kept\n"), err
    if mode == "guarded":
        assert redlock("quorum", "status", "--wait=30s", timeout=40).returncode == 0


@needs_haproxy
@pytest.mark.parametrize("mode", ["classic", "guarded"])
def test_haproxy_that_ends_idle_connections(tmp_path, mode, resource):
    """Each ends before the next renewal. The lock is kept by new ones."""
    with started(SAFE, SAFE, SAFE) as servers, haproxy(tmp_path, *[[server] for server in servers], idle="300ms") as urls:
        redlock = Redlock(",".join(urls), {"REDLOCK_MODE": mode})
        if mode == "guarded":
            assert redlock("quorum", "init", "--yes", "--never-used", "--ttl-max=9s").returncode == 0
        done = redlock("run", "-v", "-t", "3s", "--wait=10s", resource, "--", "sleep", "5")
        assert done.returncode == 0 and done.stderr.count(b"the server closed the connection") >= 3, done.stderr


@needs_haproxy
def test_haproxy_that_balances(tmp_path):
    with started(SAFE, SAFE, SAFE) as servers, haproxy(tmp_path, servers) as urls:
        status, findings = examine(urls[0], "classic")
        assert status == 1 and "The address leads to several servers at a time" in why(findings, "SEVERAL-SERVERS")[0]


# ---- proxies that answer themselves ----

@needs_nutcracker
@pytest.mark.parametrize("mode", ["classic", "auto", "guarded"])
def test_nutcracker_is_refused(tmp_path, mode, resource):
    with started(SAFE, SAFE, SAFE) as servers, nutcracker(tmp_path, *servers) as urls:
        nodes = ",".join(urls)
        done = Redlock(nodes, {"REDLOCK_MODE": mode})("run", "--wait=1s", resource, "true")
        assert done.returncode == NO_QUORUM and done.stderr.count(b"a TLS port (use rediss://) or a proxy") >= 3, done.stderr
        status, findings = examine(nodes, mode)
        assert status != 0 and "a proxy that does not pass the command on" in why(findings, "NOT-A-SERVER")[0]
        assert [server.ask("DBSIZE") for server in servers] == [0, 0, 0]


@pytest.mark.parametrize("mode", ["classic", "auto", "guarded"])
def test_envoy_is_named(mode, resource):
    """The answers of Envoy 1.40.0 (redis_proxy), in front of a server that runs in no cluster."""
    info = f"# Server\r\nredis_version:7.0.15\r\nredis_mode:cluster\r\nrun_id:{RUN_ID}\r\nexecutable:/usr/bin/redis-server\r\n"

    def answer(words):
        if words[0].upper() == "HELLO":
            return b"-NOPROTO unsupported protocol version\r\n"
        if words[0].upper() == "INFO":
            return bulk(info)
        if words[0].upper() == "CLIENT":
            return b"-ERR CLIENT subcommand 'tracking' is not supported by the proxy\r\n"
        return b"$-1\r\n" if words[0].upper() == "HGET" else f"-ERR unknown command '{words[0]}', with args beginning with: \r\n".encode()

    with FakeNode(answer) as node:
        done = Redlock(node.url, {"REDLOCK_MODE": mode})("run", "--wait=20s", resource, "true")
        assert done.returncode == CONFIG and b"a proxy answers (INFO shows cluster mode and no process_id" in done.stderr, done.stderr
        _, findings = examine(node.url, mode)
        assert "a proxy answers" in why(findings, "UNFIT")[0] and not why(findings, "CLUSTER")
