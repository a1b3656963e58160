#!/usr/bin/python3
"""Numbers in options, in what a set records and in states are read and written with a point, whatever locale the program has set:
Qt and GTK set the user's, in which 0.5 is 0,5. Each question is answered in a process of its own, once in each locale. Prints TAP."""
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402

QUESTIONS = {
    "options of augmentation": "sum(float(numpy.asarray(x).sum()) for x, _ in "
                               "loader(augment='rrc=9:0.25-0.75:0.75-1.5,erase=0.5:0.1-0.3,flip'))",
    "their text": "loader(augment='erase=0.25:0.125-0.25,mixup=0.5').state_dict()",
    "a state that is loaded": "[other.load_state_dict(loader(augment='erase=0.25').state_dict()) "
                              "for other in [loader(augment='erase=0.25')]]",
    "part of a set": "[len(loader(split='train:0.75')), len(loader(fold='2/3'))]",
    "an expression": "len(loader(where='height > 10.5 and label < 2.5'))",
    "the range of u16": "float(numpy.asarray(next(iter(loader(where='height > 0')))[0]).sum())",
    "a set that is packed": "sorted(open(os.path.join(d, f), 'rb').read().hex() for d, _, fs in os.walk(pack()) for f in fs "
                            "if f.endswith('.ffs'))",
}
ANSWER = """
import json, locale, os, sys
sys.path[:0] = sys.argv[1:3]
import package, numpy
assert locale.setlocale(locale.LC_ALL, sys.argv[3]) and locale.localeconv()["decimal_point"] == sys.argv[4]
import ffload
images = numpy.random.RandomState(1).randint(0, 65536, (12, 12, 12, 3)).astype("u2")
numpy.savez("x.npz", x=images, y=numpy.arange(12) % 4)
def pack():
    ffload.pack("x.npz", "packed", force=True, dtype="u16", range="0.5,50000.25", normalize="half")
    return "packed"
def loader(**options):
    return ffload.Loader("packed", 4, seed=3, **options)
pack()
print(json.dumps(eval(sys.argv[5]), default=str))
"""


def answer(question, locale, mark, work):
    done = subprocess.run([sys.executable, "-c", ANSWER, tap.ROOT + "/tests/python", tap.ROOT + "/tests", locale, mark, question],
                          capture_output=True, text=True, cwd=tempfile.mkdtemp(dir=work), env={**os.environ, "LOCPATH": work})
    return json.loads(done.stdout) if done.returncode == 0 else done.stderr[-1000:] + locale


with tempfile.TemporaryDirectory() as work:
    made = subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", work + "/de_DE.UTF-8"], capture_output=True, text=True)
    if made.returncode:
        tap.skip("a locale with a comma", "localedef cannot make de_DE.UTF-8: " + made.stderr.strip()[-200:])
    for name, question in QUESTIONS.items():
        plain = answer(question, "C", ".", work)
        tap.ok(plain == answer(question, "de_DE.UTF-8", ",", work), name, plain)
tap.finish()
