#!/usr/bin/python3
"""--if-changed: nothing is done for the same files and options; anything else packs again. What the summary says of EXIF
orientations, against Pillow. Prints TAP."""
# Needs: ffpack ffinspect
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import packing  # noqa: E402
from packing import Image, ffpack, numpy, tap  # noqa: E402

rng = random.Random(3)
place = tempfile.mkdtemp()
os.chdir(place)


def write(path, size=(12, 12)):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(packing.image(rng, size=size))


def stamps(folder):
    """{path: (inode, time of change)}: a set that was packed again has others."""
    found = {}
    for root, _, names in os.walk(folder):
        for name in names:
            info = os.stat(os.path.join(root, name))
            found[os.path.join(root, name)] = (info.st_ino, info.st_mtime_ns)
    return found


def run(source, out, *options):
    """"unchanged" or "packed", as --json says and as the files of OUT show; else what is wrong."""
    before = stamps(out)
    done = ffpack(source, "-o", out, "--if-changed", "--json", *options)
    if done.returncode:
        return done.stderr.decode()
    said, same = json.loads(done.stdout)["event"], bool(before) and stamps(out) == before
    return said if same == (said == "unchanged") else "said %s, and the files are %s" % (said, "the same" if same else "others")


def check(name, wanted, *arguments):
    found = run(*arguments)
    return tap.ok(found == wanted, name, found)


for split, count in (("train", 9), ("val", 6)):
    for i in range(count):
        write("photos/%s/%s/%d.png" % (split, "abc"[i % 3], i))
BASE = ["photos", "out"]
check("there is no OUT yet", "packed", *BASE)
check("again: nothing to do", "unchanged", *BASE)
check("OUT with a slash", "unchanged", "photos/", "out/")
os.symlink("photos", "link")
for source in ("./photos", os.path.abspath("photos"), "photos/../photos", "link"):
    check("the same folder as " + source, "unchanged", source, "out")
os.chdir("photos")
check("the same folder from within", "unchanged", ".", "../out")
os.chdir("..")
shutil.copytree("photos", "twin")
check("another folder with the same names, sizes and times", "packed", "twin", "out")
check("the first one again", "packed", *BASE)
os.makedirs("linked")
for name, folder in (("a", "photos"), ("b", "twin")):  # the first folder alone does not say where the second is
    os.symlink(os.path.abspath(folder + "/train/" + name), "linked/" + name)
check("folders that are links", "packed", "linked", "out-linked")
check("again", "unchanged", "linked", "out-linked")
os.remove("linked/b")
os.symlink(os.path.abspath("photos/train/b"), "linked/b")
check("the second link leads to a folder with the same names, sizes and times", "packed", "linked", "out-linked")
check("another number of jobs makes the same", "unchanged", *BASE, "--jobs", 2)
done = ffpack("photos", "-o", "out", "--if-changed")
tap.ok(done.returncode == 0 and done.stdout.decode() == "unchanged: out is what photos and the options make; nothing was done\n", "the sentence", done.stdout.decode())
done = tap.run([os.path.join(tap.BUILD, "ffinspect"), "out", "--verify"])
tap.ok(done.returncode == 0 and sorted(os.listdir("out")) == ["source-state", "train", "val"], "OUT is a sound set", done.stderr.decode())
ids = [[one["content_id"] for one in json.loads(ffpack("photos", "-o", folder, "--json", *options).stdout)["splits"]]
       for folder, options in (("plain", []), ("other", ["--if-changed"]))]
tap.ok(ids[0] == ids[1] and len(ids[0]) == 2, "with the ids of any packing", ids)


def touch():
    os.utime("photos/val/a/0.png", ns=(1, 2))


def rename():
    os.rename("photos/train/a/0.png", "photos/train/a/zero.png")


def grow():
    write("photos/train/b/new.png")


def remove():
    os.remove("photos/train/b/new.png")


def other_bytes():
    """Of the same size and time."""
    info = os.stat("photos/train/b/1.png")
    data = bytearray(open("photos/train/b/1.png", "rb").read())
    image = Image.open(io.BytesIO(bytes(data)))
    image.putpixel((0, 0), (1, 2, 3))
    out = io.BytesIO()
    image.save(out, "PNG")
    with open("photos/train/b/1.png", "wb") as file:
        file.write(out.getvalue())
    os.utime("photos/train/b/1.png", ns=(info.st_atime_ns, info.st_mtime_ns + 1))


def lose_shard():
    os.remove("out/train/shard-000000.ffs")


def lose_split():
    shutil.rmtree("out/val")


def write_shard():
    with open("out/train/shard-000000.ffs", "r+b") as file:
        file.seek(5000)
        file.write(b"other")


def lose_state():
    os.remove("out/source-state")


for name, change in (("a file is touched", touch), ("renamed", rename), ("added", grow), ("removed", remove), ("written", other_bytes), ("a shard of OUT is removed", lose_shard),
                     ("a split of OUT is removed", lose_split), ("a shard of OUT is written to", write_shard), ("source-state is removed", lose_state)):
    change()
    check(name, "packed", *BASE)
    check("and then not again", "unchanged", *BASE)
for options in (["--dtype", "u8"], ["--resize", "9x9"], ["--shard-size", "4096"], ["--on-error", "skip"], ["--on-error", "skip", "--max-skip", "3"], ["--stats-sample", "4"],
                ["--normalize", "half"], ["--exclude", "8.png"], ["--shuffle", "1"], ["--compress", "zstd"], ["--mode", "gray"], ["--align", "4096"], ["--layout", "hwc"], []):
    check("other options: " + " ".join(options), "packed", *BASE, *options)
    check("and then not again", "unchanged", *BASE, *options)
