"""What the tests of archives share: a scratch folder to run in, ffpack and ffinspect."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402

try:
    import numpy  # noqa: F401
    from PIL import Image  # noqa: F401
except ImportError as missing:
    tap.skip("archives", "this Python has no %s" % missing.name)
    tap.finish()

FFPACK = os.path.join(tap.BUILD, "ffpack")
FFINSPECT = os.path.join(tap.BUILD, "ffinspect")
scratch = tempfile.mkdtemp(prefix="archive-")
os.chdir(scratch)


def finish():
    os.chdir("/")
    shutil.rmtree(scratch)
    tap.finish()


def run(*arguments):
    """ffpack's exit code and what it said on stderr."""
    done = subprocess.run([FFPACK, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return done.returncode, done.stderr.decode(errors="replace")


def ids(folder):
    """The exit code of verifying, and each split's content, source and transform ids."""
    done = subprocess.run([FFINSPECT, folder, "--json", "--verify"], stdout=subprocess.PIPE)
    try:
        return done.returncode, [split["ids"] for split in json.loads(done.stdout)["splits"]]
    except (ValueError, KeyError):
        return done.returncode, []
