# SPDX-License-Identifier: BSD-2-Clause
"""The manifests: what they promise, by themselves; then each against Kubernetes' own schemas, and the chart by Helm."""
import hashlib
import json
import os
import re
import shutil
import subprocess

import pytest
import yaml

import tools
from documents import SOURCE, Document
from layout import users_acl

PLACE = SOURCE / "packaging/kubernetes"
CHART = PLACE / "chart"
FILES = ("redlock", "gateway", "monitoring", "examples")
VALUES = sorted(path.name for path in (CHART / "ci").glob("*-values.yaml"))
KINDS = ("configmap-v1", "service-v1", "statefulset-apps-v1", "daemonset-apps-v1", "deployment-apps-v1", "job-batch-v1", "cronjob-batch-v1",
         "poddisruptionbudget-policy-v1", "networkpolicy-networking-v1")
TOOLS = pytest.mark.tools
OF_PROMETHEUS = "PodMonitor,PrometheusRule"


def read(name):
    return [each for each in yaml.safe_load_all((PLACE / f"{name}.yaml").read_text(encoding="utf-8")) if each]


def by_kind(documents):
    return {(each["kind"], each["metadata"]["name"]): each for each in documents}


def only(kind, documents):
    found, = [each for each in documents if each["kind"] == kind]
    return found


def pods(documents):
    """(name, spec, labels) of each pod that these make."""
    for each in documents:
        spec = each.get("spec", {})
        spec = spec.get("jobTemplate", {}).get("spec", spec)
        if "template" in spec:
            yield each["metadata"]["name"], spec["template"]["spec"], spec["template"]["metadata"]["labels"]


ALL_PODS = [pytest.param(*pod, id=pod[0]) for name in FILES for pod in pods(read(name))]


@pytest.mark.parametrize("name, pod, labels", ALL_PODS)
def test_restricted(name, pod, labels):
    """The pod security standard `restricted`, and nothing of the API server."""
    security = pod["securityContext"]
    assert security["runAsNonRoot"] and security["runAsUser"] == 65532 and security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    for container in pod["containers"] + pod.get("initContainers", []):
        assert container["securityContext"] == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
        assert all(isinstance(word, str) for word in container.get("args", []) + container.get("command", []))
        assert not [variable for variable in container.get("env", []) if "PASSWORD" in variable["name"]]
    assert not set(pod) & {"hostNetwork", "hostPID", "hostIPC"} and all("hostPath" not in volume for volume in pod.get("volumes", []))
    if name != "redlock":
        assert labels["redlock-client"] == "true", "the network policy keeps it from the nodes"


def test_a_drain_never_takes_two():
    """The budget counts ready pods, and readiness says that a node votes, for as long as a lock may rest on the two others."""
    made = by_kind(read("redlock"))
    assert made["PodDisruptionBudget", "redlock"]["spec"]["maxUnavailable"] == 1
    spec = made["StatefulSet", "redlock"]["spec"]
    container, = spec["template"]["spec"]["containers"]
    ready = container["readinessProbe"]
    assert ready["successThreshold"] * ready["periodSeconds"] >= 30 and ready["failureThreshold"] == 1
    assert spec["podManagementPolicy"] == "Parallel", "none is ready before all have started"
    assert spec["updateStrategy"] == {"type": "OnDelete"}, "a second change would take a majority"
    assert made["Service", "redlock"]["spec"]["publishNotReadyAddresses"], "clients bring back a node that does not vote"
    assert made["Service", "redlock"]["spec"]["clusterIP"] == "None"
    assert "volumeClaimTemplates" not in spec and {"--save", "--appendonly"} < set(container["args"])


def test_a_server_is_not_restarted_for_what_a_restart_does_not_cure():
    """No vote, no password and no certificate: fleet.pods tries the probe with one that has expired."""
    container, = by_kind(read("redlock"))["StatefulSet", "redlock"]["spec"]["template"]["spec"]["containers"]
    alive = container["livenessProbe"]
    assert alive.keys() == {"tcpSocket", "periodSeconds", "timeoutSeconds", "failureThreshold"}
    assert alive["periodSeconds"] * alive["failureThreshold"] >= 60


