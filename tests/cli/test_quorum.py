# SPDX-License-Identifier: BSD-2-Clause
"""quorum: made, looked at, changed, interrupted, and brought back by whoever comes by."""
import json
import os
import re
import signal
import subprocess
import time

import pytest

from conftest import BINARY, Redlock
from servers import Quorum, Server, started, until

INTERRUPTED, USAGE, NO_QUORUM, HELD, CONFIG = 130, 64, 69, 75, 78
DEGRADED = 1
TTL_MAX = "2s"
TTL = "1s"


@pytest.fixture
def spare():
    server = Server()
    yield server
    server.close()


def guarded(nodes):
    return Redlock(nodes, {"REDLOCK_MODE": "guarded"})


@pytest.fixture
def made(three):
    """Three servers that are a quorum, and redlock(1) on it."""
    redlock = guarded(three.nodes)
    done = redlock("quorum", "init", "--yes", "--never-used", "--ttl-max", TTL_MAX)
    assert done.returncode == 0, done.stderr
    return redlock


def exports(done):
    """The list of nodes; the mode and the quorum must be there too."""
    nodes, mode, quorum = done.stdout.decode().splitlines()
    assert mode == "export REDLOCK_MODE='guarded'" and re.fullmatch(r"export REDLOCK_QUORUM='[0-9a-f]{16}'", quorum)
    return re.fullmatch(r"export REDLOCK_NODES='(.*)'", nodes)[1]


def look(redlock, *options):
    done = redlock("quorum", "status", "--json", *options)
    assert done.stderr == b"", done.stderr
    return done.returncode, json.loads(done.stdout)


def standings(redlock):
    return {member["url"]: member["standing"] for member in look(redlock)[1]["members"]}


def take(redlock, resource, *options):
    """The token and the fence."""
    done = redlock("acquire", "-t", TTL, *options, resource)
    assert done.returncode == 0, done.stderr
    token, validity, fence = done.stdout.split()
    assert 0 < int(validity) <= 1000
    return token.decode(), int(fence)


def intact_again(redlock, seconds=20):
    until(lambda: redlock("quorum", "status", "-q").returncode == 0, seconds, "every member intact")


# ---- init and status ----

def test_a_new_quorum(three):
    redlock = guarded(three.nodes)
    status, report = look(redlock)
    assert (status, report["state"], report["id"], report["members"]) == (NO_QUORUM, "no-record", None, [])
    assert [other["standing"] for other in report["others"]] == ["no_record"] * 3
    assert look(guarded("redis://127.0.0.1:1,redis://127.0.0.1:2"))[1]["state"] == "no-answer"

    done = redlock("quorum", "init", "--never-used")
    assert done.returncode == USAGE
    assert b"a new quorum of 3 nodes will be made" in done.stderr and b"--yes" in done.stderr
    assert look(redlock)[0] == NO_QUORUM  # nothing was done

    done = redlock("quorum", "init", "--yes", "--never-used", "--ttl-max", TTL_MAX)
    assert done.returncode == 0, done.stderr
    assert exports(done) == f"{three.nodes}"
    status, report = look(redlock)
    assert (status, report["state"], report["settled"], report["votes_needed"]) == (0, "intact", True, 2)
    assert (report["ttl_max_ms"], report["epoch"], report["others"]) == (2000, 1, [])
    assert [member["url"] for member in report["members"]] == [server.url for server in three.servers]
    assert [member["node"] for member in report["members"]] == [1, 2, 3]
    assert all(re.fullmatch("[0-9a-f]{16}", member["id"]) for member in report["members"])
    take(redlock, "x")

    table = redlock("quorum", "status").stdout.decode()
    assert table.count("intact\n") == 3 and table.endswith("All 3 members are intact.\n")
    again = redlock("quorum", "init", "--yes")
    assert (again.returncode, b"nothing to do" in again.stderr) == (0, True)
    assert look(redlock)[1]["id"] == report["id"]
    other = redlock("quorum", "init", "--yes", "--ttl-max", "9s")
    assert (other.returncode, b"ttl_max is fixed at 2.0 s, and init does not change it: redlock quorum set-ttl-max does" in other.stderr) == (HELD, True)
    assert b"new servers" not in other.stderr
    other = redlock("quorum", "init", "--yes", "--floor", "9")
    assert (other.returncode, b"a majority of this quorum is intact" in other.stderr) == (HELD, True)


def test_init_shows_one_plan_and_one_table(three):
    """Before it, the nodes are only names; and nobody who runs init is told to run init."""
    redlock, names = guarded(three.nodes), ", ".join(server.url for server in three.servers)
    words = ["quorum", "init", "--yes", "--never-used", "--ttl-max", TTL_MAX]
    for what in (f"a new quorum of 3 nodes will be made, with ttl_max 2.0 s: {names}", "nothing to do: the quorum is there"):
        said = redlock(*words).stderr.decode()
        assert f"redlock: {what}\n" in said and said.count("MEMBER") == 1, said
        assert "redlock quorum init" not in said, said
    for server in three.servers[:2]:
        server.ask("FLUSHALL")
    said = redlock("quorum", "init", "--ttl-max", TTL_MAX).stderr.decode()  # the loss is shown before the question
    assert "no lock can be taken.\n" in said and said.count("MEMBER") == 1 and "redlock quorum init" not in said, said


@pytest.mark.parametrize("verbose", [True, False])
def test_init_waits_for_what_may_be_held(three, verbose):
    redlock = guarded(three.nodes)
    began = time.monotonic()
    done = redlock("quorum", "init", "--yes", "--ttl-max", TTL_MAX, *(["-v"] if verbose else []))
    assert done.returncode == 0, done.stderr
    assert 2 <= time.monotonic() - began < 8
    assert (re.search(rb"redlock: .*, 2 s left\n|redlock: .*, 3 s left\n", done.stderr) is not None) == verbose
    assert b"\033" not in done.stderr
    assert look(redlock)[0] == 0


def test_init_waits_for_a_classic_lock(three, resource):
    """Its TTL may be longer than the ttl_max of the new quorum; other data do not count."""
    redlock = guarded(three.nodes)
    for server in three.servers:
        for number in range(300):
            server.ask("SET", f"page:{number}", "text", "PX", 300000)
        server.ask("SET", "no end", "text")
    three[0].ask("SET", "on one node", "0" * 40, "PX", 300000)
    assert Redlock(three.nodes)("acquire", "--mode", "classic", "-t", "5s", resource).returncode == 0
    began = time.monotonic()
    done = redlock("quorum", "init", "--yes", "--ttl-max", "1s")
    assert done.returncode == 0 and 3 < time.monotonic() - began < 25, done.stderr
    assert f"the lock '{resource}' is held for".encode() in done.stderr and b"warning: not every key" not in done.stderr
    assert three.values(resource) == [None] * 3
    assert look(redlock)[1]["ttl_max_ms"] == 1000
    assert redlock("acquire", "-t", TTL, resource).returncode == 0


def test_the_floor(three):
    redlock = guarded(three.nodes)
    floor = 5 * 10**15
    assert redlock("quorum", "init", "--yes", "--never-used", "--floor", str(floor), "--ttl-max", TTL_MAX).returncode == 0
    assert take(redlock, "x")[1] > floor


def test_interrupted_and_run_again(three):
    redlock = guarded(three.nodes)
    process = redlock.start("quorum", "init", "--yes", "--ttl-max", "60s")
    until(lambda: all(server.ask("EXISTS", "redlock:node") for server in three.servers), what="the records")
    process.send_signal(signal.SIGINT)
    assert process.wait(5) == INTERRUPTED
    assert b"run it again" in process.stderr.read()
    assert look(redlock)[0] == NO_QUORUM
    done = redlock("quorum", "init", "--yes", "--never-used", "--ttl-max", TTL_MAX)
    assert done.returncode == 0, done.stderr
    assert look(redlock)[0] == 0


