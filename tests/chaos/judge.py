# SPDX-License-Identifier: BSD-2-Clause
"""Judges a run by what its workers wrote down (record.h), and by nothing that the library says of others.

Two holders of a resource at once, unless both only read; more holders of a semaphore than it has slots; fences that do not grow
as docs/use/fencing.md and docs/use/shared.md promise; a write or a read that the register refused although its holder was inside its
validity; observers that report two leaders for one term, or a term that falls.
"""
import bisect
import dataclasses
import pathlib
import struct

from fences import Fences

LAYOUT = struct.Struct("<qqqqIIII")
GRANT, EXTENDED, LOST, LEAVE, REFUSED, TICK, RESULT, SHARED, DOWNGRADE, OBSERVED = range(1, 11)
SEMAPHORES, ELECTIONS, SLOTS_STEP = 512, 768, 16  # how resources are numbered
FOREVER = 2**63 - 1
KEPT = 4000  # grants of a resource that are remembered, for its neighbours in time and for the picture


def semaphore_of(resource):
    """(semaphore, slot, number of its slots), or None: the resource is no slot."""
    if not SEMAPHORES <= resource < ELECTIONS:
        return None
    semaphore, slot = divmod(resource - SEMAPHORES, SLOTS_STEP)
    return semaphore, slot, 2 + semaphore % 3


def name_of(resource):
    if resource >= ELECTIONS:
        return f"l{resource - ELECTIONS}"
    if slot := semaphore_of(resource):
        return f"s{slot[0]}:slot:{slot[1]}"
    return f"r{resource}"


def id_of(name):
    """Of a leader: chaos_id() in record.c."""
    value = 14695981039346656037
    for byte in name.encode():
        value = (value ^ byte) * 1099511628211 % 2**64
    return value >> 1


@dataclasses.dataclass(slots=True)
class Grant:
    worker: str
    slot: int  # of the worker
    turn: int
    resource: int
    at: int     # nanoseconds of CLOCK_BOOTTIME: the holder knew
    end: int    # of validity, as last written down
    fence: int
    asked: int
    reads: bool = False
    writer: "Grant | None" = None  # it was this writer's until `at`
    until: int = 0  # the holder was inside from `at` until here
    left: bool = False
    lost: bool = False  # reported so; the holder releases it then

    def __str__(self):
        how = "left" if self.left else "validity or life ended"
        what = " reads" if self.reads else ""
        return (f"{name_of(self.resource)} {self.worker} slot {self.slot}{what}: inside {self.at}..{self.until} ({how}), "
                f"fence {self.fence}, asked {self.asked}, validity ends {self.end}")


class Timeline:
    """Grants in the order of their beginning."""

    def __init__(self):
        self.times, self.grants, self.longest = [], [], 0

    def meets(self, grant):
        """Those that are inside while `grant` is."""
        first = bisect.bisect_left(self.times, grant.at - self.longest)
        last = bisect.bisect_left(self.times, grant.until)
        return [other for other in self.grants[first:last] if other.until > grant.at]

    def add(self, grant):
        place = bisect.bisect(self.times, grant.at)
        self.times.insert(place, grant.at)
        self.grants.insert(place, grant)
        self.longest = max(self.longest, grant.until - grant.at)
        if len(self.times) > 2 * KEPT:
            del self.times[:KEPT], self.grants[:KEPT]


@dataclasses.dataclass
class Violation:
    kind: str  # overlap, slots, fence, register, leader, orphan, progress, hang, crash
    at: int
    text: str


