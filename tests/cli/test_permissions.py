# SPDX-License-Identifier: BSD-2-Clause
"""A user that lacks one permission: each command names the node, the missing command and the cure, and does not wait for it."""
import json
import os
import pathlib
import re
import time

import pytest

from conftest import Redlock
from servers import server_project, server_version, started, until, urls

CONFIG, NO_QUORUM, LOST, HELD = 78, 69, 80, 75
MODULE = os.environ.get("REDLOCK_MODULE", "")


def lacking(servers, *commands, mode="classic", nodes=None):
    """redlock(1) as a user without these commands on `nodes` (every node)."""
    for i, server in enumerate(servers):
        denied = [f"-{command}" for command in commands] if nodes is None or i in nodes else []
        server.ask("ACL", "SETUSER", "lacks", "on", ">geheim", "allkeys", "allchannels", "+@all", *denied)
    return Redlock(urls(*servers).replace("//", "//lacks:geheim@"), {"REDLOCK_MODE": mode})


def make_quorum(servers):
    done = Redlock(urls(*servers), {"REDLOCK_MODE": "guarded"})("quorum", "init", "--never-used", "--yes", "--ttl-max=30s")
    assert done.returncode == 0, done.stderr


@pytest.fixture(params=["classic", "guarded", "native"])
def any_kind(request):
    if request.param == "native" and not MODULE:
        pytest.skip("the module is not built")
    with started(*[("--loadmodule", MODULE) if request.param == "native" else ()] * 3) as servers:
        if request.param != "classic":
            make_quorum(servers)
        yield servers, request.param, "classic" if request.param == "classic" else "guarded"


def told(servers, text):
    """Each node, with the same cause."""
    return [f"redlock:   redis://lacks@{server.url.split('//')[1]}: {text}" for server in servers]


def test_show_without_scan(any_kind, resource):
    servers, kind, mode = any_kind
    command = "redlock.scan" if kind == "native" else "scan"
    redlock = lacking(servers, command, mode=mode)
    assert redlock("acquire", "-t", "20s", resource).returncode == 0
    done = redlock("show")
    lines = done.stderr.decode().splitlines()
    assert done.returncode == CONFIG and done.stdout == b""
    assert lines == ["redlock: the list of locks: no quorum: 0 of 3 nodes let this user list the names, 2 needed",
                     *told(servers, f"no permission (ACL): allow this user +{command}")]
    one = redlock("show", resource)
    assert one.returncode == 0 and one.stderr == b""


def test_show_without_scan_on_one_node(any_kind, resource):
    servers, kind, mode = any_kind
    command = "redlock.scan" if kind == "native" else "scan"
    redlock = lacking(servers, command, mode=mode, nodes=[1])
    assert redlock("acquire", "-t", "20s", resource).returncode == 0
    done = redlock("show")
    assert done.returncode == 0 and resource.encode() in done.stdout
    address = servers[1].url.split("//")[1]
    assert done.stderr.decode() == (f"redlock: redis://lacks@{address} is left out: "
                                    f"no permission (ACL): allow this user +{command}\n")


@pytest.mark.parametrize("what", ["read", "end"])
def test_show_of_what_may_not_be_read(any_kind, resource, what):
    """Not "no locks", and no word about votes: the nodes give this user locks."""
    servers, kind, mode = any_kind
    command = {"read": "getrange", "end": "pttl"}[what]
    if kind == "native":
        command = {"read": "redlock.get", "end": "redlock.pttl"}[what]
    assert lacking(servers, mode=mode)("acquire", "-t", "20s", resource).returncode == 0
    redlock = lacking(servers, command, mode=mode)
    for names in [], [resource]:
        done = redlock("show", *names)
        lines = done.stderr.decode().splitlines()
        assert done.returncode == CONFIG
        assert lines[0].endswith("no quorum: 0 of 3 nodes let this user see what they hold, 2 needed")
        assert lines[1:] == told(servers, f"no permission (ACL): allow this user +{command}")
    broken = redlock("break", "--yes", "--reason=test", resource)
    assert broken.returncode == CONFIG and f"allow this user +{command}" in broken.stderr.decode()


@pytest.mark.parametrize("what", ["list", "read"])
def test_top(any_kind, resource, what):
    servers, kind, mode = any_kind
    command = {"list": "scan", "read": "getrange"}[what]
    if kind == "native":
        command = {"list": "redlock.scan", "read": "redlock.get"}[what]
    assert lacking(servers, mode=mode)("acquire", "-t", "20s", resource).returncode == 0
    redlock = lacking(servers, command, mode=mode)
    done = redlock("top", "--once")
    text = done.stdout.decode()
    assert done.returncode == CONFIG and "locks are not seen: too few nodes let this user see theirs" in text
    assert text.count(f"yes; left out of the list: no permission (ACL): allow this user +{command}\n") == 3
    seen = json.loads(redlock("top", "--once", "--json").stdout)
    assert [node["unlisted"] for node in seen["nodes"]] == [f"no permission (ACL): allow this user +{command}"] * 3
    assert all(node["votes"] for node in seen["nodes"])
    whole = lacking(servers, mode=mode)("top", "--once", "--json")
    assert whole.returncode == 0 and {node["unlisted"] for node in json.loads(whole.stdout)["nodes"]} == {None}


