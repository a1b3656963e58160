#!/usr/bin/python3
"""The wheel: what is in it, what it needs of a system, and that it packs, inspects, trains and loads in an empty
environment without a compiler. It is made of the build that is tested, so its CUDA module has the architectures of that
(make wheel has all). Prints TAP."""
import base64
import glob
import hashlib
import json
import os
import re
import ssl
import subprocess
import sys
import tempfile
import venv
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(1, os.path.join(sys.path[0], "storage"))
import server  # noqa: E402
import tap  # noqa: E402

for reason in (["libraries of sanitizers are not for wheels"] if tap.SANITIZE else
               [] if os.path.exists(os.path.join(tap.BUILD, "python/ffload/_ffload.abi3.so")) else ["built without Python.h"]):
    tap.skip("the wheel", reason)
    tap.finish()
work = tempfile.TemporaryDirectory()
HERE = os.path.realpath(work.name)


def run(*command, **more):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=600, **more)


def make(folder):
    """The path of a wheel that is made into the folder."""
    clean = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    clean["PROJECT_URL"] = "https://example.org/ffpack"
    done = run("make", "-s", "BUILD=" + tap.BUILD, "WHEEL_FOLDER=" + folder, "wheel-file", cwd=tap.ROOT, env=clean)
    return (glob.glob(folder + "/*.whl") or [None])[0], done.stdout + done.stderr


def version(text):
    return tuple(map(int, text.split(".")))


wheel, said = make(HERE + "/one")
if (tap.SHORT or not wheel) and not tap.ok(wheel is not None, "make wheel-file", said):
    tap.finish()
if tap.LONG:
    again, said = make(HERE + "/two")
    tap.ok(again and open(again, "rb").read() == open(wheel, "rb").read(), "made again it has the same bytes", said)
if not tap.SHORT:
    tap.finish()
name = os.path.basename(wheel)
archive = zipfile.ZipFile(wheel)
files = {one.filename: archive.read(one) for one in archive.infolist()}
number = run(os.path.join(tap.BUILD, "ffpack"), "--version").stdout.split()[1]
info = "ffload-%s.dist-info/" % number

