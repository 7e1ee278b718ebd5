#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The changes that scripts/mutate makes: which there are in a small file, and that each number activates its own."""
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import sites  # noqa: E402

TEXT = """#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#define LIMIT 7
static int calls;
static void call(void) { calls++; }
int answer(int a, int b);
int answer(int a, int b) {
    assert(a < 100);
    bool both = a > 2 && b > 2;
    if (!both) call();
    if (a == LIMIT) return 50;
    for (int i = 0; i < b; i++) {
        if (i == 4) break;
        a += i;
    }
    return a - b + 10 * calls;
}
int main(int count, char **words) { return count == 3 ? answer(atoi(words[1]), atoi(words[2])) : 255; }
"""
# What the program answers to (3, 3), (1, 3), (7, 3), (3, 6) with each change of answer().
ANSWERS = {
    "a > 2 => a >= 2": (3, 11, 50, 3),
    "a > 2 => a <= 2": (13, 1, 50, 13),
    "a > 2 && b > 2 => a > 2 || b > 2": (3, 1, 50, 3),
    "a > 2 && b > 2 => a > 2": (3, 11, 50, 3),
    "a > 2 && b > 2 => b > 2": (3, 1, 50, 3),
    "!both => both": (13, 1, 50, 13),
    "call() => ;": (3, 1, 50, 3),
    "a == LIMIT => a != LIMIT": (50, 50, 7, 50),
    "LIMIT => (LIMIT + 1)": (3, 11, 7, 3),
    "LIMIT => 0": (3, 11, 7, 3),
    "return 50 => ;": (3, 11, 7, 3),
    "50 => 51": (3, 11, 51, 3),
    "a += i => a -= i": (253, 5, 50, 247),
    "a += i => ;": (0, 8, 50, 253),
    "i < b => i <= b": (6, 14, 50, 3),
    "break => ;": (3, 11, 50, 12),
    "a - b => a + b": (9, 17, 50, 15),
}


def run(program, number):
    environment = {**os.environ, "REDLOCK_MUTANT": str(number)}
    return tuple(subprocess.run([program, a, b], env=environment, check=False, timeout=10).returncode
                 for a, b in (("3", "3"), ("1", "3"), ("7", "3"), ("3", "6")))


def main():
    wrong = 0
    with tempfile.TemporaryDirectory() as directory:
        path, program = os.path.join(directory, "small.c"), os.path.join(directory, "small")
        pathlib.Path(path).write_text(TEXT)
        reader = sites.Reader(path, "small.c", [], 1)
        pathlib.Path(directory, "all.c").write_text(reader.write())
        subprocess.run(["cc", "-w", "-include", HERE / "mutation.h", os.path.join(directory, "all.c"), "-o", program], check=True)
        found = {m["change"]: m for m in reader.mutants if m["function"] == "answer"}
        if any("100" in change for change in found):
            wrong = 1
            print("an assertion was changed")
        for change, expected in {"no change": (3, 11, 50, 3), **ANSWERS}.items():
            if change != "no change" and change not in found:
                wrong = 1
                print(f"no such change: {change}; there are {sorted(found)}")
                continue
            answer = run(program, found[change]["id"] if change in found else 0)
            if answer != expected:
                wrong = 1
                print(f"{change}: {answer}, and not {expected}")
        # One change in the text, as it is compared by its object code, is the change with its number.
        for change in ANSWERS:
            pathlib.Path(directory, "one.c").write_text(reader.plain(found[change]))
            subprocess.run(["cc", "-w", os.path.join(directory, "one.c"), "-o", program + "1"], check=True)
            if run(program + "1", 0) != run(program, found[change]["id"]):
                wrong = 1
                print(f"{change}: the text and the number differ")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
