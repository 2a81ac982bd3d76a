# SPDX-License-Identifier: Apache-2.0
"""The places of the synchronising operators: the GPU that holds their tensors, or the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from tensorflow.python.eager import context

from hipress.errors import InvalidArgument, Unsupported
from hipress.gpus import gpu
from hipress.tensorflow.failures import own_errors
from hipress.tensorflow.library import load_operators

if TYPE_CHECKING:
    from hipress import _core

CPU = "CPU:0"


@dataclass(frozen=True)
class Place:
    """A device of TensorFlow, and the engine's device for it."""

    device: str
    engine: _core.Device | None
    """None: host memory."""


ON_CPU = Place(CPU, None)


def gpu_named(device: str, what: str, otherwise: str) -> str:
    """TensorFlow's name of this GPU. Raises Unsupported, which begins with `what`, if TensorFlow does not have it."""
    known = [each.name for each in tf.config.list_logical_devices("GPU")]
    asked = tf.DeviceSpec.from_string(device)
    for name in known:
        if tf.DeviceSpec.from_string(name).make_merged_spec(asked).to_string() == name:
            return str(name)
    raise Unsupported(f"{what} on '{device}': TensorFlow's GPUs here are {', '.join(known) or 'none'}; {otherwise}")


def asked_device(device: str) -> str:
    """TensorFlow's name of the device of an argument `device_dense`; empty: the tensors decide.

    Raises InvalidArgument for a text that names no CPU or GPU, and Unsupported for a GPU that TensorFlow does not have.
    """
    if not device:
        return ""
    try:
        kind = tf.DeviceSpec.from_string(device).device_type
    except ValueError:
        kind = None
    if kind == "GPU":
        return gpu_named(device, "device_dense", "give 'CPU:0', or no device_dense")
    if kind != "CPU":
        raise InvalidArgument(f"device_dense='{device}' names no CPU or GPU; give 'CPU:0' or 'GPU:0', or leave it out")
    return CPU


def gpu_of(value: Any) -> str | None:
    """TensorFlow's name of the GPU that holds a variable or an eager tensor, or None."""
    own = value if isinstance(value, tf.Variable | tf.Tensor) else getattr(value, "value", None)
    device = str(getattr(own, "device", None) or "")
    return device if tf.DeviceSpec.from_string(device).device_type == "GPU" else None


@cache  # the devices of a process do not change
def gpu_number(device: str) -> int:
    """CUDA's number of a GPU of TensorFlow. Only eager code can ask."""
    operators, _ = load_operators()
    with tf.device(device), own_errors():
        return int(operators.hipress_gpu_number())


def place_of(variable: Any, name: str, asked: str = "") -> Place:
    """The place where ranks combine the gradients of a variable: `asked`, or the GPU that holds the variable, or the
    CPU. Graphs of tf.compat.v1 use the CPU, because their variables have a place only in a session.

    Raises Unsupported, which says what is missing.
    """
    device = asked or gpu_of(variable)
    if device is None or device == CPU:
        return ON_CPU
    with tf.init_scope():
        if not tf.executing_eagerly():
            if not asked:
                return ON_CPU
            raise Unsupported(
                f"device_dense='{asked}': in a graph of tf.compat.v1 gradients are combined on the CPU; leave it out"
            )
        try:
            return Place(device, gpu(gpu_number(device)))
        except Unsupported as error:
            raise Unsupported(
                f"the gradient of variable '{name}' is on a GPU, but {error}. Or combine it on the CPU: "
                "device_dense='CPU:0'"
            ) from None


def at(tensors: Sequence[Any], asked: str = "") -> AbstractContextManager[Any]:
    """The device of an operator with these tensors: `asked`; else the device of a tf.device() of the caller; else the
    GPU that holds all tensors, or the CPU. In a graph TensorFlow chooses, and prefers a GPU.
    """
    if asked:
        chosen: AbstractContextManager[Any] = tf.device(asked)
        return chosen
    if not tf.executing_eagerly() or context.context().device_name:
        return nullcontext()
    found = {gpu_of(tensor) for tensor in tensors}
    chosen = tf.device((found.pop() if len(found) == 1 else None) or CPU)
    return chosen
