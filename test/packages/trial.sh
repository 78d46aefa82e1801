#!/bin/bash
# trial.sh MAJOR deb|rpm|image|dist - run by packages.sh as root of a Debian that has PostgreSQL and /debs:
# installs, builds and asks an index, removes, and looks for what is left.  rpm: rpm has installed
# grnnd and removes it later; image: pgvector is there, too; dist: a .zip of the sources.  Ends with "N passed, N failed".
set -u
major=$1
kind=$2
passed=0 failed=0

ok()
{
	local what=$1

	shift
	if "$@"; then
		echo "ok $what"
		passed=$((passed + 1))
	else
		echo "not ok $what"
		failed=$((failed + 1))
	fi
}

install()
{
	# (its own user cannot read /debs, and the network is not there)
	DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
		-o APT::Sandbox::User=root "$@" >/tmp/apt.log 2>&1 || { tail -n 5 /tmp/apt.log; false; }
}

sql()
{
	su postgres -c "psql -XAtq -v ON_ERROR_STOP=1 -d postgres" <<<"$1" 2>&1
}

# Every file but data, logs and what apt and dpkg keep of their own work.
files()
{
	find / -xdev \( -path /proc -o -path /dev -o -path /debs -o -path /tmp -o -path /run -o -path /var \) -prune -o -print |
		sort
}

index='DROP INDEX IF EXISTS i; SET client_min_messages = info; CREATE INDEX i ON t USING grnnd (v)'
query="SET enable_seqscan = off; SELECT id FROM t ORDER BY v <-> (SELECT v FROM t WHERE id = 7) LIMIT 1"
libdir=/usr/lib/postgresql/$major/lib

# pgvector_installs: from its source, whose own processor need not be this one.
pgvector_installs()
{
	cd /debs/pgvector && { make clean; make -j4 OPTFLAGS= with_llvm=no && make OPTFLAGS= with_llvm=no install; } >/tmp/pgvector.log 2>&1 ||
		{ tail -n 5 /tmp/pgvector.log; false; }
}

# tests FOLDER PROGRAM ARGUMENT...: all tests of that folder, in a cluster of their own.
tests()
{
	local folder=$1 program=$libdir/pgxs/src/test/$2 log=/tmp/${2##*/}.log names

	shift 2
	# (those that stop a backend somewhere want a build with -DGRNND_TEST_POINTS)
	names=$(grep -rLi 'test_point' "$folder" --include='*.sql' --include='*.spec' | sed 's/.*\///; s/\.[a-z]*$//' | sort | tr '\n' ' ')
	rm -f regression.diffs
	su postgres -c "$program --bindir=${libdir%/lib}/bin --temp-instance=${log%.log} --temp-config=/tmp/quiet.conf \
		--no-locale --encoding=UTF8 $* $names" >"$log" 2>&1 && return
	grep -E '^not ok|FAILED|failed' "$log" || tail -n 40 "$log"
	find . -name regression.diffs -exec head -n 150 {} +
	false
}

case $kind in
	image) ;;
	dist) ok "pgvector is installed" pgvector_installs ;;
	*) ok "pgvector is installed" install /debs/postgresql-"$major"-pgvector_*.deb ;;
esac
files >/tmp/before
[ "$kind" != deb ] || ok "the package is installed" install /debs/postgresql-"$major"-grnnd_*.deb
if [ "$kind" = dist ]; then
	cd /root && unzip -q /debs/grnnd-*.zip && cd grnnd-* || exit 1
	chown -R nobody . && chmod 755 /root
	ok "META.json is JSON" perl -MJSON::PP -0777 -ne 'exit !decode_json($_)->{provides}{grnnd}' META.json
	ok "the sources compile" eval "su nobody -s /bin/sh -c 'make WITH_CUDA=no -j4' >/tmp/make.log 2>&1 || { tail -n 20 /tmp/make.log; false; }"
	ok "and are installed" eval "make WITH_CUDA=no install >/tmp/install.log 2>&1"
	chown -R postgres .
	printf '%s\n' "autovacuum = off" "grnnd.background_fit = off" "max_parallel_workers_per_gather = 0" "jit = off" >/tmp/quiet.conf
	ok "SQL tests" tests test/sql regress/pg_regress --inputdir=test
	ok "isolation tests" tests test/isolation/specs isolation/pg_isolation_regress --inputdir=test/isolation --outputdir=output_iso
fi
ok "the server starts" pg_ctlcluster "$major" main start
ok "CREATE EXTENSION" sql "CREATE EXTENSION grnnd CASCADE"
ok "a table" sql "CREATE TABLE t AS SELECT i AS id, ARRAY[sin(i), cos(i * 7), sin(i * i), i % 97 / 97.]::vector(4) AS v
	FROM generate_series(1, 5000) i"
said=$(sql "$index")
ok "CREATE INDEX" grep -q "has been built on CPU cores: 5000 rows" <<<"$said"
ok "a query by the index" [ "$(sql "$query")" = 7 ]
ok "its plan" grep -q "Index Scan using i" <<<"$(sql "${query/SELECT id/EXPLAIN SELECT id}")"
ok "the index holds together" [ "$(sql "SELECT count(*) FROM grnnd_check('i', true)")" = 0 ]
ok "CREATE EXTENSION grnnd_tools" sql "CREATE EXTENSION grnnd_tools"
ok "CREATE EXTENSION grnnd_build_server" sql "CREATE EXTENSION grnnd_build_server; DROP EXTENSION grnnd_build_server"
ok "a graph of all rows" [ "$(sql "SELECT count(*) FROM grnnd_graph('t', 'v', 1)")" = 5000 ]
sql "SELECT * FROM grnnd_devices()"

if compgen -G "/debs/*-cuda_*.deb" >/dev/null; then
	ok "the package with the GPU's builder is installed" install /debs/postgresql-"$major"-grnnd-cuda_*.deb
	said=$(sql "$index")
	ok "CREATE INDEX by it, without a GPU" grep -q "has been built on CPU cores: 5000 rows" <<<"$said"
	said=$(sql "SELECT problem FROM grnnd_devices()")
	echo "$said"
	ok "it is another program" [ -n "${said##*was built without GPU support*}" ]
	ok "a query by that index" [ "$(sql "$query")" = 7 ]
fi

ok "DROP EXTENSION" sql "DROP EXTENSION grnnd CASCADE"
if [ "$kind" = deb ]; then
	ok "the packages are removed" eval "apt-get purge -y 'postgresql-$major-grnnd*' >/tmp/apt.log 2>&1"
	files >/tmp/after
	ok "nothing is left of them" diff /tmp/before /tmp/after
	ok "no library is left" eval "! compgen -G '$libdir/grnnd*' >/dev/null"
fi
if [ "$kind" = dist ]; then
	ok "make uninstall" eval "make WITH_CUDA=no uninstall >/tmp/uninstall.log 2>&1"
	# (PGXS leaves the folder of its pages)
	files | perl -lne 'print unless -d or m{^/root/}' | grep -vxFf /tmp/before >/tmp/left
	ok "no file is left of them" diff /dev/null /tmp/left
fi
ok "the server goes on" [ "$(sql "SELECT count(*) FROM t")" = 5000 ]
pg_ctlcluster "$major" main stop
echo "$passed passed, $failed failed"
[ $failed = 0 ]
