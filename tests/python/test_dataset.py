#!/usr/bin/env python3
"""ffload.Dataset: samples, labels, keys and what is known of a set, compared with the second reader; processes, threads, ends. TAP."""
# Needs: python-package ffpack ffinspect tests/dump_set tests/make_set
import gc
import os
import pickle
import shutil
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from package import PLACE, finish, make_set, python, raises  # noqa: E402
import tap  # noqa: E402
import ffload  # noqa: E402

tap.ok("numpy" not in sys.modules and "torch" not in sys.modules, "importing ffload imports no array library")
import numpy  # noqa: E402

reader = tap.second_reader()


def Dataset(path, **words):
    return ffload.Dataset(path, **{"as_": "numpy", **words})


WORKERS = """
import sys, torch, ffload
plain = ffload.Dataset(sys.argv[1], label="label")
batches = list(torch.utils.data.DataLoader(plain, batch_size=10, num_workers=2, multiprocessing_context=sys.argv[2]))
images, labels = torch.cat([batch[0] for batch in batches]), torch.cat([batch[1] for batch in batches])
assert images.numpy().tobytes() == b"".join(plain._own.sample(i).tobytes() for i in range(100))
assert labels.tolist() == [plain[i][1] for i in range(100)]
"""

# PyTorch installs handlers of its own in the workers of a DataLoader, of SIGBUS, too.
CUT = """
import os, sys, torch, ffload
class Cut(ffload.Dataset):
    def __getitem__(self, i):
        if i == 3:
            os.truncate(os.path.join(sys.argv[1], "shard-000000.ffs"), 4097)
        return super().__getitem__(i)
try:
    list(torch.utils.data.DataLoader(Cut(sys.argv[1]), 1, num_workers=1, multiprocessing_context="fork"))
except OSError as error:
    sys.exit("/shard-000000.ffs: offset 5" not in str(error))
sys.exit("no error")
"""

# ---- samples, as the second reader reads them ----
OTHERS = {"f16": (), "f32": ("--layout", "hwc"), "u8": ("--compress", 3), "u16": ("--channels", 1), "bf16": ()}
for dtype, more in OTHERS.items():
    path = make_set("of-" + dtype, "--dtype", dtype, "--count", 40, "--height", 8, "--width", 6, "--fields", "all", "--unlabeled", *more)
    npy, log = os.path.join(PLACE, dtype + ".npy"), os.path.join(PLACE, "log")
    status = tap.run([sys.executable, os.path.join(tap.ROOT, "tests", "second_reader.py"), path, "--npy", npy])
    wanted, found = numpy.load(npy), Dataset(path)
    samples = numpy.stack([found[i][0] for i in range(len(found))])
    tap.ok(samples.dtype == wanted.dtype and samples.tobytes() == wanted.tobytes() and len(found) == 40, "%s: every sample" % dtype, status)
    tap.ok(found.shape == wanted.shape[1:] and found.dtype == dtype and found.layout == ("hwc" if dtype == "f32" else "chw"),
           "%s: shape, dtype and layout" % dtype, (found.shape, found.dtype))
    if dtype != "u8":
        views = [found.view(i) for i in range(40)]
        tap.ok(numpy.stack([numpy.asarray(view) for view in views]).tobytes() == wanted.tobytes(), "%s: every view" % dtype)
        tap.ok(all(view.read_only for view in views) and not numpy.asarray(views[0]).flags.writeable, "%s: views are read-only" % dtype)
    tap.ok(found[-1][0].tobytes() == wanted[39].tobytes() and found[0][0].flags.writeable, "%s: from the end; copies may be written" % dtype)

