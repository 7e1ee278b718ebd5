# SPDX-License-Identifier: BSD-2-Clause
"""What a fleet runs: images and pods. A test file of which every test was skipped counts as skipped."""
import os
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "cli"), str(HERE.parent / "docs"), str(HERE.parent / "house")]
SKIPPED = 77  # what ctest takes for skipped
OUTCOMES = []


def pytest_configure(config):
    config.addinivalue_line("markers", "tools: needs the checkers of Kubernetes and Helm")


def pytest_runtest_logreport(report):
    if report.when == "call" or report.skipped:
        OUTCOMES.append(report.outcome)


def pytest_sessionfinish(session):
    if session.exitstatus == 0 and set(OUTCOMES) == {"skipped"}:
        session.exitstatus = SKIPPED


@pytest.fixture(scope="session")
def log():
    """Prints a line of the test's log, which `ctest -V` shows."""
    def say(text):
        with open(sys.__stdout__.fileno(), "w", encoding="utf-8", closefd=False) as out:
            print(text, file=out, flush=True)
    return say


@pytest.fixture(scope="session")
def static():
    """The static file where REDLOCK_STATIC names one, else the command of this build, whose libraries are then in the image."""
    return pathlib.Path(os.environ.get("REDLOCK_STATIC", os.environ["REDLOCK_BIN"]))
