#!/usr/bin/env python3
"""Layouts of grnnd, of this and of other versions: bytes a row, pages a query, queries/s, WAL.

  bench.py --version NAME=PG_CONFIG [--version ...] --data FOLDER [--data ...] --out FILE.md
           [--with 'NAME:layout = exact' ...] [--grow] [--pgvector]
  bench.py --make FOLDER     data from the sample: FOLDER/text384, text768, text1536, random1536

A data folder holds base.fbin, query.fbin and gt.ibin, as those of test/bench/queries.  text768
and text1536 are 2 and 4 consecutive texts side by side.  --with adds an index with storage
parameters to one version (NAME:default is there anyway).  --grow: also an index that was
empty when the rows came one by one.  Figures at a recall are interpolated between values of ef_search.
"""
import argparse
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from common import ROOT, Server, machine, read_matrix, save_matrix, write_table  # noqa: E402

EFS = [10, 14, 20, 28, 40, 56, 80, 120, 180, 280, 420, 640]
RECALLS = (0.95, 0.99)


def sample(name):
    rows = np.fromfile(f"{ROOT}/test/data/{name}.i8", np.int8).reshape(-1, 384).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def save(folder, base, query):
    os.makedirs(folder, exist_ok=True)
    near = []
    for q in np.array_split(query, 8):
        d = (base * base).sum(1)[None] - 2 * q @ base.T
        near.append(np.argsort(d, axis=1)[:, :100])
    save_matrix(f"{folder}/base.fbin", base)
    save_matrix(f"{folder}/query.fbin", query)
    save_matrix(f"{folder}/gt.ibin", np.concatenate(near).astype(np.int32))


def make(folder):
    base, query = sample("glosses"), sample("queries")
    for n in (1, 2, 4):
        side = [np.hstack([np.roll(x, -i, 0) for i in range(n)]) / np.sqrt(n) for x in (base, query)]
        save(f"{folder}/text{384 * n}", *(x.astype(np.float32) for x in side))
    rng = np.random.default_rng(1)
    save(f"{folder}/random1536", *(rng.normal(size=(n, 1536)).astype(np.float32) for n in (10000, 200)))


def at_recall(points, recall, field):
    for a, b in zip([None] + points, points):
        if b["recall"] >= recall:
            if a is None or b["recall"] == a["recall"]:
                return b[field]
            t = (recall - a["recall"]) / (b["recall"] - a["recall"])
            return a[field] + t * (b[field] - a[field])
    return None


def sweep(server, qps, data, setting, seconds):
    """A point for each ef_search until recall .99."""
    points = []
    query = "SELECT id FROM t ORDER BY v <-> $1 LIMIT 10"
    rows = len(read_matrix(f"{data}/query.fbin"))
    for ef in EFS:
        setup = f"SET enable_seqscan = off; SET {setting} = {ef}"
        found = server.qps(qps, data, query, setup, queries=min(rows, 500), warmup=20, pin=True, seconds=60)
        timed = server.qps(qps, data, query, setup, pin=True, seconds=seconds, warmup=50, buffers=min(rows, 200))
        points.append({"recall": found["recall"], "qps": timed["qps"], "buffers": timed["hit"] + timed["read"], "ef": ef})
        if found["recall"] >= RECALLS[-1] + .002:
            break
    return points


def row_of(name, what, rows, server, points, wal):
    figures = [name, what, round(server.size("i") / rows), wal]
    for recall in RECALLS:
        for field in ("buffers", "qps"):
            x = at_recall(points, recall, field)
            figures.append("-" if x is None else round(x, 1) if field == "buffers" else round(x))
    figures.append(next((round(p["recall"], 4) for p in points if p["ef"] == 40), "-"))
    return figures


def measure(name, server, qps, data, args, out):
    base = read_matrix(f"{data}/base.fbin")
    title = os.path.basename(data)
    server.sql("CREATE EXTENSION IF NOT EXISTS vector; CREATE EXTENSION IF NOT EXISTS grnnd; DROP TABLE IF EXISTS t")
    server.load("t", base)
    kinds = ["default"] + [w.split(":", 1)[1] for w in args.options if w.split(":", 1)[0] == name]
    for kind in kinds:
        params = "" if kind == "default" else f"WITH ({kind})"
        seconds, _ = server.create_index("SET grnnd.build_device = cpu; SET max_parallel_maintenance_workers = 1; "
                                         f"CREATE INDEX i ON t USING grnnd (v vector_l2_ops) {params}")
        points = sweep(server, qps, data, "grnnd.ef_search", args.seconds)
        out.append([title] + row_of(name, f"{kind}, built in {seconds:.0f} s", len(base), server, points, "-"))
        print(out[-1], flush=True)
        if args.grow:
            server.sql("DROP INDEX i; CREATE TABLE s AS SELECT * FROM t; TRUNCATE t; "
                       f"CREATE INDEX i ON t USING grnnd (v vector_l2_ops) {params}")
            server.sql("INSERT INTO t SELECT * FROM s WHERE id < 3000; SELECT grnnd_fit('i');")
            last = len(base) - 1000
            server.sql(f"INSERT INTO t SELECT * FROM s WHERE id >= 3000 AND id < {last}; SELECT grnnd_fit('i')")
            before = int(server.sql("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")[0])
            server.sql(f"INSERT INTO t SELECT * FROM s WHERE id >= {last}")
            wal = int(server.sql("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")[0]) - before
            server.sql("VACUUM (ANALYZE) t")
            points = sweep(server, qps, data, "grnnd.ef_search", args.seconds)
            out.append([title] + row_of(name, f"{kind}, grown row by row", len(base), server, points,
                                        round(wal / 1000)))
            print(out[-1], flush=True)
            server.sql("DROP TABLE s")
        server.sql("DROP INDEX i")
    if args.pgvector and name == args.version[-1].split("=")[0]:
        seconds, _ = server.create_index("CREATE INDEX i ON t USING hnsw (v vector_l2_ops)")
        points = sweep(server, qps, data, "hnsw.ef_search", args.seconds)
        out.append([title] + row_of("pgvector", f"hnsw, built in {seconds:.0f} s", len(base), server, points, "-"))
        print(out[-1], flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--make")
    p.add_argument("--version", action="append", default=[])
    p.add_argument("--data", action="append", default=[])
    p.add_argument("--with", dest="options", action="append", default=[])
    p.add_argument("--grow", action="store_true")
    p.add_argument("--pgvector", action="store_true")
    p.add_argument("--seconds", type=float, default=1.0)
    p.add_argument("--out")
    args = p.parse_args()
    if args.make:
        make(args.make)
        return
    out = []
    servers = []
    try:
        for v in args.version:
            name, config = v.split("=", 1)
            # WAL without the images of pages after a checkpoint, which say nothing of layouts
            servers.append((name, Server(config, settings={"full_page_writes": "off"})))
        for data in args.data:
            for name, server in servers:
                measure(name, server, server.build_qps(), data, args, out)
    finally:
        for _, server in servers:
            server.stop()
    write_table(args.out, "Layouts", ["data", "version", "index", "bytes a row", "WAL bytes an insert",
                                      "buffers .95", "queries/s .95", "buffers .99", "queries/s .99",
                                      "recall at ef 40"], out)


if __name__ == "__main__":
    main()
