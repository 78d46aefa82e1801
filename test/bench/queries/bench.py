#!/usr/bin/env python3
"""Queries of grnnd against pgvector's hnsw and pgvectorscale's diskann: the same server, the same rows.

  bench.py --pg-config PG_CONFIG --data FOLDER [--data FOLDER ...] --out RESULTS
  bench.py --replot --out RESULTS

FOLDER holds base.fbin, query.fbin and gt.ibin (int32 rows, int32 columns, rows;
test/bench/README.md says how to make one), or is an ann-benchmarks .hdf5 file.
One index after another is built, asked at several ef_search, and dropped: grnnd
by default, grnnd with each --with, then pgvector and each --beside, diskann (built by
one process) or diskann-parallel, where the server has vectorscale.  Writes
RESULTS/queries.md and a recall-QPS plot (PNG, SVG); --replot makes them again from RESULTS/queries.json.
Times with one client are also given with the floor subtracted: the time of a
primary-key query that returns 10 rows, client and server pinned to one core.
"""
import argparse
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from common import Server, beam, build_settings, extensions, from_hdf5, machine, read_matrix, take, using, write_table  # noqa: E402

EFS = {"grnnd": "20,24,28,32,40,52,64,80,100,128,160,200,260,320,400,520",
       "pgvector": "16,24,32,40,52,64,80,100,128,160,200,260,320,400,520,680",
       "diskann": "16,24,32,50,70,100,140,200,280,400,560,800"}
OPERATORS = {"l2": ("<->", "vector_l2_ops"), "ip": ("<#>", "vector_ip_ops"), "cosine": ("<=>", "vector_cosine_ops")}
RECALLS = (0.95, 0.99)
LAST_RECALL = 0.995     # a sweep ends past it


def at_recall(points, recall, field):
    """Linear interpolation of a figure at a recall between measured points; None where not reached."""
    points = sorted(points, key=lambda p: p["recall"])
    for a, b in zip(points, points[1:]):
        if a["recall"] <= recall <= b["recall"]:
            if b["recall"] == a["recall"]:
                return a[field]
            t = (recall - a["recall"]) / (b["recall"] - a["recall"])
            return a[field] + t * (b[field] - a[field])
    return points[0][field] if points and points[0]["recall"] >= recall else None


def settings(system, ef):
    return f"SET enable_seqscan = off; {beam(system, ef)}"


