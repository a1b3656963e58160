#!/bin/bash
# Puts into a bundle's FOLDER what half_hour needs in addition to programs and libraries: the
# scripts (bin), the numbers of the samples that whitening looks at (order/), and engines compiled
# ahead for the card that DEVICE-JSON describes (plans/PRECISION.tar.gz, a third of their size). The
# engines are kept in BUILD/plans, and made if missing. Fails if FOLDER is larger than BUNDLE_MOST
# MiB: with the CIFAR JPEGs (18 MiB) it has to fit 64 MiB.
# Usage: bundle_gpu.sh BUILD FOLDER DEVICE-JSON; environment: BUNDLE_MOST (60), BUNDLE_PLANS=0
# leaves the engines out, CUDA_HOME, BUNDLE_SECONDS (900): the limit for compiling ahead.
set -eu
cd "$(dirname "$0")/../.."
build=$1 folder=$2 device=$3 most=${BUNDLE_MOST:-60} ends=$((SECONDS + ${BUNDLE_SECONDS:-900}))

mkdir -p "$folder/bin/halfhour" "$folder/order"
cp tests/gpu/run tests/gpu/half_hour tests/bench/gpu/*.py "$folder/bin/"
cp tests/gpu/halfhour/*.py "$folder/bin/halfhour/"
# libarchive needs libxml2, which needs ICU with 30 MB of tables for text encodings. Only XML archives
# use the tables: a library without tables replaces ICU's.
for file in "$folder"/lib/libicudata.so.*; do
    [ -e "$file" ] || continue
    echo "const char icudt${file##*.}_dat[64] __attribute__((aligned(16))) = {0};" |
        ${CC:-gcc} -shared -fPIC -nostdlib -x c - -o "$file" -Wl,-soname,"${file##*/}"
done
"$build/tests/dump_order" 50000 5000 >"$folder/order/cifar10-whitened.txt"

# NAME PRECISION SET OPTIONS... : compiles a net's engines for the device, by planning the run
# without a card.
plan() {
    local name=$1-$2 precision=$2 set=$3 began=$SECONDS
    shift 3
    [ ! -e "$build/plans/$name.done" ] || return 0
    if timeout $((ends > SECONDS ? ends - SECONDS : 1)) "$build/fftrain" --dry-run --device-json "$device" --data "$set" --plan-cache "$build/plans/$precision" --precision "$precision" "$@" >"$scratch/said" 2>&1; then
        touch "$build/plans/$name.done"
        echo "bundle: engines of $name, $((SECONDS - began)) s"
    else
        echo "bundle: not all engines of $name ahead: $(tail -1 "$scratch/said")"
    fi
}
kib() { du -sk --apparent-size "$@" | awk '{ all += $1 } END { print all }'; }
if [ "${BUNDLE_PLANS:-1}" != 0 ]; then
    scratch=$(mktemp -d) && trap 'rm -rf "$scratch"' EXIT
    stub=$(ls "${CUDA_HOME:-/usr/local/cuda}"/{lib,lib64,targets/x86_64-linux/lib}/stubs/libcuda.so 2>/dev/null | head -1 || true)
    if [ -n "$stub" ]; then
        tests/gpu/fake_driver "$stub" "$scratch/driver"
        export LD_LIBRARY_PATH=$scratch/driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    fi
    mkdir -p "$build/plans" "$folder/plans"
    "$build/tests/make_set" "$scratch/small" --splits train,test --dtype u8 --classes 10 --count 2048 --height 32 --width 32 --statistics >"$scratch/said"
    "$build/tests/make_set" "$scratch/large" --dtype u8 --count 256 --height 224 --width 224 --statistics >"$scratch/said"
    for precision in f16 bf16; do
        plan cifar-speed $precision "$scratch/small" --recipe cifar-speed --batch 2000
        for batch in 512 128 1024; do plan resnet18-$batch $precision "$scratch/small" --model resnet18 --batch $batch; done
        plan resnet50-256 $precision "$scratch/large" --model resnet50 --batch 256
        [ -d "$build/plans/$precision" ] || continue
        tar -C "$build/plans/$precision" -czf "$scratch/$precision.tar.gz" .
        if [ $(($(kib "$folder" "$scratch/$precision.tar.gz"))) -gt $((most * 1024)) ]; then
            echo "bundle: the engines of $precision, $(($(kib "$scratch/$precision.tar.gz") / 1024)) MiB, stay out: too large"
            continue
        fi
        mv "$scratch/$precision.tar.gz" "$folder/plans/"
    done
fi
all=$(kib "$folder")
echo "bundle: $((all / 1024)) MiB with scripts and engines"
[ "$all" -le $((most * 1024)) ] || { echo "bundle: $folder has $((all / 1024)) MiB, more than $most" >&2; exit 1; }
