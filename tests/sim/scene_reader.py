#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What redlock-sim says of scenes that are wrong, and of expectations that are not met: scene_reader.py PROGRAM"""
import pathlib
import subprocess
import sys
import tempfile

PROGRAM = sys.argv[1]

HEAD = """title A test
source nobody

  Prose.

nodes 3
clients A B
"""
STEPS = "at 100ms A acquires job\n"
HOLDS = "classic: holds\n"

# name, text, exit status, what standard error must contain
CASES = [
    ("fine", HEAD + STEPS + HOLDS, 0, ""),
    ("unknown option", HEAD + "colour blue\n" + STEPS + HOLDS, 65, ".scene:8: unknown words: 'colour blue'"),
    ("unknown step", HEAD + "at 1s A sneezes\n" + HOLDS, 65, ".scene:8: unknown words: 'A sneezes'"),
    ("words too many", HEAD + "at 1s A acquires job today\n" + HOLDS, 65, ".scene:8: unknown words"),
    ("unknown claim", HEAD + STEPS + HOLDS + "    and A is happy\n", 65, ".scene:10: unknown words: 'A is happy'"),
    ("claim without and", HEAD + STEPS + HOLDS + "    A acquires job\n", 65, ".scene:10: below 'classic:'"),
    ("unknown rule", HEAD + STEPS + "classic: breaks NOTHING\n", 65, ".scene:9: no rule is called 'NOTHING'"),
    ("guarded", HEAD + STEPS + "guarded: holds. For a reason.\n    and A acquires job\n", 0, ""),
    ("both", HEAD + STEPS + HOLDS + "guarded: holds\n    and B acquires job\n", 1, ".scene:11: did not happen"),
    ("native", HEAD + STEPS + "native: holds. For a reason.\n    and A acquires job\n", 0, ""),
    ("all three", HEAD + STEPS + HOLDS + "guarded: holds\nnative: holds\n    and B acquires job\n", 1, ".scene:12: did not happen"),
    ("native, in its own words", HEAD + STEPS + "native: holds, of course\n", 65, ".scene:9: 'native:' is followed by"),
    ("twice", HEAD + STEPS + HOLDS + HOLDS, 65, ".scene:10: 'classic:' a second time"),
    ("guarded, neither", HEAD + STEPS + "guarded: maybe\n", 65, ".scene:9: 'guarded:' is followed by"),
    ("a reason, no rule", HEAD + STEPS + "guarded: breaks. For a reason.\n", 65, ".scene:9: 'guarded:' is followed by"),
    ("no rule", HEAD + STEPS + "classic: breaks\n", 65, ".scene:9: 'classic:' is followed by"),
    ("no such node", HEAD + "at 1s node 4 crashes\n" + HOLDS, 65, ".scene:8: there are 3 nodes"),
    ("fewer nodes than a line has named", HEAD + "A lists node 3\nnodes 2\n" + STEPS + HOLDS, 65, ".scene:9: the number of nodes comes before"),
    ("fewer clients than a line has named", HEAD + "B confirms\nclients A\n" + STEPS + HOLDS, 65, ".scene:9: the clients' names come before"),
    ("no such client", HEAD + "at 1s C acquires job\n" + HOLDS, 65, ".scene:8: there are 2 clients"),
    ("bad time", HEAD + "at noon A acquires job\n" + HOLDS, 65, ".scene:8: 'at' needs a time"),
    ("time without unit", HEAD + "at 100 A acquires job\n" + HOLDS, 65, ".scene:8: 'at' needs a time"),
    ("TTL too short", HEAD + "ttl 1ms\n" + STEPS + HOLDS, 65, ".scene:8: a TTL is from"),
    ("clock that stands", HEAD + "A's clock runs at 0 ppm\n" + STEPS + HOLDS, 65, ".scene:8: a clock runs at"),
    ("backwards", HEAD + "at 2s A acquires job\nat 1s B acquires job\n" + HOLDS, 65, ".scene:9: steps go forward"),
    ("node timeout above the TTL", HEAD + "ttl 1s\nnode timeout 2s\n" + STEPS + HOLDS, 65, "A's node timeout must be below its TTL"),
    ("node timeout too long", HEAD + "ttl 1h\nnode timeout 2m\n" + STEPS + HOLDS, 65, ".scene:9: a node timeout is at most"),
    ("stall timeout too short", HEAD + "stall timeout 1ms\n" + STEPS + HOLDS, 65, ".scene:8: a stall timeout is from"),
    ("lost margin above the TTL", HEAD + "ttl 1s\nlost margin 1s\n" + STEPS + HOLDS, 65, "A's TTL leaves no validity"),
    ("held for too long", HEAD + "locks are renewed for at most 9000h\n" + STEPS + HOLDS, 65, ".scene:8: a lock is held for at most"),
    ("retries backwards", HEAD + "retries after 2s to 1s\n" + STEPS + HOLDS, 65, ".scene:8: delays between retries go"),
    ("ttl max too long", HEAD + "ttl max 25h\n" + STEPS + HOLDS, 65, ".scene:8: a ttl max is from"),
    ("confirms in classic mode, too", HEAD + "A confirms\n" + STEPS + HOLDS + "guarded: holds\n", 0, ""),
    ("late option", HEAD + STEPS + "ttl 5s\n" + HOLDS, 65, ".scene:9: options come before the first step"),
    ("no expectation", HEAD + STEPS, 65, "no expectation"),
    ("no title", HEAD.replace("title A test\n", "") + STEPS + HOLDS, 65, "no title"),
    ("no source", HEAD.replace("source nobody\n", "") + STEPS + HOLDS, 65, "no source"),
    ("no prose", HEAD.replace("  Prose.\n", "") + STEPS + HOLDS, 65, "no prose"),
    ("no steps", HEAD + HOLDS, 65, "nothing happens"),
    ("gap in clients", HEAD.replace("clients A B", "clients A C") + STEPS + HOLDS, 65, ".scene:7: clients are named"),
    ("too long a line", HEAD + STEPS + HOLDS + "#" * 600 + "\n", 65, ".scene:10: a line of more than"),
    ("claim not met", HEAD + STEPS + HOLDS + "    and B acquires job\n", 1, ".scene:10: did not happen: B acquires job"),
    ("tries not met", HEAD + STEPS + HOLDS + "    and A tries at most 0 times\n", 1, "did not happen: A tries at most 0"),
    ("woken by nobody", HEAD + "nodes tell of changes\n" + STEPS + HOLDS + "    and A is woken after 1ms\n", 1,
     "did not happen: A is woken after 1ms"),
    ("lies to no client", HEAD + "at 1s nodes 1 2 tell D of a change that was none\n" + HOLDS, 65, "there are 2 clients"),
    ("time not met", HEAD + STEPS + HOLDS + "    and A acquires job after 1s\n", 1, "did not happen: A acquires job after 1s"),
    ("does not break", HEAD + STEPS + "classic: breaks EXCLUSION\n", 1, "did not happen: breaks EXCLUSION"),
    ("breaks all the same",
     HEAD + STEPS + "at 1s all nodes are flushed\nat 2s B acquires job\n" + HOLDS, 1, "unexpected: EXCLUSION"),
    ("breaks another rule",
     HEAD + STEPS + "at 1s all nodes are flushed\nat 2s B acquires job\nclassic: breaks LOST_UPDATE\n", 1,
     "unexpected: EXCLUSION"),
]


