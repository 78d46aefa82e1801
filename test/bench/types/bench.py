#!/usr/bin/env python3
"""Operator classes beside pgvector's hnsw: the same server, the same rows.

  bench.py --pg-config PG_CONFIG --data FOLDER [--tokens TOKENS.npz] --out RESULTS [--classes NAME,...]

FOLDER holds base.fbin, query.fbin and gt.ibin (exact neighbors by cosine distance) of vectors of
unit length (test/bench/README.md).  TOKENS.npz (`ids`, `lengths`: ../graph/text.py tokens) makes the
rows of sparsevec: TF-IDF weights of each sentence's tokens; the last 10,000 sentences ask.  The sets
of bit_jaccard_ops are made of FOLDER: 1,024 random projections, of each the largest tenth are ones.

For each class an index is built by grnnd and by hnsw: recall@10, queries/s with one client and with
many, size and seconds of CREATE INDEX, at several ef_search.  Classes of vector, halfvec and bit are
on expressions over one vector column.  bit_hamming_ops is asked as pgvector advises: the nearest 100
by the signs' Hamming distance, sorted by the vectors themselves.  All of grnnd come first; what is
not likely to end before --deadline seconds is left out.  Writes RESULTS/types.md.
"""
import argparse
import os
import sys
import time

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from common import Server, machine, read_matrix, save_matrix, write_table  # noqa: E402

QUERIES = 1000
ASKING = 10000          # sentences at the end of TOKENS.npz that are queries, as text.py takes them
WORDS = 30522           # tokens that there are
MARKS = (101, 102)      # tokens at the ends of each sentence
SET_BITS = 1024
HALF = "v::halfvec({d})"
BIT = "binary_quantize(v)::bit({d})"


def half(op):
    return f"SELECT id FROM items ORDER BY {HALF} {op} $1::vector::halfvec({{d}}) LIMIT 10"


def asked(table, op):
    """$1 is a vector of one number: the query's id."""
    return (f"SELECT id FROM {table} ORDER BY x {op} (SELECT x FROM {table}_asked WHERE id = "
            f"($1::vector::real[])[1]::int) LIMIT 10")


# name: (table, indexed expression and class, query, truth by)
CLASSES = {
    "halfvec_cosine_ops": ("items", f"({HALF}) halfvec_cosine_ops", half("<=>"), "cosine"),
    "halfvec_l2_ops": ("items", f"({HALF}) halfvec_l2_ops", half("<->"), "cosine"),
    "halfvec_ip_ops": ("items", f"({HALF}) halfvec_ip_ops", half("<#>"), "cosine"),
    "vector_ip_ops": ("items", "v vector_ip_ops", "SELECT id FROM items ORDER BY v <#> $1 LIMIT 10", "cosine"),
    "vector_l1_ops": ("items", "v vector_l1_ops", "SELECT id FROM items ORDER BY v <+> $1 LIMIT 10", "l1"),
    "bit_hamming_ops": ("items", f"({BIT}) bit_hamming_ops",
                        f"SELECT id FROM (SELECT id, v FROM items ORDER BY {BIT} <~> "
                        f"binary_quantize($1::vector)::bit({{d}}) LIMIT 100) x ORDER BY v <=> $1::vector LIMIT 10",
                        "cosine"),
    "bit_jaccard_ops": ("sets", "x bit_jaccard_ops", asked("sets", "<%>"), "jaccard"),
    "sparsevec_cosine_ops": ("words", "x sparsevec_cosine_ops", asked("words", "<=>"), "sparse_cosine"),
    "sparsevec_ip_ops": ("words", "x sparsevec_ip_ops", asked("words", "<#>"), "sparse_ip"),
    "sparsevec_l2_ops": ("words", "x sparsevec_l2_ops", asked("words", "<->"), "sparse_l2"),
}

try:
    import torch
    DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
except ImportError:
    torch = None


def array(x):
    return x if torch is None else torch.from_numpy(np.ascontiguousarray(x)).to(DEVICE)


