# SPDX-License-Identifier: BSD-2-Clause
"""top: --once and --json say what is true; the screen obeys its keys, keeps to its size and is given back."""
import fcntl
import json
import os
import pathlib
import pty
import re
import shutil
import signal
import struct
import subprocess
import termios
import unicodedata
import uuid

import pytest

from conftest import BINARY, Redlock
from servers import until

USAGE, NO_QUORUM = 64, 69
TOKENS = [letter * 40 for letter in "abc"]
SIZES = [(80, 24), (200, 50)]


def put(servers, resource, token, ttl_ms=60000):
    for server in servers:
        server.ask("SET", resource, token, "PX", ttl_ms)


def look(redlock, *options, status=0):
    done = redlock("top", "--once", "--json", *options)
    assert (done.returncode, done.stderr) == (status, b""), done.stderr
    assert done.stdout.count(b"\n") == 1
    return json.loads(done.stdout)


def lock_of(seen, resource):
    found = [lock for lock in seen["locks"] if lock["resource"] == resource]
    assert len(found) <= 1, found
    return found[0] if found else None


@pytest.fixture
def ours(own_quorum):
    """redlock(1) on five servers of the test's own."""
    return Redlock(own_quorum.nodes)


@pytest.fixture
def waiter(ours):
    """Starts clients that wait for a resource."""
    started = []

    def start(resource):
        started.append(ours.start("run", "-t", "5s", resource, "--", "true"))

    yield start
    for each in started:
        each.kill()
        each.wait()


# ---- one look ----


def test_the_holder_and_the_waiters(ours, waiter):
    token = ours("acquire", "-t", "60s", "-o", "cron@db1", "nightly").stdout.decode().split()[0]
    assert lock_of(look(ours), "nightly")["waiters"] == 0
    for _ in range(2):
        waiter("nightly")
    seen = until(lambda: (now := lock_of(look(ours), "nightly"))["waiters"] == 2 and now, what="two waiters")
    assert (seen["verdict"], seen["owner"], seen["token"], seen["nodes"]) == ("held", "cron@db1", token[:8] + "…", 5)
    assert 40000 < seen["remaining_ms"] <= 60000
    assert 0 < seen["oldest_waiter_ms"] < 20000
    assert seen["age_is_least"] is True  # one look cannot know more
    text = ours("top", "--once").stdout.decode()
    assert re.search(r"^>0\.0s +5\ds +5/5 +2  nightly  cron@db1, first waiter [\d.]+s$", text, re.M), text
    assert re.search(r"^1 held, 2 waiting$", text, re.M), text
    assert token[:10] not in text


def test_nodes_and_a_node_that_is_down(ours, own_quorum):
    put(own_quorum.servers, "r", TOKENS[0])
    seen = look(ours)
    assert [node["url"] for node in seen["nodes"]] == [server.url for server in own_quorum.servers]
    assert all(node["votes"] and node["reason"] is None and 0 < node["round_trip_us"] < 2e6 for node in seen["nodes"])
    assert {node["version"] for node in seen["nodes"]} == {re.search(r"redis_version:(\S+)", own_quorum[0].ask("INFO", "server").decode())[1]}
    assert (seen["quorum"], seen["rates_per_s"], seen["keys"], seen["locks_left_out"]) == (None, None, 1, False)
    own_quorum[1].process.kill()
    own_quorum[1].process.wait()
    seen = look(ours)
    down = seen["nodes"][1]
    assert (down["votes"], down["verdict"], down["round_trip_us"]) == (False, "refused", None)
    assert "refused" in down["reason"]
    assert lock_of(seen, "r")["nodes"] == 4
    text = ours("top", "--once").stdout.decode()
    assert "classic (auto: no record seen): 4 of 5 nodes answer, 3 needed" in text
    assert re.search(rf"^{own_quorum[1].url} .* no: .*refused", text, re.M)
    for server in own_quorum.servers[2:4]:
        server.process.kill()
        server.process.wait()
    seen = look(ours, status=NO_QUORUM)  # and still says what it knows
    assert [node["votes"] for node in seen["nodes"]] == [True, False, False, False, True]


