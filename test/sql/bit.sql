-- Type bit and the Hamming distance: one bit a number in the build, on disk and in queries.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS grnnd_tools CASCADE;
CREATE SCHEMA test_bit;
SET search_path = test_bit, public;
SET grnnd.build_device = cpu;
\getenv dir PG_ABS_SRCDIR
\set file :dir '/lib/recall.sql'
\set ECHO none
\i :file
\set ECHO all

-- The k nearest rows by the index, of the table or an expression on it, held against the exact
-- order: the share of right rows by distance, how many rows came, how many different,
-- how many after a farther one.
CREATE FUNCTION bit_ranked(tab regclass, expr text, queries text, k int,
	OUT recall float8, OUT rows bigint, OUT different bigint, OUT disordered bigint)
LANGUAGE plpgsql AS $$
DECLARE
	by_index text;
	q varbit;
	worst float8;
	got float8[];
	n bigint;
	hits bigint := 0;
	wanted bigint := 0;
	line text;
	plan text;
BEGIN
	rows := 0; different := 0; disordered := 0;
	FOR q IN EXECUTE queries LOOP
		PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_indexscan', 'off', true);
		EXECUTE format('SELECT max(d), count(*) FROM (SELECT %1$s <~> B%4$L AS d FROM %2$s WHERE %1$s IS NOT NULL
			ORDER BY d LIMIT %3$s) x', expr, tab, k, q) INTO worst, n;
		wanted := wanted + n;
		PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_indexscan', 'on', true);
		by_index := format('SELECT id, %1$s <~> B%4$L AS d FROM %2$s ORDER BY %1$s <~> B%4$L LIMIT %3$s', expr, tab, k, q);
		plan := '';
		FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || by_index LOOP
			plan := plan || line;
		END LOOP;
		IF plan !~ 'Index Scan' THEN
			RAISE EXCEPTION 'no index scan: %', plan;
		END IF;
		EXECUTE 'SELECT array_agg(d ORDER BY n), count(DISTINCT id) FROM
			(SELECT row_number() OVER () AS n, * FROM (' || by_index || ') y) x' INTO got, n;
		rows := rows + coalesce(array_length(got, 1), 0);
		different := different + n;
		hits := hits + (SELECT count(*) FROM unnest(got) d WHERE d <= worst);
		disordered := disordered + (SELECT count(*) FROM generate_series(2, array_length(got, 1)) i
			WHERE got[i] < got[i - 1]);
	END LOOP;
	PERFORM set_config('enable_seqscan', 'on', true);
	recall := hits / nullif(wanted, 0)::float8;
END $$;

