-- WHERE distance < limit ORDER BY distance: the scan ends at the limit, and no row is lost.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS grnnd CASCADE;
CREATE SCHEMA test_threshold;
SET search_path = test_threshold, public;
SET grnnd.build_device = cpu;
SET max_parallel_workers_per_gather = 0;
SET jit = off;

-- integers, which the index keeps exactly and many of which are equally far
CREATE TABLE t (id int, kind int, e vector(6));
INSERT INTO t SELECT i, i % 10, ARRAY[i * 7 % 23, i * 11 % 29, i * 5 % 31, i * 3 % 37, i * 13 % 41, i * 17 % 43]::vector FROM generate_series(1, 6000) i;
CREATE INDEX t_l2 ON t USING grnnd (e);
CREATE INDEX t_ip ON t USING grnnd (e vector_ip_ops);
CREATE INDEX t_cosine ON t USING grnnd (e vector_cosine_ops);
ANALYZE t;
SELECT e AS q FROM t WHERE id = 77 \gset
SELECT e AS other FROM t WHERE id = 78 \gset
SET enable_seqscan = off;

-- Of a query: rows that the index scan handed over in vain, if the plan has one.
CREATE FUNCTION in_vain(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	plan json;
	node json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, FORMAT json, COSTS off, TIMING off, SUMMARY off) ' || query INTO plan;
	node := plan -> 0 -> 'Plan';
	WHILE node ->> 'Node Type' <> 'Index Scan' LOOP
		node := node -> 'Plans' -> -1;
	END LOOP;
	RETURN CASE WHEN (node ->> 'Rows Removed by Filter')::int > 100 THEN 'goes on' ELSE 'ends' END;
