-- Snapshots: what a query sees does not depend on what others do to the index.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS grnnd CASCADE;
CREATE SCHEMA test_mvcc;
SET search_path = test_mvcc, public;
SET grnnd.build_device = cpu;
\getenv dir PG_ABS_SRCDIR
\set file :dir '/lib/recall.sql'
\set ECHO none
\i :file
\set ECHO all

CREATE TABLE queries AS SELECT * FROM points(100001, 100010, 16, 1);
CREATE TABLE t (id int PRIMARY KEY, v vector(16));
INSERT INTO t SELECT * FROM points(1, 800, 16, 1);
CREATE INDEX t_idx ON t USING grnnd (v);
SELECT v AS q FROM queries LIMIT 1 \gset
SET enable_seqscan = off;
SET enable_sort = off;

CREATE FUNCTION rest(c refcursor) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	n bigint := 0;
BEGIN
	LOOP
		MOVE NEXT FROM c;
		EXIT WHEN NOT FOUND;
		n := n + 1;
	END LOOP;
	RETURN n;
END $$;

-- a cursor goes on with the rows of its snapshot
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM t ORDER BY v <-> :'q';
CREATE TEMP TABLE before AS SELECT id FROM t ORDER BY v <-> :'q' LIMIT 20;
MOVE 10 FROM c;
DELETE FROM t WHERE id IN (SELECT id FROM before);
INSERT INTO t SELECT id + 10000, v FROM points(1001, 1200, 16, 1);
SELECT rest('c');
ROLLBACK;
SELECT count(*) FROM t;
SELECT missing('t', 'v', '<->', :'q');

-- a cursor held over the end of its transaction
BEGIN;
DECLARE held CURSOR WITH HOLD FOR SELECT id FROM t ORDER BY v <-> :'q' LIMIT 100;
COMMIT;
DELETE FROM t WHERE id % 2 = 0;
VACUUM t;
SELECT rest('held');
CLOSE held;
SELECT missing('t', 'v', '<->', :'q');

-- no way back
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id FROM t ORDER BY v <-> :'q' LIMIT 5;
MOVE 3 FROM c;
MOVE BACKWARD 2 FROM c;
ROLLBACK;

-- savepoints
BEGIN;
INSERT INTO t SELECT * FROM points(2001, 2010, 16, 1);
SAVEPOINT a;
INSERT INTO t SELECT * FROM points(2011, 2020, 16, 1);
DELETE FROM t WHERE id < 100;
ROLLBACK TO a;
SELECT missing('t', 'v', '<->', :'q');
SAVEPOINT b;
DELETE FROM t WHERE id < 200;
RELEASE b;
SELECT missing('t', 'v', '<->', :'q');
COMMIT;
SELECT missing('t', 'v', '<->', :'q');

-- prepared, and rescanned
PREPARE near(vector) AS SELECT count(*) FROM (SELECT id FROM t ORDER BY v <-> $1 LIMIT 7) x;
EXECUTE near(:'q');
EXECUTE near(:'q');
SELECT sum(n) FROM queries q, LATERAL (SELECT count(*) AS n FROM (SELECT id FROM t ORDER BY t.v <-> q.v LIMIT 5) y) x;

-- a function that changes what it reads
DO $$
DECLARE r record;
	n int := 0;
BEGIN
	FOR r IN SELECT id FROM t ORDER BY v <-> (SELECT v FROM queries LIMIT 1) LIMIT 50 LOOP
		UPDATE t SET v = (SELECT v FROM queries LIMIT 1) WHERE id = r.id;
		n := n + 1;
	END LOOP;
	RAISE WARNING '% rows', n;
END $$;
SELECT missing('t', 'v', '<->', :'q');
VACUUM t;
SELECT * FROM grnnd_check('t_idx', true);

DROP SCHEMA test_mvcc CASCADE;
