"""Phase cifar: CIFAR-10 packed, ten runs of cifar-speed, then rounds with the peer."""
import os
import sys

from halfhour import data


def run(s, sizes):
    missing = [name for name in ("fftrain", "ffinspect") if not s.program(name)]
    if missing:
        s.fail(f"{' and '.join(missing)}: not here")
        return
    folder = data.cifar(s, sizes)
    if not folder:
        return
    command = [sys.executable, os.path.join(s.options.bench, "cifar_speed.py"), "--fftrain", s.program("fftrain"), "--ffinspect", s.program("ffinspect"),
               "--data", folder, "--device", "cuda", "--recipe", sizes["recipe"], "--first", sizes["first"], "--runs", sizes["rounds"], "--more", " ".join(sizes["speed"]), "--out", s.results_path, "--tag", s.tag(),
               "--seconds", f"{max(s.left() - 1, 1):.1f}", "--patience", sizes["patience"], "--peer-patience", 200 * s.options.scale]
    order = os.path.join(os.path.dirname(s.programs), "order", "cifar10-whitened.txt")
    if os.path.exists(order):
        command += ["--whitened", order]
    if s.options.script and os.path.exists(s.options.script):
        command += ["--script", os.path.abspath(s.options.script)]
    else:
        s.skip(f"the peer: {s.options.script or '--script'} is not there")
    before = s.measured
    result = s.run("cifar-speed", command, 300, show=True)
    s.measured = before + any(line.startswith("| fftrain") for line in result.lines)
    for line in result.lines:
        s.row(line)
