# SPDX-License-Identifier: BSD-2-Clause
"""Errors name the cause, the node and the cure: what users met, and what they should have read."""
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import threading
import time

import pytest

from conftest import BINARY, Redlock
from fake_node import FakeNode, old_redis, protected
from servers import Quorum, Server, server_knows_tls, server_version, started, until

USAGE, NO_QUORUM, CONFIG = 64, 69, 78
SOURCE = pathlib.Path(os.environ["REDLOCK_SOURCE"])
NEVER_USED = ("quorum", "init", "--yes", "--never-used", "--ttl-max", "2s")


@pytest.fixture
def made(three):
    redlock = Redlock(three.nodes, {"REDLOCK_MODE": "guarded"})
    done = redlock(*NEVER_USED)
    assert done.returncode == 0, done.stderr
    return redlock


def findings(redlock, *options):
    done = redlock("doctor", "--json", "--samples", "1", *options)
    return done.returncode, {finding["name"]: finding for finding in json.loads(done.stdout)["findings"]}


# ---- names that no lock can have ----

@pytest.mark.parametrize("words", [
    ("acquire", "NAME"), ("run", "NAME", "true"), ("elect", "--mode", "classic", "NAME", "true"), ("extend", "--token", "t", "NAME"),
    ("release", "--token", "t", "NAME"), ("show", "NAME"), ("show", "good", "NAME"), ("show", "--watch", "--", "NAME"),
    ("show", "--slots", "2", "NAME"), ("wait", "NAME"), ("wait", "good", "NAME"), ("break", "-y", "--reason", "t", "NAME"), ("watch", "NAME"),
], ids=" ".join)
def test_a_reserved_name_is_refused_by_all_in_the_same_words(quorum, words):
    name = "redlock:shared" if "--slots" in words else "redlock:node"
    reserved = "redlock:shared:..." if "--slots" in words else name
    done = Redlock(quorum.nodes)(*(name if word == "NAME" else word for word in words), timeout=10)
    assert (done.returncode, done.stdout, done.stderr.decode()) == (
        USAGE, b"", f"redlock: the name {reserved} is reserved for what nodes keep of locks: choose another resource\n")


def test_a_reserved_name_in_json(quorum):
    for words in (("show",), ("wait",), ("watch",), ("break", "-y", "--reason", "t")):
        done = Redlock(quorum.nodes)(*words, "--json", "redlock:node", timeout=10)
        said = json.loads(done.stdout)
        assert done.returncode == USAGE and "is reserved for what nodes keep" in json.dumps(said), (words, said)


# ---- servers that cannot be used ----

def test_an_old_redis_is_named_as_such():
    with FakeNode(old_redis("6.0.16")) as node:
        redlock = Redlock(node.url, {"REDLOCK_MODE": "guarded"})
        status, found = findings(redlock)
        assert status == 1 and "6.0.16" in found["OLD-VERSION"]["why"] and "Upgrade" in found["OLD-VERSION"]["cure"]
        assert "UNREACHABLE" not in found
        done = redlock("quorum", "init", "--never-used", "--yes")
        said = done.stderr.decode()
        assert done.returncode == NO_QUORUM and f"{node.url}: OLD-VERSION: version 6.0.16" in said
        assert "must answer" not in said and "is made" not in said
        done = redlock("run", "x", "true", timeout=10)
        assert (done.returncode, b"version 6.0.16; guarded mode needs Redis 6.2" in done.stderr) == (CONFIG, True), done.stderr


def test_protected_mode():
    with FakeNode(protected) as node:
        for mode in ("classic", "guarded"):
            redlock = Redlock(node.url, {"REDLOCK_MODE": mode})
            done = redlock("acquire", "x")
            said = done.stderr.decode()
            assert done.returncode == CONFIG
            assert f"{node.url}: protected mode: set a password on the server, or bind it to a private address\n" in said
            assert "requires a password" not in said and "wrong" not in said
            status, found = findings(redlock)
            assert status == CONFIG and "private address" in found["PROTECTED-MODE"]["cure"] and "PASSWORD" not in found


