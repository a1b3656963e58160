#!/usr/bin/python3
"""What people see in a terminal: the progress line in terminals of several widths, and resized while
it runs; the width of --help and of fftrain's table. Prints TAP."""
import concurrent.futures
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unicodedata

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402

progress_line = tap.program("progress_line")


def resize(terminal, columns):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))


def in_terminal(arguments, widths, seconds, term="xterm", **environment):
    """The program's output on a terminal that takes each width in turn, after a share of the seconds: a text
    for each width."""
    ours, theirs = pty.openpty()
    resize(ours, widths[0])
    program = subprocess.Popen(
        arguments, stdin=theirs, stdout=theirs, stderr=theirs,
        env={"PATH": os.environ["PATH"], "LC_ALL": "C", "TERM": term, **environment})
    os.close(theirs)
    texts, began = [b"" for _ in widths], time.monotonic()
    at = 0
    while True:
        try:
            bytes_ = os.read(ours, 65536)
        except OSError:  # no writer is left
            break
        if not bytes_:
            break
        texts[at] += bytes_
        if at + 1 < len(widths) and time.monotonic() - began > seconds * (at + 1) / len(widths):
            at += 1
            resize(ours, widths[at])
    os.close(ours)
    assert program.wait() == 0, (program.returncode, texts)
    return [text.decode() for text in texts]


def columns(text):
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
               for c in text)


def lines_of(text):
    """The lines shown one after another, each over the previous one."""
    assert "\n" not in text, text
    assert not re.search("\x1b(?!\\[K)", text), text  # no colours, no cursor movements
    shown = text.replace("\x1b[K", "").split("\r")
    return [line for line in shown if line]


PACKING = ["1.3", "packing train", "img", "1281167"]
TRAINING = ["1.3", "epoch 12/90", "img", "1281167", "loss 2.3456, data wait 12.3 %"]
WIDE = ["1", "packing 数据集", "img", "1281167", "写入 été"]

LINES = [
    ("a wide terminal has everything", TRAINING, 120,
     r"epoch 12/90: +\d+%\|#* *\| \d+/1281167 \[00:01<00:0\d, \d+ img/s\] loss 2.3456, data wait 12.3 %", "$^"),
    ("at 80 columns bar and count go", TRAINING, 80,
     r"epoch 12/90: +\d+% \[00:01<00:0\d, .* img/s\] loss 2.3456, data wait 12.3 %$", r"\||1281167"),
    ("at 40 columns times are left", TRAINING, 40, r"epoch 12/90: +\d+% \[00:01<00:0\d\]$", "loss|img"),
    ("at 20 columns the percentage", TRAINING, 20, r"epoch 12/90: +\d+%$", r"\["),
    ("at 10 columns the beginning", TRAINING, 10, r"epoch 12/$", "$^"),
    ("without a note the bar is at 80 columns", PACKING, 80,
     r"packing train: +\d+%\|#+ *\| \d+/1281167 \[00:01<00:0\d, .* img/s\]$", "$^"),
    ("of an unknown total the count stays", ["1", "verifying", "img", "0", "note"], 24, r"verifying: \d+$", r"\["),
    ("bytes are printed as sizes", ["1", "verifying", "B", "90000000"], 100,
     r"verifying: .* [\d.]+ MiB/85.8 MiB \[.*, [\d.]+ MiB/s\]$", "$^"),
    ("wide characters count twice, the whole line fits", WIDE, 100, r"\|#* +\| .* 写入 été$", "$^"),
    ("wide characters at 36 columns", WIDE, 36, r"packing 数据集: +\d+% \[", "写"),
    ("wide characters are not cut in two", WIDE, 12, r"packing 数$", "�")]
# All at once: they wait, most of the time.
with concurrent.futures.ThreadPoolExecutor(len(LINES)) as pool:
    shown = list(pool.map(lambda one: in_terminal([progress_line, *one[1]], [one[2]], 0)[0], LINES))
for (name, arguments, width, present, absent), text in zip(LINES, shown):
    lines = lines_of(text)
    # Ten lines a second at most, each within the terminal, without its last column.
    good = 2 <= len(lines) <= 10 * float(arguments[0]) + 1
    good = good and all(columns(line) < width for line in lines) and re.search(present, lines[-1])
    good = good and not any(re.search(absent, line) for line in lines) and text.endswith("\r\x1b[K")
    tap.ok(good, f"progress line: {name}", "\n".join(lines[-2:]))

