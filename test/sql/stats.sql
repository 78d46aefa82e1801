-- grnnd_stats() and grnnd_indexes: what an index holds and how it was built; the curve of recall.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS grnnd CASCADE;
CREATE SCHEMA test_stats;
SET search_path = test_stats, public;
SET grnnd.build_device = cpu;
SET grnnd.build_threads = 2;
-- so that codes are due until this session asks for their fit
SET grnnd.background_fit = off;
RESET client_min_messages;
\getenv dir PG_ABS_SRCDIR
\set file :dir '/lib/recall.sql'
\set ECHO none
\i :file
\set ECHO all

CREATE TABLE t WITH (autovacuum_enabled = off) AS SELECT id, v::vector(32), id % 10 AS part FROM points(1, 3000, 32, 1);
-- equal rows share a node
INSERT INTO t SELECT 10000 + i, (SELECT v FROM t WHERE id = 5), 0 FROM generate_series(1, 200) i;
CREATE INDEX t_v ON t USING grnnd (v) WITH (degree = 24, seed = 3);
SELECT format, dimensions, layout, stored_as, estimated_rows, estimated_nodes, dead_share, estimated_chain_records > 0 AS chained,
	mean_degree BETWEEN 12 AND 24 AS degree, cardinality(degree_histogram) AS degrees,
	(SELECT sum(d) FROM unnest(degree_histogram) d) AS counted, unreachable_nodes, estimated_rounded,
	split_part(codes, ':', 1) AS codes, advice, build_device, built_at > now() - interval '1 day' AS built, build_rows
FROM grnnd_stats('t_v', true);
-- the parts are the whole
SELECT index_bytes = pg_relation_size('t_v') AS bytes, (SELECT sum(value::bigint) FROM jsonb_each_text(bytes_by_part)) - index_bytes AS apart,
	(SELECT string_agg(key, ' ' ORDER BY key) FROM jsonb_each_text(bytes_by_part)) AS parts
FROM grnnd_stats('t_v');
SELECT build_parameters->>'degree' AS degree, build_parameters->>'seed' AS seed, build_parameters->>'threads' AS threads,
	(SELECT bool_and(value::float8 >= 0) FROM jsonb_each_text(build_seconds)) AS seconds, (SELECT count(*) FROM jsonb_object_keys(build_seconds)) AS steps
FROM grnnd_stats('t_v');
-- the curve rises, and its searches take longer
SELECT count(*), bool_and(recall >= before - 0.02) AS rises, bool_and(visited > fewer) AS visited, max(recall) > 0.99 AS high
FROM (SELECT (point->>'recall10')::float8 AS recall, lag((point->>'recall10')::float8, 1, 0::float8) OVER w AS before,
		(point->>'records_visited')::float8 AS visited, lag((point->>'records_visited')::float8, 1, 0::float8) OVER w AS fewer
	FROM grnnd_stats('t_v'), jsonb_array_elements(recall_curve) point WINDOW w AS (ORDER BY (point->>'ef_search')::int)) p;
-- a sample of an index with dead rows, and what is to be done
DELETE FROM t WHERE id % 2 = 0 AND id <= 3000;
VACUUM (INDEX_CLEANUP on) t;
SELECT estimated_rows, estimated_nodes, unreachable_nodes FROM grnnd_stats('t_v', true);
SELECT estimated_rows BETWEEN 1690 AND 1710 AS rows, unreachable_nodes, advice FROM grnnd_stats('t_v');
INSERT INTO t SELECT id, v::vector(32), 1 FROM points(4001, 10000, 32, 1);
SELECT estimated_rows, unreachable_nodes, advice FROM grnnd_stats('t_v', true);
SELECT grnnd_fit('t_v');
SELECT advice FROM grnnd_stats('t_v');
CREATE TABLE late (v vector(32));
CREATE INDEX late_v ON late USING grnnd (v);
SELECT estimated_rows, estimated_nodes, build_device, build_rows, recall_curve, ef_search, estimated_recall FROM grnnd_stats('late_v', true);
INSERT INTO late SELECT v FROM points(1, 50, 32, 1);
SELECT estimated_rows, codes, advice FROM grnnd_stats('late_v', true);

