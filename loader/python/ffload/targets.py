"""Soft targets of a batch: a row of shares for each sample, so that losses need not handle mixup and cutmix."""
from __future__ import annotations

import importlib
from typing import Any, Callable, Dict, Optional

from .errors import UsageError

ARRAYS = {"torch": "torch", "numpy": "numpy", "jax": "jax.numpy", "cupy": "cupy"}


def maker(kind: str, field: Dict[str, Any]) -> Callable[[Any, Optional[Any], Optional[Any]], Any]:
    """A function that turns a field's labels, and for mixed rows labels_b and share, into targets [N, classes] float32 on the
    labels' device; for fields that are not classes, into the mixed values [N, width]. A row without a label is zero."""
    if kind not in ARRAYS:
        raise UsageError("targets=\"soft\" with as_=%r: wanted one of %s" % (kind, ", ".join(ARRAYS)))
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
