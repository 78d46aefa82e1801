-- sparsevec: records keep the elements of rows, and scans read longer rows of the table.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS grnnd_tools CASCADE;
RESET client_min_messages;
CREATE SCHEMA test_sparsevec;
SET search_path = test_sparsevec, public;
SET grnnd.build_device = cpu;
\getenv dir PG_ABS_SRCDIR
\set file :dir '/lib/recall.sql'
\set ECHO none
\i :file
\set ECHO all

-- Row i of n elements and dim dimensions: half of its elements lie in columns that its
-- topic prefers.
CREATE FUNCTION sparse(i int, n int, dim int, topics int DEFAULT 20) RETURNS sparsevec
LANGUAGE sql IMMUTABLE AS $$
	SELECT ('{' || coalesce(string_agg(col || ':' || x, ','), '') || '}/' || dim)::sparsevec
	FROM (SELECT 1 + floor(CASE WHEN j % 2 = 0 THEN unit(i % topics, j * 7 + i % 3, 1)
							ELSE unit(i, j, 2) END * dim)::int AS col,
			max(round((0.1 + unit(i, j, 3))::numeric, 3) * CASE WHEN unit(i, j, 4) < 0.1 THEN -1 ELSE 1 END) AS x
		FROM generate_series(1, n) j GROUP BY 1) e
$$;

-- Whether a query by index brings the distances that sorting brings, for each of the queries,
-- and those in order: the share of the right ones, and how many were out of order.
CREATE FUNCTION against_sort(tab regclass, col text, op text, queries text, k int)
RETURNS TABLE (recall numeric, rows bigint, disordered bigint)
LANGUAGE plpgsql AS $$
DECLARE
	q sparsevec;
	want float8[];
	got float8[];
	ids int;
	hits bigint := 0;
	wanted bigint := 0;
BEGIN
	rows := 0; disordered := 0;
	FOR q IN EXECUTE queries LOOP
		PERFORM set_config('enable_indexscan', 'off', true), set_config('enable_seqscan', 'on', true);
		EXECUTE format('SELECT array_agg(d ORDER BY d) FROM (SELECT %2$s %3$s $1 AS d FROM %1$s
			WHERE %2$s IS NOT NULL ORDER BY 1 LIMIT %4$s) x', tab, col, op, k) INTO want USING q;
		PERFORM set_config('enable_indexscan', 'on', true), set_config('enable_seqscan', 'off', true);
		EXECUTE format('SELECT array_agg(d ORDER BY n), count(DISTINCT id) FROM (SELECT row_number() OVER () AS n, *
			FROM (SELECT id, %2$s %3$s $1 AS d FROM %1$s ORDER BY %2$s %3$s $1 LIMIT %4$s) y) x',
			tab, col, op, k) INTO got, ids USING q;
		wanted := wanted + cardinality(want);
		rows := rows + ids;
		hits := hits + (SELECT count(*) FROM unnest(got) d WHERE d <= want[cardinality(want)]);
		disordered := disordered + (SELECT count(*) FROM generate_series(2, cardinality(got)) i
			WHERE got[i] < got[i - 1]);
	END LOOP;
	recall := round(hits / wanted::numeric, 2);
	RETURN NEXT;
END $$;

-- Each class on its own.
CREATE TABLE t (id int, v sparsevec(30000));
INSERT INTO t SELECT i, sparse(i, 24, 30000) FROM generate_series(1, 1000) i;
INSERT INTO t SELECT 1000 + i, NULL FROM generate_series(1, 5) i;
CREATE TABLE classes (class text, op text);
INSERT INTO classes VALUES ('sparsevec_l2_ops', '<->'), ('sparsevec_ip_ops', '<#>'),
	('sparsevec_cosine_ops', '<=>'), ('sparsevec_l1_ops', '<+>');
CREATE FUNCTION each_class(tab regclass, col text, queries text, k int)
RETURNS TABLE (class text, good boolean, rows bigint, disordered bigint, found text)
LANGUAGE plpgsql AS $$
DECLARE
	c record;
	a record;
