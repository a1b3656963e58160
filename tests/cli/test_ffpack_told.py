#!/usr/bin/python3
"""What ffpack says is so, and what is lost or changed is said: sources that changed between two runs, values that do not
fit, items that are left out, dry runs. The oracles are the values that the test itself wrote. Prints TAP."""
# Needs: ffpack ffinspect tests/plain_fs.so
import glob
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import packing  # noqa: E402
from packing import ffpack, tap  # noqa: E402
import numpy  # noqa: E402
from PIL import Image  # noqa: E402

os.chdir(tempfile.mkdtemp())
rng = numpy.random.default_rng(26)


def said(name, done, code, *pieces, lacks=()):
    text = (done.stdout + done.stderr).decode()
    wrong = [piece for piece in pieces if piece not in text] + [piece for piece in lacks if piece in text]
    return tap.ok(done.returncode == code and not wrong, name, "exit %d, wrong: %s\n%s" % (done.returncode, wrong, text))


def interrupt(out):
    """Makes of the packed set what an interruption before its last shard would have left."""
    os.rename(out, out + ".partial")
    os.remove(out + ".partial/index.ffx")
    os.remove(out + ".partial/" + max(os.listdir(out + ".partial")))


# ---- a source that changed between two runs
PLAIN = ["--mean", "0.5", "--std", "0.5", "--shard-size", "4096"]
values = rng.integers(0, 256, (40, 16, 16, 1), dtype=numpy.uint8)
numpy.save("x.npy", values)
tap.ok(ffpack("x.npy", "-o", "set", *PLAIN).returncode == 0, "an array is packed")
interrupt("set")
shutil.copytree("set.partial", "again.partial")
said("and continued where it is the same", ffpack("x.npy", "-o", "again", *PLAIN), 0, "there from the run that this one continued")
for at, where in ((0, "first"), (17, "middle"), (39, "last")):
    other = values.copy()
    other[at, 3, 3] ^= 1
    numpy.save("x.npy", other)
    said("one bit of the %s item changed: it is not continued" % where, ffpack("x.npy", "-o", "set", *PLAIN), 2, "listing",
         "remove set.partial to start over")


def hash_of_listing(name, source, folder, jobs, labels, content):
    """Against the oracle: names, sizes and labels in order, then the bytes of all items."""
    done = ffpack(source, "-o", folder + jobs, "--jobs", jobs)
    packed = packing.Packed(os.path.join(folder + jobs, "train" if labels else ""))
    keys = [key.encode() for key in packed.keys]
    head = [struct.pack("<IQ", len(key), len(content) // len(keys)) + key for key in keys]
    if labels:
        head = [one + struct.pack("<i", label) for one, label in zip(head, labels)]
    wanted = packing.reader.xxh128(b"".join(head) + content).hex()
    tap.ok(done.returncode == 0 and packed.provenance["listing"] == wanted, "%s, %s threads: the hash of the listing" % (name, jobs),
           "%s, wanted %s" % (packed.provenance["listing"], wanted))


for count, side in ((1500, 32), (3, 1100)):  # many items in what a thread reads at once, and one
    many = rng.integers(0, 256, (count, side, side, 1), dtype=numpy.uint8)
    numpy.save("many.npy", many)
    for jobs in "13":
        hash_of_listing("%d items" % count, "many.npy", "many%d." % count, jobs, None, many.tobytes())
os.mkdir("batches")
records = rng.integers(0, 256, (720, 3073), dtype=numpy.uint8)  # a thread reads items of several files
records[:, 0] = numpy.arange(720) % 10
for i in range(6):
    records[120 * i : 120 * i + 120].tofile("batches/" + ("data_batch_%d.bin" % (i + 1) if i < 5 else "test_batch.bin"))
for jobs in "13":
    hash_of_listing("items of five files", "batches", "cifar", jobs, records[:600, 0].tolist(), records[:600].tobytes())
numpy.save("x.npy", values)
tap.ok(ffpack("x.npy", "-o", "q1", "--part", "1/2", *PLAIN).returncode == 0, "part 1 before the change")
numpy.save("x.npy", other)
tap.ok(ffpack("x.npy", "-o", "q2", "--part", "2/2", *PLAIN).returncode == 0, "part 2 after it")
said("are not merged", ffpack("merge", "m", "q1", "q2"), 2, "listing")
os.makedirs("bmp/c")
for i in range(200):
    Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=numpy.uint8)).save("bmp/c/%03d.bmp" % i)
