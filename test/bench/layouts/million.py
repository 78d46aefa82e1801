#!/usr/bin/env python3
"""Layouts of grnnd beside pgvector and pgvectorscale, in one server: size, pages, queries/s, WAL.

  million.py --pg-config PG_CONFIG --data FOLDER --out OUT [--rows N] [--systems NAME,...]
  million.py --plot --out OUT

FOLDER holds base.fbin, query.fbin and gt.ibin, as those of test/bench/queries; --side N puts N of
its consecutive rows side by side (with PyTorch on a GPU for the new truth, where that is).  The systems:
default, exact, compact (layouts of grnnd), hnsw, halfvec (hnsw of halves), diskann (where the server has
vectorscale; it builds for hours at a million rows: take --rows 100000).  --until SECONDS begins no
index and no width later than that.

--little MB instead measures queries/s of all clients with so much memory for pages: shared_buffers of
that size, and the server in a cgroup with 5 MB more for each client (--by cgroup), or, where none can be
made, without the kernel's cache (--by direct: debug_io_direct, under which nothing is prefetched).

Figures go to OUT/million.json, one entry for each data set and system, so several runs add up; OUT/million.md
and a plot of size against queries/s at recall .95 are made of all that is there.
"""
import argparse
import json
import os
import sys
import time

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from common import Cgroup, Server, beam, build_settings, machine, read_matrix, save_matrix, take, write_table  # noqa: E402

EFS = "20,40,72,120,200,340,600"
K100_EFS = [100, 200, 400]
RECALLS = (0.95, 0.99)
LAST_RECALL = 0.992
MB_PER_CLIENT = 5  # a backend's own memory
INSERTS = 500

# name: (index, setting of the beam, query's expression)
SYSTEMS = {
    "exact": ("grnnd (v vector_l2_ops) WITH (layout = exact)", "grnnd.ef_search", "v <-> $1"),
    "default": ("grnnd (v vector_l2_ops)", "grnnd.ef_search", "v <-> $1"),
    "compact": ("grnnd (v vector_l2_ops) WITH (layout = compact)", "grnnd.ef_search", "v <-> $1"),
    "hnsw": ("hnsw (v vector_l2_ops)", "hnsw.ef_search", "v <-> $1"),
    "halfvec": ("hnsw ((v::halfvec({dim})) halfvec_l2_ops)", "hnsw.ef_search", "v::halfvec({dim}) <-> $1::vector({dim})::halfvec({dim})"),
    "diskann": ("diskann (v vector_l2_ops)", "diskann.query_search_list_size", "v <-> $1"),
}


def side_by_side(folder, n, out, rows):
    """N consecutive rows of a folder side by side, and their exact neighbors."""
    try:
        import torch
        device = "cuda" if torch.cuda.is_available() else "cpu"
    except ImportError:
        torch = None
    os.makedirs(out, exist_ok=True)
    base = np.array(read_matrix(f"{folder}/base.fbin")[:rows])
    query = np.array(read_matrix(f"{folder}/query.fbin")[:2000])
    wide = [np.hstack([np.roll(x, -i, 0) for i in range(n)]).astype(np.float32) / np.float32(n ** .5) for x in (base, query)]
    near, norms = [], (wide[0] * wide[0]).sum(1)
    if torch:
        b, norms = torch.tensor(wide[0], device=device), torch.tensor(norms, device=device)
        for q in torch.tensor(wide[1], device=device).split(250):
            near.append((norms[None] - 2 * q @ b.T).topk(100, largest=False).indices.int().cpu().numpy())
    else:
        for i in range(0, len(query), 250):
            d = norms[None] - 2 * wide[1][i:i + 250] @ wide[0].T
            some = np.argpartition(d, 100, axis=1)[:, :100]
            near.append(np.take_along_axis(some, np.take_along_axis(d, some, 1).argsort(1), 1).astype(np.int32))
    save_matrix(f"{out}/base.fbin", wide[0])
    save_matrix(f"{out}/query.fbin", wide[1])
    save_matrix(f"{out}/gt.ibin", np.concatenate(near))
    return out


