# SPDX-License-Identifier: Apache-2.0
"""HiPress's optimizers and callbacks work with tf_keras, which is tf.keras if TF_USE_LEGACY_KERAS is 1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import hipress.tensorflow.keras as hpk
from tests.ranks import Ranks
from tests.tensorflow.models import fingerprint
from tests.tensorflow.ranks import PREPARATION
from tests.tiers import thorough

_OPTIMIZERS = ["SGD", "Adam", "legacy.SGD", "legacy.Adam", "scaled"]
_BATCHES = 6


@pytest.fixture(scope="module")
def ranks() -> Any:
    processes = Ranks('import os\nos.environ["TF_USE_LEGACY_KERAS"] = "1"\n' + PREPARATION)
    yield processes
    processes.end()


def _optimizer(kind: str) -> Any:
    optimizers = tf.keras.optimizers
    if kind == "scaled":
        return tf.keras.mixed_precision.LossScaleOptimizer(optimizers.SGD(0.05), initial_scale=8.0)
    module, _, name = kind.rpartition(".")
    options = {"momentum": 0.9} if name == "SGD" else {}
    return getattr(optimizers.legacy if module else optimizers, name)(0.05, **options)


def _model(seed: int) -> Any:
    tf.keras.utils.set_random_seed(seed)
    return tf.keras.Sequential([tf.keras.layers.Dense(8, input_shape=(4,)), tf.keras.layers.Dense(1)])


def _samples(rank: int) -> tuple[Any, Any]:
    inputs = np.random.default_rng(rank).standard_normal((4 * _BATCHES, 4), np.float32)
    return inputs, inputs.sum(axis=1, keepdims=True)


def _of_all_ranks(size: int) -> tuple[Any, Any]:
    """Batches that contain the samples of all ranks in the same step."""
    parts = [[np.split(array, _BATCHES) for array in _samples(rank)] for rank in range(size)]
    return tuple(np.concatenate([part[which][step] for step in range(_BATCHES) for part in parts]) for which in (0, 1))  # type: ignore[return-value]


def _trained(kind: str, passes: int) -> tuple[str, list[float], list[float], bool]:
    hpk.init()
    model = _model(seed=hpk.rank())
    optimizer = hpk.DistributedOptimizer(
        _optimizer(kind), backward_passes_per_step=passes, average_aggregated_gradients=True
    )
    model.compile(optimizer, "mse")
    callbacks = [hpk.callbacks.BroadcastGlobalVariablesCallback(0), hpk.callbacks.MetricAverageCallback()]
    options: dict[str, Any] = {"shuffle": False, "verbose": 0}
    model.fit(*_samples(hpk.rank()), batch_size=4, callbacks=callbacks, **options)

    alone = _model(seed=0)
    alone.compile(_optimizer(kind), "mse")
    alone.fit(*_of_all_ranks(hpk.size()), batch_size=4 * hpk.size() * passes, **options)
    weights, expected = (np.concatenate([w.ravel() for w in each.get_weights()]).tolist() for each in (model, alone))
    return fingerprint(model.variables), weights, expected, type(optimizer).__module__.startswith("tf_keras")


@pytest.mark.parametrize("kind", _OPTIMIZERS)
@pytest.mark.parametrize("passes", [thorough(1), 2])
def test_fit_trains_as_one_process_with_all_samples(ranks: Ranks, kind: str, passes: int) -> None:
    (first, weights, expected, is_legacy), (second, *_) = ranks.run(_trained, 2, kind, passes)
    assert is_legacy
    assert first == second
    assert weights == pytest.approx(expected, rel=1e-3, abs=1e-4)


def _rates(kind: str) -> list[float]:
    hpk.init()
    model = _model(seed=0)
    model.compile(hpk.DistributedOptimizer(_optimizer(kind)), "mse")
    warmup = hpk.callbacks.LearningRateWarmupCallback(0.08, warmup_epochs=2)
    history = model.fit(*_samples(0), batch_size=4, epochs=3, verbose=0, callbacks=[warmup])
    return [float(rate) for rate in history.history["lr"]]


@pytest.mark.parametrize("kind", ["SGD", "legacy.SGD"])
def test_the_rate_grows(ranks: Ranks, kind: str) -> None:
    assert ranks.run(_rates, 2, kind) == [pytest.approx([0.06, 0.08, 0.08])] * 2


def _saved(folder: str) -> tuple[str, bool]:
    hpk.init()
    model = _model(seed=0)
    model.compile(hpk.DistributedOptimizer(_optimizer("Adam")), "mse")
    model.fit(*_samples(hpk.rank()), verbose=0)
    path = f"{folder}/{hpk.rank()}.keras"
    model.save(path)
    again = hpk.load_model(path)
    again.fit(*_samples(hpk.rank()), verbose=0)
    return fingerprint(again.get_weights()), hasattr(again.optimizer, "set_codec")


def test_a_saved_model_loads_with_its_optimizer_distributed(ranks: Ranks, tmp_path: Any) -> None:
    first, second = ranks.run(_saved, 2, str(tmp_path))
    assert first == second
    assert first[1]