every = Dataset(make_set("every", "--count", 30, "--fields", "all", "--unlabeled", "--odd-names", "--odd-keys"), fields=True)
dump = tap.run([tap.program("dump_set"), every.path]).stdout.decode()
import json  # noqa: E402
lines = [json.loads(line) for line in dump.splitlines()]
samples = [line for line in lines if "key" in line]
keys = [os.fsdecode(bytes.fromhex(line["key"])) for line in samples]
tap.ok(len(keys) == 30 and list(every.keys) == keys and every.keys[3] == keys[3] and every.keys[-2:] == keys[-2:], "keys of odd bytes", dump[:2000])
tap.ok(any("\udc80" <= letter <= "\udcff" for key in keys for letter in key), "among them some that are not UTF-8")

# ---- labels ----
good = True
for i in range(30):
    _, labels = every[i]
    good = good and list(labels) == [name for name in every.fields if name != "none"]
    for name, value in labels.items():
        field = every.fields[name]
        if field["kind"] == "class":
            good = good and isinstance(value, int) and -1 <= value and (not field["classes"] or value < len(field["classes"]))
        else:
            good = good and value.shape == (field["width"],)
tap.ok(good, "labels by name: a class is an int, others are arrays")
tap.ok(any(every[i][1]["label"] == -1 for i in range(30)), "-1 if there is none")
one = Dataset(every.path, label="soft")
tap.ok(one[2][1].shape == (every.fields["soft"]["width"],) and (one[2][1] == every[2][1]["soft"]).all(), "label= gives one alone")
tap.ok(raises(ffload.UsageError, lambda: ffload.Dataset(every.path, label="sofd"), "no label field 'sofd'", "soft"), "a field that there is not")
tap.ok(every.classes == every.fields["label"]["classes"] and [os.fsencode(name) for name in every.classes] ==
       [bytes.fromhex(name) for name in lines[0]["fields"][0]["classes"]] and "100% \"quoted\"" in every.classes, "classes of odd bytes", every.classes)

# ---- what is known ----
plain = Dataset(make_set("plain", "--count", 100, "--height", 8, "--width", 8))
tap.ok(plain.mean == [0.25, 0.3125, 0.375] and plain.std == [0.25, 0.28125, 0.3125], "mean and std", (plain.mean, plain.std))
known = json.loads(tap.run([os.path.join(tap.BUILD, "ffinspect"), plain.path, "--json"]).stdout)["splits"][0]
tap.ok(plain.ids == known["ids"] and plain.provenance == {"source": "made-up", "ffpack": "0.0.0"}, "ids and provenance", plain.provenance)
tap.ok("100 samples" in repr(plain) and plain.describe()["samples"] == 100, "what it says of itself")
unnamed = Dataset(make_set("none", "--count", 5, "--fields", ""))
tap.ok(unnamed[1][1] is None and unnamed.labels is None and unnamed.targets is None and Dataset(unnamed.path, fields=True)[0][1] == {} and unnamed.classes == [], "a set without labels")

# ---- wrong calls ----
tap.ok(raises(IndexError, lambda: plain[100], "sample 100 of a set with 100") and raises(IndexError, lambda: plain[-101]), "an index beyond the end")
# ---- whatever NumPy and torch take as an index ----
numbered = Dataset(plain.path)
each = [numbered[number] for number in range(100)]


def same_samples(found, numbers):
    return len(found) == len(numbers) and all((image == each[number][0]).all() and labels == each[number][1] for (image, labels), number in zip(found, numbers))


rng = numpy.random.default_rng(3)
mask = rng.random(100) < 0.2
for index in (slice(3, 9), slice(None, None, -7), slice(95, 200), [4, 4, -1], (7, 2), range(0, 100, 33), rng.permutation(100)[:9], numpy.array([], int), mask, mask.tolist(), list(mask), [numpy.array(one) for one in (3, 5)]):
    tap.ok(same_samples(numbered[index], numpy.arange(100)[list(index) if isinstance(index, (tuple, range)) else index].tolist()), "dataset[%s]" % repr(index)[:40].replace("\n", " "))
