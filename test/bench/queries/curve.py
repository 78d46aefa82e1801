#!/usr/bin/env python3
"""Draws the curves of recall and queries/s in results.md as SVG, to standard output.

  curve.py >doc/recall-qps.svg

Needs nothing but Python.  test/rules.sh holds doc/recall-qps.svg to what this writes.
"""
import math
import os
import re

WIDTH, HEIGHT = 400, 310        # of one data set's panel
LEFT, RIGHT, TOP, BOTTOM = 64, 20, 54, 42
RECALL = (0.88, 1.0)
QPS = (2000, 200000)            # logarithmic
TITLES = {"sift": "1,000,000 SIFT descriptors, 128 dimensions",
          "sentences": "1,000,000 sentence embeddings, 384 dimensions"}
# as results.md names it: (class, title, how far below its first point)
SYSTEMS = {"grnnd": ("grnnd", "grnnd", -11), "pgvector": ("pgvector", "pgvector hnsw", 20)}
# It has a background of its own, as a page may be dark where the reader's system is not.
STYLE = """<style>
.back { fill: #ffffff } .grid { stroke: #d8dee4 } text { fill: #1f2328 }
polyline { fill: none; stroke-width: 2 } .name { font-weight: bold; stroke-width: 4; paint-order: stroke; stroke: #ffffff }
polyline.grnnd { stroke: #0b6e4f } circle.grnnd, .name.grnnd { fill: #0b6e4f }
polyline.pgvector { stroke: #b5541c } circle.pgvector, .name.pgvector { fill: #b5541c }
@media (prefers-color-scheme: dark) {
.back { fill: #0d1117 } .grid { stroke: #30363d } text { fill: #e6edf3 } .name { stroke: #0d1117 }
polyline.grnnd { stroke: #4cc38a } circle.grnnd, .name.grnnd { fill: #4cc38a }
polyline.pgvector { stroke: #f0965a } circle.pgvector, .name.pgvector { fill: #f0965a }
}
</style>"""


def points(text):
    """{data: {system: [(recall, queries/s)]}} of the tables of results.md."""
    found, data, system = {}, None, None
    for line in text.splitlines():
        cells = [c.strip() for c in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            data = None
        elif len(cells) > 6 and cells[1] == "ef" and cells[2].startswith("recall"):
            data, column = cells[0], next(i for i, c in enumerate(cells) if c.startswith("QPS"))
        elif data and re.fullmatch(r"[\d.]+", cells[2]):
            system = cells[0] or system
            found.setdefault(data, {}).setdefault(system, []).append(
                (float(cells[2]), float(cells[column].replace(",", ""))))
    return found


def x_of(recall):
    share = (recall - RECALL[0]) / (RECALL[1] - RECALL[0])
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def y_of(qps):
    share = math.log(qps / QPS[0]) / math.log(QPS[1] / QPS[0])
    return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def panel(data, systems, left):
    out = [f'<g transform="translate({left},0)">',
           f'<text x="{(LEFT + WIDTH - RIGHT) // 2}" y="20" text-anchor="middle" font-weight="bold" font-size="12">{TITLES[data]}</text>',
           f'<text x="{LEFT - 6}" y="42" text-anchor="end">queries/s</text>']
    for recall in (0.88, 0.90, 0.92, 0.94, 0.96, 0.98, 1.00):
        x = x_of(recall)
        out += [f'<line class="grid" x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{HEIGHT - BOTTOM}"/>',
                f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{recall:.2f}</text>']
    for qps in (2000, 5000, 10000, 20000, 50000, 100000, 200000):
        y = y_of(qps)
        out += [f'<line class="grid" x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}"/>',
                f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{qps:,}</text>']
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) // 2}" y="{HEIGHT - 9}" text-anchor="middle">recall@10</text>')
    for system, (name, title, below) in SYSTEMS.items():
        shown = [(x_of(r), y_of(q)) for r, q in systems[system] if r >= RECALL[0]]
        out.append(f'<polyline class="{name}" points="' + " ".join(f"{x:.1f},{y:.1f}" for x, y in shown) + '"/>')
        out += [f'<circle class="{name}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>' for x, y in shown]
        x, y = shown[0]
        out.append(f'<text class="name {name}" x="{x:.1f}" y="{y + below:.1f}">{title}</text>')
    return out + ["</g>"]


def main():
    folder = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(folder, "results.md"), encoding="utf-8") as f:
        found = points(f.read())
    width = WIDTH * len(TITLES)
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" role="img" font-family="sans-serif" font-size="11">')
    print("<title>Queries a second of 16 clients against recall@10, grnnd above pgvector's hnsw</title>")
    print(STYLE)
    print(f'<rect class="back" width="{width}" height="{HEIGHT}"/>')
    for i, data in enumerate(TITLES):
        print("\n".join(panel(data, found[data], i * WIDTH)))
    print("</svg>")


if __name__ == "__main__":
    main()