def pages(server):
    """Blocks of index, table and TOAST that were touched so far."""
    server.sql("SELECT pg_sleep(1.1)")
    return [int(x) for x in server.sql(
        "SELECT idx_blks_hit + idx_blks_read, heap_blks_hit + heap_blks_read, coalesce(toast_blks_hit + toast_blks_read + "
        "tidx_blks_hit + tidx_blks_read, 0) FROM pg_statio_all_tables WHERE relname = 't'")[0].split("|")]


def at_recall(points, recall, field):
    points = sorted(points, key=lambda p: p["recall"])
    for a, b in zip(points, points[1:]):
        if a["recall"] <= recall <= b["recall"]:
            t = (recall - a["recall"]) / ((b["recall"] - a["recall"]) or 1)
            return a[field] + t * (b[field] - a[field])
    return points[0][field] if points and points[0]["recall"] >= recall else None


def is_late(args):
    return args.until is not None and time.time() - args.start > args.until


def widths(setting, args):
    """(ef, SQL that sets it) for each of args.efs, while there is time."""
    for ef in args.efs:
        if is_late(args):
            return
        # diskann ranks as many rows as before by exact distances unless it is told to rank more
        yield ef, "SET enable_seqscan = off; " + (beam("diskann", ef) if setting.startswith("diskann") else f"SET {setting} = {ef}")


def sweep(server, qps, data, setting, expression, args):
    points = []
    query = f"SELECT id FROM t ORDER BY {expression} LIMIT 10"
    for ef, setup in widths(setting, args):
        # the pages come into memory
        server.qps(qps, data, query, setup, args.clients, 60, queries=100, warmup=0)
        before = pages(server)
        server.qps(qps, data, query, setup, 1, 60, queries=200, warmup=0)
        index, table, toast = ((b - a) / 200 for a, b in zip(before, pages(server)))
        one = server.qps(qps, data, query, setup, 1, args.seconds, pin=True, warm=args.warm)
        many = server.qps(qps, data, query, setup, args.clients, args.seconds, warm=args.warm)
        points.append({"ef": ef, "recall": many["recall"], "qps": one["qps"], "qps_many": many["qps"], "p99": many["p99_us"],
                       "index": index, "table": table, "toast": toast})
        print("  " + json.dumps(points[-1]), flush=True)
        if many["recall"] > LAST_RECALL:
            break
    # as it is without any setting
    setup = "SET enable_seqscan = off"
    server.qps(qps, data, query, setup, args.clients, 60, queries=100, warmup=0)
    many = server.qps(qps, data, query, setup, args.clients, args.seconds, warm=args.warm)
    unset = {"recall": many["recall"], "qps_many": many["qps"]}
    print("  without setting: " + json.dumps(unset), flush=True)
    hundred = []
    query = f"SELECT id FROM t ORDER BY {expression} LIMIT 100"
    for ef in K100_EFS:
        many = server.qps(qps, data, query, f"SET enable_seqscan = off; SET {setting} = {ef}", args.clients, args.seconds, k=100,
                          warm=args.warm)
        hundred.append({"ef": ef, "recall": many["recall"], "qps_many": many["qps"]})
    return points, unset, hundred


