# SPDX-License-Identifier: Apache-2.0
"""Checks of the names that only horovod.tensorflow, its keras and horovod.keras have; see horovod_calls.py."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.frameworks.horovod_calls import Call, Check


def operator(expected: Any) -> Check:
    def check(call: Call) -> None:
        result = getattr(call.hvd, call.function)(name="n")
        assert result.dtype == tf.int32
        assert int(result) == expected(call.rank)

    return check


def elastic(call: Call) -> None:
    model = keras.Sequential([keras.Input([3]), keras.layers.Dense(2)])
    model.compile(keras.optimizers.SGD(0.1), "mse")
    names = call.hvd.elastic
    kind = names.KerasState if hasattr(names, "KerasState") else names.TensorFlowKerasState
    state = kind(model, batch=call.rank)

    @names.run
    def train(state: Any, until: int) -> list[int]:
        seen = []
        while state.batch < until:
            seen.append(state.batch)
            state.batch += 1
            state.commit()
        return seen

    assert train(state, 3) == [0, 1, 2]


def join(call: Call) -> None:
    if call.rank == 0:
        assert call.hvd.allreduce(tf.constant([4.0]), name="without rank 1").numpy().tolist() == [2.0]
    assert int(call.hvd.join()) == 0
    assert call.hvd.allreduce(tf.constant([4.0])).numpy().tolist() == [4.0]


def broadcast_(call: Call) -> None:
    variables = [tf.Variable([float(call.rank)]), tf.Variable(call.rank)]
    returned = call.hvd.broadcast_(variables, 1, name="v")
    assert [each.numpy().tolist() for each in variables] == [[1.0], 1]
    assert [np.array(each).tolist() for each in returned] == [[1.0], 1]


def broadcast_variables(call: Call) -> None:
    for inplace in (False, True):
        variable = tf.Variable([float(call.rank)])
        call.hvd.broadcast_variables([variable], root_rank=1, inplace=inplace)
        assert variable.numpy().tolist() == [1.0]


def broadcast_global_variables(call: Call) -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variable = tf.compat.v1.get_variable("global", initializer=float(call.rank), use_resource=True)
        broadcast = call.hvd.broadcast_global_variables(1)
        session.run(tf.compat.v1.global_variables_initializer())
        session.run(broadcast)
        assert session.run(variable) == 1.0
    with pytest.raises(RuntimeError):  # Horovod raises it, too, if there is no graph
        call.hvd.broadcast_global_variables(1)


def _gradients(call: Call, make: Any) -> tuple[Any, Any, list[Any]]:
    variables = [tf.Variable([1.0]), tf.Variable([1.0])]
    with tf.GradientTape() as tape:
        loss = (call.rank + 1.0) * (variables[0][0] + variables[1][0])
    distributed = make(tape, variables)
    return tape, distributed, [gradient.numpy().tolist() for gradient in distributed.gradient(loss, variables)]


def distributed_tape(call: Call) -> None:
    make = call.hvd.DistributedGradientTape
    tape, distributed, gradients = _gradients(
        call, lambda tape, _: make(tape, "", "", call.hvd.Compression.none, False, call.hvd.Average, 1.0, 2, 1)
    )
    assert distributed is tape
    assert gradients == [[1.5], [1.5]]


def partial_tape(call: Call) -> None:
    class Layer:
        def __init__(self, variable: Any) -> None:
            self.trainable_weights = [variable]

    tape, distributed, gradients = _gradients(
        call,
        lambda tape, variables: call.hvd.PartialDistributedGradientTape(tape, local_layers=[Layer(variables[1])]),
    )
    assert distributed is tape
    assert gradients == [[1.5], [(call.rank + 1.0) / 2]]


def distributed_optimizer(call: Call) -> None:
    plain = keras.optimizers.SGD(1.0)
    optimizer = call.hvd.DistributedOptimizer(plain, "name", groups=1, device_dense="/cpu:0")
    assert optimizer is plain
    variable = keras.Variable([0.0])
    optimizer.apply([tf.constant([call.rank + 1.0])], [variable])
    assert np.array(variable).tolist() == [-1.5]


def partial_optimizer(call: Call) -> None:
    layer = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")
    layer.build((1, 1))
    plain = keras.optimizers.SGD(1.0)
    optimizer = call.hvd.PartialDistributedOptimizer(plain, "name", "", "", local_layers=layer)
    assert optimizer is plain
    other = keras.Variable([0.0])
    optimizer.apply([tf.constant([call.rank + 1.0]), tf.constant([[call.rank + 1.0]])], [other, layer.kernel])
    assert np.array(other).tolist() == [-1.5]
    assert np.array(layer.kernel).tolist() == [[-(call.rank + 1.0) / 2]]


def allreduce_without_average(call: Call) -> None:
    assert call.hvd.allreduce([call.rank + 1.0], op=call.hvd.Sum).tolist() == [3.0]


def _model(call: Call, **arguments: Any) -> Any:
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False)])
    model.set_weights([np.full((1, 1), float(call.rank))])
    optimizer = call.hvd.DistributedOptimizer(keras.optimizers.SGD(0.0, momentum=0.9))
    model.compile(optimizer, "mse", metrics=["mae"], **arguments)
    return model


def _fit(call: Call, model: Any, *callbacks: Any, epochs: int = 1) -> Any:
    values = np.full((4, 1), call.rank + 1.0, np.float32)
    history = model.fit(values, 0 * values, batch_size=2, epochs=epochs, verbose=0, callbacks=list(callbacks))
    return history.history


def load_model(call: Call) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "model.keras")
        model = _model(call)
        _fit(call, model)
        model.save(file)
        loaded = call.hvd.load_model(file, None, None, call.hvd.Compression.none, False)
    assert loaded.get_weights() == model.get_weights()
    before = np.array(loaded.get_weights())
    loaded.optimizer.learning_rate = 1.0
    loaded.optimizer.apply([tf.constant([[call.rank + 1.0]])], loaded.trainable_variables)
    np.testing.assert_allclose(np.array(loaded.get_weights()), before - 1.5)


def callbacks(call: Call) -> None:
    assert issubclass(call.hvd.callbacks.MetricAverageCallback, keras.callbacks.Callback)


def broadcast_callback(call: Call) -> None:
    model = _model(call)
    _fit(call, model, call.hvd.callbacks.BroadcastGlobalVariablesCallback(1, device=""))
    assert model.get_weights()[0].tolist() == [[1.0]]


def metric_average(call: Call) -> None:
    model = _model(call)
    first = call.hvd.callbacks.BroadcastGlobalVariablesCallback(1)
    history = _fit(call, model, first, call.hvd.callbacks.MetricAverageCallback(device=""))
    assert history["mae"] == [1.5]  # the mean of 1 on this rank and 2 on the other


def schedule(call: Call) -> None:
    rates = call.hvd.callbacks.LearningRateScheduleCallback(0.5, lambda epoch: 0.5**epoch, start_epoch=1, end_epoch=3)
    history = _fit(call, _model(call), rates, epochs=4)
    np.testing.assert_allclose(history["lr"], [0.0, 0.25, 0.125, 0.125])


def warmup(call: Call) -> None:
    rates = call.hvd.callbacks.LearningRateWarmupCallback(0.5, warmup_epochs=2, steps_per_epoch=2)
    history = _fit(call, _model(call), rates, epochs=3)
    np.testing.assert_allclose(history["lr"], [0.375, 0.5, 0.5])


def best_checkpoint(call: Call) -> None:
    """Keras's ModelCheckpoint that keeps the best model; the script sets the file before training."""
    checkpoint = call.hvd.callbacks.BestModelCheckpoint(monitor="loss")
    assert isinstance(checkpoint, keras.callbacks.ModelCheckpoint)
    assert checkpoint.save_best_only
    with tempfile.TemporaryDirectory() as folder:
        checkpoint.filepath = str(Path(folder) / "best.keras")
        _fit(call, _model(call), checkpoint)
        assert Path(checkpoint.filepath).exists()


