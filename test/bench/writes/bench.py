#!/usr/bin/env python3
"""Writes of grnnd against pgvector's hnsw and pgvectorscale's diskann: the same server, the same rows.

  bench.py --pg-config PG_CONFIG --data FOLDER [--rows N] [--part NAME ...] --out RESULTS

FOLDER holds base.fbin and query.fbin (test/bench/README.md).  The parts:
  insert   WAL bytes, buffers and time of an insert into a built index, of a COPY, of an
           UPDATE that keeps the vector
  clients  inserts a second by 1, 2, 4, 8 clients (--clients), without waiting for the disk
  grow     CREATE TABLE, CREATE INDEX, then single inserts: recall and buffers of queries
           at several sizes, against a REINDEX
  vacuum   time and WAL of VACUUM after half of the rows are deleted; recall after
           deleting three quarters, against a REINDEX; size after the deleted rows return
--system names what is measured: grnnd, pgvector, and where the server has vectorscale diskann
(built by one process) or diskann-parallel.  full_page_writes is off, so WAL bytes are those of an insert between checkpoints.
"""
import argparse
import os
import re
import subprocess
import sys
import time

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from common import SYSTEMS, Server, beam, build_settings, extensions, read_matrix, using, write_table  # noqa: E402

DEFAULT_SYSTEMS = ["grnnd", "pgvector"]


