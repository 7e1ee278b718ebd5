# SPDX-License-Identifier: BSD-2-Clause
"""packaging/observability: the alerts fire when they must, the dashboard's queries are valid, each alert has its section in the runbook,
and every metric and label that they use is in what redlock really writes."""
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from conftest import BINARY
from servers import until
from test_exporter import start_exporter  # noqa: F401
from test_metrics import page, samples

SOURCE = pathlib.Path(os.environ["REDLOCK_SOURCE"])
PLACE = SOURCE / "packaging" / "observability"
ALERTS = (PLACE / "alerts.yml").read_text()
DASHBOARD = json.loads((PLACE / "dashboard.json").read_text())


@pytest.fixture
def promtool():
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")

    def run(*words):
        done = subprocess.run([found, *words], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout
    return run


def queries():
    """(panel, PromQL) of the dashboard, with Grafana's variables filled in."""
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"].replace("$instance", ".*").replace("$__rate_interval", "5m")


def expressions():
    """The PromQL of the alerts: what is not a comment, a name or text for people."""
    text = re.sub(r"(?m)^ *(#|- alert:|summary:|runbook:).*$", "", ALERTS)
    return [text, *(query for _, query in queries())]


# ---- promtool ----

def test_the_rules_are_valid(promtool):
    assert f"{ALERTS.count('- alert:')} rules found" in promtool("check", "rules", str(PLACE / "alerts.yml"))


def test_the_configuration_of_the_document(promtool, tmp_path):
    document = (SOURCE / "docs" / "operate" / "metrics.md").read_text()
    (tmp_path / "prometheus.yml").write_text(re.search(r"```yaml\n(.*?)```", document, re.DOTALL)[1])
    shutil.copy(PLACE / "alerts.yml", tmp_path / "redlock.yml")
    said = promtool("check", "config", str(tmp_path / "prometheus.yml"))
    assert f"{ALERTS.count('- alert:')} rules found" in said and "valid prometheus config file" in said
    jobs = re.findall(r"job_name: (\S+)", document)
    assert [re.fullmatch("redlock.*", job) is not None for job in jobs] == [True, True, False]


def test_the_alerts_fire_when_they_must(promtool):
    tested = (SOURCE / "tests" / "serve" / "alerts.yml").read_text()
    for alert in re.findall(r"- alert: (\w+)", ALERTS):
        fires = rf"alertname: {alert}\n +eval_time: \w+\n +exp_alerts:"
        assert re.search(fires, tested), f"{alert} has no test in which it fires"
    assert "SUCCESS" in promtool("test", "rules", str(SOURCE / "tests" / "serve" / "alerts.yml"))


def test_the_queries_of_the_dashboard_are_valid(promtool, tmp_path):
    rules = [{"record": "query", "expr": query, "labels": {"panel": f"{panel} {number}"}} for number, (panel, query) in enumerate(queries())]
    assert len(rules) > 25
    path = tmp_path / "rules.yml"
    path.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))  # JSON is YAML
    assert f"{len(rules)} rules found" in promtool("check", "rules", str(path))


def test_promtool_reads_the_page(promtool, start, quorum, tmp_path):
    (tmp_path / "page").write_text(page(start(quorum.nodes, "--metrics", "127.0.0.1:0")))
    with open(tmp_path / "page", encoding="utf-8") as text:
        done = subprocess.run([shutil.which("promtool"), "check", "metrics"], stdin=text, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# ---- what exists ----

@pytest.fixture(scope="module")
def written(quorum, tmp_path_factory):
    """The metrics of a run, by the command line."""
    directory = tmp_path_factory.mktemp("written")
    environ = {**{name: value for name, value in os.environ.items() if not name.startswith("REDLOCK_")},
               "REDLOCK_CONFIG": "/dev/null", "REDLOCK_NODES": quorum.nodes}
    file = directory / "job.prom"
    subprocess.run([BINARY, "run", "--metrics-file", str(file), "observed", "true"], env=environ, check=True, timeout=30)
    return file.read_text()


def test_every_metric_and_label_exists(start, start_exporter, quorum, written):  # noqa: F811
    exporter = start_exporter(quorum.nodes, "--interval", "1s")
    until(lambda: "redlock_node_clock_rate{" in exporter.read(), what="a second look")
    now = {**samples(page(start(quorum.nodes, "--metrics", "127.0.0.1:0"))), **samples(written), **exporter.metrics()}
    names = {name for name, _ in now}
    labels = {(name, label, value) for name, text in now for label, value in re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', text or "")}
    keys = {(name, label) for name, label, _ in labels}
    used = 0
    for query in expressions():
        for name, selector in re.findall(r"\b(redlock_\w+)(?:\{([^}]*)\})?", query):
            assert name in names, f"{name} does not exist: {query}"
            used += 1
            for label, operator, value in re.findall(r'(\w+)(=~?)"([^"]*)"', selector):
                if label == "instance":
                    continue
                assert operator == "=" and (name, label, value) in labels, f'{name}{{{label}="{value}"}} does not exist'
        # What series are grouped by is a label of them, or given by Prometheus itself.
        for group in re.findall(r"\bby \(([^)]*)\)", query):
            for label in group.split(", "):
                assert label in ("instance",) or any(key == label for _, key in keys), (label, query)
    assert used > 60


# ---- the runbook and the dashboard ----

def test_each_alert_has_its_section():
    runbook = (SOURCE / "docs" / "operate" / "runbook.md").read_text()
    part = runbook[runbook.index("\n## Alerts\n"):runbook.index("\n## Metrics of the gateway\n")]
    sections = re.findall(r"^### (\w+)\n\n\S", part, re.MULTILINE)
    alerts = re.findall(r"- alert: (\w+)", ALERTS)
    assert sections == alerts
    assert re.findall(r"runbook: docs/operate/runbook.md#(\w+)", ALERTS) == [alert.lower() for alert in alerts]


def test_the_dashboard_is_whole():
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    taken = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24 and not cells & taken, panel["title"]
        taken |= cells
        assert panel["type"] == "row" or (panel["targets"] and panel["datasource"]["uid"] == "${datasource}"), panel["title"]
        references = [target["refId"] for target in panel.get("targets", [])]
        assert len(references) == len(set(references)), panel["title"]
    assert {variable["name"] for variable in DASHBOARD["templating"]["list"]} == {"datasource", "instance"}
