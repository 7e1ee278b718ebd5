# SPDX-License-Identifier: BSD-2-Clause
"""--peer NAME: which peer is tested; ctest has a test for each. What came of it is left for the table (table.py)."""
import json
import os
import pathlib
import uuid

import pytest

import peers
import programs  # knows where the servers of tests/cli are
from servers import Quorum

SKIPPED = 77  # what ctest takes for skipped
PEER, ROW = pytest.StashKey(), pytest.StashKey()


def pytest_addoption(parser):
    parser.addoption("--peer")


def pytest_configure(config):
    if not config.getoption("--peer"):
        return  # test_quirks.py: of several
    peer = peers.Peer(config.getoption("--peer"))
    config.stash[PEER] = peer
    config.stash[ROW] = {"peer": peer.name, "what": peer.what, "nodes": peer.nodes, "checks": {}, "notes": {}, "skipped": None}


def check_of(item):
    return item.originalname.removeprefix("test_")


def pytest_collection_modifyitems(config, items):
    peer = config.stash.get(PEER, None)
    for item in items if peer else []:
        check = check_of(item)
        if why := peer.left_out.get(check):
            item.add_marker(pytest.mark.skip(reason=why))
        if why := peer.fails.get(check):
            item.add_marker(pytest.mark.xfail(reason=why, strict=True))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if ROW not in item.config.stash:
        return
    row, check = item.config.stash[ROW], check_of(item)
    if report.when == "teardown" and not report.failed:
        return
    if report.when == "setup" and report.passed:
        return
    mark = {"passed": "yes", "failed": "FAILED", "skipped": "fails" if hasattr(report, "wasxfail") else "-"}[report.outcome]
    # A test of several cases has one mark: that of the worst.
    worst = ["-", "yes", "fails", "FAILED"]
    row["checks"][check] = max(row["checks"].get(check, "-"), mark, key=worst.index)
    peer = item.config.stash[PEER]
    if mark in ("-", "fails"):
        row["notes"][check] = peer.left_out.get(check) or peer.fails.get(check)


def pytest_sessionfinish(session):
    if ROW not in session.config.stash:
        return
    row = session.config.stash[ROW]
    if results := os.environ.get("INTEROP_RESULTS"):
        directory = pathlib.Path(results)
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"{row['peer']}.json").write_text(json.dumps(row, indent=1) + "\n", encoding="utf-8")
    if row["skipped"] and session.exitstatus == 0:
        session.exitstatus = SKIPPED


@pytest.fixture(scope="session")
def row(request):
    return request.config.stash[ROW]


@pytest.fixture(scope="session")
def peer(request, row):
    """Installed."""
    wanted = request.config.stash[PEER]
    try:
        wanted.install()
    except peers.Skipped as why:
        row["skipped"] = str(why)
        pytest.skip(f"{wanted.name}: {why}")
    return wanted


@pytest.fixture(scope="session")
def servers(peer, row):
    """As many as the peer is for; the tests that stop one have their own."""
    with Quorum(peer.nodes) as quorum:
        absent = [name for name in peer.commands if quorum[0].ask("COMMAND", "INFO", name) == [None]]
        if absent:
            row["skipped"] = f"the servers have no {', '.join(absent)}"
            pytest.skip(f"{peer.name}: {row['skipped']}")
        yield quorum


@pytest.fixture(scope="session")
def theirs(peer, servers, row):
    with peer.begin(servers) as program:
        row.update({name: program.greeting[name] for name in ("name", "version", "key", "token", "defaults")})
        yield program


@pytest.fixture(scope="session")
def ours(servers):
    with programs.ours(servers) as program:
        yield program


@pytest.fixture
def resource():
    return f"resource-{uuid.uuid4().hex[:12]}"
