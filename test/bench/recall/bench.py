#!/usr/bin/env python3
"""Does grnnd.target_recall keep its promise?

  bench.py --pg-config PG_CONFIG --out RESULTS [--data NAME=FOLDER ...] [--only NAME,...]

For each data set an index is built on half of the rows (built), half of what is there is deleted,
vacuumed and replaced by other rows (churned), and an index is built on a quarter of the rows and
grows to the half row by row (grown).  In each state queries that are no rows ask for k = 1, 10, 50
and 100 under each target, and for k = 1, 10 and 100 through filters of which 50%, 10% and 1% of the
rows pass.  Their recall, by distance against all rows, stands beside the target, with the width that
was chosen.

FOLDER holds base.fbin and query.fbin (test/bench/README.md).  Without --data the sets are the
sample of test/data and random ones.  Writes RESULTS/recall.md and, cell by cell, RESULTS/recall.csv
(rows, index, percent that pass, k, target or 0 for a fixed width, recall, its standard error, width,
records visited).
"""
import argparse
import os
import sys
import time

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from common import ROOT, Server, read_matrix, write_table  # noqa: E402

TARGETS = (0.9, 0.95, 0.98, 0.99)
QUERIES = {1: 1000, 10: 1000, 50: 300, 100: 300}  # by k
FILTERS = (50, 10, 1)  # percent of the rows that pass
FILTERED_KS = (1, 10, 100)
MARGIN = 0.01
# type, operator class, operator
CLASSES = {
    "l2": ("vector", "vector_l2_ops", "<->"), "cosine": ("vector", "vector_cosine_ops", "<=>"),
    "ip": ("vector", "vector_ip_ops", "<#>"), "l1": ("vector", "vector_l1_ops", "<+>"),
    "half": ("halfvec", "halfvec_cosine_ops", "<=>"), "bit": ("bit", "bit_hamming_ops", "<~>"),
    "sparse": ("sparsevec", "sparsevec_cosine_ops", "<=>"),
}


def glosses():
    """Embeddings of dictionary entries."""
    rows = np.fromfile(f"{ROOT}/test/data/glosses.i8", np.int8).reshape(-1, 384).astype(np.float32)
    rows = rows[np.random.default_rng(1).permutation(len(rows))]
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def clusters(n, dim, centers, spread, seed):
    rng = np.random.default_rng(seed)
    middle = rng.normal(size=(centers, dim))
    return (middle[rng.integers(0, centers, n)] + spread * rng.normal(size=(n, dim))).astype(np.float32)


def sparse(rows, kept):
    """The largest elements of each row, the others 0."""
    out = np.zeros_like(rows)
    at = np.argpartition(-rows, kept, axis=1)[:, :kept]
    np.put_along_axis(out, at, np.take_along_axis(rows, at, 1), 1)
    return out


