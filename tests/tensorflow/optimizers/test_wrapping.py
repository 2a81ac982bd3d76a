# SPDX-License-Identifier: Apache-2.0
"""What DistributedOptimizer() and DistributedGradientTape() take, refuse, and leave in a saved model."""

from __future__ import annotations

import gc
import json
import os
import zipfile
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import hipress.tensorflow as hp
import hipress.tensorflow.keras as hpk
from hipress.tensorflow.keras.optim import DGCSGD, OneBitAdam
from tests.tensorflow.models import batch, fingerprint, mlp
from tests.tensorflow.ranks import run
from tests.tiers import thorough


def _named() -> list[str]:
    hp.init()
    made = [hp.DistributedOptimizer("sgd"), hp.DistributedOptimizer({"class_name": "Adam", "config": {}})]
    for wrong in ("sdg", {"name": "sgd"}, keras.optimizers.SGD, None, 3):
        with pytest.raises(hp.InvalidArgument, match="optimizer of"):
            hp.DistributedOptimizer(wrong)
    return [type(each).__name__ for each in made]


def test_an_optimizer_may_be_given_as_keras_takes_it() -> None:
    assert run(_named, 1) == [["SGD", "Adam"]]


def _wrapped_twice() -> None:
    hp.init()
    scaled = keras.optimizers.LossScaleOptimizer
    for inner in (OneBitAdam(freeze_step=2), DGCSGD(), scaled(OneBitAdam(freeze_step=2))):
        with pytest.raises(hp.InvalidArgument, match="without DistributedOptimizer"):
            hp.DistributedOptimizer(inner)
    distributed = hp.DistributedOptimizer(keras.optimizers.SGD())
    for twice in (distributed, scaled(distributed)):
        with pytest.raises(hp.InvalidArgument, match="distributed already"):
            hp.DistributedOptimizer(twice)


def test_an_optimizer_that_exchanges_values_itself_is_not_wrapped_again() -> None:
    run(_wrapped_twice, 1)


def _jacobian() -> None:
    hp.init()
    variable = tf.Variable([1.0, 2.0])
    with tf.GradientTape(persistent=True) as tape:
        value = variable * variable
    tape = hp.DistributedGradientTape(tape)
    for call in (tape.jacobian, tape.batch_jacobian):
        with pytest.raises(hp.Unsupported, match=r"hp.allreduce\(jacobian"):
            call(value, variable)


def test_a_jacobian_of_a_distributed_tape_is_refused_with_the_line_to_write() -> None:
    run(_jacobian, 1)


@keras.saving.register_keras_serializable("my")
class Registered(keras.optimizers.SGD):
    """A user's optimizer."""


def _saved(folder: str, around: bool) -> tuple[str, str, str]:
    hp.init()
    path = f"{folder}/{hp.rank()}.keras"
    model = mlp()
    optimizer = hp.DistributedOptimizer(Registered(0.05))
    model.compile(keras.optimizers.LossScaleOptimizer(optimizer) if around else optimizer, "mse")
    inputs, _ = batch(hp.rank(), 0)
    targets = tf.zeros((8, 4))
    model.fit(inputs, targets, verbose=0)
    model.save(path)
    config = json.loads(zipfile.ZipFile(path).read("config.json"))["compile_config"]["optimizer"]
    if around:
        config = config["config"]["inner_optimizer"]
    plain = keras.models.load_model(path).optimizer
    again = hpk.load_model(path)
    again.fit(inputs, targets, verbose=0)
    loaded = plain.inner_optimizer if around else plain
    return config["registered_name"], type(loaded).__module__, fingerprint(again.variables)


@pytest.mark.parametrize("around", [False, True])
def test_a_registered_optimizer_is_saved_under_its_own_name_and_loads(tmp_path: Any, around: bool) -> None:
    first, second = run(_saved, 2, str(tmp_path), around)
    assert first == second
    assert first[:2] == ("my>Registered", __name__)


def _kept() -> tuple[int, int, int]:
    """Threads, open files, and bytes of states."""
    gc.collect()
    return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd")), hp.memory_stats()["state_bytes"]


def _many(way: str) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    hp.init()
    gradient = tf.ones(4096)

    def one() -> None:
        variable = keras.Variable(np.zeros(4096, np.float32), name="w")
        if way == "optimizer":
            hp.DistributedOptimizer(keras.optimizers.SGD(), codec="onebit").apply([gradient], [variable])
        elif way == "tape":
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(variable * gradient)
            hp.DistributedGradientTape(tape, codec="onebit").gradient(loss, [variable])
        else:
            OneBitAdam(freeze_step=2).apply([gradient], [variable])

    for _ in range(20):
        one()
    before = _kept()
    for _ in range(180):
        one()
    return before, _kept()


@pytest.mark.parametrize("way", [thorough("optimizer"), "tape", thorough("OneBitAdam")])
def test_two_hundred_models_leave_no_thread_no_file_and_no_state(way: str) -> None:
    for before, after in run(_many, 2, way):
        assert after == before
