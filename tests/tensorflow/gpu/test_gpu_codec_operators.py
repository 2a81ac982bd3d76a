# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's codec operators for GPUs: registered, refused without a GPU, and with the processor's bytes and states.

The kernels run as operators of the processor (codec_operators.cc), with a stream of the stand-in for NVIDIA's driver.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import kernels

import hipress.tensorflow as hp
from hipress import _core
from hipress.gpus import gpu
from hipress.tensorflow import codec_operators as codecs
from hipress.tensorflow import operators
from tests.tensorflow.gpu.stand_in import loaded

LONGEST = 60.0
CODECS = ("onebit", "int8", "terngrad", "fp16", "dgc")
VALUES = np.random.default_rng(0).standard_normal(5001, np.float32)


@pytest.mark.parametrize(
    ("name", "on_host"),
    [("HipressGpuEncode", ["step"]), ("HipressGpuDecode", ["count"]), ("HipressGpuDecodeAccumulate", [])],
)
def test_the_kernels_are_registered_for_gpus_only(name: str, on_host: list[str]) -> None:
    (kernel,) = kernels.get_registered_kernels_for_op(name).kernel
    assert kernel.device_type == "GPU"
    assert list(kernel.host_memory_arg) == on_host


def test_a_gpu_that_tensorflow_does_not_have_is_named() -> None:
    with pytest.raises(hp.Unsupported, match="codec operators on 'GPU:7': TensorFlow's GPUs here are"):
        codecs.encode("onebit", VALUES, device="GPU:7")
    with pytest.raises(hp.Unsupported, match="without `device` the operators run on the CPU"):
        codecs.decode("onebit", tf.zeros(12, tf.uint8), 1, device="GPU:7")


@pytest.mark.parametrize("device", ["GPU:1", "/GPU:1", "/device:GPU:1"])
def test_a_gpu_is_found_by_each_of_its_names(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [SimpleNamespace(name=f"/device:GPU:{number}") for number in range(2)]
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda _: found)
    with operators._on(device):
        pass
    with pytest.raises(hp.Unsupported, match="TensorFlow's GPUs here are /device:GPU:0, /device:GPU:1;"):
        operators._on("GPU:2")


@pytest.fixture(scope="module")
def on_the_stand_in() -> Iterator[None]:
    """The GPU's operators are those of codec_operators.cc, and no device is looked for."""
    of_test, _, _ = loaded("codec_operators.cc")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("encode", "decode", "decode_accumulate"):
            patch.setattr(operators._operators, f"hipress_gpu_{name}", getattr(of_test, f"hipress_test_{name}"))
        patch.setattr(operators, "_on", lambda device: tf.device("CPU:0"))
        yield
    codecs.wait_for_gpu(0, LONGEST)
    _core.set_device_maker(gpu)


@pytest.mark.thorough
@pytest.mark.usefixtures("on_the_stand_in")
@pytest.mark.parametrize("traced", [True, False], ids=["tf.function", "eager"])
@pytest.mark.parametrize("name", CODECS)
def test_messages_states_and_values_are_the_processors(name: str, traced: bool) -> None:
    numbers: dict[str, Any] = {"seed": 1, "tensor": 3, "scale": 0.5}
    names = _core.create_codec(name).states

    def on(device: str | None) -> Any:
        def step(values: tf.Tensor, states: dict[str, tf.Tensor], number: tf.Tensor) -> Any:
            message, after = codecs.encode(name, values, states, step=number, device=device, **numbers)
            decoded = codecs.decode(name, message, tf.size(values), device=device)
            sums = codecs.decode_accumulate(name, message, values, device=device)
            return message if device is None else codecs.exact_payload(message), after, decoded, sums

        return tf.function(step) if traced else step

    given, expected = ({state: tf.zeros(VALUES.size) for state in names} for _ in range(2))
    for number in range(3):
        values = tf.constant(np.roll(VALUES, number))
        payload, given, *results = on("GPU:0")(values, given, tf.constant(number, tf.int64))
        wanted, expected, *others = on(None)(values, expected, tf.constant(number, tf.int64))
        assert payload.numpy().tobytes() == wanted.numpy().tobytes()
        for found, other in zip([*results, *given.values()], [*others, *expected.values()], strict=True):
            np.testing.assert_array_equal(found.numpy(), other.numpy())


@pytest.mark.thorough
@pytest.mark.usefixtures("on_the_stand_in")
def test_a_gradient_that_is_not_finite_leaves_the_states() -> None:
    residual = tf.fill([5001], 0.5)
    message, after = codecs.encode("onebit", VALUES * np.inf, {"residual": residual}, device="GPU:0")
    assert codecs.exact_payload(message).shape == (0,)
    np.testing.assert_array_equal(after["residual"].numpy(), residual.numpy())
    assert np.isnan(codecs.decode("onebit", message, 5001, device="GPU:0").numpy()).all()


@pytest.mark.thorough
@pytest.mark.usefixtures("on_the_stand_in")
def test_a_refused_payload_changes_nothing_and_is_told_later() -> None:
    message, _ = codecs.encode("onebit", VALUES, device="GPU:0")
    sums = codecs.decode_accumulate("onebit", message, tf.ones(9001), device="GPU:0")  # of 5001 elements
    np.testing.assert_array_equal(sums.numpy(), np.ones(9001, np.float32))
    with pytest.raises(hp.CorruptPayload, match="an earlier decode on cuda:0: codec onebit: "):
        codecs.wait_for_gpu(0, LONGEST)


@pytest.mark.thorough
@pytest.mark.usefixtures("on_the_stand_in")
def test_wrong_use_is_told_at_once() -> None:
    with pytest.raises(hp.InvalidArgument, match="residual has 3 elements, the gradient 5001"):
        codecs.encode("onebit", VALUES, {"residual": tf.zeros(3)}, device="GPU:0")
    with pytest.raises(hp.InvalidArgument, match="the payload has 6 bytes"):
        codecs.decode("onebit", tf.zeros(6, tf.uint8), 3, device="GPU:0")
    with pytest.raises(hp.Unsupported, match="codec none has no code for cuda:0"):
        codecs.encode("none", VALUES, device="GPU:0")
