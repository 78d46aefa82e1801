-- Iterative scans: rows keep coming, in order, within the limits that are set.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS grnnd CASCADE;
CREATE SCHEMA test_iterative;
SET search_path = test_iterative, public;
SET grnnd.build_device = cpu;
\getenv dir PG_ABS_SRCDIR
\set file :dir '/lib/recall.sql'
\set ECHO none
\i :file
\set ECHO all

-- random rows of many dimensions are the hardest: all are about equally far
CREATE TABLE t (id int, e vector(32));
INSERT INTO t SELECT i, (SELECT array_agg(('x' || substr(md5(i || ' ' || j), 1, 3))::bit(12)::int ORDER BY j)
	FROM generate_series(1, 32) j)::vector FROM generate_series(1, 5000) i;
CREATE INDEX t_idx ON t USING grnnd (e);
ANALYZE t;
SELECT e AS q FROM t WHERE id = 77 \gset

CREATE FUNCTION fetched(lim int, filter text DEFAULT 'true', tab regclass DEFAULT 't', OUT rows bigint,
	OUT different bigint, OUT disordered bigint, OUT complete numeric)
LANGUAGE sql
RETURN (SELECT (r.rows, r.different, r.disordered, round(r.recall::numeric, 2))
	FROM ranked(tab, 'e', '<->', format('SELECT e FROM %s WHERE id = 77', tab), lim, filter) r);

-- off: as many as one search keeps
SET grnnd.iterative_scan = off;
SELECT rows, different, disordered FROM fetched(100);
SET grnnd.ef_search = 300;
SELECT rows, different, disordered, complete >= 0.9 AS complete FROM fetched(100);
RESET grnnd.ef_search;
SELECT rows < 10 AS few, disordered FROM fetched(10, 'id % 100 = 3');

-- strict_order, the default: the rows wanted, and sorted; to the end all, those found late last
RESET grnnd.iterative_scan;
SELECT rows, different, disordered, complete >= 0.9 AS complete FROM fetched(100);
SELECT rows, different, disordered, complete >= 0.9 AS complete FROM fetched(10, 'id % 100 = 3');
SELECT rows, different, disordered FROM fetched(1, 'id = 4242');
SELECT disordered FROM fetched(4000);
SELECT rows, different, disordered <= 1 AS ordered FROM fetched(6000);
SELECT rows, disordered FROM fetched(1, 'false');

-- relaxed_order: every row, in nearly the right order
SET grnnd.iterative_scan = relaxed_order;
SELECT rows, different, complete >= 0.9 AS complete FROM fetched(100);
SELECT rows, different, complete >= 0.9 AS complete FROM fetched(10, 'id % 100 = 3');
SELECT rows, different FROM fetched(6000);

-- limits: records read, and memory
SET grnnd.max_scan_tuples = 500;
SELECT rows BETWEEN 500 AND 600 AS stopped FROM fetched(6000);
RESET grnnd.iterative_scan;
SELECT rows BETWEEN 300 AND 600 AS stopped, disordered FROM fetched(6000);
SET grnnd.max_scan_tuples = 1;
SELECT rows BETWEEN 40 AND 80 AS stopped, disordered FROM fetched(6000);
SET work_mem = '64kB';
SET grnnd.max_scan_tuples = 4000;
SELECT rows BETWEEN 50 AND 1000 AS stopped, disordered FROM fetched(6000);
-- as many as there are: no limit
SET grnnd.max_scan_tuples = 6000;
SET work_mem = '6400kB';
SELECT rows, disordered <= 1 AS ordered FROM fetched(6000);
SET work_mem = '64kB';
RESET grnnd.max_scan_tuples;
-- without a limit of the user's own memory ends the search, and what it did not find follows
SELECT rows, different, disordered <= 1 AS ordered FROM fetched(6000);
RESET work_mem;

-- settings count from the scan's start
BEGIN;
SET LOCAL enable_seqscan = off;
SET LOCAL enable_sort = off;
SET LOCAL grnnd.iterative_scan = off;
DECLARE c CURSOR FOR SELECT id FROM t ORDER BY e <-> :'q';
FETCH 1 FROM c;
SET LOCAL grnnd.iterative_scan = strict_order;
SET LOCAL grnnd.ef_search = 1;
MOVE FORWARD ALL IN c;
FETCH 1 FROM c;
COMMIT;

-- rows that the index keeps rounded, or cut off at the end of a byte's range, stay
-- in their exact places
CREATE TABLE rounded AS SELECT id, subvector(e, 1, 16)::vector(16) AS e FROM t WHERE id <= 1500;
UPDATE rounded SET e = (SELECT array_agg(x::int % 256 ORDER BY n) FROM unnest(e::float4[]) WITH ORDINALITY u (x, n))::vector;
CREATE INDEX ON rounded USING grnnd (e);
INSERT INTO rounded SELECT id + 10000, e * array_fill(0.737, ARRAY[16])::vector FROM rounded WHERE id <= 700;
INSERT INTO rounded SELECT id + 20000, e * array_fill(9, ARRAY[16])::vector FROM rounded WHERE id <= 50;
SELECT rows, different, disordered, complete >= 0.95 AS complete FROM fetched(100, tab => 'rounded');
SELECT rows, different, disordered, complete >= 0.95 AS complete FROM fetched(20, 'id > 10000', 'rounded');
SELECT rows, different, disordered, complete >= 0.90 AS complete FROM fetched(10, 'id > 20000', 'rounded');
SELECT rows, different, disordered <= 1 AS ordered FROM fetched(2500, tab => 'rounded');
SET grnnd.iterative_scan = relaxed_order;
SELECT rows, different, complete FROM fetched(2250, tab => 'rounded');
RESET grnnd.iterative_scan;

-- without codes, and for the other distances
DROP INDEX t_idx;
CREATE INDEX t_idx ON t USING grnnd (e) WITH (codes = off);
SELECT rows, different, disordered, complete >= 0.9 AS complete FROM fetched(10, 'id % 100 = 3');
SELECT rows, different, disordered <= 1 AS ordered FROM fetched(6000);
DROP INDEX t_idx;
CREATE INDEX t_idx ON t USING grnnd (e vector_ip_ops);
SET enable_seqscan = off;
SET enable_sort = off;
SELECT count(*), bool_and(d <= next) AS sorted FROM (SELECT id, d, coalesce(lead(d) OVER (), d) AS next FROM
	(SELECT id, e <#> :'q' AS d FROM t WHERE id % 100 = 3 ORDER BY e <#> :'q' LIMIT 10) x) y;
DROP INDEX t_idx;
CREATE INDEX t_idx ON t USING grnnd (e vector_cosine_ops);
SELECT count(*) FROM (SELECT id FROM t WHERE id % 100 = 3 ORDER BY e <=> :'q' LIMIT 10) x;

DROP SCHEMA test_iterative CASCADE;
