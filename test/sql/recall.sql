-- grnnd_recall(): recall now, for all kinds of indexes, and under the caller's rights.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS grnnd CASCADE;
CREATE SCHEMA test_recall;
SET search_path = test_recall, public;
SET grnnd.build_device = cpu;
RESET client_min_messages;
\getenv dir PG_ABS_SRCDIR
\set file :dir '/lib/recall.sql'
\set ECHO none
\i :file
\set ECHO all

CREATE TABLE t AS SELECT id, v::vector(32), id % 10 AS part FROM points(1, 3000, 32, 1);
INSERT INTO t VALUES (0, NULL, 0), (-1, NULL, 1);
CREATE INDEX t_v ON t USING grnnd (v);
CREATE INDEX t_other ON t USING hnsw (v vector_l2_ops);
SELECT recall >= 0.95 AS good, queried, compared, ef_search, records_visited BETWEEN 40 AND 80 AS visits, milliseconds > 0 AS timed
FROM grnnd_recall('t_v');
-- as wide as it is asked to be, and never less recall for it
SELECT a.recall <= b.recall AS rises, a.ef_search, b.ef_search, a.records_visited < b.records_visited AS visits, b.recall > 0.999 AS all
FROM grnnd_recall('t_v', 10, 10) a, grnnd_recall('t_v', 10, 400) b;
SELECT recall >= 0.95 AS good, queried FROM grnnd_recall('t_v', k => 50, queries => 20);
SHOW grnnd.ef_search;
SHOW enable_seqscan;
-- the session's settings count where no ef is given
SET grnnd.ef_search = 77;
SELECT ef_search FROM grnnd_recall('t_v', queries => 5);
RESET grnnd.ef_search;
-- fewer rows than queries and neighbors
CREATE TABLE few AS SELECT * FROM t WHERE id BETWEEN 1 AND 5;
CREATE INDEX few_v ON few USING grnnd (v);
SELECT recall, queried, compared FROM grnnd_recall('few_v');
TRUNCATE few;
SELECT * FROM grnnd_recall('few_v');

-- a partial index, one of an expression, filter columns
CREATE INDEX t_partial ON t USING grnnd (v vector_ip_ops) WHERE part % 2 = 0 AND 'a%s' <> 'b';
SELECT recall >= 0.9 AS good, queried, compared FROM grnnd_recall('t_partial');
CREATE INDEX t_expression ON t USING grnnd ((binary_quantize(v)::bit(32)), part);
SELECT recall >= 0.9 AS good, queried, compared FROM grnnd_recall('t_expression');
CREATE INDEX t_half ON t USING grnnd ((v::halfvec(32)) halfvec_cosine_ops);
SELECT recall >= 0.9 AS good, queried, compared FROM grnnd_recall('t_half');
-- zero vectors have no angle
CREATE TABLE zeros (v vector(2));
INSERT INTO zeros SELECT ARRAY[i % 2, 0]::vector FROM generate_series(1, 100) i;
CREATE INDEX zeros_v ON zeros USING grnnd (v vector_cosine_ops);
SELECT recall, queried, compared FROM grnnd_recall('zeros_v');

-- rows that come and go
DELETE FROM t WHERE id % 2 = 0;
INSERT INTO t SELECT id, v::vector(32), 0 FROM points(5001, 6000, 32, 1);
SELECT recall >= 0.9 AS good, compared FROM grnnd_recall('t_v');

-- whoever may read the table may ask; row security counts
CREATE ROLE recall_reader;
GRANT USAGE ON SCHEMA test_recall TO recall_reader;
\set SHOW_CONTEXT never
SET ROLE recall_reader;
SELECT compared FROM grnnd_recall('t_v');
RESET ROLE;
GRANT SELECT ON t TO recall_reader;
ALTER TABLE t ENABLE ROW LEVEL SECURITY;
CREATE POLICY halves ON t FOR SELECT TO recall_reader USING (part < 5);
SET ROLE recall_reader;
SELECT recall >= 0.9 AS good, queried, compared = (SELECT count(*) FROM t WHERE v IS NOT NULL) AS seen
FROM grnnd_recall('t_v');
SELECT compared FROM grnnd_recall('t_half');
RESET ROLE;
SELECT compared FROM grnnd_recall('t_v');

-- of columns, those that are read
REVOKE SELECT ON t FROM recall_reader;
GRANT SELECT (ctid, id) ON t TO recall_reader;
SET ROLE recall_reader;
SELECT compared FROM grnnd_recall('t_v');
RESET ROLE;
GRANT SELECT (v, part) ON t TO recall_reader;
SET ROLE recall_reader;
SELECT compared = (SELECT count(ctid) FROM t WHERE v IS NOT NULL) AS seen FROM grnnd_recall('t_v');
RESET ROLE;

