#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Pages of the gallery in a real browser: not blank, light and dark, and no wider than a phone.

browser.py PROGRAM    exit 77: no Chromium here
"""
import html
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

PROGRAM = sys.argv[1]
PAGES = ["index.html", "RESTART-EMPTY.html", "SPLIT-VOTE.html", "PAUSE-WRITE.html"]
PHONE = 390
QUIET = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--allow-file-access-from-files"]


def find_browser():
    named = os.environ.get("CHROMIUM")
    return named or shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def browse(browser, page, scratch, *arguments):
    profile = tempfile.mkdtemp(dir=scratch)
    return subprocess.run([browser, *QUIET, f"--user-data-dir={profile}", *arguments, page.as_uri()],
                          capture_output=True, text=True, check=False, timeout=120)


def read_png(path):
    """Width, height and the set of colours of every fourth pixel."""
    data, at, packed, header = path.read_bytes(), 8, b"", None
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + length]
        if kind == b"IHDR":
            header = struct.unpack(">IIBBBBB", body)
        elif kind == b"IDAT":
            packed += body
        at += 12 + length
    width, height, depth, colour = header[:4]
    size = {2: 3, 6: 4}[colour] * depth // 8
    raw, line, rows = zlib.decompress(packed), width * size, []
    before = bytearray(line)
    for y in range(height):
        start = y * (line + 1)
        now = unfilter(raw[start], bytearray(raw[start + 1:start + 1 + line]), before, size)
        rows.append(now)
        before = now
    colours = {}
    for row in rows[::4]:
        for x in range(0, line, 4 * size):
            colour = bytes(row[x:x + 3])
            colours[colour] = colours.get(colour, 0) + 1
    return width, height, colours


def unfilter(kind, now, before, size):
    for i, value in enumerate(now):
        left = now[i - size] if i >= size else 0
        above = before[i]
        corner = before[i - size] if i >= size else 0
        if kind == 1:
            value += left
        elif kind == 2:
            value += above
        elif kind == 3:
            value += (left + above) // 2
        elif kind == 4:
            estimate = left + above - corner
            distances = (abs(estimate - left), abs(estimate - above), abs(estimate - corner))
            value += (left, above, corner)[distances.index(min(distances))]
        now[i] = value & 255
    return now


def check_not_blank(browser, page, scratch, dark):
    shot = pathlib.Path(scratch, "shot.png")
    shot.unlink(missing_ok=True)
    scheme = ["--blink-settings=preferredColorScheme=0"] if dark else []
    browse(browser, page, scratch, f"--screenshot={shot}", "--window-size=800,600", *scheme)
    if not shot.exists():
        return [f"{page.name}: no screenshot was made"]
    width, height, colours = read_png(shot)
    ground, count = max(colours.items(), key=lambda item: item[1])
    complaints = []
    if (width, height) != (800, 600):
        complaints.append(f"{page.name}: the screenshot is {width}x{height}")
    if len(colours) < 20 or count * 100 > sum(colours.values()) * 98:
        complaints.append(f"{page.name}: blank: {len(colours)} colours, {count} of {sum(colours.values())} pixels are {ground.hex()}")
    if dark != (sum(ground) < 3 * 128):
        complaints.append(f"{page.name}: the ground is {ground.hex()} in the {'dark' if dark else 'light'}")
    return complaints


# Laid out in a frame as wide as a phone (a window cannot be that narrow), and measured there.
FRAME = """<!DOCTYPE html><body style="margin:0"><iframe id="f" style="border:0;width:{width}px;height:800px" srcdoc="{page}"></iframe>
<script>document.getElementById("f").onload = function () {{
  var d = this.contentDocument, wide = [];
  d.querySelectorAll("body *").forEach(function (e) {{
    if (!e.closest(".picture") && e.getBoundingClientRect().right > {width} + 1) wide.push(e.tagName);
  }});
  var box = d.querySelector(".picture");
  document.title = "width " + d.documentElement.scrollWidth + " wide [" + wide.join(" ") + "] scrolls " +
    (box ? box.scrollWidth > box.clientWidth : "none") + " end";
}};</script>"""


def check_fits(browser, page, scratch):
    framed = page.with_name("framed-" + page.name)
    framed.write_text(FRAME.format(width=PHONE, page=html.escape(page.read_text(encoding="utf-8"))), encoding="utf-8")
    result = browse(browser, framed, scratch, "--dump-dom", "--window-size=800,900", "--virtual-time-budget=5000")
    found = re.search(r"<title>width (\d+) wide \[(.*?)\] scrolls (\w+) end</title>", result.stdout)
    if not found:
        return [f"{page.name}: could not be measured\n{result.stdout[-300:]}{result.stderr[-500:]}"]
    complaints = []
    if int(found[1]) > PHONE or found[2]:
        complaints.append(f"{page.name}: {found[1]} pixels wide on a phone of {PHONE}; beyond its edge: {found[2]}")
    if page.name != "index.html" and found[3] != "true":
        complaints.append(f"{page.name}: the picture does not scroll in its box")
    return complaints


def main():
    browser = find_browser()
    if not browser:
        print("skipped: no Chromium (apt-get install chromium, or set CHROMIUM)")
        return 77
    complaints = []
    with tempfile.TemporaryDirectory() as scratch:
        gallery = pathlib.Path(scratch, "gallery")
        subprocess.run([PROGRAM, "--gallery", str(gallery)], check=True)
        for name in PAGES:
            complaints += check_not_blank(browser, gallery / name, scratch, dark=False)
            complaints += check_fits(browser, gallery / name, scratch)
        complaints += check_not_blank(browser, gallery / "RESTART-EMPTY.html", scratch, dark=True)
        complaints += check_not_blank(browser, gallery / "RESTART-EMPTY.svg", scratch, dark=False)
        complaints += check_not_blank(browser, gallery / "RESTART-EMPTY.svg", scratch, dark=True)
    print("\n".join(complaints) or f"{len(PAGES)} pages and a picture, light and dark, wide and narrow: as they should be")
    return 1 if complaints else 0


sys.exit(main())
