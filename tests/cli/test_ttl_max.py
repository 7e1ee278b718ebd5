# SPDX-License-Identifier: BSD-2-Clause
"""quorum set-ttl-max: up, down, interrupted, by two operators, and with servers that lose their data meanwhile."""
import contextlib
import json
import signal
import threading
import time

import pytest

from conftest import Redlock
from servers import Server, until

INTERRUPTED, USAGE, NO_QUORUM, HELD, CONFIG, LOST = 130, 64, 69, 75, 78, 80
DEGRADED = 1


@pytest.fixture
def spare():
    server = Server()
    yield server
    server.close()


@pytest.fixture
def made(three):
    """Three servers that are a quorum with a ttl_max of 2 s, and redlock(1) on it."""
    redlock = Redlock(three.nodes, {"REDLOCK_MODE": "guarded"})
    done = redlock("quorum", "init", "--yes", "--never-used", "--ttl-max", "2s")
    assert done.returncode == 0, done.stderr
    return redlock


def look(redlock):
    return json.loads(redlock("quorum", "status", "--json").stdout)


def ttl_max(redlock):
    """What is allowed, what nodes wait for, what comes; and whether the change is finished."""
    report = look(redlock)
    return report["ttl_allowed_ms"], report["ttl_max_ms"], report["ttl_next_ms"], report["settled"]


def set_to(redlock, value, *options, **more):
    done = redlock("quorum", "set-ttl-max", "--yes", *options, value, **more)
    assert done.returncode == 0, done.stderr
    return done


def is_intact(redlock, server):
    return {member["url"]: member["standing"] for member in look(redlock)["members"]}[server.url] == "intact"


def stop(server):
    server.process.kill()
    server.process.wait()


# A job that gets little time to end, so that a short TTL is enough for it.
HASTY = ["--kill-after", "100ms", "--grace", "300ms"]


def test_a_longer_lock_after_it_is_raised(made):
    done = made("run", "-t", "5s", "-w", "0", "x", "--", "true")
    assert done.returncode == USAGE
    assert b"ttl_max is 2.0 s, and --ttl 5.0 s: give a shorter --ttl, or raise it (redlock quorum set-ttl-max)" in done.stderr
    began = time.monotonic()
    done = set_to(made, "5s")
    assert time.monotonic() - began < 2  # no wait of either ttl_max
    assert b"ttl_max is raised from 2.0 s to 5.0 s" in done.stderr and b"ttl_max is 5.0 s\n" in done.stderr
    assert b"after a power cut" in done.stderr and b"at least 5.0 s" in done.stderr
    assert b"export REDLOCK_NODES=" in done.stdout
    assert ttl_max(made) == (5000, 5000, 5000, True)
    done = made("run", "-t", "5s", "-w", "0", "x", "--", "true")
    assert done.returncode == 0, done.stderr
    again = set_to(made, "5s", "--json")
    assert b"nothing to do: ttl_max is 5.0 s" in again.stderr
    assert json.loads(again.stdout)["ttl_max_ms"] == 5000
    assert look(made)["epoch"] == 3
    assert "epoch 3, ttl_max 5.0 s\n" in made("quorum", "status").stdout.decode()


def on_all(three):
    """A lock that only a majority has is lost with the data of one of them."""
    return all(server.ask("EXISTS", "x") == 1 for server in three)


def test_a_node_waits_for_the_raised_value(made, three):
    set_to(made, "5s")
    with made.start("run", "-t", "5s", *HASTY, "x", "--", "sleep", "7") as holder:
        until(lambda: on_all(three), 5, "the lock")
        three[0].ask("FLUSHALL")
        lost = time.monotonic()
        made("quorum", "status", "-q", "--wait=20s", timeout=40)
        assert 5 <= time.monotonic() - lost < 12
        holder.wait(20)
        assert holder.returncode == 0, holder.stderr.read()


