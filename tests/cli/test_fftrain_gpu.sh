#!/bin/bash
# fftrain on a GPU that is simulated (fftrain_sim): whole runs against the CPU's, for every
# placement, with and without recordings; and refused options.
sim=${BUILD:-build}/tests/fftrain_sim fftrain=${BUILD:-build}/fftrain make_set=${BUILD:-build}/tests/make_set
python=${PYTHON:-/usr/bin/python3}
. "$(dirname "$0")/../tap.sh"
cd "$scratch" || exit 1
# refuses NAME CODE PATTERN PROGRAM ARGUMENT...: one message on stderr that holds the pattern
refuses() {
    local name=$1 code=$2 pattern=$3; shift 3
    "$@" >stdout 2>stderr
    [ $? -eq "$code" ] && [ "$(wc -l <stderr)" -eq 1 ] && grep -qF -- "$pattern" stderr
    result $? "$name" stderr
}
"$make_set" set --splits train,test --count 90 --height 8 --width 8 --statistics >log || exit 1
common=(--data set --model smallnet --threads 1 --epochs 2 --batch 14 --augment flip,crop=1,cutout=2 --lr 0.004 --seed 3)
# train LOG ARGUMENT...
train() {
    local log=$1; shift
    "$sim" "${common[@]}" --log-json "$log" --out "$log.run" "$@" >"$log.out" 2>"$log.err" || { cat "$log.err"; return 1; }
}
cat >compare.py <<'PYTHON'
# compare.py TOLERANCE A B: the epochs' losses and accuracies, and what the last evaluation counted on the host;
# tolerance 0 = every bit.
import json, sys
tolerance = float(sys.argv[1])
runs = [[line for line in map(json.loads, open(name)) if line["event"] == "epoch"] for name in sys.argv[2:]]
assert runs[0] and len(runs[0]) == len(runs[1])
for a, b in zip(*runs):
    for key in ("train_loss", "val_loss", "val_ema_loss"):
        if key not in a: continue
        apart = abs(a[key] - b[key])
        assert apart <= tolerance * abs(a[key]), (key, a[key], b[key])
    if not tolerance:
        for key in ("train_accuracy", "val_accuracy", "val_top5_accuracy"):
            assert a[key] == b[key], (key, a, b)
    assert a["learning_rate"] == b["learning_rate"]
counts = [json.load(open(name + ".run/evaluation.json")) for name in sys.argv[2:]]
for told, run in zip(counts, runs):
    assert told["samples"] == 45 and told["correct"] == round(45 * run[-1]["val_accuracy"]), told
assert counts[0] == counts[1] or tolerance
for a, b in zip(*(sorted(told["worst"], key=lambda one: one["sample"]) for told in counts)):
    assert tolerance > 1e-3 or a["sample"] == b["sample"] and abs(a["loss"] - b["loss"]) <= 1e-4, (a, b)
PYTHON
same() { "$python" compare.py "$@"; }

check "the CPU" train cpu --device cpu
for precision in f32 tf32 f16 bf16; do
    check "$precision, resident, recorded" train "$precision" --device cuda --precision "$precision" --placement resident
    check "$precision, streamed" train "$precision.stream" --device cuda:1 --precision "$precision" --placement stream
    check "$precision, resident or streamed: the same bits" same 0 "$precision" "$precision.stream"
done
# f32: the rounding of sums; f16 and bf16: of 2^-11 and 2^-8 in every value, after 12 steps
check "f32 is the CPU's" same 1e-5 cpu f32
check "f16 is the CPU's within its rounding" same 2e-2 cpu f16
check "bf16 is the CPU's within its rounding" same 5e-2 cpu bf16
cat >hashes.py <<'PYTHON'
# hashes.py A B: the two runs' batches have equal hashes, whatever their layouts
import json, sys
runs = [[json.loads(line) for line in open(name + ".run/hashes.jsonl")][2:] for name in sys.argv[1:]]
assert len(runs[0]) == len(runs[1]) == 6, runs
for a, b in zip(*runs):
    assert (a["step"], a["images"], a["labels"]) == (b["step"], b["images"], b["labels"]), (a, b)
