#!/usr/bin/python3
"""Predictions for image files, which ffpack packs on the way: the numbers of a packed set, and PyTorch's; names
and orders of every kind; what is broken, missing or full; signals. Views and averages of evaluations. Prints TAP."""
import csv
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402

try:
    import numpy
    import torch
    import torchvision
    from PIL import Image
    from torchvision import transforms
except ImportError as missing:
    tap.skip("predictions", missing)
    tap.finish()

torch.set_num_threads(2)
rng = random.Random(int(os.environ.get("FF_SEED", "3")))
place = tempfile.mkdtemp()
os.chdir(place)
os.mkdir("temporary")
FFTRAIN, FFPACK = os.path.join(tap.BUILD, "fftrain"), os.path.join(tap.BUILD, "ffpack")
environment = dict(os.environ, OMP_NUM_THREADS="2", TMPDIR=os.path.join(place, "temporary"))
SHARED = os.path.join(tap.ROOT, "..", "shared", "data")


def run(*arguments, env=environment, program=FFTRAIN):
    return subprocess.run([program, *map(os.fsencode, map(str, arguments))], capture_output=True, env=env, timeout=300)


def made(*arguments, program=FFTRAIN):
    done = run(*arguments, program=program)
    if done.returncode:
        tap.ok(False, " ".join(map(str, arguments)), done.stderr.decode("utf-8", "replace"))
    return done.stdout.decode()


def predicted(*arguments):
    return [json.loads(line) for line in made("predict", *arguments).splitlines()]


def numbers(lines):
    return [(line["class"], line["name"], line["probability"], line["top"]) for line in lines]


def alike(lines, others):
    """The same numbers; a sample's place in its batch may change the last digits."""
    flat = [[(one[2], *(top["probability"] for top in one[3])) for one in numbers(each)] for each in (lines, others)]
    return [one[:2] for one in numbers(lines)] == [one[:2] for one in numbers(others)] and all(
        abs(x - y) < 1e-6 for one, other in zip(*flat) for x, y in zip(one, other))


def clean():
    """Whether no temporary folder is left."""
    return not os.listdir("temporary")


def refused(name, code, words, *arguments, env=environment, program=FFTRAIN):
    done = run(*arguments, env=env, program=program)
    said = done.stderr.decode("utf-8", "replace").splitlines()
    tap.ok(done.returncode == code and len(said) == 1 and all(word in said[0] for word in words) and not done.stdout and clean(), name,
           "exit code %d\n%s" % (done.returncode, "\n".join(said)))


