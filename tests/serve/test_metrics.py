# SPDX-License-Identifier: BSD-2-Clause
"""The page for Prometheus: well-formed, and the numbers are those of what was done. And the pages for orchestrators."""
import os
import re
import resource
import socket
import threading
import time
import urllib.error
import urllib.request

import pytest

from conftest import RELEASE, guarded
from processes import processor_seconds
from servers import until

SAMPLE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (-?[0-9.e+-]+|\+Inf|NaN)$')


def page(gateway, path="/metrics"):
    host, port = gateway.address("metrics")
    with urllib.request.urlopen(f"http://{host}:{port}{path}", timeout=10) as reply:
        assert reply.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        return reply.read().decode()


def samples(text):
    """{(name, labels): value}; each name was announced by HELP and TYPE before."""
    found, types = {}, {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert kind in ("counter", "gauge", "histogram") and name not in types
            types[name] = kind
        elif not line.startswith("# HELP "):
            match = SAMPLE.match(line)
            assert match, line
            name, labels, value = match.groups()
            base = re.sub(r"_(bucket|sum|count)$", "", name)
            assert types.get(name) in ("counter", "gauge") or types.get(base) == "histogram", line
            assert (name, labels) not in found, line
            found[name, labels] = float(value)
    return found


@pytest.fixture
def measured(start, quorum):
    return start(quorum.nodes, "--metrics", "127.0.0.1:0")


def test_renewed_locks(measured, key):
    def now(reason):
        found = samples(page(measured))
        return found["redlock_serve_locks_renewed", None], found["redlock_serve_renewals_ended_total", f'reason="{reason}"']
    with measured.connect() as holder, measured.connect() as other:
        for number in range(3):
            holder("SET", f"{key}-{number}", "v", "NX", "PX", 20000)
            holder("REDLOCK.RENEW", f"{key}-{number}", "v", 20000, "MAX", 60000)
        assert now("lost") == (3, 0)
        holder("DEL", f"{key}-0")
        until(lambda: now("lost") == (2, 0), what="the end by its client")
        other("EVAL", RELEASE, 1, f"{key}-1", "v")
        until(lambda: now("lost") == (1, 1), what="the loss")
    until(lambda: now("lost") == (0, 1), what="the end of the connection")
    with measured.connect() as holder:
        holder("REDLOCK.RENEW", f"{key}-2", "v", 1000, "MAX", 1000)
        until(lambda: now("max") == (0, 1), what="the end of MAX")
        holder("REDLOCK.RENEW", f"{key}-2", "v", 1000)
        until(lambda: now("silent") == (0, 1), what="the end by silence")


def test_numbers_of_what_was_done(measured, quorum, key):
    with measured.connect() as client:
        for number in range(3):
            client("SET", f"{key}-{number}", "v", "NX", "PX", 20000)
        client("SET", f"{key}-0", "w", "NX", "PX", 20000)
        client("PEXPIRE", f"{key}-1", 30000)
        client("EVAL", RELEASE, 1, f"{key}-2", "v")
        client("GET", key)
        client.error("FLUSHALL")
        assert client("EVAL", "return 1 + #ARGV", 1, key) == 1
        client.error("EVAL", "while true do end", 1, key)
        now = samples(page(measured))
        client("DEL", f"{key}-0", f"{key}-1")
    assert now["redlock_serve_locks_held", None] == 2
    assert now["redlock_serve_acquisitions_total", 'outcome="taken"'] == 3
    assert now["redlock_serve_acquisitions_total", 'outcome="held"'] == 1
    assert now["redlock_serve_acquisitions_total", 'outcome="no_quorum"'] == 0
    assert now["redlock_serve_extensions_total", 'outcome="extended"'] == 1
    assert now["redlock_serve_releases_total", 'outcome="released"'] == 1
    assert now["redlock_serve_refusals_total", 'reason="request"'] == 1
    assert now["redlock_serve_connections", None] == 1
    assert now["redlock_serve_scripts_total", 'by="heart"'] == 1
    assert now["redlock_serve_scripts_total", 'by="process"'] == 2
    assert now["redlock_serve_script_processes", None] >= 1
    assert ("redlock_serve_script_processes_lost_total", 'reason="time"') in now
    assert now["redlock_serve_requests_total", None] == 10
    assert now["redlock_serve_round_trip_seconds_count", 'step="take"'] == 3
    assert now["redlock_serve_round_trip_seconds_count", 'step="look"'] == 1
    assert now["redlock_serve_wait_seconds_count", None] == 9
    assert now["redlock_votes_total", 'vote="granted"'] >= 9
    for server in quorum.servers:
        assert now["redlock_node_up", f'node="{server.url}"'] == 1


def test_histograms_grow_from_bucket_to_bucket(measured, key):
    with measured.connect() as client:
        for _ in range(20):
            client("SET", key, "v", "NX", "PX", 20000)
            client("DEL", key)
    now = samples(page(measured))
    buckets = [value for (name, labels), value in now.items() if name == "redlock_serve_round_trip_seconds_bucket" and 'step="take"' in labels]
    assert buckets == sorted(buckets) and buckets[-1] == 20
    assert 0 < now["redlock_serve_round_trip_seconds_sum", 'step="take"'] < 20


def test_a_node_that_is_gone_and_no_passwords(start, own_quorum, key):
    nodes = own_quorum.nodes.replace("redis://", "redis://default:s3cret@")
    gateway = start(nodes, "--metrics", "127.0.0.1:0")
    own_quorum[0].process.kill()
    own_quorum[0].process.wait()
    url = own_quorum[0].url.replace("redis://", "redis://default@")

    def is_down():
        text = page(gateway)
        return next((text for name, labels in samples(text) if name == "redlock_node_up" and f'node="{url}"' == labels
                     and samples(text)[name, labels] == 0), None)
    text = until(is_down, what="the node's end in the metrics")
    assert "s3cret" not in text
    assert re.search(rf'redlock_node_verdict{{node="{url}",verdict="[^"]*(refused|lost)[^"]*"}} [67]\n', text), text


def test_guarded_says_so(start, own_quorum):
    gateway = start(guarded(own_quorum).nodes, "--mode", "guarded", "--metrics", "127.0.0.1:0")
    assert 'mode="guarded"' in page(gateway)


# ---- histograms of the library ----

def bucket_counts(now, name):
    """{upper bound: locks}, in the order of the page."""
    return {float(re.fullmatch(r'le="(.*)"', labels)[1]): value for (found, labels), value in now.items() if found == f"{name}_bucket"}


def test_histograms_of_the_locks(measured, key):
    """Each is taken, held for a while and released with most of its time left."""
    with measured.connect() as client:
        for _ in range(10):
            client("SET", key, "v", "NX", "PX", 20000)
            time.sleep(0.05)
            assert client("DEL", key) == 1
    now = samples(page(measured))
    for name, least, most in [("redlock_acquire_seconds", 0, 2), ("redlock_hold_seconds", 0.5, 10), ("redlock_validity_left_seconds", 100, 200)]:
        buckets = bucket_counts(now, name)
        bounds, counts = list(buckets), list(buckets.values())
        assert bounds == sorted(bounds) and bounds[:3] == [0.000016, 0.000032, 0.000064] and bounds[-1] == float("inf")
        assert counts == sorted(counts) and counts[-1] == now[f"{name}_count", None] == 10
        assert least < now[f"{name}_sum", None] < most
    # 19.75 s are left; the bound below is 16.8 s, the one above 33.6 s.
    left = bucket_counts(now, "redlock_validity_left_seconds")
    assert left[max(bound for bound in left if bound < 19)] == 0
    assert left[min(bound for bound in left if bound > 19)] == 10


# ---- health ----

def ask(gateway, path):
    """The status and the text."""
    host, port = gateway.address("metrics")
    try:
        with urllib.request.urlopen(f"http://{host}:{port}{path}", timeout=10) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_healthy_and_ready(measured):
    assert ask(measured, "/healthz") == (200, "ok\n")
    until(lambda: ask(measured, "/readyz") == (200, "5 of 5 nodes can vote, 3 needed\n"), what="all nodes")
    assert ask(measured, "/readyz?verbose=1")[0] == 200


def test_not_ready_without_a_majority(start, own_quorum):
    gateway = start(own_quorum.nodes.replace("redis://", "redis://default:s3cret@"), "--metrics", "127.0.0.1:0")
    nodes = len(own_quorum.servers)
    for server in own_quorum.servers[:nodes // 2 + 1]:
        server.process.kill()
        server.process.wait()
    until(lambda: ask(gateway, "/readyz")[0] == 503, what="the loss of the majority")
    until(lambda: ask(gateway, "/readyz")[1].startswith(f"{nodes - nodes // 2 - 1} of {nodes} nodes can vote, {nodes // 2 + 1} needed\n"),
          what="all losses")
    lines = ask(gateway, "/readyz")[1].splitlines()[1:]
    assert len(lines) == nodes // 2 + 1 and "s3cret" not in "".join(lines)
    for server, line in zip(own_quorum.servers, lines):
        assert re.fullmatch(re.escape(server.url.replace("redis://", "redis://default@")) + r": .*(refused|lost|connect).*", line), line
    assert ask(gateway, "/healthz") == (200, "ok\n")


@pytest.mark.parametrize("path", ["/", "/metrics/x", "/../etc/passwd", "/healthzz", "/ready"])
def test_nothing_else_is_there(measured, path):
    with pytest.raises(urllib.error.HTTPError) as caught:
        page(measured, path)
    assert caught.value.code == 404


def test_only_reading(measured):
    host, port = measured.address("metrics")
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(urllib.request.Request(f"http://{host}:{port}/metrics", data=b"x", method="POST"), timeout=10)
    assert caught.value.code in (405, 501)


# ---- connections that only take up room ----

ROOM = 192


def few_files():
    resource.setrlimit(resource.RLIMIT_NOFILE, (ROOM, ROOM))


def lose_connections(quorum):
    """The nodes drop all their clients, so that each must be connected to anew."""
    for server in quorum.servers:
        server.ask("CLIENT", "KILL", "TYPE", "normal")


def takes(client, key):
    client.send("SET", key, "v", "NX", "PX", 20000)
    return client.read() == "OK"


def test_metrics_connections_take_no_descriptors_from_nodes_and_clients(start, own_quorum, key):
    gateway = start(own_quorum.nodes, "--connections", str(ROOM - 128), "--metrics", "127.0.0.1:0", preexec=few_files)
    address = gateway.address("metrics")
    stop, opened = threading.Event(), []

    def flood():
        """Three hundred at a time; those that the gateway ends are opened again."""
        while not stop.is_set():
            if len(opened) >= 300:
                opened.pop(0).close()
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(address)
            opened.append(one)
            time.sleep(0.001)
    thread = threading.Thread(target=flood, daemon=True)
    flooded = time.monotonic()
    thread.start()
    try:
        until(lambda: len(opened) >= 300, what="three hundred connections")
        lose_connections(own_quorum)
        before, said = processor_seconds(gateway), len(gateway.said)
        clients = [gateway.connect() for _ in range(20)]
        until(lambda: takes(clients[0], f"{key}-{time.monotonic_ns()}"), what="the nodes")
        for number, client in enumerate(clients):
            assert client("SET", f"{key}-{number}", "v", "NX", "PX", 20000) == "OK"
        began = time.monotonic()
        time.sleep(2)
        assert len(os.listdir(f"/proc/{gateway.process.pid}/fd")) < ROOM - 40
        assert processor_seconds(gateway) - before < (time.monotonic() - began) / 2
        assert sum(map(len, gateway.said[said:])) < 4096
        for client in clients:
            client.close()
    finally:
        stop.set()
        thread.join()
        for one in opened:
            one.close()
    now = samples(page(gateway))
    assert now["redlock_serve_locks_held", None] >= 21
    # A hundred a second once there are 16, and those that wait to be accepted when the flood ends.
    assert now["redlock_serve_metrics_cut_off_total", None] < 130 * (time.monotonic() - flooded) + 50


def test_a_head_that_is_too_long_is_not_waited_for(measured):
    with socket.create_connection(measured.address("metrics"), timeout=10) as one:
        began = time.monotonic()
        one.sendall(b"GET /metrics HTTP/1.1\r\nX: " + b"y" * 8192)
        assert one.recv(4096).startswith(b"HTTP/1.1 200 OK")
        assert time.monotonic() - began < 3


def test_the_oldest_metrics_connection_makes_room(measured):
    address = measured.address("metrics")
    held = [socket.create_connection(address, timeout=10) for _ in range(16)]
    assert samples(page(measured))["redlock_serve_metrics_cut_off_total", None] == 1
    try:
        assert held[0].recv(1) == b"", "the oldest is closed"
    except ConnectionResetError:
        pass
    for youngest in held[-2:]:
        youngest.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert youngest.recv(4096).startswith(b"HTTP/1.1 200 OK"), "others are left alone"
    for one in held:
        one.close()


def test_a_metrics_connection_ends_in_time_however_busy(measured):
    address = measured.address("metrics")
    with socket.socket() as silent, socket.socket() as slow:
        silent.connect(address)
        slow.connect(address)
        slow.sendall(b"GET /metrics HTTP/1.1\r\n")
        began = time.monotonic()
        ended = set()
        while len(ended) < 2 and time.monotonic() - began < 15:
            for one in {silent, slow} - ended:
                try:
                    if one is slow:
                        slow.sendall(b"X: y\r\n")
                    one.settimeout(0.2)
                    if one.recv(4096) == b"":
                        ended.add(one)
                except TimeoutError:
                    pass
                except ConnectionError:
                    ended.add(one)
        assert len(ended) == 2
        assert 3 < time.monotonic() - began < 12
    assert samples(page(measured))["redlock_serve_metrics_cut_off_total", None] == 2


def answers(gateway):
    try:
        return page(gateway)
    except OSError:
        return None


def test_without_a_descriptor_nothing_spins_and_little_is_said(start, quorum, key):
    """What is left is taken away after the start, so that both listeners fail to accept."""
    gateway = start(quorum.nodes, "--metrics", "127.0.0.1:0", "--listen", "127.0.0.1:0")
    with gateway.connect() as client:
        assert client("SET", key, "v", "NX", "PX", 20000) == "OK"
        pid = gateway.process.pid
        taken = max(map(int, os.listdir(f"/proc/{pid}/fd"))) + 1
        _, most = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (taken, most))
        held = [socket.create_connection(address) for address in
                [gateway.address("metrics"), gateway.address("listening")] for _ in range(12)]
        time.sleep(0.5)
        used, said = processor_seconds(gateway), len(gateway.said)
        time.sleep(2)
        assert processor_seconds(gateway) - used < 0.4
        assert len(gateway.said) - said <= 2
        assert any("cannot accept a connection: Too many open files" in line for line in gateway.said)
        assert client("DEL", key) == 1
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (taken + 64, most))
        for one in held:
            one.close()
    until(lambda: answers(gateway), what="the page")
    assert samples(page(gateway))["redlock_serve_locks_held", None] == 0
