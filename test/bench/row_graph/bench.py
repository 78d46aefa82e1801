#!/usr/bin/env python3
"""grnnd_graph() over a table: seconds by phase, and recall against the exact graph.

  bench.py --pg-config PG_CONFIG [--data FOLDER] --out RESULTS [--rows N,...] [--k 10] [--efs 10,20,40,80]
           [--device auto|gpu|cpu] [--exact-rows N] [--parallel N]

FOLDER holds base.fbin (test/bench/README.md); without it rows are random.  For each number of rows and each ef: the whole statement
by the clock (its answer is counted, no row goes to the client), then the phases that the server
logs, and recall@k, by 1,000 rows whose nearest numpy finds among all.  With at most --exact-rows rows
(100,000 if not given) also the exact graph, on cores.  Writes RESULTS/row_graph.md.
"""
import argparse
import os
import re
import sys
import time

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from common import Server, machine, random_rows, read_matrix, write_table  # noqa: E402

SAMPLE = 1000
SPARE = 10              # more candidates, whose order by float32 is not sure
BLOCK = 50000           # rows that are compared at once
PHASES = ["collect", "build", "device", "graph", "codes", "output"]


def farthest(base, ids, k):
    """[ids] the distance by L2 of the k-th nearest row of each, itself left out.

    By float32, those are found that are nearer than the k-th of the first block's rows is; they are measured in float64."""
    query, bound, found = np.array(base[ids]), None, []
    for first in range(0, len(base), BLOCK):
        part = np.array(base[first:first + BLOCK])
        d = (-2 * query) @ part.T
        d += np.einsum("ij,ij->i", part, part)
        if bound is None:
            bound = np.partition(d, min(k + SPARE, len(part) - 1), axis=1)[:, min(k + SPARE, len(part) - 1), None]
        of, near = np.nonzero(d <= bound)
        exact = ((part[near].astype(np.float64) - query[of]) ** 2).sum(1)
        other = near + first != ids[of]
        found.append((of[other], exact[other]))
    of, exact = (np.concatenate(x) for x in zip(*found))
    order = np.lexsort((exact, of))
    return np.sqrt(exact[order][np.searchsorted(of[order], np.arange(len(ids))) + k - 1])


def recall(server, ids, truth, k, call):
    """Share of the graph's neighbors of a sample of rows that are as near as the k-th nearest row."""
    pairs = ", ".join(f"({i}, {d!r}::float8)" for i, d in zip(ids.tolist(), truth.tolist()))
    found, _ = server.sql(f"""SELECT count(*) FROM {call} AS g (item int, neighbor int, distance float8)
        JOIN (VALUES {pairs}) s (id, far) ON g.item = s.id WHERE g.distance <= s.far * (1 + 1e-5) + 1e-5""")
    return float(found) / (len(ids) * k)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pg-config", required=True)
    parser.add_argument("--data")
    parser.add_argument("--out", required=True)
    parser.add_argument("--rows", default="100000")
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--efs", default="10,20,40,80")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--exact-rows", type=int, default=100000)
    parser.add_argument("--parallel", type=int, default=os.cpu_count())
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    most = max(map(int, args.rows.split(",")))
    base = read_matrix(f"{args.data}/base.fbin") if args.data else random_rows(most)
    server = Server(args.pg_config, settings={
        "shared_buffers": "4GB", "maintenance_work_mem": "8GB", "work_mem": "1GB", "grnnd.build_device": args.device,
        "max_parallel_maintenance_workers": str(max(args.parallel - 1, 0))})
    rows = []
    try:
        server.sql("CREATE EXTENSION grnnd_tools CASCADE;")
        for n in (min(int(x), len(base)) for x in args.rows.split(",")):
            server.sql("DROP TABLE IF EXISTS items")
            server.load("items", base[:n], streams=min(8, args.parallel))
            ids = np.random.default_rng(5).choice(n, min(SAMPLE, n), replace=False)
            truth = farthest(base[:n], ids, args.k)
            calls = [(f"ef {ef}", f"ef_search => {ef}") for ef in args.efs.split(",")]
            calls += [("exact", "exact => true")] if n <= args.exact_rows else []
            for name, argument in calls:
                start = time.time()
                _, log = server.sql("SET client_min_messages = debug1; "
                                    f"SELECT count(*) FROM grnnd_graph('items', 'v', {args.k}, {argument});")
                seconds = time.time() - start
                line = re.search(r"grnnd graph: .*", log).group(0)
                phases = [float(re.search(rf"{phase} ([\d.]+)", line).group(1)) for phase in PHASES]
                device = re.search(r"device (\w+),", line).group(1)
                share = recall(server, ids, truth, args.k, f"grnnd_graph_by('items', 'v', 'id', {args.k}, {argument})")
                rows.append([n, name, "cores" if name == "exact" else device, seconds, *phases, share])
                print(*rows[-1], flush=True)
            write_table(f"{args.out}/row_graph.md", f"grnnd_graph(): {base.shape[1]} dimensions, k = {args.k}",
                        ["rows", "search", "device", "seconds", *(f"{x} s" for x in PHASES), f"recall@{args.k}"],
                        rows, machine())
    finally:
        server.stop()


if __name__ == "__main__":
    main()
