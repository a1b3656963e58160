#!/bin/bash
# half_hour rehearsed without a GPU: all five phases from a bundle in an empty folder and
# environment, over the simulated GPU and PyTorch on the CPU; also that a peer's failure does not
# hide our results, that our own failure makes the phase fail, and that deadlines hold. TAP.
set -u
build=$(realpath "${BUILD:-build}") python=${PYTHON:-/usr/bin/python3}
. "$(dirname "$0")/../tap.sh"
for reason in "${SANITIZE:+libraries of sanitizers are not for bundles}" "$(command -v patchelf >/dev/null || echo patchelf is not here)" \
    "$([ -x "$build/sim/serve_steps" ] || echo built without a CUDA toolkit)"; do
    [ -z "$reason" ] || skip_all "half_hour" "$reason"
done
peers= ; "$python" -c 'import torch, torchvision, numpy' 2>/dev/null && peers=1

# ---- a bundle of stand-ins, moved to an empty folder ----
mkdir "$scratch/stage"
cp "$build"/{ffpack,ffinspect,tests/make_set} "$build"/sim/{serve_steps,bench_gather,op_times,gpu_library,test_cuda_compute,test_cuda_placements} \
    "$build"/tests/test_cuda_{pool,loss} "$scratch/stage/"
cp "$build/tests/fftrain_sim" "$scratch/stage/fftrain"
programs=("$scratch"/stage/*)
{ tools/build/bundle.sh "$scratch/stage" "$scratch/made/ffpack" "${programs[@]##*/}" &&
    BUNDLE_MOST=110 BUNDLE_PLANS=0 tools/build/bundle_gpu.sh "$build" "$scratch/made/ffpack" tests/gpu/sm_90_h200.json; } >"$scratch/said" 2>&1
result $? "the bundle is filled"
BUNDLE_MOST=5 BUNDLE_PLANS=0 tools/build/bundle_gpu.sh "$build" "$scratch/made/ffpack" tests/gpu/sm_90_h200.json >"$scratch/said" 2>&1
[ $? = 1 ] && grep -q 'more than 5$' "$scratch/said"
result $? "one that is too large is refused"
# A GPU's bundle has no oneDNN, its libarchive is rebuilt without XML, and one architecture's module and
# further tests are 15.5 MiB more than the simulated device in these programs.
absent=$(cat "$scratch"/made/ffpack/lib/lib{dnnl,xml2,icuuc,icudata}.so* 2>/dev/null | wc -c)
kib=$(($(du -sk --apparent-size "$scratch/made/ffpack" | cut -f1) - absent / 1024 + 15872))
[ "$kib" -le $((46 * 1024)) ]
result $? "programs, tests and libraries leave 13 of 60 MiB for engines, which take 13: $((kib / 1024)) MiB; as an archive half of it"
cat >"$scratch/made/ffpack/bin/gpu-check" <<'X'
#!/bin/sh
[ -n "$FAKE_NO_CARD" ] && { echo '{"skipped": "no CUDA device 0: a test"}'; exit 77; }
echo '{"device": 0, "name": "simulated GPU", "bus": "0000:3b:00.0", "sm": 90}'
echo '{"cudnn": 91900, "json": {"deviceName": "simulated GPU", "deviceVer": 900}}'
echo '{"group": "device", "result": "ok", "seed": 1, "seconds": 0.1}'
X
chmod +x "$scratch/made/ffpack/bin/gpu-check"
mv "$scratch/made" "$scratch/moved"
bundle=$scratch/moved/ffpack
mkdir "$scratch/empty" && cd "$scratch/empty" || exit 1

# ---- data and a peer ----
archive=()
if "$python" - <<'P' 2>/dev/null; then archive=(--cifar cifar.tar.zst); fi
import ctypes, io, tarfile
from PIL import Image
out = io.BytesIO()
with tarfile.open(fileobj=out, mode="w") as tar:
    for split, count in (("train", 4), ("test", 2)):
        for label in range(10):
            for i in range(count):
                data = io.BytesIO()
                Image.effect_noise((32, 32), 20 + 9 * label).convert("RGB").save(data, "JPEG")
                info = tarfile.TarInfo(f"{split}/class{label}/{i:04}.jpg")
                info.size = data.tell()
                data.seek(0)
                tar.addfile(info, data)
