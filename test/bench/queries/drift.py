#!/usr/bin/env python3
"""What inserts from another distribution cost: the index as built and then filled, against a fresh one.

  drift.py --pg-config PG_CONFIG --data FOLDER [--rows N] --out RESULTS

The rows are sorted by their first principal direction; the index is built on
the lower ten thirteenths and the upper three, 30% as many, are inserted.  Codes,
entry points and graph have then seen nothing of the new rows' kind.  Reports
ef_search, buffers and microseconds a query at recall@10 0.95 and 0.99 before
and after REINDEX, and what an insert costs beside pgvector's.
"""
import argparse
import os
import sys
import time

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from bench import EFS, OPERATORS, at_recall, sweep  # noqa: E402
from common import Server, read_matrix, save_matrix, take, write_table  # noqa: E402


def sorted_copy(data, out):
    """The folder with its base rows ordered by their first principal direction."""
    os.makedirs(out, exist_ok=True)
    base, truth = np.array(read_matrix(f"{data}/base.fbin")), read_matrix(f"{data}/gt.ibin", np.int32)
    x = base[:20000] - base[:20000].mean(0)
    direction = np.linalg.eigh(x.T @ x)[1][:, -1]
    order = np.argsort(base @ direction, kind="stable")
    place = np.empty(len(base), np.int32)
    place[order] = np.arange(len(base))
    save_matrix(f"{out}/base.fbin", base[order])
    save_matrix(f"{out}/query.fbin", np.array(read_matrix(f"{data}/query.fbin")))
    save_matrix(f"{out}/gt.ibin", place[truth])
    return out


def insert(server, table, first, last):
    """Inserts rows [first, last) one by one in one transaction; returns (us, WAL bytes) a row."""
    server.sql("CHECKPOINT")
    before = server.sql("SELECT pg_current_wal_lsn()")[0]
    start = time.time()
    server.sql(f"INSERT INTO {table} SELECT id, v FROM rest WHERE id >= {first} AND id < {last} ORDER BY id")
    seconds = time.time() - start
    wal = float(server.sql(f"SELECT pg_current_wal_lsn() - '{before}'::pg_lsn")[0])
    return seconds * 1e6 / (last - first), wal / (last - first)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pg-config", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--metric", choices=OPERATORS, default="l2")
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--clients", type=int, default=os.cpu_count())
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    op, ops = OPERATORS[args.metric]
    data = sorted_copy(take(args.data, f"{args.out}/rows.data", args.rows), f"{args.out}/sorted.data")
    base = read_matrix(f"{data}/base.fbin")
    first = len(base) * 10 // 13
    server = Server(args.pg_config, settings={"shared_buffers": "4GB", "full_page_writes": "off"})
    rows = []
    try:
        qps = server.build_qps()
        server.sql("CREATE EXTENSION vector; CREATE EXTENSION grnnd;")
        server.load("rest", base)
        server.sql("CREATE INDEX ON rest (id)")
        for table in ("items", "items2"):
            server.sql(f"CREATE TABLE {table} AS SELECT * FROM rest WHERE id < {first} ORDER BY id; VACUUM ANALYZE {table}")
        server.create_index(f"SET grnnd.build_device = '{args.device}'; CREATE INDEX items_grnnd ON items USING grnnd (v {ops})")
        server.create_index(f"CREATE INDEX items_hnsw ON items2 USING hnsw (v {ops})")
        costs = {"grnnd": insert(server, "items", first, len(base))}
        some = min(first + 2000, len(base))
        costs["pgvector"] = insert(server, "items2", first, some)
        print(f"violations: {server.sql('SELECT count(*) FROM grnnd_check($$items_grnnd$$, true)')[0]}", flush=True)
        points = {}
        for state in ("inserted", "fresh"):
            if state == "fresh":
                server.sql("REINDEX INDEX items_grnnd")
            server.sql("VACUUM ANALYZE items")
            points[state] = sweep(server, qps, data, "grnnd", "items", op, args, EFS["grnnd"])
        for recall in (0.95, 0.99):
            for state in points:
                rows.append([recall, state] + [at_recall(points[state], recall, f) for f in ("ef", "buffers", "p50_us")])
            a, b = rows[-2:]
            rows.append([recall, "ratio"] + [x / y if x and y else "" for x, y in zip(a[2:], b[2:])])
    finally:
        server.stop()
    write_table(f"{args.out}/drift.md", f"{len(base)} rows, of which {len(base) - first} inserted from another distribution",
                ["recall@10", "index", "ef_search", "buffers/query", "p50 us"], rows)
    for system, (us, wal) in costs.items():
        line = f"{system}: {us:.0f} us and {wal:.0f} bytes of WAL an insert (full_page_writes off)"
        print(line)
        with open(f"{args.out}/drift.md", "a") as f:
            f.write("\n" + line + "\n")


if __name__ == "__main__":
    main()
