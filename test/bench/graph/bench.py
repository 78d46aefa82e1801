#!/usr/bin/env python3
"""GRNND's graph build against other libraries, judged by one evaluator.

  bench.py --data sift=FOLDER --data gist=FOLDER [--data text=FOLDER:cosine] --out RESULTS

Needs a CUDA device, nvcc, numpy, matplotlib and grnnd_paper (README.md).  Writes
results.md, results.json and plots into --out.  A rival that is not there is named and left out.
"""
import argparse
import concurrent.futures
import glob
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
from common import ROOT, from_hdf5, machine, read_matrix, save_matrix  # noqa: E402
import report  # noqa: E402
from nearest import nearest  # noqa: E402

BEAMS = "16,32,64,128,256"
BUILDS = 2  # timed; the fastest counts
NORM_SPREAD = 0.3  # of the logarithms of norms, where inner product needs varying ones

# name, what the time includes, command.  {dim} and so on are of the data; a program without a
# slash is looked for in --programs.
GRNND = [
    ("GRNND", "device", "{device} --repeat {runs} {rows} {graph}"),
    ("GRNND, more rounds", "device", "{device} --repeat {runs} --degree 37 --t1 8 --t2 4 {rows} {graph}"),
    ("GRNND, from pinned memory", "host", "{device} --repeat {runs} --from pinned {rows}"),
    ("GRNND, from pageable memory", "host", "{device} --repeat {runs} --from pageable {rows}"),
    ("GRNND, as an index", "host", "{index} --device gpu --metric {metric} --times --repeat 4 {base} {graph}"),
    ("GRNND, paper's kernels", "device", "{paper} {base} {graph}"),
    ("GRNND, paper's kernels, R=64", "device", "{paper} --r 64 --s 32 {base} {graph}"),
    ("GRNND on the CPU", "cpu",
     "{index} --device cpu --metric {metric} --threads {threads} --times {base} {graph}"),
]
RIVALS = [
    ("CAGRA ivf_pq", "device", "{cagra} {base} {graph} ivf_pq 32 64 {metric} {builds}"),
    ("CAGRA ivf_pq, intermediate 128", "device", "{cagra} {base} {graph} ivf_pq 32 128 {metric} {builds}"),
    ("CAGRA nn_descent", "device", "{cagra} {base} {graph} nn_descent 32 64 {metric} {builds}"),
    ("CAGRA iterative", "device",
     "{cagra} {base} {graph} iterative_cagra_search 32 64 {metric} {builds}"),
    ("GANNS 16/64", "host", "ganns_{dim} {base} {graph} {threads} 16 64 {builds}"),
    ("GGNN k=24", "device", "ggnn {base} {graph} {threads} 24 0.5 2"),
    ("RNN-Descent reference", "cpu", "rnn_descent {base} {graph} {threads} 32"),
    ("hnswlib M=16 efc=64", "cpu", "hnsw {base} {graph} {threads} 16 64"),
    ("hnswlib M=16 efc=200", "cpu", "hnsw {base} {graph} {threads} 16 200"),
]
KNOWS_IP = ("GRNND", "CAGRA")


