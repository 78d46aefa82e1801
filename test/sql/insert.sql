-- Rows that come after the index: each is found, whatever the kind of index.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS grnnd CASCADE;
CREATE SCHEMA test_insert;
SET search_path = test_insert, public;
SET grnnd.build_device = cpu;
\getenv dir PG_ABS_SRCDIR
\set file :dir '/lib/recall.sql'
\set ECHO none
\i :file
\set ECHO all

CREATE TABLE queries AS SELECT * FROM points(100001, 100050, 32, 1);

-- an empty index takes its first row, NULL has no place in it
CREATE TABLE t (id serial PRIMARY KEY, v vector(32));
CREATE INDEX t_idx ON t USING grnnd (v);
SELECT missing('t', 'v', '<->', (SELECT v FROM points(1, 1, 32, 1)));
INSERT INTO t (v) VALUES (NULL);
SELECT missing('t', 'v', '<->', (SELECT v FROM points(1, 1, 32, 1)));
INSERT INTO t (v) SELECT v FROM points(1, 1, 32, 1);
SELECT missing('t', 'v', '<->', (SELECT v FROM points(1, 1, 32, 1)));
SELECT * FROM grnnd_check('t_idx', true);

-- and 3,000 more
INSERT INTO t (v) SELECT v FROM points(2, 3000, 32, 1);
SELECT missing('t', 'v', '<->', (SELECT v FROM queries LIMIT 1));
SELECT recall('t', 'v', '<->', 'queries') >= 0.95 AS recall;
SELECT * FROM grnnd_check('t_idx', true);

-- a statement takes no memory for each row, also while a fit is due for good
CREATE TEMP TABLE lean (id int, c int, v vector(16));
CREATE INDEX lean_idx ON lean USING grnnd (v, c);
CREATE TABLE taken (id int, bytes numeric);
CREATE FUNCTION note(i int, v vector) RETURNS vector LANGUAGE plpgsql AS $$ BEGIN
	IF i % 1000 = 0 THEN
		INSERT INTO taken SELECT i, sum(used_bytes) FROM pg_backend_memory_contexts WHERE name !~ 'Local Buffer';
	END IF;
	RETURN v;
END $$;
INSERT INTO lean SELECT id, id % 10, note(id, v) FROM points(1, 3000, 16, 1);
SELECT due FROM grnnd_codes('lean_idx');
SELECT max(bytes) FILTER (WHERE id = 3000) - max(bytes) FILTER (WHERE id = 2000) < 8 * 1000 AS level FROM taken;

-- after a build of a part of them
CREATE TABLE grown (id serial PRIMARY KEY, v vector(32));
INSERT INTO grown (v) SELECT v FROM points(1, 500, 32, 1);
CREATE INDEX grown_idx ON grown USING grnnd (v);
INSERT INTO grown (v) SELECT v FROM points(501, 3000, 32, 1);
SELECT missing('grown', 'v', '<->', (SELECT v FROM queries LIMIT 1));
SELECT recall('grown', 'v', '<->', 'queries') >= 0.95 AS recall;
SELECT * FROM grnnd_check('grown_idx', true);

-- data that drift away from what was there at the build
INSERT INTO grown (v) SELECT p.v + (SELECT array_agg(2)::vector FROM generate_series(1, 32))
	FROM points(5001, 6000, 32, 1) p;
CREATE TABLE far_queries AS SELECT id, q.v + (SELECT array_agg(2)::vector FROM generate_series(1, 32)) AS v
	FROM queries q;
SELECT recall('grown', 'v', '<->', 'far_queries') >= 0.95 AS recall;
SELECT * FROM grnnd_check('grown_idx', true);

