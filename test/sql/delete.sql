-- Deletes: rows vanish at once, also from an index that loses all of them.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS grnnd CASCADE;
CREATE SCHEMA test_delete;
SET search_path = test_delete, public;
SET grnnd.build_device = cpu;
\getenv dir PG_ABS_SRCDIR
\set file :dir '/lib/recall.sql'
\set ECHO none
\i :file
\set ECHO all

CREATE TABLE queries AS SELECT * FROM points(100001, 100030, 32, 1);
CREATE TABLE t (id int PRIMARY KEY, v vector(32));
INSERT INTO t SELECT * FROM points(1, 1500, 32, 1);
CREATE INDEX t_idx ON t USING grnnd (v);

DELETE FROM t WHERE id % 3 = 0;
SET enable_seqscan = off;
SELECT count(*) AS deleted_seen FROM (SELECT id FROM t ORDER BY v <-> (SELECT v FROM queries LIMIT 1) LIMIT 900) x
	WHERE id % 3 = 0;
RESET enable_seqscan;
SELECT missing('t', 'v', '<->', (SELECT v FROM queries LIMIT 1));
SELECT * FROM grnnd_check('t_idx', true);
VACUUM t;
SELECT missing('t', 'v', '<->', (SELECT v FROM queries LIMIT 1));
SELECT * FROM grnnd_check('t_idx', true);

-- the neighborhood of one query
DELETE FROM t WHERE id IN (SELECT id FROM t ORDER BY v <-> (SELECT v FROM queries LIMIT 1) LIMIT 500);
VACUUM t;
SELECT recall('t', 'v', '<->', 'queries') >= 0.95 AS recall;
SELECT * FROM grnnd_check('t_idx', true);

-- all, and again; the entry points go with them
DELETE FROM t;
SELECT missing('t', 'v', '<->', (SELECT v FROM queries LIMIT 1));
INSERT INTO t SELECT * FROM points(1, 10, 32, 1);
SELECT missing('t', 'v', '<->', (SELECT v FROM queries LIMIT 1));
VACUUM t;
SELECT missing('t', 'v', '<->', (SELECT v FROM queries LIMIT 1));
SELECT * FROM grnnd_check('t_idx', true);
DELETE FROM t;
VACUUM t;
SELECT missing('t', 'v', '<->', (SELECT v FROM queries LIMIT 1));
SELECT * FROM grnnd_check('t_idx', true);
SELECT pg_relation_size('t_idx') AS size \gset
INSERT INTO t SELECT * FROM points(1, 1500, 32, 1);
SELECT recall('t', 'v', '<->', 'queries') >= 0.95 AS recall;
SELECT missing('t', 'v', '<->', (SELECT v FROM queries LIMIT 1));
SELECT * FROM grnnd_check('t_idx', true);
SELECT pg_relation_size('t_idx') <= :size * 1.1 AS reused;

-- row by row, with a vacuum each
CREATE TABLE s (id int, v vector(2));
CREATE INDEX s_idx ON s USING grnnd (v);
INSERT INTO s VALUES (1, '[1,1]'), (2, '[2,2]'), (3, '[3,3]');
DELETE FROM s WHERE id = 1;
VACUUM s;
SELECT * FROM grnnd_check('s_idx', true);
DELETE FROM s WHERE id = 3;
VACUUM s;
SELECT * FROM grnnd_check('s_idx', true);
SET enable_seqscan = off;
SELECT id FROM s ORDER BY v <-> '[0,0]' LIMIT 5;
DELETE FROM s;
VACUUM s;
SELECT id FROM s ORDER BY v <-> '[0,0]' LIMIT 5;
INSERT INTO s VALUES (4, '[4,4]');
SELECT id FROM s ORDER BY v <-> '[0,0]' LIMIT 5;
SELECT * FROM grnnd_check('s_idx', true);

DROP SCHEMA test_delete CASCADE;
