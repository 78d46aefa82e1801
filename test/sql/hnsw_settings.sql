-- hnsw.ef_search counts for grnnd where grnnd.ef_search is not set.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS grnnd CASCADE;
CREATE SCHEMA test_hnsw_settings;
SET search_path = test_hnsw_settings, public;
SET grnnd.build_device = cpu;
CREATE TABLE t (id int, e vector(4));
INSERT INTO t SELECT i, ARRAY[sin(i), cos(i), sin(i * 3), cos(i * 7)]::vector
FROM generate_series(1, 3000) i;
CREATE INDEX t_idx ON t USING grnnd (e);
ANALYZE t;

-- Rows that one search returns: ef_search of them, where the scan is not to go on.
CREATE FUNCTION rows_found() RETURNS bigint LANGUAGE sql SET enable_seqscan = off SET jit = off
AS $$ SELECT count(*) FROM (SELECT id FROM test_hnsw_settings.t
	ORDER BY e <-> (SELECT e FROM test_hnsw_settings.t WHERE id = 7) LIMIT 2000) found $$;
CREATE FUNCTION rows_found_by_35() RETURNS bigint LANGUAGE sql SET hnsw.ef_search = 35
AS $$ SELECT test_hnsw_settings.rows_found() $$;

-- In a new session the first setting is a placeholder, for pgvector is not loaded.
\c
SET client_min_messages = warning;
SET search_path = test_hnsw_settings, public;
SET grnnd.iterative_scan = 'off';
SET hnsw.ef_search = 17;
SELECT rows_found();
SET hnsw.ef_search = 170;
SELECT rows_found();
SELECT rows_found_by_35();
RESET hnsw.ef_search;
SELECT rows_found();
BEGIN;
SET LOCAL hnsw.ef_search = 25;
SELECT rows_found();
COMMIT;
SELECT rows_found();

-- grnnd's own, where set, even to the default
SET hnsw.ef_search = 200;
SET grnnd.ef_search = 30;
SELECT rows_found();
SET grnnd.ef_search = 40;
SELECT rows_found();
RESET grnnd.ef_search;
SELECT rows_found();
RESET hnsw.ef_search;

RESET grnnd.iterative_scan;

-- the planner goes by it too
CREATE FUNCTION startup_cost() RETURNS float8 LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT json) SELECT id FROM test_hnsw_settings.t
		ORDER BY e <-> ''[1,0,0,1]'' LIMIT 5' INTO plan;
	RETURN plan->0->'Plan'->>'Startup Cost';
END $$;
SELECT startup_cost() AS by_default \gset
SET hnsw.ef_search = 800;
SELECT startup_cost() > :by_default AS dearer;
RESET hnsw.ef_search;

-- a placeholder that pgvector would refuse says nothing
\c
SET search_path = test_hnsw_settings, public;
SET client_min_messages = error;
SET grnnd.iterative_scan = 'off';
SET hnsw.ef_search = 'many';
SELECT rows_found();
SET hnsw.ef_search = 0;
SELECT rows_found();

DROP SCHEMA test_hnsw_settings CASCADE;