# ---- its files
tap.ok(name.startswith("ffload-%s-cp39-abi3-manylinux_" % number) and name.endswith("_x86_64.whl"), "its name", name)
tap.ok(os.path.getsize(wheel) < 100e6, "less than 100 MB", os.path.getsize(wheel))
rows = [line.rsplit(",", 2) for line in files[info + "RECORD"].decode().splitlines()]
wrong = [row for row in rows if row[0] != info + "RECORD" and row[1:] != [
    "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(files.get(row[0], b"")).digest()).rstrip(b"=").decode(), str(len(files.get(row[0], b"")))]]
tap.ok(not wrong and sorted(row[0] for row in rows) == sorted(files), "RECORD has each file's checksum", wrong)
metadata = files[info + "METADATA"].decode()
readme = open(os.path.join(tap.ROOT, "loader/python/README.md"), encoding="utf-8").read()
tap.ok("\nName: ffload\nVersion: %s\n" % number in metadata and "\nRequires-Python: >=3.9\n" in metadata and metadata.endswith("\n\n" + readme) and "\nAuthor: The maintainers of ffpack\nProject-URL: Homepage, https://example.org/ffpack\n" in metadata and
    "Requires-Dist" not in metadata, "METADATA: name, version, Python, no other packages, the page", metadata[:600])
tap.ok("\nTag: %s\n" % name[len("ffload-%s-" % number):-4] in files[info + "WHEEL"].decode(), "WHEEL has the tag of its name")
licences = {one[len(info + "licenses/"):] for one in files if one.startswith(info + "licenses/")}
libraries = {os.path.basename(one) for one in files if one.startswith("ffload/lib/")}
missing = [one for one in libraries if not one.startswith(("libff_", "libffload", "libjbig")) and one.split(".so")[0] not in licences]
tap.ok("ffpack" in licences and len(libraries) > 10 and not missing, "the licence of each library", missing)
listed = re.findall(r"^License-File: (.*)$", metadata, re.MULTILINE)
tap.ok(set(listed) == licences, "which METADATA names", sorted(licences ^ set(listed)))
# By what Debian's pages say of these packages, not by the table that the build reads.
permissive = re.compile(r"(Apache-2\.0|BSD-[23]-Clause|MIT|Zlib|IJG|libtiff|libpng-2\.0|Unicode-3\.0|bzip2-1\.0\.6|curl|LicenseRef-public-domain)$")
expression = re.search(r"^License-Expression: (.*)$", metadata, re.MULTILINE).group(1).split(" AND ")
tap.ok("Apache-2.0" in expression and [one for one in expression if not permissive.match(one)] == ["GPL-3.0-or-later WITH GCC-exception-3.1"],
    "METADATA names the licences of all that is in it: permissive ones, and GCC's", expression)
told = dict(re.findall(r"^(lib\S+\.so\S*): (.*); \S+ \S+$", files[info + "licenses/LIBRARIES.txt"].decode(), re.MULTILINE))
theirs = {one for one in libraries if not one.startswith(("libff_", "libffload", "libjbig"))}
tap.ok(set(told) == theirs and set(" AND ".join(told.values()).split(" AND ")) | {"Apache-2.0"} == set(expression),
    "LIBRARIES.txt: the licence, package and version of each", sorted(set(told) ^ theirs))
tap.ok("exception" in files[info + "licenses/libgomp"].decode() and "GPL-3" in licences and not licences & {"GPL", "GPL-2", "LGPL", "LGPL-2.1"},
    "the text of GCC's exception, and no text of what is not in it", sorted(licences))
copyleft = [one for one in libraries if re.match("lib(acl|nettle|hogweed|gmp|readline)", one)]
tap.ok(not copyleft and not [one for one, data in files.items() if b"jbg_dec_merge_planes" in data or b"Markus Kuhn" in data and "/lib/" in one],
    "neither libjbig nor another library under the GPL or LGPL", copyleft)
os.makedirs(HERE + "/no-apt")
with open(HERE + "/no-apt/apt-get", "w") as file:
    file.write("#!/bin/sh\necho 'E: no network' >&2\nexit 100\n")
os.chmod(HERE + "/no-apt/apt-get", 0o755)
done = run("bash", "tools/build/libarchive.sh", HERE + "/archive", "wheel", cwd=tap.ROOT, env=dict(os.environ, PATH=HERE + "/no-apt:" + os.environ["PATH"]))
system = run("ldd", run("gcc", "-print-file-name=libarchive.so").stdout.strip()).stdout
wanted = (1, ["libarchive is not rebuilt", "under the LGPL", "LIBARCHIVE=FOLDER"]) if re.search("lib(acl|nettle)", system) else (0, ["libarchive is not rebuilt"])
tap.ok(done.returncode == wanted[0] and all(one in done.stderr for one in wanted[1]) and done.stderr.count("\n") == 1 and not done.stdout,
    "no source package of libarchive: one sentence, with what to do", (done.returncode, done.stderr))
done = run("bash", "tools/build/libarchive.sh", HERE + "/archive", "wheel", cwd=tap.ROOT, env=dict(os.environ, LIBARCHIVE="/given"))
tap.ok((done.returncode, done.stdout) == (0, "/given\n"), "LIBARCHIVE names another one", done.stderr)
for library, package, wanted in (("libnew.so.1", "new 1.0", "libnew.so.1: its licence is not known; read it, and add a line to tools/build/licences.txt"),
                                 ("libjbig.so.0", "libjbig0 2.1", "libjbig.so.0 is under GPL-2.0-or-later, and a wheel holds"),
                                 ("libacl.so.1", "libacl1 2.3", "libacl.so.1 is under LGPL-2.1-or-later, and a wheel holds")):
    place = HERE + "/refused-" + library
    for folder in ("/ffload/lib", "/ffload-%s.dist-info/licenses" % number):
        os.makedirs(place + folder)
    open(place + "/ffload/lib/" + library, "w").close()
    with open(place + "/ffload-%s.dist-info/licenses/libraries" % number, "w") as file:
        file.write("%s %s\n" % (library, package))
    done = run(sys.executable, "-B", os.path.join(tap.ROOT, "tools/build/wheel.py"), place, place, number, os.path.join(tap.ROOT, "loader/python/README.md"))
    tap.ok(done.returncode == 1 and wanted in done.stderr and "Traceback" not in done.stderr and not glob.glob(place + "/*.whl"), "refused: " + library, done.stderr)
nvidia = [one for one in files if re.search(r"lib(cu(?!rl)|nv|nccl|npp)", os.path.basename(one))]
tap.ok(not nvidia, "nothing of NVIDIA's", nvidia)
tap.ok(("libff_cuda.so" in libraries) == os.path.exists(os.path.join(tap.BUILD, "libff_cuda.so")), "the CUDA module, if it was built")
wanted = ["ffload/share/ffpack/recipes/quickstart.txt", "ffload/py.typed", "ffload/_ffload.pyi",
          *("ffload-%s.data/data/share/man/man1/%s.1" % (number, one) for one in ("ffpack", "ffinspect", "fftrain"))]
tap.ok(all(one in files for one in wanted), "recipes, types and man pages", [one for one in wanted if one not in files])

# ---- what it needs
unpacked = HERE + "/unpacked"
archive.extractall(unpacked)
binaries = [os.path.join(unpacked, one) for one, data in files.items() if data[:4] == b"\x7fELF"]
POLICY = {"GLIBCXX": "3.4.29", "CXXABI": "1.3.13", "GCC": "12.0.0"}
promised = name.split("manylinux_")[1].split("_x86")[0].replace("_", ".")
beyond, newest, newest_cxx = [], (0,), (0,)
for path in binaries:
    for symbol, family, found in re.findall(r"\*UND\*.*?\(((\w+)_([0-9.]+))\)", run("objdump", "-T", path).stdout):
        if family == "GLIBC":
            newest = max(newest, version(found))
        if family == "GLIBCXX":
            newest_cxx = max(newest_cxx, version(found))
        limit = promised if family == "GLIBC" else POLICY.get(family) if promised == "2.34" else None
        if limit and version(found) > version(limit):
            beyond.append("%s: %s" % (os.path.relpath(path, unpacked), symbol))
tap.ok(len(binaries) > 12 and not beyond and newest > (2, 30), "it needs no newer symbols than its tag promises", beyond)
systems = re.findall(r"^\| (\S.*) \| (2\.\d+) \| (3\.4\.\d+) \| (.*) \|$", open(os.path.join(tap.ROOT, "train/GPU.md"), encoding="utf-8").read(), re.MULTILINE)
wrong = [one for one in systems if (version(one[1]) >= newest and version(one[2]) >= newest_cxx) == one[3].startswith("pip refuses")]
if promised == "2.34":
    tap.ok(len(systems) == 7 and not wrong, "it runs on the systems that GPU.md names, by the versions of its symbols", [newest, newest_cxx, *wrong])
else:
    tap.skip("it runs on the systems that GPU.md names, by the versions of its symbols", "made here it needs %s: it is made on Debian 12, with its source packages" % promised)
if os.path.exists(os.path.join(tap.ROOT, "build/libarchive/libarchive.so.13")) and re.search('^VERSION_ID="12"', open("/etc/os-release").read(), re.M):
    tap.ok(promised == "2.34", "glibc 2.34 suffices", said)
else:
    tap.skip("glibc 2.34 suffices", "made here it needs %s: it is made on Debian 12, with its source packages" % promised)
here = run("getconf", "GNU_LIBC_VERSION").stdout.split()[1]
for folder in ("/newer/ffload/lib", "/newer/ffload-%s.dist-info/licenses" % number):
    os.makedirs(HERE + folder)
open(HERE + "/newer/ffload-%s.dist-info/licenses/libraries" % number, "w").close()
with open(HERE + "/newer/ffload/library.so", "wb") as file:  # a binary that is of the system's glibc
    file.write(open(re.search(r"(/\S*/libc\.so\.6)", open("/proc/self/maps").read()).group(1), "rb").read())
done = run(sys.executable, "-B", os.path.join(tap.ROOT, "tools/build/wheel.py"), HERE + "/newer", HERE, number, os.path.join(tap.ROOT, "loader/python/README.md"))
wanted = "manylinux_%d_%d_" % max(version(here), (2, 34))
tap.ok(wanted in done.stdout and ("needs glibc " + here in done.stderr) == (version(here) > (2, 34)), "a newer glibc is in the tag, and is said",
    done.stdout + done.stderr)
SYSTEM = r"(libc|libm|libdl|libpthread|librt|libstdc\+\+|libgcc_s|ld-linux-x86-64)\.so"
outside = []
for path in binaries:
    dynamic = run("readelf", "-d", path).stdout
    place = os.path.dirname(path)
    for found in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic):
        theirs = os.path.basename(path) == "libff_cuda.so" and re.match(r"lib(cudnn|cublas|cublasLt|nvrtc|nccl)\.so", found)
        if not re.match(SYSTEM, found) and not theirs and found not in libraries:
            outside.append("%s needs %s" % (os.path.relpath(path, unpacked), found))
    runpath = re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", dynamic)
    wanted = {"bin": "$ORIGIN/../lib", "lib": "$ORIGIN", "ffload": "$ORIGIN/lib"}[os.path.basename(place)]
    if runpath not in ([], [wanted]) or not runpath and not os.path.basename(path).startswith("lib"):
        outside.append("%s: runpath %s" % (path, runpath))
tap.ok(not outside, "every library that it uses is in it, or the system's", outside)
tools = tap.environment("wheel-tools", "auditwheel", "pyelftools", "packaging")
if tools is None or promised != "2.34":
    tap.skip("auditwheel", "PyPI cannot be reached" if tools is None else "it knows not every tag")
else:
    # Without the CUDA module: NVIDIA's libraries are those of no system and of no wheel of auditwheel's kind.
    os.mkdir(HERE + "/plain")
    with zipfile.ZipFile(HERE + "/plain/" + name, "w") as plain:
        for one in archive.infolist():
            data = files[one.filename]
            if one.filename == info + "RECORD":
                data = b"".join(line for line in data.splitlines(True) if b"libff_cuda.so" not in line)
            if not one.filename.endswith("libff_cuda.so"):
                plain.writestr(one, data)
    done = run(tools, "-m", "auditwheel", "show", HERE + "/plain/" + name)
    tags = re.findall(r'following platform tag: "(\w+)"', " ".join(done.stdout.split()))
    tap.ok(tags == ["manylinux_%s_x86_64" % promised.replace(".", "_")], "auditwheel agrees", done.stdout + done.stderr)

# ---- an empty environment
place = HERE + "/venv"
venv.create(place, with_pip=True)
site = glob.glob(place + "/lib/python3*/site-packages")[0]
before = set(tap.files_of(place))
done = run(place + "/bin/python", "-m", "pip", "install", "--no-index", "--disable-pip-version-check", wheel)
tap.ok(done.returncode == 0, "pip installs it", done.stdout + done.stderr)
bare = {"PATH": place + "/bin", "HOME": HERE}  # no compiler, no other program


def installed(*command, **more):
    return run(place + "/bin/" + command[0], *command[1:], env={**bare, **more}, cwd=HERE)


run(sys.executable, os.path.join(tap.ROOT, "tests/cli/make_inputs.py"), "cifar10", HERE + "/cifar", "40")
done = installed("ffpack", "cifar", "-o", "packed", "--dtype", "u8")
tap.ok(done.returncode == 0 and "200 items" in done.stdout, "ffpack packs", done.stdout + done.stderr)
IMAGES = """
import os, sys
from PIL import Image
os.makedirs("images/one")
image = Image.linear_gradient("L").resize((32, 32)).convert("RGB")
image.save("images/one/a.jpg", quality=95); image.save("images/one/b.png")
for i, packed in enumerate(("raw", "tiff_lzw", "tiff_adobe_deflate", "jpeg")): image.save("images/one/c%d.tif" % i, compression=packed)
image.convert("1").save("images/one/d.tif", compression="group4")
"""
done = run(sys.executable, "-c", IMAGES, cwd=HERE)
if done.returncode:
    tap.skip("ffpack reads JPEG, PNG and TIFF", "this Python has no Pillow")
else:
    done = installed("ffpack", "images", "-o", "read", "--dtype", "u8")
    other = run(os.path.join(tap.BUILD, "ffpack"), "images", "-o", "read-2", "--dtype", "u8", cwd=HERE)
    ids = [json.loads(installed("ffinspect", name, "--json").stdout)["splits"][0]["ids"] for name in ("read", "read-2")]
    tap.ok(done.returncode == 0 and "7 items" in done.stdout and other.returncode == 0 and ids[0] == ids[1],
        "ffpack reads JPEG, PNG and TIFF, as the build does", done.stdout + done.stderr + other.stderr)
    with open(HERE + "/images/one/d.tif", "rb") as file:
        data = file.read()
    at = data.index(b"\x03\x01\x03\x00\x01\x00\x00\x00\x04\x00")  # Compression: group 4
    with open(HERE + "/images/one/d.tif", "wb") as file:
        file.write(data[:at + 8] + (34661).to_bytes(2, "little") + data[at + 10:])
    done = installed("ffpack", "images", "-o", "jbig", "--dtype", "u8")
    tap.ok(done.returncode == 65 and done.stderr.count("\n") == 1 and "d.tif: a TIFF of compression 34661 is not read" in done.stderr,
        "a TIFF of JBIG is refused with a sentence", done.stdout + done.stderr)
if "libcurl-ffpack.so.4" not in libraries:
    tap.skip("a set behind https", "libcurl was not built: it is built on Debian, with its source packages and libssl-dev")
else:
    said = run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
               "-keyout", HERE + "/key.pem", "-out", HERE + "/certificate.pem").stderr
    served = server.Server()
    served.add(HERE + "/packed", "packed")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(HERE + "/certificate.pem", HERE + "/key.pem")
    served.socket = context.wrap_socket(served.socket, server_side=True)
    url = "https://localhost:%d/packed" % served.server_port
    trusted = installed("ffinspect", url, SSL_CERT_FILE=HERE + "/certificate.pem", LD_DEBUG="files")
    opened = set(re.findall(r"calling init: (\S*/lib(?:curl|ssl|crypto)\S*)", trusted.stderr))
    tap.ok(trusted.returncode == 0 and trusted.stdout.splitlines()[1:] == installed("ffinspect", "packed").stdout.splitlines()[1:] and
        [os.path.basename(one) for one in opened] == ["libcurl-ffpack.so.4"], "a set behind https, by the libcurl of the wheel alone",
        (trusted.stdout, trusted.stderr[-1000:], opened))
    done = installed("ffinspect", url)
    tap.ok(done.returncode == 74 and done.stderr.count("\n") == 1 and "certificate" in done.stderr, "a certificate that nobody signed is refused", done.stderr)
    served.shutdown()
