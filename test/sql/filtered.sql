-- Recall of scans that go on because of a WHERE clause: by the share of rows that pass,
-- in both orders, held against the exact answer.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS grnnd CASCADE;
CREATE SCHEMA test_filtered;
SET search_path = test_filtered, public;
SET grnnd.build_device = cpu;
SET max_parallel_workers_per_gather = 0;
\getenv dir PG_ABS_SRCDIR
\set file :dir '/lib/recall.sql'
\set ECHO none
\i :file
\set ECHO all

-- 24 independent coordinates, so that estimates by codes have errors; kind has nothing to do with them
CREATE TABLE t (id int, kind int, e vector(24));
INSERT INTO t SELECT i, hashint8extended(i, 9) & 1023,
	(SELECT array_agg(unit(i, j, 1) ORDER BY j) FROM generate_series(1, 24) j)::vector FROM generate_series(1, 12000) i;
CREATE INDEX t_idx ON t USING grnnd (e);
ANALYZE t;
CREATE FUNCTION queries(n int DEFAULT 25) RETURNS text LANGUAGE sql RETURN
	'SELECT (SELECT array_agg(unit(i, j, 2) ORDER BY j) FROM generate_series(1, 24) j)::vector FROM generate_series(1, ' || n || ') i';
CREATE FUNCTION found(share float8, k int, goal float8) RETURNS text LANGUAGE sql RETURN
	(SELECT CASE WHEN r.rows <> r.different OR r.rows <> 25 * least(k, (SELECT count(*) FROM t WHERE kind < share * 1024))
			THEN format('%s rows, %s different', r.rows, r.different)
		WHEN r.disordered > 0 AND current_setting('grnnd.iterative_scan') = 'strict_order'
			AND k < (SELECT count(*) FROM t WHERE kind < share * 1024) THEN format('%s out of order', r.disordered)
		WHEN r.recall < goal THEN format('recall %s', r.recall) ELSE 'ok' END
	FROM ranked('t', 'e', '<->', queries(), k, format('kind < %s', share * 1024)) r);

SET grnnd.iterative_scan = strict_order;
SELECT share, k, found(share, k, goal) FROM (VALUES (0.1, 1, 0.9), (0.1, 10, 0.98), (0.1, 100, 0.99), (0.01, 1, 0.9),
	(0.01, 10, 0.98), (0.01, 100, 0.99), (0.002, 1, 0.9), (0.002, 10, 0.99)) v (share, k, goal);
SET grnnd.iterative_scan = relaxed_order;
SELECT share, k, found(share, k, goal) FROM (VALUES (0.1, 1, 0.9), (0.1, 10, 0.985), (0.1, 100, 0.99), (0.01, 1, 0.9),
	(0.01, 10, 0.985), (0.01, 100, 0.99), (0.002, 1, 0.9), (0.002, 10, 0.99)) v (share, k, goal);
-- the first row alone waits for more than one search, as the rows before it fail
SET grnnd.ef_search = 20;
SELECT recall >= 0.95 AS good FROM ranked('t', 'e', '<->', queries(100), 1, 'kind < 102');
SET grnnd.iterative_scan = strict_order;
SELECT recall >= 0.92 AS good FROM ranked('t', 'e', '<->', queries(100), 1, 'kind < 102');
RESET grnnd.ef_search;
SET grnnd.iterative_scan = relaxed_order;
-- without codes, too
DROP INDEX t_idx;
CREATE INDEX t_idx ON t USING grnnd (e) WITH (codes = off);
SELECT found(0.1, 10, 0.96), found(0.01, 100, 0.99);
SET grnnd.iterative_scan = strict_order;
SELECT found(0.1, 10, 0.96), found(0.01, 100, 0.99);
DROP SCHEMA test_filtered CASCADE;