PYTHON
check "hashes of each step on the CPU" train hash.cpu --device cpu --epochs 1 --hash-every 1
check "and on a GPU" train hash.f32 --device cuda --precision f32 --epochs 1 --hash-every 1
check "equal images have equal hashes" "$python" hashes.py hash.cpu hash.f32
check "without recordings" train f16.calls --device cuda --precision f16 --placement resident --no-graph
check "recorded or not: the same bits" same 0 f16 f16.calls
check "micro-batches on the CPU" train parts.cpu --device cpu --accumulate 2 --optimizer lamb --clip-norm 1 --last-batch keep
check "on a GPU" train parts.f32 --device cuda --precision f32 --accumulate 2 --optimizer lamb --clip-norm 1 --last-batch keep
check "are the same" same 1e-5 parts.cpu parts.f32
check "and without recordings" train parts.calls --device cuda --precision f32 --accumulate 2 --optimizer lamb --clip-norm 1 --last-batch keep --no-graph
check "of the same bits" same 0 parts.f32 parts.calls
rest=(--batch 16 --accumulate 2 --epochs 3) # the dropped rest of an epoch is more than a micro-batch
check "micro-batches and a dropped rest on the CPU" train rest.cpu --device cpu "${rest[@]}"
for placement in resident stream host; do
    check "on a GPU, $placement" train "rest.$placement" --device cuda --precision f32 --placement "$placement" "${rest[@]}"
    check "the same samples in every epoch" same 1e-5 rest.cpu "rest.$placement"
done
check "and without recordings, streamed" train rest.calls --device cuda --precision f32 --placement stream --no-graph "${rest[@]}"
check "of the same bits" same 0 rest.resident rest.calls
check "frozen norms on the CPU" train held.cpu --device cpu --freeze norm
for precision in f32 f16; do check "on a GPU, $precision" train "held.$precision" --device cuda --precision "$precision" --freeze norm; done
check "are the same" same 1e-5 held.cpu held.f32
check "and within the rounding of f16" same 2e-2 held.cpu held.f16
check "an average of the last values alone" train f16.ema --device cuda --precision f16 --placement resident --ema 0
ema_is_last() { test "$(grep -c val_ema_loss f16.ema)" -eq 2 && cmp <(grep -o '"val_loss":[0-9.]*' f16.ema | cut -d: -f2) <(grep -o '"val_ema_loss":[0-9.]*' f16.ema | cut -d: -f2); }
check "evaluates as they do" ema_is_last
check "and changes nothing" same 0 f16 f16.ema
check "streams that wait at random" env FF_SIM_DELAY_NS=300000 bash -c "$(declare -f train); sim='$sim'; common=(${common[*]}); train f16.late --device cuda --precision f16 --placement stream"
check "any delays: the same bits" same 0 f16 f16.late
check "batches that the host augments" train f16.host --device cuda --precision f16 --placement host
check "augmented by host or device: the same bits" same 0 f16 f16.host
check "a last, smaller batch on the CPU" train cpu.keep --device cpu --last-batch keep
check "a last, smaller batch on the GPU" train f32.keep --device cuda --precision f32 --last-batch keep
check "a last, smaller batch is the CPU's" same 1e-5 cpu.keep f32.keep

