#!/bin/bash
# The kernels on the simulator, the ring and its events on asynchronous streams, and whole steps, under
# AddressSanitizer with UndefinedBehaviorSanitizer (bounds, 16-byte accesses that are not aligned) and
# under ThreadSanitizer (threads of a block that race, waits that are missing). Prints TAP.
# Needs: tests/test_cuda_sim tests/test_cuda_move tests/test_cuda_augment tests/test_cuda_norm tests/test_cuda_pool tests/test_cuda_pointwise tests/test_cuda_loss tests/test_cuda_update tests/test_cuda_depthwise tests/test_cuda_compute tests/test_cuda_plan tests/test_cuda_step tests/test_cuda_run tests/test_cuda_profile tests/test_planner tests/test_cuda_placements tests/test_loader_device tests/test_loader_waits tests/test_cuda_indices tests/test_cuda_indices_windows tests/test_cuda_indices_update tests/test_cuda_indices_loader
set -u
cd "$(dirname "$0")/../.."
build=${BUILD:-build}
. tests/tap.sh
[ -z "${SANITIZE:-}" ] || skip_all "sanitized kernels" "all of this build is sanitized: SANITIZE=$SANITIZE"
names=$(sed -n 's/^# Needs: //p' tests/cuda/test_sanitizers.sh | sed 's,tests/test_,,g')
unset CMOCKA_MESSAGE_OUTPUT MAKEFLAGS MAKELEVEL
# What is compiled again: the sources that the same programs of the build have, a third of all to a half.
sources() { # PROGRAM...
    for program; do readelf --debug-dump=info --dwarf-depth=1 "$program" 2>/dev/null; done | sed -nE 's/.*DW_AT_name .*: ([^/<].*\.(c|cc|cu))$/\1/p' | sort -u
}
for kind in address,undefined thread; do
    folder=$build/sanitized-${kind%%,*} programs=()
    for name in $names; do
        # Whole nets launch the same kernels that are checked one by one: minutes without new
        # coverage.
        case "$kind $name" in "thread cuda_compute" | "thread cuda_plan" | "thread cuda_step" | "thread cuda_run" | "thread cuda_profile") continue ;; "thread cuda_indices"*) continue ;; esac
        programs+=("$folder/tests/test_$name")
    done
    compiled=$(sources "${programs[@]/#$folder/$build}")
    # FOLDER PATTERN: those objects, as words.
    objects() { sed -nE "s,^($2)\$,$folder/obj/$1\\1.o,; T; s,\.c\.o\$,.o,; p" <<<"$compiled" | tr '\n' ' '; }
    make -s -j"$(nproc)" BUILD="$folder" SANITIZE=$kind CUDA=0 FORMAT_OBJECTS="$(objects '' 'format/.*\.c')" LOADER_OBJECTS="$(objects '' 'loader/.*\.c')" \
        TRAIN_OBJECTS="$(objects '' 'train/.*\.c')" TESTING_OBJECTS="$(objects '' 'tests/cuda/sim/.*\.c')" CUDASIM_OBJECTS="$(objects cudasim/ '.*\.(cu|cc)')" \
        "${programs[@]}" >"$said" 2>&1 || {
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
