# SPDX-License-Identifier: BSD-2-Clause
"""`redlock bench`, `redlock sim`, `redlock serve`, `redlock exporter` and `redlock top` find their programs, beside redlock or in libexec, and say so
when there is none."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

REDLOCK = pathlib.Path(os.environ["REDLOCK_BIN"])


def run(program, *arguments):
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60, check=False)


def installed(tmp_path, place=None):
    """A tree with redlock in bin, and the others in `place`."""
    binary = tmp_path / "bin" / "redlock"
    binary.parent.mkdir()
    shutil.copy(REDLOCK, binary)
    if place:
        (tmp_path / place).mkdir(parents=True, exist_ok=True)
        for name in ("redlock-bench", "redlock-sim", "redlock-serve", "redlock-exporter", "redlock-top"):
            shutil.copy(REDLOCK.parent / name, tmp_path / place / name)
    return binary


@pytest.mark.parametrize("place", ["bin", "libexec/redlock"])
def test_it_is_found(tmp_path, place):
    redlock = installed(tmp_path, place)
    done = run(redlock, "sim", "--seeds", "3")
    assert done.returncode == 0 and done.stdout.startswith("3 seeds from 1"), done
    done = run(redlock, "serve", "-N", "redis://127.0.0.1:1", "nonsense")
    assert done.returncode == 64 and "redlock serve takes no operand" in done.stderr, done
    done = run(redlock, "top", "-N", "redis://127.0.0.1:1", "nonsense")
    assert done.returncode == 64 and "top takes no operands" in done.stderr, done
    done = run(redlock, "bench", "--list")
    assert done.returncode == 0 and done.stdout.startswith("blocking "), done


@pytest.mark.parametrize("command, package", [("bench", "redlock"), ("sim", "redlock"), ("serve", "redlock-serve"), ("exporter", "redlock-serve"), ("top", "redlock")])
def test_absent(tmp_path, command, package):
    done = run(installed(tmp_path), command, "--help")
    assert done.returncode == 71
    assert f"there is no redlock-{command} in {tmp_path}/bin, nor in {tmp_path}/bin/../libexec/redlock" in done.stderr, done
    assert f"; install it from the same version of redlock (the package {package})" in done.stderr, done


@pytest.mark.parametrize("command", ["bench", "sim", "serve", "top"])
def test_help_is_the_programs_own(command):
    for arguments in ((command, "--help"), ("help", command)):
        done = run(REDLOCK, *arguments)
        assert done.returncode == 0 and done.stdout.startswith(f"usage: redlock {command} "), arguments


def test_only_top_loads_ncurses():
    """A command that takes locks starts without what only a screen needs."""
    def loads(name):
        return re.findall(r"NEEDED.*\[lib(.*)\.so", subprocess.run(["readelf", "-dW", REDLOCK.parent / name], capture_output=True,
                                                                    text=True, check=True).stdout)

    assert "ncurses" not in " ".join(loads("redlock")), loads("redlock")
    assert "jansson" in loads("redlock"), loads("redlock")


def test_its_status_and_messages_are_passed_on():
    done = run(REDLOCK, "sim", "--seeds", "none")
    assert done.returncode == 64 and done.stderr.startswith("redlock sim: "), done
    done = run(REDLOCK, "sim", "--no-such-option")
    assert done.returncode == 64 and done.stderr.startswith("redlock sim: "), done
