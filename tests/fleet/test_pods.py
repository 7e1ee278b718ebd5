# SPDX-License-Identifier: BSD-2-Clause
"""What Kubernetes does to locks: real servers from their image and real clients, in pods that start, end and freeze as there.

The arguments, the probes and the configuration are those of the manifests; ttl_max is shorter.
"""
import contextlib
import functools
import hashlib
import itertools
import json
import os
import socket
import subprocess
import time
import urllib.request

import pytest
import yaml

import tools
from documents import BINARY, SOURCE
from layout import Image, build, users_acl
from pods import DOMAIN, Cluster, ip, own_network
from servers import until

TTL, TTL_MAX = 4, 10
PASSWORD = "not a secret"
NODES = [f"redlock-{number}.redlock" for number in range(5)]
# A busy machine answers late, and that is not what the tests are about.
PATIENT = ["--ttl", f"{TTL}s", "--node-timeout", "400ms"]


@functools.cache
def manifest(kind, file="redlock"):
    documents = yaml.safe_load_all((SOURCE / f"packaging/kubernetes/{file}.yaml").read_text(encoding="utf-8"))
    found, = [each for each in documents if each["kind"] == kind]
    return found


def container(kind, file="redlock"):
    only, = manifest(kind, file)["spec"]["template"]["spec"]["containers"]
    return only


