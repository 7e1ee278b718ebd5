# SPDX-License-Identifier: BSD-2-Clause
"""doctor: each finding on a real server that has what it finds, and on none that has it not."""
import contextlib
import json
import mmap
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import threading
import time

import pytest

from conftest import Redlock
from servers import SAFE, Quorum, Server, server_version, started, until, urls

PASSWORD = "correct-horse"
CONFIG = 78


@pytest.fixture
def safe_server():
    with started(SAFE) as (server,):
        yield server


def examine(nodes, *options):
    """The status and the JSON; few samples unless asked."""
    done = Redlock(nodes)("doctor", "--json", *(options or ("--samples", "2")))
    assert done.stderr == b"", done
    assert done.stdout.count(b"\n") == 1
    return done.returncode, json.loads(done.stdout)


def found(report):
    """{name: (severity, nodes)}; one name may stand with several reasons."""
    merged = {}
    for finding in report["findings"]:
        _, nodes = merged.get(finding["name"], (None, []))
        merged[finding["name"]] = finding["severity"], sorted(nodes + finding["nodes"])
    return merged


def test_healthy_five():
    with started(*[SAFE] * 5) as five:
        status, report = examine(urls(*five), "--samples", "10")
        assert status == 0 and report["fit"] is True and report["quorum"] == 3
        assert found(report) == {"ALL-ON-ONE-HOST": ("note", [1, 2, 3, 4, 5])}
        for server, node in zip(five, report["nodes"]):
            assert node["url"] == server.url and node["verdict"] == "ready"
            assert node["run_id"] in server.ask("INFO", "server").decode()
            assert node["version"] in server.ask("INFO", "server").decode()
            assert (node["role"], node["replicas"], node["after_restart"]) == ("master", 0, "all")
            assert (node["eviction"], node["memory_bytes_max"]) == ("noeviction", 0)
            assert 0 < node["ping_min_ms"] <= node["ping_median_ms"] < 1000
            assert abs(node["clock"]["offset_ms"]) <= node["clock"]["offset_error_ms"] + 5
            assert 0 < node["clock"]["change_over_ms"] < 60000
            assert 1 <= node["clients"] <= node["clients_max"]
            assert node["door"] == {"password": False, "protected_mode": True, "bind": "127.0.0.1", "open": False}


def test_every_finding_has_a_reason_and_a_cure(own_quorum):
    own_quorum[0].ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    own_quorum[1].close()
    _, report = examine(own_quorum.nodes)
    assert len(report["findings"]) >= 4
    for finding in report["findings"]:
        assert finding["why"].endswith(".") and finding["cure"].endswith("."), finding


def test_every_name_in_the_source_is_in_the_manual():
    source = os.environ["REDLOCK_SOURCE"]
    rules = "".join(path.read_text(encoding="utf-8") for path in pathlib.Path(source, "cli/doctor").glob("finding_*.c"))
    manual = pathlib.Path(source, "docs/man/redlock-doctor.1").read_text(encoding="utf-8")
    names = set(re.findall(r'\b(?:NOTE|WARNING|ERROR)\(\s*"([A-Z-]+)"', rules))
    section = manual[manual.index(".Sh FINDINGS"):]
    listed = set(re.findall(r"\b[A-Z]{2,}(?:-[A-Z]+)*\b", "\n".join(re.findall(r"^\.It (.*)", section, re.M))))
    assert len(names) > 20 and names == listed


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
def test_eviction(safe_server, policy):
    safe_server.ask("CONFIG", "SET", "maxmemory-policy", policy)
    status, report = examine(safe_server.url)
    assert status == 1 and found(report)["EVICTION"] == ("error", [1])
    assert "as soon as maxmemory is set" in report["findings"][0]["why"]
    safe_server.ask("CONFIG", "SET", "maxmemory", "100mb")
    _, report = examine(safe_server.url)
    assert f"maxmemory-policy is {policy}: when memory is short" in report["findings"][0]["why"]
    safe_server.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
    assert "EVICTION" not in found(examine(safe_server.url)[1])


def test_memory_used_up(safe_server):
    safe_server.ask("SET", "ballast", "x" * (8 << 20))
    used = int(re.search(rb"used_memory:(\d+)", safe_server.ask("INFO", "memory")).group(1))
    safe_server.ask("CONFIG", "SET", "maxmemory", str(int(used * 1.1)))
    assert found(examine(safe_server.url)[1])["MEMORY"] == ("warning", [1])
    safe_server.ask("CONFIG", "SET", "maxmemory", "1000")
    status, report = examine(safe_server.url)
    assert status == 1 and found(report)["MEMORY"] == ("error", [1])


