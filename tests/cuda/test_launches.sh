#!/bin/bash
# The module's code for cuDNN and cuBLAS, as it ships, with the real cuDNN on this machine, up to the
# launches (tests/cuda/launches): results against the plain loops and the CPU, and every convolution
# and product of three nets in and out of a capture. A line of each program counts what was executed,
# and which rules of the libraries were broken. Prints TAP.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/tap.sh
build=${BUILD:-build}
gpu=tests/gpu/sm_90_h100.json
export HOME=$scratch
if [ ! -x "$build/tests/fftrain_launches" ]; then
    skip_all "launches" "no CUDA module: built without a CUDA toolkit, or with a sanitizer"
fi
# cuDNN offers engines compiled at run time where it finds a driver.
for folder in "${CUDA_HOME:-/usr/local/cuda}"/{lib,lib64,targets/x86_64-linux/lib}/stubs; do
    if [ -f "$folder/libcuda.so" ] && tests/gpu/fake_driver "$folder/libcuda.so" "$scratch/driver" 2>/dev/null; then break; fi
done
with_driver() { LD_LIBRARY_PATH=$scratch/driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$@"; }

# ---- each kind of convolution and product, by itself
agree() { # NAME COMMAND...
    "${@:2}" >"$said" 2>&1
    local code=$?
    grep -q '# SKIP' "$said" && skip_all "launches" "$(sed -n 's/.*# SKIP //p' "$said")"
    [ $code = 0 ] && [ "$(grep -c '^ok' "$said")" = 12 ] && grep -q '; 0 rules broken$' "$said"
    result $? "$1"
}
agree "random convolutions, fused graphs and products agree with the plain loops" "$build/tests/gpu_library_launches" 9 30
[ "$(sed -n 's/.*fused graphs in f16: \([0-9]*\) agree.*/\1/p' "$said")" -ge 20 ]
result $? "in f16 two thirds of the fused graphs have an engine that is not compiled"
if [ -d "$scratch/driver" ]; then
    agree "also those of engines compiled at run time" with_driver "$build/tests/gpu_library_launches" 7 6
    grep -q 'fused graphs in f16: 6 agree, 0 have no engine' "$said"
    result $? "in f16 every fused graph has an engine"
fi

# ---- every convolution of a net, as it is planned at full size: once, and once captured
make_set() { "$build/tests/make_set" "$scratch/$1" --statistics --splits train,test "${@:2}" >"$scratch/log"; }
make_set small --count 1024 --classes 10
make_set large --count 256 --height 224 --width 224 --dtype u8
planned() { # LEAST NAME OPTIONS...
    FF_LAUNCHES=plan "$build/tests/fftrain_launches" --dry-run --device-json $gpu "${@:3}" >"$said" 2>&1
    local code=$? all captured
    read -r all captured <<<"$(sed -n 's/^launches: \([0-9]*\) convolutions and 0 products, \([0-9]*\) of them captured; 0 rules broken$/\1 \2/p' "$said")"
    [ $code = 0 ] && [ "${captured:-0}" -ge "$1" ] && [ "$all" = $((2 * captured)) ]
    result $? "$2: ${captured:-0} convolutions, in and out of a capture"
}
for precision in f16 bf16 tf32 f32; do
    planned 40 "cifar-speed in $precision" --data "$scratch/small" --recipe cifar-speed --precision $precision
    planned 70 "ResNet-18 in $precision" --data "$scratch/small" --model resnet18 --batch 512 --precision $precision
    planned 150 "ResNet-50 in $precision" --data "$scratch/large" --model resnet50 --batch 256 --precision $precision
done
planned 70 "ResNet-18, deterministic" --data "$scratch/small" --model resnet18 --batch 512 --precision f16 --deterministic

# ---- whole runs
make_set tiny --count 64 --height 16 --width 16
trains() { # PROGRAM OPTIONS...: prints the epochs' losses
    rm -rf "$scratch/run" "$scratch/epochs"
    "$@" --data "$scratch/tiny" --model smallnet --epochs 2 --batch 16 --seed 1 --tune 0 --out "$scratch/run" \
        --log-json "$scratch/epochs" >"$said" 2>&1 &&
        sed -n 's/.*"event":"epoch".*"train_loss":\([0-9.]*\),.*"val_loss":\([0-9.]*\),.*/\1 \2/p' "$scratch/epochs"
}
near() { # WANTED FOUND TOLERANCE: of each number
    paste <(tr ' ' '\n' <<<"$1") <(tr ' ' '\n' <<<"$2") |
        awk -v most="$3" '{ d = $1 - $2; bad += !($1 > 0) || !($2 > 0) || d > most || -d > most } END { exit bad || NR != 4 }'
}
counted() { grep -q "^launches: [1-9][0-9]* convolutions and [1-9][0-9]* products, [1-9][0-9]* of them captured; 0 rules broken$" "$said"; }
wanted=$(trains "$build/fftrain" --device cpu --precision f32)
for precision in f32 tf32 f16 bf16; do
    found=$(trains "$build/tests/fftrain_launches" --device cuda --precision $precision --plan-cache "$scratch/plans-$precision")
    case $precision in f32) most=0.0005 ;; f16) most=0.03 ;; *) most=0.15 ;; esac
    near "$wanted" "$found" $most && counted
    result $? "a run in $precision has the CPU's losses, its steps as graphs"
    again=$(trains "$build/tests/fftrain_launches" --device cuda --precision $precision --plan-cache "$scratch/plans-$precision")
    [ "$again" = "$found" ] && counted && grep -qE '^engines .*, (11|12) from the plan cache; 0 compiled' "$said"
    result $? "and the same ones with plans from the cache" <(printf '%s\n' "$found" then "$again") "$said"
done
found=$(trains "$build/tests/fftrain_launches" --precision f32 --dp 0,1 --sync-bn)
near "$wanted" "$found" 0.0005 && counted
result $? "two replicas with synchronised norms have them too: a handle for each GPU"
found=$(trains "$build/tests/fftrain_launches" --device cuda --precision f32 --no-graph)
near "$wanted" "$found" 0.0005 && grep -q 'products, 0 of them captured; 0 rules broken$' "$said"
result $? "without graphs nothing is captured"

# ---- engines that are timed, in captures; and Muon's products
zeros() { # NAME OPTIONS...
    rm -rf "$scratch/run"
    FF_LAUNCHES=record "$build/tests/fftrain_launches" --device cuda --epochs 1 --out "$scratch/run" "${@:2}" >"$said" 2>&1 && counted
    result $? "$1"
}
zeros "engines are timed" --data "$scratch/tiny" --model smallnet --batch 16 --precision f16 --tune 20
grep -qE '^engines .* [1-9][0-9]+ timed' "$said" && [ "$(sed -n 's/.*products, \([0-9]*\) of them captured.*/\1/p' "$said")" -gt 500 ]
result $? "each in a capture, too"
make_set few --count 96 --classes 10
zeros "cifar-speed with Muon's products" --data "$scratch/few" --recipe cifar-speed --batch 32 --views 1 --tune 0
finish
