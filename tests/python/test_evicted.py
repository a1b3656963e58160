#!/usr/bin/env python3
"""ffload.Loader of a set whose pages a neighbour in its control group evicts: it is read directly from then on, stats() reports it, and the
batches are the same. TAP."""
import hashlib
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from package import finish, make_set  # noqa: E402
from limits import Limits, drop, missing  # noqa: E402
import tap  # noqa: E402
import ffload  # noqa: E402

MIB, EPOCHS = 1 << 20, 8


def epochs(path, taken=None):
    """[(the batches' bits, how they were read)]; taken: called after the first epoch."""
    loader, found = ffload.Loader(path, 50, workers=2, seed=1, size=(16, 16), as_="numpy"), []
    for number in range(EPOCHS):
        bits = hashlib.sha1()
        for images, labels in loader:
            bits.update(images.tobytes() + labels.tobytes())
        found.append((bits.hexdigest(), loader.stats()["reading"]))
        if taken and not number:
            taken()
    return found


why = missing(memory=300 * MIB)
if why:
    tap.skip("a set whose pages are evicted", why)
    finish()
path = make_set("large", "--count", 3400, "--height", 128, "--width", 128, "--dtype", "u8", "--shard-size", "16M")
calm = epochs(path)
drop(path) # so that its pages are the group's
with Limits(memory=300 * MIB) as limits:
    come, go = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        limits.enter()
        found = epochs(path, lambda: os.write(come[1], b".") and os.read(go[0], 1))
        right = [bits for bits, _ in found] == [bits for bits, _ in calm]
        turned = found[0][1].startswith("mapped: ") and found[-1][1].startswith("read directly since its mapping read ")
        print("#", *(reading for _, reading in found), sep="\n# ", flush=True)
        os._exit((not right) + 2 * (not turned))
    os.close(come[1])
    if os.read(come[0], 1):
        limits.take(230 * MIB)
    os.write(go[1], b".")
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
tap.ok(code in (0, 2), "the same batches", code)
tap.ok(code in (0, 1), "stats() reports that they are read directly", code)
tap.ok(all(reading.startswith("mapped: ") for _, reading in calm), "where nothing is evicted the set stays mapped", calm)
finish()