END $$;
-- Whether the answer has the rows of the exact one (but one in 50, at most), and how many these are.
CREATE FUNCTION brings(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	got int[];
	exact int[];
	n int;
BEGIN
	EXECUTE 'SELECT array_agg(id) FROM (' || query || ') x' INTO got;
	PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_indexscan', 'off', true);
	EXECUTE 'SELECT array_agg(id) FROM (' || query || ') x' INTO exact;
	PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_indexscan', 'on', true);
	n := (SELECT count(*) FROM unnest(got) FULL JOIN unnest(exact) w (v) ON v = unnest WHERE v IS NULL OR unnest IS NULL);
	RETURN CASE WHEN n * 50 <= coalesce(cardinality(exact), 0) THEN 'all' ELSE n || ' other' END || ' of ' || coalesce(cardinality(exact), 0);
END $$;

-- every way to write it
SELECT in_vain(replace(replace('SELECT id FROM t WHERE ' || w || ' ORDER BY e <-> Q LIMIT 500', 'OTHER', quote_literal(:'other')), 'Q', quote_literal(:'q'))),
	brings(replace(replace('SELECT id FROM t WHERE ' || w || ' ORDER BY e <-> Q LIMIT 500', 'OTHER', quote_literal(:'other')), 'Q', quote_literal(:'q'))), w
FROM (VALUES ('e <-> Q < 9'), ('e <-> Q <= 9'), ('9 > e <-> Q'), ('9 >= e <-> Q'), ('Q <-> e < 9'), ('e <-> Q BETWEEN 3 AND 9'),
	('e <-> Q < 9 AND e <-> Q < 7'), ('e <-> Q < 12 AND kind = 3'), ('e <-> Q < (SELECT 9.0::float8)'),
	('e <-> Q < 0'), ('e <-> Q < NULL::float8'), ('e <-> Q <= (SELECT e <-> Q FROM t ORDER BY e <-> Q OFFSET 5 LIMIT 1)'),
	('e <-> Q < (SELECT e <-> Q FROM t ORDER BY e <-> Q OFFSET 5 LIMIT 1)'),
	('20 - (e <-> Q) > 11'), ('11 <= 20 - (e <-> Q)'), ('(e <-> Q) * -1 > -9'), ('-2 * (e <-> Q) >= -18'), ('2 * (e <-> Q) < 18'),
	('1 - (e <-> Q) > NULL::float8'),
	-- infinite limits, which no row passes
	('e <-> Q < ''-Infinity'''), ('1 - (e <-> Q) > ''Infinity'''), ('(e <-> Q) * -1 > ''Infinity'''), ('''-Infinity'' - (e <-> Q) > 5'),
	('(e <-> Q) * NULL::float8 > 5'),
	-- or every row does
	('1 - (e <-> Q) > ''-Infinity'''), ('''Infinity'' - (e <-> Q) > 5'), ('''Infinity'' - (e <-> Q) >= ''Infinity'''), ('(e <-> Q) * 0 > -5'),
	-- these say nothing of the end
	('20 - (e <-> Q) < 11'), ('(e <-> Q) * -1 < -9'), ('(e <-> Q) * 0 <= 0'), ('(e <-> Q) - 3 < 5'),
	('(e <-> Q < 5 OR kind = 99)'), ('e <-> OTHER < 5'), ('e <=> Q < 0.0001'), ('e <-> Q < 5 + random() * 0'), ('e <-> Q > 70'),
	('e <-> Q < 5 + kind * 0')) v (w);

-- the other distances, in all modes
CREATE FUNCTION by_modes(op text, nearest float8, step float8) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	mode text;
	query text;
BEGIN
	FOREACH mode IN ARRAY ARRAY['strict_order', 'relaxed_order', 'off'] LOOP
		PERFORM set_config('grnnd.iterative_scan', mode, true);
		FOR i IN 0 .. 3 LOOP
			query := format('SELECT id FROM test_threshold.t WHERE e %1$s %2$L <= %3$s ORDER BY e %1$s %2$L LIMIT 600', op,
				(SELECT e FROM test_threshold.t WHERE id = 77), nearest + i * step);
			IF in_vain(query) <> 'ends' OR mode <> 'off' AND brings(query) !~ '^all' THEN
				RETURN NEXT format('%s %s %s: %s, %s', op, mode, nearest + i * step, in_vain(query), brings(query));
			END IF;
		END LOOP;
	END LOOP;
	PERFORM set_config('grnnd.iterative_scan', 'strict_order', true);
END $$;
SELECT by_modes('<->', 0, 4);
SELECT by_modes('<#>', -2400, 150);
SELECT by_modes('<=>', 0, 0.01);

-- narrow searches find what is within the limit, however many rows that are
CREATE TABLE rough (id int, e vector(16));
INSERT INTO rough SELECT i, (SELECT array_agg(sin(i % 40 * j) + 0.3 * sin(i * j * 1.7)) FROM generate_series(1, 16) j)::vector
FROM generate_series(1, 4000) i;
CREATE INDEX ON rough USING grnnd (e);
CREATE INDEX ON rough USING grnnd (e vector_ip_ops);
CREATE INDEX ON rough USING grnnd (e vector_cosine_ops);
CREATE INDEX ON rough USING grnnd (e vector_l1_ops);
CREATE FUNCTION narrow(op text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	q vector;
	near float8[];
	n int;
	found int;
	incomplete int := 0;
BEGIN
	FOR i IN 1 .. 20 LOOP
		q := (SELECT array_agg(sin(i * 2 * j) + 0.3 * sin(i * j * 0.9)) FROM generate_series(1, 16) j)::vector;
		PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_indexscan', 'off', true);
		EXECUTE format('SELECT array_agg(d ORDER BY d) FROM (SELECT e %s $1 AS d FROM test_threshold.rough) x', op) INTO near USING q;
		PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_indexscan', 'on', true);
		FOREACH n IN ARRAY ARRAY[1, 2, 5, 10, 30, 100] LOOP
			FOR ef IN 1 .. 5 LOOP
				PERFORM set_config('grnnd.ef_search', ef::text, true);
				EXECUTE format('SELECT count(*) FROM (SELECT id FROM test_threshold.rough WHERE e %1$s $1 < $2 ORDER BY e %1$s $1 LIMIT 200) x', op)
					INTO found USING q, (near[n] + near[n + 1]) / 2;
				incomplete := incomplete + (found < n)::int;
			END LOOP;
		END LOOP;
	END LOOP;
	RETURN CASE WHEN incomplete <= 12 THEN 'all' ELSE incomplete || ' of 600 miss a row' END;
END $$;
SELECT narrow('<->') AS l2, narrow('<#>') AS ip, narrow('<=>') AS cosine, narrow('<+>') AS l1;

-- rows that the index rounds
CREATE TABLE rounded (id int, e vector(6));
INSERT INTO rounded SELECT id, e FROM t WHERE id <= 3000;
CREATE INDEX ON rounded USING grnnd (e);
INSERT INTO rounded SELECT id, e * array_fill(0.737, ARRAY[6])::vector FROM t WHERE id > 3000;
SELECT brings('SELECT id FROM rounded WHERE e <-> ' || quote_literal(:'q') || ' < ' || r || ' ORDER BY e <-> ' || quote_literal(:'q') || ' LIMIT 400')
FROM (VALUES (0), (5), (8), (11)) v (r);
-- and the similarity of a row as the limit, which conditions round (a likely bound may cost a row)
CREATE TABLE few_bits (id int, e vector(64));
INSERT INTO few_bits SELECT i, (SELECT array_agg(sin(i * j)) FROM generate_series(1, 64) j)::vector
FROM generate_series(1, 500) i;
CREATE INDEX ON few_bits USING grnnd (e) WITH (layout = compact);
SELECT e AS few FROM few_bits WHERE id = 7 \gset
SET grnnd.ef_search = 1000;
SELECT count(*), count(*) - count(x.id) <= 2 AS found
FROM (SELECT id, (e <-> :'few') * -0.3 AS similarity FROM few_bits) r
	LEFT JOIN LATERAL (SELECT id FROM few_bits WHERE (e <-> :'few') * -0.3 >= r.similarity
		ORDER BY e <-> :'few' LIMIT 1000) x ON x.id = r.id;
RESET grnnd.ef_search;

-- parameters: of generic plans, of functions, of joins, of cursors
SET plan_cache_mode = force_generic_plan;
PREPARE near (vector, vector, float8) AS SELECT count(*) FROM (SELECT id FROM t WHERE e <-> $1 < $3 ORDER BY e <-> $2 LIMIT 500) x;
SELECT in_vain(format('EXECUTE near (%L, %L, 9)', :'q', :'q')), in_vain(format('EXECUTE near (%L, %L, 5)', :'q', :'other'));
EXECUTE near (:'q', :'q', 9);
EXECUTE near (:'q', :'q', 4);
RESET plan_cache_mode;
SELECT count(*) FROM t WHERE e <-> :'q' < 9;
CREATE FUNCTION within(q vector, r float8) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	n bigint := 0;
	found record;
BEGIN
	FOR found IN SELECT id FROM t WHERE e <-> q < r ORDER BY e <-> q LIMIT 500 LOOP
		n := n + 1;
	END LOOP;
	RETURN n;
END $$;
SELECT within(:'q', 9), within(:'other', 9);
-- a limit of each row's own
SELECT a.id, (SELECT count(*) FROM t b WHERE b.e <-> a.e < a.id - 74) = count(b.id) AS same, count(b.id) > 1 AS several
FROM t a LEFT JOIN LATERAL (SELECT id FROM t WHERE e <-> a.e < a.id - 74 ORDER BY e <-> a.e LIMIT 900) b ON true
WHERE a.id BETWEEN 73 AND 85 GROUP BY a.id, a.e ORDER BY a.id;
SELECT in_vain('SELECT b.id FROM t a, LATERAL (SELECT id FROM t WHERE e <-> a.e < 9 ORDER BY e <-> a.e LIMIT 500) b WHERE a.id = 77');
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM t WHERE e <-> :'q' < 4 ORDER BY e <-> :'q' LIMIT 500;
FETCH 1 FROM c;
SAVEPOINT s;
-- an error within an execution
SELECT 1 / (id - 77) FROM t WHERE e <-> :'q' < 8 ORDER BY e <-> :'q' LIMIT 5;
ROLLBACK TO s;
MOVE FORWARD ALL IN c;
COMMIT;
SELECT in_vain(format('SELECT id FROM t WHERE e <-> %1$L < 6 ORDER BY e <-> %1$L LIMIT 50 FOR UPDATE', :'q'));
-- numbers beside which no distance counts
SELECT brings(format('SELECT id FROM t WHERE 1e308 - (e <-> %1$L) >= 1e308 ORDER BY e <-> %1$L LIMIT 5000', :'q'));
-- partitions
CREATE TABLE parts (id int, kind int, e vector(6)) PARTITION BY LIST (kind);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1, 2, 3);
CREATE TABLE parts_2 PARTITION OF parts DEFAULT;
INSERT INTO parts SELECT * FROM t;
CREATE INDEX ON parts USING grnnd (e);
ANALYZE parts;
SELECT in_vain(format('SELECT id FROM parts WHERE e <-> %1$L < 9 ORDER BY e <-> %1$L LIMIT 500', :'q')),
	brings(format('SELECT id FROM parts WHERE e <-> %1$L < 9 ORDER BY e <-> %1$L LIMIT 500', :'q'));

SELECT count(*) FILTER (WHERE e <#> :'q' <= -1950), count(*) FILTER (WHERE e <=> :'q' <= 0.03) FROM t;
DROP SCHEMA test_threshold CASCADE;