# ---- warming up before the clock has no lasting effect
cat >warm.py <<'PYTHON'
# warm.py LOG warm|cold: the end's three times
import json, sys
end = [line for line in map(json.loads, open(sys.argv[1])) if line["event"] == "end"][-1]
assert (end["warm_up_seconds"] > 0) == (sys.argv[2] == "warm"), end
assert abs(end["cold_seconds"] - end["timed_seconds"] - end["warm_up_seconds"]) < 1e-9, end
assert end["warm_up_seconds"] + end["train_seconds"] < end["seconds"], end
PYTHON
check "the log has the warm-up's time" "$python" warm.py f16 warm
check "and the end of the output" grep -qE '^Training and its last evaluation took [0-9.]+ s after a warm-up of [0-9.]+ s\.$' f16.out
check "--no-warm-up" train f16.cold --device cuda --precision f16 --placement resident --no-warm-up
check "has none" "$python" warm.py f16.cold cold
check "the CPU has none" "$python" warm.py cpu cold
check "warm or cold: the same bits" same 0 f16 f16.cold
check "streamed, the host augmenting, a last batch" bash -c "$(declare -f train); sim='$sim'; common=(${common[*]})
    for how in stream host; do
        train \$how.warm --device cuda --precision f16 --placement \$how --last-batch keep --dropout 0.2 --views 2 &&
        train \$how.cold --device cuda --precision f16 --placement \$how --last-batch keep --dropout 0.2 --views 2 --no-warm-up || exit 1
    done"
for how in warm cold; do
    flag=; [ $how = cold ] && flag=--no-warm-up
    check "a run with an average and two blocks of state, $how" train "ema.$how" --device cuda --precision f16 --optimizer adamw --ema 0.9 $flag
    # shellcheck disable=SC2086
    check "continues" "$sim" --resume "ema.$how.run" --epochs 3 --log-json "ema.$how" $flag
done
check "from the same state, average and all" same 0 ema.warm ema.cold
check "streamed: warm or cold the same bits" same 0 stream.warm stream.cold
check "the host augmenting: warm or cold the same bits" same 0 host.warm host.cold
"$make_set" images --splits train,test --count 4 --height 32 --width 32 --statistics >log || exit 1
# scale WORDS ARGUMENT...: what the summary says of the loss scale
scale() {
    local words=$1; shift
    "$sim" --data images --batch 2 --device cuda --dry-run "$@" | grep -qxE "loss scale +$words"
}
check "cifar-speed has a fixed loss scale of its own" scale 128 --recipe cifar-speed
check "but none in bf16" scale none --recipe cifar-speed --precision bf16
check "others have one that moves" scale '65536, dynamic' --model smallnet
check "--loss-scale is fixed" scale 8 --recipe cifar-speed --loss-scale 8

# ---- a GPU whose work cannot be recorded
check "a capture that fails" env FF_SIM_NO_CAPTURE=1 bash -c "$(declare -f train); sim='$sim'; common=(${common[*]}); train f16.refused --device cuda --precision f16 --placement resident"
check "is told once" test "$(grep -c '^note: steps run without CUDA graphs.*: captures are refused' f16.refused.out)" -eq 1
check "also in the log" test "$(grep -c '"event":"note","text":"steps run without CUDA graphs' f16.refused)" -eq 1
check "and changes no bit" same 0 f16 f16.refused
check "the summary names device, compute and placement" \
    bash -c "grep -q '^device  *cuda:0, simulated GPU' f16.out && grep -q '^compute  *cuda, plain, f16' f16.out && grep -q '^placement  *.*resident' f16.out"
check "auto takes the GPU" bash -c "'$sim' ${common[*]} --device auto --dry-run | grep -q '^device  *cuda:0'"
check "--diagnose on a GPU" bash -c "'$sim' ${common[*]} --device cuda --diagnose | grep -q '^Bottleneck: '"
check "auto without a GPU trains on the CPU and reports why" \
    bash -c "'$fftrain' ${common[*]} --device auto --dry-run | grep -qE '^compute +(cpu; no GPU: .+|cuda)'"

