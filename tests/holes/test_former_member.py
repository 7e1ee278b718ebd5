# SPDX-License-Identifier: BSD-2-Clause
"""FORMER-MEMBER: a node that is no member any more comes back with its record, which allows longer
locks than those that the members wait for."""
import pytest

from crowd import redlock, wait_intact
from nodes import urls
from stage import Missed, Orphan, play
from witness import Grant, now

LONG, SHORT = 6000, 1000
ASKED = 5000  # more than the quorum allows now
TTL_MAX_EXCEEDED = -14


def operate(nodes, *arguments):
    done = redlock(urls(nodes), "quorum", *arguments, timeout=90)
    assert done.returncode == 0, done.stderr


@pytest.fixture(params=["init", "removed"])
def way(request):
    return request.param


def test_former_member(directory, way, told):
    def one_round(stage):
        a, b, gone, other = stage.servers(4)
        if way == "init":
            stage.init(urls([a, b, gone]), LONG)
            gone.pause()
            a.ask("FLUSHALL")
        else:
            stage.init(urls([a, b, gone, other]), LONG)
            gone.pause()
            operate([a, b, gone, other], "remove", "--yes", gone.url)
            a.ask("FLUSHALL")
            b.ask("FLUSHALL")
        members = [a, b, other]
        operate(members, "init", "--yes", "--ttl-max", f"{SHORT}ms")
        gone.resume()
        former = [a, b, gone] if way == "init" else [a, b, other, gone]
        lister, member = stage.actor(urls(former), ASKED), stage.actor(urls(members), SHORT)
        orphan = Orphan(other)
        grant = lister.tries()
        if not isinstance(grant, Grant):
            assert grant == TTL_MAX_EXCEEDED
            return
        a.ask("FLUSHALL")
        wait_intact(urls(members))
        orphan.remove()
        if grant.end < now():
            raise Missed("the holder is out")
        stage.tries_while(member, grant)
    play(one_round, directory, "guarded", told)
