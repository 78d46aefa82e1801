#!/usr/bin/env python3
"""Queries of grnnd against pgvector's hnsw: the same server, the same rows.

  bench.py --pg-config PG_CONFIG --data FOLDER [--data FOLDER ...] --out RESULTS

FOLDER holds base.fbin, query.fbin and gt.ibin (int32 rows, int32 columns, rows;
test/bench/README.md says how to make one), or is an ann-benchmarks .hdf5 file.
Writes RESULTS/queries.md and a recall-QPS plot (PNG, SVG).  Times with one
client are also given with the floor subtracted: the time of a primary-key
query that returns 10 rows, client and server pinned to one core.
"""
import argparse
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from common import Server, read_matrix, save_matrix, take, write_table  # noqa: E402

EFS = {"grnnd": [10, 16, 20, 24, 28, 32, 40, 52, 64, 80, 100, 128, 160, 200, 260, 320, 400, 520],
       "pgvector": [16, 24, 32, 40, 52, 64, 80, 100, 128, 160, 200, 260, 320, 400, 520, 680]}
OPERATORS = {"l2": ("<->", "vector_l2_ops"), "ip": ("<#>", "vector_ip_ops"), "cosine": ("<=>", "vector_cosine_ops")}


def from_hdf5(path, out):
    import h5py
    os.makedirs(out, exist_ok=True)
    with h5py.File(path) as f:
        save_matrix(f"{out}/base.fbin", f["train"][:].astype("f4"))
        save_matrix(f"{out}/query.fbin", f["test"][:].astype("f4"))
        save_matrix(f"{out}/gt.ibin", f["neighbors"][:].astype("i4"))
    return out


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


