"""The statements of VectorDBBench's pgvector client and of ann-benchmarks' pgvector module, with
grnnd as the index type."""
import threading

import client
import numpy as np
from client import CLASSES, DIM, ok, recall, rows
from pgvector.psycopg import register_vector
from psycopg import sql

TABLE = sql.Identifier('bench')


def vectordbbench():
    conn = client.connect()
    register_vector(conn)
    cursor = conn.cursor()

    def do(text, **names):
        cursor.execute(sql.SQL(text).format(table=TABLE, index=sql.Identifier('bench_index'),
                                            user=sql.Identifier(conn.info.user), **names))
        conn.commit()

    def make_index(column, opclass):
        do('DROP INDEX IF EXISTS {index}')
        do('CREATE INDEX IF NOT EXISTS {index} ON public.{table} USING {method} ({column} {opclass}) WITH ({m} = {m_value}, {ef} = {ef_value});',
           method=sql.Identifier('grnnd'), column=sql.SQL(column), opclass=sql.Identifier(opclass),
           m=sql.Identifier('m'), m_value=sql.Identifier('16'), ef=sql.Identifier('ef_construction'), ef_value=sql.Identifier('128'))

    do('CREATE EXTENSION IF NOT EXISTS vector')
    do('DROP INDEX IF EXISTS {index}')
    do('DROP TABLE IF EXISTS public.{table}')
    do('CREATE TABLE IF NOT EXISTS public.{table} ({id} BIGINT PRIMARY KEY, embedding vector({dim}), {label} VARCHAR(64));',
       id=sql.Identifier('id'), label=sql.Identifier('label'), dim=sql.Literal(DIM))
    do('ALTER TABLE public.{table} ALTER COLUMN embedding SET STORAGE PLAIN;')
    with cursor.copy(sql.SQL('COPY public.{} FROM STDIN (FORMAT BINARY)').format(TABLE)) as copy:
        copy.set_types(['bigint', 'vector', 'varchar'])
        for i, row in enumerate(rows):
            copy.write_row((i, row, f'label_{client.kinds[i]}'))
    conn.commit()
    do("SET maintenance_work_mem TO '64MB';")
    do("ALTER USER {user} SET maintenance_work_mem TO '64MB';")
    do("SET max_parallel_maintenance_workers TO '2';")
    do("ALTER USER {user} SET max_parallel_maintenance_workers TO '2';")
    do("SET max_parallel_workers TO '2';")
    do('ALTER TABLE {table} SET (parallel_workers = 2);')
    make_index('embedding', 'vector_cosine_ops')
    conn.autocommit = True
    conn.execute('ANALYZE bench')
    conn.autocommit = False

    def session(ef):
        do('SET {name} = {value};', name=sql.Identifier('hnsw.ef_search'), value=sql.Identifier(str(ef)))
        do('SET {name} = {value};', name=sql.Identifier('hnsw.iterative_scan'), value=sql.Identifier('relaxed_order'))

    def search(q, k, where='', expression='"embedding"', op='<=>', query='%s', type_name='vector'):
        cursor.execute(f'SELECT "id" FROM public."bench" {where} ORDER BY {expression} {op} {query}::{type_name}({DIM}) LIMIT %s::int',
                       (np.asarray(q.tolist()), k), prepare=True, binary=True)
        return [int(i[0]) for i in cursor.fetchall()]
    hits = []
    for ef in (10, 100, 400):
        session(ef)
        right = [set(client.near(q, '<=>', 100)) for q in client.queries]
        hits.append(sum(len(set(search(q, 100)) & r) for q, r in zip(client.queries, right)))
    ok(hits[0] <= hits[1] <= hits[2] and hits[2] >= 1980 and hits[1] >= 1900, 'VectorDBBench: recall by hnsw.ef_search', hits)
    session(100)
    recall(lambda q, k: search(q, k, 'WHERE id >= 40'), '<=>', 'VectorDBBench: filter by number', 0.98, 100,
           [i >= 40 for i in range(len(rows))], False)
    recall(lambda q, k: search(q, k, "WHERE label = 'label_3'"), '<=>', 'VectorDBBench: filter by label', 0.97, 100,
           [kind == 3 for kind in client.kinds], False)
    conn.commit()
    if 'halfvec_cosine_ops' in CLASSES:
        make_index(f'("embedding"::halfvec({DIM}))', 'halfvec_cosine_ops')
        session(100)
        recall(lambda q, k: search(q, k, '', f'"embedding"::halfvec({DIM})', '<=>', '%s', 'halfvec'),
               '<=>', 'VectorDBBench: half precision', 0.95, 100, None, False)
    if 'bit_hamming_ops' in CLASSES:
        make_index(f'(binary_quantize("embedding")::bit({DIM}))', 'bit_hamming_ops')
        session(400)

        def reranked(q, k):
            q = np.asarray(q.tolist())
            cursor.execute(f'''SELECT i.id FROM (SELECT "id", "embedding" <=> %s::vector AS distance FROM public."bench"
                ORDER BY binary_quantize("embedding")::bit({DIM}) <~> binary_quantize(%s)::bit({DIM}) LIMIT 400) i
                ORDER BY i.distance LIMIT %s::int''', (q, q, k), prepare=True, binary=True)
            return [int(i[0]) for i in cursor.fetchall()]
        recall(reranked, '<=>', 'VectorDBBench: bits, then exact distances', 0.8)
    conn.commit()
    conn.close()


