-- Filters inside the search: signatures, the sample and lists, through builds, inserts, updates,
-- deletes and vacuums.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS grnnd CASCADE;
RESET client_min_messages;
SELECT setseed(0.5);
CREATE TABLE fs (id int, v vector(8), c int, t int, w int) WITH (autovacuum_enabled = off);
-- c: half of the rows 0, a fifth 1, and so on; t: the row's own region; w: one value each
INSERT INTO fs
	SELECT i, ARRAY[x, y, random(), random(), random(), random(), random(), random()]::vector,
		CASE WHEN r < 0.5 THEN 0 WHEN r < 0.7 THEN 1 WHEN r < 0.8 THEN 2 WHEN r < 0.83 THEN 3
			WHEN r < 0.84 THEN 4 WHEN r < 0.842 THEN 5 ELSE 100 + i % 400 END,
		floor(x * 10) * 10 + floor(y * 10), i
	FROM (SELECT i, random() * 3 AS x, random() * 3 AS y, random() AS r
		FROM generate_series(1, 12000) i) s;
UPDATE fs SET c = NULL WHERE id % 50 = 0;
CREATE INDEX fs_idx ON fs USING grnnd (v, c, t, w);
ANALYZE fs;
SELECT * FROM grnnd_check('fs_idx', true);

-- the share of the 10 nearest rows that a condition's queries find, and the ways they went
CREATE FUNCTION fs_recall(condition text, n int DEFAULT 20, OUT rows text, OUT good boolean, OUT ways text)
LANGUAGE plpgsql AS $$
DECLARE
	q vector;
	exact int[];
	found int[];
	hits int := 0;
	wanted int := 0;
	text_of text;
	seen text[] := '{}';
BEGIN
	FOR i IN 1..n LOOP
		SELECT ARRAY[(i % 5) * 0.6, (i % 7) * 0.4, 0.5, 0.1 * (i % 10), 0.5, 0.3, 0.6, 0.4]::vector INTO q;
		text_of := format('SELECT array_agg(id) FROM (SELECT id FROM fs WHERE v IS NOT NULL AND %s ORDER BY v <-> %L LIMIT 10) s',
			condition, q);
		SET LOCAL enable_indexscan = off;
		EXECUTE text_of INTO exact;
		SET LOCAL enable_indexscan = on;
		SET LOCAL enable_seqscan = off;
		EXECUTE text_of INTO found;
		SET LOCAL enable_seqscan = on;
		seen := array_append(seen, (grnnd_last_scan()).method);
		wanted := wanted + coalesce(cardinality(exact), 0);
		hits := hits + (SELECT count(*) FROM unnest(found) f WHERE f = ANY (exact));
		IF coalesce(cardinality(found), 0) <> coalesce(cardinality(exact), 0) THEN
			rows := format('%s rows of %s ', coalesce(cardinality(found), 0), coalesce(cardinality(exact), 0));
		END IF;
	END LOOP;
	rows := coalesce(rows, 'all rows');
	good := hits >= 0.9 * wanted;
	SELECT string_agg(DISTINCT s, '; ' ORDER BY s) INTO ways FROM unnest(seen) s;
END $$;
CREATE TABLE fs_conditions (number int, condition text);
INSERT INTO fs_conditions VALUES (1, 'c = 0'), (2, 'c = 1'), (3, 'c = 2'), (4, 'c = 3'), (5, 'c = 4'), (6, 'c = 5'),
	(7, 'c = 107'), (8, 'c IS NULL'), (9, 'c BETWEEN 0 AND 4'), (10, 'c < 100'), (11, 't = 1414'), (12, 't = 0'),
	(13, 'w = 77'), (14, 'w BETWEEN 100 AND 115'), (15, 'c = 0 AND t = 122'), (16, 'c = -5'), (17, 'c IS NOT NULL'),
	(18, 'w < 3000 AND c = 0'), (19, 'w BETWEEN 3000 AND 3250'), (20, 'w >= 11900'), (21, 't >= 2000 AND t < 2020 AND w > 100'),
	(22, 'w < 100 AND c >= 0'), (23, 'c BETWEEN 2 AND 4'),
	(24, 'c IN (3, 4, 5) AND c > 4');
-- (the longest lists have groups in builds for tests alone, which take them by list)
SELECT condition, rows, good, CASE WHEN number IN (9, 10) AND ways IN ('list', 'graph') THEN 'either' ELSE ways END AS ways
FROM fs_conditions, fs_recall(condition) r ORDER BY number;
-- a wider search, of a greater ef_search or LIMIT, takes the list that a narrow one takes
BEGIN;
SET LOCAL enable_seqscan = off;
SELECT count(*) FROM (SELECT id FROM fs WHERE c = 2 ORDER BY v <-> '[1,1,1,1,1,1,1,1]' LIMIT 10) s;
SELECT method FROM grnnd_last_scan();
SELECT count(*) FROM (SELECT id FROM fs WHERE c = 2 ORDER BY v <-> '[1,1,1,1,1,1,1,1]' LIMIT 500) s;
SELECT method FROM grnnd_last_scan();
SET LOCAL grnnd.ef_search = 400;
SELECT count(*) FROM (SELECT id FROM fs WHERE c = 2 ORDER BY v <-> '[1,1,1,1,1,1,1,1]' LIMIT 10) s;
SELECT method FROM grnnd_last_scan();
-- a range that ends before it begins is not sought
PREPARE fs_between(int, int) AS
	SELECT id FROM fs WHERE w BETWEEN $1 AND $2 ORDER BY v <-> '[1,1,1,1,1,1,1,1]' LIMIT 10;
