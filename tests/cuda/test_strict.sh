#!/bin/bash
# The module's host code as it ships, over a strict stand-in for CUDA's runtime (strict/strict.h): libffload with a
# consumer's streams and captures, fftrain, and tests of cuda/unit. A race, memory that nobody wrote, a refused call, a launch
# beyond a GPU's limits end the program. What a step costs the host is counted. TAP.
# Needs: strict-programs tests/make_set
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${BUILD:-build}")
. tests/tap.sh
cd "$scratch" || exit 1
[ -x "$build/strict/fftrain" ] || skip_all "the strict runtime" "no CUDA module: built without a CUDA toolkit, or with a sanitizer"
unset CMOCKA_MESSAGE_OUTPUT
export FF_STRICT_COUNTS=1
make_set() { "$build/tests/make_set" "$@" --splits train,test --statistics >/dev/null || exit 1; }
make_set set --count 90 --height 8 --width 8
common=(--threads 1 --augment flip --lr 0.004 --seed 3 --quiet)
# train ARGUMENT...
train() { "$build/strict/fftrain" "${common[@]}" "$@" >"$said" 2>&1; }
# trains NAME ARGUMENT...: two epochs of 6 steps, and evaluations
trains() {
    train --data set --model smallnet --batch 14 --epochs 2 --out "run.$count" "${@:2}"
    result $? "$1"
}
counted() { sed -n "s/^strict: .*\b$1 \([0-9]*\).*/\1/p" "$said"; } # NAME
# costs NAME WANTED EPOCHS ARGUMENT...: what as many epochs again cost in addition. Kernels are those outside graphs.
costs() {
    local name=$1 wanted=$2 epochs=$3 found="" key
    declare -A less=()
    shift 3
    for times in 1 2; do
        train --val-every 0 --out none --device cuda --epochs $((times * epochs)) "$@" || { not_ok "$name" "$said"; return; }
        for key in graphs kernels nodes copies bytes allocations waits; do
            [ $times = 1 ] && less[$key]=$(counted $key) || found+="$key $(($(counted $key) - less[$key])) "
        done
    done
    # shellcheck disable=SC2053
    [[ $found == $wanted\  ]]
    result $? "$name: $wanted" <(echo "found: $found")
}

# A warm-up, which captures, a step and an evaluation, by the net's own recipe.
net() { # NAME ARGUMENT...
    "$build/strict/fftrain" --threads 1 --seed 3 --quiet --batch 2 --epochs 1 --device cuda --out none "${@:2}" >"$said" 2>&1
    result $? "$1"
}
programs() { # NAME...
    for program in "$@"; do
        "$build/strict/$program" >"$said" 2>&1
        result $? "$program"
    done
}

if short; then
    programs library library_graph library_pool library_calls test_cuda_{give,nccl,placements,pool}
    trains "resident, f16, averages" --device cuda --precision f16 --placement resident --ema .9
    trains "streamed, Muon" --device cuda --precision f32 --placement stream --groups 'conv[23].weight:optimizer=muon'
    costs "12 steps and 2 epochs" "graphs 24 kernels 0 nodes 578 copies 3 bytes 864 allocations 0 waits 2" 2 --data set --model smallnet \
        --batch 14 --precision f16 --placement resident
fi
if long; then
    trains "host, without graphs, mixup, views" --device cuda --precision bf16 --placement host --no-graph --views 2 --augment mixup,flip
    trains "micro-batches, AdamW, clipped" --device cuda --precision f16 --accumulate 2 --optimizer adamw --clip-norm 1
    trains "the last batch is smaller" --device cuda --precision f16 --last-batch keep --placement stream
    # A resident set of more pieces than there are slots for its upload. The search may find no rate.
    make_set large --count 120 --height 256 --width 256
    "$build/strict/fftrain" lr-find --data large --model smallnet --augment rrc=8 --batch 2 --steps 20 --threads 1 \
        --device cuda --placement resident >"$said" 2>&1
    verdict "$(grep -A12 '^strict: [^k]' "$said")" "an upload of many pieces"
    make_set small --count 12 --height 32 --width 32
    train --data small --model resnet18 --precision f16 --batch 4 --epochs 1 --device cuda --out none
    result $? "resnet18, 3 steps"
    # Its threads wait for slots, not the loop. A run ends with up to 4 batches that were copied ahead.
    costs "12 steps, streamed" "graphs 24 kernels 0 nodes 578 copies 1[1-9] bytes * allocations 0 waits *" 2 --data set --model smallnet \
        --batch 14 --precision f16 --placement stream
    costs "12 steps of micro-batches" "graphs 60 kernels 0 nodes 1202 copies 3 bytes 864 allocations 0 waits 2" 2 --data set \
        --model smallnet --batch 14 --precision f16 --placement resident --accumulate 2
    costs "12 steps without graphs" "graphs 0 kernels 576 nodes 0 copies 3 bytes 864 allocations 0 waits 2" 2 --data set --model smallnet \
        --batch 14 --precision f16 --placement resident --no-graph
    trains "two replicas, NCCL" --dp 0,1 --sync-bn
    trains "two replicas on a device" --dp 2x0 --precision f16
    trains "two ranks, NCCL in graphs" --ranks 2 --precision f16 --sync-bn
    trains "two ranks, through the host" --device cuda --ranks 2 --precision f16
    make_set two --count 2 --height 16 --width 16
    make_set larger --count 2 --height 32 --width 32
    net "cifar-speed's net" --data larger --model cifarnet --precision f16
    net "vgg11_bn" --data larger --model vgg11_bn --precision bf16
    net "resnet50" --data two --model resnet50 --precision f16 --no-warm-up --val-every 0
    net "mobilenet_v2" --data two --model mobilenet_v2 --precision bf16
    programs test_cuda_{augment,compute,cost,depthwise,layers,loss,move,norm,plan,planned,pointwise,probe,profile,ranks}
    programs test_cuda_{run,step,update}
    # Those of indices have two parts; the first one launches every kernel.
    cd "$OLDPWD" || exit 1 # they read the sources of the kernels
    TEST_LENGTH=test programs test_cuda_indices{,_loader,_update,_windows}
fi
finish