-- all that the user may ask about
CREATE TABLE parted (v vector(3), part int) PARTITION BY LIST (part);
CREATE TABLE parted1 PARTITION OF parted FOR VALUES IN (1);
CREATE INDEX parted_v ON parted USING grnnd (v);
SELECT index, table_name, estimated_rows, size, layout, ef_search, state, advice FROM grnnd_indexes WHERE index::text !~ '\.' ORDER BY index::text;
CREATE ROLE stats_reader;
GRANT USAGE ON SCHEMA test_stats TO stats_reader;
SET ROLE stats_reader;
SELECT index, estimated_rows FROM grnnd_indexes WHERE index::text = 't_v';
SELECT grnnd_stats('t_v');
RESET ROLE;
GRANT pg_stat_scan_tables TO stats_reader;
SET ROLE stats_reader;
SELECT estimated_nodes FROM grnnd_stats('late_v', true);
RESET ROLE;

-- a table stands for its index, with the rights of the index, and with several of them for none
SELECT advice FROM grnnd_stats('late');
SELECT state FROM grnnd_codes('late');
SELECT grnnd_fit('late');
SELECT grnnd_check('late');
SELECT recall FROM grnnd_recall('late');
SELECT grnnd_prewarm('late') > 0 AS read;
SET ROLE stats_reader;
SELECT grnnd_fit('late');
RESET ROLE;
CREATE INDEX "Other" ON late USING grnnd (v);
SELECT grnnd_stats('late');
SELECT grnnd_fit('late');
DROP INDEX "Other";
SELECT grnnd_stats('pg_am');
-- an index that is not valid has a row that says so, and is not meant where another one is
CREATE FUNCTION fails(vector) RETURNS vector IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$;
CREATE INDEX CONCURRENTLY late_failed ON late USING grnnd ((fails(v)::vector(3)));
SELECT size = pg_size_pretty(pg_relation_size(index)) AS size, estimated_rows, state, advice FROM grnnd_indexes WHERE index::text = 'late_failed';
SELECT estimated_rows FROM grnnd_stats('late');
DROP INDEX late_v;
SELECT grnnd_stats('late');
DROP INDEX late_failed;
CREATE INDEX late_v ON late USING grnnd (v);
-- nothing is to be done for a few rows
TRUNCATE late;
SELECT advice FROM grnnd_stats('late');
INSERT INTO late SELECT v FROM points(1, 2, 32, 1);
SELECT advice FROM grnnd_stats('late', true);
REINDEX INDEX late_v;
SELECT advice FROM grnnd_stats('late', true);

-- the width of a search: by the session's settings, by the index's parameters, by the curve
CREATE FUNCTION width(k int DEFAULT 10) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	SET LOCAL enable_seqscan = off;
	EXECUTE format('SELECT FROM late ORDER BY v <-> (SELECT v FROM t LIMIT 1) LIMIT %s', k);
	RETURN (grnnd_last_scan()).ef_search;
