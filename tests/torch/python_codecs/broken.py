# SPDX-License-Identifier: Apache-2.0
"""Codecs in Python that each break a law."""

from __future__ import annotations

from typing import Any

import torch

Tensors = tuple[torch.Tensor, ...]


class BrkCounts:
    """Its messages depend on how often it was called."""

    def __init__(self) -> None:
        self.calls = 0

    def encode(self, values: torch.Tensor, state: Any) -> Tensors:
        self.calls += 1
        return values, torch.tensor(self.calls)

    def decode(self, tensors: Tensors, shape: torch.Size) -> torch.Tensor:
        return tensors[0]


class BrkRemembers:
    """decode uses what encode has left in the object."""

    def __init__(self) -> None:
        self.scale = torch.ones(())

    def encode(self, values: torch.Tensor, state: Any) -> torch.Tensor:
        self.scale = values.abs().max().clamp(min=1e-30) / 127
        return (values / self.scale).round().to(torch.int8)

    def decode(self, tensors: Tensors, shape: torch.Size) -> torch.Tensor:
        return tensors[0] * self.scale


class BrkDraws:
    """It draws random numbers from torch's own generator."""

    def encode(self, values: torch.Tensor, state: Any) -> torch.Tensor:
        return (values + torch.rand(len(values))).round().clamp(-127, 127).to(torch.int8)

    def decode(self, tensors: Tensors, shape: torch.Size) -> torch.Tensor:
        return tensors[0].float()


class BrkDrops:
    """It sends the same two values in each step."""

    def encode(self, values: torch.Tensor, state: Any) -> torch.Tensor:
        return values[:2]

    def decode(self, tensors: Tensors, shape: torch.Size) -> torch.Tensor:
        return torch.nn.functional.pad(tensors[0], (0, shape[0] - len(tensors[0])))


class BrkDivides:
    """It divides by zero if all values are zeros."""

    error_feedback = False

    def encode(self, values: torch.Tensor, state: Any) -> Tensors:
        scale = values.abs().max()
        return (values / scale).to(torch.float16), scale

    def decode(self, tensors: Tensors, shape: torch.Size) -> torch.Tensor:
        return tensors[0] * tensors[1]