# ---- choosing engines: the plain library "times" each convolution, and fusing norms costs nothing
# engines NAME ARGUMENT...: convolutions and how many were timed, of a step of ResNet-18
"$make_set" two --splits train --count 2 --height 8 --width 8 --statistics >log || exit 1
engines() {
    "$sim" --data two/train --model resnet18 --epochs 1 --warmup 0 --augment none --no-warm-up --device cuda "${@:2}" >"$1.out" 2>"$1.err"
    sed -n 's/^engines  *of \([0-9]*\) convolutions, .* \([0-9]*\) timed in .*/\1 \2/p' "$1.out" >"$1.engines"
}
engines tuned; engines apart --no-fold; engines untimed --tune 0; engines same --deterministic
read -r tuned tuned_timed <tuned.engines; read -r apart apart_timed <apart.engines
read -r untimed untimed_timed <untimed.engines; read -r same same_timed <same.engines
check "by default engines are timed, and norms folded where that is faster" [ "${tuned:-0}" -gt "${apart:-0}" ]
check "every one that is asked for" [ "${tuned_timed:-0}" = "${tuned:-1}" ]
check "--no-fold asks for fewer convolutions, and times them" [ "${apart:-0} ${apart_timed:-0}" = "${apart_timed:-1} ${apart:-1}" ]
check "--tune 0 times none, and folds none" [ "$untimed_timed $((untimed <= apart))" = "0 1" ]
check "nor does --deterministic, which has no convolution with statistics either" [ "$same_timed $((same < untimed))" = "0 1" ]
engines_of() { FF_SIM_ENGINES=1 "$sim" evaluate -c f32.run --device cuda "$@" 2>&1 | grep '^engines: '; }
check "evaluating begins at once: no engine is timed or compiled" [ "$(engines_of)" = "engines: timed for 0 s, none compiled" ]
check "unless it is asked for" [ "$(engines_of --tune 7)" = "engines: timed for 7 s, compiled" ]
refuses "a time below 0" 2 "--tune" "$sim" "${common[@]}" --device cuda --tune -1
check "the libraries' notes are printed once" \
    bash -c "FF_SIM_NOTES=\$'one\ntwo\none\n' '$sim' ${common[*]} --device cuda --epochs 1 >notes.out && [ \"\$(grep -c '^note: ' notes.out)\" = 2 ] && grep -qx 'note: two' notes.out"

# ---- memory: counted before any is allocated
# memory KIB ARGUMENT...: a run on a GPU with this much; sets $times and $most to what it allocated
memory() {
    FF_SIM_MEMORY=$1 "$sim" "${@:2}" >stdout 2>stderr
    local code=$?
    read -r times most <<<"$(sed -n 's/^memory: taken \([0-9]*\) times, at most \([0-9]*\) KiB$/\1 \2/p' stderr)"
    sed -i '/^memory: /d' stderr
    return $code
}
"$make_set" wide --splits train,test --count 40 --height 16 --width 16 --statistics >log || exit 1
wide=(--data wide --model smallnet --device cuda --epochs 1 --warmup 0 --augment none --batch 20)
for name in "resident f16" "stream f32" "host f16"; do
    read -r how precision <<<"$name"
    run=("${wide[@]}" --placement "$how" --precision "$precision" --tune 0 --last-batch keep --batch 18)
    memory 1000000 "${run[@]}" --dry-run
    check "$name: a dry run takes none of a GPU's memory" test $? -eq 0 -a "$times" = 0
    needs=$(sed -n 's/^device memory  needs about \([0-9.]* [KM]iB\), has 976.6 MiB free$/\1/p' stdout)
    memory 1000000 "${run[@]}"
    check "$name: a run takes what that says: ${needs:-nothing}" \
        awk -v most="$most" -v needs="$needs" 'BEGIN { split(needs, n); exit !(sprintf("%.1f", most / (n[2] == "MiB" ? 1024 : 1)) == n[1]) }'
    [ "$how" = resident ] && continue # it also needs 40 MiB for the upload
    exact=$most
    memory $((exact - 1)) "${run[@]}" --quiet
    check "$name: with a KiB less than $exact it is refused before it takes any" test $? -eq 1 -a "$times" = 0
    check "$name: in one sentence" bash -c "[ \$(wc -l <stderr) -eq 1 ] && grep -qE '^fftrain: the run needs about .* of the device.s memory with batches of 18, and simulated GPU has .* free; --batch [0-9]+ would fit(, or --accumulate [0-9]+ with the same batch)?$' stderr"
    batch=$(sed -n 's/.*; --batch \([0-9]*\) would fit.*/\1/p' stderr)
    memory $((exact - 1)) "${run[@]}" --quiet --batch "${batch:-18}"
    check "$name: --batch ${batch:-?} does fit" test $? -eq 0 -a "$most" -lt "$exact"
    memory "$exact" "${run[@]}" --quiet
    check "$name: with $exact KiB it runs" test $? -eq 0