-- signs of embeddings of dictionary entries
CREATE TABLE glosses (id int, v vector(384), b bit(384));
\set file :dir '/data/glosses.i8'
INSERT INTO glosses SELECT id, v, binary_quantize(v) FROM
	(SELECT id, (SELECT array_agg((get_byte(b, j) # 128) - 128 ORDER BY j) FROM generate_series(0, 383) j)::vector AS v
		FROM generate_series(1, 1700) id, pg_read_binary_file(:'file', id * 384, 384) b) x;
CREATE TABLE queries AS SELECT id, v, b FROM glosses WHERE id % 61 = 0;
DELETE FROM glosses WHERE id % 61 = 0;
CREATE INDEX b_idx ON glosses USING grnnd (b);
CREATE INDEX v_idx ON glosses USING grnnd ((binary_quantize(v)::bit(384)) bit_hamming_ops);
SELECT expr, recall >= 0.95 AS recall, rows, different, disordered
	FROM unnest('{b,binary_quantize(v)::bit(384)}'::text[]) expr, bit_ranked('glosses', expr, 'SELECT b FROM queries', 10);
-- all rows come; those found after a farther one was returned come last
SELECT rows, different, disordered <= 5 AS ordered FROM bit_ranked('glosses', 'b', 'SELECT b FROM queries LIMIT 1', 2000);
SELECT * FROM grnnd_check('b_idx', true);
SELECT rows, dimensions FROM grnnd_build_estimate('glosses', 'b');
-- searched again by the vectors
SET enable_seqscan = off;
SELECT count(*) FROM (SELECT id FROM (SELECT id, v FROM glosses
	ORDER BY binary_quantize(v)::bit(384) <~> (SELECT b FROM queries LIMIT 1) LIMIT 40) x
	ORDER BY v <=> (SELECT v FROM queries LIMIT 1) LIMIT 10) y;
-- the distance is the operator's own: with a second one the executor compares
SELECT count(*) FROM queries a, queries b, LATERAL (SELECT id FROM glosses
	ORDER BY b <~> a.b, b <~> b.b LIMIT 5) x WHERE a.id < 400 AND b.id < 400;
SELECT count(*) FROM (SELECT id FROM glosses ORDER BY b <~> (SELECT b FROM queries LIMIT 1) LIMIT 20 FOR UPDATE) x;
RESET enable_seqscan;

-- more rows, equal ones among them; fewer rows; no codes
INSERT INTO glosses SELECT id + 10000, v, b FROM glosses WHERE id % 7 < 2;
DELETE FROM glosses WHERE id % 3 = 0;
VACUUM glosses;
INSERT INTO glosses SELECT id + 20000, v, b # (1::bit(384)) FROM glosses WHERE id % 7 = 3;
SELECT recall >= 0.95 AS recall, rows = different AS different, disordered FROM bit_ranked('glosses', 'b', 'SELECT b FROM queries', 10);
SELECT (SELECT count(*) FROM glosses) - different AS missing FROM bit_ranked('glosses', 'b', 'SELECT b FROM queries LIMIT 1', 5000);
SELECT * FROM grnnd_check('b_idx', true);
DROP INDEX v_idx;
CREATE INDEX bare_idx ON glosses USING grnnd (b) WITH (codes = off);
CREATE INDEX h_idx ON glosses USING grnnd ((v::halfvec(384)) halfvec_l2_ops) WITH (codes = off, layout = exact);
SELECT pg_relation_size('bare_idx') < 0.3 * pg_relation_size('h_idx') AS smaller;
DROP INDEX b_idx;
SELECT recall >= 0.95 AS recall, rows = different AS different, disordered FROM bit_ranked('glosses', 'b', 'SELECT b FROM queries', 10);

-- one by one into an empty index, with NULL and with few distinct rows
CREATE TABLE t (id int, b bit(5));
CREATE INDEX t_idx ON t USING grnnd (b);
INSERT INTO t VALUES (0, NULL);
INSERT INTO t SELECT i, i::bit(5) FROM generate_series(1, 200) i;
SELECT * FROM bit_ranked('t', 'b', 'VALUES (B''00000''), (B''11111''), (B''10101'')', 60);
SELECT * FROM grnnd_check('t_idx', true);
REINDEX INDEX t_idx;
SELECT * FROM bit_ranked('t', 'b', 'VALUES (B''00000''), (B''11111''), (B''10101'')', 60);
SELECT * FROM grnnd_check('t_idx', true);

-- short rows are codes from the first one on
SET grnnd.background_fit = off;
CREATE TABLE grown (id int, b bit(64));
CREATE INDEX grown_idx ON grown USING grnnd (b);
INSERT INTO grown SELECT id, binary_quantize(v - array_fill(0.9, ARRAY[64])::vector) FROM points(1, 400, 64, 1);
SELECT state, due FROM grnnd_codes('grown_idx');
DELETE FROM grown WHERE id % 3 = 0;
VACUUM grown;
INSERT INTO grown SELECT id, binary_quantize(v - array_fill(0.9, ARRAY[64])::vector) FROM points(401, 500, 64, 1);
SELECT recall >= 0.95 AS recall, rows = different AS different, disordered FROM bit_ranked('grown', 'b', 'SELECT b FROM grown WHERE id % 20 = 0', 10);
SELECT * FROM grnnd_check('grown_idx', true);
-- an edge takes 12 bytes: id and row
CREATE INDEX grown_16_idx ON grown USING grnnd (b) WITH (degree = 16);
SELECT pg_relation_size('grown_16_idx') < 500 * 300 AS dense FROM grnnd_codes('grown_16_idx');

-- those of longer ones come when there are rows enough
DROP TABLE grown;
CREATE TABLE grown (id int, b bit(520));
CREATE INDEX grown_idx ON grown USING grnnd (b);
INSERT INTO grown SELECT id, (b || b)::bit(520) FROM glosses WHERE id < 2000 UNION ALL SELECT id + 4000, (b || ~b)::bit(520) FROM glosses WHERE id < 2000;
SELECT state, due FROM grnnd_codes('grown_idx');
SELECT grnnd_fit('grown_idx');
SELECT state, due FROM grnnd_codes('grown_idx');
INSERT INTO grown SELECT id + 8000, (~b || b)::bit(520) FROM glosses WHERE id < 100;
SELECT recall >= 0.95 AS recall, rows = different AS different, disordered FROM bit_ranked('grown', 'b', 'SELECT b FROM grown WHERE id % 20 = 0', 10);
SELECT * FROM grnnd_check('grown_idx', true);

-- the borders of bytes, words, pages and the type
CREATE FUNCTION border(dim int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	bad bigint;
	r record;
	fill text := format('INSERT INTO b SELECT i, (SELECT string_agg((unit(i, j, 5) > 0.5)::int::text, '''') FROM generate_series(1, %s) j)::bit(%1$s) FROM generate_series($1, $2) i', dim);
BEGIN
	EXECUTE format('CREATE TABLE b (id int, b bit(%s))', dim);
	EXECUTE fill USING 1, 12;
	CREATE INDEX b_idx ON b USING grnnd (b);
	EXECUTE fill USING 13, 18;
	DELETE FROM b WHERE id % 5 = 0;
	bad := (SELECT count(*) FROM grnnd_check('b_idx', true));
	r := bit_ranked('b', 'b', 'SELECT b FROM b', 20);
	DROP TABLE b;
	RETURN CASE WHEN bad + r.disordered > 0 OR r.recall < 1 OR r.different <> 15 * 15 THEN format('%s: %s violations, %s', dim, bad, r) END;
END $$;
SELECT p FROM unnest('{1,2,3,7,8,9,31,32,33,63,64,65,127,129,1023,2000,2001,16001,64000}'::int[]) dim, border(dim) p WHERE p IS NOT NULL;
CREATE TABLE too_many (b bit(64001));
CREATE INDEX ON too_many USING grnnd (b);
CREATE TABLE varying (b varbit(64));
CREATE INDEX ON varying USING grnnd (b);
CREATE INDEX ON varying USING grnnd (b bit_jaccard_ops);
CREATE DOMAIN varying_64 AS varbit(64);
ALTER TABLE varying ADD d varying_64;
CREATE INDEX ON varying USING grnnd (d);
SELECT grnnd_build_estimate('varying', 'b');
INSERT INTO varying VALUES (B'1');
CREATE INDEX ON varying USING grnnd ((b::bit(64)));
INSERT INTO varying VALUES (B'10');
-- bits have no length to be brought to 1
CREATE OPERATOR CLASS bit_cosine_ops FOR TYPE bit USING grnnd AS
	OPERATOR 1 <~> (bit, bit) FOR ORDER BY float_ops,
	FUNCTION 1 grnnd_internal_type_bit(internal),
	FUNCTION 2 grnnd_internal_metric_cosine(internal);
CREATE INDEX ON t USING grnnd (b bit_cosine_ops);

DROP SCHEMA test_bit CASCADE;