BEGIN
	FOR c IN SELECT * FROM classes LOOP
		EXECUTE format('CREATE INDEX probe ON %s USING grnnd (%s %s)', tab, col, c.class);
		SELECT * INTO a FROM against_sort(tab, col, c.op, queries, k);
		class := c.class;
		good := a.recall >= 0.95;
		rows := a.rows;
		disordered := a.disordered;
		SELECT string_agg(problem, '; ') INTO found FROM grnnd_check('probe', true);
		RETURN NEXT;
		DROP INDEX probe;
	END LOOP;
END $$;
SET grnnd.ef_search = 100;
SELECT * FROM each_class('t', 'v', 'SELECT sparse(10000 + i, 24, 30000) FROM generate_series(1, 20) i', 10);
-- few dimensions: rows are kept as they are
CREATE TABLE small (id int, v sparsevec(40));
INSERT INTO small SELECT i, sparse(i, 8, 40) FROM generate_series(1, 500) i;
SELECT * FROM each_class('small', 'v', 'SELECT sparse(10000 + i, 8, 40) FROM generate_series(1, 10) i', 10);
-- at the borders: elements after 512 dimensions, columns of four bytes after 65536
CREATE TABLE border (id int, a sparsevec(256), b sparsevec(257), c sparsevec(512), d sparsevec(513),
	e sparsevec(1024), f sparsevec(1025), g sparsevec(2048), h sparsevec(2049), i sparsevec(1000000000));
INSERT INTO border SELECT i, sparse(i, 12, 256), sparse(i, 12, 257), sparse(i, 12, 512), sparse(i, 12, 513),
	sparse(i, 12, 1024), sparse(i, 12, 1025), sparse(i, 12, 2048), sparse(i, 12, 2049), sparse(i, 12, 1000000000)
FROM generate_series(1, 100) i;
SELECT col, bool_and(good) AS good, sum(rows) AS rows, sum(disordered) AS disordered, max(found) AS found
FROM (VALUES ('a', 256), ('b', 257), ('c', 512), ('d', 513), ('e', 1024), ('f', 1025), ('g', 2048), ('h', 2049),
	('i', 1000000000)) x (col, dim),
	each_class('border', col, format('SELECT sparse(900 + i, 12, %s) FROM generate_series(1, 3) i', dim), 10)
GROUP BY col ORDER BY col;
-- all layouts are the same
CREATE TABLE layouts (layout text, bytes bigint, recall numeric, disordered bigint, found text);
DO $$
DECLARE
	name text;
	a record;
BEGIN
	FOREACH name IN ARRAY '{default,exact,compact}'::text[] LOOP
		EXECUTE format('CREATE INDEX probe ON t USING grnnd (v sparsevec_ip_ops) WITH (layout = %s)', name);
		SELECT * INTO a FROM against_sort('t', 'v', '<#>', 'SELECT sparse(20000 + i, 24, 30000) FROM generate_series(1, 20) i', 10);
		INSERT INTO layouts SELECT name, pg_relation_size('probe') / 1000, a.recall, a.disordered,
			(SELECT string_agg(problem, '; ') FROM grnnd_check('probe', true));
		DROP INDEX probe;
	END LOOP;
END $$;
SELECT layout, bytes / 50 AS bytes_50, recall >= 0.95 AS good, disordered, found FROM layouts;

RESET grnnd.ef_search;

-- What the executor is told: the order needs no sort, and no recheck.
SET enable_seqscan = off;
CREATE INDEX t_v ON t USING grnnd (v);
-- recall is measured at the end of the build
SELECT (recall_curve->0->>'queries')::int >= 8 AS queries, (build_seconds->>'recall')::float8 > 0 AS seconds, (recall_curve->4->>'recall10')::float8 - r.recall BETWEEN -0.1 AND 0.1 AS near,
	(recall_curve->4->>'recall100')::float8 BETWEEN 0.5 AND 1 AS many, (recall_curve->1->>'records_visited')::float8 > 20 AS visits
FROM grnnd_stats('t_v'), grnnd_recall('t_v', 10, 160) r;
SELECT count(DISTINCT ef_search) AS widths, min(recall - target) > -0.1 AS good
FROM (VALUES (0.8), (0.99)) w (target),
	LATERAL (SELECT set_config('grnnd.target_recall', target::text, false)) s,
	LATERAL grnnd_recall('t_v', 10, queries => 100 + 0 * length(s.set_config)) r;