os.makedirs("more/train/a")
write("more/train/a/appended.png")
ffpack("append", "out/train", "more/train")
check("OUT was appended to", "packed", *BASE)

# ---- sources of other kinds

numpy.savez("arrays.npz", x=numpy.arange(80, dtype=numpy.uint8).reshape(5, 4, 4), y=numpy.arange(5))
subprocess.run(["tar", "cf", "photos.tar", "photos"], check=True)
with open("list.csv", "w") as file:
    file.write("path,label\n" + "".join("photos/val/%s/%d.png,%s\n" % ("abc"[i % 3], i, "abc"[i % 3]) for i in range(6)))
for source, touched in (("arrays.npz", "arrays.npz"), ("photos.tar", "photos.tar"), ("list.csv", "photos/val/b/1.png")):
    first, second = run(source, "kinds", "--stats-sample", 3), run(source, "kinds", "--stats-sample", 3)
    os.utime(touched, ns=(5, 6))
    tap.ok([first, second, run(source, "kinds", "--stats-sample", 3)] == ["packed", "unchanged", "packed"], source, (first, second))
check("another source", "packed", "photos", "kinds")

# ---- safety

for name, code, wanted, arguments in (("--part", 2, "--if-changed: is for a whole set", ["--part", "1/2"]), ("--force", 2, "--if-changed: replaces OUT if", ["--force"])):
    done = ffpack("photos", "-o", "no", "--if-changed", *arguments)
    tap.ok(done.returncode == code and wanted in done.stderr.decode() and done.stderr.count(b"\n") == 1 and not os.path.exists("no"), name, done.stderr.decode())
os.mkdir("thesis")
with open("thesis/thesis.tex", "w") as file:
    file.write("mine")
done = ffpack("photos", "-o", "thesis", "--if-changed")
tap.ok(done.returncode == 2 and "thesis/thesis.tex: ffpack did not write this; move it away" in done.stderr.decode() and os.listdir("thesis") == ["thesis.tex"],
       "a folder with other files is refused", done.stderr.decode())
run(*BASE)
done = ffpack("photos", "-o", "out", "--if-changed", "--dry-run")
tap.ok(done.returncode == 0 and done.stdout.startswith(b"unchanged: "), "--dry-run of nothing to do", done.stdout.decode() + done.stderr.decode())
touch_before = stamps("out")
os.utime("photos/val/a/0.png", ns=(7, 8))
done = ffpack("photos", "-o", "out", "--if-changed", "--dry-run")
tap.ok(done.returncode == 0 and done.stdout.startswith(b"would pack ") and stamps("out") == touch_before, "--dry-run of a changed source", done.stdout.decode())
with open("photos/train/a/broken.png", "wb") as file:
    file.write(b"no image")
SKIP = [*BASE, "--on-error", "skip"]
check("a broken image that is left out", "packed", *SKIP)
check("and again nothing to do", "unchanged", *SKIP)
os.remove("out.skipped.tsv")
check("the list of what was left out is gone", "packed", *SKIP)
tap.ok(os.path.exists("out.skipped.tsv"), "and there again")
check("and nothing to do after that", "unchanged", *SKIP)
os.remove("photos/train/a/broken.png")
for i in range(400):
    write("many/a/%d.png" % i, (300, 300))
check("many images", "packed", "many", "big", "--shard-size", "1M")
os.utime("many/a/7.png", ns=(7, 8))
process = subprocess.Popen([packing.FFPACK, "many", "-o", "big", "--if-changed", "--shard-size", "1M", "--jobs", "1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
limit = time.monotonic() + 60
while process.poll() is None and time.monotonic() < limit and not os.path.exists("big.partial/shard-000000.ffs"):
    time.sleep(0.002)
process.send_signal(signal.SIGKILL)
tap.ok(process.wait() == -signal.SIGKILL, "a packing is killed")
check("after which OUT does not look unchanged", "packed", "many", "big", "--shard-size", "1M")
check("and the next one has nothing to do", "unchanged", "many", "big", "--shard-size", "1M")

# ---- EXIF orientations

for i in range(27):
    orientation = i % 9  # 0: none
    image = Image.open(io.BytesIO(packing.image(rng, size=(16, 12))))
    exif = Image.Exif()
    if orientation:
        exif[0x0112] = orientation
    os.makedirs("phones/a", exist_ok=True)
    image.save("phones/a/%02d.%s" % (i, ("jpg", "png", "webp")[i // 9]), exif=exif.tobytes() if orientation else b"")
wanted = 0
for name in os.listdir("phones/a"):
    with Image.open("phones/a/" + name) as opened:
        wanted += opened.getexif().get(0x0112, 1) != 1
for options, text in (([], "  %d images are stored as in the file, with an EXIF orientation other than 1; --exif turns them upright\n"),
                      (["--exif"], "  %d images are turned upright by the EXIF orientation (--exif)\n")):
    done = ffpack("phones", "-o", "phones-set", "--force", "--resize", "9x9", *options)
    tap.ok(wanted == 21 and text % wanted in done.stdout.decode(), "EXIF orientations: " + " ".join(options), done.stdout.decode() + done.stderr.decode())
    said = json.loads(ffpack("phones", "-o", "phones-set", "--force", "--json", "--resize", "9x9", *options).stdout)
    tap.ok(said["splits"][0]["exif_orientation"] == wanted, "and in --json", said)
done = ffpack("photos", "-o", "plain", "--force")
tap.ok(done.returncode == 0 and b"EXIF" not in done.stdout, "no word of EXIF if there is none", done.stdout.decode())
os.chdir("/")
shutil.rmtree(place)
tap.finish()
