# SPDX-License-Identifier: BSD-2-Clause
"""Several gateways, gateways that are killed, and nodes that are gone: who asks is told what is so, or that it cannot
be known."""
import os
import re
import signal
import socket
import threading
import time

import pytest

from conftest import EXTEND, RELEASE, guarded
from resp import Error
from servers import Quorum, until


def test_what_one_takes_another_can_release(start, quorum, key):
    one, other = start(quorum.nodes), start(quorum.nodes)
    with one.connect() as here, other.connect() as there:
        assert here("SET", key, "v", "NX", "PX", 20000) == "OK"
        assert there("SET", key, "w", "NX", "PX", 20000) is None
        assert there("GET", key) == b"v"
        assert there("EVAL", EXTEND, 1, key, "v", 60000) == 1
        assert 58000 < there("PTTL", key) <= 60000
        assert there("EVAL", RELEASE, 1, key, "w") == 0
        assert there("EVAL", RELEASE, 1, key, "v") == 1
        assert quorum.values(key) == [None] * 5
        # Where it was taken it is believed for a moment, and no longer.
        until(lambda: here("SET", key, "x", "NX", "PX", 20000) == "OK", seconds=2)
        here("DEL", key)


def test_release_where_it_was_taken_of_what_another_has_now(start, quorum, key):
    one, other = start(quorum.nodes), start(quorum.nodes)
    with one.connect() as here, other.connect() as there:
        here("SET", key, "v", "NX", "PX", 20000)
        there("EVAL", RELEASE, 1, key, "v")
        assert there("SET", key, "w", "NX", "PX", 20000) == "OK"
        assert here("EVAL", RELEASE, 1, key, "v") == 0
        assert here("EVAL", EXTEND, 1, key, "v", 60000) == 0
        assert there("GET", key) == b"w"
        assert here("GET", key) == b"w"
        there("DEL", key)


def test_killed_and_started_again_it_serves_every_lock(start, quorum, key):
    first = start(quorum.nodes)
    with first.connect() as client:
        client("SET", key, "v", "NX", "PX", 20000)
        client("SET", key + "2", "v", "NX", "PX", 1000)
    first.kill()
    assert os.path.exists(first.path)
    second = start(quorum.nodes, socket=first.path)
    with second.connect() as client:
        assert client("SET", key, "w", "NX", "PX", 20000) is None
        assert client("EVAL", EXTEND, 1, key, "v", 60000) == 1
        assert client("EVAL", RELEASE, 1, key, "v") == 1
        assert client("SET", key, "w", "NX", "PX", 20000) == "OK"
        client("DEL", key)
        # What nobody releases ends with its time, and not later.
        until(lambda: client("SET", key + "2", "w", "NX", "PX", 20000) == "OK", seconds=3)
        client("DEL", key + "2")


@pytest.mark.parametrize("how", ["killed", "paused"])
def test_two_of_five_nodes_gone(start, own_quorum, key, how):
    gateway = start(own_quorum.nodes)
    with gateway.connect() as client:
        client("SET", key, "v", "NX", "PX", 20000)
        for server in own_quorum.servers[:2]:
            server.process.kill() if how == "killed" else server.pause()
        assert client("SET", key, "w", "NX", "PX", 20000) is None

        def extended():
            """A node whose answer to the SET is still under way is not asked, and then there may be too few."""
            client.send("EVAL", EXTEND, 1, key, "v", 60000)
            answer = client.read()
            assert answer == 1 or answer.code == "NOQUORUM", answer
            return answer == 1
        until(extended, what="an extension")
        assert client("EVAL", RELEASE, 1, key, "v") == 1
        for number in range(10):
            assert client("SET", key, f"v{number}", "NX", "PX", 20000) == "OK"
            assert client("GET", key) == f"v{number}".encode()
            assert client("EVAL", RELEASE, 1, key, f"v{number}") == 1
    with start(own_quorum.nodes).connect() as client:
        assert client("SET", key, "w", "NX", "PX", 20000) == "OK"
        assert client("DEL", key) == 1


