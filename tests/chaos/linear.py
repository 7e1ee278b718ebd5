# SPDX-License-Identifier: BSD-2-Clause
"""Shows histories of locks to a checker of linearizability that is not ours: porcupine, in linear/ (Go).

Each history is that of one lock with its readers and writers, or of one semaphore with its slots. Of some that it accepts it is
shown a copy with a planted grant that cannot be, and must reject it.
"""
import copy
import json
import pathlib
import random
import shutil
import subprocess

from judge import name_of, semaphore_of
from machines import now

HERE = pathlib.Path(__file__).resolve().parent / "linear"
GRANTS = 40  # in one history: the time it takes to find an order grows fast
PLANTED = 60  # histories with a grant that cannot be


def build(directory):
    """The program; None and why: it cannot be had."""
    if not shutil.which("go"):
        return None, "there is no go"
    program = directory / "chaos-linear"
    done = subprocess.run(["go", "build", "-mod=readonly", "-o", str(program), "."], cwd=HERE, capture_output=True, text=True, check=False)
    return (program, "") if done.returncode == 0 else (None, (done.stderr.strip().splitlines() or ["go build failed"])[-1])


def entry(number, grant):
    """A writer that became a reader is one grant."""
    first, semaphore = grant.writer or grant, semaphore_of(grant.resource)
    return {"id": number, "asked": first.asked, "at": first.at, "until": grant.until, "fence": grant.fence,
            "reads": first.reads, "downgraded": grant.at if grant.writer else 0, "slot": semaphore[1] if semaphore else 0}


def history(name, slots, grants):
    return {"name": name, "slots": slots, "grants": [entry(i + 1, grant) for i, grant in enumerate(grants)]}


def histories(judge):
    for resource, timeline in judge.closed.items():
        if not semaphore_of(resource):
            yield from parts(name_of(resource), 0, timeline)
    for semaphore, timeline in judge.semaphores.items():
        yield from parts(f"s{semaphore}", semaphore_of(timeline.grants[0].resource)[2], timeline)


def parts(name, slots, timeline):
    became = {id(grant.writer) for grant in timeline.grants if grant.writer}
    grants = sorted((grant for grant in timeline.grants if id(grant) not in became), key=lambda grant: (grant.writer or grant).at)
    for at in range(0, len(grants), GRANTS):
        yield history(name, slots, grants[at:at + GRANTS])


def planted(story):
    """The same with one more grant, of a holder that is inside while another excludes it; None: nobody is inside for long
    enough."""
    inside = [each for each in story["grants"] if each["until"] > each["at"] + 2]
    if not inside:
        return None
    victim = max(inside, key=lambda each: each["until"] - each["at"])
    story = copy.deepcopy(story)
    story["name"] += ", planted"
    story["grants"].append({**victim, "id": len(story["grants"]) + 1, "asked": victim["at"] + 1, "at": victim["at"] + 1, "reads": False,
                            "downgraded": 0, "fence": victim["fence"] and victim["fence"] + 1})
    return story


def run(program, stories):
    """(how many were accepted, rejected and not decided; what it said)"""
    text = "".join(f"{json.dumps(story)}\n" for story in stories)
    done = subprocess.run([str(program)], input=text, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"linear: {done.stderr}")
    accepted, rejected, undecided = map(int, done.stdout.strip().splitlines()[-1].split())
    return (accepted, rejected, undecided), done.stdout


def check(world, directory):
    """What came of it, in words."""
    program, why = build(directory)
    if program is None:
        return f"linearizability: not checked: {why}"
    stories = list(histories(world.judge))
    (accepted, rejected, undecided), said = run(program, stories)
    if rejected:
        world.judge.blame("linearizability", now(), said)
    bad = [each for each in map(planted, stories) if each]
    bad = random.Random(world.seed).sample(bad, min(PLANTED, len(bad)))
    (believed, refused, doubtful), said = run(program, bad)
    if believed:
        world.judge.blame("linearizability", now(), f"porcupine accepted {believed} histories with a planted grant:\n{said}")
    of = ", ".join(f"{count} of {what}" for what, count in kinds(stories).items())
    return (f"linearizability, by porcupine: {accepted} histories ({of}) linearizable, {rejected} not, {undecided} not decided in 5 s; "
            f"with a planted grant {refused} of {len(bad)} rejected, {doubtful} not decided")


def kinds(stories):
    counts = {"slots": 0, "readers and writers": 0, "writers": 0}
    for story in stories:
        reads = any(each["reads"] or each["downgraded"] for each in story["grants"])
        counts["slots" if story["slots"] else "readers and writers" if reads else "writers"] += 1
    return counts