def least(distances):
    """Positions of the 10 smallest of each row, as numpy."""
    if torch is None:
        return np.argsort(distances, axis=1, kind="stable")[:, :10].astype(np.int32)
    return distances.topk(10, largest=False).indices.cpu().numpy().astype(np.int32)


def nearest_by_l1(base, query):
    """[queries, 10] ids of the nearest rows."""
    rows, found = array(np.array(base)), []
    for i in range(0, len(query), 10):
        q = array(np.array(query[i:i + 10]))
        found.append(least(np.abs(q[:, None] - rows[None]).sum(2) if torch is None else torch.cdist(q, rows, p=1)))
    return np.concatenate(found)


# ---- sets ----

def make_sets(rows, like):
    """Packed bits: the largest tenth of each projection, by a sample of `like`."""
    rng = np.random.default_rng(1)
    to = rng.standard_normal((rows.shape[1], SET_BITS)).astype(np.float32)
    bounds = np.quantile(np.array(like[:10000]) @ to, 0.9, axis=0)
    return np.concatenate([np.packbits(np.array(rows[i:i + 20000]) @ to > bounds, axis=1)
                           for i in range(0, len(rows), 20000)])


def nearest_sets(rows, query):
    """By Jaccard distance."""
    def floats(packed):
        bits = array(np.unpackbits(packed, axis=1))
        return bits.astype(np.float32) if torch is None else bits.float()

    q, parts = floats(query), []
    for i in range(0, len(rows), 100000):
        x = floats(rows[i:i + 100000])
        both = q @ x.T
        parts.append(both / (q.sum(1)[:, None] + x.sum(1)[None] - both))
    return least(-(np.concatenate(parts, 1) if torch is None else torch.cat(parts, 1)))


def copied_sets(packed):
    row = np.dtype([("fields", ">i2"), ("l1", ">i4"), ("id", ">i4"), ("l2", ">i4"), ("bits", ">i4"),
                    ("x", "u1", (packed.shape[1],))])
    for i in range(0, len(packed), 16384):
        part = packed[i:i + 16384]
        out = np.zeros(len(part), row)
        out["fields"], out["l1"], out["l2"], out["bits"] = 2, 4, 4 + packed.shape[1], 8 * packed.shape[1]
        out["id"], out["x"] = np.arange(i, i + len(part)), part
        yield out.tobytes()


# ---- sparse rows ----

class Sparse:
    """Rows of columns and weights, each row's columns in order; first[i] is where row i begins."""

    def __init__(self, first, columns, weights):
        self.first, self.columns, self.weights = first, columns, weights

    def __len__(self):
        return len(self.first) - 1

    def take(self, begin, end):
        a, b = self.first[begin], self.first[end]
        return Sparse(self.first[begin:end + 1] - a, self.columns[a:b], self.weights[a:b])


def make_sparse(tokens, n):
    """TF-IDF weights of n sentences, and of QUERIES others."""
    data = np.load(tokens)
    lengths = data["lengths"].astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    n = min(n, len(lengths) - ASKING)
    asking = len(lengths) - ASKING
    which = np.concatenate([np.arange(n), np.arange(asking, asking + QUERIES)])
    flat = np.concatenate([data["ids"][:starts[n]], data["ids"][starts[asking]:starts[asking + QUERIES]]])
    row = np.repeat(np.arange(len(which)), lengths[which])
    word = ~np.isin(flat, MARKS)
    key, times = np.unique(row[word] * WORDS + flat[word].astype(np.int64), return_counts=True)
    row, column = key // WORDS, key % WORDS
    rarity = np.log(n / np.maximum(np.bincount(column[row < n], minlength=WORDS), 1) + 1)
    rows = Sparse(np.searchsorted(row, np.arange(len(which) + 1)), column.astype(np.int32),
                  ((1 + np.log(times)) * rarity[column]).astype(np.float32))
    return rows.take(0, n), rows.take(n, len(which))