def parse():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--data", action="append", default=[], metavar="NAME=FOLDER[:METRIC]",
                   help="a data folder or a .hdf5 file of ann-benchmarks; METRIC l2, cosine or ip")
    p.add_argument("--out", required=True)
    p.add_argument("--work", help="folder for graphs and changed data (default: OUT/work, removed at the end)")
    p.add_argument("--grnnd-paper", default=f"{ROOT}/grnnd_paper", help="builds graphs and judges all")
    p.add_argument("--device", help="the program of device.cu; compiled with nvcc where not given")
    p.add_argument("--programs", default="", help="folder of the rivals' programs (README.md)")
    p.add_argument("--command", action="append", default=[], metavar="NAME=COMMAND",
                   help="any other builder: {base}, {graph}, {threads}; prints 'seconds X', writes .ibin")
    p.add_argument("--setting", action="append", default=[], metavar="NAME=OPTIONS",
                   help="also GRNND on the device with these options of device.cu")
    p.add_argument("--rotate", action="append", default=[], metavar="NAME",
                   help="also data NAME turned by a random rotation: no integers")
    p.add_argument("--sample", action="store_true", help="also the sample of test/data, cosine and inner product")
    p.add_argument("--spread", action="append", default=[], metavar="NAME",
                   help="also data NAME with norms that vary, by inner product")
    p.add_argument("--growth", metavar="FOLDER:ROWS,ROWS...", help="time per row over the first rows of a folder")
    p.add_argument("--scaling", metavar="NAME", help="data of the CPU build by threads (default: the first)")
    p.add_argument("--scaling-rows", type=int, default=200000, help="rows of the CPU build by 1 and all threads")
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--skip", action="append", default=[], metavar="DATA:REGEX", help="methods not to run there")
    p.add_argument("--limit", type=float, default=600, help="seconds a method may take (default 600)")
    p.add_argument("--runs", type=int, default=5, help="builds of GRNND on the GPU (default 5)")
    return p.parse_args()


def run(command, limit):
    """Output and error text of a command; raises RuntimeError with its last line."""
    try:
        done = subprocess.run(command, text=True, capture_output=True, timeout=limit)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"not done after {limit:.0f} s")
    if done.returncode:
        lines = (done.stderr + done.stdout).strip().splitlines() or [f"exit status {done.returncode}"]
        raise RuntimeError(lines[-1])
    return done.stdout


def compile_device(work):
    """Compiles device.cu and cuda/ for the GPU that is here."""
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    sources = sorted(glob.glob(f"{ROOT}/cuda/*.cu")) + [f"{HERE}/device.cu"]
    objects = [f"{work}/{os.path.basename(s)}.o" for s in sources]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda so: subprocess.check_call(
            [nvcc, "-O3", "-std=c++17", "-arch=native", f"-I{ROOT}", f"-I{ROOT}/src", "-c", "-o", so[1], so[0]]), zip(sources, objects)))
    subprocess.check_call([nvcc, "-arch=native", "-o", f"{work}/device"] + objects)
    return f"{work}/device"


def save_folder(folder, base, query, truth):
    os.makedirs(folder, exist_ok=True)
    save_matrix(f"{folder}/base.fbin", base.astype(np.float32))
    save_matrix(f"{folder}/query.fbin", query.astype(np.float32))
    save_matrix(f"{folder}/gt.ibin", truth)
    return folder


def unit(rows):
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-30)


class Data:
    """A folder and its metric, as each kind of builder wants it."""

    def __init__(self, name, folder, metric, work):
        self.name, self.metric = name, metric
        if metric == "cosine":
            # on unit vectors cosine and L2 order alike: every builder gets the same rows
            base, query = (unit(np.array(read_matrix(f"{folder}/{f}.fbin"))) for f in ("base", "query"))
            folder = save_folder(f"{work}/{name}", base, query, np.array(read_matrix(f"{folder}/gt.ibin", np.int32)))
            self.metric = "l2"
        self.base, self.query, self.truth = (f"{folder}/{f}" for f in ("base.fbin", "query.fbin", "gt.ibin"))
        self.rows, self.dim = (int(x) for x in np.fromfile(self.base, np.int32, 2))


def rotated(data, work):
    q, r = np.linalg.qr(np.random.default_rng(5).standard_normal((data.dim, data.dim)))
    turn = (q * np.sign(np.diag(r))).astype(np.float32)
    base, query = np.array(read_matrix(data.base)), np.array(read_matrix(data.query))
    folder = save_folder(f"{work}/{data.name}-rotated", base @ turn, query @ turn,
                         np.array(read_matrix(data.truth, np.int32)))
    return Data(f"{data.name}-rotated", folder, "l2", work)


def spread(name, base, query, work):
    """Rows of unit length become longer and shorter: by inner product."""
    norms = np.exp(NORM_SPREAD * np.random.default_rng(6).standard_normal((len(base), 1)))
    long = base * norms.astype(np.float32)
    return Data(name, save_folder(f"{work}/{name}", long, query, nearest(long, query, True)), "ip", work)


