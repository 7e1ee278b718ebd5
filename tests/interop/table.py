# SPDX-License-Identifier: BSD-2-Clause
"""What came of all peers in one table. usage: table.py RESULTS"""
import json
import pathlib
import sys

from peers import CHECKS

HEAD = ["peer", "version", "nodes", "key", "they exclude us", "we exclude them", "release", "extend", "woken by release",
        "by expiry", "counter", "turns ours:theirs"]


def cell(row, check):
    mark = row["checks"].get(check, "?")
    waited = row.get(f"{check}_ms")
    return f"{mark} ({waited:.0f} ms)" if mark == "yes" and waited is not None else mark


def cells(row):
    return [row["peer"], row["version"], str(row["nodes"]), row["key"], *(cell(row, check) for check in CHECKS),
            ":".join(map(str, row.get("turns", "?")))]


def aligned(rows):
    widths = [max(len(line[i]) for line in rows) for i in range(len(HEAD))]
    return ["  ".join(f"{text:<{width}}" for text, width in zip(line, widths)).rstrip() for line in rows]


def table(rows):
    there = [row for row in rows if "version" in row]
    yield from aligned([HEAD, *map(cells, there)])
    for row in there:
        yield f"{row['peer']} {row['version']}: {row['what']}; token: {row['token']}; " + ", ".join(
            f"{name} {value}" for name, value in row["defaults"].items())
    for row in there:
        for check, why in row["notes"].items():
            yield f"{row['peer']}, {check}: {why}"
    for row in rows:
        if row["skipped"]:
            yield f"{row['peer']}: skipped: {row['skipped']}"
        elif "version" not in row:
            yield f"{row['peer']}: FAILED: it does not start"


def main():
    results = pathlib.Path(sys.argv[1])
    rows = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(results.glob("*.json"))]
    if not rows:
        print("no peer was tested")
        return 1
    text = "\n".join(table(rows)) + "\n"
    (results / "table.txt").write_text(text, encoding="utf-8")
    print(text, end="")
    # What failed has failed in its own test too; a row that is not whole must not look like one.
    return 1 if "FAILED" in text or any("?" in cells(row) for row in rows if "version" in row) else 0


if __name__ == "__main__":
    sys.exit(main())
