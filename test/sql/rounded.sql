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
SELECT stored_as, advice FROM grnnd_stats('coarse_ip');
SELECT recall > .95 AS found FROM grnnd_recall('coarse_ip', 10, 100, 100);
-- differences have little of it, so by Euclidean distance they stay rounded
CREATE INDEX coarse_l2 ON coarse USING grnnd (v vector_l2_ops);
SELECT stored_as, advice FROM grnnd_stats('coarse_l2');
SELECT recall > .95 AS found FROM grnnd_recall('coarse_l2', 10, 100, 100);
-- of few rows, too
CREATE TABLE small AS SELECT * FROM coarse LIMIT 800;
CREATE INDEX small_ip ON small USING grnnd (v vector_ip_ops);
SELECT stored_as, advice FROM grnnd_stats('small_ip');
SELECT recall > .95 AS found FROM grnnd_recall('small_ip', 10, 100, 100);
-- 4 bits of 700 numbers, of which one is large in half of the rows: 8 bits would hide them as well
CREATE TABLE halves AS SELECT (SELECT array_agg(CASE WHEN j = 1 THEN i % 2 * 10000 ELSE random() * 0.1 END ORDER BY j)
	FROM generate_series(1, 700) j)::vector(700) AS v FROM generate_series(1, 1500) i;
CREATE INDEX halves_idx ON halves USING grnnd (v vector_l2_ops);
SELECT stored_as, advice FROM grnnd_stats('halves_idx');
SELECT recall > .9 AS found FROM grnnd_recall('halves_idx', 10, 100, 100);
-- an eighth of the rows alone, which come in turn
CREATE TABLE eighth AS SELECT i, (SELECT array_agg(CASE WHEN j > 1 THEN random() * 0.1 WHEN i % 8 = 0 THEN 10000 ELSE 0 END ORDER BY j)
	FROM generate_series(1, 64) j)::vector(64) AS v FROM generate_series(1, 6000) i;
CREATE INDEX eighth_idx ON eighth USING grnnd (v vector_l2_ops);
SELECT stored_as, advice FROM grnnd_stats('eighth_idx');
SELECT recall > .95 AS found FROM grnnd_recall('eighth_idx', 10, 100, 100);
-- clusters in which codes tell no neighbors apart: bytes would keep nine of ten nearest rows within reach
CREATE TABLE told AS SELECT (SELECT array_agg(3 * (hashint4(i % 30 * 128 + j)::float8 / 2e9) + (random() - 0.5) * 0.035 ORDER BY j)
	FROM generate_series(1, 128) j)::vector(128) AS v FROM generate_series(1, 6000) i;
CREATE INDEX told_idx ON told USING grnnd (v vector_l2_ops);
SELECT stored_as, advice, codes FROM grnnd_stats('told_idx');
SELECT recall > .99 AS found FROM grnnd_recall('told_idx', 10, 40, 100);
-- codes tell no neighbors of uniform rows of many dimensions apart either, but bytes do
CREATE TABLE many AS SELECT (SELECT array_agg(random()) FROM generate_series(1, 384 + 0 * i))::vector(384) AS v FROM generate_series(1, 2100) i;
CREATE INDEX many_idx ON many USING grnnd (v vector_l2_ops);
-- records without codes have room for more edges
SELECT stored_as, advice, codes, cardinality(degree_histogram) - 1 AS degree FROM grnnd_stats('many_idx');
-- tight clusters of rows that memory is not going to hold: there is no graph yet by which to see it
CREATE TABLE tight AS SELECT (SELECT array_agg(hashint4(i % 100 * 24 + j)::float8 / 2e9 + (random() - 0.5) / 200 ORDER BY j)
	FROM generate_series(1, 24) j)::vector(24) AS v FROM generate_series(1, 12000) i;
SET maintenance_work_mem = '1MB';
SET grnnd.build_memory_limit = '1MB';
CREATE INDEX tight_idx ON tight USING grnnd (v vector_l2_ops);
SELECT stored_as, advice FROM grnnd_stats('tight_idx');
SELECT recall > .95 AS found FROM grnnd_recall('tight_idx', 10, 100, 100);
-- and of those that lie apart
CREATE TABLE apart AS SELECT (SELECT array_agg(random() + i * 0 ORDER BY j) FROM generate_series(1, 24) j)::vector(24) AS v
	FROM generate_series(1, 12000) i;
CREATE INDEX apart_idx ON apart USING grnnd (v vector_l2_ops);
SELECT stored_as, advice FROM grnnd_stats('apart_idx');
RESET maintenance_work_mem;
RESET grnnd.build_memory_limit;
-- short rows beside long ones: a center would be longer than they are
CREATE TABLE lengths AS SELECT (SELECT array_agg((ARRAY[1, 100, 10000])[1 + i % 3] * (hashint4(i * 768 + j)::float8 / 2e9) ORDER BY j)
	FROM generate_series(1, 768) j)::vector(768) AS v FROM generate_series(0, 1499) i;
CREATE INDEX lengths_idx ON lengths USING grnnd (v vector_l2_ops) WITH (layout = compact);
SELECT recall > .45 AS found FROM grnnd_recall('lengths_idx', 10, 40, 200);

DROP SCHEMA test_rounded CASCADE;
