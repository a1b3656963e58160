#!/usr/bin/python3
"""Random sources, runs, pairs of runs and typos, and what must hold whatever was drawn (cases.py explains how). Prints TAP: for each kind that no
case is wrong, with the shortest commands of one that is. Environment: BUILD; FF_RANDOM_SECONDS, of all kinds (300); FF_SEED, the first seed
(by default the same cases each time, so that a change is not blamed for what it has not done); FF_RANDOM, kinds with commas."""
import importlib
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cases import NoSpace, attempt, draw, search, tap  # noqa: E402

KINDS = os.environ.get("FF_RANDOM", "packing,training,pairs,typos").split(",")
# Without FF_SEED.
CASES = {"packing": 1000, "training": 150, "pairs": 150, "typos": 1200}
# Cases that were wrong once, by their values that are not plain.
KEPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kept.txt")


def kept(name, kind):
    with open(KEPT, encoding="utf-8") as file:
        for line in file:
            word, _, values = line.strip().partition(" ")
            if word == name:
                plain = {choice: each[0] for choice, each in kind.CHOICES.items()}
                yield {**plain, "seed": 0, **eval(values)}  # noqa: S307: of this folder


def main():
    seconds = float(os.environ.get("FF_RANDOM_SECONDS", "300")) / len(KINDS)
    seed = os.environ.get("FF_SEED")
    for name in KINDS:
        kind = importlib.import_module(name)
        again = [(case, attempt(kind, case)) for case in kept(name, kind)]
        wrong = ["%s: %s" % one for one in again if one[1]]
        tap.ok(not wrong, "%d cases of %s that were wrong once" % (len(again), name), "\n".join(wrong))
        first, most = (int(seed), float("inf")) if seed else (1, CASES.get(name, 100))
        count, found = search(kind, seconds, first, most)
        tap.ok(count and not found, "random %s: nothing is wrong" % name, "\n".join(
            "%s\n  %s\n  %s" % (case, error, "\n  ".join(commands)) for case, error, commands in found))
        print("# %s: %d cases from seed %d" % (name, count, first))
    tap.finish()


if __name__ == "__main__":
    try:
        if sys.argv[1:]:  # KIND SEED: one case again
            module = importlib.import_module(sys.argv[1])
            print(attempt(module, draw(module, int(sys.argv[2]))))
        else:
            main()
    except NoSpace as full:
        print("Bail out! The disk of the temporary folder is full, which is a failure of this machine: %s" % full)
        sys.exit(1)
