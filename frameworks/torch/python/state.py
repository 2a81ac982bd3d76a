# SPDX-License-Identifier: Apache-2.0
"""Starting all ranks from one rank's state: parameters, optimizer state, any object."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from hipress import runtime
from hipress.errors import InvalidArgument
from hipress.torch import operators
from hipress.torch.collectives import broadcast_, broadcast_async_, synchronize


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


def broadcast_object(value: Any = None, root_rank: int = 0, name: str | None = None) -> Any:
    """Rank `root_rank`'s `value`, on every rank; anything that pickle takes. Other ranks' `value` is ignored."""
    label = name or "object"
    is_root = runtime.rank() == root_rank
    payload = torch.frombuffer(bytearray(pickle.dumps(value)), dtype=torch.uint8) if is_root else None
    size = torch.tensor([payload.numel() if payload is not None else 0], dtype=torch.int64)
    size = broadcast_(size, root_rank, name=f"{label}.size")
    if payload is None:
        payload = torch.empty(int(size.item()), dtype=torch.uint8)
    broadcast_(payload, root_rank, name=f"{label}.bytes")
    return value if is_root else pickle.loads(payload.numpy().tobytes())


def broadcast_optimizer_state(optimizer: torch.optim.Optimizer, root_rank: int) -> None:
    """Gives every rank's optimizer rank `root_rank`'s state: options of the parameter groups, step counts, moments.

    Works for any optimizer whose `state_dict()` can be saved, whatever the others hold before.
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