SET LOCAL plan_cache_mode = force_generic_plan;
EXECUTE fs_between(300, 299);
SELECT * FROM grnnd_last_scan();
COMMIT;

-- rows that come one by one, more of a value than its list has room for, and new values
INSERT INTO fs SELECT 20000 + i, ARRAY[random() * 3, random() * 3, random(), random(), random(), random(), random(),
	random()]::vector, CASE WHEN i % 2 = 0 THEN 5 ELSE 7000 + i % 3 END, i % 3, 20000 + i FROM generate_series(1, 1200) i;
SELECT * FROM grnnd_check('fs_idx', true);
SELECT condition, rows, good FROM (VALUES ('c = 5'), ('c = 7000'), ('c = 0'), ('w = 20100'), ('w > 20900')) n(condition), fs_recall(condition) r
	ORDER BY condition;

-- a filter column alone changes: the same vector has rows of several values
UPDATE fs SET c = 8000 + id % 5 WHERE id BETWEEN 100 AND 400;
UPDATE fs SET c = 8000 + (id + 1) % 5 WHERE id BETWEEN 100 AND 300;
UPDATE fs SET c = 8000 + (id + 2) % 5 WHERE id BETWEEN 100 AND 200;
SELECT * FROM grnnd_check('fs_idx', true);
SELECT condition, rows, good FROM (VALUES ('c = 8000'), ('c = 8003'), ('c >= 8000')) n(condition), fs_recall(condition) r
	ORDER BY condition;

-- what dies leaves lists and sample; slots and records of lists are taken again
DELETE FROM fs WHERE c = 5 OR c = 1 OR id % 3 = 0;
VACUUM fs;
SELECT * FROM grnnd_check('fs_idx', true);
SELECT condition, rows, good FROM fs_conditions, fs_recall(condition) r WHERE number IN (1, 2, 4, 6, 7, 8, 17, 19, 20, 21) ORDER BY number;
INSERT INTO fs SELECT 30000 + i, ARRAY[random() * 3, random() * 3, random(), random(), random(), random(), random(),
	random()]::vector, i % 7, i % 3, 30000 + i FROM generate_series(1, 1500) i;
DELETE FROM fs WHERE id % 5 = 0;
VACUUM fs;
SELECT * FROM grnnd_check('fs_idx', true);
SELECT condition, rows, good FROM fs_conditions, fs_recall(condition) r WHERE number IN (1, 2, 4, 6, 7, 8, 17, 19, 20, 21) ORDER BY number;

-- all rows of a filter by a cursor, and in relaxed order
BEGIN;
SET LOCAL enable_seqscan = off;
SELECT count(*) = (SELECT count(*) FROM fs WHERE c = 3) AS all_rows FROM
	(SELECT id FROM fs WHERE c = 3 ORDER BY v <-> '[1,1,1,1,1,1,1,1]' LIMIT 100000) s;
SET LOCAL grnnd.iterative_scan = relaxed_order;
SELECT count(*) = (SELECT count(*) FROM fs WHERE c = 0) AS all_rows FROM
	(SELECT id FROM fs WHERE c = 0 ORDER BY v <-> '[1,1,1,1,1,1,1,1]' LIMIT 100000) s;
SET LOCAL grnnd.iterative_scan = off;
SET LOCAL grnnd.ef_search = 40;
SELECT count(*) BETWEEN 10 AND 60 AS one_search FROM
	(SELECT id FROM fs WHERE c = 0 ORDER BY v <-> '[1,1,1,1,1,1,1,1]' LIMIT 100000) s;
COMMIT;

-- a search of the graph that has nothing left to expand may have missed rows: without a limit all are read, with one
-- the scan says so
BEGIN;
SET LOCAL enable_seqscan = off;
SELECT array_agg(id) AS some FROM fs WHERE id % 8 = 1 \gset
SELECT count(*) = cardinality(:'some'::int[]) AS all_rows FROM
	(SELECT id FROM fs WHERE w = ANY (:'some') ORDER BY v <-> '[1,1,1,1,1,1,1,1]' LIMIT 100000) s;