def test_lowered_while_a_longer_lock_is_held(made, three):
    """The job goes on. A node that loses its data during the change waits for the old value, later ones for the new."""
    set_to(made, "6s")
    with made.start("run", "-t", "6s", *HASTY, "x", "--", "sleep", "9") as holder:
        until(lambda: on_all(three), 5, "the lock")
        began = time.monotonic()
        with made.start("quorum", "set-ttl-max", "--yes", "1s") as change:
            until(lambda: ttl_max(made) == (1000, 6000, 1000, False), 5, "the announcement")
            shown = made("quorum", "status").stdout.decode()
            assert "ttl_max 1.0 s (nodes that lost their data wait for 6.0 s until the change is finished)\n" in shown
            assert "The last change is not finished: redlock quorum set-ttl-max 1000ms\n" in shown
            refused = made("acquire", "-t", "6s", "-w", "0", "y")
            assert refused.returncode == USAGE and b"ttl_max is 1.0 s, and --ttl 6.0 s" in refused.stderr
            taken = made("acquire", "-t", "900ms", "-w", "0", "y")
            assert taken.returncode == 0, taken.stderr
            three[2].ask("FLUSHALL")
            lost = time.monotonic()
            assert change.wait(30) == 0, change.stderr.read()
            assert 6 <= time.monotonic() - began < 15
            change.stdout.close()
            change.stderr.close()
        assert holder.wait(20) == 0, holder.stderr.read()  # neither lost nor ended early
        assert time.monotonic() - lost > 5
        holder.stdout.close()
        holder.stderr.close()
    assert ttl_max(made) == (1000, 1000, 1000, True)
    until(lambda: is_intact(made, three[2]), 20, "node 3")
    lost = time.monotonic()
    three[0].ask("FLUSHALL")
    made("quorum", "status", "-q", "--wait=20s", timeout=40)
    assert 1 <= time.monotonic() - lost < 5  # less than the 6 s of before
    done = made("run", "-t", "1s", *HASTY, "-w", "0", "x", "--", "true")
    assert done.returncode == 0, done.stderr


def test_a_server_that_restarts_empty_between_the_epochs(made, three):
    """It comes back after the longer wait, with the new record, and what was begun is finished."""
    set_to(made, "4s")
    with made.start("quorum", "set-ttl-max", "--yes", "1s") as change:
        until(lambda: ttl_max(made) == (1000, 4000, 1000, False), 5, "the announcement")
        stop(three[1])
        three[1]._start()
        assert three[1]._answers()
        lost = time.monotonic()
        assert not is_intact(made, three[1])
        made("quorum", "status", "-q", "--wait=3s", timeout=40)
        assert not is_intact(made, three[1]) and time.monotonic() - lost >= 3
        assert change.wait(30) == 0, change.stderr.read()
        change.stdout.close()
        change.stderr.close()
    made("quorum", "status", "-q", "--wait=20s", timeout=40)
    assert ttl_max(made) == (1000, 1000, 1000, True)
    assert {server.ask("HGET", "redlock:node", "ttl_max") for server in three.servers} == {b"1000"}


def test_an_interrupted_change_is_finished_by_an_add(made, three, spare):
    set_to(made, "3s")
    with made.start("quorum", "set-ttl-max", "--yes", "1s") as change:
        until(lambda: ttl_max(made) == (1000, 3000, 1000, False), 5, "the announcement")
        change.send_signal(signal.SIGINT)
        assert change.wait(5) == INTERRUPTED
        change.stdout.close()
        change.stderr.close()
    assert "NOT-SETTLED" in made("doctor").stdout.decode()
    done = made("quorum", "add", "--yes", spare.url, timeout=60)
    assert done.returncode == 0, done.stderr
    report = look(Redlock(f"{three.nodes},{spare.url}", {"REDLOCK_MODE": "guarded"}))
    assert (report["ttl_max_ms"], report["ttl_next_ms"], report["settled"], len(report["members"])) == (1000, 1000, True, 4)


def test_an_interrupted_change_is_run_again(made):
    set_to(made, "3s")
    with made.start("quorum", "set-ttl-max", "--yes", "1s") as change:
        until(lambda: ttl_max(made) == (1000, 3000, 1000, False), 5, "the announcement")
        change.kill()
        change.wait(5)
        change.stdout.close()
        change.stderr.close()
    done = set_to(made, "1s")
    assert b"first, the change that was begun is finished" in done.stderr
    assert ttl_max(made) == (1000, 1000, 1000, True)


