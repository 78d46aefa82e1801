-- grnnd_tools 0.1.0: estimates, graphs of rows, migration, searches over shards
\echo Use "CREATE EXTENSION grnnd_tools" to load this file. \quit

CREATE FUNCTION grnnd_build_estimate(table_name regclass, column_name name,
	opclass text DEFAULT NULL, options text[] DEFAULT NULL, filter_columns name[] DEFAULT NULL,
	OUT rows bigint, OUT dimensions integer, OUT device text,
	OUT index_bytes bigint, OUT wal_bytes bigint, OUT memory_bytes bigint,
	OUT temp_bytes bigint, OUT seconds double precision)
	RETURNS record
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE PARALLEL UNSAFE;

COMMENT ON FUNCTION grnnd_build_estimate(regclass, name, text, text[], name[]) IS
	'resources of a CREATE INDEX USING grnnd, estimated from a sample of the rows';

-- The rows are read as a SELECT of the user's would, so no rights are asked for here.
CREATE FUNCTION grnnd_graph(table_name regclass, column_name name, k integer DEFAULT 10,
	metric text DEFAULT NULL, max_distance double precision DEFAULT NULL,
	exact boolean DEFAULT false, ef_search integer DEFAULT NULL,
	OUT item tid, OUT neighbor tid, OUT distance double precision)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL UNSAFE ROWS 100000 COST 1000000;

COMMENT ON FUNCTION grnnd_graph(regclass, name, integer, text, double precision, boolean, integer) IS
	'the k nearest rows of every row of a table, by ctid';

CREATE FUNCTION grnnd_graph_by(table_name regclass, column_name name, key name,
	k integer DEFAULT 10, metric text DEFAULT NULL, max_distance double precision DEFAULT NULL,
	exact boolean DEFAULT false, ef_search integer DEFAULT NULL)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME' LANGUAGE C STABLE PARALLEL UNSAFE ROWS 100000 COST 1000000;

COMMENT ON FUNCTION grnnd_graph_by(regclass, name, name, integer, text, double precision, boolean, integer) IS
	'the k nearest rows of every row of a table or view, by a key column: AS g (item KEY, neighbor KEY, distance double precision)';

-- Moving over from pgvector's index methods.  For each index: build the new one under
-- a name of its own, exchange the names, drop the old one.  Names are made of the old
-- index's OID, so what an interrupted run has left is found again:
-- grnnd_new_OID is still to take the name of index OID, grnnd_old_OID has lost it.
CREATE FUNCTION grnnd_migrate(schema_name name DEFAULT NULL, table_name name DEFAULT NULL)
	RETURNS TABLE (index regclass, statement text, problem text)
	LANGUAGE plpgsql STABLE PARALLEL RESTRICTED
	SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	old record;
	new record;
	part record;
	stale boolean;		-- an earlier run's new index is there, but not good
	later text;			-- CONCURRENTLY, where PostgreSQL has it
	opclass_name text;
BEGIN
	IF grnnd_migrate.schema_name IS NOT NULL AND NOT EXISTS (SELECT FROM pg_namespace
			WHERE nspname = grnnd_migrate.schema_name) THEN
		RAISE EXCEPTION 'schema "%" does not exist', grnnd_migrate.schema_name
			USING ERRCODE = 'invalid_schema_name';
	END IF;
	IF grnnd_migrate.table_name IS NOT NULL AND NOT EXISTS (SELECT
			FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
			WHERE relkind IN ('r', 'p', 'm') AND relname = grnnd_migrate.table_name
				AND nspname = coalesce(grnnd_migrate.schema_name, nspname)) THEN
		RAISE EXCEPTION 'table "%" does not exist', grnnd_migrate.table_name
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
			AND nspname = coalesce(grnnd_migrate.schema_name, nspname)
			AND t.relname = coalesce(grnnd_migrate.table_name, t.relname)
			AND (x.relpersistence <> 't' OR n.oid = pg_my_temp_schema())
			-- a partition's index moves with that of the partitioned table
			AND (NOT x.relispartition OR grnnd_migrate.table_name IS NOT NULL)
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

		statement := format('SELECT %s.grnnd_internal_migrate_swap(%L::pg_catalog.regclass)', '@extschema@',
			format('%I.%I', old.nspname, old.relname));
		RETURN NEXT;
		statement := format('DROP INDEX %s%I.grnnd_old_%s',
			CASE old.relkind WHEN 'i' THEN 'CONCURRENTLY ' ELSE '' END, old.nspname, old.oid);
		RETURN NEXT;
	END LOOP;
END $$;

COMMENT ON FUNCTION grnnd_migrate(name, name) IS
	'statements that replace hnsw and ivfflat indexes by grnnd indexes, in order, or the reason why not';

-- One step of them: only if the new index is there and good.
CREATE FUNCTION grnnd_internal_migrate_swap(index regclass) RETURNS void
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
		RAISE EXCEPTION 'there is no new index to replace %', index
			USING ERRCODE = 'object_not_in_prerequisite_state',
				HINT = 'Run the CREATE INDEX of grnnd_migrate() first. The function lists the remaining statements.';
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

COMMENT ON FUNCTION grnnd_internal_migrate_swap(regclass) IS
	'a step of grnnd_migrate(): the new index takes the old one''s name';

