#!/usr/bin/env python3
"""Filtered queries by selectivity: grnnd beside pgvector, pgvectorscale and an exact bitmap scan.

  bench.py --pg-config PG_CONFIG --data FOLDER --out RESULTS [--rows N] [--systems grnnd,hnsw,bitmap]
  bench.py --pg-config PG_CONFIG --data FOLDER --out RESULTS --systems diskann   (a server that has vectorscale)
  bench.py --replot --out RESULTS

FOLDER holds base.fbin and query.fbin (test/bench/README.md).  Rows get labels:
  c  at random, 50%, 30%, 10%, 3%, 1%, 0.3%, 0.1% and 0.01% of the rows, the rest others
  t  their cell of 1,000, u their cell of 10: those around random rows
  w  a number of their own, for ranges
  tags  1 to 12 of 500, with Zipf frequencies, as in YFCC-10M (arrays: diskann alone, and a column that
        holds each row's most frequent tag)
and queries ask for rows with one: of c for each share; of t and u for the query's own cell, for a random
one, and for one of the farthest tenth (opposed); ranges of w.  Each system is asked at several ef until
recall@10 0.95.  Results of several runs with the same --out are put together: RESULTS/filters.json,
filters.md, filters.png and filters.svg.
"""
import argparse
import json
import os
import sys
import time

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from common import Server, beam, machine, read_matrix, save_matrix, write_table  # noqa: E402

QUERIES = 200
BLOCK = 50000           # rows compared at once
SHARES = (0.5, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0001)
RANGES = (0.5, 0.1, 0.03, 0.01, 0.001)
TAGS = 500
EFS = {"grnnd": (*range(16, 64, 2), 64, 72, 80, 100, 130, 160, 200, 260), "hnsw": (40, 100, 200, 400), "diskann": (50, 100, 200, 400), "bitmap": (0,)}
RECALL = 0.95
MOST_SECONDS = 20       # of a case's search for the least ef
COLUMNS = {"v": "", "c": "c, t", "t": "c, t", "u": "u, w", "w": "u, w", "tag": "tag, t"}


def cells(rows, centres):
    """The nearest centre of each row, by squared distance."""
    found = np.empty(len(rows), np.int32)
    norms = (centres * centres).sum(1)
    for i in range(0, len(rows), BLOCK):
        part = np.asarray(rows[i:i + BLOCK], np.float32)
        found[i:i + BLOCK] = (norms[None] - 2 * part @ centres.T).argmin(1)
    return found