def spread(documents):
    constraints = by_kind(documents)["StatefulSet", "redlock"]["spec"]["template"]["spec"]["topologySpreadConstraints"]
    return {each["topologyKey"].split("/")[1]: (each["whenUnsatisfiable"], each.get("minDomains")) for each in constraints}


def test_each_server_has_a_machine():
    """A machine without the label of a zone gets pods all the same."""
    assert spread(read("redlock")) == {"zone": ("ScheduleAnyway", None), "hostname": ("DoNotSchedule", 3)}


def test_what_listens_listens_on_both_families():
    """Servers do so by themselves, and [::] is of both for what answers over HTTP; fleet.pods asks them by IPv6, too."""
    words = [word for name in FILES for _, pod, _ in pods(read(name)) for container in pod["containers"] + pod.get("initContainers", [])
             for word in container.get("command", []) + container.get("args", [])]
    assert "--bind" not in words
    assert sorted(word for word in words if re.search(r":\d+$", word)) == [
        "0.0.0.0:6379,[::]:6379", "127.0.0.1:6379", "[::]:16390", "[::]:16391", "[::]:16391", "[::]:8080"]


def test_a_gateway_on_each_machine():
    """The Service leads to the machine's own: one is there during an update, and where a taint keeps others away."""
    spec = by_kind(read("gateway"))["DaemonSet", "redlock-gateway"]["spec"]
    assert spec["updateStrategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert spec["template"]["spec"]["tolerations"] == [{"operator": "Exists"}]
    assert by_kind(read("gateway"))["Service", "redlock-gateway"]["spec"]["internalTrafficPolicy"] == "Local"


def test_every_client_has_the_same_urls():
    made = by_kind(read("redlock"))
    config = made["ConfigMap", "redlock"]["data"]["redlock.conf"]
    urls = re.findall(r"^nodes = redis://(\S+)$", config, re.MULTILINE)
    assert urls == [f"redlock-{number}.redlock.locks.svc.cluster.local." for number in range(made["StatefulSet", "redlock"]["spec"]["replicas"])]
    assert "mode = guarded" in config and "assword@" not in config


def test_the_quorum_is_made_with_the_wait():
    """It may run again after a loss, so it must not say that the servers were never used."""
    job = only("Job", read("redlock"))["spec"]
    assert job["template"]["spec"]["containers"][0]["args"] == ["quorum", "init", "--yes"]
    assert job["podFailurePolicy"]["rules"][0]["onExitCodes"]["values"] == [64, 78]


def test_examples_keep_to_the_rules():
    """A short job does not stay for --min-hold if the keys can last that long; TERM comes long enough before KILL."""
    made = by_kind(read("examples"))
    for name, pod, _ in pods(read("examples")):
        assert pod.get("terminationGracePeriodSeconds", 30) > 5, name
    job = made["CronJob", "report"]["spec"]["jobTemplate"]["spec"]
    command = job["template"]["spec"]["containers"][0]["command"]
    ttl_max, = re.findall(r"ttl-max = (\d+)s", by_kind(read("redlock"))["ConfigMap", "redlock"]["data"]["redlock.conf"])
    assert int(command[command.index("--min-hold") + 1].removesuffix("s")) <= int(ttl_max)
    assert job["podFailurePolicy"]["rules"][0]["onExitCodes"]["values"] == [64, 75, 78]
    strategy = made["Deployment", "scheduler"]["spec"]["strategy"]["rollingUpdate"]
    assert strategy["maxUnavailable"] == "100%", "a standby is never ready, and the update would wait for it"


def test_alerts_are_those_of_the_project():
    rule = by_kind(read("monitoring"))["PrometheusRule", "redlock"]
    assert rule["spec"] == yaml.safe_load((SOURCE / "packaging/observability/alerts.yml").read_text(encoding="utf-8"))
    for name in ("alerts.yml", "dashboard.json"):
        assert (SOURCE / "packaging/observability" / name).resolve() == CHART / name
        assert not (CHART / name).is_symlink(), "a chart that is copied or packed has nothing outside"
    monitor = by_kind(read("monitoring"))["PodMonitor", "redlock"]["spec"]
    watched, = monitor["selector"]["matchExpressions"]
    templates = [by_kind(read("redlock"))["Deployment", "redlock-exporter"], by_kind(read("gateway"))["DaemonSet", "redlock-gateway"]]
    for template in (each["spec"]["template"] for each in templates):
        labels = template["metadata"]["labels"]
        assert labels[monitor["jobLabel"]].startswith("redlock"), "the alerts are for such jobs"
        assert labels[watched["key"]] in watched["values"] and monitor["selector"]["matchLabels"].items() <= labels.items()
        ports = {port["name"] for port in template["spec"]["containers"][0]["ports"]}
        assert {each["port"] for each in monitor["podMetricsEndpoints"]} <= ports


def test_each_value_is_documented():
    lines = (CHART / "values.yaml").read_text(encoding="utf-8").splitlines()
    names = [(number, line.split(":")[0]) for number, line in enumerate(lines) if re.match(r"\w", line)]
    schema = yaml.safe_load((CHART / "values.schema.json").read_text(encoding="utf-8"))["properties"]
    assert {name for _, name in names} == schema.keys() - {"global"}
    undocumented = [name for number, name in names if not lines[number - 1].startswith("# ") and name != "tag"]
    assert undocumented == []
    used = set(re.findall(r"\.Values\.(\w+)", "".join(path.read_text(encoding="utf-8") for path in (CHART / "templates").iterdir())))
    assert used == schema.keys() - {"global"}


PAGE = Document("docs/operate/kubernetes.md")


def test_the_first_lock_as_it_is_typed(tmp_path):
    """With a kubectl that writes down what it is asked. fleet.pods has servers with such a Secret."""
    script = PAGE.one("sh", "first lock")
    kubectl = tmp_path / "kubectl"
    kubectl.write_text("#!/bin/sh\nprintf '%s\\0' \"$@\" end >> calls\n")
    kubectl.chmod(0o755)
    subprocess.run(["sh", "-ec", script], cwd=tmp_path, env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}, check=True)
    calls = [call.split("\0") for call in (tmp_path / "calls").read_text().removesuffix("end\0").split("\0end\0")]
    assert len(calls) == 5
    secret = dict(word.removeprefix("--from-literal=").split("=", 1) for word in calls[1] if word.startswith("--from-literal="))
    digest = hashlib.sha256(secret["password"].encode()).hexdigest()
    assert secret["users.acl"] == users_acl(digest), "not what fleet.pods tries"
    made = by_kind(read("redlock"))
    label, deployment = calls[3][6].split("="), calls[4][3].split("/")[1]
    assert only("Job", read("redlock"))["metadata"]["labels"][label[0]] == label[1] and ("Deployment", deployment) in made
    mounted = [volume["secret"]["secretName"] for volume in made["StatefulSet", "redlock"]["spec"]["template"]["spec"]["volumes"]]
    assert mounted == [calls[1][5]]


