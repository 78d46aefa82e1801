-- grnnd 0.1.0: access method, operator classes, functions
\echo Use "CREATE EXTENSION grnnd" to load this file. \quit

DO $$
BEGIN
	IF pg_catalog.to_regtype('sparsevec'::pg_catalog.text) IS NULL THEN
		RAISE EXCEPTION 'extension "vector" of this database is too old for grnnd: it has no type sparsevec'
			USING ERRCODE = 'object_not_in_prerequisite_state',
				HINT = 'Install pgvector 0.7 or newer, and ALTER EXTENSION vector UPDATE.';
	END IF;
END
$$;

CREATE FUNCTION grnnd_handler(internal) RETURNS index_am_handler
	AS 'MODULE_PATHNAME' LANGUAGE C;

CREATE ACCESS METHOD grnnd TYPE INDEX HANDLER grnnd_handler;

COMMENT ON ACCESS METHOD grnnd IS 'nearest-neighbour graph (GRNND)';

-- What an operator class says of its type (support function 1) and metric (2).
CREATE FUNCTION grnnd_type_vector(internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION grnnd_type_halfvec(internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION grnnd_type_sparsevec(internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;

-- (of the elements' roots, which is for L1 distance)
CREATE FUNCTION grnnd_type_sparsevec_roots(internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION grnnd_type_bit(internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION grnnd_metric_l2(internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION grnnd_metric_ip(internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION grnnd_metric_ip_angles(internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION grnnd_metric_cosine(internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION grnnd_metric_l1(internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION grnnd_metric_jaccard(internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION grnnd_metric_hamming(internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;

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
		('vector_l2_ops', 'DEFAULT', '%s.vector', '<->', 'grnnd_type_vector', 'grnnd_metric_l2'),
		('vector_ip_ops', '', '%s.vector', '<#>', 'grnnd_type_vector', 'grnnd_metric_ip'),
		('vector_cosine_ops', '', '%s.vector', '<=>', 'grnnd_type_vector', 'grnnd_metric_cosine'),
		('vector_l1_ops', '', '%s.vector', '<+>', 'grnnd_type_vector', 'grnnd_metric_l1'),
		('halfvec_l2_ops', 'DEFAULT', '%s.halfvec', '<->', 'grnnd_type_halfvec', 'grnnd_metric_l2'),
		('halfvec_ip_ops', '', '%s.halfvec', '<#>', 'grnnd_type_halfvec', 'grnnd_metric_ip'),
		('halfvec_cosine_ops', '', '%s.halfvec', '<=>', 'grnnd_type_halfvec', 'grnnd_metric_cosine'),
		('halfvec_l1_ops', '', '%s.halfvec', '<+>', 'grnnd_type_halfvec', 'grnnd_metric_l1'),
		('bit_hamming_ops', 'DEFAULT', 'pg_catalog.bit', '<~>', 'grnnd_type_bit', 'grnnd_metric_hamming'),
		('bit_jaccard_ops', '', 'pg_catalog.bit', '<%>', 'grnnd_type_bit', 'grnnd_metric_jaccard'),
		-- Rows have stand-ins here: the metric is that of stand-ins, the operator is exact.
		('sparsevec_l2_ops', 'DEFAULT', '%s.sparsevec', '<->', 'grnnd_type_sparsevec', 'grnnd_metric_l2'),
		('sparsevec_ip_ops', '', '%s.sparsevec', '<#>', 'grnnd_type_sparsevec', 'grnnd_metric_ip_angles'),
		('sparsevec_cosine_ops', '', '%s.sparsevec', '<=>', 'grnnd_type_sparsevec', 'grnnd_metric_cosine'),
		('sparsevec_l1_ops', '', '%s.sparsevec', '<+>', 'grnnd_type_sparsevec_roots', 'grnnd_metric_l2')
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

CREATE FUNCTION grnnd_last_filter(OUT way text, OUT visits bigint, OUT list_pages bigint)
	RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION grnnd_last_filter() IS
	'how this session''s last scan with conditions on filter columns went';

CREATE FUNCTION grnnd_last_scan(OUT index regclass, OUT ef integer, OUT visits bigint,
	OUT pages bigint, OUT reranked bigint, OUT all_rows boolean, OUT way text)
	RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL RESTRICTED;

COMMENT ON FUNCTION grnnd_last_scan() IS
	'what this session''s last scan of a grnnd index took';

CREATE FUNCTION grnnd_recall(index regclass, k integer DEFAULT 10, ef integer DEFAULT NULL,
	queries integer DEFAULT 100,
	OUT recall double precision, OUT queried integer, OUT compared bigint, OUT width integer,
	OUT visits double precision, OUT milliseconds double precision)
	RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION grnnd_recall(regclass, integer, integer, integer) IS
	'the share of the k nearest rows that searches find now, for rows of the table as queries';

CREATE FUNCTION grnnd_stats(index regclass, whole boolean DEFAULT false,
	OUT format integer, OUT dimensions integer, OUT layout text, OUT rows bigint, OUT nodes bigint,
	OUT dead_share double precision, OUT chained bigint, OUT degree_mean double precision,
	OUT degrees bigint[], OUT unreachable bigint, OUT rounded bigint, OUT bytes bigint, OUT parts jsonb,
	OUT codes text, OUT advice text, OUT device text, OUT built timestamptz, OUT build_rows bigint,
	OUT seconds jsonb, OUT parameters jsonb, OUT curve jsonb)
	RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION grnnd_stats(regclass, boolean) IS
	'what an index holds, by a sample of its pages or all, and how it was built';

-- Those that the user may ask about.  Without the fence a plan may ask about other indexes first.
-- The NULL: one that goes meanwhile is no error.
CREATE VIEW grnnd_indexes AS
	WITH ours AS MATERIALIZED (
		SELECT c.oid::pg_catalog.regclass AS index, i.indrelid::pg_catalog.regclass AS "table",
			NOT pg_catalog.pg_is_other_temp_schema(c.relnamespace)
			AND (c.relpersistence OPERATOR(pg_catalog.=) 'p' OR NOT pg_catalog.pg_is_in_recovery())
			AND (pg_catalog.pg_has_role(c.relowner, 'USAGE'::pg_catalog.text)
				OR pg_catalog.pg_has_role('pg_stat_scan_tables'::pg_catalog.name,
					'USAGE'::pg_catalog.text)) AS asked
		FROM pg_catalog.pg_class c
			JOIN pg_catalog.pg_index i ON i.indexrelid OPERATOR(pg_catalog.=) c.oid
			JOIN pg_catalog.pg_am a ON a.oid OPERATOR(pg_catalog.=) c.relam
		WHERE a.amname OPERATOR(pg_catalog.=) 'grnnd' AND c.relkind OPERATOR(pg_catalog.=) 'i')
	SELECT o.index, o."table", s.*
	-- (of this type, or it may be another function of that name)
	FROM ours o, LATERAL grnnd_stats(CASE WHEN o.asked THEN o.index END, NULL::pg_catalog.bool) s;

COMMENT ON VIEW grnnd_indexes IS
	'grnnd_stats() of all indexes, by samples; empty columns where it cannot be asked';

GRANT SELECT ON grnnd_indexes TO PUBLIC;

CREATE FUNCTION grnnd_prewarm(index regclass, level text DEFAULT 'all') RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION grnnd_prewarm(regclass, text) IS
	'reads an index, or what searches read first, into shared buffers; returns the pages read';

CREATE FUNCTION grnnd_build_estimate("table" regclass, "column" name,
	opclass text DEFAULT NULL, options text[] DEFAULT NULL, filter_columns name[] DEFAULT NULL,
	OUT rows bigint, OUT dimensions integer, OUT device text,
	OUT index_bytes bigint, OUT wal_bytes bigint, OUT memory_bytes bigint,
	OUT temp_bytes bigint, OUT seconds double precision)
	RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION grnnd_build_estimate(regclass, name, text, text[], name[]) IS
	'what CREATE INDEX USING grnnd would take, by a sample of the rows';

-- The rows are read as a SELECT of the user's would, so no rights are asked for here.
CREATE FUNCTION grnnd_graph("table" regclass, "column" name, k integer DEFAULT 10,
	metric text DEFAULT NULL, max_distance double precision DEFAULT NULL,
	exact boolean DEFAULT false, ef integer DEFAULT NULL,
	OUT item tid, OUT neighbour tid, OUT distance double precision)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL UNSAFE ROWS 100000 COST 1000000;

COMMENT ON FUNCTION grnnd_graph(regclass, name, integer, text, double precision, boolean, integer) IS
	'the k nearest rows of every row of a table, by ctid';

CREATE FUNCTION grnnd_graph_by("table" regclass, "column" name, key name, k integer DEFAULT 10,
	metric text DEFAULT NULL, max_distance double precision DEFAULT NULL,
	exact boolean DEFAULT false, ef integer DEFAULT NULL)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL UNSAFE ROWS 100000 COST 1000000;

COMMENT ON FUNCTION grnnd_graph_by(regclass, name, name, integer, text, double precision, boolean, integer) IS
	'the same of a view or any table, whose rows a key column tells apart: AS g (item KEY, neighbour KEY, distance double precision)';

CREATE FUNCTION grnnd_devices(OUT device integer, OUT name text, OUT capability text,
	OUT memory bigint, OUT free bigint, OUT problem text)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE ROWS 8;

COMMENT ON FUNCTION grnnd_devices() IS
	'GPUs that the builder program finds, with their memory in bytes';

-- it starts a program as the server's user
REVOKE ALL ON FUNCTION grnnd_devices() FROM PUBLIC;

-- Builds on another host: grnnd.build_server names a server of this wrapper, which has no handler.
CREATE FUNCTION grnnd_build_validator(text[], oid) RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

CREATE FOREIGN DATA WRAPPER grnnd_build VALIDATOR grnnd_build_validator;

COMMENT ON FOREIGN DATA WRAPPER grnnd_build IS
	'another host''s PostgreSQL that builds graphs; options are those of libpq';

CREATE FUNCTION grnnd_serve_build(bytea) RETURNS bytea
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION grnnd_serve_build(bytea) IS
	'what another host''s builder calls to have a graph built here';

-- it starts a program as the server's user, and takes memory and a GPU
REVOKE ALL ON FUNCTION grnnd_serve_build(bytea) FROM PUBLIC;

-- Moving over from pgvector's index methods.  For each index: build the new one under
-- a name of its own, exchange the names, drop the old one.  Names are made of the old
-- index's OID, so what an interrupted run has left is found again:
-- grnnd_new_OID is still to take the name of index OID, grnnd_old_OID has lost it.
CREATE FUNCTION grnnd_migrate("schema" name DEFAULT NULL, "table" name DEFAULT NULL)
	RETURNS TABLE (index regclass, statement text, problem text)
	LANGUAGE plpgsql STABLE PARALLEL RESTRICTED
	SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	here text := (SELECT quote_ident(nspname) FROM pg_extension e
		JOIN pg_namespace n ON n.oid = e.extnamespace WHERE extname = 'grnnd');
	old record;
	new record;
	part record;
	stale boolean;		-- an earlier run's new index is there, but not good
	later text;			-- CONCURRENTLY, where PostgreSQL has it
	opclass_name text;
BEGIN
	IF grnnd_migrate."schema" IS NOT NULL AND NOT EXISTS (SELECT FROM pg_namespace
			WHERE nspname = grnnd_migrate."schema") THEN
		RAISE EXCEPTION 'schema "%" does not exist', grnnd_migrate."schema"
			USING ERRCODE = 'invalid_schema_name';
	END IF;
	IF grnnd_migrate."table" IS NOT NULL AND NOT EXISTS (SELECT
			FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
			WHERE relkind IN ('r', 'p', 'm') AND relname = grnnd_migrate."table"
				AND nspname = coalesce(grnnd_migrate."schema", nspname)) THEN
		RAISE EXCEPTION 'table "%" does not exist', grnnd_migrate."table"
			USING ERRCODE = 'undefined_table';
	END IF;

	FOR old IN
		SELECT x.oid, nspname, x.relname, x.relkind, x.relispartition, indisvalid, indnatts,
			opcname, opcintype, amname,
			(SELECT bool_and(pg_has_role(relowner, 'USAGE')) FROM pg_class
				WHERE oid = t.oid OR oid IN (SELECT relid FROM pg_partition_tree(t.oid))) AS owned,
			(SELECT min(c.oid) FROM pg_opclass c JOIN pg_am a ON a.oid = c.opcmethod
				WHERE a.amname = 'grnnd' AND c.opcname = o.opcname
					AND c.opcintype = o.opcintype) AS opclass
		FROM pg_index i
			JOIN pg_class x ON x.oid = indexrelid
			JOIN pg_class t ON t.oid = indrelid
			JOIN pg_namespace n ON n.oid = t.relnamespace
			JOIN pg_am a ON a.oid = x.relam
			JOIN pg_opclass o ON o.oid = indclass[0]
		WHERE amname IN ('hnsw', 'ivfflat')
			AND nspname = coalesce(grnnd_migrate."schema", nspname)
			AND t.relname = coalesce(grnnd_migrate."table", t.relname)
			AND (x.relpersistence <> 't' OR n.oid = pg_my_temp_schema())
			-- a partition's index moves with that of the partitioned table
			AND (NOT x.relispartition OR grnnd_migrate."table" IS NOT NULL)
		ORDER BY nspname, t.relname, x.relname
	LOOP
		index := old.oid;
		statement := NULL;
		problem := CASE
			WHEN old.relispartition THEN format('is part of index %s of the partitioned table',
				(SELECT inhparent FROM pg_inherits WHERE inhrelid = old.oid)::regclass)
			WHEN NOT old.owned THEN 'must be owner of the table and its partitions'
			WHEN NOT old.indisvalid AND old.relkind = 'I'
				THEN 'is not valid: drop it, or attach an index of each partition first'
			WHEN NOT old.indisvalid THEN 'is not valid: drop it or REINDEX it first'
			WHEN old.indnatts > 1 THEN 'has several columns'
			WHEN old.opclass IS NULL THEN format('grnnd has no operator class %I for type %s',
				old.opcname, format_type(old.opcintype, NULL))
			END;
		IF problem IS NOT NULL THEN
			RETURN NEXT;
			CONTINUE;
		END IF;

		opclass_name := (SELECT format('%I.%I', nspname, opcname) FROM pg_opclass c
			JOIN pg_namespace n ON n.oid = opcnamespace WHERE c.oid = old.opclass);
		later := CASE old.relkind WHEN 'i' THEN 'CONCURRENTLY ' ELSE '' END;
		IF old.relname = 'grnnd_old_' || old.oid THEN
			statement := format('DROP INDEX %s%I.%I', later, old.nspname, old.relname);
			RETURN NEXT;
			CONTINUE;
		END IF;

		SELECT c.oid, indisvalid INTO new FROM pg_class c JOIN pg_index ON indexrelid = c.oid
			JOIN pg_namespace n ON n.oid = relnamespace
			WHERE nspname = old.nspname AND relname = 'grnnd_new_' || old.oid;
		stale := coalesce(NOT new.indisvalid, false);
		IF stale THEN
			statement := format('DROP INDEX %s%I.grnnd_new_%s', later, old.nspname, old.oid);
			RETURN NEXT;
		END IF;

		-- Of a partitioned index first those of the partitions, one by one: what is then
		-- built for the partitioned table finds them and takes them in.
		FOR part IN
			SELECT x.oid, n.nspname, t.relname AS tablename, spcname, x.relkind,
				pg_get_indexdef(x.oid, 1, false) AS key, pg_get_expr(indpred, indrelid) AS predicate,
				(SELECT unnest FROM unnest(x.reloptions)
					WHERE old.amname = 'hnsw' AND unnest LIKE 'm=%') AS m
			FROM (SELECT relid::oid AS oid FROM pg_partition_tree(old.oid) WHERE isleaf
					UNION SELECT old.oid) tree
				JOIN pg_class x ON x.oid = tree.oid
				JOIN pg_index i ON i.indexrelid = x.oid
				JOIN pg_class t ON t.oid = i.indrelid
				JOIN pg_namespace n ON n.oid = t.relnamespace
				LEFT JOIN pg_tablespace s ON s.oid = x.reltablespace
			WHERE new.oid IS NULL OR stale
			ORDER BY x.relkind = 'I', n.nspname, x.relname
		LOOP
			SELECT c.oid, indisvalid, relispartition INTO new
				FROM pg_class c JOIN pg_index ON indexrelid = c.oid
				JOIN pg_namespace n ON n.oid = relnamespace
				WHERE nspname = part.nspname AND relname = 'grnnd_new_' || part.oid;
			later := CASE part.relkind WHEN 'i' THEN 'CONCURRENTLY ' ELSE '' END;
			-- (parts of a stale index go with it)
			IF stale AND (part.oid = old.oid OR new.relispartition) THEN
				NULL;
			ELSIF new.indisvalid THEN
				CONTINUE;
			ELSIF NOT new.indisvalid THEN
				statement := format('DROP INDEX %s%I.grnnd_new_%s', later, part.nspname, part.oid);
				RETURN NEXT;
			END IF;
			statement := format('CREATE INDEX %sgrnnd_new_%s ON %I.%I USING grnnd (%s %s)',
					later, part.oid, part.nspname, part.tablename, part.key, opclass_name)
				|| coalesce(' WITH (' || part.m || ')', '')
				|| coalesce(' TABLESPACE ' || quote_ident(part.spcname), '')
				|| coalesce(' WHERE ' || part.predicate, '');
			RETURN NEXT;
		END LOOP;

		statement := format('SELECT %s.grnnd_migrate_swap(%L::pg_catalog.regclass)', here,
			format('%I.%I', old.nspname, old.relname));
		RETURN NEXT;
		statement := format('DROP INDEX %s%I.grnnd_old_%s',
			CASE old.relkind WHEN 'i' THEN 'CONCURRENTLY ' ELSE '' END, old.nspname, old.oid);
		RETURN NEXT;
	END LOOP;
END $$;

COMMENT ON FUNCTION grnnd_migrate(name, name) IS
	'statements that replace hnsw and ivfflat indexes by grnnd, in their order, or why not';

-- One step of them: only if the new index is there and good.
CREATE FUNCTION grnnd_migrate_swap(index regclass) RETURNS void
	LANGUAGE plpgsql VOLATILE STRICT
	SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	new oid := (SELECT n.oid
		FROM pg_class o JOIN pg_class n ON n.relnamespace = o.relnamespace
			AND n.relname = 'grnnd_new_' || o.oid
			JOIN pg_am a ON a.oid = n.relam AND amname = 'grnnd'
			JOIN pg_index i ON i.indexrelid = n.oid AND indisvalid
			-- (planted functions and operators may have changed what its CREATE INDEX said)
			JOIN pg_index oi ON oi.indexrelid = o.oid AND oi.indrelid = i.indrelid
				AND pg_get_indexdef(o.oid, 1, false) = pg_get_indexdef(n.oid, 1, false)
				AND pg_get_expr(oi.indpred, oi.indrelid)
					IS NOT DISTINCT FROM pg_get_expr(i.indpred, i.indrelid)
		WHERE o.oid = index);
	pair record;
BEGIN
	IF new IS NULL THEN
		RAISE EXCEPTION 'there is no new index to take the place of %', index
			USING ERRCODE = 'object_not_in_prerequisite_state',
				HINT = 'Its CREATE INDEX is to come first. grnnd_migrate() says again what is left to do.';
	END IF;
	-- indexes of partitions come in pairs, too
	FOR pair IN
		WITH o AS (SELECT indexrelid, indrelid FROM pg_index
				WHERE indexrelid = index OR indexrelid IN (SELECT relid FROM pg_partition_tree(index))),
			n AS (SELECT indexrelid, indrelid FROM pg_index
				WHERE indexrelid = new OR indexrelid IN (SELECT relid FROM pg_partition_tree(new)))
		SELECT nspname, o.indexrelid AS old_oid, n.indexrelid AS new_oid,
			oc.relname AS old_name, nc.relname AS new_name,
			obj_description(o.indexrelid, 'pg_class') AS comment
		FROM n JOIN o USING (indrelid) JOIN pg_class nc ON nc.oid = n.indexrelid
			JOIN pg_class oc ON oc.oid = o.indexrelid JOIN pg_namespace s ON s.oid = oc.relnamespace
	LOOP
		EXECUTE format('ALTER INDEX %I.%I RENAME TO grnnd_old_%s',
			pair.nspname, pair.old_name, pair.old_oid);
		EXECUTE format('ALTER INDEX %I.%I RENAME TO %I',
			pair.nspname, pair.new_name, pair.old_name);
		EXECUTE format('COMMENT ON INDEX %I.%I IS %L',
			pair.nspname, pair.old_name, pair.comment);
		-- from here on the two are locked, and keep their names
		IF (SELECT relname FROM pg_class WHERE oid = pair.old_oid) <> 'grnnd_old_' || pair.old_oid
			OR (SELECT relname FROM pg_class WHERE oid = pair.new_oid) <> pair.old_name THEN
			RAISE EXCEPTION 'index % was renamed meanwhile', index
				USING ERRCODE = 'object_in_use', HINT = 'Try again.';
		END IF;
	END LOOP;
END $$;

COMMENT ON FUNCTION grnnd_migrate_swap(regclass) IS
	'a step of grnnd_migrate(): the new index takes the old one''s name';

-- Runs them, but without CONCURRENTLY, for which PostgreSQL has no place in a procedure.
-- (A procedure that commits has no SET of its own.  Statements come from the function above, by
-- whose search path their names are to be read.)
CREATE PROCEDURE grnnd_migrate("schema" name, "table" name, run boolean)
	LANGUAGE plpgsql
AS $$
DECLARE
	step pg_catalog.record;
	here pg_catalog.text := (SELECT pg_catalog.quote_ident(nspname) FROM pg_catalog.pg_extension e
		JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) extnamespace
		WHERE extname OPERATOR(pg_catalog.=) 'grnnd');
BEGIN
	IF run THEN
		COMMIT;		-- fails at once in a transaction block, where later ones would
	END IF;
	FOR step IN EXECUTE pg_catalog.format('SELECT index::pg_catalog.text, problem,
			pg_catalog.regexp_replace(statement, ''^(CREATE|DROP) INDEX CONCURRENTLY'', ''\1 INDEX'')
				AS statement
			FROM %s.grnnd_migrate($1, $2)', here) USING "schema", "table"
	LOOP
		IF step.problem IS NOT NULL THEN
			RAISE NOTICE 'index % stays: %', step.index, step.problem;
			CONTINUE;
		END IF;
		RAISE NOTICE '%', step.statement;
		IF run THEN
			-- until COMMIT
			PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
			EXECUTE step.statement;
			COMMIT;
		END IF;
	END LOOP;
END $$;

COMMENT ON PROCEDURE grnnd_migrate(name, name, boolean) IS
	'replaces hnsw and ivfflat indexes by grnnd; without true only says how';

-- A condition that another server is to estimate: src/am/shard.c.
CREATE FUNCTION grnnd_on_shard_support(internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION grnnd_on_shard(condition boolean) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT IMMUTABLE PARALLEL SAFE SUPPORT grnnd_on_shard_support;

COMMENT ON FUNCTION grnnd_on_shard(boolean) IS
	'the condition; a plan for a foreign table takes it that all rows pass';

-- The nearest rows of a partitioned table some of whose partitions are on other servers.  PostgreSQL
-- merges sorted partitions, for which it asks one server after the other, without the LIMIT.  Here
-- each partition has an ORDER BY ... LIMIT of its own, which goes to its server whole, and what comes
-- is sorted behind a fence: so there is an Append, whose foreign scans run at once.
-- The statement is the caller's: privileges and policies of partitions hold as in any other.
CREATE FUNCTION grnnd_search("table" anyelement, "column" name, operator text, query anycompatible,
	k integer, filter jsonb DEFAULT NULL, OUT hit anyelement, OUT distance double precision)
	RETURNS SETOF record
	LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 10
	SET search_path = pg_catalog, pg_temp
	-- to postgres_fdw it seems cheap to fetch all rows that pass a filter and to sort them here
	SET enable_sort = off
	-- (what is disabled looks dear, and worth compiling)
	SET jit = off
AS $$
#variable_conflict use_column
DECLARE
	-- (shown with its schema and quoted, by that search path)
	tab regclass := (SELECT typrelid FROM pg_type WHERE oid = pg_typeof("table") AND typrelid <> 0);
	type oid := (SELECT atttypid FROM pg_attribute
		WHERE attrelid = tab AND attname = "column" AND attnum > 0 AND NOT attisdropped);
	-- ("-1": a modifier would cut what is cast)
	near text := (SELECT format('t.%I OPERATOR(%I.%s) $1::%s', "column", nspname, oprname,
			format_type(type, -1))
		FROM pg_amop
			JOIN pg_am a ON a.oid = amopmethod
			JOIN pg_operator o ON o.oid = amopopr
			JOIN pg_namespace n ON n.oid = oprnamespace
		WHERE amname = 'grnnd' AND amoppurpose = 'o' AND amoplefttype = type
			AND oprname = operator::name);
	-- (a table that is no partition has no tree)
	parts regclass[] := coalesce((SELECT array_agg(relid) FROM pg_partition_tree(tab) WHERE isleaf),
		ARRAY[tab]);
	-- (where the extension is, the function is)
	here text := (SELECT quote_ident(nspname) FROM pg_extension e
		JOIN pg_namespace n ON n.oid = e.extnamespace WHERE extname = 'grnnd');
	deaf name;
	test record;
	condition text;
	plan jsonb;
	names text;
	aliases text;
	branches text;
BEGIN
	IF tab IS NULL THEN
		RAISE EXCEPTION 'type % is not the row type of a table', pg_typeof("table")
			USING ERRCODE = 'datatype_mismatch',
				HINT = 'A null of its row type tells grnnd_search() the table, such as NULL::items.';
	ELSIF type IS NULL THEN
		RAISE EXCEPTION 'column "%" of table % does not exist', "column", tab
			USING ERRCODE = 'undefined_column';
	ELSIF near IS NULL THEN
		RAISE EXCEPTION 'grnnd does not order type % by operator %', format_type(type, NULL), operator
			USING ERRCODE = 'undefined_object',
				HINT = 'It is the operator of the index''s operator class, such as <-> or <=>.';
	ELSIF query IS NULL OR k IS NULL OR k < 1 THEN
		RAISE EXCEPTION 'grnnd_search() needs a query and a number of rows'
			USING ERRCODE = 'invalid_parameter_value',
				HINT = 'The query is not null, and k is 1 or more.';
	ELSIF jsonb_typeof(filter) <> 'object' THEN
		RAISE EXCEPTION 'filter must be a JSON object of columns and values'
			USING ERRCODE = 'invalid_parameter_value',
				HINT = 'Such as {"tenant_id": 7} or {"tenant_id": [7, 8]}.';
	END IF;

	FOR test IN
		SELECT f.key, f.value, jsonb_typeof(f.value) AS kind, t.typnamespace, t.typcategory,
			format_type(a.atttypid, -1) AS type
		FROM jsonb_each(filter) f
			LEFT JOIN pg_attribute a ON a.attrelid = tab AND a.attname = f.key AND a.attnum > 0
				AND NOT a.attisdropped
			LEFT JOIN pg_type t ON t.oid = a.atttypid
	LOOP
		IF test.type IS NULL THEN
			RAISE EXCEPTION 'column "%" of table % does not exist', test.key, tab
				USING ERRCODE = 'undefined_column';
		ELSIF test.typnamespace <> 'pg_catalog'::regnamespace THEN
			RAISE EXCEPTION 'cannot filter by column "%" of type %', test.key, test.type
				USING ERRCODE = 'feature_not_supported',
					HINT = 'Values of PostgreSQL''s own types are the same on all servers.';
		END IF;
		condition := coalesce(condition || ' AND ', ' WHERE ') || CASE
			WHEN test.kind = 'null' THEN format('t.%I IS NULL', test.key)
			WHEN test.type = 'jsonb' THEN
				format('t.%I OPERATOR(pg_catalog.@>) %L::pg_catalog.jsonb', test.key, test.value)
			WHEN test.kind = 'array' THEN
				format(CASE test.typcategory WHEN 'A' THEN 't.%I OPERATOR(pg_catalog.@>) %L::%s'
						ELSE 't.%I OPERATOR(pg_catalog.=) ANY (%L::%s[])' END,
					test.key, ARRAY(SELECT jsonb_array_elements_text(test.value)), test.type)
			ELSE format('t.%I OPERATOR(pg_catalog.=) %L::%s', test.key, test.value #>> '{}', test.type)
			END;
	END LOOP;
	condition := coalesce(condition, '');

	IF NOT EXISTS (SELECT FROM pg_foreign_table WHERE ftrelid = ANY (parts::oid[])) THEN
		-- all here: as if it had been written without the function
		PERFORM set_config('enable_sort', 'on', true);
		RETURN QUERY EXECUTE format('SELECT ROW(t.*)::%2$s, %1$s FROM %2$s t%3$s ORDER BY %1$s LIMIT %4$s',
			near, tab, condition, k) USING query;
		RETURN;
	END IF;
	IF row_security_active(tab::oid) THEN
		RAISE EXCEPTION 'grnnd_search() cannot apply the row-level security policies of table %', tab
			USING ERRCODE = 'feature_not_supported',
				HINT = 'It reads the partitions. Policies of these hold, on their servers those of the mapped user.';
	END IF;
	SELECT s.srvname INTO deaf
		FROM pg_foreign_table
			JOIN pg_foreign_server s ON s.oid = ftserver
			JOIN pg_foreign_data_wrapper w ON w.oid = srvfdw
			JOIN pg_proc p ON p.oid = fdwhandler
		WHERE ftrelid = ANY (parts::oid[]) AND proname = 'postgres_fdw_handler'
			AND NOT EXISTS (SELECT FROM pg_options_to_table(srvoptions)
				WHERE option_name = 'extensions' AND option_value ~ '(^|[ ,])vector($|[ ,])'
					AND option_value ~ '(^|[ ,])grnnd($|[ ,])')
		LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION 'server "%" is not told that its shard has the extensions vector and grnnd', deaf
			USING ERRCODE = 'object_not_in_prerequisite_state',
				HINT = 'It would send all rows. ALTER SERVER ... OPTIONS (ADD extensions ''vector, grnnd'').';
	END IF;

	-- The planner knows which partitions a filter leaves, by whatever they are partitioned.
	IF condition <> '' THEN
		EXECUTE format('EXPLAIN (VERBOSE, COSTS OFF, FORMAT JSON) SELECT FROM %s t%s', tab, condition)
			INTO plan;
		parts := ARRAY(SELECT p FROM unnest(parts) p
				JOIN pg_class c ON c.oid = p
				JOIN pg_namespace n ON n.oid = relnamespace
			WHERE (nspname, relname) IN (SELECT scan ->> 'Schema', scan ->> 'Relation Name'
				FROM jsonb_path_query(plan, 'strict $.**?(exists (@."Relation Name"))') scan));
	END IF;
	-- else a LIMIT stays here where postgres_fdw expects few rows
	IF condition <> '' THEN
		condition := format(' WHERE %s.grnnd_on_shard(%s)', here, substr(condition, length(' WHERE ')));
	END IF;
	SELECT string_agg(format('t.%I', attname), ', ' ORDER BY attnum),
			string_agg('c' || attnum, ', ' ORDER BY attnum)
		INTO names, aliases
		FROM pg_attribute WHERE attrelid = tab AND attnum > 0 AND NOT attisdropped;
	branches := (SELECT string_agg(format('(SELECT %1$s, %2$s FROM %3$s t%4$s ORDER BY %2$s LIMIT %5$s)',
			names, near, p, condition, k), E'\n UNION ALL ') FROM unnest(parts) p);
	IF branches IS NULL THEN
		RETURN;
	END IF;
	branches := format(E'WITH h (%1$s, distance) AS MATERIALIZED (\n %2$s)\n'
			'SELECT ROW(%1$s)::%3$s, distance FROM h ORDER BY distance LIMIT %4$s',
		aliases, branches, tab, k);
	RAISE DEBUG '%', branches;
	RETURN QUERY EXECUTE branches USING query;
END $$;

COMMENT ON FUNCTION grnnd_search(anyelement, name, text, anycompatible, integer, jsonb) IS
	'the k nearest rows of a table whose partitions may be on other servers, which it asks at once';
