#!/usr/bin/python3
"""--split: which items go where, against the rule as the help states it, in ten lines of Python; more files move none, classes are
cut exactly, groups stay whole; the same division by archives, lists, parts, after a kill, and in an append. Prints TAP."""
# Needs: ffpack
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import packing  # noqa: E402
from packing import FFPACK, Packed, ffpack, image, same_files, tap  # noqa: E402
import xxhash  # noqa: E402

rng = random.Random(4)
place = tempfile.mkdtemp()
os.chdir(place)
FIXED = packing.FIXED
HALVES = ["--split", "train=0.5,val=0.5"]


# ---- the rule

def drawn(key, shares, seed=0, expression=None):
    """The split of a key."""
    hashed = key.encode()
    if expression:
        match = re.search(expression.encode(), hashed)
        hashed = match.group(1) if match.re.groups and match.group(1) is not None else match.group(0)
    u = (xxhash.xxh3_64_intdigest(hashed, seed) >> 11) * 2.0 ** -53
    total = 0
    for name, share in shares:
        total += share
        if u < total:
            return name
    return shares[-1][0]


def cut(keys, shares, seed=0):
    """{split: keys} of one class: exact shares in the order of the hashes."""
    keys = sorted(keys, key=lambda key: xxhash.xxh3_64_intdigest(key.encode(), seed))
    at, total, found = 0, 0, {}
    for name, share in shares:
        total += share
        end = int(len(keys) * total + 0.5)
        found[name] = keys[at:end]
        at = end
    return found


def words(shares):
    return ",".join("%s=%s" % pair for pair in shares)


def packed(name, source, out, shares, *options):
    """{split: Packed}; {} where ffpack fails."""
    shutil.rmtree(out, ignore_errors=True)
    done = ffpack(source, "-o", out, "--split", words(shares), *options, *FIXED)
    if done.returncode:
        tap.ok(False, name, done.stderr.decode())
        return {}
    return {split: Packed("%s/%s" % (out, split)) for split, _ in shares}


def check(name, source, out, shares, items, want, *options):
    """items: [(key, class, image)] in the order of their numbers; want: {key: split}."""
    sets = packed(name, source, out, shares, *options)
    wrong = []
    for split, found in sets.items():
        here = [item for item in items if want[item[0]] == split]
        if not here:
            wrong.append("the test has no item in %s" % split)
        if found.keys != [key for key, _, _ in here]:
            wrong.append("%s has %s, wanted %s" % (split, found.keys, [key for key, _, _ in here]))
        elif found.labels["label"] != [label for _, label, _ in here]:
            wrong.append("labels of %s" % split)
        elif found.tensors != [packing.expected(data) for _, _, data in here]:
            wrong.append("pixels of %s" % split)
    if sets:
        tap.ok(not wrong, name, wrong)


