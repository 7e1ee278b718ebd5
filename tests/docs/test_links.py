# SPDX-License-Identifier: BSD-2-Clause
"""Every link of the documents leads to a file, and to a heading of it; every document is in the README's table."""
import re
import string

import pytest

from documents import BLOCK, SOURCE

PAGES = sorted(path.relative_to(SOURCE) for place in (".", "docs") for path in (SOURCE / place).glob("*.md"))
LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")


def prose(path):
    return BLOCK.sub("", (SOURCE / path).read_text(encoding="utf-8"))


def anchors(path):
    """As GitHub makes them."""
    found = set()
    for heading in re.findall(r"^#+ (.+)$", prose(path), re.MULTILINE):
        kept = "".join(each for each in heading.lower() if each not in string.punctuation or each in "-_")
        found.add(kept.replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links(page):
    broken = []
    for link in LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (SOURCE / page).parent / name if name else SOURCE / page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_every_document_is_listed():
    linked = {link.partition("#")[0] for link in LINK.findall(prose("README.md"))}
    # That page is for those who work on redlock: CONTRIBUTING.md has it.
    missing = [str(page) for page in PAGES if str(page) not in linked | {"README.md", "docs/changing-the-protocol.md"}]
    assert missing == []
    assert "docs/changing-the-protocol.md" in prose("CONTRIBUTING.md")
