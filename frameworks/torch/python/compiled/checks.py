# SPDX-License-Identifier: Apache-2.0
"""What the compressed collectives of graphs take."""

from __future__ import annotations

import torch
import torch.distributed as dist

from hipress.errors import InvalidArgument, Unsupported
from hipress.torch.process_groups.dtypes import TensorShape

#: What codecs, which take float32, can represent.
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
OPERATIONS = {"sum": dist.ReduceOp.SUM, "avg": dist.ReduceOp.AVG}


def check_operation(op: str, what: str) -> None:
    """Raises Unsupported for a reduction that is no sum or average."""
    if op not in OPERATIONS:
        raise Unsupported(
            f"{what} combines values by '{op}', and codecs are for sums and averages ('sum', 'avg'): leave it to "
            "torch's own operator"
        )


def check_dtype(name: str, tensor: torch.Tensor) -> None:
    """Raises InvalidArgument for elements that codecs do not take."""
    if tensor.dtype not in DTYPES:
        raise InvalidArgument(
            f"tensor '{name}' has elements of type {tensor.dtype}; codecs take float32, float16 and bfloat16: leave it "
            "to torch's own operator, or convert it before"
        )


def shard_shape(tensor: torch.Tensor, world: int) -> TensorShape:
    """Of one rank's shard of a tensor. Raises InvalidArgument if the ranks cannot have equal ones."""
    if tensor.dim() == 0 or tensor.shape[0] % world:
        raise InvalidArgument(
            f"a tensor of shape {tuple(tensor.shape)} has no equal shards for {world} ranks: its first dimension must "
            "be a multiple of the number of ranks"
        )
    return TensorShape(tensor.numel() // world, tensor.dtype, tensor.dim())