def test_the_servers_are_replaced_as_it_is_typed(tmp_path):
    """One after the other, each by an eviction, which is asked for until the budget allows it. fleet.api_server asks a real one."""
    kubectl = tmp_path / "kubectl"
    kubectl.write_text("""#!/bin/sh -e
cat > "body-$(echo "$3" | tr / _)"
echo "$*" >> calls
[ $(($(wc -l < calls) % 3)) = 0 ]
""")
    (tmp_path / "sleep").write_text("#!/bin/sh\n")
    for name in ("kubectl", "sleep"):
        (tmp_path / name).chmod(0o755)
    subprocess.run(["sh", "-ec", PAGE.one("sh", "replace")], cwd=tmp_path, env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}, check=True, timeout=60)
    paths = [f"/api/v1/namespaces/locks/pods/redlock-{number}/eviction" for number in range(3)]
    assert (tmp_path / "calls").read_text().splitlines() == [f"create --raw {path} -f -" for path in paths for _ in range(3)]
    for number, path in enumerate(paths):
        assert json.loads((tmp_path / f"body-{path.replace('/', '_')}").read_text()) == eviction(f"redlock-{number}")


def eviction(name):
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}


def test_the_page_names_what_there_is():
    assert len(PAGE.text.replace("|", "").split()) <= 930, "a page that is read to its end"
    for name in FILES:
        assert f"`{name}.yaml`" in PAGE.text
    for value in re.findall(r"`(?:--set )?(\w+)=", PAGE.section("Why the manifests are as they are")):
        assert value in yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))


