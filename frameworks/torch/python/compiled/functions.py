# SPDX-License-Identifier: Apache-2.0
"""Compressed collectives that a program calls, eager or in what torch.compile and torch.export trace. Each starts its
work and returns a tensor for wait()."""

from __future__ import annotations

import torch
import torch.distributed as dist

from hipress.errors import InvalidArgument
from hipress.torch.compiled import operators as operators
from hipress.torch.installed.private_names import functional_collectives


def all_reduce(
    tensor: torch.Tensor, name: str, op: str = "avg", group: dist.ProcessGroup | None = None
) -> torch.Tensor:
    """Starts averaging a gradient over the group; the input stays as it is.

    Arguments:
        tensor: float32, float16 or bfloat16, of any shape. With fewer than two dimensions, or fewer bytes than
            `min_compress_bytes`, it is averaged exactly.
        name: the same on all ranks and in all steps: error feedback keeps the residual under it.
        op: "avg" or "sum".
        group: after compress_group(), or of the backend "hipress"; None: the default group.

    Returns a tensor of the same shape and type; its values are there after wait(). Raises InvalidArgument, Unsupported;
    Mismatch, on all ranks, if the ranks' tensors of this name differ.
    """
    name_of = _name(group)
    made: torch.Tensor = torch.ops.hipress.all_reduce(tensor, op, name_of, [name], [tensor.numel()], [tensor.dim()])
    return made


def reduce_scatter(
    tensor: torch.Tensor, name: str, op: str = "avg", group: dist.ProcessGroup | None = None
) -> torch.Tensor:
    """Starts averaging a gradient of which each rank gets its part of the first dimension, in rank order.

    Arguments: as of all_reduce(). The first dimension is a multiple of the number of ranks, and the codec has no error
    feedback (otherwise Unsupported).
    """
    made: torch.Tensor = torch.ops.hipress.reduce_scatter(tensor, op, _size(group), _name(group), name)
    return made


def all_gather(tensor: torch.Tensor, name: str, group: dist.ProcessGroup | None = None) -> torch.Tensor:
    """Starts gathering all ranks' shards along the first dimension, in rank order. All ranks, also the shard's own one,
    get the decoded values.

    Arguments: as of all_reduce(). The codec has no error feedback (otherwise Unsupported).
    """
    made: torch.Tensor = torch.ops.hipress.all_gather(tensor, _size(group), _name(group), name)
    return made


def wait(tensor: torch.Tensor) -> torch.Tensor:
    """Waits for what one of these functions has returned; returns the tensor with its values. Raises what made the
    collective fail."""
    waited: torch.Tensor = functional_collectives().wait_tensor(tensor)
    return waited


def _chosen(group: dist.ProcessGroup | None) -> dist.ProcessGroup:
    chosen = dist.group.WORLD if group is None else group
    if chosen is None:
        raise InvalidArgument("there is no process group: call torch.distributed.init_process_group() first")
    return chosen


def _name(group: dist.ProcessGroup | None) -> str:
    return _chosen(group).group_name


def _size(group: dist.ProcessGroup | None) -> int:
    return _chosen(group).size()