-- short lists (a build's recall is 0.996)
CREATE TABLE short_queries AS SELECT * FROM points(100001, 100300, 32, 1);
CREATE TABLE short (id serial PRIMARY KEY, v vector(32));
CREATE INDEX short_idx ON short USING grnnd (v) WITH (degree = 16, codes = off);
INSERT INTO short (v) SELECT v FROM points(1, 4000, 32, 1);
SET grnnd.ef_search = 20;
SELECT recall('short', 'v', '<->', 'short_queries') >= 0.98 AS recall;
RESET grnnd.ef_search;
SELECT * FROM grnnd_check('short_idx', true);

-- rows of any length, which lie around hubs: these take rows far out, too (recall is 0.78 otherwise;
-- a build's is 0.96)
CREATE FUNCTION normal(id int, j int, seed int) RETURNS float8 LANGUAGE sql AS $$
	SELECT sqrt(-2 * ln(unit(id, 2 * j, seed) + 1e-9)) * cos(2 * pi() * unit(id, 2 * j + 1, seed))
$$;
CREATE FUNCTION heavy(a int, b int) RETURNS TABLE (id int, v vector) LANGUAGE sql AS $$
	SELECT i, (SELECT array_agg(normal(i, j, 9))::vector FROM generate_series(1, 32) j)
		* array_fill(exp(normal(i, 1, 11))::real, ARRAY[32])::vector
	FROM generate_series(a, b) i
$$;
CREATE TABLE heavy_queries AS SELECT * FROM heavy(100001, 100200);
CREATE TABLE heavy_rows (id int, v vector(32));
INSERT INTO heavy_rows SELECT * FROM heavy(1, 2000);
CREATE INDEX heavy_idx ON heavy_rows USING grnnd (v);
INSERT INTO heavy_rows SELECT * FROM heavy(2001, 4000);
SELECT recall('heavy_rows', 'v', '<->', 'heavy_queries') >= 0.9 AS recall;
SELECT * FROM grnnd_check('heavy_idx', true);

-- neighbors that change together do not all give up the same row, each counting on the others
CREATE FUNCTION cauchy(a int, b int, seed int) RETURNS TABLE (id int, v vector) LANGUAGE sql AS $$
	SELECT i, (SELECT array_agg(tan(pi() * (unit(i, j, seed) - 0.5)))::vector FROM generate_series(1, 16) j)
	FROM generate_series(a, b) i
$$;
CREATE TABLE cauchy_rows (id int, v vector(16));
CREATE FUNCTION lost(seed int) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	DROP INDEX IF EXISTS cauchy_idx;
	DELETE FROM cauchy_rows;
	INSERT INTO cauchy_rows SELECT * FROM cauchy(1, 500, seed);
	CREATE INDEX cauchy_idx ON cauchy_rows USING grnnd (v) WITH (degree = 8, layout = exact);
	INSERT INTO cauchy_rows SELECT * FROM cauchy(501, 2000, seed);
	RETURN (SELECT count(*) FROM grnnd_check('cauchy_idx', true));
END
$$;
SELECT sum(lost(seed)) FROM generate_series(1, 12) seed;

-- the other distances; norms beyond the largest of the build; zero vectors
CREATE TABLE ip (id serial, v vector(32));
INSERT INTO ip (v) SELECT v FROM points(1, 1000, 32, 1);
CREATE INDEX ip_idx ON ip USING grnnd (v vector_ip_ops);
INSERT INTO ip (v) SELECT v FROM points(1001, 2000, 32, 1);
INSERT INTO ip (v) SELECT p.v * (SELECT array_agg(2)::vector FROM generate_series(1, 32))
	FROM points(2001, 2100, 32, 1) p;
SELECT recall('ip', 'v', '<#>', 'queries') >= 0.95 AS recall;
SELECT * FROM grnnd_check('ip_idx', true);

-- inner product of rows whose lengths spread twentyfold
CREATE TABLE center AS SELECT avg(v) AS v FROM points(1, 1000, 32, 1);
CREATE TABLE spread_queries AS
	SELECT id, q.v - c.v AS v FROM points(100001, 100050, 32, 1) q, center c;
CREATE FUNCTION spread(a int, b int) RETURNS SETOF vector LANGUAGE sql AS $$
	SELECT (p.v - c.v) * array_fill(exp(3 * unit(p.id, 1, 4))::real, ARRAY[32])::vector
	FROM points(a, b, 32, 1) p, center c
$$;
CREATE TABLE spread (id serial, v vector(32));
INSERT INTO spread (v) SELECT spread(1, 2000);
CREATE INDEX spread_idx ON spread USING grnnd (v vector_ip_ops);
SELECT recall('spread', 'v', '<#>', 'spread_queries') >= 0.97 AS recall;
INSERT INTO spread (v) SELECT spread(2001, 3000);
INSERT INTO spread (v) SELECT array_fill(0, ARRAY[32])::vector;
SELECT recall('spread', 'v', '<#>', 'spread_queries') >= 0.95 AS recall;
DELETE FROM spread WHERE id % 3 = 2;
VACUUM spread;
SELECT recall('spread', 'v', '<#>', 'spread_queries') >= 0.95 AS recall;
SELECT missing('spread', 'v', '<#>', (SELECT v FROM spread_queries LIMIT 1));
SELECT * FROM grnnd_check('spread_idx', true);

-- lengths that spread, in an index that began empty: recall is 0.77 where a full list goes by codes
-- alone, and those of few rows are coarse
CREATE FUNCTION lengths(a int, b int, spread float8) RETURNS TABLE (id int, v vector) LANGUAGE sql AS $$
	SELECT i, (SELECT array_agg(normal(i, j, 9) * exp(spread * normal(i, 1000, 11)))::vector
			   FROM generate_series(1, 100) j)
	FROM generate_series(a, b) i
$$;
CREATE TABLE lengths_queries AS SELECT * FROM lengths(100001, 100050, 0);
CREATE TABLE grown_ip (id int, v vector(100));
CREATE INDEX grown_ip_idx ON grown_ip USING grnnd (v vector_ip_ops);
INSERT INTO grown_ip SELECT * FROM lengths(1, 600, 0.5);
SELECT grnnd_fit('grown_ip_idx');
INSERT INTO grown_ip SELECT * FROM lengths(601, 1200, 0.5);
SELECT grnnd_fit('grown_ip_idx');
INSERT INTO grown_ip SELECT * FROM lengths(1201, 2400, 0.5);
SELECT grnnd_fit('grown_ip_idx');
INSERT INTO grown_ip SELECT * FROM lengths(2401, 6000, 0.5);
SELECT recall('grown_ip', 'v', '<#>', 'lengths_queries') >= 0.85 AS recall;
SELECT * FROM grnnd_check('grown_ip_idx', true);

-- rows ten times longer than the others answer nearly every query, wherever they come from:
-- inserted late or early, half of them deleted, or there when the index is built
CREATE FUNCTION directions(a int, b int, length real) RETURNS SETOF vector LANGUAGE sql AS $$
	SELECT (SELECT array_agg(length * (unit(i, j, 5) - 0.5) ORDER BY j) FROM generate_series(1, 32) j)::vector
	FROM generate_series(a, b) i
$$;
CREATE TABLE directions_queries AS
	SELECT id, v FROM directions(100001, 100100, 1) WITH ORDINALITY d(v, id);
CREATE TABLE late (id serial, v vector(32));
INSERT INTO late (v) SELECT directions(1, 2000, 1);
CREATE INDEX late_idx ON late USING grnnd (v vector_ip_ops);
INSERT INTO late (v) SELECT directions(2001, 2030, 10);
SELECT recall('late', 'v', '<#>', 'directions_queries') >= 0.98 AS recall;
DELETE FROM late WHERE id BETWEEN 2001 AND 2020;
VACUUM (INDEX_CLEANUP) late;
SELECT recall('late', 'v', '<#>', 'directions_queries') >= 0.98 AS recall;
INSERT INTO late (v) SELECT directions(2031, 3000, 2);
SELECT recall('late', 'v', '<#>', 'directions_queries') >= 0.94 AS recall;
SELECT * FROM grnnd_check('late_idx', true);
REINDEX INDEX late_idx;
SELECT recall('late', 'v', '<#>', 'directions_queries') >= 0.95 AS recall;
CREATE TABLE early (id serial, v vector(32));
CREATE INDEX early_idx ON early USING grnnd (v vector_ip_ops);
INSERT INTO early (v) SELECT directions(1, 50, 1);
INSERT INTO early (v) SELECT directions(2001, 2030, 10);
INSERT INTO early (v) SELECT directions(51, 2000, 1);
SELECT recall('early', 'v', '<#>', 'directions_queries') >= 0.96 AS recall;
SELECT * FROM grnnd_check('early_idx', true);

CREATE TABLE cosine (id serial, v vector(32));
CREATE INDEX cosine_idx ON cosine USING grnnd (v vector_cosine_ops);
INSERT INTO cosine (v) SELECT v FROM points(1, 2000, 32, 1);
INSERT INTO cosine (v) SELECT array_agg(0)::vector FROM generate_series(1, 32);
SELECT missing('cosine', 'v', '<=>', (SELECT v FROM queries LIMIT 1)) AS zero_vector;
SELECT recall('cosine', 'v', '<=>', 'queries') >= 0.95 AS recall;
SELECT * FROM grnnd_check('cosine_idx', true);

-- rows that the build's compact form does not hold exactly come in exact order
CREATE TABLE bytes (id serial, v vector(32));
INSERT INTO bytes (v) SELECT array_agg((unit(i, j, 1) * 255)::int ORDER BY j)::vector
	FROM generate_series(1, 500) i, generate_series(1, 32) j GROUP BY i ORDER BY i;
CREATE INDEX bytes_idx ON bytes USING grnnd (v);
INSERT INTO bytes (v) SELECT array_agg(unit(i, j, 1) * 300 - 20 ORDER BY j)::vector
	FROM generate_series(501, 1500) i, generate_series(1, 32) j GROUP BY i ORDER BY i;
SELECT missing('bytes', 'v', '<->', (SELECT v FROM bytes LIMIT 1));
SET enable_seqscan = off;
SELECT count(*) AS disordered FROM (
	SELECT d < lag(d) OVER (ORDER BY n) AS bad FROM (
		SELECT row_number() OVER () AS n, d FROM (
			SELECT v <-> (SELECT v FROM bytes WHERE id = 1000) AS d FROM bytes
			ORDER BY v <-> (SELECT v FROM bytes WHERE id = 1000) LIMIT 300) x) y) z WHERE bad;
RESET enable_seqscan;
SELECT * FROM grnnd_check('bytes_idx', true);

-- without codes; of one dimension; over several pages a row
CREATE TABLE plain (id serial, v vector(32));
INSERT INTO plain (v) SELECT v FROM points(1, 300, 32, 1);
CREATE INDEX plain_idx ON plain USING grnnd (v) WITH (codes = off);
INSERT INTO plain (v) SELECT v FROM points(301, 1500, 32, 1);
SELECT recall('plain', 'v', '<->', 'queries') >= 0.95 AS recall;
SELECT * FROM grnnd_check('plain_idx', true);
CREATE TABLE narrow (id serial, v vector(1));
CREATE INDEX narrow_idx ON narrow USING grnnd (v);
INSERT INTO narrow (v) SELECT array[i]::vector FROM generate_series(1, 1000) i;
SELECT missing('narrow', 'v', '<->', '[3]');
SELECT * FROM grnnd_check('narrow_idx', true);
CREATE TABLE wide (id serial, v vector(4000));
INSERT INTO wide (v) SELECT v FROM points(1, 20, 4000, 1);
CREATE INDEX wide_idx ON wide USING grnnd (v);
INSERT INTO wide (v) SELECT v FROM points(21, 60, 4000, 1);
SELECT missing('wide', 'v', '<->', (SELECT v FROM wide LIMIT 1));
SELECT * FROM grnnd_check('wide_idx', true);

-- what is refused leaves nothing behind
INSERT INTO t (v) VALUES ('[1,2,3]');
BEGIN;
SAVEPOINT s;
INSERT INTO t (v) SELECT v FROM points(3001, 3020, 32, 1);
ROLLBACK TO s;
INSERT INTO t (v) SELECT v FROM points(3021, 3040, 32, 1);
COMMIT;
BEGIN;
INSERT INTO t (v) SELECT v FROM points(3041, 3060, 32, 1);
ROLLBACK;
SELECT count(*) FROM t;
SELECT missing('t', 'v', '<->', (SELECT v FROM queries LIMIT 1));
SELECT * FROM grnnd_check('t_idx', true);

-- errors of rows of a few bits are no part of distances by inner product, whatever the rows' length
CREATE TABLE turned (id int, v vector(512));
CREATE INDEX turned_idx ON turned USING grnnd (v vector_ip_ops) WITH (layout = compact);
INSERT INTO turned SELECT i, (SELECT array_agg(unit(i, j, 9) - 0.5) FROM generate_series(1, 512) j)::vector
	FROM generate_series(1, 400) i;
SELECT mean_degree > 27 FROM grnnd_stats('turned_idx', true);

DROP SCHEMA test_insert CASCADE;
