# SPDX-License-Identifier: BSD-2-Clause
"""Clients that take too much: too many, too slow, half a request; the others do not feel it."""
import os
import pathlib
import re
import socket
import time

import pytest

from conftest import RELEASE, guarded
from processes import processor_seconds
from resp import Closed, encode
from servers import until
from test_metrics import page, samples


def memory_kib(gateway):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{gateway.process.pid}/status").read_text()).group(1))


def counts(gateway):
    """Whether its memory tells anything: the address sanitizer keeps what was freed."""
    return "libasan" not in pathlib.Path(f"/proc/{gateway.process.pid}/maps").read_text()


def closed(connection, seconds=20):
    """Waits until the gateway has ended the connection; whether it did."""
    connection.socket.settimeout(seconds)
    try:
        while connection.socket.recv(65536):
            pass
        return True
    except ConnectionError:
        return True
    except TimeoutError:
        return False


def assert_sleeps(gateway, seconds=1):
    before = processor_seconds(gateway)
    time.sleep(seconds)
    assert processor_seconds(gateway) - before < seconds / 5


@pytest.mark.parametrize("busy_poll", ["yes", "no"])
def test_sleeps_when_nobody_speaks(start, quorum, busy_poll):
    gateway = start(quorum.nodes, "--busy-poll", busy_poll)
    with gateway.connect() as client:
        assert client("SET", "idle", "a", "NX", "PX", "30000") == "OK"
        assert_sleeps(gateway)
        assert client("DEL", "idle") == 1


def test_sleeps_while_nobody_reads(start, quorum):
    gateway = start(quorum.nodes)
    with gateway.connect() as greedy, gateway.connect() as other:
        request, answer = encode("ECHO", "x" * 8192), b"$8192\r\n" + b"x" * 8192 + b"\r\n"
        greedy.socket.settimeout(0.5)
        sent = 0
        with pytest.raises(TimeoutError):
            while True:
                sent += greedy.socket.send((request * 100)[sent % len(request):])
        assert other("PING") == "PONG"
        assert_sleeps(gateway)
        greedy.socket.settimeout(20)
        left = sent // len(request) * len(answer)
        while left > 0:
            left -= len(greedy.socket.recv(left))
        assert other("PING") == "PONG"


def test_sleeps_when_those_are_done_who_do_not_read(start, quorum):
    """As many requests as fill what is kept of their answers, but hardly more: nothing is left to be read but the end."""
    gateway = start(quorum.nodes)
    clients = [gateway.connect() for _ in range(24, 41)]
    for count, client in zip(range(24, 41), clients):
        client.socket.settimeout(0.5)
        try:
            for _ in range(count):
                client.raw(encode("ECHO", "x" * 8192))
        except TimeoutError:
            pass
        client.socket.shutdown(socket.SHUT_WR)
    assert_sleeps(gateway)
    for client in clients:
        client.close()


def test_sleeps_while_one_who_left_is_waited_for(start, own_quorum):
    gateway = start(own_quorum.nodes, "--node-timeout", "3s")
    for server in own_quorum.servers[:3]:
        server.pause()
    client = gateway.connect()
    client.send("SET", "left", "a", "NX", "PX", "30000")
    time.sleep(0.2)
    client.close()
    assert_sleeps(gateway)
    for server in own_quorum.servers[:3]:
        server.resume()


def test_more_connections_than_allowed(start, quorum):
    gateway = start(quorum.nodes, "--connections", "3")
    clients = [gateway.connect() for _ in range(3)]
    assert [client("PING") for client in clients] == ["PONG"] * 3
    with gateway.connect() as fourth:
        assert str(fourth.read()) == "ERR max number of clients reached"
        assert fourth.at_end()
    clients.pop().close()

    def has_room():
        with gateway.connect() as another:
            try:
                another.send("PING")
                return another.read() == "PONG"
            except ConnectionError:  # it was refused, and closed before the request came
                return False
    until(has_room, what="room for another")
    for client in clients:
        assert client("PING") == "PONG"
        client.close()


