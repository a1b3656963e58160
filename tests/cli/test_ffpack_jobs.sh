#!/bin/bash
# ffpack --part auto, as tasks of a job run it, and ffpack merge --wait: parts that come in any order, late, by
# copying, that failed, that are of another run.
. "$(dirname "$0")/ffpack_lib.sh"
cd "$scratch" || exit 1
for variable in $(compgen -e | grep -E '^(SLURM|OMPI|PMI|PMIX|JOB_COMPLETION|FFPACK_PARTS)'); do unset "$variable"; done
make_input idx in 60
pack=("$ffpack" in --shard-size 4K --mean 0.5 --std 0.25)
"${pack[@]}" -o whole >/dev/null || exit 1
# task I N OUT [OPTION...]: the I-th task of N, from 0, in a step of SLURM
task() { SLURM_STEP_ID=0 SLURM_PROCID=$1 SLURM_NTASKS=$2 "${pack[@]}" -o "$3" --part auto "${@:4}"; }
said() { grep -qF -- "$1" said; }
clear() { rm -rf m m.* said; }

# ---- --part auto ----
task 2 4 m >out 2>said
check "a task packs its part into a folder of its own" test -e m.part-3-of-4/train/part.ffp
check "and says from what" grep -qx 'ffpack: part 3/4, by SLURM_PROCID=2, SLURM_NTASKS=4: m.part-3-of-4' said
check "also in its summary" grep -q '^packed in (idx), part 3/4$' out
check "the same bytes as --part 3/4" bash -c '"$@" -o given --part 3/4 && diff -rx history.jsonl given m.part-3-of-4' sh "${pack[@]}"
task 2 4 m >out 2>&1
check "again: the whole part is kept" grep -qx 'kept in (idx), part 3/4: m.part-3-of-4 is whole already' out
task 2 4 m --json 2>/dev/null >out
check "which --json says" grep -q '^{"event":"kept".*"part":"3/4"' out
refuses_task() { # NAME CODE PATTERNS OPTION...
    local name=$1 code=$2 patterns=$3 got; shift 3
    task 2 4 m "$@" >out 2>said; got=$?
    check "$name" test "$got" = "$code" -a ! -s out
    while [ -n "$patterns" ]; do check "  '${patterns%%;*}'" said "${patterns%%;*}"; case $patterns in *\;*) patterns=${patterns#*;} ;; *) patterns= ;; esac; done
}
refuses_task "but not one of other options" 2 'm.part-3-of-4: exists already, of other options or another source; --force;dtype=u8' --dtype u8
refuses_task "or of another mean" 2 'exists already, of other options;mean ' --mean 0.25
check "--force replaces it" task 2 4 m --force --mean 0.25
clear; pack=("$ffpack" in --shard-size 4K --dtype u8)
task 1 2 m >/dev/null 2>&1; task 1 2 m >out 2>&1
check "a part with measured statistics is kept, too" grep -q '^kept ' out
pack=("$ffpack" in --shard-size 4K --mean 0.5 --std 0.25)
clear; task 0 3 m --dry-run >out 2>said
check "--dry-run needs no OUT" bash -c 'SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_NTASKS=3 "$@" --part auto --dry-run' sh "${pack[@]}"
check "and writes nothing" test -z "$(ls -d m* 2>/dev/null)"
refuses "no launcher" 2 '--part auto: no launcher numbers this process; looked for;SLURM_ARRAY_TASK_ID and SLURM_ARRAY_TASK_COUNT;SLURM_PROCID and SLURM_NTASKS;OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE;PMI_RANK and PMI_SIZE;JOB_COMPLETION_INDEX and FFPACK_PARTS;--part I/N' in -o place/out --part auto
export SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_ARRAY_TASK_ID=1 SLURM_ARRAY_TASK_COUNT=3 SLURM_ARRAY_TASK_MIN=1 SLURM_ARRAY_TASK_MAX=3 SLURM_ARRAY_TASK_STEP=1
refuses "an array and tasks in it" 2 'SLURM_PROCID and SLURM_NTASKS mean part 1/2, but SLURM_ARRAY_TASK_ID and SLURM_ARRAY_TASK_COUNT part 1/3' in -o place/out --part auto
unset SLURM_STEP_ID SLURM_PROCID SLURM_NTASKS SLURM_ARRAY_TASK_ID SLURM_ARRAY_TASK_COUNT SLURM_ARRAY_TASK_MIN SLURM_ARRAY_TASK_MAX SLURM_ARRAY_TASK_STEP
JOB_COMPLETION_INDEX=1 refuses "Kubernetes without the number of parts" 2 "wanted FFPACK_PARTS in the job's env, the same as its completions" in -o place/out --part auto

