# SPDX-License-Identifier: BSD-2-Clause
import pytest

import native


@pytest.fixture(scope="module")
def shared():
    """One node for the tests of a file; none may harm it."""
    with native.node() as made:
        yield made


@pytest.fixture
def node(shared):
    """The same, empty."""
    for key in list(everything(shared)):
        shared("REDLOCK.RELEASE", 1, key, shared("REDLOCK.GET", key, 65536))
    shared("FLUSHALL")
    return shared


def everything(server):
    """Locks, of us and of strangers: without the keys that hold something else."""
    cursor, keys = b"0", set()
    while True:
        cursor, some = server("REDLOCK.SCAN", cursor, "COUNT", 100)
        keys.update(some)
        if cursor == b"0":
            return {key for key in keys if server("TYPE", key) in (b"string", b"none")}


@pytest.fixture(params=["yes", "no"])
def either(request):
    """One with the mirror, then one without."""
    with native.node("mirror", request.param) as made:
        made.mirror = request.param == "yes"
        yield made
