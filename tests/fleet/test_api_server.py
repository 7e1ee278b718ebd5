# SPDX-License-Identifier: BSD-2-Clause
"""The manifests and the chart, applied to a real API server: it knows all fields, and its admission has nothing to warn of. Then what
Helm refuses in a release that is there, and what Kubernetes' controllers do to servers when their manifest changes.

Needs kube-apiserver and etcd on the PATH, for the controllers kube-controller-manager, too. Go builds them, in more than an hour on two
processors: a go.mod that requires k8s.io/kubernetes v1.37.2, replaces each k8s.io module in its staging directory by v0.37.2, and
requires go.etcd.io/etcd/server/v3.
"""
import contextlib
import json
import shutil
import ssl
import subprocess
import time
import urllib.error
import urllib.request

import pytest
import yaml

from servers import free_ports, until
from test_manifests import CHART, FILES, OF_PROMETHEUS, PLACE, VALUES, by_kind, eviction, helm, only, rendered

KINDS = {"ConfigMap": "api/v1", "Service": "api/v1", "PodDisruptionBudget": "apis/policy/v1", "StatefulSet": "apis/apps/v1", "Deployment": "apis/apps/v1",
         "NetworkPolicy": "apis/networking.k8s.io/v1", "DaemonSet": "apis/apps/v1", "Job": "apis/batch/v1", "CronJob": "apis/batch/v1"}


class Api:
    def __init__(self, directory):
        programs = [shutil.which(name) for name in ("etcd", "kube-apiserver")]
        if None in programs:
            pytest.skip("needs kube-apiserver and etcd, which are not on the PATH")
        (directory / "tokens").write_text("token,admin,1,system:masters\n")
        subprocess.run(["openssl", "genrsa", "-out", directory / "key", "2048"], capture_output=True, check=True)
        self.port, *others = free_ports(3)
        store, peers = (f"http://127.0.0.1:{port}" for port in others)
        commands = [[programs[0], "--data-dir", directory / "etcd", "--listen-client-urls", store, "--advertise-client-urls", store, "--listen-peer-urls", peers],
                    [programs[1], "--etcd-servers", store, "--cert-dir", directory, "--secure-port", str(self.port), "--bind-address", "127.0.0.1",
                     "--token-auth-file", directory / "tokens", "--service-account-issuer", "https://localhost",
                     "--service-account-key-file", directory / "key", "--service-account-signing-key-file", directory / "key",
                     "--disable-admission-plugins", "ServiceAccount", "--service-cluster-ip-range", "10.0.0.0/24"]]
        self.log = (directory / "log").open("wb")
        self.processes = [subprocess.Popen(command, stdout=self.log, stderr=self.log) for command in commands]

    def end(self):
        for process in reversed(self.processes):
            process.terminate()
            process.wait()
        self.log.close()

    def ask(self, method, path, body=None, form="apply-patch+yaml"):
        """The status, the warnings and the answer."""
        request = urllib.request.Request(f"https://127.0.0.1:{self.port}/{path}", method=method, data=body,
                                         headers={"Authorization": "Bearer token", "Content-Type": f"application/{form}"})
        try:
            with urllib.request.urlopen(request, context=ssl._create_unverified_context(), timeout=60) as answer:
                return answer.status, answer.headers.get_all("Warning") or [], answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, [], error.read().decode()

    def is_ready(self):
        assert [process.poll() for process in self.processes] == [None] * 2, "etcd or the API server has ended"
        with contextlib.suppress(OSError):
            return self.ask("GET", "readyz")[0] == 200
        return False

    def apply(self, document, namespace):
        place = f"{KINDS[document['kind']]}/namespaces/{namespace}/{document['kind'].lower()}s".replace("policys", "policies")
        return self.ask("PATCH", f"{place}/{document['metadata']['name']}?fieldManager=test&fieldValidation=Strict&force=true", json.dumps(document).encode())


@pytest.fixture(scope="module")
def api(tmp_path_factory):
    server = Api(tmp_path_factory.mktemp("api"))
    try:
        until(server.is_ready, 150, "an API server that is ready")
        yield server
    finally:
        server.end()


