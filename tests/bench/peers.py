"""FFCV and MosaicML Streaming on the same photographs: packing time, size on disk, random reads.

Each peer has a separate environment (environments.py); if it cannot be made, the peer is skipped with the reason. Photographs:
FF_IMAGES (a folder of class folders; default: the 400 of ../shared), each COPIES (4) times. All store 224 x 224 RGB bytes (short
side 256, centre 224) with one process or thread per core, and then produce batches of 64 in random order. Environment: BUILD,
ROUNDS (3), PEERS_DIR."""
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

import environments

BUILD = os.environ.get("BUILD", "build")
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ROUNDS = int(os.environ.get("ROUNDS", "3"))
COPIES = int(os.environ.get("COPIES", "4"))
CORES = os.cpu_count()
BATCH = 64


# ---- inside a peer's environment: prints a JSON object -------------------------------------------


class Photographs:
    """The samples that a usual script passes to its writer: (224 x 224 x 3 bytes, class)."""

    def __init__(self, folder):
        from torchvision import datasets, transforms
        self.set = datasets.ImageFolder(folder, transforms.Compose([transforms.Resize(256), transforms.CenterCrop(224)]))

    def __len__(self):
        return len(self.set)

    def __getitem__(self, index):
        import numpy
        image, label = self.set[index]
        return numpy.asarray(image), label


def bytes_below(path):
    if os.path.isfile(path):
        return os.path.getsize(path)
    return sum(os.path.getsize(os.path.join(root, name)) for root, _, names in os.walk(path) for name in names)


def rate(passes, count):
    """Samples a second of the last passes; the first one fills caches and compiles."""
    passes()
    best = 0.0
    for _ in range(3):
        began = time.perf_counter()
        passes()
        best = max(best, count / (time.perf_counter() - began))
    return best


def run_ffcv(folder, out):
    import ffcv
    import numba
    from ffcv.fields import IntField, RGBImageField
    from ffcv.fields.decoders import IntDecoder, SimpleRGBImageDecoder
    from ffcv.loader import Loader, OrderOption
    from ffcv.transforms import ToTensor
    from ffcv.writer import DatasetWriter
    photographs = Photographs(folder)
    path = out + ".beton"
    began = time.perf_counter()
    DatasetWriter(path, {"image": RGBImageField(write_mode="raw", max_resolution=224), "label": IntField()},
                  num_workers=CORES).from_indexed_dataset(photographs, chunksize=50)
    packed = time.perf_counter() - began
    loader = Loader(path, batch_size=BATCH, num_workers=CORES, order=OrderOption.RANDOM, os_cache=True, drop_last=False,
                    pipelines={"image": [SimpleRGBImageDecoder(), ToTensor()], "label": [IntDecoder(), ToTensor()]})

    def passes():
        for _ in loader:
            pass
    return {"versions": f"ffcv {ffcv.__version__}, numba {numba.__version__}", "seconds": packed,
            "bytes": bytes_below(path), "rate": rate(passes, len(photographs))}


def run_streaming(folder, out):
    import random
    import streaming
    import torch
    from streaming import MDSWriter, StreamingDataset
    photographs = Photographs(folder)
    began = time.perf_counter()
    made = torch.utils.data.DataLoader(photographs, batch_size=None, num_workers=CORES)
    with MDSWriter(out=out, columns={"image": "ndarray:uint8:224,224,3", "label": "int"}) as writer:
        for image, label in made:
            writer.write({"image": image.numpy() if hasattr(image, "numpy") else image, "label": int(label)})
    packed = time.perf_counter() - began
    data = StreamingDataset(local=out, shuffle=False, batch_size=BATCH)
    order = list(range(len(photographs)))

    def passes():
        random.shuffle(order)
        for at in range(0, len(order), BATCH):
            torch.stack([torch.from_numpy(data[i]["image"].copy()) for i in order[at:at + BATCH]])
    return {"versions": f"mosaicml-streaming {streaming.__version__}", "seconds": packed, "bytes": bytes_below(out),
            "rate": rate(passes, len(order))}


# ---- outside -------------------------------------------------------------------------------------


