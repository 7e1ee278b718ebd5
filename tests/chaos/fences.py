# SPDX-License-Identifier: BSD-2-Clause
"""The fences of one resource, in the order of its grants: a writer's is higher than all before it, and a reader's at least as
high as all before it. Of two readers at the same time, either may have the higher one."""
import bisect


class Peaks:
    """The greatest value among those that were added for a time not after the asked one. Each is a peak: it stands until a
    greater one for an earlier time comes."""

    def __init__(self):
        self.times, self.values, self.grants = [], [], []

    def add(self, time, value, grant):
        place = bisect.bisect(self.times, time)
        if place > 0 and self.values[place - 1] >= value:
            return
        end = place
        while end < len(self.times) and self.values[end] <= value:
            end += 1
        self.times[place:end], self.values[place:end], self.grants[place:end] = [time], [value], [grant]

    def until(self, time):
        """The grant with the greatest value until then, or None."""
        place = bisect.bisect(self.times, time)
        return self.grants[place - 1] if place > 0 else None


class Fences:
    def __init__(self):
        self.before = {True: Peaks(), False: Peaks()}  # readers or writers: the highest fence until a time
        self.after = {True: Peaks(), False: Peaks()}   # the lowest fence from a time on, of negative values
        self.asked_after = Peaks()                     # the same of readers, by when they asked

    def add(self, grant):
        """The pairs (earlier, later) of which the later one's fence is too low."""
        if grant.reads:
            earlier = self.before[False].until(grant.at), self.before[True].until(grant.asked)
            later = self.after[False].until(-grant.at), self.asked_after.until(-grant.at)
        else:
            earlier = self.before[False].until(grant.at), self.before[True].until(grant.at)
            later = self.after[False].until(-grant.at), self.after[True].until(-grant.at)
        self.before[grant.reads].add(grant.at, grant.fence, grant)
        self.after[grant.reads].add(-grant.at, -grant.fence, grant)
        if grant.reads:
            self.asked_after.add(-grant.asked, -grant.fence, grant)
        yield from ((each, grant) for each in earlier if each and not self._grows(each, grant))
        yield from ((grant, each) for each in later if each and not self._grows(grant, each))

    @staticmethod
    def _grows(first, second):
        return second.fence >= first.fence if second.reads else second.fence > first.fence