def make(folder, counts, name="p%d_%d.png"):
    """[(key, class, image)] of a new folder."""
    items = []
    for number, (label, count) in enumerate(sorted(counts.items())):
        os.makedirs("%s/%s" % (folder, label), exist_ok=True)
        for i in range(count):
            key = "%s/%s" % (label, name % (i // 4, i))
            items.append((key, number, image(rng)))
            with open("%s/%s" % (folder, key), "wb") as file:
                file.write(items[-1][2])
    return sorted(items)


def said(name, done, code, *pieces):
    text = (done.stdout + done.stderr).decode()
    missing = [piece for piece in pieces if piece not in text]
    tap.ok(done.returncode == code and not missing, name, ["exit %d, no %s" % (done.returncode, missing), *text.splitlines()])


def refused(name, *arguments, wanted, source="flat"):
    packing.refuses(name, 2, wanted, source, *arguments, out=os.path.join(place, "refused"))


flat = make("flat", {"a": 61, "b": 30, "é": 9})
TWO, THREE = [("train", 0.8), ("val", 0.2)], [("val", .15), ("train", 0.7), ("my_test-2", 0.15)]
for title, shares, options, seed in (("two splits", TWO, [], 0), ("three splits", THREE, [], 0), ("another seed", THREE, ["--split-seed", 12345678901], 12345678901)):
    check(title, "flat", "one", shares, flat, {key: drawn(key, shares, seed) for key, _, _ in flat}, *options)
tap.ok(len({tuple(drawn(key, THREE, seed) for key, _, _ in flat) for seed in (0, 1, 12345678901)}) == 3, "seeds differ")
tap.ok(os.listdir("one/train") and sorted(os.listdir("one")) == ["my_test-2", "train", "val"], "and nothing else is in OUT")
subprocess.run("tar cf flat.tar flat; tar czf flat.tgz flat; cp -r flat flat.dir", shell=True, check=True)
want = {key: drawn(key, TWO) for key, _, _ in flat}
for source in ("flat.tar", "flat.tgz"):
    check(source + ": as the folder", source, "one", TWO, flat, want)
with open("list.tsv", "w") as file:
    file.writelines("flat/%s\t%s\n" % (key, "abc"[label]) for key, label, _ in flat)
check("a list", "list.tsv", "one", TWO, [("flat/" + key, label, data) for key, label, data in flat],
      {"flat/" + key: drawn("flat/" + key, TWO) for key, _, _ in flat})
os.makedirs("bare")
with open("bare.csv", "w") as file:
    for key, label, data in flat:
        file.write("%s,%s\n" % (key[2:], "abc"[label]))
        with open("bare/" + key.replace("/", "_"), "wb") as picture:
            picture.write(data)
names = [(key.replace("/", "_"), label, data) for key, label, data in flat]
with open("bare.csv", "w") as file:
    file.writelines("%s,%s\n" % (key, "abc"[label]) for key, label, _ in names)
check("--labels", "bare", "one", TWO, sorted(names), {key: drawn(key, TWO) for key, _, _ in names}, "--labels", "bare.csv")
packing.numpy.save("x.npy", packing.numpy.random.RandomState(1).randint(0, 256, (50, 8, 8, 3), dtype=packing.numpy.uint8))
done = ffpack("x.npy", "-o", "one", "--force", "--array-layout", "hwc", "--split", words(TWO), *packing.NORMALIZE, "--dtype", "f32")
keys = {split: Packed("one/" + split).keys if done.returncode == 0 else [done.stderr.decode()] for split, _ in TWO}
tap.ok(keys["train"] and set(keys) == {"train", "val"} and all(drawn(key, TWO) == split for split in keys for key in keys[split]) and
       sum(map(len, keys.values())) == 50, "arrays: by their numbers", str(keys))

# ---- more files

grown = flat + make("flat", {"b": 20, "c": 40}, "new%d_%d.png")
grown = sorted((key, "abcé".index(key[0]), data) for key, _, data in grown)
check("more files move none", "flat", "more", TWO, grown, {**{key: drawn(key, TWO) for key, _, _ in grown}, **want})
shutil.rmtree("flat")
os.rename("flat.dir", "flat")

# ---- --stratify

for title, shares, seed in (("--stratify", TWO, 0), ("--stratify, three splits and a seed", THREE, 5)):
    strata = [cut([key for key, label, _ in flat if label == number], shares, seed) for number in range(3)]
    counts = [{split: len(keys) for split, keys in stratum.items()} for stratum in strata]
    check("%s: %s" % (title, counts), "flat", "one", shares, flat, {key: split for stratum in strata for split in stratum for key in stratum[split]},
          "--stratify", "--split-seed", seed)
many = make("many", {"c%d" % number: 1 + number for number in range(12)})
strata = [cut([key for key, _, _ in many if key.startswith("c%d/" % number)], TWO) for number in range(12)]
tap.ok([len(stratum["val"]) for stratum in strata] == [0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2], "the cut is rounded to the nearest item")
order = sorted("c%d" % number for number in range(12))
check("--stratify: classes of 1 to 12 items", "many", "one", TWO, [(key, order.index(key.split("/")[0]), data) for key, _, data in many],
      {key: split for stratum in strata for split in stratum for key in stratum[split]}, "--stratify")

# ---- --group-by

for title, expression in (("its first group", r"/(p[0-9]+)_"), ("the whole match", r"^./p[0-9]+|é"), ("of a group that takes no part", r"/new(x)|p[0-9]+")):
    where = {key: drawn(key, TWO, 0, expression) for key, _, _ in flat}
    check("--group-by: " + title, "flat", "one", TWO, flat, where, "--group-by", expression, "--allow-empty-classes")
    groups = {}
    for key, split in where.items():
        groups.setdefault(re.search(expression, key).group(0), set()).add(split)
    tap.ok(all(len(splits) == 1 for splits in groups.values()) and len(groups) > 5, "groups are whole")
refused("a name without a group", *HALVES, "--group-by", "(a/p[0-9]+)_", wanted=["--group-by: '(a/p[0-9]+)_' matches nothing in the name b/p0_0.png"])
refused("a group of nothing", *HALVES, "--group-by", "(x*)", wanted=["matches nothing in the name a/p0_0.png"])
refused("no expression", *HALVES, "--group-by", "(a", wanted=["--group-by: '(a' is not a POSIX extended expression"])
refused("groups and classes", *HALVES, "--group-by", "a", "--stratify", wanted=["wanted only one"])

# ---- wrong values

for shares, piece in (("train=0.8,val=0.21", "add up to 1.01, wanted 1"), ("train=0.8", "add up to 0.8"), ("train=1.5,val=-0.5", "'val=-0.5' is not a split with its share"),
                      ("train=0.9,val", "'val' is not a split with its share"), ("train=0.9,val=0.1,", "'' is not a split"), ("train=0.9,val=x", "'val=x'"),
                      ("train=1,val=0", "'val=0'"), ("train=nan,val=0.1", "'train=nan'"), ("train= 0.9,val=0.1", "'train= 0.9'"), ("train=90,val=10", "add up to 100"),
                      ("a/b=0.9,val=0.1", "'a/b' is not the name of a split"), ("=0.9,val=0.1", "'' is not the name of a split"), ("..=0.9,val=0.1", "'..' is not the name"),
                      ("val=0.9,val=0.1", "'val' is there twice"), ("n%s=0.5,val=0.5" % ("n" * 64), "is not the name of a split"),
                      (",".join("s%d=0.05" % i for i in range(20)), "more than 16 splits"), ("train=0.9,val=0.0999", "add up to 0.9999")):
    refused("--split " + shares[:40], "--split", shares, wanted=["--split: ", piece])
for option in (["--split-seed", "1"], ["--split-seed", "0"], ["--stratify"], ["--group-by", "a"]):
    refused("%s alone" % option[0], *option, wanted=["%s: is for --split" % option[0]])
refused("an empty split", "--split", "train=0.9999,val=0.0001", wanted=["--split: val would have 0 of the 100 items of flat"])
packing.photos(rng)
refused("a folder with splits", *HALVES, wanted=["--split: photos has splits of its own (train, ...); wanted a source without splits, like its folder photos/train"], source="photos")
refused("an archive with splits", *HALVES, wanted=["--split: photos.tar.gz has splits of its own"], source="photos.tar.gz")
refused("classes that are values", *HALVES, "--stratify", "--array-layout", "hwc", wanted=["--stratify: x.npy has no label that is a class"], source="x.npy")
with open("own.csv", "w") as file:
    file.writelines(["path,label,split\n"] + ["flat/%s,x,%s\n" % (key, "train" if i % 2 else "val") for i, (key, _, _) in enumerate(flat)])
refused("a list with splits", *HALVES, wanted=["--split: own.csv has splits of its own"], source="own.csv")
packed("shares that add up to 1 in words", "flat", "tenths", [("t%d" % i, 0.1) for i in range(10)])
tap.ok(len(os.listdir("tenths")) == 10, "ten shares of 0.1 add up to 1")
packed("one split", "flat", "alone", [("train", 1)])
tap.ok(Packed("alone/train").keys == [key for key, _, _ in flat], "one split has all")

# ---- what is said, and recorded

done = ffpack("flat", "-o", "told", "--split", "val=0.2,train=0.8", "--split-seed", 3, "--group-by", "p[0-9]+", "--resize", "9x11", "--json")
report = json.loads(done.stdout)
rule = "val=0.2,train=0.8 seed=3 group-by=p[0-9]+"
tap.ok([split["split"] for split in report["splits"]] == ["train", "val"] and report["split_rule"] == rule and
       Packed("told/val").provenance["split"] == rule, "--json and the set have the rule; train comes first", report)
os.makedirs("alone.dir")
for key in Packed("told/train").keys:
    os.makedirs("alone.dir/" + key[:key.rindex("/")], exist_ok=True)
    shutil.copy("flat/" + key, "alone.dir/" + key)
alone = json.loads(ffpack("alone.dir", "-o", "alone", "--force", "--resize", "9x11", "--json", "--dry-run").stdout)
done = json.loads(ffpack("alone.dir", "-o", "alone", "--force", "--resize", "9x11", "--json").stdout)
tap.ok(done["mean"] == report["mean"] and done["std"] == report["std"] and report["statistics"] == "computed from train", "mean and std are those of train")
said("the summary has it", ffpack("flat", "-o", "told", "--force", "--split", words(TWO), "--stratify", *FIXED), 0,
     "train: 80 items", "val: 20 items", "split by the names' hashes: train=0.8,val=0.2 seed=0 stratify\n")
ffpack("flat", "-o", "plain", *FIXED)
tap.ok("split" not in Packed("plain").provenance, "a set without --split does not")
for options in ([], ["--stratify"], ["--group-by", "p[0-9]+"]):
    reports = []
    for more in (["--dry-run"], ["--force"]):
        reports.append(json.loads(ffpack("flat", "-o", "dry", "--split", words(THREE), *options, *more, *FIXED, "--json").stdout))
        if "--dry-run" in more:
            tap.ok(not os.path.exists("dry"), "a dry run writes nothing")
    counts = [[(split["split"], split["items"]) for split in each["splits"]] for each in reports]
    tap.ok(len(counts[0]) == 3 and counts[0] == counts[1], "a dry run counts as the packing does %s" % options, counts)
    shutil.rmtree("dry")

# ---- parts, orders, skips, resumes

SHARDS = ["--shard-size", "4K", "--split", words(TWO), *FIXED]
with open("flat/b/broken.png", "wb") as file:
    file.write(b"broken")
for title, options in (("in order", ["--on-error", "skip", "--max-skip", "9"]), ("shuffled, compressed", ["--on-error", "skip", "--max-skip", "9", "--shuffle", "3", "--compress", "zstd"]),
                       ("stratified, statistics", ["--on-error", "skip", "--max-skip", "9", "--stratify", "--stats", "compute"])):
    for each in ("whole", "parts"):
        shutil.rmtree(each, ignore_errors=True)
    shards = SHARDS if "--stats" not in options else SHARDS[:-len(packing.NORMALIZE)]
    done = ffpack("flat", "-o", "whole", *shards, *options)
    said("%s: the broken one is left out" % title, done, 0, "1 item was left out")
    for number in (3, 1, 2):
        ffpack("flat", "-o", "parts.part-%d-of-3" % number, "--part", "%d/3" % number, *shards, *options)
    done = ffpack("merge", "parts")
    tap.ok(done.returncode == 0 and not same_files("whole", "parts"), "%s: parts merge to the same bytes" % title, done.stderr.decode())
    for each in [each for each in os.listdir(".") if each.startswith("parts.")]:
        shutil.rmtree(each) if os.path.isdir(each) else os.remove(each)
    tap.ok("b/broken.png" in open("whole.skipped.tsv").read(), "%s: and is listed" % title)
os.remove("flat/b/broken.png")
large = packing.numpy.random.RandomState(6).randint(0, 256, (900, 900, 3), dtype=packing.numpy.uint8)
os.makedirs("large/a")
packing.Image.fromarray(large).save("large/a/0.jpg", quality=95)
for i in range(1, 300):
    os.link("large/a/0.jpg", "large/a/%d.jpg" % i)
LARGE = ["large", *SHARDS, "--jobs", "1"]
ffpack(*LARGE, "-o", "uncut")
process = subprocess.Popen([FFPACK, *LARGE, "-o", "cut"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
while process.poll() is None and not os.path.exists("cut.partial/train/shard-000005.ffs"):
    time.sleep(0.005)
process.kill()
process.wait()
tap.ok(os.path.exists("cut.partial") and not os.path.exists("cut"), "killed")
said("another rule does not continue it", ffpack(*LARGE, "-o", "cut", "--split-seed", 1), 2, "an earlier run with other options")
said("--resume continues it", ffpack(*LARGE, "-o", "cut", "--resume"), 0, "there from the run that this one continued")
tap.ok(not same_files("uncut", "cut"), "to the same bytes", same_files("uncut", "cut"))

# ---- classes that a split lacks, names that come twice

lone = make("lone", {"a": 30, "b": 30}, "z%d_%d.png") and next(key for key in ("rare/only%d.png" % i for i in range(100)) if drawn(key, TWO) == "val")
os.makedirs("lone/rare")
shutil.copy("lone/a/" + os.listdir("lone/a")[0], "lone/" + lone)
said("training lacks a class", ffpack("lone", "-o", "lacks", "--split", words(TWO), *FIXED), 65, "--split: train has no item of 1 of the 3 classes, as rare; wanted --stratify")
said("which may be", ffpack("lone", "-o", "lacks", "--split", words(TWO), "--allow-empty-classes", *FIXED), 0, "train has no item of 1 of the 3 classes, as rare")
os.rename("lone/" + lone, "lone/" + next(key for key in ("rare/only%d.png" % i for i in range(100)) if drawn(key, TWO) == "train"))
said("another split lacks one", ffpack("lone", "-o", "lacks2", "--split", words(TWO), *FIXED), 0, "val has no item of 1 of the 3 classes, as rare")
with open("thrice.tsv", "w") as file:
    file.writelines("%s\t%s\n" % ("flat/" + key, key[0]) for _ in range(3) for key, _, _ in flat[:9])
sets = packed("names that come three times", "thrice.tsv", "thrice", [("train", 0.5), ("val", 0.5)], "--stratify")
keys = [set(found.keys) for found in sets.values()]
tap.ok(len(keys) == 2 and all(keys) and not keys[0] & keys[1], "each name is in one split", keys)

# ---- append: the rule of the set

packed("a set to append to", "flat", "set", TWO, "--split-seed", 2)
extra = make("extra", {"a": 23, "b": 7}, "x%d_%d.png")
said("an append divides by the set's rule", ffpack("append", "set", "extra"), 0, "split by the names' hashes: train=0.8,val=0.2 seed=2")
for split, _ in TWO:
    tap.ok(Packed("set/" + split).keys == [key for items in (flat, extra) for key, _, _ in items if drawn(key, TWO, 2) == split], "%s has its own" % split)
one = next(key for key in ("a/only%d.png" % i for i in range(100)) if drawn(key, TWO, 2) == "train")
os.makedirs("single/a")
shutil.copy("flat/a/p0_0.png", "single/" + one)
before = tap.files_of("set/val")
said("one item, of train", ffpack("append", "set", "single"), 0, "items", "in set/train")
tap.ok(Packed("set/train").keys[-1] == one and tap.files_of("set/val") == before, "val stays as it was")
pair = make("pair", {"a": 12}, "y%d_%d.png")
tap.ok({drawn(key, TWO, 2) for key, _, _ in pair} == {"train", "val"}, "items of both")
said("a split of it alone", ffpack("append", "set/val", "pair"), 0, "in set/val")
tap.ok(Packed("set/val").keys[-12:] == [key for key, _, _ in pair], "gets what is appended, whatever the rule says")
os.makedirs("newer/new")
shutil.copy("flat/a/p0_0.png", "newer/new/" + os.path.basename(one))
said("a new class that not all splits would have is refused", ffpack("append", "set", "newer", "--new-classes"), 2, "would have a class 'new' in some of its splits alone")
packed("a stratified set", "flat", "strict", TWO, "--stratify")
said("an append to a stratified set is refused", ffpack("append", "strict", "extra"), 2, "--stratify", "append to one of its splits")
os.makedirs("both")
shutil.copytree("extra", "both/train")
shutil.copytree("extra", "both/val")
said("splits of the source's own are taken", ffpack("append", "strict", "both"), 0, "in strict/train")

# ---- beside --labels ------------------------------------------------------------------------------

os.makedirs("loose")
names = ["n%d.png" % i for i in range(12)]
for name in names:
    shutil.copy("flat/a/p0_0.png", "loose/" + name)
with open("loose.csv", "w") as file:
    file.write("".join("%s,%s\n" % (name, "ab"[i % 2]) for i, name in enumerate(names)))
packed("a flat folder with --labels", "loose", "labelled", TWO, "--labels", "loose.csv")
refused("a list for a split that --split would make", "--split", words(TWO), "--labels", "train=loose.csv", source="loose",
        wanted=["--labels: loose has no split 'train'", "wanted --labels FILE alone, whose images --split divides"])

os.chdir("/")
shutil.rmtree(place)
tap.finish()