for one in (numpy.int64(3), numpy.uint8(3), numpy.array(3)):
    tap.ok(same_samples([numbered[one]], [3]) and numbered.keys[one] == numbered.keys[3] and (numpy.asarray(numbered.view(one)) == each[3][0]).all(), "an index of type %s" % type(one).__name__)
for wrong, kind in ((1.5, TypeError), ("3", TypeError), ([1.5], TypeError), ([True, False], IndexError), (mask[:99], IndexError), ([True, 2], IndexError), ([True] * 100 + [2], IndexError), ([100], IndexError), (numpy.array([0.5]), TypeError)):
    tap.ok(raises(kind, lambda: numbered[wrong]), "dataset[%s] is refused" % repr(wrong)[:30].replace("\n", " "))
tap.ok(raises(ffload.BadData, lambda: ffload.Dataset(os.path.dirname(plain.path)), "holds one split; name ", "train"), "a folder of splits names them")
tap.ok(raises(FileNotFoundError, lambda: ffload.Dataset(os.path.join(plain.path, "train")), "is a set without splits, name that"), "a split of a set without splits")
tap.ok(raises(ffload.BadData, lambda: ffload.Dataset(PLACE)) and raises(FileNotFoundError, lambda: ffload.Dataset("/nowhere/at/all"), "no such folder: '/nowhere/at/all'"), "a path that is not a set")
colon = os.path.join(PLACE, "a: b", "set: 1")
shutil.copytree(plain.path, colon)
os.mkdir(os.path.join(PLACE, "a: b", "later.partial"))
[shard] = [os.path.join(colon, name) for name in os.listdir(colon) if name.endswith(".ffs")]
for path, broken in ((os.path.join(PLACE, "a: b", "none: 2"), lambda: None), (os.path.join(PLACE, "a: b", "later"), lambda: None), (shard, lambda: os.remove(shard))):
    broken()
    try:
        ffload.Dataset(colon if path == shard else path)[0]
        found = None
    except OSError as error:
        found = type(error), error.errno, error.filename
    tap.ok(found == (FileNotFoundError, 2, path), "an OSError has its file's whole name: %s" % os.path.basename(path), found)
tap.ok(raises(ffload.UsageError, lambda: ffload.Dataset(plain.path, verify="never"), "never") and
       raises(ffload.UsageError, lambda: ffload.Dataset(plain.path, as_="pandas"), "pandas"), "an argument that is none")
tap.ok(raises(ffload.UsageError, lambda: ffload.Dataset(os.path.join(PLACE, "of-u8", "train")).view(0)), "no view of a compressed set")
tap.ok(raises(TypeError, ffload.Tensor), "tensors are not made by hand")

# ---- ends ----
closed, view = Dataset(plain.path), None
view, copy = closed.view(4), closed[4][0]
closed.close()
closed.close()
tap.ok(raises(ffload.UsageError, lambda: closed[4], "the dataset is closed") and raises(ffload.UsageError, lambda: len(closed)), "after close")
tap.ok((numpy.asarray(view) == copy).all(), "a view keeps the set open")
with ffload.Dataset(plain.path) as inside:
    inside[0]
tap.ok(raises(ffload.UsageError, lambda: inside[0]), "a with closes")
del view, copy
gc.collect()

# ---- bad data ----
broken = os.path.join(PLACE, "broken")
shutil.copytree(plain.path, broken)
shard = [name for name in os.listdir(broken) if name.endswith(".ffs")][0]
with open(os.path.join(broken, shard), "r+b") as file:
    file.seek(4096 + 5 * 384 + 7)
    byte = file.read(1)
    file.seek(-1, 1)
    file.write(bytes([byte[0] ^ 1]))
bad = ffload.Dataset(broken)
wrong = []
for i in range(100):
    try:
        bad[i]
    except ffload.BadData as error:
        wrong.append((i, str(error)))
tap.ok(len(wrong) == 1 and shard in wrong[0][1], "a changed bit is found", wrong)
tap.ok(raises(ffload.BadData, bad.verify, shard), "by verify, too")
try:
    bad.verify()