def sweep(server, qps, data, system, table, op, args):
    """One point for each ef_search until recall 0.995."""
    query = f"SELECT id FROM {table} ORDER BY v {op} $1 LIMIT 10"
    points = []
    for ef in EFS[system]:
        if ef < 10 and system == "pgvector":
            continue
        setup = f"SET enable_seqscan = off; SET {'grnnd' if system == 'grnnd' else 'hnsw'}.ef_search = {ef}"
        one = server.qps(qps, data, query, setup, 1, args.seconds, pin=True, buffers=200)
        many = server.qps(qps, data, query, setup, args.clients, args.seconds)
        points.append({**one, "ef": ef, "us": 1e6 / one["qps"], "qps_many": many["qps"], "p99_many": many["p99_us"],
                       "buffers": one["hit"] + one["read"]})
        print(f"  {system} ef {ef}: " + json.dumps(points[-1]), flush=True)
        if one["recall"] > 0.995:
            break
    return points


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pg-config", required=True)
    parser.add_argument("--data", action="append", required=True)
    parser.add_argument("--rows", type=int, help="use only the first ROWS base rows")
    parser.add_argument("--metric", choices=OPERATORS, default="l2")
    parser.add_argument("--clients", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--shared-buffers", default="8GB")
    parser.add_argument("--with", dest="options", default="", help="grnnd's storage parameters, e.g. 'degree = 48'")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--cold", action="store_true", help="also measure reads with shared_buffers a tenth of the index")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    op, ops = OPERATORS[args.metric]
    rows, everything = [], {}
    for data in args.data:
        name = os.path.basename(data.rstrip("/"))
        if data.endswith(".hdf5"):
            data = from_hdf5(data, f"{args.out}/{name}.data")
        data = take(data, f"{args.out}/{name}-{args.rows}.data", args.rows)
        base = read_matrix(f"{data}/base.fbin")
        server = Server(args.pg_config, settings={"shared_buffers": args.shared_buffers,
                                                  "max_parallel_maintenance_workers": str(max(os.cpu_count() - 1, 1)),
                                                  "max_worker_processes": "64", "max_parallel_workers": "64"})
        try:
            qps = server.build_qps()
            server.sql("CREATE EXTENSION vector; CREATE EXTENSION grnnd;")
            server.load("items", base)
            server.sql("CREATE TABLE items2 AS SELECT id, v FROM items; ALTER TABLE items2 SET (autovacuum_enabled = off);"
                       "CREATE TABLE floor AS SELECT i AS id, i / 10 AS g FROM generate_series(0, 99999) i;"
                       "CREATE INDEX ON floor (g); VACUUM ANALYZE;")
            with_ = f" WITH ({args.options})" if args.options else ""
            built = {}
            built["grnnd"], log = server.create_index(
                f"SET grnnd.build_device = '{args.device}'; CREATE INDEX items_grnnd ON items USING grnnd (v {ops}){with_}")
            print(log, flush=True)
            built["pgvector"], _ = server.create_index(
                f"CREATE INDEX items_hnsw ON items2 USING hnsw (v {ops}) WITH (m = 16, ef_construction = 64)")
            server.sql("VACUUM ANALYZE items; VACUUM ANALYZE items2; CHECKPOINT;")
            floor = server.qps(qps, data, "SELECT id FROM floor WHERE g = $1", "", 1, args.seconds, pin=True, by_id=True)
            print("floor: " + json.dumps(floor), flush=True)
            floor_us = 1e6 / floor["qps"]
            points = {"grnnd": sweep(server, qps, data, "grnnd", "items", op, args),
                      "pgvector": sweep(server, qps, data, "pgvector", "items2", op, args)}
            sizes = {"grnnd": server.size("items_grnnd"), "pgvector": server.size("items_hnsw")}
            if args.cold:
                cold(server, qps, data, op, args, points, sizes)
        finally:
            server.stop()
        everything[name] = {"points": points, "floor_us": floor_us, "build": built, "size": sizes}
        for recall in (0.95, 0.99):
            us = {s: at_recall(p, recall, "us") for s, p in points.items()}
            for system in ("grnnd", "pgvector"):
                p = points[system]
                if us[system] is None:
                    rows.append([name, system, recall] + ["not reached"] * 8)
                    continue
                net = us[system] - floor_us
                rows.append([name, system, recall, at_recall(p, recall, "ef"), us[system], net, at_recall(p, recall, "p99_us"),
                             at_recall(p, recall, "qps_many"), at_recall(p, recall, "buffers"),
                             sizes[system] / 1e6, built[system]])
            if None not in us.values():
                g, h = rows[-2], rows[-1]
                rows.append([name, "ratio", recall, "", h[4] / g[4], h[5] / g[5], h[6] / g[6], g[7] / h[7], h[8] / g[8],
                             g[9] / h[9], h[10] / g[10]])
    with open(f"{args.out}/queries.json", "w") as f:
        json.dump(everything, f, indent=1)
    write_table(f"{args.out}/queries.md", "Queries: grnnd and pgvector's hnsw in one server",
                ["data", "index", "recall@10", "ef", "us/query (1 client)", "less the floor", "p99 us",
                 f"QPS ({args.clients} clients)", "buffers/query", "index MB", "build s"], rows)
    plot(everything, args.out)


def cold(server, qps, data, op, args, points, sizes):
    """Blocks read a query with shared_buffers a tenth of the larger index, at the ef that gave recall 0.95."""
    server.restart(shared_buffers=f"{max(max(sizes.values()) // 10 // 1048576, 16)}MB")
    for system, table in (("grnnd", "items"), ("pgvector", "items2")):
        ef = at_recall(points[system], 0.95, "ef")
        if ef is None:
            continue
        setup = f"SET enable_seqscan = off; SET {'grnnd' if system == 'grnnd' else 'hnsw'}.ef_search = {round(ef)}"
        r = server.qps(qps, data, f"SELECT id FROM {table} ORDER BY v {op} $1 LIMIT 10", setup, 1, args.seconds, buffers=200)
        print(f"cold {system}: ef {round(ef)}, {r['read']:.1f} blocks read and {r['hit']:.1f} found a query", flush=True)


def plot(everything, out):
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    figure, axes = plt.subplots(1, len(everything), figsize=(6 * len(everything), 4.5), squeeze=False)
    for axis, (name, result) in zip(axes[0], everything.items()):
        for system, points in result["points"].items():
            axis.plot([p["recall"] for p in points], [p["qps"] for p in points], "o-", label=f"{system}, 1 client")
            axis.plot([p["recall"] for p in points], [p["qps_many"] for p in points], "s--", label=f"{system}, one a core")
        axis.set(title=name, xlabel="recall@10", ylabel="queries/s", yscale="log", xlim=(0.7, 1.0))
        axis.grid(True, which="both", alpha=0.3)
        axis.legend()
    figure.tight_layout()
    for kind in ("png", "svg"):
        figure.savefig(f"{out}/queries.{kind}")


if __name__ == "__main__":
    main()
