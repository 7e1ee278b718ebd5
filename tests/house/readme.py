#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Types what README.md tells people to type: the first command on a quorum of real servers, and the trial; compiles the C block.

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


def split(lines):
    """(those that begin with scripts/, the others)"""
    ours = [line for line in lines if line.startswith("scripts/")]
    for line in ours:
        script = SOURCE / line.split()[0]
        assert script.is_file() and script.stat().st_mode & 0o100, f"{script} is no script"
    return ours, [line for line in lines if line not in ours]


def shell(here, arguments, work, text=""):
    """What a command says to which this text is typed; bash stops at the first line that fails."""
    environ = {**here.environ, "SHELLOPTS": "errexit"}
    done = subprocess.run(arguments, input=text, cwd=work, env=environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}{done.stderr}"
    left = here.leftovers()
    assert not left, f"left behind: {left}"
    return done.stdout


def first_command(here, lines):
    """The first block, in a shell of `redlock up`."""
    here.environ["TZ"] = "UTC"
    with tempfile.TemporaryDirectory() as directory:
        said = shell(here, [BUILD / "cli/redlock", "up", "-q", "-n", "3", "--", "bash"], directory, "\n".join(lines))
    assert re.fullmatch(r".* UTC.*\n", said), said


def trial(here, before, typed):
    """The trial as it is typed, one line after the other, in a source tree in which scripts/demo has built."""
    ours, rest = split(before)
    assert [line.split()[0] for line in ours] == ["scripts/demo"], ours
    built = rest[0].split()[0].removesuffix("/cli/redlock")
    assert f"built=$source/{built}\n" in (SOURCE / "scripts/demo").read_text(), f"scripts/demo does not build in {built}"
    with tempfile.TemporaryDirectory() as directory:
        place = pathlib.Path(directory) / built
        place.parent.mkdir(parents=True)
        place.symlink_to(BUILD)
        said = shell(here, ["bash"], directory, "\n".join([*rest, *typed]) + "\n")
    assert "\nmy turn\n" in f"\n{said}", said
    assert "deploy: held by " in said and "(3 of 3 nodes)" in said, said
    assert re.search(r"^[1-9][0-9]*$", said, re.MULTILINE), f"no fencing token: {said}"
    assert "Fit to hold locks: 0 errors" in said, said
    assert "classic: two holders" in said and "guarded: holds" in said, said


def main():
    text = (SOURCE / "README.md").read_text()
    check_c(text)
    first, before, typed = [block.splitlines() for block in blocks(text, "sh")]
    with room() as here:
        here.environ["PATH"] = ":".join(each for each in here.environ["PATH"].split(":") if each != str(BUILD / "cli"))
        first_command(here, first)
        trial(here, before, typed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
