-- Searches among the rows of other indexes' bitmaps: random conditions of all kinds of indexes
-- against sequential scans, before and after changes of the table.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS grnnd CASCADE;
RESET client_min_messages;
SELECT setseed(0.25);
CREATE TABLE bm (id int PRIMARY KEY, v vector(8), c int, h int, t tsvector, j jsonb, a int[], r int4range, w int, n text)
	WITH (autovacuum_enabled = off, fillfactor = 80);
INSERT INTO bm
	SELECT i, CASE WHEN i % 97 > 0 THEN (SELECT array_agg(random()) FROM generate_series(1, 8) g WHERE i > 0)::vector END,
		floor(random() * 40), i % 50, to_tsvector('simple', 'w' || i % 30 || ' x' || floor(random() * 8)),
		jsonb_build_object('a', i % 25, 'b', floor(random() * 6)), ARRAY[i % 60, floor(random() * 9) + 100]::int[],
		int4range(i % 700, i % 700 + 20), i, 'row ' || i % 10
	FROM generate_series(1, 4000) i;
-- equal rows share a record and its chain
UPDATE bm SET v = '[.5,.5,.5,.5,.5,.5,.5,.5]' WHERE id BETWEEN 1001 AND 1060;
CREATE INDEX ON bm (c);
CREATE INDEX ON bm USING hash (h);
CREATE INDEX ON bm USING gin (t);
CREATE INDEX ON bm USING gin (j);
CREATE INDEX ON bm USING gin (a);
CREATE INDEX ON bm USING gist (r);
CREATE INDEX ON bm USING brin (w) WITH (pages_per_range = 2);
CREATE INDEX ON bm USING spgist (n);
CREATE INDEX bm_part ON bm (id) WHERE c < 10;
CREATE INDEX bm_v ON bm USING grnnd (v);
ANALYZE bm;

