# SPDX-License-Identifier: Apache-2.0
"""Models, optimizers and numbers that DiLoCo() takes."""

from __future__ import annotations

import torch

from hipress.errors import InvalidArgument, Unsupported
from hipress.torch.diloco.members.quorum import Quorum
from hipress.torch.diloco.shards import check_sharding
from hipress.torch.diloco.sparseloco import SparseLoCo
from hipress.torch.distributed_optimizer import DistributedTorchOptimizer
from hipress.torch.optim.synchronizing import SynchronizingOptimizer


def checked_mix(mix: float) -> float:
    """Raises InvalidArgument unless it is a number from 0 to below 1."""
    if not isinstance(mix, (int, float)) or isinstance(mix, bool) or not 0.0 <= mix < 1.0:
        raise InvalidArgument(f"mix={mix!r}: give a number from 0 to below 1; with 1 ranks would never meet")
    return float(mix)


def checked_quorum(quorum: object, *, is_elastic: bool) -> Quorum | None:
    """Raises InvalidArgument for one that is none, and where no rank may be late."""
    if quorum is None:
        return None
    if not is_elastic:
        raise InvalidArgument(
            f"quorum={quorum!r}: only in an elastic job over HiPress' engine (hipress run --elastic) ranks may be late"
        )
    return quorum if isinstance(quorum, Quorum) else Quorum(quorum)  # type: ignore[arg-type]


def checked_topology(codec: object, topology: str | None) -> str:
    """The one given, or the codec's. Raises InvalidArgument for a codec that is none, or has another topology."""
    if not isinstance(codec, (str, SparseLoCo)):
        raise InvalidArgument(f"codec={codec!r}: give a text such as 'int8', or a SparseLoCo")
    if isinstance(codec, str):
        return "auto" if topology is None else topology
    if topology not in (None, "allgather"):
        raise InvalidArgument(f"topology={topology!r}: SparseLoCo's messages go from every rank to every other one")
    return "allgather"


def trained_parameters(model: torch.nn.Module, *, over_group: bool) -> dict[str, torch.nn.Parameter]:
    """The parameters that are synchronised, by name. Raises InvalidArgument, Unsupported."""
    parameters = {name: each for name, each in model.named_parameters() if each.requires_grad}
    if not parameters:
        raise InvalidArgument("the model has no trainable parameters")
    check_sharding(parameters, over_group=over_group)
    for name, each in parameters.items():
        if each.dtype not in (torch.float32, torch.float64):
            raise Unsupported(
                f"parameter '{name}' is of type {each.dtype}: DiLoCo() takes float32 and float64; keep the parameters "
                "float32 and compute under torch.autocast"
            )
    return parameters


def check_inner_optimizer(
    optimizer: torch.optim.Optimizer, model: torch.nn.Module, outer_optimizer: torch.optim.Optimizer | None
) -> None:
    """Raises InvalidArgument unless it is a plain optimizer of the model's parameters, and not the outer one, too."""
    if outer_optimizer is optimizer:
        raise InvalidArgument("the outer optimizer is the inner one: give DiLoCo() two")
    if isinstance(optimizer, DistributedTorchOptimizer):
        raise InvalidArgument(
            "the inner optimizer is a DistributedOptimizer, which synchronises every step: give DiLoCo() the plain one"
        )
    if isinstance(optimizer, SynchronizingOptimizer):
        raise InvalidArgument(
            f"the inner optimizer {type(optimizer).__name__} exchanges values with all ranks in every step: give "
            "DiLoCo() torch's own optimizer"
        )
    own = {id(each) for each in model.parameters()}
    strangers = sum(id(each) not in own for group in optimizer.param_groups for each in group["params"])
    if strangers:
        raise InvalidArgument(f"the inner optimizer has {strangers} parameters that are not the model's")
