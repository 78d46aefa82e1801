#!/usr/bin/env python3
"""The graph build under limits of memory, and on several GPUs.

  limits.py --data NAME=FOLDER --limits 1,0.5,0.25,0.125 --devices 0 --devices 0,1 --out RESULTS

Each limit is a share of what the whole build took in this run: of a GPU's memory, or
with --device cpu of the workspace.  Every graph goes through grnnd_paper --evaluate.
Writes RESULTS/limits.md.  FOLDER: see test/bench/README.md.
"""
import argparse
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from common import ROOT, write_table  # noqa: E402

COLUMNS = ["data", "GPUs", "limit", "MB", "parts", "rows a row", "digests", "split", "digest", "build", "merge", "s", "ratio",
           "peak MB", "recall@10, L=64", "distances"]


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grnnd-paper", default=f"{ROOT}/grnnd_paper", help="builds and judges the graphs")
    parser.add_argument("--data", action="append", required=True, metavar="NAME=FOLDER")
    parser.add_argument("--device", choices=["gpu", "cpu"], default="gpu")
    parser.add_argument("--limits", default="1,0.5,0.25,0.125")
    parser.add_argument("--devices", action="append", default=[], metavar="N[,N...]", help="GPUs (default 0)")
    parser.add_argument("--overlap", help="of parts, where not the default")
    parser.add_argument("--fill", action="store_true", help="lists filled as for an index")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--repeat", type=int, default=3, help="builds, of which the fastest counts")
    parser.add_argument("--out", required=True)
    return parser.parse_args()


def number(pattern, text):
    found = re.findall(pattern, text)
    return [float(x) for x in found]


def measure(args, folder, devices, limit):
    """Fields of COLUMNS from "parts" on, by name; limit in MB, None for none."""
    graph = f"{args.out}/graph.ibin"
    command = [args.grnnd_paper, "--index", "--device", args.device, "--threads", str(args.threads), "--times", "--repeat",
               str(args.repeat)] + (["--gpu", devices] if args.device == "gpu" else [])
    command += ["--memory-limit", str(limit)] if limit else []
    command += ["--overlap", args.overlap] if args.overlap else []
    command += ["--fill", "--degree", "32"] if args.fill else []
    text = subprocess.check_output(command + [f"{folder}/base.fbin", graph], text=True)
    seconds = number(r"build ([0-9.]+) s,", text)
    best = seconds.index(min(seconds))
    row = {"s": seconds[best], "parts": "", "rows a row": ""}
    if parts := re.findall(r"(\d+) parts, ([0-9.]+) rows a row(?:, digests (\w+))?: (.*) s, peak", text):
        row.update({"parts": int(parts[best][0]), "rows a row": float(parts[best][1]), "digests": parts[best][2]})
        row.update({k: float(v) for k, v in re.findall(r"(\w+) ([0-9.]+)", parts[best][3])})
    row["peak MB"] = max(number(r"peak (\d+) MB" if args.device == "gpu" else r"workspace (\d+) MB", text))
    text = subprocess.check_output([args.grnnd_paper, "--evaluate", graph, "--query", f"{folder}/query.fbin", "--truth",
                                    f"{folder}/gt.ibin", "--beam", "64", "--threads", str(args.threads),
                                    f"{folder}/base.fbin"], text=True)
    row["recall@10, L=64"], row["distances"] = number(r"recall@10 ([0-9.]+)", text)[0], number(r"distances ([0-9.]+)",
                                                                                              text)[0]
    os.remove(graph)
    return row


def main():
    args = parse()
    os.makedirs(args.out, exist_ok=True)
    rows = []
    for data in args.data:
        name, _, folder = data.partition("=")
        first = (args.devices or ["0"])[0]
        whole = measure(args, folder, first, None)
        for devices in args.devices or ["0"]:
            for share in args.limits.split(","):
                limit = None if float(share) >= 1 else max(int(whole["peak MB"] * float(share)), 1)
                row = whole if limit is None and devices == first else measure(args, folder, devices, limit)
                row.update({"data": name, "GPUs": devices if args.device == "gpu" else "", "limit": share,
                            "MB": limit or "", "ratio": row["s"] / whole["s"]})
                rows.append([row.get(c, "") for c in COLUMNS])
    write_table(f"{args.out}/limits.md", "Graph builds under limits of memory", COLUMNS, rows)


if __name__ == "__main__":
    main()
