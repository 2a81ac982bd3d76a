# SPDX-License-Identifier: Apache-2.0
"""What a codec in Python gets beside the values: the states that it declares, and what keys its random numbers."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class EncodeKey:
    """What is the same on every device and in a repeated run, and differs between ranks: it keys random rounding."""

    seed: int
    #: How often the tensor has been averaged before.
    step: int
    #: The tensor's number, the same on all ranks.
    tensor: int
    #: The place of the first value in its tensor, which may travel in partitions.
    first_element: int


class EncodeState:
    """The second argument of `encode()`. Each state that the class declares is an attribute: a float32 tensor with the
    shape of the values, zeros at first. What encode() assigns or writes there is kept for the next step."""

    #: How often the tensor has been averaged before.
    step: int
    #: Whether the values are a sum of gradients, which an aggregator encodes, and not a rank's own gradient.
    is_merged: bool

    def __init__(self, key: EncodeKey, states: Mapping[str, torch.Tensor], device: torch.device, merged: bool) -> None:
        """`states`: copies, which encode() may change."""
        vars(self).update(states, step=key.step, is_merged=merged)
        vars(self).update(_key=key, _names=tuple(states), _device=device)

    @functools.cached_property
    def generator(self) -> torch.Generator:
        """For random numbers: a repeated run draws the same ones, another rank, step or tensor others."""
        key: EncodeKey = vars(self)["_key"]
        text = f"{key.seed} {key.step} {key.tensor} {key.first_element}".encode()
        seed = int.from_bytes(hashlib.blake2b(text, digest_size=7).digest(), "little")
        return torch.Generator(device=vars(self)["_device"]).manual_seed(seed)

    def __setattr__(self, name: str, value: object) -> None:
        if name not in vars(self)["_names"]:
            raise AttributeError(
                f"encode() sets state.{name}, which the class does not declare: write states = ({name!r},) in it"
            )
        vars(self)[name] = value

    def __getattr__(self, name: str) -> torch.Tensor:  # of what is not there
        raise AttributeError(f"state has no {name!r}: write states = ({name!r},) in the class, and it begins as zeros")

    def kept(self) -> dict[str, torch.Tensor]:
        """The states after encode()."""
        return {name: vars(self)[name] for name in vars(self)["_names"]}