def picture(width, height, shade):
    values = bytes(rng.randrange(256) for _ in range(48))
    small = Image.frombytes("RGB", (4, 4), values).resize((width, height), Image.BICUBIC)
    return Image.blend(small, Image.new("RGB", (width, height), (shade, 255 - shade, shade // 2)), 0.5)


def write(path, shade=0, form=None, size=None):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    width, height = size or (rng.randint(30, 70), rng.randint(30, 70))
    picture(width, height, shade).save(path, form)


def check_views(model, epochs=1):
    """epochs: until running statistics are those of the images; before, the deep net's logits are the same for all images and views."""
    run_of, logged, wrong = {}, {}, []
    for views in (1, 2, 6):
        folder = "%s-%d" % (model, views)
        made("--data", "f16", "--model", model, *COMMON, "--epochs", epochs, "--val-every", epochs, "--views", views, "--out", folder, "--ema", 0.5)
        logged[views] = [line for line in map(json.loads, open(folder + "/log.jsonl")) if line["event"] == "epoch"][-1]
    for views in (1, 2, 6):
        for more, prefix in (([], "val_"), (["--ema"], "val_ema_")):
            for arguments in (["-c", "%s-%d" % (model, views)], ["-c", model + "-1", "--views", views]):
                got = json.loads(made("evaluate", *arguments, "f16", "--json", "--threads", 2, "--batch", 12, *more))
                wanted = {"loss": logged[views][prefix + "loss"], "accuracy": logged[views][prefix + "accuracy"]}
                if any(got[key] != wanted[key] for key in wanted):
                    wrong.append((views, arguments, more, got, wanted))
    several = {json.dumps(logged[views]["val_loss"]) for views in (1, 2, 6)}
    tap.ok(not wrong and len(several) == 3 and logged[1]["val_ema_loss"] != logged[1]["val_loss"],
           "%s: views and averages give training's numbers" % model, (wrong, several))


def check_photographs():
    if os.path.exists(os.path.join(SHARED, "imagenet-sample-400.tar")):
        os.mkdir("real")
        subprocess.run(["tar", "xf", os.path.join(SHARED, "imagenet-sample-400.tar"), "-C", "real"], check=True)
        made("real", "-o", "real-set", "--resize", 72, "--center-crop", 64, *NORMALIZE, program=FFPACK)
        made("--data", "real-set", "--model", "smallnet", "--batch", 50, "--epochs", 1, "--quiet", "--out", "real-net")
        packed, files = predicted("-c", "real-net", "real-set"), predicted("-c", "real-net", "real")
        tap.ok(len(files) >= 400 and {json.dumps(one) for one in numbers(files)} == {json.dumps(one) for one in numbers(packed)} and
               [line["key"] for line in files] == ["real/" + line["key"] for line in packed], "photographs", (files[:1], packed[:1]))
    else:
        tap.skip("photographs", "../shared/data is not there")


def end():
    os.chdir("/")
    shutil.rmtree(place)
    tap.finish()


FORMS = ["jpg", "png", "webp", "bmp", "gif", "tif", "ppm"]
for split, count in (("train", 24), ("test", 7)):
    for number, name in enumerate(("cat", "dog", "Käse & more")):
        for i in range(count):
            write("photos/%s/%s/%03d.%s" % (split, name, i, FORMS[i % len(FORMS)]), 100 * number)
STEPS = ["--resize", 40, "--center-crop", 32, "--interpolation", "bicubic", *tap.pillow()]
NORMALIZE = ["--mean", "0.485,0.456,0.406", "--std", "0.229,0.224,0.225"]
COMMON = ["--batch", 12, "--epochs", 2, "--threads", 2, "--quiet", "--lr", 0.02]
for dtype in ("f16", "u8"):
    made("photos", "-o", dtype, "--dtype", dtype, *STEPS, *NORMALIZE, program=FFPACK)
    made("--data", dtype, "--model", "smallnet", *COMMON, "--out", "net-" + dtype)
made("--data", "f16", "--model", "resnet18", "--stem", "imagenet", *COMMON, "--out", "resnet", "--ema", 0.8)

if tap.LONG:
    check_views("resnet18")
    check_views("mobilenet_v2", epochs=10)
    check_photographs()
if not tap.SHORT:
    end()

# ---- the numbers of a packed set, and PyTorch's

for dtype in ("f16", "u8"):
    packed, files = predicted("-c", "net-" + dtype, dtype), predicted("-c", "net-" + dtype, "photos/test")
    tap.ok(len(packed) == 21 and numbers(files) == numbers(packed) and clean(), "%s: image files give the numbers of a packed set, to the last bit" % dtype,
           (files[:2], packed[:2]))
tap.ok([line["key"] for line in files] == ["photos/test/" + line["key"] for line in packed], "a folder's in the order of ImageFolder",
       [line["key"] for line in files])
with open("list.csv", "w") as file:
    file.write("path,split\n" + "".join('"%s",all\n' % line["key"] for line in files))
made("list.csv", "-o", "unlabelled", *STEPS, *NORMALIZE, program=FFPACK)
tap.ok(numbers(predicted("-c", "net-f16", "unlabelled")) == numbers(predicted("-c", "net-f16", "f16")), "a packed set without labels has the same")
refused("which cannot be evaluated", 2, ["unlabelled: label field 'label' is of kind none"], "evaluate", "-c", "net-f16", "unlabelled")


def weights(path):
    data = open(path, "rb").read()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__")
    kinds = {"F32": numpy.float32, "I64": numpy.int64}
    return {name: torch.from_numpy(numpy.frombuffer(data, kinds[one["dtype"]], (one["data_offsets"][1] - one["data_offsets"][0]) //
                                                    kinds[one["dtype"]]().itemsize, 8 + length + one["data_offsets"][0]).reshape(one["shape"]).copy())
            for name, one in header.items()}


def in_torch(path, names):
    net = torchvision.models.resnet18(num_classes=3)
    net.load_state_dict(weights(path), strict=True)
    steps = transforms.Compose([transforms.Resize(40, transforms.InterpolationMode.BICUBIC), transforms.CenterCrop(32), transforms.ToTensor(),
                                transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))])
    images = torch.stack([steps(Image.open(name).convert("RGB")) for name in names]).half().float()
    with torch.no_grad():
        return net.eval()(images).softmax(1).numpy()


for more in ([], ["--ema"]):
    made("export", "resnet", "-o", "weights.safetensors", *more)
    lines = predicted("-c", "resnet", "photos/test", *more)
    wanted = in_torch("weights.safetensors", [line["key"] for line in lines])
    apart = max(abs(one["probability"] - row[one["class"]]) for line, row in zip(lines, wanted) for one in line["top"])
    tap.ok(len(lines) == 21 and apart < 1e-5 and [line["class"] for line in lines] == wanted.argmax(1).tolist(),
           "Pillow, torchvision and the exported weights%s give the same probabilities" % (" of --ema" if more else ""), apart)
tap.ok({one["name"] for one in lines[0]["top"]} == {"cat", "dog", "Käse & more"}, "classes have their names", lines[0])

# ---- the order is that of the logits, also where the probabilities of several classes are 0 in float32

made("twelve", "--count", 120, "--splits", "train,test", "--height", 8, "--width", 8, "--classes", 12, "--statistics", program=tap.program("make_set"))
made("--data", "twelve", "--model", "smallnet", *COMMON, "--out", "net-twelve")
made("export", "net-twelve", "-o", "twelve.safetensors")
data = open("twelve.safetensors", "rb").read()
length = struct.unpack("<Q", data[:8])[0]
huge = bytearray(data)
for name, one in json.loads(data[8:8 + length]).items():
    if name in ("fc.weight", "fc.bias"):
        first, last = (8 + length + at for at in one["data_offsets"])
        huge[first:last] = (numpy.frombuffer(data[first:last], "<f4") * 1000).astype("<f4").tobytes()
open("huge.safetensors", "wb").write(huge)
plain, steep = (predicted("-c", name, "twelve", "--top", 12) for name in ("twelve.safetensors", "huge.safetensors"))
wrong, zeros = [], 0
for soft, hard in zip(plain, steep):
    logits = 1000 * numpy.log([one["probability"] for one in sorted(soft["top"], key=lambda one: one["class"])])
    powers = numpy.exp(logits - logits.max())
    found = [one["class"] for one in hard["top"]]
    zeros += sum(one["probability"] == 0 for one in hard["top"])
    if found != numpy.argsort(-logits, kind="stable").tolist() or hard["class"] != found[0] or abs(hard["probability"] - (powers / powers.sum()).max()) > 1e-3:
        wrong.append((soft, hard))
tap.ok(len(plain) == len(steep) > 9 and zeros > 5 * len(steep) and not wrong, "a head times 1000 keeps the order of all classes", (zeros, wrong[:2]))

# ---- names and orders

odd = ["a b.png", "line\nbreak.png", "-dash.png", 'quo"te,comma.png', "tab\there.png", "Käse.PNG", "no ending", "photos.jpg/.x/deep.jpg"]
for name in odd:
    write(name, form="PNG")
with open(b"\xff\xfe.png", "wb") as file:
    file.write(open("a b.png", "rb").read())
given = odd + ["a b.png", "\udcff\udcfe.png", "photos/test/dog/", os.path.abspath("-dash.png"), "photos/test/dog/003.bmp"]
lines = predicted("-c", "net-f16", "--", *given)
keys = [line["key"] for line in lines]
tap.ok(keys[:9] == odd + ["a b.png"] and keys[9] == "%FF%FE.png" and keys[10:17] == ["photos/test/dog/" + name for name in
       sorted(os.listdir("photos/test/dog"))] and keys[17:] == [os.path.abspath("-dash.png"), "photos/test/dog/003.bmp"],
       "names with blanks, line ends, quotes, dashes, without endings and not UTF-8; the order is the one given", keys)
twins = [b"%FF.png", b"\xff.png", b"%25FF.png", b"100%.png", b"A.png", b"%41.png"]
for name in twins:
    with open(name, "wb") as file:
        file.write(open("a b.png", "rb").read())
keys = [line["key"] for line in predicted("-c", "net-f16", "--", *map(os.fsdecode, twins))]
tap.ok([urllib.parse.unquote_to_bytes(key) for key in keys] == twins and keys[0] == "%25FF.png" and keys[4] == "A.png",
       "decoding %XX in a key gives the file's name, whatever is in it", keys)
tap.ok(numbers(lines)[0] == numbers(lines)[8] == numbers(lines)[9] and numbers(lines)[2] == numbers(lines)[17] and
       numbers(lines)[13] == numbers(lines)[18], "a file given twice is predicted twice")
alone = predicted("-c", "net-f16", "./-dash.png", "--top", 1)
tap.ok(alone[0]["class"] == lines[2]["class"] and len(alone[0]["top"]) == 1, "one file")
os.mkdir("many")
for i in range(10000):
    os.link("photos/test/cat/%03d.%s" % (i % 7, FORMS[i % 7]), "many/%d" % i)
lines = predicted("-c", "net-f16", *("many/%d" % i for i in range(10000)), "--top", 1)
kept = [line["class"] for line in lines[:7]]
tap.ok([line["key"] for line in lines] == ["many/%d" % i for i in range(10000)] and [line["class"] for line in lines] == [kept[i % 7] for i in range(10000)],
       "ten thousand files on a command line")

# ---- what is broken or missing

shutil.copytree("photos/test/cat", "mixed")
with open("mixed/001b.png", "wb") as file:
    file.write(open("mixed/001.png", "rb").read()[:200])
open("mixed/notes.txt", "w").close()
open("mixed/.hidden.jpg", "w").close()
done = run("predict", "-c", "net-f16", "mixed", "notthere.jpg", "photos/test/cat/000.jpg")
lines = [json.loads(line) for line in done.stdout.decode().splitlines()]
good = [line for line in lines if "class" in line]
bad = {line["key"]: line["error"] for line in lines if "error" in line}
tap.ok(done.returncode == 65 and [line["key"] for line in lines][2] == "mixed/001b.png" and len(lines) == 10 and
       set(bad) == {"mixed/001b.png", "notthere.jpg"} and "truncated" in bad["mixed/001b.png"] and "No such file" in bad["notthere.jpg"] and "/" not in "".join(bad.values()) and
       alike(good, (files_of_cat := predicted("-c", "net-f16", "photos/test/cat")) + files_of_cat[:1]) and clean(),
       "a broken image has a line with the error, and the others are predicted", (done.returncode, lines))
told = done.stderr.decode().splitlines()
tap.ok(told[0].startswith("fftrain: net-f16: takes its checkpoint best, step-") and
       told[1:] == ["fftrain: 1 file in folders left out, which are not named as images are", "fftrain: 2 of 10 images could not be read"],
       "the exit code is 65, and it is said", done.stderr)
done = run("predict", "-c", "net-f16", "mixed/001b.png")
tap.ok(done.returncode == 65 and b"mixed/001b.png" in done.stdout + done.stderr and clean(), "a broken image alone", (done.stdout, done.stderr))
done = run("predict", "-c", "net-f16", "mixed", "notthere.jpg", "--on-error", "skip")
told = done.stderr.decode().splitlines()[1:]
tap.ok(done.returncode == 0 and numbers([json.loads(line) for line in done.stdout.splitlines()]) == numbers(files_of_cat) and len(told) == 4 and
       told[0].startswith("fftrain: skipped mixed/001b.png: ") and "truncated" in told[0] and told[1].startswith("fftrain: skipped notthere.jpg: ") and
       told[3] == "fftrain: skipped 2 of 9 images, which could not be read", "--on-error skip leaves them out, lists and counts them", done.stderr)
done = run("predict", "-c", "net-f16", "mixed/001b.png", "--on-error", "skip")
tap.ok(done.returncode == 65 and not done.stdout and b"1 of 1 image could not be read" in done.stderr, "unless nothing is left", done.stderr)

# ---- -o FILE

names = [odd[1], odd[3], "mixed/001b.png", "photos/test/Käse & more"]
done = [run("predict", "net-f16", *names, "--top", 9, *more) for more in ([], ["-o", "out.jsonl"], ["-o", "out.csv"])]
lines = [json.loads(line) for line in done[0].stdout.splitlines()]
tap.ok([one.returncode for one in done] == [65] * 3 and not done[1].stdout and open("out.jsonl", "rb").read() == done[0].stdout, "-o out.jsonl has the same lines",
       done[1].stderr)
with open("out.csv", newline="", encoding="utf-8") as file:
    rows = list(csv.DictReader(file))
tap.ok(list(rows[0]) == ["key", "class", "name", "probability", "class_2", "name_2", "probability_2", "class_3", "name_3", "probability_3", "error"] and
       [row["key"] for row in rows] == [line["key"] for line in lines] and rows[2]["error"] == lines[2]["error"] and rows[2]["class_2"] == "" and
       all([(int(row["class" + at]), row["name" + at], numpy.float32(row["probability" + at])) for at in ("", "_2", "_3")] ==
           [(one["class"], one["name"], numpy.float32(one["probability"])) for one in line["top"]] and row["error"] == ""
           for row, line in zip(rows, lines) if "top" in line), "-o out.csv, too, each class once", rows[:3])
made("predict", "net-f16", "photos/test/cat", "--top", 1, "-o", "one.csv")
tap.ok(open("one.csv").readline() == "key,class,name,probability,error\n" and len(open("one.csv").readlines()) == 8, "--top 1")
refused("another ending", 2, ["out.txt", ".csv", ".jsonl"], "predict", "net-f16", "photos/test/cat", "-o", "out.txt")
done = run("predict", "net-f16", "photos/test/cat", "-o", "nowhere/out.csv")
tap.ok(done.returncode == 74 and b"nowhere" in done.stderr and clean(), "a file that cannot be written", done.stderr)
os.mkdir("empty")
refused("a path that is not there", 74, ["notthere: neither a packed set nor an image: No such file"], "predict", "-c", "net-f16", "notthere")
refused("an empty folder", 65, ["empty: neither a packed set nor a folder with files"], "predict", "-c", "net-f16", "empty")
refused("a packed set among images", 2, ["f16: is a packed set, which is predicted alone"], "predict", "-c", "net-f16", "photos/test", "f16")
refused("images without --checkpoint", 2, ["--checkpoint is missing"], "predict", "photos/test")
refused("nothing to predict", 2, ["nothing to predict is named"], "predict", "-c", "net-f16")
refused("two sets to evaluate", 2, ["unexpected argument 'u8'"], "evaluate", "-c", "net-f16", "f16", "u8")
refused("a checkpoint that is not there", 74, ["nothere: "], "predict", "-c", "nothere", "photos/test")


def strip(path, out):
    """The file without its texts, as PyTorch would write it."""
    data = open(path, "rb").read()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__")
    text = json.dumps(header).encode()
    open(out, "wb").write(struct.pack("<Q", len(text)) + text + data[8 + length:])


strip("weights.safetensors", "torch.safetensors")
refused("a file that does not say how its images were packed", 2, ["torch.safetensors: does not record how its images were packed", "--mean"],
        "predict", "-c", "torch.safetensors", "--model", "resnet18", "photos/test")
lines = predicted("-c", "torch.safetensors", "--model", "resnet18", "--stem", "imagenet", "f16")
tap.ok(numbers(lines) == numbers(predicted("-c", "weights.safetensors", "photos/test")), "whose packed set is predicted")
numpy.save("x.npy", numpy.random.RandomState(1).rand(40, 5, 12, 12).astype("float32"))
numpy.savez("arrays.npz", x_train=numpy.load("x.npy"), y_train=numpy.arange(40) % 3, x_test=numpy.load("x.npy"), y_test=numpy.arange(40) % 3)
made("arrays.npz", "-o", "arrays", "--array-layout", "chw", program=FFPACK)
made("--data", "arrays", "--model", "smallnet", *COMMON, "--out", "net-arrays")
refused("a net for arrays", 65, ["net-arrays/checkpoints/best: was trained on arrays with 5 channels, not on image files"], "predict", "-c", "net-arrays", "photos/test")

# ---- sets that record no size: images become as large; grey ones grey

for channels in (1, 3):
    data = "made-%d" % channels
    made(data, "--count", 60, "--splits", "train,test", "--height", 24, "--width", 28, "--channels", channels, "--statistics", program=tap.program("make_set"))
    made("--data", data, "--model", "smallnet", *COMMON, "--out", "net-" + data)
picture(28, 24, 7).save("exact.png")
picture(60, 50, 7).save("large.png")
Image.open("large.png").resize((28, 24), Image.BILINEAR).save("small.png")
Image.open("small.png").convert("L").save("grey.png")
large, small = predicted("-c", "net-made-3", "large.png", "small.png")
one, = predicted("-c", "net-made-3", "exact.png")  # alone, as the packed one: oneDNN 3.6 computes a batch of three in another order
with open("exact.csv", "w") as file:
    file.write("path,split\nexact.png,all\n")
made("exact.csv", "-o", "exact", "--stats-from", "made-3/train", program=FFPACK)
tap.ok(numbers([one]) == numbers(predicted("-c", "net-made-3", "exact")) and numbers([large]) == numbers([small]),
       "images of another size are resized to that of the training set", (one, large, small))
lines = predicted("-c", "net-made-1", "small.png", "grey.png")
tap.ok(len(lines) == 2 and numbers(lines)[0] == numbers(lines)[1], "and become grey for a net of one channel", lines)

for i in range(24):
    write("wide/%s/%s/%d.png" % (("train", "test")[i % 2], "ab"[i % 3 > 1], i), 40 * (i % 3), size=(60, 40))
made("wide", "-o", "wide-set", "--resize", 20, *NORMALIZE, program=FFPACK)
made("--data", "wide-set", "--model", "smallnet", *COMMON, "--out", "net-wide")
write("tall.png", size=(40, 60))
tap.ok(numbers(predicted("-c", "net-wide", "tall.png", "wide/test")[1:]) == numbers(predicted("-c", "net-wide", "wide-set")),
       "so they are where the training images had one proportion, whatever comes first")
write("sizes/one.png", size=(90, 70))
write("sizes/two.png", size=(50, 64))
for i in range(16):
    write("vary/%s/%s/%d.png" % (("train", "test")[i % 2], "ab"[i % 3 > 1], i), 40 * (i % 3), size=(50 + i, 70 - 2 * i))
made("vary", "-o", "vary-set", "--max-side", 60, *NORMALIZE, program=FFPACK)
made("--data", "vary-set", "--model", "smallnet", *COMMON, "--batch", 4, "--augment", "rrc=24,flip", "--out", "net-vary")
both, alone = predicted("-c", "net-vary", "sizes", "vary/test"), predicted("-c", "net-vary", "sizes/two.png")
tap.ok(numbers(both)[2:] == numbers(predicted("-c", "net-vary", "vary-set")) and abs(both[1]["probability"] - alone[0]["probability"]) < 1e-6,
       "and a net for samples of different sizes takes its resize and crop", (both[:3], alone))

# ---- sets without splits, of a single archive, and with a single one

with tarfile.open("photos.tar", "w") as tar:
    for name in sorted(os.listdir("photos/train")):
        tar.add(os.path.join("photos/train", name), name)
shutil.copytree("photos/train", "alone/train")
made("photos.tar", "-o", "whole", *STEPS, *NORMALIZE, program=FFPACK)
made("alone", "-o", "single", *STEPS, *NORMALIZE, program=FFPACK)
told = [made("--data", data, "--model", "smallnet", *COMMON[:-3], *COMMON[-2:], "--out", "net-" + data) for data in ("whole", "single")]
tap.ok("index.ffx" in os.listdir("whole") and os.listdir("single") == ["train"] and all("none; --val names a set" in text for text in told),
       "a set without splits, and one with train alone, are trained on without evaluation", told)
found = [json.loads(made("evaluate", "-c", "net-whole", data, "--json")) for data in ("whole", "single")]
tap.ok([one.pop("data") for one in found] == ["whole", "single/train"] and len({one["loss"] for one in found}) == 1 and found[0]["samples"] == 72,
       "both are evaluated", found)
files = predicted("-c", "net-single", "photos/train")
tap.ok(numbers(files) == numbers(predicted("-c", "net-whole", "whole")) == numbers(predicted("-c", "net-whole", "single")) and len(files) == 72,
       "and predicted, with the numbers of the image files")
tap.ok("Accuracy on whole: " in made("--data", "single", "--val", "whole", "--model", "smallnet", *COMMON, "--out", "none"), "one is the other's --val")
refused("the training split is no --val by itself", 2, ["single: has no split 'val'; name one of its sets: single/train"],
        "--data", "single", "--val", "single", "--model", "smallnet", "--out", "none")
refused("a split of a set without splits", 74, ["whole/train: no such folder; whole is a set without splits, name that"], "evaluate", "-c", "net-f16",
        "whole/train")
refused("an archive that is not packed", 65, ["photos.tar: is not a folder; a packed set is a folder that ffpack wrote"], "--data", "photos.tar",
        "--model", "smallnet")
refused("no set to evaluate on", 2, ["no packed set is named to evaluate on"], "evaluate", "-c",
        "net-f16/checkpoints/last/model.safetensors")

# ---- ffpack

os.mkdir("lone")
shutil.copy(FFTRAIN, "lone/fftrain")
lone = os.path.join(place, "lone/fftrain")
refused("no ffpack", 2, ["needs ffpack, which is neither next to fftrain nor in PATH"], "predict", "-c", "net-f16", "photos/test", program=lone,
        env=dict(environment, PATH="/nowhere"))
done = run("predict", "-c", "net-f16", "photos/test", program=lone, env=dict(environment, PATH="/nowhere:" + tap.BUILD))
tap.ok(done.returncode == 0 and len(done.stdout.splitlines()) == 21, "the one in PATH", done.stderr)
shutil.copy(FFPACK, "lone/ffpack")
done = run("predict", "-c", "net-f16", "photos/test", program=lone, env=dict(environment, PATH="/nowhere"))
tap.ok(done.returncode == 0 and len(done.stdout.splitlines()) == 21, "the one next to it", done.stderr)
if os.path.exists(tap.program("fftrain_sim")):
    done = run("predict", "-c", "net-f16", "photos/test", "--device", "cuda", "--views", 2, program=tap.program("fftrain_sim"),
               env=dict(environment, PATH=tap.BUILD + ":" + os.environ["PATH"]))
    lines, wanted = [json.loads(line) for line in done.stdout.splitlines()], predicted("-c", "net-f16", "photos/test", "--views", 2)
    tap.ok(len(lines) == 21 and max(abs(one["probability"] - other["probability"]) for one, other in zip(lines, wanted)) < 0.01,
           "on a simulated GPU, in f16, images without labels have the same probabilities", (done.stderr, lines[:1], wanted[:1]))
with open("lone/ffpack", "w") as file:
    file.write("#!/bin/sh\necho 'ffpack: a sentence' >&2\nexit 74\n")
refused("an ffpack that fails", 74, ["fftrain: ffpack: a sentence"], "predict", "-c", "net-f16", "photos/test", program=lone)

# ---- the temporary folder

refused("no temporary folder", 74, ["/nowhere/fftrain-", "cannot create the temporary folder"], "predict", "-c", "net-f16", "photos/test",
        env=dict(environment, TMPDIR="/nowhere"))
os.mkdir("tiny")
if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", "tiny"], capture_output=True).returncode == 0:
    try:
        done = run("predict", "-c", "net-f16", "many", *("many/%d" % i for i in range(2000)), env=dict(environment, TMPDIR=os.path.join(place, "tiny")))
        tap.ok(done.returncode == 74 and done.stderr.count(b"\n") == 1 and not os.listdir("tiny"), "a full disk: a temporary folder without space",
               (done.returncode, done.stderr, os.listdir("tiny")))
    finally:
        subprocess.run(["umount", "tiny"], check=True)
else:
    tap.skip("a full disk: a temporary folder without space", "a file system of limited size needs root")

# ---- signals, at several times; a reader that goes away


def stopped(number, whom, wait):
    process = subprocess.Popen([FFTRAIN, "predict", "-c", "resnet", *("many/%d" % i for i in range(10000))], stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, env=environment, start_new_session=True,
                               preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL))  # nohup may have started this test
    while process.poll() is None and clean():
        time.sleep(0.002)
    time.sleep(wait)
    if whom == "ffpack":
        with open("/proc/%d/task/%d/children" % (process.pid, process.pid), encoding="ascii") as file:
            os.kill(int(file.read()), number)
    else:
        (os.killpg if whom == "the group" else os.kill)(process.pid, number)
    said = process.stderr.read().decode()
    return process.wait(), said, clean()


