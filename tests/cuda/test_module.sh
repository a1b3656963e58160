#!/bin/bash
# Opening the CUDA module without a GPU: the message for everything that may be missing, and where
# libraries are looked for, with stand-ins for drivers, libraries and modules. TAP.
# Needs: tests/cuda_open tests/nvml_read tests/fake_nvml.so
set -u
build=$(realpath "${BUILD:-build}") top=$PWD
open=$build/tests/cuda_open
. "$(dirname "$0")/../tap.sh"
cd "$scratch" || exit 1
[ -z "${CROSS:-}" ] || skip_all "opening the CUDA module" "its stand-ins are compiled for this machine, the program for $CROSS"

# opens NAME CODE 'PATTERN;PATTERN' 'VARIABLES' ARGUMENT...: what $program says in an environment of
# only those variables
program=$open
opens() {
    local name=$1 code=$2 patterns=$3 environment=$4 problem=""; shift 4
    # shellcheck disable=SC2086
    env -i PATH=/nowhere HOME=/nowhere ${ASAN_OPTIONS:+ASAN_OPTIONS=$ASAN_OPTIONS} \
        ${TSAN_OPTIONS:+TSAN_OPTIONS=$TSAN_OPTIONS} $environment "$program" "$@" >said 2>&1
    local got=$?
    [ $got -eq "$code" ] || problem="exit code $got, wanted $code"
    problem+=$(tr '\n' ' ' <said | lacks "$patterns")
    verdict "$problem" "$name" said
}

# A CUDA version without libraries on this machine, so that only the stand-ins are found.
cuda='' major=''
for candidate in 12 13; do
    if ! ls /usr/local/cuda*/lib*/lib{nvrtc,cublas}.so.$candidate >/dev/null 2>&1 &&
        ! /sbin/ldconfig -p 2>/dev/null | grep -qE "lib(nvrtc|cublas)\.so\.$candidate" &&
        ! ls /usr/local/lib/python3*/*-packages/nvidia/*/lib/libcublas.so.$candidate >/dev/null 2>&1; then
        cuda=${candidate}000 major=$candidate
    fi
done
if [ -z "$cuda" ]; then
    skip_all "opening the CUDA module" "this machine has the libraries of CUDA 12 and 13, which hide the test's"
fi
oldest=525; [ "$major" = 13 ] && oldest=580

# library FILE NAME [CODE]: a shared library that says its name when it is opened
library() {
    mkdir -p "$(dirname "$1")"
    printf '%s\n' '#include <stdio.h>' "${3:-}" \
        "__attribute__((constructor)) static void say(void) { puts(\"opened $2\"); fflush(stdout); }" >library.c
    gcc -shared -fPIC -o "$1" library.c -Wl,-soname,"$(basename "$1")" || exit 1
}
# driver FOLDER RELEASE SUPPORTS INIT DEVICES
driver() {
    mkdir -p "$1"
    cat >driver.c <<C
int cuDriverGetVersion(int *v) { *v = $3; return $4 == 34 ? 34 : 0; }
int cuInit(unsigned flags) { return flags ? 1 : $4; }
int cuDeviceGetCount(int *n) { *n = $5; return 0; }
int cuGetErrorString(int code, const char **text) { *text = "a word for it"; return code ? 0 : 1; }
C
    gcc -shared -fPIC -o "$1/libcuda.so.$2" driver.c -Wl,-soname,libcuda.so.1 || exit 1
    ln -sf "libcuda.so.$2" "$1/libcuda.so.1"
}
# module FILE BUILD CUDA: a module that needs cuBLAS by name
module() {
    local file=$1; mkdir -p "$(dirname "$file")"
    cat >module.c <<C
#include "loader/cuda/table.h"
#include <stdio.h>
#include <stdlib.h>
int cublas_answer(void);
static ff_cuda_table table = {.build = $2, .cuda = $3, .built = "a module for tests"};
const ff_cuda_table *ff_cuda_module(void);
const ff_cuda_table *ff_cuda_module(void) {
    const char *path = getenv("LD_LIBRARY_PATH");
    printf("cuBLAS answers %d; LD_LIBRARY_PATH is %s\n", cublas_answer(), path ? path : "not set");
    return &table;
}
C
    gcc -std=c11 -D_GNU_SOURCE -I"$top" -shared -fPIC -o "$file" module.c libs/libcublas.so.$major || exit 1
}
for name in nvrtc cublasLt cublas; do library libs/lib$name.so.$major "$name" "int ${name}_answer(void) { return 42; }"; done
library libs/libnvrtc-builtins.so.$major.1 builtins
# cudnn FILE VERSION CUDA
cudnn() {
    library "$1" cudnn "#include <stddef.h>
size_t cudnnGetVersion(void) { return $2; }
size_t cudnnGetCudartVersion(void) { return $3; }"
}
cudnn libs/libcudnn.so.9 90800 $cuda
headers=$(sed -n 's/.*-DFF_HEADERS=//p' "$build/flags/headers")
module prog/libff_cuda.so "$headers" $cuda
driver good 599.10 $((cuda + 20)) 0 2
order="opened nvrtc opened builtins opened cublasLt opened cublas opened cudnn cuBLAS answers 42"

