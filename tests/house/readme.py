#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs what README.md tells people to run: each ```sh block on a quorum of real servers, and the C block.

usage: readme.py SOURCE_DIR BUILD_DIR C_COMPILER
Lines that begin with scripts/ are not run here: each of these scripts has tests of its own; that it exists is checked.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

from leftovers import room

SOURCE, BUILD, COMPILER = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def check_c(text):
    found = blocks(text, "c")
    assert len(found) == 1, f"{len(found)} C blocks"
    example = (SOURCE / "examples/ten_lines.c").read_text()
    assert found[0] == example[example.index("#include"):], "the C block differs from examples/ten_lines.c"
    body = found[0][found[0].index("{\n") + 2:found[0].rindex("}")]
    assert len(body.splitlines()) == 10, f"the ten lines are {len(body.splitlines())}"
    subprocess.run([COMPILER, "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I", SOURCE / "include", "-x", "c",
                    "-fsyntax-only", "-"], input=found[0], text=True, check=True)


def commands(text):
    lines = [line for block in blocks(text, "sh") for line in block.splitlines() if line and not line.startswith("#")]
    ours = [line for line in lines if line.startswith("scripts/")]
    for line in ours:
        script = SOURCE / line.split()[0]
        assert script.is_file() and script.stat().st_mode & 0o100, f"{script} is no script"
    assert {"scripts/demo", "scripts/test"} <= {line.split()[0] for line in ours}, ours
    rest = [line for line in lines if line not in ours]
    assert rest, "no command to run"
    return rest


def run(here, lines):
    """All lines in one shell, in order, inside `redlock up`, with a backup.sh to lock."""
    with tempfile.TemporaryDirectory() as directory:
        work = pathlib.Path(directory)
        backup = work / "backup.sh"
        backup.write_text("#!/bin/sh\necho \"backup ran\"\n")
        backup.chmod(0o755)
        environ = {**here.environ, "PATH": f"{BUILD}/cli:{here.environ['PATH']}"}
        done = subprocess.run(["redlock", "up", "-n", "3", "--", "sh", "-exc", "\n".join(lines)], cwd=work, env=environ,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}{done.stderr}"
    runs = sum("run" in line and "backup.sh" in line for line in lines)
    assert done.stdout.count("backup ran") == runs and runs, done.stdout
    left = here.leftovers()
    assert not left, f"left behind: {left}"


def main():
    text = (SOURCE / "README.md").read_text()
    check_c(text)
    with room() as here:
        run(here, commands(text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
