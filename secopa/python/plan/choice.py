# SPDX-License-Identifier: Apache-2.0
"""The decision about one gradient."""

from __future__ import annotations

from typing import NamedTuple

#: The codec of a gradient that is not compressed.
RAW = "none"


class Choice(NamedTuple):
    """How the ranks synchronise a gradient. A plan has one choice per gradient; a cost model predicts a step from
    them."""

    codec: str = RAW
    """The codec's text, with its options; "none" for an uncompressed gradient."""
    topology: str = "ps"
    partitions: int = 1
    group: str | None = None
    """The gradients of a group are synchronised as one tensor with the same codec, topology and partitions; None: no
    group."""

    @property
    def compressed(self) -> bool:
        return self.codec != RAW
