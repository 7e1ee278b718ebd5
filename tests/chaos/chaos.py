# SPDX-License-Identifier: BSD-2-Clause
"""Chaos on real servers: scripts/chaos --mode classic|guarded|native --seconds S --seed N.

Exit status: 0: nothing was violated; 1: something was, and its folder is named. With --mutant and --beyond, which must be
noticed, the other way round.
"""
import argparse
import json
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time

import linear
import mutants
import picture
from faults import Faults
from machines import now
from world import World

CALM_EVERY_S = 15


def read_options(words):
    parser = argparse.ArgumentParser(prog="scripts/chaos", description="chaos on real servers, judged by independent records")
    parser.add_argument("--mode", choices=("classic", "guarded", "native"), default="guarded")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=None, help="default: drawn, and printed")
    parser.add_argument("--build", type=pathlib.Path, required=True, help="the build directory")
    parser.add_argument("--nodes", type=int, choices=(3, 5), help="default: by the seed")
    parser.add_argument("--resources", type=int, default=48)
    parser.add_argument("--every", default="50-200", help="milliseconds between two faults: LEAST-MOST")
    parser.add_argument("--peers", type=lambda text: [name for name in text.split(",") if name], default=[],
                        help="classic: clients of other projects (tests/interop), installed already")
    parser.add_argument("--exclusive", action="store_true", help="exclusive locks alone: no readers, no slots, no leaders")
    parser.add_argument("--plain", action="store_true", help="workers of the library alone")
    parser.add_argument("--beyond", action="store_true", help="classic: also what only guarded mode survives; must show two holders")
    parser.add_argument("--until-violation", action="store_true", help="end at the first one")
    parser.add_argument("--mutant", help="the workers' library lacks this rule (sim/mutants); ends at the first violation")
    parser.add_argument("--linear", action="store_true", help="show histories to porcupine, a checker of linearizability (needs go)")
    parser.add_argument("--keep", type=pathlib.Path, default=None, help="where the folder of a failing run goes")
    options = parser.parse_args(words)
    options.worker = None
    if options.mutant:
        options.plain = options.until_violation = True
    if options.beyond:
        options.mode, options.plain, options.until_violation = "classic", True, True
    return options


def show_progress(world, began, options):
    if sys.stderr.isatty():
        print(f"\r{time.monotonic() - began:6.0f} s of {options.seconds:.0f}, {world.judge.grants} grants, {len(world.faults)} faults, "
              f"{len(world.judge.violations)} violations ", end="", file=sys.stderr, flush=True)


def play(world, options):
    """The faults, with a calm now and then. Seconds until the first violation, or None."""
    least, most = (int(part) / 1000 for part in options.every.split("-"))
    faults = Faults(world)
    if options.beyond:
        faults.go_beyond()
    began = calm_at = looked = time.monotonic()
    world.run_for(3, until=lambda: world.judge.grants > 20)
    while time.monotonic() - began < options.seconds:
        faults.one()
        world.run_for(faults.random.uniform(least, most))
        if time.monotonic() - looked > 0.1:
            looked = time.monotonic()
            world.look_at_nodes()
            world.look_for_orphans()
            show_progress(world, began, options)
        if options.until_violation and world.judge.violations:
            return time.monotonic() - began
        if time.monotonic() - calm_at > CALM_EVERY_S:
            world.calms.append(world.calm())
            calm_at = time.monotonic()
    world.calms.append(world.calm(final=True))
    return None


def summary(world, options, seconds):
    judge = world.judge
    kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(world.kinds.items()))
    by_kind = ", ".join(f"{kind} {count}" for kind, count in sorted(judge.by_kind.items()))
    by_worker = ", ".join(f"{kind} {count}" for kind, count in sorted(judge.by_worker.items()))
    return (f"chaos {options.mode}, seed {options.seed}, {len(world.members)} nodes, {seconds:.0f} s: {judge.grants} grants ({by_kind}; {by_worker}), "
            f"{judge.observed} reports of leaders; "
            f"{len(world.faults)} faults ({kinds}); overlaps {judge.count('overlap') + judge.count('slots')}, wrong leaders "
            f"{judge.count('leader')}, token violations "
            f"{judge.count('fence') + judge.count('register')} (the register refused {judge.refused} late writes), orphans "
            f"{judge.count('orphan')}, crashes and hangs {judge.count('crash') + judge.count('hang')}, no progress "
            f"{judge.count('progress')}; longest time without a grant {judge.longest_gap / 1e9:.2f} s under faults, "
            f"{max(world.calms, default=0):.2f} s after they stopped")


def keep(world, options, directory, line):
    """One folder: the seed, faults with their times, what servers and workers wrote, and a picture."""
    where = (options.keep or options.build / "chaos-failures") / f"{options.mode}-{options.seed}"
    shutil.rmtree(where, ignore_errors=True)
    where.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(directory, where, ignore=shutil.ignore_patterns("redlock-test-server-*", "clock*"))
    first = world.judge.violations[0]
    (where / "violations.txt").write_text("".join(f"{each.at} {each.kind}: {each.text}\n" for each in world.judge.violations))
    (where / "faults.txt").write_text("".join(f"{at} {kind}: {text} ({seconds:.3f} s)\n" for at, kind, text, seconds in world.faults))
    (where / "seed.json").write_text(json.dumps({"mode": options.mode, "seed": options.seed, "nodes": len(world.members),
                                                 "every": options.every, "seconds": options.seconds, "summary": line}, indent=1) + "\n")
    (where / "last-ten-seconds.svg").write_text(picture.draw(world, first))
    return where


def main():
    options = read_options(sys.argv[1:])
    options.build = options.build.resolve()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # and so leaves nothing behind
    if options.seed is None:
        options.seed = int.from_bytes(os.urandom(3), "big")
    print(f"seed {options.seed}", flush=True)
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="redlock-chaos-", dir=memory) as path:
        tempfile.tempdir = path  # of the servers too
        directory = pathlib.Path(path)
        if options.mutant:
            options.worker, mutant = mutants.make(options.build, options.mutant, directory)
            print(f"mutant {options.mutant}: {mutant.rule}", flush=True)
        world, began, noticed = World(options, directory), time.monotonic(), None
        world.calms = []
        try:
            noticed = play(world, options)
            if noticed is None:
                world.end()
            line = summary(world, options, time.monotonic() - began)
            print(("\n" if sys.stderr.isatty() else "") + line, flush=True)
            if noticed is not None:
                first = world.judge.violations[0]
                print(f"noticed after {noticed:.1f} s, {world.judge.grants} grants, {len(world.faults)} faults: {first.kind}", flush=True)
            if options.linear and not world.judge.violations:
                print(linear.check(world, options.build))
            if world.judge.violations:
                for each in world.judge.violations[:5]:
                    print(f"violated: {each.kind}: {each.text}")
                print(f"kept: {keep(world, options, directory, line)}")
        finally:
            world.close()
    if options.mutant or options.beyond:
        if not world.judge.violations:
            print("nothing was noticed", flush=True)
        return 0 if world.judge.violations else 1
    return 1 if world.judge.violations else 0


if __name__ == "__main__":
    sys.exit(main())
