# SPDX-License-Identifier: Apache-2.0
"""join() in TensorFlow: ranks with fewer batches wait, and the others go on."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import hipress.tensorflow as hp
from hipress.errors import Unsupported
from tests.tensorflow.ranks import outcomes, run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def _first(first: int) -> tuple[int, list[float]]:
    hp.init()
    averages = []
    if hp.rank() != first:
        for step in range(3):
            averages.append(float(hp.allreduce(tf.fill([100], 3.0 + step), name=f"step {step}")[0]))
    last = hp.join()
    assert last.dtype == tf.int32
    assert int(last) != first
    return int(last), averages


@pytest.mark.parametrize("first", [0, 2])
def test_a_joined_rank_counts_as_zeros(first: int) -> None:
    results = run(_first, 3, first)
    assert len({last for last, _ in results}) == 1
    for rank, (_, averages) in enumerate(results):
        assert averages == ([] if rank == first else pytest.approx([2.0, 8 / 3, 10 / 3]))


def _epochs(way: str) -> tuple[list[bytes], list[int]]:
    """Ranks with other numbers of batches in each epoch."""
    hp.init(check_replicas=0)
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input([40]), keras.layers.Dense(70, activation="relu"), keras.layers.Dense(3)])
    optimizer: Any = keras.optimizers.SGD(0.1)
    if way != "tape":
        optimizer = hp.DistributedOptimizer(optimizer, codec="onebit", min_compress_bytes=64)

    def step(inputs: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(inputs, training=True)))
        if way == "tape":
            tape = hp.DistributedGradientTape(tape, codec="onebit", min_compress_bytes=64)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))

    taken = tf.function(step) if way == "graph" else step
    replicas, lasts = [], []
    for epoch in range(3):
        for batch in range(3 + (hp.rank() + epoch) % 3):
            generator = np.random.default_rng([epoch, batch, hp.rank()])
            taken(tf.constant(generator.standard_normal((5, 40)), tf.float32))
        lasts.append(int(hp.join()))
        hp.broadcast_variables(model.variables, root_rank=lasts[-1])
        replicas.append(b"".join(each.tobytes() for each in model.get_weights()))
    return replicas, lasts


@pytest.mark.parametrize("way", ["eager", "graph", "tape"])
def test_epochs_of_different_lengths_with_one_optimizer(way: str) -> None:
    first, second, third = run(_epochs, 3, way)
    assert first == second == third
    assert first[1] == [2, 1, 0]


def _in_a_graph() -> None:
    hp.init()
    tf.function(hp.join)()


def test_in_a_graph_it_is_refused() -> None:
    (error,) = outcomes(_in_a_graph, 1)
    assert isinstance(error, Unsupported)
    assert "outside of tf.function" in str(error)
