"""Writes what bench.py found: results.md, results.json, and plots as PNG and SVG."""
import json
import re

import matplotlib
import numpy as np

from matched import CARDS, LEVELS, cost, fastest, paper_says

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

BEST_SHOWN = 0.0005  # the share missed, at the upper end of a logarithmic axis
TABLE_BEAMS = ("32", "64", "128")
INCLUDES = {"device": "rows on the device, graph stays there", "host": "host memory to host memory",
            "cpu": "host memory"}


def datasets(rows):
    return list(dict.fromkeys(r["data"] for r in rows))


def beam(row, width):
    b = row.get("beams", {}).get(width)
    return f"{b['recall']:.4f} ({b['distances']:.0f})" if b else ""


def table(columns, rows):
    return ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)] + \
        ["| " + " | ".join(str(x) for x in r) + " |" for r in rows]


def builds(rows):
    """One row a builder; seconds are wall time, allocations included."""
    out = []
    for r in rows:
        out.append([r["method"], INCLUDES[r["includes"]], f"{r['seconds']:.4f}",
                    f"{r['kernels']:.4f}" if "kernels" in r and r["includes"] == "device" else "",
                    f"{r['device_mb']:.0f}" if "device_mb" in r else ""] +
                   [beam(r, w) for w in TABLE_BEAMS] +
                   ([f"{r['average']:.1f} / {r['largest']}", f"{r['reachable']:.6f}"] if "average" in r else ["", ""]))
    return table(["build", "time covers", "s", "kernels s", "device MB"] +
                 [f"L={w}" for w in TABLE_BEAMS] + ["degree: average / largest", "reachable"], out)


def ratios(rows):
    """
    How many times faster GRNND is than each rival at the same recall: of each mode the fastest build whose graph
    needs no more distances for it than the rival's.  Where the rival's time holds transfers, so does GRNND's.
    """
    by = {r["method"]: r for r in rows}
    pageable = by.get("GRNND, from pageable memory")
    copies = pageable["seconds"] - by["GRNND"]["seconds"] if pageable and "GRNND" in by else None
    mine = [r for r in rows if r["method"].startswith("GRNND") and r.get("beams")]
    device = [r for r in mine if r["includes"] == "device"]
    paper = [r for r in device if "paper" in r["method"]]
    modes = [("fast mode is faster by", [r for r in device if r not in paper])]
    modes += [("paper's mode by", paper)] if paper else []
    out = []
    for rival in (r for r in rows if not r["method"].startswith("GRNND") and r.get("beams")):
        more = 0 if rival["includes"] == "device" else copies
        for level in LEVELS:
            limit = cost(rival, level)
            if np.isnan(limit):
                continue
            line = [rival["method"], f"{level:.2f}", f"{limit:.0f}", f"{rival['seconds']:.3f}"]
            line += ["" if more is None else times(rival, builds, level, limit, more) for _, builds in modes]
            line += [times(rival, [r for r in mine if r["includes"] == "cpu"], level, limit, 0) if rival["includes"] == "cpu" else ""]
            out.append(line + (paper_says(rival["method"]) if paper else []))
    return table(["rival", "recall@10", "distances", "s", *(m[0] for m in modes), "CPU by", *(CARDS if paper else [])], out)


def times(rival, builds, level, limit, more):
    """How many times faster the fastest fit build is, which is named where it is not the default."""
    best = fastest(builds, level, limit, lambda r: r["seconds"])
    if best is None:
        return "none" if builds else ""
    name = re.sub("^(GRNND( on the CPU)?|, |paper's (mode|kernels))+", "", best["method"])
    return f"{rival['seconds'] / (best['seconds'] + more):.1f}" + (f" ({name})" if name else "")


def markdown(found):
    v = found["versions"]
    lines = ["# Graph builds", "", f"{found['date']}, {v['machine']}. " +
             ", ".join(f"{k} {x}" for k, x in v.items() if k != "machine") + ".", "",
             f"`{found['command']}`", "",
             "Seconds are wall time of the fastest of several builds (GGNN and the CPU's: of one), allocation of "
             "workspace included. \"kernels\" is what CUDA events say of the same work. Recall@10 of a "
             "beam search of width L over the bare graph, and in brackets the distances it computed a query. Ratios are at "
             "the same recall: of each mode the fastest build (named) whose graph needs no more distances for it than the "
             "rival's, with the copies to and from the device where the rival's time holds them. What the paper says is of "
             "its own cards, data (SIFT1M, DEEP1M, GIST1M) and settings, at comparable recall@10."]
    for name in datasets(found["rows"]):
        mine = [r for r in found["rows"] if r["data"] == name]
        lines += ["", f"## {name}", ""] + builds(mine) + ["", "At the same recall:", ""] + ratios(mine)
    if found["growth"]:
        lines += ["", "## Growth", ""] + table(
            ["rows", "s", "kernels s", "kernels, ns a row", "wall, ns a row", "device MB"],
            [[g["rows"], f"{g['seconds']:.4f}", f"{g['kernels']:.4f}", f"{g['kernels'] / g['rows'] * 1e9:.1f}",
              f"{g['seconds'] / g['rows'] * 1e9:.1f}", f"{g['device_mb']:.0f}"] for g in found["growth"]])
    if found["scaling"]:
        one = found["scaling"][0]["seconds"]
        lines += ["", f"## CPU build of {found['scaling'][0]['rows']} rows by threads", ""] + table(
            ["threads", "s", "faster than one by"],
            [[s["threads"], f"{s['seconds']:.3f}", f"{one / s['seconds']:.2f}"] for s in found["scaling"]])
    if found["absent"]:
        lines += ["", "Not measured:", ""] + [f"- {a['data']}: {a['method']}: {a['why']}" for a in found["absent"]]
    return "\n".join(lines) + "\n"


