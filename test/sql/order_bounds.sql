-- Bounds hold against the executor's own distances: no query ends with "index returned
-- tuples in wrong order", whatever the rows' lengths, dimensions and cancellation.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS grnnd CASCADE;
CREATE SCHEMA test_order_bounds;
SET search_path = test_order_bounds, public;
SET grnnd.build_device = cpu;
\getenv dir PG_ABS_SRCDIR
\set file :dir '/lib/recall.sql'
\set ECHO none
\i :file
\set ECHO all

-- Queries of the table's rows that end with an error, or bring other rows than asked for.
CREATE FUNCTION failures(tab regclass, op text, n int, k int DEFAULT 10) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
	q vector;
	other vector;
	got int;
	bad int := 0;
BEGIN
	PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true);
	FOR i IN 1 .. n LOOP
		EXECUTE format('SELECT v FROM %s WHERE id = %s', tab, i) INTO q;
		EXECUTE format('SELECT v FROM %s WHERE id = %s', tab, i + 1) INTO other;
		BEGIN
			EXECUTE format('SELECT count(*) FROM (SELECT id FROM %s ORDER BY v %s $1, v %2$s $2 LIMIT %3$s) x',
				tab, op, k) USING q, other INTO got;
			bad := bad + (got <> k)::int;
		EXCEPTION WHEN internal_error THEN
			bad := bad + 1;
		END;
	END LOOP;
	RETURN bad;
END $$;

-- inner products of rows that an empty index got one by one, and of longer ones
CREATE TABLE ip (id int, v vector(200));
CREATE INDEX ip_idx ON ip USING grnnd (v vector_ip_ops);
INSERT INTO ip SELECT id, v - array_fill(0.7, ARRAY[200])::vector FROM points(1, 600, 200, 1);
SELECT failures('ip', '<#>', 200);
INSERT INTO ip SELECT id + 600, (v - array_fill(0.7, ARRAY[200])::vector) * array_fill(1e6, ARRAY[200])::vector
	FROM points(601, 650, 200, 1);
SELECT failures('ip', '<#>', 200);
-- rounded ones: 0 and 1 are kept as bytes, and fractions come
CREATE TABLE bytes (id int, v vector(200));
INSERT INTO bytes SELECT id + 1000, (SELECT array_agg((x > 0.7)::int ORDER BY n) FROM unnest(v::float4[]) WITH ORDINALITY u (x, n))::vector
	FROM points(1, 300, 200, 1);
CREATE INDEX bytes_idx ON bytes USING grnnd (v vector_ip_ops);
INSERT INTO bytes SELECT * FROM ip;
SELECT failures('bytes', '<#>', 100);

-- products that cancel: queries of the first rows, orthogonal to what the others share
CREATE TABLE across (id int, v vector(200));
CREATE INDEX across_idx ON across USING grnnd (v vector_ip_ops);
INSERT INTO across SELECT i, (SELECT array_agg(CASE WHEN i <= 41 THEN sign(unit(i, (j + 1) / 2, 3) - 0.5) * (1 - j % 2 * 2)
		ELSE 1000 + unit(i, j, 3) / 100 END ORDER BY j) FROM generate_series(1, 200) j)::vector
	FROM generate_series(1, 500) i;
SELECT failures('across', '<#>', 40, 200);

-- cosine and Euclidean distances beneath what single precision can sum
CREATE TABLE flat (id int, v vector(6000));
CREATE INDEX flat_cosine ON flat USING grnnd (v vector_cosine_ops);
CREATE INDEX flat_l2 ON flat USING grnnd (v);
INSERT INTO flat SELECT i, (SELECT array_agg(0.3 + 0.01 * i + CASE WHEN j > 5900 THEN 0.1 * unit(i, j, 3) ELSE 0 END ORDER BY j) FROM generate_series(1, 6000) j)::vector
	FROM generate_series(1, 60) i;
SELECT failures('flat', '<=>', 40), failures('flat', '<->', 40);
-- products that vanish in single precision
CREATE TABLE tiny (id int, v vector(8));
CREATE INDEX tiny_ip ON tiny USING grnnd (v vector_ip_ops);
CREATE INDEX tiny_l2 ON tiny USING grnnd (v);
INSERT INTO tiny SELECT i, (SELECT array_agg(1e-22 * (unit(i, j, 3) - 0.5) ORDER BY j) FROM generate_series(1, 8) j)::vector
	FROM generate_series(1, 100) i;
SELECT failures('tiny', '<#>', 40), failures('tiny', '<->', 40);

DROP SCHEMA test_order_bounds CASCADE;