class Judge:
    def __init__(self):
        self.grants = self.refused = self.results = self.observed = 0
        self.by_worker, self.by_kind = {}, {}
        self.last_grant = 0
        self.longest_gap = 0
        self.violations = []
        self.closed = {}  # resource: Timeline
        self.semaphores = {}  # semaphore: Timeline of all its slots
        self.fences = {}  # resource: Fences
        self.leaders = Leaders(self)
        self.open = {}    # worker: {(slot, turn, resource): grant}
        self.ticks = {}   # of commands, which have no end of validity

    def feed(self, worker, data):
        """Whole records of one worker, in its order."""
        opened = self.open.setdefault(worker, {})
        for at, end, fence, asked, kind, resource, slot, turn in LAYOUT.iter_unpack(data):
            key = slot, turn, resource
            if kind in (GRANT, SHARED):
                self._granted(worker, resource, kind)
                self.longest_gap = max(self.longest_gap, at - self.last_grant if self.last_grant else 0)
                self.last_grant = max(self.last_grant, at)
                opened[key] = Grant(worker, slot, turn, resource, at, end, fence, asked, kind == SHARED)
                if resource >= ELECTIONS:
                    self.leaders.granted(opened[key])
                continue
            if kind == OBSERVED:
                self.observed += 1
                self.leaders.observed(worker, resource, at, end, fence, asked)
                continue
            if kind == REFUSED:
                self._refused(worker, at, end, fence, asked, resource)
                continue
            grant = opened.get(key)
            if kind == RESULT or grant is None:
                self.results += kind == RESULT
            elif kind == EXTENDED:
                grant.end = max(grant.end, end)
            elif kind == DOWNGRADE:
                grant.end = max(grant.end, end)
                opened[key] = dataclasses.replace(grant, at=at, asked=at, reads=True, writer=grant)
                self._count("downgrades")
                self._close(grant, min(grant.end, at))
            elif kind == TICK:
                self.ticks[worker, key] = at
            else:
                del opened[key]
                self.ticks.pop((worker, key), None)
                if kind == LEAVE:
                    grant.end = max(grant.end, end) if grant.end != FOREVER else FOREVER
                grant.left, grant.lost = kind == LEAVE, kind == LOST
                self._close(grant, min(grant.end, at))

    def died(self, worker, match=lambda key: True):
        """It writes nothing more: its leases last until the end of their validity, its commands as long as they lived."""
        opened = self.open.get(worker, {})
        for key in [key for key in opened if match(key)]:
            grant = opened.pop(key)
            last_tick = self.ticks.pop((worker, key), grant.at)
            self._close(grant, last_tick if grant.end == FOREVER else grant.end)

    def _count(self, kind):
        self.by_kind[kind] = self.by_kind.get(kind, 0) + 1

    def _granted(self, worker, resource, kind):
        self.grants += 1
        name = worker.split(".")[0]
        self.by_worker[name] = self.by_worker.get(name, 0) + 1
        self._count("leaders" if resource >= ELECTIONS else "slots" if resource >= SEMAPHORES else
                    "readers" if kind == SHARED else "writers")

    def _refused(self, worker, at, end, fence, higher, resource):
        self.refused += 1
        if at < end:
            self.blame("register", at, f"{name_of(resource)}: the register refused fence {fence} of {worker} below {higher}, {end - at} ns "
                                       "before its validity ended")

    def _close(self, grant, until):
        grant.until = until
        if until <= grant.at:
            return
        timeline = self.closed.setdefault(grant.resource, Timeline())
        for other in timeline.meets(grant):
            if not (other.reads and grant.reads):
                self._overlap(*sorted((other, grant), key=lambda each: each.at))
        timeline.add(grant)
        if grant.fence > 0:
            for first, second in self.fences.setdefault(grant.resource, Fences()).add(grant):
                self.blame("fence", second.at, f"fencing tokens do not grow:\n  {first}\n  {second}")
        if semaphore := semaphore_of(grant.resource):
            self._slot(grant, *semaphore)

    def _overlap(self, first, second):
        both = min(first.until, second.until) - second.at
        self.blame("overlap", second.at, f"two holders at once for {both / 1e6:.3f} ms:\n  {first}\n  {second}")

    def _slot(self, grant, semaphore, slot, slots):
        """At most so many at a time, whatever slots they believe to have."""
        if not 1 <= slot <= slots:
            self.blame("slots", grant.at, f"slot {slot} of {slots}:\n  {grant}")
        timeline = self.semaphores.setdefault(semaphore, Timeline())
        inside = [*timeline.meets(grant), grant]
        timeline.add(grant)
        for each in inside:
            meanwhile = [other for other in inside if other.at <= each.at < other.until]
            if len(meanwhile) > slots and grant in meanwhile:
                self.blame("slots", each.at, f"{len(meanwhile)} holders of {slots} slots at once:\n  " + "\n  ".join(map(str, meanwhile)))
                return

    def blame(self, kind, at, text):
        self.violations.append(Violation(kind, at, text))

    def count(self, kind):
        return sum(1 for violation in self.violations if violation.kind == kind)


class Leaders:
    """What observers of elections report: one leader for each term, and terms that never fall. Nobody else leads before
    `sure`, unless that leader has resigned meanwhile."""

    def __init__(self, judge):
        self.judge = judge
        self.ids = {}      # (resource, term): (a leader's id, who says so)
        self.highest = {}  # (observer, resource): term
        self.sure = {}     # resource: {term: [(when it was reported, sure until then, by whom)]}, the best of each moment
        self.terms = {}    # resource: {term: grant}

    def now(self):
        """The workers that have a leader."""
        return {name for name, opened in self.judge.open.items() if any(resource >= ELECTIONS for _, _, resource in opened)}

    def _is(self, resource, term, leader, who, at):
        was, whose = self.ids.setdefault((resource, term), (leader, who))
        if was != leader:
            self.judge.blame("leader", at, f"{name_of(resource)}: {who} and {whose} name different leaders of term {term}")

    def granted(self, grant):
        self.terms.setdefault(grant.resource, {})[grant.fence] = grant
        self._is(grant.resource, grant.fence, id_of(grant.worker), f"{grant.worker}, which leads,", grant.at)

    def observed(self, observer, resource, at, sure, term, leader):
        self._is(resource, term, leader, observer, at)
        highest = self.highest.get((observer, resource), 0)
        if term < highest:
            self.judge.blame("leader", at, f"{name_of(resource)}: {observer} reports term {term} after {highest}")
        self.highest[observer, resource] = max(term, highest)
        reports = self.sure.setdefault(resource, {}).setdefault(term, [])
        if sure > at and (not reports or sure > reports[-1][1]):
            reports.append((at, sure, observer))

    def finish(self):
        """When all logs are read."""
        for resource, terms in self.terms.items():
            ordered = sorted(terms)
            for term, reports in self.sure.get(resource, {}).items():
                before = terms.get(term)
                after = bisect.bisect(ordered, term)
                if before is None or after == len(ordered):
                    continue
                following = terms[ordered[after]]
                gone = before.until if before.left or before.lost else FOREVER
                for at, sure, observer in reports:
                    if at < following.at < min(sure, gone) and following.until > following.at:
                        self.judge.blame("leader", following.at, f"{observer} was sure at {at} until {sure} of the first, and the second "
                                                                 f"led:\n  {before}\n  {following}")
                        break


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