# ---- by the checkers of Kubernetes and Helm ----

def kubeconform(version, documents):
    """Exit status and output. The schemas of the operator of Prometheus are in no registry."""
    program = tools.program("kubeconform", "github.com/yannh/kubeconform/cmd/kubeconform@v0.6.7")
    place = f"{tools.schemas(KINDS)}/{version}/{{{{ .ResourceKind }}}}{{{{ .KindSuffix }}}}.json"
    done = subprocess.run([program, "-strict", "-summary", "-skip", OF_PROMETHEUS, "-schema-location", place, "-"], input=documents,
                          capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def helm(*arguments, status=0):
    done = subprocess.run([tools.program("helm", "helm.sh/helm/v3/cmd/helm@v3.17.3"), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr if status else done.stdout


def rendered(values=None, *more, name="redlock", chart=CHART, status=0):
    files = ["-f", CHART / "ci" / values] if values else []
    return helm("template", name, chart, "-n", "locks", "--kube-version", tools.VERSIONS[0], *files, *more, status=status)


def made_of(text):
    return [each for each in yaml.safe_load_all(text) if each]


@TOOLS
@pytest.mark.parametrize("version", tools.VERSIONS)
@pytest.mark.parametrize("name", FILES)
def test_manifest_by_schema(name, version):
    text = (PLACE / f"{name}.yaml").read_text(encoding="utf-8")
    status, said = kubeconform(version, text)
    assert (status, "Errors: 0" in said) == (0, True), said


@TOOLS
def test_the_schema_notices():
    text = (PLACE / "redlock.yaml").read_text(encoding="utf-8")
    for right, wrong in (("serviceName: redlock", "serviceNam: redlock"), ("maxSkew: 1", "maxSkew: one"), ("podManagementPolicy:", "podManagement:")):
        assert right in text
        assert kubeconform(tools.VERSIONS[0], text.replace(right, wrong))[0] == 1, wrong


@TOOLS
def test_the_chart_renders_the_manifests():
    made = by_kind(made_of(rendered(None, "--set", "gateway=true,monitoring=true")))
    plain = by_kind(read("redlock") + read("gateway") + read("monitoring"))
    dashboard = made.pop(("ConfigMap", "redlock-dashboard"))
    assert json.loads(dashboard["data"]["redlock.json"]) == json.loads((SOURCE / "packaging/observability/dashboard.json").read_text(encoding="utf-8"))
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1" and made.keys() == plain.keys()
    for name, document in plain.items():
        assert made[name] == document, name


@TOOLS
@pytest.mark.parametrize("values", VALUES)
def test_chart(values):
    assert len(VALUES) == 6
    assert "0 chart(s) failed" in helm("lint", "--strict", CHART, "-f", CHART / "ci" / values)
    text = rendered(values)
    for version in tools.VERSIONS:
        status, said = kubeconform(version, text)
        assert (status, "Errors: 0" in said) == (0, True), said
    given = yaml.safe_load((CHART / "ci" / values).read_text(encoding="utf-8"))
    made = by_kind(made_of(text))
    spec = made["StatefulSet", "redlock"]["spec"]
    container, = spec["template"]["spec"]["containers"]
    nodes, ttl = given.get("nodes", 3), given.get("ttlSeconds", 30)
    assert spec["replicas"] == nodes == made["ConfigMap", "redlock"]["data"]["redlock.conf"].count("nodes = ")
    assert container["readinessProbe"]["successThreshold"] == (-(-ttl // 5) if nodes == 3 else 1)
    assert ("--loadmodule" in container["args"]) == given.get("native", True)
    assert (("DaemonSet", "redlock-gateway") in made) == given.get("gateway", False)
    secure = bool(given.get("tls"))
    assert ("rediss://" in made["ConfigMap", "redlock"]["data"]["redlock.conf"], "--tls-port" in container["args"]) == (secure, secure)
    assert (("PodMonitor", "redlock") in made) == given.get("monitoring", False)
    machine = given.get("spread", "DoNotSchedule")
    assert spread(made_of(text)) == {"zone": ("ScheduleAnyway", None), "hostname": (machine, nodes if machine == "DoNotSchedule" else None)}
    assert ("resources" in container) == (given.get("resources", {}) is not None)


@TOOLS
@pytest.mark.parametrize("wrong", ["nodes=4", "nodes=1", "nodes=null", "ttlMax=soon", "ttlMax=60", "ttlMax=0s", "ttlMax=1.5h", "ttlMax=060s", "ttlSeconds=0",
                                   "ttlSeconds=null", "spread=Maybe", "tls.name=mine", "tls.secretName=Mine", "replicas=3", "clusterDomain=", "tag=a b",
                                   "clusterDomain=cluster.local.", "clusterDomain=https://cluster.local", "secret=a_b"])
def test_wrong_values_are_refused(wrong):
    assert "values don't meet the specifications of the schema" in rendered(None, "--set", wrong, status=1)


@TOOLS
@pytest.mark.parametrize("wrong, said", [
    ("ttlMax=9ms", "ttlMax is 9ms; it is from 10ms to 24h"),
    ("ttlMax=25h", "ttlMax is 25h; it is from 10ms to 24h"),
    ("ttlMax=29999ms", "ttlSeconds is 30, and no lock lasts longer than ttlMax (29999ms)"),
    ("ttlSeconds=61", "ttlSeconds is 61, and no lock lasts longer than ttlMax (60s)")])
def test_values_that_do_not_fit(wrong, said):
    assert said in rendered(None, "--set", wrong, status=1)


@TOOLS
@pytest.mark.parametrize("right", ["ttlMax=24h", "ttlMax=86400000ms", "ttlMax=1440m", "ttlMax=30s", "ttlMax=30000ms", "tls=null", "tls.secretName=null", "resources.limits=null"])
def test_values_that_fit(right):
    rendered(None, "--set", right)


@TOOLS
def test_names_of_releases():
    """As long as the names of its pods' revisions allow, and no longer."""
    for name in ("1lock", "my.lock", "l" * 53):
        assert f"the release '{name}' cannot give its name" in rendered(name=name, status=1)
    rendered(name="l" * 52)


@TOOLS
def test_the_chart_alone(tmp_path):
    """Copied out of the tree, and packed."""
    given = "gateway=true,monitoring=true"
    copy = shutil.copytree(CHART, tmp_path / "redlock", symlinks=True)
    helm("package", copy, "-d", tmp_path)
    package, = tmp_path.glob("*.tgz")
    there = rendered(None, "--set", given)
    assert rendered(None, "--set", given, chart=copy) == rendered(None, "--set", given, chart=package) == there


@TOOLS
def test_a_change_reaches_what_reads_it_at_its_start():
    """The exporter and the gateways begin again with another configuration; a Job cannot change, so it has another name."""
    def look(*more):
        made = made_of(rendered(None, "--set", "gateway=true", *more))
        return only("Job", made)["metadata"]["name"], [only(kind, made)["spec"]["template"]["metadata"]["annotations"] for kind in ("Deployment", "DaemonSet")]
    job, notes = look()
    assert look() == (job, notes)
    for change, has_new_notes in (("ttlMax=5m", True), ("nodes=5", True), ("tag=0.1.1", False)):
        other, others = look("--set", change)
        assert other != job and [one != two for one, two in zip(notes, others)] == [has_new_notes] * 2, change
    assert re.fullmatch("redlock-init-[0-9a-f]{8}", job)
