#!/bin/bash
# tools/launch/*.sbatch under SLURM itself: munged, slurmctld and slurmd run here, in a folder of their own, with
# more CPUs than there are. The merged set is that of one run; a job that is told of its time limit continues to the
# same bits; nothing stays running.
. "$(dirname "$0")/../cli/ffpack_lib.sh"
launch=$(cd "$here/../../tools/launch" && pwd)
source=${FASHION_MNIST:-/usr/share/datasets/fashion-mnist}
PATH=$PATH:/usr/sbin:/sbin
for variable in $(compgen -e | grep -E '^(SLURM|SBATCH|OMPI|PMI)'); do unset "$variable"; done
for need in slurmctld slurmd sbatch munged; do
    command -v "$need" >/dev/null || { skip "SLURM" "$need is not here"; finish; }
done
[ -d "$source" ] || { skip "SLURM" "$source is not here"; finish; }
case "${SANITIZE:-}" in *thread*) skip "SLURM" "a job under ThreadSanitizer takes minutes"; finish ;; esac

# ---- the cluster ----
cluster=$scratch/cluster host=$(hostname -s) user=$(id -un) daemons=()
mkdir -p "$cluster/state" "$cluster/spool" && chmod 755 "$scratch" "$cluster"
read -r port next < <("$python" -c '
import socket
sockets = [socket.socket() for _ in range(2)]
for each in sockets: each.bind(("127.0.0.1", 0))
print(*(each.getsockname()[1] for each in sockets))')
head -c 1024 /dev/urandom >"$cluster/key" && chmod 400 "$cluster/key"
cat >"$cluster/slurm.conf" <<C
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$cluster/munge.socket
SlurmctldPort=$port
SlurmdPort=$next
StateSaveLocation=$cluster/state
SlurmdSpoolDir=$cluster/spool
SlurmctldPidFile=$cluster/slurmctld.pid
SlurmdPidFile=$cluster/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=1,bf_interval=1
ReturnToService=2
SlurmdParameters=config_overrides
FirstJobId=$((RANDOM % 9000 + 1)) # the ranks' port has its digits
NodeName=$host NodeAddr=127.0.0.1 CPUs=8
PartitionName=all Nodes=ALL Default=YES State=UP
C
export SLURM_CONF=$cluster/slurm.conf
start() { "$@" >>"$cluster/$1.log" 2>&1 & daemons+=($!); }
# Our processes have SLURM_CONF in their environment.
left() { (unset SLURM_CONF; grep -lsz "^SLURM_CONF=$cluster/" /proc/[0-9]*/environ); }
none_left() { [ -z "$(left)" ]; }
stop() {
    scancel --full --user="$user" 2>/dev/null
    for _ in $(seq 300); do [ -z "$(squeue -h 2>/dev/null)" ] && break; sleep 0.2; done
    for ((i = ${#daemons[@]} - 1; i >= 0; i--)); do kill "${daemons[i]}" 2>/dev/null; done
    wait "${daemons[@]}" 2>/dev/null
    daemons=()
}
trap 'stop; rm -rf "$scratch"' EXIT
start munged -F -S "$cluster/munge.socket" --key-file "$cluster/key" --log-file "$cluster/munged.log" --pid-file "$cluster/munged.pid" --seed-file "$cluster/seed"
for _ in $(seq 600); do [ -S "$cluster/munge.socket" ] && break; sleep 0.1; done
start slurmctld -D
start slurmd -D
for _ in $(seq 600); do [ "$(sinfo -h -o %t 2>/dev/null)" = idle ] && break; sleep 0.2; done
if [ "$(sinfo -h -o %t 2>/dev/null)" != idle ]; then
    not_ok "SLURM starts"; squeue 2>&1 | sed 's/^/# /'; tail -n 5 "$cluster"/*.log | sed 's/^/# /'; finish
fi
ok "SLURM starts"

cd "$scratch" || exit 1
mkdir bin && for program in ffpack ffinspect fftrain; do ln -s "$(realpath "${BUILD:-build}")/$program" bin/; done
export PATH=$scratch/bin:$PATH OMP_NUM_THREADS=1
# until SECONDS COMMAND...
until_() { local end=$((SECONDS + 5 * $1)); shift; until "$@"; do [ $SECONDS -lt $end ] || return 1; sleep 0.3; done; }
no_jobs() { local jobs; jobs=$(squeue -h) && [ -z "$jobs" ]; }
submit() { sbatch --parsable --cpus-per-task=1 "$@"; }
show() { tail -n 5 ./*.log 2>/dev/null | sed 's/^/# /'; }

# ---- packing ----
pack=("$source" packed --shard-size 10M --dtype u8)
ffpack "$source" -o alone "${pack[@]:2}" >/dev/null || exit 1
job=$(submit --array=1-3 "$launch/slurm-pack.sbatch" "${pack[@]}")
check "slurm-pack.sbatch packs and merges" until_ 120 test -d packed
until_ 60 no_jobs || show
check "the bytes of one run, so the same ids" diff -rx history.jsonl alone packed
check "ffinspect --verify" ffinspect packed --verify
check "each task says its part" grep -qx "ffpack: part 2/3, by SLURM_ARRAY_TASK_ID=2, SLURM_ARRAY_TASK_COUNT=3: packed.part-2-of-3" "ffpack-${job}_2.log"
rm -r packed packed.part-2-of-3
job=$(submit --array=1-3 "$launch/slurm-pack.sbatch" "${pack[@]}")
check "submitted again" until_ 120 test -d packed
until_ 60 no_jobs || show
check "  it keeps the parts that are there" grep -q '^kept .*packed.part-3-of-3 is whole already' "ffpack-${job}_3.log"
check "  and packs the one that is not" grep -q '^packed .*, part 2/3' "ffpack-${job}_2.log"
check "  the bytes of one run" diff -rx history.jsonl alone packed
job=$(submit --array=1-2 "$launch/slurm-pack.sbatch" nowhere failed)
check "where tasks fail, the merge is given up" until_ 60 no_jobs
check "  and a waiting one reports why" bash -c '! ffpack merge failed --wait 60 2>said && grep -q "failed.part-1-of-2: packing it failed: nowhere" said'
srun --ntasks=3 ffpack "$source" -o tasks "${pack[@]:2}" --part auto >srun.log 2>&1 &
check "tasks of srun, and a merge that waits" ffpack merge tasks --wait 120
wait $!
check "  each says its part" grep -q 'part 3/3, by SLURM_PROCID=2, SLURM_NTASKS=3: tasks.part-3-of-3' srun.log
check "  the bytes of one run" diff -rx history.jsonl alone tasks
refused() { # NAME SENTENCE OPTION...: a batch script with these options
    local name=$1 sentence=$2; shift 2
    sbatch --wait --output=refused.log "$@" --wrap="ffpack '$source' -o refused --part auto" >/dev/null 2>&1
    check "$name" grep -qF -- "$sentence" refused.log
}
refused "a batch script is not one of its tasks" 'SLURM_NTASKS is 2, but by SLURM_STEP_ID this is not one of the tasks; wanted srun ffpack' --ntasks=2
refused "an array and tasks in it" 'SLURM_PROCID and SLURM_NTASKS mean part 1/2, but SLURM_ARRAY_TASK_ID and SLURM_ARRAY_TASK_COUNT part' --ntasks=2 --array=5,6
refused "a list of tasks" 'wanted --array=1-3' --array=1,3,7
refused "one task alone" 'no launcher numbers this process' --ntasks=1
salloc --ntasks=2 srun --interactive --ntasks=1 ffpack "$source" -o refused --part auto >salloc.log 2>&1
check "a shell in a job" grep -q 'no launcher numbers this process' salloc.log

# ---- training ----
ranks=1 && fftrain --help | grep -q -- '--ranks' && ranks=2
train=(--data alone/test --val alone/test --model smallnet --epochs 10 --batch 64 --threads 1 --device cpu --seed 3)
srun --ntasks=$ranks fftrain "${train[@]}" --out straight >straight.log 2>&1 || { not_ok "training"; tail -n 3 straight.log | sed 's/^/# /'; finish; }
job=$(submit --job-name=fftrain --nodes=1 --ntasks-per-node=$ranks --gpus-per-node=0 "$launch/slurm-train.sbatch" "${train[@]}")
log=fftrain-$job.log run=runs/fftrain-$job
epoch_done() { grep -q '"event":"epoch"' "$run/log.jsonl" 2>/dev/null; }
check "slurm-train.sbatch trains" until_ 120 epoch_done
scancel --signal=USR1 "$job"
# SLURM queues it for two minutes later; a second after the stop, slurmd would still refuse it.
hurried=
again() {
    if [ -z "$hurried" ] && [ -n "$(squeue -h -j "$job" -t PENDING)" ]; then
        sleep 3; scontrol update jobid="$job" StartTime=now && hurried=1
    fi
    grep -q '^fftrain: resumes from' "$log"
}
check "told of its time limit it is queued again and continues" until_ 120 again
check "to the end" until_ 240 no_jobs
check "the script saw a checkpoint's 75" grep -q 'Exited with exit code 75' "$log"
check "no sample is trained twice: one line for each epoch" test "$(grep -c '"event":"epoch"' "$run/log.jsonl")" = 10
check "the same bits as without a stop" cmp straight/checkpoints/last/model.safetensors "$run/checkpoints/last/model.safetensors"
[ -e "$run/checkpoints/last/model.safetensors" ] || { ls -l "$run/checkpoints"; show; }

stop
none_left_said() { until_ 20 none_left || { for each in $(left); do tr '\0' ' ' <"${each%environ}cmdline"; echo; done; false; }; }
check "nothing of it runs any more" none_left_said
finish