def test_all_nodes_are_down(redlock):
    done = redlock("top", "--once", "-N", "redis://127.0.0.1:1,redis://127.0.0.1:2,redis://127.0.0.1:3")
    assert done.returncode == NO_QUORUM
    assert done.stdout.decode().count("no: ") == 3


def test_a_node_that_hangs_does_not_hold_up_the_others(ours, own_quorum):
    put(own_quorum.servers, "r", TOKENS[0])
    own_quorum[3].pause()
    seen = look(ours, "--connect-timeout", "300ms")
    assert [node["votes"] for node in seen["nodes"]] == [True, True, True, False, True]
    assert lock_of(seen, "r")["nodes"] == 4
    own_quorum[3].resume()


def test_a_recovering_node_and_the_time_it_needs(three):
    redlock = Redlock(three.nodes, {"REDLOCK_MODE": "guarded"})
    done = redlock("quorum", "init", "--yes", "--never-used", "--ttl-max", "30s")
    assert done.returncode == 0, done.stderr
    assert redlock("acquire", "-t", "25s", "r").returncode == 0
    seen = look(redlock)
    quorum = seen["quorum"]
    assert (seen["mode"], quorum["epoch"], quorum["ttl_max_ms"], quorum["members"], quorum["intact"], quorum["votes_needed"]) == \
        ("guarded", 1, 30000, 3, 3, 2)
    assert re.fullmatch("[0-9a-f]{16}", quorum["id"])
    assert [lock["resource"] for lock in seen["locks"]] == ["r"]  # and not the nodes' own keys
    assert seen["keys"] == 1
    part = redlock("top", "--once", "-N", three[0].url).stdout.decode()
    assert "(not all are listed)" in part and "(not settled)" not in part
    three[1].ask("FLUSHALL")
    with redlock.start("run", "-t", "5s", "other", "--", "sleep", "60") as agent:  # which brings the node back
        until(lambda: lock_of(look(redlock), "r").get("nodes") == 2, what="the lock on the two others")
        recovering = until(lambda: (node := look(redlock)["nodes"][1])["recovering_ms"] and node, what="a recovery")
        assert (recovering["votes"], recovering["verdict"]) == (False, "recovering")
        assert 0 < recovering["recovering_ms"] <= 31000
        first = recovering["recovering_ms"]
        until(lambda: look(redlock)["nodes"][1]["recovering_ms"] < first - 500, what="less time left")
        assert look(redlock)["quorum"]["intact"] == 2
        assert re.search(r" no: recovering, \d+(\.\d)?s left$", redlock("top", "--once").stdout.decode(), re.M)
        agent.kill()


def test_no_control_characters_and_foreign_bytes(ours, own_quorum):
    names = [b"\x1b[2J\x07evil", b"\xff\xfe", "naïve".encode(), b"two\nlines"]
    for name in names:
        put(own_quorum.servers, name, TOKENS[0])
    put(own_quorum.servers, "owned", TOKENS[1] + ":a\x1b]0;b\x07")
    text = ours("top", "--once").stdout
    assert not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", text)
    shown = text.decode()
    for part in (r"\x1b[2J\x07evil", r"\xff\xfe", "naïve", r"two\x0alines", r"a\x1b]0;b\x07"):
        assert part in shown
    assert lock_of(look(ours), "two\nlines")["verdict"] == "held"


