-- Identical vectors share a record, and never hide other rows.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS grnnd CASCADE;
CREATE SCHEMA test_duplicates;
SET search_path = test_duplicates, public;
SET grnnd.build_device = cpu;
\getenv dir PG_ABS_SRCDIR
\set file :dir '/lib/recall.sql'
\set ECHO none
\i :file
\set ECHO all

CREATE TABLE queries AS SELECT * FROM points(100001, 100030, 16, 1);
CREATE TABLE t (id serial PRIMARY KEY, v vector(16));
INSERT INTO t (v) SELECT v FROM points(1, 1000, 16, 1);
CREATE INDEX t_idx ON t USING grnnd (v);
SELECT pg_relation_size('t_idx') AS size \gset

-- 10,000 equal rows come to an index
INSERT INTO t (v) SELECT v FROM points(1, 1, 16, 1), generate_series(1, 10000);
SELECT pg_relation_size('t_idx') < :size + 10000 * 12 + 65536 AS small;
SELECT missing('t', 'v', '<->', (SELECT v FROM queries LIMIT 1));
SELECT missing('t', 'v', '<->', (SELECT v FROM points(1, 1, 16, 1)));
SELECT recall('t', 'v', '<->', 'queries') >= 0.95 AS recall;
SELECT * FROM grnnd_check('t_idx', true);

-- some go, then all, then some come back
DELETE FROM t WHERE id % 2 = 0 AND id > 1000;
VACUUM t;
SELECT missing('t', 'v', '<->', (SELECT v FROM queries LIMIT 1));
SELECT * FROM grnnd_check('t_idx', true);
INSERT INTO t (v) SELECT v FROM points(1, 1, 16, 1), generate_series(1, 300);
DELETE FROM t WHERE id > 1000 AND id < 10000;
VACUUM t;
SELECT missing('t', 'v', '<->', (SELECT v FROM queries LIMIT 1));
SELECT * FROM grnnd_check('t_idx', true);
DELETE FROM t WHERE id > 1000 OR id = 1;
VACUUM t;
SELECT missing('t', 'v', '<->', (SELECT v FROM points(1, 1, 16, 1)));
SELECT * FROM grnnd_check('t_idx', true);
INSERT INTO t (v) SELECT v FROM points(1, 1, 16, 1), generate_series(1, 3000);
SELECT missing('t', 'v', '<->', (SELECT v FROM points(1, 1, 16, 1)));
SELECT recall('t', 'v', '<->', 'queries') >= 0.95 AS recall;
SELECT * FROM grnnd_check('t_idx', true);

-- the same by a build
REINDEX INDEX t_idx;
SELECT missing('t', 'v', '<->', (SELECT v FROM points(1, 1, 16, 1)));
SELECT * FROM grnnd_check('t_idx', true);
DELETE FROM t WHERE id > 11000;
VACUUM t;
SELECT * FROM grnnd_check('t_idx', true);

-- nothing but one vector
CREATE TABLE same (id serial, v vector(16));
CREATE INDEX same_idx ON same USING grnnd (v);
INSERT INTO same (v) SELECT v FROM points(1, 1, 16, 1), generate_series(1, 5000);
SELECT missing('same', 'v', '<->', (SELECT v FROM points(2, 2, 16, 1)));
SELECT * FROM grnnd_check('same_idx', true);
DELETE FROM same WHERE id <= 4999;
VACUUM same;
SELECT missing('same', 'v', '<->', (SELECT v FROM points(2, 2, 16, 1)));
SELECT * FROM grnnd_check('same_idx', true);

-- vectors that become equal only when they are stored rounded
CREATE TABLE bytes (id serial, v vector(16));
INSERT INTO bytes (v) SELECT array_agg((unit(i, j, 1) * 255)::int)::vector
	FROM generate_series(1, 300) i, generate_series(1, 16) j GROUP BY i;
CREATE INDEX bytes_idx ON bytes USING grnnd (v);
INSERT INTO bytes (v) SELECT ('[' || repeat(value || ',', 15) || value || ']')::vector
	FROM (SELECT 7.25 + 0.25 * (i % 2) AS value FROM generate_series(1, 2000) i) x;
SELECT missing('bytes', 'v', '<->', (SELECT v FROM bytes WHERE id = 1));
SET enable_seqscan = off;
SELECT count(*) AS exact FROM (SELECT id FROM bytes
	ORDER BY v <-> ('[' || repeat('7.5,', 15) || '7.5]')::vector LIMIT 1000) x
	WHERE id > 300 AND (id - 300) % 2 = 1;
RESET enable_seqscan;
SELECT * FROM grnnd_check('bytes_idx', true);

DROP SCHEMA test_duplicates CASCADE;
