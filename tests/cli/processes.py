# SPDX-License-Identifier: BSD-2-Clause
"""What /proc knows of the processes that redlock(1) starts."""
import pathlib


def state(pid):
    """One letter as in ps(1): Z is a zombie, T is stopped; None when there is no such process."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


def gone(pid):
    return state(pid) in (None, "Z", "X")


def parent(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def children(pid):
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and parent(entry.name) == pid:
                found.append(int(entry.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def name(pid):
    """Empty for one that has ended."""
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def holder_of(front):
    """The process that holds the lock for the `redlock run` of this pid."""
    return next((child for child in children(front) if name(child) == "redlock-holder"), None)


def zombies_below(pid):
    found, left = [], [pid]
    while left:
        for child in children(left.pop()):
            left.append(child)
            if state(child) == "Z":
                found.append(child)
    return found
