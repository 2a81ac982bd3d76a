# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's elastic states and callbacks within one world, with Horovod's meaning."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import hipress.tensorflow as hp
from hipress.errors import InvalidArgument, Unsupported
from hipress.tensorflow.keras import elastic
from tests.frameworks.ranks import run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def _model(value: float) -> Any:
    model = keras.Sequential([keras.Input([2]), keras.layers.Dense(2)])
    for variable in model.variables:
        variable.assign(np.full(variable.shape, value, np.float32))
    return model


def _values(model: Any) -> list[float]:
    return [float(np.array(each).flatten()[0]) for each in model.variables]


def _synchronised() -> list[Any]:
    hp.init()
    model = _model(1.0 + hp.rank())
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
    state = hp.elastic.TensorFlowKerasState(model, optimizer, batch=20 + hp.rank())
    for variable in optimizer.variables:
        variable.assign(tf.cast(tf.fill(variable.shape, 3 + hp.rank()), variable.dtype))
    state.sync()
    seen: list[Any] = [_values(model), state.batch, float(np.array(optimizer.variables[-1]).flatten()[0])]
    model.variables[0].assign(tf.fill([2, 2], 7.0))
    state.batch = 21
    state.restore()
    seen += [_values(model), state.batch]
    model.variables[0].assign(tf.fill([2, 2], 8.0))
    state.batch = 22
    state.commit()
    state.batch = 23
    state.restore()
    return [*seen, _values(model), state.batch]


def test_all_ranks_get_the_state_of_rank_0_and_go_back_to_commits() -> None:
    expected = [[1.0, 1.0], 20, 3.0, [1.0, 1.0], 20, [8.0, 1.0], 22]
    assert run("tensorflow", _synchronised, 2) == [expected, expected]


def _variables() -> list[Any]:
    hp.init()
    variables = [tf.Variable([1.0 + hp.rank()]), tf.Variable(5 + hp.rank())]
    state = hp.elastic.TensorFlowState(variables, step=hp.rank())
    state.sync()
    seen: list[Any] = [each.numpy().tolist() for each in variables]
    variables[0].assign([9.0])
    state.restore()
    return [*seen, variables[0].numpy().tolist(), state.step]


def test_a_list_of_variables_is_a_state() -> None:
    assert run("tensorflow", _variables, 2) == [[[1.0], 5, [1.0], 0]] * 2


def test_what_has_no_state_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="give the variables"):
        hp.elastic.TensorFlowState()
    with pytest.raises(Unsupported, match="sessions"):
        hp.elastic.TensorFlowState([tf.Variable(1.0)], session=object())
    with pytest.raises(InvalidArgument, match="build the model first"):
        hp.elastic.TensorFlowKerasState(keras.Sequential([keras.layers.Dense(2)]))
    with pytest.raises(InvalidArgument, match="compile the model first"):
        hp.elastic.TensorFlowKerasState(_model(1.0))


class _State:
    """Notes commits."""

    def __init__(self) -> None:
        self.batch, self.epoch, self.commits = 0, 2, 0

    def commit(self) -> None:
        self.commits += 1


def test_callbacks_count_over_all_worlds() -> None:
    state: Any = _State()
    model = _model(1.0)
    model.compile("sgd", "mse")
    callbacks = [
        elastic.UpdateBatchStateCallback(state),
        elastic.UpdateEpochStateCallback(state),
        elastic.CommitStateCallback(state, batches_per_commit=3),
    ]
    inputs = np.ones((8, 2), np.float32)
    model.fit(inputs, inputs, batch_size=1, epochs=2, verbose=0, callbacks=callbacks)
    assert state.commits == 5 + 2  # after batches 3, 6, 9, 12 and 15 of both epochs, and at the ends of both
    assert state.epoch == 4
    assert state.batch == 0