tap.ok(ffpack("bmp", "-o", "bmps", *PLAIN[4:], "--mean", ".5,.5,.5", "--std", ".5,.5,.5").returncode == 0, "images of one size in bytes")
interrupt("bmps")
for i in range(200):
    Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=numpy.uint8)).save("bmp/c/%03d.bmp" % i)
said("all written again are not continued", ffpack("bmp", "-o", "bmps", *PLAIN[4:], "--mean", ".5,.5,.5", "--std", ".5,.5,.5"), 2, "listing")

# ---- --on-error skip: at most --max-skip, and no class may be lost
os.makedirs("broken/rare")
for i in range(198):
    os.makedirs("broken/c%d" % (i % 3), exist_ok=True)
    Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=numpy.uint8)).save("broken/c%d/%03d.png" % (i % 3, i))
for i in range(2):
    open("broken/rare/%d.png" % i, "wb").write(b"no image")
SKIP = ["--dtype", "u8", "--shard-size", "8K", "--jobs", "2", "--on-error", "skip"]
RARE = "all 2 images of class rare had to be left out"
said("a class that loses all of its images", ffpack("broken", "-o", "lost", *SKIP), 65,
     "all 2 images of class rare had to be left out", "with another --max-skip this continues")
tap.ok(not os.path.exists("lost"), "and nothing is packed")
said("is lost if --max-skip allows it", ffpack("broken", "-o", "lost", *SKIP, "--max-skip", "2"), 0, "all 2 images of class rare had to be left out",
     "198 items")
with open("numbers.csv", "w") as file:
    for i in range(198):
        file.write("broken/c%d/%03d.png,%d\n" % (i % 3, i, i % 3 + 4))
    file.write("broken/rare/0.png,9\n")
said("a class without a name that loses all of its images", ffpack("numbers.csv", "-o", "lost-number", *SKIP), 65,
     "the only image of class 9 had to be left out", "with another --max-skip this continues")
with open("broken.csv", "w") as file:  # all images of a class of the second field are broken
    file.write("path,first:class,second:class\n")
    for at, name in sorted((at, name) for at, _, found in os.walk("broken") for name in found):
        file.write("%s/%s,%s,%s\n" % (at, name, "even" if int(name.split(".")[0]) % 2 == 0 else "odd", "rare" if "rare" in at else "common"))
said("a class of the second field, too", ffpack("broken.csv", "-o", "fields", *SKIP), 65, RARE)
for given, wanted in ((None, 2), ("2", 2), ("1.5%", 3), ("0", 0), ("3", 3), ("100%", 200)):
    option = ["--max-skip", given] if given else []
    for broken in range(wanted + 1, wanted + 2) if wanted < 200 else ():
        shutil.rmtree("some", ignore_errors=True)
        shutil.copytree("broken", "some")
        shutil.rmtree("some/rare")
        os.makedirs("some/rare")
        Image.fromarray(values[0, :8, :8, 0]).save("some/rare/0.png")
        Image.fromarray(values[1, :8, :8, 0]).save("some/rare/1.png")
        names = sorted(os.path.join(at, name) for at, _, found in os.walk("some") for name in found if "rare" not in at)[::7]
        for name in names[:broken]:
            open(name, "wb").write(b"no image")
        said("%d of 200 are more than --max-skip %s" % (broken, given), ffpack("some", "-o", "few", *SKIP, *option, "--force"), 65,
             "%d of 200 items had to be left out, and --max-skip %s allows %d" % (broken, given or "1%", wanted))
        said("says a dry run with --max-skip %s" % given, ffpack("some", "-o", "few", *SKIP, *option, "--force", "--dry-run"), 65,
             "%d of 200 items had to be left out, and --max-skip %s allows %d" % (broken, given or "1%", wanted))
        shutil.rmtree("few.partial", ignore_errors=True)
        if wanted:
            Image.fromarray(values[2, :8, :8, 0]).save(names[0])
            said("  and %d are not" % wanted, ffpack("some", "-o", "few", *SKIP, *option, "--force"), 0, "%d items" % (200 - wanted))
