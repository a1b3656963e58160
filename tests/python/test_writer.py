#!/usr/bin/python3
"""ffload.Writer: arrays and labels of every kind give the bytes that ffpack gives for the same arrays in files; what
does not fit is refused, and nothing appears where the block raises or the process is killed. Prints TAP."""
import array
import fcntl
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402
import package  # noqa: E402
import ffload  # noqa: E402
import numpy  # noqa: E402
import torch  # noqa: E402
from PIL import Image  # noqa: E402

work = tempfile.TemporaryDirectory()
os.chdir(work.name)
PATH = {"PATH": os.environ["PATH"], "PYTHONPATH": package.FOLDER}
FFPACK = os.path.join(tap.BUILD, "ffpack")
random = numpy.random.RandomState(0)
U8 = random.randint(0, 256, (20, 3, 6, 7)).astype("u1")
names = itertools.count()


def write(samples, labels, **options):
    """The folder that a Writer made."""
    out = "out%d" % next(names)
    labels = itertools.repeat(None) if labels is None else labels
    with ffload.Writer(out, progress=False, **options) as writer:
        for sample, label in zip(samples, labels):
            writer.add(sample, label)
    assert writer.samples == sum(split["samples"] for split in writer.summary["splits"])
    return out


def packed(images, labels, *options):
    """The folder that ffpack made of these arrays."""
    out = "out%d" % next(names)
    os.makedirs(out + ".in")
    numpy.save(out + ".in/images.npy", images)
    if labels is not None:
        numpy.save(out + ".in/labels.npy", labels)
    subprocess.run([FFPACK, out + ".in", "-o", out, *options], check=True, capture_output=True)
    return out


def same(name, ours, wanted):
    ours, wanted = tap.files_of(ours), tap.files_of(wanted)
    tap.ok(ours == wanted and ours, name, sorted(ours) + sorted(wanted))


def left(out="out"):
    """What there is of OUT besides OUT."""
    return sorted(name for name in os.listdir(".") if name.startswith(out + "."))


def refused(name, samples, *pieces, kind=ffload.UsageError, **options):
    """The last sample, or the end of none, is refused with all the pieces; nothing is left."""
    added = False
    try:
        with ffload.Writer("refused", progress=False, **options) as writer:
            for i, (sample, label) in enumerate(samples):
                if i + 1 == len(samples):
                    assert writer.samples == i
                writer.add(sample, label)
                added = i + 1 == len(samples)
        said = "it was not refused"
    except Exception as error:
        said = str(error)
        good = type(error) is kind and "\n" not in said and all(piece in said for piece in pieces) and ".spool-" not in said and not added
        said = "" if good else "%s: %s" % (type(error).__name__, said)
    tap.ok(not said and not os.path.exists("refused") and not left("refused"), name, [said] + left("refused"))


class Bare:
    """An array that shows itself by __array_interface__ alone."""
    def __init__(self, values):
        self.values, self.__array_interface__ = values, values.__array_interface__


# ---- samples
CLASSES = numpy.arange(20) % 3
wanted = packed(U8, CLASSES, "--dtype", "u8")
for name, samples in [
        ("NumPy", U8),
        ("NumPy with gaps", numpy.repeat(U8, 2, 3)[..., ::2]),
        ("NumPy backwards", U8[:, :, :, ::-1].copy()[:, :, :, ::-1]),
        ("NumPy, its axes turned", numpy.ascontiguousarray(U8.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)),
        ("NumPy, read-only", [numpy.frombuffer(one.tobytes(), "u1").reshape(one.shape) for one in U8]),
        ("by __array_interface__", [Bare(one) for one in U8]),
        ("by it, with gaps", [Bare(one) for one in numpy.repeat(U8, 2, 3)[..., ::2]]),
        ("by it, backwards", [Bare(one) for one in U8[:, ::-1, :, ::-1].copy()[:, ::-1, :, ::-1]]),
        ("PyTorch", torch.from_numpy(U8)),
        ("PyTorch, its axes turned", torch.from_numpy(U8).contiguous(memory_format=torch.channels_last)),
        ("PyTorch with gaps", torch.from_numpy(numpy.repeat(U8, 2, 2))[:, :, ::2]),
        ("memoryviews", [memoryview(one.tobytes()).cast("B", one.shape) for one in U8]),
        ("ffload's tensors", [ffload.Dataset(wanted, as_="dlpack")[i][0] for i in range(20)])]:
    same("samples: " + name, write(samples, CLASSES, dtype="u8"), wanted)
