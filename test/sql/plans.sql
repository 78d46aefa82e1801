-- The planner takes the index wherever that is faster, of small tables and of TOASTed vectors, too.
-- The tables are a small part of the grid of test/bench/plans, where these choices are timed.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS grnnd CASCADE;
CREATE SCHEMA test_plans;
SET search_path = test_plans, public;
SET grnnd.build_device = cpu;
SET max_parallel_workers_per_gather = 0;

-- n uniform rows of that many dimensions, as every tutorial makes them
CREATE FUNCTION fill(dim int, n int, storage text, more text DEFAULT '') RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	DROP TABLE IF EXISTS t;
	EXECUTE format('CREATE TABLE t (id int, kind int, v vector(%s))', dim);
	EXECUTE format('ALTER TABLE t ALTER v SET STORAGE %s', storage);
	PERFORM setseed(0.5);
	EXECUTE format('INSERT INTO t SELECT i, i %% 1000, ARRAY(SELECT random() FROM generate_series(1, %s) WHERE i > 0)::vector
		FROM generate_series(1, %s) i', dim, n);
	EXECUTE format('CREATE INDEX i ON t USING grnnd (v) %s', more);
	ANALYZE t;
END $$;
CREATE FUNCTION plan(rest text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) SELECT id FROM t ' || replace(rest, '?',
		quote_literal((SELECT v FROM t ORDER BY id LIMIT 1))) LOOP
		IF line ~ 'Scan' THEN
			RETURN substring(line FROM '\w+ Scan.*');
		END IF;
	END LOOP;
END $$;

-- vectors in the TOAST table, beside a table that looks tiny
SELECT fill(1536, 2000, 'external');
SELECT plan('ORDER BY v <-> ? LIMIT 10'), plan('ORDER BY v <-> ? LIMIT 100'), plan('ORDER BY v <-> ?');
-- a filter that leaves few vectors to read
SELECT plan('WHERE kind < 10 ORDER BY v <-> ? LIMIT 10');
-- a distance counts as a filter that a third of the rows passes
SELECT plan('WHERE v <-> ? < 1 ORDER BY v <-> ? LIMIT 10');
SELECT fill(1536, 2000, 'external', 'WHERE kind < 500');
SELECT plan('WHERE kind < 500 ORDER BY v <-> ? LIMIT 10');
SELECT fill(768, 1000, 'external');
SELECT plan('ORDER BY v <-> ? LIMIT 10'), plan('ORDER BY v <-> ? LIMIT 100');

-- in the table itself, without codes, as where they do not tell rows apart
SELECT fill(384, 3000, 'plain', 'WITH (codes = off)');
SELECT plan('ORDER BY v <-> ? LIMIT 10'), plan('WHERE kind < 10 ORDER BY v <-> ? LIMIT 10');

-- few dimensions: short rows, which are soon read
SELECT fill(3, 10000, 'plain');
SELECT plan('ORDER BY v <-> ? LIMIT 20'), plan('WHERE kind >= 20 ORDER BY v <-> ? LIMIT 20'),
	plan('WHERE kind < 20 ORDER BY v <-> ? LIMIT 20'), plan('WHERE v <-> ? < 1 ORDER BY v <-> ? LIMIT 20');
SELECT fill(64, 200, 'plain');
SELECT plan('ORDER BY v <-> ? LIMIT 10');

DROP SCHEMA test_plans CASCADE;
