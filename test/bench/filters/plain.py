#!/usr/bin/env python3
"""Conditions on a column that is not in the index: grnnd beside pgvector's iterative scan, in one server.

  plain.py --pg-config PG_CONFIG --data NAME=FOLDER [--data ...] --out RESULTS [--ef 40]

FOLDER holds base.fbin and query.fbin (test/bench/README.md); distances are L2.  A row passes at random; for each share of
the rows that pass, each LIMIT, and strict and relaxed order: recall@LIMIT of the same queries, buffers a query, and
milliseconds of processor time a query (the backend's, least of --runs).  Writes RESULTS/plain.md.  "lower" marks
cases where grnnd's recall is below hnsw's, with the number of rows that make the difference.
"""
import argparse
import os
import subprocess
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from common import Server, read_matrix, write_table  # noqa: E402

SHARES = (1000, 100, 10, 1)         # thousandths; the first: no condition
QUERIES = {1: 500, 10: 200, 100: 50}
FUNCTIONS = """
CREATE TABLE results (query int, ids int[]);
CREATE FUNCTION search(what text, queries int, OUT hit bigint) LANGUAGE plpgsql AS $$
DECLARE
	found int[];
	q record;
	plan json;
BEGIN
	hit := 0;
	TRUNCATE results;
	FOR q IN SELECT id, v::text AS v FROM q WHERE id < queries ORDER BY id LOOP
		EXECUTE format('SELECT array_agg(id) FROM (' || what || ') x', q.v) INTO found;
		INSERT INTO results VALUES (q.id, found);
	END LOOP;
END $$;
CREATE FUNCTION buffers(what text, queries int) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
	q record;
	plan json;
	hit bigint := 0;
	n int := 0;
BEGIN
	FOR q IN SELECT id, v::text AS v FROM q WHERE id < least(queries, 20) ORDER BY id LOOP
		EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT json) ' || format(what, q.v) INTO plan;
		hit := hit + (plan->0->'Plan'->>'Shared Hit Blocks')::bigint + (plan->0->'Plan'->>'Shared Read Blocks')::bigint;
		n := n + 1;
	END LOOP;
	RETURN hit::float8 / n;
END $$;
CREATE FUNCTION cpu_ns() RETURNS float8 LANGUAGE sql AS $$
	SELECT split_part(pg_read_file('/proc/self/schedstat', 0, 100), ' ', 1)::float8 $$;
"""


def truth(base, query, passes, k):
    """Ids of the k nearest rows that pass, and their distances."""
    ids = np.flatnonzero(passes)
    rows = base[ids].astype(np.float64)
    d = (query * query).sum(1)[:, None] - 2 * query @ rows.T + (rows * rows).sum(1)[None]
    order = np.argsort(d, axis=1, kind="stable")[:, :k]
    return ids[order], np.take_along_axis(d, order, 1)


def search(server, mode, system, ef, what, n, runs):
    """(ids of each query, milliseconds of processor time a query, buffers a query)."""
    settings = (f"SET enable_seqscan = off; SET enable_sort = off; SET {system}.ef_search = {ef}; "
                f"SET {system}.iterative_scan = {mode}_order;")
    text = settings
    for _ in range(runs):
        text += (f"SELECT cpu_ns() AS a \\gset\nSELECT FROM search($q${what}$q$, {n});\n"
                 "SELECT cpu_ns() AS b \\gset\n\\echo :a :b\n")
    text += f"SELECT buffers($q${what}$q$, {n}); SELECT query, ids FROM results ORDER BY query;"
    lines = [line for line in server.sql(text)[0].splitlines() if line]
    times = [(float(b) - float(a)) / n / 1e6 for a, b in (line.split() for line in lines[:runs])]
    found = {int(q): set(map(int, ids.strip("{}").split(","))) if ids else set()
             for q, ids in (line.split("|") for line in lines[runs + 1:])}
    return found, min(times), float(lines[runs])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pg-config", required=True)
    parser.add_argument("--data", required=True, action="append")
    parser.add_argument("--out", required=True)
    parser.add_argument("--ef", type=int, default=40)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--limits", default="1,10,100")
    parser.add_argument("--shares", default=",".join(map(str, SHARES)))
    args = parser.parse_args()
    server = Server(args.pg_config, settings={"max_parallel_workers_per_gather": "0", "fsync": "off"})
    version = subprocess.check_output([args.pg_config, "--version"], text=True).strip()
    rows = []
    try:
        server.sql("CREATE EXTENSION grnnd CASCADE;" + FUNCTIONS)
        for name, folder in (d.split("=") for d in args.data):
            base, query = (np.array(read_matrix(f"{folder}/{x}.fbin")) for x in ("base", "query"))
            query = query[:max(QUERIES.values())]
            kind = np.random.default_rng(1).permutation(len(base)) * 1000 // len(base)
            server.sql("DROP TABLE IF EXISTS q, raw, hnsw, grnnd, kinds")
            server.load("q", query)
            server.load("raw", base)
            server.sql("CREATE TABLE kinds (id int, kind int); COPY kinds FROM stdin;\n"
                       + "".join(f"{i}\t{x}\n" for i, x in enumerate(kind)) + "\\.\n")
            for system in ("hnsw", "grnnd"):
                server.sql(f"CREATE TABLE {system} AS SELECT id, v, kind FROM raw JOIN kinds USING (id) ORDER BY id; "
                           f"CREATE INDEX ON {system} USING {system} (v vector_l2_ops); VACUUM ANALYZE {system};")
            for share in map(int, args.shares.split(",")):
                for k in map(int, args.limits.split(",")):
                    n = min(QUERIES[k], len(query))
                    passes = kind < share
                    near, distances = truth(base, query[:n], passes, k)
                    for mode in ("strict", "relaxed"):
                        cells = {}
                        for system in ("hnsw", "grnnd"):
                            where = "" if share == 1000 else f"WHERE kind < {share}"
                            what = f"SELECT id FROM {system} {where} ORDER BY v <-> %L LIMIT {k}"
                            found, ms, buffers = search(server, mode, system, args.ef, what, n, args.runs)
                            hits = 0
                            for i in range(n):
                                ids = np.array(sorted(found[i]), int)
                                d = ((base[ids].astype(np.float64) - query[i]) ** 2).sum(1)
                                # equally near rows are as good
                                hits += min(k, int((d <= distances[i][-1] * (1 + 1e-6) + 1e-9).sum()))
                            cells[system] = hits, hits / near.size, buffers, ms
                        h, g = cells["hnsw"], cells["grnnd"]
                        rows.append([name, f"{share / 10:g}%", k, mode, f"{h[1]:.4f}", f"{g[1]:.4f}",
                                     f"{h[2]:.0f}", f"{g[2]:.0f}", f"{h[3]:.2f}", f"{g[3]:.2f}",
                                     f"lower by {h[0] - g[0]}" if g[0] < h[0] else ""])
                        print(*rows[-1], sep=" | ", flush=True)
    finally:
        server.stop()
    os.makedirs(args.out, exist_ok=True)
    write_table(f"{args.out}/plain.md", f"Conditions on columns that are not in the index, ef {args.ef}, {version}",
                ["data", "rows that pass", "LIMIT", "order", "recall: hnsw", "grnnd", "buffers: hnsw", "grnnd",
                 "ms: hnsw", "grnnd", ""], rows)


if __name__ == "__main__":
    main()
