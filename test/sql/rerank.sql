-- Rows that an index keeps rounded are read from the table for their distances: they come in
-- exact order, and can be locked and updated as any.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS grnnd CASCADE;
CREATE SCHEMA test_rerank;
SET search_path = test_rerank, public;
SET grnnd.build_device = cpu;
\getenv dir PG_ABS_SRCDIR
\set file :dir '/lib/recall.sql'
\set ECHO none
\i :file
\set ECHO all

CREATE TABLE t (id int, n int, v vector(128)) WITH (fillfactor = 70);
INSERT INTO t SELECT id, 0, v FROM points(1, 2500, 128, 1);
INSERT INTO t VALUES (-1, 0, NULL);
CREATE INDEX t_idx ON t USING grnnd (v);
CREATE TABLE queries AS SELECT * FROM points(100001, 100020, 128, 1);
SELECT v AS q FROM queries WHERE id = 100001 \gset
ANALYZE t;

-- The rows of a statement by the index, and how often one is farther than the next.  (Locked
-- rows are sorted by none but the index.)
CREATE FUNCTION locked(how text, k int, q vector, OUT rows bigint, OUT disordered bigint, OUT right_ones bigint)
LANGUAGE plpgsql AS $$
DECLARE
	query text := format('SELECT id, v <-> $1 AS d FROM t ORDER BY v <-> $1 LIMIT %s %s', k, how);
	got record;
	last float8 := 0;
	ids int[] := '{}';
BEGIN
	rows := 0; disordered := 0;
	PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true);
	PERFORM expect_index(query, q);
	FOR got IN EXECUTE query USING q LOOP
		rows := rows + 1;
		disordered := disordered + (got.d < last)::int;
		last := got.d;
		ids := ids || got.id;
	END LOOP;
	PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_sort', 'on', true),
		set_config('enable_indexscan', 'off', true);
	SELECT count(*) INTO right_ones FROM (SELECT id FROM t ORDER BY v <-> q LIMIT k) x WHERE id = ANY (ids);
	PERFORM set_config('enable_indexscan', 'on', true);
END $$;

BEGIN;
SELECT how, k, sum(rows) AS rows, sum(disordered) AS disordered, sum(right_ones) >= 0.97 * 20 * k AS right
FROM unnest('{"",FOR UPDATE,FOR NO KEY UPDATE,FOR SHARE SKIP LOCKED,FOR KEY SHARE NOWAIT}'::text[]) how,
	unnest('{1,10,100}'::int[]) k, queries, locked(how, k, v)
GROUP BY how, k ORDER BY how COLLATE "C", k;
COMMIT;

-- in the order of scans that go on for long; all rows
SELECT mode, filter, rows, different, disordered <= allowed AS ordered, recall >= 0.95 AS right
FROM (VALUES ('strict_order', 'id % 10 = 3', 10, 0), ('strict_order', 'true', 2500, 5),
	('relaxed_order', 'id % 10 = 3', 10, 100), ('relaxed_order', 'true', 2500, 2500)) x (mode, filter, k, allowed),
	set_config('grnnd.iterative_scan', mode, false),
	ranked('t', 'v', '<->', 'SELECT v FROM queries LIMIT 1', k, filter);
RESET grnnd.iterative_scan;

-- more rows than memory holds: sorted outside of it
SET work_mem = '64kB';
SELECT rows, different, disordered FROM ranked('t', 'v', '<->', 'SELECT v FROM queries LIMIT 1', 2500);
RESET work_mem;

-- equal rows, and rows that only rounding makes equal
CREATE TABLE equal (id int, v vector(128));
INSERT INTO equal SELECT id, v FROM t WHERE id > 0;
CREATE INDEX equal_idx ON equal USING grnnd (v);
INSERT INTO equal SELECT 10000 + 100 * i + j, v FROM t, generate_series(1, 40) i, generate_series(0, 3) j WHERE id = 7 + j;
INSERT INTO equal SELECT 20000 + id, (ARRAY[((v::float4[])[1] * 1.00001)::float4] || (v::float4[])[2:])::vector
	FROM t WHERE id BETWEEN 1 AND 99;
SELECT rows, different, disordered, recall >= 0.95 AS right
	FROM ranked('equal', 'v', '<->', 'SELECT v FROM t WHERE id = 7', 60);
SELECT rows, different, disordered, recall >= 0.95 AS right
	FROM ranked('equal', 'v', '<->', 'SELECT v FROM t WHERE id IN (7, 8, 9, 10, 20, 30)', 100);
