-- Every kind of table and index, and every command that rewrites one.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS grnnd_tools CASCADE;
CREATE SCHEMA test_kinds;
SET search_path = test_kinds, public;
SET grnnd.build_device = cpu;
\getenv dir PG_ABS_SRCDIR
\set file :dir '/lib/recall.sql'
\set ECHO none
\i :file
\set ECHO all

SET max_parallel_maintenance_workers = 0;
SELECT v AS q FROM points(100001, 100001, 16, 1) \gset

-- temporary, unlogged, partial, expression
CREATE TEMP TABLE temp_t (id int, v vector(16));
CREATE INDEX temp_idx ON temp_t USING grnnd (v);
INSERT INTO temp_t SELECT * FROM points(1, 300, 16, 1);
DELETE FROM temp_t WHERE id % 3 = 0;
VACUUM temp_t;
SELECT missing('temp_t', 'v', '<->', :'q');
SELECT * FROM grnnd_check('temp_idx', true);
CREATE UNLOGGED TABLE u (id int, v vector(16));
CREATE INDEX u_idx ON u USING grnnd (v);
INSERT INTO u SELECT * FROM points(1, 300, 16, 1);
SELECT missing('u', 'v', '<->', :'q');
ALTER TABLE u SET LOGGED;
INSERT INTO u SELECT * FROM points(301, 400, 16, 1);
SELECT missing('u', 'v', '<->', :'q');
ALTER TABLE u SET UNLOGGED;
SELECT * FROM grnnd_check('u_idx', true);

CREATE TABLE t (id int PRIMARY KEY, kind int, v vector(16));
CREATE INDEX t_part ON t USING grnnd (v) WHERE kind = 1;
CREATE INDEX t_sub ON t USING grnnd ((subvector(v, 1, 8)::vector(8)));
INSERT INTO t SELECT id, id % 3, v FROM points(1, 600, 16, 1);
UPDATE t SET kind = 1 WHERE kind = 2;
SET enable_seqscan = off;
SET enable_sort = off;
SELECT count(*), count(DISTINCT id) FROM (SELECT id FROM t WHERE kind = 1 ORDER BY v <-> :'q' LIMIT 1000) x;
SELECT count(*) FROM (SELECT id FROM t
	ORDER BY subvector(v, 1, 8)::vector(8) <-> subvector(:'q'::vector, 1, 8)::vector(8) LIMIT 1000) x;
RESET enable_seqscan;
RESET enable_sort;
SELECT * FROM grnnd_check('t_part', true);
SELECT * FROM grnnd_check('t_sub', true);

-- a domain, whose type has the dimensions
CREATE DOMAIN place AS vector(16);
CREATE TABLE d (id int, v place);
INSERT INTO d SELECT * FROM points(1, 300, 16, 1);
CREATE INDEX d_idx ON d USING grnnd (v vector_l2_ops);
INSERT INTO d SELECT * FROM points(301, 400, 16, 1);
SELECT missing('d', 'v', '<->', :'q');
SELECT rows, dimensions FROM grnnd_build_estimate('d', 'v');
SELECT * FROM grnnd_check('d_idx', true);

-- while others may write
CREATE INDEX CONCURRENTLY t_idx ON t USING grnnd (v);
SELECT missing('t', 'v', '<->', :'q');
SELECT * FROM grnnd_check('t_idx', true);
REINDEX INDEX CONCURRENTLY t_idx;
SELECT missing('t', 'v', '<->', :'q');
SELECT * FROM grnnd_check('t_idx', true);
REINDEX TABLE t;

-- rewritten
DELETE FROM t WHERE id % 5 = 0;
VACUUM FULL t;
SELECT missing('t', 'v', '<->', :'q');
SELECT * FROM grnnd_check('t_idx', true);
CLUSTER t USING t_pkey;
SELECT missing('t', 'v', '<->', :'q');
SET allow_in_place_tablespaces = on;
CREATE TABLESPACE grnnd_kinds LOCATION '';
ALTER INDEX t_idx SET TABLESPACE grnnd_kinds;
SELECT missing('t', 'v', '<->', :'q');
INSERT INTO t SELECT id, 1, v FROM points(1001, 1100, 16, 1);
SELECT missing('t', 'v', '<->', :'q');
SELECT * FROM grnnd_check('t_idx', true);
ALTER INDEX t_idx SET TABLESPACE pg_default;
DROP TABLESPACE grnnd_kinds;
TRUNCATE t;
SELECT missing('t', 'v', '<->', :'q');
INSERT INTO t SELECT id, 1, v FROM points(1, 100, 16, 1);
SELECT missing('t', 'v', '<->', :'q');
SELECT * FROM grnnd_check('t_idx', true);
BEGIN;
TRUNCATE t;
INSERT INTO t SELECT id, 1, v FROM points(201, 220, 16, 1);
SELECT missing('t', 'v', '<->', :'q');
ROLLBACK;
SELECT missing('t', 'v', '<->', :'q');
-- made and filled in one transaction
BEGIN;
CREATE TABLE quick (id int, v vector(16));
CREATE INDEX quick_idx ON quick USING grnnd (v);
INSERT INTO quick SELECT * FROM points(1, 200, 16, 1);
COMMIT;
SELECT missing('quick', 'v', '<->', :'q');
SELECT * FROM grnnd_check('quick_idx', true);
ALTER TABLE quick ALTER v TYPE vector(16) USING v * v;
SELECT missing('quick', 'v', '<->', :'q');

