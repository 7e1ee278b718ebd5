# SPDX-License-Identifier: BSD-2-Clause
"""bench: what it says has the form it should, the numbers are possible ones, and nothing is left of it. How fast a
lock is, no test here asks: the machine is busy with other tests."""
import json
import os
import re
import signal
import time
import xml.etree.ElementTree

import pytest

from conftest import Redlock
from processes import children, gone
from servers import Quorum, until

SECONDS = 0.3  # of one run; those where many contend take eight times as long
LOST = 80
SHORT = ("--pairs", "2", "--seconds", str(SECONDS))
SPREAD = {"median", "min", "max"}
BESIDE = {"per_s", "p50_us", "p99_us", "max_us", "cpu_us"}


@pytest.fixture
def bench(room):
    def run(*arguments, **more):
        return Redlock(environ=room.environ)("bench", *arguments, **more, timeout=120)
    yield run
    assert room.leftovers() == []


def measured(bench, *arguments):
    done = bench(*SHORT, "--json", *arguments)
    assert (done.returncode, done.stderr) == (0, b""), done
    assert done.stdout.count(b"\n") == 1
    report = json.loads(done.stdout)
    return report, {measurement["name"]: measurement for measurement in report["measurements"]}


def check_spread(spread):
    assert set(spread) == SPREAD
    assert 0 < spread["min"] <= spread["median"] <= spread["max"], spread


def test_floor_beside_library(bench):
    report, found = measured(bench, "-n", "3", "--only", "blocking,threads-4,flight-16,extend,extend-256,several-8,nodes-1")
    assert (report["mode"], report["own_servers"], report["pairs"], report["seconds"]) == ("classic", True, 2, SECONDS)
    assert list(found) == ["blocking", "threads-4", "flight-16", "extend", "extend-256", "several-8", "nodes-1"]
    for name, measurement in found.items():
        assert measurement["nodes"] == (1 if name == "nodes-1" else 3)
        assert measurement["rounds"] == 2
        assert measurement["unit"] == ("extensions" if name.startswith("extend") else "cycles")
        floor, library = measurement["sides"]
        (ratio,) = measurement["ratios"]
        assert (floor["side"], library["side"], ratio["side"]) == ("floor", "library", "library")
        for side in (floor, library, ratio):
            assert set(side) == BESIDE | {"side"}
            for figure in BESIDE:
                check_spread(side[figure])
        for side in (floor, library):
            assert side["p50_us"]["median"] <= side["p99_us"]["median"] <= side["max_us"]["median"]
        for figure in BESIDE:
            assert ratio[figure]["min"] <= library[figure]["max"] / floor[figure]["min"] * 1.001, (name, figure)


@pytest.mark.skipif(not os.environ.get("REDLOCK_MODULE"), reason="the module is not built")
def test_native_nodes(bench):
    _, found = measured(bench, "-n", "3", "--module", os.environ["REDLOCK_MODULE"], "--only", "native-1,blocking,native-256")
    assert list(found) == ["native-1", "blocking", "native-256"]
    for name in "native-1", "native-256":
        assert [side["side"] for side in found[name]["sides"]] == ["floor", "classic", "guarded", "native"]
        for side in found[name]["sides"]:
            for figure in BESIDE | {"server_cpu_us"}:
                check_spread(side[figure])
        ratios = found[name]["ratios"]
        assert [(ratio["over"], *sorted(set(ratio) - {"side", "over"})) for ratio in ratios] == [
            ("floor", "per_s"), ("classic", "per_s"), ("classic", "p50_us"), ("classic", "server_cpu_us"),
            ("guarded", "server_cpu_us")]


def test_native_nodes_need_the_module(bench, tmp_path):
    done = bench(*SHORT, "--module", str(tmp_path / "none.so"), "--only", "native-1")
    assert done.returncode == 78 and b"none.so" in done.stderr
    done = bench(*SHORT, "-N", "redis://127.0.0.1:1", "--only", "native-1")
    assert done.returncode == 64 and b"without -N" in done.stderr