def own_address():
    found = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=False).stdout.split()
    return next((address for address in found if ":" not in address and not address.startswith("127.")), None)


def test_protected_mode_of_a_real_server():
    address = own_address()
    if address is None:
        pytest.skip("this machine has only the loopback")
    if server_version() < (7, 0):
        pytest.skip("before 7.0 a configured address to listen on ends the protected mode")
    server = Server("--bind", "127.0.0.1", address, "--protected-mode", "yes")
    try:
        done = Redlock(f"redis://{address}:{server.port}")("acquire", "x")
        assert (done.returncode, b"protected mode: set a password" in done.stderr) == (CONFIG, True), done.stderr
    finally:
        server.close()


# ---- an outage ----

def test_nothing_answers(made, three):
    for server in three.servers:
        server.close()
    status, found = findings(made)
    assert status == NO_QUORUM
    assert found["NO-QUORUM"]["why"].startswith("No node answers") and found["NO-QUORUM"]["cure"].startswith("Start them")
    done = made("quorum", "status")
    assert (done.returncode, b"No node answers: start them" in done.stdout) == (NO_QUORUM, True)
    done = made("quorum", "remove", "--yes", three[0].url)
    assert (done.returncode, b"no node answers: start them" in done.stderr) == (NO_QUORUM, True)
    for words in (["doctor"], ["quorum", "status"], ["acquire", "x"]):
        done = made(*words)
        assert b"quorum init" not in done.stdout + done.stderr, words
    status, found = findings(made, "--mode", "classic")
    assert found["NO-QUORUM"]["cure"].startswith("Start them")


@pytest.mark.parametrize("lost", [False, True], ids=["the other is intact", "the other lost its data"])
def test_a_majority_is_down(made, three, lost):
    for server in three.servers[:2]:
        server.close()
    if lost:
        three[2].ask("FLUSHALL")
    for words in (["doctor", "--samples", "1"], ["quorum", "status"], ["acquire", "-t", "1s", "x"]):
        done = made(*words)
        assert b"quorum init" not in done.stdout + done.stderr, (words, done)
        assert done.returncode in (1, NO_QUORUM)
    assert re.search(r"First\s+(start or correct|bring up)", made("quorum", "status").stdout.decode())


def test_a_lost_majority_is_sent_to_init(made, three):
    """All nodes answer: now it is the cure."""
    for server in three.servers:
        server.ask("FLUSHALL")
    assert b"redlock quorum init" in made("quorum", "status").stdout
    assert "redlock quorum init" in findings(made)[1]["NO-QUORUM"]["cure"]


# ---- what cannot be survived ----

@pytest.mark.parametrize("count, what", [(1, "With one node"), (2, "With two nodes")])
def test_few_nodes_in_guarded_mode(count, what):
    with Quorum(count) as servers:
        redlock = Redlock(servers.nodes, {"REDLOCK_MODE": "guarded"})
        done = redlock(*NEVER_USED)
        assert done.returncode == 0
        assert f"warning: {what}, no lock can be taken while" in done.stderr.decode()
        assert what in findings(redlock)[1]["FEW-NODES"]["why"]


def test_three_nodes_are_no_cause_for_a_warning(three):
    done = Redlock(three.nodes)(*NEVER_USED)
    assert (done.returncode, b"warning" in done.stderr) == (0, False)


# ---- a node that is to be added ----

@pytest.mark.parametrize("verb", ["add", "replace"])
def test_an_unreachable_node_is_refused_before_the_question(made, three, verb):
    words = [three[0].url] if verb == "replace" else []
    done = made("quorum", verb, *words, "redis://127.0.0.1:1")
    said = done.stderr.decode()
    assert done.returncode == NO_QUORUM
    assert "nothing is done: redis://127.0.0.1:1: cannot connect: Connection refused" in said and "start it" in said
    assert "becomes a member" not in said and "--yes" not in said


def test_a_node_without_its_password_is_refused_before_the_question(made):
    spare = Server("--requirepass", "geheim")
    try:
        done = made("quorum", "add", spare.url)
        assert (done.returncode, b"put it in the URL" in done.stderr) == (CONFIG, True)
        assert b"becomes a member" not in done.stderr
    finally:
        spare.close()


