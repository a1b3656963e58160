#!/usr/bin/python3
"""`fftrain export --onnx`: onnx's checker accepts the file, and onnxruntime computes fftrain's logits from it, for
every kind of layer, on batches of any size. pip installs both into the build folder. Prints TAP. Environment: BUILD."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402

FFTRAIN = os.path.join(tap.BUILD, "fftrain")
# Prints the file's description, and writes the logits of all samples, computed in batches of 7 and the rest.
RUN = r"""
import json, sys
import numpy, onnx, onnxruntime
model = onnx.load(sys.argv[1])
onnx.checker.check_model(model, full_check=True)
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
images = numpy.load(sys.argv[2]).astype("float32")
logits = [session.run(["logits"], {"images": images[i:i + 7]})[0] for i in range(0, len(images), 7)]
numpy.save(sys.argv[3], numpy.concatenate(logits))
print(json.dumps({"input": session.get_inputs()[0].shape, "output": session.get_outputs()[0].shape,
                  "facts": {p.key: p.value for p in model.metadata_props},
                  "operators": sorted({node.op_type for node in model.graph.node}),
                  "names": [tensor.name for tensor in model.graph.initializer]}))
"""
python = None if tap.SANITIZE else tap.environment("onnx", "onnx==1.17.0", "onnxruntime==1.20.1", "protobuf==5.29.3")
try:
    import numpy
except ImportError:
    python = None
if not python:
    tap.skip("onnxruntime computes the same", "not under sanitizers" if tap.SANITIZE else "onnx and onnxruntime cannot be installed from PyPI")
    tap.finish()

place = tempfile.mkdtemp()
os.chdir(place)


def run(*arguments):
    done = subprocess.run([str(word) for word in arguments], capture_output=True, text=True, timeout=600)
    if done.returncode:
        tap.ok(False, " ".join(map(str, arguments)), done.stderr)
    return done.stdout


def centred(values):
    return values - values.mean(axis=1, keepdims=True)


def probabilities(*arguments):
    """fftrain's, [samples][classes]."""
    rows = []
    for line in run(FFTRAIN, "predict", "--top", 100, "--threads", 2, "--views", 1, *arguments).splitlines():
        row = sorted((one["class"], one["probability"]) for one in json.loads(line)["top"])
        rows.append([probability for _, probability in row])
    return numpy.array(rows)


def compare(name, folder, data, *more):
    text = run(FFTRAIN, "export", folder, "--onnx", "net.onnx", *more)
    done = subprocess.run([python, "-c", RUN, "net.onnx", data + ".npy", "logits.npy"], capture_output=True, text=True)
    if done.returncode:
        tap.ok(False, name, done.stderr)
        return None
    wanted = centred(numpy.log(probabilities("-c", folder, data, *more)))
    found = centred(numpy.load("logits.npy").astype("float64"))
    apart = numpy.linalg.norm(found - wanted) / numpy.linalg.norm(wanted)
    tap.ok(apart < 1e-5 and wanted.std() > 0.01 and text.startswith("net.onnx: "), name, "%g apart of %g" % (apart, wanted.std()))
    return json.loads(done.stdout)


def make(name, *arguments):
    run(tap.program("make_set"), name, "--splits", "train,test", "--statistics", "--classes", 7, *arguments)
    run(os.path.join(tap.BUILD, "ffinspect"), name + "/test", "--npy", name + "/test.npy")


make("small", "--count", 48, "--height", 32, "--width", 32)
make("large", "--count", 8, "--height", 72, "--width", 80)
facts, operators = {}, set()
NETS = tap.SHORT * [("smallnet", "small", 12)] + tap.LONG * [
    ("cifarnet", "small", 12), ("resnet18", "small", 12, "--ema", 0.5), ("resnet50", "small", 12), ("vgg11_bn", "small", 12),
    ("mobilenet_v2", "small", 12), ("resnet18", "large", 4), ("mobilenet_v2", "large", 4), ("vgg11", "small", 12),
    ("vgg11", "large", 4, "--optimizer", "sgd", "--momentum", 0)]