except ffload.BadData as error:
    tap.ok(len(error.problems) >= 1 and str(error) in error.problems[0] + str(error), "which lists the problems", error.problems)
seen = []
plain.verify(lambda done, total: seen.append((done, total)))
tap.ok(seen and seen[-1][0] == seen[-1][1] > 100 * 384, "verify of a good one reports how far it is", seen[-3:])
os.truncate(os.path.join(broken, shard), 8192)
tap.ok(any(raises(kind, lambda: bad[90], shard) for kind in (OSError, ffload.BadData)), "a shard that shrank while it is open")

# ---- threads ----
errors = []


def read_all():
    try:
        for i in range(100):
            if every[i % 30][0].tobytes() != expected[i % 30]:
                errors.append(i)
    except Exception as error:  # noqa: BLE001
        errors.append(error)


expected = [every[i][0].tobytes() for i in range(30)]
threads = [threading.Thread(target=read_all) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
tap.ok(not errors, "four threads read one set", errors)


def read_until_closed(closing):
    try:
        while True:
            closing[7]
    except Exception as error:  # noqa: BLE001
        errors.append("%s: %s" % (type(error).__name__, error))


for number in range(100):
    closing = ffload.Dataset(plain.path)
    threads = [threading.Thread(target=read_until_closed, args=(closing,)) for _ in range(3)]
    [thread.start() for thread in threads]
    time.sleep(number * 1e-4)
    closing.close()
    [thread.join(60) for thread in threads]
tap.ok(errors == ["UsageError: the dataset is closed"] * 300, "a set is closed while three threads read it, a hundred times: every reader gets UsageError", set(errors))

# ---- processes ----
again = pickle.loads(pickle.dumps(ffload.Dataset(plain.path, label="label", as_="numpy")))
tap.ok(len(again) == 100 and again[3][1] == plain[3][1], "pickled by its path and settings")
pid = os.fork()
if pid == 0:
    os._exit(0 if all((plain[i][0] == again[i][0]).all() for i in range(100)) and len(plain.keys[0]) else 1)
tap.ok(os.waitpid(pid, 0)[1] == 0, "a forked child reads it")
pid = os.fork()
if pid == 0:
    plain.close()
    del again
    gc.collect()
    os._exit(0)
tap.ok(os.waitpid(pid, 0)[1] == 0 and plain[0][0].shape == (3, 8, 8), "and closes what it inherited")

# ---- another set at its path: numbers and labels of one, and samples of the other, would be a mixture ----
path = os.path.join(PLACE, "replaced")
shutil.copytree(plain.path, path)
held = Dataset(path, label="label")
kept, first = pickle.dumps(held), held[0]
os.rename(path, path + ".old")
shutil.copytree(make_set("other", "--count", 100, "--height", 8, "--width", 8, "--seed", 77), path)
pid = os.fork()
if pid == 0:
    os._exit(0 if all(raises(ffload.BadData, lambda: held[0], path + ": was replaced by another set") for _ in range(2)) else 1)
tap.ok(os.waitpid(pid, 0)[1] == 0, "a forked child refuses another set, each time")
tap.ok(raises(ffload.BadData, lambda: pickle.loads(kept), path + ": was replaced by another set"), "a pickle refuses another set")
tap.ok((first[0] == plain[0][0]).all() and all((held[i][0] == plain[i][0]).all() and held[i][1] == plain[i][1] for i in range(100)), "what is open stays the set that it was")
shutil.rmtree(path)
shutil.copytree(plain.path, path)
pid = os.fork()
if pid == 0:
    os._exit(0 if (held[3][0] == plain[3][0]).all() else 1)
tap.ok(os.waitpid(pid, 0)[1] == 0 and (pickle.loads(kept)[3][0] == plain[3][0]).all(), "a copy of the set is the set")

# ---- array libraries ----
tap.ok(issubclass(ffload.UsageError, ValueError), "UsageError is a ValueError")
hwc = Dataset(os.path.join(PLACE, "of-f32", "train"))
tensor = hwc._own.sample(2)
tap.ok(numpy.asarray(tensor).tobytes() == tensor.tobytes() and len(tensor) == 8 and tensor.nbytes == 8 * 6 * 3 * 4 and tensor.device == "cpu" and
       repr(tensor) == "ffload.Tensor(shape=(8, 6, 3), dtype=f32, device=cpu)", "a Tensor reports what it is", repr(tensor))
import ctypes  # noqa: E402
name_of = ctypes.pythonapi.PyCapsule_GetName
name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
tap.ok(name_of(tensor.__dlpack__()) == b"dltensor" and name_of(tensor.__dlpack__(max_version=(1, 1))) == b"dltensor_versioned" and
       name_of(tensor.__dlpack__(max_version=(0, 8))) == b"dltensor" and tensor.__dlpack_device__() == (1, 0), "DLPack with and without versions")
view = plain.view(0)
tap.ok(raises(BufferError, view.__dlpack__, "read-only") and name_of(view.__dlpack__(max_version=(1, 0))) == b"dltensor_versioned" and
       name_of(view.__dlpack__(copy=True)) == b"dltensor", "a view goes out where it can be told read-only, or as a copy")
tap.ok(raises(BufferError, lambda: tensor.__dlpack__(dl_device=(2, 0)), "another device"), "not to another device")
tap.ok(raises(AttributeError, lambda: tensor.__cuda_array_interface__), "and it is not CuPy's")
if numpy.lib.NumpyVersion(numpy.__version__) >= "1.23.0":
    tap.ok((numpy.from_dlpack(tensor) == numpy.asarray(tensor)).all(), "NumPy takes it by DLPack")
try:
    import torch
except ImportError:
    torch = None
if torch is None:
    tap.skip("torch", "it is not installed")
else:
    image, label = ffload.Dataset(plain.path, label="label")[9]
    tap.ok(isinstance(image, torch.Tensor) and image.dtype == torch.float16 and (image.numpy() == numpy.asarray(plain.view(9))).all(), "torch, where it is imported")
    half = ffload.Dataset(os.path.join(PLACE, "of-bf16", "train"))
    tap.ok(half[1][0].dtype == torch.bfloat16 and half[1][0].view(torch.int16).numpy().tobytes() == half._own.sample(1).tobytes(), "bf16 goes to torch as bf16")
    wide = ffload.Dataset(os.path.join(PLACE, "of-u16", "train"))
    image, raw = wide[3][0], numpy.frombuffer(wide._own.sample(3).tobytes(), numpy.uint16)
    tap.ok(image.flatten().tolist() == raw.tolist() and raw.max() > 32767 and image.shape == wide.shape, "u16, which not every torch has", (image.dtype, raw.max()))
    for method in ("fork", "spawn"):
        found = python(WORKERS, plain.path, method)
        tap.ok(found.returncode == 0, "a DataLoader's workers by %s" % method, found.stderr)
    cut = os.path.join(PLACE, "cut")
    shutil.copytree(plain.path, cut)
    found = python(CUT, cut)
    tap.ok(found.returncode == 0, "a shard that is cut: an exception in a DataLoader's worker", found.stderr)
# ---- torch's samplers (last: torch is what samples are from here on) ----
try:
    from torch.utils.data import DataLoader, Subset
except ImportError:
    tap.skip("torch's Subset", "torch is not installed")
else:
    chosen = rng.permutation(100)[:10]
    batches = [labels for _, labels in DataLoader(Subset(ffload.Dataset(plain.path, as_="torch", label="label"), chosen), 4)]
    tap.ok(sum((batch.tolist() for batch in batches), []) == [each[number][1] for number in chosen], "torch's Subset of a permutation, in a DataLoader")

finish()
