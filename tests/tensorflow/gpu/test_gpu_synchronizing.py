# SPDX-License-Identifier: Apache-2.0
"""Synchronising operators of TensorFlow on GPUs: registered, placed, refused, and with the bits of the processor.

The kernels run as operators of the processor (synchronizing.cc), whose tensors are on the stand-in for NVIDIA's
driver. The stream computes their inputs late.
"""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import kernels

import hipress.tensorflow as hp
from hipress import _core
from hipress.tensorflow import operators, places
from tests.ranks import Ranks
from tests.tensorflow import ranks
from tests.tensorflow.gpu import stand_in

_on_stand_in = Ranks(
    ranks.PREPARATION
    + """
from tests.tensorflow.gpu import stand_in
stand_in.prepare()
"""
)
SHAPES = [(5001,), (30, 7), (3,)]


def run(function: Any, on_gpu: tuple[bool, ...], *arguments: Any) -> list[Any]:
    """Runs the function on each rank, with its tensors on the stand-in or in host memory."""
    if not any(on_gpu):
        return ranks.run(function, len(on_gpu), *arguments)
    return _on_stand_in.run(_placed, len(on_gpu), function, on_gpu, *arguments)


def _placed(function: Any, on_gpu: tuple[bool, ...], *arguments: Any) -> Any:
    stand_in.on_gpu = on_gpu[int(os.environ["HIPRESS_RANK"])]
    return ranks.begin(function, *arguments)


@pytest.mark.parametrize(
    ("name", "on_host"),
    [
        ("HipressSynchronize", ["scale"]),
        ("HipressAllreduce", ["names", "factors"]),
        ("HipressReducescatter", ["names", "factors"]),
        ("HipressBroadcast", ["names"]),
        ("HipressUpdated", ["variables"]),
    ],
)
def test_the_kernels_are_registered_for_both_devices(name: str, on_host: list[str]) -> None:
    found = {
        each.device_type: list(each.host_memory_arg) for each in kernels.get_registered_kernels_for_op(name).kernel
    }
    assert found == {"CPU": [], "GPU": on_host}


def test_collectives_of_rows_are_registered_for_the_processor_only() -> None:
    for name in ("HipressAllgather", "HipressAlltoall"):
        assert [each.device_type for each in kernels.get_registered_kernels_for_op(name).kernel] == ["CPU"]


def test_the_number_of_a_gpu_is_told_in_host_memory() -> None:
    (kernel,) = kernels.get_registered_kernels_for_op("HipressGpuNumber").kernel
    assert (kernel.device_type, list(kernel.host_memory_arg)) == ("GPU", ["number"])


def _gradient(shape: tuple[int, ...], step: int) -> Any:
    generator = np.random.default_rng([hp.rank(), step, *shape])
    return tf.constant(generator.standard_normal(shape, np.float32))


def _trained(codec: str, traced: bool, codecs: tuple[str, ...] = (), spoilt: int = -1) -> Any:
    """The variables after each step, the states, and where the engine has put values."""
    hp.init()
    variables = [keras.Variable(np.zeros(shape, np.float32), name=f"v{i}") for i, shape in enumerate(SHAPES)]
    optimizer = hp.DistributedOptimizer(keras.optimizers.SGD(0.5), codec=codec, min_compress_bytes=0)
    optimizer.build(variables)
    seen = []

    def step(*gradients: Any) -> None:
        optimizer.apply(gradients, variables)

    step = tf.function(step) if traced else step
    for number, other in enumerate([None, None, *codecs, None]):
        if other is not None:
            optimizer.set_codec(other)
        gradients = [_gradient(shape, number) for shape in SHAPES]
        if number == spoilt and hp.rank() == 0:
            gradients[0] = gradients[0] * np.inf
        step(*gradients)
        if number == spoilt:
            for variable in variables:
                variable.assign(tf.where(tf.math.is_finite(variable.value), variable.value, 0.0))
        seen += [np.asarray(variable).tobytes() for variable in variables]
    states = hp.codec_states(optimizer, exact=True)
    used = hp.memory_stats()["device_pool_bytes_held"] > 0
    return seen, {name: np.asarray(values).tobytes() for name, values in states.items()}, used


@pytest.mark.parametrize("traced", [True, False], ids=["tf.function", "eager"])
@pytest.mark.parametrize("codec", ["none", "onebit", "dgc(ratio=0.05)", "fp16"])
def test_training_gives_the_bits_of_the_processor(codec: str, traced: bool) -> None:
    expected = run(_trained, (False, False), codec, traced)
    for on_gpu in [(True, True), (False, True)]:
        results = run(_trained, on_gpu, codec, traced)
        for (seen, states, used), (wanted, kept, _), there in zip(results, expected, on_gpu, strict=True):
            assert used == there
            assert seen == wanted
            assert states == kept


