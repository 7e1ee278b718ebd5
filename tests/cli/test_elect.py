# SPDX-License-Identifier: BSD-2-Clause
"""elect and watch: leaders on real servers, killed, stopped and resigning, and two watchers that compare."""
import json
import os
import signal
import subprocess
import threading
import time

import pytest

from conftest import BINARY, Redlock
from processes import children, gone, holder_of
from servers import Quorum, until


@pytest.fixture(scope="module")
def guarded():
    """Five servers that carry a record."""
    with Quorum(5) as servers:
        done = Redlock(servers.nodes)("quorum", "init", "--mode", "guarded", "--never-used", "--yes", "--ttl-max", "60s")
        assert done.returncode == 0, done.stderr
        yield servers


@pytest.fixture
def redlock(guarded):
    return Redlock(guarded.nodes)


class Watcher:
    """What `watch --json` has printed so far, each line with the time of its arrival."""

    def __init__(self, redlock, name):
        self.lines, self.process = [], redlock.start("watch", "--json", name)
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()
        until(lambda: self.lines, what="the first report")

    def _read(self):
        for line in self.process.stdout:
            self.lines.append((time.monotonic(), json.loads(line)))

    def leader(self):
        """The one that is reported now, or None."""
        last = self.lines[-1][1]
        return last if last["state"] == "leader" else None

    def terms(self):
        return [line["term"] for _, line in self.lines if line["state"] == "leader"]

    def pairs(self):
        return {line["term"]: line["id"] for _, line in self.lines if line["state"] == "leader"}

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.thread.join()
        self.process.stdout.close()
        self.process.stderr.close()


@pytest.fixture
def two_watchers(redlock, resource):
    """They never differ, and no term falls."""
    watchers = [Watcher(redlock, resource) for _ in range(2)]
    yield watchers
    for watcher in watchers:
        watcher.close()
        terms = watcher.terms()
        assert terms == sorted(terms)
    both = watchers[0].pairs().keys() & watchers[1].pairs().keys()
    assert both
    assert {term: watchers[0].pairs()[term] for term in both} == {term: watchers[1].pairs()[term] for term in both}


def candidate(redlock, resource, name, *options):
    """It prints its name and term when it leads."""
    return redlock.start("elect", "--id", name, *options, resource, "--", "sh", "-c", f'echo {name} $REDLOCK_TERM $REDLOCK_FENCE; exec sleep 1000')


def leads(process):
    """Waits until the candidate leads, and returns its term."""
    name, term, fence = process.stdout.readline().decode().split()
    assert term == fence
    return int(term)


def wait_for(watcher, name):
    until(lambda: watcher.leader() and watcher.leader()["id"] == name, seconds=20, what=f"a report of {name}")
    return watcher.leader()["term"]


def end(process, how=signal.SIGTERM):
    process.send_signal(how)
    status = process.wait(timeout=20)
    process.stdout.close()
    process.stderr.close()
    return status


def test_resignation(redlock, resource, two_watchers):
    first = candidate(redlock, resource, "a")
    term = leads(first)
    assert [wait_for(watcher, "a") for watcher in two_watchers] == [term] * 2
    second = candidate(redlock, resource, "b")
    time.sleep(0.5)
    began = time.monotonic()
    assert end(first) == -signal.SIGTERM
    later = leads(second)
    took = time.monotonic() - began
    assert later > term
    assert took < 5  # the TTL is 30 s
    print(f"handed over within {took * 1000:.0f} ms, with the end of the first command")
    assert [wait_for(watcher, "b") for watcher in two_watchers] == [later] * 2
    end(second)
    until(lambda: all(watcher.lines[-1][1]["state"] == "none" for watcher in two_watchers))


def test_sigkill(redlock, resource, two_watchers):
    first = candidate(redlock, resource, "a", "-t", "3s", "-k", "300ms")
    term = leads(first)
    wait_for(two_watchers[0], "a")
    second = candidate(redlock, resource, "b", "-t", "3s", "-k", "300ms")
    time.sleep(0.5)
    holder = subprocess.run(["pgrep", "-P", str(first.pid)], capture_output=True, check=True, text=True).stdout.split()
    began = time.monotonic()
    for pid in [first.pid, *map(int, holder)]:
        os.kill(pid, signal.SIGKILL)
    later = leads(second)
    took = time.monotonic() - began
    print(f"a standby leads {took * 1000:.0f} ms after SIGKILL, TTL 3000 ms")
    assert later > term
    assert took < 3 + 1.5
    first.wait()
    first.stdout.close()
    first.stderr.close()
    assert [wait_for(watcher, "b") for watcher in two_watchers] == [later] * 2
    end(second)


def test_sigkill_of_the_front_alone_is_a_resignation(redlock, resource, two_watchers):
    """The holder notices, ends the command and releases; sure_until is far away then."""
    first = candidate(redlock, resource, "a")
    term = leads(first)
    command = children(holder_of(first.pid))[0]
    wait_for(two_watchers[0], "a")
    second = candidate(redlock, resource, "b")
    time.sleep(0.5)
    began = time.monotonic()
    assert end(first, signal.SIGKILL) == -signal.SIGKILL
    later = leads(second)
    assert (later > term, gone(command)) == (True, True)
    assert time.monotonic() - began < 5  # the TTL is 30 s
    assert [wait_for(watcher, "b") for watcher in two_watchers] == [later] * 2
    end(second)


