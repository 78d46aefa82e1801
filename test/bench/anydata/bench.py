#!/usr/bin/env python3
"""grnnd beside pgvector's hnsw on sets of many kinds: recall at the same ef_search, queries/s at the same recall.

  bench.py --pg-config PG_CONFIG --out RESULTS [--rows 20000] [--sets NAME,...] [--states built,empty,drift,churn]
           [--data NAME=FOLDER[:l2|ip|cosine] ...] [--with 'layout = compact']

Sets are made by sets.py; --data adds those of data folders (test/bench/README.md).  States of an index: built by CREATE
INDEX; empty, created before the first row; drift, built of the first tenth of the rows along their longest direction;
churn, built, and three quarters of the rows deleted.  VACUUM follows in all states but the first.  hnsw has m = 16 and
ef_construction = 64.  Queries run one after the other in one session; their time is the processor time of its
backend.  Recall counts rows at most as far away as the k-th nearest.  A cell in bold is worse than hnsw: recall at the
same ef_search lower by more than 0.005, or fewer queries/s at the same recall, or a larger index.

RESULTS/anydata.md has a line for each set and state; RESULTS/anydata.json all figures.
"""
import argparse
import json
import os
import subprocess
import sys
import time

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from common import Server, Session, machine, using, write_table  # noqa: E402
from sets import CLASSES, QUERIES, SETS, WORDS, folder  # noqa: E402

EFS = (10, 20, 40, 100, 200, 400, 800)
SAME = (40, 100, 200)           # ef_search at which recall is compared
ALLOWED = 0.005                 # of recall, at the same ef_search
RECALLS = (0.95, 0.99)
STATES = ("built", "empty", "drift", "churn")


def sparse_chunks(rows):
    for first in range(0, len(rows), 4096):
        out = []
        for at, (indices, values) in enumerate(rows[first:first + 4096], first):
            n = len(indices)
            out.append(np.array([2], ">i2").tobytes() + np.array([4, at, 12 + 8 * n, WORDS, n, 0], ">i4").tobytes()
                       + np.asarray(indices).astype(">i4").tobytes() + np.asarray(values).astype(">f4").tobytes())
        yield b"".join(out)


def load(server, table, rows, type_):
    """Makes a table (id int, v type)."""
    if type_ == "sparsevec":
        server.sql(f"CREATE TABLE {table} (id int, v sparsevec({WORDS})); ALTER TABLE {table} ALTER v SET STORAGE plain")
        server.copy_binary(table, sparse_chunks(rows))
    elif type_ == "vector":
        server.load(table, rows)
    else:
        dim = rows.shape[1]
        to = f"v::halfvec({dim})" if type_ == "halfvec" else f"binary_quantize(v)::bit({dim})"
        server.load("given", rows)
        server.sql(f"CREATE TABLE {table} AS SELECT id, {to} AS v FROM given; DROP TABLE given; "
                   f"ALTER TABLE {table} ALTER v TYPE {type_}({dim}), ALTER v SET STORAGE plain")
    server.sql(f"VACUUM (FREEZE, ANALYZE) {table}; CHECKPOINT")


def along(base):
    """Positions of the rows in the order of their longest direction."""
    x = base - base[:2000].mean(0)
    return np.argsort(x @ np.linalg.svd(x[:2000], full_matrices=False)[2][0], kind="stable")


def prepare(server, state, kind, table, source, index):
    """Makes the table with its index in that state; returns seconds of CREATE INDEX and of one insert."""
    server.sql(f"DROP TABLE IF EXISTS {table}; CREATE TABLE {table} (LIKE {source}); "
               f"ALTER TABLE {table} ALTER v SET STORAGE plain")
    before = {"built": "true", "churn": "true", "empty": "false",
              "drift": f"id < (SELECT count(*) FROM {source}) / 10"}[state]
    server.sql(f"INSERT INTO {table} SELECT * FROM {source} WHERE {before} ORDER BY id; VACUUM ANALYZE {table}; CHECKPOINT")
    start = time.time()
    server.sql(f"CREATE INDEX i ON {table} USING {index}")
    build, insert = time.time() - start, 0
    if state in ("empty", "drift"):
        session = Session(server)
        _, seconds = session.timed(f"INSERT INTO {table} SELECT * FROM {source} WHERE NOT ({before}) ORDER BY id")
        insert = seconds / int(session.sql(f"SELECT count(*) FROM {source} WHERE NOT ({before})")[0])
        session.close()
    elif state == "churn":
        server.sql(f"DELETE FROM {table} WHERE id % 4 <> 0")
    if state != "built":
        server.sql(f"VACUUM ANALYZE {table}")
    return build, insert


