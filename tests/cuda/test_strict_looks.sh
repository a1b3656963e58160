#!/bin/bash
# What looks at a training, over the strict stand-in for CUDA's runtime (strict/strict.h): --overfit, --diagnose, --dry-run --world, --hash-every,
# --check-gradients, a loss that is not a number, evaluate and predict. TAP.
# Needs: strict-programs tests/make_set
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${BUILD:-build}")
. tests/tap.sh
cd "$scratch" || exit 1
[ -x "$build/strict/fftrain" ] || skip_all "looks over the strict runtime" "no CUDA module: built without a CUDA toolkit, or with a sanitizer"
"$build/tests/make_set" set --count 60 --height 8 --width 8 --splits train,test --statistics >/dev/null || exit 1
train=("$build/strict/fftrain" --data set --model smallnet --batch 12 --epochs 1 --threads 1 --seed 3 --device cuda --placement resident)
# looks NAME CODE PATTERN ARGUMENT...: exits with this code, prints the pattern, and the stand-in refuses nothing.
looks() {
    local name=$1 code=$2 pattern=$3
    shift 3
    "$@" >"$said" 2>&1
    local got=$?
    [ $got -eq "$code" ] && grep -qE "$pattern" "$said" && ! grep -q '^strict: ' "$said"
    result $? "$name"
}

looks "--overfit" 1 "the loss is still" "${train[@]}" --out none --precision f32 --overfit 1
looks "--diagnose" 0 "^Bottleneck: " "${train[@]}" --out none --precision f16 --diagnose
looks "--dry-run --world" 0 "^world +4 ranks" "${train[@]}" --precision f16 --dry-run --world 4 --net 25GbE
looks "--hash-every" 0 "" "${train[@]}" --precision f16 --hash-every 1 --out run
looks "a loss that is not a number" 1 "loss" "${train[@]}" --out none --precision f32 --lr 1e6
looks "evaluate" 0 "" "$build/strict/fftrain" evaluate run --device cuda --threads 1
finish
