# SPDX-License-Identifier: BSD-2-Clause
"""docs/operate/runbook.md: each finding is provoked on real servers, and the page's commands end it; each procedure is followed."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.request

import pytest

from conftest import BINARY
from documents import SOURCE, Document
from servers import SAFE, Quorum, ServerError, started, until, urls

PAGE = Document("docs/operate/runbook.md")
ON = PAGE.one("sh", "on")
PASSWORD = "correct-horse"
TTL_MAX = "2s"


def address(server):
    return f"127.0.0.1:{server.port}"


def make_quorum(nodes, ttl_max=TTL_MAX):
    environ = {**os.environ, "REDLOCK_CONFIG": "/dev/null"}
    command = [BINARY, "quorum", "init", "-N", nodes, "--never-used", "--yes", "--ttl-max", ttl_max]
    subprocess.run(command, env=environ, check=True, capture_output=True)


@contextlib.contextmanager
def members(ttl_max=TTL_MAX):
    """Three servers that are a quorum."""
    with Quorum(3) as servers:
        make_quorum(servers.nodes, ttl_max)
        yield servers


def classic(nodes, **variables):
    return {"REDLOCK_NODES": nodes, "REDLOCK_MODE": "classic", **variables}


def guarded(nodes, **variables):
    return {"REDLOCK_NODES": nodes, "REDLOCK_MODE": "guarded", **variables}


def user(server, *rules):
    """A user `locks` with these rules; the URL as that user."""
    server.ask("ACL", "SETUSER", "locks", "on", f">{PASSWORD}", *rules)
    return server.url.replace("//", f"//locks:{PASSWORD}@")


# ---- each finding: what provokes it. Yields the environment in which the commands of the page run. ----

@contextlib.contextmanager
def eviction():
    with started(SAFE) as (server,):
        server.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        yield classic(server.url, node=address(server))


@contextlib.contextmanager
def replicas():
    with started(SAFE, SAFE) as (server, replica):
        replica.ask("REPLICAOF", "127.0.0.1", server.port)
        until(lambda: b"connected_slaves:1" in server.ask("INFO", "replication"), what="the replica")
        yield classic(server.url, replica=address(replica))


@contextlib.contextmanager
def is_replica():
    with started(SAFE, SAFE) as (server, replica):
        replica.ask("REPLICAOF", "127.0.0.1", server.port)
        until(lambda: b"connected_slaves:1" in server.ask("INFO", "replication"), what="the replica")
        yield classic(replica.url, node=address(replica))


@contextlib.contextmanager
def cluster():
    with started(("--cluster-enabled", "yes")) as (server,):
        yield classic(server.url, node=address(server))


@contextlib.contextmanager
def twice_listed():
    with started(SAFE, SAFE) as (server, other):
        yield classic(f"{urls(server, other)},redis://localhost:{server.port}", node=address(server))


@contextlib.contextmanager
def no_quorum():
    with members() as servers:
        for server in servers.servers[1:]:
            server.process.kill()
        yield guarded(servers.nodes)


@contextlib.contextmanager
def two_quorums():
    with members() as servers, started(SAFE) as (stranger,):
        make_quorum(stranger.url)
        yield guarded(f"{servers.nodes},{stranger.url}", node=address(servers[0]))


@contextlib.contextmanager
def mode_open():
    with members() as servers:
        yield {"REDLOCK_NODES": servers.nodes}


@contextlib.contextmanager
def mixed_mode():
    with members() as servers:
        yield {"REDLOCK_NODES": servers.nodes, "REDLOCK_MODE": "classic"}


@contextlib.contextmanager
def no_record():
    with members() as servers, started(SAFE) as (blank,):
        yield guarded(f"{servers.nodes},{blank.url}", node=address(blank))


@contextlib.contextmanager
def foreign_key():
    with members() as servers:
        servers[0].ask("SET", "redlock:node", "junk")
        yield guarded(servers.nodes, node=address(servers[0]))


@contextlib.contextmanager
def foreign():
    with members() as servers, started(SAFE) as (stranger,):
        make_quorum(stranger.url)
        quorum = servers[0].ask("HGET", "redlock:node", "quorum").decode()
        yield guarded(f"{servers.nodes},{stranger.url}", node=address(stranger), REDLOCK_QUORUM=quorum)


@contextlib.contextmanager
def unfit():
    with members() as servers:
        url = user(servers[2], "~redlock:*", "allchannels", "+@all", "-time")
        yield guarded(urls(*servers.servers[:2]) + "," + url, node=address(servers[2]))


@contextlib.contextmanager
def password():
    with started(SAFE) as (server,):
        nodes = server.url
        server.ask("CONFIG", "SET", "requirepass", PASSWORD)
        yield classic(nodes, node=address(server), REDISCLI_AUTH=PASSWORD)


@contextlib.contextmanager
def misconf():
    with started(("--save", "3600", "1")) as (server,):
        blocked = pathlib.Path(server.directory, "dump.rdb")
        blocked.mkdir()  # no file can be renamed to it
        server.ask("SET", "something", "to save")
        server.ask("BGSAVE")
        until(lambda: b"rdb_last_bgsave_status:err" in server.ask("INFO", "persistence"), what="the failure")
        yield classic(server.url, node=address(server), REPAIR=f"rmdir {blocked}")


@contextlib.contextmanager
def memory():
    with started(SAFE) as (server,):
        server.ask("CONFIG", "SET", "maxmemory", "1000")
        yield classic(server.url, node=address(server))


@contextlib.contextmanager
def max_clients():
    with started(SAFE) as (server,), contextlib.ExitStack() as stack:
        server.ask("CONFIG", "SET", "maxclients", "10")
        for _ in range(8):
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
        until(lambda: b"connected_clients:9" in server.ask("INFO", "clients"), what="the clients")
        yield classic(server.url, node=address(server))


@contextlib.contextmanager
def unreachable():
    with Quorum(3) as servers:
        servers[2].process.kill()
        servers[2].process.wait()
        yield classic(servers.nodes, node=address(servers[2]))


@contextlib.contextmanager
def busy():
    with started((*SAFE, "--busy-reply-threshold", "100")) as (server,):
        def loop():
            with contextlib.suppress(ServerError, OSError):
                server.ask("EVAL", "while true do end", 0)
        thread = threading.Thread(target=loop)
        thread.start()
        def is_busy():
            try:
                server.ask("PING")
            except ServerError as error:
                return str(error).startswith("BUSY")
            return False
        until(is_busy, what="BUSY")
        yield classic(server.url, node=address(server))
        thread.join(10)
        assert not thread.is_alive()


@contextlib.contextmanager
def recovering():
    with members() as servers:
        servers[1].ask("FLUSHALL")
        yield guarded(servers.nodes)


@contextlib.contextmanager
def evicted():
    with members() as servers:
        node = servers[2]
        for i in range(100):
            node.ask("SET", f"other{i}", "x" * 10000, "PX", "100000")
        node.ask("CONFIG", "SET", "maxmemory-policy", "volatile-random")
        used = int(re.search(rb"used_memory:(\d+)", node.ask("INFO", "memory")).group(1))
        node.ask("CONFIG", "SET", "maxmemory", str(used - 200000))
        until(lambda: b"evicted_keys:0" not in node.ask("INFO", "stats"), what="an eviction")
        node.ask("CONFIG", "SET", "maxmemory", "0")
        yield guarded(servers.nodes, node=address(node))


@contextlib.contextmanager
def replication_id():
    with members() as servers, started(SAFE) as (replica,):
        replica.ask("REPLICAOF", "127.0.0.1", servers[0].port)
        until(lambda: b"connected_slaves:1" in servers[0].ask("INFO", "replication"), what="the replica")
        replica.ask("REPLICAOF", "NO", "ONE")
        until(lambda: b"connected_slaves:0" in servers[0].ask("INFO", "replication"), what="its end")
        yield guarded(servers.nodes)


@contextlib.contextmanager
def unannounced():
    with members() as servers:
        url = user(servers[2], "allkeys", "allchannels", "+@all", "-client|tracking")
        yield guarded(urls(*servers.servers[:2]) + "," + url, node=address(servers[2]))


@contextlib.contextmanager
def not_listed():
    with members() as servers:
        yield guarded(urls(*servers.servers[:2]))


@contextlib.contextmanager
def not_settled():
    with members() as servers, started(SAFE) as (spare,):
        environ = {**os.environ, "REDLOCK_CONFIG": "/dev/null", **guarded(servers.nodes)}
        with subprocess.Popen([BINARY, "quorum", "add", "--yes", "-v", spare.url], env=environ, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE) as change:
            until(lambda: b"locks of before the change" in change.stderr.readline(), 20, "the wait")
            change.send_signal(signal.SIGINT)
        yield guarded(f"{servers.nodes},{spare.url}", node=address(spare))


@contextlib.contextmanager
def no_replicas():
    with started(SAFE) as (server,):
        server.ask("CONFIG", "SET", "min-replicas-to-write", "1")
        yield classic(server.url, node=address(server))


@contextlib.contextmanager
def restart_forgets():
    with started(()) as (server,):
        yield classic(server.url, node=address(server))


@contextlib.contextmanager
def restart_last_second():
    with started(("--appendonly", "yes")) as (server,):
        yield classic(server.url, node=address(server))


@contextlib.contextmanager
def no_password():
    with started((*SAFE, "--bind", "0.0.0.0", "--protected-mode", "no")) as (server,):
        yield classic(server.url, node=address(server), password=PASSWORD)


@contextlib.contextmanager
def scripts_refused():
    with started(SAFE) as (server,):
        yield classic(user(server, "~*", "+@all", "-eval", "-evalsha"), node=address(server))


@contextlib.contextmanager
def unknown():
    with started(SAFE) as (server,):
        yield classic(user(server, "~*", "-@all", "+set", "+get", "+del", "+pttl", "+pexpire", "+eval", "+evalsha"),
                      node=address(server))


CURED = {
    "EVICTION": eviction, "REPLICAS": replicas, "IS-REPLICA": is_replica,
    "TWO-QUORUMS": two_quorums, "MODE-OPEN": mode_open,
    "MIXED-MODE": mixed_mode, "NO-RECORD": no_record,
    "FOREIGN": foreign, "FOREIGN-KEY": foreign_key, "MISCONF": misconf, "NO-REPLICAS": no_replicas, "MEMORY": memory, "MAX-CLIENTS": max_clients,
    "BUSY": busy, "RECOVERING": recovering, "EVICTED": evicted, "REPLICATION-ID": replication_id,
    "UNANNOUNCED": unannounced, "NOT-SETTLED": not_settled, "RESTART-FORGETS": restart_forgets,
    "RESTART-LAST-SECOND": restart_last_second, "NO-PASSWORD": no_password,
    "SCRIPTS-REFUSED": scripts_refused, "UNKNOWN": unknown, "UNFIT": unfit, "NO-IDENTITY": unknown,
}
# A person has to do what cures these: start a server, correct a list.
LOOKED_AT = {"CLUSTER": cluster, "TWICE-LISTED": twice_listed, "NO-QUORUM": no_quorum, "PASSWORD": password,
             "UNREACHABLE": unreachable, "NOT-LISTED": not_listed}
# The commands run, on a server that is well: tests/cli/test_doctor.py shows how these findings come about.
ONLY_RUN = {"CLOCK-FROZEN", "CLOCK-JUMPS", "CLOCK-DRIFT", "CLOCK-OFFSET", "SLOW", "LOADING", "OLD-VERSION"}
WITHOUT_COMMANDS = {"SEVERAL-SERVERS", "NOT-A-SERVER", "UNTRIED", "FEATURES", "PROTECTED-MODE", "TLS", "FEW-NODES", "ALL-ON-ONE-HOST", "EVEN-NODES", "OLD-PATTERN",
                    "MIXED-QUORUM", "NO-MIRROR"}

EXAMINE = "redlock doctor --json --samples 2 || true"


def findings(output):
    return {finding["name"] for finding in json.loads(output.splitlines()[-1])["findings"]}


def test_cure_of_an_interrupted_removal(shell):
    with members() as servers:
        environ = {**os.environ, "REDLOCK_CONFIG": "/dev/null", **guarded(servers.nodes)}
        with subprocess.Popen([BINARY, "quorum", "remove", "--yes", "-v", servers[2].url], env=environ, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE) as change:
            until(lambda: b"locks of before the change" in change.stderr.readline(), 20, "the wait")
            change.send_signal(signal.SIGINT)
        environ = guarded(servers.nodes)
        assert "NOT-SETTLED" in findings(shell(EXAMINE, environ=environ))
        assert "NOT-SETTLED" not in findings(shell(f"{PAGE.one('sh', 'cure NOT-SETTLED')}\n{EXAMINE}", environ=environ))
        report = json.loads(shell("redlock quorum status --json || true", environ=environ).splitlines()[-1])
        assert len(report["members"]) == 2


@pytest.mark.parametrize("name", CURED)
def test_cure(shell, name):
    with CURED[name]() as environ:
        assert name in findings(shell(EXAMINE, environ=environ))
        repair = environ.pop("REPAIR", "true")
        script = f"{ON}\n{repair}\n{PAGE.one('sh', f'cure {name}')}\n{EXAMINE}"
        assert name not in findings(shell(script, environ=environ))


@pytest.mark.parametrize("name", LOOKED_AT)
def test_look(shell, name):
    with LOOKED_AT[name]() as environ:
        assert name in findings(shell(EXAMINE, environ=environ))
        assert shell(f"{ON}\n{PAGE.one('sh', f'look {name}')}", environ=environ) != ""


def test_commands_for_the_rest(shell):
    with started(SAFE) as (server,):
        for name in ONLY_RUN:
            assert shell(f"{ON}\n{PAGE.one('sh', f'look {name}')}", environ=classic(server.url, node=address(server))) != ""


def test_every_finding_has_a_section():
    rules = "".join(path.read_text(encoding="utf-8") for path in (SOURCE / "cli/doctor").glob("finding_*.c"))
    names = set(re.findall(r'\b(?:NOTE|WARNING|ERROR)\(\s*"([A-Z-]+)"', rules))
    sections = {text for _, text in PAGE.headings if re.fullmatch(r"[A-Z-]{3,}", text)}
    assert len(names) > 30 and names == sections
    tested = [set(CURED), set(LOOKED_AT), ONLY_RUN, WITHOUT_COMMANDS]
    assert sum(map(len, tested)) == len(names) and set().union(*tested) == names
    for name in names:
        assert (name in WITHOUT_COMMANDS) == ("```sh" not in PAGE.section(name)), name


@pytest.mark.parametrize("how", ["removed", "member", "last"])
def test_a_foreign_server_is_emptied_only_when_its_quorum_does_not_need_it(shell, how):
    """The last intact member of a quorum whose other members are down keeps its record."""
    with members() as servers, members() as others, started(SAFE) as (spare,):
        server = spare if how == "removed" else others[0]
        if how == "removed":
            shell(f"redlock quorum add --yes {spare.url}", environ=guarded(others.nodes))
            shell(f"redlock quorum status -q --wait=20s; redlock quorum remove --yes {spare.url}",
                  environ=guarded(f"{others.nodes},{spare.url}"))
        if how == "last":
            for other in others.servers[1:]:
                other.process.kill()
                other.process.wait()
        quorum = servers[0].ask("HGET", "redlock:node", "quorum").decode()
        environ = guarded(f"{servers.nodes},{server.url}", node=address(server), REDLOCK_QUORUM=quorum)
        assert "FOREIGN" in findings(shell(EXAMINE, environ=environ))
        before = sorted(server.ask("HGETALL", "redlock:node"))
        script = "\n".join([ON, PAGE.one("sh", "foreign own quorum"), PAGE.one("sh", "foreign reuse")])
        said = shell(script, environ=environ)
        if how == "removed":
            assert "no member" in said and "All 4 members are intact." in said
            assert "FOREIGN" not in findings(shell(EXAMINE, environ=environ))
        else:
            assert sorted(server.ask("HGETALL", "redlock:node")) == before, said


# ---- procedures ----

class Hosts:
    """Programs `ssh`, `sudo`... for hosts db1, db2, ...: they restart, stop and start the real servers of the test, empty."""

    def __init__(self, shell, servers):
        self.servers = servers
        self.requests, self.answers = shell.directory / "requests", shell.directory / "answers"
        os.mkfifo(self.requests)
        os.mkfifo(self.answers)
        shell.program("ssh", f"#!/bin/sh\necho \"$*\" > {self.requests}\nread -r answer < {self.answers}\nexit \"$answer\"\n")
        self.log = []
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self):
        while True:
            request = self.requests.read_text().strip()
            if request == "end":
                return
            host, what = request.split(" ", 1)
            self.log.append((host, what, time.monotonic()))
            self._do(self.servers[int(host.removeprefix("db")) - 1], what)
            self.answers.write_text("0\n")

    @staticmethod
    def _do(server, what):
        if what != "sudo systemctl start redis-server":
            server.process.kill()
            server.process.wait()
        if what != "sudo systemctl stop redis-server":
            server._start()
            assert server._answers()

    def end(self):
        self.requests.write_text("end\n")
        self.thread.join(10)
        return self.log


@pytest.mark.parametrize("label", ["restart guarded", "upgrade"])
def test_one_by_one(shell, label):
    """A lock that is held all the time is not lost, and each server is restarted once."""
    script = PAGE.one("sh", label)
    assert script.count("sleep 30") == 1
    with members("5s") as servers:  # so long that without the wait a majority would not vote
        hosts = Hosts(shell, servers)
        environ = guarded(servers.nodes)
        command = "redlock run --ttl 1500ms --node-timeout 250ms long -- sh -c 'echo held > held; exec sleep 1000'"
        holder = shell.start(f"exec {command}", environ=environ)
        until((shell.directory / "held").exists, what="the lock")
        # The longest TTL, and some time for a busy machine.
        said = shell(script.replace("sleep 30", "sleep 2"), environ=environ)
        log = hosts.end()
        assert [host for host, _, _ in log] == ["db1", "db2", "db3"], log
        assert ("apt-get" if label == "upgrade" else "restart") in log[0][1]
        assert "All 3 members are intact." in said
        assert holder.poll() is None, holder.communicate()[0]
        holder.terminate()
        assert holder.wait(10) == -signal.SIGTERM


@pytest.mark.parametrize("page", ["docs/operate/runbook.md", "docs/operate/native.md", "docs/inside/guarded.md", "docs/man/redlock-quorum.1"])
def test_each_page_with_a_rolling_restart_has_its_rule(page):
    """Without it, a quorum of three loses the locks that are held."""
    rule = "With three servers, also wait one TTL of the longest held lock before the next restart."
    assert rule in (SOURCE / page).read_text(encoding="utf-8").replace("\n", " ")


def test_restart_in_classic_mode(shell):
    script = PAGE.one("sh", "restart classic")
    assert script.count("sleep 40") == 1
    with Quorum(3) as servers:
        hosts = Hosts(shell, servers)
        shell(script.replace("sleep 40", "sleep 2"))
        (_, stop, stopped), (_, start, begun) = hosts.end()
        assert "stop" in stop and "start" in start and begun - stopped >= 2
        shell("redlock run --ttl 1s --nonblock x -- true", environ=classic(servers.nodes))


@pytest.mark.parametrize("dead", [False, True])
def test_replace(shell, dead):
    script = PAGE.one("sh", "replace")
    with members() as servers, started(()) as (spare,):
        script = script.replace("redis://db3", servers[2].url).replace("redis://db4", spare.url)
        assert script != PAGE.one("sh", "replace")
        if dead:
            servers[2].process.kill()
        new = urls(*servers.servers[:2], spare)
        said = shell(script.replace("quorum status", f"quorum status --nodes {new}"), environ=guarded(servers.nodes))
        assert f"export REDLOCK_NODES='{new}'" in said
        assert "All 3 members are intact." in said.splitlines()[-1]
        # The check of the new server, and a client with the old list.
        look = re.search(r"`(redlock doctor --nodes )redis://db4( .*?)`", PAGE.section("Replace a server"))
        assert "Fit to hold locks" in shell(f"{look[1]}{spare.url}{look[2]}")
        shell("redlock run --ttl 1s x -- true", environ=guarded(servers.nodes))


def test_ttl_max(shell):
    script = PAGE.one("sh", "ttl_max")
    assert script.count("20s") == 1
    with members() as servers:
        environ = guarded(servers.nodes)
        shell("redlock run --ttl 4s --nonblock x -- true", environ=environ, status=64)
        said = shell(script.replace("20s", "4s"), environ=environ)
        assert said.splitlines()[-1] == "All 3 members are intact." and "ttl_max 4.0 s" in said
        shell("redlock run --ttl 4s --nonblock x -- true", environ=environ)
        said = shell(script.replace("20s", "1s"), environ=environ)
        assert "ttl_max 1.0 s" in said
        shell("redlock run --ttl 4s --nonblock x -- true", environ=environ, status=64)


def test_password(shell, tmp_path):
    """With a job that runs meanwhile: its lock and the next login rest on the new password."""
    script, file = PAGE.one("sh", "password"), tmp_path / "password"
    file.write_text("old\n")
    (tmp_path / "password.new").write_text("new\nwith a second line\n")
    with members() as servers:
        for server in servers.servers:
            server.ask("ACL", "SETUSER", "locks", "on", ">old", "~*", "allchannels", "+@all")
        environ = {**guarded(servers.nodes), "nodes": " ".join(map(address, servers.servers)), "user": "locks", "file": str(file)}
        login = '--ttl 1s --node-user locks --node-password-file "$file"'
        said = shell(f"""{ON}
