#!/bin/bash
# The kernels' tests on a card, where there is one. Prints TAP.
cd "$(dirname "$0")/../.." || exit 1
exec tests/gpu/run "${BUILD:-build}/gpu"
