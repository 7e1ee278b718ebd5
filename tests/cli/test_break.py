# SPDX-License-Identifier: BSD-2-Clause
"""break: another client's lock ends, nobody else's does, and the log says who did it and why."""
import json
import os
import pathlib
import pty
import re
import signal
import subprocess
import tempfile
import time

import pytest

from blocked import fill
from conftest import BINARY, Redlock
from servers import until

DECLINED, USAGE, NO_QUORUM, HELD, CONFIG, LOST = 1, 64, 69, 75, 78, 80
WHY = ("--yes", "--no-syslog", "--reason", "hung since noon")


@pytest.fixture
def guarded(three):
    """redlock(1) on three servers that are a quorum."""
    redlock = Redlock(three.nodes, {"REDLOCK_MODE": "guarded"})
    done = redlock("quorum", "init", "--yes", "--never-used", "--ttl-max", "60s")
    assert done.returncode == 0, done.stderr
    return redlock


def put(servers, resource, token, *more):
    for server in servers:
        server.ask("SET", resource, token, *more)


def kill(server):
    server.process.kill()
    server.process.wait()


def values(servers, resource):
    return [server.ask("GET", resource) for server in servers]


class Asked:
    """redlock break on a terminal, up to its question."""

    def __init__(self, nodes, *arguments):
        ours, theirs = pty.openpty()
        clean = {name: value for name, value in os.environ.items() if not name.startswith("REDLOCK_")}
        self.terminal = os.fdopen(ours, "r+b", buffering=0)
        self.process = subprocess.Popen([BINARY, "break", "--no-syslog", "--reason", "a test", *arguments], stdin=theirs, stderr=theirs,
                                        stdout=subprocess.PIPE, start_new_session=True,
                                        env={**clean, "REDLOCK_CONFIG": "/dev/null", "REDLOCK_NODES": nodes})
        os.close(theirs)
        self.text = b""
        while b"[y/N]" not in self.text:
            self.text += self.terminal.read(1000)

    def answer(self, text):
        """The exit status, and all that was printed."""
        self.terminal.write(text)
        status = self.process.wait(timeout=20)
        try:
            while more := self.terminal.read(1000):
                self.text += more
        except OSError:  # the other end is closed
            pass
        self.terminal.close()
        return status, self.text.decode() + self.process.stdout.read().decode()


def test_held_by_run(locked, quorum, resource):
    process = locked.start("run", "-t", "3s", "-o", "web1", resource, "--", "sleep", "30")
    until(lambda: sum(value is not None for value in quorum.values(resource)) >= 3)
    began = time.monotonic()
    done = locked("break", *WHY, resource)
    assert (done.returncode, done.stdout) == (0, b"")
    assert quorum.values(resource) == [None] * 5
    _, errors = process.communicate(timeout=10)
    assert process.returncode == LOST
    assert time.monotonic() - began < 2.5  # at its next renewal, before its TTL
    assert re.search(rb"lost '.*': .* do not have the key; sent TERM", errors)


def test_the_log_names_user_resource_owner_and_reason(locked, resource):
    token = json.loads(locked("acquire", "--json", "-o", "backup on host1", resource).stdout)["token"]
    errors = locked("break", *WHY, resource).stderr.decode()
    user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    stamp = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
    assert re.search(rf"redlock: {stamp} user {user} broke '{resource}', held by backup on host1, token {token[:8]}…; "
                     "reason: hung since noon", errors)
    assert token[:10] not in errors


