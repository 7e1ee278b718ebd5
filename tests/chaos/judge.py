# SPDX-License-Identifier: BSD-2-Clause
"""Judges a run by what its workers wrote down (record.h), and by nothing that the library says of others.

Two holders of a resource at once; fences that do not grow in the order of grants; a write that the register refused although
its holder was inside its validity.
"""
import bisect
import dataclasses
import pathlib
import struct

LAYOUT = struct.Struct("<qqqqIIII")
GRANT, EXTENDED, LOST, LEAVE, REFUSED, TICK, RESULT = range(1, 8)
FOREVER = 2**63 - 1
KEPT = 4000  # grants of a resource that are remembered, for its neighbours in time and for the picture


@dataclasses.dataclass(slots=True)
class Grant:
    worker: str
    slot: int
    turn: int
    resource: int
    at: int     # nanoseconds of CLOCK_BOOTTIME: the holder knew
    end: int    # of validity, as last written down
    fence: int
    asked: int
    until: int = 0  # the holder was inside from `at` until here
    left: bool = False

    def __str__(self):
        how = "left" if self.left else "validity or life ended"
        return (f"r{self.resource} {self.worker} slot {self.slot}: inside {self.at}..{self.until} ({how}), fence {self.fence}, "
                f"asked {self.asked}, validity ends {self.end}")


@dataclasses.dataclass
class Violation:
    kind: str  # overlap, fence, register, orphan, progress, hang, crash
    at: int
    text: str


class Judge:
    def __init__(self):
        self.grants = self.refused = self.results = 0
        self.by_worker = {}
        self.last_grant = 0
        self.longest_gap = 0
        self.violations = []
        self.closed = {}  # resource: (list of `at`, list of grants), both in the order of time
        self.open = {}    # worker: {(slot, turn, resource): grant}
        self.ticks = {}   # of commands, which have no end of validity

    def feed(self, worker, data):
        """Whole records of one worker, in its order."""
        opened = self.open.setdefault(worker, {})
        for at, end, fence, asked, kind, resource, slot, turn in LAYOUT.iter_unpack(data):
            key = slot, turn, resource
            if kind == GRANT:
                self._granted(worker)
                self.longest_gap = max(self.longest_gap, at - self.last_grant if self.last_grant else 0)
                self.last_grant = max(self.last_grant, at)
                opened[key] = Grant(worker, slot, turn, resource, at, end, fence, asked)
                continue
            if kind == REFUSED:
                self._refused(worker, at, end, fence, asked, resource)
                continue
            grant = opened.get(key)
            if kind == RESULT or grant is None:
                self.results += kind == RESULT
            elif kind == EXTENDED:
                grant.end = max(grant.end, end)
            elif kind == TICK:
                self.ticks[worker, key] = at
            else:
                del opened[key]
                self.ticks.pop((worker, key), None)
                if kind == LEAVE:
                    grant.end = max(grant.end, end) if grant.end != FOREVER else FOREVER
                grant.left = kind == LEAVE
                self._close(grant, min(grant.end, at))

    def died(self, worker, match=lambda key: True):
        """It writes nothing more: its leases last until the end of their validity, its commands as long as they lived."""
        opened = self.open.get(worker, {})
        for key in [key for key in opened if match(key)]:
            grant = opened.pop(key)
            last_tick = self.ticks.pop((worker, key), grant.at)
            self._close(grant, last_tick if grant.end == FOREVER else grant.end)

    def _granted(self, worker):
        self.grants += 1
        kind = worker.split(".")[0]
        self.by_worker[kind] = self.by_worker.get(kind, 0) + 1

    def _refused(self, worker, at, end, fence, higher, resource):
        self.refused += 1
        if at < end:
            self.blame("register", at, f"r{resource}: the register refused fence {fence} of {worker} below {higher}, {end - at} ns "
                                       "before its validity ended")

    def _close(self, grant, until):
        grant.until = until
        if until <= grant.at:
            return
        times, grants = self.closed.setdefault(grant.resource, ([], []))
        place = bisect.bisect(times, grant.at)
        # Those that are there are disjoint and grow, or there is a violation already: neighbours are enough.
        if place > 0:
            self._compare(grants[place - 1], grant)
        if place < len(grants):
            self._compare(grant, grants[place])
        times.insert(place, grant.at)
        grants.insert(place, grant)
        if len(times) > 2 * KEPT:
            del times[:KEPT], grants[:KEPT]

    def _compare(self, first, second):
        if second.at < first.until:
            self.blame("overlap", second.at, f"two holders at once for {(min(first.until, second.until) - second.at) / 1e6:.3f} ms:\n"
                                             f"  {first}\n  {second}")
        if first.fence > 0 and second.fence > 0 and second.fence <= first.fence:
            self.blame("fence", second.at, f"fencing tokens do not grow:\n  {first}\n  {second}")

    def blame(self, kind, at, text):
        self.violations.append(Violation(kind, at, text))

    def count(self, kind):
        return sum(1 for violation in self.violations if violation.kind == kind)


class Reader:
    """Gives a judge what is new in the logs of a directory: NAME.log of worker NAME."""

    def __init__(self, judge, directory):
        self.judge, self.directory, self.files, self.over = judge, pathlib.Path(directory), {}, set()

    def read(self, name):
        file = self.files.get(name)
        if name in self.over:
            return
        if file is None:
            try:
                file = self.files[name] = open(self.directory / f"{name}.log", "rb")  # until close()
            except FileNotFoundError:
                return
        data = file.read()
        whole = len(data) // LAYOUT.size * LAYOUT.size
        file.seek(whole - len(data), 1)
        if whole:
            self.judge.feed(name, data[:whole])

    def close(self, name):
        self.read(name)
        self.over.add(name)
        if file := self.files.pop(name, None):
            file.close()