@pytest.mark.parametrize("spoilt", [-1, 2], ids=["finite", "not finite"])
def test_a_residual_of_another_codec_joins_the_next_values(spoilt: int) -> None:
    expected = run(_trained, (False, False), "onebit", True, ("none",), spoilt)
    results = run(_trained, (True, True), "onebit", True, ("none",), spoilt)
    assert [seen for seen, _, _ in results] == [seen for seen, _, _ in expected]


def _collectives(traced: bool) -> list[bytes]:
    hp.init()

    def every(*values: Any) -> list[Any]:
        each = iter(values)
        results = [hp.allreduce(next(each), name=codec, codec=codec) for codec in ("none", "onebit")]
        results.append(hp.allreduce(next(each), op=hp.Max, name="max"))
        results.append(hp.reducescatter(next(each), name="rows", prescale_factor=0.5))
        return results + [hp.broadcast(next(each), root, name=f"root {root}") for root in range(hp.size())]

    # Each operator has its own tensor, which the stream writes while the operator waits. The test holds the tensors, so
    # no operator may write its result there.
    given = [_gradient((33, 5), number) for number in range(4 + hp.size())]
    given[2] = tf.cast(given[2] * 9, tf.int32)
    results = (tf.function(every) if traced else every)(*given)
    return [result.numpy().tobytes() for result in [*results, *given]]


@pytest.mark.parametrize("traced", [True, False], ids=["tf.function", "eager"])
def test_collectives_give_the_bits_of_the_processor(traced: bool) -> None:
    expected = run(_collectives, (False, False), traced)
    for on_gpu in [(True, True), (True, False)]:
        assert run(_collectives, on_gpu, traced) == expected


def _parts() -> list[list[float]]:
    """The gradients of variables of two devices, handed over eagerly in one step after the other."""
    hp.init()
    device = places.place_of(None, "").engine
    variables = [tf.Variable(tf.zeros(n)) for n in (4, 5, 6)]
    lists = operators._operators.hipress_synchronize

    def place_of(variable: Any, name: str, asked: str = "") -> places.Place:
        return places.ON_CPU if variable is variables[1] else places.Place(stand_in.GPU, device)

    def synchronize(*inputs: Any, indices: list[int], **options: Any) -> Any:
        stand_in.on_gpu = indices != [1]
        return lists(*inputs, indices=indices, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(places, "place_of", place_of)
        patch.setattr(operators._operators, "hipress_synchronize", synchronize)
        sums = []
        for number in range(3):
            with tf.GradientTape() as tape:
                loss = sum((number + hp.rank()) * tf.reduce_sum(each) for each in variables)
            gradients = hp.DistributedGradientTape(tape).gradient(loss, variables)
            sums.append([float(each[0]) for each in gradients])
    return sums


def test_an_eager_step_takes_variables_of_several_devices() -> None:
    assert run(_parts, (True, True)) == [[[0.5] * 3, [1.5] * 3, [2.5] * 3]] * 2


def _reported() -> tuple[list[tuple[str, list[int]]], float]:
    """The reports of an optimizer whose second variable is on another device, and the first variable."""
    hp.init()
    variables = [keras.Variable(np.zeros(3, np.float32)) for _ in range(3)]
    told = operators.updated
    reports: list[tuple[str, list[int]]] = []

    def updated(known: Any, number: int, indices: list[int], device: str) -> None:
        assert len(known) == len(indices)
        reports.append((device, indices))
        told(known, number, indices, device)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(places, "place_of", lambda *_: places.ON_CPU)
        patch.setattr(places, "gpu_of", lambda variable: stand_in.GPU if variable is variables[1] else None)
        patch.setattr(operators, "updated", updated)
        optimizer = hp.DistributedOptimizer(keras.optimizers.SGD(1.0))
        optimizer.build(variables)
        step = tf.function(lambda: optimizer.apply([tf.ones(3)] * 3, variables))
        for _ in range(3):
            step()
    return reports, float(variables[1].value[0])


def test_updates_are_reported_on_the_device_of_the_variables() -> None:
    assert run(_reported, (False, False)) == [([("CPU:0", [0, 2]), (stand_in.GPU, [1])], -3.0)] * 2


def _refused(codec: str) -> None:
    hp.init()
    variable = keras.Variable(np.zeros((300, 300), np.float32))
    optimizer = hp.DistributedOptimizer(keras.optimizers.SGD(1.0), codec=codec)
    optimizer.build([variable])
    with pytest.raises(hp.Unsupported, match="computes on the host, and the tensor is on a device"):
        optimizer.apply([tf.ones((300, 300))], [variable])
    with pytest.raises(hp.Unsupported, match="computes on the host, and the tensor is on a device"):
        hp.allreduce(tf.ones((300, 300)), name="w", codec=codec)


def test_a_codec_without_code_for_gpus_is_refused() -> None:
    run(_refused, (True, True), "powersgd(rank=2)")


def _moved() -> None:
    hp.init()
    variables = [tf.Variable([1.0, 2.0])]
    tape = tf.GradientTape()
    with tape:
        loss = tf.reduce_sum(variables[0])
    tape = hp.DistributedGradientTape(tape)
    stand_in.on_gpu = False  # the list is declared in host memory
    tape._hipress_lists._list_of(variables)
    stand_in.on_gpu = True
    with pytest.raises(hp.Unsupported, match="it is not on cpu, where it was when it was declared"):
        tape.gradient(loss, variables)


def test_a_gradient_that_is_not_where_it_was_declared_is_refused() -> None:
    run(_moved, (True,))


def _held_on(device: str) -> Any:
    """A Keras variable, of which only the device counts."""
    return SimpleNamespace(value=SimpleNamespace(device=device))


@pytest.fixture
def one_gpu(monkeypatch: pytest.MonkeyPatch) -> _core.Device:
    device = _core.SimulatedDevice()
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda _: [SimpleNamespace(name="/device:GPU:0")])
    monkeypatch.setattr(places, "gpu_number", lambda name: 3 if name.endswith("GPU:0") else 4)
    monkeypatch.setattr(places, "gpu", {3: device}.__getitem__)
    return device