def run(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=False)


def check_cases(directory):
    wrong = 0
    for name, text, status, words in CASES:
        path = directory / (name.replace(" ", "-") + ".scene")
        path.write_text(text, encoding="utf-8")
        result = run(str(path))
        if result.returncode != status or words not in result.stderr:
            wrong += 1
            print(f"{name}: exit {result.returncode}, expected {status} and '{words}'; standard error:\n{result.stderr}")
    return wrong


def check_escapes(directory):
    """Nothing of a file reaches the terminal as a control: neither where it is told nor where it is refused."""
    control = "\x1b[2J\x9b1m\x7f\r"
    wrong = 0
    good = HEAD.replace("A test", f"A t{control}est").replace("nobody", f"no{control}body")
    good = good.replace("Prose.", f"Pro{control}se, and Grüße.") + STEPS + f"classic: holds. Be{control}cause.\n"
    for name, text in [
        ("told", good),
        ("later", good + f"later lat{control}er\n"),
        ("native", good + f"native: holds. Li{control}ke guarded.\n"),
        ("unmet", good + "    and B acquires job\n"),
        ("unknown", good + f"who{control}ever\n"),
        ("time", good + f"at {control} A acquires job\n"),
        ("rule", good + f"guarded: breaks RULE{control}\n"),
        (f"na{control}me", good + "whoever\n"),
    ]:
        path = directory / (name + ".scene")
        path.write_bytes(text.encode())
        for arguments in [[], ["--svg", "-"], ["--trace"]]:
            result = subprocess.run([PROGRAM, str(path), *arguments], capture_output=True, check=False)
            for output in (result.stdout, result.stderr):
                raw = [one for one in output.decode() if (ord(one) < 0x20 and one not in "\n\t") or 0x7f <= ord(one) < 0xa0]
                if raw:
                    wrong += 1
                    print(f"{name!r} {arguments}: raw {raw} in {output!r}")
        if name == "told" and ("t\\x1b[2J" not in output_of(path) or "Grüße" not in output_of(path)):
            wrong += 1
            print(f"not shown escaped: {output_of(path)!r}")
    return wrong