# ---- merging by name ----
merges() { "$ffpack" merge "$@" >said 2>&1; }
clear
for i in 2 0 1; do task $i 3 m >/dev/null 2>&1; done
check "a merge finds the parts next to OUT" merges m/
check "the bytes of one run" diff -rx history.jsonl whole m
clear; task 1 3 m >/dev/null 2>&1
refuses "parts are missing" 2 'm: 2 of 3 parts are missing: m.part-1-of-3 (absent), m.part-3-of-3 (absent); --wait waits for them' merge m
refuses "there is none" 2 'n: no part n.part-I-of-N is there; wanted ffpack merge OUT PART..., or --wait' merge n
mkdir sub; (cd sub && cp -r ../in . && for i in 1 2; do FFPACK_PARTS=2 JOB_COMPLETION_INDEX=$((i - 1)) "${pack[@]}" -o m --part auto; done >/dev/null 2>&1)
check "in another folder" merges sub/m
task 0 2 m >/dev/null 2>&1
refuses "parts of two runs" 2 './m.part-2-of-3: is one of 3 parts, but there is also one of 2; remove the parts of the other run' merge m

# ---- waiting ----
clear
task 1 3 elsewhere >/dev/null 2>&1; mkdir m.part-2-of-3.partial; cp -r elsewhere.part-2-of-3/* m.part-2-of-3.partial
(sleep 0.4; task 2 3 m; sleep 0.3; task 0 3 m; sleep 0.3; cp -r m.part-2-of-3.partial there; mv there m.part-2-of-3) >/dev/null 2>&1 &
check "--wait waits for parts that come one after the other" merges m --wait 60
check "  the bytes of one run" diff -rx history.jsonl whole m
wait; clear
(sleep 0.5; task 0 2 m; task 1 2 m) >/dev/null 2>&1 &
check "also for the first" merges m --wait
wait
check "  the bytes of one run" diff -rx history.jsonl whole m
clear; task 0 3 m >/dev/null 2>&1; mkdir -p m.part-2-of-3.partial
refuses "the limit" 1 'm: after 1 s 2 of 3 parts are missing: m.part-2-of-3 (unfinished), m.part-3-of-3 (absent)' merge m --wait=1
check "  leaves nothing" test ! -e m -a ! -e m.partial
refuses "a limit of 0" 1 'after 0 s 2 of 3 parts are missing' merge m --wait 0
refuses "the limit, without any part" 1 'n: after 1 s no part n.part-I-of-N is there' merge n --wait 1
refuses "a limit that is not a number" 2 "--wait: 'soon' is not a whole number or forever" merge m --wait=soon
refuses "a negative limit" 2 "--wait: -1 is out of range" merge m --wait=-1
refuses "parts that are given" 1 'm: after 0 s 1 of 2 parts are missing: x (absent)' merge m m.part-1-of-3 x --wait=0
for ((i = 1; i <= 20; i++)); do echo "y$i"; done >names
# shellcheck disable=SC2046
refuses "many" 1 'y16 (absent) and 4 more' merge m $(cat names) --wait 0
clear; task 0 2 m >/dev/null 2>&1; task 1 2 k >/dev/null 2>&1
mkdir m.part-2-of-2; cp -r k.part-2-of-2/train m.part-2-of-2
refuses "a part that is being copied: a split is missing" 1 'm.part-2-of-2 (incomplete)' merge m --wait 0
cp -r k.part-2-of-2/test m.part-2-of-2; shard=$(basename "$(ls k.part-2-of-2/train/shard-* | tail -n 1)")
mv "m.part-2-of-2/train/$shard" kept
refuses "  a shard is missing" 1 'm.part-2-of-2 (incomplete)' merge m --wait 0
refuses "  without --wait it is broken" 65 "m.part-2-of-2/train/$shard: is missing; pack --part 2/2 again" merge m m.part-1-of-2 m.part-2-of-2
(sleep 0.5; mv kept "m.part-2-of-2/train/$shard") &
check "until it is there" merges m --wait 60
wait; check "  the bytes of one run" diff -rx history.jsonl whole m
clear
refuses "a whole set among the parts is no reason to wait" 2 'whole: is not a part of a set: it is whole' merge m whole --wait 20
task 0 3 m >/dev/null 2>&1; task 1 3 m --mean 0.25 >/dev/null 2>&1
refuses "a part of other options is refused at once" 2 'm.part-2-of-3 and m.part-1-of-3 are parts of different sets;mean ' merge m --wait 20
clear; task 0 2 m >/dev/null 2>&1
check "an OUT that exists is refused before" bash -c 'mkdir m; ! timeout 120 "$@" 2>said && grep -q "m: exists already" said; rmdir m' sh "$ffpack" merge m --wait 20

# ---- a part that failed ----
clear; make_input folder photos 8; mv photos/a/img1.JPG kept; echo text >photos/a/img1.JPG
pack=("$ffpack" photos --shard-size 20K --resize 32x32 --mean 0.5,0.5,0.5 --std 0.25,0.25,0.25)
task 0 2 m >out 2>&1; check "the image that cannot be read ends a task" test $? = 65
refuses "which ends the wait" 1 'm.part-1-of-2: packing it failed: ;img1.JPG' merge m --wait 20
mv kept photos/a/img1.JPG; rm -rf m.part-1-of-2.partial
task 0 2 m >out 2>&1; check "packed again it is not a failure any more" test -e m.part-1-of-2 -a ! -e m.part-1-of-2.failed
pack=("$ffpack" nowhere)
task 1 2 m >out 2>&1; check "a source that is not there" test -s m.part-2-of-2.failed
refuses "  ends the wait, too" 1 'm.part-2-of-2: packing it failed: nowhere' merge m --wait 20
pack=("$ffpack" photos --mean 0.5)
task 1 2 m >out 2>&1; check "so does a wrong option" grep -q 'without --std' m.part-2-of-2.failed
task 0 2 m >out 2>&1; check "a whole part does not fail" test ! -e m.part-1-of-2.failed
"$ffpack" photos -o n --part 1/2 --mean 0.5 >out 2>&1; check "a wrong option of --part I/N leaves nothing" test ! -e n.failed -a ! -e n.partial
"$ffpack" nowhere -o n --part 1/2 >out 2>&1; check "a failure of it is noted" grep -q 'nowhere' n.failed

# ---- Ctrl-C ----
pack=("$ffpack" in --shard-size 4K --mean 0.5 --std 0.25)
clear; task 0 2 m >/dev/null 2>&1
"$python" - "$ffpack" <<'P' >said 2>&1
import re, signal, subprocess, sys, time
def takes(process, which):  # the signal is blocked, so that the thread that waits for it takes it
    status = open("/proc/%d/status" % process.pid).read()
    return int(re.search("SigBlk:\\s*(\\S+)", status)[1], 16) >> which - 1 & 1
for which in signal.SIGINT, signal.SIGTERM:
    run = subprocess.Popen([sys.argv[1], "merge", "m", "--wait"], stderr=subprocess.PIPE, stdout=subprocess.PIPE,
                           preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
    while run.poll() is None and not takes(run, which):
        time.sleep(0.01)
    time.sleep(0.3)  # it mostly waits for parts by now
    run.send_signal(which)
    out, err = run.communicate(timeout=120)
    assert (run.returncode, out, err.decode()) == (128 + which, b"", "ffpack: stopped by %s\n" % which.name), (run.returncode, out, err)
P
check "Ctrl-C and SIGTERM end the wait" test $? = 0 -a ! -s said
check "and leave nothing" test ! -e m -a ! -e m.partial
if "$python" -c 'import pty' 2>/dev/null; then
    : >shown
    (for ((i = 0; i < 2400; i++)); do grep -q 'm.part-2-of-2 (absent)' shown && break; sleep 0.05; done; task 1 2 m) >/dev/null 2>&1 &
    TERM=xterm "$python" -c 'import pty, sys; sys.exit(pty.spawn(sys.argv[1:]))' "$ffpack" merge m --wait 120 >shown 2>&1 </dev/null
    wait
    check "in a terminal a line reports what is missing" grep -q 'waiting for parts:  50%.*1/2 .*m.part-2-of-2 (absent)' shown
else
    skip "in a terminal a line reports what is missing" "no module pty"
fi
finish
