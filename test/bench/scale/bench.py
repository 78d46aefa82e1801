#!/usr/bin/env python3
"""CREATE INDEX of up to a hundred million rows on one host, and queries on it.

  bench.py --pg-config PG_CONFIG --images BSDS500.tar --rows 1000000,10000000,100000000 --work FOLDER --out RESULTS

Rows are SIFT descriptors of the photographs (or, with --base FOLDER, those of base.fbin) as halfvec or --type vector, and beyond their
number the same with noise; with --fingerprint all rows and queries are drawn, as like them as fingerprint.py makes rows.  One table grows from each number of rows to the next, and of each number each --with is built in turn:
the storage parameters of an index, "layout = compact" if none is given.  For each it reports: COPY by as many sessions as cores;
what grnnd_build_estimate() says; CREATE INDEX with its phases, its memory, the longest stretch in which only one thread is at work,
how each phase's progress moves; what bounds it (a parallel scan that computes distances, the disk's rate); recall@10 at several ef
by exact truth of 1,000 queries; queries/s of --clients clients; the first query after the caches were dropped; with --little the
queries/s of all clients in a cgroup with memory for that share of the index; with --cancels how long a canceled build goes on.
Writes RESULTS/scale.md after each step, RESULTS/scale.json and a plot of time and memory by rows.

The load runs with fsync = off and, with --wal, writes WAL to another folder; before CREATE INDEX all is synced and fsync is on
again.  Clusters have no data checksums, so that hint bits need no WAL.  After --limit seconds it begins nothing that takes long.
"""
import argparse
import json
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
sys.path.insert(0, HERE)
from common import Cgroup, Server, machine  # noqa: E402
import rows as rows_of  # noqa: E402
from watch import Watch, read  # noqa: E402

WIDTHS = (40, 56, 80, 112, 160, 224, 320, 448, 640, 800, 1600, 3200)     # (grnnd.ef_search is at most 10,000)
GOALS = (0.95, 0.99)
MB_PER_CLIENT = 5       # a backend's own memory
SETUP = "SET enable_seqscan = off; SET jit = off; SET grnnd.ef_search = {}"
PIECES_AHEAD = 64       # of 70 MB each, that lie ready for COPY
WRITE_BYTES = 4 << 30   # written for the disk's rate
BEGUN = time.time()


def say(*words):
    print(f"[{time.time() - BEGUN:6.1f}]", *words, flush=True)


def touch(gigabytes, processes):
    """Writes to so much memory once: some virtual machines get theirs as it is used."""
    def one():
        import mmap
        piece = mmap.mmap(-1, int(gigabytes / processes * (1 << 30)))
        for i in range(0, len(piece), 4096):
            piece[i] = 1
        os._exit(0)
    for _ in range(processes):
        if os.fork() == 0:
            one()
    for _ in range(processes):
        os.wait()


