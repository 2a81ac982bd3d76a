# SPDX-License-Identifier: Apache-2.0
"""With PlanCallback, `model.fit()` can make a plan and change it between steps."""

from __future__ import annotations

import hashlib

import pytest

pytest.importorskip("tensorflow", reason="TensorFlow is not installed (requirements/tensorflow.txt)")

import keras
import numpy as np

import hipress.tensorflow.keras as hk
from hipress.secopa.online.automatic import AutomaticOptions
from tests.tensorflow.ranks import run


def _fitted() -> tuple[str, int]:
    """The fingerprint of the trained weights, and the number of gradients in the plan."""
    hk.init()
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Input((16,)), keras.layers.Dense(64), keras.layers.Dense(4)])
    options = AutomaticOptions(codecs=("onebit",), interval=3, profile_s=0.5, links_s=0.3, slower=100.0)
    optimizer = hk.DistributedOptimizer(keras.optimizers.SGD(0.01), plan=options)
    model.compile(optimizer, "mse", jit_compile=False)
    generator = np.random.default_rng(hk.rank())
    inputs, targets = generator.standard_normal((80, 16)), generator.standard_normal((80, 4))
    callbacks = [hk.callbacks.BroadcastGlobalVariablesCallback(0), hk.callbacks.PlanCallback()]
    model.fit(inputs, targets, batch_size=8, epochs=2, verbose=0, callbacks=callbacks)
    weights = hashlib.sha256(b"".join(weight.tobytes() for weight in model.get_weights())).hexdigest()
    (planning,) = optimizer._hipress_lists._planning.values()
    return weights, len(planning.plan.decisions)


def test_a_plan_is_made_in_fit_and_replicas_stay_identical() -> None:
    first, second = run(_fitted, 2)
    assert first == second
    assert first[1] == 4, "two layers' weights and biases"