END $$;
DROP INDEX late_v;
INSERT INTO late SELECT v FROM points(51, 3000, 32, 1);
CREATE INDEX late_v ON late USING grnnd (v);
SELECT width();
ALTER INDEX late_v SET (ef_search = 90);
SELECT width();
ALTER INDEX late_v SET (target_recall = 0.9);
SELECT width();
ALTER INDEX late_v RESET (ef_search);
SELECT width() BETWEEN 20 AND 40 AS narrow;
SET grnnd.target_recall = 0.999;
SELECT width() BETWEEN 20 AND 500 AS wide;
SET grnnd.ef_search = 33;
SELECT width();
RESET grnnd.ef_search;
SET hnsw.ef_search = 44;
SELECT width();
RESET hnsw.ef_search;
SET grnnd.target_recall = 0;
SELECT width() BETWEEN 20 AND 40 AS narrow;
RESET grnnd.target_recall;
-- in whatever way they were set
DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET grnnd.ef_search = 33', current_database()); END $$;
\c
SET search_path = test_stats, public;
SET grnnd.build_device = cpu;
SET grnnd.background_fit = off;
DO $$ BEGIN EXECUTE format('ALTER DATABASE %I RESET grnnd.ef_search', current_database()); END $$;
SET grnnd.target_recall = 0.999;
SELECT width();
\c
SET search_path = test_stats, public;
SET grnnd.build_device = cpu;
SET grnnd.background_fit = off;
SELECT width(100) >= 200 AS limit;
-- it does what it promises
SELECT target, k, recall >= target - 0.02 AS good
FROM (VALUES (0.9, 10), (0.97, 10), (0.97, 1), (0.97, 50)) w (target, k),
	LATERAL (SELECT set_config('grnnd.target_recall', target::text, false)) s,
	LATERAL grnnd_recall('late_v', k, queries => 100 + 0 * length(s.set_config)) r;
-- wider where many rows came after the build, although the index has not grown (whatever the query)
SET grnnd.iterative_scan = off;
SELECT width(1) AS built \gset
DELETE FROM late WHERE hashtext(v::text) % 2 = 0;
VACUUM (INDEX_CLEANUP on) late;
INSERT INTO late SELECT v FROM points(3001, 4500, 32, 1);
SELECT width(1) BETWEEN 1.1 * :built AND 2 * :built AS wider;
RESET grnnd.iterative_scan;
RESET grnnd.target_recall;

-- recall is measured anew where many rows came one by one, by VACUUM or grnnd_fit()
CREATE TABLE grown (id int, v vector(32)) WITH (autovacuum_enabled = off);
INSERT INTO grown SELECT id, v FROM points(1, 2000, 32, 1);
CREATE INDEX grown_v ON grown USING grnnd (v);
CREATE FUNCTION curve() RETURNS jsonb LANGUAGE sql AS $$ SELECT recall_curve FROM grnnd_stats('grown_v') $$;
SELECT curve() AS built \gset
SELECT grnnd_fit('grown_v');
SELECT curve() = :'built' AS kept;
INSERT INTO grown SELECT id, v FROM points(2001, 5000, 32, 1);
SELECT curve() = :'built' AS kept;
VACUUM (INDEX_CLEANUP on) grown;
SELECT curve() AS measured \gset
SELECT :'measured' <> :'built' AS anew, :'measured'::jsonb->0->'queries' AS queries;
SELECT target, k, recall >= target - 0.02 AS good
FROM (VALUES (0.9, 10), (0.97, 10), (0.97, 1), (0.97, 50)) w (target, k),
	LATERAL (SELECT set_config('grnnd.target_recall', target::text, false)) s,
	LATERAL grnnd_recall('grown_v', k, queries => 100 + 0 * length(s.set_config)) r;
RESET grnnd.target_recall;
-- not where most slots wait for new rows; then it is when those have come
DELETE FROM grown WHERE id > 3000;
VACUUM (INDEX_CLEANUP on) grown;
SELECT curve() = :'measured' AS kept;
INSERT INTO grown SELECT id, v FROM points(5001, 11000, 32, 1);
VACUUM (INDEX_CLEANUP on) grown;
SELECT curve() <> :'measured' AS anew;
-- of an index that began without rows
TRUNCATE grown;
SELECT curve();
INSERT INTO grown SELECT id, v FROM points(1, 1500, 32, 1);
SELECT grnnd_fit('grown_v');
SELECT curve()->0->'queries' AS queries;
CREATE INDEX ON late USING grnnd (v) WITH (target_recall = 1);
CREATE INDEX ON late USING grnnd (v) WITH (ef_search = 0);
SET grnnd.target_recall = 2;

SET client_min_messages = warning;
DROP SCHEMA test_stats CASCADE;
DROP ROLE stats_reader;
