# SPDX-License-Identifier: Apache-2.0
"""Keras' loss scaling inside and around a distributed optimizer: all ranks leave out the same steps."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import hipress.tensorflow as hp
import hipress.tensorflow.keras as hpk
from hipress.tensorflow.keras.optim import OneBitAdam
from tests.tensorflow.models import batch, fingerprint, loss, mlp
from tests.tensorflow.ranks import run

_SCALED = keras.optimizers.LossScaleOptimizer
#: A gradient that is not finite comes at this step, on one rank only.
_STEPS, _OVERFLOW = 8, 3


def _optimizer(way: str, codec: str) -> Any:
    plain = keras.optimizers.SGD(0.1, momentum=0.9)
    options = {"codec": codec, "min_compress_bytes": 0}
    if way == "inside":
        return hp.DistributedOptimizer(_SCALED(plain, initial_scale=1024.0), **options)
    if way == "around":
        return _SCALED(hp.DistributedOptimizer(plain, **options), initial_scale=1024.0)
    assert way == "around OneBitAdam"
    return _SCALED(OneBitAdam(0.01, freeze_step=2), initial_scale=1024.0)


def _steps(way: str, codec: str, traced: bool) -> tuple[list[str], list[float]]:
    hp.init()
    model = mlp()
    variables = model.trainable_variables
    optimizer = _optimizer(way, codec)
    optimizer.build(variables)

    def step(inputs: Any, labels: Any, factor: Any) -> None:
        with tf.GradientTape() as tape:
            value = optimizer.scale_loss(loss(model, inputs, labels))
        gradients = tape.gradient(value, variables)
        optimizer.apply([gradient * factor for gradient in gradients], variables)

    step = tf.function(step) if traced else step
    seen, scales = [], []
    for number in range(_STEPS):
        overflows = number == _OVERFLOW and hp.rank() == 1
        step(*batch(hp.rank(), number), tf.constant(np.inf if overflows else 1.0, tf.float32))
        seen.append(fingerprint(variables))
        scales.append(float(optimizer.dynamic_scale))
    return seen, scales


@pytest.mark.parametrize("traced", [True, False], ids=["tf.function", "eager"])
@pytest.mark.parametrize("way", ["inside", "around", "around OneBitAdam"])
def test_all_ranks_leave_out_the_step_that_is_not_finite_on_one(way: str, traced: bool) -> None:
    (first, scales), *others = run(_steps, 2, way, "none", traced)
    assert others == [(first, scales)]
    assert first[_OVERFLOW] == first[_OVERFLOW - 1]
    assert len(set(first)) == _STEPS - 1
    assert scales == [1024.0] * _OVERFLOW + [512.0] * (_STEPS - _OVERFLOW)


def _scaled_steps(way: str, codec: str) -> tuple[str, float, list[float]]:
    """The variable after steps under a scale that grows every second step and shrinks at two overflows of one rank, or
    after the steps without a scale; the sum of what the codec keeps; and the scales."""
    hp.init()
    options = {"codec": codec, "min_compress_bytes": 0}
    scaling = {"initial_scale": 1024.0, "dynamic_growth_steps": 2}
    if way == "inside":
        optimizer = hp.DistributedOptimizer(_SCALED(keras.optimizers.SGD(0.5), **scaling), **options)
    else:
        optimizer = hp.DistributedOptimizer(keras.optimizers.SGD(0.5), **options)
        optimizer = _SCALED(optimizer, **scaling) if way == "around" else optimizer
    variables = [keras.Variable(np.zeros(4096, np.float32), name=name) for name in ("w", "v")]
    optimizer.build(variables)

    @tf.function
    def step(gradient: Any, other: Any) -> None:
        scale = 1.0 if way == "none" else tf.convert_to_tensor(optimizer.dynamic_scale)
        optimizer.apply([gradient * scale, other * scale], variables)

    scales = []
    generator = np.random.default_rng(hp.rank())
    for number in range(_STEPS):
        gradient = generator.standard_normal(4096, np.float32)
        overflows = number in (_OVERFLOW, _OVERFLOW + 1)
        if not (overflows and way == "none"):
            factor = np.float32(np.inf if overflows and hp.rank() == 1 else 1.0)
            # The other gradient is finite at the second overflow.
            step(tf.constant(gradient * factor), tf.constant(gradient * (factor if number == _OVERFLOW else 1)))
        scales.append(1.0 if way == "none" else float(optimizer.dynamic_scale))
    states = hp.codec_states(optimizer, exact=True, variables=variables)
    kept = sum(float(np.abs(states.get(f"{name}/residual", np.zeros(1))).sum()) for name in ("w", "v"))
    return fingerprint(variables), kept, scales


@pytest.mark.parametrize("codec", ["onebit", "topk(ratio=0.1)", "int4"])
def test_a_loss_scale_and_its_changes_leave_no_trace_in_what_a_codec_keeps(codec: str) -> None:
    expected = run(_scaled_steps, 2, "none", codec)
    for way in ("inside", "around"):
        for (values, kept, scales), plain in zip(run(_scaled_steps, 2, way, codec), expected, strict=True):
            assert (values, kept) == plain[:2]
            assert scales == [1024.0, 2048.0, 2048.0, 1024.0, 512.0, 512.0, 1024.0, 1024.0]


def _fit_in_mixed_precision(optimizer: str) -> tuple[str, str]:
    hp.init()
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_float16")
    try:
        model = mlp()
        made = OneBitAdam(0.001, freeze_step=2) if optimizer == "OneBitAdam" else keras.optimizers.SGD(0.05)
        own = made if optimizer == "OneBitAdam" else hp.DistributedOptimizer(made)
        model.compile(own, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    finally:
        keras.config.set_dtype_policy(before)
    inputs, labels = (np.concatenate(parts) for parts in zip(*(batch(hp.rank(), n) for n in range(6)), strict=True))
    if hp.rank() == 1:
        inputs[20] = np.inf  # in the third step
    callbacks = [hpk.callbacks.BroadcastGlobalVariablesCallback(0)]
    model.fit(inputs, labels, batch_size=8, shuffle=False, verbose=0, callbacks=callbacks)
    return fingerprint(model.trainable_variables), type(model.optimizer).__name__


@pytest.mark.parametrize("optimizer", ["SGD", "OneBitAdam"])
def test_fit_under_the_policy_mixed_float16_trains_identical_replicas(optimizer: str) -> None:
    first, second = run(_fit_in_mixed_precision, 2, optimizer)
    assert first == second
    assert first[1] == "LossScaleOptimizer"


def _tape(codec: str) -> None:
    hp.init()
    variable = keras.Variable(np.ones(4096), dtype="float32")
    optimizer = _SCALED(keras.optimizers.SGD(0.1), initial_scale=8.0)
    with tf.GradientTape() as tape:
        value = optimizer.scale_loss(tf.reduce_sum(variable * variable))
    gradients = hp.DistributedGradientTape(tape, codec=codec).gradient(value, [variable])
    optimizer.apply(gradients, [variable])


def _tapes() -> None:
    with pytest.raises(hp.Unsupported, match=r"keeps values .*hp.DistributedOptimizer\(LossScaleOptimizer"):
        _tape("onebit")
    hp.shutdown()
    _tape("fp16")


def test_a_tape_whose_codec_keeps_states_refuses_a_loss_scaler_with_the_line_to_write() -> None:
    run(_tapes, 2)


def _without_the_scale(scales: list[float]) -> list[np.ndarray[Any, Any]]:
    hp.init()

    @tf.function
    def averaged(gradient: Any, scale: Any) -> Any:
        return hp.allreduce(gradient / scale, name="g", codec="onebit") * scale

    averages = []
    for step, scale in enumerate(scales):
        values = np.random.default_rng([step, hp.rank()]).normal(size=4096).astype(np.float32)
        averages.append(averaged(tf.constant(values * scale), tf.constant(scale)).numpy() / scale)
    return averages


def test_collectives_keep_residuals_in_the_unit_of_the_values_that_they_get() -> None:
    scaled, plain = (run(_without_the_scale, 2, scales) for scales in ([1024.0, 64.0, 64.0], [1.0] * 3))
    np.testing.assert_array_equal(scaled, plain)
    assert np.abs(plain[0][2] - plain[0][1]).max() > 0.1
