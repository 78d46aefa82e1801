#!/bin/bash
# hardened.sh FILE... - checks by readelf that programs and libraries have what the Makefile's
# HARDENING gives; a line for each thing that a file lacks.
# hardened.sh -o FILE... - the same of object files and archives, which only have stack protectors.
set -u
objects=
[ "${1:-}" != -o ] || { objects=yes; shift; }
status=0

# has FILE WHAT PATTERN: whether readelf's output, in $said, has such a line.
has()
{
	grep -qE -- "$3" <<<"$said" || { echo "$1: no $2"; status=1; }
}

[ $# -gt 0 ] || { echo "usage: hardened.sh [-o] FILE..." >&2; exit 2; }
for file; do
	if [ -n "$objects" ]; then
		said=$(readelf -W --symbols "$file") || status=1
		has "$file" "stack protector" 'UND __stack_chk_fail'
		continue
	fi
	said=$(readelf -W --file-header --program-headers --dynamic --dyn-syms "$file") || status=1
	has "$file" "position-independent code" 'Type: +DYN'
	has "$file" "read-only relocations" 'GNU_RELRO'
	has "$file" "binding at the start" '\(FLAGS(_1)?\).*NOW'
	has "$file" "stack without code" 'GNU_STACK .* RW +0x'
	has "$file" "stack protector" 'UND __stack_chk_fail'
	# (a library that leaves the work to grnnd.so may call no function that has a fortified form)
	grep -q 'NEEDED.*\[grnnd.so\]' <<<"$said" || has "$file" "fortified function of libc" 'UND __[a-z]+_chk@'
	! grep -q '(TEXTREL)' <<<"$said" || { echo "$file: relocations in code"; status=1; }
done
exit $status