def test_the_system_log_gets_the_same_lines(locked, quorum, resource, tmp_path):
    """syslog(3) goes to /dev/log; the C library's own function is replaced to see what it gets."""
    source, library, lines = tmp_path / "log.c", tmp_path / "log.so", tmp_path / "lines"
    source.write_text("""#include <signal.h>
        #include <stdarg.h>
        #include <stdio.h>
        #include <stdlib.h>
        static void note(int priority, const char *format, va_list values) {
            static int count;
            FILE *file = fopen(getenv("LINES_FILE"), "a");
            fprintf(file, "%d ", priority);
            vfprintf(file, format, values);
            fputc('\\n', file);
            fclose(file);
            if (getenv("LINES_SIGNAL") && count++ == 0) raise(atoi(getenv("LINES_SIGNAL")));
        }
        void syslog(int priority, const char *format, ...) {
            va_list values;
            va_start(values, format);
            note(priority, format, values);
            va_end(values);
        }
        void __syslog_chk(int priority, int flag, const char *format, ...) {
            va_list values;
            (void)flag;
            va_start(values, format);
            note(priority, format, values);
            va_end(values);
        }
    """)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    environ = {"LD_PRELOAD": str(library), "LINES_FILE": str(lines)}
    locked("acquire", "-o", "web1", resource)
    done = locked("break", "--yes", "--reason", "two\nlines", resource, environ=environ)
    assert done.returncode == 0, done.stderr
    logged = lines.read_text().splitlines()
    assert len(logged) == 2  # also with a reason of two lines
    for line, what in zip(logged, ("is breaking", "broke")):
        assert line.startswith("5 ") and f" {what} '{resource}', held by web1, token " in line
        assert line.endswith("reason: two\\x0alines")
    locked("acquire", "-o", "web1", resource)
    assert locked("break", *WHY, resource, environ=environ).returncode == 0
    assert len(lines.read_text().splitlines()) == 2  # --no-syslog
    # a signal between the first line and the first change: nothing is changed, and the log says so
    locked("acquire", "-o", "web1", resource)
    before, environ["LINES_SIGNAL"] = quorum.values(resource), "15"
    done = locked("break", "--yes", "--json", "--reason", "x", resource, environ=environ)
    told = json.loads(done.stdout)
    assert (done.returncode, told["result"], told["exit"]) == (143, "interrupted", 143)
    logged = lines.read_text().splitlines()[2:]
    assert [f" {what} '{resource}', held by web1" in line for what, line in zip(("is breaking", "did not break"), logged)] == [True] * 2
    assert quorum.values(resource) == before and before.count(None) < 3


def test_held_by_a_stranger_without_an_end(locked, quorum, resource):
    put(quorum.servers, resource, "any bytes: \x01")
    done = locked("break", *WHY, "--any-value", resource)
    assert done.returncode == 0
    assert "it ends never, unless it is released" in done.stderr.decode()
    assert quorum.values(resource) == [None] * 5


@pytest.mark.parametrize("value", ["", "any bytes: \x01", '{"name": "Ada"}', "1700000000", "f" * 39, "x" * 2000])
def test_data_that_looks_like_a_key(locked, quorum, resource, value):
    put(quorum.servers, resource, value)
    done = locked("break", *WHY, resource)
    assert done.returncode == USAGE and quorum.values(resource) == [value.encode()] * 5
    assert done.stderr.decode() == (
        f"redlock: '{resource}' holds a string without a TTL and without the form of a token, and was left alone: "
        "it looks like data, not like a lock; if it is a lock, add --any-value\n")
    told = json.loads(locked("break", *WHY, "--json", resource).stdout)
    assert (told["result"], told["exit"]) == ("usage", USAGE) and "--any-value" in told["reason"]


@pytest.mark.parametrize("value", ["c" * 40, "c" * 32, "c" * 40 + "/3:web1", "1b4e28ba-2fa1-11d2-883f-0016d3cca427"])
def test_a_lock_that_never_ends(locked, quorum, resource, value):
    put(quorum.servers, resource, value)
    assert locked("break", *WHY, resource).returncode == 0
    assert quorum.values(resource) == [None] * 5


def test_an_empty_token(locked, quorum, resource):
    put(quorum.servers, resource, "", "PX", "60000")
    assert locked("break", *WHY, resource).returncode == 0
    assert quorum.values(resource) == [None] * 5