RESET grnnd.target_recall;
-- and when the index has grown; one of few rows has no curve
CREATE TABLE grown WITH (autovacuum_enabled = off) AS SELECT id, v FROM t WHERE id <= 900;
CREATE INDEX grown_v ON grown USING grnnd (v);
SELECT recall_curve IS NOT NULL AS measured FROM grnnd_stats('grown_v');
INSERT INTO grown SELECT i, sparse(i, 24, 30000) FROM generate_series(2001, 2400) i;
VACUUM (INDEX_CLEANUP on) grown;
SELECT recall_curve IS NOT NULL AS measured FROM grnnd_stats('grown_v');
SELECT grnnd_fit('grown_v');
SELECT recall_curve->0->'queries' AS queries FROM grnnd_stats('grown_v');
REINDEX INDEX CONCURRENTLY grown_v;
SELECT (recall_curve->0->>'queries')::int BETWEEN 8 AND 399 AS built FROM grnnd_stats('grown_v');
DROP TABLE grown;
-- rows of few dimensions are numbers
CREATE TABLE few WITH (autovacuum_enabled = off) AS SELECT i AS id, sparse(i, 24, 400)::sparsevec(400) AS v FROM generate_series(1, 2500) i;
DO $$
DECLARE
	class text;
BEGIN
	FOREACH class IN ARRAY '{l2,ip,cosine,l1}'::text[] LOOP
		EXECUTE format('CREATE INDEX few_%s ON few USING grnnd (v sparsevec_%1$s_ops)', class);
	END LOOP;
END $$;
SELECT class, (recall_curve->0->>'queries')::int > 0 AS measured, (SELECT max((point->>'recall10')::float8) > 0.97 FROM jsonb_array_elements(recall_curve) point) AS high
FROM unnest('{l2,ip,cosine,l1}'::text[]) class, LATERAL grnnd_stats(('few_' || class)::regclass);
DROP INDEX few_l2, few_ip, few_l1;
SET enable_seqscan = off;
SELECT target, recall >= target - 0.02 AS good
FROM (VALUES (0.9), (0.97)) w (target),
	LATERAL (SELECT set_config('grnnd.target_recall', target::text, false)) s,
	LATERAL grnnd_recall('few_cosine', 10, queries => 100 + 0 * length(s.set_config)) r;
RESET grnnd.target_recall;
-- grown, too
SELECT recall_curve AS built FROM grnnd_stats('few_cosine') \gset
SET grnnd.background_fit = off;
INSERT INTO few SELECT i, sparse(i, 24, 400) FROM generate_series(2501, 5000) i;
SELECT grnnd_fit('few_cosine');
RESET grnnd.background_fit;
SELECT recall_curve <> :'built' AS anew FROM grnnd_stats('few_cosine');
DROP TABLE few;
-- and by inner product of the metric of numbers: positive rows of many lengths, and short queries
CREATE TABLE few AS SELECT i AS id, (replace(sparse(i, 24, 400)::text, '-', '')::sparsevec(400)::vector *
	array_fill(exp(1.5 * unit(i, 0, 9))::real, ARRAY[400])::vector)::sparsevec(400) AS v FROM generate_series(1, 2500) i;