def photographs(work):
    """A folder of class folders, every image COPIES times (by link)."""
    source = os.environ.get("FF_IMAGES")
    if not source:
        tar = os.path.join(ROOT, "..", "shared", "data", "imagenet-sample-400.tar")
        if not os.path.exists(tar):
            return None
        tarfile.open(tar).extractall(os.path.join(work, "source"))
        source = os.path.join(work, "source")
    count = 0
    for root, _, names in os.walk(source):
        for name in names:
            if not name.lower().endswith((".jpg", ".jpeg")):
                continue
            below = os.path.relpath(root, source).split(os.sep)
            label = below[-1] if below != ["."] else name.split("_")[0]
            os.makedirs(os.path.join(work, "images", label), exist_ok=True)
            for copy in range(COPIES):
                os.link(os.path.join(root, name), os.path.join(work, "images", label, f"{copy}-{name}"))
            count += COPIES
    return os.path.join(work, "images") if count else None


def run_ours(images, out, dtype):
    ffpack, ffinspect = os.path.join(BUILD, "ffpack"), os.path.join(BUILD, "ffinspect")
    began = time.perf_counter()
    subprocess.run([ffpack, images, "-o", out, "--resize", "256", "--center-crop", "224", "--dtype", dtype,
                    "--mean", "0.485,0.456,0.406", "--std", "0.229,0.224,0.225"], check=True, stdout=subprocess.DEVNULL)
    packed = time.perf_counter() - began
    text = subprocess.run([ffinspect, out, "--bench"], check=True, capture_output=True, text=True).stdout
    rows = re.findall(r"^ +random +(\d+) +\S+ +\S+ +(\d+)", text, re.M)
    version = subprocess.run([ffpack, "--version"], check=True, capture_output=True, text=True).stdout.strip()
    return {"versions": version, "seconds": packed, "bytes": bytes_below(out), "rate": max(float(row[1]) for row in rows)}


def main():
    try:
        import torchvision  # noqa: F401
    except ImportError as missing:
        print(f"peers: skipped ({missing})")
        return
    work = tempfile.mkdtemp(prefix="ffpeers", dir=os.environ.get("BENCH_DIR"))
    try:
        images = photographs(work)
        if not images:
            print("peers: skipped (no photographs; FF_IMAGES names a folder of them)")
            return
        pythons = {}
        for name in environments.PEERS:
            pythons[name], reason = environments.python_of(name)
            if reason:
                print(f"{name}: skipped ({reason})\n")
        results = {}
        for number in range(ROUNDS):
            for name in ["ffpack u8", "ffpack f16", *environments.PEERS]:
                out = os.path.join(work, f"out-{number}-{name.replace(' ', '-')}")
                if name.startswith("ffpack"):
                    got = run_ours(images, out, name.split()[1])
                elif pythons[name]:
                    done = subprocess.run([pythons[name], os.path.abspath(__file__), "--inside", name, images, out],
                                          capture_output=True, text=True)
                    if done.returncode:
                        print(f"{name}: failed ({(done.stderr.strip().splitlines() or ['no reason'])[-1][:200]})\n")
                        pythons[name] = None
                        continue
                    got = json.loads(done.stdout.strip().splitlines()[-1])
                else:
                    continue
                results.setdefault(name, []).append(got)
                for path in (out, out + ".beton"):
                    shutil.rmtree(path, ignore_errors=True) if os.path.isdir(path) else os.path.exists(path) and os.remove(path)
        print("| 224 x 224 photographs | packing, s | times ours | MB | random reads, samples/s | of ours | versions |")
        print("|---|---|---|---|---|---|---|")
        ours = results["ffpack u8"]
        for name, rounds in results.items():
            seconds = statistics.median(r["seconds"] for r in rounds)
            slower = statistics.median(r["seconds"] / o["seconds"] for r, o in zip(rounds, ours))
            read = statistics.median(r["rate"] for r in rounds)
            share = statistics.median(r["rate"] / o["rate"] for r, o in zip(rounds, ours))
            print(f"| {name} | {seconds:.2f} | {slower:.2f} | {rounds[0]['bytes'] / 1e6:.1f} | {read:.0f} | {share:.3f} | "
                  f"{rounds[0]['versions']} |")
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] == "--inside":
        sys.path = [path for path in sys.path if os.path.abspath(path or ".") != os.path.dirname(os.path.abspath(__file__))]
        print(json.dumps({"ffcv": run_ffcv, "streaming": run_streaming}[sys.argv[2]](sys.argv[3], sys.argv[4])))
    else:
        main()
