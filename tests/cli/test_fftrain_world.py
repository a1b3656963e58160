"""fftrain --dry-run --world N: the prediction against a simulation of every message of every rank, from the times and
bytes that --json gives; networks by name and as fftrain measure-net measures them; what is said. Prints TAP."""
import json
import math
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402


def ring(n, begin, size, latency, rate):
    """begin[r]: when rank r begins; when each has the sum: n - 1 steps of reduce-scatter, as many of all-gather."""
    done = list(begin)
    for _ in range(2 * (n - 1)):
        sent = [t + size / n / rate for t in done]  # through its link
        done = [max(sent[r], sent[(r - 1) % n] + latency) for r in range(n)]
    return done


def direct(n, begin, size, latency, rate):
    """Each sends its slices to all others, one after another through its link, and then the sum of its own slice."""
    for _ in range(2):
        sent = [[0.0] * n for _ in range(n)]
        for r in range(n):
            now = begin[r]
            for k in range(1, n):
                now += size / n / rate
                sent[r][(r + k) % n] = now + latency
        begin = [max(sent[s][r] for s in range(n) if s != r) for r in range(n)]
    return begin


def tree(n, begin, size, latency, rate):
    """Two pipelined trees have all bytes go up and down once: the limit of many pieces."""
    return [max(begin) + 2 * math.ceil(math.log2(n)) * latency + 2 * size / rate] * n


def simulate(world, n):
    """When the update can begin, and then the step's end."""
    micro = world["before_seconds"] + world["backward_seconds"]
    backward = (world["micro_batches"] - 1) * micro + world["before_seconds"]
    free = [0.0] * n
    for bucket in world["buckets"]:
        begin = [max(t, backward + bucket["ready_seconds"]) for t in free]
        how = (direct,) if world["algorithm"] == "direct" else (ring, tree)
        free = min((f(n, begin, bucket["bytes"], world["latency_seconds"], world["bytes_per_second"]) for f in how),
                   key=max)
    return max(max(free), world["micro_batches"] * micro) + world["update_seconds"]


def measured_seconds(table, world, size):
    """Of two ranks: as many times the formula's as the measured times around it are, by the logarithm of the size."""
    def formula(bytes):
        return 2 * world["latency_seconds"] + bytes / world["bytes_per_second"]
    points = [(math.log(entry["bytes"]), entry["seconds"] / formula(entry["bytes"])) for entry in table]
    at = min(max(math.log(size), points[0][0]), points[-1][0])
    (x, low), (end, high) = next(pair for pair in zip(points, points[1:]) if at <= pair[1][0])
    return formula(size) * (low + (at - x) / (end - x) * (high - low))


def fftrain(*arguments, of="fftrain"):
    program = os.path.join(tap.BUILD, of)
    done = tap.run([program, "--data", DATA, *arguments])
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def world_of(*arguments, **how):
    code, out, complaint = fftrain("--dry-run", "--json", *arguments, **how)
    return json.loads(out)["world"] if code == 0 else {"error": complaint}


def check_simulated(name, arguments, n, **how):
    world = world_of("--world", str(n), *arguments, **how)
    if "error" in world:
        tap.ok(False, name, world["error"])
        return {}
    wanted = simulate(world, n)
    tap.ok(math.isclose(world["step_seconds"], wanted, rel_tol=1e-9) and world["ranks"] == n, name,
           f"{world['step_seconds']} predicted, {wanted} simulated")
    return world


def refuses(name, code, text, *arguments):
    got, _, complaint = fftrain("--model", "smallnet", "--batch", "64", *arguments)
    tap.ok(got == code and text in complaint, name, f"{got}: {complaint}")


scratch = tempfile.TemporaryDirectory()
DATA = os.path.join(scratch.name, "set")
tap.run([tap.program("make_set"), DATA, "--count", "256", "--height", "32", "--width", "32", "--channels", "3"])
small = ["--model", "smallnet", "--batch", "64"]