def test_no_quorum_is_an_error_and_never_nil(start, own_quorum, key):
    secret = own_quorum.nodes.replace("redis://", "redis://default:secret@", 1)
    gateway = start(secret)
    with gateway.connect() as client:
        client("SET", key, "v", "NX", "PX", 20000)
        for server in own_quorum.servers[2:]:
            server.process.kill()
            server.process.wait()
        until(lambda: b"nodes_ready:1" in client("INFO") or b"nodes_ready:2" in client("INFO"), what="the loss of three nodes")
        for words in [("SET", key + "2", "w", "NX", "PX", 1000), ("SET", key + "2", "w", "NX", "PX", 1000, "GET"), ("GET", key + "2"),
                      ("PTTL", key + "2"), ("EXISTS", key + "2"), ("SETNX", key + "2", "w"), ("EVAL", RELEASE, 1, key, "v"),
                      ("WATCH", key + "2"), ("DEL", key, key + "2")]:
            error = client.error(*words)
            assert error.code == "NOQUORUM", words
            assert own_quorum[4].url in str(error) and "refused" in str(error), error
            assert "secret" not in str(error)
        assert client("PING") == "PONG"


@pytest.mark.parametrize("mode", ["classic", "guarded"])
@pytest.mark.parametrize("how", ["paused", "killed", "empty"])
def test_no_quorum_names_the_nodes_that_do_not_vote(start, own_quorum, key, how, mode):
    if mode == "classic" and how == "empty":
        pytest.skip("an empty node votes in classic mode")
    if mode == "guarded":
        guarded(own_quorum)
    with start(own_quorum.nodes, "--mode", mode).connect() as client:
        client("SET", key, "v", "NX", "PX", 20000)
        gone, left = own_quorum.servers[:3], own_quorum.servers[3:]
        for server in gone:
            {"paused": server.pause, "killed": server.process.kill, "empty": lambda at=server: at.ask("FLUSHALL")}[how]()
        why = {"paused": "no answer in time", "killed": "refused", "empty": "it lost its lock data"}[how]

        def names_them():
            client.send("SET", f"{key}{time.monotonic()}", "v", "NX", "PX", 2000)
            error = client.read()
            assert error.code == "NOQUORUM", error  # the first ones meet nodes whose loss is not known yet
            assert not [server.url for server in left if server.url in str(error)], error
            assert re.search(r"no quorum: \d of 5 nodes (answered|can vote|agree), 3 needed \(", str(error)), error  # redlock_why()
            return str(error).count(why) == 3 and all(f"{server.url}: " in str(error) for server in gone)
        for _ in range(6):
            until(names_them, what="an error that names the three")


def test_no_quorum_within_a_transaction(start, own_quorum, key):
    with start(own_quorum.nodes).connect() as client:
        client("SET", key, "v", "NX", "PX", 20000)
        client("WATCH", key)
        for server in own_quorum.servers[2:]:
            server.process.kill()
        client("MULTI")
        client("DEL", key)
        assert client.error("EXEC").code == "NOQUORUM"
        assert client.error("EXEC").code == "ERR"


def test_a_lock_on_too_few_of_the_nodes_that_answer_cannot_be_known(start, own_quorum, key):
    with start(own_quorum.nodes).connect() as client:
        for server in own_quorum.servers[:2]:
            server.ask("SET", key, "abc", "PX", 60000)
        own_quorum[4].process.kill()
        own_quorum[4].process.wait()
        until(lambda: b"nodes_ready:4" in client("INFO"), what="the loss of a node")
        assert client.error("GET", key).code == "NOQUORUM"  # the fifth may have had it
        own_quorum[1].ask("DEL", key)
        assert client("GET", key) is None


def test_nodes_that_come_back_serve_again(start, own_quorum, key):
    with start(own_quorum.nodes).connect() as client:
        for server in own_quorum.servers[1:]:
            server.pause()
        assert client.error("SET", key, "v", "NX", "PX", 20000).code == "NOQUORUM"
        for server in own_quorum.servers[1:]:
            server.resume()

        def take():
            client.send("SET", key, "v", "NX", "PX", 20000)
            return client.read() == "OK"
        until(take, seconds=20)
        assert client("DEL", key) == 1


