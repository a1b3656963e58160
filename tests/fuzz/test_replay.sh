#!/bin/bash
# Every fuzz target on its corpus and a few thousand fixed mutations of it. Prints TAP.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/tap.sh
build=${BUILD:-build}
for program in "$build"/fuzz/fuzz_*; do
    [ -f "$program" ] && [ -x "$program" ] || continue
    name=$(basename "$program")
    corpus=tests/fuzz/corpus/${name#fuzz_}
    [ -d "$corpus" ] || corpus=
    # shellcheck disable=SC2086
    "$program" -runs 2000 -save "$scratch" $corpus >"$said" 2>&1
    result $? "$name replays its corpus and 2000 mutations"
done
finish
