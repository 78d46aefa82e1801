-- CREATE INDEX over all kinds of tables: every row is found, by the index alone.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS grnnd CASCADE;
CREATE SCHEMA test_build;
SET search_path = test_build, public;
SET grnnd.build_device = cpu;
SET grnnd.ef_search = 10000;
SET grnnd.max_scan_tuples = 1000000;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_sort = off;
SET max_parallel_workers_per_gather = 0;

-- rows that an ordered scan of q returns, and how many of them are different
CREATE FUNCTION found(q text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	result text;
	used bool := false;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN ' || q LOOP
		used := used OR line LIKE '%Index Scan using%';
	END LOOP;
	IF NOT used THEN RETURN 'no index used'; END IF;
	EXECUTE 'SELECT count(*) || '' rows, '' || count(DISTINCT id) || '' different'' FROM ('
		|| q || ') s' INTO result;
	RETURN result;
END $$;

-- no rows, one, two, three; only NULLs
CREATE TABLE few (id int, e vector(3));
CREATE INDEX few_e ON few USING grnnd (e);
SELECT found('SELECT id FROM few ORDER BY e <-> ''[1,2,3]''');
INSERT INTO few VALUES (0, NULL);
REINDEX INDEX few_e;
SELECT found('SELECT id FROM few ORDER BY e <-> ''[1,2,3]''');
INSERT INTO few VALUES (1, '[1,1,1]');
REINDEX INDEX few_e;
SELECT found('SELECT id FROM few ORDER BY e <-> ''[1,2,3]''');
INSERT INTO few VALUES (2, '[2,2,2]');
REINDEX INDEX few_e;
SELECT found('SELECT id FROM few ORDER BY e <-> ''[1,2,3]''');
INSERT INTO few VALUES (3, '[3,3,3]');
REINDEX INDEX few_e;
SELECT found('SELECT id FROM few ORDER BY e <-> ''[1,2,3]''');
SELECT id FROM few ORDER BY e <-> '[1,1,2]';

-- rows around the degree
CREATE TABLE around (id int, e vector(4));
DO $$
BEGIN
	FOR n IN 7..35 BY 7 LOOP
		TRUNCATE around;
		INSERT INTO around SELECT i, ARRAY[i, i * i % 13, i % 3, 1]::vector FROM generate_series(1, n) i;
		CREATE INDEX around_e ON around USING grnnd (e) WITH (degree = 8);
		RAISE WARNING 'of %: %', n, found('SELECT id FROM around ORDER BY e <-> ''[1,2,3,4]''');
		DROP INDEX around_e;
	END LOOP;
END $$;

-- identical rows: their TIDs fill one record and a chain of others
CREATE TABLE same (id int, e vector(3));
INSERT INTO same SELECT i, '[1,2,3]' FROM generate_series(1, 10000) i;
INSERT INTO same SELECT 20000 + i, ARRAY[i, i, 0]::vector FROM generate_series(1, 50) i;
CREATE INDEX same_e ON same USING grnnd (e);
SELECT found('SELECT id FROM same ORDER BY e <-> ''[1,2,3]''');
SELECT found('SELECT id FROM same ORDER BY e <-> ''[1,2,3]'' LIMIT 9999');
SELECT pg_relation_size('same_e') < 100 * 8192 AS small;
DROP INDEX same_e;
CREATE INDEX same_e ON same USING grnnd (e vector_ip_ops);
SELECT found('SELECT id FROM same ORDER BY e <#> ''[1,2,3]''');
DROP INDEX same_e;
-- under cosine the others are one point, too
CREATE INDEX same_e ON same USING grnnd (e vector_cosine_ops);
SELECT found('SELECT id FROM same ORDER BY e <=> ''[1,2,3]''');

-- zero vectors have no place under cosine
CREATE TABLE zero (id int, e vector(3));
INSERT INTO zero VALUES (1, '[0,0,0]'), (2, '[1,0,0]'), (3, '[0,1,0]'), (4, '[0,0,0]');
CREATE INDEX zero_cosine ON zero USING grnnd (e vector_cosine_ops);
SELECT found('SELECT id FROM zero ORDER BY e <=> ''[1,2,3]''');
DROP INDEX zero_cosine;
DELETE FROM zero WHERE id IN (2, 3);
CREATE INDEX zero_cosine ON zero USING grnnd (e vector_cosine_ops);
SELECT found('SELECT id FROM zero ORDER BY e <=> ''[1,2,3]''');
DROP INDEX zero_cosine;
CREATE INDEX zero_l2 ON zero USING grnnd (e vector_l2_ops);
SELECT found('SELECT id FROM zero ORDER BY e <-> ''[1,2,3]''');

-- dimensions: one, records of several pages, the most; TOASTed values
CREATE TABLE dim1 (id int, e vector(1));
INSERT INTO dim1 SELECT i, ARRAY[i]::vector FROM generate_series(1, 300) i;
CREATE INDEX ON dim1 USING grnnd (e);
SELECT found('SELECT id FROM dim1 ORDER BY e <-> ''[7]''');
SELECT id FROM dim1 ORDER BY e <-> '[7.1]' LIMIT 3;
CREATE TABLE wide (id int, e vector(3000));
INSERT INTO wide SELECT i, (SELECT array_agg(sin(i * 1000 + j))::vector FROM generate_series(1, 3000) j)
	FROM generate_series(1, 60) i;
CREATE INDEX ON wide USING grnnd (e);
SELECT found('SELECT id FROM wide ORDER BY e <-> (SELECT e FROM wide WHERE id = 5)');
SELECT id FROM wide ORDER BY e <-> (SELECT e FROM wide WHERE id = 5) LIMIT 1;
CREATE INDEX ON wide USING grnnd (e vector_ip_ops);
SELECT found('SELECT id FROM wide ORDER BY e <#> (SELECT e FROM wide WHERE id = 5)');
CREATE TABLE widest (id int, e vector(16000));
INSERT INTO widest SELECT i, array_fill(i, ARRAY[16000])::vector FROM generate_series(1, 5) i;
CREATE INDEX ON widest USING grnnd (e);
SELECT id FROM widest ORDER BY e <-> (SELECT e FROM widest WHERE id = 3), id LIMIT 1;
CREATE INDEX ON widest USING grnnd (e vector_ip_ops);
SELECT id FROM widest ORDER BY e <#> (SELECT e FROM widest WHERE id = 3) LIMIT 5;

-- numbers near the largest and the smallest
CREATE TABLE huge (id int, e vector(2));
INSERT INTO huge VALUES (1, '[3e38,3e38]'), (2, '[-3e38,3e38]'), (3, '[1,1]'), (4, '[1e-40,0]');
CREATE INDEX huge_cosine ON huge USING grnnd (e vector_cosine_ops);
SELECT found('SELECT id FROM huge ORDER BY e <=> ''[1,1]''');

-- a column without dimensions; an expression gives it some
CREATE TABLE loose (id int, e vector);
INSERT INTO loose VALUES (1, '[1,2]'), (2, '[1,2,3]'), (3, '[4,5,6]');
CREATE INDEX ON loose USING grnnd (e);
CREATE INDEX ON loose USING grnnd ((e::vector(3)));
CREATE INDEX ON loose USING grnnd ((e::vector(3))) WHERE vector_dims(e) = 3;
SELECT found('SELECT id FROM loose WHERE vector_dims(e) = 3 ORDER BY e::vector(3) <-> ''[1,2,3]''');

-- unlogged, temporary, partitioned, materialized view, changed in the same transaction
CREATE UNLOGGED TABLE unlogged (id int, e vector(3));
INSERT INTO unlogged SELECT i, ARRAY[i, 1, 2]::vector FROM generate_series(1, 100) i;
CREATE INDEX ON unlogged USING grnnd (e);
SELECT found('SELECT id FROM unlogged ORDER BY e <-> ''[1,2,3]''');
CREATE TEMP TABLE temporary (id int, e vector(3));
INSERT INTO temporary SELECT i, ARRAY[i, 1, 2]::vector FROM generate_series(1, 100) i;
CREATE INDEX ON temporary USING grnnd (e);
SELECT found('SELECT id FROM temporary ORDER BY e <-> ''[1,2,3]''');
CREATE TABLE parts (id int, e vector(3)) PARTITION BY RANGE (id);
CREATE TABLE parts1 PARTITION OF parts FOR VALUES FROM (0) TO (50);
CREATE TABLE parts2 PARTITION OF parts FOR VALUES FROM (50) TO (200);
INSERT INTO parts SELECT i, ARRAY[i, 1, 2]::vector FROM generate_series(1, 100) i;
CREATE INDEX ON parts USING grnnd (e);
SELECT found('SELECT id FROM parts ORDER BY e <-> ''[1,2,3]''');
CREATE MATERIALIZED VIEW view AS SELECT * FROM parts;
CREATE INDEX ON view USING grnnd (e);
REFRESH MATERIALIZED VIEW view;
SELECT found('SELECT id FROM view ORDER BY e <-> ''[1,2,3]''');
BEGIN;
CREATE TABLE fresh (id int, e vector(3));
INSERT INTO fresh SELECT i, ARRAY[i, 1, 2]::vector FROM generate_series(1, 100) i;
DELETE FROM fresh WHERE id % 2 = 0;
UPDATE fresh SET id = id + 1000 WHERE id < 11;
SAVEPOINT s;
CREATE INDEX ON fresh USING grnnd (e);
-- (an index over rows changed in this transaction waits for the next)
SELECT found('SELECT id FROM fresh ORDER BY e <-> ''[1,2,3]''');
ROLLBACK TO s;
CREATE INDEX ON fresh USING grnnd (e);
COMMIT;
SELECT found('SELECT id FROM fresh ORDER BY e <-> ''[1,2,3]''');

-- built again by other commands
CREATE INDEX CONCURRENTLY again ON fresh USING grnnd (e vector_ip_ops);
SELECT indisvalid FROM pg_index WHERE indexrelid = 'again'::regclass;
SELECT found('SELECT id FROM fresh ORDER BY e <#> ''[1,2,3]''');
REINDEX INDEX CONCURRENTLY again;
SELECT found('SELECT id FROM fresh ORDER BY e <#> ''[1,2,3]''');
VACUUM FULL fresh;
SELECT found('SELECT id FROM fresh ORDER BY e <#> ''[1,2,3]''');
ALTER TABLE fresh ALTER COLUMN id TYPE bigint;
SELECT found('SELECT id FROM fresh ORDER BY e <#> ''[1,2,3]''');
ALTER TABLE fresh ALTER COLUMN e TYPE vector(4) USING array_append(e::float4[], 1::float4)::vector(4);
SELECT found('SELECT id FROM fresh ORDER BY e <#> ''[1,2,3,4]''');
TRUNCATE fresh;
SELECT found('SELECT id FROM fresh ORDER BY e <#> ''[1,2,3,4]''');

-- options
CREATE INDEX opts ON same USING grnnd (e) WITH (degree = 96, codes = off, seed = 7);
SELECT count(*) FROM (SELECT id FROM same ORDER BY e <-> '[1,2,3]') s;
SELECT count(*) FROM pg_class WHERE relnamespace = 'test_build'::regnamespace AND relam = (SELECT oid FROM pg_am WHERE amname = 'grnnd') AND relkind = 'i' AND NOT (SELECT indisvalid FROM pg_index WHERE indexrelid = pg_class.oid);

-- all of them are sound
SELECT relname, (SELECT count(*) FROM grnnd_check(oid, true)) AS violations FROM pg_class
	WHERE relnamespace = 'test_build'::regnamespace AND relkind = 'i' AND relam =
	(SELECT oid FROM pg_am WHERE amname = 'grnnd') ORDER BY relname;

DROP SCHEMA test_build CASCADE;
