-- Filter columns: key columns behind the vector.  Every condition gives the rows that a
-- sequential scan gives, and is looked at in the index.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS grnnd CASCADE;
RESET client_min_messages;
CREATE SCHEMA test_filters;
SET search_path = test_filters, public;
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TABLE filters (id int, e vector(3), i2 int2, i4 int4, i8 int8, b bool, t text, v varchar(9),
	c char(3), u uuid, d date, ts timestamp, tz timestamptz, n numeric, f4 float4, f8 float8, m mood)
	WITH (autovacuum_enabled = off);
SET timezone = 'UTC';
SET datestyle = 'ISO';
INSERT INTO filters SELECT i, ARRAY[sin(i), cos(i * 0.7), sin(i * 1.3)]::vector,
	i % 7, i % 50 - 20, (i % 11) * 10000000000, i % 3 = 0, 'word ' || i % 13, 'v' || i % 5, 'c' || i % 4,
	md5((i % 9)::text)::uuid, date '2026-01-01' + i % 30, timestamp '2026-01-01' + i * interval '1 hour',
	timestamptz '2026-01-01' + i * interval '1 hour', (i % 10) / 4.0, (i % 6) / 10.0, (i % 8) / 10.0,
	(enum_range(NULL::mood))[1 + i % 3]
	FROM generate_series(1, 600) i;
-- each column is NULL in some rows
UPDATE filters SET i2 = NULL, i4 = NULL, t = NULL, d = NULL, f4 = NULL WHERE id % 17 = 0;
UPDATE filters SET i8 = NULL, b = NULL, u = NULL, ts = NULL, n = NULL, m = NULL WHERE id % 19 = 0;
UPDATE filters SET v = NULL, c = NULL, tz = NULL, f8 = NULL WHERE id % 23 = 0;
UPDATE filters SET f4 = 'NaN', f8 = '-Infinity', n = 'NaN', d = 'infinity', ts = '-infinity', tz = 'infinity'
	WHERE id % 29 = 0;
UPDATE filters SET f4 = '-0', f8 = 0, n = 12345678901234567890.5, i2 = -32768, i4 = -2147483648,
	i8 = 9223372036854775807 WHERE id % 31 = 0;
-- identical vectors whose rows have different values, more than a record has room for
INSERT INTO filters SELECT 1000 + i, '[1,2,3]', i % 7, i, i, i % 2 = 0, 'word ' || i % 13, 'v', 'c', NULL,
	'2026-01-05', '2026-01-05', '2026-01-05', i, i, i, 'ok'
	FROM generate_series(1, 150) i;
INSERT INTO filters (id, i4) VALUES (2000, 1);	-- no vector
CREATE INDEX filters_idx ON filters USING grnnd
	(e, i2, i4, i8, b, t, v, c, u, d, ts, tz, n, f4, f8, m);
ANALYZE filters;
SELECT * FROM grnnd_check('filters_idx', true);

-- The rows for which a condition is true, by the index and without it; what was not looked at in
-- the index is the filter.
CREATE FUNCTION compare_filter(condition text, tab text DEFAULT 'filters') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	query text := 'SELECT id FROM ' || tab || ' WHERE e IS NOT NULL AND (' || condition ||
		') ORDER BY e <-> ''[0.5,0.1,0.3]'' LIMIT 10000';
	by_index int[];
	by_scan int[];
	line text;
	seen text := 'not by the index ';
BEGIN
	SET LOCAL enable_indexscan = off;
	EXECUTE 'SELECT array_agg(id ORDER BY id) FROM (' || query || ') q' INTO by_scan;
	SET LOCAL enable_indexscan = on;
	SET LOCAL enable_seqscan = off;
	FOR line IN EXECUTE 'EXPLAIN (COSTS off) ' || query LOOP
		IF line ~ ('Index Scan using ' || tab || '_idx') THEN seen := ''; END IF;
		IF line ~ 'Filter:' THEN seen := seen || trim(line); END IF;
	END LOOP;
	EXECUTE 'SELECT array_agg(id ORDER BY id) FROM (' || query || ') q' INTO by_index;
	IF by_index IS DISTINCT FROM by_scan THEN
		seen := seen || ' DIFFERENT: ' || coalesce(array_length(by_index, 1), 0) || ' rows';
	END IF;
	RETURN coalesce(array_length(by_scan, 1), 0) || ' rows ' || seen;
