-- Rows that are dead to every transaction are looked up once, and then marked in the index:
-- later scans do not ask the table for them.  No row that lives is ever lost by it.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS grnnd CASCADE;
CREATE SCHEMA test_killed;
SET search_path = test_killed, public;
SET grnnd.build_device = cpu;
SET grnnd.ef_search = 100;
\getenv dir PG_ABS_SRCDIR
\set file :dir '/lib/recall.sql'
\set ECHO none
\i :file
\set ECHO all

CREATE TABLE queries AS SELECT * FROM points(100001, 100010, 16, 1);

-- heap TIDs that the index returns for one query
CREATE FUNCTION tids(name text, n int) RETURNS bigint LANGUAGE plpgsql
SET enable_seqscan = off SET enable_sort = off AS $$
DECLARE
	before bigint := pg_stat_get_xact_tuples_returned((name || '_idx')::regclass);
BEGIN
	EXECUTE format('SELECT id FROM %I ORDER BY v <-> (SELECT v FROM queries LIMIT 1) LIMIT %s', name, n);
	RETURN pg_stat_get_xact_tuples_returned((name || '_idx')::regclass) - before;
END $$;

-- Another session's snapshot (of autovacuum, say) may keep rows for a while.  Says how many
-- TIDs the query takes in the end, and whether it is that many.
CREATE PROCEDURE becomes(name text, n int, expected bigint) LANGUAGE plpgsql AS $$
DECLARE
	now bigint;
BEGIN
	FOR i IN 1 .. 600 LOOP
		now := tids(name, n);
		EXIT WHEN now = expected;
		COMMIT;
		PERFORM pg_sleep(0.1);
	END LOOP;
	RAISE WARNING '%: % TIDs for % rows', name, now, n;
END $$;

CREATE TABLE t (id int, v vector(16)) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT * FROM points(1, 1000, 16, 1);
CREATE INDEX t_idx ON t USING grnnd (v);
CREATE TABLE plain (LIKE t) WITH (autovacuum_enabled = off);
INSERT INTO plain SELECT * FROM t;
CREATE INDEX plain_idx ON plain USING grnnd (v) WITH (codes = off);
CREATE TABLE wide (id int, v vector(2100)) WITH (autovacuum_enabled = off);
INSERT INTO wide SELECT * FROM points(1, 200, 2100, 1);
CREATE INDEX wide_idx ON wide USING grnnd (v) WITH (layout = exact);

-- by the search, and by what a scan reads last
DELETE FROM t WHERE id % 10 <> 0;
CALL becomes('t', 100, 100);
CALL becomes('t', 1000, 100);
SELECT * FROM grnnd_check('t_idx', true);
SELECT missing('t', 'v', '<->', (SELECT v FROM queries LIMIT 1));
SELECT recall('t', 'v', '<->', 'queries') >= 0.95 AS recall;
DELETE FROM plain WHERE id % 10 <> 0;
CALL becomes('plain', 100, 100);
SELECT * FROM grnnd_check('plain_idx', true);
SELECT missing('plain', 'v', '<->', (SELECT v FROM queries LIMIT 1));

-- a row that comes to a marked record is found, and so are the others
INSERT INTO t SELECT id + 10000, v FROM points(1, 1000, 16, 1);
SELECT missing('t', 'v', '<->', (SELECT v FROM queries LIMIT 1));
SELECT count(*) FROM t;
SELECT * FROM grnnd_check('t_idx', true);

-- all are dead
DELETE FROM t;
CALL becomes('t', 1000, 0);
SELECT * FROM grnnd_check('t_idx', true);
INSERT INTO t SELECT * FROM points(2001, 2100, 16, 1);
CALL becomes('t', 1000, 100);
SELECT missing('t', 'v', '<->', (SELECT v FROM queries LIMIT 1));

-- vacuum takes them, and others use their TIDs
VACUUM t;
INSERT INTO t SELECT * FROM points(1, 1000, 16, 1);
SELECT missing('t', 'v', '<->', (SELECT v FROM queries LIMIT 1));
SELECT recall('t', 'v', '<->', 'queries') >= 0.95 AS recall;
SELECT * FROM grnnd_check('t_idx', true);

-- updates: each row gets a new vector again and again
DO $$
BEGIN
	FOR i IN 1 .. 5 LOOP
		UPDATE plain SET v = (SELECT p.v FROM points(5000 * i + plain.id, 5000 * i + plain.id, 16, 1) p);
	END LOOP;
END $$;
CALL becomes('plain', 100, 100);
SELECT missing('plain', 'v', '<->', (SELECT v FROM queries LIMIT 1));
SELECT * FROM grnnd_check('plain_idx', true);

-- rows that were rolled back
BEGIN;
INSERT INTO plain SELECT id, v FROM points(90001, 90200, 16, 1);
ROLLBACK;
CALL becomes('plain', 100, 100);

