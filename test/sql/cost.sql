-- The planner's choice on each side of every crossover.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS grnnd CASCADE;
CREATE SCHEMA test_cost;
SET search_path = test_cost, public;
SET grnnd.build_device = cpu;
SET max_parallel_workers_per_gather = 0;

CREATE TABLE t (id int PRIMARY KEY, kind int, e vector(64));
INSERT INTO t SELECT i, i % 1000, (SELECT array_agg(((i::bigint * j * 7919 + (i # j) * 104729) % 1009)::int ORDER BY j)
	FROM generate_series(1, 64) j)::vector FROM generate_series(1, 10000) i;
CREATE INDEX t_e ON t USING grnnd (e);
CREATE INDEX t_kind ON t (kind);
ANALYZE t;

\getenv dir PG_ABS_SRCDIR
\set file :dir '/lib/plan.sql'
\set ECHO none
\i :file
\set ECHO all

-- a few of many rows: the index
SELECT plan('SELECT id FROM t ORDER BY e <-> $$[1' || repeat(',1', 63) || ']$$ LIMIT 10');
SELECT plan('SELECT id FROM t ORDER BY e <-> $$[1' || repeat(',1', 63) || ']$$ LIMIT 100');
-- most of them: all, sorted
SELECT plan('SELECT id FROM t ORDER BY e <-> $$[1' || repeat(',1', 63) || ']$$ LIMIT 5000');
SELECT plan('SELECT id FROM t ORDER BY e <-> $$[1' || repeat(',1', 63) || ']$$');
-- a filter that keeps half, or one in a thousand with another index to find them
SELECT plan('SELECT id FROM t WHERE kind < 500 ORDER BY e <-> $$[1' || repeat(',1', 63) || ']$$ LIMIT 10');
SELECT plan('SELECT id FROM t WHERE kind = 5 ORDER BY e <-> $$[1' || repeat(',1', 63) || ']$$ LIMIT 10');
SELECT plan('SELECT id FROM t WHERE id = 5 ORDER BY e <-> $$[1' || repeat(',1', 63) || ']$$ LIMIT 10');
-- between them the share that the filter keeps decides
SELECT plan('SELECT id FROM t WHERE kind < 300 ORDER BY e <-> $$[1' || repeat(',1', 63) || ']$$ LIMIT 10');
SELECT plan('SELECT id FROM t WHERE kind < 5 ORDER BY e <-> $$[1' || repeat(',1', 63) || ']$$ LIMIT 10');
-- farthest first is not its order
SELECT plan('SELECT id FROM t ORDER BY e <-> $$[1' || repeat(',1', 63) || ']$$ DESC LIMIT 10');
-- the same without that index: the scan would visit nearly everything
SELECT plan('SELECT id FROM t WHERE kind + 0 = 5 ORDER BY e <-> $$[1' || repeat(',1', 63) || ']$$ LIMIT 100');
-- where scans end early, plans that do not are preferred no less
SET grnnd.iterative_scan = off;
SELECT plan('SELECT id FROM t ORDER BY e <-> $$[1' || repeat(',1', 63) || ']$$ LIMIT 10');
SELECT plan('SELECT id FROM t WHERE kind = 5 ORDER BY e <-> $$[1' || repeat(',1', 63) || ']$$ LIMIT 10');
RESET grnnd.iterative_scan;
-- a search of thousands of candidates costs more than it saves
SET grnnd.ef_search = 10000;
SELECT plan('SELECT id FROM t ORDER BY e <-> $$[1' || repeat(',1', 63) || ']$$ LIMIT 10');
RESET grnnd.ef_search;
-- where all rows are wanted only exact plans are an answer, however cheap the index's pages
SET seq_page_cost = 1000;
SET random_page_cost = 0;
SELECT plan('SELECT id FROM t ORDER BY e <-> $$[1' || repeat(',1', 63) || ']$$');
SELECT plan('SELECT id FROM t ORDER BY e <-> $$[1' || repeat(',1', 63) || ']$$ LIMIT 10');
SELECT plan('SELECT id FROM (SELECT id, e FROM t ORDER BY e <-> $$[1' || repeat(',1', 63) || ']$$) x LIMIT 10');
RESET seq_page_cost;
RESET random_page_cost;
-- repeated in a join, pages stay in the cache
SELECT plan('SELECT * FROM generate_series(1, 100) n, LATERAL (SELECT id FROM t ORDER BY e <-> (SELECT e FROM t q WHERE id = n) LIMIT 5) x');
SELECT plan('SELECT * FROM t a, LATERAL (SELECT id FROM t b ORDER BY b.e <-> a.e LIMIT 5) x');

-- plans without a distance to sort by never use it
SELECT plan('SELECT count(*) FROM t');
SELECT plan('SELECT e FROM t');
SELECT plan('SELECT e FROM t WHERE e = $$[1' || repeat(',1', 63) || ']$$');
SELECT plan('SELECT id FROM t WHERE e <-> $$[1' || repeat(',1', 63) || ']$$ < 3');
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT plan('SELECT count(*) FROM t WHERE e IS NOT NULL') !~ 't_e' AS other;
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SELECT bool_and(p !~ 't_e') AS other FROM plan('SELECT count(*) FROM t') p;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;
SET max_parallel_workers_per_gather = 0;
RESET enable_seqscan;
RESET enable_bitmapscan;

-- partitions are merged, each in its index's order
CREATE TABLE parts (id int, e vector(64)) PARTITION BY RANGE (id);
CREATE TABLE part1 PARTITION OF parts FOR VALUES FROM (0) TO (5001);
CREATE TABLE part2 PARTITION OF parts FOR VALUES FROM (5001) TO (10001);
INSERT INTO parts SELECT id, e FROM t;
CREATE INDEX ON parts USING grnnd (e);
ANALYZE parts;
SELECT plan('SELECT id FROM parts ORDER BY e <-> $$[1' || repeat(',1', 63) || ']$$ LIMIT 10');

-- a partial index serves its own rows
DROP INDEX t_e;
CREATE INDEX t_part ON t USING grnnd (e) WHERE kind < 500;
ANALYZE t;
SELECT plan('SELECT id FROM t WHERE kind < 500 ORDER BY e <-> $$[1' || repeat(',1', 63) || ']$$ LIMIT 10');
SELECT plan('SELECT id FROM t WHERE kind < 501 ORDER BY e <-> $$[1' || repeat(',1', 63) || ']$$ LIMIT 10');
SELECT plan('SELECT count(e) FROM t WHERE kind < 500');

-- a small table is read whole
CREATE TABLE small AS SELECT * FROM t LIMIT 100;
CREATE INDEX ON small USING grnnd (e);
ANALYZE small;
SELECT plan('SELECT id FROM small ORDER BY e <-> $$[1' || repeat(',1', 63) || ']$$ LIMIT 10');
CREATE TABLE empty (id int, e vector(64));
CREATE INDEX ON empty USING grnnd (e);
ANALYZE empty;
SELECT count(*) FROM empty;

-- estimates: rows come at a price each, and the first after one search
CREATE FUNCTION cost(query text, OUT startup float8, OUT total float8) LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO plan;
	startup := plan #>> '{0,Plan,Startup Cost}';
	total := plan #>> '{0,Plan,Total Cost}';
END $$;
SET enable_seqscan = off;
SET enable_sort = off;
SET grnnd.enable_bitmap = off;
SELECT a.startup > 0 AS startup, b.startup > a.startup AS more_for_ef, a.total > 10 * a.startup AS rising
FROM cost('SELECT id FROM t WHERE kind < 500 ORDER BY e <-> $$[1' || repeat(',1', 63) || ']$$ LIMIT 5000') a,
	(SELECT set_config('grnnd.ef_search', '400', true)) s,
	LATERAL cost('SELECT id FROM t WHERE kind < 500 ORDER BY e <-> $$[1' || repeat(',1', 63) || ']$$ LIMIT 5000' || left(set_config, 0)) b;
RESET grnnd.enable_bitmap;

-- rows that a scan reads for their distances are paid for, most where they are in a TOAST table
CREATE TABLE long (id int, e vector(600));
ALTER TABLE long ALTER e SET STORAGE external;
INSERT INTO long SELECT i, (SELECT array_agg(((i::bigint * j * 7919 + (i # j) * 104729) % 1009) / 7.0 ORDER BY j)
	FROM generate_series(1, 600) j)::vector FROM generate_series(1, 300) i;
CREATE INDEX long_idx ON long USING grnnd (e);
ANALYZE long;
CREATE FUNCTION price(k int) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT JSON) SELECT id FROM long ORDER BY e <-> (SELECT e FROM long LIMIT 1) LIMIT ' || k INTO plan;
	RETURN plan -> 0 -> 'Plan' ->> 'Total Cost';
END $$;
SET enable_seqscan = off;
SET enable_sort = off;
SELECT price(20) - price(10) AS rounded \gset
DROP INDEX long_idx;
CREATE INDEX long_idx ON long USING grnnd (e) WITH (layout = exact);
SELECT price(20) - price(10) AS exact \gset
SELECT :rounded > 1.05 * :exact AS paid;
RESET enable_seqscan;
RESET enable_sort;

DROP SCHEMA test_cost CASCADE;