def test_sigkill_of_the_holder_alone_is_none(redlock, resource):
    """Nobody releases: the keys last for the TTL. It was renewed a third of the TTL before, at the earliest."""
    first = candidate(redlock, resource, "a", "-t", "6s", "-k", "300ms", "--once")
    term = leads(first)
    command = children(holder_of(first.pid))[0]
    second = candidate(redlock, resource, "b", "-t", "6s", "-k", "300ms")
    time.sleep(0.5)
    began = time.monotonic()
    os.kill(holder_of(first.pid), signal.SIGKILL)
    assert first.wait(timeout=3) == 80 and gone(command)
    assert leads(second) > term
    assert 3 < time.monotonic() - began < 6 + 1.5
    end(first)
    end(second)


def test_stopped_beyond_its_validity(redlock, resource, two_watchers):
    first = candidate(redlock, resource, "a", "-t", "3s", "-k", "300ms")
    term = leads(first)
    holder = int(subprocess.run(["pgrep", "-P", str(first.pid)], capture_output=True, check=True, text=True).stdout.split()[0])
    command = int(subprocess.run(["pgrep", "-P", str(holder)], capture_output=True, check=True, text=True).stdout.split()[0])
    wait_for(two_watchers[0], "a")
    second = candidate(redlock, resource, "b", "-t", "3s", "-k", "300ms")
    time.sleep(0.5)
    os.kill(holder, signal.SIGSTOP)
    later = leads(second)
    # the command of the first ended before
    assert not os.path.exists(f"/proc/{command}") or "Z" in open(f"/proc/{command}/stat", encoding="ascii").read().split(")")[1]
    assert later > term
    assert [wait_for(watcher, "b") for watcher in two_watchers] == [later] * 2
    time.sleep(1)  # it campaigns again
    assert first.poll() is None
    end(second)
    again = leads(first)
    assert again > later
    assert [wait_for(watcher, "a") for watcher in two_watchers] == [again] * 2
    end(first)


def test_once_does_not_campaign_again(redlock, resource):
    leader = candidate(redlock, resource, "a", "-t", "2s", "-k", "200ms", "--once")
    leads(leader)
    holder = int(subprocess.run(["pgrep", "-P", str(leader.pid)], capture_output=True, check=True, text=True).stdout.split()[0])
    os.kill(holder, signal.SIGSTOP)
    assert leader.wait(timeout=20) == 80
    leader.stdout.close()
    leader.stderr.close()


def test_command_ends_by_itself(redlock, resource):
    done = redlock("elect", resource, "--", "sh", "-c", "exit 7")
    assert done.returncode == 7
    assert redlock("watch", "--once", resource).returncode == 75


def test_watch_once(redlock, resource):
    leader = candidate(redlock, resource, "10.0.0.1:80")
    term = leads(leader)
    until(lambda: redlock("watch", "--once", resource).returncode == 0)
    line = json.loads(redlock("watch", "--once", "--json", resource).stdout)
    assert (line["state"], line["term"], line["id"], line["resource"]) == ("leader", term, "10.0.0.1:80", resource)
    assert 0 < line["sure_ms"] <= 30000
    text = redlock("watch", "--once", resource).stdout.decode()
    assert f"{resource}: 10.0.0.1:80 leads, term {term}, sure for " in text
    heads = [line for line in redlock("show").stdout.decode().splitlines() if resource in line]
    assert len(heads) == 1 and ": held by " in heads[0]  # the announcement is not a lock
    end(leader)


def test_a_plain_lock_is_no_leader(redlock, resource):
    holder = redlock.start("run", resource, "--", "sleep", "1000")
    until(lambda: redlock("show", resource).returncode == 0 and b"held" in redlock("show", resource).stdout)
    assert redlock("watch", "--once", resource).returncode == 69
    end(holder)


def test_needs_a_guarded_quorum(locked, resource):
    done = locked("elect", resource, "--", "true")
    assert done.returncode == 78
    assert b"redlock quorum init" in done.stderr and b"--mode classic" in done.stderr
    assert locked("watch", resource).returncode == 78
    done = locked("elect", "--mode", "classic", resource, "--", "sh", "-c", "echo ${REDLOCK_TERM-none}", environ={"REDLOCK_TERM": "7"})
    assert (done.returncode, done.stdout) == (0, b"none\n")


@pytest.mark.parametrize("way", ["option", "environment", "inherited"])
def test_mode_classic_watches_nobody(redlock, resource, way):
    """The nodes do carry a record; what is wrong is the mode."""
    done = {"option": lambda: redlock("watch", "--mode", "classic", resource),
            "environment": lambda: redlock("watch", resource, environ={"REDLOCK_MODE": "classic"}),
            "inherited": lambda: redlock("run", "--mode", "classic", "other", "--", BINARY, "watch", resource)}[way]()
    said = done.stderr.decode()
    assert done.returncode == 78, said
    assert "mode classic" in said and "--mode auto" in said and "no record" not in said and "quorum init" not in said, said
    assert redlock("watch", "--once", "--mode", "auto", resource, environ={"REDLOCK_MODE": "classic"}).returncode == 75


def test_nodes_that_do_not_answer(redlock, resource):
    nowhere = Redlock("redis://127.0.0.1:1,redis://127.0.0.1:2,redis://127.0.0.1:3")
    assert nowhere("watch", "--once", resource).returncode in (69, 78)


def test_usage(redlock, resource):
    assert redlock("elect").returncode == 64
    assert redlock("elect", resource).returncode == 64
    assert redlock("elect", resource, "--").returncode == 64
    assert redlock("watch").returncode == 64
    assert redlock("watch", "a", "b").returncode == 64


def test_without_a_majority_it_does_not_advise_an_option_that_it_refuses():
    process = Redlock("redis://127.0.0.1:1").start("elect", "--mode", "classic", "dark", "--", "true")
    try:
        said = next(line for line in process.stderr if b"waiting for a majority" in line)
        assert b"--wait" not in said
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()
        process.stderr.close()
