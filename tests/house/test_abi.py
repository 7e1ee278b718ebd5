# SPDX-License-Identifier: BSD-2-Clause
"""packaging/abi.json describes the headers, and scripts/abi refuses what would break programs that are already built."""
import copy
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import re
import struct

import pytest

SOURCE = pathlib.Path(os.environ["REDLOCK_SOURCE"])
DESCRIPTION = json.loads((SOURCE / "packaging/abi.json").read_text())


@pytest.fixture(scope="module")
def abi():
    loader = importlib.machinery.SourceFileLoader("abi", str(SOURCE / "scripts/abi"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("abi", loader))
    loader.exec_module(module)
    return module


@pytest.mark.skipif(struct.calcsize("P") != 8, reason="the file has the offsets of 64-bit machines")
def test_the_description_is_that_of_the_headers(abi):
    assert abi.interface() == DESCRIPTION, "scripts/abi --update packaging/abi.json"


def test_it_has_every_exported_function():
    exported = {line.split()[0] for line in (SOURCE / "packaging/symbols.txt").read_text().splitlines()}
    assert exported == set(DESCRIPTION["functions"])


def changed(change):
    new = copy.deepcopy(DESCRIPTION)
    change(new)
    return new


def options_of(description):
    return description["structs"]["redlock_client_options"]["fields"]


@pytest.mark.parametrize("change, complaint", [
    (lambda new: new["functions"].pop("redlock_try"), "redlock_try was"),
    (lambda new: new["functions"]["redlock_try"]["parameters"].pop(), "redlock_try was"),
    (lambda new: new["enumerations"]["redlock_result"].update(REDLOCK_HELD=-99), "REDLOCK_HELD was -1"),
    (lambda new: new["constants"].update(REDLOCK_NODES_MAX=31), "REDLOCK_NODES_MAX was 15"),
    (lambda new: options_of(new).insert(1, {"name": "new", "type": "int", "offset": 8, "bytes": 4}), "client_options: fields"),
    (lambda new: options_of(new).pop(), "client_options: fields"),
    (lambda new: new["structs"]["redlock_bytes"]["fields"].append({"name": "new"}), "redlock_bytes has grown"),
])
def test_what_would_break_programs_is_refused(abi, change, complaint):
    assert re.search(complaint, "\n".join(abi.broken(DESCRIPTION, changed(change))))


@pytest.mark.parametrize("change", [
    lambda new: new["functions"].update(redlock_new={"returns": "int", "parameters": []}),
    lambda new: new["enumerations"]["redlock_result"].update(REDLOCK_NEW=-99),
    lambda new: options_of(new).append({"name": "new", "type": "int", "offset": 200, "bytes": 4}),
])
def test_additions_are_permitted(abi, change):
    assert not list(abi.broken(DESCRIPTION, changed(change)))
