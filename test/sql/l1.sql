-- L1, whose graph goes by the Euclidean distance of the same rows: builds, writes,
-- order and recall against the exact answer.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS grnnd_tools CASCADE;
CREATE SCHEMA test_l1;
SET search_path = test_l1, public;
SET grnnd.build_device = cpu;
SET max_parallel_workers_per_gather = 0;
\getenv dir PG_ABS_SRCDIR
\set file :dir '/lib/recall.sql'
\set ECHO none
\i :file
\set ECHO all

-- 24 independent coordinates, a few of them large: L1 and Euclidean distance differ in order
CREATE FUNCTION coordinates(i int, seed int) RETURNS vector LANGUAGE sql IMMUTABLE RETURN
	(SELECT array_agg(unit(i, j, seed) * CASE WHEN unit(i, 50 + j, seed) < 0.1 THEN 4 ELSE 1 END ORDER BY j)
	FROM generate_series(1, 24) j)::vector;
CREATE TABLE queries AS SELECT i AS id, coordinates(i, 2) AS v FROM generate_series(1, 25) i;
CREATE TABLE t (id int, kind int, v vector(24));
INSERT INTO t SELECT i, hashint8extended(i, 9) & 1023, coordinates(i, 1) FROM generate_series(1, 6000) i;
CREATE INDEX t_idx ON t USING grnnd (v vector_l1_ops);
ANALYZE t;

-- "ok", or what is wrong with what the index brings
CREATE FUNCTION found(tab regclass, k int, goal float8, filter text DEFAULT 'true') RETURNS text
LANGUAGE sql RETURN found(tab, 'v', '<+>', 'SELECT v FROM queries', k, goal, filter);

-- the order of the first results is that of L1, in all modes, beyond ef too
SET grnnd.iterative_scan = strict_order;
SELECT k, found('t', k, goal) FROM (VALUES (1, 0.96), (10, 0.95), (39, 0.87), (100, 0.9), (1000, 0.97), (6000, 1)) v (k, goal);
SET grnnd.iterative_scan = relaxed_order;
SELECT k, found('t', k, goal) FROM (VALUES (10, 0.95), (100, 0.91), (1000, 0.99), (6000, 1)) v (k, goal);
SET grnnd.iterative_scan = off;
SELECT k, found('t', k, goal) FROM (VALUES (10, 0.95), (39, 0.78)) v (k, goal);
SET grnnd.ef_search = 200;
SELECT k, found('t', k, goal) FROM (VALUES (1, 1), (10, 1), (100, 0.91)) v (k, goal);
RESET grnnd.ef_search;
-- rows that pass a filter
SET grnnd.iterative_scan = strict_order;
SELECT found('t', 10, 0.92, 'kind < 102'), found('t', 10, 0.98, 'kind < 10'), found('t', 100, 1, 'kind < 10');
SET grnnd.iterative_scan = relaxed_order;
SELECT found('t', 10, 0.95, 'kind < 102'), found('t', 10, 0.98, 'kind < 10'), found('t', 100, 1, 'kind < 10');
RESET grnnd.iterative_scan;
SELECT * FROM grnnd_check('t_idx', true);

-- a first and a second order; the distance is pgvector's
SET enable_seqscan = off;
SELECT count(*) FROM (SELECT v <+> q AS d, row_number() OVER (ORDER BY v <+> q, id) AS place,
	row_number() OVER () AS n FROM (SELECT t.*, queries.v AS q FROM queries, LATERAL
		(SELECT * FROM t ORDER BY v <+> queries.v, v <-> queries.v LIMIT 10) t WHERE queries.id = 1) x) y
	WHERE place <> n;
SELECT count(*) FILTER (WHERE d = l1_distance(v, (SELECT v FROM t WHERE id = 17))), min(d)
	FROM (SELECT v, v <+> (SELECT v FROM t WHERE id = 17) AS d FROM t ORDER BY d LIMIT 10) x;
RESET enable_seqscan;

-- without codes: visits alone, by L1
CREATE INDEX t_bare ON t USING grnnd (v vector_l1_ops) WITH (codes = off);
DROP INDEX t_idx;
SET grnnd.iterative_scan = strict_order;
SELECT found('t', 10, 0.97), found('t', 100, 0.97), found('t', 10, 0.97, 'kind < 10'), found('t', 6000, 1);
RESET grnnd.iterative_scan;
SELECT * FROM grnnd_check('t_bare', true);