def test_show_watch_without_scan(any_kind, resource):
    """Once, not with each look."""
    servers, kind, mode = any_kind
    command = "redlock.scan" if kind == "native" else "scan"
    watch = lacking(servers, command, mode=mode).start("show", "--watch=100ms")
    time.sleep(1)
    watch.terminate()
    out, err = watch.communicate(timeout=10)
    assert out == b"" and err.decode().splitlines() == [
        "redlock: the list of locks: no quorum: 0 of 3 nodes let this user list the names, 2 needed",
        *told(servers, f"no permission (ACL): allow this user +{command}")]


def test_wait_does_not_wait(any_kind, resource):
    servers, kind, mode = any_kind
    command = "redlock.pttl" if kind == "native" else "pttl"
    begun = time.monotonic()
    done = lacking(servers, command, mode=mode)("wait", "--wait=30s", resource)
    assert done.returncode == CONFIG and time.monotonic() - begun < 15
    assert f"allow this user +{command}" in done.stderr.decode() and "wait" not in done.stderr.decode()


def test_a_waiter_that_may_not_see_the_holder(any_kind, resource):
    """It waits for the lock, not for a majority to answer."""
    servers, kind, mode = any_kind
    command = "redlock.get" if kind == "native" else "getrange"
    assert lacking(servers, mode=mode)("acquire", "-t", "20s", resource).returncode == 0
    done = lacking(servers, command, mode=mode)("run", "-v", "--wait=3s", resource, "true")
    text = done.stderr.decode()
    assert done.returncode == HELD and f"allow this user +{command}" in text
    assert "waiting for the lock all the same; its holder cannot be shown" in text
    assert "majority to answer" not in text


@pytest.mark.parametrize("command", ["set", "pexpire", "del"])
def test_what_a_lock_needs(own_quorum, resource, command):
    redlock = lacking(own_quorum.servers[:3], command)
    if command == "set":
        done = redlock("acquire", "--wait=20s", resource)
        assert done.returncode == CONFIG and b"waiting is no cure" in done.stderr
    elif command == "pexpire":
        done = redlock("run", "-t", "2s", resource, "sleep", "10")
        assert done.returncode == LOST and b"no permission (ACL): see redlock doctor, and acl.md" in done.stderr
        return
    else:
        done = redlock("run", resource, "true")
        assert done.returncode == 0 and b"no permission (ACL): see redlock doctor, and acl.md" in done.stderr
        done = redlock("break", "--yes", "--reason=test", resource)
        assert done.returncode == NO_QUORUM and b"allow this user the commands that redlock doctor names" in done.stderr
        assert b"run the command again" not in done.stderr
        return
    assert done.stderr.decode().count(f"no permission (ACL): allow this user +{command}\n") == 3


def test_a_lock_without_scripts_or_transactions(three, resource):
    """The least user of docs/operate/acl.md, less the scripts: it may set, so acquire succeeds; extend and release cannot compare."""
    line = re.search(r"^ACL SETUSER locks on >PASSWORD resetkeys ~lock:\* %R~redlock:node .*$", (SOURCE / "docs/operate/acl.md").read_text(), re.M)
    assert " +eval +evalsha " in line[0]
    for server in three.servers:
        server.ask(*line[0].replace(" +eval +evalsha ", " ").split())
    redlock = Redlock(urls(*three.servers).replace("//", "//locks:PASSWORD@"), {"REDLOCK_MODE": "classic"})
    token = redlock("acquire", "-t", "20s", f"lock:{resource}").stdout.split()[0].decode()
    for command in ("extend", "release"):
        done = redlock(command, "--token", token, f"lock:{resource}")
        text = done.stderr.decode()
        assert done.returncode == CONFIG
        assert text.count("no permission (ACL): allow this user +eval +evalsha, or +watch and all else that transactions need\n") >= 2, text


@pytest.mark.parametrize("command", ["extend", "release"])
def test_a_guarded_lock_without_scripts(three, resource, command):
    make_quorum(three.servers)
    taken = json.loads(lacking(three.servers, mode="guarded")("acquire", "-t", "20s", "--json", resource).stdout)
    redlock = lacking(three.servers, "eval", "evalsha", mode="guarded")
    fence = ["--fence", str(taken["fence"])] if command == "extend" else []
    done = redlock(command, "--token", taken["token"], *fence, resource)
    assert done.returncode == CONFIG and done.stderr.count(b"allow ~redlock:* +eval +evalsha ") == 3, done.stderr


