# SPDX-License-Identifier: BSD-2-Clause
"""What clients say to find out whom they speak to, and who may speak at all."""
import shutil
import subprocess
import time
import urllib.request

import pytest

from resp import Closed


def test_hello_and_resp3(gateway, key):
    with gateway.connect() as client:
        hello = client("HELLO")
        assert dict(zip(hello[::2], hello[1::2]))[b"proto"] == 2
        hello = client("HELLO", 3, "SETNAME", "me")
        assert hello[b"proto"] == 3 and hello[b"role"] == b"master" and hello[b"mode"] == b"standalone"
        assert client("CLIENT", "GETNAME") == b"me"
        client.send("GET", key)
        assert client._line() == b"_"
        assert client("CONFIG", "GET", "*") == {}
        assert client("HELLO", 2)[0] == b"server"
        client.send("GET", key)
        assert client._line() == b"$-1"
        assert client.error("HELLO", 4).code == "NOPROTO"
        assert client.error("HELLO", "x").code == "NOPROTO"
        assert "HELLO option" in str(client.error("HELLO", 3, "WHAT"))


def test_small_talk(client):
    assert client("PING") == "PONG"
    assert client("PING", "hi") == b"hi"
    assert client("ECHO", "hi") == b"hi"
    assert client("SELECT", 0) == "OK"
    assert client.error("SELECT", 1).code == "ERR"
    assert client("ROLE") == [b"master", 0, []]
    assert str(client.error("CLUSTER", "INFO")) == "ERR This instance has cluster support disabled"
    seconds, microseconds = client("TIME")
    assert int(seconds) > 1700000000 and 0 <= int(microseconds) < 1000000
    assert client("CONFIG", "GET", "timeout") == []


def test_client(gateway, client):
    assert client("CLIENT", "GETNAME") is None
    assert client("CLIENT", "SETNAME", "worker") == "OK"
    assert client("CLIENT", "GETNAME") == b"worker"
    assert client.error("CLIENT", "SETNAME", "a b").code == "ERR"
    assert client.error("CLIENT", "SETNAME", "x" * 65).code == "ERR"
    assert client("CLIENT", "SETINFO", "LIB-NAME", "x") == "OK"
    with gateway.connect() as other:
        assert other("CLIENT", "ID") > client("CLIENT", "ID")
        assert client("CLIENT", "LIST").count(b"\n") == 2
        assert b"name=worker" in client("CLIENT", "INFO")
    assert "SETNAME" in str(client.error("CLIENT", "KILL", "x"))


def test_info(client):
    info = dict(line.split(":", 1) for line in client("INFO").decode().splitlines() if ":" in line)
    assert info["redis_version"] == "7.0.0" and info["redis_mode"] == "standalone" and info["role"] == "master"
    assert len(info["run_id"]) == 40 and info["redlock_mode"] == "classic"
    assert info["redlock_nodes_ready"] == info["redlock_nodes"] == "5"
    assert client("INFO", "replication") == b"# Replication\r\nrole:master\r\nconnected_slaves:0\r\n"
    assert client("INFO", "nothing") == b""


def test_command(client):
    listed = client("COMMAND")
    assert client("COMMAND", "COUNT") == len(listed) > 30
    assert client("COMMAND", "DOCS") == []
    get, nothing, delete = client("COMMAND", "INFO", "get", "nosuch", "DEL")
    assert get == [b"get", 2, [], 1, 1, 1] and nothing is None and delete == [b"del", -2, [], 1, -1, 1]


def test_quit_and_reset(gateway, key):
    with gateway.connect() as client:
        client("HELLO", 3)
        client("CLIENT", "SETNAME", "x")
        client("MULTI")
        assert client("RESET") == "RESET"
        assert client("CLIENT", "GETNAME") is None
        assert client.error("EXEC").code == "ERR"
        assert client("QUIT") == "OK"
        assert client.at_end()


def test_redis_cli(gateway, key):
    if shutil.which("redis-cli") is None:
        pytest.skip("redis-cli is not installed")

    def cli(*words):
        return subprocess.run(["redis-cli", "-s", gateway.path, *words], capture_output=True, text=True, check=True, timeout=20).stdout.strip()
    assert cli("SET", key, "v", "NX", "PX", "20000") == "OK"
    assert cli("-3", "GET", key) == "v"
    assert cli("SET", key, "v", "NX", "PX", "20000") == ""
    assert cli("EVAL", "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end", "1", key, "v") == "1"


@pytest.fixture
def locked(start, quorum, tmp_path):
    path = tmp_path / "password"
    path.write_text("open sesame\nand no more\n")
    return start(quorum.nodes, "--password-file", str(path))


