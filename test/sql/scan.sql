-- Ordered scans: right rows, right order, under every distance and kind of record.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS grnnd_tools CASCADE;
CREATE SCHEMA test_scan;
SET search_path = test_scan, public;
SET grnnd.build_device = cpu;
\getenv dir PG_ABS_SRCDIR
\set file :dir '/lib/recall.sql'
\set ECHO none
\i :file
\set ECHO all

-- The same vector for the same numbers, on every machine: dims integers in [0, 256).
CREATE FUNCTION vec(i int, dims int) RETURNS vector LANGUAGE sql IMMUTABLE RETURN
	(SELECT array_agg(('x' || substr(md5(i || ' ' || j), 1, 2))::bit(8)::int ORDER BY j)
	 FROM generate_series(1, dims) j)::vector;

-- Compares k rows by index with k by exact sort, over 20 queries.
CREATE FUNCTION compare(tab regclass, op text, k int, ef int, shift text DEFAULT '',
	OUT recall numeric, OUT disordered bigint, OUT rows bigint)
LANGUAGE plpgsql AS $$
DECLARE
	dims int;
BEGIN
	PERFORM set_config('grnnd.ef_search', ef::text, true);
	EXECUTE format('SELECT vector_dims(e) FROM %s WHERE e IS NOT NULL LIMIT 1', tab) INTO dims;
	SELECT round(r.recall::numeric, 3), r.disordered, r.rows INTO recall, disordered, rows
	FROM ranked(tab, 'e', op, format('SELECT vec(-i, %s) %s FROM generate_series(1, 20) i', dims, shift), k) r;
END $$;

CREATE TABLE t (id int, e vector(16));
INSERT INTO t SELECT i, vec(i, 16) FROM generate_series(1, 3000) i;
INSERT INTO t SELECT -i, NULL FROM generate_series(1, 10) i;

-- the three distances; plain and coded records
CREATE INDEX l2 ON t USING grnnd (e);
SELECT recall >= 0.99 AS recalled, disordered, rows FROM compare('t', '<->', 10, 200);
SELECT recall >= 0.95 AS recalled, disordered, rows FROM compare('t', '<->', 10, 40);
-- halves do not fit the bytes that the index keeps: the query is not rounded
SELECT recall >= 0.99 AS recalled, disordered, rows FROM compare('t', '<->', 10, 200, '* array_fill(0.501, ARRAY[16])::vector');
DROP INDEX l2;
CREATE INDEX plain ON t USING grnnd (e) WITH (codes = off, degree = 16);
SELECT recall >= 0.99 AS recalled, disordered, rows FROM compare('t', '<->', 10, 200);
DROP INDEX plain;
CREATE INDEX ip ON t USING grnnd (e vector_ip_ops);
SELECT recall >= 0.99 AS recalled, disordered, rows FROM compare('t', '<#>', 10, 200);
SELECT recall >= 0.99 AS recalled, disordered, rows FROM compare('t', '<#>', 10, 200, '- array_fill(128, ARRAY[16])::vector');
DROP INDEX ip;
CREATE INDEX cosine ON t USING grnnd (e vector_cosine_ops);
SELECT recall >= 0.99 AS recalled, disordered, rows FROM compare('t', '<=>', 10, 200);
SELECT recall >= 0.99 AS recalled, disordered, rows FROM compare('t', '<=>', 10, 200, '- array_fill(128, ARRAY[16])::vector');

-- a distance is served by its own operator class only
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT id FROM t ORDER BY e <=> '[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]' LIMIT 5;
RESET enable_seqscan;
EXPLAIN (COSTS OFF) SELECT id FROM t ORDER BY e <-> '[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]' LIMIT 5;
EXPLAIN (COSTS OFF) SELECT id FROM t ORDER BY e <=> '[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]' DESC LIMIT 5;
EXPLAIN (COSTS OFF) SELECT id FROM t WHERE e <=> '[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]' < 0.1;
EXPLAIN (COSTS OFF) SELECT count(*) FROM t;
EXPLAIN (COSTS OFF) SELECT id FROM t WHERE e IS NULL;
SET enable_seqscan = off;

-- queries without an order: all indexed rows come, in any order
SELECT count(*), count(DISTINCT id) FROM (SELECT NULL::vector AS q OFFSET 0) q,
	LATERAL (SELECT id FROM t ORDER BY e <=> q LIMIT 5000) x;
