#!/usr/bin/env python3
"""ffload.Loader on a simulated GPU, whose streams sometimes wait: batches in a consumer's tensors and in its captured graphs are
those of the CPU. torch's part is played by a stand-in, whose device memory is NumPy's. TAP."""
import ctypes
import os
import sys
import types

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from package import finish, make_set, raises  # noqa: E402
import tap  # noqa: E402

LIBRARY = os.path.join(tap.BUILD, "sim", "libffload.so.0")
if not os.path.exists(LIBRARY):
    tap.skip("loaders on a simulated GPU", "no simulated library was built")
    finish()
os.environ.setdefault("FF_SIM_DELAY_NS", "200000")
# The extension takes the library that is loaded already by that name.
sim = ctypes.CDLL(LIBRARY, mode=ctypes.RTLD_GLOBAL)
import numpy  # noqa: E402
import ffload  # noqa: E402

sim.ffload_sim_create.restype = sim.ffload_sim_stream.restype = ctypes.c_void_p
card = ctypes.c_void_p(sim.ffload_sim_create(1))
stream = sim.ffload_sim_stream(card)
made, capturing = [], False


class Tensor(numpy.ndarray):
    def data_ptr(self):
        return self.ctypes.data


def empty_strided(shape, strides, dtype, device):
    """Filled with what no batch has."""
    assert str(device) == "cuda:1"
    kind = numpy.dtype({"bfloat16": "uint16"}.get(dtype, dtype))
    memory = numpy.full(max(1, int(numpy.prod(shape))) * kind.itemsize, 0xa5, numpy.uint8)
    made.append(memory)
    return numpy.lib.stride_tricks.as_strided(memory.view(kind), shape, [stride * kind.itemsize for stride in strides]).view(Tensor)


class Device:
    def __init__(self, text):
        self.text, self.index = text, int(text.split(":")[1])

    def __str__(self):
        return self.text


def play_torch():
    torch = types.ModuleType("torch")
    torch.empty_strided, torch.device = empty_strided, Device
    for name in ("float32", "float16", "bfloat16", "uint8", "uint16", "int32", "int64"):
        setattr(torch, name, name)
    torch.cuda = types.SimpleNamespace(current_stream=lambda device: types.SimpleNamespace(cuda_stream=stream),
                                       is_current_stream_capturing=lambda: capturing)
    dlpack = types.ModuleType("torch.utils.dlpack")
    dlpack.from_dlpack = None
    sys.modules.update({"torch": torch, "torch.utils": types.ModuleType("torch.utils"), "torch.utils.dlpack": dlpack})


play_torch()
SET = make_set("set", "--count", 150, "--height", 8, "--width", 8, "--fields", "label,soft")
SIZES = make_set("sizes", "--count", 60, "--height", 12, "--width", 10, "--dtype", "u8", "--variable")
U8 = make_set("u8", "--count", 60, "--height", 8, "--width", 8, "--dtype", "u8")


def flat(batch):
    """The parts of a batch one after another."""
    if isinstance(batch, dict):
        batch = list(batch.values())
    if not isinstance(batch, (tuple, list)):
        return [numpy.array(batch)]
    return [part for one in batch for part in flat(one)]


def same(found, wanted):
    return len(found) == len(wanted) > 0 and all(
        len(one) == len(other) and all(a.shape == b.shape and a.tobytes() == b.tobytes() for a, b in zip(one, other)) for one, other in zip(found, wanted))


def done():
    assert sim.ffload_sim_synchronize(card) == 0


def on_gpu(path, batch, **words):
    return ffload.Loader(path, batch, device="cuda:1", as_="torch", **{"drop_last": "last_batch" not in words or None, **words})


def on_cpu(path, batch, **words):
    return [flat(one) for one in ffload.Loader(path, batch, as_="numpy", **{"drop_last": "last_batch" not in words or None, **words})]