def test_password(locked):
    with locked.connect() as client:
        for words in [("GET", "k"), ("PING",), ("FLUSHALL",), ("SUBSCRIBE", "c"), ("HELLO", 3), ("INFO",)]:
            assert client.error(*words).code == "NOAUTH", words
        for words in [("AUTH", "open"), ("AUTH", "open sesame "), ("AUTH", ""), ("AUTH", "other", "open sesame"),
                      ("HELLO", 3, "AUTH", "default", "x"), ("AUTH", "open sesame\nand no more")]:
            assert client.error(*words).code == "WRONGPASS", words
        assert client.error("GET", "k").code == "NOAUTH"
        assert client("AUTH", "open sesame") == "OK"
        assert client("GET", "k") is None
        assert client("RESET") == "RESET"
        assert client.error("GET", "k").code == "NOAUTH"
        assert client("HELLO", 3, "AUTH", "default", "open sesame")[b"proto"] == 3
        assert client("GET", "k") is None
        assert client("AUTH", "default", "open sesame") == "OK"


def test_password_where_none_is_asked_for(client):
    assert "without any password" in str(client.error("AUTH", "x"))
    assert client("AUTH", "default", "x") == "OK"


def test_a_request_that_ends_the_stream_is_answered(gateway, key):
    import socket
    with gateway.connect() as client:
        client.raw(f"SET {key} v NX PX 20000\r\nDEL {key}\r\n".encode())
        client.socket.shutdown(socket.SHUT_WR)
        assert [client.read(), client.read()] == ["OK", 1]
        assert client.at_end()


def test_browsers_are_not_read_further(gateway, key):
    for lines in [b"POST / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nHost: localhost\r\n"]:
        with gateway.connect() as client:
            client.raw(lines + f"\r\nSET {key} v NX PX 20000\r\n".encode())
            with pytest.raises(Closed):
                for _ in range(5):
                    client.read()
    with gateway.connect() as client:
        assert client("GET", key) is None


def test_guessing_a_password_is_slow_and_ends(locked):
    with locked.connect() as client, locked.connect() as other:
        assert other("AUTH", "open sesame") == "OK"
        began = time.monotonic()
        for number in range(50):
            client.send("AUTH", f"guess {number}")
        answers = 0
        with pytest.raises((Closed, ConnectionError)):
            while True:
                assert client.read().code == "WRONGPASS"
                answers += 1
                assert other("PING") == "PONG"
        assert answers == 10
        assert 2 < time.monotonic() - began < 20


def test_the_right_password_ends_the_count_of_wrong_ones(locked):
    with locked.connect() as client:
        for _ in range(3):
            for _ in range(4):
                assert client.error("AUTH", "wrong").code == "WRONGPASS"
            assert client("AUTH", "open sesame") == "OK"
        assert client("PING") == "PONG", "twelve together"


def test_guessing_on_many_connections_is_slow_too(start, quorum, tmp_path):
    path = tmp_path / "password"
    path.write_text("open sesame\n")
    gateway = start(quorum.nodes, "--password-file", str(path), "--metrics", "127.0.0.1:0")

    with gateway.connect() as before:
        assert before("AUTH", "open sesame") == "OK"
        crowd = [gateway.connect() for _ in range(40)]
        for client in crowd:
            client.send("HELLO", 3, "AUTH", "default", "wrong")
        for client in crowd:
            assert client.read().code == "WRONGPASS"
            client.close()
        with gateway.connect() as client:
            began = time.monotonic()
            assert client.error("AUTH", "wrong").code == "WRONGPASS"
            assert time.monotonic() - began > 0.9
        assert before("PING") == "PONG", "who has given it is not held up"
        with gateway.connect() as gone:
            gone.send("AUTH", "wrong")
        with gateway.connect() as client:
            began = time.monotonic()
            assert client("AUTH", "open sesame") == "OK"
            assert 0.5 < time.monotonic() - began < 3, "late, but not shut out"
    assert sum("many wrong passwords" in line for line in gateway.said) == 1
    host, port = gateway.address("metrics")
    with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=10) as reply:
        assert b'redlock_serve_refusals_total{reason="password"} 42\n' in reply.read()


def test_ends_while_a_guess_waits(locked):
    clients = [locked.connect() for _ in range(3)]
    for client in clients:
        for number in range(9):
            client.send("AUTH", f"guess {number}")
    time.sleep(0.3)
    assert locked.terminate() == 0
    for client in clients:
        client.close()
