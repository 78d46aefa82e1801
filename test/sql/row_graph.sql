-- grnnd_graph() and grnnd_graph_by(): each row's nearest rows, against a join of the table with
-- itself.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS grnnd_tools CASCADE;
RESET client_min_messages;
CREATE SCHEMA test_row_graph;
SET search_path = test_row_graph, public;
SET grnnd.build_device = cpu;
\getenv dir PG_ABS_SRCDIR
\set file :dir '/lib/recall.sql'
\set ECHO none
\i :file
\set ECHO all

-- Pairs of the graph; the share of the k nearest of each row that it has, by their distance;
-- pairs whose distance is not the operator's; pairs that are there twice, and rows with themselves.
CREATE FUNCTION against_join(tab text, col text, op text, metric text, k int, exact boolean,
	OUT pairs bigint, OUT recall float8, OUT off bigint, OUT wrong bigint)
LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format($q$
		WITH g AS MATERIALIZED (
			SELECT a.id, b.id AS other, distance, a.%2$I %3$s b.%2$I AS d
			FROM grnnd_graph(%1$L, %2$L, $1, $2, exact => $3)
				JOIN %1$I a ON a.ctid = item JOIN %1$I b ON b.ctid = neighbor),
		pair AS (
			SELECT a.id, a.%2$I %3$s b.%2$I AS d,
				row_number() OVER (PARTITION BY a.id ORDER BY a.%2$I %3$s b.%2$I) AS n
			FROM %1$I a JOIN %1$I b ON a.id <> b.id
			WHERE a.%2$I %3$s b.%2$I <> 'NaN'),
		truth AS (SELECT id, max(d) AS far, count(*) AS n FROM pair WHERE n <= $1 GROUP BY id)
		SELECT (SELECT count(*) FROM g),
			(SELECT count(*) FROM g JOIN truth USING (id)
				WHERE d <= far + 1e-5 * (1 + abs(far))) / (SELECT sum(n) FROM truth)::float8,
			(SELECT count(*) FROM g WHERE abs(distance - d) > 1e-5 * (1 + abs(d))),
			(SELECT count(*) - count(DISTINCT (id, other)) FROM g) + (SELECT count(*) FROM g WHERE id = other)
		$q$, tab, col, op)
	INTO pairs, recall, off, wrong USING k, metric, exact;
END $$;

-- all types and metrics
CREATE TABLE t AS SELECT id, v::vector(24), v::halfvec(24) AS h, s::sparsevec(3000) AS s,
	(SELECT string_agg((unit(id % 12, j, 5) < 0.3 AND unit(id, j, 6) < 0.8 OR unit(id, j, 7) < 0.05)::int::text, '' ORDER BY j)
		FROM generate_series(1, 90) j)::bit(90) AS b
FROM points(1, 300, 24, 1), LATERAL (
	SELECT ('{' || string_agg(col || ':' || x, ',') || '}/3000')::sparsevec AS s
	FROM (SELECT 1 + floor(unit(id % 20, j, 2) * 3000)::int AS col, max(round((0.1 + unit(id, j, 3))::numeric, 3)) AS x
		FROM generate_series(1, 12) j WHERE unit(id, j, 4) < 0.7 OR j = 1 GROUP BY 1) e) x;
SELECT col, metric, exact, pairs, CASE WHEN exact THEN recall = 1 ELSE recall > 0.95 END AS good, off, wrong
FROM (VALUES ('v', '<->', 'l2'), ('v', '<#>', 'ip'), ('v', '<=>', 'cosine'), ('v', '<+>', 'l1'),
		('h', '<->', 'l2'), ('h', '<#>', 'ip'), ('h', '<=>', 'cosine'), ('h', '<+>', 'l1'),
		('b', '<~>', 'hamming'), ('b', '<%>', 'jaccard'),
		('s', '<->', 'l2'), ('s', '<#>', 'ip'), ('s', '<=>', 'cosine'), ('s', '<+>', 'l1')) m (col, op, metric),
	unnest('{false,true}'::boolean[]) exact, against_join('t', col, op, metric, 10, exact)