CREATE INDEX ON few USING grnnd (v sparsevec_ip_ops);
SELECT recall >= 0.8 AS good, rows, disordered FROM against_sort('few', 'v', '<#>',
	'SELECT replace(sparse(9000 + i, 6, 400)::text, ''-'', '''')::sparsevec FROM generate_series(1, 20) i', 10);
DROP TABLE few;
EXPLAIN (COSTS OFF) SELECT id FROM t ORDER BY v <-> '{1:1}/30000' LIMIT 3;
SELECT id, v <-> sparse(7, 24, 30000) AS d FROM t ORDER BY v <-> sparse(7, 24, 30000) LIMIT 1;
-- rows of different distances by the second operator, equal ones by the first
CREATE TABLE ties (id int, v sparsevec(5000));
INSERT INTO ties SELECT i, format('{%s:1,%s:1}/5000', i, 2000 + i * 7 % 100)::sparsevec FROM generate_series(1, 60) i;
CREATE INDEX ON ties USING grnnd (v);
SELECT array_agg(id) FROM (SELECT id FROM ties
	ORDER BY v <-> '{4000:1}/5000', v <-> '{2007:1,2014:0.5,2021:0.2}/5000' LIMIT 3) x;

-- All rows, once each, whatever the mode, the number that one search keeps, and the memory.
CREATE FUNCTION all_rows(tab regclass, q sparsevec, OUT rows bigint, OUT different bigint,
	OUT disordered bigint) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('SELECT count(*), count(DISTINCT id), count(*) FILTER (WHERE d < before)
		FROM (SELECT id, d, lag(d) OVER (ORDER BY n) AS before FROM (SELECT row_number() OVER () AS n, *
			FROM (SELECT id, v <-> $1 AS d FROM %s ORDER BY v <-> $1 LIMIT 100000) y) z) x', tab)
		INTO rows, different, disordered USING q;
END $$;
SET grnnd.ef_search = 20;
SELECT rows, different, disordered < 40 AS ordered FROM all_rows('t', sparse(7, 24, 30000));
SET grnnd.iterative_scan = relaxed_order;
SELECT rows, different FROM all_rows('t', sparse(8, 24, 30000));
SET grnnd.iterative_scan = off;
SELECT rows, different, disordered < 3 AS ordered FROM all_rows('t', sparse(9, 24, 30000));
SET grnnd.iterative_scan = strict_order;
SET work_mem = '64kB';
SELECT rows, different, disordered < 40 AS ordered FROM all_rows('t', sparse(7, 24, 30000));
RESET work_mem;
SET grnnd.max_scan_tuples = 200;
SELECT rows >= 20 AND rows < 1000 AS some, rows = different AS different FROM all_rows('t', sparse(8, 24, 30000));
RESET grnnd.max_scan_tuples;
RESET grnnd.ef_search;
-- a filter that few rows pass
SELECT array_agg(id) = (SELECT array_agg(id) FROM (SELECT id FROM t WHERE id % 250 = 3 AND v IS NOT NULL
	ORDER BY (v <-> sparse(7, 24, 30000)) + 0) y) AS same
FROM (SELECT id FROM t WHERE id % 250 = 3 ORDER BY v <-> sparse(7, 24, 30000) LIMIT 4) x;
-- A filter column that a third of the rows pass: rows are found where they are, not by reading all.
CREATE TABLE f AS SELECT i AS id, i % 3 AS third, sparse(i, 24, 3000, 4000) AS v FROM generate_series(1, 4000) i;
ALTER TABLE f ALTER v TYPE sparsevec(3000);
CREATE INDEX f_v ON f USING grnnd (v sparsevec_cosine_ops, third);
CREATE FUNCTION by_third(n int) RETURNS TABLE (recall numeric, visits numeric, all_rows bigint) LANGUAGE plpgsql AS $$
DECLARE
	q sparsevec;
	hits bigint := 0;
	s record;
BEGIN
	visits := 0; all_rows := 0;
	FOR i IN 1 .. n LOOP
		q := sparse(5000 + i, 24, 3000, 4000);
		hits := hits + (WITH x AS MATERIALIZED (SELECT id FROM f WHERE third = 1 ORDER BY v <=> q LIMIT 10)
			SELECT count(*) FROM x JOIN (SELECT id FROM f WHERE third = 1 ORDER BY (v <=> q) + 0 LIMIT 10) y USING (id));
		SELECT * INTO s FROM grnnd_last_scan();
		visits := visits + s.records_visited;
		all_rows := all_rows + (s.method LIKE '%all rows')::int;
	END LOOP;
	recall := round(hits / (10.0 * n), 2);
	visits := round(visits / n);
	RETURN NEXT;
END $$;
SET grnnd.ef_search = 40;
SELECT recall >= 0.9 AS recall, visits <= 4000 AS visits FROM by_third(20);
RESET grnnd.ef_search;

-- NULL for a query, and a plan that scans again
SELECT count(*), count(d) FROM (SELECT v <-> NULL AS d FROM t ORDER BY v <-> NULL::sparsevec LIMIT 3) x;
SELECT count(*), count(DISTINCT q.i), bool_and(d = least) FROM generate_series(1, 20) q(i),
	LATERAL (SELECT v <-> sparse(i, 24, 30000) AS d FROM t ORDER BY v <-> sparse(i, 24, 30000) LIMIT 1) x,
	LATERAL (SELECT min(v <-> sparse(i, 24, 30000)) AS least FROM t) y;

-- Inserted rows, equal ones among them, updates and deletes.
CREATE TABLE w (id int, note text, v sparsevec(30000)) WITH (fillfactor = 50);
CREATE INDEX w_v ON w USING grnnd (v);
SELECT id FROM w ORDER BY v <-> '{}/30000' LIMIT 1;
INSERT INTO w SELECT i, '', sparse(i, 24, 30000) FROM generate_series(1, 400) i;
INSERT INTO w SELECT 1000 + i, '', sparse(7, 24, 30000) FROM generate_series(1, 300) i;
SELECT count(*), min(d), max(d) FROM (SELECT v <-> sparse(7, 24, 30000) AS d FROM w
	ORDER BY v <-> sparse(7, 24, 30000) LIMIT 301) x;
SELECT recall >= 0.9 AS good, rows, disordered FROM against_sort('w', 'v', '<->', 'SELECT sparse(i, 24, 30000) FROM generate_series(1, 10) i', 10);
SELECT rows, different, disordered < 20 AS ordered FROM all_rows('w', sparse(9, 24, 30000));
-- a cursor keeps its snapshot
BEGIN;
DECLARE c CURSOR FOR SELECT v <-> sparse(7, 24, 30000) AS d FROM w ORDER BY v <-> sparse(7, 24, 30000) LIMIT 500;
FETCH 1 FROM c \gset before_
UPDATE w SET note = 'changed in place' WHERE id BETWEEN 2 AND 100;
DELETE FROM w WHERE id BETWEEN 1000 AND 1250 OR id = 7;
UPDATE w SET v = sparse(id + 3000, 24, 30000) WHERE id BETWEEN 200 AND 300;
DECLARE d CURSOR FOR SELECT v <-> sparse(7, 24, 30000) AS d FROM w ORDER BY v <-> sparse(7, 24, 30000) LIMIT 500;
MOVE 299 FROM c;
FETCH 1 FROM c;
MOVE 49 FROM d;
FETCH 1 FROM d;
FETCH 1 FROM d \gset after_
SELECT :before_d = 0 AS before, :after_d > 0 AS after;
COMMIT;
SELECT recall >= 0.9 AS good, rows, disordered FROM against_sort('w', 'v', '<->', 'SELECT sparse(i * 20, 24, 30000) FROM generate_series(1, 20) i', 10);
SELECT rows, different FROM all_rows('w', sparse(9, 24, 30000));
VACUUM w;
SELECT rows, different FROM all_rows('w', sparse(9, 24, 30000));
SELECT * FROM grnnd_check('w_v', true);
-- a row that is read, but is nobody's any more
BEGIN;
INSERT INTO w SELECT 9000, '', sparse(11, 24, 30000);
SAVEPOINT s;
INSERT INTO w SELECT 9001, '', sparse(11, 24, 30000);
ROLLBACK TO s;
SELECT id FROM w ORDER BY v <-> sparse(11, 24, 30000) LIMIT 2;
ROLLBACK;

-- Cosine: zero rows have no place.
CREATE TABLE z (id int, v sparsevec(30000));
INSERT INTO z SELECT i, format('{%s:1,%s:-1}/30000', i, i + 10000)::sparsevec FROM generate_series(1, 1000) i;
INSERT INTO z VALUES (0, '{}/30000'), (-1, '{1:1e-40}/30000');
CREATE INDEX z_v ON z USING grnnd (v sparsevec_cosine_ops);
SELECT count(*) FROM (SELECT id FROM z ORDER BY v <=> '{5:1}/30000' LIMIT 2000) x;
SELECT count(*), bool_and(d = 'NaN') FROM (SELECT v <=> '{}/30000' AS d FROM z ORDER BY v <=> '{}/30000' LIMIT 2000) x;
SELECT * FROM grnnd_check('z_v', true);

-- Elements from none to the most, in the table and TOASTed.
CREATE TABLE n (id int, v sparsevec(1000000));
INSERT INTO n SELECT n, sparse(n, n, 1000000, 100000) FROM unnest('{0,1,2,999,1000,1001,4000}'::int[]) n;
INSERT INTO n SELECT 16000, ('{' || string_agg(i * 50 || ':' || i % 9 + 1, ',') || '}/1000000')::sparsevec
FROM generate_series(1, 16000) i;
SELECT * FROM each_class('n', 'v', 'SELECT v FROM n WHERE id > 0', 7);
CREATE INDEX n_v ON n USING grnnd (v sparsevec_l2_ops);
INSERT INTO n SELECT id + 1, v FROM n WHERE id = 16000;
SELECT array_agg(id ORDER BY id) FROM (SELECT id FROM n ORDER BY v <-> (SELECT v FROM n WHERE id = 16000) LIMIT 2) x;
SELECT id FROM n ORDER BY v <-> '{}/1000000' LIMIT 1;

-- Expressions: of a column of another type, and of part of the rows.
CREATE TABLE ex (id int, e vector(1200), s sparsevec(1200));
INSERT INTO ex SELECT i, sparse(i, 20, 1200)::vector, sparse(i, 20, 1200) FROM generate_series(1, 300) i;
CREATE INDEX ex_e ON ex USING grnnd ((e::sparsevec(1200)) sparsevec_l1_ops) WHERE id <= 250;
EXPLAIN (COSTS OFF) SELECT id FROM ex WHERE id <= 250 ORDER BY e::sparsevec(1200) <+> '{1:1}/1200' LIMIT 3;
SELECT array_agg(id ORDER BY id) = array_agg(right_id ORDER BY right_id) AS same FROM
	(SELECT id, row_number() OVER () AS n FROM (SELECT id FROM ex WHERE id <= 250
		ORDER BY e::sparsevec(1200) <+> sparse(7, 20, 1200) LIMIT 5) x) x
	JOIN (SELECT id AS right_id, row_number() OVER () AS n FROM (SELECT id FROM ex WHERE id <= 250
		ORDER BY (s <+> sparse(7, 20, 1200)) + 0 LIMIT 5) y) y USING (n);
SELECT * FROM grnnd_check('ex_e', true);

-- Plans: distances of sparse rows take longer than the planner believes, so a table of 1,500 rows is
-- enough for the index; not for a filter that few rows pass.
CREATE TABLE planned (id int, v sparsevec(30000));
INSERT INTO planned SELECT i, ('{' || string_agg(j * 500 + (i * j * 7) % 500 + 1 || ':' || 1 + (i * j) % 7, ',' ORDER BY j) ||
	'}/30000')::sparsevec FROM generate_series(1, 1500) i, generate_series(0, 59) j GROUP BY i;
CREATE INDEX ON planned USING grnnd (v);
VACUUM ANALYZE planned;
RESET enable_seqscan;
EXPLAIN (COSTS OFF) SELECT id FROM planned ORDER BY v <-> '{1:1}/30000' LIMIT 10;
EXPLAIN (COSTS OFF) SELECT id FROM planned WHERE id <= 15 ORDER BY v <-> '{1:1}/30000' LIMIT 10;
SET enable_seqscan = off;

-- What is refused, and what a build would take.
CREATE TABLE free (v sparsevec);
CREATE INDEX ON free USING grnnd (v);
SELECT id FROM t ORDER BY v <-> '{1:1}/10' LIMIT 1;
INSERT INTO z VALUES (1, '{1:1}/10');
INSERT INTO w VALUES (1, '', '{1:3e38,2:3e38}/30000');
SELECT rows, dimensions FROM grnnd_build_estimate('t', 'v', 'sparsevec_ip_ops');
-- REINDEX, and codes
REINDEX INDEX t_v;
SELECT state FROM grnnd_codes('t_v');
-- moving over
CREATE INDEX h ON z USING hnsw (v sparsevec_cosine_ops);
SELECT regexp_replace(statement, '\d+', 'N', 'g'), problem FROM grnnd_migrate('test_sparsevec', 'z');

RESET enable_seqscan;
SET client_min_messages = warning;
DROP SCHEMA test_sparsevec CASCADE;