done = installed("ffinspect", "packed", "--verify")
tap.ok(done.returncode == 0, "ffinspect verifies", done.stdout + done.stderr)
done = installed("fftrain", "--data", "packed", "--recipe", "quickstart", "--epochs", "1", "--batch", "40", "--threads", "2")
tap.ok(done.returncode == 0 and "Accuracy on packed/test" in done.stdout, "fftrain trains, by a recipe of its own", done.stdout + done.stderr)
done = installed("python", "-m", "ffload", "fftrain", "--dry-run", "--data", "packed", "--model", "resnet18", "--json")
tap.ok(done.returncode == 0 and '"oneDNN' in done.stdout or "onednn" in done.stdout.lower(), "python -m ffload fftrain, with oneDNN", done.stdout + done.stderr)
done = installed("fftrain", "--data", "nowhere", "--model", "smallnet")
tap.ok(done.returncode == 74 and done.stderr.count("\n") == 1, "its exit codes", done)
LOAD = """
import hashlib, sys, ffload
assert ffload.__file__.startswith(sys.prefix), ffload.__file__
digest = hashlib.sha256()
for images, labels in ffload.Loader("packed/train", 32, augment="crop=4,flip", seed=3, as_="dlpack", dtype="f32", epochs=2):
    for tensor in (images, labels):
        from ffload import values
        digest.update(values.read(tensor)[0])
print(digest.hexdigest())
"""
WRITE = """
import ffload
summary = ffload.pack("cifar", "again", dtype="u8", progress=False)
assert summary["splits"][0]["samples"] == 200
with ffload.Writer("written", dtype="f32", classes=["a", "b"], progress=False) as writer:
    for i in range(10):
        writer.add(memoryview(bytes(range(48))).cast("B", (3, 4, 4)) if i < 0 else memoryview(bytes(range(75))).cast("B", (3, 5, 5)), i % 2)
dataset = ffload.Dataset("written")
print(len(dataset), dataset.classes, dataset.verify() or "")
"""
done = installed("python", "-c", LOAD)
theirs = run(sys.executable, "-c", LOAD.replace("sys.prefix", repr(os.path.realpath(tap.BUILD))), cwd=HERE,
             env={"PATH": os.environ["PATH"], "PYTHONPATH": os.path.join(os.path.realpath(tap.BUILD), "python")})
