"""The loader's goals, of a plain random memcpy gather with the same number of threads
(32x32x3 f16 from the page cache, random order, crop=4,flip): f16 to f16 CHW 0.95, to f32 0.85, and the first epoch, which
verifies, 0.70; u8 to f32 0.85 of a memset of the rows; and at least 100 times a torchvision DataLoader with ToTensor, Normalize, crop and flip. Random resized crops of photographs' sizes:
against torchvision's on tensors, with a process for each of our threads. Augmentations of u8 values: at least 15 times
torchvision's trivialaugment, one thread each. Environment: BUILD. Prints tables."""
import os
import re
import subprocess
import sys
import time

BUILD = os.environ.get("BUILD", "build")
GATHER = "plain random memcpy gather"
WRITTEN = "memset of f32 rows"  # the base of u8 to f32
GOALS = {"f16 to f16 chw": "0.95", "f16 to f32 chw": "0.85", "f16 to f32 nhwc": "0.85", "first epoch, verifying, f16 chw": "0.70",
         "u8 to f32 chw": "0.85", "u8 to f32 nhwc": "0.85"}


def run_ours(program, *arguments):
    """name -> samples a second, in the order printed; all in one run."""
    out = subprocess.run([os.path.join(BUILD, "tests", program)] + [str(a) for a in arguments],
                         check=True, capture_output=True, text=True).stdout
    lines = re.findall(r"^  (\S.*?) +(\d+) samples/s", out, re.M)
    return {name: float(rate) for name, rate in lines}


def torchvision_rate():
    """The usual loop over images in memory, as torchvision.datasets.CIFAR10 holds them; the better of no workers and two. None if
    torchvision is missing."""
    try:
        import numpy
        import torch
        import torchvision.transforms as transforms
        from PIL import Image
    except ImportError as error:
        print(f"torchvision: not measured ({error})\n")
        return None

    class Images(torch.utils.data.Dataset):
        def __init__(self, count):
            self.data = numpy.random.RandomState(0).randint(0, 256, (count, 32, 32, 3), "uint8")
            self.transform = transforms.Compose([
                transforms.RandomCrop(32, padding=4), transforms.RandomHorizontalFlip(),
                transforms.ToTensor(),
                transforms.Normalize((0.4914, 0.4822, 0.4465), (0.247, 0.2435, 0.2616))])

        def __len__(self):
            return len(self.data)

        def __getitem__(self, index):
            return self.transform(Image.fromarray(self.data[index])), index % 10

    best = 0.0
    for workers in (0, 2):
        data = Images(8192 if workers == 0 else 16384)
        loader = torch.utils.data.DataLoader(data, batch_size=256, shuffle=True, drop_last=True,
                                             num_workers=workers, persistent_workers=workers > 0)
        seen, began = 0, None
        for images, _ in loader:
            # The first batch starts the workers: not counted.
            if began is None:
                began = time.perf_counter()
            else:
                seen += len(images)
        rate = seen / (time.perf_counter() - began)
        print(f"torchvision DataLoader, {workers} workers: {rate:,.0f} samples/s")
        best = max(best, rate)
    print()
    return best


def torchvision_resample_rates(processes):
    """The same crops of u8 tensors in memory, antialiased, flipped, scaled and normalized: n -> samples a second of n processes.
    None if torchvision is missing."""
    try:
        import torch
        import torchvision.transforms as transforms
    except ImportError:
        return None

    class Images(torch.utils.data.Dataset):
        def __init__(self):
            generator = torch.Generator().manual_seed(0)
            self.data = torch.randint(0, 256, (64, 3, 375, 500), generator=generator, dtype=torch.uint8)
            self.transform = transforms.Compose([
                transforms.RandomResizedCrop(224, antialias=True), transforms.RandomHorizontalFlip(),
                transforms.ConvertImageDtype(torch.float32),
                transforms.Normalize((0.5, 0.4, 0.3), (0.25, 0.3, 0.2))])

        def __len__(self):
            return 64 * 40

        def __getitem__(self, index):
            return self.transform(self.data[index % 64]), index % 10

    rates = {}
    for count in processes:
        loader = torch.utils.data.DataLoader(Images(), batch_size=64, shuffle=True, drop_last=True, num_workers=count)
        seen, began = 0, None
        for images, _ in loader:
            if began is None:  # the first batch starts the workers: not counted
                began = time.perf_counter()
            else:
                seen += len(images)
        rates[count] = seen / (time.perf_counter() - began)
    return rates


