# SPDX-License-Identifier: BSD-2-Clause
"""Peers as directories: what peer.json says of them. They are installed as those of bench/peers are, and by its code."""
import fcntl
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "bench" / "peers"))
import installing  # noqa: E402
from installing import Skipped  # noqa: E402,F401

from programs import Program  # noqa: E402

KEYS = {"what", "needs", "install", "start", "nodes", "not", "fails", "counter_ttl_ms", "renews", "commands"}
CHECKS = ["they_exclude_us", "we_exclude_them", "release", "extend", "woken_by_release", "woken_by_expiry", "counter"]


class Peer:
    def __init__(self, name):
        self.name = name
        self.source = HERE / name
        builds = installing.default_builds() / "interop"
        self.build, self.log = builds / name, builds / f"{name}.log"
        told = json.loads((self.source / "peer.json").read_text(encoding="utf-8"))
        if unknown := told.keys() - KEYS:
            raise ValueError(f"{name}/peer.json: {', '.join(sorted(unknown))}: no such key")
        self.what, self.start = told["what"], told["start"]
        self.needs, self.install_commands = told.get("needs", []), told.get("install", [])
        self.nodes, self.counter_ttl_ms = told.get("nodes", 5), told.get("counter_ttl_ms", 5000)
        self.renews, self.commands = told.get("renews", False), told.get("commands", [])
        self.left_out, self.fails = told.get("not", {}), told.get("fails", {})
        if unknown := (self.left_out.keys() | self.fails.keys()) - set(CHECKS):
            raise ValueError(f"{name}/peer.json: {', '.join(sorted(unknown))}: no such check")

    def command(self, words):
        return [word.replace("{source}", str(self.source)) for word in words]

    def install(self):
        """Raises Skipped when it cannot be. One at a time, if several want it."""
        self.build.parent.mkdir(parents=True, exist_ok=True)
        with open(self.build.parent / f"{self.name}.lock", "w", encoding="ascii") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            installing.install(self)

    def begin(self, servers):
        return Program([*self.command(self.start), *(server.url for server in servers)], cwd=self.build)


def names():
    return sorted(path.parent.name for path in HERE.glob("*/peer.json"))
