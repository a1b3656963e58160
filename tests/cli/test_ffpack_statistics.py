#!/usr/bin/python3
"""Mean and std: computed while a u8 set is packed, in one piece and in parts, and by a pass before it, with the same values; the pass
survives a kill, a signal and another run; --stats-sample; what a dry run reports."""
import json
import os
import random
import resource
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
rng = random.Random(8)
place = tempfile.mkdtemp()
os.chdir(place)


def ffpack(*arguments):
    return subprocess.run([FFPACK, *map(str, arguments)], capture_output=True, text=True, timeout=300)


def run(*arguments):
    """The report of a run that succeeds, as JSON."""
    done = ffpack(*arguments, "--json")
    if done.returncode:
        tap.ok(False, "ffpack %s" % " ".join(map(str, arguments)), done.stderr)
        return {}
    return json.loads(done.stdout)


def stop(command, how, when):
    """Starts it and sends the signal as soon as when(process id); returns its exit code and stderr."""
    process = subprocess.Popen([FFPACK, *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not when(process.pid):
        time.sleep(0.005)
    process.send_signal(how)
    return process.wait(), process.stderr.read()


def busy(process):
    """The seconds of processor time that it has used, which do not depend on the machine's load."""
    fields = open("/proc/%d/stat" % process).read().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def position():
    """The progress of the saved pass; 0 if there is none."""
    if not os.path.exists("out.partial/measured.ffp"):
        return 0
    return int.from_bytes(open("out.partial/measured.ffp", "rb").read()[8:16], "little")


def counted():
    # ---- while packing: by one run, and by parts whose sums a merge adds up; and before it ----------

    packing.photos(rng)
    numpy.save("grey.npy", numpy.random.RandomState(3).randint(0, 60000, (50, 9, 7), dtype=numpy.uint16))
    numpy.save("wide.npy", numpy.random.RandomState(4).randint(0, 256, (30, 5, 6, 7), dtype=numpy.uint8))
    SMALL = ["--resize", "16x16", "--shard-size", "4K", "--on-error", "skip", "--max-skip", "100%"]
    for name, source in (("a folder", ["photos", "--dtype", "u8", *SMALL]),
                         ("a folder, hwc and zstd", ["photos", "--dtype", "u8", *SMALL, "--layout", "hwc", "--compress", "zstd"]),
                         ("a folder, shuffled", ["photos", "--dtype", "u8", *SMALL, "--shuffle", "4", "--align", "4096"]),
                         ("sizes of their own", ["photos", "--dtype", "u8", "--max-side", "12", "--shard-size", "4K", "--on-error", "skip", "--max-skip", "100%"]),
                         ("a .tar.gz", ["photos.tar.gz", "--dtype", "u8", *SMALL]),
                         ("u16", ["grey.npy", "--dtype", "u16", "--range", "0,65535", "--shard-size", "4K"]),
                         ("five channels", ["wide.npy", "--array-layout", "chw", "--dtype", "u8", "--shard-size", "4K"])):
        floats = ["bf16" if word in ("u8", "u16") else word for word in source]
        if "--stats" not in floats:
            floats += ["--stats", "compute"]
        before = run(*floats, "-o", "before")
        done, report = ffpack(*source, "-o", "while"), run(*source, "-o", "json")
        tap.ok(done.returncode == 0 and "while it was packed)" in done.stdout and before.get("statistics_items") and
               before["mean"] == report["mean"] and before["std"] == report["std"],
               "%s: counted while it is packed, the same mean and std as by a pass before" % name, done.stderr)
        for path in ("before", "while", "json"):
            shutil.rmtree(path, ignore_errors=True)

    done = ffpack("photos", "-o", "dry", "--dtype", "u8", *SMALL, "--dry-run")
    tap.ok("computed from train while it is packed\n" in done.stdout, "a dry run reports that there is no first pass", done.stdout)
    done = ffpack("photos", "-o", "dry", *SMALL, "--dry-run")
    tap.ok("computed from train, which takes a pass over 40 items before packing\n" in done.stdout,
           "a dry run reports what the first pass is", done.stdout)
    done = ffpack("photos", "-o", "dry", "--dtype", "u8", *SMALL, "--part", "1/2", "--dry-run")
    tap.ok("computed from train by ffpack merge, which adds up what the parts count while they pack\n" in done.stdout and "a pass" not in done.stdout,
           "nor in a part", done.stdout + done.stderr)
    done = ffpack("photos", "-o", "dry", *SMALL, "--part", "1/2", "--dry-run")
    tap.ok("a pass over 40 items before packing, in every part; " in done.stdout, "and that each part of floats has one", done.stdout + done.stderr)
    report = run("photos", "-o", "dry", *SMALL, "--dry-run")
    free = os.statvfs(".")
    tap.ok(report.get("statistics_items") == 40 and report["needed_bytes"] > 49 * 16 * 16 * 6 and
           abs(report["free_bytes"] - free.f_bavail * free.f_frsize) < 1 << 30, "and JSON has it, with needed and free bytes", report)

    # A dry run predicts the sizes exactly.
    for source in (["photos", *SMALL], ["wide.npy", "--array-layout", "chw", "--mean", "0,0,0,0,0", "--std", "1,1,1,1,1"]):
        told = run(*source, "-o", "sized", "--dry-run")
        made = run(*source, "-o", "sized")
        there = sum(map(len, tap.files_of("sized").values()))
        files = len(tap.files_of("sized"))
        tap.ok(there <= told["needed_bytes"] <= there * 1.3 + files * 8192, "%s: a dry run's size is that on the disk" % source[0],
               (there, told["needed_bytes"]))
        tap.ok(sum(split["bytes"] for split in made["splits"]) == there, "%s: the report's size, too" % source[0])
        shutil.rmtree("sized")

    # ---- --stats-sample -----------------------------------------------------------------------------

    numpy.save("many.npy", numpy.random.RandomState(5).randint(0, 256, (500, 8, 8), dtype=numpy.uint8) //
               (1 + numpy.arange(500) % 7)[:, None, None].astype(numpy.uint8))
    run("many.npy", "-o", "order", "--dtype", "u8", "--shuffle", "0")
    shard = open("order/shard-000000.ffs", "rb").read()
    first = numpy.frombuffer(shard, numpy.uint8, 37 * 64, 4096) / 255.0  # slots of 64 bytes, in the order of --shuffle 0
    for dtype in ("u8", "f16"):
        report = run("many.npy", "-o", "sampled-" + dtype, "--dtype", dtype, "--stats-sample", "37")
        tap.ok(report and abs(report["mean"][0] - first.mean()) < 1e-7 and abs(report["std"][0] - first.std()) < 1e-7 and
               "the first 37 of " in report["statistics"],
               "%s: --stats-sample takes the first items of the order of seed 0" % dtype, report)
    split = packing.reader.Split("sampled-u8")
    recorded = {k.decode(): v.decode() for k, v in split.metadata.provenance}
    tap.ok("the first 37 " in recorded["statistics"], "and is recorded", recorded)
    run("many.npy", "-o", "all", "--stats-sample", "500")
    run("many.npy", "-o", "computed")
    tap.ok(tap.files_of("all") == tap.files_of("computed"), "as many as there are: the same bytes as --stats compute")
    run("photos.tar.gz", "-o", "streamed", "--stats-sample", "20", *SMALL)
    run("photos", "-o", "listed", "--stats-sample", "20", *SMALL)
    ids = [packing.reader.Split(name + "/train").metadata.mean for name in ("streamed", "listed")] if os.path.exists("listed") else [0, 1]
    tap.ok(ids[0] == ids[1], "an archive that is read from front to back gives the same ones", ids)

    # A deviation of 0 is found at the end, and then nothing is kept.
    numpy.save("flat.npy", numpy.full((40, 9, 9), 7, numpy.uint8))
    done = ffpack("flat.npy", "-o", "flat", "--dtype", "u8", "--shard-size", "4K")
    tap.ok(done.returncode == 65 and "has the value 7 in every pixel" in done.stderr and not os.path.exists("flat.partial"),
           "u8 values that are all the same: refused, and nothing is kept", done.stderr)


def interrupted():
    # ---- a pass that is interrupted -----------------------------------------------------------------

    picture = numpy.random.RandomState(6).randint(0, 256, (2200, 2200, 3), dtype=numpy.uint8)
    os.makedirs("large/a")
    packing.Image.fromarray(picture).save("large/a/0.jpg", quality=95)
    # So many that a pass takes longer than the 2 s after which it is first saved, on fast machines too.
    began = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    run("large", "-o", "one", "--resize", "16x16", "--stats", "compute", "--jobs", "1")
    taken = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - began  # of decoding it twice
    LARGE = max(48, min(400, int(12 / taken)))
    for i in range(1, LARGE):
        os.link("large/a/0.jpg", "large/a/%d.jpg" % i)
    slow = ["large", "-o", "out", "--resize", "16x16", "--stats", "compute", "--jobs", "1", "--shard-size", "4K"]
    raw = ["large", "-o", "out", "--resize", "16x16", "--dtype", "u8", "--jobs", "1", "--shard-size", "4K"]
    for name, command in (("whole", slow), ("whole8", raw)):
        run("large", "-o", name, *command[3:])

    code, said = stop(slow, signal.SIGKILL, lambda _: position() > 0)
    killed = position()
    tap.ok(code == -signal.SIGKILL and 0 < killed < LARGE and os.listdir("out.partial") == ["measured.ffp"],
           "a pass killed with -9 is kept", (code, said, killed))
    shutil.copytree("out.partial", "kept")
    code, said = stop(slow, signal.SIGINT, lambda process: busy(process) > 2)
    stopped = position()
    tap.ok(code == 130 and killed < stopped < LARGE and "; finished work is kept in out.partial, and this continues: " in said,
           "it continues, and is kept when SIGINT stops it, with a message that reports it", (code, said, stopped))
    code, said = stop(slow, signal.SIGKILL, lambda _: os.path.exists("out.partial/shard-000001.ffs"))
    tap.ok(code == -signal.SIGKILL and position() == LARGE, "when it is over that is kept, too", (code, position()))
    report = run(*slow)
    tap.ok(report.get("statistics_items") == 0 and tap.files_of("out") == tap.files_of("whole"),
           "so it is not done again, and the bytes are those of an undisturbed run", report)
    shutil.rmtree("out", ignore_errors=True)

    shutil.copytree("kept", "out.partial")
    report = run(*slow, "--stats-sample", "3")
    tap.ok(report.get("statistics_items") == 3, "with other options it starts over", report)
    shutil.rmtree("out", ignore_errors=True)

    with open("kept/measured.ffp", "r+b") as file:
        file.seek(-20, 2)
        byte = file.read(1)[0]
        file.seek(-20, 2)
        file.write(bytes([byte ^ 4]))
    shutil.copytree("kept", "out.partial")
    done = ffpack(*slow)
    tap.ok(done.returncode == 65 and "out.partial/measured.ffp: is broken" in done.stderr, "a flipped bit in it is found", done.stderr)
    shutil.rmtree("out.partial")

    # Computed while packing, killed between shards: nothing is counted twice.
    code, said = stop(raw, signal.SIGKILL, lambda _: os.path.exists("out.partial/shard-000002.ffs.pending"))
    done = ffpack(*raw, "--mean", "0.5,0.5,0.5", "--std", "0.5,0.5,0.5")
    tap.ok(done.returncode == 2 and "has 'mean " in done.stderr and "remove out.partial to start over" in done.stderr,
           "another command does not take pending shards", done.stderr)
    report = run(*raw)
    tap.ok(code == -signal.SIGKILL and report.get("splits", [{}])[0].get("continued", 0) > 0 and tap.files_of("out") == tap.files_of("whole8"),
           "u8, killed with -9 while it was counted and packed: continues, to the same bytes", report)


if tap.SHORT:
    counted()
if tap.LONG:
    interrupted()
os.chdir("/")
shutil.rmtree(place)
tap.finish()
