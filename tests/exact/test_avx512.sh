#!/bin/bash
# The kernels for AVX-512 on any processor: built over plain C (avx512/immintrin.h, by SIMDe), they have the bits of the
# plain versions, by the unit tests that compare all versions. TAP.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/tap.sh
unset MAKEFLAGS MAKELEVEL MFLAGS
[ "$(uname -m)" = x86_64 ] || skip_all "kernels for AVX-512" "this machine is a $(uname -m)"
echo '#include <simde/x86/avx512.h>' | "${CC:-gcc}" -fsyntax-only -x c - 2>/dev/null || skip_all "kernels for AVX-512" "no SIMDe: package libsimde-dev"
build=${BUILD:-build}
tests="loader_augment loader_resample change transform resize_passes"
make -s BUILD="$build" SANITIZE="${SANITIZE:-}" $(printf "$build/tests/avx512_%s " $tests) >"$said" 2>&1
result $? "they are built over plain C"
for name in $tests; do
    # A version that does not run compares nothing.
    "$build/tests/avx512_$name" >"$said" 2>&1 && ! grep -qE 'without AVX-512| 0 by (AVX-512|its VBMI)|SKIP' "$said"
    result $? "test_$name runs them, and all versions have the same bits"
done
finish
