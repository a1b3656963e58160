#!/bin/bash
# What the build says of CUDA: switched off, a toolkit that is too old, one that lacks parts; with
# CUDA=auto it continues without, with CUDA=1 it stops. TAP.
set -u
. "$(dirname "$0")/../tap.sh"
# probes NAME CODE PATTERN VARIABLE...: what the probe says
probes() {
    local name=$1 code=$2 pattern=$3 problem="" got; shift 3
    : >"$scratch/mk"
    env -u CUDA_HOME -u CUDA_ROOT CC="${CC:-gcc}" "$@" tools/build/probe_cuda.sh "$scratch/mk" >"$said" 2>&1
    got=$?
    [ $got -eq "$code" ] || problem="exit code $got, wanted $code"
    problem+=$(lacks "$pattern" <"$said")
    case "$pattern" in
        "CUDA: found"*) ;; # and it may lack cuDNN
        *) ! grep -q '^HAVE_CUDA' "$scratch/mk" || problem="$problem; HAVE_CUDA is set" ;;
    esac
    verdict "$problem" "$name" "$said"
}
# toolkit FOLDER RELEASE: an nvcc that says its release and cannot do anything
toolkit() {
    mkdir -p "$scratch/$1/bin"
    printf '#!/bin/sh\ncase "$1" in --version) echo "Cuda compilation tools, release %s, V%s.1" ;; *) echo "#$ TOP=%s" ;; esac\n' \
        "$2" "$2" "$scratch/$1" >"$scratch/$1/bin/nvcc"
    chmod +x "$scratch/$1/bin/nvcc"
}
probes "CUDA=0" 0 "CUDA: not used (CUDA=0); the programs train on the CPU only" CUDA=0
toolkit bare 12.4
probes "a toolkit without its runtime" 0 "nvcc of CUDA 12.4, but no static runtime (no libcudart_static.a); the programs train on the CPU only" \
    CUDA=auto CUDA_HOME="$scratch/bare"
probes "the same, and CUDA=1" 1 "but no static runtime (no libcudart_static.a); and CUDA=1 insists" CUDA=1 CUDA_HOME="$scratch/bare"
toolkit old 11.8
mkdir "$scratch/bin"; cp "$scratch/old/bin/nvcc" "$scratch/bin"
if ls /usr/local/cuda*/bin/nvcc >/dev/null 2>&1; then
    skip "a toolkit that is too old" "/usr/local has a newer one"
    probes "the toolkit of this machine" 0 "CUDA: found" CUDA=auto
else
    probes "a toolkit that is too old" 1 "no nvcc in PATH, /usr/local/cuda, CUDA_HOME or CUDA_ROOT; $scratch/old/bin/nvcc is of CUDA 11.8, and 12 or 13 is needed; and CUDA=1 insists" \
        CUDA=1 CUDA_HOME="$scratch/old"
    skip "the toolkit of this machine" "there is none"
fi
finish
