-- migration.sql - data of every type that pgvector indexes, and an index's answers held
-- against the exact ones, for the tests of migration from hnsw.  recall.sql comes before it.

-- 64 numbers of 8 hidden ones and a little noise, about zero, as embeddings are.
CREATE FUNCTION spread(id bigint) RETURNS vector LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
	SELECT array_agg(h[1] * ((j * 7 + 5) % 17 - 8) + h[2] * ((j * 11 + 3) % 19 - 9) + h[3] * ((j * j + 1) % 17 - 8)
		+ h[4] * ((j * 5 + 2) % 13 - 6) + h[5] * ((j * j * 3 + j) % 19 - 9) + h[6] * ((j * 3 + 7) % 11 - 5)
		+ h[7] * ((j * j * 5 + 4) % 13 - 6) + h[8] * ((j * 13 + 1) % 23 - 11) + unit(id, 100 + j, 5) - 0.5 ORDER BY j)::vector
	FROM generate_series(1, 64) j, (SELECT ARRAY(SELECT unit(id, k, 5) - 0.5 FROM generate_series(1, 8) k) AS h OFFSET 0) hidden
$$;

-- The same with most numbers zero.
CREATE FUNCTION sparse(v vector) RETURNS sparsevec LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (SELECT array_agg(CASE WHEN abs(x) > 6 THEN x ELSE 0 END ORDER BY n)
	FROM unnest(v::real[]) WITH ORDINALITY u (x, n))::vector::sparsevec;

-- Runs "SELECT id, DISTANCE FROM tab WHERE filter ORDER BY DISTANCE LIMIT k" for each query, where
-- DISTANCE is expression, operator and the query, by index and exactly.  recall: the share
-- of the right distances, so that equal rows may stand for one another; rows, and how many
-- of them different and how many after a farther one; plan: the index that the first query
-- was answered by.
CREATE FUNCTION answers(tab text, expression text, op text, type text, queries text[], k int,
	filter text DEFAULT 'true',
	OUT recall float8, OUT rows bigint, OUT different bigint, OUT disordered bigint, OUT plan text)
LANGUAGE plpgsql AS $$
DECLARE
	q text;
	distance text;
	line text;
	worst float8;
	got float8[];
	n bigint;
	hits bigint := 0;
	wanted bigint := 0;
BEGIN
	rows := 0; different := 0; disordered := 0;
	FOREACH q IN ARRAY queries LOOP
		distance := format('%s %s %L::%s', expression, op, q, type);
		PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_indexscan', 'off', true);
		EXECUTE format('SELECT max(d), count(*) FROM (SELECT %1$s AS d FROM %2$s WHERE %1$s IS NOT NULL
			AND %1$s <> ''NaN'' AND (%3$s) ORDER BY d LIMIT %4$s) x', distance, tab, filter, k) INTO worst, n;
		wanted := wanted + n;
		PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_indexscan', 'on', true);
		IF plan IS NULL THEN
			FOR line IN EXECUTE format('EXPLAIN (COSTS OFF) SELECT id FROM %s WHERE %s ORDER BY %s LIMIT %s',
				tab, filter, distance, k) LOOP
				plan := coalesce(plan, substring(line FROM 'Index Scan using (\w+)'));
			END LOOP;
			plan := coalesce(plan, 'no index');
		END IF;
		EXECUTE format('SELECT array_agg(d ORDER BY n), count(DISTINCT id) FROM (SELECT row_number() OVER () AS n, *
			FROM (SELECT id, %1$s AS d FROM %2$s WHERE %3$s ORDER BY %1$s LIMIT %4$s) y) x', distance, tab, filter, k)
			INTO got, n;
		rows := rows + coalesce(array_length(got, 1), 0);
		different := different + n;
		hits := hits + (SELECT count(*) FROM unnest(got) d WHERE d <= worst + 1e-6 * abs(worst));
		disordered := disordered + (SELECT count(*) FROM generate_series(2, array_length(got, 1)) i
			WHERE got[i] < got[i - 1] - 1e-6 * abs(got[i - 1]));
	END LOOP;
	PERFORM set_config('enable_seqscan', 'on', true);
	recall := hits / nullif(wanted, 0)::float8;
END $$;
