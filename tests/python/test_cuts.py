#!/usr/bin/env python3
"""Batches in equal parts (cuts): a state that was saved after any of the parts, also between those of a batch, continues with the next
part. The oracle: the list of all parts that a loader without a stop yields, and the whole batches. TAP."""
import json
import os
import pickle
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from package import finish, make_set, raises  # noqa: E402
import tap  # noqa: E402
import numpy  # noqa: E402
import ffload  # noqa: E402

SET = make_set("set", "--count", 100, "--height", 8, "--width", 8)
CASES = (dict(batch_size=20, cuts=4, last_batch="drop"), dict(batch_size=32, cuts=4, last_batch="keep"), dict(batch_size=16, cuts=8, last_batch="pad"),
         dict(batch_size=52, cuts=2, last_batch="keep", world=2), dict(batch_size=24, cuts=2, last_batch="pad", world=3),
         dict(batch_size=24, cuts=3, last_batch="drop", augment="mixup", world=2), dict(batch_size=12, cuts=2, views=2, augment="crop=2,flip", last_batch="drop"),
         dict(batch_size=20, cuts=5, order="block", block=8, group=2, last_batch="drop"), dict(batch_size=9, cuts=3, weights="balanced", samples_per_epoch=81))


def flat(batch):
    if isinstance(batch, (tuple, list)):
        return b"".join(map(flat, batch))
    return numpy.ascontiguousarray(batch).tobytes()


def load(rank, **words):
    words = {"augment": "crop=2,flip", "world": 1, **words}
    return ffload.Loader(SET, as_="numpy", workers=1, rank=rank, return_indices=True, epochs=2, **words)


for words in CASES:
    wrong = []
    for rank in range(words.get("world", 1)):
        loader = load(rank, **words)
        parts, states = [], [loader.state_dict()]
        for batch in loader:
            parts.append(flat(batch))
            states.append(json.loads(json.dumps(loader.state_dict())))
        per_epoch = len(parts) // 2
        for taken, state in enumerate(states[:per_epoch]):
            other = load(rank, **words)
            other.load_state_dict(state)
            first, pickled = flat(other.peek()), pickle.loads(pickle.dumps(other))
            found = [flat(batch) for batch in other]
            if first != parts[taken] or found[:per_epoch - taken] != parts[taken:per_epoch] or [flat(batch) for batch in pickled] != found:
                wrong.append((rank, taken))
        if per_epoch != len(loader):
            wrong.append("parts")
    tap.ok(not wrong, "%s: continued after each part" % words, wrong)

# ---- what else a state between the parts can do ----
words = dict(batch_size=20, cuts=4, last_batch="drop", augment="flip")
loader = load(0, **words)
steps = iter(loader)
for _ in range(6):
    next(steps)
state = loader.state_dict()
tap.ok(state["position"] == 20 and state["cut"] == 2 and set(loader.state_dict()) - set(load(0, **words).state_dict()) == {"cut", "cuts"}, "a state within a batch says so, no other one does", state)
for other, wanted in ((dict(words, cuts=2), "cuts=2 and world=1"), (dict(words, cuts=1), "cuts=1 and world=1"), (dict(words, world=2, cuts=2), "cuts=2 and world=2"),
                      (dict(words, cuts=5, augment="flip,mixup", batch_size=20), "cuts=5 and world=1, mixed in pairs")):
    one = load(0, **other)
    tap.ok(raises(ffload.UsageError, lambda: one.load_state_dict(state), "the state was saved after cut 2 of a batch with cuts=4 and world=1, but this loader has " + wanted + "; wanted the same, or a state saved after a whole batch"), "refused by a loader with %s" % other)
    tap.ok(one.state_dict()["position"] == 0, "which stays where it is")
loader.set_epoch(0)
tap.ok(flat(next(iter(loader))) == flat(next(iter(load(0, **words)))) and "cut" in loader.state_dict(), "set_epoch begins with the first part")
one = load(0, **words)
one.load_state_dict({**state, "cut": 0})
tap.ok(one.state_dict()["position"] == 20 and "cut" not in one.state_dict(), "cut 0 is a whole batch")
for cut in (4, -1, "one", 2 ** 40):
    tap.ok(raises(ffload.UsageError, lambda: one.load_state_dict({**state, "cut": cut}), "cut"), "refused: cut %r" % (cut,))

# ---- a last, incomplete batch that another loader drops ----
loader = load(0, batch_size=28, cuts=4, last_batch="keep")
states = [loader.state_dict() for _ in loader]
states = [state for state in states[:len(loader)] if state["position"] == 84]
dropping = load(0, batch_size=28, cuts=4, last_batch="drop")
tap.ok([state.get("cut", 0) for state in states] == [0, 1, 2] and
       all(raises(ffload.UsageError, lambda: dropping.load_state_dict(state), "the batch at position 84 has no cut %d" % state["cut"])
           for state in states[1:]), "a state between its parts is refused by a loader that drops the batch", states)

# ---- a world that is found when the iteration begins ----
one = ffload.Loader(SET, as_="numpy", batch_size=20, cuts=2, drop_last=True, epochs=2)
steps = iter(one)
next(steps)
state = one.state_dict()
again = ffload.Loader(SET, as_="numpy", batch_size=20, cuts=2, drop_last=True)
again.load_state_dict(state)
os.environ.update({"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"})
for _ in range(2):
    tap.ok(raises(ffload.UsageError, lambda: next(iter(again)), "after cut 1 of a batch with cuts=2 and world=1, but this loader has cuts=2 and world=2"), "a state within a batch of another world is refused")
tap.ok(again.state_dict() == state, "and kept", again.state_dict())
finish()
