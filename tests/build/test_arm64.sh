#!/bin/bash
# For arm64: CROSS=aarch64-linux-gnu builds the programs, which run by QEMU and pack, load and train the same bits as on
# this processor; and a wheel, which Python opens there. Needs mmdebstrap, the cross compiler and the network, or
# SYSROOT_ARM64, a folder that `make sysroot` made. TAP.
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
makes() { make -s -j"$(nproc)" CROSS=$cross SYSROOT="$sysroot" BUILD="$arm" CFLAGS=-O2 "$@" >"$said" 2>&1; }
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

# ---- oneDNN ----
# For blocks of channels the library has only its reference loops on arm64; for planes it has products.
ONEDNN_VERBOSE=1 "$qemu" "$arm/fftrain" --data "$scratch/arm64/batches-f16" --model smallnet --compute onednn --batch 20 --epochs 1 \
    --augment crop=4,flip --log-every 1 --seed 2 --threads 2 --log-json "$scratch/log" >"$said" 2>&1 &&
    grep -q 'convolution,gemm' "$said" && ! grep 'convolution,ref' "$said"
result $? "oneDNN computes convolutions by products, none by its reference loops"
paste <(processor_losses "$scratch/here/log") <(processor_losses "$scratch/log") | sed 's/"[a-z_]*"://g' >"$said"
awk '{ n++; apart = $1 - $2; if (apart < 0) apart = -apart; if (apart > 2e-4) bad = 1 } END { exit bad || n < 4 }' "$said"
result $? "with the losses of the plain loops"

# ---- the wheel ----
makes wheel-file WHEEL_FOLDER="$scratch/wheel"
code=$?
if [ $code -ne 0 ] && grep -q 'wheel: libarchive is not rebuilt' "$said"; then
    skip "the wheel for arm64" "$(tail -n 1 "$said")"
    finish
fi
result $code "make wheel-file CROSS=$cross"
cd "$scratch" && "${PYTHON:-/usr/bin/python3}" -m zipfile -e "$scratch"/wheel/ffload-*-cp39-abi3-manylinux_2_*_aarch64.whl wheel >"$said" 2>&1 &&
    grep -qx 'Tag: cp39-abi3-manylinux_2_[0-9]*_aarch64' wheel/*.dist-info/WHEEL
result $? "its name and tag are arm64's"
for file in wheel/ffload/bin/* wheel/ffload/lib/* wheel/ffload/*.so; do [ "$(file_of "$file")" = AArch64 ] || echo "$file: $(file_of "$file")"; done >"$said"
[ ! -s "$said" ] && [ "$(ls wheel/ffload/lib | wc -l)" -gt 8 ]
result $? "so is every program and library in it"
chmod +x wheel/ffload/bin/*
"$qemu" wheel/ffload/bin/ffinspect here/photos-u8 >"$said" 2>&1
result $? "its programs find its libraries"
PYTHONPATH=wheel "$qemu" "$(ls "$sysroot"/usr/bin/python3.* | head -n 1)" -c \
    'import platform, ffload; print(platform.machine(), len(ffload.Dataset("here/photos-u8")))' >"$said" 2>&1 && [ "$(cat "$said")" = "aarch64 36" ]
result $? "Python of arm64 opens a set with it"
finish
