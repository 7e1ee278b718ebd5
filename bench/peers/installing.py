# SPDX-License-Identifier: BSD-2-Clause
"""Peers as directories: what peer.json says of them, and how they are installed outside of the source tree."""
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess

INSTALL_S = 900
KEYS = {"what", "needs", "install", "start", "processes", "in_flight", "warm_s"}


class Skipped(Exception):
    """A peer that cannot be measured here, and why."""


class Peer:
    def __init__(self, directory, builds, redlock_build):
        self.name = directory.name
        self.source = directory
        self.build = builds / directory.name
        self.log = builds / f"{directory.name}.log"
        self.redlock_build = redlock_build
        told = json.loads((directory / "peer.json").read_text(encoding="utf-8"))
        if unknown := told.keys() - KEYS:
            raise ValueError(f"{directory.name}/peer.json: {', '.join(sorted(unknown))}: no such key")
        self.what = told["what"]
        self.needs = told.get("needs", [])
        self.install_commands = told.get("install", [])
        self.start = told["start"]
        self.processes = told["processes"]  # or all who wait in one
        self.in_flight = told.get("in_flight", True)
        self.warm_s = told.get("warm_s", 0.5)
        self.version = self.defaults = ""

    def command(self, words):
        return [word.replace("{redlock_build}", str(self.redlock_build)) for word in words]


def find(directory, builds, redlock_build):
    return {path.parent.name: Peer(path.parent, builds, redlock_build)
            for path in sorted(directory.glob("*/peer.json"))}


def fingerprint(directory):
    digest = hashlib.sha256()
    for path in sorted(path for path in directory.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(directory)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def last_words(log):
    """The line of a log that most likely says what went wrong."""
    text = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", pathlib.Path(log).read_text(encoding="utf-8", errors="replace"))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    wrong = [line for line in lines if re.search(r"error|cannot|not found|failed", line, re.IGNORECASE)]
    return (wrong or lines or ["no message"])[-1 if not wrong or wrong[-1] == lines[-1] else 0][:160]


def install(peer):
    """By its own package manager, into its build directory; nothing to do when that is up to date."""
    for program in peer.needs:
        if shutil.which(program) is None:
            raise Skipped(f"needs {program}, which is not on the PATH")
    done, wanted = peer.build / ".installed", fingerprint(peer.source)
    if done.is_file() and done.read_text(encoding="ascii") == wanted:
        return
    shutil.copytree(peer.source, peer.build, dirs_exist_ok=True)
    with peer.log.open("w", encoding="utf-8") as log:
        for words in peer.install_commands:
            command = peer.command(words)
            log.write(f"+ {' '.join(command)}\n")
            log.flush()
            try:
                status = subprocess.run(command, cwd=peer.build, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                        timeout=INSTALL_S, check=False).returncode
            except subprocess.TimeoutExpired:
                raise Skipped(f"cannot be installed: {words[0]} took longer than {INSTALL_S} s") from None
            except OSError as error:
                raise Skipped(f"cannot be installed: {words[0]}: {error.strerror}") from None
            if status != 0:
                raise Skipped(f"cannot be installed: {words[0]} exits {status}: {last_words(peer.log)}")
    done.write_text(wanted, encoding="ascii")


def default_builds():
    cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(cache) / "redlock-peers"
