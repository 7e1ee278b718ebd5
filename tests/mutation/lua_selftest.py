#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""scripts/mutate-lua: which changes there are in a small script, what a server answers with each, and which runs of a test
count as noticed.

usage: lua_selftest.py SOURCE_DIR BUILD_DIR
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import lua  # noqa: E402
from verdict import DIFFERS, NoVerdict, verdict  # noqa: E402

TEXT = """local a, b = tonumber(ARGV[1]), tonumber(ARGV[2])
-- if this were kept: 1 == 2
if a > 2 and b > 2 then
    return 50
end
for i = 1, b do
    a = a + i
end
return a - b
"""
ASKED = (("3", "3"), ("1", "3"), ("3", "2"), ("2", "4"))
UNCHANGED = ("50", "4", "4", "8")
IF, FOR = "if a > 2 and b > 2 then: ", "for i = 1, b do: "
ANSWERS = {
    IF + "> => >=": ("50", "4", "4", "50"),
    IF + "> => <=": ("6", "50", "4", "50"),
    IF + "> => >= (#2)": ("50", "4", "50", "8"),
    IF + "and => or": ("50", "50", "50", "50"),
    IF + "a > 2 and b > 2 => not (a > 2 and b > 2)": ("6", "50", "50", "50"),
    IF + "a > 2 and b > 2 => true": ("50", "50", "50", "50"),
    IF + "a > 2 and b > 2 => false": ("6", "4", "4", "8"),
    IF + "if a > 2 and b > 2 then ... => ;": ("6", "4", "4", "8"),
    IF + "2 => 1": ("50", "4", "4", "50"),
    "return 50: return 50 => ;": ("6", "4", "4", "8"),
    "return 50: return 50 => return nil": ("", "4", "4", "8"),
    "return 50: 50 => 51": ("51", "4", "4", "8"),
    "return 50: 50 => 49": ("49", "4", "4", "8"),
    FOR + "1 => 2": ("50", "3", "3", "7"),
    FOR + "for i = 1, b do ... => ;": ("50", "-2", "1", "-2"),
    "a = a + i: + => -": ("50", "-8", "-2", "-12"),
    "a = a + i: a = a + i => ;": ("50", "-2", "1", "-2"),
    "return a - b: - => +": ("50", "10", "8", "16"),
    "return a - b: return a - b => ;": ("50", "", "", ""),
}


def ask(socket, text):
    return tuple(subprocess.run(["redis-cli", "-s", socket, "EVAL", text, "0", *words], check=True, capture_output=True,
                                text=True).stdout.strip() for words in ASKED)


def wait_for(socket):
    for _ in range(200):
        if subprocess.run(["redis-cli", "-s", socket, "PING"], capture_output=True, check=False).stdout == b"PONG\n":
            return
        time.sleep(0.05)
    sys.exit("lua_selftest: the server does not answer")


def said(words, timeout_s=60):
    try:
        return verdict(words, timeout_s)
    except NoVerdict:
        return "no verdict"


def check(failed, what, got, expected):
    if got != expected:
        failed.append(f"{what}: {got}, expected {expected}")


def check_runs(failed, directory):
    """A test that is a line of shell; `runs` counts how often it was started."""
    runs = pathlib.Path(directory) / "runs"
    for line, expected, times in (
            ("exit 0", "survived", 1), (f"exit {DIFFERS}", "noticed", 1), ("sleep 60", "timed out", 1),
            ("echo 'ERR Error compiling script'; exit 134", "no script", 1),
            ("exit 1", "no verdict", 2), ("kill -ABRT $$", "no verdict", 2),
            (f"[ $(wc -l < {runs}) = 2 ] || exit 1", "survived", 2),
            (f"[ $(wc -l < {runs}) = 2 ] || exit 1; exit {DIFFERS}", "noticed", 2)):
        runs.write_text("")
        check(failed, line, said(["sh", "-c", f"echo >> {runs}; {line}"], 2), expected)
        check(failed, f"runs of {line}", len(runs.read_text().splitlines()), times)


class Starts:
    """A redis-server, first in the PATH, that starts only so often."""

    def __init__(self, directory):
        self.count, program = (pathlib.Path(directory) / name for name in ("starts", "redis-server"))
        real = shutil.which("redis-server")
        program.write_text(f"""#!/bin/sh
if [ "$1" = --version ]; then exec {real} --version; fi
read left < {self.count}
[ "$left" -gt 0 ] || exit 1
echo $((left - 1)) > {self.count}
exec {real} "$@"
""")
        program.chmod(0o755)
        os.environ["PATH"] = f"{directory}:{os.environ['PATH']}"

    def allow(self, count):
        self.count.write_text(f"{count}\n")


def check_tests(failed, starts, build):
    """What the two tests say about a server as it is, about one that answers otherwise, and about none."""
    clock = next((build / "tests/node").glob("*stepclock.so"))
    differential = [build / "tests/node/node_differential", clock, "--requests", "2000", "--shrink", "0"]
    for words, count, expected in ((differential, 1, "survived"), ([*differential, "--skew-us", "1000"], 1, "noticed"),
                                   (differential, 0, "no verdict"),
                                   ([build / "tests/node/node_slots_differential"], 1, "survived"),
                                   ([build / "tests/node/node_slots_differential"], 0, "no verdict")):
        starts.allow(count)
        check(failed, f"{words[0].name} {' '.join(words[2:])}, {count} starts", said(words), expected)


def check_command(failed, starts, source, build):
    """The whole command: a server that does not start is never a change that is noticed."""
    command = [source / "scripts/mutate-lua", "--build-dir", build, "--script", "acquire_slot", "--share", "0/60"]
    for count, status, expected in ((0, 2, "with the scripts unchanged"), (3, 2, "with src/node/acquire_slot.lua | ")):
        starts.allow(count)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        check(failed, f"mutate-lua, {count} starts", (done.returncode, expected in done.stderr, "noticed" in done.stdout),
              (status, True, False))
        if expected not in done.stderr:
            failed.append(done.stdout + done.stderr)


def main():
    source, build = (pathlib.Path(word).resolve() for word in sys.argv[1:])
    text = lua.stripped(TEXT)
    changes = {name: changed for _, name, changed in lua.changes(text)}
    failed = [f"missing: {name}" for name in ANSWERS if name not in changes]
    failed += [f"in a comment: {name}" for name in changes if "kept" in name]
    with tempfile.TemporaryDirectory() as directory:
        socket = directory + "/s"
        server = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--dir", directory],
                                  stdout=subprocess.DEVNULL)
        try:
            wait_for(socket)
            expected = {"": (text, UNCHANGED), **{name: (changes[name], ANSWERS[name]) for name in ANSWERS if name in changes}}
            for name, (changed, answers) in expected.items():
                got = ask(socket, changed)
                if got != answers:
                    failed.append(f"{name or 'unchanged'}: {got}, expected {answers}")
        finally:
            server.terminate()
            server.wait()
        check_runs(failed, directory)
        starts = Starts(directory)
        check_tests(failed, starts, build)
        check_command(failed, starts, source, build)
    if failed:
        sys.exit("\n".join(failed))
    print(f"{len(changes)} changes, {len(ANSWERS)} of them answered as expected")


if __name__ == "__main__":
    main()