def sample(work):
    """The embeddings of test/data: cosine, and inner product with norms that vary."""
    parts = []
    for name in ("glosses", "queries"):
        path = f"{work}/{name}.fbin"
        with open(path, "wb") as f:
            subprocess.check_call([sys.executable, f"{ROOT}/test/data/sample.py", name, "fbin"], stdout=f)
        parts.append(np.array(read_matrix(path)))
    base, query = parts
    folder = save_folder(f"{work}/sample-all", base, query, nearest(base, query, False))
    return [Data("sample", folder, "cosine", work), spread("sample-ip", base, query, work)]


def take_output(text):
    """What a builder printed: a line of JSON, lines 'name value', or grnnd_paper's."""
    found = {}
    for line in text.splitlines():
        if line.startswith("{"):
            found.update(json.loads(line))
        elif m := re.match(r"(seconds|device_mb) ([0-9.]+)$", line):
            found[m[1]] = float(m[2])
        elif m := re.match(r"build ([0-9.]+) s, check and connect ([0-9.]+) s", line):
            found["seconds"] = min(found.get("seconds", np.inf), float(m[1]) + float(m[2]))
        elif m := re.search(r", kernels ([0-9.]+) s$", line):
            found["seconds"] = found["kernels"] = float(m[1])
    if "seconds" not in found:
        raise RuntimeError("printed no seconds")
    return found


def evaluate(args, data, graph):
    text = run([args.grnnd_paper, "--evaluate", graph, "--query", data.query, "--truth", data.truth, "--metric",
                data.metric, "--beam", BEAMS, "--threads", str(args.threads), data.base], args.limit)
    m = re.search(r"average degree ([0-9.]+), largest (\d+), reachable from the entries ([0-9.]+)", text)
    out = {"average": float(m[1]), "largest": int(m[2]), "reachable": float(m[3]), "beams": {}}
    for m in re.finditer(r"L (\d+) recall@10 ([0-9.]+) distances ([0-9.]+) queries/s ([0-9.]+)", text):
        out["beams"][m[1]] = {"recall": float(m[2]), "distances": float(m[3]), "qps": float(m[4])}
    return out


def method(args, data, name, includes, template):
    """Runs one builder on one data set and judges its graph; None where it isn't there."""
    for skip in args.skip:
        where, _, pattern = skip.partition(":")
        if where in (data.name, "*") and re.search(pattern, name):
            return None
    # device.cu puts rows into inner product's space untimed: from host memory grnnd_paper --index is the measure
    if data.metric == "ip" and (not name.startswith(KNOWS_IP) or "--from" in template or "{paper}" in template):
        return None
    return build(args, data, {"data": data.name, "method": name, "includes": includes}, template)


def build(args, data, row, template):
    """The row with what was measured of one command; a text where it cannot be."""
    graph = f"{args.work}/{data.name}.ibin"
    words = dict(device=args.device, index=f"{shlex.quote(args.grnnd_paper)} --index", paper=args.grnnd_paper, base=data.base, graph=graph,
                 rows=f"--metric {data.metric} {shlex.quote(data.base)}",
                 metric=data.metric, dim=data.dim, threads=args.threads, builds=BUILDS, runs=args.runs,
                 cagra=f"{shlex.quote(sys.executable)} {shlex.quote(HERE)}/rivals/cagra.py")
    command = shlex.split(template.format(**words))
    if "/" not in command[0]:
        command[0] = f"{args.programs}/{command[0]}" if args.programs else command[0]
        if not shutil.which(command[0]):
            return f"no program {command[0]}"
    try:
        row.update(take_output(run(command, args.limit)))
        if "{graph}" in template:
            row.update(evaluate(args, data, graph))
            os.remove(graph)
    except RuntimeError as e:
        return str(e)
    return row


def growth(args):
    folder, _, counts = args.growth.rpartition(":")
    rows = []
    for n in counts.split(","):
        text = run([args.device, "--repeat", str(args.runs), "--rows", n, f"{folder}/base.fbin"], args.limit)
        rows.append(take_output(text))
        print(f"growth: {n} rows {rows[-1]['seconds']:.4f} s", flush=True)
    return rows