zstd, raw = ctypes.CDLL("libzstd.so.1"), out.getvalue()
zstd.ZSTD_compress.restype = ctypes.c_size_t
packed = ctypes.create_string_buffer(len(raw) + 1000)
size = zstd.ZSTD_compress(packed, ctypes.c_size_t(len(packed)), raw, ctypes.c_size_t(len(raw)), 3)
open("cifar.tar.zst", "wb").write(packed.raw[:size])
P
cat >peer.py <<'P'
import os
import time
import torch
how = os.environ.get("FAKE_PEER", "")
if how == "crash":
    raise SystemExit("the peer crashes")
if how == "hang":
    time.sleep(600)
if how == "rubbish":
    os.write(1, b"no JSON at all\n")
print("what a script prints is no answer")
class CifarNet:
    def cuda(self):
        return self
    def to(self, **how):
        return self
    def compile(self, mode):
        pass
def print_columns(*values, **how):
    pass
def print_training_details(variables, is_final_entry):
    pass
def main(run, model):
    train, test = (torch.load(f"cifar10/{split}.pt") for split in ("train", "test"))
    assert train["images"].shape[1:] == (32, 32, 3) and len(train["labels"]) == len(train["images"]) > len(test["images"])
    if how == "late" and run != "warmup":
        os._exit(3)
    time_seconds = 0.25
    print_training_details(locals(), is_final_entry=True)
    return 0.94
