-- Nobody loses a row: not by a cursor without LIMIT, not by groups, not by a filter that
-- keeps few rows; and a limit that the user sets is told where it ends a scan.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS grnnd CASCADE;
CREATE SCHEMA test_cursor;
SET search_path = test_cursor, public;
SET grnnd.build_device = cpu;
\getenv dir PG_ABS_SRCDIR
\set file :dir '/lib/recall.sql'
\set ECHO none
\i :file
\set ECHO all

CREATE TABLE t (id int, kind int, v vector(16));
INSERT INTO t SELECT id, id % 4000, v FROM points(1, 20000, 16, 1);
CREATE INDEX t_idx ON t USING grnnd (v);
ANALYZE t;
SELECT v AS q FROM points(100001, 100001, 16, 1) \gset
SELECT v AS q2 FROM points(100002, 100002, 16, 1) \gset

-- Rows of a cursor, read to its end, how many different, and how many came after a farther one.
CREATE FUNCTION through_cursor(query text, OUT index bool, OUT rows bigint, OUT different bigint,
	OUT disordered bigint) LANGUAGE plpgsql AS $$
DECLARE
	c refcursor;
	line text;
	r record;
	last float8 := '-infinity';
	ids int[];
BEGIN
	rows := 0; disordered := 0; index := false;
	FOR line IN EXECUTE 'EXPLAIN DECLARE c CURSOR FOR ' || query LOOP
		index := index OR line ~ 'Index Scan';
	END LOOP;
	OPEN c FOR EXECUTE query;
	LOOP
		FETCH c INTO r;
		EXIT WHEN NOT FOUND;
		rows := rows + 1;
		ids := ids || r.id;
		disordered := disordered + (r.d < last - 1e-6)::int;
		last := r.d;
	END LOOP;
	different := (SELECT count(DISTINCT i) FROM unnest(ids) i);
END $$;

SELECT format('SELECT id, v <-> %L AS d FROM t ORDER BY v <-> %1$L', :'q') AS all_rows \gset
SET enable_seqscan = off;
SET enable_sort = off;
-- those found too late come last, in their order: one descent at most
SELECT index, rows, different, disordered <= 1 AS ordered FROM through_cursor(:'all_rows');
SET grnnd.iterative_scan = relaxed_order;
SELECT index, rows, different FROM through_cursor(:'all_rows');
RESET grnnd.iterative_scan;
-- in little memory, and with several distances
SET work_mem = '64kB';
SELECT index, rows, different, disordered <= 1 AS ordered FROM through_cursor(:'all_rows');
SELECT index, rows, different FROM through_cursor(:'all_rows' || format(', v <-> %L', :'q2'));
RESET work_mem;
-- scans that are left in the middle, and begun again
SELECT count(*) FROM generate_series(1, 3) n,
	LATERAL (SELECT id FROM t ORDER BY v <-> (SELECT v FROM t x WHERE x.id = n) LIMIT 4000) y;
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM t ORDER BY v <-> :'q';
MOVE 15000 IN c;
CLOSE c;
DECLARE c SCROLL CURSOR FOR SELECT id FROM t ORDER BY v <-> :'q';
MOVE ALL IN c;
MOVE BACKWARD ALL IN c;
CLOSE c;
DECLARE c CURSOR WITH HOLD FOR SELECT id FROM t ORDER BY v <-> :'q';
COMMIT;
MOVE ALL IN c;
CLOSE c;
-- a filter that keeps few rows
SELECT count(*) FROM (SELECT id FROM t WHERE kind = 17 ORDER BY v <-> :'q' LIMIT 10) x;
SELECT count(*) FROM (SELECT id FROM t WHERE false = (kind >= 0) ORDER BY v <-> :'q' LIMIT 10) x;
SELECT count(*) FROM (SELECT id FROM t ORDER BY v <-> :'q' LIMIT 10 OFFSET 19995) x;
-- equal rows, without codes, inner product, cosine; bytes that were rounded
CREATE TABLE mixed (id int, v vector(16));
INSERT INTO mixed SELECT id, (SELECT array_agg(round(x * 100) ORDER BY n) FROM unnest(v::float4[]) WITH ORDINALITY u (x, n))::vector
	FROM points(1, 3000, 16, 1);
INSERT INTO mixed SELECT 3000 + i, :'q' FROM generate_series(1, 500) i;
CREATE INDEX mixed_idx ON mixed USING grnnd (v) WITH (codes = off);
INSERT INTO mixed SELECT id + 10000, v FROM points(5001, 7000, 16, 1);
SELECT index, rows, different, disordered <= 1 AS ordered
	FROM through_cursor(format('SELECT id, v <-> %L AS d FROM mixed ORDER BY v <-> %1$L', :'q'));