# ---- what is missing
mkdir -p empty deep/empty
opens "a build without CUDA" 1 "this program was built without CUDA" "" prog 0 0
opens "no module" 1 "libff_cuda.so is neither in $scratch/deep/empty nor in its ../lib or .." "" "$scratch/deep/empty" $cuda 0
if /sbin/ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1' || ls /usr/lib/wsl/lib/libcuda.so.1 /usr/local/nvidia/lib64/libcuda.so.1 /usr/lib64-nvidia/libcuda.so.1 >/dev/null 2>&1; then
    skip "no driver" "this machine has one"
else
    opens "no driver" 1 "no NVIDIA driver is installed here: libcuda.so.1 does not open (libcuda.so.1: cannot open;; install NVIDIA's driver $oldest or newer" "" prog $cuda 0
fi
driver old 470.82.01 11040 0 1
opens "a driver that is too old" 1 "the NVIDIA driver is too old: found 470.82.01, for CUDA 11.4, and CUDA $major.0, with which this was built, needs driver $oldest or newer" LD_LIBRARY_PATH=old prog $cuda 0
driver stub 0.0 0 34 0
opens "a stub in the driver's place" 1 "stub/libcuda.so.1 is the CUDA toolkit's stub;no NVIDIA driver;LD_LIBRARY_PATH" LD_LIBRARY_PATH=stub prog $cuda 0
real=$(ls /usr/local/cuda*/lib*/stubs/libcuda.so 2>/dev/null | head -1)
if [ -n "$real" ]; then
    mkdir real; ln -s "$real" real/libcuda.so.1
    opens "the toolkit's own stub" 1 "is the CUDA toolkit's stub;no NVIDIA driver" LD_LIBRARY_PATH=real prog $cuda 0
else
    skip "the toolkit's own stub" "no CUDA toolkit is here"
fi
driver none 599.10 $cuda 100 0
opens "no device" 1 "the NVIDIA driver 599.10 finds no CUDA device" LD_LIBRARY_PATH=none prog $cuda 0
opens "no device that it may see" 1 'finds no CUDA device; CUDA_VISIBLE_DEVICES lets it see "7"' "LD_LIBRARY_PATH=none CUDA_VISIBLE_DEVICES=7" prog $cuda 0
driver zero 599.10 $cuda 0 0
opens "a count of no devices" 1 "the NVIDIA driver 599.10 finds no CUDA device" LD_LIBRARY_PATH=zero prog $cuda 0
driver mismatch 599.10 $cuda 803 0
opens "a driver unlike the kernel's" 1 "mismatch/libcuda.so.1 and the NVIDIA driver that the kernel runs are of different versions" LD_LIBRARY_PATH=mismatch prog $cuda 0
driver broken 599.10 $cuda 999 0
opens "a driver that does not start" 1 "the NVIDIA driver 599.10 does not start: a word for it (CUDA error 999)" LD_LIBRARY_PATH=broken prog $cuda 0
library other/libcuda.so.1 other
opens "a libcuda.so.1 that is none" 1 "libcuda.so.1 is not an NVIDIA driver: it lacks cuInit" LD_LIBRARY_PATH=other prog $cuda 0
opens "an ordinal past the last" 2 "cuda:2: there are 2 CUDA devices here, counted from 0" LD_LIBRARY_PATH=good prog $cuda 2

where="$scratch/prog/../lib, $scratch/prog/../../nvidia/{*,}/lib, the system's libraries, /usr/local/cuda*/{lib64,lib}"
opens "no libraries" 1 "NVRTC (libnvrtc.so.$major) was not found; install cuda-toolkit-$major or the wheel nvidia-cuda-nvrtc;, or name its folder in FFPACK_CUDA_PATH (searched: some/where, $scratch/prog, $where" \
    "LD_LIBRARY_PATH=good FFPACK_CUDA_PATH=some/where" "$scratch/prog" $cuda 0