def test_gradients_are_combined_where_their_variable_is(one_gpu: _core.Device) -> None:
    name = "/job:localhost/replica:0/task:0/device:GPU:0"
    assert places.place_of(_held_on(name), "w") == places.Place(name, one_gpu)
    assert places.place_of(_held_on(name), "w", places.asked_device("/cpu:0")) == places.ON_CPU
    assert places.place_of(tf.Variable(1.0), "w") == places.ON_CPU
    assert places.place_of(tf.Variable(1.0), "w", places.asked_device("GPU:0")).engine is one_gpu


def test_variables_of_a_graph_without_a_session_are_combined_on_the_cpu(one_gpu: _core.Device) -> None:
    with tf.Graph().as_default():
        assert places.place_of(_held_on("/device:GPU:0"), "w") == places.ON_CPU
        with pytest.raises(hp.Unsupported, match=r"in a graph of tf\.compat\.v1 gradients are combined on the CPU"):
            places.place_of(_held_on(""), "w", "/device:GPU:0")


def test_a_gpu_that_hipress_cannot_use_is_named_with_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "gpu_number", lambda name: 99)
    with pytest.raises(hp.Unsupported, match=r"variable 'w' is on a GPU, but cuda:99 .*device_dense='CPU:0'"):
        places.place_of(_held_on("/device:GPU:0"), "w")


@pytest.mark.parametrize("device", ["GPU:7", "/gpu:7"])
def test_a_gpu_that_tensorflow_does_not_have_is_refused(device: str) -> None:
    hp.init()
    with pytest.raises(hp.Unsupported, match=r"device_dense on '.*': TensorFlow's GPUs here are .*; give 'CPU:0'"):
        hp.allreduce(tf.ones(3), device_dense=device)
    plain = keras.optimizers.SGD(1.0)
    with pytest.raises(hp.Unsupported, match=r"device_dense on"):
        hp.DistributedOptimizer(plain, device_dense=device)
    hp.DistributedOptimizer(plain, device_dense="/cpu:0")


@pytest.mark.parametrize("device", ["TPU:0", "fast", "0"])
def test_a_device_that_is_no_cpu_or_gpu_is_refused(device: str) -> None:
    with pytest.raises(hp.InvalidArgument, match=f"device_dense='{device}' names no CPU or GPU; give 'CPU:0'"):
        places.asked_device(device)


def test_an_eager_operator_runs_on_the_gpu_of_all_its_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[str] = []
    monkeypatch.setattr(tf, "device", chosen.append)
    monkeypatch.setattr(places, "gpu_of", lambda tensor: tensor)
    for tensors in (["GPU:1", "GPU:1"], ["GPU:0", "GPU:1"], ["GPU:0", None], [None]):
        places.at(tensors)
    places.at(["GPU:0"], "CPU:0")
    assert chosen == ["GPU:1", "CPU:0", "CPU:0", "CPU:0", "CPU:0"]


def test_the_callers_device_is_kept() -> None:
    with tf.device("CPU:0"), places.at([tf.ones(1)]):
        assert tf.ones(1).device.endswith("CPU:0")
    assert tf.function(lambda: places.at([]))