def test_half_a_request_is_given_up(gateway, client):
    """All at once, since each takes ten seconds."""
    halves = [b"*3\r\n$3\r\nSET\r\n$5\r\nab", b"PIN", b"*2\r\n"]
    connections = [gateway.connect() for _ in halves]
    for connection, half in zip(connections, halves):
        connection.raw(half)
    trickle, idle = gateway.connect(), gateway.connect()
    trickle.raw(b"*2\r\n$4\r\nECHO\r\n$1000\r\n")
    trickle.socket.settimeout(0.2)
    end, began = None, time.monotonic()
    while end is None and time.monotonic() < began + 20:
        try:
            trickle.raw(b"x")
            if trickle.socket.recv(1) == b"":
                end = time.monotonic()
        except TimeoutError:
            pass
        except ConnectionError:
            end = time.monotonic()
    assert end is not None and end - began > 8, "a byte now and then is no progress"
    assert all(closed(connection) for connection in connections)
    assert idle("PING") == "PONG", "who says nothing may stay"
    assert client("PING") == "PONG"
    for connection in [*connections, trickle, idle]:
        connection.close()


def test_a_client_that_does_not_say_its_password(start, quorum, tmp_path):
    path = tmp_path / "password"
    path.write_text("secret")
    gateway = start(quorum.nodes, "--password-file", str(path))
    with gateway.connect() as silent, gateway.connect() as known:
        known("AUTH", "secret")
        assert closed(silent)
        assert known("PING") == "PONG"


def test_a_client_that_does_not_read_its_answers(start, quorum, key):
    gateway = start(quorum.nodes)
    with gateway.connect() as slow, gateway.connect() as client:
        before = memory_kib(gateway)
        slow.socket.settimeout(0.5)
        request = encode("ECHO", b"x" * 60000)
        sent = 0
        try:
            for _ in range(200):
                sent += slow.socket.send(request)
        except TimeoutError:
            pass  # it is not read from while it does not read
        assert sent < 4_000_000
        assert memory_kib(gateway) - before < 4096 or not counts(gateway)
        for number in range(50):
            assert client("SET", key, f"v{number}", "NX", "PX", 20000) == "OK"
            assert client("EVAL", RELEASE, 1, key, f"v{number}") == 1
        time.sleep(12)  # the bound is ten seconds, looked after once a second
        slow.socket.settimeout(10)
        with pytest.raises((Closed, ConnectionError)):
            for _ in range(200):
                slow.read()


def test_a_listener_that_does_not_read(start, quorum):
    """Its notifications are dropped beyond the bound, and the bound ends it."""
    gateway = start(quorum.nodes)
    with gateway.connect() as deaf, gateway.connect() as client:
        deaf.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf("PSUBSCRIBE", "*")
        before = memory_kib(gateway)
        name = "k" * 60000
        for _ in range(60):
            client("SET", name, "v", "NX", "PX", 20000)
            client("DEL", name)
        assert memory_kib(gateway) - before < 8192 or not counts(gateway)
        assert closed(deaf)
        assert client("PING") == "PONG"


def test_clients_that_go_while_their_request_is_under_way(start, own_quorum, key):
    gateway = start(own_quorum.nodes)
    for server in own_quorum.servers[:3]:
        server.pause()
    clients = [gateway.connect() for _ in range(20)]
    for number, client in enumerate(clients):
        client.send("SET", key, f"v{number}", "NX", "PX", 20000)
    for client in clients:
        client.close()
    for server in own_quorum.servers[:3]:
        server.resume()
    with gateway.connect() as client:
        until(lambda: b"connected_clients:1\r" in client("INFO", "clients"), what="their end")

        def answer():
            client.send("GET", key)
            return client.read()
        until(lambda: answer() in (None, *(f"v{number}".encode() for number in range(20))), what="an answer")


