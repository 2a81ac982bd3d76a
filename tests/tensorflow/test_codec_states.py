# SPDX-License-Identifier: Apache-2.0
"""Keras checkpoints with what codecs hold back."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import hipress.tensorflow.keras as hp
from hipress.errors import InvalidArgument
from tests.adapter.hosts import start
from tests.tensorflow.models import batch, fingerprint, loss, mlp
from tests.tensorflow.ranks import run

pytestmark = pytest.mark.slow

#: Every codec that comes with HiPress and keeps states.
STATEFUL = ["onebit", "tbq", "dgc(ratio=0.01)", "graddrop(ratio=0.01)", "int8", "int4"]


def _way(codec: str, topology: str) -> Any:
    return {"codec": codec, "topology": topology, "partitions": 2, "min_compress_bytes": 1024}


def _built(codec: str, topology: str = "ps", seed: int = 0) -> Any:
    keras.utils.clear_session()
    model = mlp(seed=seed, hidden=64)
    model.compile(hp.DistributedOptimizer(keras.optimizers.SGD(0.1, momentum=0.9), **_way(codec, topology)), "mse")
    return model


def _steps(model: Any, numbers: range) -> None:
    @tf.function
    def step(inputs: Any, labels: Any) -> None:
        with tf.GradientTape() as tape:
            value = loss(model, inputs, labels)
        gradients = tape.gradient(value, model.trainable_variables)
        model.optimizer.apply(gradients, model.trainable_variables)

    for number in numbers:
        step(*batch(hp.rank(), number))


def _straight(topology: str, hosts: list[int], folder: str) -> dict[str, str]:
    """By codec the parameters after 100 steps; a checkpoint after 50."""
    start(hosts)
    results = {}
    for number, codec in enumerate(STATEFUL):
        model = _built(codec, topology)
        _steps(model, range(50))
        np.savez(f"{folder}/{number}.{hp.rank()}.npz", **hp.codec_states(model.optimizer, exact=True))
        if hp.rank() == 0:
            model.save(f"{folder}/{number}.keras")
        _steps(model, range(50, 100))
        results[codec] = fingerprint(model.variables)
    return results


def _resumed(topology: str, hosts: list[int], folder: str) -> dict[str, str]:
    start(hosts)
    hp.allreduce(np.zeros(3, np.float32))  # the core's numbers of the gradients are others than before
    results = {}
    for number, codec in enumerate(STATEFUL):
        keras.utils.clear_session()
        model = hp.load_model(f"{folder}/{number}.keras", **_way(codec, topology))
        hp.load_codec_states(model.optimizer, np.load(f"{folder}/{number}.{hp.rank()}.npz"))
        _steps(model, range(50, 100))
        results[codec] = fingerprint(model.variables)
    return results


@pytest.mark.parametrize(("topology", "hosts"), [("ps", []), ("ring", []), ("hierarchical", [0, 0, 1])])
def test_fifty_steps_saved_and_fifty_more_equal_a_hundred_to_the_bit(
    tmp_path: Any, topology: str, hosts: list[int]
) -> None:
    straight = run(_straight, 3, topology, hosts, str(tmp_path))
    assert run(_resumed, 3, topology, hosts, str(tmp_path)) == straight


def _saving(folder: str) -> dict[str, Any]:
    hp.init()
    model = _built("onebit")
    _steps(model, range(3))
    states = hp.codec_states(model.optimizer)
    if hp.rank() == 0:
        np.savez(f"{folder}/codecs.npz", **states)
    return states


def _loading(folder: str) -> list[tuple[str, Any, Any]]:
    """By variable: what was loaded, what is saved at once, and what arrives beside the gradients."""
    hp.init()
    model = _built("onebit")
    loaded = dict(np.load(f"{folder}/codecs.npz"))
    hp.load_codec_states(model.optimizer, loaded, variables=model.trainable_variables)
    model.optimizer.set_codec("none")
    again = hp.codec_states(model.optimizer, variables=model.trainable_variables)
    lists = model.optimizer._hipress_lists
    zeros = [tf.zeros(variable.shape) for variable in model.trainable_variables]
    arrived = lists.combined(zeros, model.trainable_variables)
    after = hp.codec_states(model.optimizer, variables=model.trainable_variables)
    assert not any("/residual" in key or "held_back" in key for key in after)
    return [
        (
            variable.path,
            (loaded.get(f"{variable.path}/residual"), again.get(f"{variable.path}/residual")),
            value.numpy(),
        )
        for variable, value in zip(model.trainable_variables, arrived, strict=True)
    ]


def test_what_rank_zero_saved_reaches_the_average_of_another_number_of_ranks(tmp_path: Any) -> None:
    """The next codec holds nothing back: the operator keeps the values until then, and they are saved there, too."""
    saved = run(_saving, 3, str(tmp_path))[0]
    assert max(np.abs(each).max() for key, each in saved.items() if "/residual" in key) > 1e-3
    for by_variable in run(_loading, 2, str(tmp_path)):
        for path, (loaded, again), arrived in by_variable:
            wanted = np.zeros_like(arrived) if loaded is None else saved[f"{path}/residual"].reshape(arrived.shape)
            np.testing.assert_allclose(arrived, wanted, rtol=1e-5, atol=1e-7)
            if loaded is not None:
                np.testing.assert_allclose(again, loaded, rtol=1e-5, atol=1e-7)


def _too_early() -> None:
    hp.init()
    model = _built("onebit")
    with pytest.raises(InvalidArgument, match=r"variables=model\.trainable_variables"):
        hp.codec_states(model.optimizer)
    with pytest.raises(InvalidArgument, match="takes an optimizer of"):
        hp.codec_states(keras.optimizers.SGD(0.1))


def test_the_variables_have_to_be_known() -> None:
    run(_too_early, 1)
