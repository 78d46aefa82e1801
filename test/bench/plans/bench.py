#!/usr/bin/env python3
"""Which plan the planner takes with an hnsw and with a grnnd index, and what each takes by the clock.

  bench.py --pg-config PG_CONFIG --out RESULTS [--rows 1000,20000] [--tables 384,1536] [--types bit]

For each table of the grid (rows x dimensions x storage x data) and each query (LIMIT x filter):
the plan chosen, and the least processor time of several runs of the sequential plan and of each index's.
"bad" marks cells where the planner's choice takes over 1.5 times and a millisecond more than
another plan would have, "lost" those where hnsw is chosen and a faster grnnd is not.
"""
import argparse
import os
import re
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from common import Server  # noqa: E402

# type, dimensions, storage, data; vectors of up to 500 dimensions stay in the table by default
TABLES = [("vector", 3, "plain", "random"), ("vector", 64, "plain", "random"), ("vector", 384, "plain", "sentences"),
          ("vector", 384, "plain", "random"), ("vector", 768, "external", "random"),
          ("vector", 1536, "plain", "random"), ("vector", 1536, "external", "random"),
          ("vector", 1536, "external", "sentences"), ("halfvec", 384, "plain", "sentences"),
          ("halfvec", 1536, "external", "sentences"), ("bit", 384, "plain", "sentences"),
          ("bit", 1536, "plain", "sentences"), ("sparsevec", 30000, "extended", "words"),
          ("sparsevec", 30000, "extended", "long")]
ROWS = [1000, 5000, 20000]
# share of the rows that pass, in thousandths; "partial": the index has 1,000 rows
QUERIES = [(10, 1000), (100, 1000), (10, 100), (10, 10), (100, 10), (10, "partial")]
RUNS = 3

FUNCTIONS = """
CREATE EXTENSION IF NOT EXISTS grnnd CASCADE;
CREATE OR REPLACE FUNCTION cpu_ms() RETURNS float8 LANGUAGE sql AS $$
	SELECT split_part(pg_read_file('/proc/self/schedstat', 0, 100), ' ', 1)::float8 / 1e6 $$;
CREATE OR REPLACE FUNCTION best(query text, runs int, OUT ms float8, OUT plan text) LANGUAGE plpgsql AS $$
DECLARE
	since float8;
	line text;
	v text[] := ARRAY(SELECT q.v::text FROM q ORDER BY id);
	times int := 1;
	run int := 0;
BEGIN
	-- the kernel counts a process's time up at its ticks: a run is as many queries as take several
	WHILE run <= runs LOOP
		since := cpu_ms();
		FOR i IN 1 .. times LOOP
			EXECUTE format(query, v[1 + (run + i) % 3]);
		END LOOP;
		since := cpu_ms() - since;
		IF since < 40 AND times < 300 THEN
			times := least(300, CASE WHEN since < 5 THEN times * 10 ELSE ceil(times * 50 / since) END);
		ELSE
			run := run + 1;
			ms := least(ms, since / times);
		END IF;
	END LOOP;
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || format(query, v[1]) LOOP
		plan := coalesce(plan, (regexp_match(line, '(Index Scan|Bitmap|Seq Scan)'))[1]);
	END LOOP;
END $$;
"""


def rows_of(data, n, d, seed):
    """Uniform rows, as every tutorial makes them, or rows of a spectrum like that of embeddings."""
    rng = np.random.default_rng(seed)
    if data == "random":
        return rng.random((n, d), np.float32)
    basis = np.random.default_rng(d).standard_normal((64, d)) / np.arange(1, 65)[:, None] ** 0.5
    return (rng.standard_normal((n, 64)) @ basis + 0.05 * rng.standard_normal((n, d))).astype(np.float32)


def load(server, table, kind, n, d, storage, data, seed):
    """Makes a table of rows of a type: bits are the signs of vectors, and sparse rows 20 or 400 words of a Zipf law."""
    if kind == "sparsevec":
        rng = np.random.default_rng(seed)
        of = "".join(f"{i}\t{{{','.join(f'{c}:{x:.3f}' for c, x in sorted(zip(w, rng.random(len(w)) + 0.1)))}}}/{d}\n"
                     for i in range(n)
                     for w in [set((d ** rng.random(20 if data == "words" else 400)).astype(int).tolist())])
        server.sql(f"CREATE TABLE {table} (id int, v sparsevec({d})); COPY {table} FROM stdin;\n{of}\\.\n")
        return
    server.load(table, rows_of(data, n, d, seed), storage)
    if kind == "bit":
        server.sql(f"ALTER TABLE {table} ALTER v TYPE bit({d}) USING binary_quantize(v)::bit({d})")
    elif kind == "halfvec":
        server.sql(f"ALTER TABLE {table} ALTER v TYPE halfvec({d})")


