#!/bin/bash
# The trainer's parity tests against oneDNN 3.x, which systems newer than Debian 12 have: built
# against the OpenMP build of PyPI's onednn-devel, and compiled against the newest headers. TAP.
set -u
. "$(dirname "$0")/../tap.sh"
python=${PYTHON:-/usr/bin/python3}
[ -z "${SANITIZE:-}" ] || skip_all "oneDNN 3.x" "not under sanitizers"
"$python" -m venv "$scratch/v" >/dev/null 2>&1 || skip_all "oneDNN 3.x" "python3-venv is not here"
"$scratch/v/bin/pip" -q install onednn-devel-cpu-gomp==2023.2.0 >/dev/null 2>&1 ||
    skip_all "oneDNN 3.x" "onednn-devel-cpu-gomp cannot be installed from PyPI"
build=$BUILD/onednn3
tests="train_ops train_model train_graph train_optim train_depthwise train_bf16_products train_bf16_step"
# Only these files include oneDNN's headers: the other objects are the build's.
make -s BUILD="$build" DNNL=1 DNNL_ROOT="$scratch/v" "$build/config.mk" >"$scratch/log" 2>&1
if grep -q "^HAVE_DNNL := 1" "$BUILD/config.mk"; then
    mkdir -p "$build/obj"
    cp -r "$BUILD"/obj/{format,loader,train,tests} "$build/obj/"
    rm -f "$build"/obj/train/compute/cpu/onednn*
    find "$build/obj" -name '*.o' -exec touch {} +
fi
# shellcheck disable=SC2086
if make -s -j"$(nproc)" BUILD="$build" DNNL=1 DNNL_ROOT="$scratch/v" \
    $(printf "$build/tests/test_%s " $tests) >>"$scratch/log" 2>&1; then
    result 0 "builds against $(grep -o 'oneDNN: found, version [0-9.x]*' "$scratch/log")"
    for name in $tests; do # a skip, which cmocka prints as "not ok 3 # SKIP test_name", as tests/run shows it
        "$build/tests/test_$name" | sed -E 's/^not ok ([0-9]+) # SKIP (.*)/ok \1 - \2 # SKIP/'
        [ "${PIPESTATUS[0]}" = 0 ] || failed=1
    done
else
    result 1 "builds against oneDNN 3.x"; tail -5 "$scratch/log"
fi
rm -rf "$build"
"$python" -m venv "$scratch/n" >/dev/null 2>&1
if "$scratch/n/bin/pip" -q install --no-deps onednn-devel >/dev/null 2>&1; then
    version=$("$scratch/n/bin/pip" list 2>/dev/null | sed -n 's/^onednn-devel *//p')
    bad=
    for file in train/compute/cpu/*.c; do
        gcc -std=c11 -D_GNU_SOURCE -I. -I"$scratch/n/include" -DFF_HAVE_DNNL -fopenmp -Wall -Werror \
            -fsyntax-only "$file" 2>"$scratch/log" || bad="$bad $file: $(head -1 "$scratch/log")"
    done
    [ -z "$bad" ]
    result $? "compiles against the headers of onednn-devel $version"
    [ -z "$bad" ] || echo "#$bad"
else
    skip "compiles against the headers of onednn-devel" "they cannot be installed from PyPI"
fi
finish
exit $failed
