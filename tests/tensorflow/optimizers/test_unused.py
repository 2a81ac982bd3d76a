# SPDX-License-Identifier: Apache-2.0
"""A variable that no rank used in a step sends nothing, and keeps its value and its residual."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import hipress.tensorflow as hp
from tests.tensorflow.ranks import run

_SIZE = 4096


def _steps(way: str, codec: str) -> tuple[list[dict[str, Any]], list[int], np.ndarray]:
    """The states after each step, the bytes that each step sent, and the changes of the variable b: the steps use a and
    b, a alone, and both."""
    hp.init()
    variables = [tf.Variable(tf.zeros(_SIZE), name=name) for name in ("a", "b")]
    options = {"codec": codec, "min_compress_bytes": 0}
    optimizer = hp.DistributedOptimizer(keras.optimizers.SGD(1.0), **options)
    gradients = tf.constant(np.random.default_rng(hp.rank()).standard_normal((2, _SIZE), np.float32))

    def step(used: int) -> Any:
        given = [gradients[0], gradients[1] if used == 2 else None]
        if way == "optimizer":
            optimizer.apply(given, variables)
            return optimizer
        with tf.GradientTape() as tape:
            loss = sum(tf.reduce_sum(variables[each] * gradients[each]) for each in range(used))
        distributed = hp.DistributedGradientTape(tape, **options)
        for variable, gradient in zip(variables, distributed.gradient(loss, variables), strict=True):
            if gradient is not None:
                variable.assign_sub(gradient)
        return distributed

    states, sent, values = [], [], []
    for used in (2, 1, 2):
        before = hp.counters()["bytes_sent"]
        made = step(used)
        sent.append(hp.counters()["bytes_sent"] - before)
        hp.barrier()
        values.append(variables[1].numpy())
        states.append(hp.codec_states(made, exact=True, variables=variables))
    return states, sent, np.array(values)


@pytest.mark.parametrize("way", ["optimizer", "tape"])
def test_a_variable_without_a_gradient_sends_nothing_and_keeps_its_residual(way: str) -> None:
    for states, sent, values in run(_steps, 2, way, "onebit"):
        first, second, third = states
        np.testing.assert_array_equal(second["b/residual"], first["b/residual"])
        assert np.abs(first["b/residual"]).max() > 0
        assert (third["b/residual"] != second["b/residual"]).any()
        assert sent[1] < 0.6 * sent[2]
        np.testing.assert_array_equal(values[1], values[0])
        assert (values[2] != values[1]).any()


def _several_passes() -> list[list[float]]:
    hp.init()
    variables = [tf.Variable(0.0, name=name) for name in ("a", "b")]
    optimizer = hp.DistributedOptimizer(keras.optimizers.SGD(1.0), backward_passes_per_step=2)
    seen = []
    for given in ([1.0, 2.0], [1.0, None], [1.0, None], [1.0, None]):
        optimizer.apply([None if each is None else tf.constant(each) for each in given], variables)
        seen.append([-float(each) for each in variables])
    return seen


def test_a_gradient_of_an_earlier_pass_counts_in_its_own_step() -> None:
    assert run(_several_passes, 2) == [[[0, 0], [2, 2], [2, 2], [4, 2]]] * 2