tap.ok(done.returncode == 0 and len(done.stdout) == 65 and done.stdout == theirs.stdout, "the loader, without NumPy and PyTorch: the build's batches",
    done.stderr + theirs.stderr)
done = installed("python", "-c", WRITE)
tap.ok(done.returncode == 0 and done.stdout.startswith("10 ['a', 'b']"), "ffload.pack and ffload.Writer", done.stderr + done.stdout)
there = tap.files_of(HERE + "/again/train") == tap.files_of(HERE + "/packed/train")
tap.ok(there, "the same bytes as ffpack's")
TORCH = """
import torch, ffload
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3072, 10))
optimizer = torch.optim.SGD(net.parameters(), 0.01)
first = last = None
for images, labels in ffload.Loader("packed/train", 40, epochs=8, augment="crop=4"):
    loss = torch.nn.functional.cross_entropy(net(images), labels)
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    first, last = first or loss.item(), loss.item()
print("trained", first > last, torch.__version__)
"""
torch = run(sys.executable, "-c", "import torch; print(torch.__path__[0])").stdout.strip()
if torch:
    with open(site + "/system.pth", "w") as file:
        file.write(os.path.dirname(torch) + "\n")
    done = installed("python", "-c", TORCH)
    tap.ok(done.stdout.startswith("trained True"), "a loop of PyTorch", done.stdout + done.stderr)
    os.remove(site + "/system.pth")
