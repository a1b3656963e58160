#!/bin/bash
# libffload on a simulated GPU (library_pool_sim): batches in memory of its own. Streams sometimes
# wait. TAP.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${BUILD:-build}
scratch=$(mktemp -d) && trap 'rm -rf "$scratch"' EXIT
export FF_SIM_DELAY_NS=2000000
"$build/tests/library_pool_sim" | sed '$d'
"$build/tests/library_pool_sim" few 2>"$scratch/memory" | sed '$d;s/ok 1 /ok 11 /'
echo 1..11
