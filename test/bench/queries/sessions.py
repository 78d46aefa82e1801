#!/usr/bin/env python3
"""Many sessions: queries/s and latency by the number of clients, of grnnd beside pgvector's hnsw and a look-up by key.

  sessions.py --pg-config PG_CONFIG --data FOLDER --out RESULTS [--clients 1,16,64,128]

FOLDER: as for bench.py.  Clients and server share the host's cores.  A process of the server maps a page of shared buffers when
it first touches the page, so sessions of few queries are slower than others: --warm says how long each asks before it counts.  "key" returns ten rows by an integer: what clients, protocol
and executor take by themselves.  "no counters" is grnnd with track_counts = off.  Writes RESULTS/sessions.md.
"""
import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from common import Server, beam, extensions, read_matrix, using, write_table  # noqa: E402

ROUNDS = 3      # the rates of all numbers of clients by turns; the median counts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pg-config", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--clients", default="1,8,16,32,64,128")
    parser.add_argument("--ef", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--warm", type=float, default=6, metavar="SECONDS")
    parser.add_argument("--huge-pages", default="try", choices=("try", "on", "off"))
    parser.add_argument("--memory", default="8GB", help="shared_buffers and maintenance_work_mem")
    args = parser.parse_args()
    server = Server(args.pg_config, settings={"shared_buffers": args.memory, "maintenance_work_mem": args.memory, "huge_pages": args.huge_pages, "max_worker_processes": "64",
                                              "max_parallel_workers": "64", "max_parallel_maintenance_workers": str(max(os.cpu_count() - 1, 1))})
    rows, nearest = [], "SELECT id FROM {} ORDER BY v <-> $1 LIMIT 10"
    try:
        qps = server.build_qps()
        server.sql(extensions([]))
        base, systems = read_matrix(f"{args.data}/base.fbin"), {}
        for name in ("pgvector", "grnnd"):
            server.load(name, base)
            seconds, _ = server.create_index(f"CREATE INDEX i_{name} ON {name} USING {using(name)}")
            print(f"{name}: CREATE INDEX {seconds:.2f} s", flush=True)
            systems[name] = (nearest.format(name), f"SET enable_seqscan = off; {beam(name, args.ef)}", False)
        systems["no counters"] = (systems["grnnd"][0], systems["grnnd"][1] + "; SET track_counts = off", False)
        server.sql("CREATE TABLE floor AS SELECT i AS id, i / 10 AS g FROM generate_series(0, 99999) i; CREATE INDEX ON floor (g); "
                   "VACUUM ANALYZE floor; CHECKPOINT")
        print("huge pages: " + server.sql("SHOW huge_pages_status")[0], flush=True)
        systems["key"] = ("SELECT id FROM floor WHERE g = $1", "SELECT 1", True)
        for query, setup, by_id in systems.values():
            server.qps(qps, args.data, query, setup, 16, 600, queries=600, warmup=0, by_id=by_id)
        numbers = [int(n) for n in args.clients.split(",")]
        found = {(name, n): [] for name in systems for n in numbers}
        for _ in range(ROUNDS):
            for (name, n), of in found.items():
                query, setup, by_id = systems[name]
                of.append(server.qps(qps, args.data, query, setup, n, args.seconds, by_id=by_id, warmup=50, warm=args.warm))
        for name in systems:
            row = [name]
            for n in numbers:
                of = sorted(found[name, n], key=lambda r: r["qps"])[ROUNDS // 2]
                row.append(f"{of['qps']:,.0f}, {of['p99_us'] / 1000:.2f}")
            rows.append(row)
            print(*row, sep=" | ", flush=True)
    finally:
        server.stop()
    os.makedirs(args.out, exist_ok=True)
    write_table(f"{args.out}/sessions.md", f"Queries/s, and p99 in ms, by clients; ef_search {args.ef}", ["index"] + [f"{n}" for n in numbers], rows)


if __name__ == "__main__":
    main()
