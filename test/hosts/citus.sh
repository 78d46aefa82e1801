#!/bin/bash
# citus.sh PG_CONFIG - grnnd under Citus: indexes of shards, what is pushed down to them, queries of
# one tenant, moving shards to a new node.  PG_CONFIG names a server into which Citus, pgvector and
# grnnd are installed.  Not a part of `make check`; doc/grnnd-shards.md has what it found.
#
# Starts a coordinator and three workers of its own in .work, with sockets and ports of this host
# (CITUS_PORT and the three behind it, 9700 if not given), and removes them.
. "$(dirname "${BASH_SOURCE[0]}")/../server.sh"

BIN=$("${1:?PG_CONFIG of a server with Citus, pgvector and grnnd}" --bindir) || die "$1 does not run"
PORT=${CITUS_PORT:-9700}
make_room citus
start_results citus-logs

# on NODE ARG...: psql there; node 0 is the coordinator.
on()
{
	local node=$1

	shift
	"$BIN/psql" -X -q -t -A -v ON_ERROR_STOP=1 -h localhost -p $((PORT + node)) -U postgres -d postgres "$@"
}

# check NAME WANTED GOT
check()
{
	if [ "$2" = "$3" ]; then
		report pass citus "$1"
	else
		report fail citus "$1"
		printf '    wanted: %s\n    got:    %s\n' "$2" "$3"
	fi
}

# has NAME PATTERN TEXT
has()
{
	if grep -qE "$2" <<<"$3"; then
		report pass citus "$1"
	else
		report fail citus "$1"
		printf '    no %s in:\n%s\n' "$2" "$3"
	fi
}

started=$SECONDS
for node in 0 1 2 3; do
	data=$RUN/node$node
	as_server "$BIN/initdb" -D "$data" -U postgres -A trust -E UTF8 --no-locale --no-sync >"$LOGS/initdb$node" 2>&1 ||
		die "initdb failed: $LOGS/initdb$node"
	printf '%s\n' "listen_addresses = 'localhost'" "port = $((PORT + node))" "unix_socket_directories = '$SOCKETS'" \
		"shared_preload_libraries = 'citus'" "citus.node_conninfo = 'sslmode=prefer'" "wal_level = logical" \
		"max_prepared_transactions = 100" "fsync = off" "autovacuum = off" "grnnd.background_fit = off" \
		"citus.enable_statistics_collection = off" "max_parallel_workers_per_gather = 0" |
		as_server tee -a "$data/postgresql.conf" >/dev/null
	as_server "$BIN/pg_ctl" -D "$data" -l "$RUN/log$node" -w start >"$LOGS/start$node" 2>&1 ||
		{ tail -n 5 "$RUN/log$node"; die "node $node did not start"; }
	on $node -c "CREATE EXTENSION citus" -c "CREATE EXTENSION grnnd CASCADE" 2>"$LOGS/extensions$node" ||
		die "no extensions: $(cat "$LOGS/extensions$node")"
done
on 0 -c "SELECT citus_version()"
on 0 -c "SELECT citus_set_coordinator_host('localhost', $PORT)" >/dev/null
for node in 1 2; do
	on 0 -c "SELECT citus_add_node('localhost', $((PORT + node)))" >/dev/null
done

# Rows of 30 tenants.  whole is the same table, on the coordinator alone.
on 0 -f "$TOP/test/lib/recall.sql"
on 0 <<'SQL'
SET citus.shard_count = 4;
CREATE TABLE items (id int, tenant_id int, v vector(32), PRIMARY KEY (tenant_id, id));
CREATE TABLE whole AS SELECT id, id % 30 AS tenant_id, v FROM points(1, 6000, 32, 1);
SELECT create_distributed_table('items', 'tenant_id') \g /dev/null
INSERT INTO items SELECT * FROM whole;
CREATE TABLE queries AS SELECT * FROM points(1000001, 1000010, 32, 1);
SQL
query=$(on 0 -c "SELECT v FROM queries ORDER BY id LIMIT 1")

# ---- indexes of shards ----

on 0 -c "CREATE INDEX items_v_idx ON items USING grnnd (v, tenant_id)"
indexes="SELECT count(*), bool_and(success AND result = '1') FROM run_command_on_shards('items',
	\$\$SELECT count(*) FROM pg_index JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = relam
	WHERE indrelid = '%s'::regclass AND amname = 'grnnd' AND indisvalid\$\$)"