def resample_table():
    processes = sorted({1, os.cpu_count() or 1})
    theirs = torchvision_resample_rates(processes)
    print("\n| rrc=224,flip of 3x375x500, batch 64 | threads | samples/s | of torchvision's |")
    print("|---|---|---|---|")
    for threads in processes:
        if theirs:
            print(f"| torchvision, u8 tensors, {threads} processes | | {theirs[threads]:,.0f} | |")
        for name, rate in run_ours("bench_resample", threads, 512, 5).items():
            ratio = f"{rate / theirs[threads]:.1f}" if theirs else ""
            print(f"| {name} | {threads} | {rate:,.0f} | {ratio} |")


def torchvision_change_rates():
    """Name of bench_change -> samples a second of torchvision's transform on u8 tensors, one thread, without a DataLoader. None if
    torchvision is missing."""
    try:
        import torch
        import torchvision.transforms as transforms
    except ImportError:
        return None
    torch.set_num_threads(1)
    bilinear = transforms.InterpolationMode.BILINEAR
    change = {"none": [], "trivialaugment": [transforms.TrivialAugmentWide()],
              "trivialaugment=bilinear": [transforms.TrivialAugmentWide(interpolation=bilinear)],
              "randaugment=2:9": [transforms.RandAugment()], "autoaugment=imagenet": [transforms.AutoAugment()],
              "augmix": [transforms.AugMix()],
              "affine=30": [transforms.RandomAffine(30)], "affine=30:bilinear": [transforms.RandomAffine(30, interpolation=bilinear)],
              "grayscale=1": [transforms.RandomGrayscale(1)], "blur=23": [transforms.GaussianBlur(23)],
              "solarize=128:1": [transforms.RandomSolarize(128, 1)],
              "equalize=1": [transforms.RandomEqualize(1)], "autocontrast=1": [transforms.RandomAutocontrast(1)],
              "sharpness=2:1": [transforms.RandomAdjustSharpness(2, 1)]}
    images = torch.randint(0, 256, (64, 3, 256, 256), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    floats = [transforms.ConvertImageDtype(torch.float32), transforms.Normalize((0.5, 0.4, 0.3), (0.25, 0.3, 0.2))]
    rates = {}
    for name, some in [(name + end, some + last) for name, some in change.items() for end, last in (("", floats), (" to u8", []))]:
        # A crop is a view, which version 0.14 does not equalize.
        transform = transforms.Compose([transforms.RandomCrop(224), transforms.RandomHorizontalFlip(), torch.Tensor.contiguous, *some])
        best = 0.0
        for _ in range(3):
            began = time.perf_counter()
            for image in images:
                transform(image)
            best = max(best, len(images) / (time.perf_counter() - began))
        rates[name] = best
    return rates


def change_table():
    theirs = torchvision_change_rates()
    print("\n| crop=0,flip,WORD of 3x256x256 u8 to 224x224, one thread | samples/s | torchvision | ratio |")
    print("|---|---|---|---|")
    for name, rate in run_ours("bench_change", 1, 512, 5).items():
        other = f"{theirs[name]:,.0f} | {rate / theirs[name]:.1f}" if theirs else " | "
        print(f"| {name} | {rate:,.0f} | {other} |")


def main():
    theirs = torchvision_rate()
    print("| loader, random order, crop=4,flip, batch 256 | threads | samples/s | of the gather (u8 to f32: of the memset) | goal |")
    print("|---|---|---|---|---|")
    fastest = 0.0
    for threads in sorted({1, os.cpu_count() or 1}):
        rates = run_ours("bench_loader", threads, 50000, 11)
        for name, rate in rates.items():
            base = WRITTEN if name.startswith("u8 to f32") else GATHER + ", u8" * ("u8" in name or name == WRITTEN)
            ratio = "" if name == base else f"{rate / rates[base]:.2f}"
            print(f"| {name} | {threads} | {rate:,.0f} | {ratio} | {GOALS.get(name, '')} |")
        fastest = max(fastest, rates["f16 to f32 chw"])
    if theirs:
        print("\n| f16 to f32 chw against torchvision | samples/s | ratio | goal |\n|---|---|---|---|")
        print(f"| {fastest:,.0f} | {theirs:,.0f} | {fastest / theirs:.0f} | 100 |")
    resample_table()
    change_table()
    return 0


if __name__ == "__main__":
    sys.exit(main())
