# SPDX-License-Identifier: BSD-2-Clause
"""redlock gate's check, record and rename are one step: who is admitted later waits, and comes later."""
import os
import subprocess
import time

REDLOCK, SLOW = os.environ["REDLOCK_BIN"], os.environ["SLOW_RENAME"]


def start(fence, file, text, **environ):
    return subprocess.Popen([REDLOCK, "gate", "--fence", str(fence), file, "echo", text], env={**os.environ, **environ})


def test_nobody_passes_between_check_and_rename(tmp_path):
    file, go = tmp_path / "file", tmp_path / "go"
    first = start(1, file, "first", LD_PRELOAD=SLOW, RENAME_WAITS_FOR=str(go))
    end = time.monotonic() + 10
    while not any(name.name.startswith(".redlock-gate.") for name in tmp_path.iterdir()):
        assert time.monotonic() < end and first.poll() is None, "the first does not come to its rename"
        time.sleep(0.005)
    second = start(2, file, "second")
    try:
        second.wait(timeout=0.5)
        raise AssertionError("the second passed while the first was in the gate")
    except subprocess.TimeoutExpired:
        pass
    assert not file.exists()
    go.touch()
    assert (first.wait(timeout=10), second.wait(timeout=10)) == (0, 0)
    assert file.read_text() == "second\n"
    assert sorted(os.listdir(tmp_path)) == ["file", "file.fence", "go"]
