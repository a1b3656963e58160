#!/bin/bash
# The loss scale of cifar-speed on the real images it is for: at 128 f16 holds every gradient of the
# first steps, whose gradients are the largest; at 65536, where a dynamic scale begins, it does not.
# All 200 steps: gradient_range SET. TAP.
set -u
build=$(realpath "${BUILD:-build}")
images=../shared/data/cifar10-jpeg.tar.zst
. "$(dirname "$0")/../tap.sh"
[ -z "${SANITIZE:-}" ] || skip_all "gradients of real images" "minutes under a sanitizer"
[ -f "$images" ] || skip_all "gradients of real images" "$images is not here"
"$build/ffpack" "$images" -o "$scratch/set" --dtype u8 >"$said" 2>&1
result $? "CIFAR-10 is packed"
"$build/tests/gradient_range" "$scratch/set" cifar-speed 1 128 >"$said" 2>&1
result $? "f16 holds every gradient at the recipe's scale"
sed 's/^/# /' "$said"
grep -q '"flushed": 0\.0' "$said"
result $? "and flushes less than a tenth of them to zero"
"$build/tests/gradient_range" "$scratch/set" cifar-speed 1 65536 >"$said" 2>&1
[ $? = 1 ]
result $? "at 65536 it does not"
finish