@pytest.mark.parametrize("options, command", [(["--slots=2"], "mget"), (["--shared"], "zrevrange"), (["--shared"], "pexpireat")])
def test_what_other_locks_need(own_quorum, resource, options, command):
    servers = own_quorum.servers[:3]
    redlock, run = lacking(servers, command), ["run", *options, "--wait=1s", resource]
    done = redlock(*run, "true")
    assert done.returncode == CONFIG and f"no permission (ACL): allow this user +{command}\n" in done.stderr.decode()


@pytest.mark.parametrize("command", ["time", "hgetall", "redlock.state", "redlock.record"])
def test_what_a_vote_needs(resource, command):
    native = command.startswith("redlock")
    if native and not MODULE:
        pytest.skip("the module is not built")
    with started(*[("--loadmodule", MODULE) if native else ()] * 3) as servers:
        make_quorum(servers)
        assert lacking(servers, mode="guarded")("acquire", "-t", "20s", resource).returncode == 0
        redlock = lacking(servers, command, mode="guarded")
        for line in ["acquire", "--wait=20s", resource], ["show"]:
            done = redlock(*line)
            assert done.returncode == CONFIG and done.stderr.decode().count(f"allow this user +{command}") == 3, done.stderr
        report = json.loads(redlock("doctor", "--json", "--samples=1").stdout)
        names = {finding["name"] for finding in report["findings"]}
        assert "UNFIT" in names and "REPLICATION-ID" not in names and "RECOVERING" not in names
        assert f"+{command}" in json.dumps(report) and "is named" not in json.dumps(report)


@pytest.mark.parametrize("command", ["hset", "zrange"])
def test_doctor_does_not_advise_to_wait(three, command):
    make_quorum(three.servers)
    redlock = lacking(three.servers, command, mode="guarded")
    three[0].ask("FLUSHALL")
    findings = until(lambda: (found := {finding["name"]: finding for finding in json.loads(
        redlock("doctor", "--json", "--samples=1").stdout)["findings"]}) and "RECOVERING" in found and found)
    assert f"+{command}" in findings["UNFIT"]["why"]
    assert findings["RECOVERING"]["cure"] == "Allow this user the commands that UNFIT names; then clients bring it back."


# ---- a lock that is refused leaves nothing, and the message names what is missing ----

SOURCE = pathlib.Path(__file__).parents[2]


def commands_of(script):
    text = re.sub(r"--[^\n]*\n", "", (SOURCE / f"src/node/{script}.lua").read_text())
    return sorted({command.lower() for command in re.findall(r"redis\.p?call\('(\w+)'", text)})


def kept_by(server):
    return sorted(key.decode() for key in server.ask("KEYS", "*") if not key.startswith((b"redlock:node", b"redlock:fences:")))


def answered(redlock, *arguments):
    """Again where the machine was too busy for an answer in time."""
    busy = b"no answer in time|not connected|keys and commands of"
    for _ in range(20):
        done = redlock(*arguments)
        if done.returncode == 0 or not re.search(busy, done.stderr):
            break
    return done


@pytest.mark.parametrize("mode", ["classic", "guarded"])
@pytest.mark.parametrize("script, options", [("share", ["--shared"]), ("acquire_slot", ["--slots=2"])])
def test_a_refused_lock_leaves_nothing(three, mode, script, options, resource):
    servers = three.servers
    if mode == "guarded":
        make_quorum(servers)
    for command in [*commands_of(script), "eval", "evalsha"]:
        for held in (False, True) if script == "share" else (False,):
            if held:
                assert answered(lacking(servers, mode=mode), "acquire", *options, "-t", "20s", resource).returncode == 0
            before = [[(key, server.ask("DUMP", key)) for key in kept_by(server)] for server in servers]
            done = answered(lacking(servers, command, mode=mode), "acquire", *options, "-t", "20s", resource)
            after = [[(key, server.ask("DUMP", key)) for key in kept_by(server)] for server in servers]
            if done.returncode != 0:
                assert done.returncode == CONFIG and f"+{command}" in done.stderr.decode(), (command, held, done.stderr)
                assert after == before, (command, held)
            for server in servers:
                for key in kept_by(server):
                    server.ask("DEL", key)


