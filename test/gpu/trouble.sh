#!/bin/bash
# trouble.sh - on a machine with a GPU and a grnnd_paper for it: several builds at once where the
# GPU has memory for fewer, builds that are killed and interrupted, and compute-sanitizer.
#
#   make gpu-check TROUBLE=yes, or: make PG_CONFIG=... grnnd_paper && bash test/gpu/trouble.sh
#
# Prints "ok NAME", "not ok NAME" or "skip NAME".  Needs python3; compute-sanitizer where it is
# installed.  Takes about five minutes.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
BUILDER=${BUILDER:-./grnnd_paper}
LEAVE=${LEAVE:-6000}			# MB of GPU memory that several builds have together, half for contexts
ON_GPU=300						# MB more in use where a build has opened the GPU
BUILDS=6
ulimit -c 0
DIR=$(mktemp -d) || exit 1
status=0
hog=

clean_up()
{
	[ -z "$hog" ] || kill "$hog" 2>/dev/null
	rm -rf "${DIR:?}"
}
trap clean_up EXIT

result()
{
	if [ "$1" = 0 ]; then
		echo "ok $2"
	else
		echo "not ok $2"
		status=1
	fi
}

used()
{
	nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -i 0
}

# Waits at most 10 s for the memory that was in use before, but for 100 MB.
memory_back()
{
	local before=$1 i

	for ((i = 0; i < 100; i++)); do
		[ "$(used)" -le $((before + 100)) ] && return 0
		sleep 0.1
	done
	echo "# $before MB were in use before, $(used) are now"
	return 1
}

# on_gpu BEFORE PID: waits until more memory than BEFORE is in use; false if that process ends first.
on_gpu()
{
	local i

	for ((i = 0; i < 600; i++)); do
		[ "$(used)" -ge $(($1 + ON_GPU)) ] && return 0
		kill -0 "$2" 2>/dev/null || break
		sleep 0.05
	done
	echo "# the GPU was not opened"
	return 1
}

# vectors NAME ROWS: bytes at random, of 128 dimensions
vectors()
{
	python3 -c "import struct, sys, os
f = open(sys.argv[1], 'wb')
n = int(sys.argv[2])
f.write(struct.pack('<ii', n, 128))
for i in range(0, n, 10000):
    f.write(os.urandom(128 * min(10000, n - i)))" "$DIR/$1.u8bin" "$2"
}

nvidia-smi -L >/dev/null 2>&1 || { echo "# no GPU here"; exit 2; }
vectors large 2000000
vectors small 20000
"$BUILDER" --index --device gpu "$DIR/small.u8bin" "$DIR/first.ibin" >/dev/null || { echo "# $BUILDER does not build on the GPU"; exit 2; }
idle=$(used)

# ---- ended in the middle ----

for signal in KILL HUP TERM SEGV; do
	for after in 0 0.3 0.7; do
		"$BUILDER" --index --device gpu --repeat 20 "$DIR/large.u8bin" "$DIR/$signal.ibin" >/dev/null 2>&1 &
		pid=$!
		on_gpu "$idle" $pid && sleep $after && kill -$signal $pid
		met=$?
		[ $met = 0 ] || kill -KILL $pid
		wait $pid 2>/dev/null
		memory_back "$idle" && [ $met = 0 ]
		result $? "SIG$signal, $after s after the GPU was opened: memory back within 10 s"
	done
done
"$BUILDER" --index --device gpu "$DIR/small.u8bin" "$DIR/again.ibin" >/dev/null 2>&1
result $? "the next build works"

# ---- several at once ----

python3 - "$LEAVE" <<'PY' &
import ctypes, sys, time
cuda = ctypes.CDLL('libcuda.so.1')
context, free, total, memory = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0 and cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
assert cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(free.value - (int(sys.argv[1]) << 20))) == 0
time.sleep(300)
PY
hog=$!
on_gpu "$idle" $hog && sleep 3 && kill -0 $hog
result $? "another process leaves $LEAVE MB of the GPU's memory"
pids=()
for ((i = 0; i < BUILDS; i++)); do
	timeout 200 "$BUILDER" --index --device gpu "$DIR/large.u8bin" "$DIR/$i.ibin" >"$DIR/$i.log" 2>&1 &
	pids+=($!)
done
built=0 refused=0
for ((i = 0; i < BUILDS; i++)); do
	if wait "${pids[$i]}"; then
		built=$((built + 1))
	elif grep -qi memory "$DIR/$i.log"; then
		refused=$((refused + 1))
	else
		tail -n 3 "$DIR/$i.log" | sed 's/^/# /'
	fi
done
[ $((built + refused)) = $BUILDS ] && [ $built -ge 1 ]
result $? "$BUILDS builds at once in $LEAVE MB: $built built, $refused said that memory is short"
kill $hog 2>/dev/null
wait $hog 2>/dev/null
hog=
memory_back "$idle"
result $? "several at once: memory back"

# ---- races between threads of a block ----

# other_frames LOG: the reports whose two innermost frames on the device name no store_key(), where
# inlining may have put what it calls; each as far as its third frame.
other_frames()
{
	awk 'function done() { if (inside && inner !~ /[ :]store_key\(/) printf "%s", text; inside = 0 }
		/^========= [A-Z]/ { done(); if (!/SUMMARY|COMPUTE-SANITIZER/) { inside = 1; text = inner = ""; frames = 0 } }
		inside && (/^=========  +at / || /Device Frame:/) { if (++frames <= 2) inner = inner $0 }
		inside && frames <= 3 && !/Host|^========= *$/ { text = text $0 "\n" }
		END { done() }' "$1"
}

sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
if [ -n "$sanitizer" ]; then
	for tool in racecheck synccheck initcheck; do
		timeout 300 "$sanitizer" --tool $tool --print-limit 100000 --error-exitcode 9 "$BUILDER" --index --device gpu --rows 3000 \
			"$DIR/small.u8bin" "$DIR/checked.ibin" >"$DIR/$tool.log" 2>&1
		code=$?
		grep -q 'Device not supported' "$DIR/$tool.log" && { echo "skip $tool: device not supported"; continue; }
		# what inboxes read unset is known (store_key() in cuda/common.cuh): all else counts
		other_frames "$DIR/$tool.log" >"$DIR/other"
		[ $tool$code = initcheck9 ] && grep -q 'store_key(' "$DIR/$tool.log" && [ ! -s "$DIR/other" ] && code=0
		[ $code = 0 ] || {	# the first errors, and how many of which kernel
			head -n 24 "$DIR/other"
			grep -aoE ' at [a-z_0-9]+[<(+]' "$DIR/$tool.log" | sort | uniq -c
			tail -n 1 "$DIR/$tool.log"
		} | sed 's/^/# /'
		result $code "compute-sanitizer $tool, 3,000 rows"
	done
else
	echo "skip racecheck, synccheck, initcheck: no compute-sanitizer here"
fi
exit $status
