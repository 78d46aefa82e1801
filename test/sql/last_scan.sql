-- What a scan took: grnnd_last_scan().
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS grnnd CASCADE;
CREATE SCHEMA test_last_scan;
SET search_path = test_last_scan, public;
RESET client_min_messages;
\getenv dir PG_ABS_SRCDIR
\set file :dir '/lib/recall.sql'
\set ECHO none
\i :file
\set ECHO all

CREATE TABLE ls AS SELECT id, v::vector(32) FROM points(1, 3000, 32, 1);
CREATE INDEX ls_exact ON ls USING grnnd (v) WITH (layout = exact);
SET enable_seqscan = off;
SELECT * FROM grnnd_last_scan();
SELECT count(*) FROM (SELECT FROM ls ORDER BY v <-> (SELECT v FROM ls WHERE id = 5) LIMIT 10) s;
SELECT index, ef_search, method, records_visited BETWEEN 40 AND 80 AS visited,
	pages_read BETWEEN records_visited AND records_visited + 2 AS pages, list_pages_read, rows_rechecked FROM grnnd_last_scan();
-- the width that LIMIT asks for
SELECT count(*) FROM (SELECT FROM ls ORDER BY v <-> (SELECT v FROM ls WHERE id = 5) LIMIT 100) s;
SELECT index, ef_search, records_visited BETWEEN 200 AND 300 AS visited FROM grnnd_last_scan();
-- all rows
SELECT count(*) FROM (SELECT FROM ls ORDER BY v <-> (SELECT v FROM ls WHERE id = 5) LIMIT 3000) s;
SELECT index, method FROM grnnd_last_scan();
-- a range that has no row, one that has a few, and one written as a similarity end with the search
CREATE FUNCTION ranged(condition text, most bigint DEFAULT 100, OUT rows bigint, OUT few boolean, OUT all_rows boolean) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('SELECT count(*) FROM (SELECT FROM ls WHERE %s ORDER BY v <-> (SELECT v FROM ls WHERE id = 5) LIMIT 100) s', condition)
		INTO rows;
	SELECT s.records_visited < most AND s.ef_search = 40, s.method LIKE '%all rows' INTO few, all_rows FROM grnnd_last_scan() s;
END $$;
SELECT * FROM ranged('v <-> (SELECT v FROM ls WHERE id = 5) < 0');
SELECT * FROM ranged('v <-> (SELECT v FROM ls WHERE id = 5) < 0.0001');
SELECT * FROM ranged('0.0001 >= v <-> (SELECT v FROM ls WHERE id = 5)');
SELECT * FROM ranged('1 - (v <-> (SELECT v FROM ls WHERE id = 5)) > 0.9999');
-- rounded rows are read from the table; without codes a search visits each neighbor
DROP INDEX ls_exact;
CREATE INDEX ls_compact ON ls USING grnnd (v) WITH (layout = compact);
SELECT count(*) FROM (SELECT FROM ls ORDER BY v <-> (SELECT v FROM ls WHERE id = 5) LIMIT 10) s;
SELECT index, ef_search, method, rows_rechecked BETWEEN 10 AND 200 AS rechecked FROM grnnd_last_scan();
SELECT * FROM ranged('v <-> (SELECT v FROM ls WHERE id = 5) < 0', 1200);
SELECT * FROM ranged('v <-> (SELECT v FROM ls WHERE id = 5) < 0.0001', 1200);
-- with a condition on a filter column: by the list of a value
DROP INDEX ls_compact;
ALTER TABLE ls ADD tenant int;
UPDATE ls SET tenant = CASE WHEN id <= 40 THEN 1 ELSE 2 END;
CREATE INDEX ls_filtered ON ls USING grnnd (v, tenant);
SELECT count(*) FROM (SELECT FROM ls WHERE tenant = 1 ORDER BY v <-> (SELECT v FROM ls WHERE id = 5) LIMIT 10) s;
SELECT index, method, list_pages_read > 0 AS list_read FROM grnnd_last_scan();
-- a rollback forgets nothing
BEGIN;
SELECT count(*) FROM (SELECT FROM ls ORDER BY v <-> (SELECT v FROM ls WHERE id = 5) LIMIT 10) s;
ROLLBACK;
SELECT index, method FROM grnnd_last_scan();
-- cumulative statistics, which another user reads and does not reset
SELECT grnnd_stat_reset('ls');
CREATE FUNCTION counted() RETURNS TABLE (graph_scans bigint, list_scans bigint, all_rows_scans bigint, records_visited bigint,
	pages_read bigint, rows_rechecked bigint, inserts bigint, links boolean) LANGUAGE sql AS $$
	SELECT graph_scans, list_scans, all_rows_scans, records_visited, pages_read, rows_rechecked, inserts, links BETWEEN inserts AND 100 * inserts
	FROM grnnd_stat_indexes WHERE schemaname = 'test_last_scan' AND relname = 'ls' AND indexrelname = 'ls_filtered' $$;
