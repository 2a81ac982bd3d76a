# SPDX-License-Identifier: Apache-2.0
"""Broadcasts one rank's variables and objects to all ranks at the start."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import tensorflow as tf

from hipress.adapter import objects
from hipress.adapter.process_sets import ProcessSet, check, global_process_set
from hipress.errors import InvalidArgument
from hipress.tensorflow import operators
from hipress.tensorflow.graph_names import own_names
from hipress.tensorflow.traced import as_written
from hipress.tensorflow.training.synchronizer import names_of

_Object = TypeVar("_Object")


@as_written
def broadcast_variables(
    variables: Iterable[Any], root_rank: int, process_set: ProcessSet = global_process_set, inplace: bool = False
) -> tf.Operation | None:
    """Gives every rank rank `root_rank`'s values of these variables, in place. Every rank passes the same variables.

    `inplace`, with which Horovod saves a copy, changes nothing. In a graph (tf.compat.v1) the function returns the
    operator that broadcasts. Raises Unsupported for a variable whose elements ranks cannot send, such as strings.
    """
    check(process_set)
    targets = [getattr(variable, "value", variable) if _is_keras(variable) else variable for variable in variables]
    if not targets:
        return None
    names = own_names([process_set.named(f"variables.{name}") for name in names_of(targets)])
    for name, target in zip(names, targets, strict=True):
        operators.check_dtype(tf.as_dtype(target.dtype), name, operators.MOVED)
    values = operators.broadcast(names, [tf.convert_to_tensor(target) for target in targets], root_rank, process_set)
    if tf.executing_eagerly():
        operators.forget_values()
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


def broadcast_object(
    obj: _Object | None = None,
    root_rank: int = 0,
    session: object = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> _Object:
    """Rank `root_rank`'s `obj`, on every rank. Other ranks' `obj` is ignored. No `session` is needed."""
    return objects.broadcast_object(obj, root_rank, name, process_set)


def allgather_object(
    obj: _Object, session: object = None, name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[_Object]:
    """The `obj` of every rank, by rank. No `session` is needed."""
    return objects.allgather_object(obj, name, process_set)


def broadcast_object_fn(
    root_rank: int = 0,
    session: object = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Callable[[Any], Any]:
    """A function of one argument that returns rank `root_rank`'s argument on every rank; see broadcast_object()."""

    def broadcast(obj: Any = None) -> Any:
        return broadcast_object(obj, root_rank, session, name, process_set)

    return broadcast
