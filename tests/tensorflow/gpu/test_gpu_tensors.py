# SPDX-License-Identifier: Apache-2.0
"""On a GPU of TensorFlow ranks combine tensors, and get the bits of the processor. See `make test-gpu`."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import hipress.tensorflow as hp
from hipress.tensorflow import codec_operators as codecs
from hipress.tensorflow import places
from tests.compll.emit.cuda.device import require_gpu
from tests.tensorflow.ranks import run

pytestmark = pytest.mark.slow


def _needs_gpu() -> None:
    found = tf.config.list_physical_devices("GPU")
    require_gpu(None if found else "TensorFlow finds no GPU, or was built without CUDA")


def _values(seed: int, shape: tuple[int, ...]) -> Any:
    return tf.constant(np.random.default_rng([hp.rank(), seed]).standard_normal(shape, np.float32))


def _combined(device: str, traced: bool) -> list[bytes]:
    hp.init()

    def every(values: Any) -> list[Any]:
        combined = []
        for codec in ("none", "fp16", "onebit"):
            # The input is still being computed when the operator starts, and the next operator uses the result at once.
            sent = tf.negative(tf.negative(values))
            combined.append(hp.allreduce(sent, name=codec, codec=codec, device_dense=device) * 2)
        combined.append(hp.reducescatter(tf.negative(values), name="rows", device_dense=device) * 2)
        with tf.device(device):
            combined += [hp.broadcast(tf.negative(values), root, name=f"root {root}") * 2 for root in range(2)]
        return combined

    with tf.device(device):
        given = tf.identity(_values(0, (3000, 10)))
    results = (tf.function(every) if traced else every)(given)
    return [result.numpy().tobytes() for result in results]


def _trained(device: str, traced: bool) -> list[bytes]:
    hp.init()
    with tf.device(device):
        variables = [keras.Variable(np.zeros(shape, np.float32)) for shape in [(50, 600), (7,)]]
        optimizer = hp.DistributedOptimizer(keras.optimizers.SGD(0.5), codec="onebit", min_compress_bytes=0)
        optimizer.build(variables)
    assert {places.gpu_of(each) is not None for each in variables} == {"GPU" in device}

    def step(*gradients: Any) -> None:
        with tf.device(device):
            optimizer.apply([tf.negative(each) for each in gradients], variables)

    step = tf.function(step) if traced else step
    for number in range(4):
        step(*(_values(number, tuple(each.shape)) for each in variables))
        if number == 1:
            optimizer.set_codec("int8")
        if number == 2:
            optimizer.set_codec("none")  # the residual joins the next values
    assert ("GPU" in device) == (hp.memory_stats()["device_pool_bytes_held"] > 0)
    return [np.asarray(each).tobytes() for each in variables]


@pytest.mark.parametrize("traced", [True, False], ids=["tf.function", "eager"])
@pytest.mark.parametrize("program", [_combined, _trained])
def test_the_bits_of_the_processor(program: Any, traced: bool) -> None:
    _needs_gpu()
    assert run(program, 2, "GPU:0", traced) == run(program, 2, "CPU:0", traced)


def test_a_gpu_has_its_number_of_cuda() -> None:
    _needs_gpu()
    assert places.gpu_number(tf.config.list_logical_devices("GPU")[0].name) == 0


def test_codec_operators_give_the_payloads_and_states_of_the_processor() -> None:
    _needs_gpu()
    kept: dict[str | None, Any] = {place: {"residual": tf.zeros(30_000)} for place in (None, "GPU:0")}
    for number in range(3):
        values = tf.random.stateless_normal([30_000], [number, 0])
        sent: dict[str | None, Any] = {}
        for place, states in kept.items():
            sent[place], kept[place] = codecs.encode("onebit", values, states, step=number, device=place)
        codecs.wait_for_gpu(0, 60.0)
        assert codecs.exact_payload(sent["GPU:0"]).numpy().tobytes() == sent[None].numpy().tobytes()
        np.testing.assert_array_equal(kept["GPU:0"]["residual"].numpy(), kept[None]["residual"].numpy())
