#!/usr/bin/env python3
"""CREATE INDEX with and without filter columns, of one program or of several by turns.

  builds.py --pg-config PG_CONFIG [--pg-config ANOTHER ...] --data FOLDER [--rows N] [--rounds N]
            [--memory 8GB] [--efs 24,30,36]

Rows and labels are those of bench.py.  Each round makes an index without columns, with c and t, and with
c, t and u in each server, one after the other; of each the median counts, without the first round, whose
builds load libraries and start the GPU.  A checkpoint comes before each.  Then queries of the last indexes:
recall@10 and pages of those that ask for 3% and 1% of the rows at random, and for a cell of ten.
"""
import argparse
import json
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from bench import Case, QUERIES, Rows, buffers, make_cases, make_labels, settings, truth  # noqa: E402
from common import Server, machine, read_matrix  # noqa: E402

COLUMNS = ("", "c, t", "c, t, u")
ASKED = (("random", "c", 0.03), ("random", "c", 0.01), ("any", "u", 0.1))  # of make_cases()


def build(server, columns):
    """Seconds of CREATE INDEX, and of its phases."""
    server.sql("DROP INDEX IF EXISTS i; CHECKPOINT")
    seconds, _ = server.create_index(f"CREATE INDEX i ON items USING grnnd (v{', ' + columns if columns else ''})")
    phases = json.loads(server.sql("SELECT build_seconds FROM grnnd_stats('i')")[0])
    return seconds, phases


def ask(server, name, cases, nears, query, efs):
    for number, case in enumerate(cases):
        asked = Case(server, number, case, query, nears[number], "grnnd", {})
        for ef in efs:
            setup = settings("grnnd", ef)
            ways = server.sql(f"{setup};" + "".join(f"SELECT count(*) FROM ({q}) s; SELECT method FROM grnnd_last_scan();"
                                                    for q in asked.literal))[0].splitlines()[1::2]
            print(f"{name}: {case[0]} {case[1]:g} ef {ef}: recall {float(server.sql(f'{setup}; {asked.recall}')[0]):.4f}, "
                  f"{buffers(server, setup, asked):.1f} pages, {ways.count('list')} of {len(ways)} by the list", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pg-config", action="append", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory", default="8GB", help="shared_buffers and maintenance_work_mem")
    parser.add_argument("--efs", default="24,30,36")
    args = parser.parse_args()
    base = read_matrix(f"{args.data}/base.fbin")[:args.rows]
    query = np.array(read_matrix(f"{args.data}/query.fbin")[:QUERIES], np.float32)
    rows = Rows(base)
    labels, centers = make_labels(base, rows)
    cases = [c for c in make_cases(labels, centers, query) if (c[0], c[2], round(c[1], 3)) in ASKED]
    nears = [truth(rows, labels[c[2]], query, *c[3:]) for c in cases]
    rows.end()

    servers, taken = {}, {}
    try:
        for path in args.pg_config:
            servers[path] = server = Server(path, settings={
                "shared_buffers": args.memory, "maintenance_work_mem": args.memory, "max_worker_processes": "64", "wal_level": "minimal",
                "max_wal_senders": "0", "max_wal_size": "64GB", "max_parallel_workers": "64",
                "max_parallel_maintenance_workers": str(max(os.cpu_count() - 1, 1))})
            server.sql("CREATE EXTENSION grnnd CASCADE")
            server.load("items", base, streams=8, columns={name: labels[name] for name in "ctu"})
        print(machine(), f"{len(base):,} rows of {base.shape[1]} dimensions", flush=True)
        for number in range(args.rounds):
            for columns in COLUMNS:
                for path, server in servers.items():
                    seconds, phases = build(server, columns)
                    print(f"round {number}, {path}, {columns or 'none'}: {seconds:.2f} s {json.dumps(phases)}", flush=True)
                    if number > 0 or args.rounds == 1:
                        taken.setdefault((path, columns), []).append(seconds)
        for path in servers:
            median = {columns: np.median(taken[path, columns]) for columns in COLUMNS}
            print(f"{path}: " + ", ".join(f"{columns or 'none'} {s:.2f} s ({s / median['']:.2f})" for columns, s in median.items()), flush=True)
        for path, server in servers.items():
            ask(server, path, cases, nears, query, [int(x) for x in args.efs.split(",")])
    finally:
        for server in servers.values():
            server.stop()


if __name__ == "__main__":
    main()
