#!/bin/bash
# The module's host code as it ships, over a strict stand-in for CUDA's runtime (strict/strict.h): libffload with a
# consumer's streams and captures, and fftrain. A race, memory that nobody wrote, a refused call end the program. TAP.
# Needs: strict-programs tests/make_set
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${BUILD:-build}")
. tests/tap.sh
cd "$scratch" || exit 1
[ -x "$build/strict/fftrain" ] || skip_all "the strict runtime" "this build has no CUDA"
unset CMOCKA_MESSAGE_OUTPUT
for program in library library_graph library_pool library_calls; do
    "$build/strict/$program" >"$said" 2>&1
    result $? "$program"
done
"$build/tests/make_set" set --splits train,test --count 90 --height 8 --width 8 --statistics >/dev/null || exit 1
common=(--data set --threads 1 --epochs 2 --batch 14 --augment flip,crop=1,cutout=2 --lr 0.004 --seed 3 --quiet)
# trains NAME ARGUMENT...
trains() {
    local name=$1; shift
    "$build/strict/fftrain" "${common[@]}" --out "run.$count" --device cuda "$@" >"$said" 2>&1
    result $? "$name"
}
trains "smallnet, resident, f16" --model smallnet --precision f16 --placement resident
trains "smallnet, streamed, without graphs" --model smallnet --precision f32 --placement stream --no-graph
finish
