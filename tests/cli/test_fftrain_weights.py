#!/usr/bin/python3
"""Weights as PyTorch users have them: files of torch.save in both forms, checkpoints of training programs, other names of tensors,
and hostile pickles. Prints TAP. The files are made without torch (tests/torch_files.py)."""
# Needs: fftrain tests/make_set
import collections
import datetime
import json
import os
import pickle
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import runs  # noqa: E402
import tap  # noqa: E402
import torch_files  # noqa: E402
from runs import fftrain, make, refused, stored  # noqa: E402
from torch_files import Call, Parameter, Storage, Tensor, save, save_old, state_dict  # noqa: E402

place = tempfile.mkdtemp()
os.chdir(place)
runs.ENVIRONMENT["OMP_NUM_THREADS"] = "2"
make("set", "--count", 60, "--splits", "train,test", "--height", 12, "--width", 12, "--statistics")
COMMON = ["--data", "set", "--model", "smallnet", "--batch", 20, "--threads", 2]
fftrain(*COMMON, "--epochs", 1, "--lr", 0.01, "--out", "run")
fftrain("export", "run", "-o", "w.safetensors")
KINDS = {"F32": "float32", "I64": "int64"}
ours = {name: (shape, KINDS[kind], data) for name, (kind, shape, data) in stored("w.safetensors")[0].items()}


def tensors(rename=lambda name: name, wrap=lambda tensor: tensor):
    return state_dict((rename(name), wrap(Tensor(Storage(data, kind), shape))) for name, (shape, kind, data) in ours.items())


def loaded(name, path, *words, wanted=None, options=()):
    """Passes where the run's first weights are those of `wanted` (smallnet's by default), bit for bit, and the words are said."""
    shutil.rmtree("loaded", ignore_errors=True)
    done = fftrain(*COMMON, "--epochs", 1, "--lr", 0, "--weight-decay", 0, "--freeze", "norm", "--frozen-norms", "eval", "--weights", path,
                   "--out", "loaded", *options)
    wanted = wanted or {key: data for key, (_, kind, data) in ours.items()}
    found = runs.stored_bytes("loaded/checkpoints/last/model.safetensors") if done.returncode == 0 else {}
    wrong = [key for key in wanted if wanted[key] != found.get(key) and "num_batches" not in key]
    said = " ".join(done.stdout.split())
    tap.ok(not wrong and all(word in said for word in words), name, [*wrong, done.stderr, said])


# ---- both forms

save("w.pth", tensors())
loaded("a state_dict of torch.save", "w.pth", "w.pth: 60 of 60" if len(ours) == 60 else "w.pth: %d of %d tensors loaded" % (len(ours), len(ours)))
save("wide.pth", tensors())
torch_files.widen("wide.pth")
loaded("a zip with zip64's records and a comment", "wide.pth")
save_old("old.pt", tensors())
loaded("and in the form before 1.6", "old.pt")
for protocol in (3, 4, 5):
    save("w.bin", tensors(), protocol)
    loaded("protocol %d" % protocol, "w.bin")
    save_old("old.bin", tensors(), protocol)
    loaded("protocol %d, in the form before 1.6" % protocol, "old.bin")
save("parameters.pth", tensors(wrap=Parameter))
loaded("parameters", "parameters.pth")
everything = b"".join(data for _, kind, data in ours.values() if kind == "float32")
one, at = Storage(everything), 0
flat = {}
for name, (shape, kind, data) in ours.items():
    if kind == "float32":
        flat[name] = Tensor(one, shape, offset=at)
        at += len(data) // 4
save("flat.pth", flat)
loaded("all tensors in one storage", "flat.pth")