def test_a_token_that_is_too_long_to_compare(locked, quorum, resource):
    put(quorum.servers, resource, "x" * 2000, "PX", "60000")
    done = locked("break", *WHY, resource)
    assert done.returncode == USAGE
    assert b"more than 1024 bytes" in done.stderr
    assert quorum.values(resource) == ["x" * 2000] * 5 or quorum.values(resource) == [b"x" * 2000] * 5


def test_not_a_string(locked, quorum, resource):
    for server in quorum.servers:
        server.ask("RPUSH", resource, "x")
    done = locked("break", *WHY, resource)
    assert done.returncode == USAGE
    assert b"not a lock" in done.stderr
    assert [server.ask("LLEN", resource) for server in quorum.servers] == [1] * 5


def test_free(locked, resource):
    done = locked("break", *WHY, resource)
    assert (done.returncode, done.stdout) == (0, b"")
    assert f"'{resource}' is free" in done.stderr.decode()
    assert json.loads(locked("break", "--json", *WHY, resource).stdout)["result"] == "free"


def test_one_key_is_no_lock(locked, quorum, resource):
    put(quorum.servers[:1], resource, "orphan", "PX", "60000")
    done = locked("break", *WHY, resource)
    assert done.returncode == 0
    assert "free" in done.stderr.decode()
    assert quorum.servers[0].ask("GET", resource) is not None


def test_a_split_that_nobody_holds(three, resource):
    redlock = Redlock(three.nodes)
    for server, token in zip(three.servers, "ABC"):
        put([server], resource, token * 40, "PX", "20000")
    done = redlock("break", *WHY, resource)
    assert done.returncode == HELD
    assert re.search(r"nobody holds .* no token is on a majority, but keys on 3 of 3 nodes .* they end in (19|20)\.\d s", done.stderr.decode())
    assert b"released" not in done.stderr and b"is breaking" not in done.stderr
    told = json.loads(redlock("break", "--json", *WHY, resource).stdout)
    assert (told["result"], told["exit"], "owner" in told) == ("split", HELD, False) and "nobody holds" in told["reason"]
    assert [value[:1] for value in values(three.servers, resource)] == [b"A", b"B", b"C"]
    three.servers[1].ask("PERSIST", resource)
    assert b"one of them never ends" in redlock("break", *WHY, resource).stderr


def test_a_split_while_a_node_is_down(three, resource):
    kill(three.servers[0])
    for server, token in zip(three.servers[1:], "AB"):
        put([server], resource, token * 40, "PX", "20000")
    done = Redlock(three.nodes)("break", *WHY, resource)
    assert done.returncode == NO_QUORUM and b"no quorum: no holder has 2 of 3 nodes" in done.stderr


def test_a_split_of_four(own_quorum, resource):
    """Two tokens on two of four nodes each: reading again does not help."""
    nodes = own_quorum.servers[:4]
    redlock = Redlock(",".join(server.url for server in nodes))
    put(nodes[:2], resource, "A" * 40, "PX", "20000")
    put(nodes[2:], resource, "B" * 40, "PX", "20000")
    done = redlock("break", *WHY, resource)
    assert done.returncode == HELD and b"nobody holds" in done.stderr
    kill(nodes[3])  # B may be on a majority, or A: nobody knows
    assert b"nobody holds" not in redlock("break", *WHY, resource).stderr


def test_a_node_with_a_hash(three, resource):
    redlock = Redlock(three.nodes)
    three.servers[0].ask("HSET", resource, "a", "b")
    put(three.servers[1:], resource, "hung", "PX", "60000")
    done = redlock("break", *WHY, resource)
    assert done.returncode == 0, done.stderr
    errors = done.stderr.decode()
    assert f"{three.servers[0].url} has another value under this name, which is not a lock; it was left alone" in errors
    assert "did not answer" not in errors and "break the lock again" not in errors
    assert three.servers[0].ask("HGET", resource, "a") == b"b"
    assert values(three.servers[1:], resource) == [None] * 2


