# SPDX-License-Identifier: Apache-2.0
"""HiPress warns if one of Keras's or TensorFlow's optimizers gets a codec that does not suit it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed (requirements/tensorflow.txt)")

import keras  # noqa: E402

import hipress.tensorflow as hp  # noqa: E402
from hipress.adapter.optim.optimizer_traits import traits_of  # noqa: E402

ADAM_LIKE = ["Adam", "AdamW", "Nadam", "Adamax", "Adagrad", "Adadelta", "Adafactor", "RMSprop", "Ftrl", "Lamb"]
V1_ADAM_LIKE = ["AdamOptimizer", "AdagradOptimizer", "AdadeltaOptimizer", "RMSPropOptimizer", "FtrlOptimizer"]


@pytest.fixture(autouse=True)
def alone() -> Any:
    hp.init()
    yield
    hp.shutdown()


def said(optimizer: Any, **options: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        hp.DistributedOptimizer(optimizer, **options)
    ours = [warning for warning in caught if issubclass(warning.category, hp.CodecWarning)]
    assert {warning.filename for warning in ours} <= {__file__}
    return [str(warning.message) for warning in ours]


@pytest.mark.parametrize("name", ADAM_LIKE)
def test_error_feedback_with_second_moments(name: str) -> None:
    (text,) = said(getattr(keras.optimizers, name)(0.1), codec="tbq")
    for part in (
        "'tbq'",
        f" {name} ",
        '"int8" or "int4"',
        "hipress.tensorflow.keras.optim.OneBitAdam",
        "choosing-a-codec.md",
    ):
        assert part in text
    assert said(getattr(keras.optimizers, name)(0.1), codec="terngrad(bitwidth=4)") == []


@pytest.mark.parametrize("name", V1_ADAM_LIKE)
def test_those_of_tf_compat_v1(name: str) -> None:
    (text,) = said(getattr(tf.compat.v1.train, name)(0.1), codec="onebit")
    assert name in text
    assert "OneBitAdam" not in text  # OneBitAdam is for Keras


@pytest.mark.parametrize(
    "make",
    [
        lambda: keras.optimizers.SGD(0.1),
        lambda: keras.optimizers.Lion(0.1),
        lambda: tf.compat.v1.train.GradientDescentOptimizer(0.1),
    ],
)
def test_optimizers_without_second_moments(make: Callable[[], Any]) -> None:
    assert said(make(), codec="onebit") == []


def test_trainings_have_shown_a_loss() -> None:
    for optimizer in (keras.optimizers.SGD(0.1, momentum=0.9), tf.compat.v1.train.MomentumOptimizer(0.1, 0.9)):
        (text,) = said(optimizer, codec="onebit")
        assert "evidence --optimizer momentum" in text


def test_momentum_twice() -> None:
    for optimizer in (keras.optimizers.SGD(0.1, momentum=0.9), tf.compat.v1.train.MomentumOptimizer(0.1, 0.9)):
        (text,) = said(optimizer, codec="dgc")
        assert "twice" in text
    assert said(keras.optimizers.SGD(0.1), codec="dgc") == []


def test_the_optimizer_within_a_loss_scaler() -> None:
    (text,) = said(keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam()), codec="onebit")
    assert " Adam " in text


def test_automatic_plans_say_that_they_leave_a_codec_out() -> None:
    (text,) = said(keras.optimizers.Adam(), codec="onebit", plan="auto")
    assert "automatic plans leave out" in text


def test_codecs_that_are_set_later() -> None:
    optimizer = hp.DistributedOptimizer(keras.optimizers.Adam())
    variable = keras.Variable([0.0] * 4)
    optimizer.apply([tf.ones(4)], [variable])
    with pytest.warns(hp.CodecWarning, match="onebit"):
        optimizer.set_codec("onebit")


def test_kinds_of_optimizers_for_an_automatic_codec() -> None:
    kinds = {
        "sgd": keras.optimizers.SGD(0.1),
        "momentum": keras.optimizers.SGD(0.1, momentum=0.9),
        "adam": keras.optimizers.AdamW(),
        "lamb": keras.optimizers.Lamb(),
        "unknown": keras.optimizers.Lion(),
    }
    kinds_of_v1 = {
        "sgd": tf.compat.v1.train.GradientDescentOptimizer(0.1),
        "momentum": tf.compat.v1.train.MomentumOptimizer(0.1, 0.9),
        "adam": tf.compat.v1.train.AdamOptimizer(),
        "unknown": tf.compat.v1.train.FtrlOptimizer(0.1),
    }
    for each in (kinds, kinds_of_v1):
        assert {kind: traits_of(optimizer).kind for kind, optimizer in each.items()} == {kind: kind for kind in each}


def test_a_tape_refuses_an_automatic_codec() -> None:
    with pytest.raises(hp.Unsupported, match="measures whole steps"):
        hp.DistributedGradientTape(tf.GradientTape(), codec="auto")
