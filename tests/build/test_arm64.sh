#!/bin/bash
# For arm64: CROSS=aarch64-linux-gnu builds the programs, which run by QEMU and pack, load and train the same bits as on
# this processor; a wheel, which Python opens there; and the unit tests. Needs mmdebstrap, the cross compiler and the
# network, or SYSROOT_ARM64, a folder that `make sysroot` made. TAP.
# Needs: ffpack fftrain tests/dump_batches
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/tap.sh
. tests/processors.sh
unset MAKEFLAGS MAKELEVEL MFLAGS
cross=aarch64-linux-gnu build=${BUILD:-build} arm=${BUILD:-build}/arm64
skipped() { skip_all "the programs for arm64" "$1"; }
[ "$(uname -m)" = x86_64 ] || skipped "this machine is a $(uname -m)"
qemu=$(command -v qemu-aarch64-static || command -v qemu-aarch64) || skipped "no qemu-aarch64: package qemu-user-static"
command -v $cross-g++ >/dev/null || skipped "no $cross-g++: package g++-$cross"
sysroot=${SYSROOT_ARM64:-$PWD/build/sysroot/$cross}
make -s sysroot CROSS=$cross SYSROOT="$sysroot" >"$said" 2>&1 || skipped "no libraries: $(tail -n 1 "$said")"
export QEMU_LD_PREFIX=$sysroot
makes() { make -s -j"$(nproc)" CROSS=$cross SYSROOT="$sysroot" BUILD="$arm" CFLAGS=-O2 DNNL=0 "$@" >"$said" 2>&1; }
makes programs "$arm/tests/dump_batches"
result $? "make CROSS=$cross builds"
file_of() { "$cross-readelf" -h "$1" 2>/dev/null | sed -n 's/ *Machine: *//p'; }
[ "$(file_of "$arm/ffpack"), $(file_of "$arm/libffload.so.0"), $(file_of "$arm/python/ffload/_ffload.abi3.so")" = "AArch64, AArch64, AArch64" ]
result $? "programs, library and extension are arm64's"
"$cross-readelf" -d "$arm/ffpack" "$arm/libffload.so.0" >"$said" && ! grep -E 'R(UN)?PATH' "$said" | grep -q "$sysroot"
result $? "none is looked for in the sysroot"

# ---- the same bits ----
processor_sources "$scratch" >"$said" 2>&1
result $? "sources are made"
on_build=$build on_runner=()
processor_work "$scratch" here
result $? "this processor packs, loads and trains"
on_build=$arm on_runner=("$qemu")
processor_work "$scratch" arm64
result $? "arm64 does"
processor_differences "$scratch" here arm64 >"$said"
result $? "sets and batches have the same bits"
diff <(processor_losses "$scratch/here/log") <(processor_losses "$scratch/arm64/log") >"$said" && [ "$(processor_losses "$scratch/here/log" | wc -l)" -gt 3 ]
result $? "and so do the losses of the plain loops"
finish