def test_replica_and_its_master():
    with started(SAFE, SAFE, SAFE) as (master, replica, other):
        replica.ask("REPLICAOF", "127.0.0.1", master.port)
        until(lambda: b"connected_slaves:1" in master.ask("INFO", "replication"), what="the replica")
        status, report = examine(urls(master, replica, other))
        assert status == 1
        assert found(report)["REPLICAS"] == ("error", [1])
        assert found(report)["IS-REPLICA"] == ("error", [2])
        assert "FAILOVER" in next(f["why"] for f in report["findings"] if f["name"] == "REPLICAS")


def test_open_to_the_world(safe_server):
    """Never open in truth: only what the server says of itself is examined, and nothing but loopback is reached."""
    safe_server.ask("CONFIG", "SET", "protected-mode", "no")
    assert "NO-PASSWORD" not in found(examine(safe_server.url)[1])
    with started((*SAFE, "--bind", "0.0.0.0", "--protected-mode", "yes")) as (server,):
        # Before 7.0 an address to listen on, once it is configured, ends the protected mode.
        assert ("NO-PASSWORD" in found(examine(server.url)[1])) == (server_version() < (7, 0))
        server.ask("CONFIG", "SET", "protected-mode", "no")
        status, report = examine(server.url)
        assert status == 0 and found(report)["NO-PASSWORD"] == ("warning", [1])
        assert report["nodes"][0]["door"]["open"] is True
        server.ask("CONFIG", "SET", "requirepass", PASSWORD)
        status, report = examine(server.url.replace("//", f"//:{PASSWORD}@"))
        assert "NO-PASSWORD" not in found(report) and report["nodes"][0]["door"]["password"] is True
        assert PASSWORD not in json.dumps(report)


def test_a_user_of_ours_where_others_need_none():
    """Our password proves nothing of the others': doctor comes once more, without one."""
    with started((*SAFE, "--bind", "0.0.0.0", "--protected-mode", "no")) as (server,):
        server.ask("ACL", "SETUSER", "me", "on", f">{PASSWORD}", "~*", "+@all")
        _, report = examine(server.url.replace("//", f"//me:{PASSWORD}@"))
        assert found(report)["NO-PASSWORD"] == ("warning", [1])


def test_twice_listed(safe_server):
    with started(SAFE) as (other,):
        again = safe_server.url.replace("127.0.0.1", "localhost")
        status, report = examine(f"{safe_server.url},{other.url},{again}")
        severity, nodes = found(report)["TWICE-LISTED"]
        assert status == 1 and severity == "error" and len(nodes) == 1 and nodes[0] in (1, 3)


def test_dead_node_and_dead_majority(own_quorum):
    own_quorum[1].close()
    status, report = examine(own_quorum.nodes)
    assert status == 0 and found(report)["UNREACHABLE"] == ("warning", [2])
    assert report["nodes"][1]["verdict"] == "refused" and report["nodes"][1]["ping_min_ms"] is None
    own_quorum[2].close()
    own_quorum[3].close()
    status, report = examine(own_quorum.nodes)
    assert status == 1 and found(report)["NO-QUORUM"] == ("error", [1, 2, 3, 4, 5])
    own_quorum[0].close()
    own_quorum[4].close()
    done = Redlock(own_quorum.nodes)("doctor")
    assert done.returncode == 69 and b"Unfit to hold locks" in done.stdout


def test_stopped_node(own_quorum):
    own_quorum[4].pause()
    began = time.monotonic()
    status, report = examine(own_quorum.nodes, "--connect-timeout", "300ms")
    own_quorum[4].resume()
    assert status == 0 and found(report)["UNREACHABLE"] == ("warning", [5])
    assert time.monotonic() - began < 8


def test_wrong_password():
    with started(SAFE) as (server,):
        server.ask("CONFIG", "SET", "requirepass", PASSWORD)
        done = Redlock(server.url)("doctor")
        assert done.returncode == 78 and b"PASSWORD" in done.stdout


def test_cluster():
    with started(("--cluster-enabled", "yes")) as (server,):
        status, report = examine(server.url)
        assert status == 1 and found(report)["CLUSTER"] == ("error", [1])