for wrong in ("", "-1", "x", "101%", "1.5", "1%%", "nan", "1e3%"):
    said("--max-skip %r" % wrong, ffpack("broken", "-o", "wrong", *SKIP, "--max-skip", wrong), 2, "--max-skip: '%s' is neither a number of items" % wrong)
said("--max-skip alone", ffpack("broken", "-o", "wrong", "--max-skip", "3"), 2, "--max-skip: is for --on-error skip")

# ---- the list of what was left out is for a shell
os.makedirs("shell/é & 50%")
good = ["shell/é & 50%%/%d.png" % i for i in range(3)]
for name in good:
    Image.fromarray(values[0, :8, :8, 0]).save(name)
plain = ["shell/é & 50%/two  words.png", "shell/é & 50%/%41'\"$HOME.png", "shell/é & 50%/日本.png"]
odd = ["shell/é & 50%/tab\tnew\nline.png", "shell/é & 50%/back\\slash\\t.png", "shell/é & 50%/bell\x07.png"]
for name in plain + odd:
    open(name, "wb").write(b"no image")
said("odd names are left out", ffpack("shell", "-o", "shelled", "--dtype", "u8", "--on-error", "skip", "--max-skip", "100%"), 0, "6 items were left out: shelled.skipped.tsv")
listed = open("shelled.skipped.tsv", encoding="utf-8", newline="\n").read()
tap.ok(listed.startswith("split\tposition\titem\tname\treason\n") and listed.count("\n") == 7 and all(line.count("\t") == 4 for line in listed.splitlines()),
       "each has a line, below the titles", listed)
subprocess.run("tail -n +2 shelled.skipped.tsv | cut -f 4 | grep -v '\\\\' | xargs -d '\\n' rm", shell=True, check=True)
tap.ok(sorted(glob.glob("shell/*/*")) == sorted(good + odd), "ordinary names are for xargs as they are", glob.glob("shell/*/*"))
subprocess.run(["bash", "-c", "tail -n +2 shelled.skipped.tsv | cut -f 4 | grep '\\\\' | while IFS= read -r name; do printf '%b\\0' \"$name\"; done | xargs -0 rm"], check=True)
tap.ok(sorted(glob.glob("shell/*/*")) == sorted(good), "and those with tabs, line ends and backslashes after printf %b", glob.glob("shell/*/*"))

# ---- what parts leave out is added up
def folder(path):
    """{name: bytes} of a set, and its list of skipped items."""
    found = {name: open(os.path.join(path, name), "rb").read() for name in os.listdir(path) if name != "history.jsonl"}
    return found, open(path + ".skipped.tsv", "rb").read()


def in_parts(source, *options):
    for part in 1, 2:
        for left in glob.glob("piece%d*" % part):
            (shutil.rmtree if os.path.isdir(left) else os.remove)(left)
        done = ffpack(source, "-o", "piece%d" % part, *SKIP, "--part", "%d/2" % part, *(options[part - 1] if options else ()))
        tap.ok(done.returncode == 0, "part %d of %s %s" % (part, source, options), done.stderr.decode())


def merged(name, code, *pieces, more=(), lacks=()):
    shutil.rmtree("merged.partial", ignore_errors=True)
    said(name, ffpack("merge", "merged", "piece1", "piece2", *more, "--force"), code, *pieces, lacks=lacks)