# ---- batches in the consumer's memory ----
CASES = [dict(augment="crop=2,flip"), dict(augment="crop=2,flip", layout="contiguous"), dict(augment="mixup=0.4", return_indices=True), dict(last_batch="keep", return_indices=True),
         dict(last_batch="pad", label="soft,label"), dict(dtype="f16", augment="rrc=6,flip"), dict(rank=1, world=2, augment="cutmix", label="soft,label"),
         dict(indices=[7 * i % 150 for i in range(70)] + [3, 3, 3], augment="crop=2,flip", last_batch="keep", return_indices=True),
         dict(weights="balanced", samples_per_epoch=70, augment="crop=2,flip", return_indices=True), dict(repeats=3, augment="crop=2,flip", return_indices=True),
         dict(weights=[i % 3 for i in range(150)], repeats=2, augment="rrc=6,flip", last_batch="keep", return_indices=True),
         dict(views=3, augment="crop=2,flip", return_indices=True), dict(views=2, augment="rrc=6,flip,jitter=0.4:0.4:0.2:0.1", dtype="f16", layout="contiguous", last_batch="pad"),
         dict(views={"first": (2, "crop=2,flip"), "second": (3, "rrc=5:0.1-0.5,flip,jitter=0.3,erase=0.5")}, label="soft,label", last_batch="keep", return_indices=True),
         dict(views={"a": (1, "rrc=5"), "b": (1, "none"), "c": (1, "crop=2,flip=alternate", (6, 7))}, indices=[7 * i % 150 for i in range(70)], rank=1, world=2),
         dict(views=2, weights="balanced", samples_per_epoch=70, augment="jitter=0.4,flip"),
         dict(per_class=16, augment="crop=2,flip", return_indices=True), dict(where="label in (1, 3)", fold="not 2/5", order="block", block=4, group=2, return_indices=True)]
for placement in ("resident", "stream", "host"):
    for words in CASES:
        loader = on_gpu(SET, 16, placement=placement, epochs=2, **{"drop_last": "last_batch" not in words or None, **words})
        kept = list(loader)  # all enqueued before one is looked at
        done()
        wanted = on_cpu(SET, 16, epochs=2, **words)
        tap.ok(same([flat(batch) for batch in kept], wanted), "%s %s: as on the CPU" % (placement, words), (len(kept), len(wanted)))
OTHER = make_set("other", "--count", 41, "--height", 8, "--width", 8, "--fields", "label,soft", "--seed", 9, "--shuffle", 2)
for placement in ("resident", "stream", "host"):
    for words in (dict(), dict(order="block", block=4, group=2), dict(shares=(1, 2), augment="crop=2,flip"), dict(shares="1,2;1:2,0", shares_of="batch", augment="mixup=0.4"),
                  dict(shares=(1, 1), indices=range(100, 180), repeats=2, augment="rrc=6,flip"), dict(shares=(1, 5), rank=1, world=2, samples_per_epoch=333)):
        words = dict(words, return_sources=True, return_indices=True, last_batch="pad", epochs=2)
        kept = list(on_gpu([SET, OTHER], 16, placement=placement, **words))
        done()
        wanted = on_cpu([SET, OTHER], 16, **words)
        tap.ok(same([flat(batch) for batch in kept], wanted) and {-1, 0, 1} >= set(wanted[-1][-2]), "%s, two sets, %s: as on the CPU" % (placement, words))
loader = on_gpu(U8, 16)
tap.ok(loader.describe()["placement"] == "resident" and "cuda:1" in repr(loader), "auto is resident where the set fits", loader.describe())
tap.ok(type(next(iter(loader))[0]) is Tensor and next(iter(loader))[0].strides == (768, 4, 96, 12), "in the consumer's tensors, channels_last by default")
done()

