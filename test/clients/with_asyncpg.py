"""asyncpg with pgvector's types: statements that are always prepared, cursors, COPY."""
import asyncio

import asyncpg
import client
from client import DIM, ok, queries, rows, same
from pgvector.asyncpg import register_vector


async def session():
    conn = await asyncpg.connect(database='postgres')
    await register_vector(conn)
    await conn.execute(f'CREATE TABLE apg (id bigint PRIMARY KEY, kind int, embedding vector({DIM}))')
    await conn.copy_records_to_table('apg', records=[(i, client.kinds[i], row) for i, row in enumerate(rows)])
    await conn.execute('CREATE INDEX apg_idx ON apg USING grnnd (embedding vector_cosine_ops)')
    await conn.execute('ANALYZE apg')
    answers = {q.tobytes(): [r['id'] for r in await conn.fetch(
        'SELECT id FROM apg ORDER BY embedding <=> $1 LIMIT 10', q)] for q in queries}
    client.recall(lambda q, k: answers[q.tobytes()], '<=>', 'fetch')
    async with conn.transaction():
        await conn.execute('SET LOCAL hnsw.ef_search = 200')
        await conn.execute('SET LOCAL hnsw.iterative_scan = strict_order')
        statement = await conn.prepare('SELECT id FROM apg WHERE kind <> $1 ORDER BY embedding <=> $2 LIMIT $3')
        answers = {q.tobytes(): [r['id'] for r in await statement.fetch(2, q, 20)] for q in queries}
        client.recall(lambda q, k: answers[q.tobytes()], '<=>', 'prepared, with a filter', 0.99, 20,
                      [kind != 2 for kind in client.kinds])
        got = []
        async for record in conn.cursor('SELECT id FROM apg ORDER BY embedding <=> $1 LIMIT 7', queries[3], prefetch=2):
            got.append(record['id'])
        ok(len(got) == 7, 'cursor', got)
    await conn.executemany('INSERT INTO apg VALUES ($1, 9, $2)', [(10000 + i, rows[i]) for i in range(20)])
    same(sorted([r['id'] for r in await conn.fetch('SELECT id FROM apg ORDER BY embedding <=> $1 LIMIT 2', rows[5])]),
         [5, 10005], 'rows inserted later')
    pool = await asyncpg.create_pool(database='postgres', init=register_vector, min_size=2, max_size=2)
    firsts = await asyncio.gather(*(pool.fetchval(
        'SELECT id FROM apg WHERE id < 10000 ORDER BY embedding <=> $1 LIMIT 1', rows[i]) for i in range(50)))
    same(firsts, list(range(50)), 'a pool')
    await pool.close()
    await conn.close()


def main():
    asyncio.run(session())
    client.scanned('apg_idx', 70, 'scans')


client.run(main)