# ---- TLS ----

@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    """A server that speaks TLS only, and the directory of its certificate."""
    if not server_knows_tls():
        pytest.skip("this redis-server was built without TLS")
    directory = tmp_path_factory.mktemp("tls")
    certificate, key = directory / "cert.pem", directory / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate], check=True, capture_output=True)
    plain = Server("--tls-port", "0")
    port = None
    for candidate in range(plain.port + 1, plain.port + 50):
        try:
            for name, value in (("tls-cert-file", certificate), ("tls-key-file", key), ("tls-auth-clients", "no")):
                plain.ask("CONFIG", "SET", name, value)
            plain.ask("CONFIG", "SET", "tls-port", candidate)
            port = candidate
            break
        except Exception:  # the port is taken
            continue
    assert port is not None
    yield port, certificate
    plain.close()


def test_a_plain_url_for_a_tls_port(tls):
    port, certificate = tls
    done = Redlock(f"redis://127.0.0.1:{port}")("acquire", "-w", "1s", "x")
    assert done.returncode in (NO_QUORUM, CONFIG)
    assert "use rediss://" in done.stderr.decode(), done.stderr
    done = Redlock(f"rediss://127.0.0.1:{port}")("acquire", "--tls-ca-file", str(certificate), "x")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "tls"])
def test_openssl_is_loaded_for_tls_alone(quorum, tls, encrypted):
    """Half the time that redlock took to start was that of the dynamic loader, for libssl and libcrypto."""
    if b"cannot load OpenSSL" not in pathlib.Path(BINARY).read_bytes():
        pytest.skip("built with REDLOCK_TLS=linked")
    port, certificate = tls
    redlock = Redlock(f"rediss://127.0.0.1:{port}" if encrypted else quorum.nodes)
    done = redlock("run", *(("--tls-ca-file", str(certificate)) if encrypted else ()), "maps", "--", "sh", "-c", "cat /proc/$PPID/maps")
    assert done.returncode == 0 and b"libhiredis" in done.stdout, done
    assert [name in done.stdout for name in (b"libssl", b"libcrypto")] == [encrypted, encrypted]


@pytest.mark.parametrize("command", [["run", "x", "true"], ["acquire", "-w", "1h", "x"]], ids=lambda words: words[0])
def test_an_untrusted_certificate_ends_the_wait(tls, command):
    began = time.monotonic()
    done = Redlock(f"rediss://127.0.0.1:{tls[0]}")(*command, timeout=20)
    assert (done.returncode, b"certificate was refused" in done.stderr) == (CONFIG, True), done.stderr
    assert b"waiting is no cure" in done.stderr and time.monotonic() - began < 5


def test_an_untrusted_certificate_ends_a_change_of_the_quorum(tls, made, three):
    url = f"rediss://127.0.0.1:{tls[0]}"
    for redlock, words in ((made, ["add", "--yes", url]), (Redlock(url), ["init", "--yes", "--never-used"])):
        done = redlock("quorum", *words)
        assert (done.returncode, b"certificate was refused" in done.stderr) == (CONFIG, True), done
    assert made("quorum", "status").stdout.endswith(b"All 3 members are intact.\n")


# ---- waiting that no time can end ----

def refused_at_once(redlock, *words):
    began = time.monotonic()
    done = redlock(*words, timeout=20)
    assert time.monotonic() - began < 5
    assert done.returncode == CONFIG, done
    return done.stderr.decode()


class Returning:
    """A node that hangs up on the first lock, then refuses the login until `open` is set, and then is as before."""

    def __init__(self, run_id):
        self.open, self.has_refused, self.is_back = threading.Event(), threading.Event(), threading.Event()
        self.handshake = old_redis("7.0.0", run_id)
        self.was_asked = False
        self.refused = 0

    def __call__(self, words):
        if not self.open.is_set():
            if self.was_asked:
                self.refused += words[0].upper() == "REDLOCK.HELLO"
                if self.refused > 1:  # the client has taken note of the first refusal
                    self.has_refused.set()
                return b"-NOAUTH Authentication required.\r\n"
            self.was_asked = words[0].upper() == "SET"
            return None if self.was_asked else self.handshake(words)
        if is_release(words):  # kept until the client was connected again
            self.is_back.set()
            return b":1\r\n"
        return self.handshake(words)


