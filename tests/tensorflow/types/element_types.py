# SPDX-License-Identifier: Apache-2.0
"""Every way into HiPress with every element type of TensorFlow, without a codec and with one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import hipress.tensorflow as hp
from hipress.tensorflow.keras.optim import OneBitAdam
from tests.frameworks import element_types

#: The columns of the table, with their types.
TYPES: dict[str, tuple[str, ...]] = {
    "float32": ("float32",),
    "float64": ("float64",),
    "float16, bfloat16": ("float16", "bfloat16"),
    "complex64, complex128": ("complex64", "complex128"),
    "int8 to int64, uint8": ("int8", "int16", "int32", "int64", "uint8"),
    "bool": ("bool",),
    "uint16 to uint64": ("uint16", "uint32", "uint64"),
    "float8": ("float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"),
    "quantised": ("qint8", "quint8", "qint16", "quint16", "qint32"),
    "fewer bits": ("int2", "uint2", "int4", "uint4", "float4_e2m1fn"),
    "string": ("string",),
}


def present() -> dict[str, tuple[str, ...]]:
    """The types that this version of TensorFlow has."""

    def known(name: str) -> bool:
        try:
            return bool(tf.as_dtype(name))
        except TypeError:
            return False

    return {title: tuple(filter(known, names)) for title, names in TYPES.items()}


class Cell(element_types.Cell):
    def __init__(self, name: str, codec: str) -> None:
        self.dtype = tf.as_dtype(name)
        other = name.startswith("q") or name == "string"  # NumPy has no such type
        super().__init__(
            name,
            codec,
            np.dtype(name.lstrip("q")) if name.startswith("q") else np.int64 if other else self.dtype.as_numpy_dtype,
            hp.rank(),
        )

    @property
    def tensor(self) -> Any:
        if self.name == "string":
            return tf.as_string(self.own)
        if self.name.startswith("q"):
            return tf.bitcast(self.own, self.dtype)
        return tf.constant(self.own, self.dtype)

    def variable(self) -> Any:
        return tf.Variable(tf.zeros(element_types.SHAPE, self.dtype), name=f"{self.name}_{self.codec}")

    def check(self, found: Any, wanted: Any, slack: float = 0.0) -> str:
        assert found.dtype == self.dtype, f"the result is of type {found.dtype.name}"
        return super().check(found, wanted, slack)

    def called(self, way: str) -> str:
        return f"{way} {self.name} {self.codec}"


def _allreduce(cell: Cell) -> str:
    return cell.averaged(hp.allreduce(cell.tensor, name=cell.called("average"), codec=cell.codec))


def _add(cell: Cell) -> str:
    return cell.added(hp.allreduce(cell.tensor, name=cell.called("sum"), codec=cell.codec, op=hp.Sum))


def _greatest(cell: Cell) -> str:
    return cell.greatest(
        *(
            hp.allreduce(cell.tensor, name=cell.called(str(op)), codec=cell.codec, op=op)
            for op in (hp.Min, hp.Max, hp.Product)
        )
    )


def _slices(cell: Cell) -> str:
    rows = tf.range(64, dtype=tf.int64)
    given = tf.IndexedSlices(cell.tensor, rows, element_types.SHAPE)
    found = hp.allreduce(given, name=cell.called("slices"), codec=cell.codec)
    np.testing.assert_array_equal(found.indices, np.tile(rows, 2))
    if not (cell.dtype.is_floating or cell.dtype.is_complex):
        assert found.values.dtype.is_floating
        np.testing.assert_array_equal(found.values, np.concatenate(cell.both) / 2)
        return "floats"
    return cell.check(found.values, np.concatenate(cell.both) / np.array(2, cell.own.dtype), 4)


def _moved(cell: Cell) -> str:
    if cell.codec != "none":
        return ""
    own = cell.tensor
    return cell.moved(
        hp.broadcast(own, 1, name=cell.called("broadcast")),
        hp.allgather(own, name=cell.called("allgather")),
        hp.alltoall(own, name=cell.called("alltoall")),
    )


def _variables(cell: Cell) -> str:
    if cell.codec != "none":
        return ""
    variable = tf.Variable(cell.tensor, name=cell.name)
    hp.broadcast_variables([variable], 1)
    return cell.check(variable.value(), cell.both[1])


def _scattered(cell: Cell) -> str:
    if cell.codec != "none":
        return ""
    return cell.averaged(hp.reducescatter(cell.tensor, name=cell.called("reducescatter")), cell.rows)


def _greatest_scattered(cell: Cell) -> str:
    if cell.codec != "none":
        return ""
    found = hp.reducescatter(cell.tensor, name=cell.called("reducescatter max"), op=hp.Max)
    return cell.check(found, np.maximum(*cell.both)[cell.rows])


def _gradient(cell: Cell, result: Callable[[Any], Any], derivative: Any) -> Any:
    """What a distributed tape makes of `derivative`."""
    variable = cell.variable()

    @tf.custom_gradient
    def loss(given: Any) -> Any:
        return tf.zeros([]), lambda _: derivative

    with tf.GradientTape() as tape:
        target = loss(result(variable))
    tape = hp.DistributedGradientTape(tape, codec=cell.codec, min_compress_bytes=0)
    found = tape.gradient(target, variable)
    if found is None:
        raise TypeError("TensorFlow has no gradient of this type")
    return found


def _tape(cell: Cell) -> str:
    return cell.averaged(_gradient(cell, lambda variable: variable.read_value(), cell.tensor))


def _tape_of_slices(cell: Cell) -> str:
    found = _gradient(cell, lambda variable: tf.gather(variable, tf.range(64)), cell.tensor)
    assert isinstance(found, tf.IndexedSlices)
    return cell.check(found.values, np.concatenate(cell.both) / np.array(2, cell.own.dtype), 4)


def _optimizer(cell: Cell) -> str:
    optimizer = hp.DistributedOptimizer(keras.optimizers.SGD(1.0), codec=cell.codec, min_compress_bytes=0)
    found = _steps_of(optimizer, cell, cell.tensor)
    # Keras computes complex128 in the precision of complex64.
    alone = _steps_of(keras.optimizers.SGD(1.0), cell, tf.constant(cell.mean(), cell.dtype))
    return cell.check(found, alone, 16)


def _steps_of(optimizer: Any, cell: Cell, gradient: Any) -> Any:
    start = np.full(element_types.SHAPE, 0 if cell.dtype.is_floating or cell.dtype.is_complex else 100)
    variable = keras.Variable(start, dtype=cell.name, name=f"{cell.name}_{cell.codec}")
    optimizer.apply([gradient], [variable])
    return variable.value


def _onebit_adam(cell: Cell) -> str:
    OneBitAdam(freeze_step=1).build([keras.Variable(np.zeros(element_types.SHAPE), dtype=cell.name)])
    return "exact" if cell.codec == "none" else "codec"  # its tests show what it sends


#: The rows of the table.
WAYS: dict[str, Callable[[Cell], str]] = {
    "`allreduce()`, average": _allreduce,
    "`allreduce()`, sum": _add,
    "`allreduce()`, min, max, product": _greatest,
    "`allreduce()` of IndexedSlices, average": _slices,
    "`broadcast()`, `allgather()`, `alltoall()`": _moved,
    "`broadcast_variables()`": _variables,
    "`reducescatter()`, average": _scattered,
    "`reducescatter()`, max": _greatest_scattered,
    "`DistributedGradientTape`": _tape,
    "`DistributedGradientTape`, IndexedSlices": _tape_of_slices,
    "`DistributedOptimizer`": _optimizer,
    "`hipress.tensorflow.keras.optim`": _onebit_adam,
}


def all_outcomes() -> element_types.Outcomes:
    """By way, type and codec."""
    hp.init()
    return element_types.all_outcomes(WAYS, present(), Cell)
