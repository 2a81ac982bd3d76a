# SPDX-License-Identifier: Apache-2.0
"""Process sets in graphs, tapes and Keras' optimizers."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

import hipress.tensorflow as hvd
from tests.tensorflow.ranks import run

pytestmark = pytest.mark.slow

MEMBERS = [0, 2]


def _in_graphs() -> None:
    hvd.init()
    sets = [hvd.add_process_set(MEMBERS), hvd.add_process_set([0, 1])]
    rank = float(hvd.rank())

    # Ranks are in other sets, so their graphs have other operators. None of them has a name.
    @tf.function
    def combined(values: tf.Tensor) -> list[tf.Tensor]:
        results = [hvd.allreduce(values, op=hvd.Sum, process_set=each) for each in sets if each.included()]
        results += [hvd.allgather(values, process_set=each) for each in sets if each.included()]
        return [*results, hvd.allreduce(values, op=hvd.Sum)]

    expected = [float(sum(each.ranks)) for each in sets if each.included()]
    for _ in range(3):
        results = combined(tf.constant([rank, 1.0]))
        assert [float(each[0]) for each in results[: len(expected)]] == expected
        for each, gathered in zip([s for s in sets if s.included()], results[len(expected) : -1], strict=True):
            assert gathered.numpy().tolist() == [value for member in each.ranks for value in (float(member), 1.0)]
        assert results[-1].numpy().tolist() == [3.0, 3.0]


def test_operations_without_names_in_a_graph_are_matched_in_their_set() -> None:
    run(_in_graphs, 3)


def _numbers() -> list[int]:
    hvd.init()
    process_set = hvd.add_process_set(MEMBERS)
    number = process_set.process_set_id
    return [int(hvd.size_op(number)), int(hvd.size_op()), int(hvd.process_set_included_op(number))]


def test_operators_tell_the_size_of_a_set_and_whether_this_rank_is_in_it() -> None:
    assert run(_numbers, 3) == [[2, 3, 1], [2, 3, 0], [2, 3, 1]]


def _tapes() -> None:
    hvd.init()
    process_set = hvd.add_process_set(MEMBERS)
    weight = tf.Variable(tf.ones([3]))
    table = tf.Variable(tf.zeros([4, 2]))
    local = tf.Variable(tf.ones([3]))

    def gradients() -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            rows = tf.reduce_sum(tf.gather(table, [hvd.rank()]))
            loss = tf.reduce_sum(weight) * float(hvd.rank()) + tf.reduce_sum(local) + rows
        combining = hvd.DistributedGradientTape(tape, process_set=process_set)
        combining.register_local_source(local)
        result: list[tf.Tensor] = combining.gradient(loss, [weight, table, local])
        return result

    for take in (gradients, gradients, tf.function(gradients)):
        dense, sparse, own = take()
        members = MEMBERS if process_set.included() else [hvd.rank()]
        assert dense.numpy().tolist() == [float(np.mean(members))] * 3
        assert sorted(sparse.indices.numpy().tolist()) == members
        assert own.numpy().tolist() == [1.0 / len(members)] * 3  # scaled as Horovod does


def test_a_tape_combines_gradients_among_the_ranks_of_its_set() -> None:
    run(_tapes, 3)


def _keras() -> bytes:
    hvd.init(check_replicas=2)
    process_set = hvd.add_process_set(MEMBERS)
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(4)])
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1), process_set=process_set)
    model.compile(optimizer=optimizer, loss="mse")
    generator = np.random.default_rng(hvd.rank())
    model.fit(generator.standard_normal((32, 8)), generator.standard_normal((32, 4)), epochs=2, verbose=0)
    if process_set.included():
        hvd.broadcast_variables(model.variables, root_rank=MEMBERS[-1], process_set=process_set)
    return b"".join(each.numpy().tobytes() for each in model.trainable_variables)


def test_keras_trains_one_model_among_the_ranks_of_the_set() -> None:
    first, outside, second = run(_keras, 3)
    assert first == second
    assert outside != first
