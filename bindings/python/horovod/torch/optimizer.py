# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer whose steps leave the same values in `.grad` as Horovod's."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec

from hipress.torch import optimizer as of_hipress
from hipress.torch.distributed_optimizer import DistributedTorchOptimizer

_P = ParamSpec("_P")


def _as_horovod_steps(
    distribute: Callable[_P, DistributedTorchOptimizer],
) -> Callable[_P, DistributedTorchOptimizer]:
    @functools.wraps(distribute, assigned=("__annotations__",))
    def DistributedOptimizer(*args: _P.args, **kwargs: _P.kwargs) -> DistributedTorchOptimizer:  # noqa: N802
        """hipress.torch.DistributedOptimizer whose steps leave the same values in `.grad` as Horovod's.

        These are zeros for parameters that no rank used and, with `sparse_as_dense`, sparse gradients for parameters
        whose own gradients were sparse. When `backward()` returns, gradients are synchronised; scripts may still call
        `synchronize()` and `skip_synchronize()`.
        """
        distributed = distribute(*args, **kwargs)
        distributed._hipress.follow_horovod()
        return distributed

    return DistributedOptimizer


DistributedOptimizer = _as_horovod_steps(of_hipress.DistributedOptimizer)
