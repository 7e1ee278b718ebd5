# SPDX-License-Identifier: BSD-2-Clause
"""The programs that speak the protocol of README.md: the peers', and ours."""
import json
import os
import pathlib
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "cli"))
from servers import die_with_us  # noqa: E402

READY_S, ANSWER_S, END_S = 90, 60, 10


class Program:
    """One that is running. What it says is read at once, with the time when it came."""

    def __init__(self, command, cwd=None):
        self.command = command
        self.complaints = tempfile.TemporaryFile()
        self.process = subprocess.Popen(command, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.complaints,
                                        start_new_session=True, preexec_fn=die_with_us)
        self.lines = queue.Queue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.greeting = self.answer(READY_S)
        assert self.greeting.get("ready") is True, f"{self.greeting}: not the first line of a peer"

    def _read(self):
        for line in self.process.stdout:
            self.lines.put((line, time.monotonic()))
        self.lines.put((b"", time.monotonic()))

    def key(self, resource):
        """What it makes of a resource."""
        return re.sub(r"\bR\b", lambda _: resource, self.greeting["key"])

    def send(self, *words):
        self.process.stdin.write(" ".join(map(str, words)).encode() + b"\n")
        self.process.stdin.flush()

    def answer_and_when(self, seconds=ANSWER_S):
        try:
            line, when = self.lines.get(timeout=seconds)
        except queue.Empty:
            raise AssertionError(f"{self.command[-1]}: no answer in {seconds} s; {self.said()}") from None
        try:
            return json.loads(line), when
        except ValueError:
            raise AssertionError(f"not an answer: {line!r}; {self.said()}") from None

    def answer(self, seconds=ANSWER_S):
        return self.answer_and_when(seconds)[0]

    def ask(self, *words, seconds=ANSWER_S):
        self.send(*words)
        return self.answer(seconds)

    def said(self):
        """The end of what it wrote to standard error."""
        self.complaints.seek(max(0, self.complaints.seek(0, os.SEEK_END) - 2000))
        return self.complaints.read().decode(errors="replace")

    def kill(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def close(self):
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        try:
            self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            pass
        if self.process.returncode is None:
            self.kill()
        self.reader.join(END_S)
        self.process.stdout.close()
        self.complaints.close()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()


def ours(servers, *options):
    return Program([os.environ["INTEROP_OURS"], *options, *(server.url for server in servers)])


def cli(servers, *arguments, seconds=30):
    """redlock(1) to its end; what it printed as text."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("REDLOCK_")}
    nodes = ",".join(server.url for server in servers)
    return subprocess.run([os.environ["REDLOCK_BIN"], *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          env={**clean, "REDLOCK_CONFIG": "/dev/null", "REDLOCK_NODES": nodes}, timeout=seconds, check=False)
