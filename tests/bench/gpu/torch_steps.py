"""PyTorch at its best, as a server of training steps: one process per variant.

    torch_steps.py --net resnet18 --batch 512 --precision f16 --how autocast --mode default

A step = augmentation (flip, crop, cutout; compiled, on the device) + forward + backward + update, on data
in device memory: channels-last, cudnn.benchmark, fused optimizer, torch.compile. Once it is warm it prints
a line of JSON, {"ready": ..., "compile_seconds": s}; then for each line "N" on its input it makes N steps
and prints their milliseconds as a line of JSON. An empty line or the end of input ends it. --device cpu
makes everything but the speed testable without a GPU."""
import argparse
import contextlib
import json
import sys
import time

import torch
import torch.nn.functional as F
import torchvision

DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "tf32": torch.float32}


def build(net, side, classes):
    """torchvision's net, with ffpack's CIFAR stem and head for small images."""
    if net == "vgg16_bn":
        model = torchvision.models.vgg16_bn(num_classes=classes)
        if side <= 64:
            model.avgpool, model.classifier = torch.nn.Identity(), torch.nn.Linear(512, classes)
        return model
    model = getattr(torchvision.models, net)(num_classes=classes)
    if side <= 64:
        model.conv1 = torch.nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        model.maxpool = torch.nn.Identity()
    return model


def augment(images, rows, columns, flip, cut_rows, cut_columns, side, cutout, dtype):
    """Gather by index arithmetic: crop of the padded image, mirrored or not, with a square of zeros.
    images: [N, 3, side, side] normalized; the rest: [N] integers."""
    n = images.shape[0]
    at = torch.arange(side, device=images.device)
    y = rows[:, None] + at
    x = columns[:, None] + torch.where(flip[:, None], side - 1 - at, at)
    inside = ((y >= 0) & (y < side))[:, :, None] & ((x >= 0) & (x < side))[:, None, :]
    cut = (at >= cut_rows[:, None]) & (at < cut_rows[:, None] + cutout)
    cut = cut[:, :, None] & ((at >= cut_columns[:, None]) & (at < cut_columns[:, None] + cutout))[:, None, :]
    index = y.clamp(0, side - 1)[:, :, None] * side + x.clamp(0, side - 1)[:, None, :]
    flat = images.reshape(n, 3, side * side)
    out = flat.gather(2, index.reshape(n, 1, -1).expand(n, 3, -1)).reshape(n, 3, side, side)
    out = torch.where((inside & ~cut)[:, None], out, torch.zeros((), dtype=out.dtype, device=out.device))
    return out.to(dtype).contiguous(memory_format=torch.channels_last)


class Steps:
    def __init__(self, options):
        self.options, self.device = options, torch.device(options.device)
        self.cuda = self.device.type == "cuda"
        torch.backends.cudnn.benchmark = True
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = options.precision != "f32"
        torch.manual_seed(options.seed)
        dtype = DTYPES[options.precision]
        pure = options.how == "pure" and dtype != torch.float32
        model = build(options.net, options.side, options.classes).to(self.device, memory_format=torch.channels_last)
        if pure:
            model = model.to(dtype)
        self.autocast = not pure and dtype != torch.float32
        self.dtype, self.model = dtype, model
        fused = {"fused": True} if self.cuda else {}
        self.optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, weight_decay=5e-4, nesterov=True, **fused)
        scales = self.cuda and options.precision == "f16" and not pure
        # PyTorch before 2.3 has no scaler for any device.
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=scales) if hasattr(torch.amp, "GradScaler") else torch.cuda.amp.GradScaler(enabled=scales)
        self.images = torch.randn(options.samples, 3, options.side, options.side, device=self.device).to(dtype)
        self.labels = torch.randint(0, options.classes, (options.samples,), device=self.device)
        self.graphs = self.cuda and options.mode in ("reduce-overhead", "max-autotune")  # these modes record CUDA graphs
        compiled = (lambda f: f) if options.mode == "eager" or not hasattr(torch, "compile") else lambda f: torch.compile(f, mode=options.mode)
        self.augment, self.forward = compiled(augment), compiled(self.loss)

    def loss(self, images, labels):
        with torch.autocast(self.device.type, self.dtype) if self.autocast else contextlib.nullcontext():
            return F.cross_entropy(self.model(images).float(), labels, label_smoothing=0.1)

    def step(self):
        o, pad, n = self.options, 4, self.options.batch
        draw = lambda low, high: torch.randint(low, high, (n,), device=self.device)
        chosen = draw(0, o.samples)
        if self.graphs:
            torch.compiler.cudagraph_mark_step_begin()
        images = self.augment(self.images[chosen], draw(-pad, pad + 1), draw(-pad, pad + 1), draw(0, 2).bool(),
                              draw(-4, o.side - 4), draw(-4, o.side - 4), o.side, 8, self.dtype)
        if self.graphs:
            images = images.clone(memory_format=torch.preserve_format)  # the next graph may overwrite this one's result
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.forward(images, self.labels[chosen])
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def run(self, count):
        """Milliseconds of `count` steps."""
        if not self.cuda:
            began = time.perf_counter()
            for _ in range(count):
                self.step()
            return (time.perf_counter() - began) * 1e3
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(count):
            self.step()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--net", default="resnet18")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--side", type=int, default=32)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--samples", type=int, default=8192)
    parser.add_argument("--precision", choices=DTYPES, default="bf16")
    parser.add_argument("--how", choices=["autocast", "pure"], default="autocast")
    parser.add_argument("--mode", choices=["eager", "default", "reduce-overhead", "max-autotune"], default="default")
    parser.add_argument("--warm-up", type=int, default=30)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    answers, sys.stdout = sys.stdout, sys.stderr  # other output is not an answer
    began = time.perf_counter()
    steps = Steps(options)
    steps.run(options.warm_up)
    mode = options.mode if hasattr(torch, "compile") else "eager: this PyTorch compiles nothing"
    print(json.dumps({"ready": f"torch {torch.__version__}", "mode": mode, "compile_seconds": round(time.perf_counter() - began, 2)}), file=answers, flush=True)
    for line in sys.stdin:
        if not line.strip():
            break
        print(json.dumps({"ms": steps.run(int(line))}), file=answers, flush=True)


if __name__ == "__main__":
    main()
