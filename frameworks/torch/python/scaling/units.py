# SPDX-License-Identifier: Apache-2.0
"""The unit of what codecs keep for an average over a process group: the gradient times a loss scale."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import torch

from hipress.torch.installed.private_names import version_of
from hipress.torch.scaling.loss_scale import LossScale

if TYPE_CHECKING:
    from hipress._core import SlotStateTable


class Unit(Protocol):
    """Follows the loss scale, where the ranks compute."""

    def follow(self, scaling: LossScale, tables: Sequence[SlotStateTable], others: Callable[[float], None]) -> None:
        """Gives kept values the unit of the gradients that come now: those in `tables`, and by `others(factor)` those
        that are elsewhere."""

    def scale(self) -> float:
        """The scale that kept values have; waits for a GPU."""

    def reset(self) -> None:
        """All kept values have been replaced by values in the unit of the gradient."""


def unscaled(states: dict[str, dict[str, Any]], scale: float, but: str = "") -> dict[str, dict[str, Any]]:
    """These copies of states in the unit of the gradient. The state `but` has no unit."""
    if scale != 1.0:
        for kept in states.values():
            for name, values in kept.items():
                if name != but:
                    values /= scale
    return states


class HostUnit:
    """Of values in the processor's memory.

    `side`: a HostSide.
    """

    def __init__(self, side: Any) -> None:
        self._side = side
        self._scale = 1.0

    def follow(self, scaling: LossScale, tables: Sequence[SlotStateTable], others: Callable[[float], None]) -> None:
        """See Unit."""
        now = scaling.now()
        if now == self._scale:
            return
        both = torch.tensor([now, self._scale])
        self._side.queue.rescale(tables, both[0].data_ptr(), both[1].data_ptr())
        others(now / self._scale)
        self._scale = now

    def scale(self) -> float:
        """See Unit."""
        return self._scale

    def reset(self) -> None:
        """See Unit."""
        self._scale = 1.0


class GpuUnit:
    """Of values on a GPU, which compares the scales itself: the host does not wait for the scaler's tensor.

    `side`: a GpuSide.
    """

    def __init__(self, side: Any) -> None:
        self._side = side
        self._word = torch.ones(1, device=side.device)
        self._seen: tuple[int, int] | float | None = None
        self._now: torch.Tensor | None = None  # stays until the GPU has read it

    def follow(self, scaling: LossScale, tables: Sequence[SlotStateTable], others: Callable[[float], None]) -> None:
        """See Unit."""
        tensor = scaling.tensor
        seen = scaling.now() if tensor is None else (id(tensor), version_of(tensor))
        if seen == self._seen:
            return
        if tensor is None:
            self._now = torch.full((1,), scaling.now(), device=self._side.device)
        else:
            self._now = tensor.to(self._side.device, torch.float32, non_blocking=True)
        self._side.used_by_all(self._now)
        self._side.queue.rescale(tables, self._now.data_ptr(), self._word.data_ptr())
        self._seen = seen

    def scale(self) -> float:
        """See Unit."""
        self._side.synchronize()
        return float(self._word)

    def reset(self) -> None:
        """See Unit."""
        self._word.fill_(1.0)
        self._seen = None
