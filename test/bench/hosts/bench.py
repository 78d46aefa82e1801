"""Shards with a core each, beside one server with as many cores: queries a second at one recall, and p99.

  bench.py --pg-config PG_CONFIG [--data FOLDER | --rows 60000] [--shards 4] [--clients 2] [--out results.md]

PG_CONFIG names a server with grnnd, pgvector and postgres_fdw (postgres_fdw.sh beside this makes the last for a
server that lacks it); FOLDER holds base.fbin and query.fbin; without it so many random rows are asked. Shard i has the i-th part of the rows and core
i alone; the one server has the cores of all shards. The server that clients ask of the shards (front), and the
clients, have the cores behind those where the machine has as many again, else the same cores.

Queries of one tenant are those of one shard's rows. They are asked of the shards by their own clients, and of the
one server by a filter column.
"""
import argparse
import concurrent.futures
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from common import Server, random_rows, read_matrix, save_matrix, write_table

QUERIES = 500
LONGEST = 5             # seconds, to find the recall of one width
EFS = (10, 20, 40, 80, 120, 160, 240, 320, 480, 640)


class Pinned(Server):
    """A server whose processes have these cores alone."""

    def __init__(self, cores, *rest, **named):
        self.cores = cores
        super().__init__(*rest, **named)

    def start(self):
        mine = os.sched_getaffinity(0)
        os.sched_setaffinity(0, self.cores)
        super().start()
        os.sched_setaffinity(0, mine)

    def width(self, ef):
        self.sql(f"ALTER DATABASE postgres SET grnnd.ef_search = {ef}")


def truth_of(folder, rows, query, first):
    """A data folder for the queries of those rows, whose ids begin at first."""
    os.makedirs(folder, exist_ok=True)
    norms = (rows * rows).sum(1)
    near = [np.argsort(norms[None] - 2 * q @ rows.T, axis=1)[:, :100] + first for q in np.array_split(query, 10)]
    save_matrix(f"{folder}/query.fbin", query)
    save_matrix(f"{folder}/gt.ibin", np.concatenate(near).astype(np.int32))
    return folder