def output_of(path):
    return run(str(path)).stdout


def check_commands():
    wrong = 0
    for arguments, status, words in [
        (["NO-SUCH-SCENARIO"], 64, "--list"),
        (["RESTART-EMPTY", "--colour"], 64, "--colour"),
        (["RESTART-EMPTY", "--svg"], 64, "--svg"),
        (["RESTART-EMPTY", "EVICT"], 64, "EVICT"),
        (["./no-such-file.scene"], 65, "no-such-file.scene"),
        (["RESTART-EMPTY", "--svg", "/nowhere/to/be/found.svg"], 73, "/nowhere/to/be/found.svg"),
        (["--gallery", "/nowhere/to/be/found"], 73, "/nowhere/to/be/found"),
        (["restart-empty"], 0, ""),
        (["RESTART-EMPTY", "--mode", "guarded"], 0, ""),
        (["RESTART-EMPTY", "--mode", "single"], 64, "not single"),
        (["VM-STOP-CONFIRM", "--mode", "classic"], 1, "not played in mode classic"),
        (["PROXY"], 0, ""),
        (["PROXY", "--svg", "-"], 1, "Nothing to play yet"),
    ]:
        result = run(*arguments)
        if result.returncode != status or words not in result.stderr:
            wrong += 1
            print(f"{arguments}: exit {result.returncode}, expected {status} and '{words}'; standard error:\n{result.stderr}")
    told = run("RESTART-EMPTY").stdout
    for words in ["Restart of node 3, without any data; gone is A's key", "as published",
                  "No vote from now on, until it is brought back: node 3", "guarded: holds, as expected", "native: holds, as expected"]:
        if words not in told:
            wrong += 1
            print(f"RESTART-EMPTY does not say '{words}':\n{told}")
    listed = run("--list").stdout.split("\n")
    for name, words in [("RECONFIG", "classic holds, guarded holds"), ("EVICT", "classic breaks, guarded holds")]:
        if not any(line.startswith(name) and words in line for line in listed):
            wrong += 1
            print(f"--list does not say '{words}' of {name}")
    return wrong


with tempfile.TemporaryDirectory() as scratch:
    scenes = pathlib.Path(scratch)
    sys.exit(1 if check_cases(scenes) + check_escapes(scenes) + check_commands() else 0)