def sweep(server, qps, data, system, table, op, args, efs):
    """One point for each ef_search until LAST_RECALL; the pages that the queries touch are read first."""
    query = f"SELECT id FROM {table} ORDER BY v {op} $1 LIMIT 10"
    efs = [int(ef) for ef in efs.split(",")]
    rows = len(read_matrix(f"{data}/query.fbin"))
    server.qps(qps, data, query, settings(system, efs[-1]), args.clients, 600, queries=-(-rows // args.clients), warmup=0)
    points = []
    for ef in efs:
        one = server.qps(qps, data, query, settings(system, ef), 1, args.seconds, pin=True, buffers=200)
        many = server.qps(qps, data, query, settings(system, ef), args.clients, args.seconds)
        points.append({**one, "ef": ef, "us": 1e6 / one["qps"], "qps_many": many["qps"], "p99_many": many["p99_us"],
                       "buffers": one["hit"] + one["read"]})
        print(f"  {system} ef {ef}: " + json.dumps(points[-1]), flush=True)
        if one["recall"] > LAST_RECALL:
            break
    return points


def cold(server, qps, data, system, op, points, size, args):
    """
    At the ef_search of each recall: blocks read a query with shared_buffers a tenth of the index, and
    milliseconds a query when nothing is in the kernel's cache either, with and without prefetching.
    """
    found = []
    query = f"SELECT id FROM items ORDER BY v {op} $1 LIMIT 10"
    server.restart(shared_buffers=f"{max(size // 10 // 1048576, 1)}MB")
    for recall in RECALLS:
        ef = at_recall(points, recall, "ef")
        if ef is None:
            continue
        # queries of its own fill the cache first
        server.qps(qps, data, query, settings(system, ef), 1, 600, queries=500, first=1000)
        r = server.qps(qps, data, query, settings(system, ef), 1, 600, queries=1, buffers=200)
        figures = {"recall": recall, "read": r["read"], "touched": r["hit"] + r["read"]}
        for width in (0, 16) if system.startswith("grnnd") else (0,):
            ms = []
            for first in range(2000, 2000 + 3 * args.cold, args.cold):
                server.restart()
                server.forget()
                r = server.qps(qps, data, query, settings(system, ef) + f"; SET effective_io_concurrency = {width}",
                               1, 600, queries=args.cold, warmup=3, first=first)
                ms.append(r["p50_us"] / 1000)
            figures[f"ms_{width}"] = sorted(ms)[1]
        found.append(figures)
        print(f"  {system} cold: " + json.dumps(figures), flush=True)
    server.restart(shared_buffers=args.shared_buffers)
    return found


def measure(data, args):
    """Everything about one data set, as in queries.json."""
    op, ops = OPERATORS[args.metric]
    systems = [("grnnd", "")] + [(f"grnnd, {with_}", f" WITH ({with_})") for with_ in args.options] + [("pgvector", "")]
    if args.without_pgvector:
        systems.pop()
    systems += [(name, "") for name in args.beside]
    result = {"machine": machine(), "clients": args.clients, "systems": {}}
    server = Server(args.pg_config, settings={"shared_buffers": args.shared_buffers, "maintenance_work_mem": args.memory,
                                              "max_parallel_maintenance_workers": str(max(os.cpu_count() - 1, 1)),
                                              "max_worker_processes": "64", "max_parallel_workers": "64"})
    try:
        qps = server.build_qps()
        server.sql(extensions(args.beside))
        server.load("items", read_matrix(f"{data}/base.fbin"))
        server.sql("ALTER TABLE items SET (autovacuum_enabled = off); "
                   "CREATE TABLE floor AS SELECT i AS id, i / 10 AS g FROM generate_series(0, 99999) i;"
                   "CREATE INDEX ON floor (g); VACUUM ANALYZE floor;")
        floor = server.qps(qps, data, "SELECT id FROM floor WHERE g = $1", "", 1, args.seconds, pin=True, by_id=True)
        result["floor_us"] = 1e6 / floor["qps"]
        print("floor: " + json.dumps(floor), flush=True)
        for system, with_ in systems:
            kind = system.split(",")[0]
            create = (f"SET grnnd.build_device = '{args.device}'; {build_settings(kind)}"
                      f"CREATE INDEX i ON items USING {using(kind, ops)}{with_}")
            seconds, log = server.create_index(create)
            print(log, flush=True)
            server.sql("CHECKPOINT")
            size = server.size("i")
            points = sweep(server, qps, data, system, "items", op, args,
                           {"grnnd": args.efs_grnnd, "pgvector": args.efs_pgvector}.get(kind, args.efs_diskann))
            result["systems"][system] = {
                "points": points, "build": seconds, "size": size,
                "cold": cold(server, qps, data, system, op, points, size, args) if args.cold else []}
            server.sql("DROP INDEX i")
    finally:
        server.stop()
    return result


def tables(everything, out):
    """queries.md: at each recall, and how many times better than pgvector."""
    rows, cold_rows = [], []
    for name, result in everything.items():
        for recall in RECALLS:
            cells = {}
            for system, r in result["systems"].items():
                at = {f: at_recall(r["points"], recall, f) for f in ("ef", "us", "p99_us", "qps_many", "buffers")}
                if at["us"] is None:
                    rows.append([name, system, recall] + ["not reached"] + [""] * 7)
                    continue
                cells[system] = [at["us"], at["us"] - result["floor_us"], at["p99_us"], at["qps_many"], at["buffers"],
                                 r["size"] / 1e6, r["build"]]
                rows.append([name, system, recall, at["ef"]] + cells[system])
            for system in cells:
                if system.startswith("grnnd") and "pgvector" in cells:
                    g, h = cells[system], cells["pgvector"]
                    rows.append([name, f"ratio, {system}", recall, ""] +
                                [g[i] / h[i] if i in (3, 5) else h[i] / g[i] for i in range(7)])
            for system, r in result["systems"].items():
                cold_rows += [[name, system, recall, c["read"], c["touched"], c["ms_0"], c.get("ms_16", "")]
                              for c in r["cold"] if c["recall"] == recall]
    first = next(iter(everything.values()))
    write_table(f"{out}/queries.md", "Queries: grnnd and others in one server",
                ["data", "index", "recall@10", "ef", "us/query (1 client)", "less the floor", "p99 us",
                 f"QPS ({first['clients']} clients)", "buffers/query", "index MB", "build s"], rows, first["machine"])
    if cold_rows:
        write_table(f"{out}/cold.md", "Queries with shared_buffers a tenth of the index",
                    ["data", "index", "recall@10", "blocks read a query", "of touched", "ms a query, nothing cached",
                     "the same with prefetching"], cold_rows, first["machine"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pg-config")
    parser.add_argument("--data", action="append", default=[])
    parser.add_argument("--rows", type=int, help="use only the first ROWS base rows")
    parser.add_argument("--metric", choices=OPERATORS, default="l2")
    parser.add_argument("--clients", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--shared-buffers", default="8GB")
    parser.add_argument("--memory", default="8GB", help="maintenance_work_mem")
    parser.add_argument("--with", dest="options", action="append", default=[],
                        help="another grnnd index with these storage parameters, e.g. 'degree = 24'")
    parser.add_argument("--efs-grnnd", default=EFS["grnnd"], help="values of ef_search to try (%(default)s)")
    parser.add_argument("--efs-pgvector", default=EFS["pgvector"], help="(%(default)s)")
    parser.add_argument("--efs-diskann", default=EFS["diskann"], help="values of its query_search_list_size (%(default)s)")
    parser.add_argument("--without-pgvector", action="store_true")
    parser.add_argument("--beside", action="append", default=[], choices=("diskann", "diskann-parallel"))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--cold", type=int, default=0, metavar="QUERIES",
                        help="also measure with shared_buffers a tenth of the index, and so many queries with nothing cached")
    parser.add_argument("--replot", action="store_true")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    if args.replot:
        with open(f"{args.out}/queries.json") as f:
            everything = json.load(f)
    else:
        everything = {}
        for data in args.data:
            name = os.path.basename(data.rstrip("/"))
            data = from_hdf5(data, f"{args.out}/{name}.data")
            everything[name] = measure(take(data, f"{args.out}/{name}-{args.rows}.data", args.rows), args)
            with open(f"{args.out}/queries.json", "w") as f:
                json.dump(everything, f, indent=1)
    tables(everything, args.out)
    plot(everything, args.out)


def plot(everything, out):
    try:
        import matplotlib
    except ImportError:
        print("no matplotlib: --replot where there is one")
        return
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    figure, axes = plt.subplots(1, len(everything), figsize=(6 * len(everything), 4.5), squeeze=False)
    for axis, (name, result) in zip(axes[0], everything.items()):
        for i, (system, r) in enumerate(result["systems"].items()):
            recalls = [p["recall"] for p in r["points"]]
            axis.plot(recalls, [p["qps"] for p in r["points"]], "o-", color=f"C{i}", label=f"{system}, 1 client")
            axis.plot(recalls, [p["qps_many"] for p in r["points"]], "s--", color=f"C{i}",
                      label=f"{system}, {result['clients']} clients")
        axis.set(title=name, xlabel="recall@10", ylabel="queries/s", yscale="log", xlim=(None, 1.0))
        axis.grid(True, which="both", alpha=0.3)
        axis.legend()
    figure.tight_layout()
    for kind in ("png", "svg"):
        figure.savefig(f"{out}/queries.{kind}")


if __name__ == "__main__":
    main()
