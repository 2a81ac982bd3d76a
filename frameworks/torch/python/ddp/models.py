# SPDX-License-Identifier: Apache-2.0
"""What a communication hook has to know of the model that a program gives: which DistributedDataParallel calls the
hook, and for which parameters."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from hipress import runtime
from hipress.errors import InvalidArgument
from hipress.launch import rendezvous
from hipress.torch.installed.private_names import composed_ddp
from hipress.torch.wrapped import unwrapped, without_wrappers


@dataclass(frozen=True)
class Replicated:
    """A model whose gradients are averaged, or would be if there were other ranks."""

    ddp: DistributedDataParallel | None
    """None: this process is the only rank, and nothing wraps the model."""
    parameters: Mapping[str, nn.Parameter]
    """Of which the hook gets gradients, by name."""
    tied: Mapping[str, str] = field(default_factory=dict)
    """Other names of these parameters."""

    def check_names(self, codec_for: Mapping[str, str]) -> None:
        """Raises InvalidArgument if a codec is for a parameter's second name."""
        for name in codec_for:
            if name in self.tied:
                raise InvalidArgument(
                    f"codec_for names '{name}', which is tied to '{self.tied[name]}': both are one parameter with one "
                    f"gradient; name '{self.tied[name]}'"
                )


def replicated(model: nn.Module) -> Replicated:
    """Finds the DistributedDataParallel of a model, below wrappers. Raises InvalidArgument."""
    if not isinstance(model, nn.Module):
        raise InvalidArgument(f"the model is a {type(model).__name__}, not a torch.nn.Module")
    model = unwrapped(model)
    if isinstance(model, DistributedDataParallel):
        return _of_ddp(model)
    composed = composed_ddp(model)
    if composed is not None:
        ddp, parameters = composed
        return Replicated(ddp, _distinct(parameters))
    inner = [(name, each) for name, each in model.named_modules() if isinstance(each, DistributedDataParallel)]
    if inner:
        raise InvalidArgument(
            f"the model is a {type(model).__name__} around a DistributedDataParallel: give the latter, which is its "
            f"'{inner[0][0]}'"
        )
    if _is_sharded(model):
        raise InvalidArgument(
            "fully_shard() shards the model: call hipress.torch.fsdp.compress_replicas() or compress_hybrid() in place "
            "of hipress.torch.ddp.compress()"
        )
    if not _is_alone():
        raise InvalidArgument(
            f"the model is a {type(model).__name__}: wrap it in torch.nn.parallel.DistributedDataParallel first"
        )
    return Replicated(None, *_named(model, frozenset()))


def _is_sharded(model: nn.Module) -> bool:
    # The module takes time to import, and a program has imported it if its model needs it.
    module: Any = sys.modules.get("torch.distributed.fsdp")
    return module is not None and any(isinstance(each, module.FSDPModule) for each in model.modules())


def _of_ddp(model: DistributedDataParallel) -> Replicated:
    return Replicated(model, *_named(model.module, model.parameters_to_ignore))


def _named(module: nn.Module, ignored: Any) -> tuple[dict[str, nn.Parameter], dict[str, str]]:
    """The parameters with gradients that are averaged, and other names of them."""
    all_names = module.named_parameters(remove_duplicate=False)
    used = [(name, each) for name, each in all_names if each.requires_grad and name not in ignored]
    parameters = _distinct(used)
    first = {id(each): name for name, each in parameters.items()}
    names = ((without_wrappers(name), first[id(each)]) for name, each in used)
    return parameters, {name: other for name, other in names if name != other}


def _distinct(named: Any) -> dict[str, nn.Parameter]:
    first: dict[int, tuple[str, nn.Parameter]] = {}
    for name, each in named:
        if each.requires_grad:
            first.setdefault(id(each), (without_wrappers(name), each))
    return dict(first.values())


def _is_alone() -> bool:
    """Whether this process is the only rank of its job."""
    if runtime.is_initialized() and runtime.size() > 1:
        return False
    if dist.is_initialized():
        return dist.get_world_size() == 1
    return rendezvous.place_of(os.environ).size == 1
