-- What a backend keeps of the indexes that it has met: little at planning, and never more
-- than its budget, however many partitions a query scans.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS grnnd CASCADE;
CREATE SCHEMA test_cache;
SET search_path = test_cache, public;
SET grnnd.build_device = cpu;
SET max_parallel_maintenance_workers = 0;

CREATE TABLE t (part int, id int, v vector(128)) PARTITION BY LIST (part);
SELECT format('CREATE TABLE t%s PARTITION OF t FOR VALUES IN (%s)', i, i)
FROM generate_series(1, 24) i \gexec
SELECT setseed(0.5);
INSERT INTO t SELECT i % 24 + 1, i, array(SELECT random() + 0 * i FROM generate_series(1, 128))::vector
FROM generate_series(1, 24 * 600) i;
CREATE INDEX t_v ON t USING grnnd (v) WITH (degree = 16);
SET enable_seqscan = off;
SET enable_sort = off;
SELECT v AS q FROM t WHERE id = 777 \gset
SELECT array_agg(id) AS expected FROM (SELECT id FROM t ORDER BY v <-> :'q' LIMIT 10) s \gset

-- a new session; all codecs together are beyond the budget, 8 times work_mem
\c
SET search_path = test_cache, public;
SET work_mem = '64kB';
SET enable_seqscan = off;
SET enable_sort = off;
CREATE FUNCTION kept() RETURNS TABLE (descriptions bigint, their_bytes bigint, arrays bigint, array_bytes bigint)
BEGIN ATOMIC
	SELECT count(*) FILTER (WHERE name = 'grnnd index'), sum(total_bytes) FILTER (WHERE name = 'grnnd index'),
		count(*) FILTER (WHERE name = 'grnnd index arrays'), sum(total_bytes) FILTER (WHERE name = 'grnnd index arrays')
	FROM pg_backend_memory_contexts;
END;
EXPLAIN (COSTS OFF, SUMMARY OFF) SELECT id FROM t WHERE part = 1 ORDER BY v <-> :'q' LIMIT 10 \g /dev/null
EXPLAIN (COSTS OFF, SUMMARY OFF) SELECT id FROM t ORDER BY v <-> :'q' LIMIT 10 \g /dev/null
SELECT descriptions, their_bytes <= 24 * 16384 AS small, arrays FROM kept();
BEGIN;
SELECT array_agg(id) = :'expected'::int[] AS right FROM (SELECT id FROM t ORDER BY v <-> :'q' LIMIT 10) s;
SELECT descriptions, arrays BETWEEN 2 AND 23 AS some, array_bytes <= 8 * 65536 + 65536 AS within_budget FROM kept();
-- again, and two scans that take turns
SELECT array_agg(id) = :'expected'::int[] AS right FROM (SELECT id FROM t ORDER BY v <-> :'q' LIMIT 10) s;
DECLARE a CURSOR FOR SELECT id FROM t ORDER BY v <-> :'q';
DECLARE b CURSOR FOR SELECT id FROM t ORDER BY v <-> :'q';
MOVE 5 IN a;
MOVE 5 IN b;
FETCH 1 FROM a \gset a_
FETCH 1 FROM b \gset b_
SELECT :a_id = (:'expected'::int[])[6] AS right, :b_id = (:'expected'::int[])[6] AS right;
INSERT INTO t SELECT part, id + 100000, v FROM t WHERE id <= 240;
COMMIT;
SELECT arrays BETWEEN 2 AND 23 AS some, array_bytes <= 8 * 65536 + 65536 AS within_budget FROM kept();
SELECT count(*) FROM generate_series(1, 24) i, grnnd_check(format('t%s_v_idx', i)::regclass, true);

-- a condition whose function scans other indexes while the query's own scan begins
CREATE FUNCTION beyond(q vector) RETURNS float8 STABLE LANGUAGE plpgsql AS $$
DECLARE
	nearest float8;
BEGIN
	SELECT v <-> q INTO nearest FROM t ORDER BY v <-> q LIMIT 1;
	RETURN nearest + 1000;
END $$;
SELECT array_agg(id) = :'expected'::int[] AS right
FROM (SELECT id FROM t WHERE v <-> :'q' < beyond(:'q') ORDER BY v <-> :'q' LIMIT 10) s;
-- with room for all
RESET work_mem;
SELECT array_agg(id) IS NOT NULL AS found FROM (SELECT id FROM t ORDER BY v <-> :'q' LIMIT 10) s;
SELECT arrays FROM kept();

