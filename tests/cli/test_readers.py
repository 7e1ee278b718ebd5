# SPDX-License-Identifier: BSD-2-Clause
"""Who shares a lock: show, top, wait and break of a shared lock, and messages about one."""
import json
import os
import pathlib
import re
import time

import pytest

from conftest import Redlock
from servers import server_version, until
from test_show_watch import Reader
from test_top import lock_of, look, screen  # noqa: F401 (a fixture)

HELD, LOST = 75, 80
MARKER = "redlock:shared"
WHY = ("--yes", "--no-syslog", "--reason", "hung since noon")

FILL = """
if redis.replicate_commands then redis.replicate_commands() end
redis.call('DEL', KEYS[2])
redis.call('SET', KEYS[1], 'redlock:shared', 'PX', 60000)
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for i = 0, ARGV[1] - 1 do
    redis.call('ZADD', KEYS[2], string.format('%.0f', now + 50000 + i), string.format('%040x:reader-%d', i, i))
end
return 1
"""


def fill(servers, resource, count):
    """So many readers, as the script of shared locks writes them."""
    for server in servers:
        server.ask("EVAL", FILL, 2, resource, f"{MARKER}:{resource}", count)


def share(redlock, servers, resource, *owners, ttl="60s"):
    """Readers on every node: a command that ends may leave out those that answer last."""
    return [share_once(redlock, servers, resource, owner, ttl) for owner in owners]


def share_once(redlock, servers, resource, owner, ttl):
    for _ in range(20):
        # It waits: on a busy machine a majority may be late.
        done = redlock("acquire", "-w", "10s", "--shared", "-t", ttl, "-o", owner, resource)
        assert done.returncode == 0, done.stderr
        token = done.stdout.split()[0].decode()
        end = time.monotonic() + 0.2
        while time.monotonic() < end:
            if all(server.ask("ZSCORE", f"{MARKER}:{resource}", token) for server in servers):
                return token
        redlock("release", "--shared", resource, environ={"REDLOCK_TOKEN": token})
    raise AssertionError("no reader got a place on every node")


def everywhere(servers, resource, count):
    until(lambda: all(server.ask("ZCARD", f"{MARKER}:{resource}") == count for server in servers), what="all places")


@pytest.fixture
def guarded(three):
    redlock = Redlock(three.nodes, {"REDLOCK_MODE": "guarded"})
    done = redlock("quorum", "init", "--yes", "--never-used", "--ttl-max", "60s")
    assert done.returncode == 0, done.stderr
    return redlock


# ---- show ----


def test_each_reader_with_its_nodes(locked, quorum, resource):
    tokens = share(locked, quorum.servers, resource, "web1", "web2", "web3")
    done = locked("show", resource)
    head, *lines = done.stdout.decode().splitlines()
    assert (done.returncode, done.stderr) == (0, b"")
    assert re.fullmatch(rf"{resource}: shared by 3 readers, ends in 5\d\.\d s \(5 of 5 nodes\)", head)
    for server, line in zip(quorum.servers, lines):
        assert re.fullmatch(rf"  {re.escape(server.url)}  shared by 3 readers, ends in 5\d\.\d s", line)
    for owner, token, line in zip(("web1", "web2", "web3"), tokens, lines[5:]):
        assert re.fullmatch(rf"  reader {owner}, token {token[:8]}…, ends in 5\d\.\d s \(5 of 5 nodes\)", line)
    assert len(lines) == 8
    assert "redlock:" not in done.stdout.decode()
    whole = locked("show", "--tokens", resource).stdout.decode()
    assert all(token in whole for token in tokens)


def test_as_json(locked, quorum, resource):
    tokens = share(locked, quorum.servers, resource, "web1", "web2")
    shown, = json.loads(locked("show", "--json", resource).stdout)
    assert (shown["verdict"], shown["kind"], shown["readers_count"]) == ("held", "shared", 2)
    assert "token" not in shown and "owner" not in shown
    assert 50000 < shown["remaining_ms"] <= 60000
    assert [(reader["owner"], reader["token"], reader["nodes"], reader["holds"]) for reader in shown["readers"]] == [
        (owner, token[:8] + "…", 5, True) for owner, token in zip(("web1", "web2"), tokens)]
    assert all(50000 < reader["remaining_ms"] <= 60000 for reader in shown["readers"])
    assert [(node["kind"], node["readers_count"]) for node in shown["nodes"]] == [("shared", 2)] * 5
    assert MARKER not in json.dumps(shown)
    locked("acquire", "-o", "me", resource + "-2")
    shown, = json.loads(locked("show", "--json", resource + "-2").stdout)
    assert (shown["kind"], shown["owner"], "readers" in shown) == ("exclusive", "me", False)