bars = [re.search(r"\|#* *\|", line).group(0)
        for line in lines_of(in_terminal([progress_line, *PACKING], [78], 0)[0])]
tap.ok(all(10 <= len(bar) < 22 for bar in bars), "progress line: the bar shrinks before it goes", bars)

texts = in_terminal([progress_line, "3", *TRAINING[1:]], [120, 40, 80], 3)
lines = [lines_of(text) for text in texts]
tap.ok(all(len(some) > 3 for some in lines) and all(
    columns(line) < width for width, some in zip([120, 40, 80], lines) for line in some[1:])
    and columns(lines[2][-1]) > 60, "progress line: a terminal that is resized", lines[1])

tap.ok("#" in in_terminal([progress_line, *PACKING], [80], 0, NO_COLOR="1")[0], "progress line: NO_COLOR changes nothing")
for name, environment in [("TERM=dumb", {"term": "dumb"}), ("no TERM", {"term": ""})]:
    text = in_terminal([progress_line, "1", *PACKING[1:]], [80], 0, **environment)[0]
    tap.ok(text == "", f"progress line: {name}: nothing in the first half minute", text)
run = subprocess.run([progress_line, "1", *PACKING[1:]], capture_output=True, env={"TERM": "xterm"})
tap.ok(run.stderr == b"" and run.stdout == b"", "progress line: off a terminal nothing in the first half minute")
text = in_terminal([progress_line, *PACKING], [0], 0)[0]
tap.ok(all(60 < columns(line) < 80 for line in lines_of(text)), "progress line: a terminal of no width counts as 80", text)

# ---- for programs
run = subprocess.run([progress_line, "1", 'packing "a\\b"', "items", "1000", "", "json"], capture_output=True)
events = [json.loads(line) for line in run.stdout.splitlines()]
done = [event.pop("done") for event in events]
tap.ok(5 <= len(events) <= 11 and not run.stderr and done == sorted(done) and done[0] == 0 and 300 < done[-1] <= 500 and
    all(event == {"event": "progress", "what": 'packing "a\\b"', "unit": "items", "total": 1000} for event in events),
    "progress in JSON: an object a line, the first at the beginning", run.stdout.decode())
run = subprocess.run([progress_line, "0.3", "verifying", "B", "0", "", "json"], capture_output=True)
tap.ok({str(json.loads(line)["total"]) for line in run.stdout.splitlines()} == {"None"},
    "progress in JSON: an unknown total is null", run.stdout.decode())
tap.ok(in_terminal([progress_line, "1", *PACKING[1:], "", "none"], [80], 0) == [""], "no progress: nothing on a terminal")

# ---- --help
commands = [["ffpack"], ["ffinspect"], ["fftrain"]]
for command in commands:
    run = subprocess.run([os.path.join(tap.BUILD, command[0]), *command[1:], "--help"], capture_output=True, text=True)
    text = run.stdout
    commands += [[command[0], name] for name in re.findall(rf"^  {command[0]} ([a-z]+) [A-Z]", text, re.MULTILINE)
                 if len(command) == 1]
    wide = [line for line in text.splitlines() if len(line) > 80]
    # Filled, not only broken: a paragraph has lines near that width.
    filled = [line for line in text.splitlines() if len(line) > 70]
    tap.ok(run.returncode == 0 and not wide and len(filled) > 1 and not run.stderr,
        f"{' '.join(command)} --help: at most 80 columns", "\n".join(wide))
tap.ok(len(commands) >= 6, "every subcommand's too", commands)

# ---- the table of epochs
with tempfile.TemporaryDirectory() as place:
    made = os.path.join(place, "set")
    subprocess.run([tap.program("make_set"), made, "--count", "600", "--splits", "train,test",
                    "--statistics"], check=True, capture_output=True)
    for width in (80, 120):
        text = in_terminal([os.path.join(tap.BUILD, "fftrain"), "--data", made, "--model", "smallnet", "--epochs", "2"],
                           [width], 0)[0]
        table = [line.split("\x1b[K")[-1].rstrip("\r") for line in text.split("\n")]
        at = [i for i, line in enumerate(table) if line.startswith("epoch  ")]
        rows = table[at[0]:at[0] + 3] if at else []
        tap.ok(len(rows) == 3 and all(len(row) <= 80 for row in rows) and len({len(row) for row in rows}) == 1 and
            rows[0].split("  ")[-1] == "wait %" and [row.split()[0] for row in rows] == ["epoch", "1", "2"],
            f"fftrain's table in a terminal of {width} columns", "\n".join(rows or table))
tap.finish()
