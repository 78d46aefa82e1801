# sample.sh - sourced after server.sh: loads the sample into the server that
# start_server started, and measures searches in it.
# shellcheck shell=bash

# load_sample: tables glosses and queries (id, text, embedding).
load_sample()
{
	sql <<-'SQL'
		SET client_min_messages = warning;
		CREATE EXTENSION grnnd CASCADE;
		CREATE TABLE glosses (id int PRIMARY KEY, text text, embedding vector(384));
		CREATE TABLE queries (LIKE glosses INCLUDING ALL);
	SQL
	python3 "$TOP/test/data/sample.py" glosses | sql -c "COPY glosses FROM STDIN" || return
	python3 "$TOP/test/data/sample.py" queries | sql -c "COPY queries FROM STDIN" || return
	sql -c "VACUUM ANALYZE glosses" -c "ANALYZE queries"
}

# measure TABLE SETTING...: the ten nearest of every query into TABLE, through one
# connection; prints queries a second.
measure()
{
	local table=$1 setting sets=

	shift
	for setting in "$@"; do
		sets+="SET $setting;"
	done
	sql <<-SQL
		SET max_parallel_workers_per_gather = 0;
		SET jit = off;
		$sets
		SELECT clock_timestamp() AS started \gset
		CREATE TABLE $table AS SELECT q.id AS query, n.id FROM queries q,
			LATERAL (SELECT id FROM glosses
				ORDER BY embedding <=> q.embedding LIMIT 10) n;
		SELECT round(500 / extract(epoch FROM clock_timestamp() - :'started'::timestamptz));
	SQL
}

# recall TABLE: share of the exact ten that TABLE has.
recall()
{
	sql -c "SELECT to_char(count(a.id) / count(*)::numeric, 'FM0.000')
		FROM exact e LEFT JOIN $1 a ON a.query = e.query AND a.id = e.id"
}
