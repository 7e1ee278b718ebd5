# SPDX-License-Identifier: BSD-2-Clause
"""What came of it: one table for people, one object for programs."""
import statistics

from measuring import MEASURES, medians

HEAD_GROUPS = [("", 2), ("one at a time", 2), ("64 in flight", 2), ("256 in flight", 2), ("", 6)]
HEAD = ["peer", "version", "p50 us", "ratio", "cycles/s", "ratio", "cycles/s", "ratio",
        "holds/s", "ratio", "wait p50 ms", "p99 ms", "max ms", "turns"]


class Record:
    """Of one peer: its runs of each measure, and those of redlock beside them, pair by pair."""

    def __init__(self, peer):
        self.peer = peer
        self.skipped = None
        self.failed = {}
        self.lost_pairs = 0  # of redlock alone: where it failed beside a peer
        self.runs = {measure.name: [] for measure in MEASURES}
        self.beside = {measure.name: [] for measure in MEASURES}

    def add(self, measure, figures, beside):
        self.runs[measure.name].append(figures)
        self.beside[measure.name].append(beside)

    def ratio(self, measure, figure):
        """The median over pairs of ours to redlock's; None when there is none."""
        pairs = zip(self.runs[measure.name], self.beside[measure.name])
        ratios = [ours[figure] / theirs[figure] for ours, theirs in pairs if theirs and theirs[figure] > 0]
        return statistics.median(ratios) if ratios else None


def number(value, digits):
    return "-" if value is None else f"{value:.{digits}f}"


def ratio_text(ratio):
    return "-" if ratio is None else f"{ratio:.2f}x" if ratio >= 0.095 else f"{ratio:.3f}x"


def row(record):
    cells = [record.peer.name, record.peer.version]
    for measure in MEASURES:
        figures, figure = medians(record.runs[measure.name]), "p50_us" if measure.name == "one" else "rate"
        if measure.name in record.failed:
            cells += ["failed"]
        else:
            cells += [number(figures.get(figure), 0)]
        cells += [ratio_text(record.ratio(measure, figure))]
        if measure.kind == "holds":
            cells += [number(figures[name] / 1000 if figures else None, 1) for name in ("p50_us", "p99_us", "max_us")]
            cells += [f"{figures['fewest']:.0f} to {figures['most']:.0f}" if figures else "-"]
    return cells


def lines_of(rows):
    widths = [max(len(cells[i]) for cells in [HEAD, *rows]) for i in range(len(HEAD))]
    groups, at = [], 0
    for text, span in HEAD_GROUPS:
        groups.append(f"{text:<{sum(widths[at:at + span]) + 2 * (span - 1)}}")
        at += span
    groups[-1] = "32 in line for one resource, 1 ms holds"
    yield "  ".join(groups).rstrip()
    for cells in [HEAD, *rows]:
        yield "  ".join(f"{cell:<{width}}" if i < 2 else f"{cell:>{width}}"
                        for i, (cell, width) in enumerate(zip(cells, widths))).rstrip()


def remarks(record):
    """What the figures do not show by themselves."""
    for measure in MEASURES:
        if measure.name in record.failed:
            yield f"{record.peer.name}, {measure.words}: {record.failed[measure.name]}"
        runs = record.runs[measure.name]
        if failed := sum(run.get("failed", 0) for run in runs):
            yield f"{record.peer.name}, {measure.words}: {failed} tries failed although nobody else wanted the lock"
        if twice := sum(run.get("overlaps", 0) for run in runs):
            yield f"{record.peer.name}, {measure.words}: two held the lock at the same time, {twice} times"


def show(ours, records, plan, pairs, nodes):
    measured = [record for record in records if record.skipped is None]
    skipped = [record for record in records if record.skipped is not None]
    print(f"{nodes} server{'s' * (nodes > 1)}, {pairs} pair{'s' * (pairs > 1)} of {plan.seconds:g} s each; "
          "medians over pairs; ratio: to redlock's in the same pair")
    print()
    print("\n".join(lines_of([row(record) for record in [ours, *measured]])))
    print()
    for record in [ours, *measured]:
        crowd = "32 processes" if record.peer.processes else "32 workers in one process"
        print(f"{record.peer.name} {record.peer.version}: {record.peer.what}; {record.peer.defaults}; "
              f"in line: {crowd}; warms up for {record.peer.warm_s:g} s")
    for record in [ours, *measured]:
        for remark in remarks(record):
            print(remark)
    if ours.lost_pairs:
        print(f"{ours.peer.name} failed in {ours.lost_pairs} of the pairs, which do not count: see above")
    for record in skipped:
        print(f"{record.peer.name}: skipped: {record.skipped}")
    print(f"{len(records)} peer{'s' * (len(records) > 1)}: {len(measured)} measured, {len(skipped)} skipped")


def as_object(ours, records, plan, pairs, nodes):
    return {"nodes": nodes, "pairs": pairs, "seconds": plan.seconds, "ttl_ms": plan.ttl_ms,
            "peers": [peer_object(record) for record in [ours, *records]]}


def peer_object(record):
    peer = record.peer
    told = {"name": peer.name, "what": peer.what, "version": peer.version, "defaults": peer.defaults,
            "processes": peer.processes, "warm_s": peer.warm_s, "skipped": record.skipped, "failed": record.failed,
            "measures": {}}
    for measure in MEASURES:
        runs = record.runs[measure.name]
        if not runs:
            continue
        figures = [figure for figure in ("rate", "p50_us") if record.ratio(measure, figure) is not None]
        told["measures"][measure.name] = {
            "median": medians(runs), "ratio": {figure: record.ratio(measure, figure) for figure in figures},
            "runs": runs, "redlock": record.beside[measure.name]}
    return told
