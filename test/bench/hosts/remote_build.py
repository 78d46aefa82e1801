#!/usr/bin/env python3
"""CREATE INDEX with grnnd.build_server beside the same build here: seconds, bytes on the wire, and the goal.

  remote_build.py --pg-config PG_CONFIG --out RESULTS [--rows 100000] [--kinds bytes,floats] [--data FOLDER]
                  [--device auto|gpu|cpu] [--gbit 10] [--repeat 3]

Two servers of one machine: that of the index, and the build server, which it reaches over loopback, and over a link of
--gbit Gbit/s, where root, iproute2 and the kernel's tbf allow one: a network namespace and a pair of virtual interfaces. The
processors are the same for both servers, so what a second machine would add in processors is not here.

The goal is 1.3 x (the build here + bytes / the wire's rate); loopback has the rate of the link. Bytes are those that the
interface counted, both ways. "the wire alone" is one TCP connection of iperf's kind over it. FOLDER holds base.fbin
(test/bench/README.md); without it rows of 128 dimensions are drawn at random about 16 latent ones: "bytes" are whole
numbers to 255, which travel as a byte each, "floats" are not. "beside the graph" is the time from the last row
collected to the graph's arrival in which none was made: rows, results and the other server's start. "on the way" says where all
of it went, in seconds one after the other: connect (before rows go), rows (to the last, from when all were collected), graph (there),
result, end (what measuring recall took longer than the result's way); then those in which the backend there worked for rows and for
the result. Writes RESULTS/remote_build.md.
"""
import argparse
import os
import re
import shutil
import socket
import subprocess
import sys
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "build"))
from common import Server, random_rows, read_matrix, write_table  # noqa: E402
from bench import grow  # noqa: E402

GOAL = 1.3
SPACE, NEAR, FAR = "grnnd-bench", "grnnd-near", "grnnd-far"
NEAR_IP, FAR_IP = "10.213.77.1", "10.213.77.2"
PROBE_MB = 512
# the wire alone: reads what comes and says for how long it came
SINK = """
import socket, sys, time
s = socket.create_server(("0.0.0.0", 0)); print(s.getsockname()[1], flush=True)
c, _ = s.accept(); n = 0; b = bytearray(1 << 20); start = time.time()
while (got := c.recv_into(b)): n += got
print(n / (time.time() - start), flush=True)
"""


class Link:
    """Two interfaces, one of them in a namespace, each of which sends at most so many Gbit/s."""

    def __init__(self, gbit):
        self.prefix = ["ip", "netns", "exec", SPACE]
        self.close()
        try:
            for command in (f"ip netns add {SPACE}", f"ip link add {NEAR} type veth peer name {FAR} netns {SPACE}",
                            f"ip addr add {NEAR_IP}/30 dev {NEAR}", f"ip link set {NEAR} up",
                            f"ip netns exec {SPACE} ip addr add {FAR_IP}/30 dev {FAR}",
                            f"ip netns exec {SPACE} ip link set {FAR} up", f"ip netns exec {SPACE} ip link set lo up",
                            f"tc qdisc add dev {NEAR} root tbf rate {gbit}gbit burst 4mb latency 20ms",
                            f"ip netns exec {SPACE} tc qdisc add dev {FAR} root tbf rate {gbit}gbit burst 4mb latency 20ms"):
                subprocess.run(command.split(), check=True, capture_output=True, text=True)
        except subprocess.CalledProcessError as e:
            self.close()
            raise OSError(f"{' '.join(e.cmd)}: {e.stderr.strip()}")

    def close(self):
        for command in (f"ip link del {NEAR}", f"ip netns del {SPACE}"):
            subprocess.run(command.split(), capture_output=True)


def shaped(gbit):
    """A Link, or None and why not."""
    missing = [tool for tool in ("ip", "tc") if not shutil.which(tool)]
    if missing or os.geteuid() != 0:
        return None, f"no {missing[0]} here" if missing else "not root"
    try:
        return Link(gbit), ""
    except OSError as e:
        return None, str(e)


class Far(Server):
    """The build server; in the link's namespace, where there is one."""

    def __init__(self, prefix, *rest, **named):
        self.prefix = prefix
        super().__init__(*rest, **named)

    def _as(self, command, **kw):
        command = [f"{self.bin}/{command[0]}"] + command[1:]
        if self.user and os.geteuid() == 0:
            command = ["setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups"] + command
        subprocess.check_call(self.prefix + command, cwd="/", **kw)


def wire_rate(prefix, address):
    """Bytes a second of one TCP connection to there."""
    sink = subprocess.Popen(prefix + [sys.executable, "-c", SINK], stdout=subprocess.PIPE, text=True)
    with socket.create_connection((address, int(sink.stdout.readline()))) as c:
        block = bytes(1 << 20)
        for _ in range(PROBE_MB):
            c.sendall(block)
    rate = float(sink.stdout.readline())
    sink.wait()
    return rate


def wire_bytes(interface):
    """Bytes that an interface has carried; both ways, of loopback once."""
    folder = f"/sys/class/net/{interface}/statistics"
    ways = ["rx_bytes"] if interface == "lo" else ["rx_bytes", "tx_bytes"]
    return sum(int(open(f"{folder}/{way}").read()) for way in ways)


