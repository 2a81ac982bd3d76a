# SPDX-License-Identifier: Apache-2.0
"""The outer parameters: a copy of the model's on the host, and the optimizer that steps on it."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from hipress.errors import InvalidArgument
from hipress.torch.diloco.shards import own_values


def check_outer_optimizer(optimizer: torch.optim.Optimizer, parameters: Mapping[str, torch.Tensor]) -> None:
    """Raises InvalidArgument unless it is a fresh optimizer over exactly these parameters."""
    listed = {id(each) for group in optimizer.param_groups for each in group["params"]}
    expected = {id(each): name for name, each in parameters.items()}
    if listed - set(expected):
        raise InvalidArgument(
            f"the outer optimizer has {len(listed - set(expected))} parameters that are no trainable parameters of the "
            "model: make it over model.parameters()"
        )
    for key, name in expected.items():
        if key not in listed:
            raise InvalidArgument(f"the outer optimizer has no parameter '{name}': make it over model.parameters()")
    if optimizer.state:
        raise InvalidArgument("the outer optimizer has taken steps already: give DiLoCo() a new one")


class OuterParameters:
    """The same bits on all ranks: all start from the same values and step with the same averages."""

    def __init__(self, parameters: Mapping[str, torch.Tensor], optimizer: torch.optim.Optimizer) -> None:
        """From now on `optimizer`, made over `parameters`, steps on the copies."""
        self.values = {
            name: torch.nn.Parameter(own_values(each).to("cpu", copy=True).contiguous())
            for name, each in parameters.items()
        }
        self.optimizer = optimizer
        copies = {id(each): self.values[name] for name, each in parameters.items()}
        for group in optimizer.param_groups:
            group["params"] = [copies[id(each)] for each in group["params"]]

    @torch.no_grad()
    def begin(self, inner: Mapping[str, torch.Tensor]) -> None:
        """Takes the values of the model."""
        for name, each in self.values.items():
            each.copy_(own_values(inner[name]))

    @torch.no_grad()
    def pseudo_gradient(self, name: str, inner: torch.Tensor) -> torch.Tensor:
        """Outer minus inner values, on the host: the direction against which the inner steps went."""
        return torch.sub(self.values[name].detach(), own_values(inner).to("cpu")).contiguous()

    def step(self, averages: Mapping[str, torch.Tensor]) -> None:
        """One step of the optimizer on the parameters in `averages`; it leaves those without gradient alone."""
        for name, average in averages.items():
            self.values[name].grad = average
        try:
            self.optimizer.step()
        finally:
            for name in averages:
                self.values[name].grad = None

    @torch.no_grad()
    def load(self, state: Mapping[str, Any]) -> None:
        """Takes a state that check_state() has found to be of this model and optimizer."""
        # A copy: load_state_dict() keeps tensors, and steps would change the caller's.
        self.optimizer.load_state_dict(copy.deepcopy(state["outer_optimizer"]["state"]))
        for name, each in self.values.items():
            each.copy_(state["parameters"][name])


def fingerprint(tensors: Iterable[torch.Tensor]) -> str:
    """Of the bytes of tensors on the host, in order."""
    digest = hashlib.sha256()
    for each in tensors:
        if each.numel() > 0:  # a rank may have nothing of a sharded parameter
            digest.update(each.detach().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