def test_a_node_that_refuses_the_delete(three, resource):
    redlock = Redlock(three.nodes)
    put(three.servers, resource, "hung", "PX", "60000")
    three.servers[0].ask("ACL", "SETUSER", "default", "-del", "-eval", "-evalsha", "-@scripting")
    done = redlock("break", *WHY, resource)
    assert done.returncode == 0, done.stderr
    assert f"{three.servers[0].url} did not confirm that the key is gone (noperm), and may still have it" in done.stderr.decode()


def test_one_node_down(three, resource):
    redlock = Redlock(three.nodes)
    put(three.servers, resource, "hung", "PX", "60000")
    kill(three.servers[1])
    done = redlock("break", *WHY, resource)
    assert done.returncode == 0, done.stderr
    assert f"{three.servers[1].url} did not answer and may still have the key" in done.stderr.decode()
    assert values([three.servers[0], three.servers[2]], resource) == [None] * 2


def test_one_node_stopped(three, resource):
    redlock = Redlock(three.nodes)
    put(three.servers, resource, "hung", "PX", "60000")
    three.servers[1].pause()
    done = redlock("break", "--json", "--connect-timeout", "300ms", *WHY, resource)
    told = json.loads(done.stdout)
    assert (done.returncode, told["result"], told["certain"]) == (0, "broken", False)
    assert [node["verdict"] for node in told["nodes"]] == ["deleted", "timeout", "deleted"]
    three.servers[1].resume()
    assert values(three.servers, resource)[::2] == [None] * 2


def test_members_that_are_not_listed(three, guarded, resource):
    guarded("acquire", resource)
    two = {"REDLOCK_NODES": ",".join(server.url for server in three.servers[:2])}
    done = guarded("break", "--json", *WHY, resource, environ=two)
    told = json.loads(done.stdout)
    assert (done.returncode, told["result"], told["certain"], told["unlisted"]) == (0, "broken", False, 1)
    assert b"the list of nodes lacks 1 of the quorum's members, which may still have the key, for " in done.stderr
    assert [value is None for value in values(three.servers, resource)] == [True, True, False]


def test_a_listed_member_that_is_a_replica_now(three, guarded, resource):
    guarded("acquire", "-t", "20s", resource)
    three.servers[2].ask("REPLICAOF", "127.0.0.1", "1")
    done = guarded("break", *WHY, resource)
    assert done.returncode == 0, done.stderr
    assert f"{three.servers[2].url} did not " in done.stderr.decode()
    assert b"the list of nodes lacks" not in done.stderr


@pytest.mark.parametrize("mode", ("classic", "guarded"))
def test_the_holder_ends_at_its_first_renewal_while_a_node_is_down(three, guarded, resource, mode):
    redlock = guarded if mode == "guarded" else Redlock(three.nodes, {"REDLOCK_MODE": "classic"})
    kill(three.servers[2])
    began = time.monotonic()
    held = redlock.start("run", "-t", "6s", "-k", "300ms", "-g", "500ms", resource, "--", "sleep", "20")
    until(lambda: all(values(three.servers[:2], resource)))
    assert redlock("break", *WHY, resource).returncode == 0
    output, errors = held.communicate(timeout=10)
    assert held.returncode == LOST, errors
    assert time.monotonic() - began < 4, "a third of the TTL, and not all of it"
    assert errors.count(b"do not have the key") == 1 and b" and " in errors.split(b"do not have the key")[0].split(b"lost ")[1]


