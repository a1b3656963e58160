"""Optimizers, clipping and learning rates against torch's: 100 updates by the same gradients, in torch in f64, and the
rates of every schedule by step. Prints TAP. Environment: BUILD."""
# Needs: tests/update_steps
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402

PROGRAM = tap.program("update_steps")

try:
    import numpy
    import torch
    from torch.optim import lr_scheduler
except ImportError as missing:
    tap.skip("torch", missing)
    tap.finish()

torch.set_num_threads(1) # two would wait for each other on a busy machine
STEPS, GRADIENTS, TOLERANCE = 100, 4, 1e-6
# smallnet's parameters: filters and the head's matrix, norms, the head's bias
SHAPES = [shape for c, k in ((16, 1), (32, 16), (64, 32), (128, 64)) for shape in ((c, k, 3, 3), (c,), (c,))] + [(10, 128), (10,)]
COUNT = sum(int(numpy.prod(shape)) for shape in SHAPES)


class Ratio(torch.optim.Optimizer):
    """timm's Lars (trust_coeff, without trust_clip) and Lamb (without clipping), which adapt weights only."""

    def __init__(self, parameters, name, **options):
        super().__init__(parameters, dict(momentum=0, nesterov=False, betas=(0.9, 0.999), trust=0.001, name=name) | options)

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                self.update(p, p.grad, group, self.state[p])

    def update(self, p, g, group, state):
        decay, eps = group["weight_decay"], group["eps"]
        state["step"] = state.get("step", 0) + 1
        if group["name"] == "lars":
            if p.dim() > 1 and p.norm() > 0 and g.norm() > 0:
                ratio = group["trust"] * p.norm() / (g.norm() + p.norm() * decay + eps)
            else:
                ratio = 1
            g = ratio * (g + decay * p)
            state["m"] = group["momentum"] * state["m"] + g if "m" in state else g.clone()
            p.sub_(group["lr"] * (g + group["momentum"] * state["m"] if group["nesterov"] else state["m"]))
            return
        beta1, beta2 = group["betas"]
        state["m"] = beta1 * state.get("m", 0) + (1 - beta1) * g
        state["v"] = beta2 * state.get("v", 0) + (1 - beta2) * g * g
        root = (state["v"] / (1 - beta2 ** state["step"])).sqrt()
        update = state["m"] / (1 - beta1 ** state["step"]) / (root + eps) + decay * p
        ratio = p.norm() / update.norm() if p.dim() > 1 and p.norm() > 0 and update.norm() > 0 else 1
        p.sub_(group["lr"] * ratio * update)


def torch_options(options):
    keep = {key.replace("-", "_"): value for key, value in options.items() if key not in ("beta1", "beta2", "clip")}
    if "beta1" in options:
        keep["betas"] = (float(options["beta1"]), float(options["beta2"])) # both floats, as new releases of PyTorch want
    return keep


def optimizer_of(name, parameters, options):
    options = torch_options(options)
    if name == "sgd":
        return torch.optim.SGD(parameters, **options)
    if name == "adamw":
        return torch.optim.AdamW(parameters, **options)
    flat = [p for p in parameters if p.dim() == 1]
    return Ratio([{"params": flat, "weight_decay": 0}, {"params": [p for p in parameters if p.dim() > 1]}], name, **options)


def check_updates(name, **options):
    numbers = ["%s=%r" % (key, float(value)) for key, value in options.items()]
    done = subprocess.run([PROGRAM, name, str(STEPS), str(GRADIENTS), *numbers], input=given.tobytes(), capture_output=True,
                          env=os.environ | {"OMP_WAIT_POLICY": "passive"})
    title = " ".join([name, *numbers])
    if done.returncode:
        return tap.ok(False, title, done.stderr.decode())
    got = torch.from_numpy(numpy.frombuffer(done.stdout, numpy.float32).reshape(-1, COUNT).copy()).double()
    arrays = torch.from_numpy(given)
    sizes = [int(numpy.prod(shape)) for shape in SHAPES]
    parameters = [torch.nn.Parameter(part.reshape(shape).double()) for part, shape in zip(arrays[0].split(sizes), SHAPES)]
    optimizer = optimizer_of(name, parameters, options)
    for step in range(STEPS):
        gradient = arrays[1 + step % GRADIENTS] * numpy.float32(1 + step / 64)
        for p, part, shape in zip(parameters, gradient.split(sizes), SHAPES):
            p.grad = part.reshape(shape).double()
        if "clip" in options:
            torch.nn.utils.clip_grad_norm_(parameters, options["clip"])
        for group in optimizer.param_groups:
            group["lr"] = options["lr"] * (1 - step / 200)
        optimizer.step()
    notes = []

    def compare(what, want, have, tolerance):
        apart = ((want - have).norm() / want.norm()).item()
        if not apart <= tolerance:
            notes.append("%s: %g apart" % (what, apart))

    for i, (p, have, begun) in enumerate(zip(parameters, got[0].split(sizes), arrays[0].double().split(sizes))):
        want = p.detach().flatten()
        compare("parameter %d" % i, want, have, TOLERANCE)
        compare("change of parameter %d" % i, want - begun, have - begun, 20 * TOLERANCE)
    names = {"sgd": ["momentum_buffer"], "adamw": ["exp_avg", "exp_avg_sq"], "lars": ["m"], "lamb": ["m", "v"]}[name]
    for block, key in enumerate(names, 1):
        want = [optimizer.state[p].get(key) for p in parameters]
        if None not in want: # SGD without momentum keeps none
            compare(key, torch.cat([w.flatten() for w in want]), got[block], TOLERANCE)
    tap.ok(not notes and len(got) == 1 + len(names), title, notes)


