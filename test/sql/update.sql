-- Updates: the same vector with a new TID, a new vector, to and from NULL.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS grnnd CASCADE;
CREATE SCHEMA test_update;
SET search_path = test_update, public;
SET grnnd.build_device = cpu;
\getenv dir PG_ABS_SRCDIR
\set file :dir '/lib/recall.sql'
\set ECHO none
\i :file
\set ECHO all

CREATE TABLE queries AS SELECT * FROM points(100001, 100050, 32, 1);
CREATE TABLE t (id int PRIMARY KEY, n int, v vector(32));
INSERT INTO t SELECT id, 0, v FROM points(1, 2000, 32, 1);
CREATE INDEX t_idx ON t USING grnnd (v);
-- makes updates of n bring new TIDs to every index
CREATE INDEX t_n ON t (n);

-- the vector stays: no node is added, so the file hardly grows
SELECT pg_relation_size('t_idx') AS size \gset
UPDATE t SET n = 1;
UPDATE t SET n = 2 WHERE id % 2 = 0;
SELECT pg_relation_size('t_idx') <= :size * 1.5 AS small;
SELECT missing('t', 'v', '<->', (SELECT v FROM queries LIMIT 1));
SELECT recall('t', 'v', '<->', 'queries') >= 0.95 AS recall;
SELECT * FROM grnnd_check('t_idx', true);
VACUUM t;
SELECT * FROM grnnd_check('t_idx', true);
SELECT pg_relation_size('t_idx') AS size \gset
UPDATE t SET n = 3;
VACUUM t;
UPDATE t SET n = 4;
VACUUM t;
UPDATE t SET n = 5;
SELECT pg_relation_size('t_idx') = :size AS same_size;
SELECT missing('t', 'v', '<->', (SELECT v FROM queries LIMIT 1));

-- the vector changes, and back
UPDATE t SET v = p.v FROM points(10001, 12000, 32, 1) p WHERE p.id = t.id + 10000;
SELECT missing('t', 'v', '<->', (SELECT v FROM queries LIMIT 1));
SELECT recall('t', 'v', '<->', 'queries') >= 0.95 AS recall;
VACUUM t;
SELECT * FROM grnnd_check('t_idx', true);
UPDATE t SET v = p.v FROM points(1, 2000, 32, 1) p WHERE p.id = t.id;
SELECT recall('t', 'v', '<->', 'queries') >= 0.95 AS recall;
SELECT * FROM grnnd_check('t_idx', true);

-- to NULL and back
UPDATE t SET v = NULL WHERE id <= 100;
SELECT missing('t', 'v', '<->', (SELECT v FROM queries LIMIT 1));
UPDATE t SET v = p.v FROM points(1, 100, 32, 1) p WHERE p.id = t.id;
VACUUM t;
SELECT missing('t', 'v', '<->', (SELECT v FROM queries LIMIT 1));
SELECT * FROM grnnd_check('t_idx', true);

-- a rolled back update leaves the old row
BEGIN;
UPDATE t SET v = (SELECT v FROM queries LIMIT 1) WHERE id = 7;
SET LOCAL enable_seqscan = off;
SELECT id FROM t ORDER BY v <-> (SELECT v FROM queries LIMIT 1) LIMIT 1;
ROLLBACK;
SELECT v <-> (SELECT v FROM points(7, 7, 32, 1)) AS moved FROM t WHERE id = 7;
SELECT missing('t', 'v', '<->', (SELECT v FROM queries LIMIT 1));

-- one row, many versions
CREATE TABLE one (id int, n int, v vector(3));
CREATE INDEX one_idx ON one USING grnnd (v);
CREATE INDEX one_n ON one (n);
INSERT INTO one VALUES (1, 0, '[1,2,3]');
DO $$ BEGIN FOR i IN 1 .. 500 LOOP UPDATE one SET n = i; END LOOP; END $$;
SELECT missing('one', 'v', '<->', '[0,0,0]');
SELECT * FROM grnnd_check('one_idx', true);
VACUUM one;
SELECT * FROM grnnd_check('one_idx', true);

-- values of filter columns change, often enough between vacuums for a record that takes any: lists
-- lose the rows for values that a record has no more
CREATE TABLE status (id int, s int, tags int[], v vector(16));
INSERT INTO status SELECT id, id % 3, ARRAY[id % 4, 100], v FROM points(1, 300, 16, 1);
CREATE INDEX status_idx ON status USING grnnd (v, s, tags);
CREATE FUNCTION by_index(condition text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	query text := format('SELECT count(*) FROM (SELECT FROM status WHERE %s AND v <-> array_fill(0, ARRAY[16])::vector < 1000
		ORDER BY v <-> array_fill(0, ARRAY[16])::vector LIMIT 10000) q', condition);
	by_table bigint;
	by_index bigint;
BEGIN
	SET LOCAL enable_indexscan = off;
	EXECUTE query INTO by_table;
	SET LOCAL enable_indexscan = on;
	SET LOCAL enable_seqscan = off;
	EXECUTE query INTO by_index;
	RETURN CASE WHEN by_index = by_table THEN 'complete' ELSE format('%s of %s', by_index, by_table) END;
END $$;
CREATE TABLE sizes (round int, filters bigint);
\set ECHO none
SELECT CASE step
	WHEN 4 THEN 'VACUUM status'
	WHEN 5 THEN format('INSERT INTO sizes SELECT %s, (bytes_by_part ->> ''filters'')::bigint FROM grnnd_stats(''status_idx'', true)', round)
	ELSE format('UPDATE status SET s = (id + %1$s) %% 23, tags = ARRAY[(id + %1$s) %% 29, 100, 1000 + (id * 7 + %1$s) %% 31]', 3 * round + step) END
FROM generate_series(1, 10) round, generate_series(1, 5) step ORDER BY round, step
\gexec
\set ECHO all
SELECT CASE WHEN max(filters) FILTER (WHERE round > 8) <= 1.2 * max(filters) FILTER (WHERE round IN (3, 4)) THEN 'level'
	ELSE array_agg(filters ORDER BY round)::text END FROM sizes;
SELECT c, by_index(c) FROM unnest(ARRAY['s = 7', 's = 22', 'tags @> ARRAY[5]', 'tags @> ARRAY[1003]', 'tags && ARRAY[28, 1030]']) c;
SELECT count(*) FROM grnnd_check('status_idx', true);

DROP SCHEMA test_update CASCADE;