-- a random condition
CREATE FUNCTION bm_atom() RETURNS text LANGUAGE sql VOLATILE AS $$
	SELECT CASE floor(random() * 14)
		WHEN 0 THEN 'c = ' || floor(random() * 42)
		WHEN 1 THEN 'c BETWEEN ' || floor(random() * 20) || ' AND ' || floor(random() * 20 + 15)
		WHEN 2 THEN 'c = ANY (ARRAY[1, ' || floor(random() * 40) || '])'
		WHEN 3 THEN 'h = ' || floor(random() * 52)
		WHEN 4 THEN 't @@ ''w' || floor(random() * 31) || ''''
		WHEN 5 THEN 't @@ ''x' || floor(random() * 8) || ' & !w' || floor(random() * 30) || ''''
		WHEN 6 THEN 'j @> ''{"a": ' || floor(random() * 26) || '}'''
		WHEN 7 THEN 'j @> ''{"b": ' || floor(random() * 6) || '}'''
		WHEN 8 THEN 'a && ARRAY[' || floor(random() * 60) || ', ' || floor(random() * 60) || ']'
		WHEN 9 THEN 'a @> ARRAY[' || floor(random() * 9 + 100) || ']'
		WHEN 10 THEN 'r && int4range(' || floor(random() * 700) || ', 720)'
		WHEN 11 THEN 'w BETWEEN ' || floor(random() * 3000) || ' AND ' || floor(random() * 5000)
		WHEN 12 THEN 'n = ''row ' || floor(random() * 10) || ''''
		ELSE 'id % ' || floor(random() * 3 + 1) || ' = 0' END
$$;
CREATE FUNCTION bm_condition() RETURNS text LANGUAGE sql VOLATILE AS $$
	SELECT CASE floor(random() * 5)
		WHEN 0 THEN bm_atom()
		WHEN 1 THEN bm_atom() || ' AND ' || bm_atom()
		WHEN 2 THEN '(' || bm_atom() || ' OR ' || bm_atom() || ')'
		WHEN 3 THEN '(' || bm_atom() || ' OR ' || bm_atom() || ') AND ' || bm_atom()
		ELSE '(' || bm_atom() || ' AND ' || bm_atom() || ') OR ' || bm_atom() END
$$;
CREATE FUNCTION bm_plan(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	plan text := '';
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS off) ' || query LOOP
		plan := plan || line || E'\n';
	END LOOP;
	RETURN plan;
END $$;

-- Compares `n` random conditions with sequential scans: all rows that pass, and of the ten nearest
-- how many are found.
CREATE FUNCTION bm_try(tab text, n int, OUT missing int, OUT wrong int, OUT unsorted int, OUT short int,
	OUT recall boolean, OUT bitmaps boolean, OUT ways text)
LANGUAGE plpgsql AS $$
DECLARE
	q vector;
	query text;
	cond text;
	near text;
	exact int[];
	found int[];
	k int;
	hits int := 0;
	wanted int := 0;
	planned int := 0;
	way text;
	seen text[] := '{}';
BEGIN
	missing := 0;
	wrong := 0;
	unsorted := 0;
	short := 0;
	FOR i IN 1..n LOOP
		cond := bm_condition();
		SELECT array_agg(random()) INTO q FROM generate_series(1, 8) g WHERE i > 0;
		k := CASE WHEN i % 2 = 0 THEN 10 ELSE 100000 END;
		PERFORM set_config('grnnd.ef_search', (ARRAY['40', '5', '1', '10'])[CASE WHEN k = 10 THEN 1 ELSE i % 4 + 1 END], true);
		PERFORM set_config('grnnd.iterative_scan', CASE WHEN i % 8 < 3 THEN 'relaxed_order' ELSE 'strict_order' END, true);
		query := format('SELECT id FROM %I WHERE (%s) AND v IS NOT NULL ORDER BY v <-> %L LIMIT %s', tab, cond, q, k);
		PERFORM set_config('enable_indexscan', 'off', true), set_config('enable_bitmapscan', 'off', true);
		EXECUTE format('SELECT array_agg(id ORDER BY d) FROM (SELECT id, v <-> %L AS d FROM %I WHERE (%s) AND v IS NOT NULL ORDER BY d LIMIT %s) s',
			q, tab, cond, k) INTO exact;
		PERFORM set_config('enable_indexscan', 'on', true), set_config('enable_bitmapscan', 'on', true),
			set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true);
		EXECUTE 'SELECT array_agg(id) FROM (' || query || ') s' INTO found;
		way := (SELECT method FROM grnnd_last_scan());
		IF bm_plan(query) ~ 'grnnd bitmap' THEN
			planned := planned + 1;
			seen := seen || way;
		END IF;
		PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_sort', 'on', true);
		exact := coalesce(exact, '{}');
		found := coalesce(found, '{}');
		short := short + (cardinality(found) <> cardinality(exact))::int;
		wrong := wrong + (SELECT count(*) - count(DISTINCT f) FROM unnest(found) f);
		EXECUTE format('SELECT count(*) FROM %I WHERE id = ANY ($1) AND NOT coalesce((%s), false)', tab, cond) INTO near USING found;
		wrong := wrong + near::int;
		IF k > 10 THEN
			missing := missing + (SELECT count(*) FROM unnest(exact) e WHERE e <> ALL (found));
		ELSE
			wanted := wanted + cardinality(exact);
			hits := hits + (SELECT count(*) FROM unnest(found) f WHERE f = ANY (exact));
		END IF;
		IF way = 'bitmap' AND q <> '[.5,.5,.5,.5,.5,.5,.5,.5]' THEN
			EXECUTE format('SELECT count(*) FROM (SELECT d < lag(d) OVER (ORDER BY o) AS less FROM unnest($1) WITH ORDINALITY u (id, o) JOIN (SELECT id, v <-> %L AS d FROM %I) t USING (id)) s WHERE less',
				q, tab) INTO near USING found;
			unsorted := unsorted + near::int;
		END IF;
	END LOOP;
	recall := hits >= 0.97 * wanted;
	bitmaps := planned >= 0.5 * n;
	SELECT string_agg(DISTINCT s, '; ' ORDER BY s) INTO ways FROM unnest(seen) s;
END $$;
SELECT * FROM bm_try('bm', 300);
-- updates in the page and out of it, deletes, new rows in slots that a vacuum has freed
UPDATE bm SET w = w + 1 WHERE id % 5 = 0;
UPDATE bm SET c = floor(random() * 40) WHERE id % 7 = 0;
UPDATE bm SET v = (SELECT array_agg(random()) FROM generate_series(1, 8) g WHERE id > 0)::vector WHERE id % 11 = 0;
DELETE FROM bm WHERE id % 6 = 1;
SELECT missing, wrong, unsorted, short, recall FROM bm_try('bm', 100);
VACUUM bm;
INSERT INTO bm
	SELECT i, (SELECT array_agg(random()) FROM generate_series(1, 8) g WHERE i > 0)::vector, floor(random() * 40), i % 50,
		to_tsvector('simple', 'w' || i % 30), jsonb_build_object('a', i % 25), ARRAY[i % 60]::int[],
		int4range(i % 700, i % 700 + 20), i, 'row ' || i % 10
	FROM generate_series(5001, 6000) i;
SELECT missing, wrong, unsorted, short, recall FROM bm_try('bm', 100);
-- lossy bitmaps
SET work_mem = '64kB';
SELECT missing, wrong, unsorted, short, recall FROM bm_try('bm', 100);
RESET work_mem;

-- trigrams, where the server has their extension: conditions that an index answers only roughly
DO $$ BEGIN
	IF EXISTS (SELECT FROM pg_available_extensions WHERE name = 'pg_trgm') THEN
		CREATE EXTENSION pg_trgm;
		CREATE INDEX ON bm USING gin (n gin_trgm_ops);
	END IF;
END $$;
SET enable_sort = off;
SET enable_seqscan = off;
SELECT count(*) > 300 AS many, count(*) FILTER (WHERE n !~ 'w [47]') AS wrong,
	count(*) - (SELECT count(*) FROM bm WHERE n ~ 'w [47]' AND v IS NOT NULL) AS more
	FROM (SELECT n FROM bm WHERE n LIKE '%row 4%' OR n LIKE '%ow 7' ORDER BY v <-> '[0,0,0,0,0,0,0,0]' LIMIT 10000) s;
SELECT bm_plan('SELECT n FROM bm WHERE n LIKE ''%row 4%'' OR n LIKE ''%ow 7'' ORDER BY v <-> ''[0,0,0,0,0,0,0,0]'' LIMIT 10000') ~ 'grnnd bitmap' =
	EXISTS (SELECT FROM pg_extension WHERE extname = 'pg_trgm') AS "a bitmap where there is one";
RESET enable_sort;
RESET enable_seqscan;
SET client_min_messages = warning;
DROP EXTENSION IF EXISTS pg_trgm CASCADE;
RESET client_min_messages;

-- an index with filter columns, rounded rows, no codes
DROP INDEX bm_v;
CREATE INDEX bm_v ON bm USING grnnd (v, c, w);
SELECT missing, wrong, unsorted, short, recall FROM bm_try('bm', 100);
DROP INDEX bm_v;
CREATE INDEX bm_v ON bm USING grnnd (v) WITH (layout = compact);
SELECT missing, wrong, unsorted, short, recall FROM bm_try('bm', 100);
DROP INDEX bm_v;
CREATE INDEX bm_v ON bm USING grnnd (v) WITH (codes = off);
SELECT missing, wrong, unsorted, short FROM bm_try('bm', 100);
DROP INDEX bm_v;
-- a partial index, and an index on an expression
CREATE INDEX bm_v ON bm USING grnnd ((v::halfvec(8)) halfvec_l2_ops) WHERE w > 100;
SET enable_sort = off;
SET enable_seqscan = off;
EXPLAIN (COSTS off) SELECT id FROM bm WHERE w > 100 AND h = 7 ORDER BY v::halfvec(8) <-> '[0,0,0,0,0,0,0,0]' LIMIT 3;
WITH a AS (SELECT id FROM bm WHERE w > 100 AND h = 7 ORDER BY v::halfvec(8) <-> '[0,0,0,0,0,0,0,0]' LIMIT 100),
	b AS (SELECT id FROM bm WHERE w > 100 AND h + 0 = 7 AND v IS NOT NULL)
	SELECT (SELECT count(*) FROM a) = (SELECT count(*) FROM b) AS "same number", (SELECT count(*) FROM a WHERE id NOT IN (SELECT id FROM b)) AS others;
DROP INDEX bm_v;
CREATE INDEX bm_v ON bm USING grnnd (v);

-- parameters, generic plans, cursors, loops that make the bitmap anew
SET plan_cache_mode = force_generic_plan;
PREPARE bm_near (int, vector) AS SELECT h FROM bm WHERE h = $1 ORDER BY v <-> $2 LIMIT 2;
EXPLAIN (COSTS off) EXECUTE bm_near (3, '[0,0,0,0,0,0,0,0]');
EXECUTE bm_near (3, '[0,0,0,0,0,0,0,0]');
EXECUTE bm_near (4, '[0,0,0,0,0,0,0,0]');
EXECUTE bm_near (NULL, '[0,0,0,0,0,0,0,0]');
EXECUTE bm_near (5, NULL);
RESET plan_cache_mode;
EXPLAIN (COSTS off) SELECT x, s.* FROM generate_series(1, 5) x, LATERAL (SELECT id, h FROM bm WHERE h = x ORDER BY v <-> '[0,0,0,0,0,0,0,0]' LIMIT 2) s;
SELECT x, count(*), bool_and(s.h = x) AS "right", bool_and(s.id = (SELECT id FROM bm b WHERE b.h + 0 = x AND b.v IS NOT NULL ORDER BY b.v <-> '[0,0,0,0,0,0,0,0]' LIMIT 1) OR s.o = 2) AS nearest
	FROM generate_series(1, 5) x, LATERAL (SELECT id, h, row_number() OVER () AS o FROM (SELECT id, h FROM bm WHERE h = x ORDER BY v <-> '[0,0,0,0,0,0,0,0]' LIMIT 2) t) s
	GROUP BY x ORDER BY x;
-- only the query changes: the bitmap stays; each scan counts
SELECT grnnd_stat_reset('bm_v');
SELECT count(*), bool_and(h = 9) AS "right" FROM generate_series(1, 5) x, LATERAL (SELECT id, h FROM bm WHERE h = 9 ORDER BY v <-> array_fill(x * 0.1, ARRAY[8])::vector LIMIT 2) s;
SELECT graph_scans, list_scans, bitmap_scans, all_rows_scans FROM grnnd_stat_indexes WHERE relid = 'bm'::regclass AND indexrelname = 'bm_v';
BEGIN;
DECLARE bm_cursor CURSOR FOR SELECT h FROM bm WHERE h = 11 ORDER BY v <-> '[0,0,0,0,0,0,0,0]' LIMIT 50;
FETCH 2 FROM bm_cursor;
DELETE FROM bm WHERE h = 11;
FETCH 2 FROM bm_cursor;
ROLLBACK;

-- plans above the scan: rows to lock, other columns, no columns, a constant condition, OFFSET
EXPLAIN (COSTS off) SELECT id FROM bm WHERE h = 12 ORDER BY v <-> '[0,0,0,0,0,0,0,0]' LIMIT 2 FOR UPDATE;
SELECT count(*) FROM (SELECT id FROM bm WHERE h = 12 ORDER BY v <-> '[0,0,0,0,0,0,0,0]' LIMIT 2 FOR UPDATE) s;
SELECT h, w > 0 AS w, upper(n) AS n FROM bm WHERE h = 12 AND n = 'row 2' ORDER BY v <-> '[0,0,0,0,0,0,0,0]' LIMIT 1;
SELECT count(*) FROM (SELECT FROM bm WHERE h = 12 ORDER BY v <-> '[0,0,0,0,0,0,0,0]' LIMIT 4) s;
SELECT count(*), bool_and(ok) FROM (SELECT tableoid = 'bm'::regclass AND ctid IS NOT NULL AND b.h = 12 AS ok FROM bm b WHERE h = 12 AND current_user IS NOT NULL
	ORDER BY v <-> '[0,0,0,0,0,0,0,0]' LIMIT 4 OFFSET 2) s;
-- the planner knows that no row passes; an index smaller than the table
CREATE TABLE bd (h int, v vector(3)) WITH (fillfactor = 10);
INSERT INTO bd SELECT i % 7, ARRAY[i % 5, 1, 2]::vector FROM generate_series(1, 1000) i;
CREATE INDEX ON bd (h);
CREATE INDEX ON bd USING grnnd (v);
ANALYZE bd;
SELECT count(*) FROM (SELECT FROM bd WHERE h = 1 AND h = 2 ORDER BY v <-> '[0,0,0]' LIMIT 4) s;
SELECT count(*) FROM (SELECT id FROM bm WHERE h = 12 AND v IS NULL ORDER BY v <-> '[0,0,0,0,0,0,0,0]' LIMIT 4) s;
SELECT count(*) FROM (SELECT id FROM bm WHERE h = 12 ORDER BY v <-> NULL LIMIT 4) s;
SET grnnd.enable_bitmap = off;
SELECT bm_plan('SELECT id FROM bm WHERE h = 12 ORDER BY v <-> ''[0,0,0,0,0,0,0,0]'' LIMIT 2') ~ 'grnnd bitmap' AS bitmap;
RESET grnnd.enable_bitmap;
RESET enable_sort;
RESET enable_seqscan;

-- row security, and a condition that may leak
CREATE ROLE bm_user;
GRANT SELECT ON bm TO bm_user;
ALTER TABLE bm ENABLE ROW LEVEL SECURITY;
CREATE POLICY bm_policy ON bm USING (h < 10);
CREATE FUNCTION bm_leak(int) RETURNS boolean LANGUAGE plpgsql COST 0.0001 AS $$ BEGIN RAISE NOTICE 'sees %', $1; RETURN true; END $$;
SET ROLE bm_user;
SET enable_sort = off;
SET enable_seqscan = off;
EXPLAIN (COSTS off) SELECT id FROM bm WHERE n = 'row 3' AND t @@ 'w3' ORDER BY v <-> '[0,0,0,0,0,0,0,0]' LIMIT 2;
SELECT count(*) > 20 AS many, max(h) FROM (SELECT h FROM bm WHERE c IN (1, 2, 3) ORDER BY v <-> '[0,0,0,0,0,0,0,0]' LIMIT 1000) s;
SELECT count(*) FROM (SELECT h FROM bm WHERE n = 'row 3' AND h = 13 AND bm_leak(h) ORDER BY v <-> '[0,0,0,0,0,0,0,0]' LIMIT 3) s;
RESET ROLE;
RESET enable_sort;
RESET enable_seqscan;
ALTER TABLE bm DISABLE ROW LEVEL SECURITY;

-- partitions
CREATE TABLE bp (id int, v vector(3), c int, p int) PARTITION BY LIST (p);
CREATE TABLE bp0 PARTITION OF bp FOR VALUES IN (0);
CREATE TABLE bp1 (c int, p int, id int, v vector(3));
ALTER TABLE bp ATTACH PARTITION bp1 FOR VALUES IN (1);
INSERT INTO bp SELECT i, ARRAY[random(), random(), random()]::vector, i % 40, i % 2 FROM generate_series(1, 3000) i;
CREATE INDEX ON bp USING grnnd (v);
CREATE INDEX ON bp (c);
ANALYZE bp;
SET enable_sort = off;
SET enable_seqscan = off;
EXPLAIN (COSTS off) SELECT id FROM bp WHERE c IN (3, 4) ORDER BY v <-> '[0,0,0]' LIMIT 3;
WITH a AS (SELECT id FROM bp WHERE c IN (3, 4) ORDER BY v <-> '[0,0,0]' LIMIT 7),
	b AS (SELECT id FROM bp WHERE c + 0 IN (3, 4) ORDER BY (v <-> '[0,0,0]') + 0 LIMIT 7)
	SELECT count(*) AS found FROM a JOIN b USING (id);
RESET enable_sort;
RESET enable_seqscan;

-- a parameter of which the planner expects few rows, and many pass: the scan sees the bitmap's size
CREATE TABLE bw AS SELECT i AS id, ARRAY[i % 3] AS a, ARRAY[sin(i), sin(i * 2), sin(i * 3)]::vector(3) AS v FROM generate_series(1, 20000) i;
CREATE INDEX bw_v ON bw USING grnnd (v);
CREATE INDEX ON bw USING gin (a);
VACUUM ANALYZE bw;
SET plan_cache_mode = force_generic_plan;
PREPARE bm_wrong (int[]) AS SELECT id % 3 AS a FROM bw WHERE a && $1 ORDER BY v <-> '[0,0,0]' LIMIT 2;
EXPLAIN (COSTS off) EXECUTE bm_wrong ('{1}');
EXECUTE bm_wrong ('{1}');
SELECT index, method FROM grnnd_last_scan();
RESET plan_cache_mode;

DROP TABLE bd, bm, bp, bw;
DROP ROLE bm_user;
DROP FUNCTION bm_atom, bm_condition, bm_plan, bm_try, bm_leak;