def test_strings_that_are_no_locks_and_the_prefix(ours, own_quorum):
    put(own_quorum.servers, "cache:1", "a cached text")
    put(own_quorum.servers, "lock:a", TOKENS[0])
    for server in own_quorum.servers:
        server.ask("RPUSH", "list", "x")
    assert [lock["resource"] for lock in look(ours)["locks"]] == ["lock:a"]
    assert [lock["resource"] for lock in look(ours, "--all")["locks"]] == ["cache:1", "lock:a"]
    assert [lock["resource"] for lock in look(ours, "--prefix", "lock:")["locks"]] == ["a"]
    assert look(ours, "--prefix", "none:")["locks"] == []


def test_without_the_permission_to_see_queues(ours, own_quorum, waiter):
    put(own_quorum.servers, "r", TOKENS[0])
    waiter("r")
    until(lambda: lock_of(look(ours), "r")["waiters"] == 1, what="a waiter")
    for server in own_quorum.servers:
        server.ask("ACL", "SETUSER", "default", "-zcard")
    seen = lock_of(look(ours), "r")
    assert (seen["verdict"], seen["waiters"], seen["oldest_waiter_ms"]) == ("held", None, None)
    assert re.search(r" 5/5 +-  r  token aaaaaaaa…$", ours("top", "--once").stdout.decode(), re.M)


def test_it_changes_nothing(ours, own_quorum):
    put(own_quorum.servers, "r", TOKENS[0])
    look(ours)
    for server in own_quorum.servers:
        assert server.ask("DBSIZE") == 1
        changed = re.search(r"rdb_changes_since_last_save:(\d+)", server.ask("INFO", "persistence").decode())[1]
        assert changed == "1"  # the SET of this test


def test_usage(redlock, ours):
    done = ours("top")
    assert (done.returncode, done.stdout) == (USAGE, b"")
    assert b"--once or --json" in done.stderr
    assert redlock("top", "nightly").returncode == USAGE
    for wrong in ("100ms", "2m", "x"):
        assert redlock("top", "--once", "--interval", wrong).returncode == USAGE


# ---- look after look ----


class Stream:
    def __init__(self, redlock, *options):
        self.process = redlock.start("top", "--json", "--interval", "200ms", *options, stderr=subprocess.DEVNULL)

    def next(self):
        return json.loads(self.process.stdout.readline())

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def test_hand_overs_splits_and_ages(ours, own_quorum):
    put(own_quorum.servers, "r", TOKENS[0])
    with Stream(ours) as stream:
        seen = stream.next()
        assert (seen["rates_per_s"], lock_of(seen, "r")["age_is_least"]) == (None, True)
        assert stream.next()["rates_per_s"]["hand_overs"] == 0
        put(own_quorum.servers, "r", TOKENS[1])
        # A look may fall between the five changes; it then sees a split vote.
        seen = until(lambda: (now := stream.next())["hand_overs_total"] and now, what="a hand-over")
        assert seen["hand_overs_total"] == 1
        assert seen["rates_per_s"]["hand_overs"] > 0
        assert lock_of(seen, "r")["age_is_least"] is False
        assert lock_of(seen, "r")["age_ms"] < 400
        put(own_quorum.servers[3:], "r", TOKENS[2])
        put(own_quorum.servers[2:3], "r", "d" * 40)
        before = until(lambda: (now := stream.next())["split_votes_total"] and now, what="a split vote")
        assert lock_of(before, "r")["verdict"] == "split"
        after = until(lambda: (now := stream.next())["split_votes_total"] > before["split_votes_total"] and now)
        assert after["hand_overs_total"] == 1
        put(own_quorum.servers, "new", TOKENS[0])
        seen = until(lambda: lock_of(stream.next(), "new"), what="the new lock")
        assert seen["age_is_least"] is False


def test_a_node_goes_and_comes_back(ours, own_quorum):
    with Stream(ours) as stream:
        assert stream.next()["nodes"][0]["reconnects"] == 0
        own_quorum[0].ask("CLIENT", "KILL", "TYPE", "normal")
        node = until(lambda: (now := stream.next()["nodes"][0])["reconnects"] and now["votes"] and now, what="a new connection")
        assert node["reconnects"] >= 1
        own_quorum[0].pause()
        until(lambda: not stream.next()["nodes"][0]["votes"], what="a node that hangs")
        own_quorum[0].resume()
        until(lambda: stream.next()["nodes"][0]["votes"], what="the node's return")