@pytest.mark.parametrize("mode", ["classic", "guarded"])
def test_library_beside_gateway(bench, mode):
    _, found = measured(bench, "--pairs", "4", "-n", "3", "--mode", mode, "--only", "gateway")
    library, gateway = found["gateway"]["sides"]
    (ratio,) = found["gateway"]["ratios"]
    assert (library["side"], gateway["side"], ratio["side"]) == ("library", "gateway", "gateway")
    for side in (library, gateway, ratio):
        for figure in BESIDE:
            check_spread(side[figure])
    assert ratio["cpu_us"]["max"] > 1, "a way through another process is more work"


def test_start_beside_nothing(bench):
    _, found = measured(bench, "-n", "3", "--only", "start,start-run")
    assert [(measurement["unit"], measurement["nodes"]) for measurement in found.values()] == [("starts", 1), ("starts", 3)]
    for measurement in found.values():
        true, redlock = measurement["sides"]
        (ratio,) = measurement["ratios"]
        assert (true["side"], redlock["side"], ratio["side"]) == ("true", "redlock", "redlock")
        for side in (true, redlock, ratio):
            for figure in BESIDE:
                check_spread(side[figure])
    only, held = (measurement["sides"][1]["cpu_us"]["min"] for measurement in found.values())
    assert held > only, "a run is two more processes"


def test_floor_from_threads(bench):
    _, found = measured(bench, "-n", "3", "--only", "handover-4,handover-16")
    for measurement in found.values():
        floor, threads = measurement["sides"]
        (ratio,) = measurement["ratios"]
        assert (floor["side"], threads["side"], ratio["side"]) == ("floor", "threads", "threads")
        for side in (floor, threads, ratio):
            for figure in BESIDE:
                check_spread(side[figure])


def test_a_cycle_in_flight_takes_as_long_as_the_rate_says(bench):
    """Little's law: rate times mean is what is in flight. Half the median is no more than the mean, and the longest no less."""
    done = bench("--pairs", "1", "--seconds", "0.5", "-n", "3", "--json", "--only", "blocking,flight-16")
    for measurement in json.loads(done.stdout)["measurements"]:
        in_flight = 16 if measurement["name"] == "flight-16" else 1
        for side in measurement["sides"]:
            per_us = side["per_s"]["median"] / 1e6
            assert per_us * side["p50_us"]["median"] / 2 < in_flight * 1.1, side
            assert per_us * side["max_us"]["median"] > in_flight * 0.9, side


@pytest.mark.parametrize("mode, nodes", [("single", 1), ("guarded", 3)])
def test_modes(bench, mode, nodes):
    more = ("-n", "3") if mode == "guarded" else ()
    report, found = measured(bench, *more, "--mode", mode, "--only", "blocking,flight-16,extend")
    assert report["mode"] == mode
    assert [measurement["nodes"] for measurement in found.values()] == [nodes] * 3


def test_contended(bench):
    _, found = measured(bench, "-n", "3", "--only", "contended-2,contended-8")
    for name, most in (("contended-2", 2), ("contended-8", 8)):
        floor, side = found[name]["sides"]
        (ratio,) = found[name]["ratios"]
        assert found[name]["unit"] == "holds" and (floor["side"], side["side"], ratio["side"]) == ("floor", "library", "library")
        assert floor["splits_per_hold"]["median"] is None
        for one in floor, side, ratio:
            check_spread(one["per_s"])
        assert max(side["per_s"]["max"], floor["per_s"]["max"]) <= 1000  # each holds for 1 ms, and one at a time
        assert floor["turns_most"]["median"] - floor["turns_fewest"]["median"] <= 1  # in a ring, each comes in its turn
        assert side["turns_fewest"]["median"] <= side["turns_most"]["median"]
        assert side["evenness"]["median"] == pytest.approx(side["turns_fewest"]["median"] / side["turns_most"]["median"], rel=1e-4)
        holds = side["per_s"]["median"] * 8 * SECONDS
        assert most * side["turns_fewest"]["median"] <= holds + 1 and side["turns_most"]["median"] <= holds + 1
        assert side["longest_wait_over_queue"]["median"] > 0
        assert side["splits_per_hold"]["median"] >= 0