DROP INDEX mixed_idx;
CREATE INDEX mixed_idx ON mixed USING grnnd (v vector_ip_ops);
SELECT index, rows, different, disordered <= 1 AS ordered
	FROM through_cursor(format('SELECT id, v <#> %L AS d FROM mixed ORDER BY v <#> %1$L', :'q'));
DROP INDEX mixed_idx;
CREATE INDEX mixed_idx ON mixed USING grnnd (v vector_cosine_ops);
SELECT index, rows, different, disordered <= 1 AS ordered
	FROM through_cursor(format('SELECT id, v <=> %L AS d FROM mixed ORDER BY v <=> %1$L', :'q'));

-- where all rows may be wanted, or rows are grouped in their order, the plan is another
RESET enable_seqscan;
RESET enable_sort;
CREATE FUNCTION by_index(query text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
	line text;
	found bool := false;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN ' || query LOOP
		found := found OR line ~ 'using t_idx';
	END LOOP;
	RETURN found;
END $$;
SET random_page_cost = 0;
SET seq_page_cost = 1000;
SELECT by_index(:'all_rows'), by_index(:'all_rows' || ' LIMIT NULL'), by_index(:'all_rows' || ' OFFSET 5'),
	by_index(format('SELECT v <-> %L AS d, count(*) FROM t GROUP BY d ORDER BY d LIMIT 10', :'q')),
	by_index(format('SELECT DISTINCT v <-> %L AS d FROM t ORDER BY d', :'q')),
	by_index(format('SELECT max(id) FROM (%s) x', :'all_rows')),
	by_index(format('WITH x AS MATERIALIZED (%s) SELECT * FROM x LIMIT 10', :'all_rows')),
	by_index('DECLARE c CURSOR FOR ' || :'all_rows');
-- those that end after the nearest rows use it
SELECT by_index(:'all_rows' || ' LIMIT 10'), by_index(format('SELECT * FROM (%s) x LIMIT 10', :'all_rows')),
	by_index(format('SELECT id, rank() OVER (ORDER BY v <-> %L) FROM t ORDER BY v <-> %1$L LIMIT 10', :'q')),
	by_index(format('DECLARE c CURSOR FOR %s LIMIT 10', :'all_rows'));
PREPARE near (vector, int) AS SELECT id FROM t ORDER BY v <-> $1 LIMIT $2;
SET plan_cache_mode = force_generic_plan;
SELECT by_index(format('EXECUTE near (%L, 10)', :'q'));
RESET plan_cache_mode;

-- half of the rows have no vector, so the index lacks them; values that are computed of all rows have them
CREATE TABLE halves (id int, kind int, v vector(16));
INSERT INTO halves SELECT id, id % 2, CASE WHEN id % 2 = 0 THEN v END FROM t WHERE id <= 3000;
CREATE INDEX t_idx_halves ON halves USING grnnd (v);
ANALYZE halves;
SELECT format('v <-> %L', :'q') AS d \gset
-- A query's result, and whether the index is in its plan.
CREATE FUNCTION result(query text, OUT index bool, OUT rows text) LANGUAGE plpgsql AS $$
BEGIN
	index := by_index(query);
	EXECUTE format('SELECT array_agg(x)::text FROM (%s) x', query) INTO rows;
END $$;
CREATE TABLE queries_of_halves (n serial, query text);
INSERT INTO queries_of_halves (query) VALUES
	('SELECT id, count(*) OVER () FROM halves ORDER BY @ LIMIT 5'),
	('SELECT id, sum(id) OVER () FROM halves ORDER BY @ LIMIT 5'),
	('SELECT id, sum(id) OVER (ORDER BY @ ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) FROM halves ORDER BY @ LIMIT 5'),
	('SELECT id, count(*) OVER (ORDER BY @ ROWS BETWEEN CURRENT ROW AND 5000 FOLLOWING) FROM halves ORDER BY @ LIMIT 5'),
	('SELECT id, count(*) OVER (ORDER BY @ GROUPS BETWEEN CURRENT ROW AND 5000 FOLLOWING) FROM halves ORDER BY @ LIMIT 5'),
	('SELECT id, lead(true, 2000, false) OVER (ORDER BY @), lag(true, -2000, false) OVER (ORDER BY @) FROM halves ORDER BY @ LIMIT 5'),
	('SELECT id, last_value(id) OVER (ORDER BY @, id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) FROM halves ORDER BY @ LIMIT 5'),
	('SELECT id, percent_rank() OVER (ORDER BY @) FROM halves ORDER BY @ LIMIT 5'),
	('SELECT id, cume_dist() OVER (ORDER BY @) FROM halves ORDER BY @ LIMIT 5'),
	('SELECT id, ntile(4) OVER (ORDER BY @) FROM halves ORDER BY @ LIMIT 5'),
	('SELECT id, rank() OVER w, count(*) OVER (PARTITION BY id % 3) FROM halves WINDOW w AS (ORDER BY @) ORDER BY @ LIMIT 5'),
	('SELECT id, rank() OVER (ORDER BY @ DESC) FROM halves ORDER BY @ LIMIT 5'),
	('SELECT id, count(*) OVER (ORDER BY kind) FROM halves WHERE kind >= 0 ORDER BY @ LIMIT 5'),
	('SELECT * FROM (SELECT id, count(*) OVER () FROM halves ORDER BY @) x LIMIT 5'),
	('SELECT id, count(*) OVER () FROM (SELECT id FROM halves ORDER BY @) x LIMIT 5'),
	('SELECT id, cume_dist() OVER (ORDER BY d) FROM (SELECT id, @ AS d FROM halves ORDER BY @) x LIMIT 5'),
	('SELECT id, rank() OVER (ORDER BY id) FROM (SELECT id, @ AS d FROM halves ORDER BY @) x LIMIT 5'),
	('SELECT sum(n) FROM (SELECT count(*) OVER () AS n FROM halves ORDER BY @ LIMIT 5) x'),
	('SELECT id FROM (SELECT id, row_number() OVER (ORDER BY @) AS n FROM halves ORDER BY id LIMIT 5) x'),
	('SELECT DISTINCT ON (id) id, row_number() OVER (ORDER BY @) AS n FROM halves ORDER BY id LIMIT 5'),
	('SELECT EXISTS (SELECT FROM halves WHERE kind = 1 ORDER BY @ OFFSET 3) LIMIT 1'),
	-- by the index
	('SELECT id, row_number() OVER (ORDER BY @) FROM halves ORDER BY @ LIMIT 5'),
	('SELECT id, rank() OVER (ORDER BY @), dense_rank() OVER (ORDER BY @) FROM halves ORDER BY @ LIMIT 5'),
	('SELECT id, row_number() OVER (PARTITION BY kind ORDER BY @) FROM halves WHERE kind = 0 ORDER BY @ LIMIT 5'),
	('SELECT id, lead(id) OVER (ORDER BY @), lag(id) OVER (ORDER BY @), sum(id) OVER (ORDER BY @ ROWS 2 PRECEDING) FROM halves ORDER BY @ LIMIT 5'),
	('SELECT id, row_number() OVER () FROM (SELECT id FROM halves ORDER BY @) x LIMIT 5'),
	('SELECT id, rank() OVER (ORDER BY d) FROM (SELECT id, @ AS d FROM halves ORDER BY @) x LIMIT 5'),
	('SELECT count(*) FROM (SELECT id, rank() OVER (ORDER BY @) FROM halves ORDER BY @ LIMIT 5) x'),
	('SELECT DISTINCT @ FROM halves ORDER BY @ LIMIT 5'),
	('SELECT id FROM halves ORDER BY @ FETCH FIRST 5 ROWS WITH TIES');
CREATE TABLE by_index AS SELECT n, r.* FROM queries_of_halves, result(replace(query, '@', :'d')) r;
SET enable_indexscan = off;
SELECT by_index.index, by_index.rows = r.rows AS right, query
FROM queries_of_halves JOIN by_index USING (n), result(replace(query, '@', :'d')) r ORDER BY n;
RESET enable_indexscan;
RESET random_page_cost;
RESET seq_page_cost;
-- nor is it taken where all other plans are disabled
SET enable_seqscan = off;
SET enable_sort = off;
SELECT index FROM result(replace('SELECT id, count(*) OVER () FROM halves ORDER BY @ LIMIT 5', '@', :'d'));
RESET enable_seqscan;
RESET enable_sort;

-- the user's own limits end a scan, and say so once
SET client_min_messages = notice;
SET enable_seqscan = off;
SET grnnd.max_scan_tuples = 2000;
SELECT count(*) BETWEEN 1900 AND 2200 AS stopped FROM (SELECT id FROM t ORDER BY v <-> :'q' LIMIT 20000) x;
SELECT count(*) FROM (SELECT id FROM t ORDER BY v <-> :'q' LIMIT 10) x;
SELECT count(*) BETWEEN 5700 AND 6600 AS stopped FROM generate_series(1, 3) n,
	LATERAL (SELECT id FROM t ORDER BY v <-> (SELECT v FROM t x WHERE x.id = n) LIMIT 20000) y;
SET grnnd.max_scan_tuples = 15000;
SET work_mem = '64kB';
SELECT count(*) < 2000 AS stopped FROM (SELECT id FROM t ORDER BY v <-> :'q' LIMIT 20000) x;
SET grnnd.iterative_scan = off;
SELECT count(*) FROM (SELECT id FROM t ORDER BY v <-> :'q' LIMIT 20000) x;
SET client_min_messages = warning;

DROP SCHEMA test_cursor CASCADE;
