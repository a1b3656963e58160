#!/bin/bash
# The GPU tests, if there is a GPU. Prints TAP.
cd "$(dirname "$0")/../.." || exit 1
tests/gpu/run "${BUILD:-build}/gpu"
code=$?
[ $code = 77 ] && echo "1..1" && exit 0
exit $code
