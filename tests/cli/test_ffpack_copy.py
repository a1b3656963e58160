#!/usr/bin/python3
"""ffpack copy: a set with fewer samples, other classes, labels or dtype is what packing the sources so would give, read by the
second reader; what is asked for in vain or would do harm is refused; interrupted copies continue to the same bytes. Prints TAP."""
# Needs: ffpack ffinspect fftrain
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import packing  # noqa: E402
from packing import FFPACK, NORMALIZE, Packed, image, tap  # noqa: E402

rng = random.Random(28)
place = tempfile.mkdtemp()
os.chdir(place)
INSPECT, TRAIN = (os.path.join(tap.BUILD, name) for name in ("ffinspect", "fftrain"))
CLASSES = ["a=b", "dog", "foo", "foo,bar", "été"]
SMALL = ["--resize", "8x9", "--shard-size", "4K"]


def run(*arguments, **options):
    return subprocess.run([*map(str, arguments)], capture_output=True, text=True, timeout=300, **options)


def ffpack(*arguments, **options):
    return run(FFPACK, *arguments, **options)


def make(*arguments):
    done = ffpack(*arguments)
    assert done.returncode == 0, (arguments, done.stderr)
    return done.stdout


def remove(*names):
    for name in names:
        shutil.rmtree(name, ignore_errors=True)
        shutil.rmtree(name + ".partial", ignore_errors=True)


