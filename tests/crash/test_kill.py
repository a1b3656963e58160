"""Runs of ffpack killed with -9 at random instants: each leaves nothing, a whole set, or one that the same
command completes to the same bytes; and so is the list of skipped items. A fifth of the kills is in the short
part. TAP. Environment: FF_KILLS (200; the archive's share is a third)."""
import io
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402
from tap import files_of  # noqa: E402

FFPACK = f"{tap.BUILD}/ffpack"


def make_source(path, count):
    os.makedirs(path)
    drawn = random.Random(7)
    for prefix, items in (("train", count), ("t10k", count // 6)):
        with open(f"{path}/{prefix}-images-idx3-ubyte", "wb") as file:
            file.write(struct.pack(">IIII", 0x803, items, 28, 28) + drawn.randbytes(items * 784))
        with open(f"{path}/{prefix}-labels-idx1-ubyte", "wb") as file:
            file.write(struct.pack(">II", 0x801, items) + bytes(i % 10 for i in range(items)))


def make_archive(path, count):
    """A .tar.gz of images, stored in another order than their numbers; some are broken."""
    try:
        import numpy
        from PIL import Image
    except ImportError:
        return False
    drawn = random.Random(5)
    with tarfile.open(path, "w:gz", compresslevel=1) as tar:
        for i in drawn.sample(range(count), count):
            data = io.BytesIO()
            Image.fromarray(numpy.random.RandomState(i).randint(0, 256, (40, 36, 3), numpy.uint8)).save(data, "JPEG")
            member = tarfile.TarInfo(f"set/{'train' if i % 4 else 'test'}/{'abc'[i % 3]}/{i}.jpg")
            member.size = len(data.getvalue()) if i % 50 else 20
            tar.addfile(member, io.BytesIO(data.getvalue()[:member.size]))
    return True


def run_killed(command, seconds):
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    process.wait()


def kill(name, place, arguments, kills, left_out=0):
    os.makedirs(place)
    out = f"{place}/out"
    command = [FFPACK, *arguments, "-o", out, "--jobs", "2"]
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True)
    seconds = time.monotonic() - began
    assert done.returncode == 0, done.stderr
    expected = files_of(place)
    shutil.rmtree(place)
    os.makedirs(place)
    wrong = []
    if expected.get("out.skipped.tsv", b"").count(b"\n") != left_out + (left_out > 0):  # and a line of titles
        wrong.append(f"the undisturbed run lists not all of the {left_out} items left out")
    for wanted, first, end in (tap.SHORT, 0, kills // 5), (tap.LONG, kills // 5, kills):
        if wanted:
            kill_runs(name, place, command, range(first, end), seconds, expected, wrong)


def kill_runs(name, place, command, runs, seconds, expected, wrong):
    """The undisturbed run takes this number of seconds; `wrong`: what was wrong with it."""
    out = f"{place}/out"
    drawn = random.Random(11 + runs.start)
    nothing = whole = part = 0
    wrong = list(wrong)
    for run in runs:
        run_killed(command, drawn.uniform(0, seconds * 1.1))
        if os.path.exists(out):
            whole += 1
            if files_of(place) != expected:
                wrong.append(f"run {run}: OUT is there with other bytes")
        else:
            shards = os.path.exists(f"{out}.partial") and any(
                path.endswith((".ffs", ".pending")) for path in files_of(f"{out}.partial"))
            part += shards
            nothing += not shards
            if run % 3 == 0:  # killed once more while it continues
                run_killed(command, drawn.uniform(0, seconds))
            if not os.path.exists(out):
                again = subprocess.run(command, capture_output=True, text=True)
                if again.returncode:
                    wrong.append(f"run {run}: the same command fails: {again.stderr.strip()}")
            found = files_of(place)
            if found != expected:
                other = [path for path in {*found, *expected} if found.get(path) != expected.get(path)]
                wrong.append(f"run {run}: completed to other bytes in {sorted(other)}")
        shutil.rmtree(place)
        os.makedirs(place)
    tap.ok(not wrong and part > 0,
           f"{name}: {len(runs)} runs killed with -9: {nothing} left nothing, {part} a part that was completed, "
           f"{whole} the whole set; a run takes {seconds:.2f} s", wrong)


def main():
    kills = int(os.environ.get("FF_KILLS", "200"))
    work = tempfile.mkdtemp(prefix="ffkill")
    make_source(f"{work}/source", 3000)
    kill("IDX", f"{work}/place", [f"{work}/source", "--shard-size", "512K"], kills)
    kill("IDX as u8, counted while it is packed", f"{work}/place8",
         [f"{work}/source", "--dtype", "u8", "--shard-size", "128K"], kills // 2)
    archive = f"{work}/images.tar.gz"
    if make_archive(archive, 300):
        kill("a .tar.gz of splits, some images left out, zstd", f"{work}/place2",
             [archive, "--on-error", "skip", "--max-skip", "100%", "--compress", "zstd", "--shard-size", "64K", "--resize", "32x32"],
             kills // 3, 300 // 50)
    else:
        tap.skip("a .tar.gz", "this Python has no numpy and PIL")
    shutil.rmtree(work)
    tap.finish()


main()