SELECT * FROM grnnd_check('equal_idx', true);
DROP TABLE equal;

SET enable_seqscan = off;
SET enable_sort = off;

-- HOT chains: the index names their first rows
UPDATE t SET n = n + 1;
UPDATE t SET n = n + 1 WHERE id % 2 = 0;
SELECT sum(rows) AS rows, sum(disordered) AS disordered, sum(right_ones) >= 190 AS right
	FROM queries, locked('', 10, v);
SELECT count(*), sum(n) BETWEEN 10 AND 20 AS newest FROM (SELECT n FROM t ORDER BY v <-> :'q' LIMIT 10) x;

-- a statement sees its snapshot's rows, whatever came since
BEGIN;
CREATE TEMP TABLE nearest AS SELECT id FROM t ORDER BY v <-> :'q' LIMIT 20;
DECLARE c CURSOR FOR SELECT id FROM t ORDER BY v <-> :'q' LIMIT 20;
UPDATE t SET v = v + :'q' WHERE id IN (SELECT id FROM nearest WHERE id % 2 = 0);
DELETE FROM t WHERE id IN (SELECT id FROM nearest WHERE id % 2 = 1);
SAVEPOINT s;
INSERT INTO t VALUES (-2, 0, :'q');
MOVE ALL IN c;
CLOSE c;
SELECT id FROM t ORDER BY v <-> :'q' LIMIT 1;
ROLLBACK TO s;
SELECT count(*) FROM (SELECT id FROM t ORDER BY v <-> :'q' LIMIT 20) x JOIN nearest USING (id);
ROLLBACK;
DROP TABLE IF EXISTS nearest;

-- updates where a cursor stands
BEGIN;
DECLARE c CURSOR FOR SELECT id, n FROM t ORDER BY v <-> :'q' LIMIT 3 FOR UPDATE;
FETCH c \gset first_
UPDATE t SET n = 100 WHERE CURRENT OF c RETURNING id = :first_id AS same;
FETCH c \gset second_
DELETE FROM t WHERE CURRENT OF c RETURNING id = :second_id AS same;
FETCH c \gset third_
CLOSE c;
SELECT array_agg(id) = ARRAY[:first_id, :third_id] AS same FROM (SELECT id FROM t ORDER BY v <-> :'q' LIMIT 2) x;
ROLLBACK;
BEGIN;
DECLARE c SCROLL CURSOR WITH HOLD FOR SELECT id FROM t ORDER BY v <-> :'q' LIMIT 5;
COMMIT;
FETCH LAST FROM c \gset last_
FETCH ABSOLUTE 1 FROM c \gset again_
SELECT :again_id = :first_id AS same, :last_id <> :first_id AS other;
CLOSE c;
WITH nearest AS (SELECT id FROM t ORDER BY v <-> :'q' LIMIT 2 FOR UPDATE)
UPDATE t SET n = 200 FROM nearest WHERE t.id = nearest.id RETURNING t.id IN (:first_id, :second_id) AS right;

-- rescans
SELECT count(*), count(DISTINCT x.id) FROM queries q, LATERAL (SELECT id FROM t ORDER BY v <-> q.v LIMIT 1 FOR SHARE) x;
-- each is ended in the midst of its rest
SELECT count(*), count(DISTINCT x.id) FROM (SELECT v FROM queries LIMIT 3) q,
	LATERAL (SELECT id FROM t WHERE id % 100 = 7 ORDER BY v <-> q.v LIMIT 25) x;
PREPARE nearest(vector) AS SELECT count(*) FROM (SELECT id FROM t ORDER BY v <-> $1 LIMIT 7 FOR UPDATE) x;
SET plan_cache_mode = force_generic_plan;
EXECUTE nearest(:'q');
RESET plan_cache_mode;

-- several distances: the executor sorts by the second
INSERT INTO t SELECT 10000 + id, 0, v FROM t WHERE id BETWEEN 1 AND 500;
SELECT v AS p FROM queries WHERE id = 100002 \gset
SELECT count(*) AS rows, count(*) FILTER (WHERE d < last) AS disordered
	FROM (SELECT d, lag(d) OVER () AS last FROM (SELECT v <-> :'q' AS d FROM t ORDER BY v <-> :'q', v <-> :'p' LIMIT 50) x) y;