def test_idle_connections_cost_little(start, quorum):
    gateway = start(quorum.nodes, "--connections", "600")
    before = memory_kib(gateway)
    clients = [gateway.connect() for _ in range(500)]
    assert clients[-1]("PING") == "PONG"
    assert (memory_kib(gateway) - before) / 500 < 32 or not counts(gateway)
    for client in clients:
        client.close()


def test_what_a_long_request_took_is_given_back(start, quorum):
    gateway = start(quorum.nodes)
    clients = [gateway.connect() for _ in range(300)]
    assert clients[-1]("PING") == "PONG"
    before = memory_kib(gateway)
    for client in clients:
        assert len(client("ECHO", b"x" * 120000)) == 120000
    assert (memory_kib(gateway) - before) / 300 < 32 or not counts(gateway)
    for client in clients:
        client.close()


def test_a_client_that_asks_without_pause_does_not_starve_others(gateway, key):
    with gateway.connect() as greedy, gateway.connect() as client:
        greedy.raw(encode("PING") * 5000)
        began = time.monotonic()
        assert client("SET", key, "v", "NX", "PX", 20000) == "OK"
        assert client("DEL", key) == 1
        assert time.monotonic() - began < 2
        assert [greedy.read() for _ in range(5000)] == ["PONG"] * 5000


LONG = "n" * 60000  # a lock of this name weighs 121,024 bytes: 8 of them are less than a MiB, 9 are more


def test_remembered_locks_weigh_their_names(start, quorum, key):
    gateway = start(quorum.nodes, "--lock-memory", "1", "--metrics", "127.0.0.1:0")
    with gateway.connect() as client:
        before = memory_kib(gateway)
        names = [f"{key}-{number}-{LONG}" for number in range(200)]
        for name in names:
            assert client("SET", name, "v", "NX", "PX", 600000) == "OK"
        assert memory_kib(gateway) - before < 12 * 1024 or not counts(gateway)
        now = samples(page(gateway))
        assert now["redlock_serve_locks_held", None] == 8
        assert 900000 < now["redlock_serve_locks_bytes", None] <= now["redlock_serve_locks_bytes_max", None] == 1 << 20
        assert now["redlock_serve_locks_not_remembered_total", None] == 192
        assert client("SET", names[-1], "w", "NX", "PX", 20000) is None
        assert client("PEXPIRE", names[-1], 700000) == 1
        assert client("GET", names[-1]) == b"v"
        for name in names:
            assert client("DEL", name) == 1
        now = samples(page(gateway))
        assert now["redlock_serve_locks_held", None] == now["redlock_serve_locks_bytes", None] == 0
        assert client("SET", names[0], "v", "NX", "PX", 20000) == "OK"
        assert samples(page(gateway))["redlock_serve_locks_held", None] == 1
        client("DEL", names[0])


def test_in_guarded_mode_a_lock_that_cannot_be_remembered_is_refused(start, own_quorum, key):
    gateway = start(guarded(own_quorum).nodes, "--mode", "guarded", "--lock-memory", "1")
    with gateway.connect() as client:
        names = [f"{key}-{number}-{LONG}" for number in range(9)]
        for name in names[:8]:
            assert client("SET", name, "v", "NX", "PX", 60000) == "OK"
        assert "cannot remember more locks" in str(client.error("SET", names[8], "v", "NX", "PX", 60000))
        assert client("SET", names[0], "w", "NX", "PX", 60000) is None
        assert client("PEXPIRE", names[7], 60000) == 1
        assert client("DEL", names[0]) == 1
        assert client("SET", names[8], "v", "NX", "PX", 60000) == "OK"
        assert client("PEXPIRE", names[8], 60000) == 1


def test_clients_weigh_what_they_listen_to(start, quorum):
    gateway = start(quorum.nodes, "--metrics", "127.0.0.1:0")

    def weighed():
        return samples(page(gateway))["redlock_serve_client_bytes", None]
    with gateway.connect() as client:
        assert client("PING") == "PONG"
        before = weighed()
        for number in range(32):
            assert client("SUBSCRIBE", f"{number:04}" * 256)[2] == number + 1
        assert weighed() - before > 32 * 2 * 1024
        for number in range(32):
            assert client("UNSUBSCRIBE", f"{number:04}" * 256)[2] == 31 - number
        assert weighed() - before < 32 * 1024
    until(lambda: weighed() == 0, what="nothing left")


