# SPDX-License-Identifier: BSD-2-Clause
"""Finds what a run left behind: processes by a mark in their environment, files in a TMPDIR of their own."""
import contextlib
import os
import pathlib
import shutil
import tempfile
import time
import uuid


class Room:
    """A run's surroundings: give `environ` to whatever is started, ask leftovers() when it is over."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.mark = f"HOUSE_MARK={uuid.uuid4()}"
        name, value = self.mark.split("=")
        self.environ = {**os.environ, "TMPDIR": str(directory), name: value}

    def processes(self):
        """{pid: command line} of every live process that was started, at whatever remove, from here."""
        found = {}
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            with contextlib.suppress(OSError):
                if self.mark.encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        return found

    def files(self):
        """Every file and directory; os.walk, unlike rglob, does not mind that some vanish meanwhile."""
        return [os.path.join(place, name) for place, directories, files in os.walk(self.directory) for name in directories + files]

    def leftovers(self, seconds=10):
        """What is still there after at most that long; empty when all is gone."""
        end = time.monotonic() + seconds
        while True:
            left = [*self.processes().values(), *self.files()]
            if not left or time.monotonic() > end:
                return left
            time.sleep(0.05)


@contextlib.contextmanager
def room():
    directory = tempfile.mkdtemp(prefix="house-")
    try:
        yield Room(directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