sound="SELECT count(*), string_agg(result, '') FROM run_command_on_shards('items',
	\$\$SELECT count(*) FROM pg_index JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = relam,
		LATERAL grnnd_check(indexrelid, true) WHERE indrelid = '%s'::regclass AND amname = 'grnnd'\$\$)"
check "CREATE INDEX builds one on each shard" "4|t" "$(on 0 -c "$indexes")"
check "they are sound" "4|0000" "$(on 0 -c "$sound")"
on 0 -c "CREATE INDEX CONCURRENTLY later ON items USING grnnd (v)" -c "DROP INDEX later" 2>"$LOGS/concurrently"
check "CREATE INDEX CONCURRENTLY, DROP INDEX" "4|t" "$(on 0 -c "$indexes")"

# ---- what is pushed down ----

plan="EXPLAIN (COSTS OFF, VERBOSE)"
all="SET citus.explain_all_tasks = on"
nearest="SELECT id, v <-> '$query' AS d FROM items ORDER BY v <-> '$query' LIMIT 10"
got=$(on 0 -c "$all" -c "$plan $nearest")
check "a constant: each shard by its index" 4 "$(grep -c 'Index Scan using items_v_idx' <<<"$got")"
has "a constant: shards get the LIMIT" "Query: .*ORDER BY .* LIMIT '?10" "$got"
# Scans of the shards' indexes so far.  (EXPLAIN EXECUTE does not give parameters to shards.)
scans()
{
	on 0 -c "SELECT pg_sleep(0.1), sum(result::int) FROM run_command_on_shards('items',
		\$\$SELECT pg_stat_get_numscans(indexrelid) FROM pg_index WHERE indrelid = '%s'::regclass
		AND NOT indisprimary\$\$)" | cut -d'|' -f2
}

# scanned NAME STATEMENT...: ends with 4 scans more than before, or says why not.
scanned()
{
	local name=$1 before got

	shift
	before=$(scans)
	got=$(printf '%s;\n' "$@" | on 0 2>&1)
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		[ "$(scans)" != "$before" ] && break
		sleep 0.2
	done
	check "$name" 4 "$(($(scans) - before))$(grep -E 'ERROR|DETAIL' <<<"$got")"
}

prepared="PREPARE p(vector) AS SELECT id FROM items ORDER BY v <-> \$1 LIMIT 10"
scanned "a parameter: each shard by its index" "$prepared" "EXECUTE p('$query')"
scanned "a LIMIT that is a parameter: each shard by its index" \
	"PREPARE p(vector, int) AS SELECT id FROM items ORDER BY v <-> \$1 LIMIT \$2" "EXECUTE p('$query', 10)"
# What Citus refuses: a plan for all values of a query of all shards, and a query for each row of a table
# that it has not distributed.
has "a generic plan is refused" "could not create distributed plan" \
	"$(on 0 -c "SET plan_cache_mode = force_generic_plan" -c "$prepared" -c "EXECUTE p('$query')" 2>&1)"
has "LATERAL is refused" "Limit clause is currently unsupported when a lateral subquery" \
	"$(on 0 -c "SELECT q.id, x.id FROM queries q, LATERAL (SELECT id FROM items ORDER BY items.v <-> q.v LIMIT 10) x" 2>&1)"

# recall CONDITION: how many of the 100 rows come that are the 10 nearest of 10 queries.
recall()
{
	local id

	{
		echo "SET grnnd.ef_search = 200; SET citus.propagate_set_commands = 'local';"
		for id in $(on 0 -c "SELECT id FROM queries"); do
			echo "SELECT v AS q FROM queries WHERE id = $id \gset"
			echo "BEGIN; SET LOCAL grnnd.ef_search = 200;"
			echo "CREATE TEMP TABLE got AS SELECT id FROM items $1 ORDER BY v <-> :'q' LIMIT 10;"
			echo "SELECT count(*) FROM got JOIN (SELECT id FROM whole $1 ORDER BY v <-> :'q' LIMIT 10) x USING (id);"
			echo "ROLLBACK;"
		done
	} | on 0 | awk '{ n += $1 } END { print n + 0 }'
}

# found NAME CONDITION
found()
{
	local n

	n=$(recall "$2")
	check "$1" yes "$([ "$n" -ge 97 ] && echo yes || echo "$n of 100")"
}

found "recall@10 at ef_search 200" ''

# ---- one tenant ----

