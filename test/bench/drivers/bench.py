#!/usr/bin/env python3
"""Runs VectorDBBench and ann-benchmarks themselves with the drivers beside this, on one small data set.

  bench.py --pg-config PG_CONFIG [--ann-benchmarks CHECKOUT] --out RESULTS [--data FOLDER] [--systems grnnd,pgvector]
           [--clients 1,4]

Runs in a Python that has VectorDBBench and what ann-benchmarks wants:

  pip install "vectordb-bench[pgvector]" docker ansicolors && install.py vectordbbench SITE-PACKAGES/vectordb_bench
  git clone https://github.com/erikbern/ann-benchmarks CHECKOUT && install.py ann-benchmarks CHECKOUT

FOLDER holds base.fbin, query.fbin and gt.ibin (100 neighbors, by cosine); without it the sample of make demo is
taken.  Both harnesses ask the same server for 10 and for 100 rows, at each ef_search.  --clients: VectorDBBench also
runs its concurrent stage, with these numbers of clients.  Writes RESULTS/drivers.md.
"""
import argparse
import glob
import json
import os
import subprocess
import sys

import h5py
import numpy as np
import pandas

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
from common import ROOT, Server, machine, read_matrix, save_matrix, write_table  # noqa: E402

DATASET = "small-angular"
COMMANDS = {"grnnd": ["grnnd"], "pgvector": ["pgvectorhnsw", "--m", "16", "--ef-construction", "64"]}
ARGUMENTS = {"grnnd": ("GRNND", "[{}]"), "pgvector": ("PGVector", "[{M: 16, efConstruction: 64}]")}
COLUMNS = ["harness", "index", "k", "ef_search", "recall", "ms a query, one client", "queries/s by clients", "load and index s"]

# ann-benchmarks with a data set of the user's, which it would not take by name.  It runs in this process: the worker
# that ann-benchmarks starts ends at once where it is quicker than the queue that it reads.
ANN_MAIN = """
import sys
from ann_benchmarks import datasets
datasets.DATASETS[sys.argv[1]] = None
datasets.download = lambda url, path: None
sys.argv = ['run.py', '--dataset'] + sys.argv[1:]
from ann_benchmarks import main
main.create_workers_and_execute = lambda definitions, args: [
    main.run(definition, args.dataset, args.count, args.runs, args.batch) for definition in definitions]
main.main()
"""
ANN_RESULTS = """
import json, sys
from ann_benchmarks import datasets
datasets.download = lambda url, path: None
from ann_benchmarks.plotting.utils import compute_metrics_all_runs
from ann_benchmarks.results import load_all_results
data, _ = datasets.get_dataset(sys.argv[1])
rows = list(compute_metrics_all_runs(data, load_all_results(sys.argv[1], int(sys.argv[2])), True))
print(json.dumps([{k: str(v) for k, v in row.items()} for row in rows]))
"""


def sample(out):
    """The demo's sample as a data folder."""
    for name, file in (("glosses", "base"), ("queries", "query")):
        with open(f"{out}/{file}.fbin", "wb") as f:
            subprocess.check_call([sys.executable, f"{ROOT}/test/data/sample.py", name, "fbin"], stdout=f)
    base, query = read_matrix(f"{out}/base.fbin"), read_matrix(f"{out}/query.fbin")
    save_matrix(f"{out}/gt.ibin", np.argsort(-(query @ base.T), axis=1, kind="stable")[:, :100].astype(np.int32))
    return out


def convert(folder, out, checkout):
    """Writes the data in both harnesses' forms; returns (rows, dimensions)."""
    base, query = np.array(read_matrix(f"{folder}/base.fbin")), np.array(read_matrix(f"{folder}/query.fbin"))
    truth = np.array(read_matrix(f"{folder}/gt.ibin", np.int32))[:, :100]
    for name, column, rows in (("train", "emb", base), ("test", "emb", query), ("neighbors", "neighbors_id", truth)):
        pandas.DataFrame({"id": range(len(rows)), column: list(rows)}).to_parquet(f"{out}/{name}.parquet")
    if not checkout:
        return base.shape
    os.makedirs(f"{checkout}/data", exist_ok=True)
    with h5py.File(f"{checkout}/data/{DATASET}.hdf5", "w") as f:
        f.attrs.update({"type": "dense", "distance": "angular", "dimension": base.shape[1], "point_type": "float"})
        f["train"], f["test"], f["neighbors"] = base, query, truth
        near = np.take_along_axis(query @ base.T, truth.astype(int), 1)
        lengths = np.linalg.norm(query, axis=1)[:, None] * np.linalg.norm(base, axis=1)[truth]
        f["distances"] = 1 - near / lengths
    return base.shape


def run(command, log, **more):
    with open(log, "a") as f:
        if subprocess.call(command, stdout=f, stderr=f, **more):
            sys.exit(f"failed, see {log}: {' '.join(command)}")


