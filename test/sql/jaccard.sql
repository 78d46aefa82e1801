-- Jaccard distance of bit strings, whose graph goes by their directions.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS grnnd CASCADE;
CREATE SCHEMA test_jaccard;
SET search_path = test_jaccard, public;
SET grnnd.build_device = cpu;
\getenv dir PG_ABS_SRCDIR
\set file :dir '/lib/recall.sql'
\set ECHO none
\i :file
\set ECHO all

-- sets of a few of many things, of different sizes; 16 kinds of them
CREATE FUNCTION things(i int, dim int, seed int) RETURNS varbit LANGUAGE sql IMMUTABLE RETURN
	(SELECT string_agg((unit(i, j, seed) < 0.02 + 0.1 * unit(i, 1000, seed)
		OR unit(i % 16, j, 77) < 0.1 AND unit(i, 2000 + j, seed) < 0.7)::int::text, '' ORDER BY j)
	FROM generate_series(1, dim) j)::varbit;
-- "ok", or what is wrong with the k rows that the index brings for each query
CREATE FUNCTION found(tab regclass, queries text, k int, goal float8) RETURNS text
LANGUAGE sql RETURN found(tab, 'b', '<%>', queries, k, goal);

CREATE TABLE t (id int, b bit(300));
INSERT INTO t SELECT i, things(i, 300, 1) FROM generate_series(1, 2500) i;
CREATE INDEX t_idx ON t USING grnnd (b bit_jaccard_ops);
ANALYZE t;
SELECT k, found('t', 'SELECT things(i, 300, 2) FROM generate_series(1, 20) i', k, goal)
	FROM (VALUES (1, 0.95), (10, 0.95), (100, 0.95), (2500, 1)) v (k, goal);
SET grnnd.iterative_scan = relaxed_order;
SELECT found('t', 'SELECT things(1, 300, 2)', 2500, 1);
RESET grnnd.iterative_scan;
SELECT * FROM grnnd_check('t_idx', true);
-- the distance is the operator's own: with a second one the executor compares
SET enable_seqscan = off;
CREATE TABLE queries AS SELECT things(i, 300, 2)::bit(300) AS q FROM generate_series(1, 10) i;
SELECT count(*) FROM queries, LATERAL (SELECT id FROM t ORDER BY b <%> q, b <~> ~q LIMIT 5) x;
RESET enable_seqscan;
-- more rows, equal ones and empty sets among them; fewer rows; no codes
INSERT INTO t SELECT id + 10000, b FROM t WHERE id % 7 < 2;
INSERT INTO t SELECT 20000 + i, things(i, 300, 3) FROM generate_series(1, 300) i;
INSERT INTO t SELECT 30000 + i, 0::bit(300) FROM generate_series(1, 30) i;
INSERT INTO t VALUES (40000, NULL);
DELETE FROM t WHERE id % 3 = 0;
VACUUM ANALYZE t;
SELECT found('t', 'SELECT things(i, 300, 2) FROM generate_series(1, 20) i', 10, 0.95);
SELECT found('t', 'SELECT 0::bit(300)', 10, 1), found('t', 'SELECT ~0::bit(300)', 5000, 1);
SELECT * FROM grnnd_check('t_idx', true);
CREATE INDEX t_bare ON t USING grnnd (b bit_jaccard_ops) WITH (codes = off);
DROP INDEX t_idx;
SELECT found('t', 'SELECT things(i, 300, 2) FROM generate_series(1, 20) i', 10, 0.95);
SELECT found('t', 'SELECT things(1, 300, 2)', 5000, 1);

-- one by one into an empty index, and the borders of bytes and words
CREATE FUNCTION border(dim int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	what text;
BEGIN
	EXECUTE format('CREATE TABLE d (id int, b bit(%s))', dim);
	CREATE INDEX d_idx ON d USING grnnd (b bit_jaccard_ops);
	EXECUTE format('INSERT INTO d SELECT i, things(i, %s, 1)::bit(%1$s) FROM generate_series(1, 40) i', dim);
	what := found('d', format('SELECT things(i, %s, 2) FROM generate_series(1, 3) i', dim), 40, 1);
	REINDEX INDEX d_idx;
	what := what || ', ' || found('d', format('SELECT things(i, %s, 2) FROM generate_series(1, 3) i', dim), 40, 1);
	RETURN what || coalesce((SELECT string_agg(c::text, '; ') FROM grnnd_check('d_idx', true) c), '');
END $$;
DO $$
DECLARE
	dim int;
	what text;
BEGIN
	FOREACH dim IN ARRAY ARRAY[1, 2, 3, 31, 32, 33, 1023, 2000, 2001] LOOP
		what := border(dim);
		IF what <> 'ok, ok' THEN
			RAISE WARNING '% bits: %', dim, what;
		END IF;
		DROP TABLE d;
	END LOOP;
END $$;
DROP SCHEMA test_jaccard CASCADE;