same("samples: PIL", write([Image.fromarray(one.transpose(1, 2, 0)) for one in U8], CLASSES, dtype="u8"),
    packed(numpy.ascontiguousarray(U8.transpose(0, 2, 3, 1)), CLASSES, "--dtype", "u8"))
same("samples: PIL, grey", write([Image.fromarray(one[0]) for one in U8], CLASSES, dtype="u8"), packed(U8[:, 0], CLASSES, "--dtype", "u8"))
for kind in ("f2", "f4", "f8", ">f4", "u2", "i2", "i4", "i8", "b1"):
    values = (U8 > 99 if kind == "b1" else U8 / 255. if "f" in kind else U8).astype(kind)
    more = dict(range=(0, 255)) if kind in ("u2", "i2", "i4", "i8") else {}
    wanted = packed(values, CLASSES, "--dtype", "f32", *(["--range", "0,255"] if more else []))
    same("samples of " + kind, write(values, CLASSES, dtype="f32", **more), wanted)
    if kind not in (">f4", "u2"):  # torch has neither
        same("and of a tensor", write(torch.from_numpy(values).contiguous(memory_format=torch.channels_last), CLASSES,
            dtype=torch.float32, **more), wanted)
same("u16 as it is", write(U8.astype("u2"), CLASSES, dtype="u16", range=(0, 4095)), packed(U8.astype("u2"), CLASSES, "--dtype", "u16", "--range", "0,4095"))
square = random.randint(0, 256, (5, 4, 4, 4)).astype("u1")
for layout in ("chw", "hwc"):
    same("array_layout %s where both could be" % layout, write(square, None, array_layout=layout), packed(square, None, "--array-layout", layout))
same("seven channels", write(random.randint(0, 9, (5, 9, 9, 7)).astype("u1") * 0 + 5, None, array_layout="hwc", mean=[.5] * 7, std=[.5] * 7),
    packed(numpy.full((5, 9, 9, 7), 5, "u1"), None, "--array-layout", "hwc", "--mean", ",".join(["0.5"] * 7), "--std", ",".join(["0.5"] * 7)))
same("options", write(U8, CLASSES, dtype="f16", layout="hwc", mean=(.1, .2, .3), std=(.2, .3, .4), shuffle=3, compress="zstd", jobs=2),
    packed(U8, CLASSES, "--dtype", "f16", "--layout", "hwc", "--mean", "0.1,0.2,0.3", "--std", "0.2,0.3,0.4", "--shuffle", "3", "--compress", "zstd"))
BLOCK = """
import sys
sys.modules["numpy"] = sys.modules["torch"] = None
import array, ffload
values = array.array("f", range(48))
with ffload.Writer("bare", progress=False, dtype="f32") as writer:
    for i in range(4):
        writer.add(memoryview(values).cast("B").cast("f", (3, 4, 4)), i)
assert not any(name.split(".")[0] in ("numpy", "torch") and module for name, module in sys.modules.items())
"""
done = subprocess.run([sys.executable, "-c", BLOCK.replace("(3, 4, 4)", "(3, 2, 8)")], env=PATH, capture_output=True, text=True)
tap.ok(done.returncode == 0, "without NumPy and PyTorch", done.stderr)
same("the same bytes", "bare", packed(numpy.tile(numpy.arange(48, dtype="f4").reshape(1, 3, 2, 8), (4, 1, 1, 1)), numpy.arange(4), "--dtype", "f32", "--array-layout", "chw"))