def nearest_sparse(rows, query, by):
    n, found = len(rows), []
    owner = np.repeat(np.arange(n), np.diff(rows.first))
    norms = np.bincount(owner, rows.weights.astype(np.float64) ** 2, n)
    owner, columns, weights, norms = (array(x) for x in (owner, rows.columns, rows.weights, norms.astype(np.float32)))
    if torch is not None:
        columns = columns.long()
    for i in range(len(query)):
        one = query.take(i, i + 1)
        dense = np.zeros(WORDS, np.float32)
        dense[one.columns] = one.weights
        products = weights * array(dense)[columns]
        if torch is None:
            product = np.bincount(owner, products, n).astype(np.float32)
        else:
            product = torch.zeros(n, device=DEVICE).index_add_(0, owner, products)
        distance = {"ip": -product, "cosine": -product / norms ** 0.5, "l2": norms - 2 * product}[by]
        found.append(least(distance[None]))
    return np.concatenate(found)


def copied_sparse(rows):
    """Rows of (id, sparsevec) as COPY BINARY takes them."""
    head = np.dtype([("fields", ">i2"), ("l1", ">i4"), ("id", ">i4"), ("l2", ">i4"), ("dim", ">i4"),
                     ("nnz", ">i4"), ("unused", ">i4")])
    for i in range(0, len(rows), 16384):
        part = rows.take(i, min(i + 16384, len(rows)))
        nnz = np.diff(part.first)
        heads = np.zeros(len(part), head)
        heads["fields"], heads["l1"], heads["l2"], heads["dim"] = 2, 4, 12 + 8 * nnz, WORDS
        heads["id"], heads["nnz"] = np.arange(i, i + len(part)), nnz
        at = np.arange(len(part)) * head.itemsize + 8 * part.first[:-1]
        out = np.zeros(len(part) * head.itemsize + 8 * part.first[-1], np.uint8)
        out[at[:, None] + np.arange(head.itemsize)] = heads.view(np.uint8).reshape(len(part), -1)
        inside = np.arange(part.first[-1]) - np.repeat(part.first[:-1], nnz)
        element = np.repeat(at + head.itemsize, nnz) + 4 * inside
        out[element[:, None] + np.arange(4)] = part.columns.astype(">i4").view(np.uint8).reshape(-1, 4)
        element += 4 * np.repeat(nnz, nnz)
        out[element[:, None] + np.arange(4)] = part.weights.astype(">f4").view(np.uint8).reshape(-1, 4)
        yield out.tobytes()


# ---- the whole ----

def save_truth(out, by, query, near):
    os.makedirs(f"{out}/{by}", exist_ok=True)
    save_matrix(f"{out}/{by}/query.fbin", np.asarray(query, np.float32))
    save_matrix(f"{out}/{by}/gt.ibin", np.asarray(near, np.int32))


def prepare(server, args, names):
    """Loads the tables that the classes want, and writes a folder of queries and truth for each kind of truth."""
    base, query = read_matrix(f"{args.data}/base.fbin")[:args.rows], read_matrix(f"{args.data}/query.fbin")[:QUERIES]
    tables, wanted = {CLASSES[n][0] for n in names}, {CLASSES[n][3] for n in names}
    numbers = np.arange(QUERIES)[:, None]
    if "items" in tables:
        server.load("items", base, streams=8)
    if "cosine" in wanted:
        near = least(array(-(np.array(query) @ np.array(base).T))) if args.rows else \
            read_matrix(f"{args.data}/gt.ibin", np.int32)[:len(query)]
        save_truth(args.out, "cosine", query, near[:, :10])
    if "l1" in wanted:
        save_truth(args.out, "l1", query, nearest_by_l1(base, query))
    if "sets" in tables:
        sets, asking = make_sets(base, base), make_sets(query, base)
        server.sql(f"CREATE TABLE sets (id int, x bit({SET_BITS})); CREATE TABLE sets_asked (LIKE sets, PRIMARY KEY (id))")
        server.copy_binary("sets", copied_sets(sets))
        server.copy_binary("sets_asked", copied_sets(asking))
        save_truth(args.out, "jaccard", numbers[:len(query)], nearest_sets(sets, asking))
    if "words" in tables:
        rows, asking = make_sparse(args.tokens, args.rows or len(base))
        server.sql(f"CREATE TABLE words (id int, x sparsevec({WORDS})); CREATE TABLE words_asked (LIKE words, PRIMARY KEY (id))")
        server.copy_binary("words", copied_sparse(rows))
        server.copy_binary("words_asked", copied_sparse(asking))
        for by in ("cosine", "ip", "l2"):
            if f"sparse_{by}" in wanted:
                save_truth(args.out, f"sparse_{by}", numbers, nearest_sparse(rows, asking, by))
    server.sql("VACUUM (FREEZE, ANALYZE); CHECKPOINT")
    return base.shape


