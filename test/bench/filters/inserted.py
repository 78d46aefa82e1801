#!/usr/bin/env python3
"""Filtered queries of an index that is created empty and filled row by row: pages and processor time by share.

  inserted.py --pg-config PG_CONFIG --data FOLDER [--rows N] [--built] [--options TEXT] [--only TEXT]

FOLDER holds base.fbin; its last 100 rows are the queries.  Rows get labels: c at random, w a number of their own that grows with
the row, tags 1 to 12 of 500 with Zipf frequencies.  Prints a table row for each case: rows that pass, way, recall@10 at the
default width, shared buffers and microseconds of the backend's processor time a query.  --built: the index is made of the
filled table instead.  --options: its storage parameters.  --only: cases in whose name this is.
"""
import argparse
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from common import Server, read_matrix  # noqa: E402

QUERIES = 100
REPEATS = 5
SHARES = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
TAGS = 500

PROGRAM = """
CREATE FUNCTION ask(queries text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE q text;
BEGIN
	FOREACH q IN ARRAY queries LOOP EXECUTE q; END LOOP;
END $$;
CREATE FUNCTION answers(queries text[]) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE q text; ids int[];
BEGIN
	FOREACH q IN ARRAY queries LOOP EXECUTE 'SELECT array_agg(id) FROM (' || q || ') s' INTO ids; RETURN NEXT ids; END LOOP;
END $$;
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pg-config", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--rows", type=int, default=60000)
    parser.add_argument("--built", action="store_true")
    parser.add_argument("--options", default="")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    rng = np.random.default_rng(1)
    base = read_matrix(f"{args.data}/base.fbin")
    query = np.array(base[-QUERIES:], np.float32)
    base = np.array(base[:min(args.rows, len(base) - QUERIES)], np.float32)
    n = len(base)
    draw = rng.random(n)
    c = np.searchsorted(np.cumsum(SHARES), draw, side="right")
    c[c == len(SHARES)] = 100 + rng.integers(0, 100, (c == len(SHARES)).sum())
    weights = 1 / np.arange(1, TAGS + 1)
    tags = [rng.choice(TAGS, rng.integers(1, 13), False, weights / weights.sum()) for _ in range(n)]
    has = np.zeros((TAGS, n), bool)
    for i, row in enumerate(tags):
        has[row, i] = True
    server = Server(args.pg_config, settings={"shared_buffers": "1GB", "grnnd.build_device": "cpu"})
    try:
        server.sql("CREATE EXTENSION vector; CREATE EXTENSION grnnd;" + PROGRAM)
        lines = "\n".join(f"{i}\t[{','.join(f'{x:g}' for x in base[i])}]\t{c[i]}\t{i}\t{{{','.join(map(str, tags[i]))}}}"
                          for i in range(n))
        server.sql(f"CREATE TABLE raw (id int, v vector({base.shape[1]}), c int, w int, tags int[]);\nCOPY raw FROM STDIN;\n{lines}\n\\.\n")
        server.sql("CREATE TABLE items (LIKE raw)")
        create = "CREATE INDEX i ON items USING grnnd (v, c, w, tags)" + (f" WITH ({args.options})" if args.options else "")
        if not args.built:
            server.sql(create)
        server.sql("INSERT INTO items SELECT * FROM raw ORDER BY id")
        if args.built:
            server.sql(create)
        # (a fit that the inserts have asked for may be at work)
        server.sql("SELECT grnnd_fit('i'); VACUUM ANALYZE items")
        size, parts = server.sql("SELECT pg_relation_size('i'), bytes_by_part FROM grnnd_stats('i')")[0].split("|", 1)
        print(f"{n} rows, {'built' if args.built else 'filled row by row'}, {int(size) / 1e6:.1f} MB: {parts}", flush=True)
        cases = [(f"{share:.1%}, c = {k}", f"c = {k}", c == k) for k, share in enumerate(SHARES)]
        for share in SHARES:
            low = int(n * 0.6)
            cases.append((f"{share:.1%}, a range", f"w BETWEEN {low} AND {low + int(n * share) - 1}",
                          (np.arange(n) >= low) & (np.arange(n) < low + int(n * share))))
        for tag in (0, 3, 20, 50, 100, 200, 400):
            cases.append((f"{has[tag].mean():.2%}, tag {tag}", f"tags @> '{{{tag}}}'", has[tag]))
        cases.append((f"{(has[20] & has[3]).mean():.2%}, tags 3 and 20", "tags @> '{3,20}'", has[20] & has[3]))
        cases.append((f"{(has[100] | has[400]).mean():.2%}, tag 100 or 400", "tags && '{100,400}'", has[100] | has[400]))
        for name, where, passes in [case for case in cases if args.only in case[0]]:
            ids = np.flatnonzero(passes)
            part = base[ids]
            texts, near = [], []
            for q in query:
                d = ((part - q) ** 2).sum(1)
                near.append(set(ids[np.argsort(d, kind="stable")[:10]]))
                texts.append(f"SELECT id FROM items WHERE {where} ORDER BY v <-> '[{','.join(f'{x:g}' for x in q)}]' LIMIT 10")
            array = "ARRAY[" + ",".join("'" + t.replace("'", "''") + "'" for t in texts) + "]"
            setup = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off;"
            got = server.sql(f"{setup} SELECT answers({array})")[0].splitlines()
            right = sum(len(near[i] & set(map(int, got[i].strip("{}").split(",")))) for i in range(QUERIES) if near[i])
            way = server.sql(f"{setup} SELECT ask(({array})[1:1]); SELECT method FROM grnnd_last_scan()")[0].splitlines()[-1]
            read = server.sql(f"{setup} EXPLAIN (ANALYZE, BUFFERS, TIMING off) SELECT ask({array}); ")[0]
            buffers = sum(int(x.split("=")[1]) for line in read.splitlines()[:3] for x in line.split() if x.startswith(("hit=", "read=")))
            out = server.sql(f"{setup} SELECT ask({array}); " + f"SELECT (pg_read_file('/proc/' || pg_backend_pid() || '/stat')); SELECT ask({array});" * REPEATS
                             + "SELECT (pg_read_file('/proc/' || pg_backend_pid() || '/stat'));")[0]
            ticks = [sum(map(int, line.rsplit(") ", 1)[1].split()[11:13])) for line in out.splitlines() if line]
            spent = (ticks[-1] - ticks[0]) / os.sysconf("SC_CLK_TCK") / REPEATS / QUERIES * 1e6
            print(f"| {name} | {way} | {right / sum(map(len, near)):.3f} | {buffers / QUERIES:,.0f} | {spent:,.0f} |", flush=True)
    finally:
        server.stop()


if __name__ == "__main__":
    main()