SELECT * FROM counted();
CREATE TABLE taken (k int, records_visited bigint, pages_read bigint, rows_rechecked bigint);
CREATE FUNCTION scan(query text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('SELECT count(*) FROM (SELECT FROM ls %s) s', query);
	INSERT INTO taken SELECT 1, l.records_visited, l.pages_read, l.rows_rechecked FROM grnnd_last_scan() l;
END $$;
SELECT scan('ORDER BY v <-> (SELECT v FROM ls WHERE id = 5) LIMIT 10');
SELECT scan('ORDER BY v <-> (SELECT v FROM ls WHERE id = 6) LIMIT 10');
SELECT scan('WHERE tenant = 1 ORDER BY v <-> (SELECT v FROM ls WHERE id = 5) LIMIT 10');
SELECT scan('ORDER BY v <-> (SELECT v FROM ls WHERE id = 5) LIMIT 3000');
BEGIN;
INSERT INTO ls SELECT id, v, 2 FROM points(3001, 3002, 32, 1);
ROLLBACK;
SELECT c.graph_scans, c.list_scans, c.all_rows_scans, c.records_visited - t.records_visited AS visited, c.pages_read - t.pages_read AS pages,
	c.rows_rechecked - t.rows_rechecked AS rechecked, c.inserts, c.links
FROM counted() c, (SELECT sum(records_visited) AS records_visited, sum(pages_read) AS pages_read, sum(rows_rechecked) AS rows_rechecked FROM taken) t;
-- a rebuilt index keeps them, and the server's functions reset them
REINDEX INDEX CONCURRENTLY ls_filtered;
SELECT graph_scans, inserts FROM counted();
SELECT pg_stat_reset_single_table_counters('ls'::regclass);
SELECT graph_scans, inserts FROM counted();
SELECT pg_stat_reset_single_table_counters('ls_filtered'::regclass);
SELECT graph_scans, inserts FROM counted();
SELECT scan('ORDER BY v <-> (SELECT v FROM ls WHERE id = 5) LIMIT 10');
SELECT graph_scans, inserts FROM counted();
SELECT pg_stat_reset();
SELECT graph_scans, inserts FROM counted();
SET track_counts = off;
SELECT scan('ORDER BY v <-> (SELECT v FROM ls WHERE id = 5) LIMIT 10');
RESET track_counts;
SELECT scan('ORDER BY v <-> (SELECT v FROM ls WHERE id = 5) LIMIT 10');
SELECT graph_scans, inserts FROM counted();
-- another user sees nothing of it, by whatever he becomes the current user
CREATE ROLE last_scan_other;
GRANT ALL ON SCHEMA test_last_scan TO last_scan_other;
GRANT SELECT ON ls TO last_scan_other;
SET ROLE last_scan_other;
SELECT graph_scans FROM grnnd_stat_indexes WHERE relname = 'ls';
SELECT grnnd_stat_reset('ls');
RESET ROLE;
CREATE FUNCTION seen() RETURNS text LANGUAGE sql AS $$ SELECT coalesce((SELECT method FROM grnnd_last_scan()), 'no row') $$;
CREATE FUNCTION seen_by_definer() RETURNS text LANGUAGE sql SECURITY DEFINER AS $$ SELECT seen() $$;
ALTER FUNCTION seen_by_definer OWNER TO last_scan_other;
ALTER FUNCTION seen_by_definer SET search_path = test_last_scan, public;
SELECT seen(), seen_by_definer();
SET ROLE last_scan_other;
SELECT seen(), seen_by_definer();
RESET ROLE;
SELECT seen();
SET SESSION AUTHORIZATION last_scan_other;
SELECT seen();
SELECT count(*) FROM (SELECT FROM ls ORDER BY v <-> (SELECT v FROM ls WHERE id = 5) LIMIT 10) s;
SELECT seen();
RESET SESSION AUTHORIZATION;
SELECT seen();
-- nor do other clients of a pooled connection
SELECT count(*) FROM (SELECT FROM ls WHERE tenant = 1 ORDER BY v <-> (SELECT v FROM ls WHERE id = 5) LIMIT 10) s;
SELECT seen(), (SELECT count(*) FROM pg_cursors) AS cursors;
DISCARD ALL;
SET search_path = test_last_scan, public;
SELECT seen();
SET enable_seqscan = off;
SELECT count(*) FROM (SELECT FROM ls ORDER BY v <-> (SELECT v FROM ls WHERE id = 5) LIMIT 10) s;
SELECT seen();
-- a cursor of the user's is left alone, whatever its name
DISCARD ALL;
SET search_path = test_last_scan, public;
SET enable_seqscan = off;
BEGIN;
DECLARE "grnnd last scan" CURSOR FOR SELECT 1 AS one;
SELECT count(*) FROM (SELECT FROM ls ORDER BY v <-> (SELECT v FROM ls WHERE id = 5) LIMIT 10) s;
FETCH "grnnd last scan";
COMMIT;
RESET enable_seqscan;
DROP TABLE ls;
RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA test_last_scan CASCADE;
DROP ROLE last_scan_other;
