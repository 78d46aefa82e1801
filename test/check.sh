#!/bin/bash
# check.sh - `make check`: unit tests, then for PostgreSQL 16 and 18 regression and isolation tests and,
# on one of the two, Perl tests; the kernels' compilation where there is nvcc.  About 10 minutes of
# two processors.
# check.sh all - `make check-all`: the same without what check leaves out to save time (GRNND_ALL, which
# tests read), Perl tests on both servers, client libraries, and what wants postgres_fdw against
# Debian's PostgreSQL 15.
# check.sh soak - `make check-soak`: those Perl tests that draw random numbers, over and
# over, each time from another seed, for SOAK_HOURS, SOAK_MINUTES or SOAK_SECONDS (half an
# hour), with a line every hour.
# check.sh fuzz - `make fuzz`: the fuzzers of test/fuzz for SOAK_SECONDS together.
# check.sh assert - `make check-assert`: all but unit tests and kernels against PostgreSQL MAJORS
# (15 and 18; 17 too) with assertions, which the first such run builds.
# check.sh sanitize - `make check-asan`: SQL tests, and those of damaged pages, against PostgreSQL 18
# (PG_CONFIG), where library and builder run under the address and undefined-behavior
# sanitizers.
# check.sh valgrind - `make check-valgrind`: some SQL tests against a PostgreSQL 18 (PG_CONFIG) under
# Valgrind.
#
# CLIENTS=no: check-all without the libraries of clients that migration_clients.pl runs, 290 MB from PyPI.
# VECTOR=FOLDER: the pgvector whose source is there, not the server's own.
# PG_CONFIG empty: the wheel's PostgreSQL 16 and 18 (soak: 18); else the server that it
# names.  Logs stay in .work/check-logs, all-logs, assert-logs or soak-logs.  The last line is
# "N passed, N failed".
#
# Tests are jobs in the background, of which as many run at a time as there are processors, and one.
# What a job runs are stages (server.sh): no clock ends them, but a hang does.
SERVER=${PG_CONFIG:-}
[ -z "$SERVER" ] || SERVER=$(command -v "$SERVER") ||
	{ echo "grnnd: PG_CONFIG=$PG_CONFIG: no such program" >&2; exit 1; }
. "$(dirname "${BASH_SOURCE[0]}")/server.sh"

KERNEL_ARCH=90
# Races are met by stopping a backend in the middle (src/am/test_point.c).
TEST_BUILD=(WITH_CUDA=no COPT=-DGRNND_TEST_POINTS)
SANITIZED=()					# before the commands of tests
SOAK_TESTS=(soak_mixed write_load write_crash power_cut write_recovery write_replica write_fuzz recall_sweep
	write_shaken build_faults build_server cancel insert_cost large_build)
# what wants postgres_fdw, which the wheel's servers lack and Debian's have
FDW_MAJOR=15
FDW_TESTS=(shards)
VALGRIND_TESTS=(errors check mvcc insert vacuum filters)
SANITIZED_TESTS=(write_check corruption write_fuzz)
# Perl tests of what servers before 17 alone have, and of what wants another, older server
ONLY_OLD=(old_snapshot)
ONLY_NEW=(upgrade)
# that "make check" runs on both servers, since the version is a part of their code; others alternate
ON_BOTH=(filters security write_fit)
# SQL tests that take longest, which alternate as well
LONG_SQL=(bit cache clusters codes filter_elements filter_search filter_twins filtered halfvec insert jaccard l1
	layout recall rerank rounded row_graph sparsevec stats threshold)
# Perl tests that "make check" leaves to check-all
LEFT_OUT=(figures insert_cost large_build list_groups migration_classes migration_clients migration_plans
	write_load)
SLOTS=$((CPUS + 1))				# jobs at a time: many wait now and then
GRNND_ALL=						# set: tests leave nothing out to save time

