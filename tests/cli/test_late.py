# SPDX-License-Identifier: BSD-2-Clause
"""Every node gets the key: also one that is connected only when the lock is taken already."""
import contextlib
import json
import time

import pytest

from conftest import Redlock
from distance import Distance
from servers import ServerError, started, until

LOST, HELD = 80, 75
KEY = "job"
# Eight and ten times the defaults, so that a busy machine does not decide.
NODE_TIMEOUT_S = 0.4
NODE_TIMEOUT = ("--node-timeout", "400ms", "--connect-timeout", "10s")
# So far that no command waits for it to be connected, and that one node timeout is enough afterwards.
DISTANCE_MS = {"classic": 240, "guarded": 160}


class Near:
    """Three servers, the third one far away."""

    def __init__(self, servers, third, mode):
        self.servers = servers
        self.redlock = Redlock(",".join([servers[0].url, servers[1].url, third.url]), {"REDLOCK_MODE": mode})
        if mode == "guarded":
            until(lambda: self.redlock("quorum", "init", "--yes", "--never-used", "--ttl-max", "1m").returncode == 0, what="a quorum")

    def values(self):
        return [value(server) for server in self.servers]

    def restart(self, index):
        """It comes back without its data."""
        server = self.servers[index]
        server.process.kill()
        server.process.wait()
        server._start()
        until(lambda: is_up(server), what="a server that is up again")


def is_up(server):
    try:
        server.ask("PING")
        return True
    except OSError:
        return False


def value(server):
    try:
        return server.ask("GET", KEY)
    except (OSError, ServerError):
        return None


@pytest.fixture(params=DISTANCE_MS)
def far(request):
    with started((), (), ()) as servers, contextlib.closing(Distance(servers[2], DISTANCE_MS[request.param])) as third:
        yield Near(servers, third, request.param)


def test_acquire(far):
    """It has ended, and the third node has the key: so any of the three may lose its data."""
    done = far.redlock("acquire", *NODE_TIMEOUT, "--ttl", "20s", KEY)
    assert done.returncode == 0, done.stderr
    token, _, *fence = done.stdout.split()
    assert far.values() == [token, token, token]
    assert 10000 < far.servers[2].ask("PTTL", KEY) <= 20000
    far.restart(0)
    environ = {"REDLOCK_TOKEN": token.decode(), **({"REDLOCK_FENCE": fence[0].decode()} if fence else {})}
    done = far.redlock("extend", *NODE_TIMEOUT, "--ttl", "30s", KEY, environ=environ)
    assert done.returncode == 0, done.stderr
    assert far.values()[1:] == [token, token]
    assert far.servers[2].ask("PTTL", KEY) > 20000
    done = far.redlock("release", *NODE_TIMEOUT, KEY, environ=environ)
    assert done.returncode == 0, done.stderr
    assert far.values() == [None, None, None]


def test_run(far):
    job = far.redlock.start("run", *NODE_TIMEOUT, "--ttl", "9s", KEY, "--", "sleep", "5")
    until(lambda: all(far.values()), 2.5, "the key on every node before the first renewal")
    far.restart(0)
    out, err = job.communicate(timeout=20)
    assert job.returncode == 0, (out, err)


def test_run_when_the_third_comes_back(far):
    """The third server is down while the lock is taken. Long before the first renewal it has the key."""
    third = far.servers[2]
    third.process.kill()
    third.process.wait()
    job = far.redlock.start("run", *NODE_TIMEOUT, "--ttl", "1m", KEY, "--", "sleep", "8")
    until(lambda: all(far.values()[:2]), what="the lock")
    assert far.values()[2] is None
    if far.redlock.environ["REDLOCK_MODE"] == "classic":
        third._start()
        until(lambda: value(third), 7, "the key on the third node")
        assert third.ask("PTTL", KEY) > 50000
    out, err = job.communicate(timeout=20)
    assert job.returncode == 0, (out, err)
    assert far.values() == [None, None, None]


@pytest.mark.parametrize("mode", DISTANCE_MS)
def test_released_late_by_another(three, mode):
    """The third server has the key of the holder before, whose release is still on its way."""
    near = Near(three.servers, three[2], mode)
    three[2].ask("SET", KEY, "another", "PX", "100000")
    acquire = near.redlock.start("acquire", *NODE_TIMEOUT, "--ttl", "20s", KEY)
    token = acquire.stdout.readline().split()[0]
    assert near.values() == [token, token, b"another"]
    three[2].ask("DEL", KEY)
    out, err = acquire.communicate(timeout=20)
    assert acquire.returncode == 0, (out, err)
    assert near.values() == [token, token, token]


def test_an_extension_regains_a_majority(far):
    """The third server had the key of another client, and then the first one is gone."""
    far.servers[2].ask("SET", KEY, "another", "PX", "2500")
    # Most of the TTL is for renewals, none of which is late on a busy machine then.
    job = far.redlock.start("run", *NODE_TIMEOUT, "--ttl", "9s", "-k", "500ms", "--grace", "500ms", KEY, "--", "sleep", "10")
    until(lambda: all(far.values()), 2.5, "the lock")
    far.servers[0].process.kill()
    out, err = job.communicate(timeout=20)
    assert job.returncode == 0, (out, err)


def test_released_at_once(far):
    """A release that comes while the late node gets the key leaves nothing there."""
    for ms in range(0, 800, 80):
        done = far.redlock("run", *NODE_TIMEOUT, "--ttl", "20s", KEY, "--", "sleep", str(ms / 1000))
        assert done.returncode == 0, done.stderr
        assert far.values() == [None, None, None], f"after {ms} ms"
        time.sleep(2 * NODE_TIMEOUT_S)
        assert far.values() == [None, None, None], f"after {ms} ms"


def test_refused_before_it_is_connected(far):
    """Two have refused, which decides: of the third nothing is said that sounds like a fault."""
    assert far.redlock("acquire", "-t", "20s", KEY).returncode == 0
    done = far.redlock("acquire", "-v", "--json", KEY)
    nodes = json.loads(done.stdout)["nodes"]
    assert done.returncode == HELD and [node["verdict"] for node in nodes[:2]] == ["denied"] * 2, done
    assert nodes[2]["verdict"] == "none" and "reason" not in nodes[2], nodes[2]
    assert b"not connected" not in done.stderr