def phases(log):
    """(seconds between the last row collected and the graph's arrival in which no graph was made, all phases, those of the way)"""
    line = next((x for x in log.splitlines() if "grnnd build:" in x), "")
    way = next((x.split("build server: ")[1] for x in log.splitlines() if "grnnd build server: " in x), "")
    found = {k: float(v) for k, v in re.findall(r"([a-z]+) ([0-9]+\.[0-9]+)(?: s|,|\))", line)}
    beside = found["build"] - sum(found[k] for k in ("device", "prepare", "graph", "connect", "codes", "recall"))
    return max(beside, 0), " ".join(f"{k} {v:.2f}" for k, v in found.items() if v >= .005), way


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--pg-config", required=True)
    p.add_argument("--out", required=True)
    p.add_argument("--rows", default="100000")
    p.add_argument("--kinds", default="bytes,floats")
    p.add_argument("--data")
    p.add_argument("--device", default="auto", help="that of both servers' builds")
    p.add_argument("--gbit", type=float, default=10)
    p.add_argument("--repeat", type=int, default=3)
    p.add_argument("--memory", default="4GB", help="shared memory of a build on each server")
    p.add_argument("--shared-buffers", default="2GB")
    args = p.parse_args()
    os.makedirs(args.out, exist_ok=True)

    workers = max(os.cpu_count() - 1, 0)
    settings = {"maintenance_work_mem": args.memory, "shared_buffers": args.shared_buffers, "wal_level": "minimal",
                "max_wal_senders": "0", "max_parallel_maintenance_workers": str(workers),
                "max_worker_processes": str(workers + 8), "max_parallel_workers": str(workers + 1),
                "fsync": "off", "grnnd.background_fit": "off"}
    link, why = shaped(args.gbit)
    if link is None:
        print(f"no link of {args.gbit} Gbit/s: {why}", flush=True)
    # name, before its commands, its address, the interface that counts, the server
    ways = [("loopback", [], "127.0.0.1", "lo")]
    if link:
        ways.append((f"{args.gbit:g} Gbit/s", link.prefix, FAR_IP, NEAR))
    servers, table = [], []
    try:
        here = Server(args.pg_config, settings=settings)
        servers.append(here)
        here.sql("CREATE EXTENSION vector; CREATE EXTENSION grnnd")
        rates = {}
        for i, (name, prefix, address, _) in enumerate(ways):
            rates[name] = wire_rate(prefix, address)
            print(f"{name}: one TCP connection carries {rates[name] * 8e-9:.1f} Gbit/s", flush=True)
            port = 39117 + i
            far = Far(prefix, args.pg_config, settings={
                **settings, "listen_addresses": f"'{address}'", "port": str(port), "shared_buffers": "128MB",
                "grnnd_build_server.memory": args.memory, "grnnd_build_server.threads": str(workers + 1),
                "grnnd.build_device": args.device})
            servers.append(far)
            with open(f"{far.data}/pg_hba.conf", "a") as f:
                f.write("host all all 0.0.0.0/0 trust\n")
            far.conn += f" port={port}"
            far.sql("SELECT pg_reload_conf(); CREATE EXTENSION vector; CREATE EXTENSION grnnd")
            here.sql(f"CREATE SERVER far{i} FOREIGN DATA WRAPPER grnnd_build OPTIONS (host '{address}', port '{port}', "
                     f"dbname 'postgres'); CREATE USER MAPPING FOR bench SERVER far{i} OPTIONS (user 'bench')")

        def build(setting):
            here.sql("DROP INDEX IF EXISTS i; CHECKPOINT")
            return here.create_index(setting + "CREATE INDEX i ON items USING grnnd (v)")

        for n in map(int, args.rows.split(",")):
            for kind in ["data"] if args.data else args.kinds.split(","):
                base = grow(read_matrix(f"{args.data}/base.fbin"), n) if args.data else random_rows(n, kind == "bytes")
                here.sql("DROP TABLE IF EXISTS items")
                here.load("items", base, streams=min(8, workers + 1))
                # in turn, so that what else the machine does meets all of them
                best = {}
                for _ in range(args.repeat):
                    for name, setting in [("here", f"SET grnnd.build_device = {args.device}; ")] + [
                            (w[0], f"SET grnnd.build_device = gpu; SET grnnd.build_server = far{i}; ") for i, w in enumerate(ways)]:
                        interface = next((w[3] for w in ways if w[0] == name), "lo")
                        before = wire_bytes(interface)
                        seconds, log = build(setting)
                        print(f"{kind} {n} {name}: {seconds:.2f} s", *phases(log)[1:], sep="\n    ", flush=True)
                        best[name] = min(best.get(name, (1e9,)), (seconds, wire_bytes(interface) - before, *phases(log)))
                local = best["here"][0]
                table.append([kind, n, "here", local, "", "", "", *best["here"][2:]])
                for name, *_ in ways:
                    seconds, count, beside, text, way = best[name]
                    wanted = GOAL * (local + count / (args.gbit * 1e9 / 8))
                    table.append([kind, n, name, seconds, count / 1e6, wanted,
                                  "met" if seconds <= wanted else f"missed, {seconds / wanted * GOAL:.2f} x", beside, text, way])
                del base
                write_table(f"{args.out}/remote_build.md", "CREATE INDEX on a build server", [
                    "rows are", "rows", "built", "seconds", "MB on the wire", f"goal: {GOAL} x (here + wire)", "", "beside the graph, s", "phases", "on the way"], table)
        with open(f"{args.out}/remote_build.md", "a") as f:
            f.write("\n" + "".join(f"The wire alone, {name}: {rate * 8e-9:.1f} Gbit/s by one TCP connection.\n" for name, rate in rates.items()))
            if link is None:
                f.write(f"No link of {args.gbit:g} Gbit/s here ({why}): loopback alone.\n")
    finally:
        for server in servers:
            server.stop()
        if link:
            link.close()


if __name__ == "__main__":
    main()
