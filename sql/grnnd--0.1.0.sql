-- grnnd 0.1.0: access method, operator classes, functions
\echo Use "CREATE EXTENSION grnnd" to load this file. \quit

DO $$
BEGIN
	IF pg_catalog.to_regtype('sparsevec'::pg_catalog.text) IS NULL THEN
		RAISE EXCEPTION 'extension "vector" of this database is too old for grnnd: it has no type sparsevec'
			USING ERRCODE = 'object_not_in_prerequisite_state',
				HINT = 'Install pgvector 0.7 or newer, then run ALTER EXTENSION vector UPDATE.';
	END IF;
END
$$;

CREATE FUNCTION grnnd_internal_handler(internal) RETURNS index_am_handler
	AS 'MODULE_PATHNAME' LANGUAGE C;

CREATE ACCESS METHOD grnnd TYPE INDEX HANDLER grnnd_internal_handler;

COMMENT ON ACCESS METHOD grnnd IS 'nearest-neighbor graph (GRNND)';

-- What an operator class says of its type (support function 1) and metric (2).
CREATE FUNCTION grnnd_internal_type_vector(internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION grnnd_internal_type_halfvec(internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION grnnd_internal_type_sparsevec(internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION grnnd_internal_type_bit(internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION grnnd_internal_metric_l2(internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION grnnd_internal_metric_ip(internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION grnnd_internal_metric_ip_angles(internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION grnnd_internal_metric_cosine(internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION grnnd_internal_metric_l1(internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION grnnd_internal_metric_jaccard(internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION grnnd_internal_metric_hamming(internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;

-- PostgreSQL calls these, and checks no privilege for such a call.
REVOKE ALL ON FUNCTION grnnd_internal_handler(internal), grnnd_internal_type_vector(internal), grnnd_internal_type_halfvec(internal),
	grnnd_internal_type_sparsevec(internal),
	grnnd_internal_type_bit(internal), grnnd_internal_metric_l2(internal), grnnd_internal_metric_ip(internal),
	grnnd_internal_metric_ip_angles(internal), grnnd_internal_metric_cosine(internal), grnnd_internal_metric_l1(internal),
	grnnd_internal_metric_jaccard(internal), grnnd_internal_metric_hamming(internal)
	FROM PUBLIC;

-- Types and their operators are those of pgvector, wherever it was installed and whatever
-- else of these names search_path leads to.  (A name for that schema that the
-- server fills in comes with PostgreSQL 16.)
DO $$
DECLARE
	pgvector text := (SELECT pg_catalog.quote_ident(n.nspname)
		FROM pg_catalog.pg_extension e
			JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) e.extnamespace
		WHERE e.extname OPERATOR(pg_catalog.=) 'vector');
	class record;
BEGIN
	FOR class IN SELECT * FROM (VALUES
		('vector_l2_ops', 'DEFAULT', '%s.vector', '<->', 'grnnd_internal_type_vector', 'grnnd_internal_metric_l2'),
		('vector_ip_ops', '', '%s.vector', '<#>', 'grnnd_internal_type_vector', 'grnnd_internal_metric_ip'),
		('vector_cosine_ops', '', '%s.vector', '<=>', 'grnnd_internal_type_vector', 'grnnd_internal_metric_cosine'),
		('vector_l1_ops', '', '%s.vector', '<+>', 'grnnd_internal_type_vector', 'grnnd_internal_metric_l1'),
		('halfvec_l2_ops', 'DEFAULT', '%s.halfvec', '<->', 'grnnd_internal_type_halfvec', 'grnnd_internal_metric_l2'),
		('halfvec_ip_ops', '', '%s.halfvec', '<#>', 'grnnd_internal_type_halfvec', 'grnnd_internal_metric_ip'),
		('halfvec_cosine_ops', '', '%s.halfvec', '<=>', 'grnnd_internal_type_halfvec', 'grnnd_internal_metric_cosine'),
		('halfvec_l1_ops', '', '%s.halfvec', '<+>', 'grnnd_internal_type_halfvec', 'grnnd_internal_metric_l1'),
		('bit_hamming_ops', 'DEFAULT', 'pg_catalog.bit', '<~>', 'grnnd_internal_type_bit', 'grnnd_internal_metric_hamming'),
		('bit_jaccard_ops', '', 'pg_catalog.bit', '<%>', 'grnnd_internal_type_bit', 'grnnd_internal_metric_jaccard'),
		-- By inner product the graph of sparse rows is by products themselves.
		('sparsevec_l2_ops', 'DEFAULT', '%s.sparsevec', '<->', 'grnnd_internal_type_sparsevec', 'grnnd_internal_metric_l2'),
		('sparsevec_ip_ops', '', '%s.sparsevec', '<#>', 'grnnd_internal_type_sparsevec', 'grnnd_internal_metric_ip_angles'),
		('sparsevec_cosine_ops', '', '%s.sparsevec', '<=>', 'grnnd_internal_type_sparsevec', 'grnnd_internal_metric_cosine'),
		('sparsevec_l1_ops', '', '%s.sparsevec', '<+>', 'grnnd_internal_type_sparsevec', 'grnnd_internal_metric_l1')
	) AS c (name, is_default, type, operator, type_function, metric_function)
	LOOP
		EXECUTE pg_catalog.format($class$
			CREATE OPERATOR CLASS %2$s
				%3$s FOR TYPE %4$s USING grnnd AS
				OPERATOR 1 %1$s.%5$s (%4$s, %4$s) FOR ORDER BY pg_catalog.float_ops,
				FUNCTION 1 %6$s(pg_catalog.internal),
				FUNCTION 2 %7$s(pg_catalog.internal)$class$,
			pgvector, class.name, class.is_default,
			pg_catalog.format(class.type, pgvector), class.operator, class.type_function,
			class.metric_function);
	END LOOP;
END $$;

-- Columns to filter by, behind the vector.  An operator class without support functions is
-- for those.  In a family are all types that its operators compare with each other.
DO $$
DECLARE
	class record;
	other text;
	operators text;
BEGIN
	FOR class IN SELECT * FROM (VALUES
		('integer_ops', 'int2_ops', 'int2', '{int2,int4,int8}', true),
		('integer_ops', 'int4_ops', 'int4', '{int2,int4,int8}', true),
		('integer_ops', 'int8_ops', 'int8', '{int2,int4,int8}', true),
		('float_ops', 'float4_ops', 'float4', '{float4,float8}', true),
		('float_ops', 'float8_ops', 'float8', '{float4,float8}', true),
		('numeric_ops', 'numeric_ops', 'numeric', '{numeric}', true),
		('bool_ops', 'bool_ops', 'bool', '{bool}', true),
		('date_ops', 'date_ops', 'date', '{date}', true),
		('timestamp_ops', 'timestamp_ops', 'timestamp', '{timestamp,date}', true),
		('timestamptz_ops', 'timestamptz_ops', 'timestamptz', '{timestamptz,date}', true),
		-- of hashed values no order is known
		('text_ops', 'text_ops', 'text', '{text}', false),
		('bpchar_ops', 'bpchar_ops', 'bpchar', '{bpchar}', false),
		('uuid_ops', 'uuid_ops', 'uuid', '{uuid}', false),
		('enum_ops', 'enum_ops', 'anyenum', '{anyenum}', false)
	) AS c (family, name, type, others, ordered)
	LOOP
		IF NOT EXISTS (SELECT FROM pg_catalog.pg_opfamily f
				JOIN pg_catalog.pg_am a ON a.oid OPERATOR(pg_catalog.=) f.opfmethod
				WHERE a.amname OPERATOR(pg_catalog.=) 'grnnd'
					AND f.opfname OPERATOR(pg_catalog.=) class.family::pg_catalog.name) THEN
			EXECUTE pg_catalog.format('CREATE OPERATOR FAMILY %s USING grnnd', class.family);
		END IF;
		EXECUTE pg_catalog.format('CREATE OPERATOR CLASS %s DEFAULT FOR TYPE pg_catalog.%s
			USING grnnd FAMILY %s AS OPERATOR 4 pg_catalog.=',
			class.name, class.type, class.family);
		FOREACH other IN ARRAY class.others::pg_catalog.text[] LOOP
			operators := (SELECT pg_catalog.string_agg(pg_catalog.format(
					'OPERATOR %s pg_catalog.%s (pg_catalog.%s, pg_catalog.%s)',
					number, operator, class.type, other), ', ')
				FROM (VALUES (2, '<'), (3, '<='), (4, '='), (5, '>='), (6, '>')) AS o (number, operator)
				WHERE CASE WHEN o.number OPERATOR(pg_catalog.=) 4
					THEN other OPERATOR(pg_catalog.<>) class.type ELSE class.ordered END);
			IF operators IS NOT NULL THEN
				EXECUTE pg_catalog.format('ALTER OPERATOR FAMILY %s USING grnnd ADD %s',
					class.family, operators);
			END IF;
		END LOOP;
	END LOOP;
END $$;

CREATE OPERATOR CLASS array_ops DEFAULT FOR TYPE anyarray USING grnnd AS
	OPERATOR 7 pg_catalog.&&,
	OPERATOR 8 pg_catalog.@>;

CREATE FUNCTION grnnd_check(index regclass, heapallindexed boolean DEFAULT false)
	RETURNS TABLE (block bigint, slot integer, problem text)
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION grnnd_check(regclass, boolean) IS
	'one row per violation found in a grnnd index, none when it is sound';

CREATE FUNCTION grnnd_fit(index regclass) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION grnnd_fit(regclass) IS
	'fits codes, or judges existing codes, if grnnd_codes() reports that as due';

CREATE FUNCTION grnnd_codes(index regclass, OUT state text, OUT due boolean,
	OUT failed_attempts bigint, OUT last_attempt timestamptz, OUT next_attempt timestamptz)
	RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION grnnd_codes(regclass) IS
	'state of the codes of an index, whether a fit is due, and failed attempts';

CREATE FUNCTION grnnd_last_scan()
	RETURNS TABLE (index regclass, ef_search integer, method text, records_visited bigint,
		pages_read bigint, list_pages_read bigint, rows_rechecked bigint)
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED ROWS 1;

COMMENT ON FUNCTION grnnd_last_scan() IS
	'the work of this session''s last scan of a grnnd index; no row if there was no such scan';

-- One name for the width that is set and for the width that searches had.
CREATE FUNCTION grnnd_recall(index regclass, k integer DEFAULT 10, INOUT ef_search integer DEFAULT NULL,
	queries integer DEFAULT 100, query_table regclass DEFAULT NULL, query_column name DEFAULT NULL,
	sampled boolean DEFAULT false,
	OUT recall double precision, OUT queried integer, OUT compared bigint,
	OUT records_visited double precision, OUT milliseconds double precision)
	RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION grnnd_recall(regclass, integer, integer, integer, regclass, name, boolean) IS
	'the share of the k nearest rows that searches find now; queries are rows of the table or of query_table, or sampled';

CREATE FUNCTION grnnd_recall(index regclass, vectors anyarray, k integer DEFAULT 10,
	INOUT ef_search integer DEFAULT NULL,
	OUT recall double precision, OUT queried integer, OUT compared bigint,
	OUT records_visited double precision, OUT milliseconds double precision)
	RETURNS record
	AS 'MODULE_PATHNAME', 'grnnd_recall_vectors' LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION grnnd_recall(regclass, anyarray, integer, integer) IS
	'the share of the k nearest rows that searches find now, for these queries';

CREATE FUNCTION grnnd_stats(index regclass, all_pages boolean DEFAULT false,
	OUT format integer, OUT dimensions integer, OUT layout text, OUT stored_as text,
	OUT estimated_rows bigint, OUT estimated_nodes bigint, OUT dead_share double precision,
	OUT estimated_chain_records bigint, OUT mean_degree double precision,
	OUT degree_histogram bigint[], OUT unreachable_nodes bigint, OUT estimated_rounded bigint,
	OUT index_bytes bigint, OUT bytes_by_part jsonb, OUT codes text, OUT ef_search integer,
	OUT estimated_recall double precision, OUT advice text, OUT build_device text,
	OUT built_at timestamptz, OUT build_rows bigint, OUT build_seconds jsonb,
	OUT build_parameters jsonb, OUT recall_curve jsonb)
	RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION grnnd_stats(regclass, boolean) IS
	'content of an index, estimated by a sample of its pages or counted on all, and how it was built';

-- The condition `may_ask` is that of grnnd_stats(), which otherwise raises an error.  Without
-- MATERIALIZED a plan may call grnnd_stats() for other indexes first.  The second argument NULL makes
-- an index that was dropped meanwhile no error; its type excludes other functions of that name.
CREATE VIEW grnnd_indexes AS
	WITH found AS MATERIALIZED (
		SELECT c.oid, i.indrelid,
			CASE WHEN i.indisvalid THEN 'valid'
				WHEN EXISTS (SELECT FROM pg_catalog.pg_stat_progress_create_index p
					WHERE p.index_relid OPERATOR(pg_catalog.=) c.oid) THEN 'building'
				ELSE 'invalid' END AS state,
			NOT pg_catalog.pg_is_other_temp_schema(c.relnamespace)
			AND (c.relpersistence OPERATOR(pg_catalog.=) 'p' OR NOT pg_catalog.pg_is_in_recovery())
			AND (pg_catalog.pg_has_role(c.relowner, 'USAGE'::pg_catalog.text)
				OR pg_catalog.pg_has_role('pg_stat_scan_tables'::pg_catalog.name,
					'USAGE'::pg_catalog.text)) AS may_ask
		FROM pg_catalog.pg_class c
			JOIN pg_catalog.pg_index i ON i.indexrelid OPERATOR(pg_catalog.=) c.oid
			JOIN pg_catalog.pg_am a ON a.oid OPERATOR(pg_catalog.=) c.relam
		WHERE a.amname OPERATOR(pg_catalog.=) 'grnnd' AND c.relkind OPERATOR(pg_catalog.=) 'i')
	SELECT f.oid::pg_catalog.regclass AS index, f.indrelid::pg_catalog.regclass AS table_name,
		s.estimated_rows, pg_catalog.pg_size_pretty(s.index_bytes) AS size, s.layout, s.ef_search,
		s.estimated_recall, f.state,
		CASE WHEN f.state OPERATOR(pg_catalog.<>) 'building' THEN s.advice END AS advice
	FROM found f,
		LATERAL grnnd_stats(CASE WHEN f.may_ask THEN f.oid END, NULL::pg_catalog.bool) s;

COMMENT ON VIEW grnnd_indexes IS
	'all grnnd indexes, with estimates by samples; NULLs where grnnd_stats() is not permitted';

GRANT SELECT ON grnnd_indexes TO PUBLIC;

-- src/am/index/counters.c says which of the server's counters grnnd uses.
CREATE VIEW grnnd_stat_indexes AS
	SELECT s.relid, s.indexrelid, s.schemaname, s.relname, s.indexrelname, s.idx_scan,
		s.idx_tup_read, s.idx_tup_fetch,
		pg_catalog.pg_stat_get_vacuum_count(s.indexrelid) AS graph_scans,
		pg_catalog.pg_stat_get_analyze_count(s.indexrelid) AS list_scans,
		pg_catalog.pg_stat_get_mod_since_analyze(s.indexrelid) AS bitmap_scans,
		pg_catalog.pg_stat_get_autovacuum_count(s.indexrelid) AS all_rows_scans,
		pg_catalog.pg_stat_get_tuples_deleted(s.indexrelid) AS records_visited,
		pg_catalog.pg_stat_get_autoanalyze_count(s.indexrelid) AS pages_read,
		pg_catalog.pg_stat_get_tuples_hot_updated(s.indexrelid) AS rows_rechecked,
		pg_catalog.pg_stat_get_tuples_inserted(s.indexrelid) AS inserts,
		pg_catalog.pg_stat_get_tuples_updated(s.indexrelid) AS links
	FROM pg_catalog.pg_stat_user_indexes s
		JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) s.indexrelid
		JOIN pg_catalog.pg_am a ON a.oid OPERATOR(pg_catalog.=) c.relam
	WHERE a.amname OPERATOR(pg_catalog.=) 'grnnd';

COMMENT ON VIEW grnnd_stat_indexes IS
	'cumulative statistics of each grnnd index, with the columns of pg_stat_user_indexes';

GRANT SELECT ON grnnd_stat_indexes TO PUBLIC;

CREATE FUNCTION grnnd_stat_reset(index regclass) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION grnnd_stat_reset(regclass) IS
	'sets the cumulative statistics of an index to 0, those of pg_stat_user_indexes included';

CREATE FUNCTION grnnd_prewarm(index regclass) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION grnnd_prewarm(regclass) IS
	'reads an index into shared buffers; returns the number of pages';

CREATE FUNCTION grnnd_devices(OUT device integer, OUT name text, OUT capability text,
	OUT memory_bytes bigint, OUT free_bytes bigint, OUT problem text)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE ROWS 8;

COMMENT ON FUNCTION grnnd_devices() IS
	'GPUs that the builder program finds';

-- it starts a program as the server's user
REVOKE ALL ON FUNCTION grnnd_devices() FROM PUBLIC;