def turned(shape, kind, data):
    """The same values as a view whose last index runs slowest."""
    if len(shape) < 2:
        return Tensor(Storage(data, kind), shape)
    values = struct.unpack("<%df" % (len(data) // 4), data)
    count, last = len(values), shape[-1]
    lines = [values[i::last] for i in range(last)]  # [last][others]
    stride, step = [], 1
    for side in reversed(shape[:-1]):
        stride.insert(0, step)
        step *= side
    return Tensor(Storage([7.0] * 3 + [value for line in lines for value in line]), shape, offset=3, stride=[*stride, count // last])


save("turned.pth", {name: turned(*one) for name, one in ours.items()})
loaded("views that are not contiguous", "turned.pth")

halves = {}
for name, (shape, kind, data) in ours.items():
    if kind == "float32":
        values = struct.unpack("<%df" % (len(data) // 4), data)
        bits = [int.from_bytes(data[i:i + 4], "little") >> 16 for i in range(0, len(data), 4)]
        halves[name] = (shape, values, bits)
for title, kind, pick in (("f16", "float16", 1), ("bf16", "bfloat16", 2), ("f64", "float64", 1)):
    save("kind.pth", {name: Tensor(one[pick], one[0], kind) for name, one in halves.items()})
    wanted = {}
    for name, (shape, values, bits) in halves.items():
        if kind == "bfloat16":
            wanted[name] = b"".join(struct.pack("<I", one << 16) for one in bits)
        else:
            form = "<%d%s" % (len(values), torch_files.FORMATS[kind])
            wanted[name] = struct.pack("<%df" % len(values), *struct.unpack(form, struct.pack(form, *values)))
    loaded("weights in " + title, "kind.pth", wanted=wanted)

# ---- what training programs save

Namespace = torch_files.stand_in("argparse", "Namespace")


def rest():
    """All else that they put next to the weights."""
    arguments = Namespace()
    arguments.__dict__.update(lr=0.1, name="été", sizes=[1, 2], when=datetime.timedelta(3))
    return {"epoch": 3, "best_acc1": Tensor([71.5], ()), "arch": "resnet50", "args": arguments, "seen": {1, 2}, "frozen": frozenset((3,)),
            "large": 10**30, "negative": -10**30, "bytes": b"\0\1" * 200, "nothing": None, "pi": 3.14159, "path": Call(complex, 1.0, 2.0),
            "optimizer": {"state": {0: {"momentum_buffer": Tensor(range(8), (2, 4)), "step": 3}}, "param_groups": [{"lr": 0.1, "params": [0]}]},
            "scheduler": collections.defaultdict(list, a=[1]), "mixed": Tensor([1, 2], (1,), "complex")}


for title, part in (("torchvision's references", "model"), ("Lightning and timm", "state_dict"), ("", "model_state"), ("", "model_state_dict"),
                    ("", "net"), ("a name of one's own", "my_weights")):
    save("all.pth", {**rest(), part: tensors()})
    loaded("a checkpoint with '%s'%s" % (part, title and ": " + title), "all.pth", "all.pth (its '%s'): " % part)
save_old("all-old.pth", {**{key: value for key, value in rest().items() if key != "mixed"}, "model": tensors()})
loaded("in the form before 1.6", "all-old.pth", "(its 'model')")
save("deep.pth", {"state_dict": {"model": tensors()}, "epoch": 1})
loaded("a part of a part", "deep.pth", "(its 'state_dict.model')")
zeros = {name: Tensor(Storage(bytes(len(data)), kind), shape) for name, (shape, kind, data) in ours.items()}
for part in ("model_ema", "state_dict_ema"):
    save("ema.pth", {part: {"n_averaged": Tensor([3], (), "int64"), **{"module." + name: value for name, value in zeros.items()}},
                     "model": tensors()})
    loaded("'model' is taken and not '%s'" % part, "ema.pth", "(its 'model')")
    done = fftrain("evaluate", "-c", "ema.pth", "--model", "smallnet", "set", "--ema", "--json")
    loss = json.loads(done.stdout)["loss"] if done.returncode == 0 else done.stderr
    tap.ok(loss == 1.791759469 or abs(float(loss) - 1.791759469) < 1e-6, "evaluate --ema takes '%s'" % part, done.stdout + done.stderr)
refused("--ema without an average", 2, ["--ema: all.pth has no average of the weights", "it has epoch (a whole number), best_acc1 (a tensor)"], "evaluate", "-c", "all.pth", "--model",
        "smallnet", "set", "--ema")
for prefix in ("module.", "_orig_mod.", "backbone.", "module._orig_mod.", "model.", "net.encoder."):
    save("prefix.pth", {"model": tensors(lambda name: prefix + name), "epoch": 2})
    loaded("names that begin with " + prefix, "prefix.pth", "(its 'model', names without '%s')" % prefix)
twice = tensors(lambda name: "query." + name)
twice.update(tensors(lambda name: "key." + name))
save("twice.pth", twice)
refused("weights of two nets in one", 65, ["several times, as under 'query.' and 'key.'"], *COMMON, "--weights", "twice.pth", "--out", "none")
headless = state_dict((name, value) for name, value in tensors().items() if not name.startswith("fc"))
save("headless.pth", headless)
loaded("no head in the file", "headless.pth", "not in the file, so the head keeps its initial values",
       wanted={name: ours[name][2] for name in headless})
done = fftrain("evaluate", "-c", "headless.pth", "--model", "smallnet", "set")
tap.ok(done.returncode == 65 and "is missing" in done.stderr or "are missing" in done.stderr, "which is refused where it is not trained", done.stderr)

# ---- refused, each in one sentence

Net = torch_files.stand_in("shop.nets", "Net")


def bad(title, value, *words, code=65, old=False, name="bad.pth", **how):
    (save_old if old else save)(name, value, **how)
    done = fftrain(*COMMON, "--weights", name, "--out", "none")
    lines = done.stderr.splitlines()
    tap.ok(done.returncode == code and len(lines) == 1 and all(word in lines[0] for word in words) and not os.path.exists("ran"), title,
           "exit code %d\n%s" % (done.returncode, done.stderr))


for title, attack in (("os.system", Call(os.system, "touch ran")), ("eval", Call(eval, "open('ran', 'w')")),
                      ("exec", Call(exec, "open('ran', 'w')")), ("commands.Popen", Call(subprocess.Popen, ["touch", "ran"]))):
    for where, value in (("alone", attack), ("beside the weights", {"model": tensors(), "x": attack}), ("in them", {**tensors(), "x": attack})):
        for old in (False, True):
            bad("%s %s%s" % (title, where, ", in the old form" if old else ""), value, "asks to run", title if title != "os.system" else "posix.system",
                "nothing was run", old=old)
net = Net()
net.weight = 3
bad("a whole model", net, "holds an object of shop.nets.Net", '.state_dict(), "weights.pth")')
bad("a whole model as a part", {"model": net, "epoch": 1}, "its 'model' holds an object of shop.nets.Net", 'weights_only=False)["model"].state_dict()')
bad("an object among the weights", {**tensors(), "extra": net}, "'extra' is an object of shop.nets.Net, and no tensor that is read")
bad("no weights", {"epoch": 3, "args": net}, "no state_dict is found in it; it has epoch (a whole number), args (an object of shop.nets.Net)",
    "torch.save(torch.load(")
bad("two that could be meant", {"student": tensors(), "teacher": tensors()}, "no state_dict is found in it; it has student (a dict), teacher (a dict)")
bad("a list", [1, 2], "holds a list; a state_dict is wanted")
bad("nothing", {}, "no state_dict is found in it; it has nothing")
for title, offset, shape, stride in (("a side too long", 0, (5, 2), (2, 1)), ("an offset too large", 7, (2, 1), (1, 1)), ("a stride too large", 0, (2, 2), (7, 1)),
                                     ("a product beyond 2^64", 0, (2**40, 2**40), (0, 0)), ("a stride whose product wraps", 0, (5, 2), (2**62, 1)),
                                     ("strides whose sum wraps", 0, (3, 2), (2**63 - 1, 2)),
                                     ("an offset that wraps", 2**63 - 1, (2,), (2,))):
    for old in (False, True):
        bad("a tensor beyond its storage: " + title, {"a": Tensor(Storage(range(8)), shape, offset=offset, stride=stride)},
            "a tensor whose elements lie beyond the 8 of its storage '0'", old=old)
bad("a negative side", {"a": Tensor(Storage(range(8)), (-2, 2), stride=(2, 1))}, "a tensor's shape that torch.save does not write")
bad("9 dimensions", {"a": Tensor(Storage(range(8)), (1,) * 9, stride=(1,) * 9)}, "a tensor's shape that torch.save does not write")
lies = Storage(range(8))
lies.count = 2**62
bad("a storage beyond its file", {"a": Tensor(lies, (2**62,), stride=(1,))}, "storage '0' has 32 bytes, too few for its 4611686018427387904 elements F32")
bad("a storage that is cut", tensors(), "too few for its", cut=4)
bad("a storage that is missing", tensors(), "which is missing", skip=["2"])
bad("big-endian numbers", tensors(), "has big-endian numbers", byteorder="big")
bad("big-endian numbers in the old form", tensors(), "has big-endian numbers", old=True, little=False)
bad("a compressed zip", tensors(), "is compressed; torch.save stores what it writes as it is", compression=zipfile.ZIP_DEFLATED)
loop = {}
loop["model"] = loop
bad("a dict in itself", loop, "lies too deep in it")
loop = {"model": {}}
loop["model"]["model"] = loop
bad("dicts in one another", loop, "lies too deep in it")


def raw(title, data, *words):
    """A pickle of these bytes, in a zip and in the old form."""
    with zipfile.ZipFile("raw.pth", "w") as file:
        file.writestr("archive/data.pkl", data)
    magic = b"".join(pickle.dumps(one, 2) for one in (0x1950a86a20f9469cfc6c, 1001, {"little_endian": True}))
    with open("raw-old.pth", "wb") as file:
        file.write(magic + data)
    for path in ("raw.pth", "raw-old.pth"):
        done = fftrain(*COMMON, "--weights", path, "--out", "none", limit=tap.limit_memory if not tap.SANITIZE else None)
        lines = done.stderr.splitlines()
        tap.ok(done.returncode == 65 and len(lines) == 1 and all(word in lines[0] for word in words), "%s, %s" % (title, path),
               "exit code %d\n%s" % (done.returncode, done.stderr))


deep = 2000
raw("lists in one another", b"\x80\2" + b"]" * deep + b"a" * (deep - 1) + b".", "holds a list")
raw("marks in one another", b"\x80\2" + b"(" * deep + b"t" * deep + b".", "marks in one another")
raw("a string of 2^62 bytes", b"\x80\4\x8d" + struct.pack("<Q", 2**62) + b"x.", "a string of 4611686018427387904 bytes")
raw("a memo of number 2^32 - 1", b"\x80\2]r\xff\xff\xff\xff.", "memo 4294967295")
# 30 lists of two of the one before would be 2^30 values where they were copied.
raw("a memo bomb", b"\x80\2]q\0" + b"".join(b"]q" + bytes([i]) + b"(h" + bytes([i - 1]) + b"h" + bytes([i - 1]) + b"e" for i in range(1, 31)) + b".",
    "stops with 31 values")
raw("many calls", b"\x80\2ccollections\nOrderedDict\nq\0)q\1R" + b"h\0h\1R0" * 400000 + b".", "no state_dict is found in it")
raw("many names", b"\x80\2" + b"".join(b"cm\nn%d\n0" % i for i in range(300)) + b"N.", "imports more than 256 names")
raw("an extension", b"\x80\2\x82\1.", "holds an extension code")
raw("a persistent id as text", b"\x80\2P1\n.", "holds a persistent id")
raw("a persistent id of nothing", b"\x80\2NQ.", "a persistent id that torch.save does not write")
raw("a call of a number", b"\x80\2K\1)R.", "calls a whole number")
raw("a cut pickle", b"\x80\2}", "ends at byte")

# ---- files that are not what they seem

with open("w.pth", "rb") as file:
    whole = file.read()


def file_is(title, data, *words, name="odd.pth", code=65):
    with open(name, "wb") as file:
        file.write(data)
    refused(title, code, words, *COMMON, "--weights", name, "--out", "none")


file_is("a zip that is cut", whole[:-30], "is cut off")
file_is("a zip that is cut in the middle", whole[:len(whole) // 2], "is cut off")
spot = whole.index(ours["conv1.weight"][2][:64]) + 5
file_is("a changed byte of a tensor", whole[:spot] + bytes([whole[spot] ^ 1]) + whole[spot + 1:], "is damaged", "differ from their CRC-32")
spot = whole.index(b"conv1.weight") + 2
file_is("a changed byte of the pickle", whole[:spot] + b"X" + whole[spot + 1:], "is damaged", "archive/data.pkl")
with open("old.pt", "rb") as file:
    whole_old = file.read()
file_is("the old form that is cut", whole_old[:-3], "ends after the file's", "is it cut off?")
file_is("a pickle of something else", pickle.dumps({"a": 1}, 2), "is a pickle, but not as torch.save writes it")
file_is("a tar", b"x" * 257 + b"ustar" + bytes(300), "is a tar, as PyTorch before 0.2 wrote")
file_is("a page of an error", b"<html><head><title>404 Not Found</title></head></html>", "odd.pth: is neither", "torch.save")
file_is("an empty file", b"", "odd.pth")
with zipfile.ZipFile("other.pth", "w") as other:
    other.writestr("a/readme.txt", "x")
refused("a zip of something else", 65, ["is a zip without a data.pkl"], *COMMON, "--weights", "other.pth", "--out", "none")
with zipfile.ZipFile("script.pth", "w") as other:
    other.writestr("net/data.pkl", pickle.dumps({}, 2))
    other.writestr("net/constants.pkl", pickle.dumps((), 2))
refused("a program of TorchScript", 65, ["is a program of TorchScript", "torch.jit.load"], *COMMON, "--weights", "script.pth", "--out", "none")

# ---- the form of the net follows the weights

make("small", "--count", 24, "--splits", "train,test", "--height", 16, "--width", 16, "--statistics")
NET = ["--data", "small", "--batch", 12, "--threads", 2]
fftrain(*NET, "--model", "resnet18", "--stem", "imagenet", "--epochs", 1, "--lr", 0.01, "--out", "large")
done = fftrain("export", "large", "large.pth")
tap.ok(done.returncode == 0 and open("large.pth", "rb").read(2) == b"PK", "export RUN FILE.pth writes torch.save's form", done.stderr)


def says(title, words, *arguments, code=0):
    done = fftrain(*arguments)
    said = " ".join((done.stdout + done.stderr).split())
    tap.ok(done.returncode == code and all(word in said for word in words), title, said)


says("--weights decides the stem", ["resnet18, imagenet stem as in the weights", "large.pth: 122 of 122 tensors loaded"], *NET, "--model", "resnet18",
     "--weights", "large.pth", "--dry-run")
says("a run's as well", ["imagenet stem as in the weights", "122 of 122"], *NET, "--model", "resnet18", "--weights", "large", "--dry-run")
refused("another --stem is refused, and the one that fits is named", 65,
        ["1 of its tensors has another shape (conv1.weight [64, 3, 7, 7] in place of [64, 3, 3, 3]); --stem imagenet fits them"], *NET, "--model", "resnet18",
        "--stem", "cifar", "--weights", "large.pth", "--dry-run")
refused("of another model the one that fits is named", 65, ["of its tensors are missing (", "; --model resnet18 fits them"], *NET, "--model", "resnet34",
        "--weights", "large.pth", "--dry-run")
fftrain(*NET, "--model", "resnet18", "--weights", "large.pth", "--epochs", 1, "--out", "tuned")
tap.ok(runs.recipe("tuned").get("stem") == "imagenet", "the run's recipe has the stem")
says("and a resumed run keeps it", ["resumes from"], "--resume", "tuned", "--epochs", 2)


def evaluated(*arguments):
    done = fftrain("evaluate", *arguments, "--json", "--threads", 2)
    return json.loads(done.stdout)["loss"] if done.returncode == 0 else done.stderr


tap.ok(evaluated("large.pth", "--model", "resnet18", "small") == evaluated("large", "small"), "evaluate sees the stem, too",
       [evaluated("large.pth", "--model", "resnet18", "small"), evaluated("large", "small")])
refused("and names it where another is asked for", 65, ["--stem imagenet fits them"], "evaluate", "large.pth", "--model", "resnet18", "--stem", "cifar", "small")
refused("--pretrained reports how to get them", 2, ["torchvision.models.resnet50(weights=\"DEFAULT\").state_dict(), \"resnet50.pth\")", "--weights resnet50.pth"],
        *NET, "--model", "resnet50", "--pretrained")

# timm's names, by a table of its own: blocks of MobileNetV2 in timm's order
fftrain(*NET, "--model", "mobilenet_v2", "--epochs", 1, "--lr", 0.01, "--out", "mobile")
fftrain("export", "mobile", "-o", "mobile.safetensors")
table, block = {"features.0.0": "conv_stem", "features.0.1": "bn1", "features.18.0": "conv_head", "features.18.1": "bn2", "classifier.1": "classifier"}, 1
for stage, blocks in enumerate((1, 2, 3, 4, 3, 3, 1)):
    for i in range(blocks):
        parts = ["conv_dw", "bn1", "conv_pw", "bn2"] if stage == 0 else ["conv_pw", "bn1", "conv_dw", "bn2", "conv_pwl", "bn3"]
        places = ["0.0", "0.1", "1", "2"] if stage == 0 else ["0.0", "0.1", "1.0", "1.1", "2", "3"]
        for part, at in zip(parts, places):
            table["features.%d.conv.%s" % (block, at)] = "blocks.%d.%d.%s" % (stage, i, part)
        block += 1


def timm(name):
    layer, kind = name.rsplit(".", 1)
    return table[layer] + "." + kind


torch_mobile = {timm(name): Tensor(Storage(data, KINDS[kind]), shape) for name, (kind, shape, data) in stored("mobile.safetensors")[0].items()}
save("timm.pth", {"state_dict": {"module." + name: tensor for name, tensor in torch_mobile.items()}, "arch": "mobilenetv2_100"})
says("timm's names", ["timm.pth (its 'state_dict', names without 'module.', timm's): 314 of 314 tensors loaded"], *NET, "--model", "mobilenet_v2", "--weights",
     "timm.pth", "--dry-run")
tap.ok(evaluated("timm.pth", "--model", "mobilenet_v2", "small") == evaluated("mobile", "small"), "and the numbers of torchvision's")
del torch_mobile["conv_head.weight"]
save("timm.pth", torch_mobile)
refused("what is missing is named", 65, ["1 of its tensors is missing (features.18.0.weight)"], *NET, "--model", "mobilenet_v2", "--weights", "timm.pth", "--dry-run")

# ---- which checkpoint of a run, and which set

fftrain(*COMMON, "--epochs", 3, "--lr", 0.05, "--out", "three", "--keep", 9, "--checkpoint-every", "1")
steps = sorted(int(name[5:]) for name in os.listdir("three/checkpoints") if name.startswith("step-"))
first = "step-%d" % steps[0]
os.remove("three/checkpoints/best")
os.symlink(first, "three/checkpoints/best")
own = evaluated("-c", "three/checkpoints/" + first, "set/test")
tap.ok(len(steps) == 3 and own != evaluated("-c", "three/checkpoints/last", "set/test"), "the first checkpoint differs from the last", steps)
for title, arguments in (("-c RUN", ["-c", "three", "set/test"]), ("evaluate RUN SET", ["three", "set/test"]), ("evaluate RUN", ["three"]),
                         ("evaluate -c RUN", ["-c", "three"])):
    done = fftrain("evaluate", *arguments, "--json", "--threads", 2)
    tap.ok(done.returncode == 0 and json.loads(done.stdout)["loss"] == own and json.loads(done.stdout)["data"].endswith("set/test") and
           done.stderr == "fftrain: three: takes its checkpoint best, %s\n" % first, title + " takes the best one, and reports it", done.stdout + done.stderr)
one, other = (fftrain("predict", *words).stdout for words in (["three", "set/test"], ["-c", "three/checkpoints/" + first, "set/test"]))
tap.ok(one == other and one.count("\n") == 30, "predict RUN SET as well", one[:200])
fftrain("export", "three", "three.safetensors")
tap.ok(runs.stored_bytes("three.safetensors") == runs.stored_bytes("three/checkpoints/%s/model.safetensors" % first), "and export RUN FILE")
says("and --weights RUN", ["three/checkpoints/best/model.safetensors: "], *COMMON, "--weights", "three", "--dry-run")
os.remove("three/checkpoints/best")
done = fftrain("evaluate", "three", "--json", "--threads", 2)
tap.ok(done.returncode == 0 and json.loads(done.stdout)["loss"] == evaluated("-c", "three/checkpoints/last", "set/test") and
       "takes its checkpoint last, step-%d" % steps[-1] in done.stderr, "a run without one: the last", done.stdout + done.stderr)
tap.ok(fftrain("evaluate", "three/checkpoints/" + first, "--json").stderr == "", "a checkpoint that is named is taken without a word")
refused("weights without a run have no set", 2, ["no packed set is named to evaluate on"], "evaluate", "three.safetensors")
refused("nothing is named", 2, ["--checkpoint is missing, or a run first"], "evaluate")
fftrain(*COMMON, "--epochs", 1, "--val", "none", "--out", "alone")
refused("a run without validation has no set", 2, ["the run of alone/checkpoints/last had no validation set"], "evaluate", "alone")
shutil.rmtree("set")
make("set", "--count", 60, "--splits", "train,test", "--height", 12, "--width", 12, "--statistics", "--seed", 5)
says("a set that was packed again", ["set/test: holds other samples than when the run evaluated on it", "do not compare the accuracies"], "evaluate", "three", "--any-normalization")

# ---- export by the file's ending

fftrain("export", "three", "-o", "three.onnx")
fftrain("export", "three", "--onnx", "wanted.onnx")
tap.ok(open("three.onnx", "rb").read() == open("wanted.onnx", "rb").read(), "-o x.onnx is --onnx x.onnx")
fftrain("export", "run", "-o", "again.pth")
with zipfile.ZipFile("again.pth") as file:
    tap.ok(file.testzip() is None and file.read("archive/byteorder") == b"little" and
           all(one.compress_type == 0 for one in file.infolist()), "-o x.pth is a zip with right checksums")
make("set2", "--count", 60, "--splits", "train,test", "--height", 12, "--width", 12, "--statistics")
COMMON[1] = "set2"
loaded("which --weights reads", "again.pth", "again.pth: ")
refused("two ONNX files", 2, ["one ONNX file is written"], "export", "three", "-o", "a.onnx", "--onnx", "b.onnx")

# ---- classes without names: the head has their number

make("numbers", "--count", 40, "--splits", "train,test", "--height", 12, "--width", 12, "--statistics", "--fields", "id")
done = fftrain("evaluate", "w.pth", "--model", "smallnet", "numbers", "--json")
tap.ok(done.returncode == 0 or "label" in done.stderr, "a set without class names takes the head's number", done.stdout + done.stderr)
refused("no head, no number", 2, ["has no head of smallnet that would show their number"], "evaluate", "headless.pth", "--model", "smallnet", "numbers")

os.chdir("/")
shutil.rmtree(place)
tap.finish()
