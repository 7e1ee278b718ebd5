# SPDX-License-Identifier: BSD-2-Clause
"""What the benchmarks of the bindings share: their servers, and rounds of programs in alternation, each next to C in its round.

A program is a peer of bench/peers: what measuring.run() can start.
"""
import argparse
import os
import pathlib
import statistics
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "bench" / "peers"))
import installing  # noqa: E402
import measuring  # noqa: E402

MEASURES = {measure: figure for measure in measuring.MEASURES
            for name, figure in (("one", "p50_us"), ("flight256", "rate")) if measure.name == name}
UNITS = {"p50_us": "us a cycle (p50)", "rate": "cycles a second"}


class Worker:
    """A program that is built already."""

    def __init__(self, name, directory, start, warm_s=0.5):
        self.name, self.build, self.start, self.warm_s = name, directory, start, warm_s
        self.log = pathlib.Path(os.devnull)

    def command(self, words):
        return words


def options(document):
    parser = argparse.ArgumentParser(description=document, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0, metavar="S", help="how long each run is measured (2)")
    parser.add_argument("--rounds", type=int, default=7, metavar="K", help="runs of each (7)")
    parser.add_argument("--redlock-build", type=pathlib.Path, metavar="DIR", default=SOURCE / "build" / "release",
                        help="where this project was built (build/release)")
    return parser


def with_servers(build):
    """Begins this program once more, with three servers, unless it has some."""
    if "REDLOCK_NODES" not in os.environ:
        redlock = str(build / "cli" / "redlock")
        os.execv(redlock, [redlock, "up", "-q", "--mode", "classic", "-n", "3", "--", sys.executable, *sys.argv])
    measuring.keep_time_fine()


def installed(build, *names):
    """Peers of bench/peers, and first C."""
    builds = installing.default_builds()
    builds.mkdir(parents=True, exist_ok=True)
    found = installing.find(SOURCE / "bench" / "peers", builds, build.resolve())
    for name in ("redlock", *names):
        installing.install(found[name])
    return [found[name] for name in ("redlock", *names)]


def measure(programs, given, leave_out=()):
    """{name: program}, one of them "C". Prints medians over rounds, and the medians of the ratios to C within a round."""
    rows = {(measure, name): [] for measure in MEASURES for name in programs if (name, measure.name) not in leave_out}
    plan = measuring.Plan(given.seconds, 30000, f"bindings:{os.getpid()}")
    for number in range(given.rounds):
        for measure, name in list(rows)[::-1 if number % 2 else 1]:
            figures = measuring.run(programs[name], measure, plan)
            rows[measure, name].append(figures[MEASURES[measure]])
            if figures["failed"]:
                print(f"{name}: {figures['failed']} failed", file=sys.stderr)
    for (measure, name), figures in rows.items():
        ratio = statistics.median(figure / c for figure, c in zip(figures, rows[measure, "C"]))
        print(f"{measure.words:16} {name:16} {statistics.median(figures):10.0f} {UNITS[MEASURES[measure]]:18} {ratio:6.2f} of C")