CURE = "; merge --max-skip N|P% allows more"
in_parts("broken")
merged("a class that parts together lose", 65, RARE + CURE)
tap.ok(not os.path.exists("merged"), "and nothing is merged")
said("the same command with --max-skip continues", ffpack("merge", "merged", "piece1", "piece2", "--max-skip", "2"), 0, RARE)
ffpack("broken", "-o", "lost", *SKIP, "--max-skip", "2", "--force")
tap.ok(folder("merged") == folder("lost"), "to the bytes of one run")
in_parts("broken", ["--max-skip", "2"], ["--max-skip", "2"])
merged("is lost if the parts' --max-skip allows it", 0, RARE)
in_parts("broken", ["--max-skip", "2"], ["--max-skip", "2"])
os.remove("piece2.skipped.json")
merged("a part's file that is missing is said", 0, "piece2.skipped.json is missing, so it is not checked whether too much was left out")
open("piece2.skipped.json", "w").write("{}")
merged("one that is broken is refused", 65, "piece2.skipped.json: is broken; pack --part 2/2 again")
shutil.rmtree("some")
shutil.copytree("broken", "some")
for i in range(2):
    Image.fromarray(values[i, :8, :8, 0]).save("some/rare/%d.png" % i)
names = sorted(os.path.join(at, name) for at, _, found in os.walk("some") for name in found)
for name in (names[0], names[1], names[199]):
    open(name, "wb").write(b"no image")
in_parts("some")  # 2 of 100 are more than 1 % of a part, and no more than that of the set
merged("parts that together leave out too much", 65, "3 of 200 items had to be left out, and --max-skip 1% allows 2" + CURE)
merged("by their own number", 65, "3 of 200 items had to be left out, and --max-skip 1.0% allows 2", more=["--max-skip", "1.0%"])
merged("and by a larger one", 0, "197 items", more=["--max-skip", "3"])
merged("no number", 2, "--max-skip: 'x' is neither a number of items", more=["--max-skip", "x"])
in_parts("some", ["--max-skip", "3"], ["--max-skip", "4"])
merged("parts with different --max-skip", 2, "piece1 and piece2 were packed with --max-skip 3 and 4; merge --max-skip N|P% sets")
merged("of which --max-skip is none", 65, "3 of 200 items", "--max-skip 1 allows 1", more=["--max-skip", "1"])
in_parts("some", ["--max-skip", "3"], ["--max-skip", "3"])
merged("parts with the same", 0, "197 items")
for name in names[:2]:
    Image.fromarray(values[2, :8, :8, 0]).save(name)
said("a part that is packed again", ffpack("some", "-o", "piece1", *SKIP, "--part", "1/2", "--force"), 0)
tap.ok(not os.path.exists("piece1.skipped.json"), "and leaves nothing out, has no such file")

# ---- values that do not fit are counted
wide = rng.uniform(-1, 1, (5, 3, 8, 8)).astype("f4")
numpy.save("fits.npy", wide)
said("floats that fit", ffpack("fits.npy", "-o", "fits"), 0, lacks=("inf or NaN",))
for at, bad in ((0, 1e6), (2, numpy.nan), (4, -numpy.inf)):
    wide[at, 1, 2, 3] = bad
numpy.save("wide.npy", wide)
for dtype, wanted, limit in (("f16", "3 samples have", "f16 holds values up to 65504"), ("bf16", "2 samples have", ""), ("f32", "2 samples have", "")):
    said("inf and NaN in %s" % dtype, ffpack("wide.npy", "-o", "wide", "--dtype", dtype, "--force"), 0, "%s values that are inf or NaN" % wanted, limit)
done = ffpack("wide.npy", "-o", "wide", "--json", "--force")
tap.ok(done.returncode == 0 and json.loads(done.stdout)["splits"][0]["not_finite"] == 3, "--json counts them", done.stderr.decode())
said("u8 with a tiny std", ffpack("x.npy", "-o", "tiny", "--mean", "0", "--std", "1e-6"), 0, "40 samples have values that are inf")
# ---- greys of more than 8 bits clip as Pillow's, counted
os.makedirs("deep/c")
grey = rng.integers(0, 200, (6, 6)).astype(numpy.uint16)
for i, (ending, top) in enumerate((("png", 200), ("png", 4000), ("tif", 200), ("tif", 256), ("pgm", 4000))):
    grey[3, 3] = top
    image = Image.fromarray(grey)
    if ending == "pgm":
        open("deep/c/%d.pgm" % i, "wb").write(b"P5 6 6 65535\n" + grey.astype(">u2").tobytes())
    else:
        image.save("deep/c/%d.%s" % (i, ending))
