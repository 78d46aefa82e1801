#!/usr/bin/env python3
"""Recall that grnnd.target_recall reaches, and what it costs.

  target.py --pg-config PG_CONFIG [--before PG_CONFIG] --out RESULTS [--rows 20000] [--sets NAME;...]

Each set of sets.py has 400 queries here.  200 of them measure: for each target the recall of the ten nearest rows,
the records visited (R of n: so many of n queries read all records instead) and milliseconds of processor a query.
First the curve of recall is that of the build, whose queries are rows.  Then the other 200 queries leave their
sample, with which grnnd_fit() measures the curve anew.  A name with ", empty" behind it means an index created
before the first row.  --before names the server of an earlier version, which is measured in the same run.

A cell in bold misses its target by more than 0.01, or 0.02 before there is a sample.
"""
import argparse
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import sets  # noqa: E402
from bench import asked, distances, exact, load, prepare, recall  # noqa: E402
from common import Server, Session, machine, using, write_table  # noqa: E402

sets.QUERIES = 400
TARGETS = (0.9, 0.95, 0.99)
ALLOWED = {"before": 0.01, "rows": 0.02, "sample": 0.01}
TWELVE = ("sentences", "words in glosses, 128", "keywords in glosses, 128", "text in code, 128", "two modalities, 128",
          "other clusters, 48", "colors in patches, 64", "near duplicates, 32", "uniform, 100", "tokens, 256", "keywords",
          "sentences, empty", "two modalities, 128, empty", "drifting, 64, empty")


def work(lines):
    """Records visited, and scans of all records, of a statement's plan."""
    visits = rests = 0

    def add(node):
        nonlocal visits, rests
        visits += node.get("Records Visited", 0)
        rests += node.get("Scans of All Rows", 0)
        for child in node.get("Plans", []):
            add(child)
    add(json.loads("\n".join(lines))[0]["Plan"])
    return visits, rests


def reached(session, op, truth):
    """{target: [recall, visits, scans of all records, milliseconds]}"""
    out = {}
    for target in TARGETS:
        session.sql(f"SET grnnd.target_recall = {target}")
        session.sql(asked("items", op, 10))
        lines, seconds = session.timed(asked("items", op, 10))
        visits, rests = work(session.sql("EXPLAIN (ANALYZE, TIMING off, FORMAT json) " + asked("items", op, 10)))
        out[target] = [recall(distances(lines), truth, 10), visits / len(truth), rests, 1e3 * seconds / len(truth)]
    return out


def measure(server, set_, state, base, query, samples):
    """{when: reached()}; when is "before" on a server that keeps no sample, "rows" or "sample"."""
    server.sql("DROP TABLE IF EXISTS items, given_rows, asked, others")
    load(server, "given_rows", base, set_.type)
    load(server, "others", query[:200], set_.type)
    load(server, "asked", query[200:], set_.type)
    prepare(server, state, "grnnd", "items", "given_rows", using("grnnd", set_.ops))
    session = Session(server)
    truth = exact(session, "items", set_.op)
    if not samples:
        return {"before": reached(session, set_.op, truth)}
    session.sql("SET grnnd.sample_queries = off")
    out = {"rows": reached(session, set_.op, truth)}
    session.sql("SET grnnd.sample_queries = on")
    session.sql(asked("items", set_.op, 10).replace("asked", "others"))
    session.sql("SET grnnd.sample_queries = off")
    server.sql("SELECT grnnd_fit('i')")
    out["sample"] = reached(session, set_.op, truth)
    session.close()
    return out


def cell(when, target, x):
    text = f"{x[0]:.3f}, {x[1]:.0f}" + (f", R of {x[2]}" if x[2] else "") + f", {x[3]:.2f}"
    return f"**{text}**" if x[0] < target - ALLOWED[when] else text


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--pg-config", required=True)
    p.add_argument("--before")
    p.add_argument("--out", required=True)
    p.add_argument("--rows", type=int, default=20000)
    p.add_argument("--sets", help="names, between semicolons; twelve by default, two of them created empty as well")
    args = p.parse_args()
    os.makedirs(args.out, exist_ok=True)
    settings = {"shared_buffers": "1GB", "grnnd.background_fit": "off"}
    servers = [Server(args.pg_config, settings={**settings, "shared_preload_libraries": "'grnnd'"})]
    rows, everything = [], {}
    try:
        servers += [Server(args.before, settings=settings)] if args.before else []
        for server in servers:
            server.sql("CREATE EXTENSION vector; CREATE EXTENSION grnnd")
        for name in args.sets.split(";") if args.sets else TWELVE:
            of = name.removesuffix(", empty")
            base, query = sets.SETS[of].make(of, args.rows)
            r = {}
            for server in reversed(servers):
                r.update(measure(server, sets.SETS[of], "empty" if of != name else "built", base, query,
                                 server is servers[0]))
            everything[name] = r
            rows += [[name, when] + [cell(when, t, r[when][t]) for t in TARGETS] for when in r]
            for line in rows[-len(r):]:
                print("| " + " | ".join(line) + " |", flush=True)
            with open(f"{args.out}/target.json", "w") as f:
                json.dump(everything, f, indent=1)
    finally:
        for server in servers:
            server.stop()
        if rows:
            write_table(f"{args.out}/target.md", f"Recall by grnnd.target_recall, {args.rows} rows at most",
                        ["set", "curve by"] + [f"target {t}: recall, records visited, ms" for t in TARGETS], rows, machine())


if __name__ == "__main__":
    main()