def test_a_reader_on_too_few_nodes_does_not_hold_it(locked, quorum, resource):
    """As a reader that died while it acquired leaves it."""
    tokens = share(locked, quorum.servers, resource, "web1", "web2")
    for server in quorum.servers[:3]:
        server.ask("ZREM", f"{MARKER}:{resource}", tokens[0])
    text = locked("show", resource).stdout.decode()
    assert text.startswith(f"{resource}: shared by 1 reader, ends in ")
    assert text.splitlines()[6].startswith(f"  reader web2, token {tokens[1][:8]}…, ends in ")
    assert re.search(r"^  reader web1, .* \(2 of 5 nodes: does not hold it\)$", text, re.M)
    assert re.search(rf"^  {re.escape(quorum[4].url)}  shared by 2 readers", text, re.M)
    shown, = json.loads(locked("show", "--json", resource).stdout)
    assert (shown["readers_count"], [reader["holds"] for reader in shown["readers"]]) == (1, [True, False])


def test_each_reader_has_its_own_end(locked, quorum, resource):
    share(locked, quorum.servers, resource, "long")
    share(locked, quorum.servers, resource, "short", ttl="20s")
    text = locked("show", resource).stdout.decode()
    assert re.search(r"^  reader short, .* ends in 1\d\.\d s", text, re.M)
    assert re.search(r"^  reader long, .* ends in 5\d\.\d s", text, re.M)
    assert re.search(r"shared by 2 readers, ends in 5\d\.\d s", text)


def test_a_reader_that_has_ended_is_not_shown(locked, quorum, resource):
    share(locked, quorum.servers, resource, "long")
    share(locked, quorum.servers, resource, "short", ttl="300ms")
    until(lambda: locked("show", resource).stdout.startswith(f"{resource}: shared by 1 reader,".encode()), what="the end of the other")
    assert b"short" not in locked("show", resource).stdout


def test_without_a_resource_they_are_counted(own_quorum):
    ours = Redlock(own_quorum.nodes)
    share(ours, own_quorum.servers, "catalogue", "web1", "web2")
    ours("acquire", "-t", "60s", "-o", "me", "nightly")
    done = ours("show")
    assert done.stderr == b""  # no key of another form
    heads = [line for line in done.stdout.decode().splitlines() if not line.startswith("  ")]
    assert [head.split(",")[0] for head in heads] == ["catalogue: shared by 2 readers", "nightly: held by me"]
    assert b"  reader " not in done.stdout
    assert ours("show", "--all").stdout.count(b"  reader web") == 2
    shown = {lock["resource"]: lock for lock in json.loads(ours("show", "--json").stdout)}
    assert [reader["owner"] for reader in shown["catalogue"]["readers"]] == ["web1", "web2"]
    assert set(shown) == {"catalogue", "nightly"}


def test_a_thousand_readers_do_not_flood(locked, quorum, resource):
    fill(quorum.servers, resource, 1000)
    lines = locked("show", resource).stdout.decode().splitlines()
    assert lines[0].startswith(f"{resource}: shared by 1000 readers, ")
    assert lines[-1] == "  and 980 more; --all lists them"
    assert [re.match(r"  reader (reader-\d+), .* \(5 of 5 nodes\)$", line)[1] for line in lines[6:-1]] == [f"reader-{i}" for i in range(20)]
    every = locked("show", "--all", resource).stdout.decode().splitlines()
    assert sum(line.startswith("  reader ") for line in every) == 1000
    assert not every[-1].startswith("  and ")
    shown, = json.loads(locked("show", "--json", resource).stdout)
    assert len(shown["readers"]) == shown["readers_count"] == 1000
    assert len({reader["owner"] for reader in shown["readers"]}) == 1000
    fill(quorum.servers, resource, 21)
    assert locked("show", resource).stdout.decode().splitlines()[-1] == "  and 1 more; --all lists them"


def scripts_called(server):
    return sum(map(int, re.findall(r"cmdstat_eval(?:sha)?:calls=(\d+)", server.ask("INFO", "commandstats").decode())))


def test_one_more_question_for_shared_locks_alone(own_quorum):
    ours = Redlock(own_quorum.nodes)
    ours("acquire", "-t", "60s", "nightly")
    fill(own_quorum.servers, "catalogue", 200)

    def scripts(resource):
        ours("show", resource)  # loads the script
        before = scripts_called(own_quorum[0])
        ours("show", resource)
        return scripts_called(own_quorum[0]) - before

    assert scripts("catalogue") == scripts("nightly") + 1  # a new connection tries one, too


