"""ffinspect --verify finds each of 10,000 random single-bit flips in a packed set, half of them in a
compressed one; a tenth of them in the short part. TAP. Environment: FF_FLIPS (10000)."""
# Needs: ffpack ffinspect
import concurrent.futures
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402

FFPACK, FFINSPECT = f"{tap.BUILD}/ffpack", f"{tap.BUILD}/ffinspect"


def flip_in_copy(job):
    """Flips bits one by one in its own copy of the set; returns those that were not found."""
    out, flips, seed, work = job
    copy = tempfile.mkdtemp(dir=work) + "/set"
    shutil.copytree(out, copy)
    drawn = random.Random(seed)
    files = [os.path.join(folder, name) for folder, _, names in os.walk(copy) for name in names if name != "history.jsonl"]
    sizes = [os.path.getsize(name) for name in sorted(files)]
    missed = []
    for _ in range(flips):
        name = drawn.choices(sorted(files), sizes)[0]
        bit = drawn.randrange(os.path.getsize(name) * 8)
        with open(name, "r+b") as file:
            file.seek(bit // 8)
            byte = file.read(1)[0]
            file.seek(bit // 8)
            file.write(bytes([byte ^ 1 << bit % 8]))
            file.flush()
            result = subprocess.run([FFINSPECT, copy, "--verify"], capture_output=True, text=True)
            if result.returncode not in (65, 74):
                missed.append(f"{os.path.basename(name)} bit {bit}: exit {result.returncode} {result.stderr[:200]}")
            file.seek(bit // 8)
            file.write(bytes([byte]))
    clean = subprocess.run([FFINSPECT, copy, "--verify"], capture_output=True).returncode
    return missed + ([] if clean == 0 else ["the restored set does not verify"])


def main():
    flips = int(os.environ.get("FF_FLIPS", "200" if tap.SANITIZE else "10000"))
    work = tempfile.mkdtemp(prefix="ffflip")
    drawn = random.Random(3)
    os.makedirs(f"{work}/source")
    with open(f"{work}/source/train-images-idx3-ubyte", "wb") as file:
        file.write(struct.pack(">IIII", 0x803, 90, 11, 9) + drawn.randbytes(90 * 99))
    with open(f"{work}/source/train-labels-idx1-ubyte", "wb") as file:
        file.write(struct.pack(">II", 0x801, 90) + bytes(i % 10 for i in range(90)))
    sets = []
    for name, options in (("raw", []), ("zstd", ["--compress", "zstd"])):
        out = f"{work}/{name}"
        done = subprocess.run([FFPACK, f"{work}/source", "-o", out, "--shard-size", "8K"] + options,
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        sets.append(out)
    workers = os.cpu_count() or 1
    for run, share in (tap.SHORT, 0.1), (tap.LONG, 0.9):
        if not run:
            continue
        jobs = [(out, int(flips / 2 * share / workers), f"{os.path.basename(out)}{i} {share}", work) for out in sets for i in range(workers)]
        with concurrent.futures.ThreadPoolExecutor(workers) as pool:
            missed = [line for lines in pool.map(flip_in_copy, jobs) for line in lines]
        tap.ok(not missed, f"each of {sum(job[1] for job in jobs)} random bit flips is found", missed)
    shutil.rmtree(work)
    tap.finish()


main()