def container_of(file, kind, name):
    documents = yaml.safe_load_all((SOURCE / f"packaging/kubernetes/{file}.yaml").read_text(encoding="utf-8"))
    found, = [each for each in documents if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    only, = found["spec"]["template"]["spec"]["containers"]
    return only


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    own_network()
    os.setpriority(os.PRIO_PROCESS, 0, -10)  # what else the machine does is not what the tests are about
    directory = tmp_path_factory.mktemp("cluster")
    made = Cluster(directory)
    mounted = directory / "redlock"
    config = manifest("ConfigMap")["data"]["redlock.conf"]
    assert "ttl-max = 60s" in config
    (mounted / "redlock.conf").write_text(config.replace("ttl-max = 60s", f"ttl-max = {TTL_MAX}s").replace("/etc/redlock", str(mounted)))
    (mounted / "password").write_text(PASSWORD)
    (mounted / "users.acl").write_text(users_acl(hashlib.sha256(PASSWORD.encode()).hexdigest()))
    directory.chmod(0o755)
    (mounted / "password").chmod(0o640)
    yield made
    made.close()
    os.setpriority(os.PRIO_PROCESS, 0, 0)


def listens(pod, port=6379):
    with socket.socket() as connection:
        connection.settimeout(5)
        return connection.connect_ex((pod.address, port)) == 0


def answer(pod, probe):
    return pod.run(*probe["exec"]["command"], environ={"REDISCLI_AUTH": PASSWORD, "PATH": "/usr/bin:/usr/sbin:/bin"})


def passes(pod, probe):
    """A probe of the manifests, as a kubelet makes it. redis-cli ends with 0 after a refusal, too."""
    if "tcpSocket" in probe:
        return listens(pod)
    said, status = answer(pod, probe)
    return status == 0 and "does not vote" not in said


class Fleet:
    """Three nodes of a quorum; the commands of clients."""

    def __init__(self, cluster, image):
        self.cluster, self.root = cluster, image
        self.environ = {"REDLOCK_CONFIG": str(cluster.directory / "redlock" / "redlock.conf")}
        self.nodes = [self.node(number) for number in range(3)]

    def node(self, number):
        entry = Image(self.root.parent / "layouts" / "redlock-node").config["config"]["Entrypoint"]
        return self.cluster.pod(*entry, *container("StatefulSet")["args"], root=self.root, name=NODES[number])

    def ready(self, node, probe="readinessProbe"):
        return passes(node, container("StatefulSet")[probe])

    def votes(self, node, seconds=60):
        """Asks as often as a person would; the test itself takes little time of the processors."""
        end = time.monotonic() + seconds
        while not self.ready(node):
            assert time.monotonic() < end, f"{node.address} does not vote after {seconds} s"
            time.sleep(0.3)

    def pod(self, *command, environ=None, **more):
        return self.cluster.pod(*command, environ=environ or self.environ, **more)

    def client(self, *words, **more):
        return self.pod(BINARY, *words, output=subprocess.PIPE, **more)

    def said(self, *words, status=0, timeout=60, **more):
        pod = self.client(*words, **more)
        said = pod.shim.stdout.read()
        assert pod.wait(timeout) == status, said
        return said


@pytest.fixture(scope="module")
def fleet(cluster, static, tmp_path_factory, log):
    directory = tmp_path_factory.mktemp("image")
    build(directory / "layouts", "redlock-node", static=static)
    directory.chmod(0o755)
    root = Image(directory / "layouts" / "redlock-node").unpack(directory / "root")
    root.chmod(0o755)
    (root / "proc").mkdir()
    (root / "etc/redlock").mkdir()
    for name in ("resolv.conf", "hosts"):
        (root / "etc" / name).touch()
    begun = time.monotonic()
    made = Fleet(cluster, root)
    until(lambda: all(made.ready(node, "livenessProbe") for node in made.nodes), 60, "three nodes")
    assert not any(map(made.ready, made.nodes)), "ready before it is a quorum"
    init = container("Job")["args"]
    made.said(*init)
    assert all(map(made.ready, made.nodes))
    log(f"\nthree nodes vote {time.monotonic() - begun:.1f} s after they were created, ttl_max ({TTL_MAX} s) included")
    record = made.said("quorum", "status", "--json")
    made.said(*init)
    assert made.said("quorum", "status", "--json") == record, "made again, it changes something"
    return made


def holds(path):
    """A command that says when it began, and stays."""
    return ["sh", "-c", 'date +%s.%N > "$0.new" && mv "$0.new" "$0" && exec sleep 1000', str(path)]


def began(path, seconds=30, what="the lock"):
    return float(until(lambda: path.exists() and path.read_text(), seconds, what))


# ---- a holder ----

@pytest.mark.parametrize("how, least, most", [("TERM", 0, 1), ("KILL", TTL / 3, TTL + 1.5)])
def test_the_end_of_a_holder(fleet, tmp_path, log, how, least, most):
    """TERM to process 1 of the container: the next one begins at once. KILL, after the grace period: within the TTL."""
    holder = fleet.pod(BINARY, "run", *PATIENT, f"job-{how}", "--", *holds(tmp_path / "first"))
    began(tmp_path / "first")
    next_one = fleet.pod(BINARY, "run", *PATIENT, f"job-{how}", "--", *holds(tmp_path / "second"))
    time.sleep(1.5)  # in the queue
    assert not (tmp_path / "second").exists()
    ended = time.time()
    holder.term() if how == "TERM" else holder.kill()
    took = began(tmp_path / "second", most + 20) - ended
    log(f"{how}: the next one holds the lock after {took * 1000:.0f} ms (TTL {TTL} s)")
    assert least <= took <= most
    if how == "TERM":
        assert holder.wait(10) == 128 + 15
    next_one.kill()


def test_a_frozen_holder(fleet, tmp_path, log):
    """Its lock passes on within the TTL. When it goes on, its command is ended before it does anything."""
    ticks = f'touch {tmp_path}/ticks; date +%s.%N > {tmp_path}/first; while sleep 0.1; do date +%s.%N >> {tmp_path}/ticks; done'
    holder = fleet.pod(BINARY, "run", *PATIENT, "frozen", "--", "sh", "-c", ticks)
    began(tmp_path / "first")
    begun, how = time.time(), holder.freeze()
    next_one = fleet.pod(BINARY, "run", *PATIENT, "frozen", "--", *holds(tmp_path / "second"))
    taken = began(tmp_path / "second")
    log(f"frozen by {how}: the next one holds the lock after {taken - begun:.2f} s (TTL {TTL} s)")
    assert taken - begun <= TTL + 1.5
    holder.thaw()
    assert holder.wait(15) == 80
    late = [tick for tick in map(float, (tmp_path / "ticks").read_text().split()) if tick > taken]
    log(f"after the thaw its command wrote {len(late)} more times")
    assert len(late) <= 1, late
    next_one.kill()


def test_a_surge(fleet, tmp_path, log):
    """maxSurge: the new pod waits until the old one's command has ended."""
    command = [BINARY, "elect", *PATIENT, "scheduler", "--"]
    old = fleet.pod(*command, *holds(tmp_path / "old"))
    began(tmp_path / "old")
    new = fleet.pod(*command, *holds(tmp_path / "new"))
    time.sleep(TTL + 1)
    assert not (tmp_path / "new").exists()
    ended = time.time()
    old.term()
    took = began(tmp_path / "new") - ended
    log(f"the new pod leads {took * 1000:.0f} ms after TERM to the old one")
    assert took <= 1
    new.kill()


def test_only_the_leader_is_ready(fleet, tmp_path):
    """The Deployment `scheduler` of the examples: what its probe asks, and the Service leads to, listens on the leader alone."""
    words = container_of("examples", "Deployment", "scheduler")
    assert words["command"][:2] == ["redlock", "elect"] and words["readinessProbe"]["tcpSocket"] == {"port": 8080}
    command = [BINARY, "elect", *PATIENT, "service", "--", "python3", "-m", "http.server", "8080"]

    leader = fleet.pod(*command)
    until(lambda: listens(leader, 8080), 30, "the leader")
    standby = fleet.pod(*command)
    time.sleep(TTL + 1)
    assert (listens(leader, 8080), listens(standby, 8080)) == (True, False)
    leader.term()
    until(lambda: listens(standby, 8080), 10, "the standby")
    assert leader.ended
    standby.kill()


# ---- names ----

def test_one_look_up_for_each_name(fleet, cluster):
    """The dot at the end of the URLs keeps the search domains out, also of a name that is away; without it they are all asked."""
    def asked(*words):
        pod = fleet.client("show", *words, "x")
        assert pod.wait(60) == 0, pod.shim.stdout.read()
        return [name for client, name, _ in cluster.names.queries if client == pod.address]
    full = [f"{node}.{DOMAIN}" for node in NODES[:3]]
    names = asked()
    assert set(names) == set(full) and len(names) <= 6, names  # an A and an AAAA for each
    address = cluster.names.known.pop(full[0])
    try:
        assert set(asked()) == set(full)
        assert len(set(asked("--nodes", ",".join(f"redis://{name}" for name in full)))) == 3 + 3
    finally:
        cluster.names.known[full[0]] = address


# ---- the gateway and the exporter ----

def page(address, port, path):
    with contextlib.suppress(OSError):
        return urllib.request.urlopen(f"http://{address}:{port}{path}", timeout=5).read().decode()


def six(number, pod):
    """A further address of a pod, of IPv6."""
    address = f"fd00:10:42::{number}"
    subprocess.run(["nsenter", "-t", str(pod.pid), "-n", "ip", "addr", "add", f"{address}/64", "dev", "eth0", "nodad"], check=True)
    return address


def test_gateway_and_exporter(fleet, cluster):
    """With the arguments and the probes of the manifests, by both families. A client gives the password of the Secret."""
    manifests = container("DaemonSet", "gateway"), container("Deployment")
    gateway, exporter = ([word.replace("/etc/redlock", f"{cluster.directory}/redlock") for word in words]
                         for words in (manifests[0]["args"], manifests[1]["command"][1:]))
    pods = fleet.client("serve", *gateway), fleet.client("exporter", *exporter)
    for pod, made, probe in zip(pods, manifests, ("readinessProbe", "livenessProbe")):
        port, = [each["containerPort"] for each in made["ports"] if each["name"] == "metrics"]
        until(lambda: page(pod.address, port, made[probe]["httpGet"]["path"]), 30, probe)
        assert page(pod.address, port, "/metrics").count("redlock_node_up{") == 3
    ip("addr", "add", "fd00:10:42::1/64", "dev", "br0", "nodad")
    hosts = [six(number, pod) for number, pod in enumerate((*pods, *fleet.nodes[:1]), 2)]
    for host, made, probe in zip(hosts, manifests, ("readinessProbe", "livenessProbe")):
        port, = [each["containerPort"] for each in made["ports"] if each["name"] == "metrics"]
        assert page(f"[{host}]", port, made[probe]["httpGet"]["path"])
    for host in (pods[0].address, hosts[0], hosts[2]):
        with socket.create_connection((host, 6379), timeout=10) as connection:
            connection.sendall(b"SET x me NX PX 5000\r\n")
            assert connection.recv(1000).startswith(b"-NOAUTH"), host
    with socket.create_connection((hosts[0], 6379), timeout=10) as connection:
        for request, answer in ((b"SET x me NX PX 5000", b"-NOAUTH"), (b'AUTH "%s"' % PASSWORD.encode(), b"+OK"), (b"SET x me NX PX 5000", b"+OK")):
            connection.sendall(request + b"\r\n")
            assert connection.recv(1000).startswith(answer)
    for pod in pods:
        pod.term()
        assert pod.wait(10) == 0


# ---- nodes ----

def test_a_frozen_node(fleet, tmp_path, log):
    holder = fleet.pod(BINARY, "run", *PATIENT, "through", "--", *holds(tmp_path / "first"))
    began(tmp_path / "first")
    how = fleet.nodes[0].freeze()
    begun = time.monotonic()
    fleet.said("run", *PATIENT, "meanwhile", "--", "true")
    log(f"a node frozen by {how}: another lock after {time.monotonic() - begun:.2f} s")
    time.sleep(TTL + 1)
    assert not holder.ended, "the lock was lost"
    fleet.nodes[0].thaw()
    fleet.votes(fleet.nodes[0])
    time.sleep(TTL / 2)  # the node has the lock again
    assert not holder.ended
    holder.kill()


def test_from_three_nodes_to_five_and_back(fleet, tmp_path, log):
    """By the commands that the chart prints. A client that knows three holds its lock throughout; new ones know five."""
    def five(*words, **more):
        return fleet.said(*words, environ={"REDLOCK_CONFIG": str(config)}, **more)

    def members():
        return len(json.loads(five("quorum", "status", "--json"))["members"])
    config = fleet.cluster.directory / "redlock" / "five.conf"
    lines = (config.parent / "redlock.conf").read_text().splitlines()
    urls = [f"redis://redlock-{number}.redlock.{DOMAIN}." for number in (3, 4)]
    config.write_text("\n".join([f"nodes = {url}" for url in urls] + lines))
    holder = fleet.pod(BINARY, "run", *PATIENT, "through", "--", *holds(tmp_path / "held"))
    began(tmp_path / "held")
    init = container("Job")["args"]
    more = [fleet.node(number) for number in (3, 4)]
    until(lambda: all(fleet.ready(node, "livenessProbe") for node in more), 60, "two more nodes")
    assert "redlock quorum add" in five(*init, status=75), "its Job is tried again until they are members"
    five("run", *PATIENT, "before", "--", "true")
    for url, node in zip(urls, more):
        assert not fleet.ready(node)
        begun = time.monotonic()
        five("quorum", "add", "--yes", url)
        log(f"{url} votes after {time.monotonic() - begun:.1f} s")
        fleet.votes(node)
    assert "the quorum is there" in five(*init) and members() == 5
    for node in fleet.nodes[1:]:
        node.freeze()
    five("run", *PATIENT, "two are away", "--", "true")
    for node in fleet.nodes[1:]:
        node.thaw()
        fleet.votes(node)
    assert not holder.ended, "the lock was lost"
    for url, node in reversed(list(zip(urls, more))):
        five("quorum", "remove", "--yes", url)
    for node in more:
        node.kill()
    five("run", *PATIENT, "after", "--", "true")
    assert members() == 3 and "the quorum is there" in fleet.said(*init)
    time.sleep(TTL)
    assert not holder.ended, "the lock was lost"
    holder.kill()


# ---- TLS ----

def certificates(directory, name, days=2):
    """What cert-manager puts into a Secret: of an authority that only this test has, for all names of a headless Service."""
    def openssl(*words):
        subprocess.run(["openssl", *words], cwd=directory, check=True, capture_output=True)
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=authority", "-keyout", "ca.key",
            "-out", "ca.crt", "-days", "2")
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=redlock", "-keyout", "tls.key", "-out", "csr")
    (directory / "names").write_text(f"subjectAltName=DNS:*.{name}.{DOMAIN}\n")
    openssl("x509", "-req", "-in", "csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names", "-out", "tls.crt",
            "-days", str(days))
    for file in ("ca.crt", "tls.crt", "tls.key"):
        (directory / file).chmod(0o644)


