#!/usr/bin/env python3
"""What each detail of the GRNND paper gives, and its mode beside the fast one and CAGRA.

  paper.py --data NAME=FOLDER[:few] ... --out RESULTS

Builds the paper's graphs by grnnd_paper and the fast ones by one run of device.cu, judges all by one run
of grnnd_paper --evaluate, and writes paper.json, paper.md and SVG plots into --out.  few: the base settings alone, no
matrix.  Needs a CUDA device, nvcc or --device, numpy and matplotlib.  What a data set's seconds do not
suffice for is left out and named.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
from common import ROOT, from_hdf5, machine  # noqa: E402
import paper_report  # noqa: E402

BEAMS = [12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384]
# The paper's mode, every option named; settings below change some of them.
BASE = {"r": 32, "s": 20, "t1": 4, "t2": 8, "rho": 0.6, "order": "disordered", "pairs": "all", "reverse": "slots",
        "prune": "off"}
WIDE = {"r": 64, "s": 32}
WIDEST = {"r": 96, "s": 32}
ORDERS = ["disordered", "ascending", "descending"]


def settings(few):
    """Name, group and options of each build, the most wanted first."""
    out, sizes = [], (("R 32", {}), ("R 64", WIDE), ("R 96", WIDEST))
    for name, size in sizes[:2]:
        out += sized(name, size)
    out += [(f"fast{name}", "fast", {"fast": options}) for name, options in (
        ("", ""), (", t1 8 t2 4", "--degree 37 --t1 8 --t2 4"),
        (", t1 2", "--t1 2"), (", t1 1", "--t1 1"), (", degree 24", "--degree 24"))]
    if few:
        return out + sized(*sizes[2])
    out += ordered("R 32", {}, ("all", 128, 64))  # 496 are all
    out += [(f"T1 {t}", "T1", {"t1": t}) for t in (1, 2, 3, 6)]
    out += [(f"T2 {t}", "T2", {"t2": t}) for t in (2, 4, 6, 16)]
    for reverse in ("slots", "nearest"):
        for rho in (0.2, 0.4, 0.6, 0.8, 1):
            if (reverse, rho) not in (("slots", 0.6), ("nearest", 1)):
                out.append((f"rho {rho}, {reverse}", "rho", {"rho": rho, "reverse": reverse}))
    out += ordered("R 64", WIDE, ("all",))
    out += sized(*sizes[2])
    out += [(f"S {s}", "S", {"s": s}) for s in (10, 32)]
    return out + ordered("R 64", WIDE, (128, 64, 512))


def sized(name, size):
    return [(f"paper {name}", "size", size), (f"paper {name}, pruned", "size", {**size, "prune": "on"}),
            (f"paper {name}, rho 1, pruned", "size", {**size, "rho": 1, "prune": "on"})]


def ordered(name, size, numbers):
    """Orders and numbers of pairs; all of them disordered are the base."""
    return [(f"{name}, {order}, {pairs} pairs", f"order, {name}", {**size, "order": order, "pairs": pairs})
            for pairs in numbers for order in ORDERS if (order, pairs) != (ORDERS[0], "all")]


def words(options):
    if "fast" in options:
        return options["fast"].split()
    out = []
    for key, value in {**BASE, **options}.items():
        if key == "prune":
            out += ["--prune"] if value == "on" else []
        elif value != "all":  # which --pairs is where it is not given
            out += [f"--{key}", str(value)]
    return out


def build(args, data, folder, wanted, work):
    """Builds all settings, the most wanted first; the rows of those that were done in time."""
    end, base = time.time() + args.seconds, f"{folder}/base.fbin"
    rows = build_fast(args, base, wanted, work, end)
    for i, (_, _, options) in enumerate(wanted):
        if "fast" in options or time.time() > end:
            continue
        done = subprocess.run([args.grnnd_paper, *words(options), base, f"{work}/{i}.ibin"], text=True, capture_output=True)
        if m := re.search(r": (\d+) rows of (\d+) dimensions, degree (\d+) .*, kernels ([0-9.]+) s", done.stdout):
            rows[i] = {**BASE, **options, "rows": int(m[1]), "dim": int(m[2]), "degree": int(m[3]), "kernels": float(m[4]),
                       "seconds": float(m[4])}
        else:
            print(f"{data}: {wanted[i][0]}: {done.stderr.strip()}", flush=True)
    for i, row in rows.items():
        row.update(data=data, name=wanted[i][0], group=wanted[i][1], options=wanted[i][2])
        print(f"{data}: {row['name']}: {row['kernels']:.4f} s", flush=True)
    # a graph whose row is there may not have been written
    return {i: r for i, r in rows.items() if whole(f"{work}/{i}.ibin", r)}


def build_fast(args, base, wanted, work, end):
    """One run of device.cu over the settings that are not the paper's."""
    jobs, rows = f"{work}/jobs", {}
    with open(jobs, "w") as f:
        for i, (_, _, options) in enumerate(wanted):
            if "fast" in options:
                f.write(f"{i} {work}/{i}.ibin {' '.join(words(options))}\n")
    with subprocess.Popen([args.device, "--repeat", "0", "--jobs", jobs, base], text=True, stdout=subprocess.PIPE) as process:
        for line in process.stdout:
            row = json.loads(line)
            rows[int(row["name"])] = row
            if time.time() > end:
                process.kill()
        process.wait()
    return rows


