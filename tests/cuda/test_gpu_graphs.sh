#!/bin/bash
# libffload on a simulated GPU (library_graph_sim): batches in recordings. Streams sometimes wait. TAP.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${BUILD:-build}
scratch=$(mktemp -d) && trap 'rm -rf "$scratch"' EXIT
"$build/tests/make_set" "$scratch/set" --splits train --count 150 --height 8 --width 8 --statistics >"$scratch/said" || exit 1
FF_SIM_DELAY_NS=200000 "$build/tests/library_graph_sim" "$scratch/set/train"
