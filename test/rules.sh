#!/bin/bash
# rules.sh - what the sources promise of themselves, checked by reading them: each rule
# prints "ok NAME", or the lines that break it and "not ok NAME".  Needs grep, awk and perl.
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
status=0

# rule NAME: its input are the lines that break the rule.
rule()
{
	local found

	found=$(cat)
	if [ -z "$found" ]; then
		echo "ok $1"
	else
		head -n 20 <<<"$found" | sed 's/^/# /'
		echo "not ok $1"
		status=1
	fi
}

# includes FOLDER PATTERN: includes there that the pattern matches.
includes()
{
	grep -rnE "^#include \"($2)" "$1" --include='*.[ch]' --include='*.cu' --include='*.cuh'
}

# A metric and a stored form are named where they are defined and where an operator class
# chooses them.  Everything else asks their tables, so that one can be added in one place.
metrics=$(sed -nE 's/^\tX\(([A-Z0-9]+),.*/\1/p' src/space/metric.h | paste -sd'|')
grep -rnE "\bGRN_(${metrics:?no metrics in GRN_METRICS})\b" src cuda --include='*.[ch]' --include='*.cu*' |
	grep -vE '^src/(space/metric\.[ch]|am/types/)' | rule "metrics are named in their table and in types alone"
grep -rnE '\bGRN_FORM_(F32|F16|U8|BITS|ROTATED[124])\b' src cuda --include='*.[ch]' --include='*.cu*' |
	grep -vE '^src/(space/form\.[ch]|am/types/)' | rule "stored forms are named in their table and in types alone"

# What a metric's entry says of embeddings, codes and comparisons is named where it is obeyed.
named()
{
	grep -rnE "\\bGRN_$1_[A-Z0-9]+" src cuda --include='*.[ch]' --include='*.cu*' |
		grep -vE "^src/(space/metric|$2)\.[ch]:"
}
named EMBED space/metric | rule "embeddings are named in metric.[ch] alone"
named COMPARE 'space/(form|form_query|sparse)' | rule "comparisons are named in metric.[ch] and the forms alone"
named CODES 'store/(codec|codec_fit|estimate|group|group_means)' |
	rule "kinds of codes are named in metric.[ch] and by the codec's files alone"

# A switch over an enum of ours names every value, so that the compiler finds the places where
# a new one is missing.  (Numbers, and enums of PostgreSQL and CUDA, may have a default.)
sources=$(find src cuda test/unit test/gpu -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh')
awk '
	FNR == 1 { values = 0; split("", ours) }
	pass == 1 && /(^|[ \t])enum( [A-Za-z]+)?[ \t]*(\{|$|\/)/ { values = 1 }
	pass == 1 && values {
		line = $0
		gsub(/\/\*.*|\/\/.*|=[^,]*/, "", line)
		while (match(line, /[A-Z][A-Z0-9_]+/)) {
			value[substr(line, RSTART, RLENGTH)] = 1
			line = substr(line, RSTART + RLENGTH)
		}
	}
	pass == 1 && values && /}/ { values = 0 }
	pass == 1 { next }
	# ours[DEPTH]: an enum of ours stands in the cases of the switch that is so deep
	match($0, /^\t*switch/) { delete ours[RLENGTH - 5] }
	match($0, /^\t*case /) {
		label = $0
		sub(/^\t*case /, "", label)
		sub(/[^A-Za-z0-9_].*/, "", label)
		if (label in value)
			ours[RLENGTH - 5] = 1
	}
	match($0, /^\t*default:/) && (RLENGTH - 8) in ours { print FILENAME ":" FNR ": " $0 }
' pass=1 $sources pass=2 $sources | rule "switches over enums have no default"
for flags in PG_CPPFLAGS BUILDER_CFLAGS; do
	grep -q "^$flags = .*-Wswitch-enum" Makefile || echo "Makefile: $flags lacks -Wswitch-enum"
done | rule "compilers warn of values that a switch lacks"

# Rooms: what each may include.
for room in memory space store graph; do
	includes src/$room '(am|builder|cuda)/|postgres|\.\.' | rule "src/$room is plain C"
done
includes src/memory '(space|store|graph)/' | grep -v '"space/grn\.h"' | rule "memory sees the shared types alone"
includes src/space '(store|graph)/' | rule "spaces see neither records nor graphs"
includes src/store 'graph/' | rule "records see no builds"
includes src/builder 'am/|postgres|\.\.' | rule "src/builder sees nothing of the server"
includes src/builder 'cuda/' | grep -v '"cuda/gpu\.h"' | rule "src/builder sees GPUs through cuda/gpu.h"
includes src/am/types '(am|space|store|graph|builder)/' | grep -v '"am/index/opclass\.h"' | rule "types see operator classes alone"
includes src/am/write 'am/create/' | rule "writes of an index see no build"
includes src/am 'cuda/|\.\.' | rule "src/am sees no GPU"
includes src/am '(tools|build_server)/' | rule "src/am sees no other extension"
includes src/tools '(builder|build_server|cuda)/|\.\.' | rule "src/tools sees neither the builder nor GPUs"
includes src/build_server 'cuda/|\.\.|tools/' | rule "src/build_server sees no GPU"
includes src/builder '(tools|build_server)/' | rule "src/builder sees no other extension"
includes src/am 'builder/' | grep -vE '"builder/(protocol|slots)\.h"|^src/am/create/in_backend\.c:.*"builder/(pipeline|forming)\.h"' |
	rule "src/am sees the builder through its protocol, but for small builds"
includes cuda '(\.\./)*(src/)?(am|builder|paper)/' | rule "cuda sees neither the server nor the programs"
{
	includes src/am 'paper/'
	includes src/builder 'paper/'
	includes cuda 'cuda/paper/' | grep -v '^cuda/paper/'
} | rule "the paper's program serves nothing else"

# A file that is longer is two.
find src cuda test -name '*.c' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' -o -name '*.pl' -o \
	-name '*.py' -o -name '*.sh' | xargs wc -l |
	awk '$2 != "total" && $1 > 800 { print $2 ": " $1 " lines" }' | rule "no file is longer than 800 lines"

# pg_bsd_indent leaves comments at the left margin as they are.
find src cuda test -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' |
	xargs awk '/^ ?(\*|\/\*) / && length > 100 { print FILENAME ":" FNR }' | rule "comments have 100 columns"

# A newcomer finds every file in the README of its room, or of the folder above.
find src cuda -name '*.c' -o -name '*.cu' | sort | while read -r file; do
	room=${file%/*}
	[ -e "$room/README" ] || room=${room%/*}
	grep -qE "(^|[^A-Za-z0-9_.])${file##*/}($|[^A-Za-z0-9_])" "$room/README" || echo "$file"
done | rule "READMEs name every file"
find src cuda -name README | xargs awk 'length > 79 { print FILENAME ":" FNR }' | rule "READMEs have 79 columns"
awk 'END { if (NR > 600) print NR " lines" }' src/README | rule "src/README has 600 lines at most"

# What users see and nothing else reads.
python3 test/bench/queries/curve.py | diff - doc/recall-qps.svg | head -n 5 | rule "doc/recall-qps.svg is drawn from the benchmark's results"
perl test/meta.pl | rule "META.json is what PGXN takes"

perl test/messages.pl || status=1
perl test/comments.pl || status=1

exit $status