def test_nobody_reads_the_result(three, resource):
    """It is broken; then a signal ends it."""
    put(three.servers, resource, "hung", "PX", "60000")
    reads, writes = os.pipe()
    fill(writes)
    process = subprocess.Popen([BINARY, "break", "--json", *WHY, resource], stdout=writes, stderr=subprocess.PIPE,
                               env={**os.environ, "REDLOCK_CONFIG": "/dev/null", "REDLOCK_NODES": three.nodes})
    errors = b""
    while b" broke " not in errors:
        errors += process.stderr.read1(1000)
    time.sleep(0.3)
    assert process.poll() is None, "it waits for a reader"
    process.send_signal(signal.SIGTERM)
    assert process.wait(5) == -signal.SIGTERM
    os.close(reads)
    os.close(writes)


def test_two_nodes_down(three, resource):
    redlock = Redlock(three.nodes)
    put(three.servers, resource, "hung", "PX", "60000")
    for server in three.servers[:2]:
        kill(server)
    done = redlock("break", "--json", *WHY, resource)
    assert done.returncode == NO_QUORUM
    told = json.loads(done.stdout)
    assert (told["result"], told["exit"]) == ("no_quorum", NO_QUORUM)
    assert [node["verdict"] for node in told["nodes"][:2]] == ["refused"] * 2
    assert all("refused" in node["reason"] for node in told["nodes"][:2]) and "reason" not in told["nodes"][2]
    assert three.servers[2].ask("GET", resource) is not None


def test_a_node_goes_down_while_the_operator_thinks(three, resource):
    redlock = Redlock(three.nodes)
    put(three.servers, resource, "hung", "PX", "60000")
    asked = Asked(three.nodes, resource)
    for server in three.servers[:2]:
        kill(server)
    status, text = asked.answer(b"y\n")
    assert status == NO_QUORUM
    assert "too few nodes report" in text