mkdir part; cp libs/libnvrtc* libs/libcublas* part
if /sbin/ldconfig -p 2>/dev/null | grep -q 'libcudnn\.so\.9' || ls /usr/local/cuda*/lib*/libcudnn.so.9 >/dev/null 2>&1; then
    opens "cuDNN of another CUDA" 1 "is cuDNN for CUDA;and this build is of CUDA $major: install that cuDNN, or name its folder in FFPACK_CUDA_PATH" \
        FFPACK_CUDA_PATH=part prog $cuda -1
else
    opens "no cuDNN" 1 "cuDNN (libcudnn.so.9) was not found; install cudnn9-cuda-$major or the wheel nvidia-cudnn-cu$major, or name" FFPACK_CUDA_PATH=part prog $cuda -1
fi
cp -r part wrong; cudnn wrong/libcudnn.so.9 91900 11080
opens "cuDNN of CUDA 11" 1 "wrong/libcudnn.so.9 is cuDNN for CUDA 11, and this build is of CUDA $major" FFPACK_CUDA_PATH=wrong prog $cuda -1
cp -r part aged; cudnn aged/libcudnn.so.9 90702 $cuda
opens "cuDNN that is too old" 1 "aged/libcudnn.so.9 is cuDNN 9.7.2, and 9.8 or newer is needed: install cudnn9-cuda-$major, or the wheel nvidia-cudnn-cu$major, of such a version, or name its folder in FFPACK_CUDA_PATH" \
    FFPACK_CUDA_PATH=aged prog $cuda -1
mkdir cut; echo "no library" >cut/libnvrtc.so.$major
opens "a library that is broken" 1 "NVRTC cannot be opened: cut/libnvrtc.so.$major;; install cuda-toolkit-$major or the wheel nvidia-cuda-nvrtc" FFPACK_CUDA_PATH=cut prog $cuda -1
# As with the wheels of a PyTorch of another CUDA.
other=$((25 - major))
mkdir mixed; cp libs/libnvrtc.so.$major mixed/libnvrtc.so.$other
opens "libraries of another CUDA alone" 1 "mixed/libnvrtc.so.$other is of another CUDA than this build, which is of CUDA $major: NVRTC (libnvrtc.so.$major) was not found; install cuda-toolkit-$major" \
    FFPACK_CUDA_PATH=mixed prog $cuda -1

# ---- the module
opens "all is there" 0 "$order; LD_LIBRARY_PATH is good opened: a module for tests" "LD_LIBRARY_PATH=good FFPACK_CUDA_PATH=libs" prog $cuda 1
opens "no device is wanted: no driver is needed" 0 "$order; LD_LIBRARY_PATH is not set" FFPACK_CUDA_PATH=libs prog $cuda -1
module older/libff_cuda.so 4000 $cuda
opens "a module of other headers" 1 "older/libff_cuda.so is of another build: found headers 4000 with CUDA $cuda, wanted headers ${headers%U} with CUDA $cuda; run make" FFPACK_CUDA_PATH=libs older $cuda -1
module another/libff_cuda.so "$headers" 11080
opens "a module of another CUDA" 1 "another/libff_cuda.so is of another build: found headers ${headers%U} with CUDA 11080, wanted headers ${headers%U} with CUDA $cuda" FFPACK_CUDA_PATH=libs another $cuda -1
library nothing/libff_cuda.so nothing
opens "a library that is no module" 1 "nothing/libff_cuda.so is not the CUDA module: it has no ff_cuda_module" FFPACK_CUDA_PATH=libs nothing $cuda -1
mkdir noise; echo noise >noise/libff_cuda.so
opens "a module that is not a library" 1 "the CUDA module does not open: noise/libff_cuda.so" FFPACK_CUDA_PATH=libs noise $cuda -1