def write(name, text):
    with open(name, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
    return name


def ids(folder):
    """The three ids, by the second reader, which also checks every byte of the folder."""
    split = packing.reader.Split(folder)
    split.read_index(folder)
    return [each.hex() for each in split.ids()]


def by_name(folder, field="label"):
    """{key: (class name, tensor)}"""
    found = Packed(folder)
    names = found.fields[field][3]
    return {key: (names[label] if label >= 0 else None, tensor)
            for key, label, tensor in zip(found.keys, found.labels[field], found.tensors)}


def stored(folder):
    """The keys in storage order."""
    split = packing.reader.Split(folder)
    return [key for shard in split.shards for key in shard.keys]


def facts(folder, key):
    return [v.decode() for k, v in packing.reader.Split(folder).metadata.provenance if k.decode() == key]


def whole(folder):
    done = run(INSPECT, folder, "--verify")
    return done.returncode == 0 or done.stderr + done.stdout


def refuses(name, code, pieces, *arguments):
    """One sentence with all the pieces, this exit code, and NEW is not made."""
    done = ffpack("copy", *arguments)
    wrong = ["no '%s'" % piece for piece in pieces if piece not in done.stderr]
    if done.returncode != code:
        wrong.append("exit code %d, wanted %d" % (done.returncode, code))
    if done.stderr.count("\n") != 1 or done.stdout:
        wrong.append("not one line on stderr alone")
    if os.path.exists("new") or os.path.exists("new.partial"):
        wrong.append("left new or new.partial")
    remove("new")
    tap.ok(not wrong, name, "\n".join(wrong + [done.stderr]))


def make_sources():
    for c in CLASSES:
        os.makedirs("all/" + c)
        for i in range(7):
            with open("all/%s/%d.png" % (c, i), "wb") as file:
                file.write(image(rng))
    shutil.copytree("all", "fewer")
    gone = ["dog/0.png", "dog/6.png", "foo,bar/3.png", "a=b/0.png", "été/6.png"]
    for key in gone:
        os.remove("fewer/" + key)
    write("gone", "".join(key + "\n" for key in gone))
    rest = [c + "/%d.png" % i for c in CLASSES for i in range(7) if c + "/%d.png" % i not in gone]
    rng.shuffle(rest)
    write("rest", "\r\n".join(rest))
    for split in ("train", "val"):
        for c in "pq":
            os.makedirs("two/%s/%s" % (split, c))
            for i in (0, 1, 2):
                with open("two/%s/%s/%s.png" % (split, c, "same" if i == 0 else split + str(i)), "wb") as file:
                    file.write(image(rng))
    make_lists()
    random_ = packing.numpy.random.RandomState(2)
    packing.numpy.savez("many.npz", x=random_.randint(0, 256, (9, 6, 7, 3), dtype=packing.numpy.uint8),
                        y=packing.numpy.arange(9) * 1000)


def make_lists():
    """Lists of labels: wide multi-hot ones and several fields."""
    names = [["t%d" % rng.randrange(40) for _ in range(3)] for _ in range(35)]
    for name, skipped in (("all.csv", ()), ("fewer.csv", set(open("gone").read().split("\n")))):
        rows = ["path,tags,fine,coarse"]
        for i, key in enumerate(c + "/%d.png" % i for c in CLASSES for i in range(7)):
            tags = ";".join(sorted({*names[i], *("t%d" % k for k in range(40) if i in (10, 20))}))
            if key not in skipped:
                rows.append('"all/%s",%s,f%d,c%d' % (key, tags, i % 6, i % 2))
        write(name, "\n".join(rows))


# ---- keys


def keys():
    """A copy without some samples is what packing without their files gives."""
    for name, source, options in (
            ("f16", "", [*SMALL, *NORMALIZE]),
            ("u8, zstd, hwc", "", [*SMALL, *NORMALIZE, "--dtype", "u8", "--compress", "zstd", "--layout", "hwc"]),
            ("f16, zstd, aligned", "", [*SMALL, *NORMALIZE, "--compress", "zstd:2", "--align", "4096"]),
            ("shuffled, bf16", "", [*SMALL, *NORMALIZE, "--dtype", "bf16", "--shuffle", "5"]),
            ("shuffled, zstd", "", [*SMALL, *NORMALIZE, "--shuffle", "6", "--compress", "zstd"]),
            ("sizes of their own", "", ["--max-side", "12", *SMALL[2:], *NORMALIZE, "--compress", "zstd"]),
            ("measured statistics, u8, zstd", "", [*SMALL, "--dtype", "u8", "--compress", "zstd"]),
            ("wide labels", ".csv", [*SMALL, *NORMALIZE]),
            ("wide labels, zstd, u8", ".csv", [*SMALL, *NORMALIZE, "--dtype", "u8", "--compress", "zstd"])):
        make("all" + source, "-o", "set", *options)
        make("fewer" + source, "-o", "wanted", *options, *([] if "--mean" in options else ["--stats-from", "set"]))
        # The keys of a list are the paths in it.
        gone, rest = (write(name + ".now", "\n".join("all/" + line for line in open(name).read().split("\n") if line))
                      if source else name for name in ("gone", "rest"))
        done = ffpack("copy", "set", "-o", "new", "--not-keys", gone, "--jobs", "3")
        tap.ok(done.returncode == 0, "%s: a copy without some samples" % name, done.stderr)
        tap.ok(ids("new") == ids("wanted"), "  has the ids of packing without their files", (ids("new"), ids("wanted")))
        tap.ok(whole("new") is True, "  every byte is right", whole("new"))
        left = set(stored("new"))
        tap.ok(stored("new") == [key for key in stored("set") if key in left], "  the order in storage is the set's")
        make("copy", "set", "-o", "other", "--keys", rest, "--jobs", "1")
        tap.ok(not packing.same_files("new", "other"), "  --keys with the others: the same bytes, with one job too",
               packing.same_files("new", "other"))
        make("copy", "new", "-o", "again")
        tap.ok(ids("again") == ids("new") and facts("again", "copied") == [ids("set")[0], ids("new")[0]],
               "  a copy of the copy has its ids, and says of what it is one", facts("again", "copied"))
        remove("set", "new", "other", "wanted", "again")


def appended():
    """Sets of two generations, and appending to a copy."""
    make("fewer", "-o", "set", *SMALL, *NORMALIZE)
    make("append", "set", "all", "--allow-duplicates")
    found = Packed("set")
    make("copy", "set", "-o", "new")
    new = Packed("new")
    tap.ok(ids("new")[:3] == ids("set")[:3] and not packing.reader.Split("new").metadata.generations,
           "a copy of two generations has their samples in one")
    tap.ok(new.keys == found.keys and new.labels == found.labels, "  in their order")
    make("copy", "set", "-o", "some", "--keys", write("one", "dog/1.png\n"))
    tap.ok(Packed("some").keys == ["dog/1.png"] * 2, "a key of two samples means both", Packed("some").keys)
    before = tap.files_of("new")
    done = ffpack("append", "new", "all", "--allow-duplicates")
    tap.ok(done.returncode == 0 and whole("new") is True and Packed("new").keys == found.keys + Packed("set").keys[30:],
           "a copy is appended to as any set", done.stderr)
    tap.ok(all(tap.files_of("new")[k] == v for k, v in before.items() if k.endswith(".ffs")), "  its shards stay")
    remove("set", "new", "some")


def unknown():
    make("all", "-o", "set", *SMALL, *NORMALIZE)
    make("two", "-o", "both", *SMALL, *NORMALIZE)
    before = tap.files_of("set"), tap.files_of("both")
    refuses("keys that the set lacks", 2, ["bad: 2 keys are not in set; the first is 'dog/9.png' (line 2)"],
            "set", "-o", "new", "--not-keys", write("bad", "dog/1.png\ndog/9.png\n\nrat/1.png\n"))
    refuses("a key of a sample's beginning", 2, ["1 key is not in set; the first is 'dog/1.pn'"],
            "set", "-o", "new", "--keys", write("bad", "dog/1.pn"))
    refuses("all keys taken away", 2, ["--not-keys: nothing of set would be left"], "set", "-o", "new", "--not-keys",
            write("every", "\n".join(Packed("set").keys)))
    refuses("a file without keys", 65, ["bad: names no sample"], "set", "-o", "new", "--keys", write("bad", "\n"))
    refuses("no file", 74, ["nowhere"], "set", "-o", "new", "--keys", "nowhere")
    refuses("both lists", 2, ["--keys and --not-keys"], "set", "-o", "new", "--keys", "gone", "--not-keys", "gone")
    refuses("a key of two splits", 2, ["line 1: both train and val have a sample 'p/same.png'", "val/p/same.png"],
            "both", "-o", "new", "--not-keys", write("bad", "p/same.png"))
    refuses("a split of which nothing is left", 2, ["--keys: nothing of both/val would be left"],
            "both", "-o", "new", "--keys", write("bad", "p/train1.png"))
    refuses("no set", 65, ["all: is not a packed dataset"], "all", "-o", "new")
    refuses("nothing there", 74, ["nowhere"], "nowhere", "-o", "new")
    refuses("no NEW", 2, ["wanted ffpack copy SET -o NEW"], "set")
    refuses("no SET", 2, ["wanted ffpack copy SET -o NEW"], "-o", "new")
    refuses("a folder that is missing", 74, ["deep"], "set", "-o", "deep/new")
    os.mkdir("link")
    os.symlink("../both", "link/to")
    for output in ("set", "both/new", "both/train/new", "./both/../both", "link/to", "link/to/x"):
        for force in ([], ["--force"]):
            refuses("NEW is SET, or in it: %s%s" % (output, " ".join(force)), 2, ["wanted another place"],
                    "set" if output == "set" else "both", "-o", output, *force)
    refuses("NEW around SET", 2, ["wanted another place"], "both/train", "-o", "both", "--force")
    tap.ok((tap.files_of("set"), tap.files_of("both")) == before, "nothing of these changed a set")
    refuses("NEW exists", 2, ["set: exists already; --force replaces it"], "both", "-o", "set")
    make("copy", "set", "-o", "new")
    make("copy", "both", "-o", "new", "--force")
    tap.ok(ids("new/train") == ids("both/train"), "--force replaces another set")
    remove("new")
    # Keys as they are printed, and such that look so.
    os.makedirs("odd/x")
    for name in (b"50%.png", b"50%25.png", b"\xff.png", b"tab\t.png"):
        with open(b"odd/x/" + name, "wb") as file:
            file.write(image(rng))
    make("odd", "-o", "oddset", *SMALL, *NORMALIZE)
    printed = json.loads(run(INSPECT, "oddset", "--sample", "0:4", "--json").stdout)
    printed = [sample["key"] for sample in printed["splits"][0]["sample"]]
    stored_ = Packed("oddset").keys
    refuses("a key that is also another one's with %XX", 2, ["line 1: 'x/50%25.png' is a sample's key", "as %25"],
            "oddset", "-o", "new", "--keys", write("bad", "x/50%25.png"))
    for line, key in (("x/50%.png", "x/50%.png"), ("x/50%2525.png", "x/50%25.png"), (printed[2], stored_[2]),
                      (printed[3], stored_[3]), (stored_[2], stored_[2]), (stored_[3], stored_[3])):
        make("copy", "oddset", "-o", "new", "--keys", write("bad", line))
        tap.ok(Packed("new").keys == [key], "the key %r" % line, Packed("new").keys)
        remove("new")
    remove("set", "both", "oddset")


def splits():
    make("two", "-o", "set", *SMALL, *NORMALIZE)
    done = ffpack("copy", "set", "-o", "new", "--not-keys", write("bad", "p/train1.png\nval/q/val2.png\ntrain/q/same.png\n"),
                  "--json")
    report = json.loads(done.stdout)
    wanted = {split: [key for key in Packed("set/" + split).keys
                      if (split, key) not in (("train", "p/train1.png"), ("val", "q/val2.png"), ("train", "q/same.png"))]
              for split in ("train", "val")}
    tap.ok({split: Packed("new/" + split).keys for split in wanted} == wanted, "keys of either split, with its name or without",
           done.stderr)
    tap.ok(report["event"] == "copied" and [s["samples"] for s in report["splits"]] == [4, 5], "  --json", report)
    tap.ok(report["notes"] == ["train: 2 of its 6 samples left out", "val: 1 of its 6 samples left out"], "  how many were left out", report)
    tap.ok(sorted(os.listdir("new")) == ["train", "val"] and whole("new") is True, "  every byte is right", whole("new"))
    make("copy", "set/val", "-o", "alone", "--not-keys", write("bad", "p/same.png\nval/q/same.png"))
    tap.ok(Packed("alone").keys == [k for k in Packed("set/val").keys if "same" not in k], "one split of them")
    done = ffpack("append", "new", "two", "--allow-duplicates")
    tap.ok(done.returncode == 0 and whole("new") is True, "the splits are appended to", done.stderr)
    remove("set", "new", "alone")


# ---- classes and labels


def names_of(folder, field="label"):
    return Packed(folder).fields[field][3]


def classes():
    """Renamed, merged and added classes; pixels, keys and all other labels stay."""
    make("all", "-o", "set", *SMALL, *NORMALIZE)
    old = by_name("set")

    def edited(name, wanted, change, *options):
        done = ffpack("copy", "set", "-o", "new", *options)
        if not tap.ok(done.returncode == 0, name, done.stderr):
            return
        tap.ok(names_of("new") == wanted, "  its classes, in their order", names_of("new"))
        tap.ok(by_name("new") == {key: (change.get(c, c), t) for key, (c, t) in old.items()}, "  every sample's class and pixels")
        tap.ok(whole("new") is True and Packed("new").keys == list(old), "  every byte is right", whole("new"))
        remove("new")

    edited("two renamed classes", ["x=y", "cat", "foo", "foo,bar", "été"], {"dog": "cat", "a=b": "x=y"},
           "--rename-class", "dog=cat", "--rename-class", "a=b=x=y")
    edited("two that change places", ["dog", "a=b", "foo", "foo,bar", "été"], {"dog": "a=b", "a=b": "dog"},
           "--rename-class", "dog=t", "--rename-class", "a=b=dog", "--rename-class", "t=a=b")
    edited("merged into a new one", ["a=b", "words", "foo,bar"], {"dog": "words", "foo": "words", "été": "words"},
           "--merge-class", "dog,foo,été=words")
    edited("merged into one of them", ["a=b", "foo", "foo,bar", "été"], {"dog": "foo"}, "--merge-class", "dog,foo=foo")
    edited("merged into another one", ["foo", "foo,bar", "été"], {"dog": "été", "a=b": "été"}, "--merge-class", "a=b,dog=été")
    edited("a class with a comma", ["a=b", "dog", "foo", "été"], {"foo,bar": "a=b"}, "--merge-class", "foo,bar=a=b")
    edited("several merges", ["dog", "all"], {c: "all" for c in CLASSES if c != "dog"},
           "--merge-class", "foo,bar,a=b=foo", "--merge-class", "été,foo=all")
    edited("a merge of what was renamed", ["cat", "foo", "foo,bar", "été"], {"dog": "cat", "a=b": "cat"},
           "--merge-class", "a=b,cat=cat", "--rename-class", "dog=cat")
    edited("added classes", CLASSES + ["zebra", "ant"], {}, "--add-class", "zebra", "--add-class", "ant")
    os.makedirs("more/zebra")
    with open("more/zebra/1.png", "wb") as file:
        file.write(image(rng))
    make("copy", "set", "-o", "new", "--add-class", "zebra")
    done = ffpack("append", "new", "more")
    tap.ok(done.returncode == 0 and by_name("new")["zebra/1.png"][0] == "zebra" and whole("new") is True,
           "a new class is appended to such a copy", done.stderr)
    remove("new")
    for name, pieces, options in (
            ("a new name that is a class", ["a class 'foo' already", "--merge-class dog=foo"], ["--rename-class", "dog=foo"]),
            ("an unknown class", ["has no class 'dig' in its field label; did you mean dog?"], ["--rename-class", "dig=cat"]),
            ("an unknown class to merge", ["has no class 'dig'"], ["--merge-class", "foo,dig,été=x"]),
            ("a class merged twice", ["has no class 'dog'"], ["--merge-class", "dog,foo=x", "--merge-class", "dog,été=y"]),
            ("no NEW name", ["is not OLD=NEW"], ["--rename-class", "dog="]),
            ("no '='", ["is not OLD,OLD=NEW"], ["--merge-class", "dog,foo"]),
            ("an added class that is there", ["a class 'dog' already"], ["--add-class", "dog"])):
        refuses(name, 2, pieces, "set", "-o", "new", *options)
    remove("set")
    make("all.csv", "-o", "set", *SMALL, *NORMALIZE)
    refuses("several fields", 2, ["has the label fields tags, fine, coarse; wanted --label FIELD"],
            "set", "-o", "new", "--rename-class", "c0=C")
    refuses("a field of another kind", 2, ["label field tags is multi-hot"], "set", "-o", "new", "--rename-class", "t1=T", "--label",
            "tags")
    make("copy", "set", "-o", "new", "--merge-class", "f0,f5=f", "--label", "fine")
    change = {"f0": "f", "f5": "f"}
    tap.ok(by_name("new", "fine") == {k: (change.get(c, c), t) for k, (c, t) in by_name("set", "fine").items()}
           and by_name("new", "coarse") == by_name("set", "coarse") and Packed("new").labels["tags"] == Packed("set").labels["tags"]
           and whole("new") is True, "one field of several is merged, the others stay")
    remove("set", "new")
    make("many.npz", "-o", "set", *NORMALIZE)
    refuses("classes without names", 2, ["the classes of label field label have no names"], "set", "-o", "new", "--merge-class", "1,2=3")
    remove("set")


def relabelled():
    make("all", "-o", "set", *SMALL, *NORMALIZE)
    old = by_name("set")

    def given(name, text, change, *options):
        done = ffpack("copy", "set", "-o", "new", "--labels", write("labels.csv", text), *options)
        wanted = {k: (change.get(k, c), t) for k, (c, t) in old.items()}
        tap.ok(done.returncode == 0 and by_name("new") == wanted and whole("new") is True, name, done.stderr)
        remove("new")

    given("corrected labels", 'dog/0.png,été\n"foo,bar/2.png",dog\n', {"dog/0.png": "été", "foo,bar/2.png": "dog"})
    given("with a header, as numbers, and without an ending", "key,note,label\ndog/0,x,2\nété/1,y,-1\n",
          {"dog/0.png": "foo", "été/1.png": None})
    given("the copy's classes", "dog/0.png\tcat\nfoo/0.png\tdog\n", {**{k: "cat" if c == "été" else c for k, (c, _) in old.items()},
                                                                        "dog/0.png": "cat", "foo/0.png": "dog"},
          "--rename-class", "été=cat")
    refuses("a class that the set lacks", 65, ["--labels: labels.csv: ", "cow"], "set", "-o", "new", "--labels",
            write("labels.csv", "dog/0.png,cow\n"))
    refuses("keys that the set lacks", 2, ["--labels: labels.csv: 2 lines name no sample of the copy of set; the first is 'rat/1'"],
            "set", "-o", "new", "--labels", write("labels.csv", "dog/0.png,foo\nrat/1,dog\nrat/2,dog\n"))
    refuses("a key that is not copied", 2, ["1 line names no sample of the copy"], "set", "-o", "new", "--not-keys", "gone", "--labels",
            write("labels.csv", "dog/0.png,foo\ndog/1.png,foo\n"))
    refuses("a sample of two classes", 65, ["two classes"], "set", "-o", "new", "--labels",
            write("labels.csv", "dog/0.png,foo\ndog/0.png,été\n"))
    remove("set")
    make("two", "-o", "set", *SMALL, *NORMALIZE)
    make("copy", "set", "-o", "new", "--labels", write("labels.csv", "p/train1.png,q\nval/p/same.png,q\nq/val2.png,p\n"))
    wrong = {split: {k for k, v in by_name("new/" + split).items() if v != by_name("set/" + split)[k]} for split in ("train", "val")}
    tap.ok(wrong == {"train": {"p/train1.png"}, "val": {"p/same.png", "q/val2.png"}}, "labels of either split", wrong)
    remove("new")
    refuses("a key of two splits", 2, ["both train and val have a sample 'p/same.png'"], "set", "-o", "new", "--labels",
            write("labels.csv", "p/same.png,q\n"))
    remove("set")
    make("many.npz", "-o", "set", *NORMALIZE)
    labels = Packed("set").labels["label"]
    keys_ = Packed("set").keys
    make("copy", "set", "-o", "new", "--labels", write("labels.csv", "%s,77\n%s,-1\n" % (keys_[1], keys_[4])))
    tap.ok(Packed("new").labels["label"] == [77 if i == 1 else -1 if i == 4 else v for i, v in enumerate(labels)],
           "numbers of classes without names")
    remove("new")
    refuses("names for them", 2, ["are numbers without names"], "set", "-o", "new", "--labels", write("labels.csv", keys_[1] + ",dog\n"))
    remove("set")


# ---- dtype


def dtypes():
    """From u8: what packing the sources with that dtype gives, bit for bit."""
    for name, source, options in (("chw", "all", [*SMALL, *NORMALIZE]),
                                  ("hwc, zstd", "all", [*SMALL, *NORMALIZE, "--layout", "hwc", "--compress", "zstd"]),
                                  ("zstd, shuffled", "all", [*SMALL, *NORMALIZE, "--compress", "zstd:3", "--shuffle", "3"]),
                                  ("gray", "all", [*SMALL, "--mode", "gray", "--mean", "0.3", "--std", "0.2"]),
                                  ("sizes of their own, zstd", "all", ["--max-side", "12", *SMALL[2:], *NORMALIZE, "--compress", "zstd"]),
                                  ("measured statistics", "all", SMALL),
                                  ("wide labels", "all.csv", [*SMALL, *NORMALIZE])):
        make(source, "-o", "set", *options, "--dtype", "u8")
        for dtype in ("f16", "bf16", "f32"):
            make(source, "-o", "wanted", *options, "--dtype", dtype, *([] if "--mean" in options else ["--stats-from", "set"]))
            done = ffpack("copy", "set", "-o", "new", "--dtype", dtype)
            tap.ok(done.returncode == 0 and ids("new") == ids("wanted"), "u8 to %s: %s" % (dtype, name), done.stderr)
            texts = [re.sub(rb"(?m)^(provenance|shards) .*\n", b"", packing.reader.Split(at).metadata.text) for at in ("new", "wanted")]
            tap.ok(texts[0] == texts[1] and whole("new") is True, "  the metadata, the table of filters too", texts)
            remove("wanted", "new")
        remove("set")
    make("all", "-o", "set", *SMALL, *NORMALIZE)
    refuses("from f16", 2, ["--dtype f32: set holds f16 values; wanted a set of u8"], "set", "-o", "new", "--dtype", "f32")
    remove("set")
    packing.numpy.save("deep.npy", packing.numpy.zeros((3, 5, 6, 1), packing.numpy.uint16))
    make("deep.npy", "-o", "set", "--dtype", "u16", "--range", "0,65535", "--mean", "0.5", "--std", "0.5")
    refuses("from u16", 2, ["set holds u16 values"], "set", "-o", "new", "--dtype", "f16")
    remove("set")


# ---- harm


def broken():
    """A broken sample is not copied with a checksum that fits it."""
    for options in ([], ["--compress", "zstd"]):
        make("all", "-o", "set", *SMALL, *NORMALIZE, *options)
        with open("set/shard-000001.ffs", "r+b") as file:
            file.seek(4096 + 100)
            byte = file.read(1)
            file.seek(4096 + 100)
            file.write(bytes([byte[0] ^ 4]))
        done = ffpack("copy", "set", "-o", "new")
        tap.ok(done.returncode == 65 and "set/shard-000001.ffs" in done.stderr and not os.path.exists("new"),
               "a flipped bit of the set is an error%s" % (", zstd" if options else ""), done.stderr)
        remove("set", "new")


def big_set():
    """Many small shards, so that a copy takes a while."""
    values = packing.numpy.random.RandomState(1).randint(0, 256, (500, 16, 16, 3), dtype=packing.numpy.uint8)
    packing.numpy.savez("hundreds.npz", x=values, y=packing.numpy.arange(500) % 7)
    make("hundreds.npz", "-o", "many", "--dtype", "u8", "--shard-size", "4K")


def start_copy(*arguments):
    """A copy that has some whole shards."""
    process = subprocess.Popen([FFPACK, "copy", "many", "-o", "new", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True)
    until = time.monotonic() + 60
    while time.monotonic() < until and process.poll() is None:
        if os.path.exists("new.partial/shard-000020.ffs"):
            break
        time.sleep(0.001)
    return process


def stopped():
    big_set()
    make("copy", "many", "-o", "wanted", "--dtype", "f16")
    for number in (signal.SIGKILL, signal.SIGINT, signal.SIGTERM):
        process = start_copy("--dtype", "f16")
        process.send_signal(number)
        _, said = process.communicate(timeout=300)
        name = signal.Signals(number).name
        tap.ok(process.returncode in (-number, 128 + number) and not os.path.exists("new"), "%s leaves no NEW" % name, said)
        if number != signal.SIGKILL:
            tap.ok("finished work is kept in new.partial, and this continues: ffpack copy many -o new --dtype f16" in said,
                   "  and reports how to continue", said)
        done = ffpack("copy", "many", "-o", "new", "--dtype", "bf16")
        tap.ok(done.returncode == 2 and "an earlier run with other options" in done.stderr and "remove new.partial" in done.stderr,
               "  another dtype does not continue it", done.stderr)
        done = ffpack("copy", "many", "-o", "new", "--dtype", "f16", "--json")
        tap.ok(done.returncode == 0 and json.loads(done.stdout)["splits"][0]["continued"] > 0 and not packing.same_files("new", "wanted"),
               "  the same command continues it to the same bytes", done.stderr)
        remove("new")
    remove("wanted")


def other_samples():
    """Whole shards of other samples, as many, or of other labels are never continued."""
    keys_ = Packed("many").keys
    some, others = write("some", "\n".join(keys_[:250])), write("others", "\n".join(keys_[1:251]))
    process = start_copy("--keys", some)
    process.kill()
    process.communicate()
    done = ffpack("copy", "many", "-o", "new", "--keys", others)
    tap.ok(done.returncode == 2 and "an earlier run with other options" in done.stderr and "provenance listing" in done.stderr,
           "a copy of other samples does not continue it", done.stderr)
    make("copy", "many", "-o", "new", "--keys", some)
    tap.ok(Packed("new").keys == keys_[:250], "  the same ones do")
    remove("new")
    process = start_copy("--labels", write("labels.csv", "%s,3\n" % keys_[499]))
    process.kill()
    process.communicate()
    done = ffpack("copy", "many", "-o", "new", "--labels", write("labels.csv", "%s,4\n" % keys_[499]))
    tap.ok(done.returncode == 2 and "provenance listing" in done.stderr, "a copy of other labels does not continue it", done.stderr)
    remove("new")


def disk_full():
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))
    done = ffpack("copy", "many", "-o", "new", preexec_fn=limit)
    tap.ok(done.returncode == 74 and "new.partial" in done.stderr and not os.path.exists("new"), "a write that fails", done.stderr)
    remove("new")