def measure(server, op, limit, share, index):
    """(ms, plan) of one query by the planner's choice, or with one plan forced."""
    where = "" if share == 1000 else f"WHERE kind < {share}" if share != "partial" else "WHERE part"
    force = {None: "", "index": "SET enable_seqscan = off; SET enable_sort = off;",
             "seq": "SET enable_indexscan = off; SET enable_bitmapscan = off;"}[index]
    out, _ = server.sql(f"{force} SELECT ms, plan FROM best('SELECT id FROM t {where} "
                        f"ORDER BY v {op} %L LIMIT {limit}', {RUNS})")
    ms, plan = out.split("|")
    return float(ms), plan


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pg-config", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--rows", default=",".join(map(str, ROWS)))
    parser.add_argument("--tables", help="dimensions to measure, all by default")
    parser.add_argument("--types", help="and types")
    args = parser.parse_args()
    server = Server(args.pg_config, settings={"max_parallel_workers_per_gather": "0"})
    lines = ["| rows | type | dim | storage | data | limit | pass | seq ms | hnsw ms | grnnd ms | hnsw plan | grnnd plan | |",
             "|---|---|---|---|---|---|---|---|---|---|---|---|---|"]
    bad = lost = 0
    try:
        server.sql(FUNCTIONS)
        for kind, d, storage, data in TABLES:
            if (args.tables and str(d) not in args.tables.split(",")) or \
                    (args.types and kind not in args.types.split(",")):
                continue
            op, ops = ("<~>", "bit_hamming_ops") if kind == "bit" else ("<->", f"{kind}_l2_ops")
            for n in map(int, args.rows.split(",")):
                server.sql("DROP TABLE IF EXISTS t, q")
                load(server, "q", kind, 3, d, storage, data, 1)
                load(server, "t", kind, n, d, storage, data, 2)
                server.sql("CREATE TABLE u (LIKE t INCLUDING ALL); ALTER TABLE u ADD kind int, ADD part bool;"
                           "SELECT setseed(0.5); INSERT INTO u SELECT id, v, random() * 1000, id < 1000 FROM t;"
                           "DROP TABLE t; ALTER TABLE u RENAME TO t; VACUUM ANALYZE t;")
                queries = [q for q in QUERIES if q[1] != "partial" or n > 1000]
                found = {q: {"seq": measure(server, op, *q, "seq")} for q in queries}
                for am in ("hnsw", "grnnd"):
                    for part in (False, True):
                        which = [q for q in queries if (q[1] == "partial") == part]
                        if not which:
                            continue
                        server.sql(f"SET client_min_messages = warning; CREATE INDEX i ON t USING {am} "
                                   f"(v {ops}) {'WHERE part' if part else ''}; VACUUM ANALYZE t;")
                        for q in which:
                            found[q][am] = measure(server, op, *q, "index")[0], measure(server, op, *q, None)[1]
                        server.sql("DROP INDEX i")
                for (limit, share), cell in sorted(found.items(), key=str):
                    seq, (hnsw, hplan), (grnnd, gplan) = cell["seq"][0], cell["hnsw"], cell["grnnd"]
                    took, other = (grnnd, seq) if gplan == "Index Scan" else (seq, grnnd)
                    note = ""
                    if took > 1.5 * other and took > other + 1:
                        note, bad = "bad", bad + 1
                    if hplan == "Index Scan" and gplan != hplan and grnnd < min(seq, hnsw):
                        note, lost = note + " lost", lost + 1
                    share = share if share == "partial" else f"{share / 10:g}%"
                    lines.append(f"| {n} | {kind} | {d} | {storage} | {data} | {limit} | {share} | {seq:.2f} | {hnsw:.2f} | "
                                 f"{grnnd:.2f} | {hplan} | {gplan} | {note} |")
                    print(lines[-1], flush=True)
    finally:
        server.stop()
    lines.append(f"\n{len(lines) - 2} cells, {bad} bad, {lost} lost.")
    print(lines[-1])
    os.makedirs(args.out, exist_ok=True)
    with open(f"{args.out}/plans.md", "w") as f:
        f.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
