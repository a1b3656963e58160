#!/bin/bash
# Finds what the CUDA module is built with, by compiling and linking a probe for each part. Appends
# make variables to the file $1, prints on stderr what it found and why something was not found, and
# exits 1 if something is missing with CUDA=1. Environment: CC, CUDA (auto|0|1), CUDA_HOME (a
# toolkit), CUDA_ROOT (a folder of NVIDIA's libraries: a toolkit, or the folder of unpacked nvidia-*
# wheels from PyPI).
set -u
export LC_ALL=C
out=$1
scratch=$(mktemp -d "$out.XXXXXX") || exit 1
trap 'rm -rf "$scratch"' EXIT
cc=${CC:-gcc}
insists=${CUDA:-auto}
say() { echo "  $*" >&2; }
# Without the module: fails with CUDA=1, else prints a sentence.
without() {
    if [ "$insists" = 1 ]; then
        say "CUDA: $*; and CUDA=1 insists"
        exit 1
    fi
    say "CUDA: $*; the programs train on the CPU only"
    exit 0
}
[ "$insists" = 0 ] && without "not used (CUDA=0)"

# ---- the compiler ----
root=${CUDA_ROOT:-}
[ -n "$root" ] && root=$(realpath -m "$root")
nvcc='' tried=''
for candidate in ${CUDA_HOME:+"$CUDA_HOME/bin/nvcc"} ${root:+"$root/bin/nvcc"} \
    ${root:+"$root"/nvidia/cu1[2-9]/bin/nvcc "$root"/nvidia/cuda_nvcc/bin/nvcc} \
    "$(command -v nvcc)" /usr/local/cuda/bin/nvcc /usr/local/cuda-1[2-9]*/bin/nvcc; do
    [ -x "$candidate" ] || continue
    release=$("$candidate" --version 2>/dev/null | sed -n 's/.*release \([0-9]*\)\.\([0-9]*\).*/\1 \2/p')
    read -r major minor <<<"${release:-0 0}"
    if [ "$major" -lt 12 ]; then
        tried="$tried; $candidate is of CUDA $major.$minor, and 12 or 13 is needed"
        continue
    fi
    nvcc=$candidate
    break
done
[ -n "$nvcc" ] || without "no nvcc in PATH, /usr/local/cuda, CUDA_HOME or CUDA_ROOT$tried"
version=$((major * 1000 + minor * 10))
top=$("$nvcc" --dryrun -o "$scratch/x" -x cu /dev/null 2>&1 | sed -n 's/^#\$ TOP=//p' | head -1)
top=$(realpath -m "${top:-$(dirname "$nvcc")/..}")
target=$(uname -m)-linux

# ---- libraries: in the toolkit, the system, or wheels ----
places=("$top" "$top/targets/$target")
[ -n "$root" ] && places=("$root" "$root"/nvidia/* "${places[@]}")
# The runtime's headers may be in a separate wheel next to nvcc's.
includes=()
for place in "${places[@]}"; do [ -e "$place/include/cuda_runtime.h" ] && includes+=("$place/include"); done
cppflags=''
for folder in ${includes[0]:+"${includes[0]}"} "$top"/include/cccl; do [ -d "$folder" ] && cppflags="$cppflags -isystem $folder"; done
nvcc_flags="-ccbin ${CXX:-g++}"

folders=() # where libraries were found
# find_library NAME 'includes' 'expression' HEADER FILE... -> flags in $found, or the reason in $reason
find_library() {
    local name=$1 text=$2 expression=$3 header=$4 place folder file flags
    shift 4
    reason="no $1"
    printf '%s\nint main(void) { return (int)(long)(%s); }\n' "$text" "$expression" >"$scratch/probe.c"
    for place in "${places[@]}" ''; do
        for folder in "$place"/lib64 "$place"/lib "/usr/lib/$(uname -m)-linux-gnu" /usr/lib64 /usr/lib; do
            case "$folder" in /usr/lib*) [ -z "$place" ] || continue ;; esac
            flags='' found=''
            for file in "$@"; do
                [ -e "$folder/$file" ] || continue 2
                found="${found:+$found }$folder/$file"
            done
            # The headers are next to the library, or in the compiler's default folders.
            [ -e "$place/include/$header" ] && flags="-isystem $place/include"
            # shellcheck disable=SC2086
            if $cc $flags $cppflags "$scratch/probe.c" -o "$scratch/probe" $found -Wl,-rpath-link,"$folder" \
                -lpthread -ldl -lrt 2>"$scratch/log"; then
                case " ${folders[*]-} " in *" $folder "*) ;; *) folders+=("$folder") ;; esac
                case "$cppflags" in *"${flags:-}"*) ;; *) cppflags="$cppflags $flags" ;; esac
                return 0
            fi
            reason=$(grep -m1 -E 'error|cannot find|undefined' "$scratch/log" | sed 's/^[^:]*: *//' | cut -c1-120)
        done
    done
    return 1
}
# shellcheck disable=SC2086
macro() { printf '#include <%s>\nvalue %s\n' "$1" "$2" | $cc $cppflags -E -P -x c - 2>/dev/null | sed -n 's/^value //p'; }