# ---- labels
soft = random.dirichlet([1] * 4, 20)
hot = random.randint(0, 2, (20, 4))
for name, labels, wanted in [
        ("classes", [int(one) for one in CLASSES], CLASSES),
        ("classes of NumPy", CLASSES, CLASSES),
        ("classes of PyTorch", torch.from_numpy(CLASSES), CLASSES),
        ("classes as arrays of one", [numpy.array(one) for one in CLASSES], CLASSES),
        ("none at first, then classes", [None, None, *CLASSES[2:]], [-1, -1, *CLASSES[2:]]),
        ("classes, then none", [*CLASSES[:18], None, -1], [*CLASSES[:18], -1, -1]),
        ("none", None, None),
        ("multi-hot", hot, hot),
        ("multi-hot of booleans", torch.from_numpy(hot == 1), hot == 1),
        ("multi-hot as lists", hot.tolist(), hot),
        ("multi-hot as floats, as losses want it", hot.astype("f4"), hot),
        ("soft", soft, soft),
        ("whole numbers", hot * 10 ** 12, hot * 10 ** 12),
        ("floats", torch.from_numpy(soft * 3), soft * 3),
        ("one float", [float(one) for one in soft[:, 0]], soft[:, :1]),
        ("one float of NumPy", soft[:, 0].astype("f4"), soft[:, :1].astype("f4"))]:
    same("labels: " + name, write(U8, labels), packed(U8, None if wanted is None else numpy.array(wanted)))
open("names.txt", "w").write("cat\ndog\nbird\n")
wanted = packed(U8, CLASSES, "--classes", "names.txt")
for name, classes, labels in [
        ("of a list", ["cat", "dog", "bird"], CLASSES),
        ("of a file", "names.txt", CLASSES),
        ("as labels", ("cat", "dog", "bird"), [["cat", "dog", "bird"][one] for one in CLASSES])]:
    same("names of classes " + name, write(U8, labels, classes=classes), wanted)
NUMBERS = ["2", "0", "1"]  # classes that are called by numbers, in another order
open("numbers.txt", "w").write("".join(one + "\n" for one in NUMBERS))
write(U8[:3], [0, 1, 2], classes=NUMBERS)
os.rename("out%d" % (next(names) - 1), "known")
for name, labels, more in [
        ("whole numbers", [0, 1, 2, -1, None], dict(classes=NUMBERS)),
        ("lists of one", [[0], [1], [2]], dict(classes=NUMBERS)),
        ("names", ["2", "0", "1"], dict(classes=NUMBERS)),
        ("whole numbers, of a file", [0, 1, 2], dict(classes="numbers.txt")),
        ("whole numbers, of a set", [0, 1, 2], dict(classes_from="known")),
        ("whole numbers, of images that are resized", [0, 1, 2, -1, None], dict(classes=NUMBERS, resize=6, center_crop=6)),
        ("whole numbers that are names, where this is said", [2, 0, 1], dict(classes="numbers.txt", label_kind="names"))]:
    dataset = ffload.Dataset(write(U8, labels, **more), as_="numpy")
    found = [int(dataset[i][1]) for i in range(len(dataset))]
    tap.ok(found == [0, 1, 2, -1, -1][:len(labels)] and dataset.classes == NUMBERS, "classes called by numbers: " + name, found)
write(U8, hot, classes=["a", "0", "1", "2"])  # several classes of each sample: no number of one

# ---- sizes
sizes = [(5 + i % 4, 9 - i % 3) for i in range(20)]
for channels, mode in ((3, "rgb"), (1, "gray")):
    images = [random.randint(0, 256, (*size, channels)).astype("u1") for size in sizes]
    out = write([one if i % 2 else one.copy() for i, one in enumerate(images)], CLASSES, array_layout="hwc", max_side=20, dtype="u8")
    dataset = ffload.Dataset(out, as_="numpy")
    tap.ok(len(dataset) == 20 and all((dataset[i][0] == images[i].transpose(2, 0, 1)).all() and dataset[i][1] == CLASSES[i]
        for i in range(20)), "images of different sizes keep their values: " + mode)
    same("channels first, too: " + mode, write([one.transpose(2, 0, 1) for one in images], CLASSES, array_layout="chw", max_side=20, dtype="u8"), out)
    same("PIL's images, too: " + mode, write([Image.fromarray(one.squeeze()) for one in images], CLASSES, max_side=20, dtype="u8"), out)
    os.makedirs("pngs" + mode)
    listed = open("pngs" + mode + "/list.txt", "w")
    for i, one in enumerate(images):
        Image.fromarray(one.squeeze()).save("pngs%s/%03d.png" % (mode, i))
        listed.write("%03d.png\t%d\n" % (i, CLASSES[i]))
    listed.close()
    subprocess.run([FFPACK, "pngs" + mode + "/list.txt", "-o", "sized" + mode, "--mode", mode, "--resize", "6", "--center-crop", "5x6"], check=True, capture_output=True)
    theirs, ours = ffload.Dataset("sized" + mode, as_="numpy"), ffload.Dataset(write(images, CLASSES, array_layout="hwc", resize=6, center_crop=(5, 6)), as_="numpy")
    tap.ok(all((theirs[i][0] == ours[i][0]).all() and theirs[i][1] == ours[i][1] for i in range(20)), "resized and cropped as files are: " + mode)
