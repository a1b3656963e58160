"""Calls of the package at random, for a while: sets and loaders are made, iterated, kept, dropped, closed, pickled, forked and used
from several threads; a batch that is kept must stay as it was. Exceptions are the package's, and nothing ends the process.
    random_calls.py SECONDS SEED SET... """
import gc
import os
import pickle
import random
import signal
import sys
import threading
import time
import zlib

import numpy
import ffload

ALLOWED = (ffload.Error, OSError, IndexError, BufferError)
SECONDS, SEED, SETS = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
SANITIZED = "asan" in os.environ.get("LD_PRELOAD", "")
dice = random.Random(SEED)
sets, loaders, iterations, kept = [], [], [], []
counts = {}


def total(tensor):
    return zlib.crc32(numpy.asarray(tensor).tobytes())


def one(pool):
    return dice.choice(pool) if pool else None


def add(pool, value, most):
    if len(pool) >= most:
        pool.pop(dice.randrange(len(pool)))
    pool.append(value)


def a_path():
    return dice.choice([dice.choice(SETS), dice.choice(SETS), [dice.choice(SETS)] * dice.randrange(4), SETS])


def open_set():
    add(sets, ffload.Dataset(a_path(), as_=dice.choice(["numpy", "dlpack"]), fields=dice.random() < 0.5, verify=dice.choice(["first", "always", "off"])), 4)


def open_loader():
    words = {"augment": dice.choice([None, "flip", "crop=2,flip", "mixup", "cutmix", "rrc=6", "erase=0.5", "nothing"]), "workers": dice.choice([None, 0, 1, 3]),
             "dtype": dice.choice(["f32", "f16", "bf16", "u8"]), "last_batch": dice.choice(["drop", "keep", "pad"]), "epochs": dice.choice([0, 1, 3]),
             "order": dice.choice(["random", "block", "sequential"]), "return_indices": dice.random() < 0.5, "return_keys": dice.random() < 0.3, "layout": dice.choice([None, "contiguous"]),
             "as_": dice.choice(["numpy", "dlpack"]), "label": dice.choice([None, None, "label", "soft,label", "no"]), "prefetch": dice.choice([None, 1, 5]),
             "indices": dice.choice([None, None, None, range(9), [0, 0, 7, -1], slice(3, None, 4), [999]]), "where": dice.choice([None, None, None, "label < 3", "no"]),
             "fold": dice.choice([None, None, None, "2/5", "not 2/5 stratified", "2"]), "weights": dice.choice([None, None, None, "balanced", [1, 2], "no"]),
             "repeats": dice.choice([1, 1, 3]), "per_class": dice.choice([None, None, None, 1, 4]), "samples_per_epoch": dice.choice([None, None, 5, 300]),
             "views": dice.choice([None] * 8 + [1, 3, {"a": (2, "rrc=5,flip"), "b": (1, None)}, 99]),
             "shares": dice.choice([None] * 8 + ["1,2", [1, 0], "1,2,3;1:0,1,1", "x"]), "shares_of": dice.choice([None] * 8 + ["batch"]), "return_sources": dice.random() < 0.1}
    if isinstance(words["views"], dict) and dice.random() < 0.8:
        words["augment"] = None
    add(loaders, ffload.Loader(one(sets) or a_path(), dice.choice([1, 3, 8, 64]), **words), 4)


