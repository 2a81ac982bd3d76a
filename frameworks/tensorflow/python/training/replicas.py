# SPDX-License-Identifier: Apache-2.0
"""Checks that all ranks have the same bytes in every variable (HIPRESS_CHECK_REPLICAS)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from hipress.adapter.process_sets import ProcessSet, global_process_set
from hipress.adapter.replicas import check_replicas
from hipress.tensorflow.training.synchronizer import names_of


def check_replicas_every(
    interval: int, steps: Any, variables: Sequence[Any], process_set: ProcessSet = global_process_set
) -> None:
    """Calls hipress.adapter.replicas.check_replicas() if `steps` is a multiple of `interval` (0: never)."""
    if not interval:
        return
    names = names_of(variables)
    if tf.executing_eagerly():  # an operator would replace the type of the error
        if int(tf.convert_to_tensor(steps)) % interval == 0:
            values = (tf.convert_to_tensor(each).numpy() for each in variables)
            check_replicas(zip(names, values, strict=True), int(tf.convert_to_tensor(steps)), process_set)
        return

    def compare(step: tf.Tensor, *values: tf.Tensor) -> tf.Tensor:
        check_replicas(zip(names, (value.numpy() for value in values), strict=True), int(step), process_set)
        return tf.constant(True)

    def check() -> tf.Tensor:
        return tf.py_function(compare, [steps, *map(tf.convert_to_tensor, variables)], tf.bool)

    tf.cond(tf.equal(tf.convert_to_tensor(steps) % interval, 0), check, lambda: tf.constant(True))