def together(runs):
    """Several qps() at the same time as one: [function] -> {qps, recall, p50_us, p99_us}."""
    with concurrent.futures.ThreadPoolExecutor(len(runs)) as pool:
        got = list(pool.map(lambda run: run(), runs))
    return {"qps": sum(g["qps"] for g in got), "recall": sum(g["recall"] for g in got) / len(got),
            "p50_us": max(g["p50_us"] for g in got), "p99_us": max(g["p99_us"] for g in got)}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--pg-config", required=True)
    p.add_argument("--data")
    p.add_argument("--rows", type=int, default=60000)
    p.add_argument("--shards", type=int, default=4)
    p.add_argument("--clients", type=int, help="for each shard; as many times the shards for the one server", default=2)
    p.add_argument("--recall", type=float, default=.95)
    p.add_argument("--seconds", type=float, default=5)
    p.add_argument("--shared-buffers", default="2GB")
    p.add_argument("--out", default="results.md")
    args = p.parse_args()

    n, cpus = args.shards, sorted(os.sched_getaffinity(0))
    cores, rest = cpus[:n], cpus[n:2 * n] or cpus
    if len(cores) < n:
        sys.exit(f"{n} shards want {n} cores, here are {len(cpus)}")
    settings = {"shared_buffers": args.shared_buffers, "maintenance_work_mem": "1GB", "fsync": "off",
                "grnnd.background_fit": "off", "max_parallel_workers_per_gather": "0"}
    if args.data:
        base, query = read_matrix(f"{args.data}/base.fbin"), np.array(read_matrix(f"{args.data}/query.fbin"))[:QUERIES]
    else:
        base = random_rows(args.rows + QUERIES)
        base, query = base[:args.rows], base[args.rows:]
    bounds = np.linspace(0, len(base), n + 1).astype(int)
    dim = base.shape[1]

    one = Pinned(set(cores), args.pg_config, settings=settings)
    shards = [Pinned({core}, args.pg_config, settings=settings) for core in cores]
    front = Pinned(set(rest), args.pg_config, settings=settings)
    servers = [one, *shards, front]
    try:
        os.sched_setaffinity(0, set(cpus[2 * n:] or rest))
        folders = []
        for server in servers:
            server.sql("CREATE EXTENSION grnnd_tools CASCADE")
        one.load("rows", base)
        one.sql("CREATE TABLE t AS SELECT id, v, CASE " + " ".join(
            f"WHEN id < {b} THEN {i}" for i, b in enumerate(bounds[1:])) + " END AS part FROM rows; DROP TABLE rows; "
            "CREATE INDEX ON t USING grnnd (v, part); VACUUM (FREEZE, ANALYZE) t")
        front.sql(f"CREATE EXTENSION postgres_fdw; CREATE TABLE t (part int, id int, v vector({dim})) PARTITION BY LIST (part)")
        for i, shard in enumerate(shards):
            shard.sql(f"CREATE TABLE t (id int, v vector({dim}), part int DEFAULT {i})")
            rows = np.array(base[bounds[i]:bounds[i + 1]])
            shard.copy("t (id, v)", rows, bounds[i])
            shard.sql("CREATE INDEX ON t USING grnnd (v); VACUUM (FREEZE, ANALYZE) t")
            folders.append(truth_of(f"{front.dir}/part{i}", rows, query, bounds[i]))
            front.sql(f"CREATE SERVER s{i} FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '{shard.dir}', dbname 'postgres', "
                      f"extensions 'vector, grnnd_tools', async_capable 'true', parallel_commit 'true'); "
                      f"CREATE USER MAPPING FOR bench SERVER s{i} OPTIONS (user 'bench'); "
                      f"CREATE FOREIGN TABLE t_{i} PARTITION OF t FOR VALUES IN ({i}) SERVER s{i} OPTIONS (table_name 't')")
        everything = truth_of(f"{front.dir}/all", np.array(base), query, 0)
        binary = front.build_qps()

        def ask(server, folder, text, clients):
            def run(measure):
                return server.qps(binary, folder, text, clients=clients if measure else 1, warmup=20,
                                  seconds=args.seconds if measure else LONGEST, queries=0 if measure else len(query))
            return run

        plain = "SELECT id FROM t ORDER BY v <-> $1 LIMIT 10"
        branches = " UNION ALL ".join(f"(SELECT id, v <-> $1 AS d FROM t_{i} ORDER BY v <-> $1 LIMIT 10)" for i in range(n))
        many = n * args.clients
        # what, the servers whose width counts, [what is asked at the same time]
        ways = [
            ("all rows", "one server", [one], [ask(one, everything, plain, many)]),
            ("all rows", "shards, grnnd_search()", shards, [ask(front, everything,
                "SELECT (hit).id FROM grnnd_search(NULL::t, 'v', '<->', $1::vector, 10)", many)]),
            ("all rows", "shards, the statement prepared", shards, [ask(front, everything,
                f"WITH h AS MATERIALIZED ({branches}) SELECT id FROM h ORDER BY d LIMIT 10", many)]),
            ("all rows", "shards, the partitioned table", shards, [ask(front, everything, plain, many)]),
            ("a tenant", "one server", [one], [ask(one, folder, f"SELECT id FROM t WHERE part = {i} ORDER BY v <-> $1 LIMIT 10",
                args.clients) for i, folder in enumerate(folders)]),
            ("a tenant", "one shard alone", shards, [ask(shards[0], folders[0], plain, args.clients)]),
            ("a tenant", "shards, all asked by their own clients", shards,
                [ask(s, f, plain, args.clients) for s, f in zip(shards, folders)]),
            ("a tenant", "shards, grnnd_search() with a filter", shards, [ask(front, f,
                "SELECT (hit).id FROM grnnd_search(NULL::t, 'v', '<->', $1::vector, 10, '{\"part\": %d}')" % i, args.clients)
                for i, f in enumerate(folders)]),
        ]
        table = []
        for queries, name, asked, runs in ways:
            for ef in EFS:
                for server in asked:
                    server.width(ef)
                found = together([lambda run=run: run(False) for run in runs])
                if found["recall"] >= args.recall:
                    break
            got = together([lambda run=run: run(True) for run in runs])
            table.append((queries, name, ef, found["recall"], got["qps"], got["p50_us"] / 1000, got["p99_us"] / 1000))
            print(table[-1], flush=True)
        write_table(args.out, f"{n} shards with a core each, one server with {n}: {len(base):,} x {dim}, {args.clients} "
                    f"clients a shard, recall@10 {args.recall} or more",
                    ["queries of", "asked of", "ef_search", "recall@10", "queries/s", "p50, ms", "p99, ms"], table)
    finally:
        for server in servers:
            server.stop()


if __name__ == "__main__":
    main()
