-- What the pages of doc/ and README.md find when their SQL is run: test/t/docs.pl.
-- hnsw:
CREATE EXTENSION vector;
CREATE FUNCTION direction(i int, dim int) RETURNS vector LANGUAGE sql IMMUTABLE AS
	'SELECT array_agg(sin(i * j * 0.37 + j * j))::vector FROM generate_series(1, dim) j';
CREATE TABLE documents (id int PRIMARY KEY, body text, embedding vector(24));
INSERT INTO documents SELECT i, 'document ' || i, direction(i, 24) FROM generate_series(1, 300) i;
CREATE INDEX documents_embedding_idx ON documents USING hnsw (embedding vector_cosine_ops) WITH (m = 16, ef_construction = 64);
CREATE INDEX documents_l2_idx ON documents USING ivfflat (embedding vector_l2_ops) WITH (lists = 5);
ANALYZE documents;
-- items:
CREATE EXTENSION grnnd;
CREATE TABLE items (id bigint PRIMARY KEY, embedding vector(384), tenant_id int, category text, tags text[],
	created_at timestamptz DEFAULT now());
INSERT INTO items SELECT i, direction(i, 384), i % 10, (ARRAY['book', 'film', 'song'])[1 + i % 3],
	ARRAY['tag' || i % 20, 'tag' || i % 7], now() - i * interval '1 hour' FROM generate_series(1, 400) i;
CREATE INDEX items_embedding_idx ON items USING grnnd (embedding vector_cosine_ops);
ANALYZE items;
-- sample:
CREATE EXTENSION grnnd CASCADE;
CREATE TABLE glosses (id int PRIMARY KEY, text text, embedding vector(384));
CREATE TABLE queries (LIKE glosses INCLUDING ALL);
-- sample_index:
CREATE INDEX glosses_embedding ON glosses USING grnnd (embedding vector_cosine_ops);
VACUUM ANALYZE glosses, queries;