def ann_benchmarks():
    conn = client.connect(autocommit=True)
    register_vector(conn)
    cursor = conn.cursor()
    cursor.execute('DROP TABLE IF EXISTS items')
    cursor.execute('CREATE TABLE items (id int, embedding vector(%d))' % DIM)
    cursor.execute('ALTER TABLE items ALTER COLUMN embedding SET STORAGE PLAIN')
    with cursor.copy('COPY items (id, embedding) FROM STDIN WITH (FORMAT BINARY)') as copy:
        copy.set_types(['int4', 'vector'])
        for i, row in enumerate(rows):
            copy.write_row((i, row))

    # its thread that watches the build
    ended = threading.Event()
    seen = []

    def watch():
        with client.connect() as watching:
            while not ended.wait(0.02):
                seen.extend(watching.execute(
                    'SELECT phase, round(100.0 * blocks_done / nullif(blocks_total, 0), 1), tuples_done '
                    'FROM pg_stat_progress_create_index').fetchall())
                watching.commit()
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        cursor.execute('CREATE INDEX ON items USING grnnd (embedding vector_l2_ops) WITH (m = 16, ef_construction = 200)')
    finally:
        ended.set()
        watcher.join()
    ok(all(0 <= float(percent or 0) <= 100 for _, percent, _ in seen), 'ann-benchmarks: progress', seen)

    shares = []
    for ef in (10, 40, 200, 800):
        cursor.execute('SET hnsw.ef_search = %d' % ef)
        hits = 0
        for q in client.queries:
            cursor.execute('SELECT id FROM items ORDER BY embedding <-> %s LIMIT %s', (q, 10), binary=True, prepare=True)
            hits += len({i for i, in cursor.fetchall()} & set(client.near(q, '<->')))
        shares.append(hits / 200)
    ok(shares == sorted(shares) and shares[0] >= 0.7 and shares[1] >= 0.95 and shares[-1] >= 0.995,
       'ann-benchmarks: recall by hnsw.ef_search', shares)
    cursor.execute("SELECT pg_relation_size('items_embedding_idx')")
    ok(cursor.fetchone()[0] > 0, 'ann-benchmarks: size')
    conn.close()
    client.scanned('items_embedding_idx', 20, 'ann-benchmarks: scans')


def main():
    vectordbbench()
    ann_benchmarks()


client.run(main)