# took GROUP STAGE SINCE LOG
took()
{
	printf '%-8s %-14s %s: %s s, %s s of processor time\n' '' "$1" "$2" $((SECONDS - $3)) "$(seconds_spent "$4")"
}

# queue FUNCTION ARG...: a job in the background, as soon as fewer than SLOTS are at work.
queue()
{
	while (($(jobs -rp | wc -l) >= SLOTS)); do
		wait -n
	done
	in_background "$@"
}

# no_warnings GROUP LOG: what was compiled there drew no warning.  (make and linkers have others.)
no_warnings()
{
	if grep -qE ':[0-9]+: warning:' "$2"; then
		report fail "$1" "build without warnings"
		grep -EA 4 ':[0-9]+: warning:' "$2" | head -n 20 | sed "s/^/    $1 | /"
	else
		report pass "$1" "build without warnings"
	fi
}

#
# Unit tests
#

# unit GROUP TARGET WHAT: runs that target of test/unit.
unit()
{
	local log=$LOGS/$1.log steady=() status began=$SECONDS

	# gcc 12's sanitizers do not survive the address randomization of newer kernels.
	setarch -R true 2>/dev/null && steady=(setarch -R)
	stage "$log" "${steady[@]}" make -C "$RUN/unit/test/unit" GRNND_ALL="$GRNND_ALL" "$2"
	status=$?
	tap_lines "$1" <"$log"
	if [ $status != 0 ]; then
		! grep -q '^not ok ' "$log" || show "$1" <(grep -B 4 '^not ok ' "$log") 40
		# (a test that fails makes make fail; with another status tests are missing)
		if ! grep -q '^not ok ' "$log" || [ $status = 124 ]; then
			report fail "$1" "the unit tests ended early"
			show "$1" "$log"
		fi
	elif ! grep -q '^ok ' "$log"; then
		report fail "$1" "no unit test ran"
		show "$1" "$log"
	fi
	no_warnings "$1" "$log"
	took "$1" "$3" $began "$log"
}

run_unit()
{
	unit unit check "all unit tests"
	unit fuzz seeds "inputs that fuzzing has kept"
}

# run_emulated TARGET: neon or neon-all
run_emulated()
{
	if command -v aarch64-linux-gnu-gcc >/dev/null && command -v qemu-aarch64-static >/dev/null; then
		unit neon "$1" "unit tests on 64-bit Arm, emulated"
	elif [ "$(uname -m)" != aarch64 ]; then
		report skip neon "no aarch64-linux-gnu-gcc and qemu-aarch64-static here"
	fi
}

# What the sources promise of themselves.
run_rules()
{
	bash "$TOP/test/rules.sh" >"$LOGS/rules.log" 2>&1
	tap_lines rules <"$LOGS/rules.log"
	grep -q '^ok ' "$LOGS/rules.log" || report fail rules "no rule was checked"
	! grep -q '^not ok ' "$LOGS/rules.log" || show rules "$LOGS/rules.log"
	if ! command -v pg_bsd_indent >/dev/null; then
		report skip rules "sources are formatted: no pg_bsd_indent here"
	elif bash "$TOP/test/format.sh" --check >"$LOGS/format.log" 2>&1; then
		report pass rules "sources are formatted"
	else
		report fail rules "sources are formatted"
		show rules "$LOGS/format.log"
	fi
}

#
# Tests against one server
#