class Bench:
    def __init__(self, args):
        self.args = args
        self.base = np.array(read_matrix(f"{args.data}/base.fbin")[:args.rows])
        self.query = np.array(read_matrix(f"{args.data}/query.fbin")[:args.queries])
        np.random.default_rng(1).shuffle(self.base)
        self.dim = self.base.shape[1]
        self.server = Server(args.pg_config, settings={
            "shared_buffers": args.shared_buffers, "full_page_writes": "off", "synchronous_commit": "off",
            "max_wal_size": "64GB", "track_io_timing": "off"})
        self.sql(extensions(args.systems))
        self.server.load("rest", self.base)
        self.server.load("q", self.query)
        self.sql("CREATE UNIQUE INDEX ON rest (id)")

    def sql(self, text):
        return self.server.sql(text)[0]

    def table(self, system, rows, index_first=False):
        """Table t of the first rows with an index of that system; returns seconds of CREATE INDEX."""
        self.sql(f"DROP TABLE IF EXISTS t; CREATE TABLE t (id int, v vector({self.dim}), n int DEFAULT 0) "
                 "WITH (autovacuum_enabled = off); ALTER TABLE t ALTER v SET STORAGE plain; "
                 f"INSERT INTO t SELECT id, v FROM rest WHERE id < {rows} ORDER BY id; VACUUM ANALYZE t; CHECKPOINT")
        return self.server.create_index(f"{build_settings(system)}CREATE INDEX t_v ON t USING {using(system)}")[0]

    def cost(self, text):
        """Seconds, WAL bytes and buffers touched by one statement (commit's included in neither)."""
        self.sql("CHECKPOINT")
        start = self.sql("SELECT pg_current_wal_insert_lsn()")
        out = self.sql(f"EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) {text}")
        wal = float(self.sql(f"SELECT pg_current_wal_insert_lsn() - '{start}'"))
        ms = float(re.search(r"Execution Time: ([\d.]+)", out).group(1))
        shared = next(line for line in out.split("\n") if "Buffers: shared" in line)
        buffers = sum(int(n) for n in re.findall(r"(?:hit|read)=(\d+)", shared))
        return ms / 1e3, wal, buffers

    def write_cost(self, system, text, text_per_row, rows):
        """cost() a row, less that of the same statement on a table without the index."""
        with_index = self.cost(text)
        without = self.cost(text_per_row)
        return [(a - b) / rows for a, b in zip(with_index, without)]

    def recall(self, system, live, efs, k=10):
        """(recall@k, buffers a query) at each ef_search, over rows `live` of the table."""
        ids = np.flatnonzero(live)
        rows = self.base[ids]
        norms = (rows * rows).sum(1)
        truth = []
        for q in np.array_split(self.query, max(len(self.query) // 100, 1)):
            d = norms[None] - 2 * q @ rows.T
            truth.append(np.sort(np.take_along_axis(d, np.argpartition(d, k, 1)[:, :k], 1), 1)[:, -1])
        # ties count: whatever is as near as the k-th is right
        worst = np.concatenate(truth) + (self.query * self.query).sum(1)
        out = []
        for ef in efs:
            text = "SELECT q.id, array(SELECT id FROM t ORDER BY v <-> q.v LIMIT %d) FROM q ORDER BY 1" % k
            settings = f"SET enable_seqscan = off; {beam(system, ef)}; SET max_parallel_workers_per_gather = 0;"
            found = self.sql(settings + text)
            hits = 0
            for line in found.split("\n"):
                i, got = line.split("|")
                got = np.array([int(x) for x in got.strip("{}").split(",") if x], int)
                d = ((self.base[got] - self.query[int(i)]) ** 2).sum(1)
                hits += int((d <= worst[int(i)] * (1 + 1e-5)).sum())
            plan = self.sql(settings + f"EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) {text}")
            assert "t_v" in plan
            shared = next(line for line in plan.split("\n") if "Buffers: shared" in line)
            buffers = sum(int(n) for n in re.findall(r"(?:hit|read)=(\d+)", shared)) / len(self.query)
            out.append((hits / (k * len(self.query)), buffers))
        return out

    def check(self, system):
        if system == "grnnd":
            bad = self.sql("SELECT count(*) FROM grnnd_check('t_v', true)")
            assert bad == "0", f"grnnd_check: {bad} violations"

    # ---- parts ----

    def insert(self):
        n, more = len(self.base), min(self.args.inserts, len(self.base) // 4)
        rows = []
        for system in self.args.systems:
            self.table(system, n - 2 * more)
            self.sql("DROP TABLE IF EXISTS bare; CREATE TABLE bare (LIKE t INCLUDING STORAGE INCLUDING DEFAULTS); "
                     "CREATE TABLE IF NOT EXISTS bare2 (LIKE t)")

            def select(table, first):
                return (f"INSERT INTO {table} SELECT id, v FROM rest WHERE id >= {first} "
                        f"AND id < {first + more} ORDER BY id")
            self.sql(select("bare", 0))
            single = self.write_cost(system, select("t", n - 2 * more), select("bare", n - 2 * more), more)
            # the second index makes an UPDATE of n a new version that every index must hear of
            for t in ("t", "bare"):
                self.sql(f"CREATE INDEX ON {t} (n); VACUUM ANALYZE {t}")
            first = n - 2 * more
            update = self.write_cost(system, f"UPDATE t SET n = n + 1 WHERE id >= {first} AND id < {first + more}",
                                     f"UPDATE bare SET n = n + 1 WHERE id >= {first} AND id < {first + more}", more)
            last = n - more
            copy = self.copy("t", last, n), self.copy("bare", last, n)
            self.check(system)
            for what, (s, wal, buffers) in (("INSERT", single), ("UPDATE, vector kept", update)):
                rows.append([system, what, s * 1e6, wal, buffers])
            rows.append([system, "COPY", (copy[0] - copy[1]) / more * 1e6, "", ""])
        write_table(f"{self.args.out}/insert.md", f"{n} rows, {more} written one by one, table's own cost subtracted",
                    ["index", "statement", "us a row", "WAL bytes a row", "buffers a row"], rows)

    def copy(self, table, first, last):
        self.sql(f"COPY (SELECT id, v, 0 FROM rest WHERE id >= {first} AND id < {last} ORDER BY id) "
                 f"TO '{self.server.dir}/data/copy.bin' (FORMAT binary)")
        start = time.time()
        self.sql(f"COPY {table} FROM '{self.server.dir}/data/copy.bin' (FORMAT binary)")
        return time.time() - start

    def clients(self):
        n = len(self.base)
        rows = []
        script = f"{self.server.dir}/insert.sql"
        with open(script, "w") as f:
            f.write("INSERT INTO t SELECT id, v FROM rest WHERE id = (SELECT nextval('next')::int);\n")
        for system in self.args.systems:
            for clients in self.args.clients:
                each = max(min(self.args.inserts * 2, n // 4) // clients, 1)
                self.table(system, n - each * clients)
                self.sql(f"DROP SEQUENCE IF EXISTS next; CREATE SEQUENCE next MINVALUE 0 START {n - each * clients} CACHE 1")
                start = self.sql("SELECT pg_current_wal_insert_lsn()")
                out = subprocess.check_output(
                    [f"{self.server.bin}/pgbench", "-n", "-M", "prepared", "-c", str(clients), "-j", str(clients), "-t",
                     str(each), "-f", script, "-h", self.server.dir, "-U", "bench", "postgres"], text=True,
                    env=dict(os.environ, LD_LIBRARY_PATH=self.server.lib))
                wal = float(self.sql(f"SELECT pg_current_wal_insert_lsn() - '{start}'"))
                self.check(system)
                rows.append([system, clients, float(re.search(r"tps = ([\d.]+)", out).group(1)),
                             wal / (each * clients), 1e3 * float(re.search(r"latency average = ([\d.]+)", out).group(1))])
        write_table(f"{self.args.out}/clients.md", f"Inserts by several clients, {n} rows in the end",
                    ["index", "clients", "inserts/s", "WAL bytes a row, table's included", "us an insert"], rows)

    def grow(self):
        sizes = [s for s in self.args.sizes if s <= len(self.base)]
        rows = []
        for system in self.args.systems:
            self.table(system, 0)
            done = 0
            for size in sizes:
                start = time.time()
                self.sql(f"INSERT INTO t SELECT id, v FROM rest WHERE id >= {done} AND id < {size} ORDER BY id")
                seconds = time.time() - start
                self.sql("VACUUM ANALYZE t")
                live = np.arange(len(self.base)) < size
                grown = self.recall(system, live, self.args.ef)
                grown_size = self.server.size("t_v")
                self.check(system)
                self.sql(f"{build_settings(system)}CREATE INDEX t_fresh ON t USING {using(system)}; ALTER INDEX t_v RENAME TO t_old; "
                         "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 't_old'::regclass; "
                         "ALTER INDEX t_fresh RENAME TO t_v;")
                fresh = self.recall(system, live, self.args.ef)
                for ef, a, b in zip(self.args.ef, grown, fresh):
                    rows.append([system, size, ef, a[0], b[0], a[1], b[1], grown_size / self.server.size("t_v"),
                                 seconds / (size - done) * 1e6])
                self.sql("DROP INDEX t_v; ALTER INDEX t_old RENAME TO t_v; "
                         "UPDATE pg_index SET indisvalid = true WHERE indexrelid = 't_v'::regclass;")
                done = size
        write_table(f"{self.args.out}/grow.md", "An index created on an empty table, filled by inserts, and a fresh one",
                    ["index", "rows", "ef_search", "recall@10", "fresh", "buffers/query", "fresh", "size / fresh",
                     "us an insert"], rows)

    def vacuum(self):
        n = len(self.base)
        rows = []
        for system in self.args.systems:
            create = self.table(system, n)
            size = self.server.size("t_v")
            for part, keep in (("half", 2), ("three quarters", 4)):
                live = np.arange(n) % keep == 0
                self.sql(f"DELETE FROM t WHERE id % {keep} <> 0")
                start = self.sql("SELECT pg_current_wal_insert_lsn()")
                log = self.server.sql("VACUUM (PARALLEL 0, VERBOSE) t")[1]
                in_user, in_kernel, seconds = map(float, re.findall(
                    r"CPU: user: ([\d.]+) s, system: ([\d.]+) s, elapsed: ([\d.]+) s", log)[0])
                wal = float(self.sql(f"SELECT pg_current_wal_insert_lsn() - '{start}'"))
                self.check(system)
                left = self.recall(system, live, self.args.ef)
                fresh = [(None, None)] * len(self.args.ef)
                if keep == 4:
                    self.sql(f"{build_settings(system)}CREATE INDEX t_fresh ON t USING {using(system)}; ALTER INDEX t_v RENAME TO t_old; "
                             "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 't_old'::regclass; "
                             "ALTER INDEX t_fresh RENAME TO t_v;")
                    fresh = self.recall(system, live, self.args.ef)
                    self.sql("DROP INDEX t_v; ALTER INDEX t_old RENAME TO t_v; "
                             "UPDATE pg_index SET indisvalid = true WHERE indexrelid = 't_v'::regclass;")
                for ef, a, b in zip(self.args.ef, left, fresh):
                    rows.append([system, part, seconds, in_user + in_kernel, create, wal / 1e6, ef, a[0], b[0] or "", a[1], b[1] or ""])
            self.sql("INSERT INTO t SELECT id, v FROM rest WHERE id % 4 <> 0 ORDER BY id; VACUUM ANALYZE t")
            self.check(system)
            full = self.recall(system, np.ones(n, bool), self.args.ef)
            for ef, a in zip(self.args.ef, full):
                rows.append([system, f"refilled, size x {self.server.size('t_v') / size:.3f}", "", "", "", "", ef, a[0], "", a[1], ""])
        write_table(f"{self.args.out}/vacuum.md", f"VACUUM of {n} rows",
                    ["index", "deleted", "VACUUM s", "of which CPU", "CREATE INDEX s", "WAL MB", "ef_search", "recall@10", "fresh",
                     "buffers/query", "fresh"], rows)


def main():
    parts = ("insert", "clients", "grow", "vacuum")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pg-config", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--part", action="append", choices=parts)
    parser.add_argument("--system", dest="systems", action="append", choices=SYSTEMS)
    parser.add_argument("--inserts", type=int, default=1000)
    parser.add_argument("--clients", type=lambda s: [int(x) for x in s.split(",")], default=[1, 2, 4, 8])
    parser.add_argument("--ef", type=lambda s: [int(x) for x in s.split(",")], default=[40, 100])
    parser.add_argument("--sizes", type=lambda s: [int(x) for x in s.split(",")], default=[1000, 10000, 50000])
    parser.add_argument("--shared-buffers", default="2GB")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    args.systems = args.systems or DEFAULT_SYSTEMS
    os.makedirs(args.out, exist_ok=True)
    bench = Bench(args)
    try:
        for part in args.part or parts:
            getattr(bench, part)()
    finally:
        bench.server.stop()


if __name__ == "__main__":
    main()
