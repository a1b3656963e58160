#!/bin/bash
# Processors without AVX-512, and without AVX2: what the programs pack, load and train there has the same bits as on
# this processor. Runs them by QEMU, which hides the instructions. TAP.
# Needs: ffpack fftrain tests/dump_batches
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/tap.sh
. tests/processors.sh
qemu=$(command -v qemu-x86_64-static || command -v qemu-x86_64) || skip_all "other processors" "no qemu-x86_64: package qemu-user-static"
[ "$(uname -m)" = x86_64 ] || skip_all "other processors" "this machine is a $(uname -m)"
# What the processor has, by the loader's own answer: x86-64-v3 is AVX2, x86-64-v4 AVX-512.
levels() { "$qemu" -cpu "$1" /lib64/ld-linux-x86-64.so.2 --help 2>/dev/null | grep -oE 'x86-64-v[34] \(supported' | cut -c8-9 | sort | tr '\n' ' '; }
processor_sources "$scratch" >"$said" 2>&1
result $? "sources are made"
on_build=${BUILD:-build} on_runner=()
processor_work "$scratch" here
result $? "this processor packs, loads and trains"
for one in "Haswell:v3 " "Nehalem:"; do
    processor=${one%%:*}
    [ "$(levels "$processor")" = "${one#*:}" ]
    result $? "$processor is emulated with the levels '${one#*:}'"
    on_runner=("$qemu" -cpu "$processor")
    processor_work "$scratch" "$processor"
    result $? "$processor packs, loads and trains"
    processor_differences "$scratch" here "$processor" >"$said"
    result $? "sets and batches have the same bits"
    diff <(processor_losses "$scratch/here/log") <(processor_losses "$scratch/$processor/log") >"$said" && [ "$(processor_losses "$scratch/here/log" | wc -l)" -gt 3 ]
    result $? "and so do the losses of the plain loops"
done
finish
