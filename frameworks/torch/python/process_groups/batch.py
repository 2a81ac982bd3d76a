# SPDX-License-Identifier: Apache-2.0
"""The tensors of one average, with their memory and states."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from hipress.torch.installed.private_names import copy_all
from hipress.torch.process_groups.group_calls import Work
from hipress.torch.process_groups.layout import Layout
from hipress.torch.process_groups.linked import LinkedBatch
from hipress.torch.process_groups.side import Contribution
from hipress.torch.process_groups.slots import Slots
from hipress.torch.process_groups.states.open_step import OpenStep

#: An owner adds these in float32 and rounds once, so they get the average's factor there.
_SUMMED_WIDER = (torch.float16, torch.bfloat16)


class ExactValues:
    """Flat tensors, by their element types."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self.of_type: dict[torch.dtype, list[torch.Tensor]] = {}
        for tensor in tensors:
            self.of_type.setdefault(tensor.dtype, []).append(tensor)

    def joined(self) -> list[torch.Tensor]:
        """New tensors, one for each type."""
        return [torch.cat(tensors) for tensors in self.of_type.values()]

    def put_back(self, joined: Sequence[torch.Tensor]) -> None:
        """Writes what joined() has given into the tensors."""
        for tensors, values in zip(self.of_type.values(), joined, strict=True):
            copy_all(tensors, values.split([tensor.numel() for tensor in tensors]))


def has_factor(dtype: torch.dtype) -> bool:
    """Whether values that travel in slots get the factor of the average before the sum, as torch does it: then no sum
    of finite values is too great. See Slot::scaled in the core."""
    return dtype not in _SUMMED_WIDER


@dataclass
class Batch:
    """Tensors that one call of GroupAverage.start() has handed over. They travel in one portion or several."""

    step: int
    factor: float
    """Of the sum over all ranks."""
    tensors: list[torch.Tensor]
    """Compressed ones, of real numbers."""
    exact: ExactValues
    """Those without a codec, flat."""
    layout: Layout
    done: torch.futures.Future[Any]
    finish: Callable[[], None] | None
    changes: Any
    """What the step's averages change of the codecs' states, as the side makes it."""
    of: OpenStep
    """The step."""

    values: list[Any] = field(default_factory=list)
    """What this rank contributes, by the tensor's number in `layout`; the averages go to the same memory."""
    given: Contribution | None = None
    """The same for the runs of all portions."""
    linked: list[tuple[str, torch.Tensor]] = field(default_factory=list)
    """Names and flat tensors of those in whose place two others are summed."""
    together: list[torch.Tensor] = field(default_factory=list)
    """The exact ones of each type, one behind the other."""

    _left: int = 1
    _error: Exception | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def any_tensor(self) -> torch.Tensor | None:
        """One of the tensors, for `done`: a future makes streams wait only for the GPU on which its value lies."""
        exact = (tensor for tensors in self.exact.of_type.values() for tensor in tensors)
        given = [*self.tensors, *exact, *(tensor for _, tensor in self.linked)]
        return given[0] if given else None

    def split(self, portions: Sequence[Portion]) -> None:
        """From now on it has ended when all of these have."""
        self._left = len(portions)

    def end_portion(self, error: Exception | None = None) -> bool:
        """Notes that a portion has ended; returns whether all have ended, and none with an error.

        The last portion ends a batch that has failed. The step of the batch then does not count.
        """
        with self._lock:
            self._left -= 1
            self._error = self._error or error
            if self._left > 0:
                return False
        if self._error is None:
            return True
        self.changes.discard()
        self.of.end()
        self.done.set_exception(self._error)
        return False

    def succeed(self, value: torch.Tensor | None) -> None:
        """All values are there."""
        self.of.end()
        self.done.set_result(value)


@dataclass
class Portion:
    """Partitions of a batch whose messages travel together."""

    batch: Batch
    slots: Slots | None
    """None: it has only values without a codec."""
    alone: Sequence[torch.Tensor] = ()
    """Values that the group adds without us."""
    alone_works: Sequence[Work] = ()
    arena: torch.Tensor | None = None
    """The memory of the collectives, until all have ended."""
    work: Work = None
    linked: Sequence[tuple[str, torch.Tensor]] = ()
    """Those of the batch, in the last portion."""
    sums: LinkedBatch | None = None

    @property
    def has_second_hop(self) -> bool:
        """Whether collectives follow those with which it begins."""
        return self.sums is not None or (self.slots is not None and len(self.slots.runs) > 2)