def is_release(words):
    return words[0].upper() in ("EVAL", "EVALSHA") and words[2] == "1"


@pytest.mark.parametrize("words", [["run", "x", "true"], ["acquire", "x"]], ids=lambda words: words[0])
def test_nodes_that_come_back_while_the_wait_is_given_up(words):
    """Two of three refuse the login, and no longer do so when what the third had granted is released."""
    returning = [Returning("a" * 40), Returning("b" * 40)]

    def third(words):
        if is_release(words):
            assert all(node.has_refused.wait(10) for node in returning)
            for node in returning:
                node.open.set()
            assert all(node.is_back.wait(10) for node in returning)
            return b":1\r\n"
        return old_redis("7.0.0")(words)

    with FakeNode(returning[0]) as a, FakeNode(returning[1]) as b, FakeNode(third) as c:
        done = Redlock(f"{a.url},{b.url},{c.url}")(words[0], "--mode", "classic", "--node-timeout", "10s", "-w", "20s", *words[1:], timeout=25)
    assert done.returncode == 0, done.stderr


def test_missing_records_end_the_wait(three):
    said = refused_at_once(Redlock(three.nodes), "run", "--mode", "guarded", "x", "true")
    assert said.count("redlock quorum init") == 3


def test_eviction_ends_the_wait(made, three):
    for server in three.servers[:2]:
        server.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    said = refused_at_once(made, "run", "-t", "1s", "x", "true")
    assert said.count("set maxmemory-policy to noeviction") == 2
    for quiet in ("-q", "-qv"):
        assert "noeviction" in refused_at_once(made, "run", quiet, "-t", "1s", "x", "true")


def test_a_permission_for_the_key_ends_the_wait(three):
    for server in three.servers:
        server.ask("ACL", "SETUSER", "locks", "on", ">geheim", "~lock:*", "~redlock:node", "+@all")
    nodes = three.nodes.replace("//", "//locks:geheim@")
    assert "no permission" in refused_at_once(Redlock(nodes), "run", "x", "true")
    assert Redlock(nodes)("run", "lock:x", "true").returncode == 0


def test_the_status_file_says_config(three, tmp_path):
    path = tmp_path / "status"
    refused_at_once(Redlock(three.nodes), "run", "--mode", "guarded", "--status-file", str(path), "x", "true")
    assert json.loads(path.read_text())["outcome"] == "config"


def test_an_outage_is_waited_for(made, three):
    """A minority that is misconfigured and a node that is down: that may pass."""
    three[0].ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    three[1].pause()
    process = made.start("run", "-t", "1s", "x", "true")
    time.sleep(2.5)
    assert process.poll() is None
    three[1].resume()
    assert process.wait(20) == 0
    process.stdout.close()
    process.stderr.close()


def test_a_failover_or_a_backup_is_waited_for(made, three):
    """A replica on a majority: the next one may be the backup that ends."""
    with Quorum(2) as replicas:
        for replica, master in zip(replicas.servers, three.servers):
            replica.ask("REPLICAOF", "127.0.0.1", master.port)
            until(lambda: b"connected_slaves:1" in master.ask("INFO", "replication"), what="the replica")
        process = made.start("run", "-t", "1s", "x", "true")
        time.sleep(2)
        assert process.poll() is None
        process.terminate()
        assert process.wait(10) == -signal.SIGTERM
        process.stdout.close()
        process.stderr.close()


