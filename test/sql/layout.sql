-- The default layout keeps vectors in 8 bits and takes fewer pages than the exact one, and
-- the order of what it finds is exact nevertheless.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS grnnd CASCADE;
CREATE SCHEMA test_layout;
SET search_path = test_layout, public;
SET grnnd.build_device = cpu;
\getenv dir PG_ABS_SRCDIR
\set file :dir '/lib/recall.sql'
\set ECHO none
\i :file
\set ECHO all

CREATE TABLE t (id int, v vector(384));
CREATE INDEX bad ON t USING grnnd (v) WITH (layout = small);
INSERT INTO t SELECT * FROM points(1, 2100, 384, 1);

-- Most rows come before the index is built, the others one by one, or all of them; by all
-- metrics.  Duplicates share a record, rows that are equal only after rounding do not.
CREATE FUNCTION compare(opclass text, op text, rows int,
	OUT smaller bool, OUT recalled bool, OUT disordered bigint, OUT complete bool, OUT sound bool) LANGUAGE plpgsql AS $$
DECLARE
	queries text := 'SELECT v FROM points(100001, 100010, 384, 1)';
	r record;
BEGIN
	CREATE TABLE s (id int, v vector(384));
	INSERT INTO s SELECT * FROM t WHERE id <= rows;
	EXECUTE format('CREATE INDEX s_default ON s USING grnnd (v %s) WITH (layout = default)', opclass);
	INSERT INTO s SELECT * FROM t WHERE id > rows;
	PERFORM grnnd_fit('s_default');
	-- the same rows again, and rows that differ from them by less than rounding does
	INSERT INTO s SELECT id + 10000, v FROM t WHERE id % 10 = 1;
	INSERT INTO s SELECT id + 20000, (ARRAY[((v::float4[])[1] * 1.00001)::float4] || (v::float4[])[2:])::vector
		FROM t WHERE id % 10 = 2;
	r := ranked('s', 'v', op, queries, 10);
	recalled := r.recall >= 0.97;
	disordered := r.disordered;
	complete := r.rows = 100;
	sound := NOT EXISTS (SELECT FROM grnnd_check('s_default', true));
	EXECUTE format('CREATE INDEX s_exact ON s USING grnnd (v %s) WITH (layout = exact)', opclass);
	smaller := pg_relation_size('s_default') < 0.8 * pg_relation_size('s_exact');
	DROP TABLE s;
END $$;
SELECT opclass, c.* FROM (VALUES ('vector_l2_ops', '<->', 2000), ('vector_cosine_ops', '<=>', 2000),
	('vector_ip_ops', '<#>', 2000), ('vector_l2_ops', '<->', 0)) x (opclass, op, rows), compare(opclass, op, rows) c;

-- small integers are exact in either layout: no row is read for its distance
CREATE TABLE ints (id int, v vector(384));
INSERT INTO ints SELECT id, array(SELECT (unit(id, j, 1) * 255)::int FROM generate_series(1, 384) j)::vector
FROM generate_series(1, 600) id;
CREATE INDEX ints_v ON ints USING grnnd (v);
SET enable_seqscan = off;
SET enable_sort = off;
CREATE FUNCTION table_pages(query text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, FORMAT JSON) ' || query INTO plan;
	RETURN (plan -> 0 -> 'Plan' ->> 'Shared Hit Blocks')::int + (plan -> 0 -> 'Plan' ->> 'Shared Read Blocks')::int;
END $$;
SELECT v AS q FROM ints WHERE id = 17 \gset
SELECT table_pages(format('SELECT 1 FROM ints ORDER BY v <-> %L LIMIT 10', :'q')) AS bytes \gset
DROP INDEX ints_v;
CREATE INDEX ints_v ON ints USING grnnd (v) WITH (layout = exact);
SELECT :bytes = table_pages(format('SELECT 1 FROM ints ORDER BY v <-> %L LIMIT 10', :'q')) AS same;

SET client_min_messages = warning;
-- few bits of numbers that all lie far from zero say little of what they differ by
SELECT setseed(0.3);
CREATE TABLE far AS SELECT i AS id, (SELECT array_agg(random()) FROM generate_series(1, 48 + 0 * i))::vector(48) AS v FROM generate_series(1, 300) i;
CREATE INDEX far_v ON far USING grnnd (v) WITH (layout = compact);
UPDATE far SET v = v + (SELECT array_agg(30) FROM generate_series(1, 48))::vector(48);
REINDEX INDEX far_v;

DROP SCHEMA test_layout CASCADE;
