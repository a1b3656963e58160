#!/bin/bash
# cuDNN plans every convolution of every net, in every precision, for every described device,
# without a GPU. A sample here; `tests/gpu/coverage` does all. Prints TAP.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/tap.sh
build=${BUILD:-build}
if [ ! -f "$build/libff_cuda.so" ]; then
    skip_all "plans" "no CUDA module: built without a CUDA toolkit, or with a sanitizer"
fi
# Numbers are this script's own, over several runs of the program.
renumber() {
    while IFS= read -r line; do
        case $line in
        "ok "* | "not ok "*) count=$((count + 1)); echo "${line%% [0-9]*} $count - ${line#* - }" ;;
        *) echo "$line" ;;
        esac
    done
    return 0
}
"$build/tests/plan_coverage" --tap --sample 8 tests/gpu/sm_*.json >"$scratch/plain" 2>&1
code=$?
renumber <"$scratch/plain"
if [ $code = 0 ] && grep -q '^ok 1 - plans # SKIP' "$scratch/plain"; then # no libraries
    finish
fi
result $code "every plan but those refused, on every device"
"$build/tests/plan_coverage" --tap --deterministic --sample 17 tests/gpu/sm_*.json >"$scratch/same" 2>&1
code=$?
renumber <"$scratch/same"
result $code "deterministic ones too"

# A device's description is a user's file.
broken() { # NAME TEXT SENTENCE
    printf '%s' "$2" >"$scratch/sm_0.json"
    "$build/tests/plan_coverage" --sample 50 "$scratch/sm_0.json" >"$scratch/out" 2>&1
    [ $? = 1 ] && grep -q "$3" "$scratch/out"
    result $? "a description of a device that $1 is refused"
}
broken 'is not a JSON' 'sm_90' 'is not JSON'
broken 'names no capability' '{"deviceName":"x"}' 'deviceVer'
broken 'has strange properties' '{"deviceName":"x","deviceVer":900,"warpSize":"many"}' 'cudnnBackendFinalize'

