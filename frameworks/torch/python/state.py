# SPDX-License-Identifier: Apache-2.0
"""Broadcasts one rank's state to all ranks at the start: parameters and optimizer state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from hipress import runtime
from hipress.adapter.operations import synchronize
from hipress.adapter.process_sets import ProcessSet, check, global_process_set
from hipress.errors import InvalidArgument
from hipress.torch import operators
from hipress.torch.collectives import broadcast_async_
from hipress.torch.optimizer_state import keep_bits, receive_state, send_state
from hipress.torch.reals import is_lazy, resolved


def broadcast_parameters(
    params: Mapping[str, Any] | Iterable[tuple[str, Any] | torch.Tensor],
    root_rank: int,
    process_set: ProcessSet = global_process_set,
) -> None:
    """Gives every rank of the set rank `root_rank`'s values, in place.

    `params`: `model.state_dict()`, `model.named_parameters()`, or `model.parameters()`, whose tensors are matched by
    their order. Values of other types than tensors stay as they are. Raises InvalidArgument for another `params`.
    """
    items = _named(params)
    handles = []
    copies: list[tuple[torch.Tensor, torch.Tensor]] = []
    with torch.no_grad():
        for name, value in items:
            if not isinstance(value, torch.Tensor):
                continue
            tensor = value.detach()
            if tensor.layout == torch.strided and (not operators.is_dense(tensor) or is_lazy(tensor)):
                # The values of a view with gaps, or of a transposed or conjugated one, travel in a copy.
                copy = resolved(tensor).contiguous()
                copies.append((tensor, copy))
                tensor = copy
            handles.append(broadcast_async_(tensor, root_rank, f"parameters.{name}", process_set))
        for handle in handles:
            synchronize(handle)
        for tensor, copy in copies:
            tensor.copy_(copy)


def _named(params: Mapping[str, Any] | Iterable[tuple[str, Any] | torch.Tensor]) -> list[tuple[str, Any]]:
    if isinstance(params, Mapping):
        return list(params.items())
    takes = "broadcast_parameters() takes model.state_dict(), named_parameters() or parameters(), not"
    if isinstance(params, torch.Tensor) or not isinstance(params, Iterable):
        raise InvalidArgument(f"{takes} a {type(params).__name__}")
    named = []
    for index, each in enumerate(params):
        pair = (str(index), each) if isinstance(each, torch.Tensor) else each
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise InvalidArgument(f"{takes} a {type(each).__name__} among them")
        named.append(pair)
    return named


def broadcast_optimizer_state(
    optimizer: torch.optim.Optimizer,
    root_rank: int,
    model: torch.nn.Module | None = None,
    process_set: ProcessSet = global_process_set,
) -> None:
    """Gives the optimizer of every rank of the set rank `root_rank`'s state: options of the parameter groups, step
    counts, moments.

    Works for any optimizer whose `state_dict()` consists of tensors and plain values (None, bool, int, float, str,
    bytes, list, tuple, dict, dtypes). Afterwards all ranks have the same bits, whatever state they had before. Nothing
    is unpickled. If the root has no state yet, every `.grad` that was None becomes zeros, as Horovod leaves it; unlike
    Horovod, HiPress takes no step for this. `model`: for SGD, the zeros of its `nn.Embedding(..., sparse=True)` layers
    are sparse.
    Raises InvalidArgument if the optimizers have different parameter groups; Unsupported, on every rank, with the first
    value of another type; CorruptPayload if the state does not come from that rank.
    """
    if check(process_set) and runtime.rank() == root_rank:
        _leave_zeros(optimizer, optimizer.state_dict(), model)
        send_state(optimizer, root_rank, process_set)
        return
    state = receive_state(root_rank, process_set)
    _leave_zeros(optimizer, state, model)
    try:
        optimizer.load_state_dict(state)
    except ValueError as error:
        raise InvalidArgument(
            f"rank {runtime.rank()}'s optimizer cannot take rank {root_rank}'s state: {error}. All ranks must build "
            "the same optimizer over the same model"
        ) from error
    keep_bits(optimizer, state)


def _leave_zeros(
    optimizer: torch.optim.Optimizer, state_of_root: Mapping[str, Any], model: torch.nn.Module | None
) -> None:
    """Sets zero gradients if the root has no state. All ranks decide by the root's state: no gradient may be sparse on
    one rank and dense on another.
    """
    if state_of_root["state"]:
        return
    layers = () if model is None else model.modules()
    rows = {id(layer.weight) for layer in layers if isinstance(layer, torch.nn.Embedding) and layer.sparse}
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.grad is not None or not parameter.requires_grad:
                continue
            zeros = torch.zeros_like(parameter)
            is_sparse = isinstance(optimizer, torch.optim.SparseAdam) or (
                isinstance(optimizer, torch.optim.SGD) and id(parameter) in rows
            )
            parameter.grad = zeros.to_sparse(1) if is_sparse else zeros
