-- A scan knows the LIMIT above it: one search that is wide enough, not many that are too narrow.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS grnnd CASCADE;
CREATE SCHEMA test_limit;
SET search_path = test_limit, public;
SET grnnd.build_device = cpu;
SET max_parallel_workers_per_gather = 0;
SET jit = off;
\getenv dir PG_ABS_SRCDIR
\set file :dir '/data/glosses.i8'
CREATE TABLE t (id int, kind int, e vector(384));
INSERT INTO t SELECT id, id % 4, (SELECT array_agg((get_byte(b, j) # 128) - 128 ORDER BY j) FROM generate_series(0, 383) j)::vector
	FROM generate_series(1, 4000) id, pg_read_binary_file(:'file', id * 384, 384) b;
CREATE INDEX ON t USING grnnd (e);
VACUUM ANALYZE t;
SELECT e AS q FROM t WHERE id = 77 \gset
SET enable_seqscan = off;

-- Of a query: rows, and pages of index and table, of which each row takes one.
CREATE FUNCTION costs(query text, ef int DEFAULT 40, OUT rows int, OUT pages int) LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	PERFORM set_config('grnnd.ef_search', ef::text, true);
	-- the first time reads the description of the index
	EXECUTE query;
	EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, FORMAT json, COSTS off, TIMING off, SUMMARY off) ' || query INTO plan;
	IF plan::text !~ 'Index Scan' THEN
		RAISE EXCEPTION 'no index scan: %', plan;
	END IF;
	rows := (plan -> 0 -> 'Plan' ->> 'Actual Rows')::float8;
	pages := (plan -> 0 -> 'Plan' ->> 'Shared Hit Blocks')::int + (plan -> 0 -> 'Plan' ->> 'Shared Read Blocks')::int;
END $$;

-- twice as many nodes as rows, whatever ef is
SELECT format('SELECT id FROM t ORDER BY e <-> %L', :'q') AS nearest \gset
SELECT ef, k, rows, pages <= greatest(2.2 * k, 1.2 * ef) + k + 20 AS few
	FROM unnest('{20,40,100}'::int[]) ef, unnest('{1,10,100,200,700}'::int[]) k,
	costs(:'nearest' || ' LIMIT ' || k, ef) ORDER BY ef, k;
-- wherever LIMIT and OFFSET may stand
SELECT replace(query, :'q', 'q') AS query, rows, pages <= 320 AS few FROM (VALUES
	(:'nearest' || ' OFFSET 90 LIMIT 10'), (:'nearest' || ' FETCH FIRST (50 + 50) ROWS ONLY'),
	('SELECT * FROM (' || :'nearest' || ' LIMIT (SELECT 100)) x'), ('SELECT * FROM (' || :'nearest' || ' OFFSET 0) x LIMIT 100'),
	('SELECT id + 1 FROM (' || :'nearest' || ' LIMIT 100) x')) v (query), costs(query);
-- locks read the rows' pages twice more
SELECT rows, pages <= 540 AS few FROM costs(:'nearest' || ' LIMIT 100 FOR UPDATE');
-- not through a node that may ask for any number of rows
SELECT rows, pages <= 320 AS few FROM costs('SELECT row_number() OVER () FROM (' || :'nearest' || ' OFFSET 0) x LIMIT 100');
-- a wide search is of no use where a greatest distance ends the scan
SELECT rows, pages < 100 AS few FROM costs(format('SELECT id FROM t WHERE e <-> %1$L < 1 ORDER BY e <-> %1$L LIMIT 200', :'q'));
-- a filter: as many at least
SELECT rows FROM costs(format('SELECT id FROM t WHERE kind = 1 ORDER BY e <-> %L LIMIT 50', :'q'));
-- one search wide enough for what passes by the statistics, which know nothing of the second expression
SELECT count(*) FROM (SELECT FROM t WHERE kind = 1 ORDER BY e <-> :'q' LIMIT 20) x;
SELECT records_visited AS wide FROM grnnd_last_scan() \gset
SELECT count(*) FROM (SELECT FROM t WHERE kind + 0 = 1 ORDER BY e <-> :'q' LIMIT 20) x;
SELECT :wide < 0.8 * records_visited AS fewer FROM grnnd_last_scan();
-- limits of several executions at once, some of them not the first of their scans
SELECT k, (SELECT count(*) FROM (SELECT id FROM t ORDER BY e <-> o.e LIMIT k) x) FROM
	(SELECT e, (ARRAY[3, 150, NULL, 0, 700])[id] AS k FROM t WHERE id <= 5 ORDER BY id) o;
-- ef_search is the limit where the user wants it so, and so is max_scan_tuples
SET grnnd.iterative_scan = off;
SELECT rows, pages FROM costs(:'nearest' || ' LIMIT 100') WHERE pages > 180;
RESET grnnd.iterative_scan;
SET grnnd.max_scan_tuples = 60;
SELECT rows < 100 AS ended, pages < 150 AS few FROM costs(:'nearest' || ' LIMIT 100');
RESET grnnd.max_scan_tuples;
-- a plan that is kept, with other limits
PREPARE nearest (int) AS SELECT count(*) FROM (SELECT id FROM t ORDER BY e <-> (SELECT e FROM t WHERE id = 5) LIMIT $1) x;
SET plan_cache_mode = force_generic_plan;
EXECUTE nearest (5);
EXECUTE nearest (300);
EXECUTE nearest (NULL);
-- the planner knows it, too: not a batch for each few of 100 rows
CREATE TABLE signs AS SELECT id, binary_quantize(e)::bit(384) AS b FROM t WHERE id <= 2000;
CREATE INDEX ON signs USING grnnd (b);
ANALYZE signs;
RESET enable_seqscan;
\getenv dir PG_ABS_SRCDIR
\set file :dir '/lib/plan.sql'
\set ECHO none
\i :file
\set ECHO all
SELECT plan('SELECT id FROM signs ORDER BY b <~> (SELECT b FROM signs LIMIT 1) LIMIT 100');
-- rows of few bits are ranked by bounds that are only likely, but not where LIMIT takes all that were found
SELECT setseed(0.5);
CREATE TABLE few AS SELECT g AS id, g % 42 AS k, ARRAY(SELECT (sin(g * (1 + j % 24) * 0.618 + j % 24) + random() * 0.5)::real
	FROM generate_series(1, 640) j)::vector(640) AS v FROM generate_series(1, 2100) g;
CREATE INDEX ON few USING grnnd (v vector_ip_ops, k);
CREATE FUNCTION disordered(q vector, OUT rows int, OUT disordered int) LANGUAGE plpgsql AS $$
DECLARE
	got float8;
	last float8 := '-infinity';
BEGIN
	rows := 0; disordered := 0;
	FOR got IN EXECUTE 'SELECT v <#> $1 FROM few WHERE k = 7 ORDER BY v <#> $1 LIMIT 50' USING q LOOP
		rows := rows + 1;
		disordered := disordered + (got < last - 1e-5)::int;
		last := got;
	END LOOP;
END $$;
SET enable_seqscan = off;
SELECT sum(rows) AS rows, sum(disordered) AS disordered FROM (SELECT (disordered(v)).* FROM few WHERE id <= 100) x;
-- and an index that has just been built has nothing due, however many ids its lists take
CREATE INDEX wide ON few USING grnnd (v, k, k, k, k, k, k, k, k);
SELECT state, due FROM grnnd_codes('wide');
DROP SCHEMA test_limit CASCADE;
