"""client.py - what the tests of client libraries share: rows, exact answers, and results
in the form "ok NAME" or "not ok NAME" for test/t/migration_clients.pl.

The server is the one that PGHOST and PGPORT name.  CLASSES are the operator classes of
pgvector that grnnd has.
"""
import os
import time
import traceback

import numpy as np
import psycopg

ROWS = 2000
DIM = 64
K = 10
CLASSES = os.environ['CLASSES'].split()
HOST = os.environ['PGHOST']
PORT = os.environ['PGPORT']

# 8 hidden numbers and a little noise, as embeddings are
_random = np.random.default_rng(7)
_map = _random.normal(size=(8, DIM))


def _rows(n):
    rows = _random.normal(size=(n, 8)) @ _map + 0.1 * _random.normal(size=(n, DIM))
    return rows.astype(np.float32)


rows = _rows(ROWS)
queries = _rows(20)
kinds = [i % 4 for i in range(ROWS)]


def near(q, op, k=K, allowed=None):
    """The numbers of the k rows nearest to q, of those allowed (a list of truths)."""
    x, y = rows.astype(np.float64), q.astype(np.float64)
    d = {'<->': lambda: np.linalg.norm(x - y, axis=1),
         '<#>': lambda: -(x @ y),
         '<=>': lambda: 1 - (x @ y) / np.linalg.norm(x, axis=1) / np.linalg.norm(y)}[op]()
    if allowed is not None:
        d = np.where(allowed, d, np.inf)
    return [int(i) for i in np.argsort(d, kind='stable')[:k]]


def ok(good, name, more=''):
    print(('ok ' if good else 'not ok ') + name, flush=True)
    if not good and more != '':
        print('# ' + str(more).replace('\n', '\n# '), flush=True)


def same(got, expected, name):
    ok(got == expected, name, f'{got}\nexpected: {expected}')


def recall(search, op, name, least=0.95, k=K, allowed=None, ordered=True):
    """search(q, k) returns numbers of rows: for each query k of them, and the right ones."""
    hits = 0
    for q in queries:
        got = [int(i) for i in search(q, k)]
        right = near(q, op, k, allowed)
        if len(got) != k or len(set(got)) != k:
            return ok(False, name, f'{len(got)} rows, {len(set(got))} different')
        if ordered and [i for i in got if i in right] != [i for i in right if i in got]:
            return ok(False, name, f'order: {got}\nexpected: {right}')
        hits += len(set(got) & set(right))
    ok(hits >= least * k * len(queries), name, f'recall {hits / k / len(queries)}')


def connect(**options):
    return psycopg.connect(dbname='postgres', **options)


def scalar(sql, *parameters):
    with connect(autocommit=True) as conn:
        return conn.execute(sql, parameters or None).fetchone()[0]


def scans(index):
    """Scans of the index so far, of sessions that have ended or were idle."""
    return scalar('SELECT coalesce(sum(idx_scan), 0) FROM pg_stat_user_indexes WHERE indexrelname = %s', index)


def scanned(index, least, name):
    """The index was scanned that often, of which the statistics learn with some delay."""
    until = time.time() + 60
    while scans(index) < least and time.time() < until:
        time.sleep(0.1)
    ok(scans(index) >= least, name, f'{scans(index)} of {least} scans')


def definition(index):
    return scalar('SELECT max(indexdef) FROM pg_indexes WHERE indexname = %s', index)


def run(main):
    """Runs the test, whose errors are results too."""
    try:
        main()
    except Exception:
        ok(False, 'no error', traceback.format_exc())
    print('done', flush=True)