# ---- epochs and states ----
loader, plain = on_gpu(SET, 16), ffload.Loader(SET, 16, as_="numpy", drop_last=True)
two = [list(loader), list(loader)]
done()
want = [[flat(batch) for batch in plain], [flat(batch) for batch in plain]]
tap.ok(all(same([flat(batch) for batch in one], other) for one, other in zip(two, want)), "each `for` is the next epoch")
loader.set_epoch(0)
steps = iter(loader)
next(steps), next(steps)
state = loader.state_dict()
going = on_gpu(SET, 16, placement="stream")
going.load_state_dict(state)
rest = list(going)
done()
tap.ok(same([flat(batch) for batch in rest], want[0][2:]) and state["position"] == 32, "resumed in an epoch, in another placement")
tap.ok(loader.stats()["batches"] >= 20, "stats", loader.stats())
for placement in ("resident", "stream", "host"):
    words = dict(cuts=4, augment="mixup=0.4", last_batch="keep")
    wanted, loader = on_cpu(SET, 24, **words), on_gpu(SET, 24, placement=placement, **words)
    places = [loader.state_dict()]
    for _ in loader:
        places.append(loader.state_dict())
    found = []
    for number, place in enumerate(places[:len(wanted)]):
        going = on_gpu(SET, 24, placement=placement, **words)
        going.load_state_dict(place)
        kept = list(going)
        done()
        found.append(same([flat(batch) for batch in kept], wanted[number:]))
    tap.ok(all(found) and len(found) == 25 and places[5]["cut"] == 1, "%s: resumed after each part of the batches" % placement, found)

loader = on_gpu(SET, 16, indices=range(20), placement="resident", last_batch="keep")
list(loader)
loader.indices = range(100, 150)
later = ffload.Loader(SET, 16, as_="numpy", indices=range(100, 150))
later.set_epoch(1)
found, wanted = list(loader), [flat(batch) for batch in later]
done()
tap.ok(same([flat(batch) for batch in found], wanted), "other samples in the second epoch")

# Values of u8 that are changed, and samples of several sizes.
for path, words in ((U8, dict(views=4, augment="crop=2,flip,grayscale=0.3,solarize=128:0.3,jitter=0.3")), (U8, dict(dtype="u8", augment="crop=2,flip,trivialaugment,equalize=0.5")),
                    (SIZES, dict(dtype="u8", views={"a": (2, "rrc=6,flip,augmix"), "b": (1, "rrc=7,invert=0.5")}, last_batch="pad")), (SIZES, dict(views={"a": (2, "rrc=6,flip"), "b": (2, "rrc=4:0.1-0.3,grayscale=0.5")}))):
    for placement in ("resident", "stream", "host"):
        found, wanted = list(on_gpu(path, 16, placement=placement, **words)), on_cpu(path, 16, **words)
        done()
        tap.ok(same([flat(batch) for batch in found], wanted), "%s %s: as on the CPU" % (placement, words))

# ---- a captured graph ----
VIEWS = dict(views={"a": (2, "crop=2,flip"), "b": (1, "rrc=5,jitter=0.3")})
for placement, words in [(placement, words) for placement in ("resident", "stream", "host") for words in (VIEWS, dict(augment="crop=2,flip"))]:
    loader = on_gpu(SET, 16, placement=placement, **words)
    static = loader.static()
    assert sim.ffload_sim_begin(card) == 0
    capturing = True
    static.enqueue()
    capturing = False
    assert sim.ffload_sim_end(card) == 0
    want = on_cpu(SET, 16, epochs=2, **words)
    found, infos = [], []
    for _ in range(2):
        for info in static:
            assert sim.ffload_sim_launch(card) == 0
            done()
            found.append(flat(static.batch))
            infos.append(info)
    tap.ok(same(found, want), "%s: replays of a captured graph write the batches of two epochs" % placement)
    tap.ok([info.epoch for info in infos] == [0] * 9 + [1] * 9 and infos[8].last and infos[3].number == 3 and loader.epoch == 2, "%s: which each is" % placement)
    loader.set_epoch(1)
    found = []
    for info in static:
        assert sim.ffload_sim_launch(card) == 0
        done()
        found.append(flat(static.batch))
        if len(found) == 4:
            break
    tap.ok(same(found, want[9:13]) and loader.state_dict()["position"] == 64, "%s: after set_epoch; a break loses no batch" % placement, loader.state_dict())
loader = on_gpu(SET, 16, augment="crop=2,flip")
static, found = loader.static(), []
for _ in range(9):
    static.enqueue()
    done()
    found.append(flat(static.batch))
tap.ok(same(found, want[:9]) and loader.epoch == 1, "enqueue without a capture writes one after another")