def test_two_gateways_in_a_race_have_one_holder_at_a_time(start, quorum, key):
    """Each worker takes, counts, releases; the sum and the marks tell of two holders at once."""
    gateways = [start(quorum.nodes), start(quorum.nodes)]
    inside, most, done, errors = [], [0], [0], []

    def work(gateway, name):
        with gateway.connect() as client:
            for turn in range(15):
                while client("SET", key, f"{name}-{turn}", "NX", "PX", 20000) != "OK":
                    pass
                inside.append(name)
                most[0] = max(most[0], len(inside))
                done[0] += 1
                inside.remove(name)
                if client("EVAL", RELEASE, 1, key, f"{name}-{turn}") != 1:
                    errors.append((name, turn))
    workers = [threading.Thread(target=work, args=(gateways[number % 2], number)) for number in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert (most[0], done[0], errors) == (1, 90, [])


def test_a_script_that_is_forgotten_while_it_waits_for_its_turn(start, own_quorum, key):
    """EVAL has its text with it; EVALSHA is told what a Redis tells it."""
    gateway = start(own_quorum.nodes, "--node-timeout", "2s")
    with gateway.connect() as first, gateway.connect() as by_text, gateway.connect() as by_sha, gateway.connect() as other:
        sha = other("SCRIPT", "LOAD", RELEASE)
        for server in own_quorum.servers:
            server.pause()
        first.send("SET", key, "v", "NX", "PX", 20000)
        until(lambda: (b"redlock_locks_kept:0" in other("INFO")), what="an answer while the nodes are silent")
        by_text.send("EVAL", RELEASE, 1, key, "another")
        by_sha.send("EVALSHA", sha, 1, key, "v")
        for client in (by_text, by_sha):
            client.socket.settimeout(0.3)
            with pytest.raises(TimeoutError):
                client.socket.recv(1)
            client.socket.settimeout(10)
        assert other("SCRIPT", "FLUSH") == "OK"
        for server in own_quorum.servers:
            server.resume()
        assert first.read() == "OK"
        assert by_text.read() == 0
        # The text of the other one, which is the same, has brought it back.
        assert by_sha.read() == 1


# ---- guarded ----

@pytest.fixture(scope="module")
def guarded_quorum():
    """Of its own: without a mode no gateway takes a lock on nodes that were guarded once."""
    with Quorum(5) as servers:
        yield guarded(servers)


def test_fence_grows_and_stays_through_extensions(start, guarded_quorum, key):
    gateway = start(guarded_quorum.nodes, "--mode", "guarded")
    with gateway.connect() as client:
        assert client("REDLOCK.FENCE", key, "v") is None
        assert "may be another client's" in str(client.error("REDLOCK.FENCE", key))
        fences = []
        for _ in range(3):
            client("SET", key, "v", "NX", "PX", 20000)
            fences.append(client("REDLOCK.FENCE", key, "v"))
            assert client("REDLOCK.FENCE", key, "w") is None, "another's"
            assert client("EVAL", EXTEND, 1, key, "v", 30000) == 1
            assert client("REDLOCK.FENCE", key, "v") == fences[-1]
            assert client("EVAL", RELEASE, 1, key, "v") == 1
        assert fences == sorted(set(fences))


def test_classic_locks_are_lost_when_the_nodes_become_guarded(start, own_quorum, key):
    gateway = start(own_quorum.nodes, "--metrics", "127.0.0.1:0")

    def held():
        with socket.create_connection(gateway.address("metrics")) as metrics:
            metrics.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            page = b"".join(iter(lambda: metrics.recv(65536), b""))
        return int(re.search(rb"\nredlock_serve_locks_held (\d+)", page)[1])
    with gateway.connect() as client:
        for number in range(3):
            assert client("SET", f"{key}{number}", "v", "NX", "PX", 60000) == "OK"
        assert client("PTTL", key + "0") > 50000 and held() == 3
        guarded(own_quorum)

        def is_lost():
            client.send("PTTL", key + "0")
            return client.read() == 0  # and an error while the gateway connects to the nodes anew
        until(is_lost, what="the loss")
        assert client("TTL", key + "1") == 0 and held() == 0
        assert [line for line in gateway.said if "3 locks that were taken as classic before are lost" in line], gateway.said
        assert client("GET", key + "1") == b"v"  # so its key is on the nodes, and excludes others
        assert client("SET", key + "1", "w", "NX", "PX", 1000) is None
        assert "fencing token is not known" in str(client.error("PEXPIRE", key + "1", 60000))
        assert client("EVAL", RELEASE, 1, key + "1", "v") == 1
        until(lambda: client("SET", key + "1", "w", "NX", "PX", 20000) == "OK", what="a guarded lock")
        assert client("PTTL", key + "1") > 10000 and held() == 1


def test_a_client_that_is_late_gets_no_fence(start, guarded_quorum, key):
    """Not that of the next holder, which would let it pass where that one has passed."""
    gateway = start(guarded_quorum.nodes, "--mode", "guarded")
    with gateway.connect() as late, gateway.connect() as next_one:
        assert late("SET", key, "late", "NX", "PX", 300) == "OK"
        until(lambda: next_one("SET", key, "next", "NX", "PX", 20000) == "OK", what="the lock")
        assert late("REDLOCK.FENCE", key, "late") is None
        assert next_one("REDLOCK.FENCE", key, "next") > 0


def test_what_another_gateway_has_taken_with_the_same_value_is_not_ours(start, guarded_quorum, key):
    first, second = (start(guarded_quorum.nodes, "--mode", "guarded") for _ in range(2))
    with first.connect() as mine, second.connect() as other:
        assert mine("SET", key, "v", "NX", "PX", 20000) == "OK"
        for server in guarded_quorum.servers:
            server.ask("DEL", key)
        assert other("SET", key, "v", "NX", "PX", 20000) == "OK"
        time.sleep(0.3)  # for 0.1 s a gateway believes what it did last
        assert "fencing token is not known" in str(mine.error("REDLOCK.FENCE", key, "v"))
        assert other("REDLOCK.FENCE", key, "v") > 0
        assert other("DEL", key) == 1


def test_pttl_is_what_is_surely_left(start, quorum, key):
    """Less 1 % and 2 ms, from before the nodes were asked, however late the gateway looks at their answers."""
    gateway = start(quorum.nodes)
    with gateway.connect() as client:
        began = time.monotonic()
        assert client("SET", key, "v", "NX", "PX", 10000) == "OK"
        spent = (time.monotonic() - began) * 1000
        for nap in (0, 0.3):
            time.sleep(nap)
            passed = (time.monotonic() - began) * 1000 - spent
            assert client("PTTL", key) <= 10000 - 102 - passed
        client.send("PTTL", key)
        os.kill(gateway.process.pid, signal.SIGSTOP)
        time.sleep(0.5)
        os.kill(gateway.process.pid, signal.SIGCONT)
        assert client.read() <= 10000 - 102 - 300


def test_pttl_counts_from_before_the_nodes_were_asked(start, own_quorum, key):
    """Of another's lock: what the nodes answer is looked at a second later."""
    gateway = start(own_quorum.nodes, "--node-timeout", "5s")
    for server in own_quorum.servers:
        server.ask("SET", key, "another", "PX", 10000)
    with gateway.connect() as client:
        assert 8000 < client("PTTL", key) <= 10000
        for server in own_quorum.servers:
            server.pause()
        client.send("PTTL", key)
        time.sleep(0.2)
        os.kill(gateway.process.pid, signal.SIGSTOP)
        for server in own_quorum.servers:
            server.resume()
        time.sleep(1)
        most = own_quorum.servers[0].ask("PTTL", key)
        os.kill(gateway.process.pid, signal.SIGCONT)
        assert client.read() <= most


def test_pttl_is_not_more_than_the_nodes_hold(start, quorum, key):
    gateway = start(quorum.nodes)
    with gateway.connect() as client:
        assert client("SET", key, "v", "NX", "PX", 20000) == "OK"
        for server in quorum.servers:
            server.ask("PEXPIRE", key, 5000)
        until(lambda: client("PTTL", key) <= 5000, seconds=2, what="the nodes' end")
        assert client("DEL", key) == 1


def test_a_fence_that_is_not_known_here(start, guarded_quorum, key):
    first = start(guarded_quorum.nodes, "--mode", "guarded")
    with first.connect() as client:
        client("SET", key, "v", "NX", "PX", 20000)
    first.kill()
    with start(guarded_quorum.nodes, "--mode", "guarded", socket=first.path).connect() as client:
        assert client("GET", key) == b"v"
        assert "fencing token is not known" in str(client.error("REDLOCK.FENCE", key, "v"))
        error = client.error("EVAL", EXTEND, 1, key, "v", 30000)
        assert "cannot be extended here" in str(error) and "can be released" in str(error)
        assert client("EVAL", RELEASE, 1, key, "v") == 1
        assert client("GET", key) is None


def test_a_ttl_longer_than_the_quorum_allows(start, guarded_quorum, key):
    with start(guarded_quorum.nodes, "--mode", "guarded").connect() as client:
        assert "ttl_max" in str(client.error("SET", key, "v", "NX", "PX", 3600000))
        client("SET", key, "v", "NX", "PX", 20000)
        assert "ttl_max" in str(client.error("PEXPIRE", key, 3600000))
        assert client("DEL", key) == 1


def test_a_node_that_lost_its_data_does_not_vote(start, own_quorum, key):
    guarded(own_quorum)
    with start(own_quorum.nodes, "--mode", "guarded").connect() as client:
        client("SET", key, "v", "NX", "PX", 20000)
        for server in own_quorum.servers[:3]:
            server.ask("FLUSHALL")

        def answer(name):
            client.send("SET", name, "w", "NX", "PX", 20000)
            return client.read()
        until(lambda: isinstance(answer(key + "2"), Error), what="the loss that is noticed")

        def names_the_lost():
            error = answer(key + "2")
            assert error.code == "NOQUORUM", error
            return str(error).count("lost its lock data") >= 3
        until(names_the_lost, what="an answer when each node's standing is known")
        # "Absent" from a node that lost everything is no word about the lock.
        until(lambda: isinstance(answer(key), Error), what="the end of belief")
        assert client.error("GET", key).code == "NOQUORUM"


# ---- the end of a gateway ----

@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains(start, quorum, key, number):
    gateway = start(quorum.nodes)
    idle, busy = gateway.connect(), gateway.connect()
    busy("SET", key, "v", "NX", "PX", 20000)
    gateway.process.send_signal(number)
    assert idle.at_end() and busy.at_end()
    assert gateway.ends() == 0
    assert not os.path.exists(gateway.path)
    assert quorum.holder(key).endswith(b":v"), "locks stay"
    with start(quorum.nodes).connect() as client:
        assert client("EVAL", RELEASE, 1, key, "v") == 1


def test_requests_under_way_are_answered_first(start, own_quorum, key):
    gateway = start(own_quorum.nodes, "--node-timeout", "2s")
    with gateway.connect() as client:
        for server in own_quorum.servers:
            server.pause()
        client.send("SET", key, "v", "NX", "PX", 20000)
        client.send("GET", key)
        gateway.process.send_signal(signal.SIGTERM)
        until(lambda: any("signal 15" in line for line in gateway.said), what="the drain")
        for server in own_quorum.servers:
            server.resume()
        assert client.read() == "OK"
        assert client.at_end()
        assert gateway.ends() == 0
    assert own_quorum.holder(key).endswith(b":v")


def test_a_second_signal_does_not_wait(start, own_quorum, key):
    """One request is with the nodes, one waits for the key, one client has gone while it waited."""
    gateway = start(own_quorum.nodes, "--node-timeout", "3s", "--metrics", "127.0.0.1:0")
    for server in own_quorum.servers:
        server.pause()
    clients = [gateway.connect() for _ in range(3)]
    for client in clients:
        client.send("SET", key, "v", "NX", "PX", 20000)
    clients[1].send("WATCH", key)
    clients.pop().close()
    with gateway.connect() as client:
        assert client("PING") == "PONG"
    gateway.process.send_signal(signal.SIGTERM)
    until(lambda: any("signal 15" in line for line in gateway.said), what="the drain")
    assert gateway.process.poll() is None
    gateway.process.send_signal(signal.SIGTERM)
    assert gateway.ends(8) == 0
    assert all(client.at_end() for client in clients)