P
half() { # PHASE SCALE [NAME=VALUE...] [-- OPTIONS...]
    local phase=$1 scale=$2 set=()
    shift 2
    while [ $# -gt 0 ] && [ "$1" != -- ]; do set+=("$1"); shift; done
    [ $# = 0 ] || shift
    timeout 900 env -i PATH=/usr/bin:/bin CMOCKA_MESSAGE_OUTPUT=tap "${set[@]}" "$python" "$bundle/bin/half_hour" "$phase" --rehearse --scale "$scale" \
        "${archive[@]}" --script peer.py --out "${out:-out}" --work "${work:-work}" "$@" >"$scratch/said" 2>&1
}
# The same for a phase that must end well: on a machine that is too busy for its times, once more with five times as much.
unhurried() { # PHASE SCALE [NAME=VALUE...] [-- OPTIONS...]
    local code
    half "$@"
    code=$?
    grep -q 'was stopped after' "$scratch/said" || return $code
    rm -rf "${out:-out}" "${work:-work}" "$bundle/arguments"
    half "$1" "$(awk -v scale="$2" 'BEGIN { print 5 * scale }')" "${@:3}"
}
has() { grep -qE -- "$1" "$scratch/said" || { echo "# missing: $1"; return 1; }; }
lines() { # PYTHON : true of the results, `lines`
    "$python" -c "
import json, sys
lines = [json.loads(line) for line in open('${out:-out}/results.jsonl')]
assert ($1), 'not so: ' + sys.argv[0]"
}

broken() { # PROGRAM TEXT
    mv "$bundle/bin/$1" "$bundle/bin/good.$1"
    printf '%s\n' '#!/bin/bash' "$2" >"$bundle/bin/$1" && chmod +x "$bundle/bin/$1"
}
whole() { mv "$bundle/bin/good.$1" "$bundle/bin/$1"; }

# ---- the five phases ----
cp "$build"/sim/{test_cuda_nccl,libnccl.so.2} "$bundle/bin/"
unhurried first 1
code=$?
[ $code = 0 ] && has '^smallnet in f32: 1 loss within .* of the CPU.s$' && has '^smallnet in f16: 1 loss within' && has '^NCCL: one rank$' &&
    grep -qE '^verdict: all opens; from the CPU.s losses at most [0-9.e+-]+ in f32, [0-9.e+-]+ in f16$' <(tail -1 "$scratch/said") &&
    lines 'any("NCCL: one rank" == line.get("row") for line in lines) and lines[-2]["row"].startswith("verdict: all opens") and lines[-1]["ends"] == 0'
result $? "first, whose last line is the verdict; each row is in the results"
rm "$bundle/bin/test_cuda_nccl"
work=work-first out=out-first half first 1 FAKE_NO_CARD=1
[ $? = 3 ] && has '^verdict: not known: there was no card, or no time$'
result $? "first without a card"
broken serve_steps 'case "$*" in *"--device cpu"*) "${0%/*}/good.serve_steps" "$@" | sed -u "s/\[2\./[9./; s/\[1\./[9./" ;; *) exec "${0%/*}/good.serve_steps" "$@" ;; esac'
work=work-first out=out-first half first 1
[ $? = 1 ] && has '^verdict: FAILED: smallnet in f32: a loss is .* from the CPU.s, 1e-05 allowed \(2 in all\)$'
result $? "first with other losses"
whole serve_steps

mkdir "$scratch/tools"
printf '%s\n' '#!/bin/sh' '[ "$1 $2 $3 $4" = "--tool memcheck --error-exitcode 9" ] || exit 3' 'case "$5" in *_loss) exit $FAKE_MEMCHECK ;; esac; shift 4; exec "$@"' >"$scratch/tools/compute-sanitizer"
# Two cards, with the stand-in for NCCL between them.
printf '%s\n' '#!/bin/sh' 'echo GPU 0; echo GPU 1' >"$scratch/tools/nvidia-smi"
chmod +x "$scratch/tools/compute-sanitizer" "$scratch/tools/nvidia-smi"
unhurried probe 0.5 PATH="$scratch/tools:/usr/bin:/bin" FAKE_MEMCHECK=0
code=$?
[ $code = 0 ] && has '^memcheck test_cuda_pool: no errors' && has '^smallnet: 3 steps recorded, called and streamed have the same bits' && has '^smallnet in f32: 3 losses within' &&
    has '^two ranks on one card: a loss of' && has '^two replicas on one card: a loss of' &&
    has '^two ranks on two cards: a loss of' && has '^two replicas on two cards: a loss of' && has '^many steps, --sync-bn, two ranks: they end' &&
    has '^many steps, --sync-bn, two replicas: they end' && has '^many steps, two replicas, one behind: they end' && has '^tests on the card: 4 of 4' && has '^cuDNN and cuBLAS against the plain loops: they agree, 12 groups' && [ -s out/device.json ] &&
    lines 'any(line.get("same_bits") for line in lines) and lines[-1]["ends"] == 0'
result $? "probe"
unhurried tune 0.3 FF_SIM_NOTES='a test of notes' && has '^cifar-speed, not folded: .* ms a step of 8' && has '^op_times --recipe smallnet --batch 4: .*"measured_parts_us": [0-9]' &&
    has '^resnet50, folded: note: a test of notes' &&
    has '^cifar-speed, folded: .* ms a step of 8' && has '^resnet50, folded: .* ms a step of 4' && has 'copy on the device' &&
    lines 'sum("tuned" in line for line in lines) >= 2'
result $? "tune"
# What fftrain is asked for; a table of operations.
broken fftrain '
echo "$*" >>"${0%/*}/../arguments"
exec "${0%/*}/good.fftrain" "$@"'
mv "$bundle/bin/op_times" "$bundle/bin/good.op_times"
cat >"$bundle/bin/op_times" <<'X'
#!/bin/bash
for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
    echo "{\"op\": \"conv$i\", \"layer\": \"a\", \"pass\": \"forward\", \"expected_80_us\": 10, \"expected_65_us\": 12, \"measured_us\": $((10 + i))}"
done
echo '{"sum_measured_us": 198}'
X
chmod +x "$bundle/bin/op_times"
out=out1 unhurried tune 0.3 && has '^resnet50, not folded: ' && grep -q -- '--tune 1 --val-every 2 --no-fold' "$bundle/arguments" && [ "$(grep -c -- '--tune ' "$bundle/arguments")" = 4 ] &&
    has '^op_times --recipe smallnet --batch 4: .*198' && grep -A9 '^  conv12 a forward: 22.0 us, 10.0 at 80 %' "$scratch/said" | tail -1 | grep -q '^  conv3 '
result $? "tune with seconds, without folding, and the ten operations furthest after"
mv "$bundle/bin/good.op_times" "$bundle/bin/op_times"
compiles=""
if [ -n "$peers" ]; then
    unhurried cifar 0.3 && has '^\| fftrain .* alone \| 2 ' && has '^\| fftrain .* in rounds \| 2 ' && has '^\| airbench94_muon \| 2 \| 94.000' && has '^Time: .* of theirs'
    result $? "cifar, and a peer that answers"
    has '^warming up: [0-9.]+ s' && has '^with warming up: [0-9.]+ s' &&
        lines 'all(line["ours"]["cold_seconds"] > line["ours"]["warm_up_seconds"] > 0 for line in lines if line.get("kind") == "alone")' && lines 'sum(line.get("kind") in ("first", "alone", "round") for line in lines) == 5'
    result $? "both clocks are printed, and every run is in the results"
    whole fftrain
    # Debian 13's PyTorch has a torch.compile that fails on everything.
    if ! "$python" -c 'import torch; getattr(torch, "compile", lambda f: f)(lambda x: x + 1)(torch.ones(2))' >/dev/null 2>&1; then
        compiles=no
        for name in "steps, and PyTorch on the CPU" "ours is measured before a peer starts"; do
            skip "$name" "torch.compile does not work"
        done
    fi
fi
if [ -n "$peers" ] && [ -z "$compiles" ]; then
    unhurried steps 0.3 && has '^\| resnet18:2:8 \| f32 \| .*\| alone' && has 'autocast default \| [0-9.]+ \|$' && has '^best: ' && has '^(usual loop: |skipped: the usual loop)'
    result $? "steps, and PyTorch on the CPU"
    # Ours came before any peer's compilation.
    lines 'min(i for i, line in enumerate(lines) if "ours_ms" in line and "precision" in line) < min(i for i, line in enumerate(lines) if "ready" in line)'
    result $? "ours is measured before a peer starts"
elif [ -z "$peers" ]; then
    whole fftrain
    for name in "both clocks are printed, and every run is in the results" "cifar, and a peer that answers" "steps, and PyTorch on the CPU" "ours is measured before a peer starts"; do
        skip "$name" "PyTorch is not here"
    done
fi
find out -mindepth 1 | wc -l | awk '{ exit $1 > 8 }' && ! find out -mindepth 1 | grep -v '^out/[A-Za-z0-9._-]*$' && ! find out -size +16M | grep .
result $? "at most eight files, of plain names, in one folder" <(find out)

# ---- what came before comes with the next phase; engines chosen come back ----
mkdir -p "$bundle/plans" && echo ahead >ahead.plan && tar -czf "$bundle/plans/f16.tar.gz" ahead.plan && printf 'x' >later.plan && tar -czf earlier.tar.gz later.plan
work=work2 out=out2 half probe 0.2 FAKE_NO_CARD=1 -- --plans earlier.tar.gz
code=$?
[ $code = 3 ] && has 'nothing was measured' && [ -s work2/plan-cache/ahead.plan ] && [ -s work2/plan-cache/later.plan ] &&
    [ "$(tar -tzf out2/plans.tar.gz)" = later.plan ]
result $? "no GPU: nothing ran, exit code 3; engines are taken in, and new ones out"

# ---- a peer's failure hides nothing of ours ----
peer() { # HOW PATTERN NAME [SCALE]: without a scale the phase ends well
    if [ -z "$peers" ]; then skip "$3" "PyTorch is not here"; return; fi
    out=out-$1 "$([ $# = 4 ] && echo half || echo unhurried)" cifar "${4:-0.3}" FAKE_PEER="$1" && has '^\| fftrain .* alone \| 2 ' && has "$2"
    result $? "$3"
}
peer crash 'the peer failed: .*ended with 1; .*the peer crashes' "a peer that crashes"
peer rubbish 'the peer failed: .*printed no JSON' "a peer that prints rubbish"
peer late '^\| fftrain .* in rounds \| 1 ' "a peer that ends between two runs"
began=$SECONDS
peer hang 'the peer failed: .*no answer for' "a peer that hangs" 0.06
[ $((SECONDS - began)) -le 25 ] && ! pgrep -f "$bundle/bin/airbench.py" >/dev/null
result $? "is ended, and leaves no process: $((SECONDS - began)) s"

# ---- ours failing makes the phase fail; a deadline holds ----
broken test_cuda_pool 'echo "not ok 1 - a test"; exit 1'
out=out3 half probe 0.5 PATH="$scratch/tools:/usr/bin:/bin" FAKE_MEMCHECK=9
[ $? = 1 ] && has '^FAILED: memcheck test_cuda_loss: exit code 9' && has '^FAILED: test_cuda_pool: exit code 1' && has 'not ok 1 - a test' && has '^tests on the card: 3 of 4'
result $? "a test that fails makes probe fail, and the others run"
whole test_cuda_pool
broken serve_steps 'good=${0%/*}/good.serve_steps
case "$*" in
*--no-graph*) "$good" "$@" | sed -u "s/\"weights\": \"../\"weights\": \"zz/" ;;
*"--device cpu"*) "$good" "$@" | sed -u "s/\[2\./[9./; s/\[1\./[9./" ;;
*) exec "$good" "$@" ;;
esac'
out=out9 half probe 0.4
[ $? = 1 ] && has '^FAILED: smallnet: 3 steps called have other bits than recorded' && has '^FAILED: smallnet in f32: a loss is .* from the CPU.s, 1e-05 allowed'
result $? "other bits and other losses make probe fail"
whole serve_steps
broken fftrain 'echo "fftrain: broken" >&2; exit 1'
out=out4 half cifar 0.3
[ $? = 1 ] && has 'fftrain FAILED: .*fftrain: broken' && has '^FAILED: cifar-speed: '
result $? "fftrain that fails makes cifar fail"
whole fftrain
broken serve_steps 'exit 1'
out=out5 half steps 0.1
[ $? = 1 ] && has 'FAILED: ffpack resnet18:2:8 f32: ended with 1' && has '^FAILED: steps against PyTorch: exit code 1'
result $? "serve_steps that fails makes steps fail"
whole serve_steps
hang="sleep $((100000 + $$))" # of this test alone
broken test_cuda_loss "echo 'ok 1 - before it hangs'; $hang & $hang"
began=$SECONDS
out=out6 half probe 0.12
code=$?
[ $code = 1 ] && [ $((SECONDS - began)) -le 35 ] && has '^FAILED: test_cuda_loss: was stopped after' &&
    out=out6 lines 'any(line.get("test") == "test_cuda_loss" and line["ok"] == 1 for line in lines)' && ! pgrep -f "$hang" >/dev/null