def whole(path, row):
    return os.path.exists(path) and os.path.getsize(path) == 8 + 4 * row["rows"] * row["degree"]


def evaluate(args, folder, graphs):
    """Average degree, reachability and a curve for each graph that could be judged; None for others."""
    command = [args.grnnd_paper, "--query", f"{folder}/query.fbin", "--truth", f"{folder}/gt.ibin", "--beam",
               ",".join(str(b) for b in BEAMS), "--queries", str(args.queries)]
    for graph in graphs:
        command += ["--evaluate", graph]
    done = subprocess.run(command + [f"{folder}/base.fbin"], text=True, capture_output=True)
    if done.returncode:
        print(done.stderr, flush=True)
    found = []
    for line in done.stdout.splitlines():
        if m := re.search(r"average degree ([0-9.]+), largest (\d+), reachable from the entries ([0-9.]+)", line):
            found.append({"average": float(m[1]), "largest": int(m[2]), "reachable": float(m[3]), "beams": {}})
        elif m := re.match(r"L (\d+) recall@10 ([0-9.]+) distances ([0-9.]+) queries/s ([0-9.]+)", line):
            found[-1]["beams"][m[1]] = {"recall": float(m[2]), "distances": float(m[3]), "qps": float(m[4])}
    return found + [None] * (len(graphs) - len(found))


def rivals(data, folder, work):
    """CAGRA's graphs, where cuVS is there."""
    rows = []
    for algorithm in ("ivf_pq", "nn_descent"):
        graph = f"{work}/{algorithm}.ibin"
        done = subprocess.run([sys.executable, f"{HERE}/rivals/cagra.py", f"{folder}/base.fbin", graph, algorithm, "32", "64",
                               "l2", "2"], text=True, capture_output=True)
        if m := re.search(r"^seconds ([0-9.]+)", done.stdout, re.M):
            rows.append(({"data": data, "name": f"CAGRA {algorithm}", "group": "rival", "kernels": float(m[1]),
                          "options": {}}, graph))
            print(f"{data}: CAGRA {algorithm}: {m[1]} s", flush=True)
        else:
            print(f"{data}: CAGRA {algorithm}: {(done.stderr.strip().splitlines() or ['nothing'])[-1]}", flush=True)
    return rows


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--data", action="append", default=[], metavar="NAME=FOLDER[:few]")
    p.add_argument("--about", action="append", default=[], metavar="NAME=TEXT", help="what the rows are, for the page")
    p.add_argument("--out", required=True)
    p.add_argument("--work", help="folder for graphs (default: OUT/work, removed at the end)")
    p.add_argument("--grnnd-paper", default=f"{ROOT}/grnnd_paper")
    p.add_argument("--device", help="the program of device.cu; compiled with nvcc where not given")
    p.add_argument("--queries", type=int, default=3000)
    p.add_argument("--only", default="", metavar="REGEX", help="only the builds whose names it finds")
    p.add_argument("--seconds", type=float, default=1e9, help="for the builds of a data set")
    p.add_argument("--without-rivals", action="store_true")
    p.add_argument("--report", help="a paper.json: only writes the page and the plots anew")
    args = p.parse_args()
    os.makedirs(args.out, exist_ok=True)
    if args.report:
        with open(args.report) as f:
            return paper_report.write(args.out, json.load(f))
    work = args.work or f"{args.out}/work"
    os.makedirs(work, exist_ok=True)
    if not args.device:
        from bench import compile_device
        args.device = compile_device(work)
    about = dict(a.split("=", 1) for a in args.about)
    path, found = f"{args.out}/paper.json", {"date": time.strftime("%Y-%m-%d"), "machine": machine(), "rows": [], "sets": {}}
    if os.path.exists(path):  # of an earlier call, for other data
        with open(path) as f:
            found = json.load(f)
    for entry in args.data:
        data, _, folder = entry.partition("=")
        folder, _, few = folder.partition(":")
        folder = from_hdf5(folder, f"{work}/{data}.data")
        start, wanted = time.time(), [w for w in settings(few == "few") if re.search(args.only, w[0])]
        done = build(args, data, folder, wanted, work)
        built = time.time() - start
        pairs = [(row, f"{work}/{i}.ibin") for i, row in done.items()]
        pairs += [] if args.without_rivals else rivals(data, folder, work)
        for (row, _), judged in zip(pairs, evaluate(args, folder, [g for _, g in pairs])):
            if judged:
                found["rows"].append({**row, **judged})
        for _, graph in pairs:
            os.remove(graph)
        n, dim = (int(x) for x in np.fromfile(f"{folder}/base.fbin", np.int32, 2))
        found["sets"][data] = {"about": about.get(data, "rows"), "rows": n, "dim": dim, "left out": [w[0] for i, w in enumerate(wanted) if i not in done]}
        print(f"{data}: {built:.0f} s of builds, {time.time() - start:.0f} s in all", flush=True)
        with open(path, "w") as f:
            json.dump(found, f)
    paper_report.write(args.out, found)
    if not args.work:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