END $$;

CREATE TABLE conditions (number int GENERATED ALWAYS AS IDENTITY, condition text);
INSERT INTO conditions (condition) VALUES
	('true'), ('i4 = 5'), ('5 = i4'), ('i4 = 5::int2'), ('i4 = 5::int8'), ('i8 = 10000000000'), ('i8 = 5'), ('i2 = 3'),
	('i2 < 2::int8'), ('i4 < -20'), ('i4 <= -2147483648'), ('i4 < -2147483648'), ('i4 > 3000000000'),
	('i4 > 140'), ('i4 >= 150'), ('i4 BETWEEN 3 AND 7'), ('i4 <> 5'), ('i4 = (SELECT NULL::int)'),
	('i8 > 9223372036854775806'), ('i8 > 9223372036854775807'), ('i2 = -32768'),
	('b IS NOT TRUE'), ('b IS NULL'), ('b < true'),
	('t = ''word 3'''), ('t = ''absent'''), ('t > ''word 5'''), ('t IS NULL'), ('t LIKE ''word 1%'''),
	('v = ''v2'''), ('v IS NOT NULL'), ('c = ''c1'''), ('c = ''c1 '''),
	('u = ''c4ca4238-a0b9-2382-0dcc-509a6f75849b'''), ('u IS NULL'),
	('d = ''2026-01-05'''), ('d > ''2026-01-29'''), ('d = ''infinity'''), ('d < ''infinity'''),
	('ts < ''2026-01-03'''), ('ts < ''2026-01-03''::date'), ('ts >= ''2026-01-20''::date'), ('ts = ''-infinity'''),
	('ts <= ''5000000-01-01''::date'), ('tz <= ''5000000-01-01''::date'), ('tz = ''infinity'''),
	('tz >= ''2026-01-20'''), ('tz < ''2026-01-02''::date'), ('tz < ''2026-01-02''::timestamp'),
	('n = 0.5'), ('n < 0.5'), ('n <= 0.5'), ('n > 12345678901234567890'), ('n = 12345678901234567890.5'),
	('n = ''NaN'''), ('n > 1e300'), ('n IS NULL'),
	('f4 = 0.1'), ('f4 = 0.1::float4'), ('f4 < 0.1'), ('f4 > 0.3::float4'), ('f4 = 0'), ('f4 = ''NaN'''), ('f4 > 1e30'),
	('f4 < ''NaN'''), ('f8 = 0.1'), ('f8 < 0'), ('f8 = ''-Infinity'''), ('f8 = 0.5::float4'), ('f8 >= 0.5::float4'),
	('m = ''happy'''), ('m > ''sad'''), ('m IS NULL'),
	('i4 > 5 AND i2 = 3 AND t = ''word 3'''), ('i4 > 5 AND i4 < 9 AND i4 IS NOT NULL'),
	('i4 > 5 AND i4 < 3'), ('i4 IS NULL AND i4 = 5'), ('i4 = 5 OR b'), ('(i4, i2) > (5, 3)'),
	('i4 = 5 AND id % 2 = 0'), ('i4 + 1 = 6'), ('e <-> ''[1,1,1]'' < 1 AND i4 > 0');
SELECT number, condition, compare_filter(condition) FROM conditions ORDER BY number;

-- PostgreSQL 15 and 16 do not hand arrays to ordered scans, and 15 no booleans, so what is a filter
-- differs, and from 18 on OR makes an array.
SELECT condition, regexp_replace(compare_filter(condition), 'Filter:.*', '')
	FROM unnest(ARRAY['b', 'NOT b', 'b = true', 'b IS TRUE', 'b IS FALSE', 'i4 = 5 AND b', 'i4 = 5 OR i4 = 7', 'i4 IN (1, 2, 3)', 'i4 = ANY (ARRAY[1, NULL, 3])', 'i4 = ANY (ARRAY[NULL]::int[])',
		'i4 = ANY (''{}''::int[])', 'i8 = ANY (ARRAY[5, 7])', 'i4 < ANY (ARRAY[-5, -7])', 'i4 >= ANY (ARRAY[140, NULL, 145])',
		't = ANY (ARRAY[''word 1'', ''word 2''])', 'v IN (''v1'', ''v3'')', 'u = ANY (ARRAY[md5(''1''), md5(''2'')]::uuid[])',
		'n IN (0.5, 0.75)', 'i4 = ALL (ARRAY[1, 1])', 'i4 IN (1, 2) AND b AND t IN (''word 1'', ''word 2'')'])
	AS condition;