@pytest.mark.parametrize("number", (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
def test_a_signal_during_the_break(own_quorum, number):
    """Two of five nodes are stopped, so the break takes time: it ends as without the signal, and leaves its log."""
    redlock = Redlock(own_quorum.nodes, {"REDLOCK_MODE": "guarded"})
    assert redlock("quorum", "init", "--yes", "--never-used", "--ttl-max", "60s").returncode == 0
    fence = int(redlock("acquire", "-t", "60s", "-o", "web1", "job").stdout.split()[2])
    asked = Asked(own_quorum.nodes, "--mode", "guarded", "job")
    for server in own_quorum.servers[3:]:
        server.pause()
    asked.terminal.write(b"y\n")
    while b" is breaking " not in asked.text:
        asked.text += asked.terminal.read(1000)
    time.sleep(0.1)
    assert asked.process.poll() is None and own_quorum.servers[0].ask("EXISTS", "job") == 1, "it still reads"
    asked.process.send_signal(number)
    status, text = asked.answer(b"")
    assert status == 0
    assert re.search("user .* is breaking 'job', held by web1, .*user .* broke 'job', held by web1", text, re.S)
    assert "a signal came during the break, which ran to its end" in text
    assert int(text.split()[-1]) > fence
    for server in own_quorum.servers[3:]:
        server.resume()


def test_a_kill_during_the_break_leaves_the_first_line(own_quorum):
    for signals in ((signal.SIGKILL,), (signal.SIGINT, signal.SIGINT)):
        put(own_quorum.servers, "job", "hung", "PX", "60000")
        asked = Asked(own_quorum.nodes, "job")
        for server in own_quorum.servers[3:]:
            server.pause()
        asked.terminal.write(b"y\n")
        until(lambda: own_quorum.servers[0].ask("EXISTS", "job") == 0)
        for number in signals:
            asked.process.send_signal(number)
            time.sleep(0.1)
        status, text = asked.answer(b"")
        for server in own_quorum.servers[3:]:
            server.resume()
        assert status == -signals[-1]
        assert "is breaking 'job', held by token hu…; reason: a test" in text


def test_a_signal_at_the_question(locked, quorum, resource):
    locked("acquire", resource)
    before = quorum.values(resource)
    asked = Asked(quorum.nodes, resource)
    asked.process.send_signal(signal.SIGINT)
    status, text = asked.answer(b"")
    assert status == -signal.SIGINT and "is breaking" not in text
    assert quorum.values(resource) == before


def test_the_holder_changes_during_the_question(locked, quorum, resource):
    token = locked("acquire", resource).stdout.split()[0].decode()
    asked = Asked(quorum.nodes, resource)
    assert token[:8] in asked.text.decode()
    assert locked("release", resource, environ={"REDLOCK_TOKEN": token}).returncode == 0
    other = locked("acquire", resource).stdout.split()[0]
    before = quorum.values(resource)
    status, text = asked.answer(b"y\n")
    assert status == HELD
    assert "changed hands" in text and "did not break" in text
    assert before.count(other) >= 3 and quorum.values(resource) == before


def test_the_holder_releases_during_the_question(locked, quorum, resource):
    token = locked("acquire", resource).stdout.split()[0].decode()
    asked = Asked(quorum.nodes, resource)
    assert locked("release", resource, environ={"REDLOCK_TOKEN": token}).returncode == 0
    status, text = asked.answer(b"y\n")
    assert status == 0
    assert "is free: its holder released it meanwhile" in text


def test_declined(locked, quorum, resource):
    locked("acquire", resource)
    before = quorum.values(resource)
    status, text = Asked(quorum.nodes, resource).answer(b"\n")
    assert status == DECLINED
    assert "nothing was done" in text
    assert quorum.values(resource) == before


def test_it_asks_only_on_a_terminal_and_only_with_a_reason(locked, quorum, resource):
    locked("acquire", resource)
    before = quorum.values(resource)
    done = locked("break", "--reason", "x", resource)
    assert done.returncode == USAGE
    assert b"confirm with --yes" in done.stderr
    for reason in ((), ("--reason", ""), ("--reason", " ")):
        done = locked("break", "--yes", *reason, resource)
        assert done.returncode == USAGE
        assert b"--reason TEXT" in done.stderr
    told = json.loads(locked("break", "--yes", "--json", resource).stdout)
    assert (told["result"], told["exit"]) == ("usage", USAGE) and "--reason TEXT" in told["reason"]
    assert locked("break", *WHY).returncode == locked("break", *WHY, "a", "b").returncode == USAGE
    assert quorum.values(resource) == before


def test_other_keys_are_left_alone(locked, quorum, resource):
    locked("acquire", f"{resource}-other")
    before = quorum.values(f"{resource}-other")
    put(quorum.servers[:4], resource, "hung", "PX", "60000")
    put(quorum.servers[4:], resource, "another", "PX", "60000")
    told = json.loads(locked("break", "--json", *WHY, resource).stdout)
    assert [node["verdict"] for node in told["nodes"]] == ["deleted"] * 4 + ["other"]
    assert (told["result"], told["certain"]) == ("broken", True)
    assert quorum.values(resource)[4] == b"another"
    assert quorum.values(f"{resource}-other") == before


def test_guarded_prints_a_fence_between_the_holder_s_and_the_next(guarded, resource):
    fence = int(guarded("acquire", resource).stdout.split()[2])
    done = guarded("break", *WHY, resource)
    broken = int(done.stdout)
    assert done.returncode == 0, done.stderr
    following = int(guarded("acquire", resource).stdout.split()[2])
    assert fence < broken < following


def test_guarded_the_gate_refuses_the_broken_holder(guarded, resource):
    fence = guarded("acquire", resource).stdout.split()[2].decode()
    with tempfile.TemporaryDirectory() as directory:
        file = pathlib.Path(directory) / "counter"
        file.write_text("1\n")
        broken = guarded("break", *WHY, resource).stdout.decode().strip()
        # Until the resource has seen the fence, the broken holder passes: docs/use/fencing.md, "After a break".
        assert guarded("gate", "--fence", fence, str(file), "--", "echo", "2").returncode == 0
        assert guarded("gate", "--fence", broken, str(file), "--", "cat", str(file)).returncode == 0
        assert guarded("gate", "--fence", fence, str(file), "--", "echo", "3").returncode == LOST
        assert file.read_text() == "2\n"


def test_guarded_no_fence_no_break(guarded, three, resource):
    """Two of three servers take no writes that need memory: they cannot raise a fence, but could delete. The third one does both."""
    guarded("acquire", resource)
    before = values(three.servers, resource)
    for server in three.servers[:2]:
        server.ask("CONFIG", "SET", "maxmemory", "1")
    done = guarded("break", *WHY, resource)
    assert done.returncode == NO_QUORUM
    assert b"too few nodes can raise the fence" in done.stderr and b"out of memory" in done.stderr
    assert b"run the command again" in done.stderr
    assert values(three.servers, resource)[:2] == before[:2]


def test_guarded_a_node_that_lost_its_data_is_not_free(own_quorum):
    """The holder is on the first three; the third loses its data, the first two cannot be reached: it holds the lock."""
    servers = own_quorum.servers
    redlock = Redlock(own_quorum.nodes, {"REDLOCK_MODE": "guarded"})
    assert redlock("quorum", "init", "--yes", "--never-used", "--ttl-max", "60s").returncode == 0
    redlock.environ["REDLOCK_QUORUM"] = re.match(rb"quorum (\w+)", redlock("quorum", "status").stdout)[1].decode()
    for server in servers[3:]:
        server.pause()
    assert redlock("acquire", "-t", "40s", "job").returncode == 0
    for server in servers[3:]:
        server.resume()
    until(lambda: servers[3].ask("GET", "job") == servers[4].ask("GET", "job"))
    for server in servers[3:]:
        server.ask("DEL", "job")
    servers[2].ask("FLUSHALL")
    for server in servers[:2]:
        server.pause()
    done = redlock("break", "--json", *WHY, "job")
    told = json.loads(done.stdout)
    assert (done.returncode, told["result"], told["exit"]) == (NO_QUORUM, "no_quorum", NO_QUORUM)
    assert "2 of 5 nodes can vote" in told["reason"] and b"is free" not in done.stderr
    assert f"{servers[2].url}: it lost its lock data" in done.stderr.decode()
    for server in servers[:2]:
        server.resume()
    done = redlock("break", *WHY, "job")  # two nodes that vote have it, and the third may have had it
    assert done.returncode == 0 and b" broke 'job'" in done.stderr
    assert values(servers, "job") == [None] * 5


def test_guarded_lost_data_of_a_majority(guarded, three, resource):
    """The message names the nodes and the cure; a holder on the third may be the last to have the lock."""
    guarded("acquire", "-t", "40s", resource)
    for server in three.servers[:2]:
        server.ask("FLUSHALL")
    done = guarded("break", *WHY, resource)
    errors = done.stderr.decode()
    assert done.returncode == NO_QUORUM
    for server in three.servers[:2]:
        assert f"{server.url}: it lost its lock data" in errors
    assert "see redlock quorum status" in errors and "read again in a moment" not in errors
    assert "is breaking" not in errors
    three.servers[2].ask("FLUSHALL")
    done = guarded("break", "--json", *WHY, resource)
    assert (done.returncode, json.loads(done.stdout)["result"]) == (CONFIG, "config")
    assert b"it carries no record: redlock quorum init" in done.stderr and b"is free" not in done.stderr


def test_guarded_the_data_is_lost_during_the_question(guarded, three, resource):
    guarded("acquire", "-t", "40s", resource)
    asked = Asked(three.nodes, "--mode", "guarded", resource)
    for server in three.servers[:2]:
        server.ask("FLUSHALL")
    status, text = asked.answer(b"y\n")
    assert status == NO_QUORUM
    assert "is breaking" in text and "did not break" in text
    assert re.search(rf"too few nodes report who holds the lock; not {three.servers[0].url} \((node lost its lock data|its record is not known)", text)
