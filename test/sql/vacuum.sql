-- Vacuum: the graph stays as good as a new one, and space is used again.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS grnnd CASCADE;
CREATE SCHEMA test_vacuum;
SET search_path = test_vacuum, public;
SET grnnd.build_device = cpu;
\getenv dir PG_ABS_SRCDIR
\set file :dir '/lib/recall.sql'
\set ECHO none
\i :file
\set ECHO all

CREATE TABLE queries AS SELECT * FROM points(100001, 100100, 32, 1);
CREATE TABLE t (id int PRIMARY KEY, v vector(32));
INSERT INTO t SELECT * FROM points(1, 6000, 32, 1);
CREATE INDEX t_idx ON t USING grnnd (v);
SELECT pg_relation_size('t_idx') AS size \gset

-- three quarters at random
DELETE FROM t WHERE id % 4 <> 0;
VACUUM t;
SELECT * FROM grnnd_check('t_idx', true);
SELECT recall('t', 'v', '<->', 'queries') AS vacuumed \gset
CREATE TABLE fresh AS SELECT * FROM t;
CREATE INDEX fresh_idx ON fresh USING grnnd (v);
SELECT recall('fresh', 'v', '<->', 'queries') AS fresh \gset
SELECT :vacuumed >= :fresh - 0.02 AS as_good;

-- and back: no more than a tenth larger than built
INSERT INTO t SELECT * FROM points(1, 6000, 32, 1) WHERE id % 4 <> 0;
SELECT pg_relation_size('t_idx') <= :size * 1.1 AS reused;
SELECT recall('t', 'v', '<->', 'queries') >= 0.95 AS recall;
SELECT * FROM grnnd_check('t_idx', true);

-- over and over
DO $$ BEGIN
	FOR i IN 0 .. 3 LOOP
		DELETE FROM t WHERE id % 4 = i;
		INSERT INTO t SELECT * FROM points(1, 6000, 32, 1) WHERE id % 4 = i;
	END LOOP;
END $$;
VACUUM t;
SELECT recall('t', 'v', '<->', 'queries') >= 0.95 AS recall;
SELECT * FROM grnnd_check('t_idx', true);
SELECT missing('t', 'v', '<->', (SELECT v FROM queries LIMIT 1));

-- little memory: neighbors of the dead are read when they are needed
SET maintenance_work_mem = '1MB';
CREATE TABLE small (LIKE t);
INSERT INTO small SELECT * FROM points(1, 6000, 32, 1);
CREATE INDEX small_idx ON small USING grnnd (v);
DELETE FROM small WHERE id % 4 <> 0;
VACUUM small;
SELECT * FROM grnnd_check('small_idx', true);
SELECT recall('small', 'v', '<->', 'queries') >= :fresh - 0.02 AS as_good;
RESET maintenance_work_mem;

-- without codes, and over several pages a row
CREATE TABLE plain (LIKE t);
INSERT INTO plain SELECT * FROM points(1, 1500, 32, 1);
CREATE INDEX plain_idx ON plain USING grnnd (v) WITH (codes = off);
DELETE FROM plain WHERE id % 4 <> 0;
VACUUM plain;
SELECT * FROM grnnd_check('plain_idx', true);
SELECT recall('plain', 'v', '<->', 'queries') >= 0.95 AS recall;
CREATE TABLE wide (id int, v vector(4000));
INSERT INTO wide SELECT * FROM points(1, 40, 4000, 1);
CREATE INDEX wide_idx ON wide USING grnnd (v);
SELECT pg_relation_size('wide_idx') AS size \gset
DELETE FROM wide WHERE id % 4 <> 0;
VACUUM wide;
INSERT INTO wide SELECT * FROM points(101, 130, 4000, 1);
SELECT pg_relation_size('wide_idx') <= :size * 1.1 AS reused;
SELECT missing('wide', 'v', '<->', (SELECT v FROM wide LIMIT 1));
SELECT * FROM grnnd_check('wide_idx', true);

-- A record a page, so that pages of rows that stay are as they were when vacuum noted their lists: in
-- the end a row could hang on an edge that vacuum had put in the place of another, and then taken.
CREATE FUNCTION spread(i int) RETURNS vector LANGUAGE sql AS $$
	SELECT array_agg(unit(i, j % 12, 1) * (1 + j % 5) + 0.05 * unit(i, 100 + j % 7, 1) ORDER BY j)
	FROM generate_series(0, 1099) j $$;
CREATE TABLE single AS SELECT i AS id, spread(i)::vector(1100) AS v FROM generate_series(1, 2000) i;
CREATE INDEX single_idx ON single USING grnnd (v) WITH (degree = 8);
DELETE FROM single WHERE abs(hashint4(id + 3000000)) % 10 <> 0;
VACUUM single;
SELECT missing('single', 'v', '<->', (SELECT v FROM single LIMIT 1));
SELECT * FROM grnnd_check('single_idx', true);

-- left out, several indexes, in parallel
DELETE FROM fresh WHERE id % 8 = 0;
VACUUM (INDEX_CLEANUP off) fresh;
SELECT missing('fresh', 'v', '<->', (SELECT v FROM queries LIMIT 1));
SELECT * FROM grnnd_check('fresh_idx', true);
SET min_parallel_index_scan_size = 0;
CREATE INDEX fresh_cosine ON fresh USING grnnd ((v::vector(32)) vector_cosine_ops);
DELETE FROM fresh WHERE id % 8 = 4 AND id < 3000;
VACUUM (PARALLEL 2) fresh;
SELECT missing('fresh', 'v', '<->', (SELECT v FROM queries LIMIT 1));
SELECT * FROM grnnd_check('fresh_idx', true);
SELECT * FROM grnnd_check('fresh_cosine', true);

-- counted
SELECT reltuples FROM pg_class WHERE oid = 'fresh_idx'::regclass;

-- nothing to do, nothing changed
VACUUM t;
VACUUM (ANALYZE) t;
SELECT * FROM grnnd_check('t_idx', true);

DROP SCHEMA test_vacuum CASCADE;
