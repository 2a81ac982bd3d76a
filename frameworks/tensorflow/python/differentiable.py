# SPDX-License-Identifier: Apache-2.0
"""Collective operations on lists of tensors, with Horovod's derivatives.

In a graph, operators and their derivatives run in any order, so each has its own names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from hipress import runtime
from hipress.adapter.process_sets import ProcessSet
from hipress.tensorflow import operators
from hipress.tensorflow.graph_names import own_names

_Names = Sequence[str]
_Tensors = Sequence[Any]
_ONE = (1.0, 1.0)


def _differentiable(forward: Any, tensors: _Tensors) -> list[Any]:
    """The results of `forward(*tensors)`, which also returns the function that maps their gradients to the tensors'
    gradients.
    """
    results: list[Any] = tf.nest.flatten(tf.custom_gradient(forward)(*tensors))
    return results


@tf.custom_gradient  # type: ignore[untyped-decorator]
def _zeros_after(tensor: Any) -> tuple[Any, Any]:
    """Zeros like the tensor, which depend on the tensor, also in derivatives of any order. Without this dependency, a
    Session would not compute the tensor, and the other ranks would wait for this rank.
    """
    with tf.control_dependencies(None if tf.executing_eagerly() else [tensor]):
        return tf.zeros_like(tensor), _zeros_after


def _of_gradients(names: _Names) -> list[str]:
    return [f"{name}.gradient" for name in names]


def allreduce(
    names: _Names, tensors: _Tensors, factors: tuple[float, float], process_set: ProcessSet, **options: Any
) -> list[Any]:
    """The derivative of an all-reduce is the all-reduce of the derivative."""
    names = own_names(names)

    def forward(*inputs: Any) -> tuple[list[Any], Any]:
        outputs = operators.reduced("allreduce", names, inputs, factors, process_set, **options)
        return outputs, lambda *gradients: allreduce(_of_gradients(names), gradients, factors, process_set, **options)

    return _differentiable(forward, tensors)


def _average(names: _Names, gradients: _Tensors, process_set: ProcessSet) -> list[Any]:
    return allreduce(_of_gradients(names), gradients, _ONE, process_set, reduction="average")


def broadcast(names: _Names, tensors: _Tensors, root_rank: int, process_set: ProcessSet) -> list[Any]:
    """A broadcast. In its derivative the root gets the average of all ranks' gradients, the other ranks get zeros."""
    names = own_names(names)

    def forward(*inputs: Any) -> tuple[list[Any], Any]:
        def backward(*gradients: Any) -> list[Any]:
            averages = _average(names, gradients, process_set)
            return averages if runtime.rank() == root_rank else [_zeros_after(average) for average in averages]

        return operators.broadcast(names, inputs, root_rank, process_set), backward

    return _differentiable(forward, tensors)


def allgather(names: _Names, tensors: _Tensors, process_set: ProcessSet) -> list[Any]:
    """An allgather. In its derivative a rank gets its own rows of the average of all ranks' gradients."""
    names = own_names(names)

    def forward(*inputs: Any) -> tuple[list[Any], Any]:
        gathered, rows = operators.allgather(names, inputs, process_set)

        def backward(*gradients: Any) -> list[Any]:
            rank = process_set.rank()
            firsts = [tf.reduce_sum(of_ranks[:rank]) for of_ranks in rows]
            return [
                average[first : first + of_ranks[rank]]
                for average, first, of_ranks in zip(_average(names, gradients, process_set), firsts, rows, strict=True)
            ]

        return gathered, backward

    return _differentiable(forward, tensors)


def alltoall(name: str, tensor: Any, splits: Any, process_set: ProcessSet) -> tuple[Any, Any]:
    """The received rows, and the number of rows of each rank. The gradient of a row goes back to its sender."""
    received: list[Any] = []
    (name,) = own_names([name])

    def forward(value: Any) -> tuple[Any, Any]:
        (output,), (rows,) = operators.alltoall([name], splits, [value], process_set)
        received.append(rows)
        return output, lambda gradient: alltoall(f"{name}.gradient", gradient, rows, process_set)[0]

    (result,) = _differentiable(forward, [tensor])
    return result, received[0]


def reducescatter(
    names: _Names,
    tensors: _Tensors,
    factors: tuple[float, float],
    process_set: ProcessSet,
    reduction: str,
    device: str,
) -> list[Any]:
    """A reducescatter. Its derivative gathers the gradients of all ranks' rows."""
    names = own_names(names)

    def forward(*inputs: Any) -> tuple[list[Any], Any]:
        def backward(*gradients: Any) -> list[Any]:
            factor = factors[0] * factors[1] * (process_set.size() if reduction == "sum" else 1)
            scaled = [gradient * tf.cast(factor, gradient.dtype) for gradient in gradients]
            return allgather(_of_gradients(names), scaled, process_set)

        how = {"reduction": reduction, "device": device}
        outputs = operators.reduced("reducescatter", names, inputs, factors, process_set, **how)
        return outputs, backward

    return _differentiable(forward, tensors)
