#!/usr/bin/env python3
"""Dense sets of sets.py at a million rows, built by CREATE INDEX, beside pgvector's hnsw: 16 clients.

  million.py --pg-config PG_CONFIG --out RESULTS [--rows 1000000] [--sets "NAME;NAME"] [--clients 16] [--seconds 1.2]

hnsw has m = 16, ef_construction = 64 and a worker for each core; grnnd has its defaults.  PyTorch finds the exact
neighbors, on a GPU if there is one.  RESULTS/million.md has a line for each set, RESULTS/million.json all figures.
Bold is worse than hnsw, recall by more than 0.005.
"""
import argparse
import json
import os
import sys
import tempfile
import time

import numpy as np
import torch

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import sets  # noqa: E402
from bench import ALLOWED, RECALLS, SAME, faster, marked  # noqa: E402
from common import Server, machine, save_matrix, using, write_table  # noqa: E402

NAMES = "log-normal lengths, 100;100s in tight clusters, 128;words, 50;patches, 64;histograms, 64;tokens, 256"
EFS = (20,) + SAME + (400,)
CORES = os.cpu_count()
PIECE = 100                     # queries compared at once


def exact(base, query, op):
    """ids of the 100 nearest rows: the 400 nearest by float32, ordered by float64."""
    torch.backends.cuda.matmul.allow_tf32 = False
    device = "cuda" if torch.cuda.is_available() else "cpu"
    b = torch.tensor(base, device=device)
    if op == sets.COSINE:
        b = torch.nn.functional.normalize(b)
    norms, out = (b * b).sum(1), []
    for first in range(0, len(query), PIECE):
        q = torch.tensor(query[first:first + PIECE], device=device)
        if op == sets.L1:
            d = torch.cat([torch.cdist(q, part, p=1) for part in b.split(100000)], 1)
        else:
            d = -q @ b.T if op != sets.L2 else norms - 2 * q @ b.T
        near = torch.topk(d, min(400, len(b)), largest=False).indices
        x, y = b[near].double(), q.double()[:, None]
        d = (x - y).abs().sum(2) if op == sets.L1 else -(x * y).sum(2) if op != sets.L2 else ((x - y) ** 2).sum(2)
        out.append(torch.gather(near, 1, d.argsort(1)[:, :100]).cpu().numpy().astype(np.int32))
    return np.concatenate(out)


def measure(server, qps, folder, set_, kind, args):
    """CREATE INDEX and a point for each ef_search."""
    server.sql("DROP INDEX IF EXISTS i; CHECKPOINT")
    workers = f"SET max_parallel_maintenance_workers = {CORES - 1}; " if kind == "pgvector" else ""
    start = time.time()
    server.sql(workers + "CREATE INDEX i ON items USING " + using(kind, set_.ops))
    result = {"build": time.time() - start, "size": server.size("i"), "points": []}
    setting = "hnsw.ef_search" if kind == "pgvector" else "grnnd.ef_search"
    for ef, k in [(ef, 10) for ef in EFS] + [(200, 100)]:
        p = server.qps(qps, folder, f"SELECT id FROM items ORDER BY v {set_.op} $1 LIMIT {k}",
                       f"SET enable_seqscan = off; SET {setting} = {ef}", args.clients, args.seconds, warm=0.2, k=k)
        result["points"].append({"ef": ef, "k": k, "recall": p["recall"], "qps": p["qps"], "ms": 1e3 / p["qps"]})
    return result


def row(name, rows, r):
    """A line of the table."""
    hnsw, grnnd = r["pgvector"], r["grnnd"]
    at = {kind: {(p["ef"], p["k"]): p for p in r[kind]["points"]} for kind in r}
    cells = [name, rows, f"{hnsw['build']:.1f} / {grnnd['build']:.1f}", f"{grnnd['size'] / hnsw['size']:.2f}"]
    pairs = [(at["pgvector"][key], at["grnnd"][key]) for key in [(ef, 10) for ef in SAME] + [(200, 100)]]
    cells += [marked(f"{h['recall']:.3f} / {g['recall']:.3f}", g["recall"] < h["recall"] - ALLOWED) for h, g in pairs]
    cells.append(", ".join(marked(f"{g['qps'] / h['qps']:.1f}", g["qps"] < h["qps"]) for h, g in pairs))
    of_ten = {kind: [p for p in r[kind]["points"] if p["k"] == 10] for kind in r}
    cells += [faster(of_ten["pgvector"], of_ten["grnnd"], wanted) for wanted in RECALLS]
    return cells


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--pg-config", required=True)
    p.add_argument("--out", required=True)
    p.add_argument("--rows", type=int, default=1000000)
    p.add_argument("--sets", default=NAMES)
    p.add_argument("--clients", type=int, default=16)
    p.add_argument("--seconds", type=float, default=1.2)
    args = p.parse_args()
    os.makedirs(args.out, exist_ok=True)
    sets.QUERIES = min(1000, args.rows // 5)
    server = Server(args.pg_config, settings={"shared_buffers": "8GB", "maintenance_work_mem": "4GB", "max_wal_size": "16GB",
                                              "max_worker_processes": str(2 * CORES), "max_parallel_workers": str(CORES)})
    everything, lines = {}, []
    try:
        server.sql("CREATE EXTENSION vector; CREATE EXTENSION grnnd")
        qps = server.build_qps()
        for name in args.sets.split(";"):
            set_ = sets.SETS[name]
            base, query = set_.make(name, args.rows)
            with tempfile.TemporaryDirectory() as folder:
                save_matrix(f"{folder}/query.fbin", query)
                save_matrix(f"{folder}/gt.ibin", exact(base, query, set_.op))
                server.sql("DROP TABLE IF EXISTS items")
                server.load("items", base, streams=min(8, CORES))
                server.sql(f"ALTER TABLE items SET (parallel_workers = {CORES - 1}); VACUUM ANALYZE items")
                r = {kind: measure(server, qps, folder, set_, kind, args) for kind in ("grnnd", "pgvector")}
            everything[name] = r
            lines.append(row(name, len(base), r))
            print("| " + " | ".join(map(str, lines[-1])) + " |", flush=True)
            with open(f"{args.out}/million.json", "w") as f:
                json.dump(everything, f, indent=1)
    finally:
        server.stop()
        if lines:
            write_table(f"{args.out}/million.md", f"grnnd beside hnsw, {args.clients} clients",
                        ["set", "rows", "CREATE INDEX s, hnsw / grnnd", "size, hnsw = 1"] +
                        [f"recall@10 at ef {ef}, hnsw / grnnd" for ef in SAME] +
                        ["recall@100 at ef 200", "queries/s at the same ef and LIMIT, hnsw = 1", "at recall .95", "at .99"],
                        lines, machine())


if __name__ == "__main__":
    main()