result $? "a program that hangs is ended with its children, and its output is kept: $((SECONDS - began)) s"
whole test_cuda_loss
broken serve_steps "exec $hang"
began=$SECONDS
out=out7 half steps 0.03
code=$?
[ $code != 0 ] && [ $((SECONDS - began)) -le $((14 + 12)) ] && ! pgrep -f "$hang" >/dev/null
result $? "a phase ends in time if something hangs: $((SECONDS - began)) of 14 s"
began=$SECONDS
out=out10 half steps 1 -- --minutes 0.1
[ $? != 0 ] && [ $((SECONDS - began)) -le 18 ]
result $? "a call of fewer minutes ends in these: $((SECONDS - began)) of 6 s"
( sleep 3; kill "$(pgrep -nf "bin/half_hour steps.*out8")" ) &
out=out8 half steps 0.3
[ $? = 1 ] && has 'stopped from outside' && has '^==== steps' && ! pgrep -f "$hang" >/dev/null
result $? "stopped from outside it still prints its table, and leaves no process"
whole serve_steps
env -i PATH=/usr/bin:/bin "$python" "$bundle/bin/half_hour" other >"$scratch/said" 2>&1
[ $? = 2 ]
result $? "a wrong phase"

# ---- PyTorch's current device, with stand-ins for PyTorch and ffload ----
mkdir "$scratch/stand-ins"
cp "$bundle/bin/current_device.py" "$scratch/stand-ins/"
cat >"$scratch/stand-ins/torch.py" <<'P'
import os
class cuda:
    here, count = 0, int(os.environ["FAKE_CARDS"])
    is_available = staticmethod(lambda: cuda.count > 0)
    device_count = staticmethod(lambda: cuda.count)
    current_device = staticmethod(lambda: cuda.here)
    set_device = staticmethod(lambda number: setattr(cuda, "here", number))