-- Runs them, but without CONCURRENTLY, for which PostgreSQL has no place in a procedure.
-- (A procedure that commits has no SET of its own.  Statements come from the function above, by
-- whose search path their names are to be read.)
CREATE PROCEDURE grnnd_migrate(schema_name name, table_name name, run boolean)
	LANGUAGE plpgsql
AS $$
DECLARE
	step pg_catalog.record;
BEGIN
	IF run THEN
		COMMIT;		-- fails at once in a transaction block, where later ones would
	END IF;
	FOR step IN SELECT m.index::pg_catalog.text, m.problem,
			pg_catalog.regexp_replace(m.statement, '^(CREATE|DROP) INDEX CONCURRENTLY', '\1 INDEX')
				AS statement
			FROM @extschema@.grnnd_migrate(schema_name, table_name) m
	LOOP
		IF step.problem IS NOT NULL THEN
			RAISE NOTICE 'skipping index %: %', step.index, step.problem;
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
	'replaces hnsw and ivfflat indexes by grnnd indexes; with run = false only shows the statements';

-- A condition that another server is to estimate: src/tools/shard.c.
CREATE FUNCTION grnnd_internal_on_shard_support(internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION grnnd_on_shard(condition boolean) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C STRICT IMMUTABLE PARALLEL SAFE SUPPORT grnnd_internal_on_shard_support;

REVOKE ALL ON FUNCTION grnnd_internal_on_shard_support(internal) FROM PUBLIC;

COMMENT ON FUNCTION grnnd_on_shard(boolean) IS
	'returns the condition; lets postgres_fdw push down LIMIT';

-- The nearest rows of a partitioned table some of whose partitions are on other servers.  PostgreSQL
-- merges sorted partitions, for which it asks one server after the other, without the LIMIT.  Here
-- each partition has an ORDER BY ... LIMIT of its own, which goes to its server whole, and what comes
-- is sorted behind a fence: so there is an Append, whose foreign scans run at once.
-- The statement is the caller's: privileges and policies of partitions hold as in any other.
CREATE FUNCTION grnnd_search(row_type anyelement, column_name name, operator text,
	query anycompatible, k integer, filter jsonb DEFAULT NULL, OUT hit anyelement, OUT distance double precision)
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
	tab regclass := (SELECT typrelid FROM pg_type WHERE oid = pg_typeof(row_type) AND typrelid <> 0);
	type oid := (SELECT atttypid FROM pg_attribute
		WHERE attrelid = tab AND attname = column_name AND attnum > 0 AND NOT attisdropped);
	-- ("-1": a modifier would cut what is cast)
	near text := (SELECT format('t.%I OPERATOR(%I.%s) $1::%s', column_name, nspname, oprname,
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
	deaf name;
	test record;
	condition text;
	plan jsonb;
	names text;
	aliases text;
	branches text;
BEGIN
	IF tab IS NULL THEN
		RAISE EXCEPTION 'type % is not the row type of a table', pg_typeof(row_type)
			USING ERRCODE = 'datatype_mismatch',
				HINT = 'Pass a NULL of the row type of a table, such as NULL::items.';
	ELSIF type IS NULL THEN
		RAISE EXCEPTION 'column "%" of table % does not exist', column_name, tab
			USING ERRCODE = 'undefined_column';
	ELSIF near IS NULL THEN
		RAISE EXCEPTION 'type % has no operator % in a grnnd operator class', format_type(type, NULL), operator
			USING ERRCODE = 'undefined_object',
				HINT = 'Pass the operator of the index''s operator class, such as <-> or <=>.';
	ELSIF query IS NULL OR k IS NULL OR k < 1 THEN
		RAISE EXCEPTION 'query must not be null, and k must be at least 1'
			USING ERRCODE = 'invalid_parameter_value',
				HINT = 'Pass a query vector and the number of rows to return.';
	ELSIF jsonb_typeof(filter) <> 'object' THEN
		RAISE EXCEPTION 'filter must be a JSON object of columns and values'
			USING ERRCODE = 'invalid_parameter_value',
				HINT = 'Write, for example, {"tenant_id": 7} or {"tenant_id": [7, 8]}.';
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
					HINT = 'Filters can use columns of PostgreSQL''s own types, which are the same on all servers.';
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
				HINT = 'The function reads the partitions. Policies of the partitions apply, on other servers for the mapped user.';
	END IF;
	SELECT s.srvname INTO deaf
		FROM pg_foreign_table
			JOIN pg_foreign_server s ON s.oid = ftserver
			JOIN pg_foreign_data_wrapper w ON w.oid = srvfdw
			JOIN pg_proc p ON p.oid = fdwhandler
		WHERE ftrelid = ANY (parts::oid[]) AND proname = 'postgres_fdw_handler'
			AND NOT EXISTS (SELECT FROM pg_options_to_table(srvoptions)
				WHERE option_name = 'extensions' AND option_value ~ '(^|[ ,])vector($|[ ,])'
					AND option_value ~ '(^|[ ,])grnnd_tools($|[ ,])')
		LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION 'server "%" does not list the extensions vector and grnnd_tools', deaf
			USING ERRCODE = 'object_not_in_prerequisite_state',
				HINT = 'Without the option, the server would send all rows. Use ALTER SERVER ... OPTIONS (ADD extensions ''vector, grnnd_tools'').';
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
		condition := format(' WHERE %s.grnnd_on_shard(%s)', '@extschema@', substr(condition, length(' WHERE ')));
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
	'the k nearest rows of a table whose partitions may be on other servers, searched at the same time';
