# SPDX-License-Identifier: BSD-2-Clause
"""What the workers wrote down, and what must not be in it: two holders at once, and fences that do not grow."""
import dataclasses
import time


@dataclasses.dataclass
class Grant:
    resource: str
    pid: int
    fence: int
    asked: int  # nanoseconds of CLOCK_BOOTTIME: the try that won it began ...
    told: int   # ... and its caller knew
    end: int    # of its validity
    token: str
    left: int | None = None

    @property
    def until(self):
        """The holder was inside from `told` until here."""
        return min(self.end, now() if self.left is None else self.left)


def now():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Witness:
    def __init__(self, path):
        self.path = path
        path.touch()

    def records(self, *kinds):
        """Of these kinds, as lists of words; a record that is just being written is not there yet."""
        whole = self.path.read_text(encoding="ascii").rpartition("\n")[0]
        lines = [line.split(" ") for line in whole.splitlines()]
        return [words for words in lines if words[0] in kinds]

    def grants(self, resource=None):
        """In the order in which they were told."""
        found, inside = [], {}
        for kind, name, pid, *more in self.records("enter", "leave"):
            if kind == "enter":
                fence, asked, told, end = map(int, more[:4])
                inside[name, pid] = Grant(name, int(pid), fence, asked, told, end, more[4])
                found.append(inside[name, pid])
                continue
            grant, (left, end) = inside.pop((name, pid)), map(int, more)
            grant.left = left
            grant.end = max(grant.end, end)  # a lease that was renewed
        wanted = [grant for grant in found if resource in (None, grant.resource)]
        return sorted(wanted, key=lambda grant: grant.told)

    def tried(self):
        """(pid, result, when) of tries that were not won, where the result changed."""
        return [(int(pid), int(result), int(when)) for _, _, pid, result, when in self.records("tried")]

    def wrote(self):
        """(pid, fence, value) of acknowledged updates."""
        return [(int(pid), int(fence), int(value)) for _, _, pid, fence, value in self.records("wrote")]

    def fenced(self):
        return [(int(pid), int(fence)) for _, _, pid, fence in self.records("fenced")]


def by_resource(grants):
    names = {}
    for grant in grants:
        names.setdefault(grant.resource, []).append(grant)
    return names.values()


def overlaps(grants):
    """Pairs of grants of one resource whose holders were inside at once."""
    found = []
    for same in by_resource(grants):
        longest = None
        for grant in sorted(same, key=lambda grant: grant.told):
            if longest is not None and grant.told < longest.until:
                found.append((longest, grant))
            if longest is None or grant.until > longest.until:
                longest = grant
    return found


def fence_violations(grants):
    """Pairs of grants of one resource, the second asked for after the first was told, without a higher fence."""
    found = []
    for same in by_resource(grants):
        told = sorted(same, key=lambda grant: grant.told)
        highest, at = None, 0
        for grant in sorted(same, key=lambda grant: grant.asked):
            while told[at].told < grant.asked:
                if highest is None or told[at].fence > highest.fence:
                    highest = told[at]
                at += 1
            if grant.fence <= 0 or (highest is not None and grant.fence <= highest.fence):
                found.append((highest, grant))
    return found