-- partitions
CREATE TABLE p (id int, v vector(16)) PARTITION BY RANGE (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (1) TO (200);
CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (200) TO (1000);
CREATE INDEX p_idx ON p USING grnnd (v);
INSERT INTO p SELECT * FROM points(1, 400, 16, 1);
CREATE TABLE p3 PARTITION OF p FOR VALUES FROM (1000) TO (2000);
INSERT INTO p SELECT * FROM points(1001, 1100, 16, 1);
UPDATE p SET id = id + 300 WHERE id < 50;
SET enable_seqscan = off;
SET enable_sort = off;
SELECT count(*), count(DISTINCT id) FROM (SELECT id FROM p ORDER BY v <-> :'q' LIMIT 1000) x;
RESET enable_seqscan;
RESET enable_sort;
SELECT count(*) FROM pg_partition_tree('p_idx') i, grnnd_check(i.relid, true) WHERE i.isleaf;

-- an index of the whole is put together from indexes of the parts
CREATE TABLE parts (id int, v vector(16)) PARTITION BY LIST ((id % 2));
CREATE TABLE even PARTITION OF parts FOR VALUES IN (0);
CREATE TABLE odd (id int, v vector(16));
INSERT INTO odd SELECT * FROM points(1, 200, 16, 1) WHERE id % 2 = 1;
CREATE INDEX parts_idx ON ONLY parts USING grnnd (v);
CREATE INDEX even_idx ON even USING grnnd (v);
CREATE INDEX odd_idx ON odd USING grnnd (v) WITH (degree = 16);
ALTER INDEX parts_idx ATTACH PARTITION even_idx;
ALTER TABLE parts ATTACH PARTITION odd FOR VALUES IN (1);
INSERT INTO parts SELECT * FROM points(201, 300, 16, 1);
SELECT relid, isleaf FROM pg_partition_tree('parts_idx') ORDER BY relid::text;
SELECT indisvalid FROM pg_index WHERE indexrelid = 'parts_idx'::regclass;
SELECT missing('odd', 'v', '<->', :'q');
SELECT missing('even', 'v', '<->', :'q');
ALTER TABLE parts DETACH PARTITION odd;
INSERT INTO odd SELECT * FROM points(301, 350, 16, 1);
SELECT missing('odd', 'v', '<->', :'q');
SELECT * FROM grnnd_check('odd_idx', true);

-- emptied at the end of each transaction, and in the one that made it
CREATE TEMP TABLE fleeting (id int, v vector(16)) ON COMMIT DELETE ROWS;
CREATE INDEX fleeting_idx ON fleeting USING grnnd (v);
BEGIN;
INSERT INTO fleeting SELECT * FROM points(1, 100, 16, 1);
SELECT missing('fleeting', 'v', '<->', :'q');
COMMIT;
BEGIN;
INSERT INTO fleeting SELECT * FROM points(101, 150, 16, 1);
SELECT count(*), missing('fleeting', 'v', '<->', :'q') FROM fleeting;
SELECT * FROM grnnd_check('fleeting_idx', true);
COMMIT;
BEGIN;
CREATE TABLE again (id int PRIMARY KEY, v vector(16));
CREATE INDEX again_idx ON again USING grnnd (v);
INSERT INTO again SELECT * FROM points(1, 100, 16, 1);
TRUNCATE again;
INSERT INTO again SELECT * FROM points(101, 150, 16, 1);
COMMIT;
SELECT count(*), missing('again', 'v', '<->', :'q') FROM again;
SELECT * FROM grnnd_check('again_idx', true);

-- speculative inserts that lose, MERGE, COPY
INSERT INTO again SELECT * FROM points(140, 200, 16, 1) ON CONFLICT DO NOTHING;
INSERT INTO again SELECT id - 1000, v FROM points(1101, 1250, 16, 1)
	ON CONFLICT (id) DO UPDATE SET v = excluded.v WHERE excluded.id % 2 = 0;
MERGE INTO again USING points(171, 260, 16, 1) p ON again.id = p.id
	WHEN MATCHED AND p.id % 3 = 0 THEN DELETE
	WHEN MATCHED THEN UPDATE SET v = p.v
	WHEN NOT MATCHED THEN INSERT VALUES (p.id, p.v);
SELECT count(*), missing('again', 'v', '<->', :'q') FROM again;
VACUUM again;
SELECT * FROM grnnd_check('again_idx', true);
BEGIN;
TRUNCATE again;
COPY again FROM stdin (FREEZE);
1	[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]
2	[2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2]
3	[2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2]
\.
COMMIT;
SELECT count(*), missing('again', 'v', '<->', :'q') FROM again;
SELECT * FROM grnnd_check('again_idx', true);
DROP INDEX CONCURRENTLY again_idx;

-- inherited by LIKE
CREATE TABLE copy (LIKE t INCLUDING ALL);
INSERT INTO copy SELECT * FROM t;
SELECT missing('copy', 'v', '<->', :'q');

DROP SCHEMA test_kinds CASCADE;