redlock run {login} x -- sh -c 'until test -e "$file.old"; do sleep 0.1; done; sleep 2' &
sleep 1
{script}
wait $! && echo the job went on && redlock run {login} x -- echo logged in""", environ=environ)
        assert "the job went on" in said and "logged in" in said and "lost" not in said
        assert [server.ask("ACL", "LOG") for server in servers.servers] == [[]] * 3
        for server in servers.servers:
            with pytest.raises(ServerError):
                server.ask("AUTH", "locks", "old")


def test_power_cut(shell):
    script = PAGE.one("sh", "power cut")
    assert script.count("10m") == 1
    with members() as servers:
        environ = guarded(servers.nodes)
        before = int(shell("redlock run --ttl 1s x -- sh -c 'echo $REDLOCK_FENCE'", environ=environ))
        quorum = servers[0].ask("HGET", "redlock:node", "quorum").decode()
        for server in servers.servers:
            Hosts._do(server, "restart")
        said = shell(script.replace("10m", TTL_MAX), environ={**environ, "REDLOCK_QUORUM": quorum})
        assert "exit status 69\n" in said
        assert said.splitlines()[-1] == "All 3 members are intact."
        assert f"quorum {quorum}, " in said
        assert int(shell("redlock run --ttl 1s x -- sh -c 'echo $REDLOCK_FENCE'", environ=environ)) > before
    unit = re.search(r"enable (redlock-quorum-init@)10m", PAGE.section("Power cut of all servers"))[1]
    assert (SOURCE / "packaging" / "systemd" / f"{unit}.service.in").exists()


@pytest.mark.parametrize("mode", [classic, guarded])
def test_lost_token(shell, mode):
    with members() as servers:
        if mode is classic:
            for server in servers.servers:
                server.ask("FLUSHALL")
        environ = mode(servers.nodes)
        shell("redlock acquire --json --ttl 2s --owner 'the  \"build\" machine' deploy", environ=environ)
        shell("redlock run --ttl 1s --nonblock deploy -- true", environ=environ, status=75)
        said = shell(PAGE.one("sh", "lost token"), environ=environ).splitlines()
        verdicts = [line for line in said if line.startswith("deploy: ")]
        assert len(verdicts) == 2 and verdicts[0].startswith("deploy: held by ") and verdicts[1] == "deploy: free", said


def test_a_lock_without_an_end(shell):
    with started(SAFE) as (server,):
        server.ask("SET", "old", "from another program")
        environ = classic(server.url, node=address(server))
        said = shell(ON + PAGE.one("sh", "endless"), environ=environ)
        assert "the key has no TTL" in said
        assert shell("redlock show old", environ=environ).startswith("old: free")


def test_first_look(shell):
    with members() as servers:
        said = shell(PAGE.one("sh", "first look"), environ=guarded(servers.nodes))
        assert "Fit to hold locks" in said and "All 3 members are intact." in said and "nightly: free" in said
        servers[0].ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        assert "unfit: read the findings above" in shell(PAGE.one("sh", "first look"), environ=guarded(servers.nodes))


# ---- metrics ----

def test_metrics_are_those_of_the_gateway(shell):
    """Each name on the page is a metric, and each metric is on the page."""
    with members() as servers, socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
        free.close()
        command = f"redlock serve --listen unix://{shell.directory}/s --metrics 127.0.0.1:{port}"
        gateway = shell.start(f"exec {command}", environ=guarded(servers.nodes))

        def page():
            with contextlib.suppress(OSError):
                return urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10).read().decode()
        text = until(page, what="the page of metrics")
        if shutil.which("curl"):
            lines = shell(PAGE.one("sh", "read metrics"), environ={"gateway": f"127.0.0.1:{port}"}).splitlines()
            assert len([line for line in lines if line.startswith("redlock_node_up{")]) == 3, lines
        gateway.terminate()
        assert gateway.wait(15) == 0
    metrics = set(re.findall(r"^# TYPE (\S+) ", text, re.MULTILINE))
    part = PAGE.text[PAGE.text.index("## Metrics of the gateway"):]
    named = {re.sub(r"_bucket$", "", name) for name in re.findall(r"\bredlock_\w+", part)}
    assert named == metrics
    series = set(re.findall(r'(\w+)\{\w*="([a-z_]+)"', text)) | set(re.findall(r'\b(\w+)\{[^}]*="([a-z_]+)"', text))
    for name, value in re.findall(r'(redlock_\w+)\{\w+="(\w+)"\}', part):
        assert (name, value) in series, (name, value)
    reasons = re.findall(r'redlock_serve_refusals_total\{reason="(\w+)"\}', text)
    assert reasons and all(f"`{reason}`" in PAGE.section("Refused clients") for reason in reasons)


def test_every_block_is_run():
    source = pathlib.Path(__file__).read_text(encoding="utf-8")
    for block in PAGE.of("sh"):
        assert block.label is not None, block
        kind, _, name = block.label.partition(" ")
        known = {"cure": set(CURED), "look": set(LOOKED_AT) | ONLY_RUN}.get(kind, set())
        assert name in known or f'"{block.label}"' in source, block
