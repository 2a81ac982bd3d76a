# SPDX-License-Identifier: Apache-2.0
"""SyncBatchNormalization computes what Keras' BatchNormalization computes in one process for the batches of all
ranks."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import hipress.tensorflow as hp
from tests.ranks import Ranks
from tests.tensorflow.ranks import PREPARATION, run

STEPS = 2
CHANNELS = 3
TOLERANCES = {"float64": 1e-10, "float32": 3e-5, "mixed_float16": 2e-2, "mixed_bfloat16": 1e-1}


@dataclass(frozen=True)
class Case:
    """A layer, and the batches of two ranks."""

    rows: tuple[int, int] = (3, 5)
    #: The input's dimensions after the rows; that of the channels is CHANNELS.
    rest: tuple[int, ...] = (4, 2, CHANNELS)
    dtype: str = "float32"
    mean: float = 1.0
    has_mask: bool = False
    tolerance: float = 0.0
    layer: dict[str, Any] = field(default_factory=dict)

    def batches(self, step: int) -> list[Any]:
        """The inputs of both ranks."""
        random = np.random.default_rng(step)
        kind = self.dtype.removeprefix("mixed_")
        return [
            tf.cast(random.standard_normal((rows, *self.rest)) * (rank + 1) + self.mean * (rank + 1), kind)
            for rank, rows in enumerate(self.rows)
        ]

    def masks(self, step: int) -> list[Any]:
        """The masks of both ranks: None for a case without."""
        random = np.random.default_rng(100 + step)
        shapes = [(rows, *self.rest[:-1]) for rows in self.rows]
        return [tf.constant(random.integers(0, 2, shape).astype(bool)) if self.has_mask else None for shape in shapes]


CASES = {
    "two dimensions": Case(rest=(CHANNELS,)),
    "three dimensions": Case(rest=(4, CHANNELS)),
    "four dimensions": Case(),
    "five dimensions": Case(rest=(2, 2, 2, CHANNELS)),
    "channels first": Case(rest=(CHANNELS, 4, 2), layer={"axis": 1}),
    "float64": Case(dtype="float64"),
    "float16": Case(dtype="mixed_float16"),
    "bfloat16": Case(dtype="mixed_bfloat16"),
    "a mask": Case(rest=(4, CHANNELS), has_mask=True),
    "a rank without rows": Case(rows=(0, 5)),
    "a rank without rows, with a mask": Case(rows=(6, 0), rest=(4, CHANNELS), has_mask=True),
    "one row for each rank": Case(rows=(1, 1), rest=(CHANNELS,)),
    "no parameters": Case(layer={"center": False, "scale": False}),
    "options": Case(layer={"momentum": 0.5, "epsilon": 1e-2}),
    "a large mean": Case(mean=3e4, rows=(30, 50), tolerance=2e-2),
}


#: The cases that are also traced, which takes long.
TRACED = ["four dimensions", "float16", "a mask", "a rank without rows"]


def _computed(case: Case, layer: Any, of_rank: int | None, traced: bool) -> dict[str, Any]:
    """The results of some steps: for a rank, or, for the batches of both ranks, with Keras' own layer."""

    def step(given: Any, mask: Any, weights: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(given)
            output = layer(given, training=True, mask=mask)
            loss = tf.reduce_sum(tf.cast(output, tf.float64) * weights)
        return output, *tape.gradient(loss, [given, *layer.trainable_variables])

    function = tf.function(step) if traced else step
    results = []
    for index in range(STEPS):
        batches, masks = case.batches(index), case.masks(index)
        given, mask = (
            (tf.concat(batches, 0), tf.concat(masks, 0) if case.has_mask else None)
            if of_rank is None
            else (batches[of_rank], masks[of_rank])
        )
        weights = np.random.default_rng(50 + index).standard_normal((sum(case.rows), *case.rest))
        if of_rank is not None:
            weights = np.split(weights, [case.rows[0]])[of_rank]
        output, gradient, *others = function(given, mask, weights)
        assert output.dtype == gradient.dtype == given.dtype
        results.append({"output": output, "gradient": gradient, **{f"{i}.grad": each for i, each in enumerate(others)}})
    found = {f"{name} {index}": value for index, each in enumerate(results) for name, value in each.items()}
    found |= {each.name: each.value for each in layer.non_trainable_variables}
    return {name: np.asarray(tf.cast(value, tf.float64)) for name, value in found.items()}


def _compared(case: Case, traced: bool) -> list[str]:
    """The results that differ from those of one process."""
    wanted = _computed(case, tf.keras.layers.BatchNormalization(dtype=case.dtype, **case.layer), None, traced)
    layer = hp.SyncBatchNormalization(dtype=case.dtype, **case.layer)
    found = _computed(case, layer, hp.rank(), traced)
    assert found.keys() == wanted.keys()
    wrong = []
    for name, value in found.items():
        expected = wanted[name]
        if name.startswith(("output", "gradient")):
            expected = np.split(expected, [case.rows[0]])[hp.rank()]
        elif ".grad" in name:
            # As DistributedOptimizer does, but for the last division.
            value = hp.allreduce(value, op=hp.Sum, name=name).numpy()
        tolerance = (case.tolerance or TOLERANCES[case.dtype]) * (4 if ".grad" in name else 1)
        error = np.abs(value - expected) / (1 + np.abs(expected))
        if error.size and not error.max() <= tolerance:
            wrong.append(f"{name}: {error.max():.1e} > {tolerance:.1e}")
    return wrong


def _all_cases(traced: bool) -> dict[str, str]:
    hp.init()
    found = {}
    for name in TRACED if traced else CASES:
        try:
            found[name] = "; ".join(_compared(CASES[name], traced))
        except (Exception, pytest.fail.Exception):
            found[name] = traceback.format_exc()
            break  # the other rank may wait for this one
    return found


@pytest.mark.parametrize("traced", [False, True], ids=["eager", "traced"])
def test_it_equals_the_batch_normalization_of_one_process(traced: bool) -> None:
    for rank, found in enumerate(run(_all_cases, 2, traced, HIPRESS_TIMEOUT="20")):
        assert {name: text for name, text in found.items() if text} == {}, f"rank {rank}"
        assert list(found) == (TRACED if traced else list(CASES))


def _fitted(kind: str, folder: str) -> tuple[list[float], list[float], list[float]]:
    """The weights after model.fit() of two ranks, and of one process; the predictions after saving and loading."""
    hp.init()
    inputs = np.random.default_rng(1).standard_normal((24, 4)).astype(np.float32)
    targets = np.tanh(inputs[:, :1] * 3)

    def model(layer: Any) -> Any:
        tf.keras.utils.set_random_seed(0)
        layers = [
            tf.keras.layers.Dense(6),
            layer(momentum=0.5),
            tf.keras.layers.ReLU(),
            layer(),
            tf.keras.layers.Dense(1),
        ]
        made = tf.keras.Sequential(layers)
        made.build((None, 4))
        return made

    options: dict[str, Any] = {"shuffle": False, "verbose": 0, "epochs": 2}
    alone = model(tf.keras.layers.BatchNormalization)
    alone.compile(tf.keras.optimizers.SGD(0.1), "mse")
    alone.fit(inputs, targets, batch_size=8, **options)
    both = model(hp.SyncBatchNormalization)
    assert type(both).__module__.startswith(kind)
    both.compile(hp.DistributedOptimizer(tf.keras.optimizers.SGD(0.1)), "mse")
    # Each rank has every second row, so both have four rows of each batch.
    both.fit(inputs[hp.rank() :: 2], targets[hp.rank() :: 2], batch_size=4, **options)
    path = f"{folder}/{hp.rank()}.keras"
    both.save(path)
    loaded = tf.keras.models.load_model(path, compile=False)
    assert any(isinstance(each, hp.SyncBatchNormalization) for each in loaded.layers)
    difference = np.abs(loaded.predict(inputs, verbose=0) - both.predict(inputs, verbose=0)).ravel().tolist()
    return *(np.concatenate([w.ravel() for w in each.get_weights()]).tolist() for each in (both, alone)), difference  # type: ignore[return-value]


def test_fit_trains_as_one_process_with_all_samples(tmp_path: Any) -> None:
    for weights, expected, difference in run(_fitted, 2, "keras", str(tmp_path)):
        assert weights == pytest.approx(expected, rel=1e-3, abs=1e-4)
        assert max(difference) == 0.0


def test_fit_with_tf_keras(tmp_path: Any) -> None:
    ranks = Ranks('import os\nos.environ["TF_USE_LEGACY_KERAS"] = "1"\n' + PREPARATION)
    try:
        for weights, expected, difference in ranks.run(_fitted, 2, "tf_keras", str(tmp_path)):
            assert weights == pytest.approx(expected, rel=1e-3, abs=1e-4)
            assert max(difference) == 0.0
    finally:
        ranks.end()


def _refusals() -> list[tuple[str, str]]:
    hp.init()
    layer = hp.SyncBatchNormalization()
    given = tf.ones([2, 3])
    refused = []
    with tf.GradientTape() as outer:
        outer.watch(given)
        with tf.GradientTape() as tape:
            tape.watch(given)
            result = tf.reduce_sum(layer(given, training=True) ** 3)
        first = tape.gradient(result, given)
    for call in (
        lambda: outer.gradient(first, given),
        lambda: hp.SyncBatchNormalization(fused=True),
        lambda: hp.SyncBatchNormalization(fused=None),
        lambda: hp.SyncBatchNormalization()(tf.ones([2, 3 + hp.rank()]), training=True),
    ):
        try:
            call()
        except hp.HipressError as error:
            refused.append((type(error).__name__, str(error)))
    # Inference needs no other rank.
    if hp.rank() == 0:
        assert layer(given).shape == (2, 3)
    return refused


def test_what_it_cannot_do_is_refused() -> None:
    for refused in run(_refusals, 2):
        assert [kind for kind, _ in refused] == ["Unsupported", "InvalidArgument", "InvalidArgument", "Mismatch"]
        assert all("SyncBatchNormalization" in text for _, text in refused)
