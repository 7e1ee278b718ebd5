# SPDX-License-Identifier: BSD-2-Clause
"""Ours and a peer's on the same servers and the same keys. README.md names the checks."""
import os
import secrets
import subprocess
import time

import pytest

import programs
from servers import until

LONG_MS, SHORT_MS = 30000, 700
HELD_BY_ANOTHER = 75  # redlock(1)'s exit status
OUR_DELAY_MS = 20000  # between our tries, where something else is to wake us
WOKEN_S = 2           # far less than that, and more than a busy machine needs


class Keys:
    """What the servers hold under one key."""

    def __init__(self, servers, key):
        self.servers, self.key = servers, key
        self.majority = len(servers.servers) // 2 + 1

    def each(self, *words):
        return [server.ask(*words) for server in self.servers]

    def contents(self):
        """Also of those that are no strings."""
        return self.each("DUMP", self.key)

    def left_ms(self):
        """How long until a majority has no such key any more."""
        return sorted(max(0, left) for left in self.each("PTTL", self.key))[self.majority - 1]

    def held_for_ms(self):
        """How long a majority will have it."""
        return sorted((max(0, left) for left in self.each("PTTL", self.key)), reverse=True)[self.majority - 1]

    def settled(self):
        """The contents once all have the key: who has a majority need not wait for the rest."""
        until(lambda: all(self.each("EXISTS", self.key)), what=f"{self.key} on all servers")
        return self.contents()

    def expire(self):
        """Early: nobody who holds it knows."""
        self.settled()
        self.each("PEXPIRE", self.key, 1)
        self.until_gone()

    def until_gone(self):
        until(lambda: not any(self.each("EXISTS", self.key)), what=f"{self.key} gone")


@pytest.fixture
def key(theirs, resource):
    """Ours is told the key as it is; theirs makes it of the resource."""
    return theirs.key(resource)


@pytest.fixture
def keys(servers, key):
    return Keys(servers, key)


def take(program, resource, ttl_ms=LONG_MS, wait_ms=5000):
    said = program.ask("acquire", resource, ttl_ms, wait_ms)
    assert said["ok"], said
    return said


def refused(program, resource):
    said = program.ask("acquire", resource, LONG_MS, 0)
    assert said["ok"] is False, f"{program.greeting['name']} got what another holds"
    return said


# ---- exclusion ----

def test_they_exclude_us(theirs, ours, servers, resource, key, keys, tmp_path):
    take(theirs, resource)
    assert keys.held_for_ms() > LONG_MS / 2, "their TTL"
    before = keys.settled()
    assert programs.cli(servers, "acquire", key).returncode == HELD_BY_ANOTHER
    ran = tmp_path / "ran"
    assert programs.cli(servers, "run", "-n", key, "--", "touch", str(ran)).returncode == HELD_BY_ANOTHER
    assert not ran.exists()
    refused(ours, key)
    assert keys.contents() == before
    assert theirs.ask("release", resource)["ok"]
    assert programs.cli(servers, "run", "-n", key, "--", "touch", str(ran)).returncode == 0
    assert ran.exists()
    take(ours, key)
    ours.ask("release", key)


def test_we_exclude_them(theirs, servers, ours, resource, key, keys, tmp_path):
    holder = subprocess.Popen([os.environ["REDLOCK_BIN"], "run", "-N", servers.nodes, key, "--", "cat"],
                              stdin=subprocess.PIPE, start_new_session=True)
    try:
        until(lambda: all(keys.each("EXISTS", key)), what="the lock held by redlock run")
        before = keys.settled()
        refused(theirs, resource)
        assert keys.contents() == before
    finally:
        holder.communicate(timeout=20)
    assert holder.returncode == 0
    take(theirs, resource)
    assert theirs.ask("release", resource)["ok"]
    take(ours, key)
    refused(theirs, resource)
    assert ours.ask("release", key)["ok"]
    take(theirs, resource)
    assert theirs.ask("release", resource)["ok"]


# ---- whose lock it is ----

def over(keys, how):
    """The lock of whoever holds it ends: with its TTL, or early and behind its back."""
    if how == "expired":
        keys.until_gone()
    else:
        keys.expire()


def ttl_of(how):
    return SHORT_MS if how == "expired" else LONG_MS


def unchanged(keys, before):
    return keys.contents() == before and keys.held_for_ms() > LONG_MS / 2


