# SPDX-License-Identifier: Apache-2.0
"""Mean and variance of each channel over the batches of all ranks."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from hipress.adapter.process_sets import ProcessSet
from hipress.torch.collectives import allgather_async


@dataclass(frozen=True)
class BatchStatistics:
    """What a normalisation needs of a batch. Every rank has the same."""

    #: Number of values of each channel.
    count: int
    #: By channel, in `statistics_type()` and on the batch's device.
    mean: torch.Tensor
    #: Sum of the squares of the distances from the mean, divided by the number of values.
    variance: torch.Tensor


def statistics_type(values: torch.Tensor) -> torch.dtype:
    """The element type of statistics, and of sums over a batch."""
    return torch.float64 if values.dtype == torch.float64 else torch.float32


def over_all_ranks(values: torch.Tensor, name: str, process_set: ProcessSet) -> BatchStatistics:
    """The statistics of the batches of all ranks, of which this rank's is `values`, with channels in dimension 1. It
    may have no rows. `name`: of the exchange, the same on all ranks."""
    # The rows are small, and the engine gathers them in host memory: combined there, they need no kernels, and a GPU's
    # stream is waited for once.
    rows = allgather_async(_row(values), name, process_set).wait()
    channels = values.shape[1]
    counts, means, squares = rows[:, :1], rows[:, 1 : 1 + channels], rows[:, 1 + channels :]
    total = counts.sum()
    # Distances from the mean: a difference of two large squares would lose all digits of a small variance.
    mean = (counts * means).sum(0) / total
    variance = (squares + counts * (means - mean).square()).sum(0) / total
    kind = statistics_type(values)
    return BatchStatistics(int(total), mean.to(values.device, kind), variance.to(values.device, kind))


def _row(values: torch.Tensor) -> torch.Tensor:
    """This rank's count, means and sums of squared distances, as a row in float64, which has every count exactly."""
    count, channels = values[:, :1].numel(), values.shape[1]
    if count == 0:
        # A mean of nothing would be NaN.
        return torch.zeros(1, 1 + 2 * channels, dtype=torch.float64)
    mean, variance = _own(values)
    row = torch.cat([mean, variance]).to("cpu", torch.float64)
    row[channels:] *= count
    return torch.cat([row.new_tensor([count]), row]).unsqueeze(0)


def _own(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and variance of this rank's batch."""
    kind = statistics_type(values)
    zeros = values.new_zeros(values.shape[1], dtype=kind)
    if not values.is_cpu or values.is_contiguous():
        # Beside running statistics in float32, those of 16-bit values are in float32, too.
        return torch.batch_norm_update_stats(values, zeros, zeros.clone(), 0.0)
    # In other memory orders the processor adds up in float32 from the first to the last row, which a large mean harms.
    # Distances from one of the values have no large mean.
    first = values[:1].flatten(2)[0, :, 0] if values.dim() > 2 else values[0]
    first = first.to(kind)
    distances = values.to(kind) - by_channel(first, values)
    mean, variance = torch.batch_norm_update_stats(distances, zeros, zeros.clone(), 0.0)
    return first.double() + mean, variance.double()


def by_channel(vector: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """A view of the vector, which has an element for each channel, in a shape that broadcasts to that of `values`."""
    return vector.view(-1, *[1] * (values.dim() - 2))
