#!/usr/bin/env python3
"""CREATE INDEX with less memory than rows: maintenance_work_mem at a tenth of the rows' bytes, the server in a memory cgroup.

  beyond.py --pg-config PG_CONFIG --images BSDS500.tar --rows 1000000 --work FOLDER --caps 768,512 --out RESULTS

As root, where a memory cgroup (version 1 or 2) can be made.  The rows are those of bench.py.  First an index is built with memory for
everything, then with the server under each cap (MB, the kernel's file cache of its files included), from cold files; of each phase it
reports seconds, what was read of the disk and the mean size of a read: some kB are reads at random.  Writes RESULTS/beyond.md.

With --device gpu a GPU builds; the cap then holds what the driver takes of the host's memory as well, some hundred MB, so take
10,000,000 rows and more:

  beyond.py --pg-config PG_CONFIG --images BSDS500.tar --rows 10000000 --work FOLDER --device gpu --caps 4000,2000 --out RESULTS
"""
import argparse
import os
import shutil
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
sys.path.insert(0, HERE)
from bench import SETUP, Loader, query_of, say  # noqa: E402
from common import Cgroup, Server, machine, write_table  # noqa: E402
import rows as rows_of  # noqa: E402
from watch import Watch, read  # noqa: E402

ROW_BYTES = {"halfvec": 256, "vector": 512}
EFS = (40, 80, 160)


class Disk:
    """Reads of the disk below a folder while a Watch runs, by phase of the progress view."""

    def __init__(self, folder):
        device = os.stat(folder).st_dev
        self.path = f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat"
        self.samples, self.over = [], False

    def look(self):
        while not self.over:
            part = read(self.path).split()
            if part:
                self.samples.append((time.time(), int(part[0]), int(part[2]) * 512, int(part[6]) * 512))
            time.sleep(0.05)

    def start(self):
        self.thread = threading.Thread(target=self.look)
        self.thread.start()

    def stop(self):
        self.over = True
        self.thread.join()

    def by_phase(self, watch):
        """[(phase, seconds, MB read, kB of a read on average, MB written)], in the order in which phases began."""
        out = {}
        for before, after in zip(self.samples, self.samples[1:]):
            of = out.setdefault(watch.phase_at(after[0]) or "start", [0, 0, 0, 0])
            of[0] += after[0] - before[0]
            for i in (1, 2, 3):
                of[i] += after[i] - before[i]
        return [(phase, s, r / 1e6, r / max(n, 1) / 1e3, w / 1e6) for phase, (s, n, r, w) in out.items()]


def one(args, server, cap_mb, statement):
    """A build under a cap, from cold files: (seconds, phases, log line)."""
    server.stop(remove=False)
    cap = Cgroup(cap_mb) if cap_mb else None
    # what the server reads and allocates while it starts counts as well
    pid = os.fork()
    if pid == 0:
        if cap:
            cap.take([os.getpid()])
        server.start()
        os._exit(0)
    os.waitpid(pid, 0)
    server.sql("DROP INDEX IF EXISTS i")
    server.forget()
    watch, disk = Watch(server), Disk(args.work)
    watch.start()
    disk.start()
    since = time.time()
    try:
        _, log = server.sql("SET client_min_messages = debug1; " + statement)
    finally:
        seconds = time.time() - since
        watch.stop()
        disk.stop()
    line = next((x for x in log.splitlines() if "grnnd build:" in x), "")
    for x in log.splitlines():
        if "NOTICE" in x or "HINT" in x:
            say(x)
    phases = disk.by_phase(watch)
    say(f"{cap_mb or 'no'} MB: {seconds:.1f} s; {line}")
    for phase, s, mb, kb, wrote in phases:
        say(f"  {phase}: {s:.1f} s, {mb:.0f} MB read, {kb:.0f} kB each, {wrote:.0f} MB written")
    server.stop(remove=False)
    if cap:
        cap.drop()
    server.start()
    return seconds, phases, line


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pg-config", required=True)
    parser.add_argument("--images")
    parser.add_argument("--base")
    parser.add_argument("--rows", type=int, default=1000000)
    parser.add_argument("--work", required=True)
    parser.add_argument("--scratch", default="/dev/shm")
    parser.add_argument("--caps", default="512", help="MB, one after the other")
    parser.add_argument("--whole", default="8GB", help="maintenance_work_mem of the build with memory for everything; empty: none")
    parser.add_argument("--layout", default="compact")
    parser.add_argument("--type", choices=["halfvec", "vector"], default="halfvec")
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--builder", help="grnnd.builder_path")
    parser.add_argument("--set", default="", help="SQL before CREATE INDEX, such as \"SET grnnd.gpu_devices = '0,1';\"")
    parser.add_argument("--shared-buffers", default="32MB")
    parser.add_argument("--workers", type=int, default=max(os.cpu_count() - 1, 1))
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    settings = f"SET grnnd.build_device = {args.device}; {args.set}"
    args.device, args.streams = "cores", os.cpu_count()     # that make the rows
    os.makedirs(args.work, exist_ok=True)
    os.makedirs(args.out, exist_ok=True)
    server = Server(args.pg_config, folder=args.work, settings={
        "shared_buffers": args.shared_buffers, "wal_level": "minimal", "max_wal_senders": "0", "fsync": "off", "max_wal_size": "1GB",
        "wal_buffers": "16MB", "max_worker_processes": str(args.workers + 8), "max_parallel_workers": str(args.workers),
        "max_parallel_maintenance_workers": str(args.workers),
        **({"grnnd.builder_path": f"'{args.builder}'"} if args.builder else {})})
    loader = None
    try:
        server.sql("CREATE EXTENSION vector; CREATE EXTENSION grnnd")
        qps, query = server.build_qps(), query_of(args.type, 128)
        loader = Loader(args, server, [args.rows])
        loader.want(args.rows)
        added, seconds = loader.load()
        say(f"{added:,} rows in {seconds:.1f} s")
        server.sql("SELECT count(*) FROM items; ANALYZE items; ALTER SYSTEM SET fsync = on; SELECT pg_reload_conf(); CHECKPOINT")
        os.sync()
        make = f"CREATE INDEX i ON items USING grnnd (v {args.type}_l2_ops) WITH (layout = {args.layout})"
        tenth = args.rows * ROW_BYTES[args.type] // 10 >> 20
        table, first = [], None
        for cap in ([None] if args.whole else []) + [int(x) for x in args.caps.split(",")]:
            memory = args.whole if cap is None else f"{tenth}MB"
            seconds, phases, line = one(args, server, cap, f"SET maintenance_work_mem = '{memory}'; {settings} {make}")
            first = first or seconds
            recalls = ", ".join(f"{ef}: {server.qps(qps, f'{args.work}/truth-{args.rows}', query, SETUP.format(ef), 2, 60, warmup=5, queries=500)['recall']:.4f}"
                                for ef in EFS)
            say("recall@10 by ef:", recalls)
            table.append([f"{args.rows:,}", memory, cap or "", seconds, seconds / first, recalls, "; ".join(
                f"{p} {s:.1f} s, {mb:.0f} MB in {kb:.0f} kB" for p, s, mb, kb, _ in phases)])
            write_table(f"{args.out}/beyond.md", "Builds beyond memory", [
                "rows", "maintenance_work_mem", "cap MB", "seconds", "times the first", "recall@10 by ef", "read of the disk"], table)
    finally:
        if loader:
            loader.end()
        server.stop()
        shutil.rmtree(f"{args.work}/truth-{args.rows}", ignore_errors=True)


if __name__ == "__main__":
    main()
