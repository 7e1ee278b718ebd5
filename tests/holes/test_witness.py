# SPDX-License-Identifier: BSD-2-Clause
"""The witness itself: what it must notice, and what it must not take for a violation."""
import socket

import pytest

import nodes  # noqa: F401  (first: it knows where the servers of tests/cli are)
from stage import Stage
from witness import Grant, Witness, fence_violations, overlaps


def grant(told, until, fence=1, asked=None, resource="r", left=None):
    return Grant(resource, 1, fence, told - 1 if asked is None else asked, told, until, "t", until if left is None else left)


@pytest.mark.parametrize("grants, count", [
    ([grant(10, 20), grant(20, 30)], 0),
    ([grant(10, 21), grant(20, 30)], 1),
    ([grant(20, 30), grant(10, 21)], 1),
    ([grant(10, 21), grant(20, 30, resource="other")], 0),
    ([grant(10, 100), grant(20, 30), grant(40, 50)], 2),
    ([grant(10, 100, left=15), grant(20, 30)], 0),   # left before its validity ended
    ([grant(10, 15, left=100), grant(20, 30)], 0),   # stopped past its validity: a fence's business
    ([grant(10, 15, left=100), grant(14, 30)], 1),
])
def test_two_at_once(grants, count):
    assert len(overlaps(grants)) == count


@pytest.mark.parametrize("grants, count", [
    ([grant(10, 20, 1), grant(30, 40, 2)], 0),
    ([grant(10, 20, 2), grant(30, 40, 2)], 1),
    ([grant(10, 20, 2), grant(30, 40, 1)], 1),
    ([grant(10, 20, 2), grant(30, 40, 1, resource="other")], 0),
    ([grant(10, 20, 2), grant(30, 40, 1, asked=5)], 0),  # asked before the other was told: no order
    ([grant(10, 20, 3), grant(12, 40, 2, asked=11), grant(50, 60, 4)], 1),
    ([grant(10, 20, 0)], 1),
])
def test_fences_that_do_not_grow(grants, count):
    assert len(fence_violations(grants)) == count


def test_records_are_read(tmp_path):
    witness = Witness(tmp_path / "witness")
    witness.path.write_text("enter a 7 3 100 110 200 abc\ntried a 8 -1 105\nenter b 8 4 120 130 220 def\n"
                            "leave a 7 150 0\nleave b 8 400 500\nwrote a 7 3 1\nenter a 7 9 1")
    first, second = witness.grants()
    assert (first.pid, first.fence, first.asked, first.told, first.until, first.token) == (7, 3, 100, 110, 150, "abc")
    assert (second.resource, second.until) == ("b", 400)
    assert witness.grants("b") == [second]
    assert witness.tried() == [(8, -1, 105)] and witness.wrote() == [(7, 3, 1)] and witness.fenced() == []


def test_no_server_gets_the_port_of_an_unreachable_node(tmp_path):
    """A server of another test there is a node of another quorum: TWO_QUORUMS, and rightly so."""
    with Stage(tmp_path, "classic") as stage:
        port = int(stage.unreachable().rsplit(":", 1)[1])
        with socket.socket() as client:
            assert client.connect_ex(("127.0.0.1", port)) != 0
        with pytest.raises(OSError):
            socket.create_server(("127.0.0.1", port)).close()
