-- Storage parameters of pgvector's hnsw: m stands for a degree, ef_construction for nothing.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS grnnd CASCADE;
CREATE SCHEMA test_hnsw_options;
SET search_path = test_hnsw_options, public;
SET grnnd.build_device = cpu;
RESET client_min_messages;

CREATE TABLE t (id int, e vector(3));
INSERT INTO t SELECT i, ARRAY[i, i % 7, 1]::vector FROM generate_series(1, 500) i;

CREATE INDEX t_hnsw ON t USING grnnd (e vector_l2_ops) WITH (m = 24);
CREATE INDEX t_both ON t USING grnnd (e) WITH (m = 16, ef_construction = 64);
CREATE INDEX t_beside ON t USING grnnd (e) WITH (m = 24, degree = 12, ef_construction = 200);
CREATE INDEX t_many ON t USING grnnd (e) WITH (m = 100);
SELECT relname, reloptions FROM pg_class WHERE relname LIKE 't\_%' ORDER BY relname;
SELECT * FROM grnnd_check('t_hnsw', true);

-- what they are good for: sizes of records go with the degree
CREATE FUNCTION size_with(options text) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	DROP INDEX IF EXISTS test_hnsw_options.size_idx;
	EXECUTE format('CREATE INDEX size_idx ON test_hnsw_options.wide USING grnnd (e) WITH (%s)', options);
	RETURN pg_relation_size('test_hnsw_options.size_idx');
END $$;
CREATE TABLE wide (e vector(64));
INSERT INTO wide SELECT array_agg(sin(i * j))::vector
FROM generate_series(1, 1000) i, generate_series(1, 64) j GROUP BY i;
SET client_min_messages = warning;
SELECT size_with('m = 8') = size_with('degree = 16') AS "8",
	size_with('m = 2') = size_with('degree = 8') AS "2",
	size_with('m = 16') = size_with('seed = 0') AS "16",
	size_with('m = 20') = size_with('degree = 40') AS "20",
	size_with('m = 100') = size_with('degree = 48') AS "100",
	size_with('m = 24, degree = 12') = size_with('degree = 12') AS beside,
	size_with('m = 8') < size_with('m = 16') AS smaller;
RESET client_min_messages;

-- bounds are those of hnsw
CREATE INDEX ON t USING grnnd (e) WITH (m = 1);
CREATE INDEX ON t USING grnnd (e) WITH (m = 101);
CREATE INDEX ON t USING grnnd (e) WITH (ef_construction = 3);
CREATE INDEX ON t USING grnnd (e) WITH (ef_construction = 1001);

-- changed later
ALTER INDEX t_both SET (m = 32);
ALTER INDEX t_both RESET (ef_construction);
SELECT reloptions FROM pg_class WHERE relname = 't_both';
REINDEX INDEX t_both;
SELECT * FROM grnnd_check('t_both', true);

SET client_min_messages = warning;
DROP SCHEMA test_hnsw_options CASCADE;
