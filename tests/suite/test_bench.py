#!/usr/bin/env python3
"""tests/bench/train_step.py with a stand-in for both sides: which setting of PyTorch's is compared, what becomes of a setting that fails,
which rows are marked as disturbed, and a peer that cannot be installed. TAP."""
import contextlib
import io
import json
import os
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402
sys.path.insert(0, os.path.join(tap.ROOT, "tests", "bench"))
import environments  # noqa: E402
import rounds  # noqa: E402
import train_step  # noqa: E402

# Milliseconds of a step by setting, the last words of the command. "dies" ends at its first line, "dies later" at its third; "hangs"
# answers never.
STAND_IN = """#!/usr/bin/python3
import os, sys, time
times = {
    "2 f32": 10, "2 bf16": 5,
    "f32 eager contiguous": 22, "f32 eager channels-last": 19, "f32 compile contiguous": "dies", "f32 compile channels-last": 18,
    "bf16 eager contiguous": "hangs", "bf16 eager channels-last": 9, "bf16 compile contiguous": "dies later",
    "bf16 compile channels-last": 14,
}
if "--version" in sys.argv:
    sys.exit(print("0.0 stand-in"))
if os.environ.get("ONEDNN_MAX_CPU_ISA") == "AVX2" and os.environ.get("ATEN_CPU_CAPABILITY") == "avx2":
    times = {name: 40 if name.startswith("2 ") else 50 for name in times}
took = next(value for name, value in times.items() if " ".join(sys.argv).endswith(" " + name))
if sys.argv[-2:] == ["2", "bf16"] and REFUSED:
    print("the CPU computes in f32, not in bf16", file=sys.stderr)
    sys.exit(2)
for number, line in enumerate(sys.stdin):
    if took == "hangs":
        time.sleep(100)
    if took == "dies" or (took == "dies later" and number == 3):
        sys.exit("InvalidCxxCompiler: No working C++ compiler found")
    answer = 8 if took == "dies later" else took
    print(answer, answer + 1, answer, 2.3, flush=True)
"""


calls = []


def bench(*options, others=lambda call: 0.1, refused=False):
    """(the table's row as cells, all that was printed, the record) of a case. `others` returns how many processors other processes used
    between a call of machine_time and the call before it; the first two calls are before the case, the last two after it."""
    with tempfile.TemporaryDirectory() as place:
        program = place + "/program"
        with open(program, "w", encoding="utf-8") as file:
            file.write(STAND_IN.replace("REFUSED", str(refused)))
        os.chmod(program, 0o755)
        used, last = 0.0, time.perf_counter()
        calls.clear()

        def machine_time():
            nonlocal used, last
            now = time.perf_counter()
            calls.append(now)
            used, last = used + others(len(calls)) * (now - last), now
            return used
        rounds.machine_time = machine_time
        text = io.StringIO()
        sys.argv = ["train_step.py", "--program", program, "--peer", program, "--patience", "5", "--rounds", "2", "--json", place + "/json",
                    *options, "smallnet-28x1"]
        with contextlib.redirect_stdout(text):
            train_step.main()
        with open(place + "/json", encoding="utf-8") as file:
            record = json.load(file)[0]
    row = next(line for line in text.getvalue().splitlines() if line.startswith("| smallnet-28x1"))
    return [cell.strip() for cell in row.strip("|").split("|")], text.getvalue(), record


row, text, record = bench()
tap.ok(row[1:5] == ["10.0 (11.0)", "5.0 (6.0)", "18.0 (19.0) f32 compile channels-last", "9.0 (10.0) bf16 eager channels-last"],
       "PyTorch's fastest setting is compared, in f32 and of all", row)
tap.ok(row[5:8] == ["1.80", "1.80", "1.67"], "ratios: f32 to f32, and of the fastest of either side", row)
tap.ok("bf16 compile channels-last" not in record["best_ms"], "a setting that takes over 1.5 times its fastest is left out", record)
reasons = {"f32 compile contiguous": "InvalidCxxCompiler: No working C++ compiler found",
           "bf16 compile contiguous": "InvalidCxxCompiler: No working C++ compiler found",
           "bf16 eager contiguous": "took more than 5 seconds"}
tap.ok(record["failed"] == reasons and all(f"- smallnet-28x1, {name}: {why}" in text for name, why in reasons.items()),
       "settings that fail at first, in a round, or by time are reported with the reason and do not count", text)
tap.ok(row[9] == "0.10", "others that use 0.1 processors do not disturb", row)

f32 = ("--settings", "f32 eager", "--quick")
row, text, record = bench(*f32, refused=True)
tap.ok(row[1:3] == ["10.0 (11.0)", "not in this build"] and row[5:7] == ["1.90", "1.90"] and "Without a time" not in text,
       "a precision that the program refuses is not in this build", text)
row, text, _ = bench(*f32, "--isa", "avx2", "--precision", "f32")
tap.ok(row[1:4] == ["40.0 (41.0)", "50.0 (51.0) f32 eager contiguous", "50.0 (51.0) f32 eager contiguous"] and "2 threads, avx2, PyTorch" in text,
       "--isa masks the instructions of both sides", text)
bench(*f32)
last = len(calls)
for call, when in ((2, "before"), (4, "during"), (last, "after")):
    row, _, record = bench(*f32, others=lambda now: 9 if now == call else 0)
    marked = [key for key, value in record["others"].items() if value > 0.3]
    tap.ok(row[9].endswith(" disturbed") and marked == [when], f"others that use processors {when} the rounds disturb", record)

environments.attempt = lambda command: "ERROR: No matching distribution found for torch"
sys.argv = ["train_step.py"]
with contextlib.redirect_stdout(io.StringIO()) as text:
    train_step.main()
tap.ok(text.getvalue() == "train_step: skipped: no environment with PyPI's PyTorch: ERROR: No matching distribution found for torch\n",
       "an environment that cannot be made is a reason to skip", text.getvalue())
tap.finish()