def test_without_permission_for_scripts(own_quorum):
    if server_version() < (6, 0):
        pytest.skip("no users")
    fill(own_quorum.servers, "catalogue", 3)
    for server in own_quorum.servers:
        server.ask("ACL", "SETUSER", "default", "-zcount")
    done = Redlock(own_quorum.nodes)("show", "catalogue")
    assert done.stdout.decode().startswith("catalogue: shared by readers, ends in ")
    assert done.stdout.decode().endswith("  the readers are not known: no permission (ACL)\n")
    shown, = json.loads(Redlock(own_quorum.nodes)("show", "--json", "catalogue").stdout)
    assert (shown["kind"], shown["readers_count"], "readers" in shown) == ("shared", None, False)


def test_with_the_permissions_of_the_manual(own_quorum):
    if server_version() < (6, 0):
        pytest.skip("no users")
    permissions = [line for line in pathlib.Path(os.environ["REDLOCK_SOURCE"], "docs", "operate", "acl.md").read_text().splitlines()
                   if "+zcount" in line and line.startswith("~")][0]
    fill(own_quorum.servers, "catalogue", 3)
    for server in own_quorum.servers:
        server.ask("ACL", "SETUSER", "watcher", "on", ">secret", "resetkeys", "~catalogue", "-@all", "+getrange", "+pttl", "+info", *permissions.split())
    nodes = own_quorum.nodes.replace("redis://", "redis://watcher:secret@")
    done = Redlock(nodes, {"REDLOCK_MODE": "classic"})("show", "catalogue")
    assert done.stdout.decode().startswith("catalogue: shared by 3 readers, ends in "), done
    assert done.stdout.count(b"(5 of 5 nodes)") == 4


def test_a_change_of_readers_is_an_event(locked, quorum, resource):
    tokens = share(locked, quorum.servers, resource, "web1")
    watch = Reader(locked.start("show", "--watch=100ms", "--json", resource))
    assert json.loads(watch.line())["readers_count"] == 1
    assert locked("extend", "--shared", "-t", "90s", resource, environ={"REDLOCK_TOKEN": tokens[0]}).returncode == 0
    assert watch.silent(0.5)  # a renewal is not a change
    share(locked, quorum.servers, resource, "web2")
    while (event := json.loads(watch.line()))["readers_count"] != 2:
        assert event["verdict"] == "held"
    assert {reader["owner"] for reader in event["readers"]} == {"web1", "web2"}
    locked("release", "--shared", resource, environ={"REDLOCK_TOKEN": tokens[0]})
    while (event := json.loads(watch.line())) and [reader["owner"] for reader in event["readers"]] != ["web2"]:
        assert event["verdict"] == "held"
    assert watch.interrupt()[0] == 0


# ---- top ----


def test_top_counts_readers(own_quorum):
    ours = Redlock(own_quorum.nodes)
    share(ours, own_quorum.servers, "catalogue", "web1", "web2")
    ours("acquire", "-t", "60s", "-o", "me", "nightly")
    seen = look(ours)
    lock = lock_of(seen, "catalogue")
    assert (lock["kind"], lock["readers_count"], lock["nodes"], lock["owner"], lock["token"]) == ("shared", 2, 5, None, None)
    assert lock_of(seen, "nightly")["kind"] == "exclusive" and "readers_count" not in lock_of(seen, "nightly")
    assert len(seen["locks"]) == 2 and seen["keys"] == 2  # their lists are no locks
    text = ours("top", "--once").stdout.decode()
    assert re.search(r"^>0\.0s +5\ds +5/5 +\S  catalogue  shared: 2 readers$", text, re.M), text
    assert MARKER not in text


def test_top_shows_the_readers_of_one_lock(screen, own_quorum):  # noqa: F811
    share(Redlock(own_quorum.nodes), own_quorum.servers, "catalogue", "web1", "web2")
    top = screen(80, 24)
    top.expect(r"^catalogue +shared: 2 readers .* 5/5 ")
    top.press("Enter")
    top.expect(r"^holder +shared: 2 readers$")
    top.expect(r"^ +LEFT +NODES READER\n +\d\ds +5/5 token [0-9a-f]{8}… web1\n +\d\ds +5/5 token [0-9a-f]{8}… web2$")
    until(lambda: len(re.findall(r"shared: 2 readers$", top.text(), re.M)) == 6, what="the holder, and what each node says of it")
    fill(own_quorum.servers, "catalogue", 1000)
    top.expect(r"^holder +shared: 1000 readers$")
    full = until(lambda: (now := top.text()).count("reader-") >= 8 and now, what="as many as there is room for")
    assert re.search(r"^holder +shared: 1000 readers$", full, re.M), full  # the list has moved nothing off the screen
    top.press("q")


# ---- waiting for it ----


