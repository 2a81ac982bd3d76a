# SPDX-License-Identifier: Apache-2.0
"""The check that all ranks hold the same bytes in every variable (HIPRESS_CHECK_REPLICAS)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from hipress import runtime
from hipress.errors import Mismatch
from hipress.tensorflow.synchronizer import names_of


def check_replicas(variables: Sequence[Any], step: int) -> None:
    """Compares each variable's hash with all other ranks'; every rank calls it after the same step.

    Raises Mismatch, on every rank, naming the first variable that differs and the ranks that hold it otherwise.
    """
    _compare([tf.convert_to_tensor(variable) for variable in variables], names_of(variables), step)


def check_replicas_every(interval: int, steps: Any, variables: Sequence[Any]) -> None:
    """check_replicas() whenever `steps` is a multiple of `interval` (0: never); in graphs, too."""
    if not interval:
        return
    names = names_of(variables)

    def check() -> tf.Tensor:
        def compare(step: tf.Tensor, *values: tf.Tensor) -> tf.Tensor:
            _compare(values, names, int(step))
            return tf.constant(True)

        return tf.py_function(compare, [steps, *map(tf.convert_to_tensor, variables)], tf.bool)

    tf.cond(tf.equal(tf.convert_to_tensor(steps) % interval, 0), check, lambda: tf.constant(True))


def _compare(values: Sequence[tf.Tensor], names: Sequence[str], step: int) -> None:
    digests = b"".join(hashlib.blake2b(value.numpy().tobytes(), digest_size=16).digest() for value in values)
    gathered = runtime.current().engine.allgather("replicas", digests)
    for index, name in enumerate(names):
        part = slice(16 * index, 16 * (index + 1))
        different = [rank for rank, digest in enumerate(gathered) if digest[part] != gathered[0][part]]
        if different:
            ranks = ", ".join(map(str, different))
            raise Mismatch(
                f"after step {step} variable '{name}' is not the same on all ranks: rank {ranks} and rank 0 differ. "
                "Broadcast the variables before training, and change them only through the optimizer"
            )
