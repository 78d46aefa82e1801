#!/usr/bin/env python3
"""Filtered queries by selectivity: grnnd beside pgvector, pgvectorscale and an exact bitmap scan.

  bench.py --pg-config PG_CONFIG --data FOLDER --out RESULTS [--rows N] [--systems grnnd,hnsw,bitmap]
  bench.py --pg-config PG_CONFIG --data FOLDER --out RESULTS --systems diskann   (a server that has vectorscale)
  bench.py --replot --out RESULTS

FOLDER holds base.fbin and query.fbin (test/bench/README.md); rows beyond their number are the same with
noise, as ../scale/rows.py has it.  Rows get labels:
  c  at random, 50%, 30%, 10%, 3%, 1%, 0.3%, 0.1% and 0.01% of the rows, the rest others
  t  their cell of 1,000, u their cell of 10: those around random rows
  w  a number of their own, for ranges
  tags  1 to 12 of 500, with Zipf frequencies, as in YFCC-10M (arrays: diskann alone, and a column that
        holds each row's most frequent tag)
and queries ask for rows with one: of c for each share; of t and u for the query's own cell, for a random
one, and for one of the farthest tenth (opposed); ranges of w.  Each system is asked at several ef until
recall@10 0.95.  Then all cases of an index are timed by turns, --rounds times, since other work on a host
slows whatever it meets; of each the median counts.  A GPU is used for truth and noise where PyTorch has
one.  Results of several runs with the same --out are put together: RESULTS/filters.json, filters.md,
filters.png and filters.svg.
"""
import argparse
import json
import os
import sys
import tempfile
import time

import numpy as np

BENCH = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path += [BENCH, f"{BENCH}/scale"]
from common import Server, beam, machine, read_matrix, save_matrix, write_table  # noqa: E402
import rows as rows_of  # noqa: E402

QUERIES = 500
EXACT_QUERIES = 20      # of which an exact scan's recall is taken
BLOCK = 50000           # rows compared at once
SHARES = (0.5, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0001)
RANGES = (0.5, 0.1, 0.03, 0.01, 0.001)
TAGS = 500
EFS = {"grnnd": (*range(16, 64, 2), 64, 72, 80, 100, 130, 160, 200, 260), "hnsw": (40, 100, 200, 400), "diskann": (50, 100, 200, 400), "bitmap": (0,)}
RECALL = 0.95
MOST_SECONDS = 20       # of a case's search for the least ef
COLUMNS = {"v": "", "c": "c, t", "t": "c, t", "u": "u, w", "w": "u, w", "tag": "tag, t"}


class Rows:
    """The base rows, on a GPU if PyTorch has one, which answer all that is to be known of them."""

    def __init__(self, base):
        self.base, self.torch = base, None
        if rows_of.has_gpu():
            import torch
            torch.backends.cuda.matmul.allow_tf32 = False
            self.torch, self.base = torch, torch.empty(base.shape, device="cuda")
            for i in range(0, len(base), BLOCK):
                self.base[i:i + BLOCK] = torch.from_numpy(np.array(base[i:i + BLOCK], np.float32)).cuda()

    def end(self):
        """Gives the GPU's memory back."""
        self.base = None
        if self.torch:
            self.torch.cuda.empty_cache()

    def apart(self, part, others):
        """[others][part] squared distances, less those of `others` from the origin; part: numbers of rows."""
        if self.torch:
            rows = self.base[self.torch.from_numpy(part).cuda()]
            others = self.torch.from_numpy(others).cuda()
        else:
            rows = np.asarray(self.base[part], np.float32)
        return (rows * rows).sum(1)[None] - 2 * others @ rows.T

    def cells(self, centers):
        """The nearest center of each row."""
        found, norms = np.empty(len(self.base), np.int32), (centers * centers).sum(1)[:, None]
        for i in range(0, len(found), BLOCK):
            part = np.arange(i, min(i + BLOCK, len(found)))
            d = self.apart(part, centers)
            d = d + (self.torch.from_numpy(norms).cuda() if self.torch else norms)
            found[part] = d.argmin(0).cpu().numpy() if self.torch else d.argmin(0)
        return found

    def nearest(self, ids, query, limit=10):
        """The `limit` rows of ids that are nearest to each query, fewer where there are fewer."""
        near, apart = np.empty((len(query), 0), int), np.empty((len(query), 0), np.float32)
        for i in range(0, len(ids), BLOCK):
            part = ids[i:i + BLOCK]
            d, k = self.apart(part, query), min(limit, len(part))
            if self.torch:
                d, best = (x.cpu().numpy() for x in self.torch.topk(d, k, largest=False))
            else:
                best = np.argpartition(d, k - 1, axis=1)[:, :k]
                d = np.take_along_axis(d, best, 1)
            near, apart = np.concatenate([near, part[best]], 1), np.concatenate([apart, d], 1)
        return np.take_along_axis(near, apart.argsort(1)[:, :limit], 1)


