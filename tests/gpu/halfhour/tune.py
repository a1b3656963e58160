"""Phase tune: engines chosen by timing, with batch norms folded into convolutions and without, kept in
the plan cache; the gather table; each operation against what it should take."""
import json
import os

from halfhour import data


def options_of(s):
    """The names of fftrain's options."""
    result = s.run("fftrain --help", [s.program("fftrain") or "fftrain", "--help"], 20)
    s.measured -= result.good
    return " ".join(result.lines)


def epochs_of(path):
    """fftrain's log: its epochs and its end."""
    try:
        events = [json.loads(line) for line in open(path)]
    except (OSError, ValueError):
        return [], {}
    return [event for event in events if event.get("event") == "epoch"], next((event for event in events if event.get("event") == "end"), {})


def tune(s, case, set_folder, known, sizes):
    """Trains a few epochs, with and without folding; the first of each chooses the engines."""
    name, words, batch, seconds = case
    for fold in (True, False):
        if not fold and "--no-fold" not in known:
            s.skip(f"{name} without folding: this fftrain has no --no-fold")
            break
        chosen = ["--tune", str(max(round(seconds * s.options.scale * (1 if fold else 0.5)), 1))] if "--tune" in known else []
        if "--val-every" in known:
            chosen += ["--val-every", str(sizes["tune_epochs"])]
        log = os.path.join(s.work, f"{name}{'' if fold else '-no-fold'}.jsonl")
        if os.path.exists(log):
            os.remove(log)
        label = f"{name}, {'folded' if fold else 'not folded'}"
        result = s.run(label, [s.program("fftrain"), *words, "--batch", batch, "--data", set_folder, "--device", "cuda", "--epochs", sizes["tune_epochs"],
                               "--plan-cache", s.cache, "--log-json", log, *chosen, *([] if fold else ["--no-fold"])], seconds + 60)
        epochs, end = epochs_of(log)
        s.log({"tuned": name, "fold": fold, "batch": batch, "epochs": epochs, "end": end, "options": chosen})
        for line in result.lines:  # how many were timed and compiled, and what could not be loaded
            if line.startswith(("engines ", "note: ")):
                s.row(f"{label}: {line}")
        rates = [epoch["samples_per_second"] for epoch in epochs[1:] or epochs if epoch.get("samples_per_second")]
        if rates:
            s.row(f"{label}: {batch / max(rates) * 1e3:.3f} ms a step of {batch} in its fastest epoch, process {result.seconds:.1f} s")


def operations(s, sizes, cases):
    """The ten slowest operations of each case relative to their expected times."""
    program = s.program("op_times")
    if not program:
        s.skip("the table of operations: op_times is not here")
        return
    for case in cases:
        result = s.run(f"op_times {' '.join(case)}", [program, *case, "--device", "cuda", *sizes["op_times"]], 30)
        lines = result.json_lines()
        for line in lines:
            s.log({"op_times": case, **line})
        after = [line for line in lines if "op" in line and line.get("measured_us") and line.get("expected_80_us")]
        after.sort(key=lambda line: line["expected_80_us"] - line["measured_us"])
        for line in after[:10]:
            s.row(f"  {line['op']} {line.get('layer', '')} {line.get('pass', '')}: {line['measured_us']:.1f} us, {line['expected_80_us']:.1f} at 80 %")
        if lines and "op" not in lines[-1]:
            s.row(f"op_times {' '.join(case)}: {json.dumps(lines[-1])}")


def run(s, sizes):
    if not s.program("fftrain"):
        s.fail("fftrain is not here")
        return
    known = options_of(s)
    if "--tune" not in known:
        s.skip("seconds for tuning: this fftrain has no --tune")
    small = data.cifar(s, sizes)
    for number, case in enumerate(sizes["tune"]):
        large = case[0].startswith("resnet50")
        folder = data.made(s, "large", sizes["large_count"], sizes["large_side"], 6) if large else small
        if folder:
            tune(s, case, folder, known, sizes)
        if number == 0 and s.program("bench_gather"):
            gather(s, sizes)
        operations(s, sizes, [sizes["ops"][number]])
        s.keep_plans()  # also for a caller that ends this program


def gather(s, sizes):
    result = s.run("bench_gather", [s.program("bench_gather"), *sizes["gather"]], 40)
    s.log({"bench_gather": result.lines})
    for line in result.lines[-14:]:
        s.row(f"  {line}")
