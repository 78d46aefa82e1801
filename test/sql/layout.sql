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
	smaller := pg_relation_size('s_default') < 0.85 * pg_relation_size('s_exact');
	DROP TABLE s;
END $$;
SELECT opclass, c.* FROM (VALUES ('vector_l2_ops', '<->', 2000), ('vector_cosine_ops', '<=>', 2000),
	('vector_ip_ops', '<#>', 2000), ('vector_l2_ops', '<->', 0)) x (opclass, op, rows), compare(opclass, op, rows) c;

-- small integers are exact in either layout: no row is read for its distance
CREATE TABLE ints (id int, v vector(384));
INSERT INTO ints SELECT id, array(SELECT (unit(id, j, 1) * 255)::int FROM generate_series(1, 384) j)::vector
FROM generate_series(1, 600) id;
CREATE INDEX ints_v ON ints USING grnnd (v) WITH (degree = 32);
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
CREATE INDEX ints_v ON ints USING grnnd (v) WITH (degree = 32, layout = exact);
SELECT :bytes = table_pages(format('SELECT 1 FROM ints ORDER BY v <-> %L LIMIT 10', :'q')) AS same;

SET client_min_messages = warning;
-- few bits a number tell rows apart that all lie far from zero, because they keep what is left
-- without the center; of few rows as well, of rows that are inserted, and beside some that lie
-- where the others do not
CREATE TABLE far AS SELECT id, CASE WHEN id % 50 = 0 THEN array_fill(-1e6::real, ARRAY[128])::vector
	ELSE v + array_fill(10::real, ARRAY[128])::vector END AS v FROM points(1, 2000, 128, 1) p(id, v);
CREATE FUNCTION far_queries() RETURNS TABLE (v vector) LANGUAGE sql AS
$$ SELECT v + array_fill(10::real, ARRAY[128])::vector FROM points(100001, 100020, 128, 1) p(id, v) $$;
CREATE FUNCTION far(opclass text, op text, rows int,
	OUT recalled bool, OUT disordered bigint, OUT near bigint, OUT sound bool) LANGUAGE plpgsql AS $$
DECLARE
	q text := (SELECT v FROM far_queries() LIMIT 1);
	r record;
	hundredth float8;
BEGIN
	CREATE TABLE s (id int, v vector(128));
	INSERT INTO s SELECT id, v FROM far WHERE id <= rows;
	EXECUTE format('CREATE INDEX s_v ON s USING grnnd (v %s) WITH (layout = compact)', opclass);
	INSERT INTO s SELECT id, v FROM far WHERE id > rows;
	PERFORM grnnd_fit('s_v');
	PERFORM set_config('grnnd.ef_search', '400', true);
	r := ranked('s', 'v', op, 'SELECT v FROM far_queries()', 10);
	recalled := r.recall >= 0.97;
	disordered := r.disordered;
	-- a threshold between two rows
	EXECUTE format('SELECT avg(d) FROM (SELECT (v::real[]::vector %s %L) + 0.0 AS d FROM s ORDER BY d OFFSET 99 LIMIT 2) x', op, q)
		INTO hundredth;
	EXECUTE format('SELECT count(*) FROM (SELECT 1 FROM s WHERE v %1$s %2$L < %3$L::float8 ORDER BY v %1$s %2$L LIMIT 2000) x',
		op, q, hundredth) INTO near;
	sound := NOT EXISTS (SELECT FROM grnnd_check('s_v', true));
	DROP TABLE s;
END $$;
SELECT rows, opclass, f.* FROM (VALUES (2000), (1000), (60)) x (rows),
	(VALUES ('vector_l2_ops', '<->'), ('vector_cosine_ops', '<=>'), ('vector_ip_ops', '<#>')) y (opclass, op), far(opclass, op, rows) f;

-- a scan keeps its center while scans of other indexes take the memory of what else it has read
CREATE TABLE s (id int, v vector(128));
INSERT INTO s SELECT id, v FROM far;
CREATE INDEX s_v ON s USING grnnd (v vector_ip_ops) WITH (layout = compact);
DO $$ BEGIN
	FOR i IN 1..10 LOOP
		EXECUTE format('CREATE TABLE other_%s (v vector(16000))', i);
		EXECUTE format('INSERT INTO other_%s SELECT array_fill(1::real, ARRAY[16000])::vector', i);
		EXECUTE format('CREATE INDEX ON other_%s USING grnnd (v)', i);
	END LOOP;
END $$;
CREATE FUNCTION in_order(others int) RETURNS text LANGUAGE plpgsql SET grnnd.ef_search = 10 AS $$
DECLARE
	q vector := (SELECT v FROM far_queries() LIMIT 1);
	c CURSOR FOR SELECT id FROM s ORDER BY v <#> q;
	ids int[] := '{}';
	r record;
BEGIN
	OPEN c;
	LOOP
		FETCH c INTO r;
		EXIT WHEN NOT FOUND;
		ids := ids || r.id;
		CONTINUE WHEN cardinality(ids) <> 5;
		PERFORM set_config('work_mem', '64kB', true);
		FOR i IN 1..others LOOP
			EXECUTE format('SELECT 1 FROM other_%s ORDER BY v <-> array_fill(0::real, ARRAY[16000])::vector LIMIT 1', i);
		END LOOP;
		PERFORM set_config('work_mem', '4MB', true);
	END LOOP;
	CLOSE c;
	RETURN ids;
END $$;
SELECT in_order(10) = in_order(0) AS same;

DROP SCHEMA test_layout CASCADE;
