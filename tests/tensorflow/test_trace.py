# SPDX-License-Identifier: Apache-2.0
"""A trace of HIPRESS_TRACE shows synchronisation inside backward in a tf.function."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

import hipress.tensorflow as hp
from tests.overlap import check_that_backward_overlaps
from tests.tensorflow.ranks import run

WORLD = 2


def _traced_steps() -> None:
    hp.init()
    # Backward releases the last layers' gradients first, and still computes the first layers' gradients.
    model = keras.Sequential([keras.Input((600,)), *(keras.layers.Dense(600) for _ in range(8))])
    hp.broadcast_variables(model.variables, root_rank=0)
    optimizer = hp.DistributedOptimizer(keras.optimizers.SGD(0.01), codec="onebit", partitions=2)

    @tf.function
    def step(inputs: Any) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(inputs)))
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)

    for _ in range(3):
        step(tf.random.normal((256, 600)))


def test_encoding_and_sending_happen_inside_backward(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    run(_traced_steps, WORLD, HIPRESS_TRACE=str(file))
    check_that_backward_overlaps(file, WORLD, 3)
