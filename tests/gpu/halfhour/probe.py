"""Phase probe: the GPU, the opened libraries, and whether every part computes what it should."""
import glob
import json
import os
import re
import shutil
import subprocess
import sys

import servers
from halfhour import data

# How far a step's loss may be from the CPU's, relative to it: rounding of sums, accumulated over at most
# twenty steps; and that of f16. Measured on an H100: 7e-7 and 1e-3.
CPU_APART = {"f32": 1e-5, "f16": 5e-3}
SANITIZED = ["test_cuda_pool", "test_cuda_loss"]


def device(s):
    """What gpu-check says; False where there is no GPU."""
    check = s.program("gpu-check")
    if not check:
        s.fail("gpu-check is not here")
        return False
    result = s.run("gpu-check", [check, "--seconds", "30", "device", "cudnn"], 40, good_codes=(0, 77))
    if result.code == 77:
        s.measured = 0
        s.skip(f"no card: {next((line['skipped'] for line in result.json_lines() if 'skipped' in line), result.last_line())}")
        return False
    for line in result.json_lines():
        s.log({"gpu_check": line})
        if "name" in line:
            s.row(f"card: {line['name']}, sm_{line.get('sm')}")
        if "json" in line:
            with open(os.path.join(s.out, "device.json"), "w") as to:
                json.dump(line["json"], to, indent=1)
            s.row(f"cuDNN {line.get('cudnn')}; its description of the card is in device.json")
    return True


def libraries(s, sizes):
    """Which files a process that trains has opened."""
    serve = s.program("serve_steps")
    if not serve:
        s.fail("serve_steps is not here")
        return
    try:
        server = servers.Server("serve_steps", [serve, *sizes["library"]],
                                min(60 * s.options.scale, s.left()), s.environment)
        with open(f"/proc/{server.process.pid}/maps") as maps:
            files = sorted(set(re.findall(r"/\S*lib(?:ff_cuda|cuda|cudnn|cublas|nvrtc|nccl|nvidia-ml)[^/\s]*\.so\S*", maps.read())))
        server.close()
    except (servers.Failed, OSError) as error:
        s.fail(f"libraries: {error}")
        return
    s.measured += 1
    s.log({"libraries": files})
    s.row(f"libraries: {' '.join(files) or 'none of NVIDIA'}")


def check(s, name, arguments, steps):
    """Losses and checksum of this number of steps; None where they failed."""
    try:
        server = servers.Server(name, [s.program("serve_steps"), *arguments, "--warm-up", "0"], min(60 * s.options.scale, s.left()), s.environment)
        answer = server.ask(f"check {steps}", min(60 * s.options.scale, s.left()), "losses", "weights")
        server.close()
        s.measured += 1
        return answer
    except servers.Failed as error:
        if s.left() < 0.5:
            s.row(f"cut off: {name}")
        else:
            s.fail(str(error))
        return None


def same_bits(s, sizes):
    """Recorded, called one by one, and streamed: the same losses and weights, with deterministic engines."""
    for name, arguments in sizes["same_bits"]:
        found = {}
        for way, more in (("recorded", []), ("called", ["--no-graph"]), ("streamed", ["--placement", "stream"])):
            found[way] = check(s, f"{name}, {way}", [*arguments, "--deterministic", *more], sizes["same_steps"])
            if found[way] is None:
                break
        if None in found.values():
            continue
        s.log({"same_bits": name, **found})
        for way in ("called", "streamed"):
            if found[way] != found["recorded"]:
                s.fail(f"{name}: {sizes['same_steps']} steps {way} have other bits than recorded")
                break
        else:
            s.row(f"{name}: {sizes['same_steps']} steps recorded, called and streamed have the same bits")


def compare(s, name, precision, cpu, card):
    """The largest distance of the card's losses from the CPU's, relative to them."""
    most, steps = CPU_APART[precision], len(cpu["losses"])
    apart = max(abs(a - b) / abs(a) for a, b in zip(cpu["losses"], card["losses"]))
    s.log({"against_cpu": name, "precision": precision, "apart": apart, "cpu": cpu["losses"], "card": card["losses"]})
    if apart <= most:  # not so for NaN
        s.row(f"{name} in {precision}: {steps} loss{'es' if steps > 1 else ''} within {apart:.1e} of the CPU's")
    else:
        s.fail(f"{name} in {precision}: a loss is {apart:.1e} from the CPU's, {most:.0e} allowed")
    return apart


def cpu_losses(s, sizes):
    for name, arguments, steps in sizes["cpu_nets"]:
        cpu = check(s, f"{name} on the CPU", [*arguments, "--device", "cpu", "--placement", "auto", "--precision", "f32"], steps)
        if cpu is None:
            continue
        for precision in CPU_APART:
            card = check(s, f"{name} in {precision}", [*arguments, "--precision", precision], steps)
            if card is not None:
                compare(s, name, precision, cpu, card)


def loss(s, name, arguments):
    """Of an epoch's training; None where it failed."""
    path = os.path.join(s.work, "ranks.log")
    result = s.run(name, [s.program("fftrain"), *arguments, "--epochs", "1", "--augment", "none", "--out", "none", "--quiet", "--log-json", path], 60)
    if not result.good:
        return None
    with open(path) as file:
        found = [line["train_loss"] for line in map(json.loads, file) if line["event"] == "epoch"][-1]
    os.remove(path)
    return found


def cards(s):
    return len(s.run("nvidia-smi", ["nvidia-smi", "-L"], 10, ours=False).lines)


