-- Rows that do not fit the number format that the build chose are found as fast as those
-- that do: a query touches at most twice the pages that it touches after REINDEX.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS grnnd CASCADE;
CREATE SCHEMA test_rounded;
SET search_path = test_rounded, public;
SET grnnd.build_device = cpu;
\getenv dir PG_ABS_SRCDIR
\set file :dir '/lib/recall.sql'
\set ECHO none
\i :file
\set ECHO all

-- Pages that 20 queries touch, of index and table.
CREATE FUNCTION touched(tab regclass, op text, shift text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	q vector;
	plan json;
	n int := 0;
BEGIN
	PERFORM set_config('enable_seqscan', 'off', true);
	FOR q IN EXECUTE format('SELECT v %s FROM points(100001, 100020, 48, 1)', shift) LOOP
		EXECUTE format('EXPLAIN (ANALYZE, BUFFERS, FORMAT json) SELECT id FROM %s ORDER BY v %s %L LIMIT 10',
			tab, op, q) INTO plan;
		n := n + (plan #>> '{0,Plan,Shared Hit Blocks}')::int + (plan #>> '{0,Plan,Shared Read Blocks}')::int;
	END LOOP;
	RETURN n;
END $$;

-- An index on rows that fit, and then more rows that do not.
CREATE FUNCTION compare(opclass text, op text, fitting text, shift text,
	OUT few_pages bool, OUT recalled bool, OUT disordered bigint, OUT sound bool) LANGUAGE plpgsql AS $$
DECLARE
	queries text := format('SELECT v %s FROM points(100001, 100020, 48, 1)', shift);
	before int;
	after int;
	r record;
BEGIN
	CREATE TABLE t (id int, v vector(48));
	EXECUTE 'INSERT INTO t SELECT -id, (SELECT array_agg(' || fitting || ' ORDER BY n)
		FROM unnest(v::float4[]) WITH ORDINALITY u (x, n))::vector FROM points(200001, 200800, 48, 1)';
	EXECUTE 'CREATE INDEX t_idx ON t USING grnnd (v ' || opclass || ')';
	-- the first of them show that codes do not tell such rows apart (in one transaction no
	-- background worker can see that)
	EXECUTE 'INSERT INTO t SELECT id, v ' || shift || ' FROM points(1, 250, 48, 1)';
	PERFORM grnnd_fit('t_idx');
	EXECUTE 'INSERT INTO t SELECT id, v ' || shift || ' FROM points(251, 2500, 48, 1)';
	r := ranked('t', 'v', op, queries, 10);
	recalled := r.recall >= 0.95;
	disordered := r.disordered;
	sound := NOT EXISTS (SELECT FROM grnnd_check('t_idx', true));
	before := touched('t', op, shift);
	REINDEX INDEX t_idx;
	after := touched('t', op, shift);
	few_pages := before <= 2 * after;
	IF NOT few_pages THEN
		RAISE WARNING '% pages, after REINDEX %', before, after;
	END IF;
	DROP TABLE t;
END $$;

-- bytes: fractions; negative; far beyond 255; far from 0
SELECT * FROM compare('vector_l2_ops', '<->', '(x > 0.7)::int', '');
SELECT * FROM compare('vector_l2_ops', '<->', '(x > 0.7)::int', '- array_fill(0.7, ARRAY[48])::vector');
SELECT * FROM compare('vector_l2_ops', '<->', '(x > 0.7)::int', '* array_fill(12345, ARRAY[48])::vector');
SELECT * FROM compare('vector_l2_ops', '<->', '(x > 0.7)::int', '+ array_fill(40, ARRAY[48])::vector');
SELECT * FROM compare('vector_ip_ops', '<#>', '(x > 0.7)::int', '- array_fill(0.7, ARRAY[48])::vector');
-- 16 bits: all numbers; beyond their range; below it
SELECT * FROM compare('vector_l2_ops', '<->', 'round(x) / 4', '');
SELECT * FROM compare('vector_l2_ops', '<->', 'round(x) / 4', '* array_fill(1e7, ARRAY[48])::vector');
SELECT * FROM compare('vector_l2_ops', '<->', 'round(x) / 4', '* array_fill(1e-9, ARRAY[48])::vector');

-- where rounding moves the nearest rows out of a search's reach, a build keeps rows exactly:
-- here by inner products, to which 416 equal numbers add the same rounding 416 times
SELECT setseed(.3);
CREATE TABLE coarse AS SELECT (SELECT array_agg(CASE WHEN j <= 416 THEN 5 ELSE random() * 4 - 2 + i * 0 END ORDER BY j)
	FROM generate_series(1, 420) j)::vector(420) AS v FROM generate_series(1, 2500) i;
CREATE INDEX coarse_ip ON coarse USING grnnd (v vector_ip_ops);
SELECT layout, advice FROM grnnd_stats('coarse_ip');
SELECT recall > .95 AS found FROM grnnd_recall('coarse_ip', 10, 100, 100);
-- differences have little of it, so by Euclidean distance they stay rounded
CREATE INDEX coarse_l2 ON coarse USING grnnd (v vector_l2_ops);
SELECT layout, advice FROM grnnd_stats('coarse_l2');
SELECT recall > .95 AS found FROM grnnd_recall('coarse_l2', 10, 100, 100);
-- of few rows, too
CREATE TABLE small AS SELECT * FROM coarse LIMIT 800;
CREATE INDEX small_ip ON small USING grnnd (v vector_ip_ops);
SELECT layout, advice FROM grnnd_stats('small_ip');
SELECT recall > .95 AS found FROM grnnd_recall('small_ip', 10, 100, 100);

DROP SCHEMA test_rounded CASCADE;