for number, word in ((signal.SIGINT, "SIGINT"), (signal.SIGTERM, "SIGTERM"), (signal.SIGHUP, "a signal")):
    # A terminal's is for the group, and ffpack may end before fftrain takes its own. SIGHUP is fftrain's alone.
    for whom in ("fftrain", "the group", "ffpack")[:2 + (number != signal.SIGHUP)]:
        found = stopped(number, whom, 0.05 if whom == "the group" else 0.3)
        tap.ok(found == (128 + number, "fftrain: stopped by %s\n" % word, True), "%s to %s leaves nothing behind" % (word, whom), found)
script = '(while [ -z "$(ls temporary)" ]; do sleep 0.01; done; kill -HUP $$) & exec "$0" predict -c net-f16 many/1 many/2'
done = subprocess.run(["nohup", "sh", "-c", script, FFTRAIN], capture_output=True, env=environment, stdin=subprocess.DEVNULL)
tap.ok(done.returncode == 0 and len(done.stdout.splitlines()) == 2 and clean(), "nohup is respected", done.stderr)
process = subprocess.Popen([FFTRAIN, "predict", "-c", "net-f16", *("many/%d" % i for i in range(10000))], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, env=environment)
process.stdout.readline()
process.stdout.close()
said = process.stderr.read()
tap.ok(process.wait() == 74 and b"cannot write to the standard output" in said and clean(), "nor does a reader that goes away", said)