def test_many_locks_are_bounded_and_counted(three):
    fill = "for i = 1, 20000 do redis.call('SET', 'job:' .. i, ARGV[1], 'PX', 600000) end"
    for server in three.servers:
        server.ask("EVAL", fill, 0, TOKENS[0])
    redlock = Redlock(three.nodes)
    seen = look(redlock)
    assert (len(seen["locks"]), seen["locks_left_out"], seen["keys"]) == (1000, True, 20000)
    assert redlock("top", "--once").stdout.decode().endswith("showing 1000 of about 20000\n")
    with redlock.start("run", "-t", "5s", "job:19999", "--", "true", stderr=subprocess.DEVNULL) as waits, Stream(redlock) as stream:
        seen = until(lambda: (now := lock_of(stream.next(), "job:19999")) and now["waiters"] and now, 20, "the one that is waited for")
        assert seen["waiters"] == 1
        peak = re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{stream.process.pid}/status").read_text())[1]
        waits.kill()
    assert int(peak) < 64 * 1024


# ---- the screen ----


class Screen:
    """tmux interprets what the command writes, as a terminal of that size."""

    def __init__(self, environ, columns, lines):
        self.socket = f"redlock-test-{uuid.uuid4()}"
        self.environ = {**environ, "LC_ALL": "C.UTF-8", "TERM": "xterm", "TMUX": "", "redlock": BINARY}
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(lines), "-s", "s",
                  "exec env PS1='ready> ' bash --norc --noprofile --noediting -i")
        self.tmux("set-option", "-g", "status", "off")
        self.tmux("resize-window", "-t", "s", "-x", str(columns), "-y", str(lines))

    def start(self, command):
        self.expect(r"ready>$")
        self.type("stty -g > $STTY\n" + command + "\n")

    def tmux(self, *arguments):
        return subprocess.run(["tmux", "-L", self.socket, *arguments], env=self.environ, check=True, capture_output=True, text=True).stdout

    def type(self, text):
        self.tmux("send-keys", "-t", "s", "-l", text)

    def press(self, *keys):
        self.tmux("send-keys", "-t", "s", *keys)

    def text(self):
        return self.tmux("capture-pane", "-p", "-t", "s")

    def expect(self, pattern, seconds=15):
        seen = ""

        def shows():
            nonlocal seen
            seen = self.text()
            return re.search(pattern, seen.rstrip("\n"), re.M)

        try:
            until(shows, seconds)
        except AssertionError:
            raise AssertionError(f"{pattern!r} is not on the screen:\n{seen}") from None
        return seen

    def on_alternate(self):
        return self.tmux("display-message", "-p", "-t", "s", "#{alternate_on}").strip() == "1"

    def cursor_is_visible(self):
        return self.tmux("display-message", "-p", "-t", "s", "#{cursor_flag}").strip() == "1"

    def close(self):
        subprocess.run(["tmux", "-L", self.socket, "kill-server"], env=self.environ, check=False, capture_output=True)


def test_the_mode_before_a_node_has_answered(own_quorum):
    """Mode auto is classic only when the nodes have shown that they carry no record."""
    for server in own_quorum.servers:
        server.process.kill()
        server.process.wait()
    done = Redlock(own_quorum.nodes)("top", "--once")
    assert done.stdout.decode().splitlines()[0] == "auto: 0 of 5 nodes answer, 3 needed", done.stdout
    assert Redlock(own_quorum.nodes, {"REDLOCK_MODE": "classic"})("top", "--once").stdout.startswith(b"classic: 0 of 5")


