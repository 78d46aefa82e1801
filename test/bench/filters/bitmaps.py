#!/usr/bin/env python3
"""Conditions that other indexes answer: grnnd with their bitmaps beside hnsw's iterative scan and the exact bitmap plan.

  bitmaps.py --pg-config PG_CONFIG --data FOLDER --out RESULTS [--rows N] [--only "NAME;..."]

FOLDER holds base.fbin and query.fbin (test/bench/README.md); distances are L2, rows beyond their number are the same with
noise, as ../scale/rows.py has it.  The shares of ParadeDB's public filtered cases, 10% to 0.001%, are among the integers'; a
share without a row is left out.  Each row has integers, a tsvector and a jsonb, all with indexes, and the number of its
cell, of 100 around random rows.  Of each condition: recall at --limit, the least ef_search with recall 0.95 (or the largest tried),
and milliseconds of processor time a query with it, by a generic plan (the backend's, least of --runs).  "grnnd" may use
bitmaps and "plain" may not, neither sorts; "bitmap" is the part that makes the bitmap, and "planned" the plan that the
planner takes at grnnd's ef without any setting, with its time.  --jobs conditions are asked at the same time, each by a
session of its own; hnsw is not asked where fewer than --hnsw-least of the rows pass.  Writes RESULTS/bitmaps.md.
"""
import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

BENCH = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path += [BENCH, f"{BENCH}/scale"]
from common import Server, read_matrix, write_table  # noqa: E402
import rows as rows_of  # noqa: E402
from bench import Rows  # noqa: E402

CELLS = 100
RECALL = 0.95
EFS = {"grnnd": (10, 14, 20, 28, 40, 60, 90, 140, 200), "plain": (10, 14, 20, 28, 40, 60, 90, 140, 200), "hnsw": (20, 40, 60, 90, 140, 200, 400), "exact": (0,)}
SETTINGS = {
    "grnnd": "SET enable_seqscan = off; SET enable_sort = off; SET grnnd.ef_search = {ef};",
    "plain": "SET enable_seqscan = off; SET enable_sort = off; SET grnnd.enable_bitmap = off; SET grnnd.ef_search = {ef};",
    "planned": "SET grnnd.ef_search = {ef};",
    "hnsw": "SET enable_seqscan = off; SET enable_sort = off; SET hnsw.ef_search = {ef}; SET hnsw.iterative_scan = relaxed_order; "
            "SET hnsw.max_scan_tuples = 2000000000; SET hnsw.scan_mem_multiplier = 100;",
    "exact": "SET enable_seqscan = off; SET enable_indexscan = off;"}
# name, condition, and the same of the arrays of labels
CASES = [(f"integer, {p / 1000:g}%", f"c < {p}", lambda x, p=p: x["c"] < p) for p in (30000, 10000, 3000, 1000, 300, 100, 10, 1)] + [
    ("word of 1%", "t @@ 'w7'", lambda x: x["w"] == 7),
    ("jsonb @> of 1%", "j @> '{\"k\": 7}'", lambda x: x["k"] == 7),
    ("OR of two, 1%", "c < 500 OR d < 5", lambda x: (x["c"] < 500) | (x["d"] < 5)),
    ("AND of three, 1%", "c < 20000 AND d < 200 AND t @@ 'q1'", lambda x: (x["c"] < 20000) & (x["d"] < 200) & (x["q"] == 1)),
    ("the query's cell", "u = {own}", None),
    ("a far cell", "u = {far}", None)]


def labels_of(base, rows):
    rng = np.random.default_rng(1)
    n = len(base)
    centers = np.asarray(base[np.sort(rng.choice(n, CELLS, False))], np.float32)
    x = {"c": rng.integers(0, 100000, n), "d": rng.integers(0, 1000, n), "w": rng.integers(0, 100, n), "k": rng.integers(0, 100, n),
         "q": rng.integers(0, 4, n), "u": rows.cells(centers)}
    return {name: values.astype(np.int32) for name, values in x.items()}, centers


