"""zstd shards of photographs (resize 256, crop 224, f16) by level: their size against raw shards, and
how fast one core reads them with every check that a reader makes by default, in GB/s of unpacked
tensors. The level without a number is the default. Environment: BUILD, ROUNDS (15), BENCH_DIR,
FF_SHARED_DATA."""
import json
import os
import shutil
import subprocess
import tempfile

BUILD = os.environ.get("BUILD", "build")
ROUNDS = os.environ.get("ROUNDS", "15")
HERE = os.path.dirname(os.path.abspath(__file__))
SHARED = os.environ.get("FF_SHARED_DATA", os.path.join(HERE, "..", "..", "..", "shared", "data"))
FIXED = ["--resize", "256", "--center-crop", "224", "--mean", "0.485,0.456,0.406", "--std", "0.229,0.224,0.225"]


def shard_bytes(folder):
    return sum(os.path.getsize(f"{folder}/{name}") for name in os.listdir(folder) if name.endswith(".ffs"))


def main():
    archive = os.path.join(SHARED, "imagenet-sample-400.tar")
    if not os.path.exists(archive):
        print(f"skipped: {archive} is not here")
        return
    work = tempfile.mkdtemp(prefix="ffbench", dir=os.environ.get("BENCH_DIR"))
    levels = ["zstd", "zstd:1", "zstd:2", "zstd:3", "zstd:6"]
    for level in [None] + levels:
        subprocess.run([f"{BUILD}/ffpack", archive, "-o", f"{work}/{level}"] + FIXED
                       + (["--compress", level] if level else []), check=True, stdout=subprocess.DEVNULL)
    raw = shard_bytes(f"{work}/None")
    print("| photographs, f16 | of the raw size | goal | GB/s a core | goal |\n|---|---|---|---|---|")
    for level in levels:
        read = json.loads(subprocess.run([f"{BUILD}/tests/bench_read", f"{work}/{level}", ROUNDS], check=True,
                                         capture_output=True).stdout)
        print(f"| --compress {level} | {shard_bytes(f'{work}/{level}') / raw:.3f} | 0.40 | "
              f"{read['gb_per_second']:.2f} | 1.0 |")
    shutil.rmtree(work)


main()
