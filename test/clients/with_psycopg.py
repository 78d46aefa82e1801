"""psycopg 3 with pgvector's types: COPY, prepared statements, server cursors, pipelines."""
import client
from client import DIM, K, ok, queries, recall, rows, same
from pgvector.psycopg import register_vector


def main():
    conn = client.connect(autocommit=True)
    register_vector(conn)
    conn.execute(f'CREATE TABLE psy (id bigint PRIMARY KEY, kind int, embedding vector({DIM}))')
    with conn.cursor().copy('COPY psy FROM STDIN WITH (FORMAT BINARY)') as copy:
        copy.set_types(['int8', 'int4', 'vector'])
        for i, row in enumerate(rows):
            copy.write_row((i, client.kinds[i], row))
    conn.execute('CREATE INDEX psy_l2 ON psy USING grnnd (embedding vector_l2_ops) WITH (m = 16, ef_construction = 64)')
    conn.execute('CREATE INDEX CONCURRENTLY psy_cosine ON psy USING grnnd (embedding vector_cosine_ops)')
    conn.execute('CREATE INDEX psy_ip ON psy USING grnnd (embedding vector_ip_ops)')
    conn.execute('ANALYZE psy')

    for op in ('<->', '<=>', '<#>'):
        recall(lambda q, k: [r[0] for r in conn.execute(
            f'SELECT id FROM psy ORDER BY embedding {op} %s LIMIT %s', (q, k), prepare=True, binary=True)],
            op, f'prepared, {op}', 0.93)
    plan = '\n'.join(r[0] for r in conn.execute(
        f'EXPLAIN SELECT id FROM psy ORDER BY embedding <-> %s LIMIT {K}', (queries[0],)))
    ok('Index Scan using psy_l2' in plan, 'plan', plan)
    conn.execute('SET hnsw.ef_search = 200')
    recall(lambda q, k: [r[0] for r in conn.execute(
        'SELECT id, embedding <-> %s AS distance FROM psy ORDER BY distance LIMIT %s', (q, k))],
        '<->', 'hnsw.ef_search', 0.99)
    conn.execute('RESET hnsw.ef_search')

    allowed = [kind == 1 for kind in client.kinds]
    for mode in ('strict_order', 'relaxed_order'):
        with conn.transaction():
            conn.execute(f'SET LOCAL hnsw.iterative_scan = {mode}')
            conn.execute('SET LOCAL enable_seqscan = off')
            recall(lambda q, k: [r[0] for r in conn.execute(
                'SELECT id FROM psy WHERE kind = %s ORDER BY embedding <-> %s LIMIT %s', (1, q, k))],
                '<->', f'filter, {mode}', 0.93, 30, allowed, mode == 'strict_order')
    # a cursor that the server keeps
    with conn.transaction(), conn.cursor('nearest', binary=True) as cursor:
        cursor.execute('SELECT id FROM psy ORDER BY embedding <-> %s LIMIT 30', (queries[1],))
        got = [r[0] for r in cursor.fetchmany(5)] + [r[0] for r in cursor.fetchall()]
    ok(len(set(got) & set(client.near(queries[1], '<->', 30))) >= 28, 'server cursor', got)
    with conn.pipeline():
        cursors = [conn.execute('SELECT id FROM psy ORDER BY embedding <-> %s LIMIT 1', (row,)) for row in rows[:20]]
    same([c.fetchone()[0] for c in cursors], list(range(20)), 'pipeline')
    conn.cursor().executemany('INSERT INTO psy VALUES (%s, 9, %s)', [(10000 + i, rows[i]) for i in range(50)])
    same(sorted(r[0] for r in conn.execute('SELECT id FROM psy ORDER BY embedding <-> %s LIMIT 2', (rows[7],))),
         [7, 10007], 'rows inserted later')
    conn.close()
    client.scanned('psy_l2', 100, 'scans by L2')
    client.scanned('psy_cosine', 20, 'scans by cosine')
    client.scanned('psy_ip', 20, 'scans by inner product')


client.run(main)