def test_encrypted(fleet, cluster):
    """Three nodes, a client and the probes, as the chart renders them with `tls.secretName`. Without TLS nothing answers."""
    helm = tools.program("helm", "helm.sh/helm/v3/cmd/helm@v3.17.3")
    made = subprocess.run([helm, "template", "secure", SOURCE / "packaging/kubernetes/chart", "-n", "locks", "--kube-version", tools.VERSIONS[0],
                           "--set", "tls.secretName=tls"],
                          capture_output=True, text=True, check=True)
    documents = {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(made.stdout) if each}
    node, = documents["StatefulSet", "secure"]["spec"]["template"]["spec"]["containers"]
    mounted = cluster.directory / "redlock"
    certificates(mounted, "secure")
    config = documents["ConfigMap", "secure"]["data"]["redlock.conf"]
    (mounted / "secure.conf").write_text(config.replace("/etc/redlock", str(mounted)).replace("ttl-max = 60s", f"ttl-max = {TTL_MAX}s"))
    entry = Image(fleet.root.parent / "layouts" / "redlock-node").config["config"]["Entrypoint"]
    nodes = [cluster.pod(*entry, *node["args"], root=fleet.root, name=f"secure-{number}.secure") for number in range(3)]
    until(lambda: all(passes(pod, node["livenessProbe"]) for pod in nodes), 60, "three nodes")
    assert not passes(nodes[0], node["readinessProbe"])
    environ = {"REDLOCK_CONFIG": str(mounted / "secure.conf")}
    for words in (["quorum", "init", "--yes"], ["run", *PATIENT, "encrypted", "--", "true"]):
        client = cluster.pod(BINARY, *words, environ=environ, output=subprocess.PIPE)
        said = client.shim.stdout.read()
        assert client.wait(60) == 0, said
    assert all(passes(pod, node["readinessProbe"]) for pod in nodes)
    (mounted / "plain.conf").write_text((mounted / "secure.conf").read_text().replace("rediss://", "redis://"))
    plain = cluster.pod(BINARY, "run", "-n", "encrypted", "--", "true", environ={"REDLOCK_CONFIG": str(mounted / "plain.conf")})
    assert plain.wait(60) == 69
    # A certificate that has expired keeps clients out. A restart would only take the vote, too; and servers with a certificate of
    # another CA than that of the mounted file can be replaced.
    certificates(mounted, "secure", days=0)
    assert all(passes(pod, node["readinessProbe"]) for pod in nodes)
    nodes[0].kill()
    nodes[0] = cluster.pod(*entry, *node["args"], root=fleet.root, name="secure-0.secure")
    until(lambda: passes(nodes[0], node["livenessProbe"]), 30, "a node")
    said, status = answer(nodes[0], node["readinessProbe"])
    assert status != 0 and "does not vote" in said
    assert passes(nodes[0], node["livenessProbe"])
    for pod in nodes:
        pod.kill()