same("resized without labels", write(U8, None, resize=6, center_crop=6), write([Image.fromarray(one.transpose(1, 2, 0)) for one in U8], None, resize=6, center_crop=6))
same("cropped floats", write(U8 / numpy.float32(255), CLASSES, center_crop=(4, 6), dtype="f32"), packed(U8 / numpy.float32(255), CLASSES, "--center-crop", "4x6", "--dtype", "f32"))

# ---- what is refused
good = [(U8[0], 1)]
refused("another shape", good + [(U8[0, :, 1:], 1)], "sample 1 is 3x5x7 of u1", "3x6x7 of u1", "max_side=")
refused("another type", good + [(U8[0].astype("f4"), 1)], "sample 1 is 3x6x7 of f4", "3x6x7 of u1")
refused("another number of channels", good + [(U8[0, :1], 1)], "1x6x7", "3 channels", max_side=9)
refused("floats of another size", [(U8[0] / 255., 1)], "max_side: is for u8 values", max_side=9)
refused("no channels", [(random.rand(9, 9, 9), 1)], "which axis", "array_layout")
refused("two axes that could be the channels", [(square[0], 1)], "which axis", "4x4x4")
refused("too many axes", [(U8, 1)], "[20, 3, 6, 7]")
refused("nothing in it", [(U8[0, :, :0], 1)], "[3, 0, 7]")
refused("complex numbers", [(U8[0] * 1j, 1)], "type")
refused("bfloat16", [(torch.zeros(3, 4, 4, dtype=torch.bfloat16), 1)], "bfloat16", "convert")
refused("a tensor with a gradient", [(torch.zeros(3, 4, 4, requires_grad=True), 1)], "grad")
refused("no array", [("x.png", 1)], "str is not an array")
refused("a palette", [(Image.fromarray(U8[0].transpose(1, 2, 0)).convert("P"), 1)], "mode P", "convert")
refused("whole numbers without a range", [(U8[0].astype("i4"), 1)], "the samples holds i32 values", "range")
refused("an option that does not exist", good, "Writer has no argument dtyp; did you mean dtype?", dtyp="u8")
refused("statistics of another number of channels", good, "mean", mean=(.5, .5), std=(.5, .5))
refused("an option that makes no sense", good, "dry_run", dry_run=True)
refused("another array_layout", good, "array_layout", "'nchw'", array_layout="nchw")
refused("a class below -1", good + [(U8[0], -2)], "label -2")
refused("a class beyond the names", good + [(U8[0], 2)], "label 2; wanted a class from 0 to 1", classes=["a", "b"])
refused("a name that is none", good + [(U8[0], "c")], "'c'", classes=["a", "b"])
refused("a name without names", good + [(U8[0], "c")], "classes=")
refused("a label that is none", good + [(U8[0], {})], "label {}")
refused("a label too large", good + [(U8[0], [2 ** 70, 1])], "label")
refused("several where one was", good + [(U8[0], [1, 0])], "2 whole numbers", "a class")
refused("more than before", [(U8[0], [1, 0]), (U8[0], [1, 0, 0])], "3 whole numbers", "2 whole numbers")
refused("none where several were", [(U8[0], [1., 0]), (U8[0], None)], "sample 1 has no label")
refused("several where none was", [(U8[0], None), (U8[0], [1., 0])], "sample 0 has no label")
refused("several of images that are resized", [(U8[0], [1, 0])], "a class", resize=6, center_crop=6)
refused("a class after none, of images that are resized", [(U8[0], None), (U8[0], 1)], "sample 1 has a class", "-1", resize=6, center_crop=6)
refused("a name with a line end", [], "'a\\nb'", classes=["a\nb"])
refused("names twice", good, "'a' is named twice", classes=["a", "a"])
refused("no sample at all", [], "no sample was added")
with ffload.Writer("deep/er/set", progress=False) as writer:
    writer.add(U8[0], 0)
