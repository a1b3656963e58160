#!/bin/bash
# Random calls of libffload on a simulated GPU (library_calls_sim), whose streams sometimes wait. TAP.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${BUILD:-build}
FF_SIM_DELAY_NS=1000000 "$build/tests/library_calls_sim"