def scaling(args, data):
    rows, counts, t = [], [], 1
    while t < args.threads:
        counts.append(t)
        t *= 4
    for threads in counts + [args.threads]:
        text = run([args.grnnd_paper, "--index", "--device", "cpu", "--threads", str(threads), "--rows",
                    str(min(args.scaling_rows, data.rows)), "--metric", data.metric, "--times", data.base,
                    f"{args.work}/scaling.ibin"], args.limit)
        rows.append({"threads": threads, "rows": min(args.scaling_rows, data.rows), **take_output(text)})
        print(f"CPU, {threads} threads: {rows[-1]['seconds']:.3f} s", flush=True)
    return rows


def versions():
    out = {"python": sys.version.split()[0], "machine": machine()}
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    for name, command in (("nvcc", [nvcc, "--version"]), ("gcc", ["gcc", "-dumpfullversion"]),
                          ("cuvs", [sys.executable, "-c", "import cuvs; print(cuvs.__version__)"]),
                          ("grnnd", ["git", "-C", ROOT, "log", "-1", "--format=%h of %cs"])):
        try:
            text = run(command, 60)
            m = re.search(r"V\d[\d.]*", text)
            out[name] = m[0] if name == "nvcc" and m else text.splitlines()[0]
        except (RuntimeError, OSError):
            pass
    return out


def main():
    args = parse()
    own_work = args.work is None
    args.work = args.work or f"{args.out}/work"
    os.makedirs(args.work, exist_ok=True)
    if not os.path.exists(args.grnnd_paper):
        sys.exit(f"{args.grnnd_paper} is not there: make grnnd_paper first, or give --grnnd-paper")
    args.device = args.device or compile_device(args.work)
    sets = []
    for d in args.data:
        name, _, folder = d.partition("=")
        folder, _, metric = folder.partition(":")
        folder = from_hdf5(folder, f"{args.work}/{name}.data")
        sets.append(Data(name, folder, metric or "l2", args.work))
    by_name = {d.name: d for d in sets}
    sets += [rotated(by_name[name], args.work) for name in args.rotate]
    for name in args.spread:
        base, query = (np.array(read_matrix(f)) for f in (by_name[name].base, by_name[name].query))
        sets.append(spread(f"{name}-ip", base, query, args.work))
    sets += sample(args.work) if args.sample else []
    settings = [(f"GRNND, {name}", "device", f"{{device}} --repeat {{runs}} {options} {{rows}} {{graph}}")
                for name, _, options in (s.partition("=") for s in args.setting)]
    methods = GRNND + settings + RIVALS + [(c.partition("=")[0], "cpu", c.partition("=")[2]) for c in args.command]
    found = {"versions": versions(), "command": shlex.join(sys.argv), "date": time.strftime("%Y-%m-%d"),
             "rows": [], "absent": [], "growth": [], "scaling": []}
    for data in sets:
        for name, includes, template in methods:
            start = time.time()
            row = method(args, data, name, includes, template)
            if isinstance(row, str):
                found["absent"].append({"data": data.name, "method": name, "why": row})
                print(f"{data.name}: {name}: {row}", flush=True)
            elif row:
                found["rows"].append(row)
                at = row.get("beams", {}).get("64", {})
                print(f"{data.name}: {name}: {row['seconds']:.4f} s, L=64 {at.get('recall')} "
                      f"@{at.get('distances')} ({time.time() - start:.0f} s in all)", flush=True)
        report.write(args.out, found)  # so that what was measured stays if a later step fails
    by_name = {d.name: d for d in sets}
    try:
        found["growth"] = growth(args) if args.growth else []
        found["scaling"] = scaling(args, by_name[args.scaling] if args.scaling else sets[0]) if sets else []
    except RuntimeError as e:
        print(f"growth, scaling: {e}", flush=True)
    report.write(args.out, found)
    print(open(f"{args.out}/results.md").read())
    if own_work:
        shutil.rmtree(args.work)


if __name__ == "__main__":
    main()
