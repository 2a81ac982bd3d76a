# SPDX-License-Identifier: Apache-2.0
"""Starting all ranks from one rank's state: parameters, optimizer state, any object."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from hipress import runtime
from hipress.errors import InvalidArgument
from hipress.objects import broadcast_object
from hipress.operations import synchronize
from hipress.torch import operators
from hipress.torch.collectives import broadcast_async_


def broadcast_parameters(
    params: Mapping[str, Any] | Iterable[tuple[str, Any]],
    root_rank: int,
) -> None:
    """Gives every rank rank `root_rank`'s values, in place.

    `params`: `model.state_dict()` or `model.named_parameters()`. Entries that are not tensors are left alone.
    """
    items = list(params.items() if isinstance(params, Mapping) else params)
    handles = []
    copies: list[tuple[torch.Tensor, torch.Tensor]] = []
    with torch.no_grad():
        for name, value in items:
            if not isinstance(value, torch.Tensor):
                continue
            tensor = value.detach()
            if tensor.layout == torch.strided and not operators.is_dense(tensor):
                # A view with gaps or a transposed one: its values travel in a copy.
                copy = tensor.contiguous()
                copies.append((tensor, copy))
                tensor = copy
            handles.append(broadcast_async_(tensor, root_rank, name=f"parameters.{name}"))
        for handle in handles:
            synchronize(handle)
        for tensor, copy in copies:
            tensor.copy_(copy)


def broadcast_optimizer_state(
    optimizer: torch.optim.Optimizer, root_rank: int, model: torch.nn.Module | None = None
) -> None:
    """Gives every rank's optimizer rank `root_rank`'s state: options of the parameter groups, step counts, moments.

    Works for any optimizer whose `state_dict()` can be saved, whatever the others hold before. `model` is Horovod's: it
    is not needed.
    Raises InvalidArgument if the optimizers have different parameter groups.
    """
    is_root = runtime.rank() == root_rank
    payload = None
    if is_root:
        buffer = io.BytesIO()
        torch.save(optimizer.state_dict(), buffer)
        payload = buffer.getvalue()
    payload = broadcast_object(payload, root_rank, name="optimizer_state")
    if is_root:
        return
    state = torch.load(io.BytesIO(payload), weights_only=False)
    try:
        optimizer.load_state_dict(state)
    except ValueError as error:
        raise InvalidArgument(
            f"rank {runtime.rank()}'s optimizer cannot take rank {root_rank}'s state: {error}. All ranks must build "
            "the same optimizer over the same model"
        ) from error