done = ffpack("deep", "-o", "deeper", "--dtype", "u8", "--json")
tap.ok(done.returncode == 0 and json.loads(done.stdout)["splits"][0]["clipped"] == 3, "three of five deep greys clip", (done.stdout + done.stderr).decode())
said("says the summary", ffpack("deep", "-o", "deeper", "--dtype", "u8", "--force"), 0, "3 images have greys above 255, which became 255 (white)")

os.makedirs("first/c")
for i in range(3):
    shutil.copy("deep/c/1.png", "first/c/%d.png" % i)
said("also of the first image", ffpack("first", "-o", "firsts", "--dtype", "u8", "--mean", "0,0,0", "--std", "1,1,1"), 0, "3 images have greys above 255")

# ---- options of one append do not hold for the next one
os.makedirs("whole/c")
for i in range(40):
    Image.fromarray(values[i, :8, :8, 0]).save("whole/c/%02d.png" % i)
for name in ("cut1", "cut2", "cut3"):
    os.makedirs(name + "/c")
    Image.fromarray(rng.integers(0, 256, (64, 64, 3), dtype=numpy.uint8)).save(name + "/c/%s.jpg" % name, quality=95)
    with open(name + "/c/%s.jpg" % name, "r+b") as file:
        file.truncate(3000)
ONE = ["--resize", "8", "--center-crop", "8", "--dtype", "u8", "--mean", ".5,.5,.5", "--std", ".5,.5,.5"]
said("a set of whole images", ffpack("whole", "-o", "kept", *ONE), 0)
said("a truncated one is refused", ffpack("append", "kept", "cut1"), 65, "truncated JPEG")
said("and taken with --allow-truncated", ffpack("append", "kept", "cut1", "--allow-truncated"), 0, "1 image was odd or cut off", lacks=("as the set was packed",))
said("  by this append alone", ffpack("append", "kept", "cut2"), 65, "truncated JPEG")
said("a set that was packed with it", ffpack("cut1", "-o", "loose", *ONE, "--allow-truncated"), 0)
said("  is appended to in the same way, and reports it", ffpack("append", "loose", "cut2"), 0, "as the set was packed: --allow-truncated", "1 image was odd or cut off")
done = ffpack("append", "loose", "cut3", "--json")
tap.ok(done.returncode == 0 and "as the set was packed: --allow-truncated" in json.loads(done.stdout)["notes"], "  also after another append, in --json", done.stderr.decode())


def stored_items(folder, first):
    """The items from this one on, in the order in which they are stored."""
    items = [record.item for shard in packing.reader.Split(folder).shards for record in shard.records]
    return [item for item in items if item >= first]


numpy.save("rows.npy", values[:, :8, :8])
for option, first, kept in (([], 40, False), (["--shuffle", "5"], 40, True)):
    shutil.rmtree("rows", ignore_errors=True)
    ffpack("rows.npy", "-o", "rows", "--dtype", "u8", *option)
    done = ffpack("append", "rows", "rows.npy", "--allow-duplicates", "--shuffle", "1")
    tap.ok(done.returncode == 0 and stored_items("rows", 40) != list(range(40, 80)) and b"as the set" not in done.stdout, "an append is shuffled", done.stderr.decode())
    done = ffpack("append", "rows", "rows.npy", "--allow-duplicates")
    mixed = stored_items("rows", 80) != list(range(80, 120))
    tap.ok(done.returncode == 0 and mixed == kept and (b"as the set was packed: --shuffle=5" in done.stdout) == kept,
           "  and the next one as the set was packed (%s)" % (option or "in order"), (done.stdout + done.stderr).decode())

# ---- a dry run is refused where packing is
os.makedirs("mixed/c")
for i in range(1200):
    Image.fromarray(values[i % 40, :8, :8, 0]).save("mixed/c/%04d.png" % i)