def make(server, system, using):
    server.sql(f"CREATE TABLE {system} AS SELECT id, v, c, d, u, to_tsvector('simple', 'w' || w || ' q' || q) AS t, "
               f"jsonb_build_object('k', k, 'q', q) AS j FROM raw ORDER BY id; ALTER TABLE {system} ALTER v SET STORAGE plain; "
               f"CREATE INDEX ON {system} (c); CREATE INDEX ON {system} (d); CREATE INDEX ON {system} (u); "
               f"CREATE INDEX ON {system} USING gin (t); CREATE INDEX ON {system} USING gin (j);")
    if using:
        seconds, _ = server.create_index(f"CREATE INDEX i_{system} ON {system} USING {using} (v vector_l2_ops)")
        print(f"{using}: {seconds:.1f} s", flush=True)
    server.sql(f"VACUUM (FREEZE, ANALYZE) {system}; CHECKPOINT")


def search(server, setup, table, where, runs, queries, limit):
    """(ids of each query, milliseconds of processor time a query)"""
    text = f"""CREATE TEMP TABLE results (query int, ids int[]);
CREATE FUNCTION pg_temp.search() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	found int[];
	q record;
BEGIN
	TRUNCATE results;
	FOR q IN SELECT * FROM queries ORDER BY id LOOP
		SELECT array_agg(id) INTO found FROM (SELECT id FROM {table} WHERE {where} ORDER BY v <-> q.v LIMIT {limit}) x;
		INSERT INTO results VALUES (q.id, found);
	END LOOP;
END $$;
SET plan_cache_mode = force_generic_plan; SET work_mem = '64MB'; {setup} SELECT FROM pg_temp.search();
"""
    text += "SELECT cpu_ns() AS a \\gset\nSELECT FROM pg_temp.search();\nSELECT cpu_ns() AS b \\gset\n\\echo :a :b\n" * runs
    text += "SELECT query, ids FROM results ORDER BY query;"
    lines = [line for line in server.sql(text)[0].splitlines() if line]
    times = [(float(b) - float(a)) / queries / 1e6 for a, b in (line.split() for line in lines[:runs])]
    found = [[int(x) for x in ids.strip("{}").split(",")] if ids else [] for _, ids in (line.split("|") for line in lines[runs:])]
    return found, min(times)


def nodes(plan):
    yield plan
    for child in plan.get("Plans", ()):
        if child.get("Parent Relationship") != "InitPlan":
            yield from nodes(child)


def explain(server, setup, table, where, query, analyze, limit):
    where = where.replace("q.own", "(SELECT own FROM queries WHERE id = 0)").replace("q.far", "(SELECT far FROM queries WHERE id = 0)")
    text = (f"SET work_mem = '64MB'; {setup} EXPLAIN ({'ANALYZE, ' if analyze else ''}FORMAT json) SELECT id FROM {table} WHERE {where} "
            f"ORDER BY v <-> '[{','.join(f'{x:g}' for x in query)}]' LIMIT {limit}")
    return list(nodes(json.loads(server.sql(text)[0])[0]["Plan"]))


def bitmap_ms(plan):
    """Milliseconds of the topmost bitmap nodes of an analyzed plan."""
    for node in plan:
        if node["Node Type"].startswith("Bitmap") and node["Node Type"] != "Bitmap Heap Scan":
            return node["Actual Total Time"]
    return 0


