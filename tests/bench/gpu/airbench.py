"""cifar10-airbench's airbench94_muon.py as a server of whole trainings, unchanged except for where it stops. --script names the
script's path (it is not part of this project); its tables are read instead of printed.

    airbench.py --script airbench94_muon.py --train train.npz --test test.npz

Each .npz holds images [N, 32, 32, 3] u8 and labels [N]. Once the model is compiled and warm it prints
{"ready": ..., "start_seconds": from this process's start}; then for each line of input it trains once
and prints {"accuracy": with test-time views, "seconds": by the script's own clock, device events}."""
import argparse
import importlib.util
import json
import os
import sys
import tempfile
import time

BEGAN = time.time()


def write_sets(folder, options):
    import numpy
    import torch
    os.makedirs(os.path.join(folder, "cifar10"))
    classes = "airplane automobile bird cat deer dog frog horse ship truck".split()
    for name, path in (("train", options.train), ("test", options.test)):
        arrays = numpy.load(path)
        torch.save({"images": torch.from_numpy(arrays["images"]), "labels": torch.from_numpy(arrays["labels"]).long(), "classes": classes},
                   os.path.join(folder, "cifar10", f"{name}.pt"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--script", required=True)
    parser.add_argument("--train", required=True)
    parser.add_argument("--test", required=True)
    options = parser.parse_args()
    answers, sys.stdout = sys.stdout, sys.stderr  # other output is not an answer
    script = os.path.abspath(options.script)
    with tempfile.TemporaryDirectory() as folder:
        write_sets(folder, options)
        os.chdir(folder)
        sys.argv[0] = script  # the script reads its own text
        spec = importlib.util.spec_from_file_location("airbench", script)
        script = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(script)
        last = {}
        script.print_training_details = lambda variables, is_final_entry: last.update(variables)
        script.print_columns = lambda *a, **k: None
        model = script.CifarNet().cuda().to(memory_format=script.torch.channels_last)
        model.compile(mode="max-autotune")
        script.main("warmup", model)
        print(json.dumps({"ready": f"torch {script.torch.__version__}", "start_seconds": round(time.time() - BEGAN, 2)}), file=answers, flush=True)
        for number, line in enumerate(sys.stdin):
            if not line.strip():
                break
            accuracy = script.main(number, model)
            print(json.dumps({"accuracy": accuracy, "seconds": last["time_seconds"]}), file=answers, flush=True)


if __name__ == "__main__":
    main()