for model, data, batch, *more in NETS:
    folder = "%s-%s" % (model, data)
    run(FFTRAIN, "--data", data, "--model", model, "--batch", batch, "--epochs", 1, "--out", folder, "--keep", 1, "--quiet", "--threads", 2,
        *([] if model == "cifarnet" else ["--lr", 0.002]), *more)
    found = compare("%s, %s images: onnxruntime computes the same logits" % (model, data), folder, data + "/test")
    if found:
        facts[folder] = found
        operators |= set(found["operators"])
    if "--ema" in more:
        compare("and those of the average with --ema", folder, data + "/test", "--ema")
        same = open("net.onnx", "rb").read()
        run(FFTRAIN, "export", folder, "--onnx", "net.onnx")
        tap.ok(open("net.onnx", "rb").read() != same, "which is another net")
    if folder != "smallnet-small":
        shutil.rmtree(folder)
if tap.LONG:
    tap.ok(operators == {"Add", "BatchNormalization", "Clip", "Conv", "Div", "Erf", "Flatten", "Gemm", "GlobalAveragePool", "MatMul", "MaxPool",
                         "Mul", "Relu"}, "every operator was tried", operators)
if not tap.SHORT:
    os.chdir("/")
    shutil.rmtree(place)
    tap.finish()

one = facts["smallnet-small"]
header = json.loads(run(os.path.join(tap.BUILD, "ffinspect"), "small/test", "--json"))["splits"][0]
tap.ok(one["input"] == ["N", 3, 32, 32] and one["output"] == ["N", 7], "the batch may have any size", one)
tap.ok(one["names"][:2] == ["conv1.weight", "bn1.weight"] and "bn1.num_batches_tracked" not in one["names"], "initializers have torchvision's names",
       one["names"])
told = one["facts"]
tap.ok([float(word) for word in told["mean"].split()] == header["normalize"]["mean"] and
       [float(word) for word in told["std"].split()] == header["normalize"]["std"] and
       json.loads(told["classes"]) == header["fields"][0]["classes"] and told["transforms"].split("\n") == header["transforms"] and
       told["model"] == "smallnet" and (told["resize"], told["crop"], told["views"]) == ("", "", "1"),
       "metadata_props say what the images are", (told, header["fields"]))
how = ["--data", "large", "--model", "smallnet", "--batch", 4, "--augment", "rrc=24", "--views", 6, "--epochs", 1, "--threads", 2]
plan = run(FFTRAIN, *how, "--dry-run")
run(FFTRAIN, *how, "--out", "cut", "--quiet")
run(FFTRAIN, "export", "cut", "--onnx", "net.onnx")
numpy.save("middle.npy", numpy.load("large/test.npy")[:, :, 24:48, 28:52])
done = subprocess.run([python, "-c", RUN, "net.onnx", "middle.npy", "logits.npy"], capture_output=True, text=True)
told = json.loads(done.stdout)["facts"] if done.returncode == 0 else {}
found = re.search(r"resize (\d+), central crop (\d+x\d+)", plan)
tap.ok(found and (told.get("resize"), told.get("crop"), told.get("views")) == (*found.groups(), "6"),
       "and how an evaluation resizes, crops and looks at them", (told, plan, done.stderr))

# ---- beside the weights, and what can be wrong

text = run(FFTRAIN, "export", "smallnet-small", "-o", "weights.safetensors", "--onnx", "both.onnx")
tap.ok(os.path.getsize("weights.safetensors") > 1000 and open("both.onnx", "rb").read(2) == b"\x08\x08" and len(text.splitlines()) == 2,
       "with -o both are written", text)
for name, code, words, arguments in (
        ("neither -o nor --onnx", 2, "wanted fftrain export RUN -o FILE, or --onnx FILE", ["smallnet-small"]),
        ("--ema of a run without", 2, "--ema: smallnet-small/checkpoints/best has no average of the parameters",
         ["smallnet-small", "--ema", "--onnx", "bad.onnx"]),
        ("a folder that is not there", 74, "nowhere/net.onnx", ["smallnet-small", "--onnx", "nowhere/net.onnx"]),
        ("a full disk", 74, "/dev/full: ", ["smallnet-small", "--onnx", "/dev/full"])):
    done = subprocess.run([FFTRAIN, "export", *arguments], capture_output=True, text=True)
    said = [line for line in done.stderr.splitlines() if ": takes its checkpoint " not in line]
    tap.ok(done.returncode == code and words in done.stderr and len(said) == 1 and not os.path.exists("bad.onnx"), name,
           (done.returncode, done.stderr))

os.chdir("/")
shutil.rmtree(place)
tap.finish()
