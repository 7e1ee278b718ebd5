# SPDX-License-Identifier: BSD-2-Clause
"""The manifests and the chart, applied to a real API server: it knows all fields, and its admission has nothing to warn of.

Needs kube-apiserver and etcd on the PATH. Go builds both, in more than an hour on two processors: a go.mod that requires
k8s.io/kubernetes v1.37.2, replaces each k8s.io module in its staging directory by v0.37.2, and requires go.etcd.io/etcd/server/v3.
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
from test_manifests import FILES, OF_PROMETHEUS, PLACE, VALUES, rendered

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

    def ask(self, method, path, body=None):
        """The status, the warnings and the answer."""
        request = urllib.request.Request(f"https://127.0.0.1:{self.port}/{path}", method=method, data=body,
                                         headers={"Authorization": "Bearer token", "Content-Type": "application/apply-patch+yaml"})
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
def apply(api):
    """Into a namespace of its own: what is there already may not be changed in every field."""
    name = f"locks-{time.monotonic_ns()}"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"pod-security.kubernetes.io/warn": "restricted"}}}
    assert api.ask("PATCH", f"api/v1/namespaces/{name}?fieldManager=test", json.dumps(namespace).encode())[0] == 201

    def into(document):
        document["metadata"].pop("namespace", None)
        return api.apply(document, name)
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
