#!/bin/bash
# Expected times of a step's parts, for a GPU that is only described, and measured ones on the
# simulated GPU: tests/gpu/op_times.c, fftrain --dry-run --device-json, --diagnose. Prints TAP.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/tap.sh
build=${BUILD:-build}
lines() { # FILE CONDITION: of rows, the sum, and by = {pass: {nodes, bytes, flops}}
    python3 -c '
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
rows, sums = lines[:-1], lines[-1]["sum"]
by = {}
for row in rows:
    for key in ("nodes", "bytes", "flops"):
        by.setdefault(row["pass"], {}).setdefault(key, 0)
        by[row["pass"]][key] += row[key]
def near(a, b, share=0.001): return abs(a - b) <= share * abs(b)
def total(key): return sum(row[key] for row in rows)
whole = all(near(total(key), sums[key]) for key in ("nodes", "bytes", "flops"))
sys.exit(0 if whole and eval("(" + sys.argv[2] + ")") else print(by, sums) or 1)' "$@"
}

if [ ! -f "$build/libff_cuda.so" ]; then
    skip_all "costs of a step" "no CUDA module: built without a CUDA toolkit, or with a sanitizer"
fi
# The simulated GPU: every part has a measured time, and no expected one, because its clocks are
# unknown.
"$build/sim/op_times" --net smallnet --batch 8 --side 12 --launches 3 >"$scratch/sim" 2>"$scratch/log"
[ $? = 0 ] && lines "$scratch/sim" 'all(row["measured_us"] > 0 and row["expected_80_us"] is None for row in rows) and
    near(total("measured_us"), sums["measured_parts_us"]) and near(sums["measured_us"], sums["measured_parts_us"], 4) and
    rows[0]["pass"] == "batch" and rows[0]["nodes"] == 3 and rows[-1]["op"] == "end of the step"'
result $? "every part of a step is timed on the simulated GPU"
"$build/sim/op_times" --net smallnet --batch 8 --side 12 --device cpu >"$scratch/out" 2>"$scratch/complaint"
[ $? = 2 ] && grep -q 'placements are for GPUs' "$scratch/complaint"
result $? "the CPU's steps are refused"

"$build/tests/make_set" "$scratch/set" --splits train,test --count 600 --height 32 --width 32 --statistics >"$scratch/log"
"$build/tests/fftrain_sim" --diagnose --device cuda --data "$scratch/set" --model smallnet --batch 16 --epochs 2 >"$scratch/out" 2>"$scratch/log"
[ $? = 0 ] && grep -qE '^a step +[0-9.]+ ms; [0-9.]+ in its [0-9]+ parts; furthest' "$scratch/out" &&
    [ "$(grep -cE '^  (batch|forward|loss|backward|update) .* us$' "$scratch/out")" = 10 ]
result $? "--diagnose names the ten parts furthest from expected"

counts() { "$build/gpu/op_times" --device-json tests/gpu/sm_90_h200.json "$@" >"$scratch/rows" 2>"$scratch/complaint"; }
counts --recipe cifar-speed
if [ -s "$scratch/complaint" ] && grep -qE 'libcudnn' "$scratch/complaint"; then
    skip_all "costs on a described card" "$(head -c 200 "$scratch/complaint")"
fi
lines "$scratch/rows" 'sums["samples"] == 2000 and sums["nodes"] == 120 and by["forward"]["nodes"] + by["loss"]["nodes"] +
    by["batch"]["nodes"] == 31 and by["backward"]["nodes"] == 35 and by["update"]["nodes"] == 54 and
    near(sums["flops"], 1.437e12, 0.01) and near(sums["bytes"], 6.405e9, 0.001) and
    all(row["expected_65_us"] >= row["expected_80_us"] >= 1.29 and row["measured_us"] is None for row in rows)'
result $? "cifar-speed on a described H200: nodes, bytes and operations"
counts --recipe cifar-speed --settled
lines "$scratch/rows" 'sums["nodes"] == 117 and by["backward"]["nodes"] == 32 and near(sums["flops"], 1.383e12, 0.01) and near(sums["bytes"], 5.883e9, 0.001)'
result $? "without the gradient of what is settled"
! counts --net resnet18 --settled && grep -q 'no learning rate ends before the run' "$scratch/complaint"
result $? "which not every run has"
counts --net resnet18 --batch 512
lines "$scratch/rows" 'near(sums["flops"], 1.71e12, 0.01) and 7e9 < sums["bytes"] < 12e9 and 2000 < sums["expected_80_us"] < sums["expected_65_us"]'
result $? "ResNet-18"
"$build/fftrain" --dry-run --device-json tests/gpu/sm_90_h200.json --data "$scratch/set" --model resnet18 --batch 512 >"$scratch/dry" 2>"$scratch/complaint"
[ $? = 0 ] && grep -q '^A step of 512 samples, counted, not measured; .*4.47 TiB/s' "$scratch/dry" &&
    grep -qE '^step +[0-9]+ +[0-9.]+ +1\.7[0-9]+ +[0-9.]+ +[0-9.]+$' "$scratch/dry" &&
    grep -qE '^samples/s +[0-9]+ at 80 %, [0-9]+ at 65 %$' "$scratch/dry"
result $? "fftrain --dry-run --device-json prints the sum"
finish