def make_labels(base, seed=1):
    rng = np.random.default_rng(seed)
    n = len(base)
    edges = np.cumsum(SHARES)
    draw = rng.random(n)
    c = np.searchsorted(edges, draw, side="right").astype(np.int32)
    c[c == len(SHARES)] = 100 + rng.integers(0, 100, (c == len(SHARES)).sum())
    centres = {name: np.asarray(base[np.sort(rng.choice(n, k, False))], np.float32)
               for name, k in (("t", min(1000, n // 50)), ("u", 10))}
    weights = 1 / np.arange(1, TAGS + 1)
    tag = rng.choice(TAGS, n, p=weights / weights.sum()).astype(np.int32)
    labels = {"c": c, "t": cells(base, centres["t"]), "u": cells(base, centres["u"]),
              "w": rng.permutation(n).astype(np.int32), "tag": tag}
    return labels, centres


def make_cases(labels, centres, query, seed=2):
    """name, kind, share, column, low, high: rows of low <= column <= high pass, an array a query each."""
    rng = np.random.default_rng(seed)
    n, q, cases = len(labels["c"]), len(query), []
    for k, share in enumerate(SHARES):
        if share * n >= 10:
            cases.append(("random", share, "c", np.full(q, k), np.full(q, k)))
    for share in RANGES:
        # a few ranges, each asked by as many queries
        low = rng.integers(0, int(n * (1 - share)) + 1, 4)[np.arange(q) * 4 // q]
        cases.append(("range", share, "w", low, low + int(n * share) - 1))
    for column in ("t", "u"):
        d = (centres[column] ** 2).sum(1)[None] - 2 * query @ centres[column].T
        order, k = d.argsort(1), d.shape[1]
        far = order[np.arange(q), k - 1 - rng.integers(0, max(k // 10, 1), q)]
        for which, cell in (("own", order[:, 0]), ("any", rng.integers(0, k, q)), ("opposed", far)):
            cases.append((which, 1 / k, column, cell, cell))
    for tag in (0, 3, 20, 100, 400):
        cases.append(("tag", float((labels["tag"] == tag).mean()), "tag", np.full(q, tag), np.full(q, tag)))
    return cases


def truth(base, label, query, low, high):
    """The 10 nearest rows that pass, fewer where there are fewer; queries with the same bounds are answered together."""
    found = [None] * len(query)
    for bounds in {(low[i], high[i]) for i in range(len(query))}:
        asked = np.flatnonzero((low == bounds[0]) & (high == bounds[1]))
        ids = np.flatnonzero((label >= bounds[0]) & (label <= bounds[1]))
        near, apart = np.empty((len(asked), 0), int), np.empty((len(asked), 0), np.float32)
        for i in range(0, len(ids), BLOCK):
            part = np.asarray(base[ids[i:i + BLOCK]], np.float32)
            d = (part * part).sum(1)[None] - 2 * query[asked] @ part.T
            k = min(10, len(part))
            best = np.argpartition(d, k - 1, axis=1)[:, :k]
            near = np.concatenate([near, ids[i + best]], 1)
            apart = np.concatenate([apart, np.take_along_axis(d, best, 1)], 1)
        for row, q in enumerate(asked):
            found[q] = near[row, apart[row].argsort()[:10]]
    return found


def array(values):
    return "{" + ",".join(str(x) for x in values) + "}"


def load(server, base, labels):
    server.load("raw", base, streams=8)
    lines = "\n".join(f"{i}\t" + "\t".join(str(labels[name][i]) for name in labels) for i in range(len(base)))
    server.sql(f"CREATE TABLE labels (id int, {', '.join(f'{name} int' for name in labels)});\n"
               f"COPY labels FROM STDIN;\n{lines}\n\\.\n")
    server.sql("SET max_parallel_workers_per_gather = 0; CREATE TABLE items AS SELECT r.id, r.v, "
               + ", ".join(f"l.{name}" for name in labels)
               + " FROM raw r JOIN labels l USING (id) ORDER BY id; "
               "ALTER TABLE items ALTER v SET STORAGE plain; DROP TABLE raw, labels; VACUUM (FREEZE, ANALYZE) items; CHECKPOINT;")


class Case:
    """A case's queries in the server: a table, the text of the query by row number, and of its recall."""

    def __init__(self, server, number, case, query, near, system, offsets):
        self.which, self.share, self.column, low, high = case
        self.table = f"q{number}"
        rows = "\n".join(f"{i}\t[{','.join(f'{x:g}' for x in query[i])}]\t{low[i]}\t{high[i]}\t{array(near[i])}"
                         for i in range(len(query)))
        server.sql(f"DROP TABLE IF EXISTS {self.table}; CREATE TABLE {self.table} (qid int PRIMARY KEY, v vector, low int, high int, truth int[]);\n"
                   f"COPY {self.table} FROM STDIN;\n{rows}\n\\.\nANALYZE {self.table};")
        fixed = (low == low[0]).all() and (high == high[0]).all()
        single = (low == high).all()

        def where(low_text, high_text):
            if system == "diskann":
                return f"labels && ARRAY[({low_text}) + {offsets.get(self.column, 0)}]::smallint[]"
            return f"{self.column} = {low_text}" if single else f"{self.column} BETWEEN {low_text} AND {high_text}"
        # what differs from query to query comes as parameters: subqueries would be timed with the search
        self.bounds = None if fixed else np.stack([low, high], 1)[:, :1 if single else 2].astype(np.int32)
        condition = where(low[0], high[0]) if fixed else where("$2", "$3")
        of_row = where(low[0], high[0]) if fixed else where("q.low", "q.high")
        self.literal = [f"SELECT id FROM items WHERE {where(low[i], high[i])} ORDER BY v <-> "
                        f"'[{','.join(f'{x:g}' for x in query[i])}]'::vector LIMIT 10" for i in range(min(len(query), 30))]
        self.query = f"SELECT id FROM items WHERE {condition} ORDER BY v <-> $1 LIMIT 10"
        self.recall = (f"SELECT sum((SELECT count(*) FROM (SELECT id FROM items WHERE {of_row} ORDER BY v <-> q.v LIMIT 10) s "
                       f"WHERE s.id = ANY (q.truth)))::float8 / greatest(sum(cardinality(q.truth)), 1) FROM {self.table} q")

    def unfiltered(self):
        self.query, self.recall = (x.replace("WHERE v = 0 ", "") for x in (self.query, self.recall))
        self.literal = [x.replace("WHERE v = 0 ", "") for x in self.literal]


def buffers(server, setup, case):
    """Pages a query, of index and table, from EXPLAIN."""
    text, total, at = server.sql(f"{setup};" + "".join(f"EXPLAIN (ANALYZE, BUFFERS, TIMING off, FORMAT JSON) {q};"
                                                         for q in case.literal))[0], 0, 0
    while at < len(text):
        plan, at = json.JSONDecoder().raw_decode(text, at)
        total += plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"]
        while at < len(text) and text[at].isspace():
            at += 1
    return total / len(case.literal)


def settings(system, ef):
    if system == "grnnd":
        return f"SET enable_seqscan = off; SET enable_bitmapscan = off; SET grnnd.ef_search = {ef}"
    if system == "hnsw":
        return (f"SET enable_seqscan = off; SET enable_bitmapscan = off; SET hnsw.ef_search = {ef}; "
                "SET hnsw.iterative_scan = relaxed_order")
    if system == "diskann":
        return f"SET enable_seqscan = off; SET enable_bitmapscan = off; {beam(system, ef)}"
    return "SET enable_seqscan = off; SET enable_indexscan = off"


def measure(server, qps, folder, system, case, args):
    """The least ef that reaches the recall, or the last."""
    point, begun = None, time.time()
    for ef in EFS[system]:
        setup = settings(system, ef)
        recall = float(server.sql(f"{setup}; {case.recall}")[0] or 1)
        point = {"ef": ef, "recall": recall}
        if recall >= RECALL or time.time() - begun > MOST_SECONDS:
            break
    bounds = None
    if case.bounds is not None:
        bounds = f"{folder}/bounds.ibin"
        save_matrix(bounds, case.bounds)
    # one plan for all queries, or some of them would be planned anew each time
    timed = f"{setup}; SET plan_cache_mode = force_generic_plan"
    one, many = (server.qps(qps, folder, case.query, timed, clients, args.seconds, pin=clients == 1, truth=False, bounds=bounds)
                 for clients in (1, args.clients))
    point.update(qps=one["qps"], qps_many=many["qps"], processor_us=one["processor_us"], buffers=buffers(server, setup, case))
    if system == "grnnd" and case.column != "v":
        point["way"] = server.sql(f"{setup}; SELECT count(*) FROM ({case.literal[0]}) s; "
                                  "SELECT way FROM grnnd_last_filter()")[0].splitlines()[-1]
    return point


def indexes(system, group, dim):
    """Statements that make the indexes that a system has for a group of columns."""
    columns = COLUMNS[group]
    if system == "grnnd":
        return [f"CREATE INDEX i ON items USING grnnd (v{', ' + columns if columns else ''})"]
    if system == "hnsw":
        return ["CREATE INDEX i ON items USING hnsw (v vector_l2_ops)"]
    if system == "diskann":
        return ["CREATE INDEX i ON items USING diskann (v vector_l2_ops, labels)"]
    return [f"CREATE INDEX b_{c} ON items ({c})" for c in ("c", "t", "u", "w", "tag")]


def run(server, qps, system, base, labels, centres, query, args, results):
    folder = f"{server.dir}/queries"
    os.makedirs(folder, exist_ok=True)
    save_matrix(f"{folder}/query.fbin", query)
    offsets = {}
    if system == "diskann":
        # labels of all columns in one array, each in a range of its own
        offsets = {"c": 0, "t": 1000, "u": 5000, "tag": 6000}
        server.sql("ALTER TABLE items ADD labels smallint[]; UPDATE items SET labels = ARRAY[c, t + 1000, u + 5000, tag + 6000]"
                   "::smallint[]; VACUUM (FULL, ANALYZE) items")
    cases = [("unfiltered", 1.0, "v", np.zeros(len(query), int), np.zeros(len(query), int))]
    cases += make_cases(labels, centres, query)
    made, fresh = None, False
    for number, case in enumerate(cases):
        which, share, column, low, high = case
        if args.only and which not in args.only.split(",") or share > args.most:
            continue
        if system == "diskann" and column == "w":
            continue
        key = COLUMNS[column] if system == "grnnd" else "all"
        if key != made:
            server.sql("DROP INDEX IF EXISTS i")
            seconds = sum(server.create_index(text)[0] for text in indexes(system, column, base.shape[1]))
            made, fresh = key, True
            size = server.size("i") if system != "bitmap" else sum(server.size(f"b_{c}") for c in ("c", "t", "u", "w", "tag"))
            results.append({"system": system, "which": "index", "columns": key, "seconds": seconds, "bytes": size})
            print(json.dumps(results[-1]), flush=True)
            server.sql("SELECT count(*) FROM items; CHECKPOINT")
        label = labels[column] if column != "v" else np.zeros(len(base), int)
        near = truth(base, label, query, low, high)
        c = Case(server, number, case, query, near, system, offsets)
        if column == "v":
            c.unfiltered()
            if system in ("diskann", "bitmap"):
                continue
        point = measure(server, qps, folder, system, c, args)
        point.update(system=system, which=which, share=share, column=column)
        results.append(point)
        print(json.dumps(point), flush=True)
        if fresh and system == "grnnd" and made:
            # what the columns cost a query that does not filter: for each index, since graphs differ, as a machine does in time
            fresh = False
            plain = Case(server, 999, cases[0], query, truth(base, np.zeros(len(base), int), query, cases[0][3], cases[0][4]),
                         system, offsets)
            plain.unfiltered()
            point = measure(server, qps, folder, system, plain, args)
            point.update(system=system, which="unfiltered, 2 columns", share=1.0, column="v")
            results.append(point)
            print(json.dumps(point), flush=True)
        with open(f"{args.out}/filters.json", "w") as f:
            json.dump({"where": machine(), "rows": len(base), "dim": int(base.shape[1]), "points": results}, f, indent=1)


def report(args):
    with open(f"{args.out}/filters.json") as f:
        done = json.load(f)
    points = [p for p in done["points"] if p["which"] != "index"]
    built = [p for p in done["points"] if p["which"] == "index"]
    rows = [[p["system"], p["which"], p["column"], p["share"], p["ef"], p["recall"], p["qps"], p["qps_many"], p["buffers"],
             p.get("way", "")] for p in points]
    rows += [[p["system"], "CREATE INDEX", p["columns"], "", "", "", f"{p['seconds']:.1f} s", "", f"{p['bytes'] / 1e6:.0f} MB", ""]
             for p in built]
    write_table(f"{args.out}/filters.md", f"Filters: {done['rows']} rows of {done['dim']} dimensions",
                ["index", "rows that pass", "column", "share", "ef", "recall@10", "queries/s (1 client)", "queries/s (many)",
                 "buffers/query", "way"], rows, done["where"])
    try:
        import matplotlib
    except ImportError:
        print("no matplotlib, so no plots")
        return
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    kinds = ("random", "range", "tag")
    figure, axes = plt.subplots(1, len(kinds) + 1, figsize=(5 * (len(kinds) + 1), 4.5))
    for ax, kind in zip(axes, kinds):
        for system in dict.fromkeys(p["system"] for p in points):
            line = sorted((p["share"], p["qps"]) for p in points if p["system"] == system and p["which"] == kind)
            if line:
                ax.loglog(*zip(*line), "o-", label=system)
        ax.set(title=kind, xlabel="share of rows that pass", ylabel="queries/s, one client")
        ax.grid(True, alpha=.3)
        ax.legend()
    names = [f"{w} {c}" for c in ("t", "u") for w in ("own", "any", "opposed")]
    systems = list(dict.fromkeys(p["system"] for p in points))
    for i, system in enumerate(systems):
        values = {f"{p['which']} {p['column']}": p["qps"] for p in points if p["system"] == system}
        axes[-1].bar(np.arange(len(names)) + i / (len(systems) + 1), [values.get(n, 0) for n in names],
                     1 / (len(systems) + 1), label=system)
    axes[-1].set(title="cells: t of 1,000, u of 10", ylabel="queries/s, one client", yscale="log")
    axes[-1].set_xticks(np.arange(len(names)) + .3, names, rotation=45, ha="right")
    axes[-1].legend()
    figure.tight_layout()
    for kind in ("png", "svg"):
        figure.savefig(f"{args.out}/filters.{kind}", dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pg-config")
    parser.add_argument("--data")
    parser.add_argument("--out", required=True)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--systems", default="grnnd,hnsw,bitmap")
    parser.add_argument("--only", help="kinds of cases: unfiltered,random,range,own,any,opposed,tag")
    parser.add_argument("--most", type=float, default=1, help="largest share of the rows that a case lets pass")
    parser.add_argument("--clients", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--memory", default="8GB", help="shared_buffers and maintenance_work_mem")
    parser.add_argument("--replot", action="store_true")
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    if args.replot:
        report(args)
        return
    base = read_matrix(f"{args.data}/base.fbin")[:args.rows]
    query = np.array(read_matrix(f"{args.data}/query.fbin")[:QUERIES], np.float32)
    labels, centres = make_labels(base)
    results = []
    if os.path.exists(f"{args.out}/filters.json"):
        with open(f"{args.out}/filters.json") as f:
            results = [p for p in json.load(f)["points"] if p["system"] not in args.systems.split(",")]
    server = Server(args.pg_config, settings={
        "shared_buffers": args.memory, "maintenance_work_mem": args.memory, "max_worker_processes": "64",
        "max_parallel_workers": "64", "max_parallel_maintenance_workers": str(max(os.cpu_count() - 1, 1))})
    try:
        qps = server.build_qps()
        systems = args.systems.split(",")
        server.sql("CREATE EXTENSION vector;" + ("CREATE EXTENSION grnnd;" if "grnnd" in systems else "")
                   + ("CREATE EXTENSION vectorscale;" if "diskann" in systems else ""))
        load(server, base, labels)
        for system in systems:
            run(server, qps, system, base, labels, centres, query, args, results)
            server.sql("DROP INDEX IF EXISTS i" + "".join(f", b_{c}" for c in ("c", "t", "u", "w", "tag")))
        report(args)
    finally:
        server.stop()


if __name__ == "__main__":
    main()