tap.ok(len(ffload.Dataset("deep/er/set")) == 1 and os.listdir("deep/er") == ["set"], "the parents of OUT are created")
os.mkdir("there")
try:
    ffload.Writer("there")
    tap.ok(False, "an OUT that exists")
except ffload.UsageError as error:
    tap.ok("there exists" in str(error) and not left("there"), "an OUT that exists", error)
same("force replaces it", write(U8, CLASSES), write(U8, CLASSES))
writer = ffload.Writer("there", force=True, progress=False)
writer.add(U8[0], 0)
writer.close()
tap.ok(os.path.exists("there/index.ffx") and writer.close() is writer.summary and not left("there"), "closed without a block")
for call in (lambda: writer.add(U8[0], 0), ):
    try:
        call()
        tap.ok(False, "used after its end")
    except ffload.UsageError as error:
        tap.ok("closed" in str(error), "used after its end", error)
with ffload.Writer("goes_on", progress=False) as writer:
    for sample, label in [(U8[0], 0), (U8[0, :, 1:], 1), (U8[1], "x"), (U8[1], 1)]:
        try:
            writer.add(sample, label)
        except ffload.UsageError:
            pass
same("what was refused leaves no trace", "goes_on", packed(U8[:2], CLASSES[:2]))

# ---- ends
try:
    with ffload.Writer("raised", progress=False) as writer:
        writer.add(U8[0], 0)
        spools = left("raised")
        raise LookupError
except LookupError:
    pass
tap.ok(len(spools) == 1 and not left("raised") and not os.path.exists("raised"), "a block that raises leaves nothing", left("raised"))
KILLED = """
import ffload, os, signal, sys, time
writer = ffload.Writer("killed", progress=False)
for i in range(3000):
    writer.add(memoryview(os.urandom(3072)).cast("B", (3, 32, 32)), 0)
%s
"""
PACK = """
writer.options += ['--compress=zstd:19', '--jobs=1', '--shard-size=1M']
said = []
writer.progress = lambda *_: said or said.append(print('packs', flush=True))
"""


def start(text):
    return subprocess.Popen([sys.executable, "-c", KILLED % text], env=PATH, stdout=subprocess.PIPE)


def start_packing(text="writer.close()"):
    """A process that packs slowly, and its ffpack, which is at work: the one before it only looked at a sample."""
    process = start(PACK + text)
    assert process.stdout.readline() == b"packs\n"
    with open("/proc/%d/task/%d/children" % (process.pid, process.pid)) as file:
        return process, int(file.read())


def until(happened):
    """The bound only ends a test that hangs."""
    end = time.monotonic() + 120
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.005)


def is_over(spool):
    """Whether neither its Writer nor its ffpack lives."""
    try:
        handle = os.open(spool, os.O_RDONLY)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(handle)


process = start("print('ready', flush=True)\ntime.sleep(600)")
process.stdout.readline()
one = left("killed")
other = ffload.Writer("killed", progress=False)
tap.ok(one == [name for name in left("killed") if name in one] and len(left("killed")) == 2, "another's samples stay while it lives")
other.abort()
process.kill()
process.wait()
tap.ok(one == left("killed") and len(one) == 1 and not os.path.exists("killed"), "a kill leaves its samples next to OUT, and no OUT", left("killed"))
# While ffpack is at work, too: slow compression. It ends since nobody hears what it says.
process, _ = start_packing()
until(lambda: any(name.endswith(".ffs") for name in os.listdir("killed.partial")))
process.kill()
process.wait()
until(lambda: is_over(left("killed")[1]))
tap.ok(not os.path.exists("killed") and os.path.exists("killed.partial"), "one while ffpack packs, too", left("killed"))
process, packer = start_packing()
os.kill(packer, signal.SIGSTOP)
process.kill()
process.wait()
before = left("killed")
try:
    ffload.Writer("killed")
    said = ""
except ffload.UsageError as error:
    said = str(error)
