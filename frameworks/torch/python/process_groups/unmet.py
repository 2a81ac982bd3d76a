# SPDX-License-Identifier: Apache-2.0
"""Says once that a group with a codec has compressed nothing, because nothing was handed to it as a gradient."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from hipress.errors import CodecWarning
from hipress.log import logger

#: So many tensors may come before the first gradient: of metrics, and of statistics.
_BEFORE_GRADIENTS = 16


@dataclass
class _Seen:
    codec: str
    others: int = 0
    said: bool = False

    def text(self) -> str:
        tensors = "1 tensor" if self.others == 1 else f"{self.others} tensors"
        return (
            f"a process group with backend 'hipress' and codec '{self.codec}' has compressed nothing: it has averaged "
            f"{tensors} exactly, and none was handed over as a gradient. For FSDP2 over a mesh of two dimensions call "
            "hipress.torch.fsdp.compress_hybrid(model), for DistributedDataParallel hipress.torch.ddp.compress(model, "
            "codec=…), for torchft take hipress.torch.integrations.torchft.DistributedDataParallel; in a program of "
            "your own start them within hipress.torch.process_groups.gradients(name)"
        )


class Unmet:
    """Counts the all-reduces of one group that could be gradients, until it meets the first gradient."""

    def __init__(self, group: object, codec: str) -> None:
        self._seen = _Seen(codec)
        weakref.finalize(group, _say_at_the_end, self._seen)

    def met(self) -> None:
        """The group has met a gradient."""
        self._seen.said = True

    def passed_on(self, tensors: Sequence[torch.Tensor]) -> None:
        """The group has passed on these tensors, exactly."""
        seen = self._seen
        # One element is a loss that is logged.
        if seen.said or not any(each.is_floating_point() and each.numel() > 1 for each in tensors):
            return
        seen.others += 1
        if seen.others >= _BEFORE_GRADIENTS:
            seen.said = True
            warnings.warn(seen.text(), CodecWarning, stacklevel=2)


def _say_at_the_end(seen: _Seen) -> None:
    if seen.others and not seen.said:
        logger().warning("%s", seen.text())
