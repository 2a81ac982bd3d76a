# SPDX-License-Identifier: Apache-2.0
"""A small model, and its batches, loss and gradients for tests."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import keras
import numpy as np
import tensorflow as tf


def mlp(seed: int = 0, hidden: int = 300) -> Any:
    """A classifier of 16 features into 4 classes; `hidden` sets the size of its largest gradient."""
    keras.utils.set_random_seed(seed)
    layers = [keras.layers.Dense(n, activation="relu") for n in (hidden, hidden)]
    return keras.Sequential([keras.Input((16,)), *layers, keras.layers.Dense(4)])


def batch(rank: int, step: int, size: int = 8) -> tuple[Any, Any]:
    """A rank's own samples of a step; their labels come from a fixed linear problem."""
    inputs = np.random.default_rng(1000 * step + rank).standard_normal((size, 16), np.float32)
    weights = np.random.default_rng(7).standard_normal((16, 4))
    return tf.constant(inputs), tf.constant((inputs @ weights).argmax(1))


def loss(model: Any, inputs: Any, labels: Any) -> Any:
    return tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(labels, model(inputs), from_logits=True))


def local_average(size: int, step: int, model: Any) -> list[Any]:
    """The average of all ranks' gradients, computed by one process."""
    with tf.GradientTape() as tape:
        total = sum(loss(model, *batch(rank, step)) for rank in range(size)) / size
    return tape.gradient(total, model.trainable_variables)


def fingerprint(variables: Iterable[Any]) -> str:
    digest = hashlib.sha256()
    for variable in variables:
        digest.update(np.asarray(variable).tobytes())
    return digest.hexdigest()
