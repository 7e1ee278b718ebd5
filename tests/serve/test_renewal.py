# SPDX-License-Identifier: BSD-2-Clause
"""REDLOCK.RENEW: a lock is renewed while its client is there, and not for long after. The clients are processes with redis-py."""
import pathlib
import select
import signal
import subprocess
import sys
import time

import pytest

from conftest import RELEASE, guarded
from resp import Push
from servers import die_with_us, until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "interop"))
import peers  # noqa: E402

TTL_MS, TTL = 1000, 1.0
BUSY = 0.7  # what a busy machine adds

# Its connection is one of its own, and not one of the pool. It sends PING, or nothing with MAX.
HOLDER = f"""
import sys, time
import redis

path, protocol, key, *options = sys.argv[1:]
client = redis.Redis(unix_socket_path=path, protocol=int(protocol)).client()
assert client.set(key, "mine", nx=True, px={TTL_MS})
assert client.execute_command("REDLOCK.RENEW", key, "mine", {TTL_MS}, *options) in (b"OK", "OK")
print("held", flush=True)
while True:
    time.sleep(0.3)
    if not options:
        client.ping()
"""


@pytest.fixture(scope="module")
def python():
    peer = peers.Peer("redis-py")
    try:
        peer.install()
    except peers.Skipped as why:
        pytest.skip(f"redis-py: {why}")
    return peer.build / "venv/bin/python"


@pytest.fixture
def hold(python, key):
    """Starts a process that holds the lock."""
    begun = []

    def start(gateway, *options, protocol=2):
        process = subprocess.Popen([python, "-B", "-c", HOLDER, gateway.path, str(protocol), key, *map(str, options)],
                                   stdout=subprocess.PIPE, text=True, preexec_fn=die_with_us)
        begun.append(process)
        assert process.stdout.readline() == "held\n"
        return process
    yield start
    for process in begun:
        process.kill()
        process.communicate()


@pytest.fixture
def wait(client, key):
    """Seconds until another client has the lock."""
    def polls(seconds):
        begun = time.monotonic()
        until(lambda: client("SET", key, "next", "NX", "PX", 10000) == "OK", seconds, "the lock")
        return time.monotonic() - begun
    return polls