for n, net, more in (2, "1GbE", []), (3, "25GbE", []), (16, "1GbE", ["--accumulate", "2"]):
    world = check_simulated(f"{n} ranks on {net}, measured, are as simulated", small + ["--net", net] + more, n)
    tap.ok(world.get("source") == "measured" and world["algorithm"] == "direct" and world["before_seconds"] > 0 and
           world["backward_seconds"] > 0 and world["share"] == 64 // n + (64 % n > 0) and
           all(0 < b["ready_seconds"] <= world["backward_seconds"] for b in world["buckets"]),
           f"{n} ranks: the times of a rank's share are measured", world)

several = check_simulated("a net of several buckets", ["--model", "resnet18", "--batch", "4", "--net", "10GbE"], 2)
if several:
    parameters = json.loads(fftrain("--dry-run", "--json", "--model", "resnet18", "--batch", "4")[1])["parameters"]
    total = sum(b["bytes"] for b in several["buckets"])
    ready = [b["ready_seconds"] for b in several["buckets"]]
    tap.ok(len(ready) > 2 and ready == sorted(ready) and ready[0] < 0.7 * several["backward_seconds"] and
           4 * parameters <= total < 4.1 * parameters, "its buckets hold all gradients, and complete one by one", several)

# NCCL's collectives, on a GPU that is simulated or described.
check_simulated("4 simulated GPUs", ["--model", "smallnet", "--batch", "16", "--device", "cuda", "--net", "NVLink"], 4,
                of="tests/fftrain_sim")
card = ["--device-json", os.path.join(tap.ROOT, "tests/gpu/sm_90_h100.json"), "--model", "resnet18", "--batch", "64"]
if os.path.exists(os.path.join(tap.BUILD, "libff_cuda.so")):
    planned = {}
    for n, net in (8, "100GbE"), (64, "100GbE"), (8, "NVLink"):
        planned[n, net] = check_simulated(f"{n} described GPUs on {net}", card + ["--net", net], n)
    tap.ok(planned[8, "100GbE"].get("source") == "estimated" and
           planned[64, "100GbE"]["efficiency"] < planned[8, "100GbE"]["efficiency"] < planned[8, "NVLink"]["efficiency"],
           "more ranks and slower networks are less efficient", planned)
    tap.ok(len({w["one_device_seconds"] for w in planned.values()}) == 1,
           "one device takes as long whatever it is compared with", planned)
    first = planned[8, "100GbE"]
    ready = [b["ready_seconds"] for b in first["buckets"]]
    tap.ok(len(ready) > 2 and ready == sorted(ready) and ready[0] < 0.7 * first["backward_seconds"],
           "a described GPU completes its buckets one by one", first)
    code, out, complaint = fftrain("--dry-run", "--world", "64", "--net", "1GbE", *card)
    tap.ok(code == 0 and "and one device alone is faster" in out and
           "What would help: a faster network, or fewer ranks" in out, "where one device is faster, that is said",
           out[-900:] + complaint)
    _, out, complaint = fftrain("--dry-run", "--world", "64", "--net", "100GbE", *card[:-1], "256")
    tap.ok("steps wait" in out and "What would help: --batch 4096, with --accumulate 16" in out and
           "gradients sent in 16 bits, --reduce-dtype bf16 (" in out, "what would help is said, in numbers", out[-900:] + complaint)
    half = check_simulated("8 described GPUs with gradients in 16 bits", card + ["--net", "100GbE", "--reduce-dtype", "f16"], 8)
    tap.ok([b["bytes"] * 2 for b in half["buckets"][:-1]] == [b["bytes"] for b in first["buckets"][:-1]] and
           half["reduce_seconds"] < 0.7 * first["reduce_seconds"], "which are half the bytes", half)
else:
    tap.skip("described GPUs", "no CUDA module: built without a CUDA toolkit, or with a sanitizer")

# A measured network: its own times at its own number of ranks.
measured = os.path.join(scratch.name, "net.json")
sizes = [{"bytes": 1024 << 2 * k, "seconds": 1e-3 + 1e-9 * (1024 << 2 * k) ** 1.1} for k in range(8)]
with open(measured, "w") as file:
    json.dump({"communicator": "processes", "ranks": 4, "all_reduce": sizes}, file)