-- queries of another relation or of an array
RESET ROLE;
ALTER TABLE t DISABLE ROW LEVEL SECURITY;
GRANT SELECT ON t TO recall_reader;
CREATE TABLE asked AS SELECT id, v::vector(32) FROM points(20001, 20300, 32, 1);
INSERT INTO asked VALUES (0, NULL);
SELECT recall >= 0.95 AS good, queried, compared, ef_search FROM grnnd_recall('t_v', query_table => 'asked');
SELECT recall >= 0.95 AS good, queried FROM grnnd_recall('t_v', 5, 60, 1000, 'asked', 'v');
CREATE VIEW asked_view AS SELECT v, v AS again FROM asked WHERE id <= 20040;
SELECT recall >= 0.9 AS good, queried FROM grnnd_recall('t_v', query_table => 'asked_view', query_column => 'again');
SELECT recall >= 0.9 AS good, queried FROM grnnd_recall('t_v', (SELECT array_agg(v) FROM asked), 20, 100);
-- a row of the table is its own nearest row here
SELECT recall, queried FROM grnnd_recall('t_v', (SELECT array_agg(v) FROM t WHERE id IN (1, 3, 5)), 1);
SELECT recall, queried FROM grnnd_recall('t_v', ARRAY[]::vector[]);
SELECT recall >= 0.9 AS good, queried FROM grnnd_recall('t_half', (SELECT array_agg(v::halfvec(32)) FROM asked));
-- without the library preloaded there is no sample of queries
SELECT recall, queried FROM grnnd_recall('t_v', sampled => true);
SELECT grnnd_recall('t_v', query_table => 'asked_view');
SELECT grnnd_recall('t_v', query_table => 'asked', query_column => 'id');
SELECT grnnd_recall('t_v', query_table => 'asked', query_column => 'w');
SELECT grnnd_recall('t_v', query_table => 'few_v');
SELECT grnnd_recall('t_half', query_table => 'asked');
SELECT grnnd_recall('t_v', query_table => 'asked', sampled => true);
SELECT grnnd_recall('t_v', query_column => 'v');
SELECT grnnd_recall('t_v', ARRAY[1, 2]);
SELECT grnnd_recall('t_v', ARRAY['[1,2]']::vector[]);
-- they are read with the caller's rights and row security, whoever owns the index
SET ROLE recall_reader;
SELECT grnnd_recall('t_v', query_table => 'asked');
SELECT grnnd_recall('t_v', sampled => true);
SELECT recall >= 0.9 AS good, queried FROM grnnd_recall('t_v', ARRAY['[1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8]']::vector[]);
RESET ROLE;
GRANT SELECT (id) ON asked TO recall_reader;
SET ROLE recall_reader;
SELECT grnnd_recall('t_v', query_table => 'asked');
RESET ROLE;
GRANT SELECT ON asked TO recall_reader;
ALTER TABLE asked ENABLE ROW LEVEL SECURITY;
CREATE POLICY first_ones ON asked FOR SELECT TO recall_reader USING (id <= 20030);
SET ROLE recall_reader;
SELECT recall >= 0.9 AS good, queried FROM grnnd_recall('t_v', query_table => 'asked');
CREATE TEMP TABLE own AS SELECT v FROM asked;
CREATE INDEX own_v ON own USING grnnd (v);
SELECT recall, queried FROM grnnd_recall('own_v', 3, query_table => 'asked');
SELECT grnnd_recall('own_v', 3, query_table => 'test_recall.few');
DROP TABLE own;

-- a function of the index that gives its name to another one, of another type, is called all the same
SET ROLE recall_reader;
CREATE TEMP TABLE renamed AS SELECT ARRAY[i, i % 7, 1]::public.vector(3) AS v FROM generate_series(1, 100) i;
CREATE TYPE pg_temp.place AS (x vector(3));
CREATE TYPE pg_temp.number AS (x int8);
-- (what says that it is immutable may write by way of another)
CREATE FUNCTION pg_temp.rename() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	ALTER FUNCTION pg_temp.first(public.vector) RENAME TO second;
	CREATE FUNCTION pg_temp.first(v public.vector) RETURNS pg_temp.number LANGUAGE sql IMMUTABLE AS 'SELECT ROW(64)::pg_temp.number';
	ALTER INDEX pg_temp.renamed_v RENAME TO renamed_w;
END $$;
CREATE FUNCTION pg_temp.first(v vector) RETURNS pg_temp.place LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	IF current_setting('test.rename', true) = 'on' THEN
		PERFORM set_config('test.rename', 'off', false);
		PERFORM pg_temp.rename();
	END IF;
	RETURN ROW(v)::pg_temp.place;
END $$;
CREATE INDEX renamed_v ON renamed USING grnnd (((pg_temp.first(v)).x));
SET test.rename = on;
SELECT recall, queried, compared FROM grnnd_recall('renamed_v');
SELECT pg_get_indexdef('renamed_w'::regclass, 1, false) LIKE '%.second(v)%' AS renamed;
RESET test.rename;
DISCARD TEMP;
RESET ROLE;

