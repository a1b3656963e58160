#!/usr/bin/python3
"""Mean and std of parts. Parts of u8 and u16 values count their own items while they pack, and a merge adds up. Parts of floats called
OUT.part-I-of-N share the statistics pass: the bytes of one run, with each item read for them once by all parts
together, whether parts run one after another, at the same time, or are killed; counts of another source or of other options, and
broken ones, mean nothing. Prints TAP."""
# Needs: ffpack
import fcntl
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
from packing import FFPACK, image, tap  # noqa: E402

numpy = packing.numpy
rng = random.Random(9)
place = tempfile.mkdtemp()
os.chdir(place)
SMALL = ["--resize", "16x16", "--shard-size", "4K", "--on-error", "skip", "--max-skip", "100%"]
OTHER = ["--resize", "12x12", *SMALL[2:]]


def ffpack(*arguments, env=None):
    return subprocess.run([FFPACK, *map(str, arguments)], capture_output=True, text=True, timeout=300, env=env)


def start(number, count, *arguments, name="set"):
    command = [FFPACK, *map(str, arguments), "-o", "%s.part-%d-of-%d" % (name, number, count), "--part", "%d/%d" % (number, count), "--json"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def end(process):
    """The items that it read for the statistics, and its mean; or its failure."""
    out, said = process.communicate(timeout=300)
    if process.returncode:
        return "exit %d: %s" % (process.returncode, said), None
    report = json.loads(out)
    return report.get("statistics_items", 0), report.get("mean")


def part(number, count, *arguments, name="set"):
    return end(start(number, count, *arguments, name=name))


def remove(*names):
    for name in os.listdir("."):
        if name in names or any(name.startswith((each + ".part-", each + ".skipped", each + ".partial")) for each in names):
            shutil.rmtree(name) if os.path.isdir(name) else os.remove(name)


def merged(name="set"):
    """Merges the parts: why the set is not that of one run."""
    done = ffpack("merge", name)
    if done.returncode:
        return done.stderr
    other = packing.same_files("whole", name)
    left = [each for each in os.listdir(".") if each == name + ".part-counts"]
    return "other bytes: %s" % other if other else "left: %s" % left if left else ""


def merged_code():
    code = ffpack("merge", "set").returncode
    shutil.rmtree("set", ignore_errors=True)
    return code


def position(path):
    try:
        with open(path, "rb") as file:
            return int.from_bytes(file.read()[8:16], "little")
    except FileNotFoundError:
        return 0


def make_sources():
    packing.photos(rng)
    numpy.save("grey.npy", numpy.random.RandomState(3).randint(0, 60000, (50, 9, 7), dtype=numpy.uint16))
    numpy.save("wide.npy", numpy.random.RandomState(4).randint(0, 256, (3, 5, 6, 7), dtype=numpy.uint8))


def shared():
    """One after another the first reads all; at the same time each item is read once, too."""
    for name, items, source in (("a folder", 40, ["photos", *SMALL]),
                                ("shuffled, zstd", 40, ["photos", *SMALL, "--shuffle", "4", "--compress", "zstd"]),
                                ("sizes of their own", 40, ["photos", "--max-side", "12", *SMALL[2:], "--dtype", "f32"]),
                                ("a .tar.gz", 40, ["photos.tar.gz", *SMALL]),
                                ("--stats-sample", 17, ["photos", *SMALL, "--stats-sample", "17"]),
                                ("u16", 50, ["grey.npy", "--range", "0,65535", "--stats", "compute", "--shard-size", "4K"]),
                                ("fewer items than parts", 3, ["wide.npy", "--array-layout", "chw"])):
        ffpack(*source, "-o", "whole")
        wrong = []
        for count in (1, 2, 3, 7):
            order = rng.sample(range(1, count + 1), count)
            items_read = [part(number, count, *source)[0] for number in order]
            if items_read != [items] + [0] * (count - 1):
                wrong.append("%d one after another read %s" % (count, items_read))
            wrong += [why for why in [merged()] if why]
            remove("set")
        items_read = [end(process)[0] for process in [start(number, 5, *source, "--jobs", 1) for number in (3, 1, 5, 2, 4)]]
        if any(isinstance(read, str) for read in items_read) or sum(items_read) != items:
            wrong.append("5 at the same time read %s" % items_read)
        wrong += [why for why in [merged()] if why]
        remove("set", "whole")
        tap.ok(not wrong, "%s: 1, 2, 3 and 7 parts one after another, 5 at the same time: each item is read once, the bytes of one run" % name,
               wrong)

    ffpack("photos", "-o", "whole", *SMALL)
    read = []
    for index in range(3):
        environment = {**os.environ, "JOB_COMPLETION_INDEX": str(index), "FFPACK_PARTS": "3"}
        done = ffpack("photos", "-o", "set", *SMALL, "--part", "auto", "--json", env=environment)
        read.append(json.loads(done.stdout)["statistics_items"] if done.returncode == 0 else done.stderr)
    why = merged()
    tap.ok(read == [40, 0, 0] and not why, "--part auto", (read, why))
    remove("set")
    shares = start(1, 2, "photos", *SMALL, name="set").communicate(timeout=300)
    alone = ffpack("photos", "-o", "other", *SMALL, "--part", "2/2", "--json")
    read = [json.loads(out)["statistics_items"] for out in (shares[0], alone.stdout)]
    words = "mean and std: each part first reads all of 40 items for them; to avoid that: --stats-from, --normalize, "
    tap.ok(words in alone.stderr and "each part" not in shares[1], "which it says at the start, with what avoids it", (alone.stderr, shares[1]))
    done = ffpack("merge", "set", "set.part-1-of-2", "other")
    tap.ok(read == [40, 40] and done.returncode == 0 and packing.same_files("whole", "set") == [], "a part of another name makes the pass alone", (read, done.stderr))
    remove("set", "other")

    for arguments, words in ((["-o", "x.part-1-of-2", "--part", "1/2"], "a pass over 40 items before packing, shared by the parts\n"),
                             (["-o", "x", "--part", "1/2"], "before packing, in every part; parts called OUT.part-I-of-N, as --part auto calls them, share it\n"),
                             (["-o", "x.part-0-of-0"], "a pass over 40 items before packing\n")):
        done = ffpack("photos", *SMALL, *arguments, "--dry-run")
        tap.ok(words in done.stdout and not os.path.exists("x.part-counts"), "a dry run reports it: %s" % words.strip(), done.stdout + done.stderr)


COUNTED = (("u8", ["photos", *SMALL, "--dtype", "u8"]),
           ("hwc and zstd", ["photos", *SMALL, "--dtype", "u8", "--layout", "hwc", "--compress", "zstd"]),
           ("shuffled", ["photos", *SMALL, "--dtype", "u8", "--shuffle", "4", "--align", "4096"]),
           ("sizes of their own", ["photos", "--max-side", "12", *SMALL[2:], "--dtype", "u8"]),
           ("a .tar.gz", ["photos.tar.gz", *SMALL, "--dtype", "u8"]),
           ("u16", ["grey.npy", "--range", "3,65000", "--dtype", "u16", "--shard-size", "4K"]),
           ("five channels, fewer items than parts", ["wide.npy", "--array-layout", "chw", "--dtype", "u8"]))


def counted():
    """Parts of raw values: the bytes of one run, by one reading of the source."""
    for name, source in COUNTED:
        ffpack(*source, "-o", "whole")
        wrong = []
        for count in (1, 2, 3, 7):
            processes = [start(number, count, *source, name="p") for number in rng.sample(range(1, count + 1), count)]
            ends = [process.communicate(timeout=300) for process in processes]
            reports = [json.loads(out) if not process.returncode else {"failed": said} for process, (out, said) in zip(processes, ends)]
            if any("failed" in report or "mean" in report or "statistics_items" in report for report in reports):
                wrong.append(reports)
            shards = [sum(split["bytes"] for split in report.get("splits", [])) for report in reports]
            for again in ("the first merge", "of parts that are complete"):
                wrong += ["%d parts, %s: %s" % (count, again, why) for why in [merged("p")] if why]
                shutil.rmtree("p", ignore_errors=True)
            there = sum(os.path.getsize(os.path.join(at, file)) for each in os.listdir(".") if each.startswith("p.part-")
                        for at, _, files in os.walk(each) for file in files if file.endswith(".ffs"))
            wrong += ["%s bytes of shards are reported, %d are there" % (shards, there)] if sum(shards) != there else []
            wrong += ["left: p.part-counts"] if os.path.exists("p.part-counts") else []
            remove("p")
        remove("whole")
        tap.ok(not wrong, "%s: 1, 2, 3 and 7 parts, merged twice: the bytes of one run" % name, wrong)

    # A part reads its own items alone: of the other's, none is an image.
    os.makedirs("pure/a")
    for i in range(24):
        with open("pure/a/%02d.png" % i, "wb") as file:
            file.write(image(rng) if i < 12 else b"broken")
    own, other = (ffpack("pure", "-o", "part%d" % number, "--part", "%d/2" % number, "--dtype", "u8", "--resize", "16x16", "--shard-size", "4K")
                  for number in (1, 2))
    tap.ok(own.returncode == 0 and other.returncode == 65, "a part reads its own items alone", (own.stderr, other.stderr))
    remove("part1", "part2")
    shutil.rmtree("pure")


def counted_badly():
    """Sums that do not belong to the parts, parts that are lost, and values that are all the same."""
    source = ["photos", *SMALL, "--dtype", "u8"]
    ffpack(*source, "-o", "whole")
    for number in (1, 2):
        part(number, 2, *source)
    kept = {number: os.path.join("set.part-%d-of-2" % number, "train", "sums.ffp") for number in (1, 2)}
    with open(kept[1], "rb") as file:
        data = file.read()
    with open(kept[2], "rb") as file:
        second = file.read()
    part(1, 2, "photos", *OTHER, "--dtype", "u8", name="other")
    with open("other.part-1-of-2/train/sums.ffp", "rb") as file:
        other = file.read()
    for name, changed, words in (("a flipped bit", data[:-30] + bytes([data[-30] ^ 1]) + data[-29:], "sums.ffp: is broken"),
                                 ("cut short", data[:-1], "sums.ffp: "), ("of another set", other, "sums.ffp: is of another set"), ("lost", None, "sums.ffp: is missing; pack --part 1/2 again")):
        os.remove(kept[1])
        if changed is not None:
            with open(kept[1], "wb") as file:
                file.write(changed)
        done = ffpack("merge", "set", *["set.part-%d-of-2" % number for number in (1, 2)])
        tap.ok(done.returncode == 65 and words in done.stderr and not os.path.exists("set"), "sums: %s" % name, done.stderr)
        with open(kept[1], "wb") as file:
            file.write(data)
    # A merge waits for sums, which are copied last.
    os.remove(kept[2])
    waits = subprocess.Popen([FFPACK, "merge", "set", "--wait"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    time.sleep(1)
    running = waits.poll() is None
    with open("sums", "wb") as file:
        file.write(second)
    os.rename("sums", kept[2])
    said = waits.communicate(timeout=60)[1]
    tap.ok(running and waits.returncode == 0 and not packing.same_files("whole", "set"), "a merge waits for the sums", (running, said))
    shutil.rmtree("set")

    remove("set", "whole", "other")

    # One part is packed again after an image changed, in a way that the listing does not show: the shards of the other part are complete.
    os.makedirs("alike/a")
    for i in range(200):
        with open("alike/a/%03d.ppm" % i, "wb") as file:
            file.write(b"P6 8 8 255\n" + rng.randbytes(192))
    for number in (1, 2):
        part(number, 2, "alike", "--dtype", "u8", "--shard-size", "4K")
    first = merged_code()
    with open("alike/a/198.ppm", "r+b") as file:
        file.write(b"P6 8 8 255\n" + bytes(192))
    part(2, 2, "alike", "--dtype", "u8", "--shard-size", "4K", "--force")
    then = merged_code()
    tap.ok(first == 0 and then == 65, "a part packed again of an image that changed is not merged with one that was completed before", (first, then))
    remove("set")
    shutil.rmtree("alike")

    numpy.save("flat.npy", numpy.full((40, 9, 9), 7, numpy.uint8))
    said = [part(number, 2, "flat.npy", "--dtype", "u8", "--shard-size", "4K")[0] for number in (1, 2)]
    done = ffpack("merge", "set")
    tap.ok(said == [0, 0] and done.returncode == 65 and "has the value 7 in every pixel" in done.stderr and not os.path.exists("set"),
           "values that are all the same: the merge finds out", (said, done.stderr))
    remove("set", "set.partial")

    # Continued after kill -9 between shards, and as another part.
    numpy.save("many.npy", numpy.random.RandomState(5).randint(0, 256, (6000, 16, 16), dtype=numpy.uint8))
    source = ["many.npy", "--dtype", "u8", "--shard-size", "32K", "--jobs", 1]
    ffpack(*source, "-o", "whole")
    process = start(2, 2, *source)
    while process.poll() is None and not os.path.exists("set.part-2-of-2.partial/shard-000027.ffs.pending"):
        time.sleep(0.0005)
    process.kill()
    process.communicate()
    there = os.path.exists("set.part-2-of-2.partial")
    shutil.copytree("set.part-2-of-2.partial", "set.part-1-of-2.partial")
    refused = part(1, 2, *source)[0]
    shutil.rmtree("set.part-1-of-2.partial")
    ends = [part(number, 2, *source)[0] for number in (2, 1)]
    why = merged()
    tap.ok(there and "exit 2" in str(refused) and "an earlier run with other options" in refused and ends == [0, 0] and not why,
           "a part killed with -9 continues, and not as another part", (there, refused, ends, why))
    remove("set", "whole")


def changed():
    """What the counts do not fit."""
    def counts_of(number):
        return "set.part-counts/%d-of-3.ffp" % number

    ffpack("photos", "-o", "whole", *SMALL)
    part(1, 3, "photos", *SMALL)
    shutil.copytree("set.part-counts", "kept")
    for name, change in (("a flipped bit", lambda data: data[:-30] + bytes([data[-30] ^ 1]) + data[-29:]), ("cut short", lambda data: data[:-1]),
                         ("empty", lambda data: b""), ("something else", lambda data: b"counts\n" * 30)):
        with open("kept/3-of-3.ffp", "rb") as file:
            data = file.read()
        with open(counts_of(3), "wb") as file:
            file.write(change(data))
        read = part(2, 3, "photos", *SMALL)[0]
        with open(counts_of(3), "rb") as file:
            again = file.read() == data
        shutil.rmtree("set.part-2-of-3", ignore_errors=True)
        tap.ok(read == 14 and again, "counts that are broken are made again: %s" % name, (read, again))

    # Other options, or another source: all is counted again, and a part of the old ones is refused by the merge.
    read, mean = part(2, 3, "photos", *OTHER)
    alone = json.loads(ffpack("photos", "-o", "other", *OTHER, "--json").stdout)
    tap.ok(read == 40 and mean == alone["mean"], "of other options", (read, mean, alone["mean"]))
    remove("other")
    shutil.rmtree("set.part-2-of-3")
    with open("photos/train/a/new.png", "wb") as file:
        file.write(image(rng))
    read, mean = part(2, 3, "photos", *SMALL)
    alone = json.loads(ffpack("photos", "-o", "other", *SMALL, "--json").stdout)
    tap.ok(read == 41 and mean == alone["mean"], "of a source that has one more file", (read, mean, alone["mean"]))
    part(3, 3, "photos", *SMALL)
    done = ffpack("merge", "set")
    tap.ok(done.returncode == 2 and "parts of different sets" in done.stderr and os.path.exists("set.part-counts"),
           "whose parts do not merge with the older one", done.stderr)
    read = part(1, 3, "photos", *SMALL, "--force")[0]
    shutil.rmtree("whole")
    os.rename("other", "whole")
    os.remove("other.skipped.tsv")
    open("set.part-counts/mine", "w").close()
    done = ffpack("merge", "set")
    tap.ok(read == 13 and done.returncode == 0 and not packing.same_files("whole", "set") and os.listdir("set.part-counts") == ["mine"],
           "--force counts its own range again; a merge removes the counts, and nothing else", (read, done.stderr))
    remove("set", "whole")
    shutil.rmtree("kept")
    os.remove("photos/train/a/new.png")

    # Refused at the end of the pass: each part says the same.
    numpy.save("flat.npy", numpy.full((40, 9, 9), 7, numpy.uint8))
    said = [part(number, 2, "flat.npy")[0] for number in (1, 2)]
    tap.ok(all("exit 65" in text and "has the value 7 in every pixel" in text for text in said) and
           [name for name in os.listdir(".") if name.endswith(".partial")] == [], "values that are all the same", said)
    remove("set")


def killed():
    """A part killed in its pass, and one that is stopped."""
    picture = numpy.random.RandomState(6).randint(0, 256, (2200, 2200, 3), dtype=numpy.uint8)
    os.makedirs("large/a")
    packing.Image.fromarray(picture).save("large/a/0.jpg", quality=95)
    source = ["large", "--resize", "16x16", "--shard-size", "4K"]
    count = 1

    def grow(items):
        """The source has this many items, and `whole` is packed of them."""
        nonlocal count
        for i in range(count, items):
            os.link("large/a/0.jpg", "large/a/%d.jpg" % i)
        count = items
        remove("whole")
        ffpack(*source, "-o", "whole")

    def stop(how):
        """Starts part 1 and stops the part as soon as its counts are saved: its exit code, its words, the items counted. A part
        first saves its counts after 2 s: a part that has counted all of its range by then starts again with twice the items."""
        while True:
            process = start(1, 2, *source, "--jobs", 1)
            while process.poll() is None and not position("set.part-counts/1-of-2.ffp"):
                time.sleep(0.005)
            process.send_signal(how)
            code, said = process.wait(), process.communicate()[1]
            there = position("set.part-counts/1-of-2.ffp")
            if there < count // 2 or count >= 1500:
                return code, said, there
            remove("set")
            grow(2 * count)

    grow(96)
    for name, how in (("killed with -9", signal.SIGKILL), ("stopped by SIGINT", signal.SIGINT)):
        code, said, there = stop(how)
        command = "; finished work is kept in set.part-counts, and this continues: "
        tap.ok(0 < there < count // 2 and (code == -signal.SIGKILL if how == signal.SIGKILL else code == 130 and command in said),
               "a part %s in its pass" % name, (code, said, there, count))
        read = [part(2, 2, *source)[0], part(1, 2, *source)[0]]
        why = merged()
        tap.ok(read == [count - there, 0] and not why, "%s: the other part continues its range" % name, (read, count, there, why))
        remove("set")

    # A part that waits for another one that is killed takes over.
    processes = [start(number, 2, *source, "--jobs", 1) for number in (1, 2)]
    while processes[0].poll() is None and not (position("set.part-counts/1-of-2.ffp") and position("set.part-counts/2-of-2.ffp")):
        time.sleep(0.005)
    processes[1].send_signal(signal.SIGSTOP)
    processes[0].kill()
    processes[0].communicate()
    there = position("set.part-counts/1-of-2.ffp")
    processes[1].send_signal(signal.SIGCONT)
    read = [end(processes[1])[0], part(1, 2, *source)[0]]
    why = merged()
    tap.ok(read == [count - there, 0] and 0 < there < count // 2 and not why, "two parts, of which one is killed: the other one counts the rest", (read, count, there, why))
    remove("set", "whole")


def stalled():
    """A range whose lock stays, as that of a machine that is gone: it is counted after 30 s."""
    ffpack("photos", "-o", "whole", *SMALL)
    os.mkdir("set.part-counts")
    with open("set.part-counts/lock", "w") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX, 1, 2)
        processes = [start(number, 3, "photos", *SMALL) for number in (1, 3)]
        time.sleep(5)
        waits = [process.poll() is None for process in processes]
        began = time.monotonic()
        read = [end(process)[0] for process in processes]
        seconds = time.monotonic() - began
    read.append(part(2, 3, "photos", *SMALL)[0])
    why = merged()
    tap.ok(waits == [True, True] and seconds > 20 and read[2] == 0 and read[0] + read[1] in (40, 53) and not why,
           "a range whose part does not get on is counted by those that wait for it", (waits, seconds, read, why))
    remove("set", "whole")


make_sources()
if tap.SHORT:
    counted()
    counted_badly()
    shared()
    changed()
if tap.LONG:
    killed()
    stalled()
os.chdir("/")
shutil.rmtree(place)
tap.finish()
