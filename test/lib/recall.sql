-- recall.sql - test data, and the recall of an index against the exact answer: for
-- regression tests by \ir, for Perl tests by GrnndTest.pm.  Everything follows
-- from the seeds given.

-- A number in [0, 1).
CREATE FUNCTION unit(a bigint, b bigint, seed bigint) RETURNS float8
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (hashint8extended(a * 65536 + b, seed) & 1048575) / 1048576.0;

-- Vectors a .. b of a family: eight hidden coordinates and a little noise, as
-- embeddings are.
CREATE FUNCTION points(a int, b int, dim int, seed int)
RETURNS TABLE (id int, v vector) LANGUAGE sql IMMUTABLE AS $$
	SELECT i, (SELECT array_agg(unit(i, j % 8, seed) * (1 + j % 3)
								+ 0.1 * unit(i, 100 + j, seed) ORDER BY j)
			   FROM generate_series(0, dim - 1) j)::vector
	FROM generate_series(a, b) i
$$;

-- Ends with an error unless the query is answered by an index scan.
CREATE FUNCTION expect_index(query text, q vector) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	plan text := '';
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query USING q LOOP
		plan := plan || line || E'\n';
	END LOOP;
	IF plan !~ 'Index Scan' THEN
		RAISE EXCEPTION 'no index scan: %', plan;
	END IF;
END $$;

-- recall@k of ORDER BY col op query over the queries' vectors, by distance, so
-- that equal rows may stand for one another.
CREATE FUNCTION recall(tab regclass, col name, op text, queries regclass, k int DEFAULT 10)
RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
	q vector;
	hits int;
	total int := 0;
	wanted int := 0;
	worst float8;
	rows int;
BEGIN
	FOR q IN EXECUTE format('SELECT v FROM %s ORDER BY id', queries) LOOP
		PERFORM set_config('enable_seqscan', 'on', true),
			set_config('enable_indexscan', 'off', true);
		EXECUTE format('SELECT max(d), count(*) FROM (SELECT %I %s $1 AS d FROM %s
			WHERE %I IS NOT NULL ORDER BY d LIMIT %s) x', col, op, tab, col, k)
			INTO worst, rows USING q;
		PERFORM set_config('enable_seqscan', 'off', true),
			set_config('enable_indexscan', 'on', true);
		IF total = 0 THEN
			PERFORM expect_index(format('SELECT %I FROM %s ORDER BY %I %s $1 LIMIT %s',
										col, tab, col, op, k), q);
		END IF;
		EXECUTE format('SELECT count(*) FROM (SELECT %I %s $1 AS d FROM %s
			ORDER BY %I %s $1 LIMIT %s) x WHERE d <= $2 + 1e-6 * abs($2)',
			col, op, tab, col, op, k)
			INTO hits USING q, worst;
		total := total + hits;
		wanted := wanted + rows;
	END LOOP;
	PERFORM set_config('enable_seqscan', 'on', true);
	RETURN total / wanted::float8;
END $$;

-- Rows of the table, which have different ids, that an exhaustive search by the
-- index does not bring.
CREATE FUNCTION missing(tab regclass, col name, op text, query vector)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	n bigint;
	all_rows bigint;
BEGIN
	EXECUTE format('SELECT count(*) FROM %s WHERE %I IS NOT NULL', tab, col) INTO all_rows;
	PERFORM set_config('enable_seqscan', 'off', true),
		set_config('enable_sort', 'off', true),
		set_config('grnnd.ef_search', '1000', true),
		set_config('grnnd.max_scan_tuples', '2147483647', true),
		set_config('grnnd.scan_mem_multiplier', '1000', true),
		set_config('grnnd.iterative_scan', 'relaxed_order', true);
	PERFORM expect_index(format('SELECT id FROM %s ORDER BY %I %s $1', tab, col, op), query);
	EXECUTE format('SELECT count(DISTINCT id) FROM (SELECT id FROM %s ORDER BY %I %s $1
		LIMIT %s) x', tab, col, op, all_rows + 1) INTO n USING query;
	PERFORM set_config('enable_seqscan', 'on', true),
		set_config('enable_sort', 'on', true),
		set_config('grnnd.ef_search', '40', true),
		set_config('grnnd.iterative_scan', 'strict_order', true);
	RETURN all_rows - n;
END $$;
