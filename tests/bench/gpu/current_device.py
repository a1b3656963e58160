#!/usr/bin/env python3
"""Whether ffload's loaders leave PyTorch's current device as it was: it is asked before and after each call of a loader on every
device that is not the current one (on a machine with one GPU: on that one), with batches released in between.

Usage: current_device.py SET. Prints a line of JSON; exit code 0, 1 if a call changed it, 77 without PyTorch, a GPU or ffload."""
import gc
import json
import sys


def unable():
    try:
        import ffload  # noqa: F401
        import torch
    except ImportError as error:
        return str(error)
    return None if torch.cuda.is_available() else "PyTorch sees no GPU"


def calls(ffload, path, device):
    """The name of each call after it has returned."""
    loader = ffload.Loader(path, 32, device=device, augment="crop=4,flip")
    yield "Loader"
    for epoch in range(2):
        batches = iter(loader)
        yield "iter"
        for number in range(4):
            kept = next(batches)
            yield "next"
            if number % 2:
                del kept
                gc.collect()
                yield "a batch's release"
    loader.state_dict()
    yield "state_dict"
    loader.close()
    yield "close"
    kept = batches = None
    gc.collect()
    yield "the last batch's release"


def main():
    why = unable()
    if why:
        print(json.dumps({"skipped": why}))
        return 77
    import ffload
    import torch
    count, asked, changed = torch.cuda.device_count(), 0, []
    pairs = [(here, other) for here in range(count) for other in range(count) if here != other] or [(0, 0)]
    for here, other in pairs:
        torch.cuda.set_device(here)
        for call in calls(ffload, sys.argv[1], f"cuda:{other}"):
            asked += 1
            if torch.cuda.current_device() != here:
                changed.append(f"{call} on cuda:{other} left {torch.cuda.current_device()} current, it was {here}")
                torch.cuda.set_device(here)
    print(json.dumps({"calls": asked, "devices": count, "changed": changed[:8]}))
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