def test_held(bench):
    report, found = measured(bench, "-n", "3", "-t", "2s", "--held", "300", "--only", "held")
    (side,) = found["held"]["sides"]
    assert report["held"] == 300
    assert side["lost"]["max"] == 0
    # Held for a second, and renewed after two thirds of one: each once.
    assert 270 < side["per_s"]["median"] < 660
    assert side["cpu_us"]["median"] > 0 and 0 < side["cpu_percent"]["median"] < 100
    bytes_each = side["bytes_per_lock"]["median"]
    assert bytes_each is None or 100 < bytes_each < 20000  # no figure where a sanitizer has replaced malloc


def test_held_with_many_ttls(bench):
    """As many kinds of locks as locks, nearly: each is renewed once all the same."""
    report, found = measured(bench, "-n", "1", "-t", "2s", "--held", "300", "--ttls", "200", "--only", "held")
    (side,) = found["held"]["sides"]
    assert report["held"] == 300 and report["ttls"] == 200
    assert side["lost"]["max"] == 0
    assert 250 < side["per_s"]["median"] < 660


def test_held_beyond_what_can_be_renewed(bench):
    """It says so early, and comes to its end."""
    done = bench("-n", "3", "-t", "2s", "--held", "30000", "--only", "held", "--json")
    warning = re.search(r"held: renewals (.*): 30000 locks with a TTL of 2.0 s need 45000 renewals a "
                        r"second, and this run makes \d+; try --ttl \d+m or --held \d+",
                        done.stderr.decode())
    if done.returncode == LOST:
        assert warning and b"held: stopped" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    (side,) = json.loads(done.stdout)["measurements"][0]["sides"]
    assert warning or side["lost"]["max"] == 0  # some machine keeps up


def test_distinct(bench):
    _, found = measured(bench, "-n", "1", "--only", "distinct")
    sides, ratios = found["distinct"]["sides"], found["distinct"]["ratios"]
    assert [side["side"] for side in sides] == ["100", "1000", "10000", "100000", "1000000"]
    assert [ratio["side"] for ratio in ratios] == ["1000", "10000", "100000", "1000000"]
    for side in sides + ratios:
        check_spread(side["cpu_us"])


def test_named_nodes_are_used_and_left_clean(bench):
    with Quorum(3) as servers:
        before = [int(re.search(rb"total_commands_processed:(\d+)", server.ask("INFO", "stats")).group(1)) for server in servers.servers]
        report, found = measured(bench, "-N", servers.nodes, "--only", "blocking,extend-256,nodes-1,gateway")
        assert report["own_servers"] is False
        assert [measurement["nodes"] for measurement in found.values()] == [3, 3, 1, 3]
        for server, calls in zip(servers.servers, before):
            assert int(re.search(rb"total_commands_processed:(\d+)", server.ask("INFO", "stats")).group(1)) > calls + 100
            until(lambda: server.ask("DBSIZE") == 0, what="the end of all keys")


def test_table(bench):
    done = bench(*SHORT, "-n", "1", "--only", "flight-16,contended-2")
    text = done.stdout.decode()
    assert done.returncode == 0 and done.stderr == b""
    assert re.search(r"^flight-16: .*; 1 node$", text, re.M)
    assert re.search(r"^  a second +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+ to [\d.]+$", text, re.M)
    assert re.search(r"^contended-2 ( +[\d.]+){10}\nits floor   ( +[\d.]+){9} +-$", text, re.M)
    assert max(len(line) for line in text.splitlines()) < 100


