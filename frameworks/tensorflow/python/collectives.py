# SPDX-License-Identifier: Apache-2.0
"""Collective operations on single tensors, with Horovod's names and meaning; eagerly, in tf.function and in graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from hipress import reduce_ops, runtime
from hipress._library import load_core
from hipress.errors import InvalidArgument
from hipress.reduce_ops import ReduceOp
from hipress.tensorflow import operators
from hipress.tensorflow.traced import as_written


def _names(kind: str, name: str | None, count: int, *, grouped: bool) -> list[str]:
    # Unnamed operations are matched by the order in which each rank calls (or traces) them, as in Horovod.
    full_name = f"{kind}.{name}" if name else runtime.current().numbered(f"{kind}.unnamed")
    return [f"{full_name}.{index}" for index in range(count)] if grouped else [full_name]


def _tensors(values: Sequence[Any], names: Sequence[str]) -> list[tf.Tensor]:
    tensors = [tf.convert_to_tensor(value) for value in values]
    for tensor, name in zip(tensors, names, strict=True):
        operators.check_dtype(tensor.dtype, name)
    return tensors


def _allreduce(values: Sequence[Any], names: list[str], reduction: str, options: dict[str, Any]) -> list[tf.Tensor]:
    """Combined values, with a derivative: the combination of the ranks' derivatives."""
    tensors = _tensors(values, names)

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def combine(*inputs: tf.Tensor) -> tuple[list[tf.Tensor], Any]:
        outputs = operators.allreduce(names, inputs, reduction=reduction, **options)

        def gradient(*upstream: tf.Tensor) -> list[tf.Tensor]:
            return _allreduce(upstream, [f"{name}.gradient" for name in names], reduction, options)

        return outputs, gradient

    result: list[tf.Tensor] = tf.nest.flatten(combine(*tensors))
    return result


def _checked(
    name: str | None, average: bool | None, op: ReduceOp | None, codec: str, options: dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    if name is None and codec != "none" and load_core().create_codec(codec).states:
        raise InvalidArgument(
            f"codec {codec} keeps for each tensor what it dropped, to send it later: give the tensor a name"
        )
    return reduce_ops.chosen(op, average).name, {"codec": codec, **options}


@as_written
def allreduce(
    tensor: Any,
    average: bool | None = None,
    name: str | None = None,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    *,
    codec: str = "none",
    topology: str = "ps",
    partitions: int = 0,
) -> Any:
    """The combination of all ranks' `tensor`; differentiable.

    Every rank calls it with the same name, shape, dtype and options; unnamed calls are matched by their order. `codec`
    is what travels, e.g. "fp16" or "onebit"; biased codecs need a name, under which they remember what they dropped.

    Raises InvalidArgument, Unsupported, Mismatch, DuplicateName, PeerLost, Timeout, NotInitialized. In a tf.function
    these come as TensorFlow's errors; see own_error().
    """
    options = {
        "topology": topology,
        "partitions": partitions,
        "prescale_factor": prescale_factor,
        "postscale_factor": postscale_factor,
    }
    reduction, options = _checked(name, average, op, codec, options)
    return _allreduce([tensor], _names("allreduce", name, 1, grouped=False), reduction, options)[0]


@as_written
def grouped_allreduce(
    tensors: Sequence[Any],
    average: bool | None = None,
    name: str | None = None,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    *,
    codec: str = "none",
    topology: str = "ps",
    partitions: int = 0,
) -> list[Any]:
    """allreduce() of several tensors, which travel together."""
    if not tensors:
        return []
    options = {
        "topology": topology,
        "partitions": partitions,
        "prescale_factor": prescale_factor,
        "postscale_factor": postscale_factor,
    }
    reduction, options = _checked(name, average, op, codec, options)
    return _allreduce(tensors, _names("allreduce", name, len(tensors), grouped=True), reduction, options)


@as_written
def broadcast(tensor: Any, root_rank: int, name: str | None = None) -> tf.Tensor:
    """Rank `root_rank`'s values, on every rank; differentiable: the derivative is the sum of all, on that rank."""
    names = _names("broadcast", name, 1, grouped=False)

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def send(value: tf.Tensor) -> tuple[tf.Tensor, Any]:
        (output,) = operators.broadcast(names, [value], root_rank)

        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            (summed,) = _allreduce(
                [upstream],
                [f"{names[0]}.gradient"],
                "sum",
                {"codec": "none", "prescale_factor": 1.0, "postscale_factor": 1.0},
            )
            return summed if runtime.rank() == root_rank else tf.zeros_like(summed)

        return output, gradient

    return send(*_tensors([tensor], names))
