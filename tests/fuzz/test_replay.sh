#!/bin/bash
# Every fuzz target on its corpus and a few thousand fixed mutations of it. Prints TAP.
set -u
cd "$(dirname "$0")/../.."
build=${BUILD:-build} count=0
log=$(mktemp -d) && trap 'rm -rf "$log"' EXIT
for program in "$build"/fuzz/fuzz_*; do
    [ -f "$program" ] && [ -x "$program" ] || continue
    name=$(basename "$program") count=$((count + 1))
    corpus=tests/fuzz/corpus/${name#fuzz_}
    [ -d "$corpus" ] || corpus=
    # shellcheck disable=SC2086
    if "$program" -runs 2000 -save "$log" $corpus >"$log/out" 2>&1; then
        echo "ok $count - $name replays its corpus and 2000 mutations"
    else
        echo "not ok $count - $name replays its corpus and 2000 mutations"
        tail -n 30 "$log/out" | sed 's/^/# /'
    fi
done
echo "1..$count"