def squeeze(server, qps, data, setting, expression, args):
    """Queries/s with memory for args.little megabytes of pages."""
    group = None
    if args.by == "cgroup":
        try:
            group = Cgroup(args.little + MB_PER_CLIENT * (args.clients + 4))
        except OSError:
            args.by = "direct"
            print("no cgroup can be made here: reading past the kernel's cache", flush=True)
    server.restart(shared_buffers=f"{args.little}MB", debug_io_direct="data" if args.by == "direct" else "''",
                   effective_io_concurrency="16")
    server.forget()
    if group:
        group.take(server.processes())
    points = []
    query = f"SELECT id FROM t ORDER BY {expression} LIMIT 10"
    for ef, setup in widths(setting, args):
        # the first fills the memory; clients go on with queries that none of them has asked before
        for first in (0, len(read_matrix(f"{data}/query.fbin")) // (2 * args.clients)):
            r = server.qps(qps, data, query, setup, args.clients, args.seconds, warmup=1, first=first)
        points.append({"ef": ef, "recall": r["recall"], "qps_many": r["qps"], "p99": r["p99_us"]})
        print("  " + json.dumps(points[-1]), flush=True)
    server.restart(shared_buffers=args.shared_buffers, debug_io_direct="''")
    if group:
        group.drop()
    return points


def wal_of_inserts(server):
    """Bytes an insert logs for the index; the rows are taken back."""
    sizes = []
    for table in ("t", "w"):
        before = int(server.sql("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")[0])
        server.sql(f"BEGIN; INSERT INTO {table} SELECT * FROM spare; ROLLBACK")
        sizes.append(int(server.sql("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")[0]) - before)
    return (sizes[0] - sizes[1]) / INSERTS


def measure(data, args, everything, save):
    base = read_matrix(f"{data}/base.fbin")
    dim = base.shape[1]
    server = Server(args.pg_config, settings={
        "shared_buffers": args.shared_buffers, "maintenance_work_mem": args.memory, "full_page_writes": "off", "fsync": "off",
        "max_parallel_maintenance_workers": str(max(args.clients - 1, 1)), "max_worker_processes": "64",
        "max_parallel_workers": "64"})
    try:
        qps = server.build_qps()
        server.sql("CREATE EXTENSION vector; CREATE EXTENSION grnnd")
        server.load("t", base, streams=min(args.clients, 8))
        # what is inserted are queries: an equal row would only add its TID to the one that is there
        server.load("spare", np.array(read_matrix(f"{data}/query.fbin")[-INSERTS:]))
        server.sql("CREATE TABLE w (LIKE t INCLUDING STORAGE)")
        names = args.systems.split(",")
        if "diskann" in names:
            server.sql("CREATE EXTENSION vectorscale")
        for name in names:
            if is_late(args):
                print(f"{args.name}: no time for {name}", flush=True)
                break
            index, setting, expression = (x.replace("{dim}", str(dim)) for x in SYSTEMS[name])
            one_process = build_settings("diskann") if name == "diskann" else ""
            seconds, _ = server.create_index(f"SET grnnd.build_device = '{args.device}'; {one_process}CREATE INDEX i ON t USING {index}")
            bytes_row = server.size("i") / len(base)
            print(f"{args.name} {name}: {bytes_row:.0f} bytes a row, {seconds:.1f} s", flush=True)
            if args.little:
                everything[f"{args.name}|{name}|little"] = {
                    "machine": machine(), "bytes": bytes_row, "mb": args.little, "by": args.by,
                    "points": squeeze(server, qps, data, setting, expression, args)}
                save()
                server.sql("DROP INDEX i")
                continue
            points, unset, hundred = sweep(server, qps, data, setting, expression, args)
            wal = wal_of_inserts(server)
            everything[f"{args.name}|{name}"] = {"machine": machine(), "rows": len(base), "bytes": bytes_row, "build": seconds,
                                                 "wal": wal, "points": points, "unset": unset, "hundred": hundred}
            save()
            server.sql("DROP INDEX i")
    finally:
        server.stop()


def report(everything, out):
    rows, k100, little = [], [], []
    for key, r in everything.items():
        if key.endswith("|little"):
            little.append(key.split("|")[:2] + [round(r["bytes"]), r["mb"], r["by"]] +
                          [f"{p['ef']}: {p['recall']:.3f}, {p['qps_many']:.0f}, {p['p99'] / 1000:.0f}" for p in r["points"]])
            continue
        data, name = key.split("|")
        cells = [data, name, r["rows"], round(r["bytes"]), round(r["build"], 1), round(r["wal"])]
        for recall in RECALLS:
            for field in ("index", "table", "toast", "qps", "qps_many"):
                x = at_recall(r["points"], recall, field)
                cells.append("-" if x is None else round(x, 1) if field in ("index", "table", "toast") else round(x))
        cells.append(f"{r['unset']['qps_many']:.0f} at {r['unset']['recall']:.3f}" if "unset" in r else "-")
        rows.append(cells)
        k100.append([data, name] + [f"{p['qps_many']:.0f} at {p['recall']:.3f}" for p in r["hundred"]])
    columns = ["data", "index", "rows", "bytes a row", "build s", "WAL bytes an insert"]
    for recall in RECALLS:
        columns += [f"{what} {recall}" for what in ("index pages", "table pages", "TOAST pages", "queries/s", "queries/s, all cores")]
    columns.append("without setting: queries/s at recall")
    where = next(iter(everything.values()))["machine"]
    if little:
        most = max(len(cells) for cells in little)
        write_table(f"{out}/little.md", "Little memory: ef, recall, queries/s on all cores, p99 ms",
                    ["data", "index", "bytes a row", "MB", "by"] + [""] * (most - 5),
                    [cells + ["-"] * (most - len(cells)) for cells in little], where)
    if not rows:
        return
    write_table(f"{out}/million.md", "Layouts beside pgvector and pgvectorscale", columns, rows, where)
    write_table(f"{out}/k100.md", "LIMIT 100: queries/s on all cores, at recall@100", ["data", "index"] + [f"ef {e}" for e in K100_EFS],
                k100, where)
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    plt.rcParams["svg.fonttype"] = "none"  # text stays text: small files
    everything = {key: r for key, r in everything.items() if not key.endswith("|little")}
    sets = sorted({key.split("|")[0] for key in everything})
    figure, axes = plt.subplots(1, len(sets), figsize=(4.5 * len(sets), 4), squeeze=False)
    for axis, data in zip(axes[0], sets):
        for key, r in everything.items():
            x = at_recall(r["points"], RECALLS[0], "qps_many")
            if key.split("|")[0] == data and x is not None:
                axis.scatter(r["bytes"], x)
                axis.annotate(key.split("|")[1], (r["bytes"], x))
        axis.set(title=data, xlabel="bytes a row", ylabel="queries/s at recall .95, all cores", xscale="log", yscale="log")
        axis.margins(.15)
    figure.tight_layout()
    for kind in ("png", "svg"):
        figure.savefig(f"{out}/million.{kind}", dpi=120)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--pg-config")
    p.add_argument("--data")
    p.add_argument("--rows", type=int, default=None)
    p.add_argument("--side", type=int, default=1)
    p.add_argument("--systems", default="default,exact,compact,hnsw,halfvec")
    p.add_argument("--clients", type=int, default=os.cpu_count())
    p.add_argument("--seconds", type=float, default=1.5)
    p.add_argument("--warm", type=float, default=2, help="seconds that each session asks queries before it is timed")
    p.add_argument("--shared-buffers", default="24GB")
    p.add_argument("--memory", default="16GB", help="maintenance_work_mem")
    p.add_argument("--device", default="auto")
    p.add_argument("--efs", default=EFS, help="widths, by commas")
    p.add_argument("--until", type=float, metavar="SECONDS")
    p.add_argument("--little", type=int, default=0, metavar="MB")
    p.add_argument("--by", choices=("cgroup", "direct"), default="cgroup")
    p.add_argument("--plot", action="store_true")
    p.add_argument("--out", required=True)
    args = p.parse_args()
    args.start = time.time()
    args.efs = [int(x) for x in args.efs.split(",")]
    os.makedirs(args.out, exist_ok=True)
    file = f"{args.out}/million.json"
    everything = json.load(open(file)) if os.path.exists(file) else {}

    def save():
        with open(file, "w") as f:
            json.dump(everything, f, indent=1)

    if not args.plot:
        args.name = os.path.basename(args.data.rstrip("/")) + (f"x{args.side}" if args.side > 1 else "") + \
            (f"-{args.rows}" if args.rows else "")
        data = f"{args.out}/{args.name}.data"
        if args.side > 1:
            data = side_by_side(args.data, args.side, data, args.rows)
        else:
            data = take(args.data, data, args.rows)
        print(f"{args.name}: data after {time.time() - args.start:.0f} s", flush=True)
        measure(data, args, everything, save)
    report(everything, args.out)


if __name__ == "__main__":
    main()
