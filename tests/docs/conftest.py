# SPDX-License-Identifier: BSD-2-Clause
"""Shells in which the documents' commands run, on real servers."""
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "cli"), str(HERE.parent / "house"), str(HERE.parent / "gate")]
from leftovers import room  # noqa: E402

from documents import BINARY  # noqa: E402


class Shell:
    """A directory of its own and a clean environment; `redlock` is the one under test."""

    def __init__(self, here, directory):
        self.here, self.directory = here, directory
        clean = {name: value for name, value in here.environ.items() if not name.startswith("REDLOCK_")}
        self.environ = {**clean, "REDLOCK_CONFIG": "/dev/null", "PATH": f"{BINARY.parent}:{clean['PATH']}"}

    def start(self, script, *before, environ=None, **more):
        more = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, **more}
        environ = {**self.environ, **(environ or {})}
        return subprocess.Popen([*before, "sh", "-ec", script], cwd=self.directory, env=environ, **more)

    def __call__(self, script, *before, environ=None, status=0, timeout=120):
        """Runs it as a person types it, but stops at the first command that fails. Returns all output."""
        process = self.start(script, *before, environ=environ)
        try:
            output = process.communicate(timeout=timeout)[0]
        except subprocess.TimeoutExpired:
            self.end()
            output = process.communicate()[0]
            raise AssertionError(f"not ended after {timeout} s:\n{script}\n{output}") from None
        assert process.returncode == status, f"status {process.returncode}, not {status}:\n{script}\n{output}"
        return output

    def end(self):
        """Kills all that was started from here, and what that started."""
        while left := self.here.processes():
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)

    def program(self, name, text):
        """A script of that name in the directory `bin`, which is in PATH."""
        place = self.directory / "bin"
        place.mkdir(exist_ok=True)
        if str(place) not in self.environ["PATH"]:
            self.environ["PATH"] = f"{place}:{self.environ['PATH']}"
        (place / name).write_text(text)
        (place / name).chmod(0o755)
        return place / name


@pytest.fixture
def shell(tmp_path):
    with room() as here:
        made = Shell(here, tmp_path)
        yield made
        left = here.leftovers(seconds=5)
        made.end()
        assert not left, f"left behind: {left}"


@pytest.fixture(autouse=True)
def no_settings(monkeypatch):
    for name in list(os.environ):
        if name.startswith("REDLOCK_") and name not in ("REDLOCK_SOURCE", "REDLOCK_BIN", "REDLOCK_BUILD"):
            monkeypatch.delenv(name)
