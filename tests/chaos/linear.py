# SPDX-License-Identifier: BSD-2-Clause
"""Shows histories of locks to a checker of linearizability that is not ours: porcupine, in linear/ (Go)."""
import json
import pathlib
import shutil
import subprocess

from machines import now

HERE = pathlib.Path(__file__).resolve().parent / "linear"
GRANTS = 40  # in one history: the time it takes to find an order grows fast


def build(directory):
    """The program; None and why: it cannot be had."""
    if not shutil.which("go"):
        return None, "there is no go"
    program = directory / "chaos-linear"
    done = subprocess.run(["go", "build", "-mod=readonly", "-o", str(program), "."], cwd=HERE, capture_output=True, text=True, check=False)
    return (program, "") if done.returncode == 0 else (None, (done.stderr.strip().splitlines() or ["go build failed"])[-1])


def histories(judge):
    for _, grants in judge.closed.values():
        for at in range(0, len(grants), GRANTS):
            part = grants[at:at + GRANTS]
            yield [{"id": i + 1, "asked": grant.asked, "at": grant.at, "until": grant.until, "fence": grant.fence}
                   for i, grant in enumerate(part)]


def check(world, directory):
    """What came of it, in words."""
    program, why = build(directory)
    if program is None:
        return f"linearizability: not checked: {why}"
    text = "".join(f"{json.dumps(history)}\n" for history in histories(world.judge))
    done = subprocess.run([str(program)], input=text, capture_output=True, text=True, check=False)
    last = (done.stdout.strip().splitlines() or [done.stderr.strip()])[-1]
    if done.returncode != 0:
        world.judge.blame("linearizability", now(), done.stdout + done.stderr)
    return f"linearizability, by porcupine: {last}"
