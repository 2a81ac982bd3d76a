# SPDX-License-Identifier: Apache-2.0
"""Mean and variance of each channel over the batches of all ranks, with their derivative."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from hipress.adapter.operation_names import operation_name
from hipress.adapter.process_sets import ProcessSet
from hipress.adapter.reduce_ops import Sum
from hipress.errors import Unsupported
from hipress.tensorflow import collectives, graph_names
from hipress.tensorflow.traced import as_written


@as_written
def moments_over_all_ranks(
    values: Any, axes: Sequence[int], mask: Any, process_set: ProcessSet
) -> tuple[tf.Tensor, tf.Tensor]:
    """Mean and variance over `axes` of the batches of all ranks, of which this rank's is `values`, as tensors with all
    dimensions of `values`. The batch may have no rows.

    `mask`: true where a value counts; None: everywhere. It broadcasts to `values`.
    """
    name = _name(process_set)

    def forward(given: Any) -> tuple[Any, Any]:
        rows = collectives.allgather(_row(given, axes, mask), name=name, process_set=process_set)
        count, *results = _combined(rows, given.dtype, [1 if axis in axes else size for axis, size in _sizes(given)])
        mean, variance = results

        def backward(of_mean: Any, of_variance: Any) -> Any:
            # A value changes the mean of all ranks, so its derivative has the derivatives of all of them.
            sums = collectives.allreduce(
                tf.stack([of_mean, of_variance]), op=Sum, name=f"{name}.gradient", process_set=process_set
            )
            result = _counted((sums[0] + 2 * sums[1] * (given - mean)) / tf.cast(count, given.dtype), mask)
            return _not_differentiable(result, given, of_mean, of_variance)

        return (mean, variance), backward

    mean, variance = tf.custom_gradient(forward)(values)
    return mean, variance


def _name(process_set: ProcessSet) -> str:
    """The name of the exchange in forward. All ranks run forward, or trace it, in one order."""
    eager = tf.executing_eagerly()
    number = (
        operation_name("allgather", None, process_set, foreign_threads=False)
        if eager
        else process_set.named(graph_names.unnamed())
    )
    (name,) = graph_names.own_names([f"{number} of SyncBatchNormalization"])
    return name


def _sizes(values: Any) -> Any:
    return enumerate(tf.unstack(tf.shape(values)))


def _counted(values: Any, mask: Any) -> Any:
    return values if mask is None else tf.where(mask, values, tf.zeros([], values.dtype))


def _row(values: Any, axes: Sequence[int], mask: Any) -> Any:
    """This rank's count, means and sums of squared distances, as a row in float64, which has every count exactly."""
    if mask is None:
        count = tf.cast(tf.reduce_prod([size for axis, size in _sizes(values) if axis in axes]), tf.float64)
    else:
        count = tf.reduce_sum(tf.cast(mask, tf.float64))
    divisor = tf.maximum(count, 1)
    mean = tf.reduce_sum(_counted(values, mask), axes, keepdims=True) / tf.cast(divisor, values.dtype)
    distances = _counted(values - mean, mask)
    # The rounding of the mean: distances from it do not add up to zero.
    rest = tf.cast(tf.reduce_sum(distances, axes), tf.float64) / divisor
    squares = tf.cast(tf.reduce_sum(tf.square(distances), axes), tf.float64) - divisor * tf.square(rest)
    means = tf.cast(tf.squeeze(mean, axes), tf.float64) + rest
    row = tf.concat([[count], tf.reshape(means, [-1]), tf.reshape(squares, [-1])], 0)
    return row[tf.newaxis]


def _combined(rows: Any, dtype: Any, shape: Any) -> tuple[Any, Any, Any]:
    """The number of all values, and mean and variance in this type and shape, from the rows of all ranks."""
    counts = rows[:, :1]
    means, squares = tf.split(rows[:, 1:], 2, axis=1)
    total = tf.maximum(tf.reduce_sum(counts), 1)
    # Distances from the mean: a difference of two large squares would lose all digits of a small variance.
    mean = tf.reduce_sum(counts * means, 0) / total
    variance = tf.reduce_sum(squares + counts * tf.square(means - mean), 0) / total
    return total, *(tf.reshape(tf.cast(each, dtype), shape) for each in (mean, variance))


@tf.custom_gradient  # type: ignore[untyped-decorator]
def _not_differentiable(result: Any, *arguments: Any) -> tuple[Any, Any]:
    """The result, which depends on the arguments."""

    def backward(*gradients: Any) -> Any:
        raise Unsupported(
            "SyncBatchNormalization has no second derivative: leave it out of what an outer tape differentiates, "
            "or use the framework's BatchNormalization"
        )

    return tf.identity(result), backward
