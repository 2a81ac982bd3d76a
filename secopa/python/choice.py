# SPDX-License-Identifier: Apache-2.0
"""What can be decided about one gradient."""

from __future__ import annotations

from typing import NamedTuple

#: The codec of what is not compressed.
RAW = "none"


class Choice(NamedTuple):
    """How a gradient travels. A plan is one per gradient; a cost model says what a step of them takes."""

    codec: str = RAW
    """Its text, with options if it has any; "none": not compressed."""
    topology: str = "ps"
    partitions: int = 1
    group: str | None = None
    """Gradients of one group travel as one tensor, with the same codec, topology and partitions; None: alone."""

    @property
    def compressed(self) -> bool:
        return self.codec != RAW