def sync_batch_normalization(call: Call) -> None:
    """Each rank has one row of a batch. Horovod's own test does the same, on GPUs."""
    batch = tf.constant([[1.0, 2.0, -4.0], [3.0, 7.0, 0.5]])
    layer, plain = call.hvd.SyncBatchNormalization(axis=-1), tf.keras.layers.BatchNormalization(axis=-1)
    output, expected = layer(batch[call.rank : call.rank + 1], training=True), plain(batch, training=True)
    np.testing.assert_allclose(output, expected[call.rank : call.rank + 1], rtol=1e-5)
    for own, wanted in zip(layer.non_trainable_variables, plain.non_trainable_variables, strict=True):
        np.testing.assert_allclose(own, wanted, rtol=1e-5)
    with pytest.raises(ValueError, match="fused"):
        call.hvd.SyncBatchNormalization(fused=True)


SAME: dict[str, Check] = {
    "elastic": elastic,
    "join": join,
    "SyncBatchNormalization": sync_batch_normalization,
    "size_op": operator(lambda rank: 2),
    "local_size_op": operator(lambda rank: 2),
    "rank_op": operator(lambda rank: rank),
    "local_rank_op": operator(lambda rank: rank),
    "process_set_included_op": operator(lambda rank: 1),
    "broadcast_": broadcast_,
    "broadcast_variables": broadcast_variables,
    "broadcast_global_variables": broadcast_global_variables,
}
DIFFERS: dict[str, Check] = {
    "DistributedGradientTape": distributed_tape,
    "PartialDistributedGradientTape": partial_tape,
    "DistributedOptimizer": distributed_optimizer,
    "PartialDistributedOptimizer": partial_optimizer,
    "allreduce": allreduce_without_average,
    "callbacks.BestModelCheckpoint": best_checkpoint,
}
KERAS_SAME: dict[str, Check] = {
    "elastic": elastic,
    "broadcast_global_variables": broadcast_global_variables,
    "load_model": load_model,
    "callbacks": callbacks,
    "callbacks.BroadcastGlobalVariablesCallback": broadcast_callback,
    "callbacks.MetricAverageCallback": metric_average,
    "callbacks.LearningRateScheduleCallback": schedule,
    "callbacks.LearningRateWarmupCallback": warmup,
    "callbacks.BestModelCheckpoint": best_checkpoint,
}
