#!/usr/bin/env python3
"""Layouts of grnnd, of this and of other versions, and hnsw: bytes a row, recall, processor time.

  bench.py --version NAME=PG_CONFIG [--version ...] --data FOLDER [--data ...] --out FILE.md
           [--with 'NAME:layout = exact' ...] [--rows N] [--grow] [--pgvector]
  bench.py --make FOLDER     data from the sample: FOLDER/text384, text768, text1536, random1536

A data folder holds base.fbin, query.fbin and gt.ibin, as those of test/bench/queries.  text768
and text1536 are 2 and 4 consecutive texts side by side.  --with names the index of a version by its
storage parameters (without any: the default).  --grow: also an index of half of the rows into which
the others are inserted, from which a quarter is deleted then, and VACUUM.  All times are of the
processors, so other work on the machine matters little; one backend, and a builder with two threads.
"""
import argparse
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from common import ROOT, Server, Session, read_matrix, save_matrix, take, write_table  # noqa: E402

EFS = [40, 100, 200]
QUERIES = 300


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


def sweep(session, data, setting):
    """Recall@10 and microseconds a query for each width."""
    cells = []
    queries, truth = read_matrix(f"{data}/query.fbin")[:QUERIES], read_matrix(f"{data}/gt.ibin", np.int32)[:QUERIES, :10]
    text = "; ".join("SELECT id FROM t ORDER BY v <-> '[" + ",".join(f"{x:.7g}" for x in q) + "]' LIMIT 10" for q in queries)
    session.sql("SET enable_seqscan = off")
    for ef in EFS:
        session.sql(f"SET {setting} = {ef}")
        session.sql(text[:text.index(";")])
        lines, seconds = session.timed(text)
        found = np.array([int(x) for x in lines]).reshape(len(queries), 10)
        recall = np.mean([len(set(f) & set(t)) for f, t in zip(found, truth)]) / 10
        cells.append(f"{recall:.3f}, {1e6 * seconds / len(queries):.0f}")
    return cells


def measure(name, kind, using, setting, server, data, base, args, out):
    index = f"CREATE INDEX i ON t USING {using}"
    session = Session(server)
    session.sql("SET grnnd.build_device = cpu; SET max_parallel_maintenance_workers = 0; SET grnnd.build_threads = 2")
    _, build = session.timed(index)
    row = [os.path.basename(data.rstrip("/")), name, kind, round(server.size("i") / len(base)), f"{build:.1f}"] + sweep(session, data, setting)
    session.sql("DROP INDEX i")
    if args.grow:
        half = len(base) // 2
        session.sql(f"CREATE TABLE s AS SELECT * FROM t WHERE id >= {half}; DELETE FROM t WHERE id >= {half}")
        session.sql("VACUUM t")
        session.sql(index)
        row.append(f"{1e6 * session.timed('INSERT INTO t SELECT * FROM s')[1] / (len(base) - half):.0f}")
        row += sweep(session, data, setting)
        session.sql("DELETE FROM t WHERE id % 4 = 1")
        row.append(f"{session.timed('VACUUM t')[1]:.1f}")
        session.sql("DROP INDEX i; TRUNCATE t; DROP TABLE s")
        server.copy("t", base)
        session.sql("VACUUM (FREEZE, ANALYZE) t")
    session.close()
    out.append(row)
    print(row, flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--make")
    p.add_argument("--version", action="append", default=[])
    p.add_argument("--data", action="append", default=[])
    p.add_argument("--with", dest="options", action="append", default=[])
    p.add_argument("--rows", type=int)
    p.add_argument("--grow", action="store_true")
    p.add_argument("--pgvector", action="store_true")
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
            server = Server(config, settings={"full_page_writes": "off", "fsync": "off", "shared_buffers": "512MB",
                                              "grnnd.background_fit": "off", "max_parallel_workers_per_gather": "0"})
            servers.append((name, server))
            server.sql("CREATE EXTENSION vector; CREATE EXTENSION grnnd")
        for folder in args.data:
            data = take(folder, f"{servers[0][1].dir}/{os.path.basename(folder.rstrip('/'))}", args.rows)
            base = np.array(read_matrix(f"{data}/base.fbin"))
            for name, server in servers:
                server.sql("DROP TABLE IF EXISTS t")
                server.load("t", base)
                for kind in [w.split(":", 1)[1] for w in args.options if w.split(":", 1)[0] == name] or [""]:
                    params = f" WITH ({kind})" if kind else ""
                    measure(name, kind or "default", f"grnnd (v vector_l2_ops){params}", "grnnd.ef_search", server, data, base, args, out)
                if args.pgvector and name == servers[-1][0]:
                    measure("pgvector", "hnsw", "hnsw (v vector_l2_ops)", "hnsw.ef_search", server, data, base, args, out)
    finally:
        for _, server in servers:
            server.stop()
    columns = ["data", "version", "index", "bytes a row", "CREATE INDEX s"] + [f"ef {e}: recall, us a query" for e in EFS]
    if args.grow:
        columns += ["us an insert"] + [f"grown: ef {e}" for e in EFS] + ["VACUUM s"]
    write_table(args.out, "Layouts", columns, out)


if __name__ == "__main__":
    main()
