"""LlamaIndex's PGVectorStore.  It writes USING hnsw itself, so grnnd_migrate() puts a grnnd index
of the same name in its place; CREATE INDEX IF NOT EXISTS leaves that alone."""
import client
from client import DIM, K, ok, queries, rows
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters, VectorStoreQuery, VectorStoreQueryMode
from llama_index.vector_stores.postgres import PGVectorStore


def make():
    return PGVectorStore(
        connection_string='postgresql+psycopg2:///postgres', async_connection_string='postgresql+asyncpg:///postgres',
        table_name='llama', schema_name='public', embed_dim=DIM, hybrid_search=True, text_search_config='english',
        initialization_fail_on_error=True,
        hnsw_kwargs={'hnsw_m': 16, 'hnsw_ef_construction': 64, 'hnsw_ef_search': 100, 'hnsw_dist_method': 'vector_cosine_ops'})


def main():
    store = make()
    store.add([TextNode(id_=str(i), text=f'row {i} of text', metadata={'kind': client.kinds[i]}, embedding=row.tolist())
               for i, row in enumerate(rows)])
    store._engine.dispose()
    with client.connect(autocommit=True) as conn:
        for (statement,) in conn.execute('SELECT statement FROM grnnd_migrate() WHERE statement IS NOT NULL').fetchall():
            conn.execute(statement)
        conn.execute('ANALYZE data_llama')
    ok('USING grnnd' in client.definition('data_llama_embedding_idx'), 'grnnd_migrate() keeps the name',
       client.definition('data_llama_embedding_idx'))

    store = make()

    def search(q, k, **more):
        return [int(i) for i in store.query(VectorStoreQuery(query_embedding=q.tolist(), similarity_top_k=k, **more)).ids]
    client.recall(search, '<=>', 'query')
    ok('USING grnnd' in client.definition('data_llama_embedding_idx'), 'the store leaves the index alone')
    client.recall(lambda q, k: search(q, k, filters=MetadataFilters(filters=[MetadataFilter(key='kind', value=2)])),
                  '<=>', 'filter', 0.95, K, [kind == 2 for kind in client.kinds])
    got = search(queries[0], 5, mode=VectorStoreQueryMode.HYBRID, query_str='text', sparse_top_k=5)
    ok(len(got) >= 5, 'hybrid search', got)
    store.delete_nodes(['7'])
    ok(7 not in search(rows[7], 5), 'deleted')
    store._engine.dispose()
    client.scanned('data_llama_embedding_idx', 20, 'scans')


client.run(main)
