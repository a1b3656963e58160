#!/bin/bash
# NVIDIA's libraries in a Python environment's wheels and nowhere else: the machine's own are hidden
# in a mount namespace, and cuDNN must still compile an engine at run time, for which NVRTC opens
# its builtins by a bare name. Prints TAP.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/tap.sh
build=$(realpath "${BUILD:-build}")
skipped() { skip_all "libraries in wheels alone" "$1"; }
if [ "${1:-}" != inside ]; then
    [ -f "$build/libff_cuda.so" ] || skipped "no CUDA module: built without a CUDA toolkit, or with a sanitizer"
    unshare -rm true 2>/dev/null || skipped "no mount namespace may be made here"
    stub=$(ls "${CUDA_HOME:-/usr/local/cuda}"/{lib,lib64,targets/x86_64-linux/lib}/stubs/libcuda.so 2>/dev/null | head -1)
    [ -n "$stub" ] || skipped "the toolkit's stub of the driver is not here"
    tests/gpu/fake_driver "$stub" "$scratch/driver" 2>"$scratch/log" || skipped "no stand-in for the driver: $(head -1 "$scratch/log")"
    unshare -rm bash "$0" inside "$scratch"
    exit
fi

# The folder of the script outside, which removes it.
trap - EXIT
rmdir "$scratch" && scratch=$2
passed() { result $? "$1" "$scratch/out" "$scratch/notes"; } # NAME: the last command's

# Every place that the machine has them in; the wheels get the files themselves, mounted.
names='libnvrtc libcublas libcudnn libnccl'
version=$(sed -n 's/^CUDA_VERSION := \([0-9]*\)000$/\1/p' "$build/config.mk")
folders=$({ sed -n 's/^CUDA_[A-Z]*FOLDERS := //p' "$build/config.mk" | tr ' ' '\n'
    for name in $names; do /sbin/ldconfig -p | sed -n "s|.*/$name.* => \(.*\)/[^/]*\$|\1|p;s|.* => \(.*\)/$name[^/]*\$|\1|p"; done
    ls -d /usr/local/cuda*/lib /usr/local/cuda*/lib64 /usr/local/lib/python3*/*-packages/nvidia/*/lib 2>/dev/null
} | xargs -r realpath -q | sort -u)
site=$scratch/venv/lib/python3.11/site-packages/nvidia
mkdir -p "$site/cu$version/lib" "$site/cudnn/lib"
files=()
for folder in $folders; do
    for name in $names; do
        for file in "$folder/$name"*.so*; do
            [ -f "$file" ] && [ ! -L "$file" ] && files+=("$file")
        done
    done
done
for file in "${files[@]}"; do
    to=$site/cu$version/lib
    case ${file##*/} in libcudnn*) to=$site/cudnn/lib ;; esac
    # Under its name in the wheels.
    to=$to/$(readelf -d "$file" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
    [ -f "$to" ] && continue
    : >"$to" && mount --bind "$file" "$to" || skipped "files cannot be mounted here"
done
for file in "${files[@]}"; do mount --bind /dev/null "$file"; done

plans() { # VARIABLE...: as a program sees it that the linker helps with the driver alone
    env -i PATH=/usr/bin:/bin HOME=/nowhere LD_LIBRARY_PATH="$scratch/driver" "$@" "$build/tests/plan_coverage" \
        --sample 60 --fused 'bias, GELU' tests/gpu/sm_90_h200.json >"$scratch/out" 2>"$scratch/notes"
}
# A convolution with bias and GELU has engines compiled at run time, and no others.
compiled() { awk -F' *[|] *' '/bias, GELU/ { good += $4 > 0 && $5 == 0 && $8 == $4 } END { exit good != 2 }' "$scratch/out"; }

plans && grep -q 'SKIP .*was not found\|SKIP .*cannot be opened' <(cat "$scratch/out" "$scratch/notes")
passed "the machine's own libraries are hidden"
plans VIRTUAL_ENV="$scratch/venv" && compiled
passed "engines are compiled with the libraries of a virtual environment alone"
plans FFPACK_CUDA_PATH="$site/cu$version/lib:$site/cudnn/lib" && compiled
passed "and with folders of FFPACK_CUDA_PATH"

# What cannot be loaded is said: NVRTC's builtins, a part of cuDNN.
umount "$site/cu$version"/lib/libnvrtc-builtins.so.* && rm "$site/cu$version"/lib/libnvrtc-builtins.so.*
env -i HOME=/nowhere VIRTUAL_ENV="$scratch/venv" "$build/tests/cuda_open" "$build" "${version}000" -1 >"$scratch/out" 2>"$scratch/notes"
grep -q "libnvrtc.so.$version has no libnvrtc-builtins.so.$version.* next to it, so cuDNN cannot compile engines: " "$scratch/out"
passed "NVRTC's builtins are missing: one line"
plans VIRTUAL_ENV="$scratch/venv"
grep -q 'bias-gelu: cuDNN has no engine for .*COMPILATION_FAILED.*NVRTC' "$scratch/notes"
passed "and the message of a missing engine reports it"
umount "$site/cudnn/lib/libcudnn_engines_runtime_compiled.so.9" && rm "$site/cudnn/lib/libcudnn_engines_runtime_compiled.so.9"
! plans VIRTUAL_ENV="$scratch/venv" && grep -q SUBLIBRARY_LOADING_FAILED "$scratch/notes"
passed "a part of cuDNN is missing: refused with cuDNN's word for it"
finish