def check_rates(text, make, peak=0.4, warmup=0, epoch=10, steps=100):
    done = subprocess.run([PROGRAM, "rates", text, str(peak), str(warmup), str(epoch), str(steps)], capture_output=True, text=True)
    got = [float(line) for line in done.stdout.split()]
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=peak)
    scheduler, want = make(optimizer), []
    for _ in range(steps):
        want.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if len(want) < steps:
            scheduler.step()
    apart = [i for i, (a, b) in enumerate(zip(want, got)) if not abs(a - b) <= 1e-12 * peak]
    tap.ok(len(got) == steps and not apart, "rates of %s%s" % (text, ", with a warm-up" if warmup else ""),
           done.stderr or ["step %d: %g, not %g" % (i, got[i], want[i]) for i in apart])


random = numpy.random.default_rng(12)
given = random.standard_normal((1 + GRADIENTS, COUNT), numpy.float32)
given[0] *= 0.1
given[1:] *= 0.01
check_updates("sgd", **{"lr": 0.1, "momentum": 0.9, "weight-decay": 5e-4, "nesterov": 1, "clip": 0.5})
adam = {"lr": 1e-3, "weight-decay": 0.01, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8}
check_updates("adamw", **adam)
check_updates("adamw", **adam | {"weight-decay": 0.2, "beta1": 0.8, "beta2": 0.95, "eps": 1e-3, "clip": 2})
check_updates("adamw", **adam | {"lr": 1e-4, "beta2": 0, "eps": 1e-2})
check_updates("lars", **{"lr": 5, "momentum": 0.9, "weight-decay": 0.01, "eps": 1e-2, "trust": 0.001, "nesterov": 1})
check_updates("lamb", **adam | {"lr": 0.01, "beta1": 0.8, "eps": 1e-6})
# Without weight decay as timm with always_adapt=True.
check_updates("lars", **{"lr": 5, "momentum": 0.9, "weight-decay": 0, "eps": 1e-2, "trust": 0.001})
check_updates("lamb", **adam | {"lr": 0.01, "weight-decay": 0, "eps": 1e-6})

check_rates("constant", lambda o: lr_scheduler.LambdaLR(o, lambda step: 1))
check_rates("cosine", lambda o: lr_scheduler.CosineAnnealingLR(o, 100))
check_rates("cosine=0.25", lambda o: lr_scheduler.CosineAnnealingLR(o, 100, eta_min=0.1))
check_rates("linear", lambda o: lr_scheduler.LinearLR(o, 1, 0, 100))
check_rates("linear=0.2", lambda o: lr_scheduler.LinearLR(o, 1, 0.2, 100))
check_rates("step=3", lambda o: lr_scheduler.StepLR(o, 30, 0.1))
check_rates("step=2.5:0.5", lambda o: lr_scheduler.StepLR(o, 25, 0.5))
check_rates("multi-step=3,6,8", lambda o: lr_scheduler.MultiStepLR(o, [30, 60, 80]))
check_rates("multi-step=3,3.1:0.3", lambda o: lr_scheduler.MultiStepLR(o, [30, 31], 0.3))
check_rates("polynomial", lambda o: lr_scheduler.PolynomialLR(o, 100))
check_rates("polynomial=2", lambda o: lr_scheduler.PolynomialLR(o, 100, 2))
check_rates("one-cycle", lambda o: lr_scheduler.OneCycleLR(o, 0.4, total_steps=100))
check_rates("one-cycle=0.45", lambda o: lr_scheduler.OneCycleLR(o, 0.4, total_steps=100, pct_start=0.45))
check_rates("cosine", lambda o: lr_scheduler.SequentialLR(o, [lr_scheduler.LinearLR(o, 1 / 11, 1, 10),
                                                              lr_scheduler.CosineAnnealingLR(o, 90)], [10]), warmup=10)
check_rates("multi-step=3,6", lambda o: lr_scheduler.ChainedScheduler([lr_scheduler.LinearLR(o, 1 / 11, 1, 10),
                                                                       lr_scheduler.MultiStepLR(o, [30, 60])]), warmup=10)
tap.finish()
