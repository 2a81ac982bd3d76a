# SPDX-License-Identifier: Apache-2.0
"""Kinds of optimizers: what a codec's error does to a training depends on how the optimizer uses gradients."""

from __future__ import annotations

from hipress.errors import InvalidArgument

#: Kinds, and who belongs to them.
KINDS = {
    "sgd": "SGD without momentum",
    "momentum": "SGD with momentum",
    "adam": "Adam, AdamW and others that divide by second moments",
    "muon": "Muon",
    "lamb": "LAMB",
    "unknown": "every other optimizer",
}
UNKNOWN = "unknown"
#: Other names that programs give.
_SAME = {"adamw": "adam", "nesterov": "momentum", "lans": "lamb"}


def kind_named(text: str) -> str:
    """The kind that a text names. Raises InvalidArgument."""
    kind = _SAME.get(text.lower(), text.lower())
    if kind not in KINDS:
        raise InvalidArgument(
            f"optimizer={text!r} names no kind of optimizer: give the optimizer itself, or {', '.join(KINDS)}"
        )
    return kind
