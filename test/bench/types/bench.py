#!/usr/bin/env python3
"""Operator classes beside pgvector's hnsw: the same server, the same rows.

  bench.py --pg-config PG_CONFIG --data FOLDER --out RESULTS [--classes NAME,...]

FOLDER holds base.fbin, query.fbin and gt.ibin (exact neighbours by cosine distance) of vectors of
unit length (test/bench/README.md).  For each class an index is built by grnnd and by hnsw on an
expression over the same vector column, and asked at several ef_search: recall@10, queries/s with
one client and with many, size and seconds of CREATE INDEX.  bit is asked as pgvector advises: the
nearest 100 by the signs' Hamming distance, sorted by the vectors themselves.  Writes
RESULTS/types.md.
"""
import argparse
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from common import Server, machine, read_matrix, save_matrix, write_table  # noqa: E402

QUERIES = 1000
HALF = "v::halfvec({d})"
BIT = "binary_quantize(v)::bit({d})"
# name: (indexed expression and class, query, truth by)
CLASSES = {
    "halfvec_cosine_ops": (f"({HALF}) halfvec_cosine_ops",
                           f"SELECT id FROM items ORDER BY {HALF} <=> $1::vector::halfvec({{d}}) LIMIT 10", "cosine"),
    "bit_hamming_ops": (f"({BIT}) bit_hamming_ops",
                        f"SELECT id FROM (SELECT id, v FROM items ORDER BY {BIT} <~> "
                        f"binary_quantize($1::vector)::bit({{d}}) LIMIT 100) x ORDER BY v <=> $1::vector LIMIT 10",
                        "cosine"),
    "vector_l1_ops": ("v vector_l1_ops", "SELECT id FROM items ORDER BY v <+> $1 LIMIT 10", "l1"),
}


def nearest_by_l1(base, query):
    """[queries, 10] ids of the nearest rows, by torch, on a GPU where there is one."""
    import torch
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rows = torch.from_numpy(np.array(base)).to(device)
    found = []
    for i in range(0, len(query), 10):
        d = torch.cdist(torch.from_numpy(np.array(query[i:i + 10])).to(device), rows, p=1)
        found.append(d.topk(10, largest=False).indices.cpu().numpy().astype(np.int32))
    return np.concatenate(found)


def truths(folder, out, names):
    """Folders of QUERIES queries with the truth that each class wants."""
    base, query = read_matrix(f"{folder}/base.fbin"), read_matrix(f"{folder}/query.fbin")[:QUERIES]
    known = {"cosine": lambda: read_matrix(f"{folder}/gt.ibin", np.int32)[:QUERIES],
             "l1": lambda: nearest_by_l1(base, query)}
    folders = {}
    for by in {CLASSES[name][2] for name in names}:
        folders[by] = f"{out}/{by}"
        os.makedirs(folders[by], exist_ok=True)
        save_matrix(f"{folders[by]}/query.fbin", np.array(query))
        save_matrix(f"{folders[by]}/gt.ibin", np.array(known[by]()))
    return folders


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pg-config", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--classes", default=",".join(CLASSES))
    parser.add_argument("--efs", default="40,100,200")
    parser.add_argument("--clients", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=2)
    args = parser.parse_args()
    names = args.classes.split(",")
    os.makedirs(args.out, exist_ok=True)
    folders = truths(args.data, args.out, names)
    base = read_matrix(f"{args.data}/base.fbin")
    server = Server(args.pg_config, settings={
        "shared_buffers": "8GB", "maintenance_work_mem": "8GB", "max_worker_processes": "64",
        "max_parallel_workers": "64", "max_parallel_maintenance_workers": str(max(os.cpu_count() - 1, 1))})
    rows = []
    try:
        qps = server.build_qps()
        server.sql("CREATE EXTENSION vector; CREATE EXTENSION grnnd;")
        server.load("items", base, streams=8)
        for name in names:
            indexed, query, by = (x.format(d=base.shape[1]) for x in CLASSES[name])
            for system in ("grnnd", "hnsw"):
                seconds, _ = server.create_index(f"CREATE INDEX i ON items USING {system} ({indexed})")
                size = server.size("i")
                server.sql("CHECKPOINT; ANALYZE items")
                for ef in args.efs.split(","):
                    setup = f"SET enable_seqscan = off; SET {system}.ef_search = {ef}"
                    server.qps(qps, folders[by], query, setup, args.clients, 60, queries=100, warmup=0)
                    one = server.qps(qps, folders[by], query, setup, 1, args.seconds, pin=True, buffers=100)
                    many = server.qps(qps, folders[by], query, setup, args.clients, args.seconds)
                    rows.append([name, system, int(ef), one["recall"], one["qps"], many["qps"],
                                 one["hit"] + one["read"], size / 1e6, seconds])
                    print(*rows[-1], flush=True)
                server.sql("DROP INDEX i")
            write_table(f"{args.out}/types.md", f"Operator classes: {len(base)} rows of {base.shape[1]} dimensions",
                        ["class", "index", "ef", "recall@10", "queries/s (1 client)",
                         f"queries/s ({args.clients} clients)", "buffers/query", "index MB", "build s"],
                        rows, machine())
    finally:
        server.stop()


if __name__ == "__main__":
    main()