def ranks(s, sizes):
    """The same loss on one card, with two ranks and two replicas that share it, and on two cards."""
    folder = data.made(s, "ranks", sizes["ranks_count"], sizes["ranks_side"], 10)
    if not folder or not s.program("fftrain"):
        return
    common = ["--data", folder, *sizes["ranks"], "--deterministic"]
    alone = loss(s, "one rank", [*common, "--device", "cuda:0"])
    if alone is None:
        return
    ways = [("two ranks on one card", ["--ranks", "2", "--device", "cuda:0"]), ("two replicas on one card", ["--dp", "2x0"])]
    if cards(s) > 1:
        ways += [("two ranks on two cards", ["--ranks", "2"]), ("two replicas on two cards", ["--dp", "0,1"])]
    else:
        s.skip("two cards: there is one")
    for name, how in ways:
        found = loss(s, name, [*common, *how])
        if found is None:
            continue
        s.log({"ranks": name, "loss": found, "alone": alone})
        if abs(found - alone) <= CPU_APART["f32"] * abs(alone):
            s.row(f"{name}: a loss of {found:.6f}, {alone:.6f} alone")
        else:
            s.fail(f"{name}: a loss of {found:.6f}, {alone:.6f} alone")
    if len(ways) > 2:
        many_steps(s, sizes)


def busy(s):
    """A process that keeps the second card busy; None where gpu-check is missing."""
    check = s.program("gpu-check")
    return check and servers.start([check, "--seconds", "60", "memory"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   env={**s.environment, "CUDA_VISIBLE_DEVICES": "1"}, cwd=s.work)


def many_steps(s, sizes):
    """Collectives of two cards may hang: a net of several buckets for many steps, with norms' collectives between the buckets', and with a
    replica that falls behind because its card is busy. A run that does not end is stopped, and fails."""
    folder = data.made(s, "ranks", sizes["ranks_count"], sizes["ranks_side"], 10)
    if not folder or not s.program("fftrain"):
        return
    common = [s.program("fftrain"), "--data", folder, *sizes["many"], "--epochs", sizes["many_epochs"], "--deterministic", "--val-every", "0", "--augment", "none",
              "--out", "none", "--quiet"]
    for name, how, slowed in (("--sync-bn, two ranks", ["--ranks", "2", "--sync-bn"], False), ("--sync-bn, two replicas", ["--dp", "0,1", "--sync-bn"], False),
                              ("two replicas, one behind", ["--dp", "0,1"], True)):
        other = busy(s) if slowed else None
        result = s.run(f"many steps, {name}", [*common, *how], 90)
        if other:
            servers.end_group(other)
        if result.good:
            s.row(f"many steps, {name}: they end, in {result.seconds:.0f} s")


def current_device(s, sizes):
    """PyTorch's current device before and after each call of ffload's loader; needs ffload's wheel."""
    if cards(s) < 2:
        s.skip("the current device: there is one card")
        return
    folder = data.made(s, "ranks", sizes["ranks_count"], sizes["ranks_side"], 10)
    if not folder:
        return
    result = s.run("the current device", [sys.executable, os.path.join(s.options.bench, "current_device.py"), folder], 60, good_codes=(0, 77))
    lines = result.json_lines()
    s.log({"current_device": lines})
    if result.code == 77:
        s.measured -= 1
        s.skip(f"the current device: {lines[-1]['skipped'] if lines else result.last_line()}")
    elif result.good and lines:
        s.row(f"the current device stays over {lines[-1]['calls']} calls of a loader on {lines[-1]['devices']}")


def tests(s, sizes):
    found = sorted(glob.glob(os.path.join(s.programs, "test_cuda_*")))
    if not found:
        s.fail(f"no test_cuda_* in {s.programs}")
    good = 0
    for path in found[:sizes["tests"]]:
        result = s.run(os.path.basename(path), [path], 75)
        bad = [line for line in result.lines if line.startswith("not ok")]
        s.log({"test": result.name, "ok": sum(line.startswith("ok") for line in result.lines), "not_ok": bad})
        good += result.good
        for line in bad[:3]:
            s.row(f"  {result.name}: {line}")
    s.row(f"tests on the card: {good} of {len(found)} programs passed")
    library = s.program("gpu_library")
    if library:
        result = s.run("gpu_library", [library, s.options.seed, sizes["trials"]], 60)
        s.log({"gpu_library": [line for line in result.lines if "ok " in line[:8]]})
        for line in result.lines:
            if line.startswith(("not ok", "# seed")):
                s.row(f"  gpu_library: {line}")
        s.row(f"cuDNN and cuBLAS against the plain loops: {'they agree' if result.good else 'see above'}, {sum(line.startswith('ok') for line in result.lines)} groups")


def sanitizer(s):
    tool = shutil.which("compute-sanitizer") or next(iter(glob.glob("/usr/local/cuda*/bin/compute-sanitizer")), None)
    if not tool:
        s.skip("memcheck: compute-sanitizer is not here")
        return
    for name in SANITIZED:
        path = s.program(name)
        if path:
            result = s.run(f"memcheck {name}", [tool, "--tool", "memcheck", "--error-exitcode", "9", path], 60)
            s.row(f"memcheck {name}: {'no errors' if result.good else 'see the log'}")


def run(s, sizes):
    if not device(s):
        return
    libraries(s, sizes)
    same_bits(s, sizes)
    cpu_losses(s, sizes)
    ranks(s, sizes)
    tests(s, sizes)
    current_device(s, sizes)
    sanitizer(s)
    rest = s.run("gpu-check, all", [s.program("gpu-check"), "--seconds", "15", "copies", "memory", "launches", "graphs"], 60)
    for line in rest.json_lines():
        s.log({"gpu_check": line})
