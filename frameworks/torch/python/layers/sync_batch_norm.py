# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation over the batches of all ranks, with Horovod's name and meaning."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from hipress.adapter.operation_names import operation_name
from hipress.adapter.process_sets import ProcessSet, global_process_set
from hipress.errors import InvalidArgument, Unsupported
from hipress.torch.installed.private_names import _BatchNorm, not_compiled
from hipress.torch.layers.batch_statistics import BatchStatistics, over_all_ranks
from hipress.torch.layers.normalisation import normalised
from hipress.torch.operators import check_is_tensor

_TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation whose statistics, in training, are of the batches of all ranks.

    It computes what torch's BatchNorm computes in one process for the concatenated batch: output, running statistics
    and gradient of the input. Gradients of weight and bias are of this rank's batch; DistributedOptimizer averages
    them. Ranks may have batches of different sizes, also without rows. All ranks must run their layers in one order.
    In evaluation, and where the set has one rank, it is torch's BatchNorm and sends nothing.

    Each forward pass has one allgather, each backward pass one allreduce, uncompressed. A second derivative raises
    Unsupported.

    Arguments:
        num_features: number of channels, dimension 1 of the input. The input has two dimensions or more.
        eps: is added to the variance.
        momentum: the new batch's part in running statistics. None: they are the averages of all batches.
        affine: whether the layer learns a weight and a bias.
        track_running_stats: whether to keep running statistics, for evaluation. Without them evaluation uses this
            rank's own batch.
        process_set: the ranks with whose batches the layer normalises.
        device, dtype: those of the parameters.

    Calls raise InvalidArgument (shape of the input; one value per channel in all batches together), Unsupported (the
    input's element type), Mismatch (ranks with different numbers of channels), NotInitialized, PeerLost, Timeout.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_set: ProcessSet = global_process_set,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device=device, dtype=dtype)
        # A copy of a model copies its sets, too, but all ranks are one object in a process.
        self._some_ranks = None if process_set is global_process_set else process_set

    @property
    def process_set(self) -> ProcessSet:
        """The ranks with whose batches the layer normalises."""
        return global_process_set if self._some_ranks is None else self._some_ranks

    @classmethod
    def convert_sync_batchnorm(cls, module: nn.Module, process_set: ProcessSet = global_process_set) -> nn.Module:
        """The module with a SyncBatchNorm in place of each batch normalisation of torch in it, with the same parameters
        and running statistics.

        Call it before the optimizer is made, and use what it returns: `module` itself may be a batch normalisation.
        """
        converted = cls._in_place_of(module, process_set) if isinstance(module, _BatchNorm) else module
        for name, child in module.named_children():
            converted.add_module(name, cls.convert_sync_batchnorm(child, process_set))
        return converted

    @classmethod
    def _in_place_of(cls, module: _BatchNorm, process_set: ProcessSet) -> SyncBatchNorm:
        # On the device "meta" the parameters that are replaced take no memory.
        made = cls(
            module.num_features,
            module.eps,
            module.momentum,
            module.affine,
            module.track_running_stats,
            process_set,
            device="meta",
        )
        for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
            setattr(made, name, getattr(module, name))
        return made.train(module.training)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """The normalised input."""
        self._check(input)
        updates = self.training and self.track_running_stats and self.running_mean is not None
        if self.training and self.process_set.size() > 1:
            return self._synchronised(input, updates=updates)
        share = self._next_share() if updates else 0.0
        kept = (self.running_mean, self.running_var) if updates or not self.training else (None, None)
        return functional.batch_norm(
            input, *kept, self.weight, self.bias, self.training or self.running_mean is None, share, self.eps
        )

    def _check(self, given: torch.Tensor) -> None:
        check_is_tensor(given, "SyncBatchNorm")
        if given.dtype not in _TYPES:
            raise Unsupported(
                f"SyncBatchNorm's input has elements of type {given.dtype}: convert it to float32, float64, float16 or "
                "bfloat16"
            )
        if given.dim() < 2:
            raise InvalidArgument(
                f"SyncBatchNorm's input has shape {tuple(given.shape)}: expected at least two dimensions, rows and "
                "channels"
            )
        if given.shape[1] != self.num_features:
            raise InvalidArgument(
                f"SyncBatchNorm's input has shape {tuple(given.shape)}, so {given.shape[1]} channels: the layer has "
                f"num_features={self.num_features}"
            )

    @not_compiled
    def _synchronised(self, values: torch.Tensor, *, updates: bool) -> torch.Tensor:
        # All ranks run forward in one order. autograd runs backward in an order that may differ between ranks, perhaps
        # in another thread, so the derivative has its name from here.
        name = f"{operation_name('allgather', None, self.process_set)} of SyncBatchNorm"
        statistics = over_all_ranks(values.detach(), name, self.process_set)
        if statistics.count == 1:
            raise InvalidArgument(
                f"Expected more than 1 value per channel when training, got input size {tuple(values.shape)}, and no "
                "values on other ranks"
            )
        if updates:
            self._update(statistics)
        return normalised(values, self.weight, self.bias, statistics, self.eps, f"{name}.gradient", self.process_set)

    def _next_share(self) -> float:
        """The part of the batch that comes now in the running statistics; counts the batch."""
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
        if self.momentum is not None:
            return self.momentum
        return 1.0 / float(self.num_batches_tracked or 1)

    def _update(self, statistics: BatchStatistics) -> None:
        share = self._next_share()
        if statistics.count == 0 or self.running_mean is None or self.running_var is None:
            return
        unbiased = statistics.variance * (statistics.count / (statistics.count - 1))
        with torch.no_grad():
            self.running_mean.mul_(1 - share).add_(statistics.mean, alpha=share)
            self.running_var.mul_(1 - share).add_(unbiased, alpha=share)