done
memory 1000000 "${wide[@]}" --placement stream -n
needs=$(sed -n 's/^device memory  needs about \([0-9]*\).* MiB, .*/\1/p' stdout)
memory 1000000 "${wide[@]}" --placement stream
check "engines that are timed, and norms that are folded, need no more than was counted" test "$most" -le $(((${needs:-0} + 1) * 1024))
memory 100 "${wide[@]}" -n
judged=$?
check "a dry run that says no prints all the same, and takes nothing" bash -c "[ $judged$times = 10 ] && grep -q '^learning rate' stdout && grep -q 'simulated GPU has 100.0 KiB free; not even the smallest batch fits; use a smaller model or smaller samples$' stderr"
cat >stages.py <<'PYTHON'
# stages.py LOG TOTAL: the free memory after each stage; the placement is chosen from what the step leaves
import json, re, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
start, end = lines[0]["device_free_bytes"], lines[-1]["device_free_bytes"]
stages = ["opened", "model", "communicator", "step", "batches", "warm_up"]
assert list(start) == ["total"] + stages[:-1] and list(end) == ["total"] + stages, (start, end)
assert all(start[key] == end[key] for key in start) and end["total"] == end["opened"] == int(sys.argv[2]) << 10, end
assert end["opened"] > end["model"] == end["communicator"] > end["step"] > end["batches"] == end["warm_up"], end
free = re.search(r"the device's free ([0-9.]+) MiB", lines[0]["placement"])[1]
assert free == "%.1f" % (end["step"] / 2**20) != "%.1f" % (end["model"] / 2**20), (free, end)
PYTHON
memory 300000 "${wide[@]}" --groups 'conv*:optimizer=muon' --tune 0 --quiet --log-json stages.json
check "the log has the free memory after each stage; sets are placed into what the step leaves" "$python" stages.py stages.json 300000
echo '{"deviceName": "Small", "deviceVer": 900, "totalGlobalMem": 2600000, "multiProcessorCount": 4}' >card.json
refuses "a described GPU with too little memory" 1 "and Small has 2.5 MiB; --batch " "$sim" "${wide[@]}" --placement stream -n --device-json card.json
batch=$(sed -n 's/.*; --batch \([0-9]*\) would fit.*/\1/p' stderr)
check "prints the whole plan" bash -c "grep -qE '^device memory  needs about [0-9.]+ MiB, has 2.5 MiB$' stdout && grep -q '^Convolutions on Small' stdout && grep -q '^step  ' stdout"
check "the batch that it names fits: ${batch:-?}" "$sim" "${wide[@]}" --placement stream -n --device-json card.json --batch "${batch:-20}"

# ---- updates whose gradients f16 cannot hold; 6 steps an epoch
cat >skipped.py <<'PYTHON'
# skipped.py LOG SCALE SKIPPED...: the last scale, and each epoch's skipped updates; without them a
# dynamic scale: each skipped update has halved it
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
epochs = [line for line in lines if line["event"] == "epoch"]
skipped = [line["skipped_updates"] for line in epochs]
want = [int(word) for word in sys.argv[3:]] or skipped
scale = float(sys.argv[2]) / (1 if sys.argv[3:] else 2 ** sum(skipped))
assert skipped == want, epochs
assert epochs[-1]["loss_scale"] == lines[-1]["loss_scale"] == scale, epochs
assert lines[-1]["skipped_updates"] == sum(want) and lines[-1]["event"] == "end", lines[-1]
assert lines[0]["precision"] == "f16" and lines[0]["device"].startswith("cuda:0, "), lines[0]
assert "resident" in lines[0]["placement"], lines[0]
PYTHON
f16=(--device cuda --precision f16 --placement resident)
check "a loss scale that moves is halved by each update that it skips" "$python" skipped.py f16 65536
check "and a few at the end are not mentioned" bash -c "! grep -q 'were skipped' f16.out"
check "a fixed loss scale that is far too large" train huge "${f16[@]}" --loss-scale 1e9
check "every update is skipped and counted" "$python" skipped.py huge 1e9 6 6
check "and reported at the end" \
    grep -qF "12 of 12 updates (100.0 %) were skipped because their gradients were infinite or NaN in f16; the loss scale is now 1e+09; lower --loss-scale, or leave it out." huge.out

