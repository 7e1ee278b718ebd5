#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The changes that scripts/mutate-lua makes: which there are in a small script, and what a server answers with each."""
import pathlib
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import lua  # noqa: E402

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


def main():
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
    if failed:
        sys.exit("\n".join(failed))
    print(f"{len(changes)} changes, {len(ANSWERS)} of them answered as expected")


if __name__ == "__main__":
    main()
