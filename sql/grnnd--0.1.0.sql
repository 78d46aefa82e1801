-- grnnd 0.1.0: access method, operator classes, functions
\echo Use "CREATE EXTENSION grnnd" to load this file. \quit

CREATE FUNCTION grnnd_handler(internal) RETURNS index_am_handler
	AS 'MODULE_PATHNAME' LANGUAGE C;

CREATE ACCESS METHOD grnnd TYPE INDEX HANDLER grnnd_handler;

COMMENT ON ACCESS METHOD grnnd IS 'nearest-neighbour graph (GRNND)';

-- What an operator class says of its type (support function 1) and metric (2).
CREATE FUNCTION grnnd_type_vector(internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION grnnd_metric_l2(internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION grnnd_metric_ip(internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION grnnd_metric_cosine(internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;

-- Type vector and its operators are those of pgvector, wherever it was installed and whatever
-- else of these names search_path leads to.  (A name for that schema that the
-- server fills in comes with PostgreSQL 16.)
DO $$
DECLARE
	pgvector text := (SELECT pg_catalog.quote_ident(n.nspname)
		FROM pg_catalog.pg_extension e
			JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) e.extnamespace
		WHERE e.extname OPERATOR(pg_catalog.=) 'vector');
BEGIN
	EXECUTE pg_catalog.format($class$
		CREATE OPERATOR CLASS vector_l2_ops
			DEFAULT FOR TYPE %1$s.vector USING grnnd AS
			OPERATOR 1 %1$s.<-> (%1$s.vector, %1$s.vector) FOR ORDER BY pg_catalog.float_ops,
			FUNCTION 1 grnnd_type_vector(pg_catalog.internal),
			FUNCTION 2 grnnd_metric_l2(pg_catalog.internal)$class$, pgvector);
	EXECUTE pg_catalog.format($class$
		CREATE OPERATOR CLASS vector_ip_ops
			FOR TYPE %1$s.vector USING grnnd AS
			OPERATOR 1 %1$s.<#> (%1$s.vector, %1$s.vector) FOR ORDER BY pg_catalog.float_ops,
			FUNCTION 1 grnnd_type_vector(pg_catalog.internal),
			FUNCTION 2 grnnd_metric_ip(pg_catalog.internal)$class$, pgvector);
	EXECUTE pg_catalog.format($class$
		CREATE OPERATOR CLASS vector_cosine_ops
			FOR TYPE %1$s.vector USING grnnd AS
			OPERATOR 1 %1$s.<=> (%1$s.vector, %1$s.vector) FOR ORDER BY pg_catalog.float_ops,
			FUNCTION 1 grnnd_type_vector(pg_catalog.internal),
			FUNCTION 2 grnnd_metric_cosine(pg_catalog.internal)$class$, pgvector);
END $$;

CREATE FUNCTION grnnd_check(index regclass, heapallindexed boolean DEFAULT false)
	RETURNS TABLE (block bigint, slot integer, what text)
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION grnnd_check(regclass, boolean) IS
	'one row per violation found in a grnnd index, none when it is sound';

CREATE FUNCTION grnnd_fit(index regclass) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION grnnd_fit(regclass) IS
	'fits codes, or judges those that there are, now, if that is due; see grnnd_codes()';

CREATE FUNCTION grnnd_codes(index regclass, OUT state text, OUT due boolean,
	OUT tries bigint, OUT last_try timestamptz, OUT next_try timestamptz)
	RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION grnnd_codes(regclass) IS
	'whether searches use codes, whether those are to be fitted or judged, and failed attempts';

CREATE FUNCTION grnnd_build_estimate("table" regclass, "column" name,
	opclass text DEFAULT NULL, options text[] DEFAULT NULL,
	OUT rows bigint, OUT nodes bigint, OUT dimensions integer, OUT device text,
	OUT index_bytes bigint, OUT wal_bytes bigint, OUT memory_bytes bigint,
	OUT temp_bytes bigint, OUT gpu_bytes bigint, OUT seconds double precision)
	RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION grnnd_build_estimate(regclass, name, text, text[]) IS
	'what CREATE INDEX USING grnnd would take, by builds over a sample of the rows';

CREATE FUNCTION grnnd_devices(OUT device integer, OUT name text, OUT capability text,
	OUT memory bigint, OUT free bigint, OUT problem text)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE ROWS 8;

COMMENT ON FUNCTION grnnd_devices() IS
	'GPUs that the builder program finds, with their memory in bytes';

-- it starts a program as the server's user
REVOKE ALL ON FUNCTION grnnd_devices() FROM PUBLIC;
