#!/bin/bash
# The kernels on the simulator, the ring and its events on asynchronous streams, and whole steps, under
# AddressSanitizer with UndefinedBehaviorSanitizer (bounds, 16-byte accesses that are not aligned) and
# under ThreadSanitizer (threads of a block that race, waits that are missing). Prints TAP.
set -u
cd "$(dirname "$0")/../.."
build=${BUILD:-build}
. tests/tap.sh
[ -z "${SANITIZE:-}" ] || skip_all "sanitized kernels" "all of this build is sanitized: SANITIZE=$SANITIZE"
names="cuda_sim cuda_move cuda_augment cuda_norm cuda_pool cuda_pointwise cuda_loss cuda_update cuda_depthwise
    cuda_compute cuda_plan cuda_step cuda_run cuda_profile planner cuda_placements loader_device loader_waits"
unset CMOCKA_MESSAGE_OUTPUT MAKEFLAGS MAKELEVEL
for kind in address,undefined thread; do
    folder=$build/sanitized-${kind%%,*} programs=()
    for name in $names; do
        # Whole nets launch the same kernels that are checked one by one: minutes without new
        # coverage.
        case "$kind $name" in "thread cuda_compute" | "thread cuda_plan" | "thread cuda_step" | "thread cuda_run" | "thread cuda_profile") continue ;; esac
        programs+=("$folder/tests/test_$name")
    done
    make -s -j"$(nproc)" BUILD="$folder" SANITIZE=$kind CUDA=0 "${programs[@]}" >"$said" 2>&1 || {
        result 1 "$kind: builds"
        continue
    }
    for program in "${programs[@]}"; do
        # Libgomp is not built for ThreadSanitizer (tests/run says more).
        OMP_THREAD_LIMIT=$([ $kind = thread ] && echo 1 || echo 64) timeout 600 "$program" >"$said" 2>&1
        result $? "$kind: ${program##*/}"
    done
done
finish
