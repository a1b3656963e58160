#!/usr/bin/python3
"""ffpack check and --dry-run --decode: every broken image at once, with packing's own sentence for it, and nothing
written. The oracle are the files that the test broke itself; good ones are those that Pillow loads. Prints TAP."""
# Needs: ffpack
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import packing  # noqa: E402
from packing import ffpack, image, tap  # noqa: E402
from PIL import Image  # noqa: E402

numpy = packing.numpy
rng = random.Random(28)
os.chdir(tempfile.mkdtemp())
os.mkdir("temporary")
os.environ["TMPDIR"] = os.path.abspath("temporary")
PACKED = ["--resize", "9x11", "--normalize", "half"]


def loads(path):
    """Whether Pillow does."""
    try:
        with Image.open(path) as opened:
            opened.load()
        return True
    except Exception:  # whatever it says of a broken file
        return False


def everything():
    return sorted(os.path.join(at, name) for at, folders, files in os.walk(".") for name in folders + files)


def checked(title, code, names, *arguments):
    """The lines of a check, which name these files in this order."""
    before = everything()
    done = ffpack(*arguments)
    lines = done.stdout.decode().splitlines()
    listed = [line.split(": ")[0] if ".tar" not in line else ": ".join(line.split(": ")[:2]) for line in lines] if code == 65 else []
    tap.ok(done.returncode == code and listed == names and everything() == before, title,
           "exit %d, wanted %d; %s, wanted %s\n%s" % (done.returncode, code, listed, names, done.stderr.decode()))
    return lines, done.stderr.decode()


# ---- a folder with two splits
for split, count in (("train", 60), ("val", 30)):
    for i in range(count):
        os.makedirs("photos/%s/%s" % (split, "abc"[i % 3]), exist_ok=True)
        form = rng.choice(["PNG", "JPEG"])
        with open("photos/%s/%s/%02d.%s" % (split, "abc"[i % 3], i, form.lower()), "wb") as file:
            file.write(image(rng, form, size=(40, 30)))
files = sorted(os.path.join(at, name) for at, _, found in os.walk("photos") for name in found)
lines, said = checked("nothing is broken", 0, [], "check", "photos")
tap.ok(all(map(loads, files)) and "90 items" in lines[-1] and "nothing is broken" in lines[-1] and not said, "and the summary reports it", (lines, said))
jpegs = [name for name in files if name.endswith(".jpeg")]
pngs = [name for name in files if name.endswith(".png")]
whole = {name: open(name, "rb").read() for name in files}
harm = {jpegs[0]: b"", jpegs[3]: whole[jpegs[3]][:-100], jpegs[-1]: b"<html>moved</html>", pngs[1]: whole[pngs[1]][:-150], pngs[2]: whole[pngs[2]][:60] + b"\0\0\0" + whole[pngs[2]][63:],
        pngs[-1]: b"\x89PNG\r\n\x1a\n"}
for name, data in harm.items():
    open(name, "wb").write(data)
broken = sorted(harm)
tap.ok([name for name in files if not loads(name)] == broken, "Pillow finds these broken", [name for name in files if not loads(name)])
lines, said = checked("each broken file has a line", 65, broken, "check", "photos")
tap.ok(said == "ffpack: photos: %d of 90 images are broken\n" % len(broken), "and they are counted", said)
alone = []
for name in broken:  # what packing says of each alone
    shutil.rmtree("alone", ignore_errors=True)
    os.makedirs("alone/" + os.path.dirname(name))
    shutil.copy(name, "alone/" + name)
    done = ffpack(os.path.join("alone", "photos", name.split("/")[1]), "-o", "never", *PACKED)
    said, hint = done.stderr.decode().replace("alone/", "").replace("ffpack: ", "").strip().split("; --on-error skip ")
    alone.append(said)
shutil.rmtree("alone")
tap.ok(lines == alone, "in packing's own words", "%s\n%s" % (lines, alone))
tap.ok(any("its %d bytes end" % (len(whole[jpegs[3]]) - 100) in line for line in lines), "with the place", lines)
for jobs in 1, 7:
    tap.ok(checked("%d threads" % jobs, 65, broken, "check", "photos", "--jobs", jobs)[0] == lines, "say the same")
done = ffpack("check", "photos", "--json")
events = [json.loads(line) for line in done.stdout.splitlines()]
tap.ok(done.returncode == 65 and [(e["event"], e["split"], e["name"], e["reason"]) for e in events[:-1]] ==
       [("broken", name.split("/")[1], name, line) for name, line in zip(broken, lines)] and
       (events[-1]["event"], events[-1]["checked"], events[-1]["broken"]) == ("checked", 90, len(broken)), "--json has the same", done.stdout)

# ---- --dry-run --decode
dry, said = checked("--dry-run --decode lists them, too", 65, broken, "photos", "-o", "out", "--dry-run", "--decode", *PACKED)
tap.ok(dry == lines and said == "ffpack: photos: %d of 90 images are broken\n" % len(broken), "in the same words", (dry, said))
checked("without -o", 65, broken, "photos", "--dry-run", "--decode", *PACKED)
done = ffpack("photos", "--dry-run", "--decode", "--json", *PACKED)
tap.ok(done.returncode == 65 and [json.loads(line)["name"] for line in done.stdout.splitlines()] == broken, "and with --json", done.stdout)
for wrong, sentence in ((["--decode", "-o", "out"], "--decode: is for --dry-run"), (["--dry-run", "--decode", "--on-error", "skip"], "--on-error skip does not go with it"),
                        (["--dry-run", "--decode", "--part", "1/2"], "--part does not go with it")):
    done = ffpack("photos", *wrong, *PACKED)
    tap.ok(done.returncode == 2 and sentence in done.stderr.decode(), "%s is refused" % wrong, done.stderr)