tenant="SELECT id FROM items WHERE tenant_id = 7 ORDER BY v <-> '$query' LIMIT 10"
got=$(on 0 -c "$plan $tenant")
has "one tenant: one shard is asked" "Task Count: 1$" "$got"
has "one tenant: by the index and its filter column" 'Index Cond: .*tenant_id = 7' "$got"
got=$(on 0 -c "SET plan_cache_mode = force_generic_plan" -c "PREPARE p(vector, int) AS SELECT id FROM items
	WHERE tenant_id = \$2 ORDER BY v <-> \$1 LIMIT 10" -c "$plan EXECUTE p('$query', 7)")
has "one tenant as a parameter: one shard is asked" "Task Count: 1$" "$got"
found "one tenant: recall@10 at ef_search 200" 'WHERE tenant_id = 7'
got=$(on 0 -c "$all" -c "$plan SELECT id FROM items WHERE tenant_id IN (3, 4, 9) ORDER BY v <-> '$query' LIMIT 10")
check "a few tenants: by the index" t "$([ "$(grep -c 'Index Scan using items_v_idx' <<<"$got")" -ge 1 ] && echo t)"

# ---- settings ----

width="SELECT count(*), string_agg(DISTINCT result, ',') FROM run_command_on_shards('items',
	\$\$SELECT current_setting('grnnd.ef_search', true)\$\$)"
on 0 -c "ALTER ROLE postgres SET grnnd.ef_search = 123" 2>"$LOGS/role" || cat "$LOGS/role"
check "ALTER ROLE ... SET reaches the shards" "4|123" "$(on 0 -c "$width")"
on 0 -c "ALTER ROLE postgres RESET grnnd.ef_search"
got=$(on 0 -c "SET citus.propagate_set_commands = 'local'" -c "BEGIN" -c "SET LOCAL grnnd.ef_search = 77" \
	-c "SELECT DISTINCT current_setting('grnnd.ef_search', true) FROM items" -c "COMMIT" 2>&1)
check "SET LOCAL with citus.propagate_set_commands = local reaches them" 77 "$got"

# ---- writes ----

on 0 -c "INSERT INTO items SELECT id, id % 30, v FROM points(6001, 6300, 32, 1)" \
	-c "INSERT INTO whole SELECT id, id % 30, v FROM points(6001, 6300, 32, 1)" \
	-c "DELETE FROM items WHERE id % 10 = 3" -c "DELETE FROM whole WHERE id % 10 = 3" -c "VACUUM items"
check "inserts, deletes, VACUUM: sound" "4|0000" "$(on 0 -c "$sound")"
found "inserts, deletes, VACUUM: recall@10" ''

# ---- moving shards ----

on 0 -c "SELECT citus_add_node('localhost', $((PORT + 3)))" >/dev/null
for mode in force_logical block_writes; do
	on 0 -c "SELECT citus_move_shard_placement(shardid, nodename, nodeport, 'localhost', $((PORT + 3)), '$mode')
		FROM citus_shards WHERE table_name = 'items'::regclass AND nodeport <> $((PORT + 3)) ORDER BY shardid LIMIT 1" \
		>"$LOGS/move-$mode" 2>&1 || cat "$LOGS/move-$mode"
done
check "two shards have moved to the new node" 2 "$(on 0 -c "SELECT count(*) FROM citus_shards
	WHERE table_name = 'items'::regclass AND nodeport = $((PORT + 3))")"
on 0 -c "SELECT citus_drain_node('localhost', $((PORT + 1)), 'block_writes')" >"$LOGS/drain" 2>&1 || cat "$LOGS/drain"
check "a node is drained" 0 "$(on 0 -c "SELECT count(*) FROM citus_shards
	WHERE table_name = 'items'::regclass AND nodeport = $((PORT + 1))")"
check "shards that moved have their indexes" "4|t" "$(on 0 -c "$indexes")"
check "they are sound" "4|0000" "$(on 0 -c "$sound")"
found "after all moves: recall@10" ''
on 0 -c "SELECT alter_distributed_table('items', shard_count := 6)" >"$LOGS/alter" 2>&1 || cat "$LOGS/alter"
check "another number of shards: each has its index" "6|t" "$(on 0 -c "$indexes")"

# ---- a table that every node has ----

on 0 -c "CREATE TABLE labels (id int PRIMARY KEY, v vector(32))" -c "SELECT create_reference_table('labels')" \
	-c "INSERT INTO labels SELECT * FROM points(1, 500, 32, 1)" -c "CREATE INDEX labels_idx ON labels USING grnnd (v)" >/dev/null
has "a reference table is answered by its index" "Index Scan using labels_idx" \
	"$(on 0 -c "SET enable_seqscan = off" -c "EXPLAIN (COSTS OFF) SELECT id FROM labels ORDER BY v <-> '$query' LIMIT 10")"

summary "$started"