def disk_reads(folder):
    """Of the disk below a folder so far: reads, MB that they brought, seconds that requests have waited in all."""
    device = os.stat(folder).st_dev
    part = [int(x) for x in read(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat").split()]
    return part[0], part[2] * 512 / 1e6, part[10] / 1e3


def query_of(kind, dim):
    """The ten rows nearest to $1, for a column of that type."""
    return "SELECT id FROM items ORDER BY v <-> $1::vector" + (f"::halfvec({dim})" if kind == "halfvec" else "") + " LIMIT 10"


class Loader:
    """The table items, and the process that makes its rows."""

    def __init__(self, args, server, sizes):
        self.args, self.server = args, server
        # in the server's reach, and in memory where that is large enough
        self.scratch = tempfile.mkdtemp(prefix="grnnd-rows-", dir=args.scratch)
        os.chmod(self.scratch, 0o755)
        context = multiprocessing.get_context("spawn")
        self.wanted, self.ready, self.room = context.Queue(), context.Queue(), context.Semaphore(PIECES_AHEAD)
        self.process = context.Process(target=rows_of.make, args=(
            args, sizes, self.scratch, args.work, self.wanted, self.ready, self.room))
        self.process.start()
        while self.ready.empty():
            time.sleep(0.05)
            if self.process.exitcode is not None:
                sys.exit("the process that makes rows has failed")
        self.dim = self.ready.get()[1]
        server.sql(f"CREATE TABLE items (id int, v {args.type}({self.dim})); ALTER TABLE items ALTER v SET STORAGE plain")

    def want(self, size):
        self.wanted.put(size)

    def copies(self):
        """One session's share; returns its rows."""
        n = 0
        while True:
            path, rows = self.ready.get()
            if path is None:
                self.ready.put((None, 0))     # for the next one
                return n
            self.server.sql(f"COPY items FROM '{path}' (FORMAT binary)")
            os.unlink(path)
            self.room.release()
            n += rows
            with self.lock:
                self.loaded += rows
                if self.loaded // 10000000 > (self.loaded - rows) // 10000000:
                    say(f"{self.loaded:,} rows")

    def load(self):
        """Until the table has the rows wanted: (rows added, seconds)."""
        since, self.loaded, self.lock = time.time(), 0, threading.Lock()
        with ThreadPoolExecutor(self.args.streams) as pool:
            futures = [pool.submit(self.copies) for _ in range(self.args.streams)]
            while not all(f.done() for f in futures):
                if self.process.exitcode not in (None, 0):
                    for _ in futures:
                        self.ready.put((None, 0))
                    raise RuntimeError("the process that makes rows has failed")
                if any(f.done() and f.exception() for f in futures):
                    self.end()
                    raise next(f.exception() for f in futures if f.done() and f.exception())
                time.sleep(0.05)
        self.ready.get()
        return self.loaded, time.time() - since

    def end(self):
        self.wanted.put(None)
        self.process.join(2)
        if self.process.is_alive():
            self.process.kill()
        shutil.rmtree(self.scratch)


class Bench:
    def __init__(self, args):
        self.args, self.results = args, []
        self.sizes = [int(x) for x in args.rows.split(",")]

    def left(self):
        return self.args.limit - (time.time() - BEGUN)

    def start_server(self):
        args = self.args
        server = Server(args.pg_config, folder=args.work, initdb=self.initdb(), settings={
            "shared_buffers": args.shared_buffers, "maintenance_work_mem": args.memory, "max_wal_size": args.max_wal,
            "min_wal_size": "80MB", "wal_level": "minimal", "max_wal_senders": "0", "wal_buffers": "256MB",
            "max_parallel_maintenance_workers": str(args.workers), "max_worker_processes": str(args.workers + 8),
            "max_parallel_workers": str(args.workers), "effective_io_concurrency": "64", "fsync": "off",
            "checkpoint_completion_target": "0.1", "bgwriter_lru_maxpages": "0"})
        server.sql("CREATE EXTENSION grnnd_tools CASCADE")
        return server

    def initdb(self):
        version = subprocess.check_output([self.args.pg_config, "--version"], text=True)
        options = ["--no-data-checksums"] if int(re.search(r"\d+", version)[0]) >= 18 else []
        if self.args.wal:
            self.wal = tempfile.mkdtemp(prefix="grnnd-wal-", dir=self.args.wal)
            os.chmod(self.wal, 0o777)
            options += ["-X", f"{self.wal}/pg_wal"]
        return options

    def load(self, loader, size, r):
        """COPY, then all hint bits, statistics, and everything on the disk."""
        server = self.server
        server.sql("ALTER SYSTEM SET fsync = off; SELECT pg_reload_conf()")
        loader.want(size)
        added, r["copy"] = loader.load()
        r["copied"] = added
        say(f"COPY of {added:,} rows: {r['copy']:.1f} s, {added / r['copy']:,.0f} rows/s")
        since = time.time()
        server.sql(f"ALTER TABLE items SET (parallel_workers = {self.args.workers}); SET parallel_setup_cost = 0; "
                   f"SET parallel_tuple_cost = 0; SET max_parallel_workers_per_gather = {self.args.workers}; "
                   "SELECT count(*) FROM items; ANALYZE items; CHECKPOINT; "
                   "ALTER TABLE items RESET (parallel_workers); ALTER SYSTEM SET fsync = on; SELECT pg_reload_conf()")
        os.sync()
        r["settle"] = time.time() - since
        r["heap"] = server.size("items")
        say(f"hint bits, ANALYZE, CHECKPOINT, sync: {r['settle']:.1f} s; the table has {r['heap'] / 1e9:.2f} GB")

    def bounds(self, r):
        """The disk's rate, and that of a scan."""
        server, size = self.server, min(WRITE_BYTES, max(r["heap"], 64 << 20))
        path = f"{server.dir}/written"
        since = time.time()
        subprocess.check_call(["dd", "if=/dev/zero", f"of={path}", "bs=1M", f"count={size >> 20}", "conv=fsync"],
                              stderr=subprocess.DEVNULL)
        r["disk"] = size / (time.time() - since)
        os.unlink(path)
        r["scan"] = self.scan()
        say(f"the disk takes {r['disk'] / 1e6:,.0f} MB/s; a scan takes {r['scan']:.2f} s")

    def scan(self):
        """Seconds of a parallel scan that computes a distance of every row."""
        since = time.time()
        self.server.sql(f"ALTER TABLE items SET (parallel_workers = {self.args.workers}); SET parallel_setup_cost = 0; "
                        f"SET parallel_tuple_cost = 0; SET max_parallel_workers_per_gather = {self.args.workers}; "
                        f"SELECT count(*) FROM items WHERE v <-> '[{','.join(['0.5'] * self.dim)}]' < 0; "
                        "ALTER TABLE items RESET (parallel_workers)")
        return time.time() - since

    def estimate(self, r):
        since = time.time()
        out, log = self.server.sql(f"SET client_min_messages = debug1; {self.args.set} SELECT device, index_bytes, memory_bytes, "
                                   "temp_bytes, seconds FROM grnnd_build_estimate('items', 'v', "
                                   f"'{self.args.type}_l2_ops', '{{{r['with'].replace(' ', '')}}}')")
        part = out.splitlines()[-1].split("|")
        r["estimate"] = {"device": part[0], "index": int(part[1]), "memory": int(part[2]), "temporary": int(part[3]),
                         "seconds": float(part[4])}
        said = "; ".join(x.partition("DEBUG:  ")[2] for x in log.splitlines() if "DEBUG:  grnnd" in x)
        say(f"estimated in {time.time() - since:.1f} s: {r['estimate']} {said}")

    def create(self, name, r):
        return f"CREATE INDEX {name} ON items USING grnnd (v {self.args.type}_l2_ops) WITH ({r['with']})"

    def build(self, r):
        server, watch = self.server, Watch(self.server)
        watch.start()
        since = time.time()
        try:
            _, log = server.sql("SET client_min_messages = debug1; " + self.args.set +
                                self.create("i", r))
        finally:
            watch.stop()
        r["seconds"] = time.time() - since
        line = next((x for x in log.splitlines() if "grnnd build:" in x), "")
        r["phases"] = {k: float(v) for k, v in re.findall(r"([a-z]+) ([0-9]+\.[0-9]+)(?: s|,|\))", line)}
        r["phases"].pop("build", None)
        memory = re.search(r"memory (\d+), temporary file (\d+)", line)
        r["memory"], r["temporary"] = (int(memory[1]), int(memory[2])) if memory else (0, 0)
        r["device"] = (re.search(r"device (\w+), workers", line) or [0, "?"])[1]
        r["index"] = server.size("i")
        r["watch"] = watch.report()
        say(f"CREATE INDEX: {r['seconds']:.2f} s, {r['seconds'] / r['rows'] * 1e6:.3f} us a row, "
            f"{r['watch']['processor'] / r['rows'] * 1e6:.2f} of a processor; {line}")
        for line in log.splitlines():
            if "NOTICE" in line or "HINT" in line or "WARNING" in line:
                say(line)
        w = r["watch"]
        say(f"one thread alone: {w['alone']}; none at work: {w['waiting']}; anonymous {w['anonymous'] / 1e9:.2f} GB, shared "
            f"{w['shared'] / 1e9:.2f} GB, GPU {w['gpu'] / 1e9:.1f} GB, peaks " +
            ", ".join(f"{k} {v / 1e9:.2f} GB" for k, v in w["peaks"].items()))
        for phase, seconds, states, still in w["phases"]:
            say(f"  {phase}: {seconds:.1f} s, {states} states seen, at most {still:.1f} s without a new one")

    def queries(self, r):
        args, server = self.args, self.server
        data = f"{args.work}/truth-{r['rows']}"
        query = query_of(args.type, self.dim)
        # as after a restart: what prewarming reads lies in shared buffers in the order of the index
        server.restart()
        since = time.time()
        server.sql("SELECT grnnd_prewarm('i')")
        say(f"grnnd_prewarm: {time.time() - since:.1f} s")
        r["recall"], r["rates"] = {}, {}
        for ef in args.widths:
            if self.left() < 20:
                break
            got = server.qps(self.qps, data, query, SETUP.format(ef), args.clients, 30, warmup=5,
                             queries=-(-rows_of.QUERIES // args.clients), buffers=20)
            r["recall"][ef] = got["recall"]
            say(f"ef {ef}: {got}")
            if got["recall"] >= 0.996:
                break
        for goal in GOALS:
            ef = next((w for w, x in r["recall"].items() if x >= goal), None)
            if ef is None or self.left() < 15:
                continue
            got = server.qps(self.qps, data, query, SETUP.format(ef), args.clients, 5, warmup=50)
            r["rates"][goal] = dict(got, ef=ef)
            say(f"{args.clients} clients at ef {ef}: {got}")

    def cold(self, r):
        """
        First queries with nothing in shared buffers or the kernel's cache, each by a new session: one that does nothing before, or that
        has planned the query, and so has read the catalogs and loaded the libraries.
        """
        server, times = self.server, {"new": [], "planned": []}
        query = rows_of.read_matrix(f"{self.args.work}/truth-{r['rows']}/query.fbin")
        server.restart()
        server.forget()
        for i in range(14):
            vector = "[" + ",".join(f"{x:.9g}" for x in query[i]) + "]"
            text = f"SELECT id FROM items ORDER BY v <-> '{vector}' LIMIT 10;\n"
            kind = "new" if i < 7 else "planned"
            out, _ = server.sql(SETUP.format(40) + ";\n" + (f"EXPLAIN {text}" if kind == "planned" else "") + f"\\timing on\n{text}")
            times[kind].append(float(re.search(r"Time: ([0-9.]+) ms", out)[1]))
        r["cold"] = times
        say("first queries on cold files, ms:", times)

    def little(self, r):
        """Queries/s where server, its backends and the cache of its files have a share of the index's bytes.  No query comes twice."""
        args, server, megabytes = self.args, self.server, int(self.args.little * r["index"] / 1e6)
        if not args.little:
            return
        # each backend has page tables of shared buffers, 2 MB for a GB
        group = Cgroup(megabytes + (MB_PER_CLIENT + megabytes // 500) * (args.clients + 4))
        server.restart(shared_buffers=f"{megabytes * 9 // 10}MB", huge_pages="off")
        server.forget()
        group.take(server.processes())
        say(f"memory for {megabytes} MB of pages")
        r["little"] = {}
        widths = [w for w, x in r["recall"].items() if x >= 0.9][:args.little_widths]
        each = rows_of.OTHERS // args.clients // (2 * len(widths) or 1)
        for i, ef in enumerate(widths):
            if self.left() < 30:
                break
            # the first fills the memory
            for part, seconds in ((0, 6), (1, 8)):
                before = disk_reads(args.work)
                got = server.qps(self.qps, f"{args.work}/others", query_of(args.type, self.dim), SETUP.format(ef), args.clients,
                                 seconds, warmup=5, queries=each, first=(2 * i + part) * each, truth=False)
                reads, brought, waited = (b - a for a, b in zip(before, disk_reads(args.work)))
            recall = server.qps(self.qps, f"{args.work}/truth-{r['rows']}", query_of(args.type, self.dim), SETUP.format(ef),
                                args.clients, 30, warmup=0, queries=-(-rows_of.QUERIES // args.clients))["recall"]
            got.update(recall=recall, disk_reads=reads / got["queries"], disk_mb=brought / seconds, disk_queue=waited / seconds)
            r["little"][ef] = got
            say(f"memory for {args.little:g} of the index, ef {ef}: {got}")
        server.restart(shared_buffers=args.shared_buffers, huge_pages="try")
        group.drop()

    def cancels(self, r):
        """How long CREATE INDEX goes on after pg_cancel_backend(), at moments spread over its time."""
        r["cancels"] = []
        for i in range(self.args.cancels):
            wait = r["seconds"] * (i + 0.5) / self.args.cancels
            if self.left() < 30 + 2 * r["seconds"]:
                return
            session = subprocess.Popen(
                [f"{self.server.bin}/psql", "-X", "-q", "-d", self.server.conn, "-c", self.args.set +
                 self.create("canceled", r)],
                stderr=subprocess.DEVNULL)
            time.sleep(wait)
            phase, _ = self.server.sql("SELECT phase FROM pg_stat_progress_create_index; SELECT pg_cancel_backend(pid) "
                                       "FROM pg_stat_activity WHERE query LIKE '%INDEX canceled%' AND pid <> pg_backend_pid() "
                                       "AND backend_type = 'client backend'")
            since = time.time()
            ended = session.wait() != 0
            r["cancels"].append((phase.splitlines()[0].replace("building index: ", "") if ended else "done", time.time() - since))
            self.server.sql("DROP INDEX IF EXISTS canceled")
        say("canceled builds went on for:", r["cancels"])

    def run(self):
        args = self.args
        os.makedirs(args.work, exist_ok=True)
        os.makedirs(args.out, exist_ok=True)
        say(machine())
        if args.touch:
            touch(args.touch, args.streams)
            say(f"{args.touch} GB of memory have been written to")
        self.server, self.wal = self.start_server(), getattr(self, "wal", None)
        loader = None
        try:
            self.qps = self.server.build_qps()
            loader = Loader(args, self.server, self.sizes)
            self.dim, need = loader.dim, 0
            for size in self.sizes:
                if need > self.left():
                    say(f"no time for {size:,} rows")
                    break
                since, table = time.time(), {"rows": size}
                self.load(loader, size, table)
                self.bounds(table)
                for i, options in enumerate(args.options or ["layout = compact"]):
                    began = time.time()
                    if i > 0:
                        self.scan()     # cold() has dropped the caches
                    self.one({**table, "with": options})
                    if 1.5 * (time.time() - began) > self.left():
                        say("no time for more")
                        break
                need = 3 * (time.time() - since)
            self.plot()
        finally:
            if loader:
                loader.end()
            self.server.stop()
            if self.wal:
                shutil.rmtree(self.wal)
        say("done")

    def one(self, r):
        """One index of the table as it is."""
        self.results.append(r)
        for step in (self.estimate, self.build, self.queries, self.cold, self.little, self.cancels):
            if "seconds" in r and self.left() < 15:
                break
            step(r)
            self.write()
        self.server.sql("DROP INDEX i")

    def write(self):
        """RESULTS/scale.json and scale.md, of what there is so far."""
        with open(f"{self.args.out}/scale.json", "w") as f:
            json.dump(self.results, f, indent=1)
        done = [r for r in self.results if "seconds" in r]
        if not done:
            return
        out = [f"# {self.args.type}({self.dim}) on one host", "", machine() + f"; {self.args.workers} workers, maintenance_work_mem "
               f"{self.args.memory}, shared_buffers {self.args.shared_buffers}, wal_level = minimal", ""]
        table = ["rows", "WITH", "COPY s", "rows/s", "CREATE INDEX s", "us a row", "times the first", "processor, us a row", "estimated s", "phases", "index GB",
                 "bound s", "times the bound"]
        out += ["| " + " | ".join(table) + " |", "|" + "---|" * len(table)]
        first = done[0]["seconds"] / done[0]["rows"]
        for r in done:
            each = r["seconds"] / r["rows"]
            graph = r["phases"].get("graph", 0)
            bound = graph + r["scan"] + r["index"] / r["disk"]
            out.append("| " + " | ".join([
                f"{r['rows']:,}", r["with"], f"{r['copy']:.1f} of {r['copied']:,}", f"{r['copied'] / r['copy']:,.0f}", f"{r['seconds']:.2f}",
                f"{each * 1e6:.3f}", f"{each / first:.2f}", f"{r['watch']['processor'] / r['rows'] * 1e6:.2f}",
                f"{r['estimate']['seconds']:.1f}",
                ", ".join(f"{k} {v:.2f}" for k, v in r["phases"].items()), f"{r['index'] / 1e9:.2f}",
                f"{bound:.1f} (graph {graph:.1f}, scan {r['scan']:.1f}, {r['disk'] / 1e6:,.0f} MB/s)",
                f"{r['seconds'] / bound:.2f}"]) + " |")
        table = ["rows", "WITH", "memory GB", "temporary file GB", "estimated GB", "other memory GB", "RSS at most, GB", "GPU GB",
                 "one thread alone, s", "none at work, s", "progress: seconds, states, longest without a new one"]
        out += ["", "| " + " | ".join(table) + " |", "|" + "---|" * len(table)]
        for r in done:
            w = r["watch"]
            out.append("| " + " | ".join([
                f"{r['rows']:,}", r["with"], f"{r['memory'] / 1e9:.2f}", f"{r['temporary'] / 1e9:.2f}",
                f"{(r['estimate']['memory'] + r['estimate']['temporary']) / 1e9:.2f}", f"{w['anonymous'] / 1e9:.2f}",
                ", ".join(f"{k} {v / 1e9:.1f}" for k, v in w["peaks"].items()), f"{w['gpu'] / 1e9:.1f}",
                f"{w['alone'][0]:.1f} {w['alone'][1]} {w['alone'][2]}", f"{w['waiting'][0]:.1f} {w['waiting'][1]}",
                "; ".join(f"{p} {s:.1f}, {n}, {q:.1f}" for p, s, n, q in w["phases"])]) + " |")
        table = ["rows", "WITH", "recall@10 by ef", *[f"queries/s of {self.args.clients} at {g}" for g in GOALS], "cold queries of new sessions, ms", "of such that have planned it",
                 f"memory for {self.args.little:g} of the index: ef, recall, queries/s, p99 ms, reads of the disk a query", "canceled builds went on, s"]
        out += ["", "| " + " | ".join(table) + " |", "|" + "---|" * len(table)]
        for r in done:
            rates = r.get("rates", {})
            out.append("| " + " | ".join([
                f"{r['rows']:,}", r["with"], ", ".join(f"{k}: {v:.4f}" for k, v in r.get("recall", {}).items()),
                *[f"{x['qps']:,.0f} (ef {x['ef']}, p99 {x['p99_us'] / 1e3:.1f} ms)" if (x := rates.get(g)) else "" for g in GOALS],
                *[", ".join(f"{x:.1f}" for x in r.get("cold", {}).get(kind, [])) for kind in ("new", "planned")],
                "; ".join(f"{k} {v['recall']:.4f} {v['qps']:,.0f} {v['p99_us'] / 1e3:.1f} {v['disk_reads']:.0f}" for k, v in r.get("little", {}).items()),
                ", ".join(f"{p} {s:.2f}" for p, s in r.get("cancels", []))]) + " |")
        with open(f"{self.args.out}/scale.md", "w") as f:
            f.write("\n".join(out) + "\n")

    def plot(self):
        import matplotlib
        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
        done = [r for r in self.results if "seconds" in r and r["with"] == self.results[0]["with"]]
        if not done:
            return
        figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5))
        x = [r["rows"] for r in done]
        left.plot(x, [r["seconds"] for r in done], "o-", color="black", label="CREATE INDEX")
        left.plot(x, [r["estimate"]["seconds"] for r in done], ":", color="gray", label="estimated")
        for phase in done[-1]["phases"]:
            left.plot(x, [max(r["phases"].get(phase, 0), 1e-3) for r in done], ".-", label=phase)
        left.set_ylabel("seconds")
        right.plot(x, [r["memory"] / 1e9 for r in done], "o-", label="shared by the build")
        right.plot(x, [r["watch"]["anonymous"] / 1e9 for r in done], "o-", label="processes' own")
        right.plot(x, [r["watch"]["gpu"] / 1e9 for r in done], "o-", label="GPU")
        right.plot(x, [r["index"] / 1e9 for r in done], "o--", label="index on disk")
        right.set_ylabel("GB")
        for axis in (left, right):
            axis.set_xscale("log")
            axis.set_yscale("log")
            axis.set_xlabel("rows")
            axis.legend(fontsize="small")
            axis.grid(alpha=0.3)
        figure.tight_layout()
        for kind in ("png", "svg"):
            figure.savefig(f"{self.args.out}/scale.{kind}", dpi=90)


def main():
    cores = os.cpu_count()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pg-config", required=True)
    parser.add_argument("--images", help="photographs: a folder, or a tar")
    parser.add_argument("--base", help="instead: a folder of base.fbin and query.fbin")
    parser.add_argument("--fingerprint", action="store_true", help="draw all rows and queries from a fingerprint of these (PyTorch)")
    parser.add_argument("--type", choices=["halfvec", "vector"], default="halfvec")
    parser.add_argument("--with", dest="options", action="append", metavar="'NAME = VALUE, ...'",
                        help="storage parameters of an index, once for each (layout = compact)")
    parser.add_argument("--rows", default="1000000")
    parser.add_argument("--work", required=True, help="a folder for the cluster")
    parser.add_argument("--scratch", default="/dev/shm", help="a folder for rows on their way, up to 5 GB")
    parser.add_argument("--wal", help="a folder for WAL, if not the cluster's own")
    parser.add_argument("--max-wal", default="8GB")
    parser.add_argument("--device", choices=["gpu", "cores"], default="gpu" if rows_of.has_gpu() else "cores",
                        help="what makes the rows and compares them with the queries")
    parser.add_argument("--streams", type=int, default=cores, help="sessions that COPY")
    parser.add_argument("--workers", type=int, default=max(cores - 1, 1))
    parser.add_argument("--memory", default="2GB", help="maintenance_work_mem")
    parser.add_argument("--shared-buffers", default="1GB")
    parser.add_argument("--set", default="", metavar="'SET NAME = VALUE; ...'", help="SQL before the estimate and CREATE INDEX")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--widths", type=lambda x: [int(w) for w in x.split(",")], default=WIDTHS, metavar="EF,EF,...")
    parser.add_argument("--little", type=float, default=0, metavar="SHARE", help="of the index's bytes, as memory for queries, once more")
    parser.add_argument("--little-widths", type=int, default=3, help="so many of the ef whose recall is .9 and more")
    parser.add_argument("--cancels", type=int, default=0, help="builds of each size that are canceled")
    parser.add_argument("--touch", type=int, default=0, metavar="GB", help="memory to write to first")
    parser.add_argument("--limit", type=float, default=540, help="seconds")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    if bool(args.images) == bool(args.base):
        parser.error("give --images or --base")
    Bench(args).run()


if __name__ == "__main__":
    main()
