-- Filter columns in each layout: exact, rounded and compact vectors, and bits that are their own
-- codes.  The index gives the rows that a sequential scan gives, and grnnd_check() finds nothing.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS grnnd CASCADE;
CREATE SCHEMA test_filter_layouts;
SET search_path = test_filter_layouts, public;
SET grnnd.build_device = cpu;
SELECT setseed(0.5);
CREATE TABLE source AS SELECT i AS id, i % 20 AS tenant, ARRAY[i % 7, i % 31] AS tags,
	(SELECT array_agg(random() + (i % 3 = 0)::int * j % 2) FROM generate_series(1, 128) j)::vector(128) AS v
FROM generate_series(1, 1500) i;

-- Rows that only one of index and sequential scan gives, and what grnnd_check() says.
CREATE FUNCTION differences(t text, condition text, distance text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	result bigint;
	by_index int[];
	by_table int[];
BEGIN
	SET LOCAL enable_seqscan = off;
	EXECUTE format('SELECT array_agg(id ORDER BY id) FROM (SELECT id FROM %s WHERE %s ORDER BY %s LIMIT 10000) x',
		t, condition, distance) INTO by_index;
	SET LOCAL enable_seqscan = on;
	SET LOCAL enable_indexscan = off;
	EXECUTE format('SELECT array_agg(id ORDER BY id) FROM %s WHERE %s', t, condition) INTO by_table;
	RESET enable_indexscan;
	SELECT count(*) FROM unnest(by_index) a FULL JOIN unnest(by_table) b ON a = b
	WHERE a IS NULL OR b IS NULL INTO result;
	RETURN result;
END $$;
CREATE FUNCTION try(t text, type text, value text, opclass text, distance text, options text)
RETURNS TABLE (step text, differ bigint[], check_says bigint) LANGUAGE plpgsql AS $$
DECLARE
	conditions text[] := ARRAY['tenant = 7', 'tenant IN (3, 50)', 'tags && ''{5}'' AND tenant < 10', 'tenant > 100'];
BEGIN
	EXECUTE format('CREATE TABLE %s AS SELECT id, tenant, tags, (%s)::%s AS v FROM source WHERE id <= 1000', t, value, type);
	EXECUTE format('CREATE INDEX %s_idx ON %s USING grnnd (v %s, tenant, tags)%s', t, t, opclass, options);
	FOREACH step IN ARRAY ARRAY['built', 'inserted', 'updated'] LOOP
		IF step = 'inserted' THEN
			EXECUTE format('INSERT INTO %s SELECT id, tenant, tags, (%s)::%s FROM source WHERE id > 1000', t, value, type);
		ELSIF step = 'updated' THEN
			EXECUTE format('UPDATE %s SET tenant = 50 WHERE id %% 11 = 0', t);
			EXECUTE format('DELETE FROM %s WHERE id %% 3 = 0', t);
		END IF;
		SELECT array_agg(differences(t, c, distance)) FROM unnest(conditions) c INTO differ;
		EXECUTE format('SELECT count(*) FROM grnnd_check(%L, true)', t || '_idx') INTO check_says;
		RETURN NEXT;
	END LOOP;
END $$;

SELECT * FROM try('exact', 'vector(128)', 'v', '', format('v <-> %L', (SELECT v FROM source WHERE id = 77)), ' WITH (layout = exact)');
SELECT * FROM try('rounded', 'vector(128)', 'v', 'vector_cosine_ops', format('v <=> %L', (SELECT v FROM source WHERE id = 77)), '');
SELECT * FROM try('compact', 'vector(128)', 'v', '', format('v <-> %L', (SELECT v FROM source WHERE id = 77)), ' WITH (layout = compact)');
SELECT * FROM try('bits', 'bit(128)', 'binary_quantize((SELECT array_agg(e - 0.5 ORDER BY n) FROM unnest(v::real[]) WITH ORDINALITY u (e, n))::vector)',
	'bit_hamming_ops', format('v <~> %L', (SELECT binary_quantize(v) FROM source WHERE id = 77)), '');
VACUUM exact, rounded, compact, bits;
SELECT t, (SELECT count(*) FROM grnnd_check(t || '_idx', true)) AS check_says,
	differences(t, 'tenant IN (7, 50)', CASE t WHEN 'bits' THEN format('v <~> %L', (SELECT binary_quantize(v) FROM source WHERE id = 77))
		ELSE format('v <-> %L', (SELECT v FROM source WHERE id = 77)) END) AS differ
FROM unnest('{exact,compact,bits}'::text[]) t;
-- 31 columns behind bits: no room for rows as codes at so many edges
SELECT format('CREATE TABLE many AS SELECT id, (%s)::bit(512) AS v, %s FROM source WHERE id <= 700',
	'repeat(binary_quantize((SELECT array_agg(e - 0.5 ORDER BY n) FROM unnest(v::real[]) WITH ORDINALITY u (e, n))::vector)::text, 4)',
	string_agg(format('id %% %s AS c%s', c + 1, c), ', ')) FROM generate_series(1, 31) c \gexec
SELECT format('CREATE INDEX many_idx ON many USING grnnd (v bit_hamming_ops, %s) WITH (degree = 96)', string_agg('c' || c, ', '))
FROM generate_series(1, 31) c \gexec
SELECT differences('many', 'c4 = 3 AND c30 < 9', format('v <~> %L', repeat((SELECT binary_quantize(v) FROM source WHERE id = 77)::text, 4)));
SELECT count(*) FROM grnnd_check('many_idx', true);
DROP SCHEMA test_filter_layouts CASCADE;
