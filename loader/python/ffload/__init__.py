"""ffload: packed image datasets in your own training loop.

    import torch, ffload

    loader = ffload.Loader("packed/train", batch_size=256, augment="crop=4,flip", device="cuda")
    for epoch in range(10):
        for images, labels in loader:     # [256, 3, 32, 32] float32, [256] int64
            ...

Datasets are packed once, by the program ffpack, by ffload.pack or by ffload.Writer. How a sample is augmented
depends only on (seed, epoch, sample), and its place only on (seed, epoch, position): batches have the same bits with any
number of threads and ranks, after a resume, on the CPU and the GPU, and in the trainer fftrain.
"""
from typing import TYPE_CHECKING, Any, List

from ._ffload import Tensor, version as __version__
from .batches import BatchInfo
from .dataset import Dataset
from .errors import BadData, Error, UsageError
from .loader import Loader

if TYPE_CHECKING:
    from .options import PackOptions
    from .packing import pack
    from .writer import Writer

__all__ = ["BadData", "BatchInfo", "Dataset", "Error", "Loader", "PackOptions", "Tensor", "UsageError", "Writer", "__version__",
           "pack"]


def __dir__() -> List[str]:
    """The public names."""
    return __all__


def __getattr__(name: str) -> Any:
    """Packing is imported when it is first used: training does not need it."""
    if name == "pack":
        from .packing import pack
        return pack
    if name == "PackOptions":
        from .options import PackOptions
        return PackOptions
    if name == "Writer":
        from .writer import Writer
        return Writer
    raise AttributeError("module 'ffload' has no attribute %r" % name)