def test_init_while_a_minority_is_down(made, three):
    """A unit that runs init when its machine starts does not fail because another server is down."""
    three[1].close()
    for words, status in (([], 0), (["--ttl-max", TTL_MAX], 0), (["--ttl-max", "9s"], HELD)):
        done = made("quorum", "init", "--yes", *words)
        assert done.returncode == status, (words, done.stderr)
        assert b"run the command again" not in done.stderr


def test_init_names_the_node_that_is_not_there(three):
    redlock = guarded(three.nodes)
    three[1].close()
    done = redlock("quorum", "init", "--yes", "--never-used")
    assert done.returncode == NO_QUORUM
    assert three[1].url.encode() in done.stderr
    assert three[0].ask("EXISTS", "redlock:node") == 0


@pytest.mark.parametrize("words, status, result", [
    (["init", "--yes"], USAGE, "usage"), (["init"], USAGE, "usage"), (["init", "--yes", "-N", "redis://127.0.0.1:1"], NO_QUORUM, "no_quorum"),
    (["add", "redis://127.0.0.1:1", "--yes"], NO_QUORUM, "no_quorum"), (["remove", "redis://127.0.0.1:1", "--yes"], NO_QUORUM, "no_quorum"),
    (["replace", "redis://127.0.0.1:1", "redis://127.0.0.1:2", "--yes"], USAGE, "usage"),
    (["set-ttl-max", "1s", "--yes"], NO_QUORUM, "no_quorum"), (["set-ttl-max", "never"], USAGE, "usage"), (["add"], USAGE, "usage"),
    (["init", "--profile", "none"], CONFIG, "config")], ids=lambda words: " ".join(words) if isinstance(words, list) else "")
def test_a_failure_as_json(three, words, status, result):
    done = guarded(three.nodes)("quorum", "--json", *words)
    told = json.loads(done.stdout)
    assert (done.returncode, told["result"], told["exit"]) == (status, result, status), done.stderr
    assert told["reason"] and told["reason"] in done.stderr.decode()


def test_a_refused_change_as_json(made, three):
    done = made("quorum", "--json", "init", "--yes", "--ttl-max", "9s")
    told = json.loads(done.stdout)
    assert (done.returncode, told["result"], told["exit"]) == (HELD, "conflict", HELD) and "ttl_max is fixed" in told["reason"]
    done = made("quorum", "--json", "add", "--yes", "redis://127.0.0.1:1")
    told = json.loads(done.stdout)
    assert (done.returncode, told["result"]) == (NO_QUORUM, "no_quorum") and "nothing is done: redis://127.0.0.1:1" in told["reason"]
    assert len(told["nodes"]) == 4 and told["nodes"][3]["verdict"] == "refused"


# ---- init: how long it waits (INIT-TOO-SOON) ----

def lose(*servers):
    for server in servers:
        server.ask("FLUSHALL")


def timed_init(redlock, *options, environ=None):
    began = time.monotonic()
    done = redlock("quorum", "init", "--yes", *options, environ=environ)
    assert done.returncode == 0, done.stderr
    return time.monotonic() - began


def test_init_after_a_power_cut_wants_to_know_how_long_to_wait(made, three):
    lose(*three.servers)
    done = made("quorum", "init", "--yes")
    assert done.returncode == USAGE
    assert b"nothing says how long locks" in done.stderr and b"--ttl-max 10m" in done.stderr
    assert [server.ask("DBSIZE") for server in three.servers] == [0] * 3
    status, shown, _ = on_terminal(made, "quorum", "init", answer=b"n\n")
    assert status == 1 and "It would wait for 60.0 s" in shown and "two clients would hold a lock" in shown
    assert [server.ask("DBSIZE") for server in three.servers] == [0] * 3
    assert timed_init(made, "--ttl-max", TTL_MAX) >= 2


def test_init_waits_for_the_longest_that_is_known(three, tmp_path):
    redlock = guarded(three.nodes)
    path = tmp_path / "redlock.conf"
    path.write_text("ttl-max = 3s\n")
    file = {"REDLOCK_CONFIG": str(path)}
    assert timed_init(redlock, environ=file) >= 3
    assert look(redlock)[1]["ttl_max_ms"] == 3000
    lose(*three.servers[:2])
    assert timed_init(redlock, "--ttl-max", "500ms") >= 3  # by the record
    assert look(redlock)[1]["ttl_max_ms"] == 500
    lose(*three.servers)
    assert timed_init(redlock, "--ttl-max", "500ms", environ=file) >= 3  # by the file
    assert look(redlock)[1]["ttl_max_ms"] == 500
    # Who does nothing but take locks does not mind it.
    assert redlock("acquire", "-t", "200ms", "x", environ=file).returncode == 0


# ---- one quorum, and the mode ----

@pytest.fixture
def both():
    """The nodes of two quorums in one list, and redlock(1) on it."""
    with Quorum(4) as servers:
        for half in (servers.servers[:2], servers.servers[2:]):
            done = guarded(",".join(server.url for server in half))("quorum", "init", "--yes", "--never-used", "--ttl-max", TTL_MAX)
            assert done.returncode == 0, done.stderr
        yield servers


def records(servers):
    return [sorted(server.ask("HGETALL", "redlock:node")) for server in servers.servers]


def id_at(server):
    return server.ask("HGET", "redlock:node", "quorum").decode()


@pytest.mark.parametrize("words", [["quorum", "status"], ["quorum", "add", "--yes", "redis://127.0.0.1:1"],
                                   ["quorum", "remove", "--yes", "redis://127.0.0.1:1"],
                                   ["quorum", "init", "--yes", "--ttl-max", TTL_MAX], ["show", "x"],
                                   ["acquire", "-t", TTL, "x"], ["run", "-t", TTL, "-w", "5s", "x", "true"]],
                         ids=lambda words: " ".join(words[:2]))
def test_a_list_of_two_quorums(both, words):
    before = records(both)
    done = guarded(both.nodes)(*words)
    assert (done.returncode, done.stdout) == (CONFIG, b""), done.stderr
    said = done.stderr.decode()
    for server in (both[0], both[2]):
        assert re.search(f"{server.url}.* quorum {id_at(server)}", said), said
    assert "--quorum" in said
    assert records(both) == before


def test_doctor_on_a_list_of_two_quorums(both):
    done = guarded(both.nodes)("doctor", "--samples", "1")
    assert (done.returncode, b"TWO-QUORUMS" in done.stdout) == (CONFIG, True)


def test_a_pinned_quorum(both, resource, tmp_path):
    first, second = id_at(both[0]), id_at(both[2])
    redlock = Redlock(both.nodes)  # auto: to pin a quorum is to choose guarded mode
    done = redlock("run", "--quorum", first, "-t", TTL, resource, "--", "sh", "-c", 'echo "$REDLOCK_MODE $REDLOCK_QUORUM"')
    assert (done.returncode, done.stdout.decode()) == (0, f"guarded {first}\n"), done.stderr
    take(redlock, resource, "--quorum", first)
    assert [value is not None for value in both.values(resource)] == [True, True, False, False]

    def keeps_out(quorum, *options, environ):
        """The lock of that quorum. A busy machine may need more than its TTL for two commands."""
        redlock("acquire", "-q", "-t", TTL, "--quorum", quorum, resource)
        return redlock("acquire", "-q", "-t", TTL, *options, resource, environ=environ).returncode == HELD

    until(lambda: keeps_out(first, environ={"REDLOCK_QUORUM": first}))
    path = tmp_path / "redlock.conf"
    path.write_text(f"quorum = {second}\n")
    file = {"REDLOCK_CONFIG": str(path)}
    assert redlock("acquire", "-t", TTL, resource, environ=file).returncode == 0  # of the other quorum
    until(lambda: keeps_out(first, environ={**file, "REDLOCK_QUORUM": first}))
    until(lambda: keeps_out(second, "--quorum", second, environ={"REDLOCK_QUORUM": first}))
    status, report = look(redlock, "--quorum", second)
    assert (status, report["id"], len(report["members"]), len(report["others"])) == (0, second, 2, 2)
    assert redlock("show", "--quorum", first, resource).returncode == NO_QUORUM  # two of four nodes of the list
    done = redlock("acquire", "-t", TTL, "--quorum", "0123456789abcdef", resource)
    assert done.returncode == CONFIG and b"not to 0123456789abcdef" in done.stderr, done.stderr


