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
CREATE FUNCTION expect_index(query text, q anyelement) RETURNS void LANGUAGE plpgsql AS $$
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

-- Runs ORDER BY col op query LIMIT k by index for each vector of queries (a statement), and
-- holds it against the exact order: the share of the right rows, by distance, so
-- that equal rows may stand for one another; how many rows came, how many of them
-- different by id, and how many after a farther one.  The queries' type is the column's, or
-- one that can be cast to it.
CREATE FUNCTION ranked(tab regclass, col name, op text, queries text, k int,
	filter text DEFAULT 'true',
	OUT recall float8, OUT rows bigint, OUT different bigint, OUT disordered bigint)
LANGUAGE plpgsql AS $$
DECLARE
	-- (without a modifier: a "bit" is as long as it comes)
	type text := (SELECT quote_ident(t.typname) FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
		WHERE a.attrelid = tab AND a.attname = col);
	by_index text := format('SELECT id, %1$I %2$s $1::%6$s AS d FROM %3$s WHERE %4$s
		ORDER BY %1$I %2$s $1::%6$s LIMIT %5$s', col, op, tab, filter, k, type);
	exact text := format('SELECT %1$I %2$s $1::%6$s AS d FROM %3$s WHERE %1$I IS NOT NULL AND (%4$s)
		ORDER BY d LIMIT %5$s', col, op, tab, filter, k, type);
	q text;
	worst float8;
	got float8[];
	n bigint;
	hits bigint := 0;
	wanted bigint := 0;
BEGIN
	rows := 0; different := 0; disordered := 0;
	FOR q IN EXECUTE queries LOOP
		PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_sort', 'on', true),
			set_config('enable_indexscan', 'off', true);
		EXECUTE 'SELECT max(d), count(*) FROM (' || exact || ') x' INTO worst, n USING q;
		wanted := wanted + n;
		PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true),
			set_config('enable_indexscan', 'on', true);
		IF wanted = n AND n > 0 THEN
			PERFORM expect_index(by_index, q);
		END IF;
		EXECUTE 'SELECT array_agg(d ORDER BY n), count(DISTINCT id) FROM
			(SELECT row_number() OVER () AS n, * FROM (' || by_index || ') y) x' INTO got, n USING q;
		rows := rows + coalesce(array_length(got, 1), 0);
		different := different + n;
		hits := hits + (SELECT count(*) FROM unnest(got) d WHERE d <= worst + 1e-6 * abs(worst));
		disordered := disordered + (SELECT count(*) FROM generate_series(2, array_length(got, 1)) i
			WHERE got[i] < got[i - 1] - 1e-6 * abs(got[i - 1]));
	END LOOP;
	PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_sort', 'on', true);
	recall := hits / nullif(wanted, 0)::float8;
END $$;

-- "ok", or what is wrong with that: rows that are missing, that come in the wrong order
-- although the scan is strict, or too few of the right ones.
CREATE FUNCTION found(tab regclass, col name, op text, queries text, k int, goal float8,
	filter text DEFAULT 'true')
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	r record;
	passing bigint;
	n bigint;
BEGIN
	EXECUTE format('SELECT count(*) FROM %s WHERE %I IS NOT NULL AND (%s)', tab, col, filter) INTO passing;
	EXECUTE format('SELECT count(*) FROM (%s) x', queries) INTO n;
	SELECT * INTO r FROM ranked(tab, col, op, queries, k, filter);
	RETURN CASE WHEN r.rows <> r.different OR r.rows <> n * least(k, passing)
			THEN format('%s rows, %s different', r.rows, r.different)
		-- what a strict scan finds too late for its turn comes after all others
		WHEN r.disordered > 0 AND current_setting('grnnd.iterative_scan') <> 'relaxed_order' AND k < passing
			THEN format('%s out of order', r.disordered)
		WHEN r.recall < goal THEN format('recall %s', r.recall) ELSE 'ok' END;
END $$;

-- Its recall alone, over the queries' vectors.
CREATE FUNCTION recall(tab regclass, col name, op text, queries regclass, k int DEFAULT 10)
RETURNS float8 LANGUAGE sql
RETURN (ranked(tab, col, op, format('SELECT v FROM %s ORDER BY id', queries), k)).recall;

-- Rows of the table, which have different ids, that an exhaustive search by the
-- index does not bring.
CREATE FUNCTION missing(tab regclass, col name, op text, query vector)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	n bigint;
	all_rows bigint;
	memory text := current_setting('work_mem');
BEGIN
	EXECUTE format('SELECT count(*) FROM %s WHERE %I IS NOT NULL', tab, col) INTO all_rows;
	PERFORM set_config('enable_seqscan', 'off', true),
		set_config('enable_sort', 'off', true),
		set_config('grnnd.ef_search', '1000', true),
		set_config('grnnd.max_scan_tuples', '2147483647', true),
		set_config('work_mem', '4GB', true),
		set_config('grnnd.iterative_scan', 'relaxed_order', true);
	PERFORM expect_index(format('SELECT id FROM %s ORDER BY %I %s $1', tab, col, op), query);
	EXECUTE format('SELECT count(DISTINCT id) FROM (SELECT id FROM %s ORDER BY %I %s $1
		LIMIT %s) x', tab, col, op, all_rows + 1) INTO n USING query;
	PERFORM set_config('enable_seqscan', 'on', true),
		set_config('enable_sort', 'on', true),
		set_config('work_mem', memory, true),
		set_config('grnnd.ef_search', '40', true),
		set_config('grnnd.iterative_scan', 'strict_order', true);
	RETURN all_rows - n;
END $$;