-- many small partitions: a few kB each while the query runs; within a limit, a megabyte with -DGRNND_TEST_POINTS, they stay after it
CREATE FUNCTION partition(name text, n int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE TABLE %s (part int, id int, v vector(3)) PARTITION BY LIST (part)', name);
	EXECUTE format('CREATE INDEX ON %s USING grnnd (v) WITH (codes = off)', name);
	FOR i IN 1..n LOOP
		EXECUTE format('CREATE TABLE %1$s%2$s PARTITION OF %1$s FOR VALUES IN (%2$s)', name, i);
	END LOOP;
END $$;
SELECT partition('many', 160), partition('more', 140);
INSERT INTO many SELECT i % 160 + 1, i, ARRAY[i, 0, 0]::vector FROM generate_series(1, 900) i;
\c
SET search_path = test_cache, public;
SET enable_seqscan = off;
SET enable_sort = off;
EXPLAIN (COSTS OFF, SUMMARY OFF) SELECT id FROM many ORDER BY v <-> '[450,0,0]' LIMIT 10 \g /dev/null
SELECT descriptions, their_bytes <= 160 * 8192 AS small, arrays FROM kept();
SELECT array_agg(id ORDER BY id) FROM (SELECT id FROM many ORDER BY v <-> '[450,0,0]' LIMIT 9) s;
SELECT descriptions, their_bytes + array_bytes <= 160 * 8192 AS small, arrays FROM kept();
SELECT id FROM t ORDER BY v <-> (SELECT v FROM t WHERE id = 777) LIMIT 1;
-- the next plan reads no metapage again
CREATE FUNCTION planning_blocks(query text, OUT blocks int) LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (BUFFERS, FORMAT json) ' || query INTO plan;
	blocks := (plan -> 0 -> 'Planning' ->> 'Shared Hit Blocks')::int + (plan -> 0 -> 'Planning' ->> 'Shared Read Blocks')::int;
END $$;
SELECT planning_blocks('SELECT id FROM many ORDER BY v <-> $q$[450,0,0]$q$ LIMIT 10');
-- beyond the limit those go that were used longest ago
EXPLAIN (COSTS OFF, SUMMARY OFF) SELECT id FROM more ORDER BY v <-> '[450,0,0]' LIMIT 10 \g /dev/null
SELECT descriptions BETWEEN 100 AND 300 AS most, their_bytes <= 1024 * 1024 + 16384 AS within_limit,
	arrays < descriptions AS arrays_go_as_well FROM kept();
SELECT planning_blocks('SELECT id FROM more ORDER BY v <-> $q$[450,0,0]$q$ LIMIT 10');

-- rows that come to an index without codes, each by a statement, find the description of the row before
CREATE TABLE grown (id int, v vector(3), s sparsevec(9), b bit(16));
CREATE INDEX ON grown USING grnnd (v vector_l2_ops);
CREATE INDEX ON grown USING grnnd (v vector_ip_ops);
CREATE INDEX ON grown USING grnnd (s sparsevec_ip_ops);
CREATE INDEX ON grown USING grnnd (b bit_jaccard_ops);
\c
SET search_path = test_cache, public;
DO $$
BEGIN
	FOR i IN 1..20 LOOP
		INSERT INTO grown VALUES (i, ARRAY[i, 1, 2]::vector, format('{1:%s}/9', i)::sparsevec, i::bit(16));
	END LOOP;
END $$;
SELECT descriptions FROM kept();

-- a fit reads rows by a function that scans other indexes
CREATE FUNCTION asked(v vector) RETURNS vector IMMUTABLE LANGUAGE plpgsql SET search_path = test_cache, public AS $$
BEGIN
	IF current_setting('test_cache.ask', true) = 'on' AND random() < 0.001 THEN
		PERFORM id FROM t ORDER BY t.v <-> asked.v LIMIT 1;
	END IF;
	RETURN v;
END $$;
CREATE TABLE fitted (id int, v vector(128));
SET grnnd.background_fit = off;
SET work_mem = '64kB';
INSERT INTO fitted SELECT id, v FROM t WHERE id <= 100;
CREATE INDEX fitted_v ON fitted USING grnnd ((asked(v)::vector(128))) WITH (layout = compact);
INSERT INTO fitted SELECT id, v FROM t WHERE id BETWEEN 101 AND 1500;
SET test_cache.ask = on;
SELECT grnnd_fit('fitted_v');
SELECT (recall_curve -> -1 ->> 'recall10')::float > 0.5 AS measured FROM grnnd_stats('fitted_v');

SET client_min_messages = warning;
DROP SCHEMA test_cache CASCADE;