def test_plot(bench, tmp_path):
    path = tmp_path / "latency.svg"
    done = bench(*SHORT, "-n", "1", "--only", "blocking,flight-16,contended-2", "--plot", path)
    assert done.returncode == 0, done
    root = xml.etree.ElementTree.parse(path).getroot()
    space = "{http://www.w3.org/2000/svg}"
    words = [text.text for text in root.iter(f"{space}text")]
    assert {"blocking", "flight-16", "contended-2", "50 %", "99 %"} <= set(words)
    lines = [path.get("d") for path in root.iter(f"{space}path") if path.get("class") in ("c c0", "c c1")]
    assert len(lines) == 2 + 3 * 2  # the legend's, and of each panel the library's and the floor's
    width, height = (float(number) for number in root.get("viewBox").split()[2:])
    for line in lines[2:]:
        points = [tuple(map(float, point.split())) for point in re.split("[ML]", line)[1:]]
        assert len(points) > 10
        assert all(0 < x < width and 0 < y < height for x, y in points)
        assert points == sorted(points, key=lambda point: (point[0], -point[1])), "slower cycles lie higher up"


def test_the_medians_of_the_plot_are_those_of_the_table(bench, tmp_path):
    path = tmp_path / "latency.svg"
    _, measurements = measured(bench, "-n", "1", "--only", "blocking,flight-16", "--plot", path)
    space = "{http://www.w3.org/2000/svg}"
    shown = [text.text.split() for text in xml.etree.ElementTree.parse(path).getroot().iter(f"{space}text") if text.get("class") == "w"]
    us = {"ns": 0.001, "us": 1, "ms": 1000, "s": 1000000}
    drawn = sorted(float(number) * us[unit] for number, unit in shown)
    table = sorted(side["p50_us"]["median"] for one in measurements.values() for side in one["sides"])
    assert len(table) == 4
    assert drawn == pytest.approx(table, rel=0.006)  # three digits


def interrupted_after(room, seconds, *arguments):
    done = Redlock(environ=room.environ).start("bench", "-n", "1", "--json", *arguments)
    time.sleep(seconds)
    done.send_signal(signal.SIGINT)
    said, errors = done.communicate(timeout=30)
    assert done.returncode == 130, errors
    assert room.leftovers() == []
    return said, errors.decode()


def test_interrupt_prints_what_is_done(room, tmp_path):
    path = tmp_path / "latency.svg"
    said, errors = interrupted_after(room, 6, "--only", "blocking,flight-16,extend", "--pairs", "99", "--seconds", "0.3", "--plot", path)
    found = json.loads(said)["measurements"]
    complete = [one for one in found if one["rounds"] == 99]
    assert errors == (f"redlock: interrupted: {len(complete)} of 3 measurements are complete"
                      f"{', and the next one in part' if len(found) > len(complete) else ''}\n")
    assert 1 <= len(found) <= 3 and found[0]["name"] == "blocking"
    assert 1 <= found[-1]["rounds"] <= 99
    for one in found:
        for side in one["sides"]:
            for figure in BESIDE:
                check_spread(side[figure])
    assert xml.etree.ElementTree.parse(path).getroot() is not None


def test_interrupt_before_anything_is_done(room):
    said, errors = interrupted_after(room, 3, "--only", "contended-8", "--seconds", "10", "--pairs", "1")
    assert (said, errors) == (b"", "redlock: interrupted: 0 of 1 measurements are complete\n")


def test_a_plot_that_cannot_be_written(bench):
    done = bench(*SHORT, "-n", "1", "--only", "blocking", "--plot", "/does/not/exist.svg")
    assert done.returncode == 71 and b"cannot write /does/not/exist.svg" in done.stderr
    assert done.stdout == b"", "told before anything is measured"


