# SPDX-License-Identifier: BSD-2-Clause
"""docs/use/getting-started.md: its commands in the order of the page, with an installed library."""
import json
import os
import re
import subprocess

from documents import SOURCE, Document
from servers import Quorum

PAGE = Document("docs/use/getting-started.md")
BUILD = os.environ.get("REDLOCK_BUILD")  # none: the packages are installed
OWN = "own servers"


def test_the_build_is_one_that_exists():
    build = PAGE.of("console")[0].text
    script, what = re.search(r"^\$ (scripts/\S+) (\S+)$", build, re.MULTILINE).groups()
    assert f" {what} " in (SOURCE / script).read_text().split("case $what in", 1)[1].split(";;", 1)[0]
    option = re.search(r"-D(\w+)=OFF", build)[1]
    assert f"set({option} AUTO CACHE" in (SOURCE / "cmake" / "Tests.cmake").read_text(encoding="utf-8")
    presets = json.loads((SOURCE / "CMakePresets.json").read_text())
    for kind, preset in re.findall(r"cmake (--build )?--preset (\S+)", build):
        assert preset in [each["name"] for each in presets["buildPresets" if kind else "configurePresets"]]
    assert f"cmake --install build/{preset}" in build


def install(shell):
    """The page's `cmake --install`, into a prefix of the test's own."""
    if BUILD is None:
        return
    prefix = shell.directory / "prefix"
    subprocess.run(["cmake", "--install", BUILD, "--prefix", prefix], check=True, capture_output=True)
    libraries = next(prefix.rglob("libredlock.so")).parent
    flags = [f"-fsanitize={os.environ['SANITIZE']}"] if os.environ.get("SANITIZE") else []
    shell.program("cc", f"#!/bin/sh\nexec {' '.join([os.environ['COMPILER'], *flags])} \"$@\"\n")
    shell.environ.update(PATH=f"{prefix}/bin:{shell.environ['PATH']}", LD_LIBRARY_PATH=str(libraries),
                         PKG_CONFIG_PATH=str(libraries / "pkgconfig"))


def test_the_page(shell):
    install(shell)
    (shell.directory / "lock.c").write_text(PAGE.one("c"))
    commands = "".join(block.text for block in PAGE.of("sh") if block.label != OWN)
    up = re.search(r"^\$ redlock up (.*) -- bash$", PAGE.section("2. Three servers"), re.MULTILINE)[1].split()
    said = shell(commands, "redlock", "up", "-q", *up, "--").splitlines()

    assert said[0] == "I hold the lock"
    turns = said[1:5]
    assert [turn.split()[1] for turn in turns] == ["begins", "ends"] * 2, said
    assert turns[0].split()[0] == turns[1].split()[0] and {turn.split()[0] for turn in turns} == {"one", "two"}, said
    assert any(line.startswith("hello: held by ") and "(3 of 3 nodes)" in line for line in said), said
    assert "never" not in said and "two of three are enough" in said, said
    assert [line for line in said if line.startswith("exit status ")] == [f"exit status {status}" for status in (75, 1, 80)], said
    assert re.search(r"^the lock is mine, with fencing token \d+$", "\n".join(said), re.MULTILINE), said
    assert said[-1] == "2" and said.count("2") == 2 and "99" not in said, said


def test_own_servers(shell):
    file = shell.directory / "redlock.conf"
    text = PAGE.one("ini")
    with Quorum(3) as servers:
        placeholder = re.search(r"^nodes = (.*)$", text, re.MULTILINE)[1]
        assert placeholder.count(",") == 2
        file.write_text(text.replace(placeholder, servers.nodes))
        file.chmod(0o600)
        said = shell(PAGE.one("sh", OWN), environ={"REDLOCK_CONFIG": str(file)})
    assert "Fit to hold locks: 0 errors, 0 warnings" in said
    assert "ttl_max 10 min 0 s" in said
    assert said.splitlines()[-1] == "on my own servers"
