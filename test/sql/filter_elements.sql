-- Conditions on arrays: frequent and rare elements, and rows that come, change and go.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS grnnd CASCADE;
CREATE SCHEMA test_elements;
SET search_path = test_elements, public;
SET grnnd.build_device = cpu;
RESET client_min_messages;

-- rows without elements, a few of many elements, and elements of a half, a third, 2% and .25% of the others
CREATE FUNCTION tags_of(i int) RETURNS int[] LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE WHEN i % 31 = 0 THEN NULL WHEN i % 29 = 0 THEN '{}' WHEN i % 500 = 7 THEN
		(SELECT array_agg(50000 + j) FROM generate_series(i, i + 40) j)
		ELSE ARRAY[i % 2, NULL, 10 + i % 3, 100 + i % 50, 1000 + i % 400, 100 + i % 50] END $$;
CREATE FUNCTION place_of(i int) RETURNS vector LANGUAGE sql IMMUTABLE AS $$
	SELECT ARRAY[sin(i), cos(i * 0.7), sin(i * 1.3), cos(i * 2.1), sin(i * 0.01), cos(i * 0.003), sin(i * 3.7), cos(i * 0.2)]::vector(8) $$;
CREATE TABLE source AS SELECT i AS id, tags_of(i) AS tags, ARRAY(SELECT 'word ' || u FROM unnest(tags_of(i)) u) AS words, place_of(i)::vector(8) AS v
	FROM generate_series(1, 6000) i;
CREATE TABLE built AS SELECT *, 0 AS other FROM source;
ALTER TABLE built SET (autovacuum_enabled = off);
CREATE INDEX built_idx ON built USING grnnd (v, tags, words);
-- one that is filled row by row
CREATE TABLE filled (LIKE source) WITH (autovacuum_enabled = off);
CREATE INDEX filled_idx ON filled USING grnnd (v, (tags || 0), words);
SET grnnd.background_fit = off;
INSERT INTO filled SELECT * FROM source ORDER BY id;
-- an array that lies outside of its row
INSERT INTO filled SELECT 30000, NULL, ARRAY['long', string_agg(md5(j::text), '')], place_of(30000) FROM generate_series(1, 300) j;
SELECT grnnd_fit('filled_idx');
VACUUM ANALYZE built;
VACUUM ANALYZE filled;

-- rows that only one of index and table gives
CREATE FUNCTION try(t text, condition text, OUT differ bigint, OUT n bigint) LANGUAGE plpgsql AS $$
DECLARE
	query text := format('SELECT array_agg(id) FROM (SELECT id FROM %s WHERE %s AND v <-> place_of(77) < 1000
		ORDER BY v <-> place_of(77) LIMIT 10000) q', t, condition);
	by_index int[];
	by_table int[];
BEGIN
	SET LOCAL enable_seqscan = on;
	SET LOCAL enable_indexscan = off;
	EXECUTE query INTO by_table;
	SET LOCAL enable_seqscan = off;
	SET LOCAL enable_indexscan = on;
	EXECUTE query INTO by_index;
	n := coalesce(cardinality(by_index), 0);
	SELECT count(*) INTO differ FROM ((SELECT unnest(by_index) EXCEPT ALL SELECT unnest(by_table))
		UNION ALL (SELECT unnest(by_table) EXCEPT ALL SELECT unnest(by_index))) d;
END $$;
CREATE TABLE conditions (number int, condition text);
INSERT INTO conditions VALUES (1, 'tags @> ''{1017}'''), (2, 'tags && ''{1017,1300}'''), (3, 'tags @> ''{1017,1}'''),
	(4, 'tags @> ''{117,1017}'''), (5, 'tags && ''{1,1017}'''), (6, 'tags @> ''{1}'''), (7, 'tags @> ''{}'''), (8, 'tags && ''{}'''),
	(9, 'tags @> ''{77777}'''), (10, 'tags @> ''{50510}'''), (11, 'tags IS NULL'), (12, '''{1018}'' <@ tags'),
	(13, 'words @> ''{word 1017}'''), (14, 'words && ''{word 1017,word 1018}'' AND tags @> ''{1}'''), (15, 'words @> ''{word 1}'''),
	(16, 'tags @> ''{1017}'' AND words @> ''{word 1}''');
SELECT condition, t.* FROM conditions, try('built', condition) t ORDER BY number;
SELECT c.condition, t.* FROM (SELECT number, replace(condition, 'tags', '(tags || 0)') AS condition FROM conditions) c, try('filled', c.condition) t
	WHERE number <> 11 ORDER BY number;
SELECT * FROM grnnd_check('built_idx', true);
SELECT * FROM grnnd_check('filled_idx', true);

-- rows that come one by one, with elements that are new, or are many
INSERT INTO built SELECT 10000 + i, ARRAY[i % 2, 1017, 9000 + i % 10], '{}', place_of(10000 + i), 0 FROM generate_series(1, 300) i;
INSERT INTO built SELECT 20000 + i, (SELECT array_agg(j) FROM generate_series(9000, 9100 + i) j), '{}', place_of(77), 0 FROM generate_series(1, 3) i;
SELECT c.condition, t.* FROM unnest(ARRAY['tags @> ''{1017}''', 'tags @> ''{9003}''', 'tags && ''{9003,1018}''', 'tags @> ''{9003,9101}''']) c (condition),
	try('built', c.condition) t;
INSERT INTO built SELECT 30000, NULL, ARRAY['long', string_agg(md5(j::text), '')], place_of(30000), 0 FROM generate_series(1, 300) j;
SELECT t.* FROM unnest('{built,filled}'::text[]) name, try(name, 'words @> ''{long}''') t;
-- an update of another column, so rows are new
UPDATE built SET other = 1 WHERE id <= 1500;
-- the same vector with other elements
UPDATE built SET tags = ARRAY[5555, 1018] WHERE id BETWEEN 100 AND 120;
UPDATE built SET tags = ARRAY[5556, 1018] WHERE id BETWEEN 110 AND 120;
SELECT c.condition, t.* FROM unnest(ARRAY['tags @> ''{5555}''', 'tags && ''{5556}''', 'tags @> ''{1018}''', 'tags @> ''{1017}''']) c (condition),
	try('built', c.condition) t;
SELECT * FROM grnnd_check('built_idx', true);
DELETE FROM built WHERE id % 3 = 0;
VACUUM built;
SELECT condition, t.* FROM conditions, try('built', condition) t WHERE number < 6 ORDER BY number;
SELECT * FROM grnnd_check('built_idx', true);

SET client_min_messages = warning;
DROP SCHEMA test_elements CASCADE;