-- other metrics, expressions, values in a TOAST table, a partial index; halfvec
CREATE TABLE o (id int, v vector(600), a real[]);
INSERT INTO o SELECT id, v, v::real[] FROM points(1, 1500, 600, 2);
CREATE FUNCTION by(key text, opclass text, op text, query text, condition text DEFAULT 'true',
	OUT rows bigint, OUT disordered bigint, OUT recalled bool) LANGUAGE plpgsql AS $$
DECLARE
	q text;
	got float8[];
	best float8[];
	hits bigint := 0;
BEGIN
	rows := 0; disordered := 0;
	EXECUTE format('CREATE INDEX o_idx ON o USING grnnd ((%s) %s) WHERE %s', key, opclass, condition);
	FOR q IN SELECT v::text FROM points(100001, 100005, 600, 2) LOOP
		PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true),
			set_config('enable_indexscan', 'on', true);
		EXECUTE format('SELECT array_agg(d) FROM (SELECT %1$s %2$s %3$L::%4$s AS d FROM o WHERE %5$s ORDER BY (%1$s) %2$s %3$L::%4$s
			LIMIT 10 FOR UPDATE) x', key, op, q, query, condition) INTO got;
		PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_sort', 'on', true),
			set_config('enable_indexscan', 'off', true);
		EXECUTE format('SELECT array_agg(d) FROM (SELECT %1$s %2$s %3$L::%4$s AS d FROM o WHERE %5$s ORDER BY 1 LIMIT 10) x',
			key, op, q, query, condition) INTO best;
		rows := rows + array_length(got, 1);
		disordered := disordered + (SELECT count(*) FROM generate_series(2, 10) i WHERE got[i] < got[i - 1]);
		hits := hits + (SELECT count(*) FROM unnest(got) d WHERE d <= best[10]);
	END LOOP;
	PERFORM set_config('enable_indexscan', 'on', true);
	recalled := hits >= 0.94 * rows;
	DROP INDEX o_idx;
END $$;
RESET enable_seqscan;
RESET enable_sort;
SELECT key, opclass, condition, b.* FROM (VALUES
	('v', 'vector_l2_ops', '<->', 'vector', 'true'), ('v', 'vector_cosine_ops', '<=>', 'vector', 'true'),
	('v', 'vector_ip_ops', '<#>', 'vector', 'true'), ('v', 'vector_l1_ops', '<+>', 'vector', 'true'),
	('v', 'vector_l2_ops', '<->', 'vector', 'id % 3 = 0'), ('a::vector(600)', 'vector_l2_ops', '<->', 'vector', 'true'),
	('v::halfvec(600)', 'halfvec_l2_ops', '<->', 'halfvec', 'true'),
	('v::halfvec(600)', 'halfvec_cosine_ops', '<=>', 'halfvec', 'true')) x (key, opclass, op, query, condition),
	by(key, opclass, op, query, condition) b;

-- rows so near to each other that rounding hides their order: the search goes on behind its width
CREATE TABLE near (id int, v vector(128));
CREATE INDEX near_idx ON near USING grnnd (v);
CREATE FUNCTION near_row(i int) RETURNS vector LANGUAGE sql AS $$
	SELECT array_agg(4 * unit(i % 5, j, 2) + 0.03 * unit(i, j, 3) ORDER BY j)::vector FROM generate_series(1, 128) j
$$;
INSERT INTO near SELECT i, near_row(i) FROM generate_series(1, 1000) i;
SET grnnd.ef_search = 40;
SELECT rows, different, disordered, recall >= 0.99 AS right
	FROM ranked('near', 'v', '<->', 'SELECT near_row(i) FROM generate_series(1001, 1050) i', 10);
RESET grnnd.ef_search;
DROP TABLE near;

-- no rows, and one
CREATE TABLE none (id int, v vector(128));
CREATE INDEX none_idx ON none USING grnnd (v);
SET enable_seqscan = off;
SELECT id FROM none ORDER BY v <-> :'q' LIMIT 5 FOR UPDATE;
INSERT INTO none VALUES (1, :'q');
SELECT id, round((v <-> :'q')::numeric, 6) AS d FROM none ORDER BY v <-> :'q' LIMIT 5 FOR UPDATE;
DELETE FROM none;
SELECT id FROM none ORDER BY v <-> :'q' LIMIT 5 FOR UPDATE;
RESET enable_seqscan;

SET client_min_messages = warning;
DROP SCHEMA test_rerank CASCADE;
