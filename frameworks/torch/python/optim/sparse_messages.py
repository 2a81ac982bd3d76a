# SPDX-License-Identifier: Apache-2.0
"""The largest values of several tensors as one message: indices and values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from hipress.torch.optim.carrier import Carrier


class SparseMessages:
    """The messages of one step: for each tensor, in the order given, k indices (int32), then k values (float32).

    k is the element count times `ratio`, rounded up. It is the same on all ranks, so messages carry no counts.
    """

    def __init__(self, shapes: Mapping[str, torch.Size], ratio: float) -> None:
        self._shapes = shapes
        self._counts = {name: math.ceil(ratio * shape.numel()) for name, shape in shapes.items()}

    def largest(self, name: str, values: torch.Tensor) -> torch.Tensor:
        """The ascending indices (int64) of the k values of largest magnitude. NaN counts as the largest."""
        return values.view(-1).abs().topk(self._counts[name], sorted=False).indices.sort().values

    def averages(
        self, carrier: Carrier, chosen: Mapping[str, tuple[torch.Tensor, torch.Tensor]]
    ) -> dict[str, torch.Tensor]:
        """The averages of all ranks' values, added in rank order; an element is zero if no rank sent it. `chosen`: the
        indices to send, and the tensors with their values. Raises the errors of Carrier.gather()."""
        if not chosen:
            return {}
        parts = []
        for index, values in chosen.values():
            parts += [index.to(torch.int32).view(torch.uint8), values.view(-1)[index].view(torch.uint8)]
        gathered = carrier.gather(torch.cat(parts))
        averages = {}
        for name, first in self._places():
            count, shape = self._counts[name], self._shapes[name]
            total = torch.zeros(shape.numel())
            for message in gathered:
                # The copies are aligned; a part of the message may begin at any byte.
                index = message[first : first + 4 * count].clone().view(torch.int32)
                values = message[first + 4 * count : first + 8 * count].clone().view(torch.float32)
                total[index.long()] += values
            averages[name] = total.div_(carrier.world).view(shape)
        return averages

    def _places(self) -> list[tuple[str, int]]:
        places, first = [], 0
        for name, count in self._counts.items():
            places.append((name, first))
            first += 8 * count
        return places