def asked(table, op, k):
    return (f"SELECT q.id, s.d FROM asked q, LATERAL (SELECT v {op} q.v AS d FROM {table} ORDER BY v {op} q.v LIMIT {k}) s")


def distances(lines):
    """{query: distances in order}"""
    out = {}
    for line in lines:
        at, d = line.split("|")
        out.setdefault(int(at), []).append(float(d))
    return {at: sorted(d) for at, d in out.items()}


def exact(session, table, op):
    """{query: distances of its 100 nearest rows}"""
    session.sql("SET enable_indexscan = off; SET enable_seqscan = on")
    found = distances(session.sql(asked(table, op, 100)))
    session.sql("SET enable_indexscan = on; SET enable_seqscan = off")
    return found


def recall(found, truth, k):
    hits = 0
    for at, true in truth.items():
        bound = true[min(k, len(true)) - 1]
        hits += min(sum(d <= bound + 1e-6 * abs(bound) + 1e-12 for d in found.get(at, [])), k)
    return hits / sum(min(k, len(true)) for true in truth.values())


def sweep(session, table, op, setting, truth):
    """A point for each ef_search: recall@10, milliseconds of processor a query; of 200 recall@100 as well."""
    points = []
    session.sql(asked(table, op, 10))
    for ef in EFS:
        session.sql(f"SET {setting} = {ef}")
        lines, seconds = session.timed(asked(table, op, 10))
        points.append({"ef": ef, "recall": recall(distances(lines), truth, 10), "ms": 1e3 * seconds / QUERIES})
        if ef == 200:
            points[-1]["recall_100"] = recall(distances(session.sql(asked(table, op, 100))), truth, 100)
        if ef >= max(SAME) and points[-1]["recall"] >= 0.999:
            break
    return points


def at_recall(points, wanted):
    """Milliseconds a query at a recall, between points; None where no point has it."""
    last = None
    for p in points:
        if p["recall"] >= wanted:
            if last is None or p["recall"] == last["recall"]:
                return p["ms"]
            return last["ms"] + (p["ms"] - last["ms"]) * (wanted - last["recall"]) / (p["recall"] - last["recall"])
        last = p
    return None


def measure(server, set_, state, options):
    """Figures of both systems in one state."""
    result = {}
    for kind in ("pgvector", "grnnd"):
        index = using(kind, set_.ops) + (f" WITH ({options})" if options and kind == "grnnd" else "")
        build, insert = prepare(server, state, kind, "items", "drift" if state == "drift" else "given_rows", index)
        session = Session(server)
        truth = exact(session, "items", set_.op)
        figures = {"build": build, "insert": insert, "size": server.size("i"),
                   "points": sweep(session, "items", set_.op, "grnnd.ef_search" if kind == "grnnd" else "hnsw.ef_search", truth)}
        if kind == "grnnd":
            for target in RECALLS:
                session.sql(f"SET grnnd.ef_search TO DEFAULT; SET grnnd.target_recall = {target}")
                lines, seconds = session.timed(asked("items", set_.op, 10))
                figures[f"target {target}"] = [recall(distances(lines), truth, 10), 1e3 * seconds / QUERIES]
        session.close()
        result[kind] = figures
    return result


def marked(text, worse):
    return f"**{text}**" if worse else text


def ratio(a, b, lower=False):
    return marked(f"{a / b:.2f}", a < b if not lower else a > b) if b else ""


def faster(hnsw, grnnd, wanted):
    """A cell: how many times faster grnnd's points reach a recall."""
    h, g = at_recall(hnsw, wanted), at_recall(grnnd, wanted)
    return ("neither" if h is None and g is None else marked("not reached", True) if g is None
            else "hnsw not" if h is None else ratio(h, g))


