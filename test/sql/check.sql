-- grnnd_check(): whom it answers, and what about.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS grnnd CASCADE;
CREATE SCHEMA test_check;
SET search_path = test_check, public;
SET grnnd.build_device = cpu;
\getenv dir PG_ABS_SRCDIR
\set file :dir '/lib/recall.sql'
\set ECHO none
\i :file
\set ECHO all

CREATE TABLE t (id int PRIMARY KEY, v vector(3));
INSERT INTO t VALUES (1, '[1,2,3]'), (2, NULL), (3, '[4,5,6]');
CREATE INDEX t_idx ON t USING grnnd (v);
SELECT * FROM grnnd_check('t_idx');
SELECT * FROM grnnd_check('t_idx', heapallindexed => true);
SELECT * FROM grnnd_check(NULL);

-- a table without a grnnd index, another kind of index, a partitioned one
DO $$ BEGIN PERFORM grnnd_check('pg_am'); EXCEPTION WHEN wrong_object_type THEN RAISE WARNING '%', SQLERRM; END $$;
DO $$ BEGIN PERFORM grnnd_check('t_pkey'); EXCEPTION WHEN wrong_object_type THEN RAISE WARNING '%', SQLERRM; END $$;
DO $$ BEGIN PERFORM grnnd_check(0); EXCEPTION WHEN wrong_object_type THEN RAISE WARNING '%', SQLERRM; END $$;
CREATE TABLE parts (id int, v vector(3)) PARTITION BY RANGE (id);
CREATE TABLE part1 PARTITION OF parts FOR VALUES FROM (0) TO (100);
INSERT INTO parts SELECT i, array[i, i, i]::vector FROM generate_series(1, 50) i;
CREATE INDEX parts_idx ON parts USING grnnd (v);
SELECT * FROM grnnd_check('parts_idx');
SELECT * FROM grnnd_check('part1_v_idx', true);

-- one whose build has failed
CREATE FUNCTION fails(vector) RETURNS vector IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$;
CREATE INDEX CONCURRENTLY t_failed ON t USING grnnd ((fails(v)::vector(3)));
SELECT * FROM grnnd_check('t_failed');
SELECT grnnd_codes('t_failed');
SELECT grnnd_fit('t_failed');
DROP INDEX t_failed;

-- its owner's, nobody else's
CREATE ROLE grnnd_check_other;
GRANT USAGE ON SCHEMA test_check TO grnnd_check_other;
GRANT SELECT ON t TO grnnd_check_other;
SET ROLE grnnd_check_other;
SELECT * FROM grnnd_check('t_idx');
RESET ROLE;
ALTER TABLE t OWNER TO grnnd_check_other;
SET ROLE grnnd_check_other;
SELECT * FROM grnnd_check('t_idx', true);
RESET ROLE;

-- an index's functions run as its owner, whoever checks it
CREATE FUNCTION same(vector) RETURNS vector IMMUTABLE LANGUAGE sql RETURN $1;
CREATE INDEX t_same ON t USING grnnd ((same(v)::vector(3)));
CREATE OR REPLACE FUNCTION same(vector) RETURNS vector IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
	IF current_user <> 'grnnd_check_other' THEN
		RAISE 'run as %', current_user;
	END IF;
	RETURN $1;
END $$;
SELECT * FROM grnnd_check('t_same', true);
SELECT current_user = session_user AS back, current_setting('search_path') LIKE 'test_check%' AS path;
DROP INDEX t_same;

-- partial and expression indexes: only what belongs into them is missed
CREATE INDEX t_part ON t USING grnnd (v) WHERE id > 2;
SELECT * FROM grnnd_check('t_part', true);
CREATE INDEX t_sub ON t USING grnnd ((subvector(v, 1, 2)::vector(2)));
SELECT * FROM grnnd_check('t_sub', true);

-- a table under change in this very transaction
BEGIN;
INSERT INTO t SELECT i, array[i, 0, 0]::vector FROM generate_series(10, 30) i;
DELETE FROM t WHERE id = 1;
UPDATE t SET v = '[9,9,9]' WHERE id = 3;
SELECT * FROM grnnd_check('t_idx', true);
ROLLBACK;
SELECT * FROM grnnd_check('t_idx', true);

-- rows of bits, too few for codes of what will come, and a filter column
CREATE TABLE wide (v bit(2000), f int);
SELECT setseed(0.4);
INSERT INTO wide SELECT (SELECT string_agg((random() < .5)::int::text, '') FROM generate_series(1, 2000 + 0 * i))::bit(2000), i % 2
	FROM generate_series(1, 400) i;
CREATE INDEX wide_v ON wide USING grnnd (v bit_hamming_ops, f);
SELECT * FROM grnnd_check('wide_v', true);

DROP SCHEMA test_check CASCADE;
DROP ROLE grnnd_check_other;
