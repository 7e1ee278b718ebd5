# SPDX-License-Identifier: BSD-2-Clause
"""What fails on real servers, in classic mode and in guarded mode."""
import os
import pathlib
import tempfile

import pytest

import nodes  # noqa: F401  (first: it knows where the servers of tests/cli are)

TRIES = 6   # in classic mode, to show the hole
ROUNDS = int(os.environ.get("REDLOCK_HOLES_ROUNDS", "2"))  # each with the fault at the worst moment
COUNT = "REDLOCK_HOLES_COUNT" in os.environ  # print in how many rounds a hole shows, and pass


@pytest.fixture
def directory():
    with tempfile.TemporaryDirectory(prefix="redlock-holes-") as path:
        yield pathlib.Path(path)


@pytest.fixture(params=["classic", "guarded"])
def mode(request):
    return request.param


@pytest.fixture
def told(capfd, request):
    """Prints beside the test's name, also when it passes."""
    def tell(text):
        with capfd.disabled():
            print(f"\n{request.node.name}: {text}", flush=True)
    return tell
