# SPDX-License-Identifier: Apache-2.0
"""backward_passes_per_step: each rank sums several gradients, and ranks combine the sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf


class Aggregation:
    """Sums `passes` gradients of each variable, and then passes on the sums or averages."""

    def __init__(self, passes: int, *, average: bool) -> None:
        self._passes = passes
        self._factor = 1.0 / passes if average else 1.0
        self._sums: dict[int, tf.Variable] = {}  # by the variable's position
        self._added: set[int] = set()  # eagerly: the variables with a gradient since the last step
        self._counted: tf.Variable | None = None

    def add(self, gradients: list[Any], variables: Sequence[Any], step: Callable[[Sequence[Any]], None]) -> None:
        """Adds gradients. Every `passes`-th call also calls `step` with the sums or averages, in graphs, too."""
        if self._passes == 1:
            step(gradients)
            return
        present = [index for index, gradient in enumerate(gradients) if gradient is not None]
        self._make_sums(present, variables)
        assert self._counted is not None
        counted = self._counted
        for index in present:
            self._sums[index].assign_add(tf.convert_to_tensor(gradients[index]))  # sparse gradients become dense
        counted.assign_add(1)
        if tf.executing_eagerly():
            self._added.update(present)
            present = sorted(self._added)

        def apply() -> tf.Tensor:
            sums: list[Any] = [None] * len(gradients)
            for index in present:
                sums[index] = self._sums[index] * tf.cast(self._factor, self._sums[index].dtype)
            step(sums)
            for index in present:
                self._sums[index].assign(tf.zeros_like(self._sums[index]))
            counted.assign(0)
            self._added.clear()
            return tf.constant(True)

        tf.cond(tf.equal(counted, self._passes), apply, lambda: tf.constant(False))

    def _make_sums(self, present: Sequence[int], variables: Sequence[Any]) -> None:
        with tf.init_scope():  # variables must live outside of the traced function
            if self._counted is None:
                self._counted = tf.Variable(0, dtype=tf.int64, trainable=False)
            for index in present:
                if index not in self._sums:
                    variable = variables[index]
                    zeros = tf.zeros(variable.shape, tf.as_dtype(variable.dtype))
                    self._sums[index] = tf.Variable(zeros, trainable=False)