def measure(server, qps, args, name, system, d):
    """A row of the table for each ef."""
    table, indexed, query, by = (x.format(d=d) for x in CLASSES[name])
    folder, rows = f"{args.out}/{by}", []
    # a million sketches of sparse rows are 8 GB; hnsw would take all of it at once
    memory = "SET maintenance_work_mem = '32GB'; " if system == "grnnd" else ""
    seconds, _ = server.create_index(f"{memory}CREATE INDEX i ON {table} USING {system} ({indexed})")
    size = server.size("i")
    server.sql(f"CHECKPOINT; ANALYZE {table}")
    for ef in args.efs.split(","):
        setup = f"SET enable_seqscan = off; SET {system}.ef_search = {ef}"
        server.qps(qps, folder, query, setup, args.clients, 60, queries=100, warmup=0)
        one = server.qps(qps, folder, query, setup, 1, args.seconds, pin=True, buffers=100)
        many = server.qps(qps, folder, query, setup, args.clients, args.seconds)
        # of many clients, as these ask all queries
        rows.append([name, system, int(ef), many["recall"], one["qps"], many["qps"],
                     one["hit"] + one["read"], size / 1e6, seconds])
        print(*rows[-1], flush=True)
    server.sql("DROP INDEX i")
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pg-config", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--tokens")
    parser.add_argument("--out", required=True)
    parser.add_argument("--classes", help="all that the data allow by default")
    parser.add_argument("--rows", type=int, help="the first so many rows")
    parser.add_argument("--efs", default="40,100,200")
    parser.add_argument("--clients", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--deadline", type=float, help="seconds from the start")
    args = parser.parse_args()
    names = args.classes.split(",") if args.classes else [n for n in CLASSES if args.tokens or CLASSES[n][0] != "words"]
    os.makedirs(args.out, exist_ok=True)
    began = time.time()
    server = Server(args.pg_config, settings={
        "shared_buffers": "8GB", "maintenance_work_mem": "8GB", "max_worker_processes": "64",
        "max_parallel_workers": "64", "max_parallel_maintenance_workers": str(max(os.cpu_count() - 1, 1))})
    rows, last = {}, {"grnnd": 0, "hnsw": 0}
    try:
        qps = server.build_qps()
        server.sql("CREATE EXTENSION vector; CREATE EXTENSION grnnd;")
        shape = prepare(server, args, names)
        print(f"prepared in {time.time() - began:.0f} s", flush=True)
        for system in ("grnnd", "hnsw"):
            for name in names:
                since = time.time()
                if args.deadline and since - began + last[system] > args.deadline:
                    print(f"{name}, {system}: no time left", flush=True)
                    continue
                rows[name, system] = measure(server, qps, args, name, system, shape[1])
                last[system] = time.time() - since
                write_table(f"{args.out}/types.md", f"Operator classes: {shape[0]} rows of {shape[1]} dimensions",
                            ["class", "index", "ef", "recall@10", "queries/s (1 client)",
                             f"queries/s ({args.clients} clients)", "buffers/query", "index MB", "build s"],
                            [r for n in names for s in last for r in rows.get((n, s), [])], machine())
    finally:
        server.stop()
    print(f"{time.time() - began:.0f} s in all")


if __name__ == "__main__":
    main()