def make_labels(base, rows, seed=1):
    rng = np.random.default_rng(seed)
    n = len(base)
    edges = np.cumsum(SHARES)
    draw = rng.random(n)
    c = np.searchsorted(edges, draw, side="right").astype(np.int32)
    c[c == len(SHARES)] = 100 + rng.integers(0, 100, (c == len(SHARES)).sum())
    centers = {name: np.asarray(base[np.sort(rng.choice(n, k, False))], np.float32)
               for name, k in (("t", min(1000, n // 50)), ("u", 10))}
    weights = 1 / np.arange(1, TAGS + 1)
    tag = rng.choice(TAGS, n, p=weights / weights.sum()).astype(np.int32)
    labels = {"c": c, "t": rows.cells(centers["t"]), "u": rows.cells(centers["u"]),
              "w": rng.permutation(n).astype(np.int32), "tag": tag}
    return labels, centers


def make_cases(labels, centers, query, seed=2):
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
        d = (centers[column] ** 2).sum(1)[None] - 2 * query @ centers[column].T
        order, k = d.argsort(1), d.shape[1]
        far = order[np.arange(q), k - 1 - rng.integers(0, max(k // 10, 1), q)]
        for which, cell in (("own", order[:, 0]), ("any", rng.integers(0, k, q)), ("opposed", far)):
            cases.append((which, 1 / k, column, cell, cell))
    for tag in (0, 3, 20, 100, 400):
        cases.append(("tag", float((labels["tag"] == tag).mean()), "tag", np.full(q, tag), np.full(q, tag)))
    return cases


def truth(rows, label, query, low, high):
    """The 10 nearest rows that pass, fewer where there are fewer; queries with the same bounds are answered together."""
    found = [None] * len(query)
    for bounds in {(low[i], high[i]) for i in range(len(query))}:
        asked = np.flatnonzero((low == bounds[0]) & (high == bounds[1]))
        ids = np.flatnonzero((label >= bounds[0]) & (label <= bounds[1]))
        for q, near in zip(asked, rows.nearest(ids, query[asked])):
            found[q] = near
    return found


def array(values):
    return "{" + ",".join(str(x) for x in values) + "}"


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
                       f"WHERE s.id = ANY (q.truth)))::float8 / greatest(sum(cardinality(q.truth)), 1) FROM {self.table} q"
                       + (f" WHERE qid < {EXACT_QUERIES}" if system == "bitmap" else ""))

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


def widen(server, system, case):
    """The least ef that reaches the recall, or the last: a point."""
    begun = time.time()
    for ef in EFS[system]:
        setup = settings(system, ef)
        recall = float(server.sql(f"{setup}; {case.recall}")[0] or 1)
        if recall >= RECALL or time.time() - begun > MOST_SECONDS:
            break
    point = {"ef": ef, "recall": recall, "buffers": buffers(server, setup, case), "rounds": []}
    if system == "grnnd" and case.column != "v":
        point["way"] = server.sql(f"{setup}; SELECT count(*) FROM ({case.literal[0]}) s; "
                                  "SELECT method FROM grnnd_last_scan()")[0].splitlines()[-1]
    return point


def clock(server, qps, folder, system, cases, args):
    """Times the cases [(Case, point)] of an index by turns, and notes in each point its rounds and their medians."""
    for _ in range(args.rounds):
        for case, point in cases:
            bounds = None
            if case.bounds is not None:
                bounds = f"{folder}/bounds.ibin"
                save_matrix(bounds, case.bounds)
            # one plan for all queries, or some of them would be planned anew each time
            timed = f"{settings(system, point['ef'])}; SET plan_cache_mode = force_generic_plan"
            # an exact scan has nothing to warm but the table, and takes a hundred milliseconds
            warmup = 2 if system == "bitmap" else 200
            one, many = (server.qps(qps, folder, case.query, timed, clients, args.seconds, pin=clients == 1, truth=False, bounds=bounds,
                                    warmup=warmup)
                         for clients in (1, args.clients))
            point["rounds"].append((one["qps"], many["qps"], one["processor_us"]))
    for _, point in cases:
        point["qps"], point["qps_many"], point["processor_us"] = np.median(point["rounds"], axis=0).tolist()


def indexes(system, group, args):
    """Statements that make the indexes that a system has for a group of columns."""
    columns = COLUMNS[group]
    if system == "grnnd":
        return [f"CREATE INDEX i ON items USING grnnd (v{', ' + columns if columns else ''})" +
                (f" WITH ({args.parameters})" if args.parameters else "")]
    if system == "hnsw":
        return ["CREATE INDEX i ON items USING hnsw (v vector_l2_ops)"]
    if system == "diskann":
        return ["CREATE INDEX i ON items USING diskann (v vector_l2_ops, labels)"]
    return [f"CREATE INDEX b_{c} ON items ({c})" for c in ("c", "t", "u", "w", "tag")]


def run(server, qps, system, cases, nears, query, dim, args, results):
    """Asks a system all cases, those of one index together."""
    folder = f"{server.dir}/queries"
    os.makedirs(folder, exist_ok=True)
    save_matrix(f"{folder}/query.fbin", query)
    offsets = {}
    if system == "diskann":
        # labels of all columns in one array, each in a range of its own
        offsets = {"c": 0, "t": 1000, "u": 5000, "tag": 6000}
        server.sql("ALTER TABLE items ADD labels smallint[]; UPDATE items SET labels = ARRAY[c, t + 1000, u + 5000, tag + 6000]"
                   "::smallint[]; VACUUM (FULL, ANALYZE) items")
    groups = {}
    for number, case in enumerate(cases):
        column = case[2]
        if not (column == "v" and system in ("diskann", "bitmap") or column == "w" and system == "diskann"):
            groups.setdefault(COLUMNS[column] if system == "grnnd" else "all", []).append(number)
    for key, numbers in groups.items():
        server.sql("DROP INDEX IF EXISTS i")
        seconds = sum(server.create_index(text)[0] for text in indexes(system, cases[numbers[0]][2], args))
        size = server.size("i") if system != "bitmap" else sum(server.size(f"b_{c}") for c in ("c", "t", "u", "w", "tag"))
        results.append({"system": system, "which": "index", "columns": key, "seconds": seconds, "bytes": size})
        print(json.dumps(results[-1]), flush=True)
        server.sql("SELECT count(*) FROM items; CHECKPOINT")
        timed = []
        # what the columns cost a query that does not filter: for each index, since graphs differ
        for number in ([0] if system == "grnnd" and key else []) + numbers:
            which, share, column = cases[number][:3]
            case = Case(server, number, cases[number], query, nears[number], system, offsets)
            if column == "v":
                case.unfiltered()
            if number == 0 and system == "grnnd" and key:
                which = "unfiltered, 2 columns"
            point = {"system": system, "which": which, "share": share, "column": column, **widen(server, system, case)}
            timed.append((case, point))
        clock(server, qps, folder, system, timed, args)
        for _, point in timed:
            results.append(point)
            print(json.dumps(point), flush=True)
        with open(f"{args.out}/filters.json", "w") as f:
            json.dump({"where": machine(), "rows": args.rows, "dim": dim, "points": results}, f, indent=1)


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
    plt.rcParams["svg.fonttype"] = "none"  # text stays text: small files
    kinds = ("random", "range", "tag")
    figure, axes = plt.subplots(1, len(kinds) + 1, figsize=(5 * (len(kinds) + 1), 4.5))
    for ax, kind in zip(axes, kinds):
        for system in dict.fromkeys(p["system"] for p in points):
            line = sorted((p["share"], p["qps_many"]) for p in points if p["system"] == system and p["which"] == kind)
            if line:
                ax.loglog(*zip(*line), "o-", label=system)
        ax.set(title=kind, xlabel="share of rows that pass", ylabel="queries/s, all clients")
        ax.grid(True, alpha=.3)
        ax.legend()
    names = [f"{w} {c}" for c in ("t", "u") for w in ("own", "any", "opposed")]
    systems = list(dict.fromkeys(p["system"] for p in points))
    for i, system in enumerate(systems):
        values = {f"{p['which']} {p['column']}": p["qps_many"] for p in points if p["system"] == system}
        axes[-1].bar(np.arange(len(names)) + i / (len(systems) + 1), [values.get(n, 0) for n in names],
                     1 / (len(systems) + 1), label=system)
    axes[-1].set(title="cells: t of 1,000, u of 10", ylabel="queries/s, all clients", yscale="log")
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
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--with", dest="parameters", help="storage parameters of grnnd's indexes")
    parser.add_argument("--scratch", help="folder for rows with noise, in memory if that is large enough")
    parser.add_argument("--memory", default="8GB", help="shared_buffers and maintenance_work_mem")
    parser.add_argument("--replot", action="store_true")
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    if args.replot:
        report(args)
        return
    base = read_matrix(f"{args.data}/base.fbin")[:args.rows]
    query = np.array(read_matrix(f"{args.data}/query.fbin")[:QUERIES], np.float32)
    args.rows = args.rows or len(base)
    noisy = None
    if args.rows > len(base):
        noisy = tempfile.TemporaryDirectory(prefix="grnnd-rows-", dir=args.scratch)
        base = rows_of.grown(base, args.rows, f"{noisy.name}/base.fbin")
    rows = Rows(base)
    labels, centers = make_labels(base, rows)
    everywhere = np.zeros(len(query), int)
    cases = [("unfiltered", 1.0, "v", everywhere, everywhere)] + make_cases(labels, centers, query)
    if args.only:
        cases = [c for c in cases if c[0] in ("unfiltered", *args.only.split(","))]
    cases = [c for i, c in enumerate(cases) if i == 0 or c[1] <= args.most]
    labels["v"] = np.zeros(len(base), np.int8)
    nears = [truth(rows, labels[c[2]], query, *c[3:]) for c in cases]
    rows.end()
    del labels["v"]
    results = []
    if os.path.exists(f"{args.out}/filters.json"):
        with open(f"{args.out}/filters.json") as f:
            results = [p for p in json.load(f)["points"] if p["system"] not in args.systems.split(",")]
    server = Server(args.pg_config, settings={
        "shared_buffers": args.memory, "maintenance_work_mem": args.memory, "max_worker_processes": "64", "wal_level": "minimal",
        "max_wal_senders": "0", "max_wal_size": "4GB", "full_page_writes": "off", "max_parallel_workers": "64", "max_parallel_maintenance_workers": str(max(os.cpu_count() - 1, 1))})
    try:
        qps = server.build_qps()
        systems = args.systems.split(",")
        server.sql("CREATE EXTENSION vector;" + ("CREATE EXTENSION grnnd;" if "grnnd" in systems else "")
                   + ("CREATE EXTENSION vectorscale;" if "diskann" in systems else ""))
        server.load("items", base, streams=8, columns=labels)
        if noisy:
            noisy.cleanup()
        for system in systems:
            run(server, qps, system, cases, nears, query, base.shape[1], args, results)
            server.sql("DROP INDEX IF EXISTS i" + "".join(f", b_{c}" for c in ("c", "t", "u", "w", "tag")))
        report(args)
    finally:
        server.stop()


if __name__ == "__main__":
    main()