def test_list_names_what_can_be_chosen(bench):
    names = [line.split()[0] for line in bench("--list").stdout.decode().splitlines()]
    assert len(names) == len(set(names)) > 20
    for waiters in (2, 8, 32, 128):
        assert f"contended-{waiters}" in names
    for in_flight in (16, 256, 4096):
        assert f"flight-{in_flight}" in names
    for nodes in (1, 3, 5, 7):
        assert f"nodes-{nodes}" in names


@pytest.mark.parametrize("arguments, status, message", [
    (["x"], 64, "bench takes no operands, but got 'x'"),
    (["--only", "blokcing"], 64, "'blokcing' is not a measurement; did you mean 'blocking'?"),
    (["--only", ","], 64, "--only needs a name"),
    (["--pairs", "0"], 64, "not a number from 1 to 99"),
    (["--seconds", "0.001"], 64, "from 10ms to 10m"),
    (["--mode", "fast"], 64, "neither single, classic nor guarded"),
    (["-t", "1s"], 64, "at least 2s"),
    (["--server", "/does/not/exist"], 78, "cannot execute"),
    (["-N", ","], 78, "bench needs 1 to 15 nodes, not 0"),
    (["-N", "redis://127.0.0.1:1", "--only", "nodes-3"], 64, "nodes-3 needs 3 nodes, and -N lists 1"),
    (["-N", "redis://127.0.0.1:1", "--only", "blocking"], 69, "Connection refused"),
    (["-N", "redis://u:geheim@127.0.0.1:1", "--only", "blocking"], 69, "Connection refused"),
    (["-N", "redis://127.0.0.1:1/3", "--only", "blocking"], 69, "the floor cannot reach node 1: it does not support databases"),
])
def test_errors(bench, arguments, status, message):
    done = bench(*arguments)
    assert message in done.stderr.decode()
    assert b"geheim" not in done.stderr
    assert (done.returncode, done.stdout) == (status, b"")


def test_nodes_of_the_environment_are_spared(bench):
    """They may be in use; only -N puts a load on servers that are not its own."""
    done = bench(*SHORT, "-n", "1", "--only", "blocking", "--json", environ={"REDLOCK_NODES": "redis://127.0.0.1:1"})
    assert done.returncode == 0 and json.loads(done.stdout)["own_servers"] is True


def test_a_reply_that_is_wrong_ends_the_floor(bench):
    with Quorum(1) as servers:
        servers[0].ask("CONFIG", "SET", "maxmemory", "1")
        done = bench(*SHORT, "-N", servers.nodes, "--only", "blocking")
        assert done.returncode == 69 and b"unexpected reply to the floor: '-OOM" in done.stderr


@pytest.mark.parametrize("name", ["INT", "TERM", "KILL"])
@pytest.mark.parametrize("what, count", [("blocking", 1 + 3), ("contended-8", 1 + 3 + 8)])
def test_nothing_is_left_after_a_signal(room, name, what, count):
    """Its children are the janitor, the servers and the waiters."""
    process = Redlock(environ=room.environ).start("bench", "--seconds", "20", "-n", "3", "--only", what)
    try:
        until(lambda: len(children(process.pid)) == count, what="servers and waiters")
        started = children(process.pid)
    finally:
        number = getattr(signal, f"SIG{name}")
        process.send_signal(number)
    assert process.wait(10) == (130 if name == "INT" else -number)  # ^C prints what is done
    until(lambda: all(gone(pid) for pid in started), what="the end of every process")
    assert room.leftovers() == []


def test_floor_with_a_password(bench):
    with Quorum(1) as servers:
        servers[0].ask("CONFIG", "SET", "requirepass", "geheim")
        wrong = bench(*SHORT, "-N", f"redis://:falsch@127.0.0.1:{servers[0].port}", "--only", "blocking")
        assert wrong.returncode == 69 and b"the floor cannot use node 1: Permission denied" in wrong.stderr
        done = bench(*SHORT, "-N", f"redis://default:geheim@127.0.0.1:{servers[0].port}", "--only", "blocking")
        assert done.returncode == 0, done.stderr
