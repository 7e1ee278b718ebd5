# SPDX-License-Identifier: BSD-2-Clause
"""Runs a peer's program for one measurement, and makes figures of what it says. README.md has the protocol."""
import asyncio
import ctypes
import json
import statistics
import time
from dataclasses import dataclass

from installing import last_words

READY_S, GRACE_S, END_S, LINE_BYTES = 90, 60, 10, 1 << 28
SETTLE_S = 0.2  # starting 32 programs keeps a machine busy a little longer than they say
WAITERS = 32
PR_SET_TIMERSLACK = 29


@dataclass(frozen=True)
class Measure:
    name: str
    kind: str  # cycles or holds
    workers: int
    words: str


MEASURES = [Measure("one", "cycles", 1, "one at a time"), Measure("flight64", "cycles", 64, "64 in flight"),
            Measure("flight256", "cycles", 256, "256 in flight"),
            Measure("contended", "holds", WAITERS, f"{WAITERS} in line")]


@dataclass(frozen=True)
class Plan:
    seconds: float
    ttl_ms: int
    prefix: str  # of resources; nobody else's


class Failed(Exception):
    """This measurement of this peer came to nothing, and why."""


def keep_time_fine():
    """So that a hold of 1 ms is one: timer slack is inherited by all programs started from here, whatever their language."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0)


class Program:
    """A process of a peer: it says that it is ready, gets a line, works, says what came of it, and ends."""

    def __init__(self, peer, process):
        self.peer, self.process = peer, process

    @classmethod
    async def begin(cls, peer, arguments, log):
        try:
            return cls(peer, await asyncio.create_subprocess_exec(
                *peer.command(peer.start), *map(str, arguments), cwd=peer.build, limit=LINE_BYTES,
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=log))
        except OSError as error:
            raise Failed(f"does not start: {peer.start[0]}: {error.strerror}") from None

    async def line(self, seconds, what):
        try:
            line = await asyncio.wait_for(self.process.stdout.readline(), seconds)
            return json.loads(line)
        except asyncio.TimeoutError:
            raise Failed(f"{what}: no answer in {seconds:g} s") from None
        except ValueError:
            said = line.decode(errors="replace").strip()
            raise Failed(f"{what}: {said or last_words(self.peer.log)}"[:200]) from None

    async def ready(self):
        told = await self.line(READY_S, "does not get ready")
        self.peer.version, self.peer.defaults = told["version"], told["defaults"]

    def go(self):
        self.process.stdin.write(b"go\n")

    def kill(self):
        if self.process.returncode is None:
            self.process.kill()

    async def end(self):
        """One that has said its last word ends by itself, and so does one that hears that nobody wants it."""
        self.process.stdin.close()
        try:
            await asyncio.wait_for(self.process.wait(), END_S)
        except asyncio.TimeoutError:
            self.kill()
            await self.process.wait()


async def run_programs(peer, kind, workers, processes, plan):
    """The lines that they end with, and when they were told to go, in microseconds of the monotonic clock."""
    arguments = [kind, workers, round(peer.warm_s * 1000), round(plan.seconds * 1000), plan.ttl_ms,
                 f"{plan.prefix}:{peer.name}:{time.monotonic_ns()}"]
    programs = []
    with peer.log.open("w", encoding="utf-8") as log:
        try:
            for _ in range(processes):
                programs.append(await Program.begin(peer, arguments, log))
            for program in programs:
                await program.ready()
            await asyncio.sleep(min(SETTLE_S, plan.seconds))
            began = time.monotonic_ns() // 1000
            for program in programs:
                program.go()
            patience = peer.warm_s + plan.seconds + GRACE_S
            told = [await program.line(patience, "no result") for program in programs]
        except BaseException:
            for program in programs:
                program.kill()
            raise
        finally:
            await asyncio.gather(*(program.end() for program in programs))
    return told, began


async def greet_program(peer, plan):
    """Whether it runs at all: it gets ready, and is sent away."""
    with peer.log.open("w", encoding="utf-8") as log:
        program = await Program.begin(peer, ["cycles", 1, 0, 0, plan.ttl_ms, f"{plan.prefix}:greeting"], log)
        try:
            await program.ready()
        finally:
            await program.end()


def greet(peer, plan):
    asyncio.run(greet_program(peer, plan))


def cycles_figures(told):
    if told["cycles"] == 0:
        raise Failed(f"not one cycle, and {told['failed']} that failed")
    figures = {name: told[name] for name in ("p50_us", "p99_us", "max_us", "failed")}
    return {"rate": told["cycles"] * 1e6 / told["open_us"], **figures}


def percentile(ordered, share):
    return ordered[int((len(ordered) - 1) * share)] if ordered else 0


def holds_figures(workers, opens, closes):
    """`workers`: of each its turns, [asked, got, gave], and at the end perhaps [asked, until] in vain."""
    waits, turns, holds = [], [0] * len(workers), []
    for number, worker in enumerate(workers):
        for asked, ended, *gave in worker:
            if gave:
                holds.append((ended, gave[0]))
            if gave and opens <= ended < closes:
                turns[number] += 1
                waits.append(ended - asked)
            elif asked < closes and (not gave or ended >= closes):
                # It has waited that long at least. It counts, or who starves is not seen.
                waits.append(closes - asked)
    if not holds:
        raise Failed("nobody had a turn")
    waits.sort()
    return {"rate": sum(turns) * 1e6 / (closes - opens), "p50_us": percentile(waits, 0.5),
            "p99_us": percentile(waits, 0.99), "max_us": waits[-1] if waits else closes - opens,
            "fewest": min(turns), "most": max(turns), "overlaps": overlaps(holds)}


def overlaps(holds):
    """How often somebody got what another still had."""
    until, count = 0, 0
    for got, gave in sorted(holds):
        count += got < until
        until = max(until, gave)
    return count


def run(peer, measure, plan):
    """The figures of one run."""
    if measure.kind == "cycles":
        told, _ = asyncio.run(run_programs(peer, "cycles", measure.workers, 1, plan))
        return cycles_figures(told[0])
    processes = measure.workers if peer.processes else 1
    told, began = asyncio.run(run_programs(peer, "holds", measure.workers // processes, processes, plan))
    opens = began + round(peer.warm_s * 1e6)
    return holds_figures([worker for each in told for worker in each["workers"]], opens,
                         opens + round(plan.seconds * 1e6))


def medians(runs):
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]} if runs else {}