@pytest.fixture
def namespace(api):
    """One of its own: what is there already may not be changed in every field."""
    name = f"locks-{time.monotonic_ns()}"
    made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"pod-security.kubernetes.io/warn": "restricted"}}}
    assert api.ask("PATCH", f"api/v1/namespaces/{name}?fieldManager=test", json.dumps(made).encode())[0] == 201
    return name


@pytest.fixture
def apply(api, namespace):
    def into(document):
        document["metadata"].pop("namespace", None)
        return api.apply(document, namespace)
    return into


def documents(text):
    return [each for each in yaml.safe_load_all(text) if each and each["kind"] not in OF_PROMETHEUS.split(",")]


def accepted(apply, text):
    for document in documents(text):
        status, warnings, said = apply(document)
        assert status in (200, 201) and warnings == [], f"{document['kind']} {document['metadata']['name']}: {status} {warnings} {said[:500]}"


@pytest.mark.parametrize("name", FILES)
def test_manifest(apply, name):
    accepted(apply, (PLACE / f"{name}.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("values", VALUES)
def test_chart(apply, values):
    accepted(apply, rendered(values))


def test_the_server_notices(apply):
    text = (PLACE / "redlock.yaml").read_text(encoding="utf-8")
    stateful, = [each for each in documents(text.replace("serviceName: redlock", "serviceNam: redlock")) if each["kind"] == "StatefulSet"]
    status, _, said = apply(stateful)
    assert status >= 400 and "serviceNam" in said, said
    job, = [each for each in documents(text) if each["kind"] == "Job"]
    job["metadata"]["name"] = "as-root"
    job["spec"]["template"]["spec"]["securityContext"]["runAsNonRoot"] = False
    status, warnings, _ = apply(job)
    assert status == 201 and any("restricted" in each for each in warnings)


# ---- a release ----

class Release:
    """What Helm does on the API server; the commands that it prints are for this namespace."""

    def __init__(self, api, namespace, chart):
        self.api, self.namespace, self.chart = api, namespace, chart
        self.exec = f"kubectl -n {namespace} exec deploy/redlock-exporter -- redlock quorum"

    def helm(self, *words, status=0):
        return helm(*words, "-n", self.namespace, "--kube-apiserver", f"https://127.0.0.1:{self.api.port}", "--kube-token", "token",
                    "--kube-insecure-skip-tls-verify", status=status)

    def upgrade(self, *values, status=0):
        return self.helm("upgrade", "--install", "--reuse-values", "redlock", self.chart, *(word for value in values for word in ("--set", value)), status=status)

    def url(self, number):
        return f"redis://redlock-{number}.redlock.{self.namespace}.svc.cluster.local."

    def get(self, kind, name=""):
        status, _, said = self.api.ask("GET", f"{KINDS[kind]}/namespaces/{self.namespace}/{kind.lower()}s/{name}")
        assert status == 200, said
        return json.loads(said)

    def patch(self, path, body):
        status, _, said = self.api.ask("PATCH", f"{path}", json.dumps(body).encode(), "merge-patch+json")
        assert status == 200, said

    @property
    def conf(self):
        return self.get("ConfigMap", "redlock")["data"]["redlock.conf"]

    @property
    def jobs(self):
        return [each["metadata"]["name"] for each in self.get("Job")["items"]]


@pytest.fixture
def release(api, namespace, tmp_path):
    """An API server that Go alone has built does not know its version."""
    chart = shutil.copytree(CHART, tmp_path / "chart")
    (chart / "Chart.yaml").write_text((CHART / "Chart.yaml").read_text(encoding="utf-8").replace("kubeVersion", "# kubeVersion"))
    return Release(api, namespace, chart)


def test_ttl_max_only_grows(release):
    """init waits for it when all servers were lost: the longest TTL that a lock of this release ever had."""
    release.upgrade("ttlMax=60s")
    for before, shorter, longer in (("60s", "59s", "61s"), ("61s", "1m", "90000ms"), ("90000ms", "89s", "2h"), ("2h", "119m", "120m")):
        said = release.upgrade(f"ttlMax={shorter}", status=1)
        assert f"ttlMax is {before} in this release, and {shorter} is shorter" in said and "a lock could have two holders" in said
        assert f"Keep ttlMax={before}, and lower the quorum's own: {release.exec} set-ttl-max --yes {shorter}" in said
        assert f"ttl-max = {before}\n" in release.conf
        release.upgrade(f"ttlMax={longer}")
        assert f"ttl-max = {longer}\n" in release.conf
    # As an operator may have written it.
    release.patch(f"api/v1/namespaces/{release.namespace}/configmaps/redlock", {"data": {"redlock.conf": "ttl-max=7201.5\n"}})
    assert "ttlMax is 7201.5 in this release" in release.upgrade("ttlMax=2h", status=1)
    release.upgrade("ttlMax=7202s")


@pytest.mark.parametrize("first, then, old, new", [
    ("nodes=3", "tls.secretName=certificate", "redis://", "rediss://"), ("tls.secretName=certificate", "tls.secretName=", "rediss://", "redis://"),
    ("nodes=5", "clusterDomain=other", "svc.cluster.local.", "svc.other.")])
def test_the_urls_of_a_release_stay(release, first, then, old, new):
    release.upgrade(first)
    said = release.upgrade(then, status=1)
    sentence, _, cure = said.partition(". Stop the programs that take locks, then: ")
    before, after = sentence.rpartition(": ")[2].removesuffix(", and all locks would be lost").split(" would become ")
    assert (old in before, old in after, new in after) == (True, False, True), said
    assert cure.startswith(f"helm -n {release.namespace} uninstall redlock; sleep 61; and install it again with these values"), said
    release.helm("uninstall", "redlock")
    release.upgrade(first, then)
    assert new in release.conf


def test_from_three_servers_to_five_and_back(release):
    """Up, with the commands that follow. Down, only when the servers have ended that are no longer members (fleet.pods does what is printed)."""
    release.upgrade()
    said = release.upgrade("nodes=5")
    assert [line for line in said.splitlines() if "quorum add" in line] == [f"{release.exec} add --yes {release.url(number)}" for number in (3, 4)]
    assert "Make the new servers members, then restart the programs that take locks:" in said
    assert release.conf.count("nodes = ") == 5 and "members" not in release.upgrade()
    scale = f"kubectl -n {release.namespace} scale statefulset/redlock --replicas=3"
    said = release.upgrade("nodes=3", status=1)
    assert f"5 servers run, and nodes is 3: the others are members, and locks rest on them. First: {release.exec} remove --yes {release.url(4)} && " in said
    assert f"{release.exec} remove --yes {release.url(3)} && {scale}" in said
    release.patch(f"apis/apps/v1/namespaces/{release.namespace}/statefulsets/redlock", {"spec": {"replicas": 3}})
    release.upgrade("nodes=3")
    assert release.conf.count("nodes = ") == 3


def test_an_upgrade_after_a_wrong_installation(release):
    """The Job of before may still be there, and no Job can change. After the loss of all servers the same values make it again."""
    release.upgrade("registry=wrong.example.com")
    wrong, = release.jobs
    release.upgrade("registry=right.example.com")
    right, = release.jobs
    release.upgrade()
    again, = release.jobs
    assert len({wrong, right, again}) == 3
    release.helm("rollback", "redlock", "2")
    assert release.jobs == [right]


def test_the_notes(release):
    said = release.upgrade("ttlMax=2h")
    assert "--timeout=7801s" in said and "Servers that run are as before" not in said
    assert f"-n {release.namespace} wait --for=condition=complete job -l app.kubernetes.io/name=redlock-init,app.kubernetes.io/instance=redlock" in said
    assert "Servers that run are as before" in release.upgrade("tag=0.1.1")


# ---- the controllers ----

class Servers:
    """The pods of a release. What a kubelet would say of them is said here: that they run, and whether they are ready."""

    def __init__(self, release):
        self.release = release

    def pods(self):
        """{name: (uid, image)} of those that do not end."""
        found = json.loads(self.release.api.ask("GET", f"api/v1/namespaces/{self.release.namespace}/pods")[2])["items"]
        return {each["metadata"]["name"]: (each["metadata"]["uid"], each["spec"]["containers"][0]["image"]) for each in found
                if "deletionTimestamp" not in each["metadata"]}

    def vote(self, *numbers):
        for number in numbers:
            body = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}
            self.release.patch(f"api/v1/namespaces/{self.release.namespace}/pods/redlock-{number}/status", body)

    def settle(self):
        """The controller has seen the newest manifest, and had the time to act."""
        def seen():
            it = self.release.get("StatefulSet", "redlock")
            return it["status"].get("observedGeneration") == it["metadata"]["generation"]
        until(seen, 60, "the controller")
        time.sleep(2)

    def replaced(self, before):
        """The numbers of the servers that are not those of before."""
        now = until(lambda: next((pods for pods in [self.pods()] if len(pods) == 3), None), 60, "three servers")
        return [number for number in range(3) if now[f"redlock-{number}"][0] != before[f"redlock-{number}"][0]]

    def evict(self, number):
        name = f"redlock-{number}"
        return self.release.api.ask("POST", f"api/v1/namespaces/{self.release.namespace}/pods/{name}/eviction", json.dumps(eviction(name)).encode(), "json")


@pytest.fixture(scope="module")
def controllers(api, tmp_path_factory):
    """Those of Kubernetes before 1.37, which this setting is the default of since."""
    program = shutil.which("kube-controller-manager")
    if program is None:
        pytest.skip("needs kube-controller-manager, which is not on the PATH")
    directory = tmp_path_factory.mktemp("controllers")
    (directory / "config").write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "it", "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "clusters": [{"name": "it", "cluster": {"server": f"https://127.0.0.1:{api.port}", "insecure-skip-tls-verify": True}}],
        "users": [{"name": "it", "user": {"token": "token"}}]}))
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen([program, "--kubeconfig", directory / "config", "--controllers", "statefulset-controller,disruption-controller",
                                    "--leader-elect=false", "--secure-port", "0", "--feature-gates", "MaxUnavailableStatefulSet=false"], stdout=log, stderr=log)
        yield process
        process.terminate()
        process.wait()


