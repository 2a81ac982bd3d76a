# SPDX-License-Identifier: Apache-2.0
"""Sends an optimizer's state from one rank to all. Tensors travel as tensors, all else as plain values; no pickle."""

from __future__ import annotations

from typing import Any

import torch

from hipress.adapter.objects import receive_plain, send_plain
from hipress.adapter.operations import Operation
from hipress.adapter.process_sets import ProcessSet, global_process_set
from hipress.torch import operators
from hipress.torch.collectives import broadcast_async_
from hipress.torch.installed.private_names import sparse_parts
from hipress.torch.reals import resolved

_WHAT, _LABEL = "broadcast_optimizer_state()", "optimizer_state"


def send_state(optimizer: torch.optim.Optimizer, root_rank: int, process_set: ProcessSet = global_process_set) -> None:
    """Sends the state of rank `root_rank`'s `optimizer` to all other ranks. Raises Unsupported, on every rank, with the
    first value that is neither a tensor (dense or sparse COO) nor a plain value.
    """
    tensors: list[tuple[str, torch.Tensor]] = []

    def other(value: Any, where: str) -> Any:
        if type(value) is torch.dtype:
            return {"dtype": _name(value)}
        if type(value) not in (torch.Tensor, torch.nn.Parameter):
            return None
        if value.layout == torch.sparse_coo:
            indices, values = (each.contiguous() for each in sparse_parts(value.detach()))
            tensors.extend([(f"{where}.indices", indices), (f"{where}.values", values)])
            return {
                "name": where,
                "dtype": _name(values.dtype),
                "shape": list(value.shape),
                "indices": list(indices.shape),
                "values": list(values.shape),
                "coalesced": value.is_coalesced(),
            }
        if value.layout != torch.strided:
            return None
        tensor = resolved(value.detach())
        if not operators.is_dense(tensor):
            tensor = tensor.contiguous()
        tensors.append((where, tensor))
        return {
            "name": where,
            "dtype": _name(tensor.dtype),
            "shape": list(tensor.shape),
            "strides": list(tensor.stride()),
        }

    send_plain(optimizer.state_dict(), root_rank, _LABEL, _WHAT, other, "state_dict()", process_set)
    _broadcast(tensors, root_rank, process_set)


def receive_state(root_rank: int, process_set: ProcessSet = global_process_set) -> dict[str, Any]:
    """Receives the state_dict() of rank `root_rank`'s optimizer on another rank. Raises the errors of send_state(), and
    CorruptPayload if that rank has not sent it.
    """
    tensors: list[tuple[str, torch.Tensor]] = []

    def other(described: Any) -> Any:
        dtype = getattr(torch, described["dtype"])
        if not isinstance(dtype, torch.dtype):
            raise ValueError(f"there is no dtype {described['dtype']}")
        if "shape" not in described:
            return dtype
        if "indices" in described:
            indices, values = (
                torch.zeros(described["indices"], dtype=torch.int64),
                torch.zeros(described["values"], dtype=dtype),
            )
            tensors.extend([(f"{described['name']}.indices", indices), (f"{described['name']}.values", values)])
            # The sparse tensor shares the memory of `indices` and `values`, which the broadcast fills later.
            return torch.sparse_coo_tensor(
                indices, values, described["shape"], is_coalesced=described["coalesced"], check_invariants=False
            )
        tensor = torch.empty_strided(described["shape"], described["strides"], dtype=dtype)
        tensors.append((described["name"], tensor))
        return tensor

    received: dict[str, Any] = receive_plain(root_rank, _LABEL, _WHAT, other, process_set)
    _broadcast(tensors, root_rank, process_set)
    return received


def _broadcast(tensors: list[tuple[str, torch.Tensor]], root_rank: int, process_set: ProcessSet) -> None:
    started: list[Operation[torch.Tensor]] = []
    for where, tensor in tensors:
        if tensor.numel() == 0:
            continue
        # Elements of types that HiPress does not know, such as float8, travel as bytes.
        known = tensor.dtype.to_real() in operators.DTYPE_NAMES
        values = tensor if known else tensor.as_strided((tensor.numel(),), (1,)).view(torch.uint8)
        started.append(broadcast_async_(values, root_rank, f"{_LABEL}.{where}", process_set))
    for operation in started:
        operation.wait()


def keep_bits(optimizer: torch.optim.Optimizer, state_dict: dict[str, Any]) -> None:
    """Undoes conversions of load_state_dict(state_dict), such as of tensors to their parameter's dtype. Tensors stay on
    the devices that load_state_dict() has chosen.
    """
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for index, received in state_dict["state"].items():
        if not isinstance(index, int) or not isinstance(received, dict):
            continue  # not the state of a parameter: torch loads it unchanged
        own = optimizer.state[parameters[index]]
        for key, value in received.items():
            loaded = own.get(key)
            own[key] = _on(loaded.device if isinstance(loaded, torch.Tensor) else parameters[index].device, value)


def _on(device: torch.device, value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, dict):
        return {key: _on(device, each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_on(device, each) for each in value)
    return value


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
