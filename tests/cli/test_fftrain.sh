#!/bin/bash
# fftrain: what a run prints and logs, and its answers to bad input: one message, the documented
# exit code. The sets come from make_set and from ffpack on tiny IDX files.
fftrain=${BUILD:-build}/fftrain ffpack=${BUILD:-build}/ffpack make_set=${BUILD:-build}/tests/make_set
python=${PYTHON:-/usr/bin/python3}
. "$(dirname "$0")/../tap.sh"
cd "$scratch" || exit 1
# judge NAME CODE 'PATTERN;PATTERN' GOT: one message in stderr that holds every pattern
judge() {
    local name=$1 code=$2 patterns=$3 got=$4 problem=""
    [ "$got" -eq "$code" ] || problem="exit code $got, wanted $code"
    [ "$(wc -l <stderr)" -eq 1 ] || problem="$problem; not one line on stderr"
    grep -q '^fftrain: ' stderr || problem="$problem; no 'fftrain: '"
    problem+=$(lacks "$patterns" <stderr)
    verdict "$problem" "$name" stderr
}
# refuses NAME CODE PATTERNS ARGUMENT...
refuses() {
    local name=$1 code=$2 patterns=$3; shift 3
    "$fftrain" "$@" >stdout 2>stderr
    judge "$name" "$code" "$patterns" $?
}
small=(--model smallnet --threads 1)
make() { "$make_set" "$@" >log || exit 1; }
make set --splits train,test --count 250 --height 12 --width 12 --statistics
make few --count 6 --height 12 --width 12 --statistics
make tiny --count 40 --height 12 --width 12 --statistics
make two --count 40 --height 12 --width 12 --channels 2 --statistics

# ---- a run
"$fftrain" --data set "${small[@]}" --epochs 4 --batch 32 --augment flip --log-json log.jsonl >stdout 2>stderr
check "a run ends with 0" test $? -eq 0
check "nothing on stderr without a terminal" test ! -s stderr
check "'train' of a folder of splits, 'test' found next to it" \
    grep -q 'validation *set/test: 125 samples.*; found next to it' stdout
check "a table line an epoch" test "$(grep -cE '^ +[1-4] ( +[0-9.]+){8}$' stdout)" -eq 4
check "the accuracy and the bottleneck at the end" \
    test "$(tail -2 stdout | grep -cE '^(Accuracy on set/test: [0-9.]+ %|Bottleneck: (compute|data))')" -eq 2
cat >judge.py <<'PYTHON'
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
want = ["event", "epoch", "train_loss", "train_accuracy", "val_loss", "val_accuracy",
        "learning_rate", "seconds", "samples_per_second", "data_wait_percent", "skipped_updates", "loss_scale"]
assert [line["event"] for line in lines] == ["start"] + ["epoch"] * 4 + ["end"], lines
for number, line in enumerate(lines[1:5], 1):
    assert list(line) == want + ["val_top5_accuracy"] and line["epoch"] == number, line
    assert line["val_accuracy"] <= line["val_top5_accuracy"] <= 1, line
    right = line["val_accuracy"] * 125
    assert abs(right - round(right)) < 1e-6, right
    assert line["skipped_updates"] == 0 and line["loss_scale"] == 1, line
    assert 0 <= line["data_wait_percent"] <= 100 and line["samples_per_second"] > 0, line
