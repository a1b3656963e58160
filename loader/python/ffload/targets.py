"""Soft targets of a batch: a row of shares for each sample, so that no loss has to know of mixup and cutmix."""
from __future__ import annotations

import importlib
from typing import Any, Callable, Dict, Optional

from .errors import UsageError

ARRAYS = {"torch": "torch", "numpy": "numpy", "jax": "jax.numpy", "cupy": "cupy"}


def maker(kind: str, field: Dict[str, Any]) -> Callable[[Any, Optional[Any], Optional[Any]], Any]:
    """What makes of a field's labels, and of mixed rows of labels_b and share, the targets [N, classes] float32, where the labels
    are; of fields with values of their own, [N, width], the mixed values. A row without a label is zero."""
    if kind not in ARRAYS:
        raise UsageError("targets=\"soft\" with as_=%r: it is one of %s" % (kind, ", ".join(ARRAYS)))
    classes = len(field["classes"])
    if field["kind"] == "class" and not classes:
        raise UsageError("targets=\"soft\": the label field %r has no list of classes" % (field["name"],))
    arrays = importlib.import_module(ARRAYS[kind])

    def hot(labels: Any) -> Any:
        if field["kind"] != "class":
            return labels
        numbers = arrays.arange(classes, device=labels.device) if kind == "torch" else arrays.arange(classes)
        found = labels[:, None] == numbers[None, :]
        return found.float() if kind == "torch" else found.astype("float32")

    def make(labels: Any, labels_b: Optional[Any], share: Optional[Any]) -> Any:
        if share is None:
            return hot(labels)
        own = share[:, None]
        return own * hot(labels) + (1 - own) * hot(labels_b)
    return make
