# SPDX-License-Identifier: BSD-2-Clause
"""`redlock sim` finds its program, beside it or in libexec, and says so when there is none."""
import os
import pathlib
import shutil
import subprocess

REDLOCK = pathlib.Path(os.environ["REDLOCK_BIN"])
SIM = REDLOCK.parent / "redlock-sim"


def run(program, *arguments):
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60, check=False)


def installed(tmp_path, place=None):
    """A tree with redlock in bin, and redlock-sim in `place`."""
    binary = tmp_path / "bin" / "redlock"
    binary.parent.mkdir()
    shutil.copy(REDLOCK, binary)
    if place:
        (tmp_path / place).mkdir(parents=True, exist_ok=True)
        shutil.copy(SIM, tmp_path / place / "redlock-sim")
    return binary


def test_beside(tmp_path):
    done = run(installed(tmp_path, "bin"), "sim", "--seeds", "3")
    assert done.returncode == 0 and done.stdout.startswith("3 seeds from 1"), done


def test_in_libexec(tmp_path):
    done = run(installed(tmp_path, "libexec/redlock"), "sim", "--seeds", "3")
    assert done.returncode == 0 and done.stdout.startswith("3 seeds from 1"), done


def test_absent(tmp_path):
    done = run(installed(tmp_path), "sim", "--seeds", "3")
    assert done.returncode == 71
    assert "the simulator is not installed" in done.stderr and str(tmp_path / "bin") in done.stderr


def test_help_is_the_programs_own():
    for arguments in (("sim", "--help"), ("help", "sim")):
        done = run(REDLOCK, *arguments)
        assert done.returncode == 0 and done.stdout.startswith("usage: redlock sim "), arguments


def test_its_status_and_messages_are_passed_on():
    done = run(REDLOCK, "sim", "--seeds", "none")
    assert done.returncode == 64 and done.stderr.startswith("redlock sim: "), done
    done = run(REDLOCK, "sim", "--no-such-option")
    assert done.returncode == 64 and done.stderr.startswith("redlock sim: "), done
