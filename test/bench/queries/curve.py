#!/usr/bin/env python3
"""Draws the curves of recall and queries/s in results.md as SVG, to standard output.

  curve.py >doc/recall-qps.svg

Needs nothing but Python.  test/rules.sh holds doc/recall-qps.svg to what this writes.
"""
import math
import os
import re

WIDTH, HEIGHT = 400, 300        # of one data set's panel
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 40, 44
RECALL = (0.86, 1.0)
QPS = (2000, 200000)            # logarithmic
TITLES = {"sift": "1,000,000 SIFT descriptors, 128 dimensions",
          "gist": "1,000,000 GIST descriptors, 960 dimensions"}
SYSTEMS = {"grnnd": ("grnnd", "#0b6e4f"), "pgvector": ("pgvector hnsw", "#b5541c")}


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
           f'<text x="{(LEFT + WIDTH - RIGHT) // 2}" y="22" text-anchor="middle" font-weight="bold">{TITLES[data]}</text>']
    for recall in (0.86, 0.90, 0.94, 0.98):
        x = x_of(recall)
        out += [f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{HEIGHT - BOTTOM}" stroke="#ddd"/>',
                f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{recall:.2f}</text>']
    for qps in (2000, 5000, 10000, 20000, 50000, 100000, 200000):
        y = y_of(qps)
        out += [f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#ddd"/>',
                f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{qps:,}</text>']
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) // 2}" y="{HEIGHT - 8}" text-anchor="middle">recall@10</text>')
    for name, (title, color) in SYSTEMS.items():
        shown = [(x_of(r), y_of(q)) for r, q in systems[name] if r >= RECALL[0]]
        out.append(f'<polyline fill="none" stroke="{color}" stroke-width="2" points="'
                   + " ".join(f"{x:.1f},{y:.1f}" for x, y in shown) + '"/>')
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{color}"/>' for x, y in shown]
        x, y = shown[0]
        out.append(f'<text x="{x + 8:.1f}" y="{y - 8:.1f}" fill="{color}" font-weight="bold">{title}</text>')
    return out + ["</g>"]


def main():
    folder = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(folder, "results.md"), encoding="utf-8") as f:
        found = points(f.read())
    width = WIDTH * len(TITLES)
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" font-family="sans-serif" font-size="11">')
    print("<title>Queries a second of 16 clients against recall@10</title>")
    print(f'<rect width="{width}" height="{HEIGHT}" fill="white"/>')
    for i, data in enumerate(TITLES):
        print("\n".join(panel(data, found[data], i * WIDTH)))
    print(f'<text transform="translate(12,{HEIGHT // 2}) rotate(-90)" text-anchor="middle">queries/s, 16 clients</text>')
    print("</svg>")


if __name__ == "__main__":
    main()