def test_more_strangers_than_members_in_the_list(made, three):
    """Nodes of the list that are no members do not vote: that alone is no reason to give up."""
    with Quorum(3) as others:
        pinned = three[0].ask("HGET", "redlock:node", "quorum").decode()
        redlock = Redlock(f"{three.nodes},{others.nodes}", {"REDLOCK_MODE": "guarded", "REDLOCK_QUORUM": pinned})
        three[0].pause()
        three[1].pause()
        process = redlock.start("run", "-t", "1s", "x", "true")
        time.sleep(3)
        assert process.poll() is None
        three[0].resume()
        three[1].resume()
        assert process.wait(20) == 0
        process.stdout.close()
        process.stderr.close()


# ---- one node of three ----

def warnings(done):
    return [line for line in done.stderr.decode().splitlines() if "warning" in line]


def test_one_misconfigured_node_is_one_warning(made, three):
    three[1].ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    done = made("run", "-t", "1s", "x", "sleep", "1.5")
    assert done.returncode == 0
    assert len(warnings(done)) == 1
    assert f"1 of 3 nodes cannot vote until corrected: {three[1].url}: it may evict locks" in warnings(done)[0]
    assert warnings(made("run", "-q", "-t", "1s", "x", "sleep", "0.3")) == []


def test_one_wrong_password_is_one_warning(three):
    three[2].ask("CONFIG", "SET", "requirepass", "geheim")
    done = Redlock(three.nodes)("run", "x", "sleep", "0.5")
    assert done.returncode == 0
    assert len(warnings(done)) == 1 and three[2].url in warnings(done)[0] and "requires a password" in warnings(done)[0]


def test_a_node_that_is_down_is_no_warning(made, three):
    three[1].close()
    done = made("run", "-t", "1s", "x", "sleep", "1.2")
    assert (done.returncode, done.stderr) == (0, b"")


# ---- each cause once ----

@pytest.mark.parametrize("words", [["redis://u:geheim@h"], ["run", "-t", "redis://u:geheim@h", "x", "true"],
                                   ["redis://u:geheim" + "x" * 60 + "@h"], ["show", "--mode", "redis://u:geheim@h"]])
def test_a_url_in_the_wrong_place_shows_no_password(words):
    done = Redlock("redis://127.0.0.1:1")(*words)
    assert done.returncode == 64 and b"geheim" not in done.stderr, done.stderr


def forms_of_urls():
    """What the sources say of URLs in their own words, each up to the next blank."""
    literals = [literal for room in ("cli", "top", "serve", "src", "bench") for path in sorted((SOURCE / room).rglob("*.[ch]"))
                for literal in re.findall(r'"((?:[^"\\\n]|\\.)*)"', path.read_text())]
    words = {word for literal in literals for word in re.findall(r"[a-z]+://[^\s%]+", literal)}
    assert {"redis://HOST:PORT,...,", "redis://user:password@host"} <= words
    return sorted(words)


@pytest.mark.parametrize("form", forms_of_urls())
def test_our_own_words_are_not_taken_for_a_password(form):
    said = Redlock()(form).stderr.decode()
    assert said == f"redlock: unknown command '{form}'; try 'redlock help'\n"


def test_hints_name_the_form_of_a_url():
    assert "with -N redis://HOST:PORT,..., or in REDLOCK_NODES" in Redlock()("acquire", "x").stderr.decode()
    server = Server("--requirepass", "geheim")
    try:
        assert "in the URL, as in redis://user:password@host" in Redlock(server.url)("acquire", "x").stderr.decode()
    finally:
        server.close()


def test_a_cause_is_said_once():
    server = Server("--requirepass", "richtig")
    try:
        url = f"redis://:falsch@127.0.0.1:{server.port}"
        for words in (["acquire", "x"], ["run", "x", "true"], ["show", "x"]):
            said = Redlock(url)(*words).stderr.decode()
            assert said.count("password") == 1 and "wrong user or password; correct the node's URL" in said, said
        for words in (["acquire", "x"], ["run", "x", "true"]):
            said = Redlock(server.url)(*words).stderr.decode()
            assert said.count("requires a password") == 1, said
            assert "correct it in the node's URL" not in said and "wrong" not in said
    finally:
        server.close()
    for words in (["acquire", "x"], ["acquire", "-v", "x"], ["quorum", "status"], ["doctor", "--samples", "1"]):
        done = Redlock("redis://127.0.0.1:1")(*words)
        lines = [line for line in (done.stdout + done.stderr).decode().splitlines() if "onnection refused" in line]
        assert lines and all(line.count("onnection refused") == 1 for line in lines), lines