def row(name, state, r):
    """A line of the table."""
    hnsw, grnnd = r["pgvector"], r["grnnd"]
    cells = [name, state]
    at = {kind: {p["ef"]: p for p in r[kind]["points"]} for kind in r}

    def both(a, b):
        return marked(f"{a:.3f} / {b:.3f}", b < a - ALLOWED)

    for ef in SAME:
        cells.append(both(at["pgvector"][ef]["recall"], at["grnnd"][ef]["recall"]))
    cells.append(both(at["pgvector"][200]["recall_100"], at["grnnd"][200]["recall_100"]))
    cells.append(f"{np.exp(np.mean([np.log(at['pgvector'][ef]['ms'] / at['grnnd'][ef]['ms']) for ef in SAME])):.1f}")
    for wanted in RECALLS:
        cells.append(faster(hnsw["points"], grnnd["points"], wanted))
    cells.append(ratio(hnsw["build"], grnnd["build"]) if state != "empty" else "")
    cells.append(ratio(hnsw["insert"], grnnd["insert"]) if hnsw["insert"] else "")
    cells.append(ratio(grnnd["size"], hnsw["size"], True))
    for wanted in RECALLS:
        cells.append(marked(f"{grnnd[f'target {wanted}'][0]:.3f}", grnnd[f"target {wanted}"][0] < wanted - 0.01))
    return cells


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--pg-config", required=True)
    p.add_argument("--out", required=True)
    p.add_argument("--rows", type=int, default=20000)
    p.add_argument("--sets", help="names, between semicolons; all by default")
    p.add_argument("--states", default="built")
    p.add_argument("--data", action="append", default=[], metavar="NAME=FOLDER[:l2|ip|cosine]")
    p.add_argument("--with", dest="options", help="storage parameters of grnnd's indexes")
    args = p.parse_args()
    sets = {name: SETS[name] for name in (args.sets.split(";") if args.sets else SETS)}
    for given in args.data:
        name, _, path = given.partition("=")
        path, _, metric = path.partition(":")
        sets[name] = folder(path, {v: k for k, v in CLASSES.items()}[metric or "l2"])
    os.makedirs(args.out, exist_ok=True)
    everything, columns = {}, (
        ["set", "state"] + [f"recall@10 at ef {ef}, hnsw / grnnd" for ef in SAME] +
        ["recall@100 at ef 200", "queries/s at the same ef, hnsw = 1"] + [f"at recall {x}" for x in RECALLS] +
        ["CREATE INDEX", "insert", "size, hnsw = 1"] + [f"recall for target {x}" for x in RECALLS])
    server = Server(args.pg_config, settings={"shared_buffers": "3GB", "grnnd.background_fit": "off"})
    rows = []
    try:
        server.sql("CREATE EXTENSION vector; CREATE EXTENSION grnnd")
        for name, set_ in sets.items():
            base, query = set_.make(name, args.rows)
            server.sql("DROP TABLE IF EXISTS items, given_rows, drift, asked")
            load(server, "given_rows", base, set_.type)
            load(server, "asked", query, set_.type)
            for state in args.states.split(","):
                if state == "drift":
                    if set_.type == "sparsevec":
                        continue
                    order = np.arange(len(base)) if name.startswith("drift") else along(base)
                    load(server, "drift", base[order], set_.type)
                r = measure(server, set_, state, args.options)
                everything[f"{name}, {state}"] = r
                rows.append(row(name, state, r))
                print("| " + " | ".join(rows[-1]) + " |", flush=True)
                with open(f"{args.out}/anydata.json", "w") as f:
                    json.dump(everything, f, indent=1)
    finally:
        server.stop()
        if rows:
            write_table(f"{args.out}/anydata.md", f"grnnd beside hnsw on anyone's data, {args.rows} rows at most", columns, rows,
                        machine())
    worse = sum(cell.startswith("**") for line in rows for cell in line)
    print(f"{len(rows)} sets and states, {worse} cells are worse than hnsw's")


if __name__ == "__main__":
    main()
