"""Packing photographs (resize 256, crop 224, f16, mean and std given) with every core, in alternating
rounds of one run: against a bare loop of the same decoder and resize over files in memory, which writes
nothing, and against a script of torchvision and torch.save with the same number of processes; and peak memory. Environment: BUILD,
PYTHON, ROUNDS (5), COPIES of the 400 photographs (4), FF_SHARED_DATA."""
import glob
import os
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile

from packing import FFPACK, BUILD, ROUNDS, peak_mib, timed

HERE = os.path.dirname(os.path.abspath(__file__))
SHARED = os.environ.get("FF_SHARED_DATA", os.path.join(HERE, "..", "..", "..", "shared", "data"))
PYTHON = os.environ.get("PYTHON", "/usr/bin/python3")
COPIES = int(os.environ.get("COPIES", "4"))
FIXED = ["--resize", "256", "--center-crop", "224", "--mean", "0.485,0.456,0.406", "--std", "0.229,0.224,0.225"]


def make_folder(archive, folder):
    """Each photograph under COPIES names, in ten classes."""
    with tarfile.open(archive) as tar:
        for number, member in enumerate(member for member in tar if member.isfile()):
            place = f"{folder}/class{number % 10}"
            os.makedirs(place, exist_ok=True)
            path = f"{place}/{os.path.basename(member.name)}"
            with open(path, "wb") as file:
                file.write(tar.extractfile(member).read())
            for copy in range(1, COPIES):
                os.link(path, f"{path}.{copy}.JPEG")


def bare(files, threads, whole):
    """Seconds of the bare loop; the reading of the files is not counted."""
    environment = {name: value for name, value in os.environ.items() if name != "WHOLE"}
    if whole:
        environment["WHOLE"] = "1"
    done = subprocess.run([f"{BUILD}/tests/bench_decode", "256", "224", str(threads), "1"] + files, env=environment,
                          capture_output=True, text=True, check=True)
    return float(done.stdout)


def main():
    archive = os.path.join(SHARED, "imagenet-sample-400.tar")
    if not os.path.exists(archive):
        print(f"skipped: imagenet-sample-400.tar is not in FF_SHARED_DATA ({SHARED})")
        return
    work = tempfile.mkdtemp(prefix="ffbench", dir=os.environ.get("BENCH_DIR"))
    folder, out = f"{work}/in", f"{work}/out"
    make_folder(archive, folder)
    files = sorted(glob.glob(f"{folder}/*/*"))
    threads = len(os.sched_getaffinity(0))
    script = [PYTHON, f"{HERE}/torchvision_pack.py", folder, out, str(threads)]
    has_torchvision = subprocess.run([PYTHON, "-c", "import torchvision"], capture_output=True).returncode == 0
    ours, needed, whole, theirs = [], [], [], []
    for _ in range(ROUNDS):
        shutil.rmtree(out, ignore_errors=True)
        ours.append(timed([FFPACK, folder, "-o", out] + FIXED))
        needed.append(bare(files, threads, False))
        whole.append(bare(files, threads, True))
        if has_torchvision:
            shutil.rmtree(out)
            os.mkdir(out)
            theirs.append(timed(script))
    print(f"{len(files)} photographs, {threads} threads; best of {ROUNDS} rounds (medians of the rounds' ratios)\n")
    print("| against | ffpack | it | ratio | median | goal |\n|---|---|---|---|---|---|")
    rows = [("bare loop that decodes all of an image", whole, "0.90"),
            ("bare loop that decodes what the crop needs", needed, "")]
    if has_torchvision:
        rows.append(("torchvision and torch.save", theirs, "3"))
    for name, seconds, goal in rows:
        median = statistics.median(b / a for a, b in zip(ours, seconds))
        print(f"| {name} | {min(ours):.3f} s | {min(seconds):.3f} s | {min(seconds) / min(ours):.2f} | {median:.2f} | "
              f"{goal} |")
    shutil.rmtree(out)
    print("\n| peak memory | MiB |\n|---|---|")
    print(f"| {threads} jobs | {peak_mib([FFPACK, folder, '-o', out] + FIXED):.0f} |")
    shutil.rmtree(work)


if __name__ == "__main__":
    main()