P
cat >"$scratch/stand-ins/ffload.py" <<'P'
import os, torch
class Batch:
    def __init__(self, device):
        self.device = device
    def __del__(self):
        told("release", self.device)
class Loader:
    def __init__(self, path, batch, device, augment):
        assert (path, batch, augment) == ("set", 32, "crop=4,flip")
        self.device = int(device.split(":")[1])
    def __iter__(self):
        for i in range(4):
            yield Batch(self.device)
    def state_dict(self):
        told("state_dict", self.device)
    def close(self):
        told("close", self.device)
def told(call, device):
    if os.environ["FAKE_CALL"] == call:
        torch.cuda.set_device(device)
P
device() { # CARDS CALL
    env -i PATH=/usr/bin:/bin PYTHONPATH="$scratch/stand-ins" FAKE_CARDS="$1" FAKE_CALL="$2" "$python" -B "$scratch/stand-ins/current_device.py" set >"$scratch/said" 2>&1
}
device 2 none && has '^\{"calls": 36, "devices": 2, "changed": \[\]\}$'
result $? "no call changes the current device"
for call in release state_dict close; do
    device 2 $call
    [ $? = 1 ] && has " on cuda:1 left 1 current, it was 0"
    result $? "$call does, and is noticed"
done
device 0 none
[ $? = 77 ] && has 'PyTorch sees no GPU'
result $? "PyTorch without a GPU: skipped"
name="the calls are those of the real package, here on the CPU"
if [ -n "$peers" ] && [ -e "$build/python/ffload/_ffload.abi3.so" ]; then
    "$bundle/bin/make_set" calls --dtype u8 --count 128 --height 8 --width 8 --statistics >"$scratch/said" &&
        env -i PATH=/usr/bin:/bin PYTHONPATH="$build/python:$bundle/bin" "$python" -B -c "
