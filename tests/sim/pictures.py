#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Every picture: well-formed, self-contained, the same each time; those that documents show are in docs/pictures.

pictures.py PROGRAM DIRECTORY            compares
pictures.py PROGRAM DIRECTORY --update   rewrites DIRECTORY on purpose
"""
import html.parser
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

PROGRAM, KEPT = sys.argv[1], pathlib.Path(sys.argv[2])
BYTES_MAX = 60000
VOID = {"meta", "img", "link", "br"}
SVG = "{http://www.w3.org/2000/svg}"
wrong = []


def complain(what):
    wrong.append(what)
    print(what)


def draw(directory):
    result = subprocess.run([PROGRAM, "--gallery", str(directory)], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        complain(f"--gallery: exit {result.returncode}\n{result.stderr}")


class Page(html.parser.HTMLParser):
    """Tags that open and close in order; what is loaded from elsewhere."""

    def __init__(self, name):
        super().__init__()
        self.name, self.open, self.links = name, [], []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)
        if tag == "script":
            complain(f"{self.name}: a script")
        for key, value in attrs:
            if key == "src" or (key == "href" and tag != "a"):
                self.links.append(value)
                if re.match(r"[a-z]+:|//", value):
                    complain(f"{self.name}: loads {value}")
            elif key == "href":
                self.links.append(value)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            complain(f"{self.name}: </{tag}> closes nothing")


DESKTOP = 1300 - 2 * 16  # pixels of a page, without its padding
SHRUNK = 0.64  # a picture shrinks so far, and then scrolls


def check_decisive_part(name, text):
    """Without scrolling, a usual window shows where two clients begin to hold the lock."""
    for run in text.split('<section class="run">')[1:]:
        wide = int(re.search(r'style="--width:(\d+)px"', run)[1])
        scale = max(SHRUNK, min(1, DESKTOP / wide))
        begins = re.search(r'<rect x="(\d+)" y="\d+" width="\d+" height="\d+" fill="var\(--red\)"', run)
        if begins and int(begins[1]) * scale > DESKTOP - 50:
            complain(f"{name}: at {DESKTOP} pixels, what decides lies outside: {begins[1]} of {wide}")
        if ("nodes refuse the first request" in run) != (">guarded: " in run or ">native: " in run):
            complain(f"{name}: says of the wrong run why a guarded client's first request is refused")
    if text.count('<ul class="legend">') != 1 or text.index('<ul class="legend">') > text.index('<section class="run">'):
        complain(f"{name}: no legend above the pictures")
    if f"min-width:calc(var(--width)*{SHRUNK:.2g})".replace("0.", ".") not in text or "minmax(0,1fr)" not in text:
        complain(f"{name}: the pictures do not stand one below the other, or do not shrink")


def check_page(path):
    page = Page(path.name)
    text = path.read_text(encoding="utf-8")
    page.feed(text)
    page.close()
    if page.open:
        complain(f"{path.name}: never closed: {page.open}")
    for link in page.links:
        if not link.startswith(("https://", "http://")) and not (path.parent / link).exists():
            complain(f"{path.name}: there is no {link}")
    if path.name != "index.html":
        check_decisive_part(path.name, text)
    for needed in ('name="viewport"', "prefers-color-scheme", 'lang="en"'):
        if needed not in text:
            complain(f"{path.name}: lacks {needed}")


def check_picture(path):
    root = xml.etree.ElementTree.parse(path).getroot()
    if root.tag != SVG + "svg":
        complain(f"{path.name}: not an <svg>")
    for needed in ("title", "desc"):
        element = root.find(SVG + needed)
        if element is None or not (element.text or "").strip():
            complain(f"{path.name}: no <{needed}>")
    for element in root.iter():
        for key, value in element.attrib.items():
            if key.endswith("href") or re.search(r"url\((?!#)", value):
                complain(f"{path.name}: {key}={value} comes from elsewhere")
    if path.stat().st_size > BYTES_MAX:
        complain(f"{path.name}: {path.stat().st_size} bytes, more than {BYTES_MAX}")
    width, height = int(root.get("width")), int(root.get("height"))
    for text in root.iter(SVG + "text"):
        x, y = int(text.get("x")), int(text.get("y"))
        if not (0 <= x <= width and -20 <= y <= height):
            complain(f"{path.name}: '{text.text}' at {x},{y} is outside {width}x{height}")


def whole_pictures(directory):
    return sorted(path for path in directory.glob("*.svg") if not path.name.endswith(".thumb.svg"))


def shown():
    """The pictures that the documents show; `--target gallery` draws the others."""
    pages = [path.read_text(encoding="utf-8") for path in KEPT.parent.rglob("*.md")]
    pages += [path.read_text(encoding="utf-8") for path in KEPT.parent.parent.glob("*.md")]
    return {name for page in pages for name in re.findall(r"pictures/([\w.-]+[.]svg)", page)}


def compare(fresh):
    kept, drawn = {path.name for path in whole_pictures(KEPT)}, {path.name for path in whole_pictures(fresh)}
    needed = shown()
    for name in sorted(kept | needed):
        if name not in drawn:
            complain(f"{KEPT.name}/{name} belongs to no scenario")
        elif name not in kept:
            complain(f"{KEPT.name}/{name} is missing")
        elif name not in needed:
            complain(f"{KEPT.name}/{name} is in no document")
        elif (KEPT / name).read_bytes() != (fresh / name).read_bytes():
            complain(f"{KEPT.name}/{name} is not what the scenario draws now")


def update(fresh):
    KEPT.mkdir(parents=True, exist_ok=True)
    for path in whole_pictures(KEPT):
        path.unlink()
    for name in sorted(shown()):
        shutil.copyfile(fresh / name, KEPT / name)


def main():
    with tempfile.TemporaryDirectory() as scratch:
        first, second = pathlib.Path(scratch, "first"), pathlib.Path(scratch, "second")
        draw(first)
        draw(second)
        files = sorted(first.iterdir())
        if len(whole_pictures(first)) < 25:
            complain(f"only {len(files)} files in the gallery")
        for path in files:
            if path.read_bytes() != (second / path.name).read_bytes():
                complain(f"{path.name} differs from one run to the next")
            if path.suffix == ".svg":
                check_picture(path)
            else:
                check_page(path)
        if sys.argv[3:] == ["--update"]:
            update(first)
        else:
            compare(first)
    if wrong:
        print(f"\n{len(wrong)} complaints. To take new pictures on purpose: {sys.argv[0]} {PROGRAM} {KEPT} --update")
    return 1 if wrong else 0


sys.exit(main())
