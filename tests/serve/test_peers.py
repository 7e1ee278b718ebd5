# SPDX-License-Identifier: BSD-2-Clause
"""Clients of other projects, those of tests/interop, with a gateway for the one Redis that they know. Two of its five nodes are gone.
docs/use/serve.md has a table of them, which is held to what comes of this."""
import pathlib
import re
import sys
import time
import uuid

import pytest

from conftest import Gateway
from servers import Quorum, until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "interop"))
import peers  # noqa: E402
import programs  # noqa: E402

GONE = 2
LOCK_IS_NO_STRING = {
    "redisson": "its lock is a hash",
    "redisson-rlock": "its lock is a hash",
    "symfony-lock": "its lock is a sorted set",
}


PAGE = pathlib.Path(__file__).resolve().parent.parent.parent / "docs/use/serve.md"
ROW = re.compile(r"^\| [^|]*\((?P<names>`[^)]*`)\) \| (?P<versions>[^|]*) \| (?P<works>yes|not seen|no)(?P<why>[^|]*) \|", re.MULTILINE)


def table():
    """The rows of the page by the name of the peer."""
    rows = {}
    for row in ROW.finditer(PAGE.read_text(encoding="utf-8")):
        for name in re.findall(r"`([^`]+)`", row["names"]):
            assert name not in rows, f"{name} has two rows"
            rows[name] = row
    return rows


class Nodes:
    def __init__(self, quorum):
        self.living = quorum.servers[GONE:]

    def values(self, key):
        return [server.ask("GET", key) for server in self.living]

    def left_ms(self, key):
        return [server.ask("PTTL", key) for server in self.living]


@pytest.fixture(scope="module")
def nodes(quorum_with_two_gone):
    return Nodes(quorum_with_two_gone)


@pytest.fixture(scope="module")
def quorum_with_two_gone():
    with Quorum(5) as servers:
        yield servers


@pytest.fixture(scope="module")
def gateway(quorum_with_two_gone):
    one = Gateway(quorum_with_two_gone.nodes, "--listen", "127.0.0.1:0").wait_ready()
    for server in quorum_with_two_gone.servers[:GONE]:
        server.process.kill()
        server.process.wait()
    yield one
    one.close()


@pytest.fixture(scope="module", params=peers.names())
def begin(request, gateway):
    """Starts the peer's program; several times, if it is to compete with itself."""
    peer = peers.Peer(request.param)
    try:
        peer.install()
    except peers.Skipped as why:
        pytest.skip(f"{peer.name}: {why}")
    host, port = gateway.address()

    def start():
        return programs.Program([*peer.command(peer.start), f"redis://{host}:{port}"], cwd=peer.build)
    start.name, start.renews, start.fails = peer.name, peer.renews, peer.fails
    return start


@pytest.fixture
def resource():
    return f"resource-{uuid.uuid4().hex[:12]}"


def test_the_table_has_every_peer():
    assert sorted(table()) == peers.names()


def test_a_lock_of_the_quorum(begin, gateway, nodes, resource):
    row = table()[begin.name]
    assert row["works"] in ("no" if begin.name in LOCK_IS_NO_STRING else "yes", "not seen")
    with begin() as peer, gateway.connect() as other:
        assert peer.greeting["version"] in row["versions"]
        key = peer.key(resource)
        if begin.name in LOCK_IS_NO_STRING:
            assert peer.ask("acquire", resource, 30000, 0)["ok"] is False, "it was told so by an error"
            assert [server.ask("EXISTS", key) for server in nodes.living] == [0, 0, 0]
            return
        assert peer.ask("acquire", resource, 30000, 0)["ok"] is True
        values = until(lambda: all(nodes.values(key)) and nodes.values(key), what="all living nodes")
        assert len(set(values)) == 1 and values[0][40:41] == b":", values
        assert all(25000 < left <= 30000 for left in nodes.left_ms(key))
        assert other("SET", key, "another", "NX", "PX", 30000) is None

        extended = peer.ask("extend", resource, 60000)
        if "unsupported" not in extended:
            assert extended["ok"] is True
            assert all(55000 < left <= 60000 for left in nodes.left_ms(key))
        assert peer.ask("release", resource)["ok"] is True
        until(lambda: not any(nodes.values(key)), what="the end of the lock on all nodes")


def test_two_programs_exclude_each_other(begin, resource):
    if begin.name in LOCK_IS_NO_STRING:
        pytest.skip(LOCK_IS_NO_STRING[begin.name])
    with begin() as one, begin() as two:
        assert one.ask("acquire", resource, 30000, 0)["ok"] is True
        assert two.ask("acquire", resource, 30000, 0)["ok"] is False
        two.send("acquire", resource, 30000, 20000)
        time.sleep(0.3)  # it waits by then; it would get the lock also if it did not
        assert one.ask("release", resource)["ok"] is True
        assert two.answer(10)["ok"] is True, "by a message or by polling, it has the lock long before its wait ends"
        assert two.ask("release", resource)["ok"] is True


def test_its_late_release_leaves_the_next_holders_lock(begin, gateway, nodes, resource):
    if begin.name in LOCK_IS_NO_STRING:
        pytest.skip(LOCK_IS_NO_STRING[begin.name])
    with begin() as peer, gateway.connect() as other:
        key = peer.key(resource)
        assert peer.ask("acquire", resource, 30000, 0)["ok"] is True
        assert other("DEL", key) == 1
        assert other("SET", key, "another", "NX", "PX", 30000) == "OK"
        before = until(lambda: all(nodes.values(key)) and nodes.values(key), what="all living nodes")
        if "release" in begin.fails:
            peer.ask("release", resource)
            assert not any(nodes.values(key)), f"it left another client's lock alone, but peer.json says: {begin.fails['release']}"
            return
        peer.ask("extend", resource, 60000)
        peer.ask("release", resource)  # what it says of it is its own affair
        assert nodes.values(key) == before
        assert all(left <= 30000 for left in nodes.left_ms(key))
        assert other("DEL", key) == 1


def test_its_own_renewal_holds_past_the_ttl(begin, gateway, nodes, resource):
    if not begin.renews:
        pytest.skip("it does not renew by itself")
    ttl_ms, hold_s = 3000, 8
    with begin() as peer, begin() as rival, gateway.connect() as other:
        key = peer.key(resource)
        end = time.monotonic() + hold_s
        peer.send("hold", resource, ttl_ms, hold_s)
        until(lambda: all(nodes.values(key)), what="the lock on all living nodes")
        while time.monotonic() < end - 1:
            assert other("SET", key, "another", "NX", "PX", 30000) is None
            assert rival.ask("acquire", resource, 30000, 0)["ok"] is False
            time.sleep(0.2)
        assert peer.answer(30)["ok"] is True
        until(lambda: not any(nodes.values(key)), what="the end of the lock on all nodes")
        assert rival.ask("acquire", resource, 30000, 5000)["ok"] is True
        assert rival.ask("release", resource)["ok"] is True