@pytest.fixture
def screen(own_quorum, tmp_path):
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    if b"without ncurses" in Redlock(own_quorum.nodes)("top").stderr:
        pytest.skip("redlock was built without ncurses")
    opened = []

    def open_screen(columns=80, lines=24, command="$redlock top --interval 200ms; echo status $?"):
        environ = {**Redlock(own_quorum.nodes).environ, "STTY": str(tmp_path / "stty")}
        opened.append(Screen(environ, columns, lines))
        opened[-1].start(command)
        return opened[-1]

    yield open_screen
    for each in opened:
        each.close()


def fill(servers):
    for number in range(60):
        put(servers, f"tenant:{number:02}", TOKENS[0] + f":worker-{number}", 600000)
    put(servers, "ünï-名前-" + "x" * 300, TOKENS[1] + ":日本語", 600000)


def columns(line):
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


def assert_terminal_is_restored(screen, status, tmp_path):
    screen.expect(rf"status {status}\nready>$")
    assert not screen.on_alternate()
    assert screen.cursor_is_visible()
    screen.type("stty -g | cmp - $STTY && echo same as before\n")
    screen.expect(r"^(ready> )?same as before$")


@pytest.mark.parametrize("size", SIZES)
def test_keys(screen, own_quorum, waiter, size, tmp_path):
    fill(own_quorum.servers)
    waiter("tenant:42")
    top = screen(*size)
    top.expect(r"^tenant:42 .* 5/5 +1$")
    top.expect(r"^61 held, 1 waiting, [\d.]+ hand-overs/s, [\d.]+ split votes/s \(last ")
    lines = until(lambda: len(now := top.text().rstrip("\n").split("\n")) == size[1] and now, what="a full screen")
    assert max(map(columns, lines)) <= size[0]
    assert top.on_alternate() and not top.cursor_is_visible()
    first = next(index for index, line in enumerate(lines) if line.startswith("RESOURCE")) + 1
    assert lines[first].startswith("tenant:42")
    top.press("r")
    top.expect(r"^RESOURCE.*\ntenant:00 ")
    top.press("R")
    top.expect(r"^RESOURCE.*\nünï-名前-x+… 日本語 ")
    top.press("R", "End")
    top.expect(r"^ünï-名前-x+… 日本語 ")
    top.press("Enter")
    top.expect(r"^holder +日本語$")
    top.expect(r"^NODE +LEFT WAITERS +HOLDER$")
    detail = until(lambda: len(re.findall(r"token bbbbbbbb… 日本語$", now := top.text(), re.M)) == 5 and now, what="each node's holder")
    assert max(map(columns, detail.split("\n"))) <= size[0]
    top.press("Escape")
    top.expect("^RESOURCE")
    top.press("?")
    top.expect("^any key: back")
    top.press("x")
    top.expect("^RESOURCE")
    top.press("/")
    top.type("NANT:4")
    top.expect("^filter: NANT:4_")
    top.press("Enter")
    top.expect(r"filter: NANT:4$")
    top.expect(r"^10 held")
    top.press("p")
    top.expect("PAUSED")
    top.press("p", "+")
    top.expect("every 0.4s")
    top.press("-")
    top.expect("every 0.2s")
    top.press("q")
    assert_terminal_is_restored(top, 0, tmp_path)


def test_resizing(screen, own_quorum):
    fill(own_quorum.servers)
    top = screen(200, 50)
    top.expect(r"^tenant:30 ")
    for width, height in [(80, 24), (40, 10), (20, 5), (120, 40)]:
        top.tmux("resize-window", "-t", "s", "-x", str(width), "-y", str(height))
        seen = until(lambda: (now := top.text().rstrip("\n").split("\n")) and len(now) == height and now[-1].startswith("q quit") and
                     now[0].startswith("redlock top") and now)
        assert max(map(columns, seen)) <= width


