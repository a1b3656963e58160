#!/bin/bash
# The loss scale of cifar-speed on the real images it is for: at 128 f16 holds every gradient of the
# first steps, whose gradients are the largest; at 65536, where a dynamic scale begins, it does not.
# All 200 steps: gradient_range SET. TAP.
set -u
build=$(realpath "${BUILD:-build}")
images=../shared/data/cifar10-jpeg.tar.zst
if [ -n "${SANITIZE:-}" ]; then echo "ok 1 - gradients of real images # SKIP minutes under a sanitizer"; echo "1..1"; exit 0; fi
if [ ! -f "$images" ]; then echo "ok 1 - gradients of real images # SKIP $images is not here"; echo "1..1"; exit 0; fi
scratch=$(mktemp -d) && trap 'rm -rf "$scratch"' EXIT
result() { if [ "$2" = "$3" ]; then echo "ok $1 - $4"; else echo "not ok $1 - $4"; sed 's/^/# /' "$scratch/log"; fi; }
"$build/ffpack" "$images" -o "$scratch/set" --dtype u8 >"$scratch/log" 2>&1
result 1 $? 0 "CIFAR-10 is packed"
"$build/tests/gradient_range" "$scratch/set" cifar-speed 1 128 >"$scratch/log" 2>&1
result 2 $? 0 "f16 holds every gradient at the recipe's scale"
sed 's/^/# /' "$scratch/log"
grep -q '"flushed": 0\.0' "$scratch/log"
result 3 $? 0 "and flushes less than a tenth of them to zero"
"$build/tests/gradient_range" "$scratch/set" cifar-speed 1 65536 >"$scratch/log" 2>&1
result 4 $? 1 "at 65536 it does not"
echo "1..4"
