# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from hipress import process_sets, reduce_ops
from hipress.compression import Compression, codec_of
from hipress.errors import InvalidArgument
from hipress.process_sets import ProcessSet, global_process_set
from hipress.reduce_ops import Average, ReduceOp
from hipress.torch import optimizer as of_hipress


def DistributedOptimizer(  # noqa: N802  (Horovod's name)
    optimizer: torch.optim.Optimizer,
    named_parameters: Iterable[tuple[str, torch.nn.Parameter]] | None = None,
    compression: str = Compression.none,
    backward_passes_per_step: int = 1,
    op: ReduceOp = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: int | Sequence[Sequence[torch.Tensor]] | None = None,
    sparse_as_dense: bool = False,
    process_set: ProcessSet = global_process_set,
    *,
    codec: str = "none",
    topology: str = "ps",
    partitions: int = 0,
    min_compress_bytes: int = 4096,
    codec_for: Mapping[str, str] | None = None,
) -> Any:
    """hipress.torch.DistributedOptimizer with Horovod's arguments.

    Gradients are synchronised when `backward()` returns; `synchronize()` and `skip_synchronize()` may still be called.
    `num_groups` and `groups`, which say what Horovod is to send together, change nothing: small gradients for one rank
    go together anyhow, and the result is the same. The optimizer that is returned is the one that was given.

    Raises what hipress.torch.DistributedOptimizer does, and Unsupported for `op=Adasum` and other process sets.
    """
    process_sets.check(process_set)
    if num_groups < 0 or (isinstance(groups, int) and groups < 0):
        raise InvalidArgument(f"num_groups={num_groups}, groups={groups!r}: numbers of groups are 0 or more")
    return of_hipress.DistributedOptimizer(
        optimizer,
        named_parameters,
        codec=codec_of(compression, codec),
        topology=topology,
        partitions=partitions,
        min_compress_bytes=min_compress_bytes,
        codec_for=codec_for,
        backward_passes_per_step=backward_passes_per_step,
        op=reduce_ops.chosen(op),
        gradient_predivide_factor=gradient_predivide_factor,
        sparse_as_dense=sparse_as_dense,
    )