def interrupt_switch(made, three):
    """As a kill leaves ttl_max 2 s -> 3 s: one member has the last epoch, two have the settled one that announced it."""
    before = [{key: server.ask("DUMP", key) for key in server.ask("KEYS", "redlock:*")} for server in three.servers[:2]]
    set_to(made, "3s")
    for server, keys in zip(three.servers, before):
        server.ask("DEL", *server.ask("KEYS", "redlock:*"))
        for key, value in keys.items():
            server.ask("RESTORE", key, 0, value)
        server.ask("HSET", "redlock:node", "epoch", 2, "ttl_next", 3000)
    three[2].ask("HSET", "redlock:node", "settled", 0)


@pytest.mark.parametrize("wait", [[], ["-w", "0"]])
def test_a_lock_is_taken_after_a_kill_in_the_switch(made, three, wait):
    """The client brings members up to the new epoch first, as many as a majority needs."""
    interrupt_switch(made, three)
    done = made("acquire", "-t", "1s", *wait, "x")
    assert done.returncode == 0, done.stderr
    assert [server.ask("HGET", "redlock:node", "epoch") for server in three.servers].count(b"3") >= 2


def test_a_kill_in_the_switch_is_no_loss(made, three):
    """Nothing advises an init, which is for a majority that lost its data."""
    interrupt_switch(made, three)
    done = made("quorum", "status")
    assert done.returncode == DEGRADED
    assert b"1 of 3 members is intact, and 2 lack only the newest change: a client that takes a lock brings it to them.\n" in done.stdout
    assert b"The last change is not finished: redlock quorum set-ttl-max 3000ms\n" in done.stdout
    assert look(made)["state"] == "degraded"
    report = made("doctor", "--samples", "1").stdout
    assert b"NOT-SETTLED" in report and b"NO-QUORUM" not in report
    assert b"quorum init" not in done.stdout + report
    again = set_to(made, "3s")
    assert b"quorum init" not in again.stderr
    assert b"redlock: ttl_max is 3.0 s then\n" in again.stderr and b"from 3.0 s to 3.0 s" not in again.stderr
    assert ttl_max(made) == (3000, 3000, 3000, True)


def test_a_lock_that_the_lowered_value_ends(made, three):
    """By default TERM comes half a TTL before the end of a short lock: no renewal with the new ttl_max lasts so long."""
    set_to(made, "6s")
    with made.start("run", "-t", "6s", "x", "--", "sleep", "20") as holder:
        until(lambda: on_all(three), 5, "the lock")
        set_to(made, "1s")
        assert holder.wait(20) == LOST
        errors = holder.stderr.read()
        assert b"lost 'x': ttl_max was lowered to 1.0 s, and TERM comes 3.0 s before the lock ends (--grace); sent TERM\n" in errors
        assert b"longer locks are renewed with that" not in errors  # the library's warning: -v shows it


def test_two_operators(made):
    """One change comes first and is finished; the other follows, or reports that."""
    with made.start("quorum", "set-ttl-max", "--yes", "1s") as one, made.start("quorum", "set-ttl-max", "--yes", "4s") as other:
        results = [process.wait(60) for process in (one, other)]
        assert set(results) <= {0, HELD} and 0 in results, results
        for process in (one, other):
            process.stdout.close()
            process.stderr.close()
    allowed, wait, coming, settled = ttl_max(made)
    assert settled and allowed == wait == coming and wait in (1000, 4000)


def test_a_majority_that_is_away_for_a_second(made, three):
    """As while another command writes its change: the members are not intact at once. A question may wait for them."""
    with made.start("quorum", "set-ttl-max", "--yes", "--connect-timeout", "10s", "3s") as change:
        for server in three.servers[:2]:
            server.process.send_signal(signal.SIGSTOP)
        time.sleep(1.5)
        for server in three.servers[:2]:
            server.process.send_signal(signal.SIGCONT)
        said, errors = change.communicate(timeout=30)
        assert change.returncode == 0, errors
    assert ttl_max(made) == (3000, 3000, 3000, True)


def test_a_member_is_down(made, three):
    stop(three[2])
    set_to(made, "3s")
    assert ttl_max(made) == (3000, 3000, 3000, True)
    stop(three[1])
    done = made("quorum", "set-ttl-max", "--yes", "1s")
    assert done.returncode == NO_QUORUM and b"nothing is done" in done.stderr


