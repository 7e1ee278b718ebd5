# SPDX-License-Identifier: BSD-2-Clause
"""add, remove and replace under load, while clients go on with the list that they were started with."""
from crowd import EIGHT, NO_QUORUM, RESOURCE, SHORT, Crowd, init, members, now, redlock, succeed
from nodes import Group, until, urls

TTL = 1000
FOREIGN = "its record is not that of a present member of this quorum"


def goes_on(crowd, workers):
    """Some of these come inside from now on."""
    since, pids = now(), {worker.pid for worker in workers}
    until(lambda: any(grant.pid in pids for grant in crowd.entered_since(since)), 20, "one of them inside")


def is_refused(crowd, workers):
    """None of these comes inside any more: the rest of their list is no quorum."""
    def all_refused():
        last = {pid: result for pid, result, _ in crowd.witness.tried()}
        return all(last.get(worker.pid) == NO_QUORUM for worker in workers)
    until(all_refused, 20, "everyone refused")
    since, pids = now(), {worker.pid for worker in workers}
    crowd.entered(20)
    assert pids.isdisjoint(grant.pid for grant in crowd.entered_since(since))


def change(nodes, *words):
    succeed(nodes, "quorum", *words[:1], "--yes", *words[1:])


def test_membership(directory, told):
    with Group(5) as nodes, Crowd(directory, "guarded", TTL) as crowd:
        a, b, c, d, e = nodes
        init(urls([a, b, c]), TTL)
        crowd.hold(SHORT)
        old = crowd.start(urls([a, b, c]), EIGHT // 2)
        crowd.entered(3)

        change(urls([a, b, c]), "add", d.url)
        young = crowd.start(urls([a, b, c, d]), EIGHT // 2)
        goes_on(crowd, old)
        goes_on(crowd, young)

        change(urls([a, b, c, d]), "remove", a.url)
        goes_on(crowd, old)  # by b and c
        goes_on(crowd, young)
        shown = redlock(urls([a, b, c]), "quorum", "status").stdout
        assert [line for line in shown.splitlines() if a.url in line and f"foreign: {FOREIGN}" in line], shown

        change(urls([b, c, d]), "replace", b.url, e.url)
        assert {member["url"] for member in members(urls([c, d, e]))["members"]} == {c.url, d.url, e.url}
        goes_on(crowd, young)  # by c and d
        is_refused(crowd, old)
        done = redlock(urls([a, b, c]), "acquire", "-t", "500ms", RESOURCE)
        assert (done.returncode, done.stdout) == (78, "")
        assert all(f"{gone.url}: {FOREIGN}" in done.stderr for gone in (a, b)), done.stderr
        crowd.end()
        grants = crowd.no_two_at_once()
        crowd.fences_grow()
        told(f"{len(grants)} grants, never two holders, fences grow; the old list goes on while a majority is in it")