# ---- views and averages: the numbers of training

check_views("smallnet")
lines = {views: predicted("-c", "smallnet-1", "photos/test", "--views", views) for views in (1, 2, 6)}
tap.ok(all(numbers(lines[views]) == numbers(predicted("-c", "smallnet-%d" % views, "f16")) for views in lines) and
       numbers(lines[1]) != numbers(lines[2]) != numbers(lines[6]), "predictions of image files with views, too")
Image.open("exact.png").transpose(Image.FLIP_LEFT_RIGHT).save("mirrored.png")
one, other = predicted("-c", "net-made-3", "exact.png", "mirrored.png", "--views", 2)
plain = predicted("-c", "net-made-3", "exact.png", "mirrored.png")
tap.ok(abs(one["probability"] - other["probability"]) < 1e-6 and plain[0]["probability"] != plain[1]["probability"],
       "two views of an image and of its mirror image are the same", (one, other))
made("export", "smallnet-1", "--ema", "-o", "average.safetensors")
got = json.loads(made("evaluate", "-c", "average.safetensors", "f16", "--json", "--threads", 2, "--batch", 12))
epoch = [line for line in map(json.loads, open("smallnet-1/log.jsonl")) if line["event"] == "epoch"][-1]
tap.ok(got["loss"] == epoch["val_ema_loss"] and got["accuracy"] == epoch["val_ema_accuracy"], "export --ema has the average",
       (got, epoch))
refused("--ema of a run without", 2, ["--ema: net-f16/checkpoints/best has no average of the parameters"], "evaluate", "-c", "net-f16", "f16", "--ema")
refused("--ema of a file", 2, ["--ema: average.safetensors has no average"], "predict", "-c", "average.safetensors", "f16", "--ema")
refused("three views", 2, ["--views"], "evaluate", "-c", "net-f16", "f16", "--views", 3)

end()