ORDER BY col, op, exact;
-- the default metric is the default operator class's; an operator class has a name, too
SELECT a.n, a.sum = b.sum AS same FROM
	(SELECT count(*) AS n, sum(distance) FROM grnnd_graph('t', 'b', exact => true)) a,
	(SELECT count(*) AS n, sum(distance) FROM grnnd_graph('t', 'b', 10, 'public.bit_hamming_ops', NULL, true)) b;

-- the approximate graph of real data, also where memory is short and the build goes to a file
CREATE TABLE glosses (id int, v vector(384));
\set file :dir '/data/glosses.i8'
INSERT INTO glosses SELECT id, (SELECT array_agg((get_byte(b, j) # 128) - 128 ORDER BY j) FROM generate_series(0, 383) j)::vector
	FROM generate_series(1, 1500) id, pg_read_binary_file(:'file', id * 384, 384) b;
CREATE TABLE truth AS SELECT item, max(distance) AS far, count(*) AS n
	FROM grnnd_graph('glosses', 'v', 10, 'cosine', exact => true) GROUP BY item;
SELECT sum(n) FROM truth;
CREATE FUNCTION gloss_recall(ef int) RETURNS float8 LANGUAGE sql RETURN
	(SELECT count(*) / 15000.0 FROM grnnd_graph('glosses', 'v', 10, 'cosine', ef_search => ef) g JOIN truth USING (item)
		WHERE distance <= far + 1e-6);
SELECT gloss_recall(NULL) > 0.97 AS usual, gloss_recall(100) > 0.995 AS wide;
SET maintenance_work_mem = '1MB';
SET work_mem = '64kB';
SELECT gloss_recall(NULL) > 0.97 AS usual;
SELECT (SELECT count(*) FROM grnnd_graph('glosses', 'v', 10, 'cosine', exact => true) JOIN truth USING (item)
	WHERE distance <= far + 1e-6);
RESET work_mem;
RESET maintenance_work_mem;

-- all pairs nearer than x: those of the join
SELECT exact, (SELECT count(*) FROM grnnd_graph('t', 'b', 299, max_distance => 13.5, exact => exact)) -
	(SELECT count(*) FROM t a JOIN t b ON a.id <> b.id AND a.b <~> b.b <= 13.5) AS difference
FROM unnest('{false,true}'::boolean[]) exact;
SELECT count(*) FROM grnnd_graph('t', 's', 5, max_distance => 1e-9);
SELECT count(*) > 0 AND max(distance) <= -1 AS ip FROM grnnd_graph('t', 'v', 5, 'ip', -1);
SELECT count(*) FROM grnnd_graph('t', 'v', max_distance => -1);

-- NULLs, and zero vectors by cosine, are left out; duplicates are neighbors of each other
CREATE TABLE d (id int, v vector(3));
INSERT INTO d SELECT i, CASE WHEN i % 10 = 0 THEN NULL WHEN i % 10 = 1 THEN '[0,0,0]'::vector
	WHEN i % 10 < 5 THEN '[1,2,3]' ELSE ARRAY[i, i % 7, -i]::vector END FROM generate_series(1, 100) i;
SELECT metric, exact, count(*), count(DISTINCT a.id) AS rows,
	count(*) FILTER (WHERE a.v = b.v) AS duplicates, count(*) FILTER (WHERE a.v = b.v AND distance <> 0) AS apart,
	count(*) FILTER (WHERE a.id = b.id) AS own
FROM unnest('{l2,cosine}'::text[]) metric, unnest('{false,true}'::boolean[]) exact,
	LATERAL (SELECT * FROM grnnd_graph('d', 'v', 6, metric, exact => exact)) g
	JOIN d a ON a.ctid = item JOIN d b ON b.ctid = neighbor
GROUP BY 1, 2 ORDER BY 1, 2;
SELECT exact, count(*), count(DISTINCT item) AS rows FROM unnest('{false,true}'::boolean[]) exact,
	LATERAL (SELECT * FROM grnnd_graph('d', 'v', 1000, max_distance => 0, exact => exact)) g GROUP BY 1 ORDER BY 1;

-- k larger than the table, one row, none
CREATE TABLE few (id int, v vector(3));
SELECT count(*) FROM grnnd_graph('few', 'v', 5);
INSERT INTO few VALUES (1, NULL);
SELECT count(*) FROM grnnd_graph('few', 'v', 5);
INSERT INTO few VALUES (2, '[1,1,1]');
SELECT exact, (SELECT count(*) FROM grnnd_graph('few', 'v', 5, exact => exact)) FROM unnest('{false,true}'::boolean[]) exact;
INSERT INTO few VALUES (3, '[1,1,2]'), (4, '[1,1,2]'), (5, '[5,1,2]');
SELECT exact, g.* FROM unnest('{false,true}'::boolean[]) exact, LATERAL (SELECT a.id, array_agg(distance ORDER BY distance)
	FROM grnnd_graph('few', 'v', 1000, exact => exact) JOIN few a ON a.ctid = item GROUP BY 1) g ORDER BY 1, 2;

-- keys of any type; views, expressions without a number of dimensions, partitions
CREATE VIEW shown AS SELECT 'row ' || id AS key, id % 2 = 0 AS even, v::vector AS v, h FROM t WHERE id <= 200;
SELECT (SELECT count(*) FROM grnnd_graph_by('shown', 'v', 'key', 3, exact => true)
		AS g (item text, neighbor text, distance float8)),
	(SELECT count(*) FROM grnnd_graph_by('shown', 'v', 'key', 3, exact => true)
		AS g (item text, neighbor text, distance float8)
		JOIN t a ON 'row ' || a.id = item JOIN t b ON 'row ' || b.id = neighbor
	 WHERE abs((a.v <-> b.v) - distance) < 1e-5 AND a.id <> b.id AND a.id <= 200 AND b.id <= 200);
CREATE DOMAIN place AS vector(3);
CREATE TABLE parts (key uuid, p place, n numeric) PARTITION BY HASH (key);
CREATE TABLE parts_0 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO parts SELECT md5(i::text)::uuid, ARRAY[i, 0, 0]::vector::place, i / 3.0 FROM generate_series(1, 50) i;
SELECT count(*), max(abs(abs(a.n - b.n) * 3 - distance)) < 1e-5 AS right
FROM grnnd_graph_by('parts', 'p', 'key', 2) AS g (item uuid, neighbor uuid, distance float8)
	JOIN parts a ON a.key = item JOIN parts b ON b.key = neighbor;
SELECT item, array_agg(neighbor ORDER BY distance, neighbor)
FROM grnnd_graph_by('few', 'v', 'id', 2) AS g (item int, neighbor int, distance float8) GROUP BY 1 ORDER BY 1;
CREATE MATERIALIZED VIEW kept AS SELECT * FROM few;
SELECT count(*) FROM grnnd_graph('kept', 'v', 2);

-- the statement's own snapshot
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM few;
INSERT INTO few VALUES (6, '[1,1,7]');
SELECT count(*) FROM grnnd_graph('few', 'v', 1);
WITH new AS (INSERT INTO few VALUES (7, '[1,1,8]') RETURNING id)
SELECT count(*) FROM grnnd_graph('few', 'v', 1);
ROLLBACK;

-- rights are those of a SELECT
CREATE ROLE grnnd_graph_reader;
GRANT USAGE ON SCHEMA test_row_graph TO grnnd_graph_reader;
GRANT SELECT ON shown TO grnnd_graph_reader;
SET ROLE grnnd_graph_reader;
SELECT count(*) FROM grnnd_graph('few', 'v', 1);
SELECT count(*) FROM grnnd_graph_by('shown', 'v', 'key', 1) AS g (item text, neighbor text, distance float8);
SELECT grnnd_graph_by('shown', 'v', 'key', 1);
RESET ROLE;
GRANT SELECT (v) ON few TO grnnd_graph_reader;
ALTER TABLE d ENABLE ROW LEVEL SECURITY;
CREATE POLICY low ON d TO grnnd_graph_reader USING (id <= 20);
GRANT SELECT ON d TO grnnd_graph_reader;
SET ROLE grnnd_graph_reader;
SELECT count(*) FROM grnnd_graph_by('few', 'v', 'id', 1) AS g (item int, neighbor int, distance float8);
SELECT count(*), max(item), max(neighbor)
FROM grnnd_graph_by('d', 'v', 'id', 50) AS g (item int, neighbor int, distance float8);
RESET ROLE;
-- an OID is no way around the schema's rights
SELECT 'd'::regclass::oid AS d \gset
REVOKE USAGE ON SCHEMA test_row_graph FROM grnnd_graph_reader;
SET ROLE grnnd_graph_reader;
SELECT count(*) FROM grnnd_graph(:d, 'v', 1);
RESET ROLE;
DROP OWNED BY grnnd_graph_reader;
DROP ROLE grnnd_graph_reader;

-- what cannot be
CREATE FUNCTION state(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	hint text;
BEGIN
	EXECUTE query;
	RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(' ', SQLSTATE, SQLERRM, '/', hint);
END $$;
CREATE TABLE mixed (id int, v vector);
INSERT INTO mixed VALUES (1, '[1,2]'), (2, '[1,2,3]');
CREATE TABLE parent (id int, v vector(3));
CREATE TABLE child () INHERITS (parent);
CREATE INDEX few_id ON few (id);
INSERT INTO few VALUES (NULL, '[4,4,4]');
SELECT state('SELECT * FROM grnnd_graph' || call) FROM unnest(ARRAY[
	$$('t', 'v', 0)$$, $$('t', 'v', 1001)$$, $$('t', 'v', NULL)$$, $$(NULL, 'v')$$, $$('t', 'v', ef_search => 0)$$,
	$$('t', 'v', max_distance => 'NaN')$$, $$('t', 'w')$$, $$('t', 'ctid')$$, $$('t', 'id')$$, $$('t', 'v', 3, 'near')$$,
	$$('t', 'v', 3, 'hamming')$$, $$('t', 'v', 3, 'halfvec_l2_ops')$$, $$('nothing', 'v')$$,
	$$(0::oid::regclass, 'v')$$, $$('few_id', 'id')$$, $$('shown', 'v')$$, $$('parts', 'p')$$, $$('parent', 'v')$$,
	$$('mixed', 'v')$$,
	$$_by('few', 'v', 'id') AS g (item int, neighbor int, distance float8)$$,
	$$_by('few', 'v', 'key') AS g (item int, neighbor int, distance float8)$$,
	$$_by('few', 'v', 'id') AS g (item bigint, neighbor bigint, distance float8)$$,
	$$_by('few', 'v', 'id') AS g (item int, neighbor int)$$,
	$$_by('few', 'v', 'id')$$]) call;
-- (of children with a key that is told apart)
INSERT INTO parent VALUES (1, '[1,2,3]');
INSERT INTO child VALUES (2, '[1,2,4]');
SELECT * FROM grnnd_graph_by('parent', 'v', 'id') AS g (item int, neighbor int, distance float8) ORDER BY 1;
-- names are names
CREATE TABLE "a""b; SELECT 1" ("v'"" FROM t" vector(3), "K" int);
INSERT INTO "a""b; SELECT 1" VALUES ('[1,2,3]', 1), ('[1,2,5]', 2);
SELECT * FROM grnnd_graph_by('"a""b; SELECT 1"', 'v''" FROM t', 'K') AS g (item int, neighbor int, distance float8) ORDER BY 1;

SET client_min_messages = warning;
DROP SCHEMA test_row_graph CASCADE;
