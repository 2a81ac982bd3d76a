# SPDX-License-Identifier: Apache-2.0
"""Keras checkpoints keep the residuals of codecs."""

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
from tests.tiers import thorough

pytestmark = pytest.mark.slow

#: Every built-in codec with states.
STATEFUL = ["onebit", "tbq", "dgc(ratio=0.01)", "graddrop(ratio=0.01)", "int8(error_feedback=true)", "int4"]


def _way(topology: str, codec: str = "none") -> Any:
    """Gives each layer of _model() another codec, or all layers the codec `codec`."""
    codecs = {f"layer{layer}/kernel": each for layer, each in enumerate(STATEFUL)} if codec == "none" else {}
    return {"codec": codec, "codec_for": codecs, "topology": topology, "partitions": 2, "min_compress_bytes": 1024}


def _model() -> Any:
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Dense(48, activation="tanh", name=f"layer{number}") for number in range(len(STATEFUL))]
    return keras.Sequential([keras.Input((16,)), keras.layers.Dense(48), *layers, keras.layers.Dense(4)])


def _steps(model: Any, numbers: range) -> None:
    @tf.function
    def step(inputs: Any, labels: Any) -> None:
        with tf.GradientTape() as tape:
            value = loss(model, inputs, labels)
        gradients = tape.gradient(value, model.trainable_variables)
        model.optimizer.apply(gradients, model.trainable_variables)

    for number in numbers:
        step(*batch(hp.rank(), number))


def _saved_name(variable: Any) -> str:
    return "/".join(variable.path.split("/")[-2:])


def _with_paths(model: Any, way: dict[str, Any]) -> Any:
    """The options `way` with the variables' paths in this model as the keys of `codec_for`."""
    paths = {_saved_name(each): each.path for each in model.trainable_variables}
    return {**way, "codec_for": {paths[name]: codec for name, codec in way["codec_for"].items()}}


def _straight(topology: str, hosts: list[int], folder: str) -> str:
    """Trains for 100 steps, and saves a checkpoint after 50. Returns the parameters' fingerprint."""
    start(hosts)
    model = _model()
    optimizer = hp.DistributedOptimizer(keras.optimizers.SGD(0.1), **_with_paths(model, _way(topology)))
    model.compile(optimizer, "mse")
    _steps(model, range(50))
    np.savez(f"{folder}/{hp.rank()}.npz", **hp.codec_states(model.optimizer, exact=True))
    if hp.rank() == 0:
        model.save(f"{folder}/model.keras")
        model.save_weights(f"{folder}/model.weights.h5")
    _steps(model, range(50, 100))
    return fingerprint(model.variables)


def _resumed(topology: str, hosts: list[int], folder: str) -> tuple[str, set[str]]:
    """Loads the checkpoint and trains for 50 steps. Returns the parameters' fingerprint and the names of the
    residuals."""
    start(hosts)
    hp.allreduce(np.zeros(3, np.float32))  # shifts the core's numbers of the gradients
    model = _model()
    optimizer = hp.DistributedOptimizer(keras.optimizers.SGD(0.1), **_with_paths(model, _way(topology)))
    model.compile(optimizer, "mse")
    optimizer.build(model.trainable_variables)
    model.load_weights(f"{folder}/model.weights.h5")
    states = np.load(f"{folder}/{hp.rank()}.npz")
    hp.load_codec_states(model.optimizer, states)
    _steps(model, range(50, 100))
    held_back = {key for key in states if key.endswith("/residual") and np.abs(states[key]).max() > 0}
    # The variables of a loaded model have other paths, but its codec states fit.
    loaded = keras.models.load_model(f"{folder}/model.keras")
    hp.DistributedOptimizer(loaded.optimizer, **_with_paths(loaded, _way(topology)))
    hp.load_codec_states(loaded.optimizer, states)
    return fingerprint(model.variables), held_back


@pytest.mark.parametrize(("topology", "hosts"), [("ps", []), thorough("ring", []), thorough("hierarchical", [0, 0, 1])])
def test_fifty_steps_saved_and_fifty_more_equal_a_hundred_to_the_bit(
    tmp_path: Any, topology: str, hosts: list[int]
) -> None:
    straight = run(_straight, 3, topology, hosts, str(tmp_path))
    resumed = run(_resumed, 3, topology, hosts, str(tmp_path))
    assert [parameters for parameters, _ in resumed] == straight
    wanted = {f"layer{layer}/kernel/residual" for layer in range(len(STATEFUL))}
    assert set.union(*(held_back for _, held_back in resumed)) == wanted


def _built(codec: str) -> Any:
    model = mlp(hidden=64)
    model.compile(hp.DistributedOptimizer(keras.optimizers.SGD(0.1), **_way("ps", codec)), "mse")
    return model


def _saving(folder: str) -> dict[str, Any]:
    hp.init()
    model = _built("onebit")
    _steps(model, range(3))
    states = hp.codec_states(model.optimizer)
    if hp.rank() == 0:
        np.savez(f"{folder}/codecs.npz", **states)
    return states


def _loading(folder: str) -> list[tuple[str, Any, Any, Any]]:
    """By variable: the loaded residual, the residual that is saved at once, and the sum that arrives for zero
    gradients."""
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
    assert not any("/residual" in key or "unsent" in key for key in after)
    names = [_saved_name(variable) for variable in model.trainable_variables]
    return [
        (name, loaded.get(f"{name}/residual"), again.get(f"{name}/residual"), value.numpy())
        for name, value in zip(names, arrived, strict=True)
    ]


def test_what_rank_zero_saved_reaches_the_average_of_another_number_of_ranks(tmp_path: Any) -> None:
    """Codec "none" keeps no residual. The operator keeps the loaded residuals until the next step, and a checkpoint
    before that step contains them."""
    saved = run(_saving, 3, str(tmp_path))[0]
    assert max(np.abs(each).max() for key, each in saved.items() if "/residual" in key) > 1e-3
    for by_variable in run(_loading, 2, str(tmp_path)):
        for name, loaded, again, arrived in by_variable:
            wanted = np.zeros_like(arrived) if loaded is None else saved[f"{name}/residual"].reshape(arrived.shape)
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