def test_a_pinned_quorum_is_made_again_under_its_id(made, three):
    pinned = {"REDLOCK_QUORUM": id_at(three[0])}
    lose(*three.servers)
    done = made("quorum", "init", "--yes", "--ttl-max", TTL_MAX, environ=pinned)
    assert done.returncode == 0, done.stderr
    assert look(made)[1]["id"] == pinned["REDLOCK_QUORUM"]
    assert made("acquire", "-t", TTL, "x", environ=pinned).returncode == 0


def test_what_votes_elsewhere_is_not_taken_into_a_pinned_quorum(both):
    redlock = guarded(both.nodes)
    lose(*both.servers[:2])
    done = redlock("quorum", "init", "--yes", "--ttl-max", TTL_MAX, "--quorum", "00000000deadbeef")
    assert done.returncode == CONFIG and id_at(both[2]).encode() in done.stderr, done.stderr
    assert both[0].ask("EXISTS", "redlock:node") == 0


def test_a_forgotten_mode(made, three, resource):
    for environ in ({}, {"REDLOCK_MODE": "auto"}):
        redlock = Redlock(three.nodes, environ)
        done = redlock("run", "-t", TTL, resource, "--", "sh", "-c", 'echo "$REDLOCK_MODE $REDLOCK_FENCE"')
        assert done.returncode == 0 and done.stdout.startswith(b"guarded 1"), (done.stdout, done.stderr)
        done = redlock("run", "-t", "60s", resource, "true")
        assert done.returncode == USAGE and b"ttl_max" in done.stderr, done.stderr
        token, _, fence = redlock("acquire", "-t", TTL, resource).stdout.decode().split()
        assert redlock("extend", "-t", TTL, resource, environ={"REDLOCK_TOKEN": token}).returncode == USAGE
        done = redlock("extend", "-t", TTL, resource, environ={"REDLOCK_TOKEN": token, "REDLOCK_FENCE": fence})
        assert done.returncode == 0, done.stderr
        assert redlock("release", resource, environ={"REDLOCK_TOKEN": token}).returncode == 0
    assert len(Redlock(three.nodes)("acquire", "--mode", "classic", resource).stdout.split()) == 2


# ---- a lock ----

def test_fences_grow_and_reach_the_command(made, resource):
    seen = []
    for _ in range(3):
        done = made("run", "-t", TTL, resource, "--", "sh", "-c", 'echo "$REDLOCK_MODE $REDLOCK_FENCE"')
        assert done.returncode == 0, done.stderr
        mode, fence = done.stdout.decode().split()
        assert mode == "guarded"
        seen.append(int(fence))
    token, fence = take(made, resource)
    seen.append(fence)
    assert made("release", resource, environ={"REDLOCK_TOKEN": token}).returncode == 0  # a release needs none
    seen.append(take(made, resource, "--confirm")[1])
    assert seen == sorted(set(seen)) and seen[0] > 0


def test_a_classic_lock_has_no_fence_of_another(made, resource):
    done = made("run", "--mode", "classic", "-t", TTL, resource, "--", "sh", "-c", 'echo "$REDLOCK_MODE ${REDLOCK_FENCE-none}"',
                environ={"REDLOCK_FENCE": "17"})
    assert done.stdout == b"classic none\n"
    assert len(made("acquire", "--mode", "classic", resource).stdout.split()) == 2


def test_extend_takes_the_fence(made, three, resource):
    token, fence = take(made, resource)
    pair = {"REDLOCK_TOKEN": token, "REDLOCK_FENCE": str(fence)}
    done = made("extend", "-t", TTL_MAX, resource, environ=pair)
    assert (done.returncode, done.stderr) == (0, b"")
    validity, new = map(int, done.stdout.split())
    assert 1000 < validity < 2000 and new > fence
    for arguments, environ, message in [
            ((), {"REDLOCK_TOKEN": token}, b"no fence"),
            (("--token", token), pair, b"this token came from --token; give --fence"),
            ((), {**pair, "REDLOCK_FENCE": "many"}, b"REDLOCK_FENCE: 'many' is not a number")]:
        done = made("extend", *arguments, resource, environ=environ)
        assert (done.returncode, message in done.stderr) == (USAGE, True), done.stderr
    done = made("extend", "--json", "-t", TTL_MAX, "--token", token, "--fence", str(fence), resource)
    assert json.loads(done.stdout)["fence"] > new
    assert three.holder(resource) == token.encode()


def test_a_lost_lock_is_extended_with_a_new_fence_only(made, three, resource):
    """Another client has held it in between; late requests of the first then brought its keys back."""
    token, fence = take(made, resource)
    assert made("release", resource, environ={"REDLOCK_TOKEN": token}).returncode == 0
    other, between = take(made, resource)
    assert made("release", resource, environ={"REDLOCK_TOKEN": other}).returncode == 0
    for server in three.servers[:2]:
        assert server.ask("SET", resource, token, "NX", "PX", "1500") == b"OK"
    done = made("extend", "-t", TTL_MAX, "--fence", str(fence), "--token", token, resource)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[1]) > between > fence
    assert made("release", resource, environ={"REDLOCK_TOKEN": token}).returncode == 0


def test_json_has_the_fence(made, resource):
    done = made("acquire", "--json", "-t", TTL, resource)
    assert json.loads(done.stdout)["fence"] > 0
    assert "fence" not in json.loads(made("acquire", "--json", "--mode", "classic", resource + "2").stdout)


def test_a_ttl_beyond_ttl_max(made, resource):
    for command in (["acquire", resource], ["run", resource, "true"]):
        done = made(*command)  # 30 s
        assert done.returncode == USAGE
        assert b"ttl_max is 2.0 s, and --ttl 30.0 s: give a shorter --ttl" in done.stderr


def test_no_record(three, resource):
    redlock = guarded(three.nodes)
    for words in (["acquire", resource], ["run", "-t", TTL, resource, "true"]):
        done = redlock(*words)
        assert done.returncode == CONFIG
        assert done.stderr.count(b"redlock quorum init") == 3


# ---- nodes that lost their data ----