SELECT (grnnd_last_scan()).method;
SET LOCAL grnnd.max_scan_tuples = 11000;
SELECT count(*) > 0.98 * cardinality(:'some'::int[]) AS most_rows FROM
	(SELECT id FROM fs WHERE w = ANY (:'some') ORDER BY v <-> '[1,1,1,1,1,1,1,1]' LIMIT 100000) s;
SELECT method, records_visited < 11000 AS ended_before FROM grnnd_last_scan();
COMMIT;

-- ranges of other types, by lists: all rows, of those that the build saw and of later ones
CREATE TABLE fr (id int, v vector(4), f float8, s float4, n numeric, z timestamptz, d date, i int8) WITH (autovacuum_enabled = off);
CREATE FUNCTION fr_add(first int, last int) RETURNS void LANGUAGE sql AS $$
	INSERT INTO fr SELECT i, ARRAY[random(), random(), random(), random()]::vector, sin(i), i / 7.0, (i % 977) / 10.0,
			timestamptz '2026-01-01' + i * interval '17 minutes', date '2026-01-01' + i % 1000, (i * 7919::int8 - 5000000) * 1000000007
		FROM generate_series(first, last) i $$;
SELECT FROM fr_add(1, 2500);
UPDATE fr SET f = 'NaN', s = 'Infinity', n = 'NaN', z = 'infinity', d = '-infinity', i = 9223372036854775807 WHERE id % 101 = 0;
UPDATE fr SET f = NULL, s = '-Infinity', n = NULL, z = '-infinity', d = NULL, i = -9223372036854775808 WHERE id % 103 = 0;
CREATE INDEX fr_idx ON fr USING grnnd (v, f, s, n, z, d, i);
ANALYZE fr;
CREATE FUNCTION fr_compare(OUT condition text, OUT by_index int, OUT by_scan int, OUT way text) RETURNS SETOF record LANGUAGE plpgsql AS $$
DECLARE
	query text;
BEGIN
	FOREACH condition IN ARRAY ARRAY['f BETWEEN 0.5 AND 0.52', 'f > 0.9999', 'f < -0.9999', 's < 15', 's > 355', 's >= 14.5 AND s < 21.25',
			'n BETWEEN 50 AND 51.5', 'n > 97.3', 'z < ''2026-01-02''', 'z BETWEEN ''2026-01-10'' AND ''2026-01-11''', 'z > ''2026-02-07''',
			'd = ''2026-03-05''', 'd <= ''2026-01-10''', 'd > ''2028-09-20''', 'i < -4980000000000000', 'i BETWEEN 0 AND 100000000000000',
			'i > 9223372036854775806', 'i IS NULL', 'n IS NULL', 'd IN (''2026-03-05'', ''2026-03-06'', ''2026-05-07'')'] LOOP
		query := 'SELECT count(*) FROM (SELECT FROM fr WHERE ' || condition || ' ORDER BY v <-> ''[0.5,0.5,0.5,0.5]'' LIMIT 5000) q';
		SET LOCAL enable_indexscan = off;
		EXECUTE query INTO by_scan;
		SET LOCAL enable_indexscan = on;
		SET LOCAL enable_seqscan = off;
		EXECUTE query INTO by_index;
		way := (grnnd_last_scan()).method;
		RETURN NEXT;
	END LOOP;
END $$;
SELECT count(*), count(*) FILTER (WHERE by_index = by_scan) AS all_rows, sum(by_index) AS rows,
	count(*) FILTER (WHERE way ~ 'list') > 12 AS lists FROM fr_compare();
SELECT FROM fr_add(2501, 3000);
SELECT FROM fr_add(-200, 0);
UPDATE fr SET f = 0.51, n = 50.5, i = 5 WHERE id % 50 = 0;
DELETE FROM fr WHERE id % 7 = 0;
VACUUM fr;
SELECT * FROM grnnd_check('fr_idx', true);
SELECT condition, by_index = by_scan AS all_rows FROM fr_compare();
DROP TABLE fr;
DROP FUNCTION fr_add, fr_compare;

-- an index that is filled row by row has signatures and a sample; codes come later
CREATE TABLE fs2 (id int, v vector(8), c int) WITH (autovacuum_enabled = off);
CREATE INDEX fs2_idx ON fs2 USING grnnd (v, c);
SET grnnd.background_fit = off;
INSERT INTO fs2 SELECT id, v, c FROM fs WHERE id <= 4000;
SELECT * FROM grnnd_check('fs2_idx', true);
SELECT grnnd_fit('fs2_idx') IS NOT NULL AS fitted;
SELECT state FROM grnnd_codes('fs2_idx');
SELECT * FROM grnnd_check('fs2_idx', true);
ALTER TABLE fs RENAME TO fs1;
ALTER TABLE fs2 RENAME TO fs;
SELECT condition, rows, good FROM fs_conditions, fs_recall(condition) r WHERE number IN (1, 4, 7) ORDER BY number;
DROP TABLE fs, fs1, fs_conditions;
DROP FUNCTION fs_recall;
