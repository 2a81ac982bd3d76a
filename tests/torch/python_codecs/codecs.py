# SPDX-License-Identifier: Apache-2.0
"""Codecs in Python, of about ten lines each."""

from __future__ import annotations

import math

import torch

from hipress.torch.python_codecs import EncodeState, register_codec


class PyInt8:
    """A byte for each value, and the greatest magnitude."""

    def encode(self, values: torch.Tensor, state: EncodeState) -> tuple[torch.Tensor, ...]:
        scale = (values.abs().max() / 127).clamp(min=1e-38)
        return (values / scale).round().to(torch.int8), scale

    def decode(self, tensors: tuple[torch.Tensor, ...], shape: torch.Size) -> torch.Tensor:
        levels, scale = tensors
        return levels * scale


class PyTopK:
    """The values of the greatest magnitudes, and their places; of equal ones the first."""

    def __init__(self, ratio: float = 0.05) -> None:
        self.ratio = ratio

    def encode(self, values: torch.Tensor, state: EncodeState) -> tuple[torch.Tensor, ...]:
        number = max(1, math.ceil(self.ratio * len(values)))
        places = values.abs().argsort(descending=True, stable=True)[:number]
        return values[places], places.to(torch.int32)

    def decode(self, tensors: tuple[torch.Tensor, ...], shape: torch.Size) -> torch.Tensor:
        values, places = tensors
        return values.new_zeros(shape).index_put((places.long(),), values)


class PyMomentum:
    """Signs of a momentum, which lasts from step to step; a sum of gradients has momentum already."""

    states = ("momentum",)

    def __init__(self, decay: float = 0.5) -> None:
        self.decay = decay

    def encode(self, values: torch.Tensor, state: EncodeState) -> tuple[torch.Tensor, ...]:
        if not state.is_merged:
            state.momentum = self.decay * state.momentum + values
        kept = values if state.is_merged else state.momentum
        return kept >= 0, kept.abs().mean()

    def decode(self, tensors: tuple[torch.Tensor, ...], shape: torch.Size) -> torch.Tensor:
        positive, magnitude = tensors
        return torch.where(positive, magnitude, -magnitude)


class PyThreshold:
    """Values above a threshold: as many as there are."""

    error_feedback = False

    def encode(self, values: torch.Tensor, state: EncodeState) -> tuple[torch.Tensor, ...]:
        places = (values.abs() > 1).nonzero().squeeze(1)
        return values[places], places.to(torch.int32)

    def decode(self, tensors: tuple[torch.Tensor, ...], shape: torch.Size) -> torch.Tensor:
        values, places = tensors
        return values.new_zeros(shape).index_put((places.long(),), values)

    def max_bytes(self, count: int) -> int:
        return 8 * count


class PyRandom:
    """int8 with levels that are rounded at random."""

    error_feedback = False

    def encode(self, values: torch.Tensor, state: EncodeState) -> tuple[torch.Tensor, ...]:
        scale = (values.abs().max() / 127).clamp(min=1e-38)
        drawn = torch.rand(len(values), generator=state.generator, device=values.device)
        return (values / scale + drawn).floor().clamp(-127, 127).to(torch.int8), scale

    def decode(self, tensors: tuple[torch.Tensor, ...], shape: torch.Size) -> torch.Tensor:
        levels, scale = tensors
        return levels * scale


ALL = (PyInt8, PyTopK, PyMomentum, PyThreshold, PyRandom)


def register_all() -> list[str]:
    """The texts of all of them, one with an option."""
    names = [register_codec(each) for each in ALL]
    return [*names, names[1](ratio=0.3), names[0](residual_factor=0.9, gradient_factor=0.7)]