def test_sentinel(tmp_path, redlock):
    """A common mistake: its address in place of the servers'."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    file = tmp_path / "sentinel.conf"
    file.write_text(f"port {port}\nbind 127.0.0.1\ndir {tmp_path}\n")
    sentinel = subprocess.Popen(["redis-server", str(file), "--sentinel"], stdout=subprocess.DEVNULL)
    try:
        until(lambda: Redlock()("doctor", "-N", f"redis://127.0.0.1:{port}", "--samples=1").stdout.count(b"UNREACHABLE") == 0)
        status, report = examine(f"redis://127.0.0.1:{port}")
        assert status == 1 and found(report)["UNFIT"] == ("error", [1])
        done = redlock("acquire", "x", environ={"REDLOCK_NODES": f"redis://127.0.0.1:{port}"})
        assert done.returncode == 78 and b"is a Sentinel" in done.stderr and b"rename" not in done.stderr
    finally:
        sentinel.kill()
        sentinel.wait()


@pytest.mark.parametrize("arguments, name, severity, after", [
    ((), "RESTART-FORGETS", "warning", "nothing"),
    (("--save", "3600", "1"), "RESTART-FORGETS", "warning", "snapshot"),
    (("--appendonly", "yes", "--appendfsync", "no"), "RESTART-FORGETS", "warning", "most"),
    (("--appendonly", "yes", "--appendfsync", "always", "--no-appendfsync-on-rewrite", "yes"), "RESTART-FORGETS", "warning", "most"),
    (("--appendonly", "yes"), "RESTART-LAST-SECOND", "note", "all-but-last-second"),
])
def test_persistence(arguments, name, severity, after):
    with started(arguments) as (server,):
        status, report = examine(server.url)
        assert status == 0 and found(report)[name] == (severity, [1])
        assert report["nodes"][0]["after_restart"] == after


def test_cannot_write_to_its_disk():
    with started(("--save", "3600", "1")) as (server,):
        os.mkdir(os.path.join(server.directory, "dump.rdb"))  # no file can be renamed to it
        server.ask("SET", "something", "to save")
        server.ask("BGSAVE")
        until(lambda: b"rdb_last_bgsave_status:err" in server.ask("INFO", "persistence"), what="the failure")
        status, report = examine(server.url)
        assert status == 1 and found(report)["MISCONF"] == ("error", [1])
        server.ask("CONFIG", "SET", "stop-writes-on-bgsave-error", "no")
        assert "MISCONF" not in found(examine(server.url)[1])


def test_lacks_the_replicas_that_it_must_have():
    with started(SAFE) as (server,):
        server.ask("CONFIG", "SET", "min-replicas-to-write", "1")
        status, report = examine(server.url)
        assert status == 1 and found(report)["NO-REPLICAS"] == ("error", [1])
        server.ask("CONFIG", "SET", "min-replicas-to-write", "0")
        assert "NO-REPLICAS" not in found(examine(server.url)[1])


def test_counts_of_nodes():
    with started(SAFE, SAFE, SAFE, SAFE) as four:
        assert found(examine(urls(*four))[1])["EVEN-NODES"] == ("note", [1, 2, 3, 4])
        assert found(examine(urls(*four[:2]))[1])["FEW-NODES"] == ("warning", [1, 2])
        assert found(examine(urls(*four[:1]))[1])["FEW-NODES"] == ("note", [1])
        assert not {"FEW-NODES", "EVEN-NODES"} & set(found(examine(urls(*four[:3]))[1]))


def test_clients(safe_server):
    safe_server.ask("CONFIG", "SET", "maxclients", "10")
    with contextlib.ExitStack() as stack:
        for _ in range(8):
            stack.enter_context(socket.create_connection(("127.0.0.1", safe_server.port)))
        until(lambda: safe_server.ask("INFO", "clients").count(b"connected_clients:9"), what="the clients")
        assert found(examine(safe_server.url)[1])["MAX-CLIENTS"] == ("warning", [1])
    until(lambda: safe_server.ask("INFO", "clients").count(b"connected_clients:1\r"), what="their end")
    assert "MAX-CLIENTS" not in found(examine(safe_server.url)[1])


def test_unix_socket_only_is_open_to_nobody(safe_server):
    path = os.path.join(safe_server.directory, "socket")
    with started((*SAFE, "--bind", "0.0.0.0", "--protected-mode", "no", "--unixsocket", path)) as (server,):
        assert "NO-PASSWORD" in found(examine(f"unix://{path}")[1])
        server.ask("CONFIG", "SET", "port", "0")
        assert "NO-PASSWORD" not in found(examine(f"unix://{path}")[1])


@contextlib.contextmanager
def far_away(server, seconds):
    """A way to the server on which what it says takes so long. Yields the URL."""
    def forward(source, sink, delay):
        with contextlib.suppress(OSError):
            while piece := source.recv(65536):
                time.sleep(delay)
                sink.sendall(piece)
            sink.shutdown(socket.SHUT_WR)

    def accept(listener):
        with contextlib.suppress(OSError):
            while True:
                here, _ = listener.accept()
                there = socket.create_connection(("127.0.0.1", server.port))
                threading.Thread(target=forward, args=(here, there, 0), daemon=True).start()
                threading.Thread(target=forward, args=(there, here, seconds), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, args=(listener,), daemon=True).start()
        yield f"redis://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


def test_slow(safe_server):
    with far_away(safe_server, 0.06) as url:
        status, report = examine(url, "--samples", "3")
        assert status == 1 and found(report)["SLOW"] == ("error", [1])
        assert report["nodes"][0]["ping_min_ms"] >= 60
        status, report = examine(url, "--samples", "3", "--node-timeout", "110ms")
        assert status == 0 and found(report)["SLOW"] == ("warning", [1])
        assert "SLOW" not in found(examine(url, "--samples", "3", "--node-timeout", "1s")[1])
        # A slow way is no wrong clock.
        assert not {name for name in found(examine(url, "--samples", "10")[1]) if name.startswith("CLOCK-")}


def test_replica_without_its_master():
    with started(("--replicaof", "127.0.0.1", "1", "--replica-serve-stale-data", "no")) as (server,):
        status, report = examine(server.url)
        assert status == 1 and found(report)["IS-REPLICA"] == ("error", [1])


# ---- guarded mode ----

@pytest.fixture
def guarded():
    """Three servers that are a quorum, and examine() in guarded mode."""
    with Quorum(3) as three:
        make = Redlock(three.nodes)("quorum", "init", "--yes", "--never-used", "--ttl-max", "30s")
        assert make.returncode == 0, make.stderr
        yield three


def examine_guarded(nodes):
    return examine(nodes, "--samples", "2", "--mode", "guarded")


def test_guarded_and_fit(guarded):
    status, report = examine_guarded(guarded.nodes)
    assert (status, report["fit"]) == (0, True)
    assert set(found(report)) == {"ALL-ON-ONE-HOST"}  # what a restart forgets is no matter here
    assert (report["record"]["intact"], report["record"]["ttl_max_ms"], report["record"]["settled"]) == (3, 30000, True)
    assert [node["standing"]["name"] for node in report["nodes"]] == ["intact"] * 3
    assert all(len(node["standing"]["member"]) == 16 for node in report["nodes"])
    table = Redlock(guarded.nodes)("doctor", "--mode", "guarded", "--samples", "1").stdout.decode()
    assert "STANDING" in table and table.count("intact") == 3 and max(map(len, table.splitlines())) <= 80
    assert "standing" not in examine(guarded.nodes, "--samples", "2", "--mode", "classic")[1]["nodes"][0]


def test_a_node_that_lost_its_data_and_a_majority(guarded):
    guarded[1].ask("FLUSHALL")
    before = guarded[1].ask("KEYS", "*")
    status, report = examine_guarded(guarded.nodes)
    assert (status, found(report)["RECOVERING"]) == (0, ("warning", [2]))
    assert report["nodes"][1]["standing"]["name"] == "recovering"
    assert guarded[1].ask("KEYS", "*") == before  # doctor changes nothing
    table = Redlock(guarded.nodes)("doctor", "--mode", "guarded", "--samples", "1").stdout.decode()
    assert re.search(r"^ 2  back in 3\d s ", table, re.M), table
    guarded[2].ask("FLUSHALL")
    status, report = examine_guarded(guarded.nodes)
    assert (status, found(report)["NO-QUORUM"]) == (1, ("error", [1, 2, 3]))
    assert "NOT-SETTLED" not in found(report)
    assert "Of 3 members 2 must be intact for a lock, and 1 are" in report["findings"][0]["why"]


def test_foreign_and_no_record(guarded):
    with started(SAFE, SAFE) as (stranger, blank):
        assert Redlock(stranger.url)("quorum", "init", "--yes", "--never-used").returncode == 0
        everybody = f"{guarded.nodes},{stranger.url},{blank.url}"
        status, report = examine(everybody, "--samples", "2", "--quorum", id_of(guarded))
        assert status == 1
        assert (found(report)["FOREIGN"], found(report)["NO-RECORD"]) == (("error", [4]), ("error", [5]))
        assert "TWO-QUORUMS" not in found(report)
        for mode in ("guarded", "auto"):
            status, report = examine(everybody, "--samples", "2", "--mode", mode)
            assert (status, found(report)["TWO-QUORUMS"]) == (CONFIG, ("error", [1, 2, 3, 4, 5]))
            assert "NO-QUORUM" not in found(report)
            assert not [finding for finding in report["findings"] if "quorum init" in finding["cure"]]
            why = next(finding["why"] for finding in report["findings"] if finding["name"] == "TWO-QUORUMS")
            assert f"{guarded[0].url} belongs to quorum {id_of(guarded)}, {stranger.url} to quorum" in why
        assert "TWO-QUORUMS" not in found(examine(everybody, "--samples", "2", "--mode", "classic")[1])
        status, report = examine(everybody, "--samples", "2", "--quorum", "0123456789abcdef")
        reasons = [finding["why"] for finding in report["findings"] if finding["name"] == "NO-QUORUM"]
        assert status == 1 and len(reasons) == 1 and "none of the quorum that is named" in reasons[0], reasons
        status, report = examine_guarded(blank.url)
        assert status == 1 and {"NO-QUORUM", "NO-RECORD", "FEW-NODES"} <= set(found(report))


def test_a_member_that_is_not_listed(guarded):
    status, report = examine_guarded(guarded.nodes.rsplit(",", 1)[0])
    assert (status, found(report)["NOT-LISTED"]) == (0, ("warning", [1, 2]))


def test_a_member_that_is_listed_by_another_url(guarded):
    """The node hangs, and its record is unknown: that the list lacks the member is known all the same."""
    with socket.create_server(("127.0.0.1", 0)) as hangs:
        others, port = guarded.nodes.rsplit(",", 1)[0], hangs.getsockname()[1]
        status, report = examine_guarded(f"{others},redis://127.0.0.1:{port}")
        assert found(report)["UNREACHABLE"] == ("warning", [3])
        assert found(report)["NOT-LISTED"] == ("warning", [1, 2, 3])
        why = next(finding["why"] for finding in report["findings"] if finding["name"] == "NOT-LISTED")
        assert guarded[2].url in why and "unless a node that does not answer is the same server" in why
    guarded[2].close()
    assert "NOT-LISTED" not in found(examine_guarded(guarded.nodes)[1])


def test_a_change_that_was_not_finished(guarded):
    with started(SAFE) as (spare,):
        with Redlock(guarded.nodes).start("quorum", "add", "--yes", "-v", spare.url) as process:
            until(lambda: b"locks of before the change" in process.stderr.readline(), 20, "the wait")
            process.send_signal(signal.SIGINT)
            assert process.wait(5) == 130
        status, report = examine_guarded(f"{guarded.nodes},{spare.url}")
        assert found(report)["NOT-SETTLED"] == ("warning", [1, 2, 3, 4])


def test_evicting_in_guarded_mode(guarded):
    guarded[0].ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    status, report = examine_guarded(guarded.nodes)
    assert status == 1 and found(report)["EVICTION"] == ("error", [1])


def id_of(guarded):
    return guarded[0].ask("HGET", "redlock:node", "quorum").decode()


def test_no_mode_on_nodes_of_a_quorum(guarded):
    status, report = examine(guarded.nodes)
    assert (status, found(report)["MODE-OPEN"]) == (0, ("warning", [1, 2, 3]))
    assert [node["quorum"] for node in report["nodes"]] == [id_of(guarded)] * 3
    classic = found(examine(guarded.nodes, "--samples", "2", "--mode", "classic")[1])
    assert classic["MIXED-MODE"] == ("warning", [1, 2, 3]) and "MODE-OPEN" not in classic
    assert not {"MODE-OPEN", "MIXED-MODE"} & set(found(examine_guarded(guarded.nodes)[1]))


def test_a_replica_in_guarded_mode(guarded):
    """It takes no locks in any mode: nothing is said of a mode in which it works."""
    guarded[0].ask("REPLICAOF", "127.0.0.1", guarded[1].port)
    until(lambda: b"connected_slaves:1" in guarded[1].ask("INFO", "replication"), what="the replica")
    done = Redlock(guarded.nodes, {"REDLOCK_MODE": "guarded"})("doctor", "--samples", "1")
    said = " ".join(done.stdout.decode().split())
    assert done.returncode == 1 and "IS-REPLICA: node 1 It is a replica: it accepts no locks itself" in said, said
    assert "UNFIT: node 1" not in said and "works in classic" not in said


def test_replicas_in_guarded_mode(guarded):
    with started(SAFE) as (replica,):
        replica.ask("REPLICAOF", "127.0.0.1", guarded[0].port)
        until(lambda: b"connected_slaves:1" in guarded[0].ask("INFO", "replication"), what="the replica")
        status, report = examine_guarded(guarded.nodes)
        assert (status, found(report)["REPLICAS"]) == (1, ("error", [1]))
        assert "this server does not vote" in next(f["why"] for f in report["findings"] if f["name"] == "REPLICAS")
        for allow in (["--allow-replicas"], []):
            done = Redlock(guarded.nodes)("doctor", "--json", "--samples", "2", "--mode", "guarded", *allow,
                                          environ={} if allow else {"REDLOCK_ALLOW_REPLICAS": "1"})
            assert found(json.loads(done.stdout))["REPLICAS"] == ("note", [1])
        replica.ask("REPLICAOF", "NO", "ONE")
        until(lambda: b"connected_slaves:0" in guarded[0].ask("INFO", "replication"), what="its end")
        # A server draws a new replication id for its first replica: nobody can tell what it went through.
        status, report = examine_guarded(guarded.nodes)
        assert (status, found(report)["REPLICATION-ID"]) == (0, ("warning", [1]))
        assert Redlock(guarded.nodes)("quorum", "status", "--wait=60s", "-q", environ={"REDLOCK_MODE": "guarded"}, timeout=90).returncode == 0
        assert "REPLICATION-ID" not in found(examine_guarded(guarded.nodes)[1])


def test_a_node_that_has_evicted(guarded):
    node = guarded[2]
    for i in range(100):
        node.ask("SET", f"other{i}", "x" * 10000, "PX", "100000")
    node.ask("CONFIG", "SET", "maxmemory-policy", "volatile-random")
    used = int(re.search(rb"used_memory:(\d+)", node.ask("INFO", "memory")).group(1))
    node.ask("CONFIG", "SET", "maxmemory", str(used - 200000))
    until(lambda: b"evicted_keys:0" not in node.ask("INFO", "stats"), what="an eviction")
    node.ask("CONFIG", "SET", "maxmemory", "0")
    node.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
    status, report = examine_guarded(guarded.nodes)
    assert (status, found(report)["EVICTED"], found(report)["RECOVERING"]) == (0, ("warning", [3]), ("warning", [3]))


def test_a_node_that_announces_nothing(guarded):
    # Before 7.0 a command can be forbidden as a whole alone.
    forbidden = "-client|tracking" if server_version() >= (7, 0) else "-client"
    guarded[1].ask("ACL", "SETUSER", "silent", "on", ">geheim", "allkeys", "allchannels", "+@all", forbidden)
    nodes = guarded.nodes.replace(guarded[1].url, guarded[1].url.replace("//", "//silent:geheim@"))
    status, report = examine_guarded(nodes)
    assert (status, found(report)["UNANNOUNCED"]) == (0, ("warning", [2]))
    assert [node["announces"] for node in report["nodes"]] == [True, False, True]
    assert "UNANNOUNCED" not in found(examine_guarded(guarded.nodes)[1])


# ---- permissions ----

def test_a_user_who_may_not_ask(safe_server):
    safe_server.ask("ACL", "SETUSER", "locks", "on", f">{PASSWORD}", "~lock:*", "-@all", "+set", "+get", "+del", "+pttl",
                    "+pexpire", "+eval", "+evalsha")
    status, report = examine(safe_server.url.replace("//", f"//locks:{PASSWORD}@"))
    assert status == 1 and "allow +hget %R~redlock:node" in json.dumps(report), report
    safe_server.ask("ACL", "SETUSER", "locks", "~redlock:node", "+hget")
    status, report = examine(safe_server.url.replace("//", f"//locks:{PASSWORD}@"))
    assert status == 1 and found(report)["UNKNOWN"] == ("note", [1])
    node = report["nodes"][0]
    assert node["verdict"] == "ready" and node["ping_min_ms"] > 0
    for name in ("version", "role", "replicas", "after_restart", "eviction", "memory_bytes", "clients", "uptime_s"):
        assert node[name] is None, name
    assert node["clock"]["offset_ms"] is None and node["door"]["bind"] is None and node["door"]["protected_mode"] is None
    errors = [finding["name"] for finding in report["findings"] if finding["severity"] == "error"]
    assert errors == ["NO-IDENTITY"] and found(report)["UNTRIED"] == ("note", [1])
    table = Redlock(safe_server.url.replace("//", f"//locks:{PASSWORD}@"))("doctor", "--samples", "1")
    assert table.returncode == 1 and b"?" in table.stdout and PASSWORD.encode() not in table.stdout


@pytest.mark.parametrize("command", ["set", "get", "pttl", "pexpire", "zscore", "zrange", "hset", "del", "exists", "zcard", "hget"])
def test_a_command_that_a_guarded_lock_needs(guarded, command):
    """Each lets the client connect, and then the locks are refused or lost, or a node does not recover."""
    for server in guarded.servers:
        server.ask("ACL", "SETUSER", "lacks", "on", ">geheim", "allkeys", "allchannels", "+@all", f"-{command}")
    status, report = examine_guarded(guarded.nodes.replace("//", "//lacks:geheim@"))
    assert status == 1 and found(report)["UNFIT"] == ("error", [1, 2, 3]), report
    assert f"no permission (ACL) for +{command}." in json.dumps(report)


def test_info_alone_reports_much(safe_server):
    safe_server.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lfu")
    safe_server.ask("ACL", "SETUSER", "reader", "on", f">{PASSWORD}", "~redlock:node", "-@all", "+eval", "+evalsha", "+info", "+time", "+hget")
    status, report = examine(safe_server.url.replace("//", f"//reader:{PASSWORD}@"))
    assert status == 1 and found(report)["EVICTION"] == ("error", [1]) and "UNKNOWN" in found(report)
    assert report["nodes"][0]["role"] == "master" and report["nodes"][0]["clock"]["offset_ms"] is not None


def test_scripts_refused(safe_server):
    safe_server.ask("ACL", "SETUSER", "default", "-eval", "-evalsha")
    assert found(examine(safe_server.url)[1])["SCRIPTS-REFUSED"] == ("note", [1])


# ---- clocks ----

@contextlib.contextmanager
def server_on_a_clock(tmp_path, runs=False):
    """A server whose clock stands still where the test sets it, or runs so far ahead: yields it and set(microseconds)."""
    path = tmp_path / "clock"
    path.write_bytes(struct.pack("=q", 0 if runs else time.time_ns() // 1000))
    environ = {"LD_PRELOAD": os.environ["STEPCLOCK"], "STEPCLOCK_FILE": str(path), **({"STEPCLOCK_RUNS": "1"} if runs else {})}
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 8) as memory:
        server = Server(*SAFE, environ=environ)
        try:
            yield server, lambda us: memory.__setitem__(slice(0, 8), struct.pack("=q", us))
        finally:
            server.close()


@contextlib.contextmanager
def meanwhile(act):
    """Calls act(number of the call) again and again, in a thread."""
    ended = threading.Event()

    def repeat():
        calls = 0
        while not ended.is_set():
            act(calls)
            calls += 1

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def clock_findings(report):
    return {name: how for name, how in found(report).items() if name.startswith("CLOCK-")}


def test_clock_is_off(tmp_path):
    with server_on_a_clock(tmp_path) as (server, set_clock):
        set_clock(time.time_ns() // 1000 + 3600 * 1000000)
        status, report = examine(server.url, "--samples", "1")
        assert status == 0 and clock_findings(report) == {"CLOCK-OFFSET": ("warning", [1])}
        assert report["nodes"][0]["clock"]["offset_ms"] == pytest.approx(3600000, abs=5000)
        assert report["nodes"][0]["clock"]["change_ms"] is None
        assert "+3" in Redlock(server.url)("doctor", "--samples", "1").stdout.decode()


@pytest.mark.parametrize("samples", ["2", "10"])
def test_clock_is_frozen(tmp_path, samples):
    with server_on_a_clock(tmp_path) as (server, _), started(SAFE, SAFE) as others:
        status, report = examine(urls(server, *others), "--samples", samples)
        assert status == 1 and found(report)["CLOCK-FROZEN"] == ("error", [1])
        assert not {"CLOCK-DRIFT", "CLOCK-JUMPS"} & set(found(report))
        clock = report["nodes"][0]["clock"]
        assert clock["change_ms"] == pytest.approx(-clock["change_over_ms"], rel=0.01)


def test_clock_jumps_to_and_fro(tmp_path):
    """As between processors that do not agree: over a while the clock neither gains nor loses."""
    with server_on_a_clock(tmp_path, runs=True) as (server, set_clock), started(SAFE, SAFE) as others:
        def jump(calls):
            set_clock(300000 * (calls % 2))
            time.sleep(0.13)

        with meanwhile(jump):
            status, report = examine(urls(server, *others), "--samples", "20")
        assert status == 1 and clock_findings(report) == {"CLOCK-JUMPS": ("error", [1])}
        cause, = (finding["why"] for finding in report["findings"] if finding["name"] == "CLOCK-JUMPS")
        assert re.search(r"jumped by [+-]0[.](29|3[0-4])", cause), cause
        assert not clock_findings(examine(urls(server, *others), "--samples", "10")[1])


def test_clock_is_set_once(tmp_path):
    with server_on_a_clock(tmp_path, runs=True) as (server, set_clock), started(SAFE, SAFE) as others:
        with Redlock(urls(server, *others)).start("doctor", "--json", "--samples", "15") as process:
            time.sleep(0.7)
            set_clock(900000)
            report = json.loads(process.communicate()[0])
        assert process.returncode == 1 and clock_findings(report) == {"CLOCK-JUMPS": ("error", [1])}


def test_clock_runs_fast(tmp_path):
    """Each time by the same: that is no jump."""
    with server_on_a_clock(tmp_path, runs=True) as (server, set_clock), started(SAFE, SAFE) as others:
        began = time.monotonic()

        def run_fast(_):
            set_clock(int((time.monotonic() - began) * 300000))
            time.sleep(0.001)

        with meanwhile(run_fast):
            status, report = examine(urls(server, *others), "--samples", "10")
        assert status == 1 and found(report)["CLOCK-DRIFT"] == ("error", [1])
        cure, = (finding["cure"] for finding in report["findings"] if finding["name"] == "CLOCK-DRIFT")
        assert "chronyc tracking" in cure and "maxslewrate 500" in cure
        assert not {"CLOCK-FROZEN", "CLOCK-JUMPS"} & set(found(report))


# ---- forms ----

def test_json_is_stable(own_quorum):
    def shape(value):
        if isinstance(value, dict):
            return [(key, shape(each)) for key, each in value.items()]
        return [shape(each) for each in value] if isinstance(value, list) else type(value).__name__

    # A busy machine answers late now and then: that is SLOW's affair, not the form's.
    patient = ("--samples", "2", "--node-timeout", "2s")
    _, first = examine(own_quorum.nodes, *patient)
    _, second = examine(own_quorum.nodes, *patient)
    assert shape(first) == shape(second)
    assert first["findings"] == second["findings"]
    assert list(first) == ["fit", "quorum", "nodes", "findings", "tried"]


def test_table_fits_a_terminal_and_is_without_colour(own_quorum):
    own_quorum[0].ask("CONFIG", "SET", "maxmemory-policy", "allkeys-random")
    own_quorum[0].ask("CONFIG", "SET", "maxmemory", "900gb")
    own_quorum[1].close()
    done = Redlock(own_quorum.nodes)("doctor")
    assert done.returncode == 1 and b"\033" not in done.stdout and done.stderr == b""
    lines = done.stdout.decode().splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[-1] == "Unfit to hold locks: 1 error, 2 warnings, 1 note."
    names = [line.split()[1].rstrip(":") for line in lines if line.startswith(("error", "warning", "note"))]
    assert names == ["EVICTION", "RESTART-FORGETS", "UNREACHABLE", "ALL-ON-ONE-HOST"]
    quiet = Redlock(own_quorum.nodes)("doctor", "-q").stdout.decode()
    assert quiet.startswith("error    EVICTION: node 1\n") and "note" not in quiet and "Unfit" not in quiet


def test_colour_on_a_terminal_unless_refused(own_quorum):
    def on_terminal(**environ):
        control, terminal = os.openpty()
        calls = Redlock(own_quorum.nodes, {"TERM": "xterm", **environ})
        with calls.start("doctor", "--samples", "1", stdout=terminal) as process:
            os.close(terminal)
            shown = b""
            with contextlib.suppress(OSError):
                while piece := os.read(control, 65536):
                    shown += piece
            os.close(control)
            process.wait()
        return shown

    assert b"\033[33mwarning" in on_terminal()
    assert b"\033" not in on_terminal(NO_COLOR="1")


def test_watch(own_quorum):
    def absent(process):
        return found(json.loads(process.stdout.readline())).get("UNREACHABLE", (None, []))[1]

    with Redlock(own_quorum.nodes).start("doctor", "--json", "--watch=200ms", "--samples", "1") as process:
        first = json.loads(process.stdout.readline())
        second = json.loads(process.stdout.readline())
        assert first["fit"] and "UNREACHABLE" not in found(second)
        # One sample each, and yet the clocks are compared: with the examination before.
        assert first["nodes"][0]["clock"]["change_ms"] is None
        assert second["nodes"][0]["clock"]["change_over_ms"] >= 150
        own_quorum[0].close()
        until(lambda: absent(process) == [1], what="the dead node")
        own_quorum[1].pause()
        until(lambda: absent(process) == [1, 2], what="the stopped node")
        own_quorum[1].resume()
        until(lambda: absent(process) == [1], what="its return")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=10) == -signal.SIGINT


def test_watch_clears_nothing_but_a_terminal(safe_server):
    with Redlock(safe_server.url).start("doctor", "--watch=100ms", "--samples", "1", stderr=subprocess.DEVNULL) as process:
        seen = b""
        while seen.count(b"to hold locks") < 2:
            seen += process.stdout.readline()
        process.terminate()
        assert b"\033" not in seen


def test_usage():
    assert Redlock("redis://127.0.0.1:1")("doctor", "5s").returncode == 64
    assert Redlock("redis://127.0.0.1:1")("doctor", "--samples", "0").returncode == 64
    assert Redlock("redis://127.0.0.1:1")("doctor", "--watch=1ms").returncode == 64
    assert Redlock()("doctor").returncode == 78
    assert Redlock("http://127.0.0.1:1")("doctor").returncode == 78