SELECT count(*), count(DISTINCT id) FROM
	(SELECT id FROM t ORDER BY e <=> array_fill(0, ARRAY[16])::vector) x;
-- and rows without an angle are not indexed
INSERT INTO t VALUES (0, array_fill(0, ARRAY[16])::vector);
SELECT id FROM t WHERE id = 0 ORDER BY e <=> vec(1, 16);
DROP INDEX cosine;

-- rescans, parameters, generic plans
CREATE INDEX l2 ON t USING grnnd (e);
SELECT count(*) FROM t q WHERE id BETWEEN 1 AND 200 AND
	id = (SELECT id FROM t ORDER BY e <-> q.e LIMIT 1);
SELECT q, array_length(n, 1) AS n FROM (VALUES (1, vec(1, 16)), (2, NULL), (3, vec(3, 16))) q (q, e),
	LATERAL (SELECT array_agg(id) AS n FROM (SELECT id FROM t ORDER BY t.e <-> q.e LIMIT 100) x) y;
PREPARE near (vector, int) AS SELECT id FROM t ORDER BY e <-> $1 LIMIT $2;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE near ('[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]', 3);
SELECT vec(7, 16) AS q \gset
EXECUTE near (:'q', 1);
RESET plan_cache_mode;

-- a second distance breaks ties of the first
CREATE TABLE pairs (id int, e vector(2));
INSERT INTO pairs SELECT row_number() OVER (), ARRAY[x, y]::vector FROM generate_series(-10, 10) x, generate_series(-10, 10) y;
CREATE INDEX ON pairs USING grnnd (e);
EXPLAIN (COSTS OFF) SELECT e FROM pairs ORDER BY e <-> '[0,0]', e <-> '[1,9]' LIMIT 6;
SELECT e FROM pairs ORDER BY e <-> '[0,0]', e <-> '[1,9]' LIMIT 6;
SELECT e FROM pairs ORDER BY e <-> '[0,0]', e <-> '[9,1]' LIMIT 6;

-- cursors: forward as any, backward through a materialization
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT e FROM pairs ORDER BY e <-> '[0.1,0.01]';
FETCH 3 FROM c;
FETCH BACKWARD 2 FROM c;
FETCH 1 FROM c;
MOVE FORWARD ALL IN c;
COMMIT;
BEGIN;
DECLARE c NO SCROLL CURSOR WITH HOLD FOR SELECT e FROM pairs ORDER BY e <-> '[0.1,0.01]';
FETCH 2 FROM c;
COMMIT;
FETCH 2 FROM c;
CLOSE c;

-- MVCC: what the snapshot sees, no more and no less
BEGIN ISOLATION LEVEL REPEATABLE READ;
DELETE FROM pairs WHERE e = '[0,0]';
SELECT e FROM pairs ORDER BY e <-> '[0.1,0.01]' LIMIT 1;
SAVEPOINT a;
INSERT INTO pairs VALUES (0, '[0.1,0.01]');
SELECT e FROM pairs ORDER BY e <-> '[0.1,0.01]' LIMIT 1;
ROLLBACK TO a;
SELECT e FROM pairs ORDER BY e <-> '[0.1,0.01]' LIMIT 1;
ROLLBACK;
SELECT e FROM pairs ORDER BY e <-> '[0.1,0.01]' LIMIT 1;

-- rows that the index can only keep rounded (it was built with 16-bit numbers),
-- and their places are still exact
INSERT INTO pairs SELECT 1000 + i, ARRAY[i / 100.0, -i / 77.0]::vector FROM generate_series(1, 300) i;
SELECT recall >= 0.99 AS recalled, disordered, rows FROM compare('pairs', '<->', 50, 200, '* array_fill(0.02, ARRAY[2])::vector');
SELECT * FROM grnnd_check('pairs_e_idx', true);

-- equal rows share a record, and all of them come
CREATE TABLE equal (id int, e vector(3));
INSERT INTO equal SELECT i, '[1,1,1]' FROM generate_series(1, 2000) i;
INSERT INTO equal SELECT 10000 + i, ARRAY[i, 2, 3]::vector FROM generate_series(1, 100) i;
CREATE INDEX ON equal USING grnnd (e);
SELECT count(*), count(DISTINCT id), max(e <-> '[1,1,1]') FROM
	(SELECT * FROM equal ORDER BY e <-> '[1,1,1]' LIMIT 2000) x;
SELECT count(*), count(DISTINCT id), max(id) FROM
	(SELECT * FROM equal ORDER BY e <-> '[1,1,1]' LIMIT 2100) x;
