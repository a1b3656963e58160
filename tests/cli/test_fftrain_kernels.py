#!/usr/bin/python3
"""By which of oneDNN's implementations fftrain computes convolutions: never by its reference loops, which are hundreds of times slower than
kernels, and with AVX2 and AVX-512 never by matrix products, which are ten times as slow. Prints TAP. Environment: BUILD."""
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402
from runs import fftrain, make  # noqa: E402

os.chdir(tempfile.mkdtemp())
make("few", "--count", 8, "--height", 8, "--width", 8, "--statistics")
if "onednn" not in fftrain("--data", "few", "--model", "smallnet", "--dry-run", "--device", "cpu").stdout:
    tap.skip("fftrain's convolutions", "built without oneDNN")
    tap.finish()
    sys.exit(0)
flags = set() if os.environ.get("CROSS") else set(" ".join(re.findall(r"^flags\s*: (.*)$", open("/proc/cpuinfo").read(), re.M)).split())
for isa, needed in ("DEFAULT", "avx2"), ("AVX2", "avx2"), ("SSE41", "sse4_1"):
    if needed not in flags:
        tap.skip("convolutions with at most " + isa, "this processor lacks " + needed)
        continue
    for channels in 1, 3, 4, 8:
        made = "set%d" % channels
        if not os.path.exists(made):
            make(made, "--count", 24, "--height", 32, "--width", 32, "--channels", channels, "--statistics")
        said = fftrain("--data", made, "--model", "smallnet", "--augment", "none", "--batch", 8, "--epochs", 1, "--device", "cpu", "--precision", "f32",
                       "--out", "%s-%d" % (isa, channels), "--quiet", ONEDNN_VERBOSE="1", ONEDNN_MAX_CPU_ISA=isa, DNNL_MAX_CPU_ISA=isa)
        calls = re.findall(r"exec,cpu,convolution,([^,]*),([a-z_]*)", said.stdout + said.stderr)
        slow = [call for call in calls if call[0].startswith("ref") or ("gemm" in call[0] and isa != "SSE41")]
        tap.ok(said.returncode == 0 and len(calls) > 3 and not slow, "images of %d channels with at most %s: kernels alone" % (channels, isa),
               (said.stderr[-500:], sorted(set(slow)), len(calls)))
tap.finish()