else:
    tap.skip("a loop of PyTorch", "this Python has none")

# ---- NVIDIA's libraries
if os.path.exists(os.path.join(tap.BUILD, "libff_cuda.so")):
    cuda = re.search(r"^CUDA_VERSION := (\d+)", open(os.path.join(tap.BUILD, "config.mk")).read(), re.M).group(1)
    os.makedirs(site + "/nvidia/cu/lib")
    with open(site + "/nvidia/cu/lib/libnvrtc.so.%d" % (int(cuda) // 1000), "w") as file:
        file.write("no library")
    for folder in ("bin", "lib"):
        done = run(tap.program("cuda_open"), site + "/ffload/" + folder, cuda, "-1", env={"PATH": "/nowhere", "HOME": HERE, "LD_DEBUG": "files"})
        tried = re.findall(r"file=(\S*libnvrtc\.so\S*) \[0\];  dynamically loaded", done.stdout + done.stderr)
        tap.ok(tried[:1] == [site + "/ffload/" + folder + "/../../nvidia/cu/lib/libnvrtc.so.%d" % (int(cuda) // 1000)],
            "NVIDIA's libraries are searched next to the package first: %s" % folder, tried)
    run("rm", "-r", site + "/nvidia")
else:
    tap.skip("NVIDIA's libraries are searched next to the package", "built without CUDA")

done = run(place + "/bin/python", "-m", "pip", "uninstall", "-y", "--disable-pip-version-check", "ffload")
left = [one for one in set(tap.files_of(place)) - before if "__pycache__" not in one]
tap.ok(done.returncode == 0 and not left, "pip uninstalls it", left[:10])
tap.finish()
