"""Writes what paper.py found: paper.md and plots as SVG."""
import re

import numpy as np

from matched import CARDS, LEVELS, cost, fastest, paper_says

try:
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    plt.rcParams["svg.fonttype"] = "none"  # text stays text: small files
except ImportError:  # paper.py --report draws the plots elsewhere
    plt = None

COLOURS = {"disordered": "tab:red", "ascending": "tab:blue", "descending": "tab:green"}


def curve(row):
    points = sorted((b["distances"], b["recall"], b["qps"]) for b in row["beams"].values())
    return [np.array(x) for x in zip(*points)]


def number(x, digits=0):
    return "" if x is None or np.isnan(x) else f"{x:.{digits}f}"


def line(row):
    beams = row["beams"]
    return [row["name"], f"{row['kernels']:.3f}", f"{row['average']:.1f}", f"{row['reachable']:.4f}"] + \
        [f"{beams[w]['recall']:.4f}@{beams[w]['distances']:.0f}" for w in ("64", "128")] + \
        [number(cost(row, level)) for level in LEVELS]


def table(columns, rows):
    return ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)] + \
        ["| " + " | ".join(str(x) for x in r) + " |" for r in rows]


COLUMNS = ["build", "s", "average degree", "reached", "L=64", "L=128"] + [f"for {x:.2f}" for x in LEVELS]


def named(rows, data, name):
    return next((r for r in rows if r["data"] == data and r["name"] == name), None)


def groups(rows, data):
    """The matrix as panels: title, and the rows that vary one thing, the base among them."""
    mine = [r for r in rows if r["data"] == data]
    base = named(rows, data, "paper R 32")
    out = [("R, with and without the final prune; rho 1", [r for r in mine if r["group"] == "size"])]
    for size in ("R 64", "R 32"):
        out.append((f"order and number of pairs, {size}",
                    [named(rows, data, f"paper {size}")] + [r for r in mine if r["group"] == f"order, {size}"]))
    for group, title in (("rho", "rho, of slots in their order or of the nearest (base: 0.6, slots)"), ("T1", "T1 (base: 4)"),
                         ("T2", "T2 (base: 8)"), ("S", "S (base: 20)")):
        out.append((title, [base] + [r for r in mine if r["group"] == group]))
    return [(title, [r for r in found if r]) for title, found in out if len([r for r in found if r]) > 1]


def matched(rows, data, level):
    """For each CAGRA graph, the fastest build of each mode whose graph needs no more distances for that recall."""
    mine = [r for r in rows if r["data"] == data]
    modes = {"fast": [r for r in mine if r["group"] == "fast"], "paper": [r for r in mine if r["group"] not in ("fast", "rival")]}
    out = []
    for rival in (r for r in mine if r["group"] == "rival"):
        limit = cost(rival, level)
        for mode, builds in modes.items():
            best = fastest(builds, level, limit, lambda r: r["kernels"])
            out.append([rival["name"], f"{level:.2f}", number(limit), f"{rival['kernels']:.3f}", mode] +
                       ([best["name"], number(cost(best, level)), f"{best['kernels']:.3f}",
                         f"{rival['kernels'] / best['kernels']:.1f}"] if best else ["none", "", "", ""]) + paper_says(rival["name"]))
    return out


def markdown(found):
    rows, lines = found["rows"], [
        "# The paper's mode", "", f"{found['date']}, {found['machine']}. Tables and plots by `paper.py`.", "",
        "Builds on the GPU, rows and graph there, by CUDA events. Recall@10 at beam L and, after @, distances a query of "
        "one beam search in memory from 32 random entries; \"for .95\": distances a query for that recall, between beams. "
        "The paper's mode is R 32, S 20, T1 4, T2 8, rho 0.6, all pairs disordered, no final prune, but for what a row names."]
    lines += [""] + [f"![{plot}](paper-{plot}.svg)" for plot in ("curves", "orders", "details")]
    for data, about in found["sets"].items():
        lines += ["", f"## {data}: {about.get('about', 'rows')}, {about['rows']:,} x {about['dim']}"]
        for title, mine in groups(rows, data):
            lines += ["", title, ""] + table(COLUMNS, [line(r) for r in mine])
        others = [r for r in rows if r["data"] == data and r["group"] in ("fast", "rival")]
        lines += ["", "The fast mode, and CAGRA (graph degree 32, intermediate 64) where it is there", ""] + table(COLUMNS, [line(r) for r in others])
        if not any(r["group"] == "rival" for r in others):
            lines += ["", "CAGRA was not measured."]
        ratios = [m for level in LEVELS for m in matched(rows, data, level)]
        if ratios:
            lines += ["", "Build time at matched recall: the fastest graph that needs no more distances than the rival's", ""] + \
                table(["rival", "recall", "distances", "s", "mode", "build", "distances", "s", "faster by", *CARDS], ratios)
        if about["left out"]:
            lines += ["", "Left out: " + "; ".join(about["left out"])]
    return "\n".join(lines) + "\n"


def save(figure, out, name):
    """Writes NAME.svg with one decimal a coordinate: a tenth of a point is not seen, so files are smaller by a fifth."""
    figure.tight_layout()
    path = f"{out}/{name}.svg"
    figure.savefig(path)
    plt.close(figure)
    with open(path) as f:
        text = f.read()
    with open(path, "w") as f:
        f.write(re.sub(r"(\d\d\.\d)\d+", r"\1", re.sub(r"\n +", "\n", text)))


