# SPDX-License-Identifier: Apache-2.0
"""Normalisation with the statistics of all ranks' batches, and its derivative, in which all ranks take part."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch.nn import functional

from hipress.adapter.process_sets import ProcessSet
from hipress.adapter.reduce_ops import Sum
from hipress.errors import Unsupported
from hipress.torch.collectives import allreduce_async_
from hipress.torch.layers.batch_statistics import BatchStatistics, by_channel


def normalised(
    values: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    statistics: BatchStatistics,
    eps: float,
    name: str,
    process_set: ProcessSet,
) -> torch.Tensor:
    """(values − mean) / √(variance + eps) · weight + bias. The statistics depend on the values, and so does the
    derivative, an exchange with this name.
    """
    result = _Normalised.apply(values, weight, bias, statistics, eps, name, process_set)  # type: ignore[no-untyped-call]
    return cast("torch.Tensor", result)


class _Normalised(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        values: torch.Tensor,
        weight: torch.Tensor | None,
        bias: torch.Tensor | None,
        statistics: BatchStatistics,
        eps: float,
        name: str,
        process_set: ProcessSet,
    ) -> torch.Tensor:
        mean, variance = statistics.mean, statistics.variance
        ctx.save_for_backward(values, weight, mean, (variance.double() + eps).rsqrt().to(mean.dtype))
        ctx.count, ctx.name, ctx.process_set = statistics.count, name, process_set
        if values.numel() == 0:
            return torch.empty_like(values)
        # The kernel takes parameters in the type of the statistics only.
        factor, term = (None if each is None else each.to(mean.dtype) for each in (weight, bias))
        return functional.batch_norm(values, mean, variance, factor, term, eps=eps)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        saved = values, weight, *_ = ctx.saved_tensors  # once, as activation checkpointing demands
        with torch.no_grad():
            gradients: list[Any] = list(_gradients(ctx, gradient, *saved))
        if torch.is_grad_enabled():
            gradients = [
                each if each is None else _NotDifferentiable.apply(each, gradient, values, weight)  # type: ignore[no-untyped-call]
                for each in gradients
            ]
        return (*gradients, None, None, None, None)


class _NotDifferentiable(torch.autograd.Function):
    """The first argument, which depends on the others."""

    @staticmethod
    def forward(ctx: Any, result: torch.Tensor, *arguments: torch.Tensor | None) -> torch.Tensor:
        return result.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> None:
        raise Unsupported(
            "SyncBatchNorm has no second derivative: leave it out of what create_graph=True differentiates, or use the "
            "framework's BatchNorm"
        )


def _gradients(
    ctx: Any,
    gradient: torch.Tensor,
    values: torch.Tensor,
    weight: torch.Tensor | None,
    mean: torch.Tensor,
    inverse_deviation: torch.Tensor,
) -> tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]:
    """Of the values, the weight and the bias. Those of the parameters are this rank's alone."""
    gradient = gradient.contiguous(memory_format=_memory_format(values))
    of_weight, of_bias = _sums(gradient, values, mean, inverse_deviation)
    of_values = None
    if ctx.needs_input_grad[0]:
        sums = torch.cat([of_weight, of_bias])
        sums = allreduce_async_(sums, op=Sum, name=ctx.name, process_set=ctx.process_set).wait()
        of_values = _of_values(gradient, values, weight, mean, inverse_deviation, sums.div_(max(ctx.count, 1)))
    _, needs_weight, needs_bias = ctx.needs_input_grad[:3]
    return of_values, of_weight if needs_weight else None, of_bias if needs_bias else None


def _memory_format(values: torch.Tensor) -> torch.memory_format:
    if not values.is_contiguous():
        for dimensions, kind in ((4, torch.channels_last), (5, torch.channels_last_3d)):
            if values.dim() == dimensions and values.is_contiguous(memory_format=kind):
                return kind
    return torch.contiguous_format


def _sums(
    gradient: torch.Tensor, values: torch.Tensor, mean: torch.Tensor, inverse_deviation: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """By channel, of this rank's batch: the sum of gradient · normalised value, and the sum of gradient."""
    if values.numel() == 0:
        return torch.zeros_like(mean), torch.zeros_like(mean)
    # A kernel for the three passes over memory, in which a weight gives the result its element type.
    _, products, plain = torch.ops.aten.native_batch_norm_backward(
        gradient,
        values,
        torch.ones_like(mean),
        None,
        None,
        mean,
        inverse_deviation,
        True,
        0.0,
        [False, True, True],
    )
    return products, plain


def _of_values(
    gradient: torch.Tensor,
    values: torch.Tensor,
    weight: torch.Tensor | None,
    mean: torch.Tensor,
    inverse_deviation: torch.Tensor,
    averages: torch.Tensor,
) -> torch.Tensor:
    """(gradient − its average − normalised value · average of the products) · weight / deviation."""
    of_products, of_gradient = averages.chunk(2)
    scale = inverse_deviation if weight is None else inverse_deviation * weight.to(mean.dtype)
    result = values.to(mean.dtype) - by_channel(mean, values)
    result.mul_(by_channel(-of_products * inverse_deviation * scale, values))
    result.sub_(by_channel(of_gradient * scale, values))
    result.addcmul_(gradient.to(mean.dtype), by_channel(scale, values))
    return result.to(values.dtype)
