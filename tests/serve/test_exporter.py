# SPDX-License-Identifier: BSD-2-Clause
"""redlock exporter: what it says of nodes and locks is so, it asks the nodes once for all who ask, and not at all while nobody asks."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request

import pytest

from conftest import BINARY, CLEAN, guarded
from servers import die_with_us, until
from test_metrics import page, samples

SOURCE = pathlib.Path(os.environ["REDLOCK_SOURCE"])


class Exporter:
    """A process on a port of its own."""

    def __init__(self, nodes, *arguments):
        command = [BINARY, "exporter", "-N", nodes, "--node-timeout", "250ms", "--listen", "127.0.0.1:0", *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=CLEAN,
                                        start_new_session=True, preexec_fn=die_with_us)
        self.said = self.process.stderr.readline()
        if "--page" in arguments:
            assert re.fullmatch(r"redlock: page on http://127\.0\.0\.1:\d+/\n", self.said), self.said
            self.said = self.process.stderr.readline()
        self.root = re.fullmatch(r"redlock: metrics on (http://127\.0\.0\.1:\d+)/metrics\n", self.said)[1]

    def read(self, path="/metrics", **headers):
        with urllib.request.urlopen(urllib.request.Request(self.root + path, headers=headers), timeout=20) as reply:
            return reply.read().decode()

    def metrics(self):
        return samples(self.read())

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        rest = self.process.communicate(timeout=15)[1]
        assert self.process.returncode == 0, rest
        return rest


@pytest.fixture
def start_exporter():
    """Starts exporters; each is ended after the test, and ends well."""
    begun = []

    def begin(nodes, *arguments):
        begun.append(Exporter(nodes, *arguments))
        return begun[-1]
    yield begin
    for one in begun:
        one.close()


def redlock(nodes, *arguments, **more):
    return subprocess.run([BINARY, *arguments], env={**CLEAN, "REDLOCK_NODES": nodes}, capture_output=True, text=True, timeout=60, **more)


def take(nodes, *names, ttl="60s"):
    for name in names:
        done = redlock(nodes, "acquire", "-t", ttl, "--owner", "tester", name)
        assert done.returncode == 0, done.stderr


def asked(servers):
    """Commands that the servers have run, but for the questions of this function."""
    def commands(server):
        lines = server.ask("INFO", "commandstats").decode().split()
        return sum(int(re.search(r"calls=(\d+)", line)[1]) for line in lines if line.startswith("cmdstat_") and not line.startswith("cmdstat_info"))
    return [commands(server) for server in servers.servers]


# ---- what it says ----

def test_locks_and_nodes(start_exporter, own_quorum):
    nodes = guarded(own_quorum).nodes
    take(nodes, "one", "two", "three")
    waiting = subprocess.Popen([BINARY, "run", "-t", "10s", "one", "true"], env={**CLEAN, "REDLOCK_NODES": nodes}, start_new_session=True)
    exporter = start_exporter(nodes, "--interval", "1s")
    try:
        until(lambda: exporter.metrics()["redlock_lock_waiters", None] == 1, what="the waiter")
    finally:
        waiting.kill()
        waiting.wait()
    now = exporter.metrics()
    assert now["redlock_locks", 'state="held"'] == 3 and now["redlock_locks", 'state="split"'] == 0
    assert now["redlock_locks_waited_for", None] == 1 and now["redlock_lock_oldest_wait_seconds", None] > 0
    assert now["redlock_locks_complete", None] == 1
    assert now["redlock_quorum_up", None] == 1 and now["redlock_quorum_votes_needed", None] == 3
    assert now["redlock_quorum_members", None] == now["redlock_quorum_members_intact", None] == 5
    assert now["redlock_exporter_info", f'version="{version()}",mode="guarded"'] == 1
    for server in own_quorum.servers:
        assert now["redlock_node_up", f'node="{server.url}"'] == 1
        assert 0 < now["redlock_node_round_trip_seconds", f'node="{server.url}"'] < 5
        assert now["redlock_node_locks_visible", f'node="{server.url}"'] == 1

    def rates():
        return [value for (name, _), value in exporter.metrics().items() if name == "redlock_node_clock_rate"]
    until(lambda: len(rates()) == 5, what="the rates, which need two looks")
    assert all(0.9 < rate < 1.1 for rate in rates())


def test_the_document_has_each_metric(start_exporter, own_quorum):
    """Each metric is explained, and what is explained exists."""
    exporter = start_exporter(guarded(own_quorum).nodes, "--interval", "1s")
    exporter.read()
    own_quorum[0].ask("FLUSHALL")
    until(lambda: any(name == "redlock_node_recovering_seconds" for name, _ in exporter.metrics()), what="the recovery")
    text = exporter.read()
    part = re.search(r"\n## The exporter\n(.*?)\n## ", (SOURCE / "docs/operate/metrics.md").read_text(), re.DOTALL)[1]
    assert set(re.findall(r"`(redlock_\w+)", part)) == set(re.findall(r"^# TYPE (\S+) ", text, re.MULTILINE))
    labels = {(name, tuple(re.findall(r'(\w+)="', labels or ""))) for name, labels in samples(text)}
    for name, given in re.findall(r"`(redlock_\w+)(?:\{([\w,]+)\})?`", part):
        assert (name, tuple(given.split(",")) if given else ()) in labels, name


def version():
    return subprocess.run([BINARY, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]


def test_what_the_gateway_says_too_has_its_names(start, start_exporter, quorum):
    exporter, gateway = start_exporter(quorum.nodes), start(quorum.nodes, "--metrics", "127.0.0.1:0")

    def heads(text):
        return dict(re.findall(r"^# HELP (\S+) (.*)$", text, re.MULTILINE))
    ours, theirs = heads(exporter.read()), heads(page(gateway))
    both = set(ours) & set(theirs)
    assert both == {"redlock_node_up", "redlock_node_verdict", "redlock_reconnects_total"}
    assert all(ours[name] == theirs[name] for name in both)


def test_a_node_that_is_gone_and_no_passwords(start_exporter, own_quorum):
    exporter = start_exporter(own_quorum.nodes.replace("redis://", "redis://default:s3cret@"), "--interval", "1s")
    url = own_quorum[0].url.replace("redis://", "redis://default@")
    assert exporter.metrics()["redlock_node_up", f'node="{url}"'] == 1
    for server in own_quorum.servers[:3]:
        server.process.kill()
        server.process.wait()
    until(lambda: exporter.metrics()["redlock_quorum_up", None] == 0, what="the loss of the quorum")
    text = exporter.read()
    assert samples(text)["redlock_node_up", f'node="{url}"'] == 0
    assert "s3cret" not in text and "s3cret" not in exporter.said


def test_a_recovery_is_counted(start_exporter, own_quorum):
    exporter = start_exporter(guarded(own_quorum).nodes, "--interval", "1s")
    server = own_quorum[0]
    series = "redlock_node_recoveries_total", f'node="{server.url}"'
    assert exporter.metrics()[series] == 0
    server.ask("FLUSHALL")
    until(lambda: exporter.metrics()[series] == 1, what="the recovery")
    assert exporter.metrics()["redlock_quorum_members_intact", None] == 4


def test_a_user_that_may_not_see_the_locks_shows_none(start_exporter, own_quorum):
    for server in own_quorum.servers:
        server.ask("ACL", "SETUSER", "blind", "on", ">x", "~*", "&*", "+@all", "-scan", "-getrange", "-get")
    exporter = start_exporter(own_quorum.nodes.replace("redis://", "redis://blind:x@"))
    now = exporter.metrics()
    assert not any(name.startswith("redlock_lock") for name, _ in now)
    assert [value for (name, _), value in now.items() if name == "redlock_node_locks_visible"] == [0] * 5


def test_promtool_reads_it(start_exporter, quorum):
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    done = subprocess.run([promtool, "check", "metrics"], input=start_exporter(quorum.nodes).read(), capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# ---- what it asks ----

def test_many_scrapers_cost_the_nodes_as_much_as_one(start_exporter, own_quorum):
    take(own_quorum.nodes, "held")
    exporter = start_exporter(own_quorum.nodes, "--interval", "1h")
    first = exporter.read()
    before = asked(own_quorum)
    for _ in range(20):
        assert exporter.read() == first
    more = [now - then for now, then in zip(asked(own_quorum), before)]
    assert max(more) < 5, f"{more} requests for 20 reads: no more than its own, once in a while"


def test_scrapes_at_once_share_a_look(start_exporter, quorum):
    exporter = start_exporter(quorum.nodes, "--interval", "1h")
    readers = [subprocess.Popen(["curl", "-s", exporter.root + "/metrics"], stdout=subprocess.PIPE, text=True) for _ in range(8)]
    texts = {reader.communicate(timeout=30)[0] for reader in readers}
    assert len(texts) == 1 and "redlock_exporter_looks_total 1\n" in texts.pop()


def test_nobody_looks_and_nothing_is_asked(start_exporter, own_quorum):
    before = asked(own_quorum)
    exporter = start_exporter(own_quorum.nodes, "--interval", "1s")
    exporter.read("/healthz")
    time.sleep(2)
    assert asked(own_quorum) == before
    used = processor(exporter)
    exporter.read()
    time.sleep(0.5)
    rest = asked(own_quorum)
    time.sleep(3)
    more = [after - before for before, after in zip(rest, asked(own_quorum))]
    assert max(more) <= 1, more
    assert processor(exporter) - used < 0.3


def processor(exporter):
    with open(f"/proc/{exporter.process.pid}/stat", encoding="utf-8") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_it_changes_nothing(start_exporter, own_quorum):
    """Not even a node that lost its data: to recover it is the work of clients."""
    guarded(own_quorum)
    own_quorum[0].ask("FLUSHALL")
    exporter = start_exporter(own_quorum.nodes, "--interval", "1s")
    for _ in range(3):
        exporter.read()
        time.sleep(1)
    assert own_quorum[0].ask("DBSIZE") == 0
    writes = own_quorum[1].ask("INFO", "commandstats").decode()
    assert exporter.metrics()["redlock_node_up", f'node="{own_quorum[0].url}"'] == 0, writes


# ---- how it begins ----

@pytest.mark.parametrize("arguments, status, said", [
    (["-N", "redis://127.0.0.1:1", "--listen", "nonsense"], 78, "--listen nonsense: it is not HOST:PORT"),
    (["-N", "redis://127.0.0.1:1", "more"], 64, "takes no operand, but got 'more'"),
    ([], 78, "no nodes"),
    (["-N", "http://127.0.0.1"], 78, "http"),
    (["-N", "redis://127.0.0.1:1", "--interval", "1ms"], 64, "--interval is from 1s to 1h"),
])
def test_refused(arguments, status, said):
    done = subprocess.run([BINARY, "exporter", *arguments], env=CLEAN, capture_output=True, text=True, timeout=30)
    assert done.returncode == status and said in done.stderr, done


def test_a_port_that_is_taken(start_exporter, quorum):
    """71: another try may succeed, so systemd tries again."""
    taken = start_exporter(quorum.nodes).root.removeprefix("http://")
    done = subprocess.run([BINARY, "exporter", "-N", quorum.nodes, "--listen", taken], env=CLEAN, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (71, f"redlock: --listen {taken}: Address already in use\n")


def test_nothing_else_is_there(start_exporter, quorum):
    exporter = start_exporter(quorum.nodes)
    for path in ["/", "/look.json", "/readyz"]:
        with pytest.raises(urllib.error.HTTPError) as caught:
            exporter.read(path)
        assert caught.value.code == 404
