# SPDX-License-Identifier: BSD-2-Clause
"""break: another client's lock ends, nobody else's does, and the log says who did it and why."""
import json
import os
import pathlib
import pty
import re
import subprocess
import tempfile
import time

import pytest

from conftest import BINARY, Redlock
from servers import until

DECLINED, USAGE, NO_QUORUM, HELD, LOST = 1, 64, 69, 75, 80
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
    token = locked("acquire", "-o", "backup on host1", resource).stdout.split()[0].decode()
    errors = locked("break", *WHY, resource).stderr.decode()
    user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    stamp = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
    assert re.search(rf"redlock: {stamp} user {user} broke '{resource}', held by backup on host1, token {token[:8]}…; "
                     "reason: hung since noon", errors)
    assert token[:10] not in errors


def test_the_system_log_gets_the_same_line(locked, resource, tmp_path):
    """syslog(3) goes to /dev/log; the C library's own function is replaced to see what it gets."""
    source, library, lines = tmp_path / "log.c", tmp_path / "log.so", tmp_path / "lines"
    source.write_text("""#include <stdarg.h>
        #include <stdio.h>
        #include <stdlib.h>
        static void note(int priority, const char *format, va_list values) {
            FILE *file = fopen(getenv("LINES_FILE"), "a");
            fprintf(file, "%d ", priority);
            vfprintf(file, format, values);
            fputc('\\n', file);
            fclose(file);
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
    assert len(logged) == 1  # also with a reason of two lines
    assert logged[0].startswith("5 ") and f"broke '{resource}', held by web1, token " in logged[0]
    assert logged[0].endswith("reason: two\\x0alines")
    locked("acquire", "-o", "web1", resource)
    assert locked("break", *WHY, resource, environ=environ).returncode == 0
    assert len(lines.read_text().splitlines()) == 1  # --no-syslog


def test_held_by_a_stranger_without_an_end(locked, quorum, resource):
    put(quorum.servers, resource, "any bytes: \x01")
    done = locked("break", *WHY, resource)
    assert done.returncode == 0
    assert "it ends never, unless it is released" in done.stderr.decode()
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


def test_two_nodes_down(three, resource):
    redlock = Redlock(three.nodes)
    put(three.servers, resource, "hung", "PX", "60000")
    for server in three.servers[:2]:
        kill(server)
    done = redlock("break", "--json", *WHY, resource)
    assert done.returncode == NO_QUORUM
    told = json.loads(done.stdout)
    assert (told["result"], told["exit"]) == ("no_quorum", NO_QUORUM)
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
    for reason in ((), ("--reason", "")):
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
        # Until the resource has seen the fence, the broken holder passes: docs/fencing.md, "After a break".
        assert guarded("gate", "--fence", fence, str(file), "--", "echo", "2").returncode == 0
        assert guarded("gate", "--fence", broken, str(file), "--", "cat", str(file)).returncode == 0
        assert guarded("gate", "--fence", fence, str(file), "--", "echo", "3").returncode == LOST
        assert file.read_text() == "2\n"


def test_guarded_no_fence_no_break(guarded, three, resource):
    """Two of three servers take no writes that need memory: they cannot raise a fence, but could delete."""
    guarded("acquire", resource)
    before = values(three.servers, resource)
    for server in three.servers[:2]:
        server.ask("CONFIG", "SET", "maxmemory", "1")
    done = guarded("break", *WHY, resource)
    assert done.returncode == NO_QUORUM
    assert b"too few nodes can raise the fence" in done.stderr and b"out of memory" in done.stderr
    assert b"so no key was deleted" in done.stderr and b"may still have" not in done.stderr
    assert values(three.servers, resource) == before
