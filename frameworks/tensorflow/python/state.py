# SPDX-License-Identifier: Apache-2.0
"""Starting all ranks from one rank's variables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from hipress.errors import InvalidArgument
from hipress.objects import broadcast_object
from hipress.tensorflow import operators
from hipress.tensorflow.synchronizer import names_of
from hipress.tensorflow.traced import as_written


@as_written
def broadcast_variables(variables: Iterable[Any], root_rank: int) -> tf.Operation | None:
    """Gives every rank rank `root_rank`'s values of these variables, in place; every rank passes the same ones.

    In a graph (tf.compat.v1) it returns the operator that does so.
    """
    targets = [getattr(variable, "value", variable) if _is_keras(variable) else variable for variable in variables]
    targets = [target for target in targets if tf.as_dtype(target.dtype) in operators.DTYPES]
    if not targets:
        return None
    names = [f"variables.{name}" for name in names_of(targets)]
    values = operators.broadcast(names, [tf.convert_to_tensor(target) for target in targets], root_rank)
    assignments = [target.assign(value) for target, value in zip(targets, values, strict=True)]
    return None if tf.executing_eagerly() else tf.group(*assignments)


def _is_keras(variable: Any) -> bool:
    return not isinstance(variable, tf.Variable) and isinstance(getattr(variable, "value", None), tf.Variable)


def broadcast_global_variables(root_rank: int) -> tf.Operation | None:
    """broadcast_variables() of all global variables of the graph, for tf.compat.v1. Raises InvalidArgument eagerly."""
    if tf.executing_eagerly():
        raise InvalidArgument(
            "broadcast_global_variables() is for graphs; call broadcast_variables(model.variables, root_rank)"
        )
    return broadcast_variables(tf.compat.v1.global_variables(), root_rank)


def broadcast_object_fn(root_rank: int = 0, name: str | None = None) -> Callable[[Any], Any]:
    """A function that gives every rank what rank `root_rank` gives it; see broadcast_object()."""

    def broadcast(value: Any = None) -> Any:
        return broadcast_object(value, root_rank, name)

    return broadcast
