#!/usr/bin/env python3
"""CREATE INDEX of grnnd (GPU, CPU) against pgvector's hnsw and pgvectorscale's diskann: the same server, the same rows.

  bench.py --pg-config PG_CONFIG --data FOLDER [FOLDER ...] --rows 100000,1000000 --out RESULTS

FOLDER holds base.fbin, query.fbin and gt.ibin (test/bench/README.md says how to
make one).  Rows beyond the folder's are real ones with noise added.  Beside the
statements' times it measures what bounds them: (a) a parallel sequential scan that
computes a distance on every vector, (b) writing and syncing the index's bytes once
(dd conv=fsync), (c) PostgreSQL's own copy of a relation of that size (ALTER INDEX
... SET TABLESPACE), and what grnnd_build_estimate() had said.  --set builds on the GPU
once more under other settings, --systems names what is built, in a server with vectorscale diskann
(by one process) and diskann-parallel as well, --partitions measures a table of that many partitions.
Writes RESULTS/build.md, after each row, and a stacked bar of the phases (PNG, SVG).
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import time

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from common import Server, beam, build_settings, extensions, read_matrix, take, using, write_table  # noqa: E402

COLUMNS = ["data", "rows", "storage", "wal_level", "index", "seconds", "index MB", "recall@10 ef 40", "ef 80",
           "(a) scan s", "(b) dd s", "(c) copy s", "estimated s", "estimated MB", "phases"]
NOISE = 0.25            # of a dimension's deviation, for rows beyond the data's
STREAMS = 8             # sessions that fill a table


def grow(base, n, seed=1):
    """n rows: the base's own, then random ones of them with noise, whole numbers where they are."""
    if n <= len(base):
        return base[:n]
    rng = np.random.default_rng(seed)
    scale = NOISE * np.asarray(base[:10000]).std(0)
    whole = bool((base[:1000] == np.rint(base[:1000])).all())
    out = np.empty((n, base.shape[1]), np.float32)
    out[:len(base)] = base
    for i in range(len(base), n, 65536):
        pick = base[rng.integers(0, len(base), min(65536, n - i))]
        pick = pick + scale * rng.standard_normal(pick.shape, dtype=np.float32)
        out[i:i + len(pick)] = np.clip(np.rint(pick), 0, 255) if whole else pick
    return out


def phases_of(log):
    """Seconds of each phase from the server's debug1 line; "build" is given by its parts."""
    line = next((x for x in log.splitlines() if "grnnd build:" in x), "")
    phases = {k: float(v) for k, v in re.findall(r"([a-z]+) ([0-9]+\.[0-9]+)(?: s|,|\))", line)}
    phases.pop("build", None)
    return phases


def scan_seconds(server, dim):
    probe = "[" + ",".join(["0.5"] * dim) + "]"
    times = []
    for _ in range(3):      # the first one warms the cache
        start = time.time()
        server.sql("SET max_parallel_workers_per_gather = 15; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; "
                   "SET min_parallel_table_scan_size = 0; SET enable_indexscan = off; "
                   f"SELECT count(*) FROM items WHERE v <-> '{probe}' < 0")
        times.append(time.time() - start)
    return min(times[1:])


def dd_seconds(server, size):
    path, times = f"{server.dir}/dd", []
    for _ in range(2):
        start = time.time()
        subprocess.check_call(["dd", "if=/dev/zero", f"of={path}", "bs=1M", f"count={max(size >> 20, 1)}", "conv=fsync"],
                              stderr=subprocess.DEVNULL)
        times.append(time.time() - start)
        os.unlink(path)
    return min(times)


def copy_seconds(server, relation):
    where = f"{server.dir}/space"
    if not os.path.isdir(where):
        os.mkdir(where)
        if server.user:
            shutil.chown(where, server.user)
        server.sql(f"CREATE TABLESPACE other LOCATION '{where}'")
    server.sql("CHECKPOINT")
    start = time.time()
    server.sql(f"ALTER INDEX {relation} SET TABLESPACE other")
    return time.time() - start