done = ffpack("check", "photos", "-o", "out")
tap.ok(done.returncode == 2 and "unknown option -o" in done.stderr.decode(), "check has no output", done.stderr)
done = ffpack("check")
tap.ok(done.returncode == 2 and "wanted ffpack check SOURCE" in done.stderr.decode(), "check without a SOURCE", done.stderr)

# ---- the options of decoding
rest = [name for name in broken if name not in [jpegs[3], pngs[1], pngs[2]]]
done = ffpack("check", "photos", "--allow-truncated")
tap.ok(done.returncode == 65 and [line.split(": ")[0] for line in done.stdout.decode().splitlines()] == rest and jpegs[3] in done.stderr.decode(),
       "--allow-truncated accepts the truncated ones, which are notices", done.stdout + done.stderr)
checked("--exclude", 65, [name for name in broken if not name.endswith(".png")], "check", "photos", "--exclude", "*.png")
checked("--splits", 65, [name for name in broken if "/val/" in name], "check", "photos", "--splits", "test=val", "--exclude", "train")
checked("--resize and --center-crop", 65, broken, "check", "photos", "--resize", "8", "--center-crop", "6", "--exif", "--mode", "gray")

# ---- images of different sizes; broken ones at the beginning, and all of them
os.makedirs("sizes/a")
for i in range(5):
    open("sizes/a/%d.png" % i, "wb").write(image(rng, size=(9 + i, 9)))
checked("images of different sizes are not broken", 0, [], "check", "sizes")
checked("also with --resize N", 0, [], "check", "sizes", "--resize", "7")
done = ffpack("sizes", "--dry-run", "--decode")
tap.ok(done.returncode == 2 and "images of different sizes need --resize" in done.stderr.decode(), "but a set is not made of them", done.stderr)
open("sizes/a/0.png", "w").close()
open("sizes/a/3.png", "w").close()
checked("the broken ones first", 65, ["sizes/a/0.png", "sizes/a/3.png"], "sizes", "--dry-run", "--decode")
for i in range(5):
    open("sizes/a/%d.png" % i, "w").close()
everyone = ["sizes/a/%d.png" % i for i in range(5)]
for words in (["check", "sizes"], ["sizes", "--dry-run", "--decode"], ["sizes", "--dry-run", "--decode", "-o", "out"], ["sizes", "--dry-run", "--decode", "--resize", "7"],
              ["sizes", "--dry-run", "--decode", "--center-crop", "4"]):
    checked("all are broken: " + " ".join(words), 65, everyone, *words)

# ---- other sources
subprocess.run(["tar", "czf", "photos.tar.gz", "photos/train"], check=True)
inside = ["photos.tar.gz: " + name[len("photos/train/"):] for name in subprocess.run(["tar", "tzf", "photos.tar.gz"], check=True, capture_output=True, text=True).stdout.splitlines() if name in harm]
checked("an archive, in the order of reading", 65, inside, "check", "photos.tar.gz")
subprocess.run(["tar", "cf", "photos.tar", "--sort=name", "photos/train"], check=True)
checked("a plain tar", 65, sorted("photos.tar: " + name[len("photos/train/"):] for name in broken if "/train/" in name), "check", "photos.tar")
with open("list.csv", "w") as file:
    file.write("path,label\n" + "".join("%s,%d\n" % (name, i % 3) for i, name in enumerate(files[:40] + ["photos/missing.png"])))
checked("a list, and what is missing", 65, ["./" + name for name in broken if name in files[:40]] + ["./photos/missing.png"], "check", "list.csv")
with open("paths.txt", "w") as file:
    file.write("".join(name + "\n" for name in files))
checked("paths without classes", 65, ["./" + name for name in broken], "check", "paths.txt")
numpy.save("x.npy", numpy.zeros((50, 8, 8, 3), "u1"))
checked("an array", 0, [], "check", "x.npy")
for words in (["check", "photos"], ["check", "photos", "--json"], ["photos", *PACKED, "--dry-run", "--decode"], ["photos", *PACKED, "--dry-run", "--decode", "--json"]):
    with open("/dev/full", "w") as full:
        done = subprocess.run([os.path.join(tap.BUILD, "ffpack"), *words], stdout=full, stderr=subprocess.PIPE, text=True)
    tap.ok(done.returncode == 74 and done.stderr == "ffpack: stdout: cannot write the list of broken images: No space left on device\n",
           "a full disk behind the list: " + " ".join(words), (done.returncode, done.stderr))
done = ffpack("check", "nowhere")
tap.ok(done.returncode == 74 and b"nowhere" in done.stderr, "a SOURCE that is not there", (done.returncode, done.stderr))

# ---- all of many are decoded, where --dry-run tries a part
os.makedirs("many/a")
small = image(rng, size=(3, 3))
for i in range(2500):
    open("many/a/%04d.png" % i, "wb").write(small)
open("many/a/1234.png", "wb").write(small[:-30])
done = ffpack("many", "--dry-run")
tap.ok(done.returncode == 0, "--dry-run does not try the broken one of 2,500", done.stderr)
checked("--decode does", 65, ["many/a/1234.png"], "many", "--dry-run", "--decode")
os.remove("many/a/1234.png")
done = ffpack("many", "--dry-run", "--decode")
tap.ok(done.returncode == 0 and b"decoded 2499 items: nothing is broken" in done.stdout and b"would pack many" in done.stdout, "and reports what would be packed where none is", done.stdout)
tap.ok(not os.listdir("temporary"), "nothing is left in the temporary folder")
tap.finish()
