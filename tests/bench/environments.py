"""Virtual environments of PyPI, kept in PEERS_DIR (default: bench-peers in the build folder): the loaders that the benchmarks compare with,
over the system's torch, PyPI's torch for the training steps and LitData, and the trainers of the example scripts with it. Environment: BUILD, PEERS_DIR."""
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PLACE = os.environ.get("PEERS_DIR") or os.path.join(os.path.abspath(os.environ.get("BUILD", os.path.join(ROOT, "build"))), "bench-peers")
PACKAGES = {  # numpy and opencv in versions that the system's torch can use
    "ffcv": ["ffcv", "numpy<2", "opencv-python<4.12"],
    "streaming": ["mosaicml-streaming", "numpy<2"],
    "scripts": ["torch", "torchvision", "lightning", "accelerate", "timm"],
    "torch": ["torch", "torchvision", "litdata"],
}
MODULES = {"ffcv": "ffcv.writer", "streaming": "streaming", "scripts": "lightning, accelerate, timm", "torch": "torch._dynamo, litdata"}
PEERS = ("ffcv", "streaming")


def attempt(command):
    """None, or the line with the reason why the command failed."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=1200)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if not done.returncode:
        return None
    lines = [line.strip() for line in (done.stderr + done.stdout).splitlines() if "rror" in line]
    return (lines or [command[0] + " failed"])[-1][:160]


def python_of(name):
    """(the peer's Python, None), or (None, the reason why there is none). FFCV has no wheel, so the packages that its sources need
    are installed."""
    python = os.path.join(PLACE, name, "bin", "python")
    check = [python, "-c", f"import {MODULES[name]}, torch, torchvision, numpy; torch.from_numpy(numpy.zeros(1))"]
    if os.path.exists(python) and not attempt(check):
        return python, None
    os.makedirs(PLACE, exist_ok=True)
    commands = [[sys.executable, "-m", "venv", *["--system-site-packages"] * (name in PEERS), os.path.join(PLACE, name)],
                [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES[name]], check]
    if name == "ffcv":
        commands.insert(0, [os.path.join(ROOT, "tools", "build", "deps.sh"), "peers"])
    for command in commands:
        reason = attempt(command)
        if reason:
            return None, reason
    return python, None