# ---- where libraries are found
opens "a list of folders, the first without them" 0 "$order" FFPACK_CUDA_PATH=empty::libs prog $cuda -1
# NVRTC opens its builtins by file name alone, so they are opened first: beside it, or next to its
# link's target.
mkdir links; for file in libs/*; do [[ $file = *builtins* ]] || ln -s "../$file" links; done
opens "the builtins next to the file that NVRTC's link leads to" 0 "$order" FFPACK_CUDA_PATH=links prog $cuda -1
cp -r libs bare; rm bare/*builtins*
library bare/libnvrtc.so.$major nvrtc "int nvrtcVersion(int *major, int *minor) { return *major = $major, *minor = 77, 0; }"
opens "NVRTC without its builtins: that is reported" 0 "opened nvrtc opened cublasLt;bare/libnvrtc.so.$major has no libnvrtc-builtins.so.$major.77 next to it, so cuDNN cannot compile engines: libnvrtc-builtins.so.$major.77: cannot open" FFPACK_CUDA_PATH=bare prog $cuda -1
mkdir -p tree/bin; cp -r libs tree/lib; cp prog/libff_cuda.so tree/lib
opens "libraries and module in ../lib" 0 "$order" "" tree/bin $cuda -1
mkdir beside; cp libs/* prog/libff_cuda.so beside
opens "libraries next to the program" 0 "$order" "" beside $cuda -1
opens "libraries that the linker knows" 0 "$order" LD_LIBRARY_PATH=libs prog $cuda -1
# Wheels: nvidia/cu13/lib for most of CUDA 13, a folder a library before, cuDNN apart.
wheels() {
    local site=$1/lib/python3.11/$2/nvidia
    mkdir -p "$site/cublas/lib" "$site/cuda_nvrtc/lib" "$site/cudnn/lib"
    cp libs/libcublas* "$site/cublas/lib"; cp libs/libnvrtc* "$site/cuda_nvrtc/lib"; cp libs/libcudnn* "$site/cudnn/lib"
}
wheels "venv[1]" site-packages
opens "wheels of a virtual environment" 0 "$order" "VIRTUAL_ENV=venv[1]" prog $cuda -1
opens "wheels of a conda environment" 0 "$order" "CONDA_PREFIX=$scratch/venv[1]" prog $cuda -1
wheels python dist-packages; mkdir python/bin; printf '#!/bin/sh\n' >python/bin/python3; chmod +x python/bin/python3
opens "wheels of the python3 in PATH" 0 "$order" "PATH=/nowhere:$scratch/python/bin" prog $cuda -1
wheels home/.local site-packages
opens "wheels of the user" 0 "$order" HOME=home prog $cuda -1
mkdir -p cu/lib/python3.12/site-packages/nvidia/cu13; cp -r libs cu/lib/python3.12/site-packages/nvidia/cu13/lib
opens "wheels in one folder" 0 "$order" VIRTUAL_ENV=cu prog $cuda -1

# ---- NVML
mkdir nvml; cp "$build/tests/fake_nvml.so" nvml/libnvidia-ml.so.1 || exit 1
program=$build/tests/nvml_read
opens "NVML's readings, one of which the device does not tell" 0 \
    "gpu 97 %, memory 41 %, 46170898432 of 153545080832 bytes, 1980 and 3201 MHz, -1 mW, 61 C NVML was shut down" LD_LIBRARY_PATH=nvml 0000:3b:00.0
opens "NVML without the device" 1 "NVML was shut down 0000:3c:00.0: nvmlDeviceGetHandleByPciBusId_v2 failed: Not Found (NVML error 6)" LD_LIBRARY_PATH=nvml 0000:3c:00.0
library lacking/libnvidia-ml.so.1 lacking
opens "an NVML that is none" 1 "libnvidia-ml.so.1 has no nvmlInit_v2" LD_LIBRARY_PATH=lacking 0000:3b:00.0
if ! /sbin/ldconfig -p 2>/dev/null | grep -q 'libnvidia-ml\.so\.1'; then
    opens "no NVML" 1 "NVML cannot be opened: libnvidia-ml.so.1: cannot open" "" 0000:3b:00.0
fi

# ---- what was really built
checksum() { make -C "$top" -s --no-print-directory -pn BUILD=nowhere help 2>/dev/null | sed -n 's/^HEADERS_CHECKSUM := //p'; }
echo "$(checksum), built with $headers" >said
[ "$(checksum)" = "$headers" ]
result $? "the program's checksum is that of the headers"
if [ -e "$build/libff_cuda.so" ]; then
    nm -D --defined-only "$build/libff_cuda.so" | awk '{ print $3 }' >said
    [ "$(cat said)" = ff_cuda_module ]
    result $? "the module exports one function"
    needed=$(readelf -d "$build/libff_cuda.so" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p')
    verdict "$(grep -E 'libcuda\.so|libcudart|nvidia-ml' <<<"$needed")" "the module needs no driver and carries the runtime"
    env -i PATH="$PATH" "$open" "$build" "$(sed -n 's/^CUDA_VERSION := //p' "$build/config.mk")" -1 >said 2>&1; code=$?
    if [ $code -eq 0 ] && grep -q '^opened: CUDA.*; it is whole' said; then ok "the module opens"
    elif grep -q 'was not found' said; then skip "the module opens" "$(cat said)"
    else not_ok "the module opens" said; fi
else
    for name in "the module exports one function" "the module needs no driver and carries the runtime" "the module opens"; do
        skip "$name" "there is no module: built without CUDA"; done
fi
finish