def test_the_least_user_and_a_shared_lock(three, resource):
    """The user of docs/operate/acl.md for guarded mode may not share."""
    make_quorum(three.servers)
    line = re.search(r"^ACL SETUSER locks on >PASSWORD resetkeys ~lock:\* ~redlock:\* resetchannels -@all .*$", (SOURCE / "docs/operate/acl.md").read_text(), re.M)
    for server in three.servers:
        server.ask(*line[0].split())
    redlock = Redlock(urls(*three.servers).replace("//", "//locks:PASSWORD@"), {"REDLOCK_MODE": "guarded"})
    done = answered(redlock, "acquire", "--shared", f"lock:{resource}")
    text = done.stderr.decode()
    assert done.returncode == CONFIG and [kept_by(server) for server in three.servers] == [[]] * 3, text
    assert text.count("allow this user +zrem +zrevrange +zremrangebyscore +pexpireat\n") >= 2, text
    assert answered(redlock, "acquire", f"lock:{resource}").returncode == 0


@pytest.mark.skipif(server_project() != "Valkey" or server_version() < (9, 1), reason="users have databases from Valkey 9.1")
@pytest.mark.parametrize("mode", ["classic", "auto", "guarded"])
def test_a_denied_database_is_named(three, mode, resource):
    """With the database of the URL among the user's, the least user of docs/operate/acl.md needs nothing else."""
    least = (SOURCE / "docs/operate/acl.md").read_text().split("## The least permissions")[1]
    lines = re.findall(r"^ACL SETUSER locks on >PASSWORD .*$", least, re.M)
    line = lines[1 if mode == "guarded" else 0]

    def lists(databases):
        for server in three.servers:
            server.ask(*line.split(), "+select", f"db={databases}")

    for database, other in ("", "1"), ("/1", "0,2"):
        nodes = ",".join(f"{url}{database}" for url in urls(*three.servers).replace("//", "//locks:PASSWORD@").split(","))
        redlock = Redlock(nodes, {"REDLOCK_MODE": mode})
        lists("0,1")
        if mode == "guarded":
            assert redlock("quorum", "init", "--never-used", "--yes", "--ttl-max=30s").returncode == 0
        assert answered(redlock, "run", f"lock:{resource}", "true").returncode == 0
        lists(other)
        number = database[1:] or "0"
        cause = (f"this user may not use database {number}: add {number} to its databases (ACL SETUSER locks db=...), "
                 "or name a permitted one in the URL")
        done = redlock("run", "--wait=20s", f"lock:{resource}", "true")
        assert done.returncode == CONFIG and done.stderr.decode().count(f"no permission (ACL) ({cause})\n") >= 2, done.stderr
        report = json.loads(redlock("doctor", "--json", "--samples=1").stdout)
        unfit, = (finding for finding in report["findings"] if finding["name"] == "UNFIT")
        assert unfit["nodes"] == [1, 2, 3] and cause in unfit["why"], report


@pytest.mark.parametrize("options, patterns, missing", [
    ([], ["~other"], "~{0}"), (["--shared"], ["~{0}"], "~redlock:shared:{0}"), (["--shared"], ["~redlock:*"], "~{0}"),
    (["--shared"], ["~other"], "~{0} ~redlock:shared:{0}"), (["--slots=2"], ["~{0}"], "~{0} ~{0}:slot:*"), (["--slots=2"], ["~{0}:slot:*"], "~{0} ~{0}:slot:*")])
def test_a_denied_key_is_named(three, options, patterns, missing, resource):
    for server in three.servers:
        server.ask("ACL", "SETUSER", "lacks", "on", ">geheim", "resetkeys", *[pattern.format(resource) for pattern in patterns],
                   "allchannels", "+@all")
    redlock = Redlock(urls(*three.servers).replace("//", "//lacks:geheim@"), {"REDLOCK_MODE": "classic"})
    done = answered(redlock, "acquire", *options, resource)
    assert done.returncode == CONFIG and [kept_by(server) for server in three.servers] == [[]] * 3
    assert done.stderr.decode().count(f"no permission (ACL): allow this user {missing.format(resource)}\n") >= 2, done.stderr


@pytest.mark.parametrize("command", ["set", "getrange", "del", "pttl", "pexpire", "watch", "unwatch", "multi", "exec"])
def test_a_refused_transaction_leaves_nothing(three, resource, command):
    servers = three.servers
    token = "c" * 40
    for server in servers:
        server.ask("SET", resource, token, "PX", "20000")
    before = [server.ask("DUMP", resource) for server in servers]
    done = answered(lacking(servers, "eval", "evalsha", command), "extend", "-t", "500s", "--token", token, resource)
    assert [server.ask("DUMP", resource) for server in servers] == before
    assert done.returncode == 0 or max(server.ask("PTTL", resource) for server in servers) <= 20000, done.stderr
    done = answered(lacking(servers, "eval", "evalsha", command), "acquire", "-t", "20s", f"{resource}-1", f"{resource}-2")
    assert done.returncode == 0 or [kept_by(server) for server in servers] == [[resource]] * 3, done.stderr