# regress GROUP KIND FOLDER EXPECTED COMMAND...: runs pg_regress or its sibling there
# and reports each of the EXPECTED tests, whichever release's output it is.
regress()
{
	local group=$1 kind=$2 folder=$3 expected=$4 log line began=$SECONDS
	local new='^(not )?ok +[0-9]+ +[-+] ([^ ]+)' old='^(test )? *([^ ]+) +\.\.\. (ok|FAILED)'

	shift 4
	log=$LOGS/$group-$kind.log
	log=${log// /-}
	# (a server may start slowly, and a step of an isolation test wait long, on a busy machine)
	stage "$log" env -C "$folder" PGCTLTIMEOUT=600 PGISOLATIONTIMEOUT=600 "$@"
	while read -r line; do
		if [[ $line =~ $new ]]; then
			[ -z "${BASH_REMATCH[1]}" ] && set -- pass || set -- fail
			report "$1" "$group" "$kind ${BASH_REMATCH[2]}"
			expected=$((expected - 1))
		elif [[ $line =~ $old ]]; then
			[ "${BASH_REMATCH[3]}" = ok ] && set -- pass || set -- fail
			report "$1" "$group" "$kind ${BASH_REMATCH[2]}"
			expected=$((expected - 1))
		fi
	done <"$log"
	if [ "$expected" != 0 ]; then
		report fail "$group" "$kind: $expected tests did not run"
		show "$group" "$log"
	elif grep -qE '^not ok|FAILED' "$log"; then
		find "$folder" -name regression.diffs -newer "$folder/started" -exec cat {} + >"${log%.log}.diffs"
		show "$group" "${log%.log}.diffs" 60
	fi
	took "$group" "$kind" $began "$log"
}

# names_in FOLDER EXTENSION: the files' names without it.
names_in()
{
	find "$1" -name "*.$2" -printf '%f\n' 2>/dev/null | sed "s/\.$2\$//" | sort
}

# reuse_objects TREE: those of another tree that do not depend on the server: of the rooms without
# PostgreSQL and of the builder, but for the one that knows the server's folders.  make finds them newer than the sources.
reuse_objects()
{
	local other

	for other in "$RUN"/server-*; do
		[ -e "$other" ] || continue
		other=$RUN/tree-${other##*-}
		cp -a "$other/build" "$1/" && rm -f "$1/build/build_server/"*.o && cp -a "$other/src/"{memory,space,store,graph} "$1/src/"
		return
	done
}

# prepare_server NAME PG_CONFIG: a copy of that server that has pgvector and grnnd, which is built in
# $RUN/tree-NAME; the copy's pg_config is in $RUN/server-NAME.
prepare_server()
{
	local group="PostgreSQL $1" log=$LOGS/PostgreSQL-$1 tree=$RUN/tree-$1 server began=$SECONDS

	server=$(copy_server "$2" "$1") || { report fail "$group" "private copy"; return 1; }
	has_vector "$server" || add_vector "$server" "$log-pgvector.log" ||
		{ report fail "$group" "pgvector"; show "$group" "$log-pgvector.log"; return 1; }
	copy_tree "$tree"
	reuse_objects "$tree"
	if ! build_grnnd "$tree" "$server" "$log-compile.log" "${TEST_BUILD[@]}"; then
		report fail "$group" build
		show "$group" "$log-compile.log"
		return 1
	fi
	no_warnings "$group" "$log-compile.log"
	took "$group" build $began "$log-compile.log"
	echo "$server" >"$RUN/server-$1"
}

# perl_test GROUP PG_CONFIG TREE NAME LOG [VARIABLE=VALUE...]: one of test/t.
perl_test()
{
	local group=$1 pg_config=$2 tree=$3 name=$4 log=$5 tests shown=$4 began=$SECONDS

	shift 5
	tests=$(test_programs "$pg_config")
	[ $# = 0 ] || shown="$name $*"
	stage "$log.log" "${SANITIZED[@]}" env -C "$tree" GRNND_ALL="$GRNND_ALL" \
		PATH="$("$pg_config" --bindir):$PATH" \
		PERL5LIB="$tree/test/lib:$(debian_tests)/perl" \
		PG_REGRESS="$tests/regress/pg_regress" PG_CONFIG="$pg_config" \
		PG_TEST_PORT_DIR="$RUN/ports" PGCTLTIMEOUT=600 PG_TEST_TIMEOUT_DEFAULT=600 \
		TESTDIR="$tree" TESTDATADIR="$tree/tmp_check" \
		TESTLOGDIR="$tree/tmp_check/log" OLD_PG_CONFIG="${OLD_PG_CONFIG:-}" \
		CLIENTS="${CLIENTS_FOLDER:-}" "$@" \
		prove -v "test/t/$name.pl"
	if [ $? != 0 ]; then
		report fail "$group" "$shown ($((SECONDS - began)) s)"
		show "$group" <(grep -vE '^(ok|#? *$)' "$log.log") 25
		mkdir -p "$log" && cp "$tree"/tmp_check/log/*"$name"* "$log/" 2>/dev/null
	elif grep -q 'skipped:' "$log.log"; then
		report skip "$group" "$shown: $(sed -n 's/.*skipped: *//p' "$log.log" | head -n 1)"
	else
		report pass "$group" "$shown ($(grep -c '^ok ' "$log.log") checks, $((SECONDS - began)) s, $(seconds_spent "$log.log") s of processor time)"
	fi
}

# Settings of the servers of SQL and isolation tests: nothing works beside a test that does not
# start it, so that its outcome hangs on no time and on no number of cores.
quiet_settings()
{
	printf '%s\n' "autovacuum = off" "grnnd.background_fit = off" "max_parallel_workers_per_gather = 0" "jit = off"
}

# among WORD WORD...: whether the first is among the others.
among()
{
	[[ " ${*:2} " == *" $1 "* ]]
}

# sql_tests MAJOR: the SQL tests for that server.
sql_tests()
{
	local name old='' turn=''

	[ "$1" -ge 17 ] || old=yes
	for name in $(names_in "$TOP/test/sql" sql); do
		if [ -z "$GRNND_ALL" ] && [ ${#MAJORS[@]} -gt 1 ] && among "$name" "${LONG_SQL[@]}"; then
			[ -n "$turn" ] && turn='' || turn=yes
			[ "$turn" = "$old" ] || continue
		fi
		echo "$name"
	done
}

# run_sql NAME PG_CONFIG: the SQL tests against one prepared server.
run_sql()
{
	local group="PostgreSQL $1" tree=$RUN/tree-$1 names name

	touch "$tree/started"
	quiet_settings >"$tree/quiet.conf"
	names=$(sql_tests "$1")
	for name in $names; do
		# pg_regress gives up on all tests where one has no output to compare with
		[ -e "$tree/expected/$name.out" ] || as_server touch "$tree/expected/$name.out"
	done
	# (Perl tests have their data in tmp_check)
	regress "$group" regress "$tree" "$(wc -w <<<"$names")" \
		"${SANITIZED[@]}" "$(test_programs "$2")/regress/pg_regress" --inputdir=test --bindir="$("$2" --bindir)" \
		--temp-instance=tmp_check_sql --temp-config=quiet.conf --no-locale --encoding=UTF8 $names
}

# run_isolation NAME PG_CONFIG
run_isolation()
{
	local group="PostgreSQL $1" tree=$RUN/tree-$1 names

	touch "$tree/started"
	quiet_settings >"$tree/quiet_iso.conf"
	names=$(names_in "$tree/test/isolation/specs" spec)
	regress "$group" isolation "$tree" "$(wc -w <<<"$names")" \
		"$(test_programs "$2")/isolation/pg_isolation_regress" --inputdir=test/isolation \
		--outputdir=output_iso --bindir="$("$2" --bindir)" \
		--temp-instance=tmp_check_iso --temp-config=quiet_iso.conf --no-locale --encoding=UTF8 $names
}

# perl_tests MAJOR: the Perl tests for that server.
perl_tests()
{
	local servers=${#MAJORS[@]} name old='' turn=''

	[ "$1" -ge 17 ] || old=yes
	for name in $(names_in "$TOP/test/t" pl); do
		if [ "$servers" -gt 1 ]; then
			! among "$name" "${FDW_TESTS[@]}" || continue
			[ -z "$old" ] || ! among "$name" "${ONLY_NEW[@]}" || continue
			[ -n "$old" ] || ! among "$name" "${ONLY_OLD[@]}" || continue
		fi
		if [ -z "$GRNND_ALL" ] && among "$name" "${LEFT_OUT[@]}"; then
			continue
		elif [ -z "$GRNND_ALL" ] && [ "$servers" -gt 1 ] &&
				! among "$name" "${ON_BOTH[@]}" "${ONLY_OLD[@]}" "${ONLY_NEW[@]}"; then
			[ -n "$turn" ] && turn='' || turn=yes
			[ "$turn" = "$old" ] || continue
		fi
		echo "$name"
	done
}

# run_fdw: FDW_TESTS against a copy of Debian's server.
run_fdw()
{
	local group="PostgreSQL $FDW_MAJOR" log=$LOGS/PostgreSQL-$FDW_MAJOR DEBIAN_CONFIG= name

	if ! (debian_source trixie pgvector) >"$log-source.log" 2>&1; then
		report skip "$group" "${FDW_TESTS[*]}: apt-get does not bring pgvector's source"
	elif ! debian_server $FDW_MAJOR "$log-server.log"; then
		report skip "$group" "${FDW_TESTS[*]}: no such server of Debian's: $(tail -n 1 "$log-server.log")"
	elif prepare_server $FDW_MAJOR "$DEBIAN_CONFIG"; then
		for name in "${FDW_TESTS[@]}"; do
			perl_test "$group" "$(<"$RUN/server-$FDW_MAJOR")" "$RUN/tree-$FDW_MAJOR" "$name" "$log-t-$name"
		done
	fi
}

# run_kernels PG_CONFIG: the kernels (check-all: and their tests) with warnings as errors, once.  Only a compiler is
# needed, and PostgreSQL's makefiles: any server's.
run_kernels()
{
	local pg_config=$1 nvcc log=$LOGS/kernels.log tree=$RUN/kernels tests=${GRNND_ALL:+build/gpu_check} began=$SECONDS

	nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null) ||
		{ report skip kernels "no nvcc here"; return; }
	copy_tree "$tree"
	[ -n "$GRNND_ALL" ] || reuse_objects "$tree"
	if stage "$log" make -C "$tree" PG_CONFIG="$pg_config" WITH_CUDA=yes NVCC="$nvcc" \
			CUDA_ARCHS=$KERNEL_ARCH NVCC_EXTRA="-Werror all-warnings" grnnd_build grnnd_paper $tests &&
		as_server "$tree/grnnd_build" --help >>"$log" 2>&1 &&
		bash "$TOP/test/hardened.sh" "$tree/grnnd_build" >>"$log" 2>&1 &&
		bash "$TOP/test/hardened.sh" -o "$tree/build/cuda/kernels.a" >>"$log" 2>&1; then
		report pass kernels "compiled for sm_$KERNEL_ARCH, warnings as errors"
	else
		report fail kernels "compiled for sm_$KERNEL_ARCH, warnings as errors"
		show kernels "$log"
	fi
	took kernels compilation $began "$log"
}

# prepare_assert_server MAJOR: the same with a server that has assertions.
prepare_assert_server()
{
	local group="PostgreSQL $1" log=$LOGS/PostgreSQL-$1-server.log began=$SECONDS

	if [ -e "$(assert_folder "$1")/whole" ]; then
		:
	elif ! build_assert_server "$1" "$log"; then
		report fail "$group" "server with assertions"
		show "$group" "$log"
		return 1
	fi
	printf '%-8s %-14s server: %s s\n' '' "$group" $((SECONDS - began))
	prepare_server "$1" "$(assert_folder "$1")/bin/pg_config"
}

need_assert_tools()
{
	local want=()

	command -v bison >/dev/null || want+=(bison)
	command -v flex >/dev/null || want+=(flex)
	command -v bzip2 >/dev/null || want+=(bzip2)
	command -v make >/dev/null || want+=(make)
	[ ${#want[@]} = 0 ] || apt_install "${want[@]}"
}

# no_trap GROUP TREE LOG: no server of these tests said that an assertion failed.  Tests
# that crash servers on purpose would not notice.
no_trap()
{
	if grep -rhs -A 30 '^TRAP: ' "$2"/log "$2"/output_iso/log "$2"/tmp_check/log >"$3"; then
		report fail "$1" "no assertion failed"
		show "$1" "$3" 40
	else
		report pass "$1" "no assertion failed"
	fi
}

# CLIENTS_FOLDER: where the servers' user finds what get_clients installed; empty where that failed
# or is not wanted.
find_clients()
{
	local getting=$1

	[ -n "$getting" ] || return
	wait "$getting" 2>/dev/null
	if ! get_clients; then
		report fail clients "libraries from PyPI (make check-all CLIENTS=no goes without)"
		show clients "$WORK/clients.log" 5
		return
	fi
	CLIENTS_FOLDER=$WORK/clients
	# as make_room does
	as_server test -r "$CLIENTS_FOLDER/whole" && return
	cp -r "$CLIENTS_FOLDER" "$RUN/clients" && give "$RUN/clients" && CLIENTS_FOLDER=$RUN/clients
}

# prepare_servers KIND: MAJORS, the servers that this run is against.
prepare_servers()
{
	local wanted=${MAJORS:-15 18} prepare=prepare_assert_server major

	if [ -n "$SERVER" ]; then
		wanted=$(version_of "$SERVER") prepare=prepare_server
	elif [ "$1" != assert ]; then
		wanted="16 18" prepare=prepare_server
	else
		need_assert_tools
	fi
	MAJORS=()
	for major in $wanted; do
		attended $prepare "$major" "${SERVER:-$(wheel_pg_config "$major")}" && MAJORS+=("$major")
	done
}

# main check|all|assert
main()
{
	local started=$SECONDS major name PRIVATE OLD_PG_CONFIG= CLIENTS_FOLDER= clients=

	[ "$1" = check ] || GRNND_ALL=yes
	need_tools tap
	make_room check
	start_results "$1-logs"
	mkdir "$RUN/ports" && give "$RUN/ports"
	[ -n "$SERVER" ] || [ "$1" = assert ] || attended get_wheel || exit 1
	if want_clients; then
		own_pip >/dev/null 2>&1		# here: the wheel's is the same
		in_background get_clients
		clients=$!
	fi

	if [ "$1" != assert ]; then
		copy_tree "$RUN/unit"
		queue run_unit
	fi
	prepare_servers "$1"
	for major in "${MAJORS[@]}"; do
		queue run_sql "$major" "$(<"$RUN/server-$major")"
	done
	if [ "$1" != assert ]; then
		[ ${#MAJORS[@]} = 0 ] || queue run_kernels "$(<"$RUN/server-${MAJORS[0]}")"
		queue run_rules
		queue run_emulated neon
	fi
	[ -n "$SERVER" ] || [ "$1" != all ] || queue run_fdw
	find_clients "$clients"
	for major in "${MAJORS[@]}"; do
		PRIVATE=$(<"$RUN/server-$major")
		queue run_isolation "$major" "$PRIVATE"
		for name in $(perl_tests "$major"); do
			queue perl_test "PostgreSQL $major" "$PRIVATE" "$RUN/tree-$major" "$name" "$LOGS/PostgreSQL-$major-t-$name"
		done
		OLD_PG_CONFIG=$PRIVATE			# the next one is upgraded from it
	done
	wait
	for major in "${MAJORS[@]}"; do
		[[ $("$(<"$RUN/server-$major")" --configure) != *--enable-cassert* ]] ||
			no_trap "PostgreSQL $major" "$RUN/tree-$major" "$LOGS/PostgreSQL-$major-traps.log"
	done

	summary "$started"
}

# open_run NAME: what runs against one server begin with: tools, room, PG, the major version of SERVER,
# which is the wheel's 18 unless another was asked for, and PRIVATE, its prepared copy or nothing.
open_run()
{
	need_tools tap
	make_room "$1"
	start_results "$1-logs"
	mkdir "$RUN/ports" && give "$RUN/ports"
	if [ -z "$SERVER" ]; then
		attended get_wheel || exit 1
		SERVER=$(wheel_pg_config 18)
	fi
	PG=$(version_of "$SERVER")
	PRIVATE=
	attended prepare_server "$PG" "$SERVER" && PRIVATE=$(<"$RUN/server-$PG")
}

# Where a report goes, and what else the sanitizers are told: every report ends its process.  The
# server is not built for them, so their library comes before it.
sanitizer_settings()
{
	mkdir "$RUN/reports" && give "$RUN/reports"
	SANITIZED=(setarch -R env "LD_PRELOAD=$(gcc -print-file-name=libasan.so)"
		"ASAN_OPTIONS=detect_leaks=0:abort_on_error=1:log_path=$RUN/reports/asan"
		"UBSAN_OPTIONS=print_stacktrace=1:log_path=$RUN/reports/ubsan")
}

# no_report GROUP: neither sanitizer had anything to say.
no_report()
{
	cat "$RUN/reports"/* >"$LOGS/reports.log" 2>/dev/null
	if [ -s "$LOGS/reports.log" ]; then
		report fail "$1" "no report of a sanitizer"
		show "$1" <(head -n 60 "$LOGS/reports.log") 60
	else
		report pass "$1" "no report of a sanitizer"
	fi
}

sanitize()
{
	local started=$SECONDS PG= PRIVATE= SANITIZED=() OLD_PG_CONFIG= name

	TEST_BUILD+=("CC=gcc -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer")
	MAJORS=()
	open_run sanitize
	sanitizer_settings
	if [ -n "$PRIVATE" ]; then
		# (isolation tests' program hangs at its end with the sanitizer's library before its own)
		run_sql "$PG" "$PRIVATE"
		for name in "${SANITIZED_TESTS[@]}"; do
			perl_test "PostgreSQL $PG" "$PRIVATE" "$RUN/tree-$PG" "$name" "$LOGS/PostgreSQL-$PG-t-$name"
		done
		no_report "PostgreSQL $PG"
	fi
	summary "$started"
}

# Valgrind's word for a fault comes with grnnd's library or builder on the stack; the server's own,
# among them bytes between the fields of what it writes, are known and left alone.  What a process
# leaves behind in its memory contexts is no leak.
run_valgrind()
{
	local bin=$1 tree=$2 tests=$3 group=valgrind pid waited=0

	mkdir "$RUN/valgrind" && give "$RUN/valgrind"
	as_server "$bin/initdb" -D "$RUN/data" -U postgres -A trust -E UTF8 --no-locale --no-sync >"$LOGS/initdb.log" 2>&1 ||
		{ report fail $group initdb; show $group "$LOGS/initdb.log"; return; }
	{
		quiet_settings
		printf '%s\n' "listen_addresses = ''" "unix_socket_directories = '$SOCKETS'" "fsync = off" \
			"grnnd.build_timeout = '600s'"
	} | as_server tee -a "$RUN/data/postgresql.conf" >/dev/null
	# in the run's folder, by which clean_up finds it
	(cd "$RUN" && as_server valgrind --trace-children=yes --leak-check=no --num-callers=30 \
		--error-markers=REPORT,END --log-file="$RUN/valgrind/%p" \
		"$bin/postgres" -D "$RUN/data") >"$LOGS/server.log" 2>&1 &
	until "$bin/psql" -X -q -h "$SOCKETS" -U postgres -d postgres -c 'SELECT 1' >/dev/null 2>&1; do
		sleep 1
		((++waited < 300)) || { report fail $group "the server did not start"; show $group "$LOGS/server.log"; return; }
	done
	touch "$tree/started"
	regress $group regress "$tree" ${#VALGRIND_TESTS[@]} "$tests/regress/pg_regress" --inputdir=test \
		--bindir="$bin" --host="$SOCKETS" --port=5432 --user=postgres --no-locale --encoding=UTF8 \
		"${VALGRIND_TESTS[@]}"
	awk '/REPORT/ { text = ""; ours = 0; inside = 1 }
		inside { text = text $0 "\n"; if (/grn/) ours = 1 }
		/END$/ { if (inside && ours) printf "%s", text; inside = 0 }' "$RUN/valgrind"/* >"$LOGS/reports.log"
	if [ -s "$LOGS/reports.log" ]; then
		report fail $group "no report of Valgrind"
		show $group <(head -n 60 "$LOGS/reports.log") 60
	else
		report pass $group "no report of Valgrind, $(ls "$RUN/valgrind" | wc -l) processes"
	fi
}

valgrind()
{
	local started=$SECONDS PG= PRIVATE=

	type -P valgrind >/dev/null || apt_install valgrind
	open_run valgrind
	if [ -n "$PRIVATE" ]; then
		run_valgrind "$("$PRIVATE" --bindir)" "$RUN/tree-$PG" "$(test_programs "$PRIVATE")"
	fi
	summary "$started"
}

# As long as the time lasts; the first failure of a test ends it, with the seed shown.
soak()
{
	local started=$SECONDS seconds=${SOAK_SECONDS:-1800} seed=${SOAK_SEED:-1} PG= PRIVATE= name log hour=1

	[ -z "${SOAK_MINUTES:-}" ] || seconds=$((SOAK_MINUTES * 60))
	[ -z "${SOAK_HOURS:-}" ] || seconds=$((SOAK_HOURS * 3600))
	# their tests may be at work all the time without a line
	export STAGE_SPENT=$((seconds * CPUS + 1800))
	open_run soak
	if [ -n "${SOAK_HOURS:-}" ]; then
		copy_tree "$RUN/unit"
		run_emulated neon-all
	fi
	if [ -n "$PRIVATE" ]; then
		while ((SECONDS - started < seconds)) && ! grep -q '^fail ' "$RUN/results"; do
			for name in "${SOAK_TESTS[@]}"; do
				((SECONDS - started < seconds)) || break
				log=$LOGS/PostgreSQL-$PG-t-$name-$seed
				perl_test "PostgreSQL $PG" "$PRIVATE" "$RUN/tree-$PG" "$name" "$log" \
					GRNND_SOAK=1 GRNND_SEED=$seed GRNND_SOAK_SECONDS=$((seconds - SECONDS + started))
				as_server rm -rf "${RUN:?}/tree-$PG/tmp_check"
				if ((SECONDS - started >= 3600 * hour)); then
					hour=$(((SECONDS - started) / 3600))
					echo "hour $hour: seed $seed, $(grep -c '^pass ' "$RUN/results") tests passed, $(grep -c '^fail ' "$RUN/results") failed"
					hour=$((hour + 1))
				fi
			done
			seed=$((seed + 1))
		done
	fi

	summary "$started"
}

# New inputs stay in build/fuzz/corpus, findings in build/fuzz/found.
fuzz()
{
	local started=$SECONDS

	need_tools
	command -v clang >/dev/null || compgen -G '/usr/bin/clang-[0-9]*' >/dev/null || apt_install clang
	make_room fuzz
	start_results fuzz-logs
	{
		make -s -C "$TOP/test/fuzz" -j"$CPUS" all &&
		make -s -C "$TOP/test/fuzz" run SECONDS="${SOAK_SECONDS:-600}"
	} 2>&1 | tee "$LOGS/fuzz.log" | tap_lines fuzz
	! grep -q '^not ok' "$LOGS/fuzz.log" || show fuzz "$LOGS/fuzz.log" 40
	summary "$started"
}

case ${1:-} in
	soak) soak ;;
	fuzz) fuzz ;;
	sanitize) sanitize ;;
	valgrind) valgrind ;;
	all | assert) main "$1" ;;
	*) main check ;;
esac
