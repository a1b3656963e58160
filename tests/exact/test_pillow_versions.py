"""PyPI's Pillows against ffpack: the newest 11, 12.1 and the newest of all, each over the files of the tests that
compare Debian's. Those tests run with each, in a virtual environment in the build folder, and skip
nothing that they do not skip else.

Prints TAP. Environment: BUILD; FF_SHARED_DATA (default ../shared/data next to the repository)."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
VERSIONS = ("11.3.0", "12.1.1", "13.0.0")
TESTS = ("test_formats.py", "test_tiff.py", "test_jpeg.py", "test_geometry.py", "test_torchvision.py")
# Each in a process of its own, after what they all import, which takes longer than some of them.
RUN = """
import os, runpy, sys
sys.path.insert(0, sys.argv[1])
import oracle
for name in sys.argv[2:]:
    print("==== " + name, flush=True)
    child = os.fork()
    if not child:
        runpy.run_path(os.path.join(sys.argv[1], name), run_name="__main__")
        sys.exit()
    print("==== exit", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""

for version in VERSIONS:
    python = tap.environment("pillow-" + version, "pillow==" + version)
    if not python:
        tap.skip("Pillow " + version, "PyPI cannot be reached")
        continue
    said = subprocess.run([python, "-c", "import PIL; print(PIL.__version__)"], stdout=subprocess.PIPE, text=True).stdout
    if not tap.ok(said == version + "\n", "Pillow %s is what is compared" % version, said):
        continue
    done = subprocess.run([python, "-c", RUN, HERE, *TESTS], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env={**os.environ, "FF_PILLOW_OF_PYPI": "1"})
    for name in TESTS:
        lines, code = done.stdout.partition("==== %s\n" % name)[2].partition("==== exit ")[::2]
        lines = lines.splitlines()
        good = sum(line.startswith("ok ") for line in lines)
        plan = [line for line in lines if line.startswith("1..")]
        skipped = [line for line in lines if "# SKIP" in line]
        wrong = [line for i, line in enumerate(lines) if line.startswith("not ok") or (line.startswith("# ") and i)]
        tap.ok(code.startswith("0\n") and plan and good, "Pillow %s, %s: %d lines" % (version, name, good), wrong or lines[-20:] or done.stdout.splitlines()[-20:])
        for line in skipped:
            tap.skip("Pillow %s, %s" % (version, name), line.split("# SKIP ")[1])
tap.finish()
