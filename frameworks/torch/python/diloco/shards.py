# SPDX-License-Identifier: Apache-2.0
"""Parameters that FSDP2 shards over the ranks of a host: each rank synchronises its own shards with the ranks that have
the same shards on other hosts."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeGuard

import torch

from hipress.errors import InvalidArgument, Unsupported

if TYPE_CHECKING:
    from torch.distributed.fsdp import FSDPModule
    from torch.distributed.tensor import DTensor


# Importing these modules of torch takes a second. Until something else imports them, no object is of their classes.
def _is_sharded(tensor: torch.Tensor) -> TypeGuard[DTensor]:
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(tensor, module.DTensor)


def _is_unit(module: torch.nn.Module) -> TypeGuard[FSDPModule]:
    fsdp = sys.modules.get("torch.distributed.fsdp")
    return fsdp is not None and isinstance(module, fsdp.FSDPModule)


def own_values(tensor: torch.Tensor) -> torch.Tensor:
    """This rank's shard of a sharded tensor, and the whole of another, without gradient: the same memory."""
    detached = tensor.detach()
    return detached.to_local() if _is_sharded(detached) else detached


def check_sharding(parameters: Mapping[str, torch.Tensor], *, over_group: bool) -> None:
    """Raises Unsupported for shards over the engine; InvalidArgument if FSDP2 averages gradients over hosts itself."""
    for name, each in parameters.items():
        if not _is_sharded(each):
            continue
        if not over_group:
            raise Unsupported(
                f"parameter '{name}' is sharded (FSDP2), and over the engine all ranks synchronise whole parameters: "
                "give group=mesh['replicate'].get_group(), the ranks that have the same shards on other hosts"
            )
        mesh = each.device_mesh
        if any(not place.is_shard() and mesh.size(dim) > 1 for dim, place in enumerate(each.placements)):
            raise InvalidArgument(
                f"parameter '{name}' is replicated over a dimension of its mesh, so FSDP2 averages its gradients over "
                "hosts in every step: call fully_shard() with the mesh of one host, such as mesh['shard']"
            )


def described_shards(parameters: Iterable[torch.Tensor]) -> str:
    """Which shards this rank has: the same on all ranks of DiLoCo's group."""
    found = set()
    for each in parameters:
        if _is_sharded(each):
            place = each.device_mesh.get_coordinate()
            found.add(f"number {place} of {tuple(each.device_mesh.shape)}, {each.placements}")
    return "; ".join(sorted(found)) or "whole parameters"


def reshard(model: torch.nn.Module) -> None:
    """Frees what FSDP2 has gathered: the next forward pass gathers the shards as they are then."""
    for module in model.modules():
        if _is_unit(module):
            module.reshard()