find_library cudart '#include <cuda_runtime_api.h>' 'cudaRuntimeGetVersion(0)' cuda_runtime_api.h libcudart_static.a ||
    without "$nvcc of CUDA $major.$minor, but no static runtime ($reason)"
cudart=$found
printf '#include <cuda_runtime.h>\n__global__ void k(int *x) { *x = 1; }\nextern "C" int f(int *x) { k<<<1, 1>>>(x); return (int)cudaGetLastError(); }\n' >"$scratch/probe.cu"
# shellcheck disable=SC2086
"$nvcc" $nvcc_flags -std=c++17 $cppflags -c "$scratch/probe.cu" -o "$scratch/probe.o" >"$scratch/log" 2>&1 ||
    without "$nvcc of CUDA $major.$minor does not compile ($(grep -m1 -iE 'error|fatal|not found' "$scratch/log" | cut -c1-160))"
say "CUDA: found $major.$minor ($nvcc)"

find_library cuBLAS '#include <cublas_v2.h>' 'cublasCreate(0)' cublas_v2.h "libcublas.so.$major" "libcublasLt.so.$major" ||
    without "cuBLAS is MISSING ($reason); NVIDIA's package libcublas-dev-$major-$minor, or the wheel nvidia-cublas"
cublas=$found
say "cuBLAS: found ($cublas)"
find_library cuDNN '#include <cudnn.h>
#if CUDNN_MAJOR < 9
#error cuDNN 9 is needed
#endif' 'cudnnGetVersion()' cudnn.h libcudnn.so.9 ||
    without "cuDNN 9 is MISSING ($reason); NVIDIA's package cudnn9-cuda-$major, or the wheel nvidia-cudnn-cu$major"
cudnn=$found
say "cuDNN: found $(macro cudnn.h CUDNN_MAJOR).$(macro cudnn.h CUDNN_MINOR).$(macro cudnn.h CUDNN_PATCHLEVEL) ($cudnn)"
if find_library NCCL '#include <nccl.h>' 'ncclGetVersion(0)' nccl.h libnccl.so.2; then
    say "NCCL: found ($found)"
    echo "HAVE_NCCL := 1" >>"$out"
else
    say "NCCL: not found ($reason); one card needs none"
fi
if find_library NVRTC '' 0 nvrtc.h "libnvrtc.so.$major"; then
    say "NVRTC: found ($found)"
else
    say "NVRTC: not found ($reason); cuDNN opens it when it runs: NVIDIA's package cuda-nvrtc-$major-$minor, or the wheel nvidia-cuda-nvrtc"
fi
# NVTX is header-only.
# shellcheck disable=SC2086
if printf '#include <nvtx3/nvToolsExt.h>\n' | $cc $cppflags -fsyntax-only -x c - 2>/dev/null; then
    cppflags="$cppflags -DFF_HAVE_NVTX"
else
    say "NVTX: not found; profilers see no names of stages"
fi

# ---- architectures ----
codes=$("$nvcc" --list-gpu-code | sed -n 's/^sm_//p' | sort -n | tr '\n' ' ')
cards=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | tr -dc '0-9\n' | sort -nu | tr '\n' ' ')
[ -n "${cards// /}" ] && say "CUDA devices here: sm_${cards% }"
{
    echo "HAVE_CUDA := 1"
    echo "NVCC := $nvcc $nvcc_flags"
    echo "CUDA_VERSION := $version"
    echo "CUDA_RELEASE := $major.$minor"
    echo "CPPFLAGS_CUDA :=$cppflags"
    echo "LIBS_CUDA := $cudnn $cublas"
    echo "LIBS_CUDART := $cudart -ldl -lrt -lpthread"
    echo "CUDA_FOLDERS := ${folders[*]}"
    echo "CUDA_CODES := $codes"
    echo "CUDA_CARDS := $cards"
} >>"$out"
