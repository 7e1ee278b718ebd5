# SPDX-License-Identifier: BSD-2-Clause
"""--shared: readers hold a lock together, writers wait."""
import re

from conftest import Redlock
from servers import started, urls

HELD, CONFIG, LOST, USAGE = 75, 78, 80, 64
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


def test_servers_without_scripts_are_named():
    """A stock server needs a script for readers: without, waiting is no cure."""
    refusing = ("--rename-command", "EVAL", "", "--rename-command", "EVALSHA", "")
    with started(refusing, refusing, refusing) as servers:
        nodes = Redlock(urls(*servers))
        assert nodes("run", "job", "--", "true").returncode == 0
        done = nodes("run", "-w", "2s", "--shared", "job", "--", "true")
        assert done.returncode == CONFIG, done.stderr
        assert done.stderr.count(b"server keeps no shared locks (an old module, or scripts refused)") >= 1, done.stderr
        assert b"waiting is no cure" in done.stderr
        done = nodes("run", "-w", "2s", "--slots=2", "job", "--", "true")
        assert done.returncode == CONFIG and b"server runs no scripts, which slots need" in done.stderr, done.stderr
        assert b"waiting is no cure" in done.stderr and b"ACL" not in done.stderr, done.stderr
