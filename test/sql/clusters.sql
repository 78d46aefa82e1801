-- Rows of tight clusters that are replaced by others again and again: a vacuum, also one that finds
-- new rows alone, searches for some rows and adds edges where searches end elsewhere.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS grnnd CASCADE;
CREATE SCHEMA test_clusters;
SET search_path = test_clusters, public;
SET grnnd.build_device = cpu;
SELECT setseed(0.7);
CREATE TABLE centers AS SELECT k, ARRAY(SELECT random() + k * 0 FROM generate_series(1, 24)) AS c FROM generate_series(1, 75) k;
CREATE FUNCTION rows_of(part int) RETURNS TABLE (id int, v vector(24)) LANGUAGE sql VOLATILE AS $$
	SELECT i, (SELECT array_agg(x + random() * 0.001 + i * 0 ORDER BY o) FROM unnest(c) WITH ORDINALITY u (x, o))::vector(24)
	FROM generate_series(1, 3000) i JOIN centers ON k = 1 + i % 75 WHERE part IN (i % 4, 4) $$;
CREATE TABLE t (id int, v vector(24));
INSERT INTO t SELECT * FROM rows_of(4);
CREATE INDEX t_idx ON t USING grnnd (v);
CREATE INDEX t_short_idx ON t USING grnnd (v) WITH (m = 8, codes = off);
SELECT statement FROM unnest(ARRAY[0, 1, 2, 3, 0, 1]) WITH ORDINALITY r (part, round),
	unnest(ARRAY['DELETE FROM t WHERE id % 4 = ' || part, 'VACUUM t', format('INSERT INTO t SELECT * FROM rows_of(%s)', part),
		'SELECT FROM pg_stat_force_next_flush()', 'VACUUM t']) WITH ORDINALITY s (statement, step)
ORDER BY round, step \gexec
SELECT i, recall > 0.9 AS found, CASE WHEN recall <= 0.9 THEN recall END AS recall FROM unnest(ARRAY['t_idx', 't_short_idx']) i, grnnd_recall(i::regclass, 10, 40, 300);
SELECT count(*) FROM unnest(ARRAY['t_idx', 't_short_idx']) i, grnnd_check(i::regclass, true);
DROP SCHEMA test_clusters CASCADE;
