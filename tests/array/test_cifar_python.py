#!/usr/bin/python3
"""CIFAR's python version: the samples of the binary version, from every protocol, a folder, an archive or one
file; and malicious pickles."""
import os
import pickle
import struct
import shutil
import sys
import tarfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import packed  # noqa: E402
import tap  # noqa: E402
from packed import numpy, pack, refuses, write  # noqa: E402
from tap import ok  # noqa: E402

rng = numpy.random.default_rng(1)
COUNT = 7
NAMES = "airplane automobile bird cat deer dog frog horse ship truck".split()
BATCHES = {name: (rng.integers(0, 10, COUNT).tolist(), rng.integers(0, 256, (COUNT, 3072), dtype=numpy.uint8))
           for name in (*("data_batch_%d" % i for i in range(1, 6)), "test_batch")}
COARSE = {name: (rng.integers(0, 20, COUNT).tolist(), rng.integers(0, 100, COUNT).tolist(),
                 rng.integers(0, 256, (COUNT, 3072), dtype=numpy.uint8)) for name in ("train", "test")}


# ---- a pickle as Python 2's cPickle writes it, by hand: strings are bytes -------------------------

def python2(value):
    """Protocol 2 without memos, which only avoid writing a value twice."""
    if isinstance(value, str):
        value = value.encode("latin1")
    if isinstance(value, bytes):
        head = b"U" + bytes([len(value)]) if len(value) < 256 else b"T" + struct.pack("<i", len(value))
        return head + value
    if isinstance(value, bool):
        return b"\x88" if value else b"\x89"
    if isinstance(value, int):
        return b"K" + bytes([value]) if 0 <= value < 256 else b"J" + struct.pack("<i", value)
    if isinstance(value, list):
        return b"](" + b"".join(map(python2, value)) + b"e"
    if isinstance(value, dict):
        return b"}(" + b"".join(python2(k) + python2(v) for k, v in value.items()) + b"u"
    shape = b"(" + b"".join(map(python2, value.shape)) + b"t"
    dtype = (b"cnumpy\ndtype\n" + b"(U\x02u1K\x00K\x01tR" + b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb")
    return (b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tU\x01btR"
            + b"(K\x01" + shape + dtype + python2(bool(value.flags.f_contiguous and not value.flags.c_contiguous))
            + python2(value.tobytes("A")) + b"tb")


def dump_python2(value):
    return b"\x80\x02" + python2(value) + b"."


# ---- sets ----------------------------------------------------------------------------------------

def binary_10(folder):
    for name, (labels, data) in BATCHES.items():
        write("%s/%s.bin" % (folder, name), b"".join(bytes([a]) + b.tobytes() for a, b in zip(labels, data)))
    write(folder + "/batches.meta.txt", "\n".join(NAMES).encode() + b"\n\n")


def binary_100(folder):
    for name, (coarse, fine, data) in COARSE.items():
        write("%s/%s.bin" % (folder, name),
              b"".join(bytes([a, b]) + c.tobytes() for a, b, c in zip(coarse, fine, data)))
    write(folder + "/coarse_label_names.txt", "".join("coarse %d\n" % i for i in range(20)).encode())
    write(folder + "/fine_label_names.txt", "".join("fine %d\n" % i for i in range(100)).encode())


def python_10(folder, dumps):
    for name, (labels, data) in BATCHES.items():
        data = numpy.asfortranarray(data) if name == "data_batch_2" else data
        write("%s/%s" % (folder, name),
              dumps({"batch_label": name, "labels": labels, "data": data, "filenames": ["x.png"] * COUNT}))
    write(folder + "/batches.meta", dumps({"num_cases_per_batch": COUNT, "label_names": NAMES, "num_vis": 3072}))


def python_100(folder, dumps):
    for name, (coarse, fine, data) in COARSE.items():
        write("%s/%s" % (folder, name), dumps({"filenames": [], "batch_label": "x", "fine_labels": fine,
                                               "coarse_labels": coarse, "data": data}))
    write(folder + "/meta", dumps({"fine_label_names": ["fine %d" % i for i in range(100)],
                                   "coarse_label_names": ["coarse %d" % i for i in range(20)]}))


def same(got, wanted, kind):
    return set(got) == set(wanted) and all(
        (got[s].array == wanted[s].array).all() and got[s].classes == wanted[s].classes
        and got[s].transforms == wanted[s].transforms and got[s].metadata.mean == wanted[s].metadata.mean
        and list(got[s].labels) == list(wanted[s].labels)
        and all((got[s].labels[f] == wanted[s].labels[f]).all() for f in got[s].labels)
        and [f.classes for f in got[s].metadata.fields] == [f.classes for f in wanted[s].metadata.fields]
        and got[s].provenance["source"] == kind for s in got)


binary_10("bin10")
binary_100("bin100")
wanted_10, wanted_100 = pack("bin10", "--dtype", "f32"), pack("bin100", "--dtype", "f32")
train = numpy.concatenate([BATCHES[name][1] for name in BATCHES if name != "test_batch"])
raw = pack("bin10", "--dtype", "u8")["train"]
ok((raw.array == train.reshape(-1, 3, 32, 32)).all(), "the binary version itself is what was written")
for label, dumps in [("Python 2", dump_python2)] + [
        ("protocol %d" % p, lambda value, p=p: pickle.dumps(value, protocol=p)) for p in range(6)]:
    folder10, folder100 = label.replace(" ", "") + "/cifar-10-batches-py", label.replace(" ", "") + "/cifar-100-python"
    python_10(folder10, dumps)
    ok(same(pack(folder10, "--dtype", "f32"), wanted_10, "cifar-10-python"), "CIFAR-10 of %s" % label)
    python_100(folder100, dumps)
    ok(same(pack(folder100, "--dtype", "f32"), wanted_100, "cifar-100-python"), "CIFAR-100 of %s" % label)
    if label not in ("Python 2", "protocol 2"):
        continue
    for folder, wanted, kind in ((folder10, wanted_10, "cifar-10-python"), (folder100, wanted_100, "cifar-100-python")):
        with tarfile.open("set.tar.gz", "w:gz") as file:
            file.add(folder, arcname=os.path.basename(folder))
        ok(same(pack("set.tar.gz", "--dtype", "f32"), wanted, kind), "%s of %s in a .tar.gz" % (kind, label))
ok(same(pack("Python2/cifar-10-batches-py/..", "--dtype", "f32", "--format", "cifar"), wanted_10, "cifar-10-python"),
   "the folder around it")
one = pack("Python2/cifar-10-batches-py/data_batch_2", "--dtype", "u8")[""]
ok((one.array.reshape(COUNT, -1) == BATCHES["data_batch_2"][1]).all() and one.classes == NAMES
   and one.keys[3] == "data_batch_2:3", "one pickle alone, with the names next to it")
os.makedirs("alone", exist_ok=True)
os.link("protocol4/cifar-100-python/train", "alone/mine.pkl")
one = pack("alone/mine.pkl", "--dtype", "u8")[""]
ok((one.array.reshape(COUNT, -1) == COARSE["train"][2]).all()
   and one.labels["coarse"].tolist() == COARSE["train"][0], "one pickle of any name")

files = []
for jobs in (1, 3):
    pack("protocol2/cifar-10-batches-py", "--jobs", jobs)
    files.append({os.path.join(root, name): open(os.path.join(root, name), "rb").read()
                  for root, _, names in os.walk("packed") for name in names if name != "history.jsonl"})
ok(files[0] == files[1], "the same bytes for any number of jobs")

# ---- wrong and malicious pickles -----------------------------------------------------------------


class Evil:
    def __init__(self, call, *arguments):
        self.call, self.arguments = call, arguments

    def __reduce__(self):
        return self.call, self.arguments


def evil(name, data, *words, code=65):
    write("evil/data_batch_1", data)
    refuses(name, code, ("data_batch_1",) + words, "evil/data_batch_1")


good = {"labels": BATCHES["data_batch_1"][0], "data": BATCHES["data_batch_1"][1]}
whole = dump_python2(good)
evil("os.system", pickle.dumps(Evil(os.system, "touch owned"), protocol=2), "imports posix.system, which")
evil("builtins.eval", pickle.dumps({**good, "labels": Evil(eval, "1")}, protocol=4), "imports builtins.eval")
evil("eval of Python 2", b"\x80\x02c__builtin__\neval\nU\x011\x85R.", "byte 2: imports __builtin__.eval")
evil("an instance of protocol 0", b"(dp0\n(ios\nsystem\n.", "imports os.system")
evil("a name that is not a text", b"\x80\x02cos\nsys\xfftem\x1b[2J\n.", "imports os.sys?tem?[2J")
evil("an object of a whitelisted class", b"\x80\x02cnumpy\nndarray\n)\x81.", "holds an object of a class")
evil("a call of a class", b"\x80\x02cnumpy\nndarray\n)R.", "a call that NumPy does not write")
evil("a call of a number", b"\x80\x02K\x01)R.", "calls a whole number")
evil("a persistent id", b"\x80\x02U\x01aQ.", "a persistent id")
evil("a set", pickle.dumps({"labels": {1, 2}}, protocol=4), "holds a set")
evil("an array of objects", pickle.dumps({"data": numpy.array([[1, "x"]], dtype=object), "labels": [1]}, protocol=2),
     "an array of type O8; only arrays of numbers are read, Python's objects never")
evil("a structured array", pickle.dumps({"data": numpy.zeros(2, "u1,u2"), "labels": [1]}, protocol=2), "an array of type V3")
evil("an endless memo", b"\x80\x02}r\xff\xff\xff\xff.", "memo 4294967295, wanted less than 4194304")
evil("a memo never set", b"\x80\x02}h\x07.", "asks for memo 7, which was never set")
evil("a memo never set, below one that was", b"\x80\x02}q\x05h\x03.", "asks for memo 3, which was never set")
evil("values below a mark", b"\x80\x02K\x01K\x02(R.", "takes more from its stack than there is")
evil("half a character", b"\x80\x02c_codecs\nencode\nX\x02\x00\x00\x00a\xc3X\x06\x00\x00\x00latin1\x86R.", "not latin-1")
evil("marks in one another", b"\x80\x02" + b"(" * 100000, "more than 1024 marks in one another")
evil("lists in one another", b"\x80\x02" + b"]" * 1500000, "more than 1048576 values on its stack")
evil("millions of values", b"\x80\x02" + b"N0" * 4500000, "more than 4194304 values")
evil("a list of itself", b"\x80\x02]q\x00" + b"h\x00a" * 5000000, "more than 4194304 items in its lists")
evil("one string decoded for ever", b"\x80\x02c_codecs\nencode\nq\x00X\xe8\x03\x00\x00" + b"a" * 1000
     + b"X\x06\x00\x00\x00latin1\x86q\x01" + b"h\x00h\x01R0" * 1000 + b".", "bytes when decoded")
evil("a string beyond the end", b"\x80\x02T\xff\xff\xff\x7fabc", "a string of 2147483647 bytes, but 3 follow")
evil("a string of 2^63 bytes", b"\x80\x04\x8e" + b"\xff" * 8 + b"abc", "bytes, but 3 follow")
evil("an array of another size", whole.replace(b"K\x07J\x00\x0c\x00\x00", b"K\x08J\x00\x0c\x00\x00", 1),
     "an array of 8 x 3072 u8 in 21504 bytes")
evil("a shape that overflows", whole.replace(b"K\x07J\x00\x0c\x00\x00", b"J\xff\xff\xff\x7fJ\xff\xff\xff\x7f", 1),
     "an array of 2147483647 x 2147483647")
evil("a shape below 0", whole.replace(b"K\x07J\x00\x0c\x00\x00", b"J\xf9\xff\xff\xffJ\x00\xf4\xff\xff", 1), "a shape that NumPy")
evil("an unknown opcode", b"\x80\x02\xff.", "0xff is not an opcode of a pickle")
evil("a later protocol", b"\x80\x05\x80\x06.", "protocol 6, wanted at most 5")
evil("an empty stack", b"\x80\x02.", "stops with 0 values")
evil("a broken number", b"(dp0\nI12x\n.", "'12x' is not a whole number")
evil("no dict", pickle.dumps([1], protocol=2), "the pickle has neither 'labels'")
evil("no data", pickle.dumps({"labels": [1]}, protocol=2), "the pickle has no 'data'")
evil("data of another shape", pickle.dumps({**good, "data": numpy.zeros((7, 3, 1024), "u1")}, protocol=2),
     "'data' is 7 x 3 x 1024 u8, wanted N x 3072 u8")
evil("data of another type", pickle.dumps({**good, "data": numpy.zeros((7, 3072), ">i2")}, protocol=2), "7 x 3072 i16, wanted")
evil("an array without a state", b"\x80\x02}(U\x06labels]U\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n"
     b"K\x00\x85U\x01b\x87Ru.", "'data' is one u8")
evil("a label too few", pickle.dumps({**good, "labels": [1] * 6}, protocol=2), "'labels' has 6 labels, but 'data' 7 rows")
evil("a label out of range", pickle.dumps({**good, "labels": [1] * 6 + [10]}, protocol=2),
     "label 6 of 'labels' is 10, wanted 0 to 9")
evil("a label that is text", pickle.dumps({**good, "labels": ["a"] * 7}, protocol=2), "label 0 of 'labels' is a string")
cuts = [2, 3, 10, 40, 200, 1000, len(whole) - 1]
for cut in cuts:
    evil("cut off at byte %d" % cut, whole[:cut])
ok(not os.path.exists("owned"), "nothing was run")

write("mixed/data_batch_1", whole)
write("mixed/train", open("Python2/cifar-100-python/train", "rb").read())
refuses("CIFAR-10 and CIFAR-100 mixed", 65, ("mixed: holds files of both cifar-10-python and cifar-100-python",), "mixed")
write("gap/data_batch_1", whole)
write("gap/data_batch_3", whole)
refuses("a batch missing", 65, ("gap: data_batch_2 is missing, but data_batch_3 is there",), "gap")
for missing in ("data_batch_5", "test_batch"):
    shutil.copytree("Python2/cifar-10-batches-py", "less")
    os.remove("less/" + missing)
    refuses("no " + missing, 65, ("less: %s is missing; wanted the 5 batches" % missing,), "less")
    shutil.rmtree("less")
write("two.classes", b"a\nb\n")
refuses("--classes where there are names", 2, ("--classes: batches.meta names the classes already",),
        "Python2/cifar-10-batches-py", "--classes", "two.classes")
write("badmeta/data_batch_1", whole)
write("badmeta/batches.meta", dump_python2({"label_names": ["a", 3]}))
refuses("a class name that is a number", 65, ("batches.meta: a whole number among the class names",), "badmeta")
write("badmeta/batches.meta", pickle.dumps(Evil(os.system, "touch owned"), protocol=2))
refuses("a malicious meta file", 65, ("batches.meta: its pickle at byte 2: imports posix.system",), "badmeta")
packed.finish()