def held():
    """Another writer holds NEW.partial."""
    os.mkdir("new.partial")
    done = run("flock", "new.partial", FFPACK, "copy", "many", "-o", "new")
    tap.ok(done.returncode == 2 and "another ffpack is writing there" in done.stderr, "another writer is refused", done.stderr)
    remove("new", "many")


def trained():
    make("two", "-o", "set", "--resize", "32x32", *NORMALIZE)
    make("copy", "set", "-o", "new", "--not-keys", write("bad", "p/train1.png"))
    done = run(TRAIN, "--data", "new/train", "--val", "new/val", "--model", "smallnet", "--augment", "none", "--batch", "2", "--threads",
               "1", "--epochs", "1", "--quiet", "--out", "run")
    tap.ok(done.returncode == 0, "fftrain trains on a copy", done.stderr)
    remove("set", "new", "run")


def repeated():
    """Samples with the same key, and samples without one."""
    for name in "ab":
        with open(name + ".png", "wb") as file:
            file.write(image(rng))
    make(write("twice.tsv", "a.png\tcat\nb.png\tcat\na.png\tcat\n./a.png\tcat\n"), "-o", "set",
         *SMALL, *NORMALIZE)
    tap.ok(Packed("set").keys == ["a.png", "b.png", "a.png", "a.png"], "./a.png in a list is a.png", Packed("set").keys)
    make("copy", "set", "-o", "new", "--add-class", "dog", "--labels", write("fixed", "a.png\tdog\n"))
    tap.ok(Packed("new").labels["label"] == [1, 0, 1, 1], "--labels: one line for all samples of a key", Packed("new").labels)
    remove("new", "set")
    os.makedirs("unlike/x/p"), os.makedirs("unlike/x/q")
    shutil.copy("a.png", "unlike/x/p"), shutil.copy("b.png", "unlike/x/q/a.png")
    make("unlike", "-o", "set", *SMALL, *NORMALIZE)
    refuses("  but not for two keys", 65, ["fixed: line 1 ('a.png') stands for", "and another image"], "set", "-o", "new", "--labels",
            write("fixed", "a.png\tx\n"))
    remove("set")
    split = ["a.png\ttrain\n", "./b.png\tval\n"]
    make(write("two.tsv", "path\tsplit\n" + "".join(split)), "-o", "set", *SMALL, *NORMALIZE)
    tap.ok(Packed("set/val").keys == ["b.png"], "./ in a list with splits")
    remove("set")
    make(write("many.tsv", "".join("%s%s.png\tcat\n" % (dots, name) for name in "ab" for dots in ("", "./", "././"))), "-o", "set", *SMALL,
         *NORMALIZE, "--split", "train=0.5,val=0.5", "--split-seed", "1")
    found = [sorted(set(Packed("set/" + name).keys)) for name in ("train", "val")]
    tap.ok(sorted(found) == [["a.png"], ["b.png"]], "a file lies in one split, however it is spelled", found)
    refuses("a file of empty keys", 65, ["blank: names no sample", "--where \"key = ''\""], "set", "-o", "new", "--keys", write("blank", "\n\n"))
    remove("set")


make_sources()
if tap.SHORT:
    repeated()
    keys()
    appended()
    unknown()
    splits()
    classes()
    relabelled()
    dtypes()
    broken()
    trained()
if tap.LONG:
    stopped()
    other_samples()
    disk_full()
    held()
os.chdir("/")
shutil.rmtree(place)
tap.finish()