class Bench:
    def __init__(self, args):
        self.args, self.rows, self.bars = args, [], []

    def add(self, row, phases=None):
        self.rows.append(row)
        if phases is not None:
            self.bars.append((" ".join(str(x) for x in row[:5]), row[5], phases))
        write_table(f"{self.args.out}/build.md", "CREATE INDEX", COLUMNS, self.rows)

    def index(self, server, name, dim, data, qps, settings=""):
        """One index on items: the columns from "seconds" on, and the phases.  settings: SQL."""
        estimate = ["", ""]
        kind = name.split()[0]
        statement = f"{build_settings(kind)}CREATE INDEX i ON items USING {using(kind)}"
        if kind == "grnnd":
            device = f"SET grnnd.build_device = {name.split()[1]}; {settings}"
            statement = device + statement
            said = server.sql(device + "SELECT seconds, index_bytes FROM grnnd_build_estimate('items', 'v')")[0].split("|")
            estimate = [float(said[0]), int(said[1]) / 1e6]
        server.sql("CHECKPOINT")
        times = []
        for _ in range(self.args.repeat if name == "grnnd gpu" else 1):
            server.sql("DROP INDEX IF EXISTS i")
            times.append(server.create_index(statement))
        seconds, log = min(times)
        size = server.size("i")
        recalls = ["", ""] if data is None else [
            f"{server.qps(qps, data, 'SELECT id FROM items ORDER BY v <-> $1 LIMIT 10', 'SET enable_seqscan = off; ' + beam(kind, ef), 1, 1)['recall']:.4f}"
            for ef in (40, 80)]
        bounds = ["", "", ""]
        if self.args.bounds and not settings and (name == "grnnd gpu" or name == self.args.systems.split(",")[0]):
            bounds = [scan_seconds(server, dim), dd_seconds(server, size), copy_seconds(server, "i")]
        server.sql("DROP INDEX i")
        phases = phases_of(log)
        text = " ".join(f"{k} {v:.3f}" for k, v in phases.items())
        return [seconds, size / 1e6, *recalls, *bounds, *estimate, text], phases

    def table(self, folder, n, storage):
        """All indexes on n rows, at each wal_level."""
        args = self.args
        name, whole = os.path.basename(folder.rstrip("/")), read_matrix(f"{folder}/base.fbin")
        base = grow(whole, n)
        data = None
        if args.recall and n <= len(whole):
            data = take(folder, f"{args.out}/{name}-{n}.data", n)
        levels = args.wal_level.split(",")
        server = Server(args.pg_config, settings={
            "shared_buffers": args.shared_buffers, "maintenance_work_mem": args.memory, "max_wal_size": "64GB",
            "max_parallel_maintenance_workers": str(args.workers), "max_worker_processes": "64",
            "max_parallel_workers": "64", "wal_level": levels[0], "max_wal_senders": "0"})
        try:
            qps = server.build_qps() if data else None
            server.sql(extensions(args.systems.split(",")) + " CREATE EXTENSION grnnd_tools;")
            server.load("items", base, storage, STREAMS)
            for level in levels:
                if level != levels[0]:
                    server.restart(wal_level=level)
                    server.sql("SELECT count(*) FROM items WHERE v IS NULL")
                first = {}
                for system in args.systems.split(","):
                    if not system.startswith("grnnd") and level != levels[0]:
                        continue
                    result, phases = self.index(server, system, base.shape[1], data, qps)
                    first[system] = result[0]
                    self.add([name, n, storage, level, system, *result], phases)
                    for text in args.set if system == "grnnd gpu" else []:
                        settings = "".join(f"SET {x.strip()}; " for x in text.split(";"))
                        result, phases = self.index(server, system, base.shape[1], data, qps, settings)
                        self.add([name, n, storage, level, f"{system}, {text}", *result], phases)
                for system, seconds in first.items():
                    if "pgvector" in first and system.startswith("grnnd"):
                        self.add([name, n, storage, level, f"pgvector / {system}", first["pgvector"] / seconds] + [""] * 9)
            if args.partitions:
                self.partitions(server, name, n, storage)
        finally:
            server.stop()

    def partitions(self, server, name, n, storage):
        """One statement on a table of many partitions, with the rows of items."""
        server.sql(f"CREATE TABLE parted (LIKE items) PARTITION BY HASH (id); ALTER TABLE parted ALTER v SET STORAGE {storage}; "
                   f"SELECT format('CREATE TABLE p%s PARTITION OF parted FOR VALUES WITH (MODULUS {self.args.partitions}, "
                   f"REMAINDER %s)', i, i) FROM generate_series(0, {self.args.partitions - 1}) i \\gexec\n"
                   "INSERT INTO parted SELECT * FROM items; VACUUM (FREEZE, ANALYZE) parted; CHECKPOINT")
        for system in self.args.systems.split(","):
            if not system.startswith("grnnd"):
                continue
            seconds, log = server.create_index(f"SET grnnd.build_device = {system.split()[1]}; CREATE INDEX j ON parted USING grnnd (v)")
            lines = [x for x in log.splitlines() if "grnnd build:" in x]
            server.sql("DROP INDEX j")
            device = sum(phases_of(x).get("device", 0) for x in lines)
            self.add([name, n, storage, "", f"{system}, {len(lines)} partitions", seconds] + [""] * 8 + [f"device {device:.3f}"])

    def plot(self):
        import matplotlib
        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
        figure, axis = plt.subplots(figsize=(10, 0.45 * len(self.bars) + 1.5))
        names = []
        for _, _, phases in self.bars:
            names += [p for p in phases if p not in names]
        for i, (_, seconds, phases) in enumerate(self.bars):
            left = 0.0
            for p, v in phases.items():
                axis.barh(i, v, left=left, color=f"C{names.index(p)}", label=p)
                left += v
            axis.barh(i, max(seconds - left, 0), left=left, color="lightgrey", label="other")
        axis.set_yticks(range(len(self.bars)), [b[0] for b in self.bars], fontsize="small")
        axis.invert_yaxis()
        handles = dict(zip(*reversed(axis.get_legend_handles_labels())))
        axis.legend(handles.values(), handles.keys(), fontsize="small")
        axis.set_xlabel("seconds")
        axis.set_xscale("symlog", linthresh=1)
        axis.set_xlim(left=0)
        figure.tight_layout()
        for kind in ("png", "svg"):
            figure.savefig(f"{self.args.out}/build.{kind}", dpi=90)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pg-config", required=True)
    parser.add_argument("--data", required=True, nargs="+")
    parser.add_argument("--rows", default="100000")
    parser.add_argument("--systems", default="grnnd gpu,grnnd cpu,pgvector")
    parser.add_argument("--wal-level", default="minimal", help="minimal,replica: one after the other; what is not grnnd at the first only")
    parser.add_argument("--storage", default="plain",
                        help="plain,external: external vectors past 2 kB are TOASTed, as they are by default")
    parser.add_argument("--set", action="append", default=[], metavar="'NAME = VALUE; ...'",
                        help="settings under which the GPU builds once more")
    parser.add_argument("--partitions", type=int, default=0)
    parser.add_argument("--repeat", type=int, default=2, help="builds on a GPU, of which the best counts")
    parser.add_argument("--no-recall", dest="recall", action="store_false")
    parser.add_argument("--no-bounds", dest="bounds", action="store_false", help="leave (a), (b) and (c) out")
    parser.add_argument("--shared-buffers", default="8GB")
    parser.add_argument("--workers", type=int, default=max(os.cpu_count() - 1, 1))
    parser.add_argument("--memory", default="16GB", help="maintenance_work_mem")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    bench = Bench(args)
    for folder in args.data:
        for n in (int(x) for x in args.rows.split(",")):
            for storage in args.storage.split(","):
                bench.table(folder, n, storage)
    bench.plot()


if __name__ == "__main__":
    main()
