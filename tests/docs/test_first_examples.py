# SPDX-License-Identifier: BSD-2-Clause
"""The first examples of slots.md, shared.md and elect.md, as a person types them in a shell of `redlock up`."""
import re

from documents import Document

SLOTS, SHARED, ELECT = (Document(f"docs/use/{name}.md") for name in ("slots", "shared", "elect"))
UP = ("redlock", "up", "-q", "-n", "3", "--")
HELD = "until redlock show nightly catalogue | grep -q '%s'; do sleep 0.1; done"


def unattended(text):
    """Without a terminal, break has to be confirmed on its command line."""
    assert text.count("redlock break --reason ") == 1
    return text.replace("redlock break ", "redlock break --yes --no-syslog ")


def test_slots(shell):
    shell.program("../transcode.sh", "#!/bin/sh\necho \"slot $REDLOCK_SLOT, fence $REDLOCK_FENCE\"\n")
    assert re.fullmatch(r"slot [123], fence \d+\n", shell(SLOTS.one("sh", "first"), *UP))
    taken = "redlock acquire transcode:slot:2 > token\n"
    said = shell(f"{taken}{unattended(SLOTS.one('sh', 'by name'))}\nredlock show --slots 3 transcode", *UP)
    assert "transcode:slot:2: held by " in said and "broke 'transcode:slot:2'" in said, said
    assert re.findall(r"^(transcode:slot:\d: free)", said[said.index("broke"):], re.MULTILINE) == [f"transcode:slot:{i}: free" for i in (1, 2, 3)], said


def test_shared(shell):
    shell.program("../report.sh", "#!/bin/sh\nsleep ${1:-0}\necho report\n")
    first = SHARED.one("sh", "first")
    assert shell(first, *UP) == "report\n"
    readers = f"{first.strip()} 60 &\n{first.strip()} 60 &\n{HELD % 'shared by 2 readers'}\n"
    said = shell(readers + unattended(SHARED.one("sh", "who reads")), *UP)
    assert "shared: 2 readers" in said and "'catalogue' is shared by 2 readers" in said and "broke 'catalogue'" in said, said


def test_elect(shell):
    shell.program("../serve.sh", "#!/bin/sh\necho term \"$REDLOCK_TERM\" > term\nexec sleep 60\n")
    elect = ELECT.one("sh", "first").partition("#")[0].strip()
    watch = ELECT.one("sh", "anywhere").partition("#")[0].strip()
    said = shell(f"{elect} &\nuntil [ -s term ]; do sleep 0.1; done\ntimeout 3 {watch} || true\nkill $!", *UP)
    term = (shell.directory / "term").read_text().split()[1]
    assert f"nightly: 10.0.0.7:8080 leads, term {term}, " in said, said
