#!/usr/bin/env python3
"""CREATE INDEX of grnnd (GPU, CPU) against pgvector's hnsw: the same server, the same rows.

  bench.py --pg-config PG_CONFIG --data FOLDER --rows 100000,1000000 --out RESULTS

FOLDER holds base.fbin, query.fbin and gt.ibin (test/bench/README.md says how to
make one).  Beside the statements' times it measures what bounds them: (a) a
parallel sequential scan that computes a distance on every vector, (b) writing
and syncing the index's bytes once (dd conv=fsync), (c) PostgreSQL's own copy of
a relation of that size (ALTER TABLE ... SET TABLESPACE).  Writes
RESULTS/build.md and a stacked bar of the phases (PNG, SVG).
"""
import argparse
import json
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from common import Server, read_matrix, take, write_table  # noqa: E402


def phases_of(log):
    """Seconds of each phase from the server's debug1 line; "build" is given by its parts."""
    line = next((x for x in log.splitlines() if "grnnd build:" in x), "")
    phases = {k: float(v) for k, v in re.findall(r"([a-z]+) ([0-9]+\.[0-9]+)(?: s|,|\))", line)}
    phases.pop("build", None)
    return phases


def yardsticks(server, dim, size):
    """Seconds of (a), (b) and (c), each the better of two."""
    probe = "[" + ",".join(["0.5"] * dim) + "]"
    scan = []
    for _ in range(3):      # the first one warms the cache
        start = time.time()
        server.sql("SET max_parallel_workers_per_gather = 15; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; "
                   "SET min_parallel_table_scan_size = 0; SET enable_indexscan = off; "
                   f"SELECT count(*) FROM items WHERE v <-> '{probe}' < 0")
        scan.append(time.time() - start)
    path, megabytes = f"{server.dir}/dd", max(size >> 20, 1)
    dd = []
    for _ in range(2):
        start = time.time()
        subprocess.check_call(["dd", "if=/dev/zero", f"of={path}", "bs=1M", f"count={megabytes}", "conv=fsync"],
                              stderr=subprocess.DEVNULL)
        dd.append(time.time() - start)
        os.unlink(path)
    return min(scan[1:]), min(dd)


def copy_seconds(server, relation):
    where = f"{server.dir}/space"
    if not os.path.isdir(where):
        os.mkdir(where)
        if server.user:
            import shutil
            shutil.chown(where, server.user)
        server.sql(f"CREATE TABLESPACE other LOCATION '{where}'")
    start = time.time()
    server.sql(f"ALTER INDEX {relation} SET TABLESPACE other")
    return time.time() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pg-config", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--rows", default="100000")
    parser.add_argument("--devices", default="gpu,cpu")
    parser.add_argument("--wal-level", choices=["minimal", "replica"], default="minimal")
    parser.add_argument("--storage", choices=["plain", "external"], default="plain",
                        help="external: vectors past 2 kB are TOASTed, as they are by default")
    parser.add_argument("--shared-buffers", default="8GB")
    parser.add_argument("--workers", type=int, default=max(os.cpu_count() - 1, 1))
    parser.add_argument("--memory", default="16GB", help="maintenance_work_mem")
    parser.add_argument("--without-pgvector", action="store_true")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    settings = {"shared_buffers": args.shared_buffers, "maintenance_work_mem": args.memory, "wal_level": args.wal_level,
                "max_parallel_maintenance_workers": str(args.workers), "max_worker_processes": "64",
                "max_parallel_workers": "64", "max_wal_size": "64GB"}
    if args.wal_level == "minimal":
        settings["max_wal_senders"] = "0"
    rows, bars = [], []
    for n in (int(x) for x in args.rows.split(",")):
        data = take(args.data, f"{args.out}/{n}.data", n)
        base = read_matrix(f"{data}/base.fbin")
        server = Server(args.pg_config, settings=settings)
        try:
            qps = server.build_qps()
            server.sql("CREATE EXTENSION vector; CREATE EXTENSION grnnd;")
            server.load("items", base, args.storage)
            size, first = 0, {}
            systems = [f"grnnd {d}" for d in args.devices.split(",")] + ([] if args.without_pgvector else ["pgvector"])
            for system in systems:
                if system == "pgvector":
                    statement = "CREATE INDEX i ON items USING hnsw (v vector_l2_ops) WITH (m = 16, ef_construction = 64)"
                    setup, efs = "SET enable_seqscan = off; SET hnsw.ef_search = {}", (40, 80)
                else:
                    statement = f"SET grnnd.build_device = {system.split()[1]}; CREATE INDEX i ON items USING grnnd (v)"
                    setup, efs = "SET enable_seqscan = off; SET grnnd.ef_search = {}", (40, 80)
                server.sql("CHECKPOINT")
                seconds, log = server.create_index(statement)
                phases = phases_of(log)
                size = server.size("i")
                if system not in first:
                    first[system] = seconds
                recalls = [server.qps(qps, data, "SELECT id FROM items ORDER BY v <-> $1 LIMIT 10", setup.format(ef), 1, 1)
                           for ef in efs]
                scan, dd = yardsticks(server, base.shape[1], size) if system != "pgvector" else (0.0, 0.0)
                copy = copy_seconds(server, "i") if system != "pgvector" else 0.0
                server.sql("DROP INDEX i")
                rows.append([n, system, seconds, size / 1e6, *[f"{r['recall']:.4f}" for r in recalls], scan, dd, copy,
                             " ".join(f"{k} {v:.3f}" for k, v in phases.items())])
                bars.append((f"{n} {system}", seconds, phases))
                print(json.dumps(rows[-1]), flush=True)
            if "pgvector" in first:
                for system in systems[:-1]:
                    rows.append([n, f"pgvector / {system}", first["pgvector"] / first[system]] + [""] * 7)
        finally:
            server.stop()
    write_table(f"{args.out}/build.md", f"CREATE INDEX, {os.path.basename(args.data.rstrip('/'))}, wal_level = {args.wal_level}",
                ["rows", "index", "seconds", "index MB", "recall@10 ef 40", "ef 80", "(a) scan s", "(b) dd s", "(c) copy s",
                 "phases"], rows)
    plot(bars, args.out)


def plot(bars, out):
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    figure, axis = plt.subplots(figsize=(9, 0.6 * len(bars) + 1.5))
    names = sorted({p for _, _, phases in bars for p in phases})
    for i, (_, seconds, phases) in enumerate(bars):
        left = 0.0
        for p, v in phases.items():
            axis.barh(i, v, left=left, color=f"C{names.index(p)}", label=p)
            left += v
        axis.barh(i, max(seconds - left, 0), left=left, color="lightgrey", label="other")
    axis.set_yticks(range(len(bars)), [b[0] for b in bars])
    handles = dict(zip(*reversed(axis.get_legend_handles_labels())))
    axis.legend(handles.values(), handles.keys(), fontsize="small")
    axis.set_xlabel("seconds")
    axis.set_xscale("symlog", linthresh=1)
    figure.tight_layout()
    for kind in ("png", "svg"):
        figure.savefig(f"{out}/build.{kind}")


if __name__ == "__main__":
    main()