check "and beneath each epoch's line" test "$(grep -cE '^ +6 updates skipped$' huge.out)" -eq 2

# ---- NVML's readings of the GPU: of cuda:0, the only one that the fake knows
cat >nvml.py <<'PYTHON'
# nvml.py LOG there|absent
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])][1:]
want = {"gpu_utilization_percent": 97, "gpu_memory_bytes": 43 << 30, "sm_clock_mhz": 1980, "memory_clock_mhz": 3201}
assert len(lines) == 3, lines
for line in lines:
    found = {key: line[key] for key in want if key in line}
    assert found == (want if sys.argv[2] == "there" else {}), line
PYTHON
mkdir nvml; cp "$(dirname "$sim")/fake_nvml.so" nvml/libnvidia-ml.so.1
told='GPU in the last epoch: 97 % busy, 43.00 GiB of memory in use, SM clock 1980 MHz, memory clock 3201 MHz.'
export LD_LIBRARY_PATH=nvml FF_SIM_RANGES=1
check "with NVML" train nvml.0 "${f16[@]}"
check "its readings are in the log" "$python" nvml.py nvml.0 there
check "and reported at the end" grep -qxF "$told" nvml.0.out
check "NVML is closed" test "$(grep -cx 'NVML was shut down' nvml.0.out)" -eq 1
check "with an NVML that does not know the GPU" train nvml.1 "${f16[@]}" --device cuda:1
check "no readings" bash -c "'$python' nvml.py nvml.1 absent && ! grep -q '^GPU in' nvml.1.out"
unset LD_LIBRARY_PATH
: >nvml/libnvidia-ml.so.1
check "with an NVML that is not a library" env LD_LIBRARY_PATH=nvml bash -c "$(declare -f train); sim='$sim'; common=(${common[*]}); train nvml.2 ${f16[*]}"
check "no readings of it" "$python" nvml.py nvml.2 absent
check "NVML or not: the same bits" same 0 nvml.0 nvml.2

# ---- ranges for profilers: one per step
check "every range that is pushed is popped" grep -qx 'ranges: 12 pushed, 12 popped, 0 of them without a push' nvml.0.err
unset FF_SIM_RANGES

refuses "a device of another kind" 2 "'tpu' is not one of auto|cpu|cuda" "$sim" "${common[@]}" --device tpu
refuses "a device that is not there" 1 "cuda:7" "$sim" "${common[@]}" --device cuda:7
refuses "a precision of another kind" 2 "'f64' is not one of auto|f32|tf32|f16|bf16" "$sim" "${common[@]}" --device cuda --precision f64
refuses "f16 on the CPU" 2 "the CPU computes in f32" "$sim" "${common[@]}" --device cpu --precision f16
refuses "a placement on the CPU" 2 "placements are for GPUs; the CPU maps the set" "$sim" "${common[@]}" --device cpu --placement stream
refuses "a placement of another kind" 2 "'moon' is not one of auto|resident|stream|host" "$sim" "${common[@]}" --placement moon
refuses "a CPU implementation on a GPU" 2 "excludes --device cuda" "$sim" "${common[@]}" --device cuda --compute reference
refuses "a loss scale where none is needed" 2 "f32 needs no scale" "$sim" "${common[@]}" --device cuda --precision f32 --loss-scale 8
finish