def test_a_token_keeps_to_what_is_allowed(made):
    set_to(made, "6s")
    done = made("acquire", "-t", "6s", "-w", "0", "x")
    token, _, fence = done.stdout.decode().split()
    with made.start("quorum", "set-ttl-max", "--yes", "1s") as change:
        until(lambda: ttl_max(made)[0] == 1000, 5, "the announcement")
        extend = ["extend", "x", "--fence", fence]
        environ = {"REDLOCK_TOKEN": token}
        assert made(*extend, "-t", "6s", environ=environ).returncode == USAGE
        done = made(*extend, "-t", "1s", environ=environ)
        assert done.returncode == 0, done.stderr
        change.wait(30)
        change.stdout.close()
        change.stderr.close()


@pytest.mark.parametrize(("words", "why"), [
    (["set-ttl-max"], b"set-ttl-max takes a duration"),
    (["set-ttl-max", "--yes", "5ms"], b"'5ms': a ttl_max is from 10ms to 24h"),
    (["set-ttl-max", "--yes", "25h"], b"'25h': a ttl_max is from 10ms to 24h"),
    (["set-ttl-max", "--yes", "soon"], b"'soon' is not a duration"),
    (["set-ttl-max", "5s"], b"confirm with --yes"),
    (["set-ttl-max", "--yes", "--ttl-max", "5s", "5s"], b"--ttl-max is for 'redlock quorum init'"),
])
def test_it_says_what_is_wrong(made, words, why):
    done = made("quorum", *words)
    assert done.returncode == USAGE and why in done.stderr, done.stderr
    assert ttl_max(made) == (2000, 2000, 2000, True)


def test_init_would_wait_for_less(made, tmp_path):
    """All records may be lost at once, and then only the file says how long locks may last."""
    file = tmp_path / "redlock.conf"
    file.write_text("ttl-max = 2s\n")
    done = made("quorum", "set-ttl-max", "--yes", "--config", file, "3s")
    assert done.returncode == CONFIG and f"ttl-max in {file} is 2.0 s".encode() in done.stderr, done.stderr
    assert b"first write ttl-max = 3000ms there" in done.stderr and ttl_max(made) == (2000, 2000, 2000, True)
    set_to(made, "1s", "--config", file)
    set_to(made, "2s", "--config", file)
    file.write_text("ttl-max = 3s\n")
    set_to(made, "3s", "--config", file)


def test_classic_nodes_have_none(three):
    done = Redlock(three.nodes)("quorum", "set-ttl-max", "--yes", "5s")
    assert done.returncode == NO_QUORUM and b"no record of a quorum" in done.stderr


@contextlib.contextmanager
def paused_for(seconds, *servers):
    for server in servers:
        server.pause()
    timer = threading.Timer(seconds, lambda: [server.resume() for server in servers])
    timer.start()
    try:
        yield
    finally:
        timer.join()


def test_a_refusal_by_an_older_value(three):
    """A node that was down while ttl_max was raised answers first. The message never names a ttl_max that --ttl is within."""
    redlock = Redlock(three.nodes, {"REDLOCK_MODE": "guarded"})
    assert redlock("quorum", "init", "--yes", "--never-used", "--ttl-max", "800ms").returncode == 0
    before = {key: three[0].ask("DUMP", key) for key in three[0].ask("KEYS", "redlock:*")}
    three[0].pause()
    set_to(redlock, "3s")
    three[0].resume()
    refusals = []
    for pause in (0.01, 0.02, 0.03, 0.05, 0.1, 0.2):
        three[0].ask("DEL", *three[0].ask("KEYS", "redlock:*"))
        for key, value in before.items():
            three[0].ask("RESTORE", key, 0, value)
        with paused_for(pause, *three.servers[1:]):
            done = redlock("acquire", "-t", "900ms", f"x{pause}")
        if done.returncode == USAGE:
            refusals.append(done.stderr.decode())
    again = "by the nodes that answered first; it is 3.0 s now: run the command again"
    assert refusals and all(again in said or "ttl_max is 800 ms, and --ttl 900 ms: give" in said for said in refusals), refusals
