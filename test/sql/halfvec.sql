-- Type halfvec: 16 bits a number in the build, on disk and in queries, and rows in exact order.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS grnnd_tools CASCADE;
CREATE SCHEMA test_halfvec;
SET search_path = test_halfvec, public;
SET grnnd.build_device = cpu;
\getenv dir PG_ABS_SRCDIR
\set file :dir '/lib/recall.sql'
\set ECHO none
\i :file
\set ECHO all

-- embeddings of dictionary entries, byte by byte, times what makes them no integers
CREATE TABLE glosses (id int, v vector(384), h halfvec(384));
\set file :dir '/data/glosses.i8'
INSERT INTO glosses SELECT id, v, v FROM
	(SELECT id, (SELECT array_agg((get_byte(b, j) # 128) - 128 ORDER BY j) FROM generate_series(0, 383) j)::vector *
			array_fill(0.0123, ARRAY[384])::vector AS v
		FROM generate_series(1, 1700) id, pg_read_binary_file(:'file', id * 384, 384) b) x;
CREATE TABLE queries AS SELECT id, v FROM glosses WHERE id % 61 = 0;
DELETE FROM glosses WHERE id % 61 = 0;
CREATE INDEX l2_idx ON glosses USING grnnd (h);
CREATE INDEX ip_idx ON glosses USING grnnd (h halfvec_ip_ops);
CREATE INDEX cosine_idx ON glosses USING grnnd (h halfvec_cosine_ops);
SELECT op, recall >= 0.95 AS recall, rows, different, disordered
	FROM unnest('{<->,<#>,<=>}'::text[]) op, ranked('glosses', 'h', op, 'SELECT v FROM queries', 10);
SELECT missing('glosses', 'h', op, (SELECT v FROM queries LIMIT 1)) FROM unnest('{<->,<#>,<=>}'::text[]) op;
SELECT i, c.* FROM unnest('{l2_idx,ip_idx,cosine_idx}'::text[]) i, grnnd_check(i::regclass, true) c;
SELECT abs(rows - 1673) < 20 AS rows, dimensions FROM grnnd_build_estimate('glosses', 'h', 'halfvec_cosine_ops');

-- more rows, duplicates among them; fewer rows
INSERT INTO glosses SELECT id + 10000, v, h FROM glosses WHERE id % 7 < 2;
DELETE FROM glosses WHERE id % 3 = 0;
VACUUM glosses;
INSERT INTO glosses SELECT id + 20000, v, (v * array_fill(1.5, ARRAY[384])::vector) FROM glosses WHERE id % 7 = 3;
SELECT op, recall >= 0.95 AS recall, rows = different AS different, disordered
	FROM unnest('{<->,<#>,<=>}'::text[]) op, ranked('glosses', 'h', op, 'SELECT v FROM queries', 10);
SELECT missing('glosses', 'h', op, (SELECT v FROM queries LIMIT 1)) FROM unnest('{<->,<#>,<=>}'::text[]) op;
SELECT i, c.* FROM unnest('{l2_idx,ip_idx,cosine_idx}'::text[]) i, grnnd_check(i::regclass, true) c;

-- L1: halves too, in half the space of floats, and the operator's own distances
CREATE INDEX l1_idx ON glosses USING grnnd (h halfvec_l1_ops) WITH (layout = exact);
CREATE INDEX v_l1_idx ON glosses USING grnnd (v vector_l1_ops) WITH (layout = exact);
SELECT pg_relation_size('l1_idx') < pg_relation_size('v_l1_idx') AS smaller;
SELECT recall >= 0.95 AS recall, rows = different AS different, disordered FROM ranked('glosses', 'h', '<+>', 'SELECT v FROM queries', 10);
SELECT missing('glosses', 'h', '<+>', (SELECT v FROM queries LIMIT 1));
INSERT INTO glosses SELECT id + 30000, v, h FROM glosses WHERE id % 7 = 5;
DELETE FROM glosses WHERE id % 11 = 0;
VACUUM glosses;
SELECT recall >= 0.95 AS recall, rows = different AS different, disordered FROM ranked('glosses', 'h', '<+>', 'SELECT v FROM queries', 10);
SELECT missing('glosses', 'h', '<+>', (SELECT v FROM queries LIMIT 1));
SELECT * FROM grnnd_check('l1_idx', true);
-- rows from the middle of the range to its ends, where halves are coarse, and zero
CREATE TABLE far (id int, h halfvec(4));
INSERT INTO far SELECT i, ARRAY[i, -i, 65504 - i * 64, 0]::halfvec(4) FROM generate_series(0, 400) i;
INSERT INTO far SELECT 1000 + i, ARRAY[1e-7 * i, 0, 0, -6e-8 * i]::halfvec(4) FROM generate_series(0, 50) i;
CREATE INDEX far_idx ON far USING grnnd (h halfvec_l1_ops);
SELECT recall, rows = different AS different, disordered FROM ranked('far', 'h', '<+>', 'VALUES (''[0,0,0,0]''::vector), (''[200,-200,52000,1]''), (''[400,-400,40000,0]'')', 10);
SELECT * FROM grnnd_check('far_idx', true);
DROP INDEX l1_idx, v_l1_idx;

-- a cast column beside its vectors
CREATE INDEX cast_idx ON glosses USING grnnd ((v::halfvec(384)) halfvec_l2_ops);
SET enable_seqscan = off;
SET enable_sort = off;
SELECT expect_index('SELECT id FROM glosses ORDER BY v::halfvec(384) <-> $1 LIMIT 5', (SELECT v FROM queries LIMIT 1));
SELECT count(*) FROM (SELECT id FROM glosses ORDER BY v::halfvec(384) <-> (SELECT v::halfvec(384) FROM queries LIMIT 1) LIMIT 5) x;

-- rows that are kept exactly have the executor's own distances: none is returned for
-- another try, and FOR UPDATE locks it
SELECT count(*) FROM (SELECT id FROM glosses ORDER BY h <=> (SELECT h FROM glosses WHERE id = 22) LIMIT 20 FOR UPDATE) x;
-- bounds of two distances hold (see order_bounds)
SELECT count(*) FROM queries a, queries b, LATERAL (SELECT id FROM glosses
	ORDER BY h <=> a.v, h <=> b.v LIMIT 5) x WHERE a.id < 600 AND b.id < 600;
SELECT count(*) FROM queries a, queries b, LATERAL (SELECT id FROM glosses
	ORDER BY h <#> a.v, h <#> b.v LIMIT 5) x WHERE a.id < 600 AND b.id < 600;
RESET enable_seqscan;
RESET enable_sort;

-- one by one into an empty index, and all numbers that a half can be
CREATE TABLE t (id int, h halfvec(8));
CREATE INDEX t_l2 ON t USING grnnd (h);
CREATE INDEX t_ip ON t USING grnnd (h halfvec_ip_ops);
CREATE INDEX t_cosine ON t USING grnnd (h halfvec_cosine_ops);
INSERT INTO t VALUES (-1, NULL);
INSERT INTO t SELECT i, (SELECT array_agg(((unit(i, j, 1) - 0.5) * 2.0 ^ (unit(i, 9, 1) * 36 - 20)) ORDER BY j) FROM generate_series(1, 8) j)::halfvec
	FROM generate_series(1, 600) i;
-- (zero has no place under cosine)
INSERT INTO t VALUES (1001, '[0,0,0,0,0,0,0,0]'), (1002, '[6e-8,0,0,0,0,0,0,0]'), (1003, '[65504,65504,65504,65504,65504,65504,65504,65504]');
SELECT op, recall >= 0.95 AS recall, rows, different, disordered
	FROM unnest('{<->,<#>}'::text[]) op, ranked('t', 'h', op, 'SELECT h::vector FROM t WHERE id < 20 AND id > 0', 10);
SELECT recall >= 0.95 AS recall, rows, different, disordered
	FROM ranked('t', 'h', '<=>', 'SELECT h::vector FROM t WHERE id < 20 AND id > 0', 10, 'id <> 1001');
SELECT missing('t', 'h', op, (SELECT h::vector FROM t WHERE id = 7)) FROM unnest('{<->,<#>,<=>}'::text[]) op;
SELECT i, c.* FROM unnest('{t_l2,t_ip,t_cosine}'::text[]) i, grnnd_check(i::regclass, true) c;
REINDEX TABLE t;
SELECT missing('t', 'h', op, (SELECT h::vector FROM t WHERE id = 7)) FROM unnest('{<->,<#>,<=>}'::text[]) op;
SELECT i, c.* FROM unnest('{t_l2,t_ip,t_cosine}'::text[]) i, grnnd_check(i::regclass, true) c;

-- codes come when there are rows enough
SET grnnd.background_fit = off;
CREATE TABLE grown (id int, h halfvec(32));
CREATE INDEX grown_idx ON grown USING grnnd (h halfvec_cosine_ops);
INSERT INTO grown SELECT * FROM points(1, 300, 32, 1);
SELECT state, due FROM grnnd_codes('grown_idx');
SELECT grnnd_fit('grown_idx');
SELECT state, due FROM grnnd_codes('grown_idx');
INSERT INTO grown SELECT * FROM points(301, 400, 32, 1);
SELECT recall >= 0.95 AS recall, rows = different AS different, disordered
	FROM ranked('grown', 'h', '<=>', 'SELECT h::vector FROM grown WHERE id % 20 = 0', 10);
SELECT * FROM grnnd_check('grown_idx', true);

-- integers take bytes, and others may follow
CREATE TABLE whole (id int, h halfvec(200));
INSERT INTO whole SELECT id, (SELECT array_agg(floor(x * 80) ORDER BY n) FROM unnest(v::float4[]) WITH ORDINALITY u (x, n))::halfvec
	FROM points(1, 900, 200, 1);
CREATE INDEX whole_idx ON whole USING grnnd (h);
INSERT INTO whole SELECT id, v FROM points(901, 950, 200, 1);
SELECT recall >= 0.95 AS recall, rows, different, disordered
	FROM ranked('whole', 'h', '<->', 'SELECT h::vector FROM whole WHERE id % 90 = 0', 10);
SELECT * FROM grnnd_check('whole_idx', true);

-- half the bytes of vectors: 40 rows take so many pages more
CREATE TABLE large (id int, v vector(1200), h halfvec(1200));
INSERT INTO large SELECT id, v, v FROM points(1, 60, 1200, 1);
CREATE INDEX v_idx ON large USING grnnd (v vector_cosine_ops) WITH (codes = off, layout = exact);
CREATE INDEX h_l2 ON large USING grnnd (h) WITH (codes = off, layout = exact);
CREATE INDEX h_ip ON large USING grnnd (h halfvec_ip_ops) WITH (codes = off, layout = exact);
CREATE INDEX h_cosine ON large USING grnnd (h halfvec_cosine_ops) WITH (codes = off, layout = exact);
CREATE TEMP TABLE before AS SELECT i, pg_relation_size(i::regclass) AS size
	FROM unnest('{v_idx,h_l2,h_ip,h_cosine}'::text[]) i;
INSERT INTO large SELECT id, v, v FROM points(61, 100, 1200, 1);
SELECT i, (pg_relation_size(i::regclass) - size) / 8192 AS pages FROM before;

-- the borders of what a page, a vector register and the type hold
CREATE FUNCTION border(dim int, op text, opclass text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	bad bigint;
	lost bigint;
BEGIN
	EXECUTE format('CREATE TABLE b (id int, h halfvec(%s))', dim);
	EXECUTE format('INSERT INTO b SELECT i, (SELECT array_agg(unit(i, j, 5) - 0.3) FROM generate_series(1, %s) j)::halfvec FROM generate_series(1, 12) i', dim);
	EXECUTE format('CREATE INDEX b_idx ON b USING grnnd (h %s)', opclass);
	EXECUTE format('INSERT INTO b SELECT i, (SELECT array_agg(unit(i, j, 5) - 0.3) FROM generate_series(1, %s) j)::halfvec FROM generate_series(13, 18) i', dim);
	DELETE FROM b WHERE id % 5 = 0;
	bad := (SELECT count(*) FROM grnnd_check('b_idx', true));
	lost := missing('b', 'h', op, (SELECT h::vector FROM b WHERE id = 3));
	IF (SELECT max(disordered) + max(10 - rows) FROM ranked('b', 'h', op, 'SELECT h::vector FROM b WHERE id = 4', 10)) <> 0 THEN
		lost := lost + 100;
	END IF;
	DROP TABLE b;
	RETURN CASE WHEN bad + lost > 0 THEN format('%s %s: %s violations, %s lost', dim, op, bad, lost) END;
END $$;
SELECT border(dim, op[1], op[2]) AS problem
	FROM unnest('{1,2,3,31,32,33,1023,2000,2001,16000}'::int[]) dim,
		(VALUES ('{<->,halfvec_l2_ops}'::text[]), ('{<#>,halfvec_ip_ops}'), ('{<=>,halfvec_cosine_ops}')) o (op)
	WHERE border(dim, op[1], op[2]) IS NOT NULL;
CREATE TABLE too_many (h halfvec(16001));
CREATE TABLE untyped (h halfvec);
CREATE INDEX ON untyped USING grnnd (h);

DROP SCHEMA test_halfvec CASCADE;