-- where nobody says how wide, an index of many rows is searched as wide as a recall of .95 takes
CREATE TABLE many (v vector(28));
SELECT setseed(0.5);
INSERT INTO many SELECT array_agg(random())::vector FROM generate_series(1, 28 * 50400) i GROUP BY i % 50400;
CREATE INDEX many_v ON many USING grnnd (v) WITH (degree = 8);
SELECT ef_search > 40 AS wider, ef_search <= 640 AS bounded, recall > 0.85 AS good FROM grnnd_recall('many_v', queries => 50);
SELECT ef_search AS session FROM grnnd_recall('many_v', 10, 40, queries => 1);
SET hnsw.ef_search = 40;
SELECT ef_search AS hnsw FROM grnnd_recall('many_v', queries => 1);
RESET hnsw.ef_search;
ALTER INDEX many_v SET (ef_search = 40);
SELECT ef_search AS option FROM grnnd_recall('many_v', queries => 1);
ALTER INDEX many_v RESET (ef_search);
-- and no less wide than queries unlike the rows may take, however little rows that ask do
CREATE TABLE easy (v vector(2));
INSERT INTO easy SELECT ARRAY[i, i % 3]::vector FROM generate_series(1, 60000) i;
CREATE INDEX easy_v ON easy USING grnnd (v) WITH (degree = 8);
SELECT ef_search AS least, recall > 0.99 AS good FROM grnnd_recall('easy_v', queries => 10);
SET grnnd.target_recall = 0.95;
SELECT ef_search < 42 AS by_target FROM grnnd_recall('easy_v', queries => 1);
RESET grnnd.target_recall;
DROP TABLE easy;
-- where there is no curve (rows are many, but few are different), a target changes nothing
CREATE TABLE same AS SELECT ARRAY[i % 50]::vector(1) AS v, i::bigint AS a, i::bigint AS b, i::bigint AS c, i::bigint AS d
	FROM generate_series(1, 1000000) i;
CREATE INDEX same_v ON same USING grnnd (v, a, b, c, d) WITH (degree = 8);
SELECT ef_search AS same FROM grnnd_recall('same_v', queries => 1) \gset
SET grnnd.target_recall = 0.99;
SELECT (SELECT recall_curve FROM grnnd_stats('same_v')) AS curve, ef_search > 40 AS wider, ef_search = :same AS same
	FROM grnnd_recall('same_v', queries => 1);
RESET grnnd.target_recall;
DROP TABLE same;
-- as hnsw is where the rows are few
DELETE FROM many WHERE ctid > '(100,0)';
VACUUM many;
REINDEX INDEX many_v;
SELECT ef_search AS few FROM grnnd_recall('many_v', queries => 1);

-- what it refuses
SELECT grnnd_recall(NULL);
SELECT grnnd_recall('t');
SELECT grnnd_recall('t_other');
SELECT grnnd_recall('t_v', 0);
SELECT grnnd_recall('t_v', 10, 0);
SELECT grnnd_recall('t_v', 10, 10, 1000000);
-- by a function of the index, while it runs
CREATE FUNCTION again(v vector) RETURNS vector LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	IF current_setting('test.again', true) = 'on' THEN
		PERFORM public.grnnd_recall('test_recall.again_v');
	END IF;
	RETURN v;
END $$;
CREATE TABLE nested AS SELECT v FROM points(1, 50, 3, 1);
CREATE INDEX again_v ON nested USING grnnd ((again(v)::vector(3)));
SET test.again = on;
SELECT grnnd_recall('again_v');
SET test.again = off;
SELECT recall, compared FROM grnnd_recall('again_v');
CREATE TABLE parted (v vector(3)) PARTITION BY LIST (v);
CREATE INDEX parted_v ON parted USING grnnd (v);
SELECT grnnd_recall('parted_v');

-- rows on a line: each is found by its own vector
CREATE TABLE line AS SELECT i AS id, array[i, 0]::vector(2) AS v FROM generate_series(1, 1000) i;
CREATE INDEX line_v ON line USING grnnd (v);
SET enable_seqscan = off;
SELECT count(*) FROM line a WHERE (SELECT id FROM line b ORDER BY b.v <-> a.v LIMIT 1) <> a.id;
SELECT id FROM line ORDER BY v <-> '[0,0]' LIMIT 3;
RESET enable_seqscan;

-- by inner product, rows on one side of the origin: those that reach farthest are nearest to few
SELECT setseed(.4);
CREATE TABLE side AS SELECT (SELECT array_agg(hashint4(i % 2 * 64 + j)::float8 / 2e9 + (random() - 0.5) / 100)
	FROM generate_series(1, 64 + 0 * i) j)::vector(64) AS v FROM generate_series(1, 5000) i;
CREATE INDEX side_v ON side USING grnnd (v vector_ip_ops);
SELECT recall > .98 AS found FROM grnnd_recall('side_v', 10, 40, 100);

SET client_min_messages = warning;
DROP SCHEMA test_recall CASCADE;
DROP ROLE recall_reader;