def ask(server, case, rows, labels, cells, query, systems, args):
    """The table's row of one condition; None where no row passes."""
    name, where, passes = case
    which = where[5:8] if passes is None else None
    where = where.replace("{own}", "q.own").replace("{far}", "q.far")
    if which:
        near = [rows.nearest(np.flatnonzero(labels["u"] == cell), query[i:i + 1], args.limit)[0] for i, cell in enumerate(cells[which])]
        share = np.mean([(labels["u"] == cell).mean() for cell in cells[which]])
    else:
        ids = np.flatnonzero(passes(labels))
        if not len(ids):
            return None
        near, share = list(rows.nearest(ids, query, args.limit)), len(ids) / args.rows
    row = [name, f"{share * 100:.2g}%"]
    for system in systems:
        if system == "hnsw" and share < args.hnsw_least:
            row += ["", "", ""]
            continue
        on = system if system == "hnsw" else "grnnd"
        for ef in EFS[system]:
            setup = SETTINGS[system].format(ef=ef)
            found, ms = search(server, setup, on, where, 1, args.queries, args.limit)
            recall = sum(len(set(f) & set(n.tolist())) for f, n in zip(found, near)) / sum(map(len, near))
            if recall >= RECALL:
                break
        short = sum(len(f) < len(n) for f, n in zip(found, near))
        found, ms = search(server, setup, on, where, args.runs, args.queries, args.limit)
        if system == "exact":
            row += [f"{ms:.2f}"]
            continue
        row += [ef, f"{recall:.3f}" + (f", {short} short" if short else ""), f"{ms:.2f}"]
        if system == "grnnd":
            plan = explain(server, setup, on, where, query[0], True, args.limit)
            row += [f"{bitmap_ms(plan):.2f}", next((x.get("Search Method", "") for x in plan if "Search Method" in x), "")]
            setup = SETTINGS["planned"].format(ef=ef)
            plan = explain(server, setup, on, where, query[0], False, args.limit)
            row += [next(x.get("Custom Plan Provider", x["Node Type"]) for x in plan if x["Node Type"] not in ("Limit", "Sort", "Result")),
                    f"{search(server, setup, on, where, args.runs, args.queries, args.limit)[1]:.2f}"]
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pg-config", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", help="names of conditions, separated by semicolons")
    parser.add_argument("--systems", default="grnnd,plain,hnsw,exact")
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--limit", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--hnsw-least", type=float, default=0, metavar="SHARE")
    parser.add_argument("--memory", default="2GB", help="shared_buffers and maintenance_work_mem")
    args = parser.parse_args()
    base = read_matrix(f"{args.data}/base.fbin")[:args.rows]
    query = np.array(read_matrix(f"{args.data}/query.fbin")[:args.queries], np.float32)
    args.rows = args.rows or len(base)
    noisy = tempfile.TemporaryDirectory(prefix="grnnd-rows-")
    if args.rows > len(base):
        base = rows_of.grown(base, args.rows, f"{noisy.name}/base.fbin")
    rows = Rows(base)
    labels, centers = labels_of(base, rows)
    order = ((centers ** 2).sum(1)[None] - 2 * query @ centers.T).argsort(1)
    cells = {"own": order[:, 0], "far": order[np.arange(args.queries), CELLS - 1 - np.arange(args.queries) % (CELLS // 10)]}
    version = subprocess.check_output([args.pg_config, "--version"], text=True).strip()
    systems = args.systems.split(",")
    server = Server(args.pg_config, settings={"max_parallel_workers_per_gather": "0", "fsync": "off", "shared_buffers": args.memory,
                                              "maintenance_work_mem": args.memory, "max_worker_processes": "64",
                                              "max_parallel_workers": "64", "max_parallel_maintenance_workers": str(max(os.cpu_count() - 1, 1))})
    table = []
    try:
        server.sql("CREATE EXTENSION grnnd CASCADE; CREATE FUNCTION cpu_ns() RETURNS float8 "
                   "LANGUAGE sql AS $$ SELECT split_part(pg_read_file('/proc/self/schedstat', 0, 100), ' ', 1)::float8 $$")
        server.load("raw", base, columns=labels)
        server.load("queries", query, columns={name: x.astype(np.int32) for name, x in cells.items()})
        for system in systems:
            if system in ("exact", "plain") and "grnnd" in systems:
                continue
            make(server, system, system)
        cases = [case for case in CASES if not args.only or case[0] in args.only.split(";")]
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            for row in pool.map(lambda case: ask(server, case, rows, labels, cells, query, systems, args), cases):
                if row:
                    table.append(row)
                    print(*row, sep=" | ", flush=True)
    finally:
        server.stop()
        noisy.cleanup()
    os.makedirs(args.out, exist_ok=True)
    titles = {"grnnd": ["grnnd: ef", "recall", "ms", "bitmap, ms", "method", "planned", "ms"], "plain": ["plain: ef", "recall", "ms"], "hnsw": ["hnsw: ef", "recall", "ms"], "exact": ["exact: ms"]}
    write_table(f"{args.out}/bitmaps.md", f"Conditions of other indexes, LIMIT {args.limit}, {args.rows} rows of {base.shape[1]} dimensions, {version}",
                ["condition", "rows"] + [t for s in systems for t in titles[s]], table)


if __name__ == "__main__":
    main()
