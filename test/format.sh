#!/bin/bash
# format.sh [--check] [FILE...] - indents C sources in PostgreSQL's manner, with Debian's
# pg_bsd_indent (package pg-bsd-indent): the files given, else all of src/, test/unit/, test/t/,
# test/fuzz/, and cuda/gpu.h.  --check changes nothing: it prints the files that would
# change, and fails if there are any.  Without FILE it takes the other files of cuda/ too, by
# clang-format.  Needs perl.
#
# pg_bsd_indent has to know which words are types.  Those of this project are found by their
# typedefs, whenever this runs; those of PostgreSQL, the C library and compilers stand
# in src/typedefs.list.  A type missing there shows by "Type * name" with a space too many.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

# PostgreSQL's manner but for three things.  Comments may be 100 columns wide, and those at the
# left margin stay as they are (-l, -nfcb); where a blank line follows declarations is the
# author's choice (-nbad), as is one before a comment (-nbbb).
OPTIONS=(-npro -i4 -ts4 -di12 -d0 -cli1 -cp33 -l100 -nfcb -nfc1 -nbad -bap -nbbb -bc -bl
	-cdb -nce -lp -lpl -nip -sac -tpg)

# own_types FILE...: names that typedefs define there.
own_types()
{
	perl -0777 -ne '
		s{/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"}{}gs;
		s/extern\s*\{//g;						# what it holds counts
		1 while s/\{[^{}]*\}//g;
		while (/\btypedef\b([^;]*);/g)
		{
			my $type = $1;
			print "$1\n" if $type =~ /\(\s*\*\s*(\w+)\s*\)\s*\(/ ||
				$type =~ /(\w+)\s*(?:\([^()]*\)|\[[^]]*\])?\s*$/;
		}' "$@"
}

CLANG_FORMAT=${CLANG_FORMAT:-clang-format-14}

sources()
{
	find src test/unit test/t test/fuzz cuda/gpu.h -name '*.[ch]' | LC_ALL=C sort
}

main()
{
	local check= file status=0 files types out all=0

	[ "${1:-}" != --check ] || { check=1; shift; }
	command -v pg_bsd_indent >/dev/null ||
		{ echo "grnnd: no pg_bsd_indent here: install pg-bsd-indent (Debian)" >&2; return 2; }
	if [ $# -gt 0 ]; then
		files=("$@")
	else
		mapfile -t files < <(sources)
		all=1
	fi
	SCRATCH=$(mktemp -d) || return 2
	trap 'rm -rf "$SCRATCH"' EXIT
	types=$SCRATCH/types
	out=$SCRATCH/out
	{ own_types $(sources) cuda/*.h && grep -v '^#' src/typedefs.list; } | LC_ALL=C sort -u >"$types"
	for file in "${files[@]}"; do
		if ! perl test/format.pl "$file" "$types" "${OPTIONS[@]}" >"$out"; then
			status=2
		elif ! cmp -s "$file" "$out"; then
			if [ -z "$check" ]; then
				cat "$out" >"$file" || status=2
			else
				echo "$file is not formatted (make format)"
				[ $status != 0 ] || status=1
			fi
		fi
	done
	if [ $all = 1 ]; then
		cuda || status=$?
	fi
	return $status
}

# The other files of cuda/, by clang-format 14 and .clang-format; without the tool they are left.
cuda()
{
	local files

	mapfile -t files < <(find cuda -name '*.cu' -o -name '*.cuh' -o -name '*.[ch]' ! -name gpu.h)
	command -v "$CLANG_FORMAT" >/dev/null ||
		{ echo "grnnd: no $CLANG_FORMAT here: cuda/ is left as it is" >&2; return 0; }
	if [ -n "$check" ]; then
		"$CLANG_FORMAT" --dry-run -Werror "${files[@]}"
	else
		"$CLANG_FORMAT" -i "${files[@]}"
	fi
}

main "$@"
