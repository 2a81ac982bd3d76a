# SPDX-License-Identifier: Apache-2.0
"""HiPress's callbacks for model.fit() do the same as Horovod's."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import hipress.tensorflow as hp
import hipress.tensorflow.keras as hpk
from tests.tensorflow.models import fingerprint
from tests.tensorflow.ranks import outcomes, run


def _model(**options: Any) -> Any:
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    optimizer = hpk.DistributedOptimizer(keras.optimizers.SGD(0.08, momentum=0.5))
    model.compile(optimizer, "mse", **options)
    return model


def _fit(model: Any, *callbacks: Any, epochs: int = 1) -> dict[str, list[float]]:
    inputs = np.full((8, 3), 1.0 + hp.rank(), np.float32)
    options: dict[str, Any] = {"batch_size": 4, "epochs": epochs, "verbose": 0, "shuffle": False}
    history: dict[str, list[float]] = model.fit(inputs, inputs[:, :1], callbacks=list(callbacks), **options).history
    return history


class _Seen(keras.callbacks.Callback):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.before: list[str] = []
        self.rates: list[float] = []

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.before.append(fingerprint(self.model.variables))
        self.rates.append(float(self.model.optimizer.learning_rate))


def _broadcast() -> list[str]:
    hpk.init()
    keras.utils.set_random_seed(hp.rank())
    seen = _Seen()
    _fit(_model(), hpk.callbacks.BroadcastGlobalVariablesCallback(1), seen)
    return seen.before


def test_all_ranks_have_the_same_weights_before_the_first_step() -> None:
    first, second = run(_broadcast, 2)
    assert first == second
    assert len(first) == 2


def _broadcast_but(how: str) -> list[float]:
    hpk.init()
    model = _model()
    kernel, bias = model.layers[0].variables
    kernel.assign(tf.fill(kernel.shape, 1.0 + hp.rank()))
    bias.assign([1.0 + hp.rank()])
    local = {"one": kernel, "of TensorFlow": kernel.value, "several": [kernel, bias], "none": None}[how]
    callback = hpk.callbacks.BroadcastGlobalVariablesCallback(1, "", local)
    callback.set_model(model)
    callback.on_train_begin()
    return [float(kernel[0, 0]), float(bias[0])]


@pytest.mark.parametrize(
    ("how", "first"),
    [("one", [1.0, 2.0]), ("of TensorFlow", [1.0, 2.0]), ("several", [1.0, 1.0]), ("none", [2.0, 2.0])],
)
def test_local_variables_stay_a_ranks_own(how: str, first: list[float]) -> None:
    assert run(_broadcast_but, 2, how) == [first, [2.0, 2.0]]


def test_what_is_no_variable_is_refused() -> None:
    with pytest.raises(hp.InvalidArgument, match="no variable"):
        hpk.callbacks.BroadcastGlobalVariablesCallback(0, local_variables=["no variable"])


def _metrics() -> tuple[float, float]:
    hpk.init()
    callback = hpk.callbacks.MetricAverageCallback(device="")
    logs = {"loss": 1.0 + hp.rank(), "accuracy": 0.5 * hp.rank()}
    callback.on_epoch_end(0, logs)
    return logs["loss"], logs["accuracy"]


def test_metrics_are_averages() -> None:
    assert run(_metrics, 2) == [(1.5, 0.25)] * 2


def _warmup() -> tuple[list[float], list[float]]:
    hpk.init()
    seen = _Seen()
    history = _fit(_model(), hpk.callbacks.LearningRateWarmupCallback(0.08, warmup_epochs=2), seen, epochs=3)
    return seen.rates, history["lr"]


def test_the_rate_grows_from_one_ranks_to_all_ranks() -> None:
    for rates, logged in run(_warmup, 2):
        assert rates == pytest.approx([0.05, 0.06, 0.07, 0.08, 0.08, 0.08])
        assert logged == pytest.approx([0.06, 0.08, 0.08])


def _velocity() -> float:
    hpk.init()
    model = _model()
    callback = hpk.callbacks.LearningRateScheduleCallback(0.08, multiplier=0.1)
    callback.set_model(model)
    model.optimizer.build(model.trainable_variables)
    velocity = model.optimizer.momentums[0]
    velocity.assign(tf.ones_like(velocity))
    for epoch in (0, 1):
        callback.on_epoch_begin(epoch)
        callback.on_train_batch_begin(0)
    return float(velocity[0, 0])


def test_what_momentum_has_gathered_is_scaled_with_the_rate() -> None:
    assert run(_velocity, 1) == pytest.approx([0.1])


def _compiled_by_xla() -> None:
    hpk.init()
    _fit(_model(jit_compile=True), hpk.callbacks.BroadcastGlobalVariablesCallback(0))


def test_xla_is_refused_with_what_to_do() -> None:
    (outcome,) = outcomes(_compiled_by_xla, 1)
    assert isinstance(outcome, hp.Unsupported)
    assert "jit_compile=False" in str(outcome)


def _best(folder: str) -> list[bool]:
    hpk.init()
    best = hpk.callbacks.BestModelCheckpoint(monitor="loss")
    model = _model()
    with pytest.raises(hp.InvalidArgument, match="filepath"):
        _fit(model, best)
    best.filepath = f"{folder}/{hp.rank()}.keras"
    history = _fit(model, best, epochs=4)
    loaded = keras.models.load_model(best.filepath)
    inputs = np.full((8, 3), 1.0 + hp.rank(), np.float32)
    found = loaded.evaluate(inputs, inputs[:, :1], verbose=0)
    return [best.best == min(history["loss"]), found <= max(history["loss"])]


def test_the_best_model_is_kept_where_the_callback_was_told(tmp_path: Any) -> None:
    assert run(_best, 1, str(tmp_path)) == [[True, True]]