assert lines[5]["status"] == "done" and lines[5]["steps"] == 4 * (250 // 32), lines[5]
assert lines[0]["batch"] == 32 and lines[0]["classes"] == 6 and lines[0]["data"] == "set/train"
PYTHON
if command -v "$python" >/dev/null; then check "JSON lines" "$python" judge.py log.jsonl
else skip "JSON lines" "no $python"; fi

# Removes what depends on the clock.
results() { grep '"epoch",' "$1" | sed 's/,"seconds".*//'; }
for workers in 1 3; do
    "$fftrain" --data set "${small[@]}" --epochs 4 --batch 32 --augment flip --log-json $workers.jsonl --workers $workers --quiet >stdout 2>stderr
    check "$workers workers, the same results" cmp <(results log.jsonl) <(results $workers.jsonl)
done
check "--quiet prints the result only, a line" test "$(wc -l <stdout)" -eq 1
"$fftrain" --data set "${small[@]}" --epochs 4 --batch 32 --augment flip --log-json seed.jsonl --seed 1 >stdout 2>stderr
# differ LOG LOG: every epoch's results do
differ() {
    test "$(results "$1" | wc -l)" -eq "$(results "$2" | wc -l)" &&
        test -z "$(comm -12 <(results "$1" | sort) <(results "$2" | sort))"
}
check "the same results do not differ" test "$(differ log.jsonl 1.jsonl && echo yes)" = ""
check "another seed, other results" differ log.jsonl seed.jsonl
# Six samples are all classified correctly long before the last epoch.
"$fftrain" --data set/train --val few "${small[@]}" --epochs 8 --batch 25 --augment none --log-json equal.jsonl >stdout 2>stderr
cat >judge_best.py <<'PYTHON'
import json
lines = [json.loads(line) for line in open("equal.jsonl")]
epochs, end = [line for line in lines if line["event"] == "epoch"], lines[-1]
best = max(line["val_accuracy"] for line in epochs)
first = [line["epoch"] for line in epochs if line["val_accuracy"] == best]
assert len(first) > 1, epochs
assert end["best_val_accuracy"] == best and end["best_epoch"] == first[0], end
PYTHON
if command -v "$python" >/dev/null; then check "of equal epochs the first is the best" "$python" judge_best.py
else skip "of equal epochs the first is the best" "no $python"; fi
refuses "all dropped" 2 "--dropout: 1 is out of range; it must be from 0 to 0.99" --data tiny "${small[@]}" --dropout 1
"$fftrain" --data set "${small[@]}" --epochs 6 --batch 16 --log-json learns.jsonl --top5 --val-every 2 >stdout 2>stderr
check "--top5 has a column" test "$(grep -c '^epoch .* top-5 %' stdout) $(awk '$1 ~ /^[1-6]$/ && NF == 10' stdout | wc -l)" = "1 6"
check "it learns" grep -qE '"status":"done".*"val_accuracy":(1\.0|0\.[89])' learns.jsonl

for last in drop keep; do
    "$fftrain" --data tiny "${small[@]}" --epochs 1 --batch 1000 --last-batch $last >stdout 2>stderr
    check "--last-batch $last: a set smaller than a batch is one" grep -q '1 an epoch of 40 samples.*the whole set; --batch was 1000' stdout
done
"$fftrain" --data set "${small[@]}" --epochs 1 --batch 64 --last-batch keep >stdout 2>stderr
check "--last-batch keep: the last one is shorter" grep -q '4 an epoch of 64 samples.*the last batch has 58' stdout
"$fftrain" --data set/train "${small[@]}" --epochs 1 --batch 64 --log-json noval.jsonl >stdout 2>stderr
check "without --val nothing is evaluated" grep -q '"val_loss":null,"val_accuracy":null' noval.jsonl

"$fftrain" --data set "${small[@]}" --dry-run --log-json dry.jsonl >stdout 2>stderr
check "--dry-run ends with 0" test $? -eq 0
for word in parameters multiply-accumulates memory activations 'an epoch of' 'learning rate' augment; do
    check "--dry-run names $word" grep -q "$word" stdout
done
check "and each layer" grep -qE '^conv3 +conv 3x3 /1, max pool 2x2 /2 +64x1x1 +18432 +[0-9]+$' stdout
cat >layers.py <<'PYTHON'
import json, sys
plan, lines = json.load(open("plan.json")), open("stdout").read().splitlines()
start = next(i for i, line in enumerate(lines) if line.startswith("layer ")) + 1
rows = [(layer["name"], layer["computes"], "x".join(map(str, layer["shape"])), str(layer["parameters"]), str(layer["macs"])) for layer in plan["layers"]]
assert [line.split() for line in lines[start:start + len(rows)]] == [" ".join(row).split() for row in rows], rows
for key in ("parameters", "macs"):
    assert plan[key] == sum(layer[key] for layer in plan["layers"]), key
assert plan["model"] == "smallnet" and plan["layers"][-1]["shape"] == [plan["classes"], 1, 1], plan
assert set(plan["memory_bytes"]) == {"parameters", "gradients", "state", "buffers", "activations", "scratch"}, plan
assert plan["memory_bytes"]["state"] >= 4 * plan["parameters"] and plan["host_bytes"] > sum(plan["memory_bytes"].values()), plan
PYTHON
"$fftrain" --data set "${small[@]}" --dry-run --json >plan.json 2>stderr
check "--json writes the same, alone" "$python" layers.py
refuses "--json of a run that trains" 2 "--json needs --dry-run; a run that trains logs with --log-json" --data set "${small[@]}" --json
refuses "--log-json - of a run" 2 "--log-json -: wanted a file; --quiet --log-json /dev/stdout logs to the standard output" --data set "${small[@]}" --log-json -
check "--dry-run trains nothing and logs nothing" bash -c "! grep -q '^epoch' stdout && ! test -e dry.jsonl"
check "--help" bash -c "'$fftrain' --help | grep -q 'Exit codes: 0 done'"
check "--compute reference" "$fftrain" --data tiny "${small[@]}" --epochs 1 --compute reference
check "--crop cuts both" "$fftrain" --data set "${small[@]}" --epochs 1 --crop 10 --augment crop,flip

# ---- jitter and mixing: the same losses from any number of workers, and it learns
mixed=("${small[@]}" --epochs 4 --batch 32 --augment crop=1,flip,jitter=0.2:0.2,mixup=0.2,cutmix)
"$fftrain" --data set "${mixed[@]}" --log-json mixed.jsonl >stdout 2>stderr
check "jitter, mixup and cutmix" test $? -eq 0
check "the summary names them" grep -q '^augment  *crop=1,flip,jitter=0.2:0.2,mixup=0.2,cutmix=1$' stdout
"$fftrain" --data set "${mixed[@]}" --workers 3 --log-json mixed-3.jsonl >stdout 2>stderr
check "3 workers, the same losses" cmp <(results mixed.jsonl) <(results mixed-3.jsonl)
"$fftrain" --data set "${mixed[@]/,mixup=0.2,cutmix/}" --log-json unmixed.jsonl --quiet >stdout 2>stderr
check "mixed labels change the loss" differ unmixed.jsonl mixed.jsonl
"$fftrain" --data set "${small[@]}" --epochs 8 --batch 16 --augment mixup=0.2 --log-json mixup.jsonl >stdout 2>stderr
check "it learns with mixup" grep -qE '"status":"done".*"val_accuracy":(1\.0|0\.[89])' mixup.jsonl
refuses "jitter of two channels" 2 "colour jitter needs samples of 1 or 3 channels, not 2" --data two "${small[@]}" --augment jitter=0.4

# ---- recipes
make images --splits train,test --count 60 --height 32 --width 32 --statistics
speed=(--recipe cifar-speed --data images --threads 1 --batch 20 --epochs 2)
"$fftrain" "${speed[@]}" --log-json speed.jsonl >stdout 2>stderr
check "--recipe cifar-speed trains cifarnet" test $? -eq 0
for words in 'recipe *cifar-speed$' 'model *cifarnet: 3x32x32' 'augment *crop=2:reflect,flip=alternate' \
    'Muon at 0.24, momentum 0.6' 'whiten.bias: SGD at 0.053' 'loss *summed over a batch, label smoothing 0.2' \
    'learning rate *linear, peak 0.24, 0.12 at step 4' 'views *6 of each sample'; do
    check "it names ${words%% *} ${words##* }" grep -q "$words" stdout
done
cat >judge_recipe.py <<'PYTHON'
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
start, last, end = lines[0], lines[-2], lines[-1]
assert start["recipe"] == "cifar-speed" and start["model"] == "cifarnet" and start["views"] == 6, start
assert start["whitening"] == {"images": 60, "seed": 0} and start["summed_loss"], start
assert [group["optimizer"] for group in start["groups"]] == ["muon", "sgd", "sgd", "sgd"], start
assert [group["learning_rate"] for group in start["groups"]] == [0.24, 0.053, 0.053, 0.67], start
assert abs(start["groups"][3]["weight_decay"] - 2e-6 * 20 / 0.67) < 1e-12, start
assert start["label_smoothing"] == 0.2 and start["schedule"] == "linear", start
assert abs(last["learning_rate"] - 0.24 / 6) < 1e-9, last
assert end["status"] == "done" and end["train_seconds"] < end["timed_seconds"] < end["seconds"], end
PYTHON
if command -v "$python" >/dev/null; then check "its JSON lines" "$python" judge_recipe.py speed.jsonl
else skip "its JSON lines" "no $python"; fi
"$fftrain" "${speed[@]}" --log-json again.jsonl --workers 2 >stdout 2>stderr
check "it repeats" cmp <(results speed.jsonl) <(results again.jsonl)
check "cifar-speed evaluates after the last epoch only" \
    bash -c "grep -q 'after the last epoch only' stdout && grep -qE '^ +1 .* - +- ' stdout && ! grep -qE '^ +2 .* - +- ' stdout &&
             [ \"\$(grep -c '\"val_loss\":null' speed.jsonl)\" = 1 ] && grep -q '\"best_epoch\":2' speed.jsonl"
cat >val_every.py <<'PYTHON'
# val_every.py LOG EPOCH...: the epochs that were evaluated; the evaluations change nothing
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
epochs, end = [line for line in lines if line["event"] == "epoch"], lines[-1]
want = [int(word) for word in sys.argv[2:]]
assert [line["epoch"] for line in epochs if line["val_loss"] is not None] == want, epochs
assert end["val_accuracy"] == epochs[want[-1] - 1]["val_accuracy"], end
assert end["best_val_accuracy"] == max(epochs[n - 1]["val_accuracy"] for n in want), end
PYTHON
every() { # N EPOCH...
    local n=$1; shift
    "$fftrain" --data set "${small[@]}" --epochs 5 --val-every "$n" --log-json every.$n >stdout 2>stderr &&
        "$python" val_every.py every.$n "$@"
}
check "--val-every 1" every 1 1 2 3 4 5
check "--val-every 2: and after the last" every 2 2 4 5
check "--val-every 0: after the last only" every 0 5
losses() { grep -o '"train_loss":[0-9.]*' "$1"; }
check "evaluating changes nothing" cmp <(losses every.0) <(losses every.1)
"$fftrain" "${speed[@]}" --views 1 --log-json one.jsonl >stdout 2>stderr
check "other views, the same training and another loss" \
    bash -c "cmp -s <(grep -o '\"train_loss\":[0-9.]*' speed.jsonl) <(grep -o '\"train_loss\":[0-9.]*' one.jsonl) &&
             ! cmp -s <(grep -o '\"val_loss\":[0-9.]*' speed.jsonl) <(grep -o '\"val_loss\":[0-9.]*' one.jsonl)"
check "a model's name is its recipe" bash -c "'$fftrain' --recipe resnet18 --data images -n | grep -q 'model *resnet18'"
for model in resnet50 vgg16_bn; do
    check "$model" "$fftrain" --model $model --data images/train --epochs 1 --batch 30 --threads 1 --augment flip
done
check "--schedule linear" bash -c "'$fftrain' --data set ${small[*]} --schedule linear -n | grep -q 'learning rate *linear'"
# ---- optimizers, groups, schedules
for optimizer in sgd adamw lars lamb; do
    check "--optimizer $optimizer" "$fftrain" --data set "${small[@]}" --epochs 3 --batch 32 --optimizer $optimizer --lr 0.002 --log-json $optimizer.jsonl
done
check "each learns otherwise" test "$(for o in sgd adamw lars lamb; do grep -o '"train_loss":[0-9.]*' $o.jsonl | tail -1; done | sort -u | wc -l)" -eq 4
"$fftrain" --data set "${small[@]}" --epochs 2 --batch 32 --optimizer lamb --groups 'fc.*:lr=0.01;conv[23].weight:optimizer=muon,momentum=0.5' \
    --clip-norm 1 --schedule one-cycle=0.4 --log-json groups.jsonl >stdout 2>stderr
check "groups are printed" grep -q 'norm,bias of fc.*: LAMB at 0.01, weight decay 0, beta1 0.9, beta2 0.999, eps 1e-06' stdout
check "clipping and the schedule, too" bash -c "grep -q 'clipped to norm 1' stdout && grep -q 'one-cycle=0.4' stdout"
cat >groups.py <<'PYTHON'
import json, sys
start = json.loads(open(sys.argv[1]).readline())
assert (start["optimizer"], start["clip_norm"], start["schedule"], start["learning_rate"]) == ("lamb", 1, "one-cycle=0.4", 0.001), start
groups = [(g["names"], g.get("within"), g["optimizer"], g["learning_rate"], g["weight_decay"]) for g in start["groups"]]
assert groups == [("norm,bias", "fc.*", "lamb", 0.01, 0), ("fc.*", None, "lamb", 0.01, 0.01), ("conv[23].weight", None, "muon", 0.02, 0),
                  ("norm,bias", None, "lamb", 0.001, 0), ("*", None, "lamb", 0.001, 0.01)], groups
assert start["groups"][0]["beta2"] == 0.999 and "beta2" not in start["groups"][2], start["groups"]
PYTHON
check "and logged" "$python" groups.py groups.jsonl
check "the largest norm is not a clipping" bash -c "'$fftrain' --data set ${small[*]} --epochs 3 --batch 32 --optimizer adamw --lr 0.002 --clip-norm 1e30 --log-json large.jsonl &&
    cmp <(grep -o '\"train_loss\":[0-9.]*' adamw.jsonl) <(grep -o '\"train_loss\":[0-9.]*' large.jsonl)"
"$fftrain" --data set "${small[@]}" --epochs 3 --batch 32 --optimizer adamw --lr 0.002 --ema 0 --log-json ema.jsonl >stdout 2>stderr
check "an average of the last values alone is these" \
    cmp <(grep -o '"val_loss":[0-9.]*' ema.jsonl | cut -d: -f2) <(grep -o '"val_ema_loss":[0-9.]*' ema.jsonl | cut -d: -f2)
check "its line of the table, and its accuracy at the end" \
    bash -c "test \$(grep -cE '^ +ema +[0-9.]+ +[0-9.]+$' stdout) -eq 3 && grep -q '; of the average [0-9.]* %; ' stdout"
check "and training is the same" cmp <(grep -o '"train_loss":[0-9.]*' adamw.jsonl) <(grep -o '"train_loss":[0-9.]*' ema.jsonl)
for n in 1 4; do
    check "--accumulate $n" "$fftrain" --data set "${small[@]}" --epochs 3 --batch 60 --optimizer adamw --lr 0.002 --accumulate $n --last-batch keep --log-json accumulate.$n
done
cat >accumulate.py <<'PYTHON'
import json, sys
one, four = [[json.loads(line) for line in open(name)] for name in sys.argv[1:]]
assert (one[0]["accumulate"], four[0]["accumulate"]) == (1, 4)
assert one[-1]["steps"] == four[-1]["steps"] == 15 and one[-1]["samples"] == four[-1]["samples"] == 750, four[-1]
assert one[1]["train_loss"] != four[1]["train_loss"] and abs(one[1]["train_loss"] - four[1]["train_loss"]) < 0.3, four[1]
PYTHON
check "as many steps and samples, another batch norm" "$python" accumulate.py accumulate.1 accumulate.4
check "micro-batches that are not a whole batch are left out" bash -c "'$fftrain' --data set ${small[*]} --epochs 2 --batch 120 --accumulate 8 --log-json short.jsonl &&
    grep -q '\"samples\":480' short.jsonl"
refuses "micro-batches of different sizes" 2 "--accumulate 7: batches of 60 samples cannot be cut" --data set "${small[@]}" --batch 60 --accumulate 7
refuses "an unknown optimizer" 2 "--optimizer: no optimizer 'adam';did you mean adamw? There are sgd, muon, adamw, lars, lamb" --data set "${small[@]}" --optimizer adam
refuses "Muon for all" 2 "Muon updates filters of convolutions only" --data set "${small[@]}" --optimizer muon
refuses "a number that the optimizer has not" 2 "--momentum: AdamW has no momentum; it has lr, weight-decay, beta1, beta2, eps" --data set "${small[@]}" --optimizer adamw --momentum 0.9
refuses "Nesterov without any momentum" 2 "--nesterov: LAMB has no momentum" --data set "${small[@]}" --optimizer lamb --nesterov
refuses "a group without numbers" 2 "--groups: 'fc.*' is not as in NAMES:KEY=VALUE" --data set "${small[@]}" --groups 'fc.*'
refuses "a group of no parameter" 2 "--groups: no trained parameter of smallnet that is in no group before is called head.*" --data set "${small[@]}" --groups 'head.*:lr=1'
refuses "an unknown number of a group" 2 "'rate' of fc.* is unknown; there are optimizer, lr" --data set "${small[@]}" --groups 'fc.*:rate=1'
refuses "no number in a group" 2 "the lr of fc.* is not a number from 0 on" --data set "${small[@]}" --groups 'fc.*:lr=x'
refuses "an unknown optimizer of a group" 2 "--groups: no optimizer 'adamW';did you mean adamw?" --data set "${small[@]}" --groups 'fc.*:optimizer=adamW'
refuses "an unknown schedule" 2 "--schedule: 'cosin' is unknown; did you mean cosine?;multi-step=EPOCH" --data set "${small[@]}" --schedule cosin
refuses "arguments of a schedule" 2 "--schedule: 'multi-step=3,2' is not as in multi-step=EPOCH,...[:FACTOR], with increasing epochs" --data set "${small[@]}" --schedule multi-step=3,2
refuses "a warm-up before one-cycle" 2 "--warmup: the schedule one-cycle begins with a rise of its own" --data set "${small[@]}" --schedule one-cycle --warmup 1
refuses "an optimizer for a recipe with groups" 2 "--optimizer: the recipe cifar-speed has its own for each group" --data images --recipe cifar-speed --optimizer adamw
refuses "an unknown recipe" 2 "--recipe: 'fast' is unknown;cifar-speed" --data images --recipe fast
refuses "another model than the recipe's" 2 "--recipe cifar-speed trains cifarnet, not --model resnet18" --data images --recipe cifar-speed --model resnet18
refuses "one learning rate for several groups" 2 "--lr: the recipe cifar-speed has its own for each group" --data images --recipe cifar-speed --lr 1
refuses "five views" 2 "--views" --data images --recipe cifar-speed --views 5
refuses "images too small for cifarnet" 2 "too small for this net" --data set --recipe cifar-speed
refuses "images too small for vgg" 2 "features.43: a 2x2 pooling;16x16) are too small for this net" --data images --crop 16 --augment none --model vgg16_bn --stem imagenet

# ---- options
refuses "an unknown option" 2 "unknown option --epoch; did you mean --epochs?" --data set "${small[@]}" --epoch 3
refuses "a value out of range" 2 "--batch: 0 is out of range" --data set "${small[@]}" --batch 0
refuses "no number" 2 "--lr: 'fast' is not a number" --data set "${small[@]}" --lr fast
refuses "no --data" 2 "--data is missing" "${small[@]}"
refuses "no --model" 2 "--model is missing;smallnet;resnet18" --data set
"$fftrain" --data tiny "${small[@]}" --diagnose --quiet >stdout 2>stderr
check "--diagnose measures each stage and names one" test $? -eq 0
check "with a line per stage and the message" \
    test "$(grep -cE '^((storage|gather|augment|compute) .* samples/s|Bottleneck: (storage|gather|augment|compute); )' stdout)" -eq 5
refuses "an unknown model" 2 "'resnet99' is unknown;smallnet;resnet18" --data set --model resnet99
refuses "a stray argument" 2 "unexpected argument 'set'" set "${small[@]}"
refuses "a command by another word" 2 "unexpected argument 'eval': here it is fftrain evaluate RUN" eval runs/a
refuses "help as a word" 2 "unexpected argument 'help': here it is fftrain --help" help
refuses "train as a word" 2 "'train': here it is fftrain --data SET" train --data set
refuses "a command after an option" 2 "'report': a command is the first word" --quiet report runs/a
refuses "--device tpu" 2 "--device: 'tpu' is not one of auto|cpu|cuda|cuda:NUMBER" --data tiny "${small[@]}" --device tpu
refuses "an unknown device" 2 "--device: 'tpu' is not one of auto|cpu" --data set "${small[@]}" --device tpu
refuses "Nesterov and not" 2 "exclude each other" --data set "${small[@]}" --nesterov --no-nesterov
refuses "Nesterov without momentum" 2 "--nesterov needs a --momentum above 0" --data set "${small[@]}" --nesterov --momentum 0
refuses "a warm-up longer than the run" 2 "--warmup: 3 epochs are more than the 2" --data set "${small[@]}" --epochs 2 --warmup 3
refuses "an unknown augmentation" 2 "rotate" --data set "${small[@]}" --augment rotate
refuses "a crop larger than the samples" 2 "set/train;16" --data set "${small[@]}" --crop 16 --augment none
refuses "a stem for a net without" 2 "smallnet" --data set "${small[@]}" --stem imagenet
refuses "a log in a missing folder" 74 "--log-json: nowhere/log: cannot open for appending: No such file" --data set "${small[@]}" --log-json nowhere/log
refuses "a log on a full disk" 74 "--log-json: /dev/full: cannot write: No space left" --data set "${small[@]}" --log-json /dev/full
for dp in "" "--dp cpu,cpu"; do
    # shellcheck disable=SC2086
    "$fftrain" --data set "${small[@]}" --epochs 1 --out "closed${dp:+-dp}" $dp <&- >&- 2>stderr; code=$?
    check "stdin and stdout are closed${dp:+, $dp}: exit 74" test $code -eq 74
    check "  and no file of the run receives what is printed" \
        test "$(grep -c '^{' "closed${dp:+-dp}/log.jsonl")" -eq "$(wc -l <"closed${dp:+-dp}/log.jsonl")"
done

# ---- misspelled names, and options of PyTorch's scripts
refuses "a model's name with a slip" 2 "'resnet81' is unknown; did you mean resnet18?" --data set --model resnet81
refuses "a recipe's name with a slip" 2 "'cifar-sped' is unknown; did you mean cifar-speed?" --data set --recipe cifar-sped
refuses "an augmentation's name with a slip" 2 "'filp' is not known (did you mean flip?)" --data set "${small[@]}" --augment crop,filp
refuses "a choice with a slip" 2 "--compute: 'onednm' is not one of auto|onednn|reference; did you mean onednn?" --data set "${small[@]}" --compute onednm
refuses "a choice unlike any" 2 "--verify-data: 'on' is not one of off|first|always" --data set "${small[@]}" --verify-data on
check "no other is named" bash -c "! grep -q 'did you mean' stderr"
refuses "a precision as others call it" 2 "'fp16' is not one of auto|f32|tf32|f16|bf16; did you mean f16?" --data set "${small[@]}" --device cpu --precision fp16
while IFS=: read -r habit here; do
    refuses "--$habit" 2 "unknown option --$habit: ;$here" --data set "${small[@]}" "--$habit" x
    refuses "--$habit=" 2 "unknown option --$habit: ;$here" --data set "${small[@]}" "--$habit=x"
done <<'HABITS'
save:here it is --out DIR
output:here it is --out DIR
checkpoint:here it is --resume DIR
lr-scheduler:--schedule NAME[=ARGUMENTS]
lr-milestones:multi-step=EPOCH,EPOCH:FACTOR
betas:--beta1 X
pretrained:here it is --weights FILE
amp:--precision auto|f32|tf32|f16|bf16
num-workers:--workers N
batch-size:--batch N
adamw:--optimizer sgd, adamw
clip-grad-norm:--clip-norm X
gpu:--device cuda
world-size:--ranks N
HABITS
"$fftrain" --data set "${small[@]}" -n -- --opt >stdout 2>stderr
judge "what follows -- is not a habit" 2 "unexpected argument '--opt'" $?

# ---- crop without a number
make large --count 20 --height 80 --width 72 --statistics
# augments WORDS ARGUMENT...: what the summary says about it, in the line and the two after it
augments() {
    local words=$1; shift
    "$fftrain" "${small[@]}" "$@" -n | grep -A2 '^augment ' | grep -q -- "$words"
}
check "crop pads small images by 4" augments '^augment *crop=4$' --data set --augment crop
check "and reports it" augments 'crop without a number pads by 4, as is usual for small images' --data set --augment crop
check "crop pads large images by an eighth of the side" augments '^augment *crop=10,flip$' --data large --augment flip,crop
check "and reports it" augments 'pads by 10, an eighth of the side' --data large --augment flip,crop
"$fftrain" --data set "${small[@]}" --augment crop=9999 -n >stdout 2>stderr
judge "a padding larger than the images" 2 "a padding of 9999 is too large for samples of" $?
check "crop=0 pads by nothing" augments '^augment *crop=0,flip$' --data large --augment crop=0,flip
check "crop of samples larger than --crop pads by nothing" augments '^augment *crop=0$' --data large --augment crop --crop 64
check "the default of large images" augments '^augment *crop=10,flip (the model' --data large
check "reports that it resizes nothing" augments 'no random resized crops; --augment rrc=80,flip' --data large
check "a model's own crop of small images is unchanged" augments '^augment *crop=4,flip (the model' --data set --model resnet18

# ---- memory: a dry run takes none, and what does not fit is refused before any is taken
cat >memory.py <<'PYTHON'
# memory.py LOG COMMAND...: runs it; its exit code; into LOG the most megabytes it took, the processor's seconds, and the most megabytes
# without what it has mapped of files: how much of the libraries counts differs by machine
import os, subprocess, sys
child = subprocess.Popen(sys.argv[2:])
own = 0
while os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
    own = max([own] + [int(line.split()[1]) for line in open("/proc/%d/status" % child.pid) if line.startswith("RssAnon")])
_, status, usage = os.wait4(child.pid, 0)
open(sys.argv[1], "w").write("%d %d %d" % (usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime, own / 1024))
sys.exit(os.waitstatus_to_exitcode(status))
PYTHON
make many --count 4096 --height 12 --width 12 --statistics
if [ -z "${SANITIZE:-}" ]; then
    for model in resnet50 vgg16_bn; do
        (ulimit -v 4000000; "$python" memory.py took "$fftrain" --data many --device cpu --model $model --batch 4096 --augment rrc=224 -n) >stdout 2>stderr
        judge "$model, 4096 images of 224: too much" 1 "the run needs ;GiB of memory with batches of 4096;left of its address space;--batch ; would fit" $?
        read -r _ seconds megabytes <took
        check "but the dry run reports it with less than 100 MB ($megabytes) in 2 s" test "$megabytes" -lt 100 -a "$seconds" -lt 2
        check "and prints all of it" bash -c "grep -qE '^host memory +needs [0-9.]+ GiB, has [0-9.]+ GiB left of its address space.*; [0-9.]+ [KM]iB of the sets are mapped' stdout && grep -q '^learning rate' stdout"
        (ulimit -v 4000000; "$python" memory.py took "$fftrain" --data many --device cpu --model $model --batch 4096 --augment rrc=224) >stdout 2>stderr
        judge "the run is refused" 1 "the run needs ; would fit" $?
        read -r _ seconds megabytes <took
        check "before it takes the memory ($megabytes)" test "$megabytes" -lt 100
    done
    for model in resnet18 mobilenet_v2; do
        "$fftrain" --data images --model $model --device cpu --batch 30 --out needs-$model -n >stdout
        needs=$(sed -n 's/^host memory *needs \([0-9]*\).* MiB, has .*/\1/p' stdout)
        "$python" memory.py took "$fftrain" --data images --model $model --device cpu --batch 30 --epochs 1 --augment none --out needs-$model >stdout
        read -r megabytes seconds _ <took
        check "$model: a run that keeps checkpoints takes what the dry run said: ${needs:-nothing} ($megabytes)" \
            test "$megabytes" -le $((${needs:-0} * 103 / 100)) -a "$megabytes" -gt $((${needs:-0} * 9 / 10))
    done
fi

# ---- lists of what is available
make single --count 1 --classes 1 --height 32 --width 32 --statistics
"$fftrain" --data single "${small[@]}" --epochs 1 --warmup 1 -n >stdout
check "one of each" bash -c "grep -q -- '-> 1 class, ' stdout && grep -q ': 1 sample, ' stdout && grep -qE 'an epoch of 1 sample, 1 epoch, 1 step( |\$)' stdout &&
    grep -q 'warming up over 1 step,' stdout && ! grep -qE '(^| )1 (samples|classes|epochs|steps|threads|workers)' stdout"
mkdir alone driver elsewhere
cp "$fftrain" alone/fftrain; cp "$(dirname "$make_set")/fake_cuda.so" driver/libcuda.so.1
LD_LIBRARY_PATH=driver alone/fftrain --data tiny "${small[@]}" --epochs 1 --quiet >stdout 2>stderr
judge "an unused GPU is reported once" 0 "this machine has a GPU, but the run uses the CPU: ;libff_cuda" $?
: >driver/libcuda.so.1
LD_LIBRARY_PATH=driver alone/fftrain --data tiny "${small[@]}" -n >stdout 2>stderr
check "no GPU: a short line" bash -c "grep -qE '^compute +cpu; no GPU: [a-zA-Z ]{10,60}, ' stdout && ! test -s stderr"
LD_LIBRARY_PATH=driver alone/fftrain --data tiny "${small[@]}" -n --verbose >stdout 2>stderr
check "--verbose says all" grep -qE '^compute +cpu; no GPU: .*(libff_cuda.so|make found no complete toolkit)' stdout
ln -s "$PWD/alone/fftrain" elsewhere/ft
for how in alone/fftrain elsewhere/ft fftrain; do
    env -u OMP_WAIT_POLICY PATH="alone:$PATH" "$how" --data tiny "${small[@]}" --epochs 100000 --quiet >stdout 2>stderr &
    child=$!
    for _ in $(seq 1200); do
        name=$(cat /proc/$child/comm) # which it sets again after it has started itself again
        [ "$(tr '\0' '\n' 2>/dev/null <"/proc/$child/environ" | grep -c ^GOMP_SPINCOUNT=)" = 1 ] && [ "$name" = fftrain ] && break
        sleep 0.05
    done
    kill $child; wait $child
    check "started as $how it is called fftrain ($name)" test "$name" = fftrain
done

# ---- sets
mkdir named; cp -r tiny named/one; cp -r tiny named/two
refuses "splits of other names" 2 "named: has no split 'train'; name one of its sets: named/one, named/two" --data named "${small[@]}"
refuses "splits of other names in --val" 2 "named: has no split 'val';named/two" --data tiny --val named "${small[@]}"
check "a set without splits" "$fftrain" --data named/one "${small[@]}" --epochs 1
refuses "a missing set" 74 "nowhere" --data nowhere "${small[@]}"
mkdir hollow
refuses "a folder without a set" 65 "hollow: is not a packed dataset;ffpack SOURCE -o OUT packs images" --data hollow "${small[@]}"
refuses "a missing --val" 74 "nowhere" --data set --val nowhere "${small[@]}"
make raw --count 20 --dtype u8
refuses "u8 without statistics" 65 "raw: holds raw u8 values without the statistics;--stats compute" --data raw "${small[@]}"
make raw-statistics --count 20 --dtype u8 --statistics
check "u8 with statistics" "$fftrain" --data raw-statistics "${small[@]}" --epochs 1
make wide-integers --count 20 --dtype u16 --statistics
refuses "u16" 65 "wide-integers: holds u16 values;f16, bf16 or f32" --data wide-integers "${small[@]}"
for how in "--dtype f32 --layout hwc" "--dtype bf16 --compress 3" "--shuffle 4 --shard-size 64K"; do
    # shellcheck disable=SC2086
    make other-$count --count 60 --statistics $how
    check "a set made with $how" "$fftrain" --data other-$count "${small[@]}" --epochs 1 --order block
done
make variable --count 20 --variable --statistics
refuses "samples of several sizes" 65 "variable: its samples have different sizes (up to 32x32);--augment rrc=224,flip;--resize" --data variable "${small[@]}"
make boxes --count 20 --fields box,label
refuses "a label that is not a class" 2 "boxes: label field 'box' is of kind vector;kind class;--label" --data boxes "${small[@]}"
check "--label names the right one" "$fftrain" --data boxes "${small[@]}" --epochs 1 --label label
refuses "no such label" 2 "--label: boxes: has no label field colour; it has box, label" --data boxes "${small[@]}" --label colour
make unnamed --count 20 --fields id
check "classes without names" "$fftrain" --data unnamed "${small[@]}" --epochs 1
make bare --count 20 --fields ''
refuses "no label at all" 65 "bare: has no label field" --data bare "${small[@]}"
make partly --count 100 --height 12 --width 12 --unlabeled --statistics
without=$("${fftrain%/*}/ffinspect" partly --json | "$python" -c 'import json, sys; print(json.load(sys.stdin)["splits"][0]["fields"][0]["unlabeled"])')
"$fftrain" --data partly --val partly "${small[@]}" -n >stdout
check "samples without a label are counted ($without)" \
    grep -qx " *left out, without a label: $without samples of the training set, $without samples of the validation set" stdout
make unlabeled --count 100 --height 12 --width 12 --unlabeled
"$fftrain" --data tiny --val unlabeled "${small[@]}" --epochs 1 >stdout 2>stderr
judge "--val without statistics for a set with" 65 "tiny is normalized and unlabeled is not" $?
"$fftrain" --data unlabeled --val unlabeled "${small[@]}" --epochs 1 --log-json unlabeled.jsonl >stdout 2>stderr
check "unlabeled samples are left out" test $? -eq 0
[ -s stderr ] && sed 's/^/# /' stderr

# ---- resampling: samples of several sizes, from raw and compressed shards, by any number of workers
sized=(--splits train,val --count 48 --variable --height 40 --width 30 --statistics)
make sized "${sized[@]}"
make sized-zstd "${sized[@]}" --compress 3
make sized-u8 "${sized[@]}" --dtype u8
rrc=("${small[@]}" --epochs 2 --batch 48 --augment rrc=16:0.3-1,flip)
"$fftrain" --data sized "${rrc[@]}" --workers 1 --log-json sized.jsonl >stdout 2>stderr
check "random resized crops of samples of several sizes" test $? -eq 0
check "the summary names both sizes, crops and the evaluation" \
    test "$(grep -cE '^(data .* up to 3x40x30|augment +rrc=16:0.3-1,flip$|evaluation +resize 18, central crop 16x16$|model .*3x16x16)' stdout)" -eq 4
check "the log does so too" grep -q '"shape":\[3,16,16\].*"augment":"rrc=16:0.3-1,flip","val_resize":18' sized.jsonl
for how in "sized --workers 2" "sized --workers 0" "sized-zstd --workers 2"; do
    # shellcheck disable=SC2086
    "$fftrain" --data $how "${rrc[@]}" --log-json how.jsonl >stdout 2>stderr
    check "$how: the same losses after two steps" cmp <(results sized.jsonl) <(results how.jsonl)
    rm -f how.jsonl
done
check "two steps, each with its losses" test "$(results sized.jsonl | grep -c '"val_loss":[0-9.]')" -eq 2
check "u8 of several sizes" "$fftrain" --data sized-u8 "${rrc[@]}"
check "--val-resize" bash -c "'$fftrain' --data sized ${rrc[*]} --val-resize 24 -n | grep -q 'evaluation *resize 24, central crop 16x16'"
check "resize and crop" bash -c "'$fftrain' --data sized ${small[*]} --augment resize=20,crop,flip --crop 16 -n | grep -q 'evaluation *resize 20, central'"
check "of samples of one size, evaluated as they are" \
    bash -c "'$fftrain' --data tiny --val tiny ${small[*]} --epochs 1 --augment rrc=12,flip >stdout && ! grep -q ^evaluation stdout"
check "the sets' resizes may differ" bash -c "'$fftrain' --data tiny --val sized/val ${small[*]} --epochs 1 --augment rrc=12"
refuses "an evaluation smaller than the crop" 2 "sized/val: an output of 16x16;resized to 15x15" --data sized "${rrc[@]}" --val-resize 15
refuses "crops of two sizes" 2 "--crop 12 and rrc=16" --data sized "${rrc[@]}" --crop 12
refuses "a resize without an output size" 65 "sized/train: its samples have different sizes" --data sized "${small[@]}" --augment resize=20
refuses "rrc and crop" 2 "'rrc' and 'crop' exclude each other" --data sized "${small[@]}" --augment rrc=16,crop
refuses "a scale that is none" 2 "'rrc=16:0.5' has a value;SCALE" --data sized "${small[@]}" --augment rrc=16:0.5
check "samples of several sizes only in --val" \
    bash -c "'$fftrain' --data tiny --val sized/val ${small[*]} -n | grep -q 'evaluation *resize 13, central crop 12x12'"

# ---- sets that do not match
make gray --count 20 --channels 1 --height 12 --width 12 --statistics
refuses "channels" 65 "tiny has 3 channels and gray has 1" --data tiny --val gray "${small[@]}"
make wide --count 20 --height 12 --width 14 --statistics
refuses "sizes" 65 "tiny has samples of 12x12 and wide of 12x14;--crop" --data tiny --val wide "${small[@]}"
check "sizes, with --val-resize" "$fftrain" --data tiny --val wide "${small[@]}" --epochs 1 --val-resize 12
check "sizes, with --crop" "$fftrain" --data tiny --val wide "${small[@]}" --epochs 1 --crop 12
make more --count 20 --height 12 --width 12 --classes 7 --statistics
refuses "numbers of classes" 65 "'label' names 6 classes in tiny and 7 in more" --data tiny --val more "${small[@]}"
make odd --count 20 --height 12 --width 12 --odd-names --statistics
refuses "names of classes" 65 "class 0 is 'disk' in tiny and 'two%20words' in odd" --data tiny --val odd "${small[@]}"
mkdir idx
{ printf '\0\0\10\3\0\0\0\20\0\0\0\10\0\0\0\10'; head -c 1024 /dev/urandom; } >idx/train-images-idx3-ubyte
{ printf '\0\0\10\1\0\0\0\20'; printf '\0\1\2\3\0\1\2\3\0\1\2\3\0\1\2\3'; } >idx/train-labels-idx1-ubyte
printf 'a\nb\nc\nd\n' >abcd; printf 'a\nc\nb\nd\n' >acbd
pack() { "$ffpack" idx -o "$@" >log 2>&1 || sed 's/^/# /' log; }
pack half --mean 0.5 --std 0.25 --classes abcd
pack other --mean 0.4 --std 0.25 --classes abcd
pack swapped --mean 0.5 --std 0.25 --classes acbd
pack resized --mean 0.5 --std 0.25 --classes abcd --resize 12 --center-crop 8
refuses "statistics" 65 "half;mean of 0.5 in channel 0;other;0.4;--stats-from" --data half --val other "${small[@]}"
refuses "transforms" 65 "half;resized;transform 1 is;resize" --data half --val resized "${small[@]}"
check "transforms that make the size, with random resized crops" "$fftrain" --data half --val resized "${small[@]}" --epochs 1 --augment rrc=8
refuses "statistics, with random resized crops" 65 "mean of 0.5 in channel 0;0.4" --data half --val other "${small[@]}" --augment rrc=8
refuses "the order of classes" 65 "class 1 is 'b' in half;'c' in swapped" --data half --val swapped "${small[@]}"
pack bytes --mean 0.5 --std 0.25 --classes abcd --dtype u8
check "dtypes may differ" "$fftrain" --data half --val bytes "${small[@]}" --epochs 1

# ---- broken sets
broken() { rm -rf bad; cp -r tiny bad; }
broken; truncate -s 100 bad/index.ffx
refuses "a truncated index" 65 "bad/index.ffx" --data bad "${small[@]}"
broken; : >bad/index.ffx
refuses "an empty index" 65 "bad/index.ffx" --data bad "${small[@]}"
flip() { # FILE OFFSET: inverts a byte
    local byte; byte=$(od -An -tu1 -j "$2" -N 1 "$1")
    # shellcheck disable=SC2059
    printf "\\x$(printf %02x $((255 - byte)))" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}
broken; flip bad/index.ffx 9
refuses "a flipped byte in the index" 65 "bad/index.ffx" --data bad "${small[@]}"
broken; truncate -s 3000 bad/shard-000000.ffs
refuses "a truncated shard" 65 "bad/shard-000000.ffs;3000" --data bad "${small[@]}"
broken; rm bad/shard-000000.ffs
refuses "a missing shard" 74 "bad/shard-000000.ffs" --data bad "${small[@]}"
broken; flip bad/shard-000000.ffs $(($(stat -c %s bad/shard-000000.ffs) / 2))
refuses "a flipped byte in a shard" 65 "bad/shard-000000.ffs;checksum" --data bad "${small[@]}"
refuses "a flipped byte in a shard of --val" 65 "bad/shard-000000.ffs;checksum" --data tiny --val bad "${small[@]}"

# ---- while it runs
# begin ARGUMENT...: trains in the background and waits for the first epoch's line
begin() {
    rm -f run.jsonl
    "$fftrain" "$@" "${small[@]}" --epochs 100000 --quiet --log-json run.jsonl >stdout 2>stderr &
    child=$!
    while kill -0 $child 2>/dev/null && ! grep -qs '"epoch",' run.jsonl; do sleep 0.02; done
}
for workers in 0 2; do
    rm -rf shrinking; cp -r tiny shrinking
    begin --data shrinking --workers $workers
    truncate -s 4096 shrinking/shard-000000.ffs
    wait $child
    judge "a shard truncated while it is read, $workers workers" 74 "shrinking/shard-000000.ffs" $?
    rm -rf shrinking; cp -r sized/train shrinking
    begin --data shrinking --workers $workers --augment rrc=8
    truncate -s 4096 shrinking/shard-000000.ffs
    wait $child
    judge "the same while it is resampled, $workers workers" 74 "shrinking/shard-000000.ffs" $?
done
check "the log reports that it failed" grep -q '"event":"end","status":"failed"' run.jsonl
# Without a folder it is stopped; with one, INT saves a checkpoint, and what a scheduler sends exits with 75.
for how in INT:none:130 TERM:none:143 USR1:none:138 INT:stop-int:130 TERM:stop-term:75 USR1:stop-usr1:75; do
    IFS=: read -r signal folder wanted <<<"$how"
    begin --data tiny --out "$folder"
    kill -$signal $child
    wait $child; code=$?
    name="SIG$signal, --out $folder"
    judge "$name" "$wanted" "stopped by SIG$signal after step;epochs done" $code
    status=$([ "$wanted" = 75 ] && echo preempted || echo interrupted)
    check "$name: the log reports it" grep -q "\"event\":\"end\",\"status\":\"$status\"" run.jsonl
    check "$name: what was reached is printed" grep -q '^Accuracy' stdout
    [ "$folder" = none ] && continue
    check "$name: the checkpoint is named" grep -q -- "; --resume continues from $folder/checkpoints/step-" stderr
    check "$name: and is that of the last step" test "$(readlink "$folder/checkpoints/last")" = \
        "step-$(sed -n 's/.*stopped by SIG[A-Z0-9]* after step \([0-9]*\) .*/\1/p' stderr)"
done

# ---- values that are not numbers
make specials --count 64 --height 12 --width 12 --statistics --specials
refuses "NaN in the data" 1 "the training loss is NaN at the first step (epoch 1, learning rate;specials holds NaN or infinite values: samples" --data specials "${small[@]}"
refuses "a loss that explodes" 1 "the training loss became;step;epoch;learning rate;is the first that is not finite;lower --lr (it is 1e+06)" --data tiny "${small[@]}" --lr 1e6 --warmup 0 --weight-decay 10 --epochs 100
finish