def missed_axis(axis):
    marks = [0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002]
    axis.set_yscale("log")
    axis.set_yticks(marks, [f"{1 - m:g}" for m in marks])
    axis.minorticks_off()
    axis.invert_yaxis()
    axis.grid(alpha=0.3)


def draw(axis, row, x, **style):
    distances, recall, rate = curve(row)
    axis.plot(distances if x == "distances" else rate, np.maximum(1 - recall, 0.001), marker=".", ms=4, **style)


def plot_orders(out, found):
    """A panel a data set and R: recall against distances, by order and number of pairs."""
    panels = [(data, size) for data in found["sets"] for size in ("R 32", "R 64")
              if len([r for r in found["rows"] if r["data"] == data and r["group"] == f"order, {size}"]) > 1]
    if not panels:
        return
    figure, axes = plt.subplots(1, len(panels), figsize=(4.2 * len(panels), 4), squeeze=False)
    styles = {"all": "-", "512": "--", "128": "-.", "64": ":"}
    for axis, (data, size) in zip(axes[0], panels):
        base = named(found["rows"], data, f"paper {size}")
        for row in ([base] if base else []) + [r for r in found["rows"] if r["data"] == data and r["group"] == f"order, {size}"]:
            order, pairs = row["options"].get("order", "disordered"), str(row["options"].get("pairs", "all"))
            draw(axis, row, "distances", color=COLOURS[order], ls=styles[pairs], lw=1,
                 label=f"{order}, {pairs}: {row['kernels']:.2f} s")
        axis.set(title=f"{data}, {size}", xlabel="distances a query", ylabel="recall@10", xscale="log")
        missed_axis(axis)
        axis.legend(fontsize=5)
    save(figure, out, "paper-orders")


def plot_details(out, found):
    """A panel a parameter: distances a query for recall .95 against seconds of the build, a line a data set."""
    names = ["R", "T1", "T2", "S", "rho"]
    figure, axes = plt.subplots(1, len(names), figsize=(3.4 * len(names), 3.4))
    for axis, name in zip(axes, names):
        for color, data in zip(("tab:red", "tab:blue", "tab:green"), found["sets"]):
            mine = [r for r in found["rows"] if r["data"] == data]
            base = named(mine, data, "paper R 32")
            kinds = {"": [r for r in mine if r["group"] == name and r["options"].get("reverse", "slots") == "slots"]}
            if name == "R":
                kinds = {", not pruned": [named(mine, data, f"paper R {r}") for r in (32, 64, 96)],
                         ", pruned": [named(mine, data, f"paper R {r}, pruned") for r in (32, 64, 96)]}
            elif name == "rho":
                kinds = {", slots": kinds[""], ", nearest": [r for r in mine if r["group"] == name and
                                                             r["options"].get("reverse") == "nearest"]}
            for (kind, rows), dashes in zip(kinds.items(), ("-", "--")):
                rows = sorted((r for r in rows + ([base] if name != "R" and base else []) if r), key=lambda r: r[name.lower()])
                costs = [cost(r, 0.95) for r in rows]
                if np.isfinite(costs).any():
                    axis.plot([r["kernels"] for r in rows], costs, dashes, marker="o", ms=3, color=color, lw=1, label=data + kind)
                    for r, c in zip(rows, costs):
                        axis.annotate(f"{r[name.lower()]:g}", (r["kernels"], c), fontsize=6)
        axis.set(title=name, xlabel="build, seconds", xscale="log")
        axis.legend(fontsize=5)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("distances a query for recall .95")
    save(figure, out, "paper-details")


def plot_curves(out, found):
    """Queries a second and distances against recall, and what a build costs against what it gives."""
    sets = list(found["sets"])
    figure, axes = plt.subplots(3, len(sets), figsize=(4.6 * len(sets), 11), squeeze=False)
    names = ["fast", "paper R 32", "paper R 64", "paper R 64, rho 1, pruned", "CAGRA ivf_pq", "CAGRA nn_descent"]
    for column, data in enumerate(sets):
        mine = [r for r in found["rows"] if r["data"] == data]
        for i, name in enumerate(names):
            row = named(mine, data, name)
            if row:
                for axis, x in zip(axes[:2, column], ("qps", "distances")):
                    draw(axis, row, x, color=plt.cm.tab10(i), lw=1, label=f"{name}: {row['kernels']:.3g} s")
        for axis, x in zip(axes[:2, column], ("queries/s, 16 threads", "distances a query")):
            axis.set(title=data, xlabel=x, ylabel="recall@10", xscale="log")
            missed_axis(axis)
            axis.legend(fontsize=6)
        for label, marker, chosen in (("fast", "o", lambda r: r["group"] == "fast"), ("CAGRA", "s", lambda r: r["group"] == "rival"),
                                      ("paper", ".", lambda r: r["group"] not in ("fast", "rival"))):
            points = [(r["kernels"], cost(r, 0.95)) for r in mine if chosen(r)]
            axes[2, column].plot(*zip(*points), marker, label=label) if points else None
        axes[2, column].set(title=f"{data}, recall .95", xlabel="build, seconds", ylabel="distances a query", xscale="log", yscale="log")
        axes[2, column].legend(fontsize=6)
        axes[2, column].grid(alpha=0.3)
    save(figure, out, "paper-curves")


def write(out, found):
    with open(f"{out}/paper.md", "w") as f:
        f.write(markdown(found))
    if found["rows"] and plt:
        plot_orders(out, found)
        plot_details(out, found)
        plot_curves(out, found)