-- an index that was empty at first; deletes, vacuum, equal rows, updates
CREATE TABLE grown (id serial, v vector(24));
CREATE INDEX grown_idx ON grown USING grnnd (v vector_l1_ops);
SELECT count(*) FROM (SELECT id FROM grown ORDER BY v <+> (SELECT v FROM queries LIMIT 1) LIMIT 5) x;
INSERT INTO grown (v) SELECT v FROM t WHERE id = 1;
INSERT INTO grown (v) SELECT v FROM t WHERE id <= 2500;
INSERT INTO grown (v) SELECT v FROM t, generate_series(1, 400) WHERE id = 2;
SELECT grnnd_fit('grown_idx');
INSERT INTO grown (v) VALUES (NULL);
SELECT found('grown', 10, 0.94);
SELECT missing('grown', 'v', '<+>', (SELECT v FROM queries LIMIT 1));
DELETE FROM grown WHERE id % 3 = 0;
VACUUM grown;
UPDATE grown SET v = (SELECT v FROM t WHERE id = 3) WHERE id % 10 = 1;
VACUUM grown;
SELECT found('grown', 10, 0.94);
SELECT missing('grown', 'v', '<+>', (SELECT v FROM t WHERE id = 2));
SELECT * FROM grnnd_check('grown_idx', true);
DELETE FROM grown;
VACUUM grown;
INSERT INTO grown (v) SELECT v FROM t WHERE id <= 20;
SELECT missing('grown', 'v', '<+>', (SELECT v FROM queries LIMIT 1));
SELECT * FROM grnnd_check('grown_idx', true);

-- Rows that are kept rounded: what the scan says is below what the executor computes, or the
-- query would end with "index returned tuples in wrong order".
CREATE FUNCTION in_order(fitting text, shift text, OUT rows bigint, OUT disordered bigint, OUT recalled bool)
LANGUAGE plpgsql AS $$
DECLARE
	queries text := format('SELECT v %s FROM points(100001, 100020, 200, 1)', shift);
	r record;
BEGIN
	CREATE TABLE r (id int, v vector(200));
	EXECUTE 'INSERT INTO r SELECT -id, (SELECT array_agg(' || fitting || ' ORDER BY n)
		FROM unnest(v::float4[]) WITH ORDINALITY u (x, n))::vector FROM points(200001, 200300, 200, 1)';
	CREATE INDEX r_idx ON r USING grnnd (v vector_l1_ops);
	EXECUTE 'INSERT INTO r SELECT id, v ' || shift || ' FROM points(1, 500, 200, 1)';
	r := ranked('r', 'v', '<+>', queries, 20);
	rows := r.rows;
	disordered := r.disordered;
	recalled := r.recall >= 0.95;
	-- ... and those rows themselves, at distance 0
	r := ranked('r', 'v', '<+>', 'SELECT v FROM r WHERE id BETWEEN 1 AND 20', 20);
	rows := rows + r.rows;
	disordered := disordered + r.disordered;
	DROP TABLE r;
END $$;
SELECT * FROM in_order('(x > 0.7)::int', '- array_fill(0.7, ARRAY[200])::vector');
SELECT * FROM in_order('(x > 0.7)::int', '* array_fill(12345, ARRAY[200])::vector');
SELECT * FROM in_order('round(x) / 4', '* array_fill(1e-9, ARRAY[200])::vector');
SELECT * FROM in_order('x', '* array_fill(1e17, ARRAY[200])::vector');
-- the graph knows nothing of these, for their squares vanish; the order holds
SELECT rows, disordered FROM in_order('x', '* array_fill(1e-40, ARRAY[200])::vector');

-- dimensions around those where something changes
CREATE FUNCTION of_dimensions(dim int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	n int := CASE WHEN dim > 1000 THEN 60 ELSE 200 END;
	r record;
BEGIN
	EXECUTE format('CREATE TABLE d (id int, v vector(%s))', dim);
	INSERT INTO d SELECT * FROM points(1, n, dim, 1);
	CREATE INDEX d_idx ON d USING grnnd (v vector_l1_ops);
	INSERT INTO d SELECT * FROM points(n + 1, n + 20, dim, 1);
	r := ranked('d', 'v', '<+>', format('SELECT v FROM points(1001, 1003, %s, 1)', dim), n);
	RETURN CASE WHEN EXISTS (SELECT FROM grnnd_check('d_idx', true)) THEN 'check'
		WHEN r.rows <> 3 * n OR r.different <> 3 * n THEN format('%s rows, %s different', r.rows, r.different)
		WHEN r.disordered > 0 THEN format('%s out of order', r.disordered)
		WHEN r.recall < 0.99 THEN format('recall %s', r.recall) ELSE 'ok' END;
END $$;
DO $$
DECLARE
	dim int;
	what text;
BEGIN
	FOREACH dim IN ARRAY ARRAY[1, 2, 3, 31, 32, 33, 1023, 2000, 2001] LOOP
		what := of_dimensions(dim);
		IF what <> 'ok' THEN
			RAISE WARNING '% dimensions: %', dim, what;
		END IF;
		DROP TABLE d;
	END LOOP;
END $$;

-- the planner takes it, and hnsw's index moves over
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM t ORDER BY v <+> '[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24]' LIMIT 5;
RESET enable_seqscan;
CREATE INDEX grown_hnsw ON grown USING hnsw (v vector_l1_ops);
SELECT regexp_replace(statement, '_\d+', '_OID', 'g') AS statement, problem FROM grnnd_migrate('test_l1');

DROP SCHEMA test_l1 CASCADE;
