"""Packing against its floors, in alternating rounds of one run: Fashion-MNIST against gunzip of the
same files, CIFAR-10 binary against dd of the same output bytes to the same disk; and peak memory.
Environment: BUILD, ROUNDS (5)."""
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

BUILD = os.environ.get("BUILD", "build")
FFPACK = f"{BUILD}/ffpack"
ROUNDS = int(os.environ.get("ROUNDS", "5"))
FASHION = os.environ.get("FASHION_MNIST", "/usr/share/datasets/fashion-mnist")


def timed(command, shell=False):
    began = time.perf_counter()
    done = subprocess.run(command, shell=shell, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{command}: {done.stderr}")
    return time.perf_counter() - began


def peak_mib(command):
    """Peak resident memory of one run, measured by a separate parent process."""
    code = ("import resource,subprocess,sys;subprocess.run(sys.argv[1:],stdout=subprocess.DEVNULL,check=True);"
            "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss/1024)")
    return float(subprocess.run([sys.executable, "-c", code] + command, capture_output=True, text=True,
                                check=True).stdout)


def pair(name, ours, floor, floor_name, goal, clean):
    a, b = [], []
    for _ in range(ROUNDS):
        clean()
        a.append(timed(ours))
        b.append(timed(floor, shell=True))
    ratio = statistics.median(y / x for x, y in zip(a, b))
    print(f"| {name} | {statistics.median(a):.3f} s | {floor_name} {statistics.median(b):.3f} s | "
          f"{ratio:.2f} of its speed | {goal} |")


def main():
    work = tempfile.mkdtemp(prefix="ffbench", dir=os.environ.get("BENCH_DIR"))
    print("| packing | ffpack | floor | ratio | goal |\n|---|---|---|---|---|")
    out = f"{work}/out"
    if os.path.exists(f"{FASHION}/train-images-idx3-ubyte.gz"):
        pair("Fashion-MNIST .gz, f16", [FFPACK, FASHION, "-o", out],
             f"for f in {FASHION}/*.gz; do gzip -dc $f > /dev/null; done", "gzip -dc", "bound by gunzip",
             lambda: shutil.rmtree(out, ignore_errors=True))
    cifar = f"{work}/cifar-10-batches-bin"
    os.makedirs(cifar)
    drawn = random.Random(1)
    halves = bytes(value >> 1 for value in range(256))
    for name in [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]:
        with open(f"{cifar}/{name}", "wb") as file:
            for _ in range(10000):  # 7 bits per value: gzip compresses it about like photographs
                file.write(bytes([drawn.randrange(10)]) + drawn.randbytes(3072).translate(halves))
    with open(f"{cifar}/batches.meta.txt", "w") as file:
        file.write("\n".join("airplane automobile bird cat deer dog frog horse ship truck".split()) + "\n")
    for dtype, bytes_each in (("f16", 6144), ("u8", 3072), ("f32", 12288)):
        pair(f"CIFAR-10 binary, {dtype}", [FFPACK, cifar, "-o", out, "--dtype", dtype],
             f"dd if=/dev/zero of={work}/dd bs=1M count={60000 * bytes_each >> 20} conv=fsync",
             "dd conv=fsync", "0.7", lambda: shutil.rmtree(out, ignore_errors=True))
        os.remove(f"{work}/dd")
    subprocess.run(["tar", "-C", work, "-czf", f"{work}/cifar.tar.gz", os.path.basename(cifar)], check=True)
    for dtype in ("u8", "f16"):
        pair(f"CIFAR-10 .tar.gz, {dtype}", [FFPACK, f"{work}/cifar.tar.gz", "-o", out, "--dtype", dtype],
             f"gzip -dc {work}/cifar.tar.gz > /dev/null", "gzip -dc", "bound by gzip",
             lambda: shutil.rmtree(out, ignore_errors=True))
    print("\n| peak memory | MiB | goal |\n|---|---|---|")
    for name, source in (("Fashion-MNIST", FASHION), ("CIFAR-10 binary", cifar)):
        if os.path.exists(source):
            shutil.rmtree(out, ignore_errors=True)
            print(f"| {name} | {peak_mib([FFPACK, source, '-o', out]):.0f} | 200 + jobs x largest image |")
    shutil.rmtree(work)


if __name__ == "__main__":
    main()