WAITER = """
while [ ! -e "$2/stop" ]; do
    sleep "$((3 + $3 % 7)).$(($3 * 37 % 100))"
    export ASKED=$(date +%s.%N)
    "$0" run --ttl TTLs --node-timeout 400ms "wait-$1" -- sh -c '
        entered=$(date +%s.%N); sleep 0.2; echo "$0 $ASKED $entered $(date +%s.%N)" >> "$1/waits"' "$1" "$2" || echo "failed $?" >> "$2/waits"
done
""".replace("TTLs", f"{TTL}s")


def replaced(fleet, number, order):
    """A drain of one node: its pod ends, and a new one with another address has its name."""
    names, name, old = fleet.cluster.names.known, f"{NODES[number]}.{DOMAIN}", fleet.nodes[number]
    if order == "its name goes first":
        del names[name]
        time.sleep(1)
    old.term()
    old.wait(10)
    if order == "its name goes last":
        time.sleep(1)
        del names[name]
        time.sleep(0.5)
    fleet.nodes[number] = fleet.node(number)
    assert names[name] != old.address
    return fleet.nodes[number]


def test_a_rolling_drain(fleet, tmp_path, log):
    """All nodes, one at a time, under 20 holders and 50 waiters for ten locks: no lock is lost, and nobody waits longer than ttl_max."""
    clients = [fleet.pod("sleep", "1000") for _ in range(10)]
    environ = {**os.environ, **fleet.environ}
    holders = [clients[number % 10].start(BINARY, "run", *PATIENT, f"hold-{number}", "--", *holds(tmp_path / f"held-{number}"), env=environ)
               for number in range(20)]
    for number in range(20):
        began(tmp_path / f"held-{number}", 60)
    waiters = [clients[number % 10].start("sh", "-c", WAITER, BINARY, number % 10, tmp_path, number, env=environ) for number in range(50)]
    begun = time.monotonic()
    time.sleep(3)
    for number, order in enumerate(("its name goes first", "its name goes last", "both at once")):
        at = time.monotonic()
        node = replaced(fleet, number, order)
        assert not fleet.ready(node), "ready without what the others know"
        fleet.votes(node)
        log(f"node {number} ({order}): a new pod at {node.address} votes {time.monotonic() - at:.1f} s after the drain began")
        assert [holder.poll() for holder in holders] == [None] * 20, f"a lock was lost with node {number}"
        time.sleep(TTL + 1)  # successThreshold of the readiness probe
    (tmp_path / "stop").touch()
    for waiter in waiters:
        assert waiter.wait(60) == 0
    assert [holder.poll() for holder in holders] == [None] * 20, "a lock was lost"
    lines = (tmp_path / "waits").read_text().splitlines()
    assert not [line for line in lines if line.startswith("failed")], lines
    visits = [(lock, *map(float, times)) for lock, *times in map(str.split, lines)]
    waited = sorted(entered - asked for _, asked, entered, _ in visits)
    log(f"{len(visits)} acquisitions by 50 waiters in {time.monotonic() - begun:.0f} s: median {waited[len(waited) // 2] * 1000:.0f} ms, "
        f"longest {waited[-1]:.2f} s; ttl_max {TTL_MAX} s; 20 locks held throughout")
    for lock, group in itertools.groupby(sorted(visits), key=lambda visit: visit[0]):
        inside = sorted((entered, left) for _, _, entered, left in group)
        assert all(left <= entered for (_, left), (entered, _) in itertools.pairwise(inside)), f"two inside wait-{lock}"
    assert len(visits) >= 100, len(visits)
    assert waited[-1] <= TTL_MAX
    for pod in clients:
        pod.kill()