def test_wait_ends_with_the_last_reader(locked, quorum, resource):
    tokens = share(locked, quorum.servers, resource, "web1", "web2")
    assert locked("wait", "-w", "300ms", resource).returncode == HELD
    waits = locked.start("wait", resource)
    locked("release", "--shared", resource, environ={"REDLOCK_TOKEN": tokens[0]})
    time.sleep(0.7)
    assert waits.poll() is None
    locked("release", "--shared", resource, environ={"REDLOCK_TOKEN": tokens[1]})
    assert waits.wait(timeout=10) == 0
    assert waits.communicate() == (b"", b"")


def test_messages_name_readers(locked, quorum, resource):
    share(locked, quorum.servers, resource, "web1")
    done = locked("acquire", resource)
    assert done.returncode == HELD
    assert re.search(rf"{resource}: held by readers, 5\d\.\d s left \(\d of 5\)", done.stderr.decode()), done.stderr


# ---- break ----


def start_readers(redlock, servers, resource, count):
    readers = [redlock.start("run", "-t", "3s", "--shared", "-o", f"web{i}", resource, "--", "sleep", "30") for i in range(count)]
    everywhere(servers, resource, count)
    return readers


def ended(readers):
    return [(reader.communicate(timeout=10), reader.returncode)[1] for reader in readers]


def test_a_break_ends_it_for_all_readers(locked, quorum, resource):
    readers = start_readers(locked, quorum.servers, resource, 3)
    began = time.monotonic()
    done = locked("break", *WHY, resource)
    errors = done.stderr.decode()
    assert (done.returncode, done.stdout) == (0, b""), errors
    assert f"'{resource}' is shared by 3 readers; it ends in " in errors
    for i in range(3):
        assert re.search(rf"^redlock: reader web{i}, token [0-9a-f]{{8}}…, ends in .*, unless it renews \(5 of 5 nodes\)$", errors, re.M)
    assert "all readers lose the lock" in errors
    logged = re.findall(r"user \S+ (is breaking|broke) '(\S+)', held by 3 readers: (.*); reason: hung since noon", errors)
    assert [what for what, _, _ in logged] == ["is breaking", "broke"]
    assert all(re.fullmatch(r"(web\d, token [0-9a-f]{8}…(; )?){3}", whom) for _, _, whom in logged)
    assert MARKER not in errors
    assert ended(readers) == [LOST] * 3
    assert time.monotonic() - began < 2.5  # at their next renewals
    assert quorum.values(resource) == [None] * 5
    assert locked("run", "-n", resource, "--", "true").returncode == 0


def test_a_guarded_break_raises_the_fence_above_all_readers(guarded, three):
    readers = [json.loads(guarded("acquire", "--shared", "-t", "30s", "--json", "job").stdout) for _ in range(3)]
    done = guarded("break", *WHY, "job")
    assert done.returncode == 0, done.stderr
    fence = int(done.stdout)
    assert fence > max(reader["fence"] for reader in readers)
    assert b"and is refused only where the fence is checked" in done.stderr
    later = json.loads(guarded("acquire", "--shared", "-t", "30s", "--json", "job").stdout)
    assert later["fence"] >= fence
    share(guarded, three.servers, "job", "everywhere")
    for server in three.servers:  # the broken ones do not come back with the key
        assert [server.ask("ZSCORE", f"{MARKER}:job", reader["token"]) for reader in readers] == [None] * 3


def test_a_break_as_json(locked, quorum, resource):
    share(locked, quorum.servers, resource, "web1", "web2")
    told = json.loads(locked("break", "--json", *WHY, resource).stdout)
    assert (told["result"], told["kind"], "owner" in told) == ("broken", "shared", False)
    assert [reader["owner"] for reader in told["readers"]] == ["web1", "web2"]
    assert 50000 < told["remaining_ms"] <= 60000


def test_a_break_of_many_readers_names_some(locked, quorum, resource):
    fill(quorum.servers, resource, 1000)
    errors = locked("break", *WHY, resource).stderr.decode()
    assert errors.count("redlock: reader reader-") == 20
    assert "and 980 readers more; redlock show --all lists them" in errors
    assert re.search(r"held by 1000 readers: reader-0, token 00000000…; .*; and 9\d\d more; reason", errors)
    assert quorum.values(resource) == [None] * 5


def test_a_break_while_readers_come(locked, quorum, resource):
    """Those that come meanwhile may lose it, too; those that were there do."""
    readers = start_readers(locked, quorum.servers, resource, 2)
    more = []
    for i in range(6):
        more.append(locked.start("run", "-n", "-t", "3s", "--shared", resource, "--", "sleep", "3"))
        time.sleep(0.05)
        if i == 2:
            breaks = locked.start("break", *WHY, resource)
    _, errors = breaks.communicate(timeout=20)
    assert breaks.returncode == 0, errors
    assert ended(readers) == [LOST] * 2
    assert set(ended(more)) <= {0, LOST}