-- Where they are a filter, the index has looked at them all the same: it removes no row.
CREATE FUNCTION removed(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) ' || query LOOP
		IF line ~ 'Index Scan|Removed' THEN RETURN NEXT regexp_replace(trim(line), ' \(actual.*', ''); END IF;
	END LOOP;
END $$;
SET enable_seqscan = off;
SELECT * FROM removed($$SELECT id FROM filters WHERE i4 IN (1, 2, 3) AND t = ANY (ARRAY['word 1', 'word 2'])
	ORDER BY e <-> '[0,0,1]' LIMIT 10$$);
SELECT * FROM removed($$SELECT id FROM filters WHERE b AND i4 = 4 ORDER BY e <-> '[0,0,1]' LIMIT 10$$);
SELECT * FROM removed($$SELECT id FROM filters WHERE NOT b AND i4 = 4 ORDER BY e <-> '[0,0,1]' LIMIT 10$$);
PREPARE arrays(int[]) AS SELECT id FROM filters WHERE i4 = ANY ($1) ORDER BY e <-> '[0,0,1]', id LIMIT 3;
SET plan_cache_mode = force_generic_plan;
EXECUTE arrays('{5,7}');
EXECUTE arrays('{9,NULL}');
EXECUTE arrays(NULL);
SELECT x, (SELECT array_agg(id ORDER BY id) FROM (SELECT id FROM filters WHERE i4 = ANY (ARRAY[x, 49 - x])
		ORDER BY e <-> '[0,0,1]' LIMIT 3) q)
	FROM generate_series(1, 3) x;
RESET plan_cache_mode;
RESET enable_seqscan;

-- arrays
CREATE TABLE tagged (id int, e vector(3), tags int[], words text[]) WITH (autovacuum_enabled = off);
INSERT INTO tagged SELECT i, ARRAY[sin(i), cos(i * 0.7), sin(i * 1.3)]::vector,
	CASE WHEN i % 19 = 0 THEN NULL WHEN i % 17 = 0 THEN '{}' ELSE ARRAY[i % 100, i % 7, NULL, i % 3] END,
	ARRAY['w' || i % 50, 'w' || i % 9]
	FROM generate_series(1, 500) i;
CREATE INDEX tagged_idx ON tagged USING grnnd (e, tags, words);
ANALYZE tagged;
SELECT condition, compare_filter(condition, 'tagged')
	FROM unnest(ARRAY['tags @> ''{5}''', 'tags @> ''{5,2}''', 'tags && ''{5,90}''', 'tags @> ''{}''', 'tags && ''{}''',
		'tags @> ''{NULL}''', 'tags && ''{5,NULL}''', 'tags IS NULL', 'tags IS NOT NULL', 'tags @> ''{5000}''', 'tags = ''{}''',
		'tags <@ ''{5,2,1,NULL}''', 'words @> ''{w7}''', 'words && ''{w3,w8}'' AND tags @> ''{1}''', '7 = ANY (tags)'])
	AS condition;
UPDATE tagged SET tags = '{1,2,3}' WHERE id % 5 = 0;
SELECT condition, compare_filter(condition, 'tagged')
	FROM unnest(ARRAY['tags @> ''{3}''', 'tags = ''{1,2,3}''']) AS condition;
SELECT * FROM grnnd_check('tagged_idx', true);

-- all columns that there can be
CREATE TABLE wide (e vector(3));
SELECT format('ALTER TABLE wide ADD c%s int8 DEFAULT %1$s', i) FROM generate_series(1, 31) i \gexec
INSERT INTO wide SELECT ARRAY[i, i % 7, i % 3]::vector FROM generate_series(1, 300) i;
SELECT format('CREATE INDEX wide_idx ON wide USING grnnd (e, %s)', string_agg('c' || i, ', ' ORDER BY i))
	FROM generate_series(1, 31) i \gexec
