#!/bin/bash
# libffload on a simulated GPU (library_graph_sim): batches in recordings. Streams sometimes wait. TAP.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${BUILD:-build}
FF_SIM_DELAY_NS=200000 "$build/tests/library_graph_sim"