def test_a_fleet_of_short_commands_brings_a_node_back(made, three, resource):
    _, fence = take(made, "before")
    three[1].ask("FLUSHALL")
    began = time.monotonic()
    fleet = 'for i in 1 2 3 4 5 6 7 8 9 10; do "$1" run -t 1s "$2" -- true || exit; done'
    while (now := look(made))[0] != 0:
        assert now[0] == DEGRADED and time.monotonic() - began < 60, now
        assert now[1]["members"][1]["standing"] == "recovering"
        done = subprocess.run(["sh", "-c", fleet, "sh", BINARY, resource], env=made.environ, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
    assert time.monotonic() - began >= 2  # ttl_max, however many there were
    assert take(made, "before2")[1] > fence


def test_a_lock_outlives_all_nodes_one_by_one(made, three, resource, tmp_path):
    told = tmp_path / "told"
    script = f'echo "$REDLOCK_TOKEN $REDLOCK_FENCE" >{told}; exec sleep 60'
    with made.start("run", "-t", TTL_MAX, resource, "--", "sh", "-c", script) as process:
        until(lambda: told.exists() and told.read_text().endswith("\n"), what="the command")
        token, fence = told.read_text().split()
        for server in three.servers:
            server.ask("FLUSHALL")
            assert made("quorum", "status", "-q", "--wait=20s").returncode == 0
            assert made("acquire", "-q", "-t", TTL, resource).returncode == HELD
            # Of three nodes two hold it; the third is given it by one renewal, and counts from the next one on.
            until(lambda: three.values(resource) == [token.encode()] * 3, what="its keys")
            time.sleep(1.4)
        assert process.poll() is None
        process.terminate()
        assert process.wait(10) == -signal.SIGTERM
    assert take(made, resource)[1] > int(fence)


def test_too_few_are_left(made, three, resource):
    _, fence = take(made, resource)
    for server in three.servers[:2]:
        server.ask("FLUSHALL")
    done = made("acquire", "-t", TTL, "another")
    assert done.returncode == NO_QUORUM
    assert done.stderr.count(b"it lost its lock data") == 2, done.stderr
    assert b"it lost its lock data" in made("acquire", "-q", "-t", TTL, "another").stderr
    status, report = look(made)
    assert (status, report["state"], report["intact"]) == (NO_QUORUM, "no-quorum", 1)
    assert b"redlock quorum init" in made("quorum", "status").stdout
    done = made("quorum", "init", "--yes")  # with the ttl_max that it had
    assert done.returncode == 0, done.stderr
    status, after = look(made)
    assert (status, after["id"], after["ttl_max_ms"]) == (0, report["id"], 2000)
    assert take(made, "another")[1] > fence


def take_from(server, how):
    """So that its record cannot be read, or is gone."""
    if how == "killed":
        server.process.kill()
        server.process.wait()
    elif how == "paused":
        server.pause()
    elif how == "empty":
        server.ask("FLUSHALL")
    elif how == "unfit":
        server.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    else:
        server.ask("CONFIG", "SET", "requirepass", "secret")


@pytest.mark.parametrize("mode", ["auto", "guarded"])
@pytest.mark.parametrize("how", ["killed", "paused", "empty", "unfit", "password"])
def test_the_last_intact_member_is_not_foreign(made, three, how, mode):
    made.environ["REDLOCK_MODE"] = mode
    for server in three.servers[:2]:
        take_from(server, how)
    refused = CONFIG if how in ("unfit", "password") else NO_QUORUM
    done = made("acquire", "-t", TTL, "--json", "x")
    assert done.returncode == refused, done
    texts = [done.stderr]
    verdict = json.loads(done.stdout)["nodes"][2]["verdict"]
    assert verdict == "unaccepted" or (how, verdict) == ("password", "connecting")  # two wrong passwords: it waits for no record
    if verdict == "unaccepted":
        assert b"1 of 3 listed nodes carries a record of quorum %s, and 2 are needed: " % id_at(three[2]).encode() in texts[0]

    done = made("doctor", "--json", "--samples", "1")
    texts.append(done.stdout)
    findings = {finding["name"]: finding for finding in json.loads(done.stdout)["findings"]}
    assert "FOREIGN" not in findings and "NO-RECORD" not in findings and findings["NO-QUORUM"]["severity"] == "error"
    assert "1 are" in findings["NO-QUORUM"]["why"]
    report = look(made)[1]
    assert (report["state"], report["intact"], report["members"][2]["standing"]) == ("no-quorum", 1, "intact")
    texts += [made("quorum", "status").stdout, made("top", "--once").stdout]
    assert b"1 of 3 intact" in texts[-1] and b"not settled" not in texts[-1]
    for text in texts:
        assert b"correct the list" not in text and b"quorum add" not in text and b"not a member" not in text, text
        assert how == "empty" or b"quorum init" not in text, text  # an init gives up what is only out of reach


def test_a_list_of_which_too_few_nodes_are_members():
    with Quorum(5) as servers:
        members = ",".join(server.url for server in servers.servers[:2])
        assert guarded(members)("quorum", "init", "--never-used", "--yes", "--ttl-max", TTL_MAX).returncode == 0
        redlock = Redlock(servers.nodes)  # auto
        assert redlock("run", "-t", TTL, "x", "true").returncode == CONFIG
        done = redlock("quorum", "status")
        assert done.returncode == CONFIG and done.stdout.count(b"intact\n") == 2, done.stdout
        assert b"With this list of nodes no lock can be taken. 2 of 5 listed nodes carry a record of quorum" in done.stdout
        assert b"list its members alone, or add the others" in done.stdout and b"quorum init" not in done.stdout
        status, report = look(redlock)
        assert (status, report["state"], report["intact"]) == (CONFIG, "unaccepted", 2)
        done = redlock("doctor", "--json", "--samples", "1")
        found = {finding["name"]: finding for finding in json.loads(done.stdout)["findings"]}
        assert done.returncode == 1 and "FOREIGN" not in found
        assert "redlock quorum add the others" in found["NO-QUORUM"]["cure"]
        assert found["NO-RECORD"]["nodes"] == [3, 4, 5] and "quorum init" not in done.stdout.decode()
        top = redlock("top", "--once").stdout
        assert b"2 of 2 intact, but too few nodes of the list carry quorum" in top, top
        # Each cure cures: the members' list, and one more member.
        take(Redlock(members), "x")
        done = redlock("quorum", "add", "--yes", servers[2].url)
        assert done.returncode == 0, done.stderr
        until(lambda: redlock("quorum", "status", "-q", "--wait=20s").returncode == 0, 20, "the third member")
        take(redlock, "y")


def test_a_list_of_which_too_few_members_answer(made, three, spare):
    """The list is right: one server is down."""
    with started(()) as (other,):
        redlock = guarded(f"{three.nodes},{spare.url},{other.url}")
        take(redlock, "x")
        three[0].process.kill()
        three[0].process.wait()
        done = redlock("quorum", "status")
        assert done.returncode == NO_QUORUM
        assert b"no lock can be taken. 2 of 5 listed nodes carry" in done.stdout and b"start or correct the others" in done.stdout
        done = redlock("doctor", "--json", "--samples", "1")
        cure = next(f["cure"] for f in json.loads(done.stdout)["findings"] if f["name"] == "NO-QUORUM")
        assert cure == "First bring up or correct the nodes that the other findings name."


def test_show_does_not_count_who_does_not_vote(made, three, resource):
    token, _ = take(made, resource)
    three[0].ask("FLUSHALL")
    three[0].ask("SET", resource, "somebody", "PX", "60000")
    report = json.loads(made("show", "--json", resource).stdout)[0]
    assert (report["verdict"], [node["verdict"] for node in report["nodes"]]) == ("held", ["recovering", "held", "held"])
    three[1].ask("FLUSHALL")
    done = made("show", "--json", resource)
    assert done.returncode == NO_QUORUM and b"it lost its lock data" in done.stderr
    assert json.loads(done.stdout)[0]["verdict"] == "unknown"


def test_a_list_of_nodes_that_do_not_vote_is_no_list(made, three):
    """They have no keys because they lost their data."""
    assert made("show").stderr == b"redlock: no locks\n"
    lose(*three.servers[:2])
    done = made("show")
    assert done.returncode in (NO_QUORUM, CONFIG) and b"no locks" not in done.stderr, done


def test_a_minority_that_holds_the_lock_is_not_called_free(made, three, resource):
    take(made, resource, "-o", "first")
    three[2].ask("DEL", resource)
    three[0].ask("FLUSHALL")
    for words in (["acquire", "-n", "-t", TTL, resource], ["wait", "-n", resource]):
        done = made(*words)
        assert done.returncode == HELD and b"held by first" in done.stderr and b"it is free now" not in done.stderr, (words, done.stderr)


def test_reasons_report_how_long(made, three, resource):
    three[0].ask("FLUSHALL")
    three[1].pause()
    done = made("acquire", "-t", TTL, resource)
    three[1].resume()
    assert done.returncode == NO_QUORUM
    assert re.search(rb"it lost its lock data \(or is new\); it votes again in about \d+ s|votes again some time after", done.stderr), done.stderr


def test_status_waits_and_helps(made, three):
    three[2].ask("FLUSHALL")
    began = time.monotonic()
    assert made("quorum", "status", "-q", "--wait=300ms").returncode == DEGRADED
    assert 0.3 <= time.monotonic() - began < 3
    done = made("quorum", "status", "--wait")
    assert done.returncode == 0
    assert done.stdout.endswith(b"All 3 members are intact.\n")
    assert 2 <= time.monotonic() - began < 15


# ---- changes ----

def urls(report):
    return [member["url"] for member in report["members"]]


def test_an_interrupted_add_of_a_former_member(made, three, spare):
    """The others name it, and its own record is of before: status and doctor print the only command that finishes it."""
    four = guarded(f"{three.nodes},{spare.url}")
    assert made("quorum", "add", "--yes", spare.url, timeout=60).returncode == 0
    assert four("quorum", "remove", "--yes", spare.url, timeout=60).returncode == 0
    former = {key: spare.ask("DUMP", key) for key in spare.ask("KEYS", "redlock:*")}
    assert four("quorum", "add", "--yes", spare.url, timeout=60).returncode == 0
    spare.ask("FLUSHALL")
    for key, value in former.items():
        spare.ask("RESTORE", key, 0, value)

    done = four("quorum", "status")
    table = done.stdout.decode()
    assert done.returncode == DEGRADED and "3 of 4 members are intact" in table
    assert table.count(spare.url) == 2 and f"{spare.url}  its add was interrupted: run redlock quorum add {spare.url} again\n" in table
    assert "not in the list" not in table and "foreign" not in table
    findings = {finding["name"]: finding for finding in json.loads(four("doctor", "--json", "--samples", "1").stdout)["findings"]}
    assert findings["FOREIGN"]["nodes"] == [4] and findings["FOREIGN"]["cure"] == "Run redlock quorum add with its URL again."
    assert "NOT-LISTED" not in findings

    # A former member with a newer epoch, as an init leaves it that gave a lower one: no add cures that.
    epoch = spare.ask("HGET", "redlock:node", "epoch")
    spare.ask("HSET", "redlock:node", "epoch", 99)
    assert b"add was interrupted" not in four("quorum", "status").stdout + four("doctor", "--samples", "1").stdout
    spare.ask("HSET", "redlock:node", "epoch", epoch)

    done = four("quorum", "add", "--yes", spare.url, timeout=60)
    assert done.returncode == 0, done.stderr
    assert four("quorum", "status").stdout.decode().endswith("All 4 members are intact.\n")


def test_add_and_remove(made, three, spare, resource):
    take(made, resource)
    old = made.environ["REDLOCK_NODES"]
    refused = made("quorum", "add", spare.url)
    assert refused.returncode == USAGE and b"4 members then, of which 3 must be intact" in refused.stderr
    done = made("quorum", "add", "--yes", spare.url, timeout=60)
    assert done.returncode == 0, done.stderr
    assert exports(done) == f"{old},{spare.url}"
    everybody = guarded(f"{old},{spare.url}")
    status, report = look(everybody)
    assert (status, report["epoch"], report["settled"], urls(report)) == (0, 2, True, [*old.split(","), spare.url])
    # Who has the old list goes on, and is told nothing new.
    take(made, resource + "2")
    status, seen = look(made)
    assert (status, seen["members"][3]["standing"], seen["members"][3]["node"]) == (DEGRADED, "not_listed", None)
    assert "not in the list of nodes" in made("quorum", "status").stdout.decode()
    again = everybody("quorum", "add", "--yes", spare.url)
    assert (again.returncode, b"is a member already" in again.stderr) == (0, True)

    member = report["members"][0]
    done = everybody("quorum", "remove", "--yes", member["id"], timeout=60)
    assert done.returncode == 0, done.stderr
    left = f"{','.join([*old.split(',')[1:], spare.url])}"
    assert exports(done) == left
    status, report = look(everybody)
    assert (status, report["epoch"], len(report["members"])) == (0, 3, 3)
    assert [(other["url"], other["standing"]) for other in report["others"]] == [(member["url"], "foreign")]
    # The old list has two of the three members, and one that is foreign.
    take(made, resource + "3")
    assert everybody("quorum", "remove", "--yes", "redis://127.0.0.1:1").returncode == USAGE


@pytest.mark.parametrize("dead", [False, True])
def test_replace(made, three, spare, resource, dead):
    _, fence = take(made, resource)
    old = three[1].url
    if dead:
        three[1].close()
    done = made("quorum", "replace", "--yes", old, spare.url, timeout=60)
    assert done.returncode == 0, done.stderr
    said = done.stderr.decode()
    assert (said.index(f"{old} is removed") < said.index(f"{spare.url} becomes a member")) == dead
    nodes = f"{three[0].url},{three[2].url},{spare.url}"
    assert exports(done) == f"{nodes}"
    assert take(guarded(nodes), resource + "2")[1] > fence
    assert look(guarded(nodes))[0] == 0
    again = made("quorum", "replace", "--yes", old, spare.url)
    assert again.returncode == 0, again.stderr


def test_a_server_of_a_quorum_that_is_gone(made, three, spare):
    """The advice is one that docs/use/safety.md allows: no key of the protocol is deleted by hand."""
    assert guarded(spare.url)("quorum", "init", "--yes", "--never-used").returncode == 0
    done = made("quorum", "add", "--yes", "--quorum", id_at(three[0]), spare.url)
    assert done.returncode != 0
    assert b"gone for good, empty the server (FLUSHALL; a native node: restart it)" in done.stderr
    done = guarded(three[0].url)("quorum", "init", "--yes", "--ttl-max", TTL_MAX)
    assert done.returncode != 0
    assert b"gone for good, empty the server (FLUSHALL; a native node: restart it), and give --ttl-max of at least 2000ms" in done.stderr, done.stderr
    spare.ask("FLUSHALL")
    done = made("quorum", "add", "--yes", spare.url, timeout=60)
    assert done.returncode == 0, done.stderr


def test_an_interrupted_add_is_named(made, three, spare):
    with made.start("quorum", "add", "--yes", "-v", spare.url) as process:
        until(lambda: b"locks of before the change" in process.stderr.readline(), 20, "the wait")
        process.send_signal(signal.SIGINT)
        assert process.wait(5) == INTERRUPTED
    assert f"\nThe last change is not finished: redlock quorum add {spare.url}\n" in made("quorum", "status").stdout.decode()
    done = made("quorum", "init", "--yes")
    assert done.returncode == HELD, done.stderr  # no command that finishes it
    done = made("quorum", "add", "--yes", spare.url, timeout=60)
    assert done.returncode == 0, done.stderr
    status, report = look(guarded(f"{three.nodes},{spare.url}"))
    assert (status, report["settled"], report["unfinished"]) == (0, True, None)


def test_replace_by_a_member_says_that_it_only_removes(made, three):
    done = made("quorum", "replace", "--yes", three[0].url, three[1].url)
    assert done.returncode == 0, done.stderr
    assert f"{three[1].url} is a member already, so nothing is added, and the quorum has one member less".encode() in done.stderr
    assert b"With two nodes" in done.stderr


def test_replace_is_finished_by_the_next_run(made, three, spare):
    words = ["quorum", "replace", "--yes", three[0].url, spare.url]
    for pause in (0.5, 1.5, 2.5, 3.5):
        process = made.start(*words)
        time.sleep(pause)
        process.send_signal(signal.SIGINT)
        assert process.wait(5) in (INTERRUPTED, 0)
        process.stdout.close()
        process.stderr.close()
    done = made(*words, timeout=60)
    assert done.returncode == 0, done.stderr
    status, report = look(guarded(f"{three[1].url},{three[2].url},{spare.url}"))
    assert (status, report["settled"], sorted(urls(report))) == (0, True, sorted([three[1].url, three[2].url, spare.url]))


@pytest.mark.parametrize("dead", [False, True])
def test_a_removal_is_finished_by_the_next_run(made, three, dead):
    if dead:
        three[2].close()
    words = ["quorum", "remove", "--yes", "-v", three[2].url]
    with made.start(*words) as process:
        until(lambda: b"locks of before the change" in process.stderr.readline(), 20, "the wait")
        process.send_signal(signal.SIGINT)
        assert process.wait(5) == INTERRUPTED
    status, report = look(made)
    command = report["unfinished"]
    assert re.fullmatch("redlock quorum remove [0-9a-f]{16}", command)
    assert f"\nThe last change is not finished: {command}\n" in made("quorum", "status").stdout.decode()
    found = {finding["name"]: finding for finding in json.loads(made("doctor", "--json", "--samples", "1").stdout)["findings"]}
    assert f"({command})" in found["NOT-SETTLED"]["why"]
    done = made(*command.split()[1:], "--yes") if dead else made(*words)
    assert done.returncode == 0, done.stderr
    status, report = look(made)
    assert (status, report["settled"], urls(report)) == (0, True, [three[0].url, three[1].url])


def test_no_password_is_printed():
    server = Server("--requirepass", "geheim")
    try:
        redlock = guarded(f"redis://:geheim@127.0.0.1:{server.port}")
        done = redlock("quorum", "init", "--yes", "--never-used")
        assert done.returncode == 0, done.stderr
        assert exports(done) == f"{server.url}"
        assert b"passwords are left out" in done.stderr and b"geheim" not in done.stderr
        assert b"geheim" not in b"".join(redlock("quorum", "status", *more).stdout for more in ([], ["--json"]))
        done = redlock("quorum", "status", environ={"REDLOCK_NODES": f"redis://:falsch@127.0.0.1:{server.port}"})
        assert done.returncode == 78
    finally:
        server.close()


def test_a_change_that_would_leave_too_few(made, three, spare):
    three[0].close()
    done = made("quorum", "add", "--yes", spare.url)  # two of four
    assert (done.returncode, b"of 4 members 3 would have to be intact and listed, and 2 would be" in done.stderr) == (NO_QUORUM, True)
    done = made("quorum", "remove", "--yes", three[1].url)  # one of two
    assert (done.returncode, b"nothing is done" in done.stderr) == (NO_QUORUM, True)
    assert len(look(made)[1]["members"]) == 3


def test_the_last_removes_warn(made, three):
    done = made("quorum", "remove", "--yes", three[2].url, timeout=60)
    assert done.returncode == 0 and b"warning: With two nodes" in done.stderr
    done = made("quorum", "replace", "--yes", three[1].url, three[0].url, timeout=60)  # which is a member already
    assert done.returncode == 0 and b"A quorum of one node cannot grow again" in done.stderr


def test_names_are_shown_without_a_password(made, three):
    """A remove that is repeated after it was interrupted, or a port that is mistyped, names no member."""
    refused = made("quorum", "remove", "--yes", "redis://u:hunter2@127.0.0.1:9")
    assert refused.returncode == USAGE and b"the URL 'redis://127.0.0.1:9'" in refused.stderr, refused.stderr
    for name in ("redis://:hunter2", "u:hunter2", "redis://:hunter2%40127.0.0.1", "redis://:hunter2:127.0.0.1:6379"):
        refused = made("quorum", "remove", "--yes", name)
        assert refused.returncode == USAGE and b"hunter2" not in refused.stderr and b"that URL" in refused.stderr
        done = made("quorum", "replace", "--yes", name, made.environ["REDLOCK_NODES"].split(",")[0])
        assert b"hunter2" not in done.stderr + done.stdout and b"that URL" in done.stderr


def test_a_remove_warns_of_members_that_refuse_every_lock(made, three, resource):
    full, dead = three.servers[1], three.servers[0]
    full.ask("CONFIG", "SET", "maxmemory", "1")
    done = made("quorum", "remove", "--yes", dead.url)
    assert done.returncode == 0, done.stderr
    assert f"{full.url} is intact, but refuses every new lock".encode() in done.stderr
    assert b"raise maxmemory" in done.stderr
    assert b"then 1 of 2 members could grant a lock, and 2 must" in done.stderr
    assert made("acquire", "-t", TTL, resource).returncode != 0
    full.ask("CONFIG", "SET", "maxmemory", "0")
    take(made, resource)


def test_status_warns_of_members_that_refuse_every_lock(made, three):
    for server in three.servers[:2]:
        server.ask("CONFIG", "SET", "maxmemory", "1")
    done = made("quorum", "status")
    assert done.returncode == NO_QUORUM, done
    for server in three.servers[:2]:
        assert f"{server.url} is intact, but refuses every new lock: its memory is used up".encode() in done.stderr
    assert b"warning: 1 of 3 members could grant a lock, and 2 must" in done.stderr
    quiet = made("quorum", "status", "-q")
    assert (quiet.returncode, quiet.stderr) == (NO_QUORUM, b"")
    assert made("quorum", "status", "--json").returncode == NO_QUORUM
    three[0].ask("CONFIG", "SET", "maxmemory", "0")
    done = made("quorum", "status")
    assert (done.returncode, b"could grant" in done.stderr, done.stderr.count(b"is intact, but refuses")) == (0, False, 1), done


def test_refusals_say_what_to_do(three, spare):
    redlock = guarded(three.nodes)
    for words in (["add", spare.url], ["remove", three[0].url], ["replace", three[0].url, spare.url]):
        done = redlock("quorum", *words, "--yes")
        assert (done.returncode, b"no record of a quorum can be read: bring the servers back" in done.stderr) == (NO_QUORUM, True), done.stderr
    assert redlock("quorum", "init", "--yes", "--never-used", "--ttl-max", TTL_MAX).returncode == 0

    table = redlock("quorum", "status", environ={"REDLOCK_NODES": f"{three.nodes},{spare.url}"})
    assert b"it carries no record: redlock quorum add makes it a member" in table.stdout
    # The same number of nodes, one of them another: that is no quorum that is made already.
    other = guarded(",".join([three[0].url, three[1].url, spare.url]))("quorum", "init", "--yes")
    assert other.returncode == HELD and b"redlock quorum add and remove change members" in other.stderr

    alias = three[0].url.replace("127.0.0.1", "localhost")
    done = redlock("quorum", "replace", "--yes", three[0].url, alias)
    assert (done.returncode, done.stdout) == (CONFIG, b"")
    assert b"leave one of them out" in done.stderr and b"when that is fixed" in done.stderr
    by_alias = guarded(three.nodes.replace("127.0.0.1", "localhost"))
    done = by_alias("quorum", "init", "--yes")
    assert (done.returncode, b"nothing to do" in done.stderr) == (0, True)
    named = b"recorded as redis://127.0.0.1:%d: list it by that URL" % three[0].port
    assert named in by_alias("quorum", "status").stdout
    assert b"recorded as" not in redlock("quorum", "status").stdout
    assert look(redlock)[1]["epoch"] == 1

    spare.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    done = redlock("quorum", "add", "--yes", spare.url)
    assert (done.returncode, b"set maxmemory-policy to noeviction" in done.stderr) == (NO_QUORUM, True)
    spare.ask("CONFIG", "SET", "requirepass", "geheim")
    done = redlock("quorum", "add", "--yes", spare.url)
    assert (done.returncode, b"put it in the URL" in done.stderr) == (CONFIG, True), done.stderr


def test_a_member_that_lost_its_data_under_another_name(made, three):
    """The records name 127.0.0.1, and this client lists localhost: the advice is one that works."""
    alias = three[0].url.replace("127.0.0.1", "localhost")
    by_alias = guarded(three.nodes.replace(three[0].url, alias))
    three[0].ask("FLUSHALL")
    report = json.loads(by_alias("doctor", "--json", "--samples", "1").stdout)
    found = {finding["name"]: finding for finding in report["findings"]}
    assert three[0].url in found["NOT-LISTED"]["why"]
    assert "the member that NOT-LISTED names, list it by that URL" in found["NO-RECORD"]["cure"]
    done = by_alias("quorum", "add", "--yes", alias)
    assert done.returncode == NO_QUORUM and f"{three[0].url} is a member that is not listed".encode() in done.stderr, done.stderr
    assert made("quorum", "status", "-q", "--wait=20s").returncode == 0  # as the cure says


@pytest.mark.parametrize("before, after", [("locks:geheim@", ""), ("", "/0"), ("locks:geheim@", "/0")])
def test_a_member_that_lost_its_data_is_found_by_another_user(made, three, before, after):
    """The operator's URLs have no user and no database, and those of the clients do: the servers are the same."""
    for server in three.servers:
        server.ask("ACL", "SETUSER", "locks", *acl_of_the_manual())
    urls = ",".join(server.url.replace("//", "//" + before) + after for server in three.servers)
    client = guarded(urls)
    assert b"recorded as" not in client("quorum", "status").stdout
    three[0].ask("FLUSHALL")
    assert client("quorum", "status", "-q", "--wait=20s").returncode == 0
    three[1].ask("FLUSHALL")
    assert client("quorum", "status", "-q", "--wait=20s").returncode == 0
    assert look(made)[1]["epoch"] == 1


def test_used_servers_are_not_never_used(made, three):
    for server in three.servers[:2]:
        server.ask("FLUSHALL")
    done = made("quorum", "init", "--yes", "--never-used")
    assert (done.returncode, b"(--never-used) is for new servers alone: leave it out" in done.stderr) == (USAGE, True)
    # What may be held was held for ttl_max as it was: that is how long it takes.
    shown = made("quorum", "init", "--ttl-max", "1s")
    assert shown.returncode == USAGE and b"with ttl_max 1.0 s" in shown.stderr and b"that is known, 2.0 s" in shown.stderr


def standing(server):
    return (server.ask("HGET", "redlock:node", "standing") or b"").decode()


def test_never_used_after_an_init_that_was_killed_in_its_last_step(redlock, three):
    """One node is intact, and two are as the init left them: no lock can have been held."""
    init = ("quorum", "init", "--yes", "-N", three.nodes, "--ttl-max")
    process = redlock.start(*init, "2s")
    until(lambda: all(standing(server) == "recovering" for server in three.servers), what="the claims")
    for server in three.servers[1:]:
        server.ask("CLIENT", "PAUSE", "60000", "WRITE")  # they answer, and take no last record
    until(lambda: standing(three[0]) == "intact", what="the last record of one node")
    process.kill()
    process.communicate()
    for server in three.servers[1:]:
        server.ask("CLIENT", "UNPAUSE")
    assert [standing(server) for server in three.servers] == ["intact", "recovering", "recovering"]
    done = redlock(*init, "2s", "--never-used")
    assert done.returncode == 0 and [standing(server) for server in three.servers] == ["intact"] * 3, done


def test_a_fence_of_no_lock(made, resource):
    token, _ = take(made, resource)
    done = made("extend", "-t", TTL, resource, environ={"REDLOCK_TOKEN": token, "REDLOCK_FENCE": str(2**53 - 1)})
    assert (done.returncode, b"is not the fence of this lock: give the one" in done.stderr) == (USAGE, True), done.stderr


def test_a_fence_of_a_clock_that_was_two_years_ahead(made, three, resource):
    """The message has both numbers, and its cure works."""
    token, fence = take(made, resource)
    ahead = int(fence) + 2 * 365 * 86400 * 10 ** 6

    def stripes():
        """Of this fence, on the nodes that it has reached."""
        for server in three.servers:
            kept = "redlock:fences:" + server.ask("HGET", "redlock:node", "nonce").decode()
            pairs = zip(*[iter(server.ask("ZRANGE", kept, "0", "-1", "WITHSCORES"))] * 2)
            yield from (stripe for stripe, score in pairs if int(score) == int(fence))

    stripe = until(lambda: next(stripes(), None), what="the fence")
    for server in three.servers:
        nonce = server.ask("HGET", "redlock:node", "nonce").decode()
        server.ask("ZADD", f"redlock:fences:{nonce}", str(ahead), stripe.decode())
    before = time.time_ns() // 1000
    done = made("extend", "-t", TTL, resource, environ={"REDLOCK_TOKEN": token, "REDLOCK_FENCE": str(ahead)})
    said = done.stderr.decode()
    clock = re.search(rf"the fence {ahead} is not the fence of this lock.*this machine's clock is at (\d+)", said)
    assert done.returncode == USAGE and clock and before <= int(clock[1]) <= time.time_ns() // 1000, said
    done = made("run", "-t", TTL, resource, "--", "sh", "-c", "echo $REDLOCK_FENCE")
    assert done.returncode == 0 and int(done.stdout) > ahead, done


# The ACL that docs/operate/acl.md gives for guarded mode is the least that is needed, and is enough.

def acl_of_the_manual():
    with open(os.path.join(os.environ["REDLOCK_SOURCE"], "docs", "operate", "acl.md"), encoding="utf-8") as manual:
        line = re.search(r"## Guarded mode.*?^ACL SETUSER locks (.*?)$", manual.read(), re.S | re.M).group(1)
    return line.replace(">PASSWORD", ">geheim").split()


@pytest.mark.parametrize("command, reason", [("zrange", b"cannot read the fences: no permission (ACL): allow this user +zrange"),
                                             ("hset", b"its record cannot be written: no permission (ACL): allow this user ")])
def test_a_recovery_that_the_acl_forbids(three, made, command, reason):
    for server in three.servers:
        server.ask("ACL", "SETUSER", "lacks", "on", ">geheim", "allkeys", "allchannels", "+@all", f"-{command}")
    three[0].ask("FLUSHALL")
    lacking = Redlock(three.nodes.replace("//", "//lacks:geheim@"), {"REDLOCK_MODE": "guarded"})
    done = lacking("quorum", "status", "--wait=4s")
    assert done.returncode == 1 and reason in done.stdout, done


@pytest.mark.parametrize("words", [["add", "redis://127.0.0.1:1"], ["remove", "0123456789abcdef"], ["set-ttl-max", "1s"], ["status"]])
def test_a_password_that_all_refuse(made, three, words):
    for server in three.servers:
        server.ask("CONFIG", "SET", "requirepass", "geheim")
    done = made("quorum", words[0], *([] if words == ["status"] else ["--yes"]), *words[1:])
    assert done.returncode == 78, done


def test_a_status_without_permission_for_scripts(three, made):
    for server in three.servers[:2]:
        server.ask("ACL", "SETUSER", "lacks", "on", ">geheim", "allkeys", "allchannels", "+@all", "-eval", "-evalsha")
        server.ask("ACL", "SETUSER", "default", "on", "nopass")
    nodes = ",".join([*(server.url.replace("//", "//lacks:geheim@") for server in three.servers[:2]), three[2].url])
    done = Redlock(nodes, {"REDLOCK_MODE": "guarded"})("quorum", "status")
    assert done.returncode == 78, (done.stdout, done.stderr)


def test_the_minimal_acl(three, spare, resource):
    everybody = [*three.servers, spare]
    for server in everybody:
        server.ask("ACL", "SETUSER", "locks", *acl_of_the_manual())
    with_user = [server.url.replace("//", "//locks:geheim@") for server in everybody]
    redlock = guarded(",".join(with_user[:3]))
    done = redlock("quorum", "init", "--yes", "--ttl-max", TTL_MAX)
    assert done.returncode == 0, done.stderr
    key = "lock:" + resource
    token, fence = take(redlock, key, "--confirm")
    pair = {"REDLOCK_TOKEN": token, "REDLOCK_FENCE": str(fence)}
    assert redlock("extend", "-t", TTL, key, environ=pair).returncode == 0
    assert redlock("release", key, environ=pair).returncode == 0
    three[0].ask("FLUSHALL")
    assert redlock("quorum", "status", "-q", "--wait=20s").returncode == 0
    done = redlock("quorum", "replace", "--yes", three[1].url, with_user[3], timeout=60)
    assert done.returncode == 0, done.stderr
    assert take(guarded(",".join([with_user[0], *with_user[2:]])), key, "-w", "5s")[1] > fence


def test_a_permission_that_is_missing_is_named_with_its_cure(three):
    for server in three.servers:
        server.ask("ACL", "SETUSER", "locks", *acl_of_the_manual(), "-hset")
    done = guarded(three.nodes.replace("//", "//locks:geheim@"))("quorum", "init", "--yes", "--never-used")
    assert (done.returncode, re.search(rb"Allow its user what /\S*/doc/redlock/acl.md lists", done.stderr) is not None) == (NO_QUORUM, True), done.stderr


# ---- a terminal ----

def on_terminal(redlock, *arguments, answer=b"", leave=None):
    """The status and what was shown; `leave`: ^C when that was shown."""
    control, terminal = os.openpty()
    process = redlock.start(*arguments, stdin=terminal, stderr=terminal)
    os.close(terminal)
    shown = b""
    while True:
        try:
            piece = os.read(control, 65536)
        except OSError:
            break
        if not piece:
            break
        shown += piece
        if answer and b"[y/N]" in shown:
            os.write(control, answer)
            answer = b""
        if leave is not None and leave in shown:
            process.send_signal(signal.SIGINT)
            leave = None
    os.close(control)
    return process.wait(10), shown.decode(), process.stdout.read().decode()


def test_asks_on_a_terminal(three):
    redlock = guarded(three.nodes)
    status, shown, _ = on_terminal(redlock, "quorum", "init", "--ttl-max", TTL_MAX, answer=b"\n")
    assert status == 1 and "nothing was done" in shown
    assert look(redlock)[0] == NO_QUORUM
    status, shown, printed = on_terminal(redlock, "quorum", "init", "--ttl-max", TTL_MAX, answer=b"y\n", leave=b"s left")
    assert status == INTERRUPTED and "run it again" in shown and printed == ""
    status, shown, printed = on_terminal(redlock, "quorum", "init", "--ttl-max", TTL_MAX, answer=b"y\n")
    assert status == 0, shown
    assert re.search(r"\r\033\[K[^\n]*, 2 s left\r\033\[K", shown) or re.search(r"\r\033\[K[^\n]*, 1 s left\r\033\[K", shown)
    assert "All 3 members are intact." in shown and printed.startswith("export REDLOCK_NODES=")


def test_a_wait_that_is_interrupted_ends_its_line(made, three):
    three[0].ask("FLUSHALL")
    status, shown, printed = on_terminal(made, "quorum", "status", "--wait", leave=b"s left")
    assert (status, printed) == (-signal.SIGINT, "")
    assert shown.endswith("\r\033[K") and "run it again" not in shown, shown


# ---- usage ----

@pytest.mark.parametrize("arguments, message", [
    ([], "needs a command: init, status"),
    (["stauts"], "did you mean 'status'"),
    (["frobnicate"], "try 'redlock quorum --help'"),
    (["status", "30s"], "give a limit with --wait=30s"),
    (["add"], "takes the URL of a node"),
    (["replace", "a"], "takes the id or the URL of a member, and the URL of a node"),
    (["status", "--floor", "3"], "--floor is for 'redlock quorum init'"),
    (["add", "--ttl-max", "3s", "redis://127.0.0.1:2"], "--ttl-max is for 'redlock quorum init'"),
    (["init", "--wait"], "--wait is for 'redlock quorum status'"),
    (["init", "--floor", "0"], "not a number from 1"),
    (["init", "--ttl-max", "25h"], "a ttl_max is from 10ms to 24h"),
    (["status", "--quorum", "0123456789abcde"], "'0123456789abcde' is not an id of a quorum (16 hexadecimal digits)"),
    (["status", "--quorum", "0000000000000000"], "is not an id of a quorum"),
    (["status", "--quorum", "0123456789ABCDEF"], "is not an id of a quorum"),
    (["status", "--allow-replicas=yes"], "takes no value"),
    (["status", "--mode", "classic"], "needs guarded mode"),
])
def test_usage(redlock, arguments, message):
    done = redlock("quorum", *arguments, environ={"REDLOCK_NODES": "redis://127.0.0.1:1"})
    assert message in done.stderr.decode()
    assert (done.returncode, done.stdout) == (USAGE, b"")


def test_bad_modes(redlock, three, tmp_path):
    nodes = {"REDLOCK_NODES": three.nodes}
    done = redlock("acquire", "--mode", "strict", "x", environ=nodes)
    assert (done.returncode, b"'strict' is not auto, single, classic or guarded" in done.stderr) == (USAGE, True)
    done = redlock("up", "--mode", "auto", "--", "true")
    assert (done.returncode, b"'auto' is neither classic nor guarded" in done.stderr) == (USAGE, True)
    done = redlock("acquire", "x", environ={**nodes, "REDLOCK_MODE": "strict"})
    assert (done.returncode, b"REDLOCK_MODE is 'strict'" in done.stderr) == (78, True)
    done = redlock("acquire", "--confirm", "x", environ=nodes)
    assert (done.returncode, b"--confirm needs guarded mode" in done.stderr) == (USAGE, True)
    path = tmp_path / "redlock.conf"
    path.write_text("mode = strict\n")
    done = redlock("acquire", "x", environ={**nodes, "REDLOCK_CONFIG": str(path)})
    assert (done.returncode, b"1: mode: 'strict' is not auto" in done.stderr) == (78, True)


def test_bad_pins(redlock, three, tmp_path):
    nodes = {"REDLOCK_NODES": three.nodes, "REDLOCK_MODE": "guarded"}
    for name, value, message in [("REDLOCK_QUORUM", "here", b"REDLOCK_QUORUM is 'here', not an id of a quorum"),
                                 ("REDLOCK_ALLOW_REPLICAS", "yes", b"REDLOCK_ALLOW_REPLICAS is 'yes'; it must be 0 or 1")]:
        done = redlock("acquire", "x", environ={**nodes, name: value})
        assert (done.returncode, message in done.stderr) == (CONFIG, True), done.stderr
        assert b"it carries no record" in redlock("acquire", "x", environ={**nodes, name: ""}).stderr  # not set
    path = tmp_path / "redlock.conf"
    for line, message in [("quorum = here", "1: quorum: 'here' is not an id of a quorum"),
                          ("allow-replicas = perhaps", "1: allow-replicas: 'perhaps' is neither yes nor no"),
                          ("ttl-max = 25h", "1: ttl-max: '25h' is out of range: a ttl_max is from 10ms to 24h")]:
        path.write_text(line + "\n")
        done = redlock("acquire", "x", environ={**nodes, "REDLOCK_CONFIG": str(path)})
        assert (done.returncode, message in done.stderr.decode()) == (CONFIG, True), done.stderr
    for words in (["--quorum", "0123456789abcdef"], ["--allow-replicas"]):
        done = redlock("acquire", "--mode", "classic", *words, "x", environ=nodes)
        assert (done.returncode, words[0].encode() + b" needs guarded mode: add --mode guarded" in done.stderr) == (USAGE, True)
    # What is set for all commands does not stand against one that names its mode.
    assert redlock("acquire", "--mode", "classic", "x",
                   environ={**nodes, "REDLOCK_QUORUM": "0123456789abcdef", "REDLOCK_ALLOW_REPLICAS": "1"}).returncode == 0


def test_which_mode_wins(redlock, three, tmp_path):
    path = tmp_path / "redlock.conf"
    path.write_text("mode = guarded\n")
    file = {"REDLOCK_NODES": three.nodes, "REDLOCK_CONFIG": str(path)}
    # There is no record: what is taken is taken in classic mode.
    assert redlock("acquire", "x", environ=file).returncode == CONFIG
    assert redlock("acquire", "x", environ={**file, "REDLOCK_MODE": ""}).returncode == CONFIG
    assert redlock("acquire", "x", environ={**file, "REDLOCK_MODE": "classic"}).returncode == 0
    assert redlock("acquire", "--mode", "guarded", "y", environ={**file, "REDLOCK_MODE": "classic"}).returncode == CONFIG
    assert redlock("acquire", "--mode", "classic", "y", environ=file).returncode == 0