tap.ok("killed.partial" in said and len(before) == 2 and left("killed") == before, "samples that a packer still reads are not removed", [said, before, left("killed")])
os.kill(packer, signal.SIGCONT)
until(lambda: is_over(before[-1]))
with ffload.Writer("killed", progress=False) as writer:
    tap.ok(len(left("killed")) == 1, "the next Writer of OUT removes what they left", left("killed"))
    writer.add(U8[0], 0)
tap.ok(os.path.exists("killed/index.ffx") and not left("killed"), "and succeeds", left("killed"))
shutil.rmtree("killed")
other = ffload.Writer("killed", progress=False)
other.add(U8[0], 0)
process, packer = start_packing()
os.kill(packer, signal.SIGSTOP)
try:
    other.close()
    said = "it packed"
except ffload.UsageError as error:
    said = str(error)
os.kill(packer, signal.SIGCONT)
tap.ok(process.wait() == 0 and "another ffpack is writing there" in said and len(ffload.Dataset("killed")) == 3000 and not left("killed"),
    "of two Writers the later one to end takes nothing away", [said, process.returncode, left("killed")])
os.mkdir("mine.partial")
os.mkdir("mine.spool-1")
try:
    ffload.Writer("mine")
    tap.ok(False, "another's unfinished packing")
except ffload.UsageError as error:
    tap.ok("mine.partial" in str(error) and left("mine") == ["mine.partial"], "another's unfinished packing is not touched", error)
INTERRUPTED = "try:\n writer.close()\nexcept KeyboardInterrupt:\n print(os.path.exists('killed.partial'), flush=True)"
shutil.rmtree("killed")
process, _ = start_packing(INTERRUPTED)
process.send_signal(signal.SIGINT)
tap.ok(process.communicate()[0] == b"False\n" and not left("killed") and not os.path.exists("killed"), "Ctrl-C at the end leaves nothing", left("killed"))
# It comes while Popen still waits for its child, which is ffpack already.
process = start(PACK + """
read = os.read
def late(*what):
    while not os.path.exists("killed.partial/shard-000000.ffs"):
        time.sleep(0.005)
    os.read = read
    signal.raise_signal(signal.SIGINT)
    return read(*what)
os.read = late
""" + INTERRUPTED)
tap.ok(process.communicate()[0] == b"False\n" and not left("killed") and not os.path.exists("killed"), "nor does Ctrl-C as ffpack begins", left("killed"))
process = start("sys.exit(0) if os.fork() == 0 else os.wait()\nwriter.add(memoryview(bytes(3072)).cast('B', (3, 32, 32)), 0)\nwriter.close()")
process.communicate()
tap.ok(len(ffload.Dataset("killed")) == 3001 and not left("killed"), "a fork that ends takes nothing away", left("killed"))
done = subprocess.run([sys.executable, "-c", """
import ffload, resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 20, 2 << 20))
try:
    with ffload.Writer("full", progress=False) as writer:
        for i in range(2000):
            try:
                writer.add(memoryview(bytes(3072)).cast("B", (3, 32, 32)), 0)
            except OSError as error:
                print("first", error.errno)
                writer.add(memoryview(bytes(3072)).cast("B", (3, 32, 32)), 0)
except ffload.Error as error:
    print("then", error)
"""], env=PATH, capture_output=True, text=True)
tap.ok(done.stdout.startswith("first 27\nthen full: nothing can be added after a failure") and not left("full") and not os.path.exists("full"),
    "a disk that is full ends it", done.stdout + done.stderr)
with ffload.Writer("threads", progress=False, dtype="u8") as writer:
    crowd = [threading.Thread(target=lambda i=i: [writer.add(U8[i], i) for _ in range(50)]) for i in range(4)]
    for one in crowd:
        one.start()
    for one in crowd:
        one.join()
dataset = ffload.Dataset("threads", as_="numpy")
tap.ok(len(dataset) == 200 and all((image == U8[label]).all() for image, label in (dataset[i] for i in range(200))),
    "threads may add")
calls = []
with ffload.Writer("progress", progress=lambda done, total: calls.append((done, total))) as writer:
    writer.add(U8[0], 0)
    assert not calls
tap.ok(calls[-1] == (1, 1), "progress is that of the end", calls)
os.chdir("/")
package.finish()