# ---- this machine ----

def few_files(count):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))


@pytest.mark.parametrize("command", ["run x -- true", "acquire x", "show x", "doctor", "quorum status", "wait x", "up -- true",
                                     "elect x -- true", "watch --once x", "top --json", "break --yes --reason a x"])
def test_too_few_descriptors_are_a_failure_of_this_machine(quorum, command):
    for count in (4, 8, 63):
        done = Redlock(quorum.nodes)(*command.split(), preexec_fn=few_files(count))
        said = done.stderr.decode()
        assert (done.returncode, f"may open {count} files" in said, "ulimit -n" in said) == (71, True, True), (count, done)
        assert "quorum" not in said and "cannot connect" not in said, "no node is to blame"


def test_64_descriptors_are_enough(quorum):
    done = Redlock(quorum.nodes)("run", "descriptors", "--", "true", preexec_fn=few_files(64))
    assert (done.returncode, done.stderr) == (0, b"")


def test_json_and_the_status_file_name_too_few_descriptors(quorum, tmp_path):
    path = tmp_path / "status"
    done = Redlock(quorum.nodes)("run", "--json", "--status-file", str(path), "x", "--", "true", preexec_fn=few_files(8))
    told = json.loads(path.read_text())
    assert (done.returncode, told["exit"]) == (71, 71) and "may open 8 files" in told["reason"], told


def test_descriptors_that_the_caller_left_open(quorum):
    """The limit is high enough, but nothing is left of it."""
    code = ("import os, resource, sys\n"
            "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"
            "while os.dup(0) < 63: pass\n"
            "for fd in range(3, 64): os.set_inheritable(fd, fd > 3)\n"
            "os.execvp(sys.argv[1], sys.argv[1:])")
    done = subprocess.run([sys.executable, "-c", code, BINARY, "acquire", "x"], env=Redlock(quorum.nodes).environ,
                          capture_output=True, timeout=30, check=False)
    assert (done.returncode, b"Too many open files" in done.stderr) == (71, True), done


def test_a_result_that_is_larger_than_files_may_be(quorum, tmp_path):
    with open(tmp_path / "result", "wb") as result:
        done = subprocess.run([BINARY, "doctor", "--json"], env=Redlock(quorum.nodes).environ, stdout=result, stderr=subprocess.PIPE,
                              timeout=30, check=False, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)))
    assert (done.returncode, b"cannot write the result: File too large" in done.stderr) == (71, True), done


# ---- commands that a server does not know ----

@pytest.mark.parametrize("mode, command", [("guarded", "EVAL"), ("guarded", "EVALSHA"), ("guarded", "INFO"), ("guarded", "ZADD"),
                                           ("auto", "HGET")])
def test_a_renamed_command_is_not_a_missing_permission(mode, command):
    with started(("--rename-command", command, "")) as (server,):
        redlock = Redlock(server.url, {"REDLOCK_MODE": mode})
        done = redlock("acquire", "x")
        said = done.stderr.decode()
        assert done.returncode == CONFIG and f"the server does not know {command} (renamed or disabled)" in said, done
        assert "remove its rename-command" in said and "ACL" not in said and "allow" not in said
        status, found = findings(redlock)
        assert status == 1 and f"does not know {command}" in found["UNFIT"]["why"] and "message" in found["UNFIT"]["cure"]


def test_a_missing_permission_is_still_one():
    with started(("--user", "bob", "on", ">pw", "~*", "+@all", "-eval")) as (server,):
        redlock = Redlock(server.url.replace("://", "://bob:pw@"), {"REDLOCK_MODE": "guarded"})
        done = redlock("acquire", "x")
        assert (done.returncode, b"scripts are refused" in done.stderr, b"allow ~redlock:*" in done.stderr) == (CONFIG, True, True), done
