# SPDX-License-Identifier: BSD-2-Clause
"""Every link of the documents leads to a file, and to a heading of it; every document is in an index;
every directory is in CONTRIBUTING's; the glossary is in order."""
import json
import os
import pathlib
import re
import string
import subprocess

import pytest

from documents import BLOCK, SOURCE

ROOMS = ("docs/use", "docs/operate", "docs/inside")
PAGES = sorted(path.relative_to(SOURCE) for place in (".", "docs", *ROOMS, "tests", "tests/interop", "proof", "sim/scenarios", "bench/peers") for path in (SOURCE / place).glob("*.md"))
LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")


def prose(path, tree=SOURCE):
    return BLOCK.sub("", (tree / path).read_text(encoding="utf-8"))


def anchors(path, tree):
    """As GitHub makes them."""
    found = set()
    for heading in re.findall(r"^#+ (.+)$", prose(path, tree), re.MULTILINE):
        kept = "".join(each for each in heading.lower() if each not in string.punctuation or each in "-_")
        found.add(kept.replace(" ", "-"))
    return found


def broken_links(page, tree):
    broken = []
    for link in LINK.findall(prose(page, tree)):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (tree / page).parent / name if name else tree / page
        if not target.exists() or (anchor and anchor not in anchors(target, tree)):
            broken.append(link)
    return broken


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links(page):
    assert broken_links(page, SOURCE) == []


def test_links_of_installed_documents(tmp_path):
    build = pathlib.Path(os.environ["REDLOCK_BUILD"])
    subprocess.run(["cmake", "--install", build, "--prefix", tmp_path], check=True, capture_output=True)
    documents = next(tmp_path.rglob("getting-started.md")).parent
    pages = [path.relative_to(documents) for path in documents.glob("*.md")]
    assert len(pages) > 20
    assert {str(page): found for page in pages if (found := broken_links(page, documents))} == {}
    assert "](examples/tracing.c)" in prose("metrics.md", documents)


def linked_from(page):
    """The files that a page links to, as paths in the tree."""
    links = {link.partition("#")[0] for link in LINK.findall(prose(page))}
    return {os.path.normpath(pathlib.Path(page).parent / link) for link in links if link and ":" not in link}


def test_every_document_is_listed():
    # How to change the protocol is for those who have the source: docs/README.md is installed, and that page is not.
    pages = {str(page) for page in PAGES} - {"README.md", "docs/README.md"}
    users = {page for page in pages if page.startswith("docs/")} - {"docs/inside/changing-the-protocol.md"}
    assert users - linked_from("docs/README.md") == set()
    indexes = ("README.md", "docs/README.md", "CONTRIBUTING.md", "tests/README.md", "docs/operate/performance.md")
    assert pages - set().union(*map(linked_from, indexes)) == set()


def test_every_directory_is_listed():
    listed = set(re.findall(r"^([a-z]+/(?:[a-z]+/)?)  ", (SOURCE / "CONTRIBUTING.md").read_text(), re.MULTILINE))
    found = {path.parent for place in ("[a-z]*/*", "src/*/*") for path in SOURCE.glob(place) if path.is_file()}
    names = {f"{path.relative_to(SOURCE)}/" for path in found} - {"src/"}
    present = {name for name in names if not name.startswith("build")}
    assert (present - listed, {name for name in listed if not (SOURCE / name).is_dir()}) == (set(), set())


def test_what_to_open_exists():
    """Each row of CONTRIBUTING's table: the files, what is named in them, and the tests."""
    build = os.environ["REDLOCK_BUILD"]
    listed = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], check=True, capture_output=True, text=True).stdout
    tests = [test["name"] for test in json.loads(listed)["tests"]]
    table = (SOURCE / "CONTRIBUTING.md").read_text().split("## What to open\n")[1].split("\n## ")[0]
    rows = [row.split(" | ") for row in re.findall(r"^\| (.*) \|$", table, re.MULTILINE)][1:]
    assert len(rows) > 10
    wrong = []
    for row in rows:
        files = []
        for name in re.findall("`(.*?)`", row[1]):
            if "/" in name:
                files = list(SOURCE.glob(re.sub("[A-Z]{4,}", "*", name)))
            if not files or ("/" not in name and not re.search(rf"\b{name}\b", files[0].read_text())):
                wrong.append(name)
        wrong += [name for name in re.findall("`(.*?)`", row[2]) if not any(test.startswith(f"{name}.") or test == name for test in tests)]
    assert wrong == []


def test_every_level_is_listed():
    row = re.search(r"^\| run one level .*?: (.*) \(\[", (SOURCE / "CONTRIBUTING.md").read_text(), re.MULTILINE)[1]
    levels = re.findall(r"^\| `([a-z]+)` \|", (SOURCE / "tests/README.md").read_text(), re.MULTILINE)
    present = {path.parent.name for path in SOURCE.glob("tests/*/CMakeLists.txt")}
    assert (set(row.split(", ")), set(levels)) == (present, present)


def test_glossary_is_in_order():
    terms = re.findall(r"^\| \*\*(.+?)\*\*", (SOURCE / "docs/use/glossary.md").read_text(), re.MULTILINE)
    assert len(terms) > 40
    assert terms == sorted(terms, key=str.lower)