# The cache: the same engines from it, in another process; a broken file is rebuilt.
cover() { "$build/tests/plan_coverage" --sample 30 --cache "$scratch/cache" tests/gpu/sm_90_h200.json; }
cover >"$scratch/first" 2>"$scratch/notes1"
files=("$scratch"/cache/*.plan)
cover >"$scratch/second" 2>"$scratch/notes2"
cmp -s "$scratch/first" "$scratch/second" && [ ! -s "$scratch/notes2" ] && [ ${#files[@]} -gt 3 ]
result $? "${#files[@]} plans come back from the cache"
LD_PRELOAD=$build/tests/many_engines.so "$build/tests/plan_coverage" --sample 30 tests/gpu/sm_90_h200.json >"$scratch/many" 2>"$scratch/notes"
cmp -s "$scratch/first" "$scratch/many"
result $? "cuDNN may have more engines than there is room for"
printf 'x' | dd of="${files[0]}" bs=1 seek=200 conv=notrunc status=none
cover >"$scratch/third" 2>"$scratch/notes3"
cmp -s "$scratch/first" "$scratch/third" && [ "$(grep -c 'rebuilt' "$scratch/notes3")" = 1 ]
result $? "a broken plan is rebuilt, with one line"
cover >"$scratch/fourth" 2>"$scratch/notes4"
[ ! -s "$scratch/notes4" ]
result $? "and is whole again"
mkdir "$scratch/closed" && printf 'x' >"$scratch/closed/plans"
"$build/tests/plan_coverage" --sample 30 --cache "$scratch/closed/plans" tests/gpu/sm_90_h200.json >"$scratch/fifth" 2>"$scratch/notes5"
cmp -s "$scratch/first" "$scratch/fifth" && [ "$(grep -c 'nothing more is written' "$scratch/notes5")" = 1 ]
result $? "a folder that cannot be written costs one line"

# fftrain plans a run for an absent GPU.
"$build/tests/make_set" "$scratch/set" --splits train,test --count 300 --height 32 --width 32 --statistics >"$scratch/log"
dry() { # FILE PRECISION OPTIONS...
    "$build/fftrain" --dry-run --device-json "$1" --precision "$2" --data "$scratch/set" --model resnet18 "${@:3}" >"$scratch/dry" 2>"$scratch/complaint"
}
dry tests/gpu/sm_90_h200.json f16
[ $? = 0 ] && grep -q '^compute  *NVIDIA H200, cuda, cudnn, f16' "$scratch/dry" &&
    grep -q '^memory  *parameters .*activations' "$scratch/dry" &&
    grep -q '^device memory  needs about [0-9.]* [KMG]iB, has 140.40 GiB$' "$scratch/dry" &&
    [ "$(grep -cE '^ +[0-9]+  (forward|backward data|backward weights) .* [0-9]+ +[0-9]+  T--' "$scratch/dry")" -gt 20 ]
result $? "fftrain --dry-run --device-json prints engines and memory"
cp "$scratch/dry" "$scratch/dry1"
dry tests/gpu/sm_90_h200.json f16 --plan-cache "$scratch/carried"
dry tests/gpu/sm_90_h200.json f16 --plan-cache "$scratch/carried"
cmp -s <(grep -vE '^(engines|note|host memory|reading)' "$scratch/dry") <(grep -vE '^(engines|note|host memory|reading)' "$scratch/dry1") && [ ! -s "$scratch/complaint" ] && [ "$(find "$scratch/carried" -name '*.plan' | wc -l)" -gt 20 ]
result $? "and keeps the plans where requested"
! grep -q 'norm' <(sed -n '/^Convolutions/,$p' "$scratch/dry1")
result $? "nothing is folded that was not timed"
if ! /sbin/ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1'; then
    [ "$(grep -c '^note: without a driver (libcuda.so.1: ' "$scratch/dry")" = 1 ] && ! grep -q '^note' "$scratch/dry1"
    result $? "that nothing can be compiled ahead here is said"
fi
! grep -qE 'backward data +128x32x32x8 ' "$scratch/dry"
result $? "images have no gradient"
dry tests/gpu/sm_75_t4.json bf16
[ $? = 1 ] && grep -q 'Tesla T4 has compute capability 7.5, and bf16 needs 8.0' "$scratch/complaint"
result $? "bf16 is refused where the card has none"
dry "$scratch/sm_0.json" f16
[ $? = 65 ] && grep -q "$scratch/sm_0.json" "$scratch/complaint"
result $? "a broken description is named"
"$build/fftrain" --device-json tests/gpu/sm_75_t4.json --data "$scratch/set" --model resnet18 2>"$scratch/complaint"
[ $? = 2 ] && grep -q -e '--dry-run' "$scratch/complaint"
result $? "--device-json goes with --dry-run only"

# Engines that are compiled at run time: with a stand-in for the driver, which the compiler looks
# for.
stub=
for folder in "${CUDA_HOME:-/usr/local/cuda}"/{lib,lib64,targets/x86_64-linux/lib}/stubs; do
    [ -f "$folder/libcuda.so" ] && stub=$folder/libcuda.so && break
done
if [ -z "$stub" ] || ! tests/gpu/fake_driver "$stub" "$scratch/driver" 2>"$scratch/log"; then
    skip_all "engines compiled at run time" "the toolkit's stub of the driver is not here"
fi
compiled() {
    LD_LIBRARY_PATH=$scratch/driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$build/tests/plan_coverage" \
        --sample 40 --fused 'bias, GELU' --cache "$scratch/cache" tests/gpu/sm_90_h200.json
}
compiled >"$scratch/compiled1" 2>"$scratch/notes6"
# | device | what | convolutions | without an engine | engines | tensor cores | run time | ...
awk -F' *[|] *' '/bias, GELU/ { good += $4 > 0 && $5 == 0 && $8 == $4 } END { exit good != 2 }' "$scratch/compiled1"
result $? "convolutions with bias and GELU are compiled, in f16 and bf16"
began=$(date +%s%N)
compiled >"$scratch/compiled2" 2>"$scratch/notes7"
cmp -s "$scratch/compiled1" "$scratch/compiled2" && [ ! -s "$scratch/notes7" ]
result $? "and come back from the cache compiled, in $((($(date +%s%N) - began) / 1000000)) ms for the whole run"
LD_LIBRARY_PATH=$scratch/driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$build/tests/plan_coverage" --compile-nothing \
    --sample 40 --fused 'bias, GELU' tests/gpu/sm_90_h200.json >"$scratch/uncompiled" 2>"$scratch/notes9"
awk -F' *[|] *' '/bias, GELU/ { none += $4 > 0 && $5 == $4 } END { exit none != 2 }' "$scratch/uncompiled"
result $? "but not where nothing is to be compiled"

# In advance for a GPU: compiles every engine that it will time, once.
ahead() { # FOLDER OPTIONS...
    LD_LIBRARY_PATH=$scratch/driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$build/fftrain" --dry-run --device-json tests/gpu/sm_90_h200.json \
        --precision f16 --data "$scratch/set" --model smallnet --batch 64 --plan-cache "$scratch/$1" "${@:2}" >"$scratch/dry" 2>"$scratch/notes8"
    sed -n 's/^engines .* \([0-9]*\) from the plan cache; \([0-9]*\) compiled in .*/\1 \2/p' "$scratch/dry"
}
kept() { grep -lsx 'flags.*runtime-compiled.*' "$scratch/$1"/*.plan | xargs -r grep -l '; engine ' | wc -l; }
read -r cached compiled <<<"$(ahead ahead)"
[ "$cached" = 0 ] && [ "$compiled" -gt 5 ] && [ "$(kept ahead)" = "$compiled" ] && ! grep -q '^note' "$scratch/dry"
result $? "$compiled engines are compiled ahead for a card, and kept one by one"
grep -aq 'driver any; NVIDIA H200, 9.0; .*; engine ' "$scratch"/ahead/*.plan
result $? "for any driver of that GPU"
read -r cached again <<<"$(ahead ahead)"
[ "$cached" -gt 5 ] && [ "$again" = 0 ] && [ "$(kept ahead)" = "$compiled" ]
result $? "and not compiled again"
# The same folder without the choices: the engines chosen now are found compiled.
grep -laE '; choice$' "$scratch"/ahead/*.plan | xargs -r rm
read -r cached again <<<"$(ahead ahead --tune 0)"
[ "$cached" = 0 ] && [ "$again" = 0 ] && grep -qE '^engines .* [1-9][0-9]* found compiled' "$scratch/dry"
result $? "each is taken from there by itself"
read -r _ fewer <<<"$(ahead fewer --no-fold)"; read -r _ fewest <<<"$(ahead fewest --tune 0)"
[ "$fewer" -lt "$compiled" ] && [ "$fewest" -lt "$fewer" ]
result $? "$fewer without folding, $fewest where the card is not going to time"
finish