def save(figure, out, name):
    figure.tight_layout()
    figure.savefig(f"{out}/{name}.png", dpi=110)
    figure.savefig(f"{out}/{name}.svg")
    plt.close(figure)


def panels(names, width, height):
    across = min(len(names), 3)
    down = -(-len(names) // across)
    figure, axes = plt.subplots(down, across, figsize=(width * across, height * down), squeeze=False)
    for axis in axes.flat[len(names):]:
        axis.set_visible(False)
    return figure, axes.flat


def plot_times(out, rows):
    names = datasets(rows)
    figure, axes = panels(names, 6, 5.5)
    for axis, name in zip(axes, names):
        mine = sorted((r for r in rows if r["data"] == name), key=lambda r: -r["seconds"])
        bars = axis.barh([r["method"] for r in mine], [r["seconds"] for r in mine],
                         color=["tab:red" if r["method"].startswith("GRNND") else "tab:blue" for r in mine])
        axis.bar_label(bars, [f"{r['seconds']:.3g}" for r in mine], padding=2, fontsize=7)
        axis.set_xscale("log")
        axis.tick_params(axis="y", labelsize=7)
        axis.set(title=name, xlabel="build, seconds")
        axis.margins(x=0.15)
    save(figure, out, "build")


def plot_recall(out, rows):
    names = datasets(rows)
    figure, axes = panels(names, 6, 5.5)
    for axis, name in zip(axes, names):
        for i, r in enumerate(r for r in rows if r["data"] == name and "beams" in r):
            points = [r["beams"][w] for w in sorted(r["beams"], key=int)]
            axis.plot([p["distances"] for p in points], [max(1 - p["recall"], BEST_SHOWN) for p in points],
                      marker=".", color=plt.cm.tab20(i % 20), lw=2 if r["method"].startswith("GRNND") else 1,
                      ls="-" if r["method"].startswith("GRNND") else "--", label=r["method"])
        axis.set(title=name, xlabel="distances a query", ylabel="recall@10", xscale="log", yscale="log")
        marks = [0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001]
        axis.set_yticks(marks, [f"{1 - m:g}" for m in marks])
        axis.set_xticks([300, 500, 1000, 2000, 5000], ["300", "500", "1000", "2000", "5000"])
        axis.minorticks_off()
        axis.invert_yaxis()
        axis.grid(alpha=0.3)
        axis.legend(fontsize=6)
    save(figure, out, "recall")


def plot_growth(out, found):
    figure, axes = panels(["growth", "scaling"], 5, 4)
    axes[0].plot([g["rows"] / 1e6 for g in found["growth"]],
                 [g["kernels"] / g["rows"] * 1e9 for g in found["growth"]], "o-", label="kernels")
    axes[0].plot([g["rows"] / 1e6 for g in found["growth"]],
                 [g["seconds"] / g["rows"] * 1e9 for g in found["growth"]], "s-", label="wall")
    axes[0].set(title="GPU build", xlabel="million rows", ylabel="ns a row")
    axes[0].legend()
    if found["scaling"]:
        one = found["scaling"][0]["seconds"]
        threads = [s["threads"] for s in found["scaling"]]
        axes[1].plot(threads, [one / s["seconds"] for s in found["scaling"]], "o-")
        axes[1].plot(threads, threads, "k:", lw=1)
    axes[1].set(title="CPU build", xlabel="threads", ylabel="faster than one thread by")
    axes[0].set_ylim(0, axes[0].get_ylim()[1] * 1.1)
    save(figure, out, "growth")


def write(out, found):
    """found: as bench.py collects it."""
    with open(f"{out}/results.json", "w") as f:
        json.dump(found, f, indent=1)
    with open(f"{out}/results.md", "w") as f:
        f.write(markdown(found))
    if found["rows"]:
        plot_times(out, found["rows"])
        plot_recall(out, found["rows"])
    if found["growth"] or found["scaling"]:
        plot_growth(out, found)