UPDATE wide SET c31 = 0 WHERE (e <-> '[0,0,0]') < 50;
BEGIN;
SET LOCAL enable_seqscan = off;
SELECT count(*) FROM (SELECT FROM wide WHERE c31 = 0 AND c1 = 1 AND c17 > 16 ORDER BY e <-> '[1,1,1]' LIMIT 1000) q;
COMMIT;
SELECT count(*) FROM wide WHERE c31 = 0;
SELECT * FROM grnnd_check('wide_idx', true);

-- changes
INSERT INTO filters SELECT 3000 + i, '[1,2,3]', 1, 500 + i % 3, 7, true, 'new', 'v', 'c', NULL,
	'2026-02-01', '2026-02-01', '2026-02-01', i, i, i, 'sad' FROM generate_series(1, 40) i;
INSERT INTO filters SELECT 4000 + i, ARRAY[i, i, i]::vector, 1, 500 + i % 3, NULL, true, 'new', 'v', 'c', NULL,
	NULL, '2026-02-01', '2026-02-01', i, i, i, 'sad' FROM generate_series(1, 40) i;
UPDATE filters SET i4 = 600, t = 'changed' WHERE id % 5 = 0;
DELETE FROM filters WHERE id % 7 = 0;
CREATE VIEW after_changes AS SELECT condition, compare_filter(condition)
	FROM unnest(ARRAY['true', 'i4 = 500', 'i4 >= 500', 'i4 = 600', 't = ''changed''', 't = ''new''', 'd IS NULL', 'i4 = 5'])
	AS condition;
SELECT * FROM after_changes;
SELECT * FROM grnnd_check('filters_idx', true);
VACUUM filters;
SELECT * FROM after_changes;
SELECT * FROM grnnd_check('filters_idx', true);

-- a zero vector has no angle: all rows are walked
CREATE INDEX filters_cosine ON filters USING grnnd (e vector_cosine_ops, i4);
BEGIN;
SET LOCAL enable_seqscan = off;
SET LOCAL enable_sort = off;
SELECT count(*) FROM (SELECT FROM filters WHERE i4 = 600 ORDER BY e <=> '[0,0,0]' LIMIT 1000) q;
SELECT count(*) FROM (SELECT FROM filters WHERE i4 = 600 ORDER BY e <=> NULL LIMIT 1000) q;
SELECT count(*) FROM filters WHERE i4 = 600;
COMMIT;

-- without codes, and of sparse rows
DROP INDEX filters_idx, filters_cosine;
CREATE INDEX filters_idx ON filters USING grnnd (e, i4, t, n) WITH (codes = off);
SELECT condition, compare_filter(condition)
	FROM unnest(ARRAY['i4 = 500', 'i4 < 3 AND t = ''word 3''', 'n = 0.5']) AS condition;
DROP INDEX filters_idx;
ALTER TABLE filters ADD s sparsevec(3);
UPDATE filters SET s = e::sparsevec;
VACUUM FULL filters;
CREATE INDEX filters_idx ON filters USING grnnd (s, i4, t, n);
BEGIN;
SET LOCAL enable_seqscan = off;
SELECT id, i4, t FROM filters WHERE i4 = 600 AND t = 'changed' ORDER BY s <-> '{1:1}/3' LIMIT 5;
SET LOCAL enable_indexscan = off;
SELECT id, i4, t FROM filters WHERE i4 = 600 AND t = 'changed' ORDER BY s <-> '{1:1}/3' LIMIT 5;
COMMIT;
SELECT * FROM grnnd_check('filters_idx', true);

-- what an index cannot have
CREATE INDEX ON filters USING grnnd (i4, e);
CREATE INDEX ON filters USING grnnd (i4);
CREATE INDEX ON filters USING grnnd (e, e);
CREATE INDEX ON filters USING grnnd (e, (point(1, 2)));
CREATE INDEX ON filters USING grnnd (e) INCLUDE (i4);
-- properties
SELECT column_number, property, pg_index_column_has_property('filters_idx', column_number, property)
	FROM generate_series(1, 2) column_number,
		unnest(ARRAY['distance_orderable', 'search_array', 'search_nulls', 'orderable']) property
	ORDER BY 1, 2;
SELECT opcname FROM pg_opclass
	WHERE opcmethod = (SELECT oid FROM pg_am WHERE amname = 'grnnd') AND NOT amvalidate(oid);
SET client_min_messages = warning;
DROP SCHEMA test_filters CASCADE;
