from ._ffload import Tensor, version as __version__
from .errors import BadData, Error, UsageError