@pytest.fixture
def servers(controllers, release):
    release.upgrade()
    made = Servers(release)
    until(lambda: len(made.pods()) == 3, 60, "three servers")
    made.vote(0, 1, 2)
    made.settle()
    assert controllers.poll() is None
    return made


def test_a_change_replaces_no_server(servers, release):
    """Nor do a second one and a rollback; the loop of the page does, one at a time."""
    before = servers.pods()
    release.upgrade("tag=0.1.1")
    release.upgrade("tag=0.1.2")
    release.helm("rollback", "redlock", "2")
    servers.settle()
    assert servers.replaced(before) == []
    until(lambda: servers.evict(0)[0] == 201, 60, "an eviction")
    assert servers.evict(1)[0] == 429 and servers.replaced(before) == [0]
    assert servers.pods()["redlock-0"][1].endswith(":0.1.1")
    release.upgrade("tag=0.1.3")
    servers.settle()
    status, _, said = servers.evict(1)
    assert status == 429 and "disruption budget" in said and servers.replaced(before) == [0]
    servers.vote(0)
    until(lambda: servers.evict(1)[0] == 201, 60, "the next eviction")
    assert servers.replaced(before) == [0, 1] and servers.evict(2)[0] == 429


def test_what_a_rolling_update_would_do(servers, release):
    """Why the strategy is OnDelete: a second change takes a server that votes while another does not yet."""
    path = f"apis/apps/v1/namespaces/{release.namespace}/statefulsets/redlock"
    release.patch(path, {"spec": {"updateStrategy": {"type": "RollingUpdate"}}})
    before = servers.pods()

    def change(tag):
        release.patch(path, {"spec": {"template": {"metadata": {"labels": {"tag": tag}}}}})
    change("one")
    until(lambda: servers.replaced(before) == [2], 60, "the first server")
    servers.vote(2)
    until(lambda: servers.replaced(before) == [1, 2], 60, "the second server")
    during = servers.pods()
    change("two")
    until(lambda: servers.replaced(during) == [2], 60, "the end of a server that votes, while redlock-1 does not")