def keep(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        for part in value:
            keep(part)
    elif value is not None and not isinstance(value, (int, str)) and not (isinstance(value, ffload.Tensor) and value.dtype == "bf16"):
        add(kept, (value, total(value)), 40)


def iterate():
    loader = one(loaders)
    if loader:
        add(iterations, iter(loader), 4)


def step():
    iteration = one(iterations)
    for _ in range(dice.randrange(1, 12)):
        batch = next(iteration, None) if iteration else None
        if dice.random() < 0.3:
            keep(batch)


def sample():
    dataset = one(sets)
    if dataset:
        keep(dataset[dice.randrange(-5, len(dataset) + 2)])


def view():
    dataset = one(sets)
    if dataset:
        keep(dataset.view(dice.randrange(len(dataset))))


def give():
    if kept:
        tensor = one(kept)[0]
        if isinstance(tensor, ffload.Tensor):
            add(kept, (numpy.from_dlpack(tensor) if dice.random() < 0.5 and not tensor.read_only else numpy.asarray(tensor), total(tensor)), 40)
            tensor.__dlpack__(max_version=dice.choice([None, (0, 5), (1, 0), (1, 9)]), copy=dice.choice([None, True]))


def close():
    pool = dice.choice([sets, loaders])
    if pool:
        one(pool).close()


def drop():
    pool = dice.choice([sets, loaders, iterations, kept])
    if pool:
        pool.pop(dice.randrange(len(pool)))


def move():
    loader = one(loaders)
    if loader:
        dice.choice([lambda: loader.set_epoch(dice.randrange(3)), lambda: loader.load_state_dict(one(loaders).state_dict()), loader.stats, loader.describe,
                     lambda: len(loader), lambda: loader.batch])()


def copy():
    dataset = one(sets)
    if dataset:
        add(sets, pickle.loads(pickle.dumps(dataset)), 4)


def look():
    for value, wanted in kept:
        assert total(value) == wanted, "a kept batch has changed"


def fork():
    if SANITIZED:
        # Its allocator's locks are not those of a child when another thread has them.
        iterations.clear()
        loaders[:] = [loader for loader in loaders if loader.describe()["threads"] == 0]
        gc.collect()
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)  # a child that waits for a lock of its parent's threads ends badly
        try:
            look()
            for _ in range(20):
                attempt(dice.choice([open_set, open_loader, step, sample, view, give, close, drop, move, copy, iterate]))
        except BaseException as error:  # noqa: BLE001
            print("in a child:", type(error).__name__, error, flush=True)
            os._exit(1)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0, "a child ended badly"


def threads():
    """Several do at once to the same objects what one thread does."""
    failures = []

    def work(calls):
        for call in calls:
            try:
                call()
            except ALLOWED:
                pass
            except ValueError as error:
                # Python's own word for an iteration that another thread is in.
                if "generator already executing" not in str(error):
                    failures.append(error)
            except BaseException as error:  # noqa: BLE001
                failures.append(error)

    loader, dataset, iteration = one(loaders), one(sets), one(iterations)
    calls = []
    if loader:
        calls += [loader.stats, lambda: len(loader), loader.state_dict, loader.close, lambda: next(iter(loader), None)]
    if dataset:
        calls += [lambda: dataset[0], lambda: dataset.view(1), dataset.close, dataset.verify]
    if iteration:
        calls += [lambda: next(iteration, None)]
    if calls:
        workers = [threading.Thread(target=work, args=(dice.choices(calls, k=8),)) for _ in range(3)]
        [worker.start() for worker in workers]
        [worker.join() for worker in workers]
    assert not failures, failures


def attempt(call):
    try:
        call()
        counts[call.__name__] = counts.get(call.__name__, 0) + 1
    except ALLOWED:
        counts["refused"] = counts.get("refused", 0) + 1


CALLS = [open_set, open_set, open_loader, open_loader, iterate, iterate, iterate, iterate] + [step] * 12 + [sample] * 4 + [view] * 2 + [give] * 4 + [close, drop, drop] + \
    [move] * 3 + [copy, look]
end, number = time.monotonic() + SECONDS, 0
while time.monotonic() < end:
    number += 1
    attempt(fork if number % 150 == 0 else threads if number % 60 == 0 else dice.choice(CALLS))
look()
sets.clear(), loaders.clear(), iterations.clear(), kept.clear()
gc.collect()
print("%d calls: %s" % (number, ", ".join("%s %d" % pair for pair in sorted(counts.items()))))
