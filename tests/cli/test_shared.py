# SPDX-License-Identifier: BSD-2-Clause
"""--shared: readers hold a lock together, writers wait."""
import re

HELD, LOST, USAGE = 75, 80, 64
MARKER = b"redlock:shared"


def acquire(locked, *arguments):
    done = locked("acquire", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().split(" ")[0]


def test_readers_hold_it_together_and_exclude_writers(locked, quorum, resource):
    tokens = [acquire(locked, "--shared", "-t", "20s", resource) for _ in range(3)]
    assert len(set(tokens)) == 3 and all(re.match(r"[0-9a-f]{40}:", token) for token in tokens)
    assert quorum.holder(resource) == MARKER
    assert locked("acquire", resource).returncode == HELD
    assert locked("run", "-n", "--shared", resource, "--", "true").returncode == 0
    for token in tokens:
        assert locked("extend", "--shared", "-t", "60s", resource, environ={"REDLOCK_TOKEN": token}).returncode == 0
        assert locked("release", "--shared", resource, environ={"REDLOCK_TOKEN": token}).returncode == 0
    assert quorum.values(resource) == [None] * 5
    assert all(server.ask("EXISTS", "redlock:shared:" + resource) == 0 for server in quorum.servers)


def test_a_writer_excludes_readers(locked, resource):
    token = acquire(locked, "-t", "20s", resource)
    assert locked("acquire", "--shared", resource).returncode == HELD
    assert locked("run", "-n", "--shared", resource, "--", "true").returncode == HELD
    assert locked("release", resource, environ={"REDLOCK_TOKEN": token}).returncode == 0
    assert locked("run", "-n", "--shared", resource, "--", "true").returncode == 0


def test_a_readers_token_is_no_writers(locked, quorum, resource):
    token = acquire(locked, "--shared", "-t", "20s", resource)
    assert locked("extend", resource, environ={"REDLOCK_TOKEN": token}).returncode == LOST
    assert locked("release", resource, environ={"REDLOCK_TOKEN": token}).returncode == LOST
    assert locked("release", "--shared", resource, environ={"REDLOCK_TOKEN": MARKER.decode()}).returncode == USAGE
    assert locked("release", resource, environ={"REDLOCK_TOKEN": MARKER.decode()}).returncode == USAGE
    assert quorum.holder(resource) == MARKER
    assert locked("release", "--shared", resource, environ={"REDLOCK_TOKEN": token}).returncode == 0
