# SPDX-License-Identifier: BSD-2-Clause
"""The last ten seconds before a violation: who held what, and which faults there were."""
import html

from judge import name_of

WIDTH, LEFT, ROW, TOP = 1500, 60, 16, 30
SPAN = 10_000_000_000
COLOURS = ("#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee6677", "#aa3377", "#bbbbbb", "#884422", "#225566", "#99aa33")


def draw(world, violation):
    end = violation.at + 500_000_000
    begin = end - SPAN

    def x(at):
        return LEFT + (WIDTH - LEFT) * (min(max(at, begin), end) - begin) / SPAN

    def text(left, top, words, size=11):
        return f'<text x="{left:.1f}" y="{top:.1f}" font-size="{size}" font-family="sans-serif">{html.escape(words)}</text>'

    rows = sorted(world.judge.closed)
    colours = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(sorted({
        grant.worker for timeline in world.judge.closed.values() for grant in timeline.grants if grant.until > begin}))}
    faults = [fault for fault in world.faults if fault[0] + fault[3] * 1e9 > begin and fault[0] < end]
    height = TOP + ROW * (len(rows) + len(faults) + 4)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}">',
             f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
             text(LEFT, 14, f"{world.mode}, seed {world.seed}: {violation.kind}, {violation.text.splitlines()[0]}", 12)]
    for i, (name, colour) in enumerate(colours.items()):
        parts.append(f'<rect x="{LEFT + i * 110}" y="18" width="9" height="9" fill="{colour}"/>' + text(LEFT + 12 + i * 110, 27, name, 10))
    for i, resource in enumerate(rows):
        top = TOP + ROW * (i + 1)
        parts.append(text(4, top + 11, name_of(resource)))
        for grant in world.judge.closed[resource].grants:
            if grant.until > begin and grant.at < end:
                parts.append(f'<rect x="{x(grant.at):.2f}" y="{top}" width="{max(0.6, x(grant.until) - x(grant.at)):.2f}" height="{ROW - 3}" '
                             f'fill="{colours[grant.worker]}" fill-opacity="0.75"><title>{html.escape(str(grant))}</title></rect>')
    for i, (at, kind, words, seconds) in enumerate(faults):
        top = TOP + ROW * (len(rows) + 2 + i)
        parts.append(f'<rect x="{x(at):.2f}" y="{top}" width="{max(2, x(at + seconds * 1e9) - x(at)):.2f}" height="{ROW - 4}" fill="#dd3333"/>')
        parts.append(text(min(x(at + seconds * 1e9) + 4, WIDTH - 300), top + 10, f"{kind} {words}", 10))
    parts.append(f'<line x1="{x(violation.at):.2f}" y1="{TOP}" x2="{x(violation.at):.2f}" y2="{height}" stroke="black" stroke-dasharray="4 3"/>')
    return "\n".join([*parts, "</svg>\n"])
