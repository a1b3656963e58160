#!/bin/bash
# The communicator of MPI, under mpirun: results for 1 to 8 ranks, abort, a killed rank, and what is
# said where MPI cannot be used. Prints TAP.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/tap.sh
build=$(realpath "${BUILD:-build}")
says() { grep -qF -- "$1" "$said"; }

export FF_TOLD=$scratch/told
mkdir "$scratch/alone"
cp "$build/tests/comm_mpi" "$scratch/alone/"
"$scratch/alone/comm_mpi" check >"$said" 2>&1
[ $? = 1 ] && says "the module libff_mpi.so is neither in $scratch/alone nor in its ../lib or .."
result $? "a missing module is named"
if [ ! -f "$build/libff_mpi.so" ] || ! command -v mpirun >/dev/null; then
    why="no mpirun"
    [ -f "$build/libff_mpi.so" ] || why="no MPI module: built without MPI, or with a sanitizer"
    skip_all "ranks under mpirun" "$why"
fi

# job RANKS MODE -> exit code; 124 after five minutes
job() {
    rm -f "$FF_TOLD"
    timeout 300 mpirun --allow-run-as-root --oversubscribe --bind-to none -n "$1" "$build/tests/comm_mpi" "$2" >"$said" 2>&1
}
for ranks in 1 2 3 4 5 8; do
    job $ranks check && [ "$(grep -c ': well$' "$said")" = $ranks ]
    result $? "all collectives with $ranks ranks"
done
job 2 staged && [ "$(grep -c ': well$' "$said")" = 2 ]
result $? "values copied to pinned memory and back"
"$build/tests/comm_mpi" check >"$said" 2>&1
result $? "one rank without mpirun"

for try in 1 2 3 4 5 6 7 8; do # a machine that is busy may take longer, but not each time
    job 3 abort
    [ $? = 1 ] && [ "$(grep -c ': rank 1 had enough$' "$said")" = 3 ]
    good=$?
    if [ $good != 0 ] || ! says "too late"; then break; fi
done
[ $good = 0 ] && ! says "too late"
result $? "an abort ends all ranks with its reason, within a second"
job 3 kill
code=$?
[ $code -ne 0 ] && [ $code -ne 124 ] && ! says ": well"
result $? "a killed rank ends the job"
job 2 single
[ $? = 1 ] && says "MPI has rank 1 of 2, the launcher's variables have rank 1 of 3"
result $? "a launcher of another MPI is named"
LD_PRELOAD=$build/tests/mpi_funneled.so "$build/tests/comm_mpi" check >"$said" 2>&1
[ $? = 1 ] && says "the MPI library grants MPI_THREAD_FUNNELED; MPI_THREAD_SERIALIZED is needed"
result $? "an MPI that allows no second thread is named"
finish