said("a dry run of images of one size", ffpack("mixed", "--dry-run"), 0, "1200 items", "tried 1000 images of 1200 images")
Image.fromarray(values[0, :7, :8, 0]).save("mixed/c/0600.png")
words = ("0000.png has 8 x 8 pixels", "0600.png 8 x 7", "need --resize HxW")
said("packing refuses another size", ffpack("mixed", "-o", "mix"), 2, *words)
said("  and so does the dry run", ffpack("mixed", "--dry-run"), 2, *words)
open("mixed/c/0600.png", "wb").write(b"<html>")
said("packing refuses what is not an image", ffpack("mixed", "-o", "mix"), 65, "0600.png: not an image")
said("  and so does the dry run", ffpack("mixed", "--dry-run"), 65, "0600.png: not an image")
said("  which counts it with --on-error skip", ffpack("mixed", "--dry-run", "--on-error", "skip"), 0, "1 would be left out")

# ---- --force through a symlink: the set is replaced where it is
numpy.save("one.npy", values[:8])
os.makedirs("disk")
ffpack("x.npy", "-o", "disk/real", *PLAIN)
os.symlink("disk/real", "link")
said("a symlink without --force", ffpack("one.npy", "-o", "link", *PLAIN), 2, "link: exists already; --force replaces it")
for _ in range(2):
    said("--force through a symlink", ffpack("one.npy", "-o", "link", *PLAIN, "--force"), 0, "8 items")
    tap.ok(os.path.islink("link") and sorted(os.listdir("disk")) == ["real"] and len(packing.Packed("disk/real").keys) == 8
           and not [name for name in os.listdir(".") if name.startswith("link.")], "replaces the set that it leads to, and leaves nothing")
ffpack("x.npy", "-o", "half1", "--part", "1/2", *PLAIN)
ffpack("x.npy", "-o", "half2", "--part", "2/2", *PLAIN)
said("merge --force through a symlink", ffpack("merge", "link", "half1", "half2", "--force"), 0)
tap.ok(os.path.islink("link") and len(packing.Packed("disk/real").keys) == 40, "too")

# ---- a file system without renameat2's flags and without locks
if tap.SANITIZE:
    tap.skip("a plain file system", "a preloaded shim and a sanitizer do not go together")
    tap.finish()
SHIM = {"LD_PRELOAD": tap.program("plain_fs.so")}


def plainly(*arguments, **more):
    return subprocess.run([packing.FFPACK, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(os.environ, **SHIM, **more))


def left():
    return sorted(name for name in os.listdir("nfs"))


os.makedirs("nfs")
said("a new set", plainly("one.npy", "-o", "nfs/set", *PLAIN), 0, "this file system has no locks")
said("--force", plainly("x.npy", "-o", "nfs/set", *PLAIN, "--force"), 0, "40 items")
tap.ok(left() == ["set"] and len(packing.Packed("nfs/set").keys) == 40, "replaces it and leaves nothing", left())
said("append", plainly("append", "nfs/set", "one.npy", "--allow-duplicates"), 0, "this file system has no locks")
said("repair", plainly("repair", "nfs/set"), 0, "this file system has no locks", lacks=("another ffpack",))
for at in range(1, 40):
    shutil.rmtree("nfs")
    os.makedirs("nfs")
    plainly("x.npy", "-o", "nfs/set", *PLAIN)
    if plainly("one.npy", "-o", "nfs/set", *PLAIN, "--force", FF_PLAIN_KILL=str(at)).returncode == 0:
        break
    there = os.path.exists("nfs/set")
    kept = [name for name in left() if os.path.exists("nfs/%s/index.ffx" % name) and len(packing.Packed("nfs/" + name).keys) == 40]
    again = plainly("one.npy", "-o", "nfs/set", *PLAIN, "--force")
    tap.ok((kept or there) and again.returncode == 0 and left() == ["set"] and len(packing.Packed("nfs/set").keys) == 8,
           "killed before rename %d: a whole set is there, and the same command ends with the new one" % at, "%s %s" % (left(), again.stderr.decode()))
tap.ok(at > 4, "the renames are all tried", at)

tap.finish()