@pytest.mark.parametrize("how", ["^C", "TERM", "HUP", "QUIT", "INT"])
def test_every_end_gives_the_terminal_back(screen, how, tmp_path):
    top = screen(command="(trap - INT; exec $redlock top --interval 200ms); echo status $?")
    top.expect(r"^no lock is held or waited for")
    status = 0
    if how == "^C":
        top.press("C-c")
    else:
        number = getattr(signal, f"SIG{how}")
        pid = top.tmux("display-message", "-p", "-t", "s", "#{pane_pid}").strip()
        child = subprocess.run(["pgrep", "-P", pid], capture_output=True, text=True, check=True).stdout.split()[0]
        subprocess.run(["kill", f"-{how}", child], check=True)
        status = 0 if how == "INT" else 128 + number
    assert_terminal_is_restored(top, status, tmp_path)


def test_stopped_and_continued(screen, own_quorum, tmp_path):
    put(own_quorum.servers, "r", TOKENS[0])
    top = screen()
    top.expect(r"^r +token aaaaaaaa… ")
    top.press("C-z")
    top.expect(r"Stopped .*\n(.*\n)*ready>$")
    assert not top.on_alternate()
    assert top.cursor_is_visible()
    top.type("fg > /dev/null\n")
    top.expect(r"^r +token aaaaaaaa… ")
    assert top.on_alternate()
    top.press("q")
    top.expect(r"ready>$")
    assert not top.on_alternate()
    top.type("stty -g | cmp - $STTY && echo same as before\n")
    top.expect(r"^(ready> )?same as before$")


def test_a_server_that_hangs_does_not_delay_keys(screen, own_quorum):
    top = screen()
    top.expect("^no lock is held")
    for server in own_quorum.servers:
        server.pause()
    top.expect("0 of 5 nodes answer")
    top.press("?")
    top.expect("^any key: back", 1)
    top.press("x")
    top.expect("^NODE", 1)
    for server in own_quorum.servers:
        server.resume()
    top.expect("5 of 5 nodes answer")


def test_plain_terminals(screen, own_quorum, tmp_path):
    put(own_quorum.servers, "名前", TOKENS[0])
    top = screen(command="LC_ALL=C TERM=vt100 NO_COLOR=1 $redlock top --interval 200ms; echo status $?")
    top.expect(r"^\?\? +token aaaaaaaa\.\.\. ")
    top.press("q")
    assert_terminal_is_restored(top, 0, tmp_path)
    top.type("clear; TERM=no-such-terminal $redlock top; echo status $?\n")
    top.expect(rf"'no-such-terminal' \(TERM\) is unknown(.*\n)*status {USAGE}$")


def test_a_size_that_no_terminal_has(ours):
    """The other end of a terminal chooses its size; ncurses alone fails above 32767."""
    control, terminal = pty.openpty()

    def resize(*size):
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))

    def read(what):
        shown = [b""]
        until(lambda: shown.append(os.read(control, 65536)) or what in b"".join(shown), what=what)

    resize(24, 80)
    with ours.start("top", environ={"TERM": "xterm"}, stdin=terminal, stdout=terminal, stderr=terminal) as process:
        read(b"redlock top")
        for size in ((65535, 80), (24, 65535), (24, 80)):
            resize(*size)
            process.send_signal(signal.SIGWINCH)
            read(b"redlock top")
            assert process.poll() is None
        os.write(control, b"q")
        assert process.wait(5) == 0
    os.close(control)
    os.close(terminal)


def test_the_first_page_does_not_know_the_mode(screen, own_quorum):
    """It is drawn before the first look ends, which takes a connect timeout here."""
    for server in own_quorum.servers:
        server.pause()
    opened = screen(command="$redlock top --connect-timeout 3s; echo status $?")
    seen = opened.expect(r"0 of 5 nodes answer")
    assert "auto: 0 of 5 nodes answer" in seen and "classic" not in seen
    for server in own_quorum.servers:
        server.resume()
    opened.expect(r"classic \(auto: no record seen\): 5 of 5 nodes answer")
    opened.press("q")