def vectordbbench(server, system, shape, args, out):
    """One load, then a serial search at each k and ef_search; yields rows of the table."""
    env = dict(os.environ, RESULTS_LOCAL_DIR=f"{out}/vdb-{system}", POSTGRES_PASSWORD="unused", LOG_FILE=f"{out}/vdb.log")
    program = os.path.join(os.path.dirname(sys.executable), "vectordbbench")
    seconds = None
    for k in args.k:
        for ef in args.ef:
            load = [] if seconds is None else ["--skip-drop-old", "--skip-load"]
            label = f"{system}-{k}-{ef}"
            clients = ["--num-concurrency", args.clients, "--concurrency-duration", "10"] if args.clients else ["--skip-search-concurrent"]
            run([program] + COMMANDS[system] + load + [
                "--ef-search", str(ef), "--user-name", "bench", "--host", server.dir, "--db-name", "postgres",
                "--case-type", "PerformanceCustomDataset", "--custom-case-name", "small", "--custom-dataset-name", "small",
                "--custom-dataset-dir", out, "--custom-dataset-size", str(shape[0]), "--custom-dataset-dim", str(shape[1]),
                "--custom-dataset-file-count", "1", "--k", str(k), "--db-label", label,
                "--task-label", label] + clients, f"{out}/vectordbbench.log", env=env, cwd=out)
            found = [path for path in glob.glob(f"{out}/vdb-{system}/**/*{label}*.json", recursive=True)]
            if len(found) != 1:
                sys.exit(f"VectorDBBench wrote {len(found)} results of {label}, see {out}/vectordbbench.log")
            with open(found[0]) as f:
                metrics = json.load(f)["results"][0]["metrics"]
            if seconds is None:
                seconds = metrics["load_duration"]
            rates = ", ".join(f"{n}: {rate:.0f}" for n, rate in zip(metrics["conc_num_list"], metrics["conc_qps_list"]))
            yield ["VectorDBBench", system, k, ef, metrics["recall"], metrics["serial_latency_p50"] * 1000, rates, seconds]


def ann_benchmarks(server, system, args, out):
    """A build and searches for each k; yields rows of the table."""
    constructor, arguments = ARGUMENTS[system]
    definitions = f"{out}/definitions-{system}/{system}"
    os.makedirs(definitions, exist_ok=True)
    with open(f"{definitions}/config.yml", "w") as f:
        f.write(f"float:\n  any:\n  - base_args: ['@metric']\n    constructor: {constructor}\n    disabled: false\n"
                f"    docker_tag: none\n    module: ann_benchmarks.algorithms.{system}\n    name: {system}\n"
                f"    run_groups:\n      small:\n        arg_groups: {arguments}\n        args: {{}}\n"
                f"        query_args: [{list(args.ef)}]\n")
    env = dict(os.environ, PYTHONPATH=args.ann_benchmarks, **{f"ANN_BENCHMARKS_PG_{name}": value for name, value in (
        ("START_SERVICE", "false"), ("HOST", server.dir), ("USER", "bench"), ("DBNAME", "postgres"))})
    for k in args.k:
        run([sys.executable, "-c", ANN_MAIN, DATASET, "--definitions", os.path.dirname(definitions), "--local", "--runs", "1",
             "--force", "-k", str(k)], f"{out}/ann-benchmarks.log", env=env, cwd=args.ann_benchmarks)
        text = subprocess.check_output([sys.executable, "-c", ANN_RESULTS, DATASET, str(k)], text=True, env=env,
                                       cwd=args.ann_benchmarks, stderr=subprocess.DEVNULL)
        for row in json.loads(text.splitlines()[-1]):
            if row["algorithm"] == system:
                ef = int(row["parameters"].split("ef_search=")[1].rstrip(")"))
                if ef in args.ef:       # an earlier run may have left others
                    yield ["ann-benchmarks", system, k, ef, float(row["k-nn"]), 1000 / float(row["qps"]), "", float(row["build"])]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pg-config", required=True)
    parser.add_argument("--ann-benchmarks")
    parser.add_argument("--data")
    parser.add_argument("--out", required=True)
    parser.add_argument("--systems", default="grnnd,pgvector")
    parser.add_argument("--clients")
    parser.add_argument("--ef", type=lambda text: [int(x) for x in text.split(",")], default=[10, 40, 100, 200])
    parser.add_argument("--k", type=lambda text: [int(x) for x in text.split(",")], default=[10, 100])
    args = parser.parse_args()
    args.ann_benchmarks = args.ann_benchmarks and os.path.abspath(args.ann_benchmarks)
    out = os.path.abspath(args.out)
    os.makedirs(out, exist_ok=True)
    shape = convert(args.data or sample(out), out, args.ann_benchmarks)
    server = Server(args.pg_config, settings={"max_parallel_workers_per_gather": "0"})
    rows = []
    try:
        version = server.sql("SELECT split_part(version(), ' on ', 1)")[0]
        server.sql("CREATE EXTENSION grnnd CASCADE")
        for system in args.systems.split(","):
            rows += sorted(vectordbbench(server, system, shape, args, out), key=lambda r: r[2:4])
            if args.ann_benchmarks:
                rows += sorted(ann_benchmarks(server, system, args, out), key=lambda r: r[2:4])
            write_table(f"{out}/drivers.md", "VectorDBBench and ann-benchmarks", COLUMNS, rows,
                        f"{machine()}; {version}, {shape[0]} rows of {shape[1]} dimensions, cosine")
    finally:
        server.stop()


if __name__ == "__main__":
    main()