def stays_held(client, key, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert client("SET", key, "next", "NX", "PX", 10000) is None
        time.sleep(0.05)


def pushed(connection, seconds=5):
    connection.socket.settimeout(seconds)
    message = connection.read()
    assert isinstance(message, Push) and message[0] == b"redlock.lost", message
    return [word.decode() for word in message[1:]]


def silent(connection, seconds):
    return select.select([connection.socket], [], [], seconds)[0] == []


def take(connection, key, *options, ttl_ms=TTL_MS):
    connection("HELLO", 3)
    assert connection("SET", key, "mine", "NX", "PX", ttl_ms) == "OK"
    assert connection("REDLOCK.RENEW", key, "mine", ttl_ms, *options) == "OK"


@pytest.mark.parametrize("protocol", [2, 3])
def test_it_is_held_for_five_ttls_and_free_a_ttl_after_its_client_is_killed(gateway, client, key, hold, wait, protocol):
    holder = hold(gateway, protocol=protocol)
    stays_held(client, key, 5 * TTL)
    assert holder.poll() is None
    holder.kill()
    assert wait(TTL + BUSY) > 0.05


def test_a_client_that_is_stopped_holds_it_for_no_more_than_two_ttls(gateway, client, key, hold, wait):
    holder = hold(gateway)
    stays_held(client, key, 2 * TTL)
    holder.send_signal(signal.SIGSTOP)
    assert wait(2 * TTL + BUSY) > 0.6 * TTL, "a renewal comes before"
    holder.send_signal(signal.SIGCONT)
    time.sleep(2 * TTL)
    assert client("GET", key) == b"next", "what it sends later takes nothing back"


def test_with_max_its_client_may_be_silent_until_then(gateway, client, key, hold, wait):
    hold(gateway, "MAX", 3500)
    stays_held(client, key, 3.0)
    wait(0.5 + BUSY)


def test_max_is_reported_before_the_lock_ends(gateway, client, key):
    with gateway.connect() as holder:
        take(holder, key, "MAX", 5000, ttl_ms=4000)
        assert pushed(holder, 10) == [key, "MAX the time for which it was to be renewed ends"]
        assert client("GET", key) == b"mine"


def test_another_gateway_sees_it_held_and_may_release_it(start, quorum, gateway, client, key):
    other_gateway = start(quorum.nodes)
    with gateway.connect() as holder, other_gateway.connect() as other:
        take(holder, key, "MAX", 60000)
        stays_held(other, key, 2 * TTL)
        assert other("EVAL", RELEASE, 1, key, "mine") == 1
        assert pushed(holder, TTL) == [key, "LOST the lock was released by another client, or has expired"]
        assert other("SET", key, "next", "NX", "PX", 10000) == "OK"
        assert silent(holder, TTL) and client("GET", key) == b"next"
        assert holder("REDLOCK.RENEW", key, "mine", TTL_MS) is None


def test_a_release_by_a_script_of_another_client_is_reported_at_once(gateway, client, key):
    with gateway.connect() as holder:
        take(holder, key, "MAX", 60000, ttl_ms=12000)
        assert client("EVAL", RELEASE, 1, key, "mine") == 1
        begun = time.monotonic()
        assert pushed(holder)[0] == key
        assert time.monotonic() - begun < 2, "the next renewal is due after 4 seconds"


def test_redis_py_goes_on_after_the_push(gateway, client, key, hold):
    holder = hold(gateway, protocol=3)
    assert client("EVAL", RELEASE, 1, key, "mine") == 1
    with pytest.raises(subprocess.TimeoutExpired):
        holder.wait(TTL)  # it reads the push and the answer to its PING


def test_its_own_release_is_not_reported(gateway, client, key):
    with gateway.connect() as holder:
        take(holder, key, "MAX", 60000)
        assert holder("EVAL", RELEASE, 1, key, "mine") == 1
        assert client("SET", key, "mine", "NX", "PX", TTL_MS) == "OK", "the same value: an old renewal would extend it"
        assert silent(holder, 0.8 * TTL)
        until(lambda: client("EXISTS", key) == 0, TTL + BUSY, "the end of the lock")
        assert silent(holder, 0.2)


def test_a_lost_quorum_is_reported_before_the_lock_ends(start, own_quorum, key):
    gateway = start(own_quorum.nodes)
    with gateway.connect() as holder:
        take(holder, key, "MAX", 60000)
        time.sleep(2 * TTL)
        for server in own_quorum.servers[:3]:
            server.process.kill()
            server.process.wait()
        begun = time.monotonic()
        name, why = pushed(holder)
        assert (name, why.split()[0]) == (key, "NOQUORUM") and "127.0.0.1" in why, why
        assert time.monotonic() - begun < TTL


def test_two_nodes_that_are_gone_change_nothing(start, own_quorum, key):
    gateway = start(own_quorum.nodes)
    with gateway.connect() as holder, gateway.connect() as other:
        take(holder, key, "MAX", 60000)
        for server in own_quorum.servers[:2]:
            server.process.kill()
            server.process.wait()
        stays_held(other, key, 3 * TTL)


def test_a_guarded_lock_keeps_its_fence(start, own_quorum, key):
    gateway = start(guarded(own_quorum).nodes, "--mode", "guarded")
    with gateway.connect() as holder:
        take(holder, key, "MAX", 60000)
        fence = holder("REDLOCK.FENCE", key, "mine")
        time.sleep(2.5 * TTL)
        assert holder("REDLOCK.FENCE", key, "mine") == fence > 0


def test_reset_ends_it(gateway, client, key, wait):
    with gateway.connect() as holder:
        take(holder, key, "MAX", 60000)
        assert holder("RESET") == "RESET"
        wait(TTL + BUSY)


def test_what_it_refuses(gateway, client, key):
    assert client("REDLOCK.RENEW", key, "mine", TTL_MS) is None
    assert client("SET", key, "theirs", "NX", "PX", 10000) == "OK"
    assert client("REDLOCK.RENEW", key, "mine", TTL_MS) is None
    for words, what in (((999,), "1 second to 24 hours"), ((86400001,), "1 second to 24 hours"), (("x",), "not an integer"),
                        ((TTL_MS, "MAX"), "syntax error"), ((TTL_MS, "MAXI", 5000), "syntax error"),
                        ((TTL_MS, "MAX", 999), "from the time to live to 366 days")):
        assert what in str(client.error("REDLOCK.RENEW", key, "mine", *words))
    client("DEL", key)


def test_a_connection_renews_64_locks(gateway, key):
    with gateway.connect() as holder:
        keys = [f"{key}-{number}" for number in range(65)]
        for one in keys:
            assert holder("SET", one, "mine", "NX", "PX", 20000) == "OK"
        for one in keys[:64] + keys[:1]:
            assert holder("REDLOCK.RENEW", one, "mine", 20000) == "OK"
        assert "more than 64" in str(holder.error("REDLOCK.RENEW", keys[64], "mine", 20000))
        assert holder("DEL", keys[0]) == 1
        assert holder("REDLOCK.RENEW", keys[64], "mine", 20000) == "OK"
        assert holder("DEL", *keys) == 64
