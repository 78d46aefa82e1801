-- The planner's choice where an index has filter columns.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS grnnd CASCADE;
CREATE SCHEMA test_cost_filters;
SET search_path = test_cost_filters, public;
SET grnnd.build_device = cpu;
SET max_parallel_workers_per_gather = 0;

CREATE TABLE t (id int PRIMARY KEY, kind int, tenth int, flag bool, e vector(32));
INSERT INTO t SELECT i, i * 7919 % 1000, i * 31 % 10, i % 3 = 0,
	(SELECT array_agg(sin(i * (0.37 + 0.011 * j)) + 0.6 * sin(i * 1.7 / (j % 8 + 1)) + 0.3 * sin(i * 0.003 * j) ORDER BY j)
		FROM generate_series(1, 32) j)::vector FROM generate_series(1, 10000) i;
CREATE INDEX t_e ON t USING grnnd (e, kind, tenth, flag);
CREATE INDEX t_kind ON t (kind);
CREATE INDEX t_tenth ON t (tenth);
VACUUM ANALYZE t;
SELECT state FROM grnnd_codes('t_e');

\getenv dir PG_ABS_SRCDIR
\set file :dir '/lib/plan.sql'
\set ECHO none
\i :file
\set ECHO all
CREATE FUNCTION filtered(condition text, rows int) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(p, '; ') FROM plan('SELECT id FROM t WHERE ' || condition ||
		' ORDER BY e <-> ''[1' || repeat(',1', 31) || ']'' LIMIT ' || rows) p $$;

-- few rows: the list of a value, or signatures, whatever share passes
SELECT condition, filtered(condition, 10)
	FROM unnest(ARRAY['kind = 5', 'tenth = 3', 'tenth = 3 AND kind < 100', 'kind < 300', 'kind IN (4, 5, 6, 7)', 'flag', 'NOT flag',
		'kind IS NULL', 'kind = (SELECT 5)']) AS condition;
-- many: where more of them are wanted than the search is good for, all that pass are sorted
SELECT condition, filtered(condition, 5000)
	FROM unnest(ARRAY['tenth < 8', 'kind < 300', 'flag']) AS condition;
-- a condition that the index does not look at is a filter of any plan
SELECT filtered('kind % 1000 = 5', 10), filtered('id = 7', 10);
-- what the index cannot do: rows without an order, and rows that it has not
SELECT plan('SELECT id FROM t WHERE flag');
SELECT filtered('e IS NULL', 10), filtered('e IS NOT NULL AND kind = 5', 10);
SELECT plan('SELECT a.id FROM t a JOIN t b ON a.kind = b.id WHERE b.id < 3 ORDER BY b.id LIMIT 10');
-- the inner side of a join, a search for each outer row
SELECT plan('SELECT b.id, a.id FROM t b, LATERAL (SELECT id FROM t WHERE kind = b.kind ORDER BY e <-> b.e LIMIT 3) a WHERE b.id < 5');
-- the estimate of rows is the condition's
CREATE FUNCTION expected(query text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO plan;
	RETURN plan #>> '{0,Plan,Plans,0,Plan Rows}';
END $$;
SELECT expected('SELECT id FROM t WHERE tenth = 3 ORDER BY e <-> $$[1' || repeat(',1', 31) || ']$$ LIMIT 10')
	BETWEEN 800 AND 1200 AS a_tenth;
-- a search is widened for LIMIT with conditions too, so 100 rows cost less than 6 times as much as 10
CREATE FUNCTION limit_cost(condition text, rows int) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT json) SELECT id FROM t WHERE ' || condition ||
		' ORDER BY e <-> ''[1' || repeat(',1', 31) || ']'' LIMIT ' || rows INTO plan;
	RETURN plan #>> '{0,Plan,Total Cost}';
END $$;
SELECT condition, limit_cost(condition, 100) < 6 * limit_cost(condition, 10) AS wide
	FROM unnest(ARRAY['tenth < 8', 'flag', 'tenth < 8 AND id <> 7']) AS condition;

DROP SCHEMA test_cost_filters CASCADE;
