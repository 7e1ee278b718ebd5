# SPDX-License-Identifier: BSD-2-Clause
"""A gateway's processes: the one that starts workers, and the workers, which run scripts."""
import os
import pathlib
import signal
import threading
import time

PROC = pathlib.Path("/proc")


def _fields(pid):
    """Of /proc/PID/stat, from the state on."""
    return (PROC / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()


def children(pid):
    found = []
    for entry in PROC.iterdir():
        try:
            if entry.name.isdigit() and int(_fields(entry.name)[1]) == pid and _fields(entry.name)[0] not in "ZX":
                found.append(int(entry.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return sorted(found)


def spawner(gateway):
    """None: there is none at the moment."""
    return next((pid for pid in children(gateway.process.pid) if name(pid) == "redlock-script"), None)


def workers(gateway):
    one = spawner(gateway)
    return children(one) if one is not None else []


def name(pid):
    try:
        return (PROC / str(pid) / "comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def status(pid):
    return dict(line.split(":\t", 1) for line in (PROC / str(pid) / "status").read_text().splitlines() if ":\t" in line)


def limits(pid):
    """Name -> soft and hard, as they are written there."""
    lines = (PROC / str(pid) / "limits").read_text().splitlines()[1:]
    return {line[:26].strip(): tuple(line[26:].split()[:2]) for line in lines}


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def processor_seconds(gateway):
    fields = _fields(gateway.process.pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Killer:
    """Ends a worker now and then, while a `with` lasts; in every tenth time the process that starts them."""

    def __init__(self, gateway, seconds, random, spawners=False):
        self.gateway, self.seconds, self.random, self.spawners, self.killed = gateway, seconds, random, spawners, 0
        self.ends = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        while not self.ends.wait(self.seconds):
            found = workers(self.gateway)
            if self.spawners and self.random.random() < 0.1:
                found = [spawner(self.gateway) or 0]
            if found and found[0] != 0:
                kill(self.random.choice(found))
                self.killed += 1

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *exception):
        self.ends.set()
        self.thread.join()


def wait_gone(pids, seconds=5):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if not any((PROC / str(pid)).exists() and name(pid) == "redlock-script" for pid in pids):
            return True
        time.sleep(0.02)
    return False