@pytest.mark.parametrize("how", ["expired", "taken_away"])
def test_release(theirs, ours, servers, resource, key, keys, how):
    take(theirs, resource, ttl_of(how))
    over(keys, how)
    token = take(ours, key)["token"]
    before = keys.settled()
    theirs.ask("release", resource)
    assert unchanged(keys, before), "their release touched our lock"
    assert programs.cli(servers, "release", key, "--token", token).returncode == 0
    take(ours, key, ttl_of(how))
    over(keys, how)
    take(theirs, resource)
    before = keys.settled()
    assert ours.ask("release", key)["ok"] is False
    assert programs.cli(servers, "release", key, "--token", secrets.token_hex(20)).returncode != 0
    assert unchanged(keys, before), "our release touched their lock"
    assert theirs.ask("release", resource)["ok"]
    keys.until_gone()


@pytest.mark.parametrize("how", ["lengthens", "expired", "taken_away"])
def test_extend(theirs, ours, servers, resource, key, keys, how, row):
    take(theirs, resource, 5000 if how == "lengthens" else ttl_of(how))
    if how == "lengthens":
        said = theirs.ask("extend", resource, LONG_MS)
        if said.get("unsupported"):
            row["notes"]["extend"] = "it cannot extend; ours does not extend its locks"
        else:
            assert said["ok"], said
            assert keys.held_for_ms() > LONG_MS / 2, "their extension"
        refused(ours, key)
        theirs.ask("release", resource)
        return
    over(keys, how)
    theirs.ask("extend", resource, LONG_MS)
    assert keys.left_ms() == 0, "their extension brought a lost lock back"
    token = take(ours, key)["token"]
    before = keys.settled()
    theirs.ask("extend", resource, LONG_MS * 10)
    assert unchanged(keys, before) and keys.held_for_ms() <= LONG_MS, "their extension touched our lock"
    theirs.ask("release", resource)
    assert programs.cli(servers, "extend", key, "--token", token).returncode == 0
    ours.ask("release", key)
    take(ours, key, ttl_of(how))
    over(keys, how)
    take(theirs, resource)
    before = keys.settled()
    assert ours.ask("extend", key, LONG_MS * 10)["ok"] is False
    assert programs.cli(servers, "extend", key, "--token", secrets.token_hex(20), "--ttl", "10m").returncode != 0
    assert unchanged(keys, before) and keys.held_for_ms() <= LONG_MS, "our extension touched their lock"
    assert theirs.ask("release", resource)["ok"]


# ---- waking up ----

def number_of(server, section, field):
    lines = server.ask("INFO", section).decode().splitlines()
    return int(next(line.split(":", 1)[1] for line in lines if line.startswith(field + ":")))


def armed(keys):
    """On how many servers somebody waits to be told of a change."""
    return sum(number_of(server, "stats", "tracking_total_keys") > 0 for server in keys.servers)


@pytest.fixture
def waiter(servers):
    """Ours, with a delay between tries that nobody waits for in vain."""
    with programs.ours(servers, "-d", str(OUR_DELAY_MS)) as program:
        yield program


def test_woken_by_release(theirs, waiter, resource, key, keys, row):
    take(theirs, resource)
    waiter.send("acquire", key, LONG_MS, OUR_DELAY_MS - 1000)
    until(lambda: armed(keys) >= keys.majority, what="ours waiting")
    assert theirs.ask("release", resource)["ok"]
    released = time.monotonic()
    said, when = waiter.answer_and_when(OUR_DELAY_MS / 1000)
    assert said["ok"], said
    assert when - released < WOKEN_S
    row["woken_by_release_ms"] = round(max(0, when - released) * 1000, 1)


def test_woken_by_expiry(peer, servers, theirs, waiter, resource, key, keys, row):
    with peer.begin(servers) as dying:
        take(dying, resource, 3000)
        dying.kill()
    waiter.send("acquire", key, LONG_MS, OUR_DELAY_MS - 1000)
    until(lambda: armed(keys) >= keys.majority or keys.left_ms() == 0, what="ours waiting")
    free = time.monotonic() + keys.left_ms() / 1000
    said, when = waiter.answer_and_when(OUR_DELAY_MS / 1000)
    assert said["ok"], said
    assert -0.1 < when - free < WOKEN_S
    row["woken_by_expiry_ms"] = round((when - free) * 1000, 1)
