# SPDX-License-Identifier: BSD-2-Clause
"""Scripts that mean harm: the gateway does not run them itself, and other clients hardly notice them."""
import time

import pytest

from conftest import EXTEND, RELEASE
from resp import encode

# Each of these ended the gateway while it ran scripts itself: the library's check for too many results does not work.
UNPACKS = ["local a = unpack(KEYS, 0, 2147483647) return 1", "local a = unpack(KEYS, -2147483648) return 1",
           "return unpack(KEYS, -2147483648, 2147483647)", "return select('#', unpack({}, 1, 2147483647))"]
# Slow without many instructions, endless, deep, and large.
COSTLY = {
    "concat": "local t = {} for i = 1, 1000 do t[i] = '' end while true do table.concat(t) end",
    "format": "local f = string.format while true do f('%99.99f', 1e300) end",
    "sum": "while true do local a = ARGV[1] + ARGV[1] end",
    "loop": "while true do end",
    "recursion": "local function f(n) return 1 + f(n + 1) end return f(1)",
    "long": "local s = 'x' while true do s = s .. s end",
    "unpack": UNPACKS[0],
}


def is_alive(gateway, client):
    return gateway.process.poll() is None and client("PING") == "PONG"


@pytest.mark.parametrize("text", UNPACKS)
def test_an_overflow_of_the_library_is_an_error(gateway, client, key, text):
    assert "too many results to unpack" in str(client.error("EVAL", text, 1, key))
    assert is_alive(gateway, client)


def slowest_ping(gateway, requests, connections, seconds=3):
    """The longest that a client waits for PONG while others send `requests` in a row, all at once and again and again."""
    hostile = [gateway.connect() for _ in range(connections)]
    slowest, until = 0.0, time.monotonic() + seconds
    try:
        for one in hostile:
            one.socket.sendall(requests)
            one.socket.setblocking(False)
        with gateway.connect(timeout=60) as client:
            while time.monotonic() < until:
                began = time.monotonic()
                assert client("PING") == "PONG"
                slowest = max(slowest, time.monotonic() - began)
    finally:
        for one in hostile:
            one.close()
    return slowest


@pytest.mark.parametrize("connections", [1, 8])
@pytest.mark.parametrize("name", ["concat", "format", "sum"])
def test_costly_scripts_delay_nobody_else(gateway, client, key, name, connections):
    """15 KB of EVALSHA from each of them: that was 2.45 s of the gateway's time, and 11.4 s with eight."""
    sha = client("SCRIPT", "LOAD", COSTLY[name])
    requests = encode("EVALSHA", sha, 1, key, "7" * 100 if name == "sum" else "x") * 200
    # The gateway's own delay comes in each try, that of a busy machine does not.
    assert any(slowest_ping(gateway, requests, connections) < 0.5 for _ in range(4))
    assert is_alive(gateway, client)


def test_costly_scripts_are_their_senders_delay(gateway, client, key):
    """Another client's script waits for the end of one of them, and not for its turn behind all of them."""
    requests = b"".join(encode("EVAL", text, 1, f"{key}-hostile", "7" * 100) for text in COSTLY.values()) * 20
    hostile = [gateway.connect() for _ in range(8)]
    for one in hostile:
        one.socket.setblocking(False)
        one.socket.send(requests)
    took = []
    for number in range(100):
        began = time.monotonic()
        assert client("EVAL", "return #ARGV + ARGV[1]", 1, key, number) == number + 1
        took.append(time.monotonic() - began)
    for one in hostile:
        one.close()
    assert sorted(took)[50] < 0.1 and max(took) < 1, sorted(took)[::10]


@pytest.mark.parametrize("name", COSTLY)
def test_each_is_ended(gateway, client, key, name):
    began = time.monotonic()
    said = str(client.error("EVAL", COSTLY[name], 1, key, "7" * 30000))
    assert said.startswith("ERR ")
    assert time.monotonic() - began < 2
    assert client("SET", key, "v", "NX", "PX", 20000) == "OK"
    assert client("EVAL", EXTEND, 1, key, "v", 30000) == 1
    assert client("EVAL", RELEASE, 1, key, "v") == 1
