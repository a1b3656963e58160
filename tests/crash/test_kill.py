"""200 runs of ffpack killed with -9 at random instants: each leaves nothing, a whole set, or one that
the same command completes to the same bytes. TAP. Environment: FF_KILLS (200)."""
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

BUILD = os.environ.get("BUILD", "build")
FFPACK, FFINSPECT = f"{BUILD}/ffpack", f"{BUILD}/ffinspect"


def make_source(path, count):
    os.makedirs(path)
    drawn = random.Random(7)
    for prefix, items in (("train", count), ("t10k", count // 6)):
        with open(f"{path}/{prefix}-images-idx3-ubyte", "wb") as file:
            file.write(struct.pack(">IIII", 0x803, items, 28, 28) + drawn.randbytes(items * 784))
        with open(f"{path}/{prefix}-labels-idx1-ubyte", "wb") as file:
            file.write(struct.pack(">II", 0x801, items) + bytes(i % 10 for i in range(items)))


def tree_of(path):
    return {os.path.relpath(os.path.join(folder, name), path): open(os.path.join(folder, name), "rb").read()
            for folder, _, files in os.walk(path) for name in files}


def main():
    kills = int(os.environ.get("FF_KILLS", "200"))
    work = tempfile.mkdtemp(prefix="ffkill")
    make_source(f"{work}/source", 12000)
    out = f"{work}/out"
    command = [FFPACK, f"{work}/source", "-o", out, "--shard-size", "2M", "--jobs", "2"]
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True)
    seconds = time.monotonic() - began
    assert done.returncode == 0, done.stderr
    expected = tree_of(out)
    shutil.rmtree(out)
    drawn = random.Random(11)
    nothing = whole = part = 0
    wrong = []
    for run in range(kills):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(drawn.uniform(0, seconds * 1.1))
        process.send_signal(signal.SIGKILL)
        process.wait()
        if os.path.exists(out):
            whole += 1
            if tree_of(out) != expected:
                wrong.append(f"run {run}: OUT is there with other bytes")
            shutil.rmtree(out)
            continue
        shards = os.path.exists(f"{out}.partial") and any(
            name.endswith(".ffs") for name in tree_of(f"{out}.partial"))
        part += shards
        nothing += not shards
        if run % 3 == 0:  # killed once more on the way
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(drawn.uniform(0, seconds))
            process.send_signal(signal.SIGKILL)
            process.wait()
        if not os.path.exists(out):
            again = subprocess.run(command, capture_output=True, text=True)
            if again.returncode:
                wrong.append(f"run {run}: the same command fails: {again.stderr.strip()}")
                shutil.rmtree(f"{out}.partial", ignore_errors=True)
                continue
        if tree_of(out) != expected:
            wrong.append(f"run {run}: completed to other bytes")
        if os.listdir(work) != ["source", "out"] and sorted(os.listdir(work)) != ["out", "source"]:
            wrong.append(f"run {run}: left {os.listdir(work)}")
        shutil.rmtree(out)
    ok = not wrong and part > 0
    print(f"{'ok' if ok else 'not ok'} - {kills} runs killed with -9: {nothing} left nothing, {part} a part "
          f"that was completed, {whole} the whole set; a run takes {seconds:.2f} s")
    for line in wrong[:5]:
        print("#", line)
    shutil.rmtree(work)
    sys.exit(not ok)


main()
