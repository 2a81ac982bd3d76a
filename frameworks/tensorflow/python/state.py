# SPDX-License-Identifier: Apache-2.0
"""Starting all ranks from one rank's state: variables, any object."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from hipress import runtime
from hipress.errors import InvalidArgument
from hipress.tensorflow import operators
from hipress.tensorflow.collectives import broadcast
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


def broadcast_object(value: Any = None, root_rank: int = 0, name: str | None = None) -> Any:
    """Rank `root_rank`'s `value`, on every rank; anything that pickle takes. Other ranks' `value` is ignored."""
    label = name or "object"
    is_root = runtime.rank() == root_rank
    payload = np.frombuffer(pickle.dumps(value), np.uint8) if is_root else None
    with tf.init_scope():
        size = broadcast(tf.constant([0 if payload is None else payload.size], tf.int64), root_rank, f"{label}.size")
        if payload is None:
            payload = np.empty(int(size[0]), np.uint8)
        received = broadcast(tf.constant(payload), root_rank, f"{label}.bytes")
    return value if is_root else pickle.loads(received.numpy().tobytes())


def broadcast_object_fn(root_rank: int = 0, name: str | None = None) -> Any:
    """A function that broadcasts what it is given, as broadcast_object()."""
    return lambda value=None: broadcast_object(value, root_rank, name)