def sets(folders):
    """Of each set its name, the class, and a function of its rows and queries."""
    rng = np.random.default_rng

    def split(rows):
        return rows[1000:], rows[:1000]

    def longer(rows):
        return rows * rng(5).uniform(0.5, 1.5, (len(rows), 1)).astype(np.float32)

    def repeated(rows):
        # a fifth of the rows stand four times
        return np.concatenate([rows, np.repeat(rows[1000:1000 + len(rows) // 5], 3, axis=0)])

    def shuffled(rows, queries):
        return rows[rng(6).permutation(len(rows))], queries

    yield "glosses", "cosine", lambda: split(glosses())
    yield "glosses ip", "ip", lambda: split(longer(glosses()))
    yield "glosses l1", "l1", lambda: split(glosses()[:11000])
    yield "glosses half", "half", lambda: split(glosses())
    yield "glosses bit", "bit", lambda: split((glosses() > 0).astype(np.float32))
    yield "glosses sparse", "sparse", lambda: split(sparse(np.abs(glosses()[:11000]), 30))
    yield "random", "l2", lambda: split(rng(2).random((21000, 16), np.float32))
    yield "clusters", "l2", lambda: split(clusters(21000, 64, 200, 0.3, 3))
    yield "duplicates", "l2", lambda: shuffled(*split(repeated(clusters(16000, 32, 50, 0.6, 4))))
    for name, folder in folders:
        yield name, "l2", lambda folder=folder: (np.array(read_matrix(f"{folder}/base.fbin")[:40000]),
                                                np.array(read_matrix(f"{folder}/query.fbin")[:1000]))


def distances(metric, rows, query):
    """[queries, rows]"""
    if metric == "l1":
        return np.stack([np.abs(rows - q).sum(1) for q in query])
    dot = query @ rows.T
    if metric == "ip":
        return -dot
    if metric in ("cosine", "half", "sparse"):
        return 1 - dot / np.maximum(np.outer(np.linalg.norm(query, axis=1), np.linalg.norm(rows, axis=1)), 1e-30)
    return (rows * rows).sum(1)[None] - 2 * dot + (query * query).sum(1)[:, None]


def column(kind, dim):
    """The rows of table raw in the type of the index (bits: of what is above 0)."""
    return {"bit": f"binary_quantize(v)::bit({dim})"}.get(kind, f"v::{kind}({dim})")


class Set:
    """A data set in a server."""

    def __init__(self, server, metric, rows, query):
        self.server, self.metric, self.query = server, metric, query
        self.kind, self.opclass, self.operator = CLASSES[metric]
        self.rows = rows[:len(rows) // 4 * 4]
        self.cell = np.arange(len(self.rows)) * 7919 % 100  # the filter's column
        if metric == "half":
            self.rows = self.rows.astype(np.float16).astype(np.float32)
            self.query = self.query.astype(np.float16).astype(np.float32)
        dim = rows.shape[1]
        server.sql("DROP TABLE IF EXISTS raw, asked")
        server.load("raw", self.rows)
        server.load("asked", self.query)
        server.sql(f"CREATE TABLE queries AS SELECT id, {column(self.kind, dim)} AS v FROM asked; "
                   f"CREATE TABLE source AS SELECT id, {column(self.kind, dim)} AS v, id * 7919::bigint % 100 AS f "
                   "FROM raw; CREATE INDEX ON source (id); VACUUM ANALYZE source; DROP TABLE raw, asked")

    def make(self, ids):
        """A table of those rows and its index; seconds."""
        self.server.sql("DROP TABLE IF EXISTS items; CREATE TABLE items AS SELECT id, v, f::int FROM source "
                        f"WHERE id BETWEEN {ids.min()} AND {ids.max()}; VACUUM ANALYZE items")
        self.live = ids
        _, log = self.server.create_index(f"CREATE INDEX items_v ON items USING grnnd (v {self.opclass}, f)")
        return self.server.sql("SELECT (SELECT sum(value::float8) FROM jsonb_each_text(build_seconds)), build_seconds->>'recall', "
                               "coalesce(recall_curve->0->>'queries', '0') FROM grnnd_stats('items_v')")[0].split("|")

    def change(self, dead, new):
        if len(dead):
            self.server.sql(f"DELETE FROM items WHERE id BETWEEN {dead.min()} AND {dead.max()}; "
                            "VACUUM (INDEX_CLEANUP on) items;")
        self.server.sql(f"INSERT INTO items SELECT id, v, f::int FROM source WHERE id BETWEEN {new.min()} AND {new.max()};"
                        "VACUUM (INDEX_CLEANUP on, ANALYZE) items; SELECT grnnd_fit('items_v')")
        self.live = np.concatenate([np.setdiff1d(self.live, dead), new])

    def truth(self):
        d = distances(self.metric, self.rows[self.live], self.query)
        self.d = np.full((len(self.query), len(self.rows)), np.inf, np.float32)
        self.d[:, self.live] = d
        self.bounds = {}

    def bound(self, percent, k, passing):
        """Of each query the distance of the k-th nearest row that passes."""
        if (percent, k) not in self.bounds:
            self.bounds[percent, k] = np.partition(self.d[:, passing], k - 1, axis=1)[:, k - 1]
        return self.bounds[percent, k]

    def recall(self, setting, k, percent=100):
        """(recall, its standard error, width, visits) of a search."""
        n = min(QUERIES[k], len(self.query))
        passing = self.live[self.cell[self.live] < percent]
        most = min(k, len(passing))
        where = "" if percent == 100 else f"WHERE f < {percent}"
        out = self.server.sql(
            f"SET enable_seqscan = off; SET enable_sort = off; SET grnnd.{setting}; "
            f"SELECT array_to_string(ARRAY(SELECT id FROM items {where} ORDER BY v {self.operator} q.v LIMIT {k}), ' ') "
            f"FROM (SELECT * FROM queries WHERE id < {n} ORDER BY id OFFSET 0) q; "
            "SELECT ef_search || ' ' || records_visited FROM grnnd_last_scan()")[0].split("\n")
        bounds = self.bound(percent, most, passing)
        recall = np.zeros(n)
        for q, line in enumerate(out[:-1]):
            found = self.d[q, np.array(line.split(), int)]
            recall[q] = (found <= bounds[q] + 1e-5 * max(abs(bounds[q]), 1e-3)).sum() / most
        width, visits = out[-1].split()
        return round(recall.mean(), 5), round(recall.std() / np.sqrt(n), 5), int(width), int(visits)


def measure(s, name, state, write):
    s.truth()
    for target in TARGETS:
        for k in QUERIES:
            write(name, state, 100, k, target, *s.recall(f"target_recall = {target}", k))
        for percent in FILTERS:
            for k in FILTERED_KS:
                if percent * len(s.live) >= 200 * k:
                    write(name, state, percent, k, target, *s.recall(f"target_recall = {target}", k, percent))
    # what the setting is held against: recall by width alone
    for k in QUERIES:
        for ef in (10, 20, 40, 80, 160, 320):
            if ef >= 2 * k:
                write(name, state, 100, k, 0, *s.recall(f"ef_search = {ef}", k))


def report(out):
    """RESULTS/recall.md of RESULTS/recall.csv."""
    rows = []
    with open(f"{out}/recall.csv") as f:
        cells = [line.strip().split(",") for line in f]
    for name, state in dict.fromkeys((c[0], c[1]) for c in cells):
        for filtered in (False, True):
            count, lowest = [0] * 4, 1
            for c in cells:
                target, k, width, off = float(c[4]), int(c[3]), int(c[7]), float(c[5]) - float(c[4])
                if (c[0], c[1], c[2] != "100") != (name, state, filtered) or target == 0:
                    continue
                # a search for LIMIT k has 2 k candidates at least
                count[1 if abs(off) <= MARGIN else 0 if off < 0 else 2 if width <= 2 * k * 1.03 else 3] += 1
                lowest = min(lowest, off)
            if sum(count):
                rows.append([name, state, "yes" if filtered else "no", *count, f"{lowest:+.3f}"])
    write_table(f"{out}/recall.md", "Recall beside grnnd.target_recall",
                ["rows", "index", "filtered", "below by more than .01", "within .01", "above, at the least width",
                 "above", "worst"], rows)


def run(server, name, metric, make, write):
    s = Set(server, metric, *make())
    n = len(s.rows)
    ids = np.arange(n)
    began = time.time()
    seconds = s.make(ids[:n // 2])
    print(f"# {name}: {n} rows of {s.rows.shape[1]}; build {seconds[0]} s, of them the curve {seconds[1]} s, "
          f"{seconds[2]} queries", flush=True)
    measure(s, name, "built", write)
    s.change(ids[:n // 4], ids[n // 2:n // 4 * 3])
    measure(s, name, "churned", write)
    s.make(ids[:n // 4])
    s.change(ids[:0], ids[n // 4:n // 2])
    measure(s, name, "grown", write)
    server.sql("DROP TABLE items, queries, source")
    print(f"# {name}: {time.time() - began:.0f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pg-config", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--data", action="append", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--only", help="names, by commas")
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    server = Server(args.pg_config, settings={"shared_buffers": "512MB", "max_parallel_workers_per_gather": "0",
                                              "grnnd.background_fit": "off"})
    csv = open(f"{args.out}/recall.csv", "a")

    def write(*row):
        print(*row, sep=",", file=csv, flush=True)

    try:
        server.sql("CREATE EXTENSION vector; CREATE EXTENSION grnnd;")
        for name, metric, make in sets([d.split("=", 1) for d in args.data]):
            if args.only is None or name in args.only.split(","):
                run(server, name, metric, make, write)
    finally:
        server.stop()
    report(args.out)


if __name__ == "__main__":
    main()
