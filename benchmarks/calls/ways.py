# SPDX-License-Identifier: Apache-2.0
"""The ways of calls.py. Each averages a list of tensors over all ranks, in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist

Average = Callable[[Sequence[torch.Tensor]], None]


def listed(tensors: Sequence[torch.Tensor]) -> Average:
    """As DistributedOptimizer does: ranks have agreed on the list before."""
    from hipress.adapter.synchronizer import SynchronizationOptions
    from hipress.torch.synchronizer import GradientSynchronizer

    named = [(f"listed {index}", tensor) for index, tensor in enumerate(tensors)]
    synchronizer = GradientSynchronizer(named, SynchronizationOptions(codec="none"))

    def average(given: Sequence[torch.Tensor]) -> None:
        handles = [synchronizer.submit(index, tensor) for index, tensor in enumerate(given)]
        for handle in handles:
            synchronizer.wait(handle)

    return average


def calls(_tensors: Sequence[torch.Tensor]) -> Average:
    """A named call for each tensor, and then a wait for each."""
    import hipress.torch as hp

    def average(given: Sequence[torch.Tensor]) -> None:
        started = [hp.allreduce_async_(tensor, name=f"called {index}") for index, tensor in enumerate(given)]
        for each in started:
            hp.synchronize(each)

    return average


def gloo(_tensors: Sequence[torch.Tensor]) -> Average:
    """The same calls of torch.distributed over Gloo."""

    def average(given: Sequence[torch.Tensor]) -> None:
        started = [dist.all_reduce(tensor, async_op=True) for tensor in given]
        for each in started:
            each.wait()
        for tensor in given:
            tensor /= dist.get_world_size()

    return average


#: By name.
WAYS: dict[str, Callable[[Sequence[torch.Tensor]], Average]] = {"list": listed, "calls": calls, "gloo": gloo}
