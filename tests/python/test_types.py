#!/usr/bin/env python3
"""The package's types: mypy checks them strictly, as Python 3.9 reads them, the stubs are the extension's, and a user's script gets
the types that it should; the extension keeps to the stable ABI of 3.9; docstrings. TAP."""
import inspect
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from package import FOLDER, PLACE, finish  # noqa: E402
import tap  # noqa: E402
import ffload  # noqa: E402

USER = """
import typing
import ffload
dataset = ffload.Dataset("packed/train")
reveal_type(dataset.classes)
reveal_type(dataset.view(0))
reveal_type(dataset.keys[0])
loader = ffload.Loader(dataset, 256, augment="crop=4,flip")
reveal_type(loader.batch.epoch)
reveal_type(loader.state_dict())
ffload.Loader(dataset, batch="256")
ffload.Loader(dataset, order="shufle")
ffload.Loader(dataset, last_batch="dropp")
ffload.Loader(dataset, targets="softly")
for images, labels in ffload.Loader(dataset, shuffle=True, drop_last=True, num_workers=4, as_="numpy"):
    pass
ffload.pack("photos", "packed", resize=256, center_crop=(224, 224), mean=(0.5, 0.5, 0.5), dtype="u8", classes=["a", "b"])
ffload.pack("photos", "packed", resise=256)
ffload.pack("photos", "packed", interpolation="cubic")
ffload.Writer("packed", dtype="u8", shufle=3)
ffload.Loader(dataset, views=2)
ffload.Loader(dataset, views={"global": (2, "rrc=224"), "local": (6, ["rrc=96", "flip"], (96, 96)), "plain": (1, None)})
ffload.Loader(dataset, views="two")
ffload.Loader(dataset, views={"global": 2})
reveal_type(dataset.class_to_idx)
reveal_type(loader.batch_size)
pairs: ffload.Loader[typing.Tuple[bytes, str]] = ffload.Loader(dataset, 256)
for image, label in pairs:
    reveal_type(image)
reveal_type(pairs.peek())
for one in ffload.Loader(dataset, views=2, transform=lambda batch: {"first": len(batch)}):
    reveal_type(one)
def takes_any(loader: ffload.Loader) -> None: ...
takes_any(pairs)
takes_any(ffload.Loader(dataset, return_keys=True))
def takes_pairs(loader: ffload.Loader[typing.Tuple[bytes, str]]) -> None: ...
takes_pairs(ffload.Loader(dataset, 256))
takes_pairs(ffload.Loader(dataset, transform=len))
"""
TYPES = ["builtins.list[builtins.str]", "ffload._ffload.Tensor", "builtins.str", "builtins.int", "builtins.dict[builtins.str, Any]",
         "builtins.dict[builtins.str, builtins.int]", "builtins.int", "builtins.bytes", "tuple[builtins.bytes, builtins.str]", "builtins.dict[builtins.str, builtins.int]"]
REFUSED = ['Unexpected keyword argument "batch" for "Loader"', 'Argument "order" to "Loader" has incompatible type', 'Argument "last_batch" to "Loader" has', 'Argument "targets" to "Loader" has',
           'Argument "transform" to "Loader" has', 'Argument "views" to "Loader" has incompatible type "str"', 'Dict entry 0 has incompatible type "str": "int"', 'Unexpected keyword argument "resise" for "pack"', 'Argument "interpolation" to "pack" has incompatible type', 'Unexpected keyword argument "shufle"']
# abi3info has the table of CPython's own Misc/stable_abi.toml.
STABLE = """
import sys
from abi3info import DATAS, FUNCTIONS
from abi3info.models import PyVersion, Symbol
for name in sys.argv[1:]:
    item = FUNCTIONS.get(Symbol(name)) or DATAS.get(Symbol(name))
    if item is None or item.added > PyVersion(3, 9):
        sys.exit("%s: %s" % (name, item and item.added))
"""
environment = dict(os.environ, MYPYPATH=FOLDER, PYTHONPATH=FOLDER)


def run(*command):
    found = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, cwd=PLACE)
    return found.returncode, found.stdout


python = tap.environment("types", "mypy==1.15.0", "mypy_extensions", "typing_extensions", "abi3info")
if python is None:
    tap.skip("mypy", "PyPI cannot be reached")
else:
    mypy = [python, "-m", "mypy", "--strict", "--python-version", "3.9", "--cache-dir", os.path.join(PLACE, "cache")]
    status, said = run(*mypy, "-p", "ffload")
    tap.ok(status == 0, "mypy --strict", said)
    with open(os.path.join(PLACE, "user.py"), "w") as file:
        file.write(USER)
    status, said = run(*mypy, "user.py")
    tap.ok(re.findall(r'Revealed type is "(.*?)"', said) == TYPES, "a script's types", said)
    tap.ok(all(part in said for part in REFUSED) and "Found %d errors" % len(REFUSED) in said, "words and options that there are not are refused by mypy", said)
    status, said = run(python, "-m", "mypy.stubtest", "ffload._ffload")
    tap.ok(status == 0, "the stubs are the extension's", said)
    used = set(re.findall(r" U (_?Py\w+)", run("nm", "-D", os.path.join(FOLDER, "ffload", "_ffload.abi3.so"))[1]))
    status, said = run(python, "-c", STABLE, *sorted(used))
    tap.ok(status == 0 and len(used) > 30, "what the extension uses of Python is stable since 3.9", said or str(used))

made = subprocess.run([sys.executable, os.path.join(tap.ROOT, "tools", "build", "python_options.py")], stdout=subprocess.PIPE, text=True,
                      input=run(os.path.join(tap.BUILD, "ffpack"), "--describe")[1]).stdout
with open(os.path.join(tap.ROOT, "loader", "python", "ffload", "options.py")) as file:
    tap.ok(file.read() == made, "the types of pack's options are those of ffpack (tools/build/python_options.py)", made)

undocumented = []
for name in ffload.__all__:
    value = getattr(ffload, name)
    if name.startswith("__"):
        continue
    if not value.__doc__:
        undocumented.append(name)
    members = inspect.getmembers(value) if inspect.isclass(value) and not issubclass(value, (Exception, tuple, dict)) else []
    undocumented += ["%s.%s" % (name, member) for member, what in members if not member.startswith("_") and not what.__doc__]
tap.ok(not undocumented, "every public name has a docstring", undocumented)
finish()