def test_clients_together_weigh_what_they_send(start, quorum, key):
    """Each within its own limits: 40 times half a request of 100,000 bytes."""
    gateway = start(quorum.nodes, "--client-memory", "4", "--metrics", "127.0.0.1:0")
    with gateway.connect() as small:
        assert small("SET", key, "v", "NX", "PX", 20000) == "OK"
        before = memory_kib(gateway)
        greedy = [gateway.connect() for _ in range(40)]
        for client in greedy:
            try:
                client.raw(b"*2\r\n$4\r\nECHO\r\n$120000\r\n" + b"x" * 100000)
            except ConnectionError:
                pass
        limit = 4 << 20

        def has_closed_enough():
            now = samples(page(gateway))
            assert now["redlock_serve_client_bytes_max", None] == limit
            closed = now["redlock_serve_refusals_total", 'reason="memory"']
            return closed > 10 and limit // 2 < now["redlock_serve_client_bytes", None] <= limit
        until(has_closed_enough, what="an end of those that take most")
        assert memory_kib(gateway) - before < 16 * 1024 or not counts(gateway)
        assert small("DEL", key) == 1
        said = []
        for client in greedy:
            client.socket.settimeout(0.05)
            try:
                said.append(client.read())
            except (Closed, OSError):
                pass
            client.close()
        assert any("take more memory" in str(one) for one in said)
        assert small("PING") == "PONG"
    until(lambda: samples(page(gateway))["redlock_serve_client_bytes", None] == 0, what="nothing left")


def test_connections_without_a_password_shut_nobody_out(start, quorum, tmp_path, key):
    secret = tmp_path / "password"
    secret.write_text("secret\n")
    secret.chmod(0o600)
    gateway = start(quorum.nodes, "--connections", "20", "--password-file", str(secret))
    with gateway.connect() as first:
        assert first("AUTH", "secret") == "OK"
        strangers = [gateway.connect() for _ in range(40)]
        for attempt in range(20):
            with gateway.connect() as client:
                assert client("AUTH", "secret") == "OK"
                assert client("SET", key, attempt, "NX", "PX", 20000) == "OK"
                assert client("DEL", key) == 1
        assert first("PING") == "PONG"
        assert closed(strangers[0])
        for stranger in strangers:
            stranger.close()


def test_a_right_password_that_waits_is_not_shut_out(start, quorum, tmp_path):
    """After many wrong ones it waits for a second. Meanwhile those that have sent none make room."""
    secret = tmp_path / "password"
    secret.write_text("secret\n")
    secret.chmod(0o600)
    gateway = start(quorum.nodes, "--connections", "20", "--password-file", str(secret))
    for _ in range(23):
        with gateway.connect() as wrong:
            assert wrong.error("AUTH", "wrong").code == "WRONGPASS"
    with gateway.connect() as client:
        client.send("AUTH", "secret")
        time.sleep(0.3)  # it is read, and waits
        strangers = [gateway.connect() for _ in range(60)]
        assert client.read() == "OK"
        for stranger in strangers:
            stranger.close()


def test_one_user_leaves_a_tenth_of_the_connections_to_others(start, quorum):
    if os.geteuid() != 0:
        pytest.skip("another user's connection takes root")
    gateway = start(quorum.nodes, "--connections", "20", "--socket-mode", "0666")
    os.chmod(gateway.directory, 0o755)
    mine = [gateway.connect() for _ in range(18)]
    assert mine[17]("PING") == "PONG"
    with gateway.connect() as refused:
        assert str(refused.read()) == "ERR max number of clients reached"
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setuid(65534)
            with gateway.connect() as other:
                os.write(writer, b"%s" % str(other("PING")).encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader, "rb") as said:
        assert said.read() == b"PONG"
    for connection in mine:
        connection.close()
