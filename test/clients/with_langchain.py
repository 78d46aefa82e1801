"""LangChain's PGVectorStore: its index of another type, query options, filters, hybrid search;
and its older PGVector, which leaves indexes to the user."""
import client
from client import DIM, K, ok, queries, rows
from langchain_core.embeddings import Embeddings
from langchain_postgres import Column, PGEngine, PGVector, PGVectorStore
from langchain_postgres.v2.hybrid_search_config import HybridSearchConfig
from langchain_postgres.v2.indexes import DistanceStrategy, HNSWIndex, HNSWQueryOptions


class Numbers(Embeddings):
    """The embedding of "row 17" and of "query 3" is that row or query."""

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text):
        what, number = text.split()[:2]
        return (rows if what == 'row' else queries)[int(number)].tolist()


def number_of(document):
    return int(document.page_content.split()[1])


def text_of(q):
    return f'query {next(i for i, x in enumerate(queries) if x is q or (x == q).all())}'


def main():
    engine = PGEngine.from_connection_string('postgresql+asyncpg:///postgres')
    engine.init_vectorstore_table('lang', DIM, metadata_columns=[Column('kind', 'INTEGER')])
    store = PGVectorStore.create_sync(
        engine, Numbers(), 'lang', metadata_columns=['kind'], index_query_options=HNSWQueryOptions(ef_search=100))
    store.add_texts([f'row {i} of text' for i in range(len(rows))], metadatas=[{'kind': kind} for kind in client.kinds])
    store.apply_vector_index(HNSWIndex(index_type='grnnd', name='lang_idx', m=16, ef_construction=64))
    ok('USING grnnd' in client.definition('lang_idx'), 'HNSWIndex(index_type=...)', client.definition('lang_idx'))
    ok(store.is_valid_index('lang_idx'), 'a valid index')
    store.reindex('lang_idx')
    client.connect(autocommit=True).execute('ANALYZE lang')

    client.recall(lambda q, k: [number_of(d) for d in store.similarity_search(text_of(q), k=k)], '<=>', 'similarity_search')
    client.recall(lambda q, k: [number_of(d) for d, _ in store.similarity_search_with_score_by_vector(q.tolist(), k=k)],
                  '<=>', 'with scores')
    client.recall(lambda q, k: [number_of(d) for d in store.similarity_search(text_of(q), k=k, filter={'kind': {'$in': [1, 2]}})],
                  '<=>', 'filter', 0.95, K, [kind in (1, 2) for kind in client.kinds])
    got = store.max_marginal_relevance_search('query 1', k=5, fetch_k=20)
    ok(len(got) == 5 and set(map(number_of, got)) <= set(client.near(queries[1], '<=>', 25)), 'max_marginal_relevance_search')
    got = store.similarity_search('query 2', k=5, hybrid_search_config=HybridSearchConfig(primary_top_k=20, secondary_top_k=20))
    ok(len(got) == 5, 'hybrid search')
    store.drop_vector_index('lang_idx')
    ok(client.definition('lang_idx') is None, 'dropped')
    store.apply_vector_index(HNSWIndex(index_type='grnnd', name='lang_l2', distance_strategy=DistanceStrategy.EUCLIDEAN,
                                       partial_indexes='kind < 9'), concurrently=True)
    ok('WHERE (kind < 9)' in client.definition('lang_l2'), 'concurrently, partial, another distance', client.definition('lang_l2'))

    # the older class: the user makes the index
    old = PGVector(Numbers(), connection='postgresql+psycopg:///postgres', embedding_length=DIM, collection_name='old',
                   engine_args={'connect_args': {'options': '-c hnsw.ef_search=100 -c hnsw.iterative_scan=strict_order'}})
    old.add_texts([f'row {i}' for i in range(len(rows))], metadatas=[{'kind': kind} for kind in client.kinds])
    with client.connect(autocommit=True) as conn:
        conn.execute('CREATE INDEX lang_old ON langchain_pg_embedding USING grnnd (embedding vector_cosine_ops)')
        conn.execute('ANALYZE langchain_pg_embedding')
        conn.execute('ANALYZE langchain_pg_collection')
    client.recall(lambda q, k: [number_of(d) for d in old.similarity_search(text_of(q), k=k)], '<=>', 'PGVector')
    client.recall(lambda q, k: [number_of(d) for d in old.similarity_search(text_of(q), k=k, filter={'kind': {'$eq': 3}})],
                  '<=>', 'PGVector, filter', 0.95, K, [kind == 3 for kind in client.kinds])
    old._engine.dispose()
    client.scanned('lang_old', 20, 'scans of PGVector')


client.run(main)