world = world_of("--world", "4", "--net", measured, *small)
wanted = sum(1e-3 + 1e-9 * bucket["bytes"] ** 1.1 for bucket in world["buckets"])
tap.ok(world["net"] == measured and len(world["buckets"]) == 3 and  # weights, per-channel gradients, outcomes
       abs(world["reduce_seconds"] / wanted - 1) < 0.1,
       "a measured network has its measured times", f"{wanted}: {world}")

code, out, _ = fftrain("--dry-run", "--world", "2", "--net", "NVLink", *small)
tap.ok(code == 0 and "world          2 ranks on NVLink" in out and "not the bottleneck" in out,
       "a fast network is not a bottleneck", out[-600:])
tap.ok("world" not in json.loads(fftrain("--dry-run", "--json", *small)[1]), "without --world nothing is new in --json")
refuses("--world needs --dry-run", 2, "--world only predicts; it needs --dry-run and --net", "--world", "2", "--net", "1GbE")
refuses("--world needs --net", 2, "it needs --dry-run and --net", "--dry-run", "--world", "2")
refuses("--net needs --world", 2, "--net is the network of --world N, which is missing", "--dry-run", "--net", "1GbE")
refuses("more ranks than samples", 2, "--world 65: there are only 64 samples in a batch", "--dry-run", "--world", "65",
        "--net", "1GbE")
refuses("an unknown network", 74, "--net 3GbE: is not one of 1GbE, 10GbE, 25GbE, 100GbE, NVLink", "--dry-run", "--world", "2",
        "--net", "3GbE")


# ---- fftrain measure-net ----

def measure(name, communicator, ranks, *arguments, of="fftrain"):
    path = os.path.join(scratch.name, name + ".json")
    done = tap.run([os.path.join(tap.BUILD, of), "measure-net", "-o", path, *arguments])
    good = done.returncode == 0
    found = json.load(open(path)) if good else {}
    sizes = [entry["bytes"] for entry in found.get("all_reduce", [])]
    # The call alone takes microseconds; no memory adds 16 MiB in 0.2 ms.
    tap.ok(good and found["communicator"] in communicator and found["ranks"] == ranks and len(sizes) > 8 and
           sizes == sorted(sizes) and all(0 < entry["seconds"] < 60 for entry in found["all_reduce"]) and
           found["all_reduce"][-1]["seconds"] > 2e-4 and
           done.stdout.decode().count(" us ") == len(sizes) and f"among {ranks} ranks" in done.stdout.decode(),
           f"measure-net: {name}", f"{done.returncode}: {done.stderr.decode()} {found}")
    return path


path = measure("processes", ("processes",), 2, "--ranks", "2", "--device", "cpu")
measure("replicas", ("processes",), 3, "--dp", "cpu,cpu,cpu")
measure("simulated GPUs", ("nccl",), 2, "--dp", "0,1", of="tests/fftrain_sim")
measure("simulated GPUs, a process each", ("nccl",), 2, "--ranks", "2", of="tests/fftrain_sim")
world = world_of("--world", "2", "--net", path, *small)
wanted = sum(measured_seconds(json.load(open(path))["all_reduce"], world, bucket["bytes"]) for bucket in world["buckets"])
tap.ok(math.isclose(world["reduce_seconds"], wanted, rel_tol=1e-9), "its file is a network of --world", f"{wanted}: {world}")
for name, code, text, arguments in (
        ("no ranks", 2, "nothing to measure between: name --ranks N or --dp LIST of two at least", []),
        ("one replica", 2, "nothing to measure between", ["--dp", "cpu"]),
        ("replicas and ranks", 2, "--dp excludes --ranks and --device", ["--dp", "cpu,cpu", "--ranks", "2"]),
        ("a file that cannot be written", 74, "/nowhere/net.json: cannot be written",
         ["--dp", "cpu,cpu", "-o", "/nowhere/net.json"])):
    done = tap.run([os.path.join(tap.BUILD, "fftrain"), "measure-net", *arguments])
    tap.ok(done.returncode == code and text in done.stderr.decode(), f"measure-net: {name}", done.stderr.decode())
tap.finish()