-- equal rows: records of TIDs are marked one by one
CREATE TABLE equal (id int, v vector(16)) WITH (autovacuum_enabled = off);
INSERT INTO equal SELECT i, p.v FROM points(1, 1, 16, 1) p, generate_series(1, 3000) i;
INSERT INTO equal SELECT * FROM points(3001, 3100, 16, 1);
CREATE INDEX equal_idx ON equal USING grnnd (v);
DELETE FROM equal WHERE id BETWEEN 2 AND 2990;
-- the records that hold what is left have some dead ones, too
DO $$
BEGIN
	FOR i IN 1 .. 600 LOOP
		EXIT WHEN tids('equal', 4000) < 700;
		PERFORM pg_sleep(0.1);
	END LOOP;
END $$;
SELECT tids('equal', 4000) < 700 AS few, tids('equal', 4000) > 111 AS some;
SELECT missing('equal', 'v', '<->', (SELECT v FROM queries LIMIT 1));
SELECT * FROM grnnd_check('equal_idx', true);
DELETE FROM equal WHERE id <= 3000;
CALL becomes('equal', 4000, 100);
INSERT INTO equal SELECT i, p.v FROM points(1, 1, 16, 1) p, generate_series(1, 50) i;
SELECT missing('equal', 'v', '<->', (SELECT v FROM queries LIMIT 1));
SELECT * FROM grnnd_check('equal_idx', true);

-- records that span pages
TRUNCATE queries;
ALTER TABLE queries ALTER v TYPE vector(2100);
INSERT INTO queries SELECT * FROM points(100001, 100010, 2100, 1);
DELETE FROM wide WHERE id % 4 <> 0;
CALL becomes('wide', 50, 50);
INSERT INTO wide SELECT id + 1000, v FROM points(1, 10, 2100, 1);
SELECT missing('wide', 'v', '<->', (SELECT v FROM queries LIMIT 1));
SELECT * FROM grnnd_check('wide_idx', true);

-- unlogged and temporary: pages would not show a change, so nothing is marked
CREATE UNLOGGED TABLE quick (id int, v vector(2100)) WITH (autovacuum_enabled = off);
CREATE TEMP TABLE own (id int, v vector(2100));
INSERT INTO quick SELECT * FROM points(1, 100, 2100, 1);
INSERT INTO own SELECT * FROM quick;
CREATE INDEX quick_idx ON quick USING grnnd (v) WITH (layout = exact);
CREATE INDEX own_idx ON own USING grnnd (v) WITH (layout = exact);
DELETE FROM quick WHERE id > 10;
DELETE FROM own WHERE id > 10;
SELECT tids('quick', 10) > 10 AS quick, tids('own', 10) > 10 AS own;
SELECT tids('quick', 10) > 10 AS quick, tids('own', 10) > 10 AS own;
SELECT * FROM grnnd_check('quick_idx', true);

-- rounded rows: the scan itself reads the table, and so meets dead ones
CREATE FUNCTION pages(name text) RETURNS bigint LANGUAGE plpgsql
SET enable_seqscan = off SET enable_sort = off AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE format('EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON)
		SELECT id FROM %I ORDER BY v <-> (SELECT v FROM queries LIMIT 1) LIMIT 20', name) INTO plan;
	RETURN (plan -> 0 -> 'Plan' ->> 'Shared Hit Blocks')::int + (plan -> 0 -> 'Plan' ->> 'Shared Read Blocks')::int;
END $$;
TRUNCATE queries;
ALTER TABLE queries ALTER v TYPE vector(128);
INSERT INTO queries SELECT * FROM points(100001, 100010, 128, 1);
CREATE TABLE rounded (id int, v vector(128)) WITH (autovacuum_enabled = off);
INSERT INTO rounded SELECT * FROM points(1, 2000, 128, 1);
CREATE INDEX rounded_idx ON rounded USING grnnd (v);
DELETE FROM rounded WHERE id % 10 <> 0;
SELECT pages('rounded') AS first \gset
CREATE PROCEDURE falls(name text, below float8) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. 600 LOOP
		EXIT WHEN pages(name) < below;
		COMMIT;
		PERFORM pg_sleep(0.1);
	END LOOP;
	RAISE WARNING '%: few pages: %', name, pages(name) < below;
END $$;
-- less one page a dead row that was met: about a fifth
CALL falls('rounded', 0.88 * :first);
SELECT missing('rounded', 'v', '<->', (SELECT v FROM queries LIMIT 1));
SELECT recall('rounded', 'v', '<->', 'queries') >= 0.95 AS recall;
SELECT * FROM grnnd_check('rounded_idx', true);

DROP SCHEMA test_killed CASCADE;