# ---- a pool, for libraries other than torch ----
second = ctypes.c_void_p(sim.ffload_sim_create(1))
other = sim.ffload_sim_stream(second)
import ffload.memory  # noqa: E402
ffload.memory.current_stream = lambda kind: stream


def values(tensor):
    """What NumPy sees of the memory, as if it were the host's."""
    assert tensor.device == "cuda:1" and tensor.__dlpack_device__() == (2, 1)
    about = dict(tensor.__cuda_array_interface__)
    assert about.pop("stream") == stream
    return numpy.array(numpy.asarray(types.SimpleNamespace(__array_interface__=about)))


for placement in ("resident", "stream", "host"):
    for words in (dict(augment="crop=2,flip"), dict(last_batch="keep", return_indices=True), dict(augment="mixup", label="soft,label", dtype="f16")):
        loader = ffload.Loader(SET, 16, device="cuda:1", as_="dlpack", placement=placement, epochs=2, **{"drop_last": "last_batch" not in words or None, **words})
        kept = list(loader)
        done()

        def parts(batch):
            batch = list(batch.values()) if isinstance(batch, dict) else batch
            return [values(batch)] if isinstance(batch, ffload.Tensor) else [part for one in batch for part in parts(one)]
        tap.ok(same([parts(batch) for batch in kept], on_cpu(SET, 16, epochs=2, **words)), "%s %s: in a pool, all kept" % (placement, words))
del kept
loader = ffload.Loader(SET, 16, device="cuda:1", as_="dlpack", epochs=0, drop_last=True)
steps = iter(loader)
for _ in range(10):
    next(steps)
blocks = loader.stats()["blocks"]
for _ in range(200):
    images, labels = next(steps)
    images.__dlpack__(stream=other, max_version=(1, 0))
    labels.__dlpack__(stream=-1)
tap.ok(loader.stats()["blocks"] == blocks < 8, "a loop that keeps none allocates nothing after the start", (blocks, loader.stats()))
assert sim.ffload_sim_begin(second) == 0
images, labels = next(steps)
tap.ok(raises(ffload.UsageError, lambda: images.__dlpack__(stream=other), "capture"), "not to a stream in a capture")
assert sim.ffload_sim_end(second) == 0
tap.ok(raises(BufferError, lambda: images.__dlpack__(copy=True, stream=-1)) and raises(ffload.UsageError, images.tobytes, "host") and
       raises(AttributeError, lambda: images.__array_interface__), "its memory is not the host's")
tap.ok(raises(ffload.UsageError, lambda: next(iter(ffload.Loader(SET, 16, device="cuda:1", as_="numpy"))), "NumPy"), "not as NumPy's arrays")
tap.ok(raises(ffload.UsageError, ffload.Loader(SET, 16, device="cuda:1", as_="dlpack").static, "torch"), "fixed tensors are torch's")

# ---- what it refuses ----
tap.ok(raises(ffload.UsageError, lambda: ffload.Loader(SET, 16).static(), "on the CPU"), "static() on the CPU")
tap.ok(any(raises(kind, lambda: ffload.Loader(SET, 16, device="cuda:7")) for kind in (ffload.Error, ffload.UsageError)), "a card that there is not")
loader = on_gpu(SET, 16)
tap.ok(raises(ffload.UsageError, lambda: loader._own.enqueue_into(((b"images", 64, 0, 2, 32, (16, 3, 8, 8), (192, 1, 24, 3)),), stream), "cuda:1"), "memory of another card")
tap.ok(raises(ffload.UsageError, lambda: loader._own.enqueue_into(((b"pixels", 64, 1, 2, 32, (1,), (1,)),), stream), "pixels"), "a tensor that there is not")
tap.ok(raises(ffload.UsageError, lambda: loader._own.write((), stream)) and raises(ffload.UsageError, lambda: loader._own.end(stream)), "write and end without begin")
tap.ok(raises(ffload.UsageError, lambda: loader._own.next((b"images",))), "a batch in the host's memory")
loader.close()
tap.ok(raises(ffload.UsageError, lambda: next(iter(loader)), "closed"), "after close")
finish()