import current_device, ffload
assert len(list(current_device.calls(ffload, 'calls', 'cpu'))) == 18" >"$scratch/said" 2>&1
    result $? "$name"
else
    skip "$name" "PyTorch is not here"
fi

# ---- run: the tests alone ----
mkdir "$scratch/results"
env -i PATH=/usr/bin:/bin CMOCKA_MESSAGE_OUTPUT=tap "$bundle/bin/run" "$scratch/results" _loss >"$scratch/said" 2>&1
[ $? = 0 ] && has '^ok .*loss' && [ "$(find "$scratch/results" -name 'results-*.log' | wc -l)" = 1 ] && ! find "$bundle" -name 'results-*' | grep .
result $? "run writes into the folder that it is given"
env -i PATH=/usr/bin:/bin "$bundle/bin/run" "$scratch/results" no-such-name >"$scratch/said" 2>&1
[ $? = 1 ] && has "not ok - none of the card's tests"
result $? "run fails where no name matches"
env -i PATH=/usr/bin:/bin FF_SEED=3 FF_TRIALS=1 "$bundle/bin/run" "$scratch/results" gpu_lib >"$scratch/said" 2>&1
[ $? = 0 ] && has 'seed 3' && has '^ok 12 - products in bf16: 1 agree'
result $? "run has gpu_library, with few trials"
env -i PATH=/usr/bin:/bin FAKE_NO_CARD=1 "$bundle/bin/run" "$scratch/results" >"$scratch/said" 2>&1
[ $? = 77 ] && has "# SKIP no CUDA device: a test"
result $? "run reports that there is no GPU"
finish
