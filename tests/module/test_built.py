# SPDX-License-Identifier: BSD-2-Clause
"""What the built file shows to others, and what it needs."""
import subprocess

import pytest

import native

pytestmark = pytest.mark.skipif(native.SANITIZER != "", reason="a sanitizer's module is not shipped")


def lines(*command):
    return subprocess.run([*command, native.MODULE], check=True, capture_output=True, text=True).stdout.splitlines()


def test_exports_nothing_but_its_entry_points():
    assert {line.split()[-1] for line in lines("nm", "-D", "--defined-only")} == {"RedisModule_OnLoad", "RedisModule_OnUnload"}


def test_needs_nothing_but_the_c_library():
    needed = {line.split("[")[1].rstrip("]") for line in lines("readelf", "-d") if "(NEEDED)" in line}
    assert needed <= {"libc.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


def test_takes_no_memory_but_the_servers():
    used = {line.split()[-1].split("@")[0] for line in lines("nm", "-D", "--undefined-only")}
    assert not used & {"malloc", "calloc", "free", "realloc", "strdup", "asprintf"}