SELECT count(*), count(DISTINCT id), min(id) FROM
	(SELECT * FROM equal ORDER BY e <-> '[100,2,3]' LIMIT 100) x;
SELECT count(*), count(DISTINCT id) FROM (SELECT NULL::vector AS q OFFSET 0) q,
	LATERAL (SELECT id FROM equal ORDER BY e <-> q LIMIT 5000) x;
SELECT * FROM grnnd_check('equal_e_idx', true);

-- records of several pages
CREATE TABLE wide (id int, e vector(2100));
INSERT INTO wide SELECT i, vec(i, 2100) FROM generate_series(1, 60) i;
UPDATE wide SET e = e * array_fill(0.337, ARRAY[2100])::vector;
CREATE INDEX ON wide USING grnnd (e);
SELECT recall, disordered, rows FROM compare('wide', '<->', 5, 60);
CREATE TABLE widest (id int, e vector(16000));
INSERT INTO widest SELECT i, array_fill(i + 0.1, ARRAY[16000])::vector FROM generate_series(1, 20) i;
CREATE INDEX ON widest USING grnnd (e);
SELECT id FROM widest ORDER BY e <-> array_fill(7.3, ARRAY[16000])::vector LIMIT 4;
SELECT * FROM grnnd_check('wide_e_idx', true);
SELECT * FROM grnnd_check('widest_e_idx', true);

-- temporary tables have buffers of their own, unlogged ones no WAL
CREATE TEMP TABLE temporary AS SELECT * FROM t WHERE id > 0;
CREATE INDEX temporary_e ON temporary USING grnnd (e);
SELECT recall >= 0.99 AS recalled, disordered, rows FROM compare('temporary', '<->', 10, 200);
INSERT INTO temporary SELECT id + 10000, e FROM t WHERE id BETWEEN 1 AND 50;
SELECT recall >= 0.99 AS recalled, disordered, rows FROM compare('temporary', '<->', 10, 200);
SELECT * FROM grnnd_check('temporary_e', true);
CREATE UNLOGGED TABLE unlogged AS SELECT * FROM t WHERE id > 2000;
CREATE INDEX unlogged_e ON unlogged USING grnnd (e);
SELECT recall >= 0.99 AS recalled, disordered, rows FROM compare('unlogged', '<->', 10, 200);

-- an empty index, and its first rows
CREATE TABLE empty (id int, e vector(3));
CREATE INDEX ON empty USING grnnd (e);
SELECT * FROM empty ORDER BY e <-> '[1,2,3]';
INSERT INTO empty VALUES (1, '[1,2,3]');
SELECT * FROM empty ORDER BY e <-> '[1,2,3]';
TRUNCATE empty;
SELECT * FROM empty ORDER BY e <-> '[1,2,3]';
BEGIN;
INSERT INTO empty VALUES (1, '[1,2,3]');
SELECT * FROM empty ORDER BY e <-> '[1,2,3]';
TRUNCATE empty;
INSERT INTO empty VALUES (2, '[4,5,6]');
SELECT * FROM empty ORDER BY e <-> '[1,2,3]';
COMMIT;
SELECT * FROM empty ORDER BY e <-> '[1,2,3]';

-- statistics: scans are counted, and on PostgreSQL 18 index searches
CREATE FUNCTION searches(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT json) ' || query INTO plan;
	RETURN coalesce(plan #>> '{0,Plan,Plans,0,Index Searches}',
		CASE WHEN current_setting('server_version_num')::int < 180000 THEN '1' END);
END $$;
SELECT searches($$SELECT id FROM t ORDER BY e <-> vec(1, 16) LIMIT 100$$);
DO $$ BEGIN IF current_setting('server_version_num')::int >= 150000 THEN
	PERFORM pg_stat_force_next_flush(); END IF; END $$;
SELECT idx_scan > 0 AS scanned, idx_tup_read >= idx_tup_fetch AS plausible
FROM pg_stat_user_indexes WHERE indexrelid = 'l2'::regclass;

-- grnnd_search() of a table whose columns have the names that it uses itself
CREATE TABLE names (t text, hit int, v vector(2));
INSERT INTO names VALUES ('a', 1, '[0,0]'), ('b', 2, '[3,4]');
SELECT (hit).t, (hit).hit, distance FROM grnnd_search(NULL::names, 'v', '<->', '[3,0]'::text, 5);

DROP SCHEMA test_scan CASCADE;
