-- Codes that do not tell neighbors apart: left out by a build, not looked at once an
-- index has grown into such data.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS grnnd CASCADE;
CREATE SCHEMA test_codes;
SET search_path = test_codes, public;
SET grnnd.build_device = cpu;
\getenv dir PG_ABS_SRCDIR
\set file :dir '/lib/recall.sql'
\set ECHO none
\i :file
\set ECHO all
SET max_parallel_maintenance_workers = 0;
-- by VACUUM alone, so that it is known when
SET grnnd.background_fit = off;

-- places in 30 towns, far apart
CREATE TABLE town (id int, v vector(2));
INSERT INTO town SELECT i, array[(i % 30) * 37 % 180 - 90 + 0.1 * unit(i, 1, 1),
	(i % 30) * 71 % 360 - 180 + 0.1 * unit(i, 2, 1)]::vector FROM generate_series(1, 4000) i;
CREATE TABLE queries AS SELECT id, v FROM town WHERE id % 150 = 7;
CREATE INDEX town_idx ON town USING grnnd (v);
SELECT recall('town', 'v', '<->', 'queries') > 0.99;
CREATE INDEX town_off ON town USING grnnd (v) WITH (codes = off);
SELECT pg_relation_size('town_idx') = pg_relation_size('town_off');
-- codes serve usual data
CREATE TABLE p AS SELECT * FROM points(1, 2000, 16, 1);
ALTER TABLE p ALTER v TYPE vector(16);
CREATE INDEX p_idx ON p USING grnnd (v);
CREATE INDEX p_off ON p USING grnnd (v) WITH (codes = off);
SELECT pg_relation_size('p_idx') > pg_relation_size('p_off');
DROP INDEX town_off, p_off;

-- row by row: fitted to the first few places, which lie in different towns
CREATE TABLE grown (LIKE town);
CREATE INDEX grown_idx ON grown USING grnnd (v);
INSERT INTO grown SELECT * FROM town WHERE id <= 2000;
SELECT state, due, failed_attempts FROM grnnd_codes('grown_idx');
VACUUM grown;
SELECT state, due, failed_attempts FROM grnnd_codes('grown_idx');
INSERT INTO grown SELECT * FROM town WHERE id > 2000;
VACUUM grown;
SELECT recall('grown', 'v', '<->', 'queries') > 0.99;
SELECT * FROM grnnd_check('grown_idx', true);
DELETE FROM grown WHERE id % 3 = 0;
VACUUM grown;
INSERT INTO grown SELECT * FROM town WHERE id % 3 = 0;
SELECT recall('grown', 'v', '<->', 'queries') > 0.99;
SELECT * FROM grnnd_check('grown_idx', true);

-- rows far from those that the codec was fitted to
SELECT state, due, failed_attempts FROM grnnd_codes('p_idx');
INSERT INTO p SELECT id, (v + array_fill(1000, ARRAY[16])::vector)::vector(16) FROM points(2001, 2600, 16, 2);
SELECT state, due, failed_attempts FROM grnnd_codes('p_idx');
VACUUM p;
SELECT state, due, failed_attempts FROM grnnd_codes('p_idx');
INSERT INTO p SELECT id, (v + array_fill(1000, ARRAY[16])::vector)::vector(16) FROM points(2601, 4000, 16, 2);
CREATE TABLE far AS SELECT id, v FROM p WHERE id > 2000 AND id % 50 = 0;
CREATE TABLE near AS SELECT id, v FROM p WHERE id < 2000 AND id % 50 = 0;
SELECT recall('p', 'v', '<->', 'near') > 0.99, recall('p', 'v', '<->', 'far') > 0.5;
SELECT * FROM grnnd_check('p_idx', true);
REINDEX INDEX p_idx;
SELECT recall('p', 'v', '<->', 'near') > 0.99, recall('p', 'v', '<->', 'far') > 0.99;
SELECT * FROM grnnd_check('p_idx', true);

-- fitted by hand, by its owner alone
CREATE TABLE hand (id int, v vector(16));
CREATE INDEX hand_idx ON hand USING grnnd (v);
INSERT INTO hand SELECT * FROM points(1, 60, 16, 1);
SELECT grnnd_fit('hand_idx');
SELECT state, due, failed_attempts FROM grnnd_codes('hand_idx');
INSERT INTO hand SELECT * FROM points(61, 400, 16, 1);
SELECT state, due, failed_attempts FROM grnnd_codes('hand_idx');
CREATE ROLE grnnd_nobody;
GRANT USAGE ON SCHEMA test_codes TO grnnd_nobody;
SET ROLE grnnd_nobody;
SELECT grnnd_fit('hand_idx');
SELECT grnnd_codes('hand_idx');
RESET ROLE;
SELECT grnnd_fit('hand_idx');
SELECT state, due, failed_attempts FROM grnnd_codes('hand_idx');
SELECT * FROM grnnd_check('hand_idx', true);
SELECT grnnd_fit('hand'), grnnd_codes('hand');
CREATE INDEX hand_id ON hand (id);
SELECT grnnd_fit('hand_id');
SELECT grnnd_codes('hand_id');
SELECT state, due FROM grnnd_codes('town_idx');
-- two indexes in a parallel vacuum
CREATE TABLE two (LIKE hand);
CREATE INDEX two_l2 ON two USING grnnd (v);
CREATE INDEX two_ip ON two USING grnnd (v vector_ip_ops);
INSERT INTO two SELECT * FROM hand;
DELETE FROM two WHERE id % 3 = 0;
SET min_parallel_index_scan_size = 0;
SET max_parallel_maintenance_workers = 2;
VACUUM (PARALLEL 2, INDEX_CLEANUP) two;
SELECT state, due, failed_attempts FROM grnnd_codes('two_l2');
SELECT state, due, failed_attempts FROM grnnd_codes('two_ip');
SELECT * FROM grnnd_check('two_l2', true);
SELECT * FROM grnnd_check('two_ip', true);
-- a temporary table is its session's alone: no worker can fit it
CREATE TEMP TABLE own (LIKE hand);
CREATE INDEX own_idx ON own USING grnnd (v);
SET grnnd.background_fit = on;
INSERT INTO own SELECT * FROM hand;
SELECT state, due, failed_attempts FROM grnnd_codes('own_idx');
VACUUM own;
SELECT state, due, failed_attempts FROM grnnd_codes('own_idx');
SELECT * FROM grnnd_check('own_idx', true);
-- nor one that this transaction has made
BEGIN;
CREATE TABLE young (LIKE hand);
CREATE INDEX young_idx ON young USING grnnd (v);
INSERT INTO young SELECT * FROM hand;
SELECT state, due, failed_attempts FROM grnnd_codes('young_idx');
SELECT grnnd_fit('young_idx');
SELECT state, due, failed_attempts FROM grnnd_codes('young_idx');
SELECT * FROM grnnd_check('young_idx', true);
COMMIT;
-- rows of sizes whose ratio is no float
CREATE TABLE sizes AS SELECT id, (v * array_fill(CASE WHEN id % 4 = 0 THEN 1e-19 ELSE 1e17 END, ARRAY[3])::vector)::vector(3) AS v
	FROM points(1, 400, 3, 1);
CREATE INDEX sizes_idx ON sizes USING grnnd (v);
SELECT count(*) FROM grnnd_check('sizes_idx', true);

DROP SCHEMA test_codes CASCADE;
DROP ROLE grnnd_nobody;
