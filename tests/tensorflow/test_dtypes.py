# SPDX-License-Identifier: Apache-2.0
"""Every element type of TensorFlow in every way into HiPress: the result is right, or an error names the type."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

import hipress.tensorflow as hp
from tests.tensorflow.ranks import run

_FLOATS = ["float16", "bfloat16", "float32", "float64"]
_COMPLEX = ["complex64", "complex128"]
_NUMBERS = [*_FLOATS, "uint8", "int8", "int16", "int32", "int64"]
_COMBINED = [*_NUMBERS, "bool"]
_MOVED = [*_COMBINED, *_COMPLEX, "uint16", "uint32", "uint64"]
_REFUSED = ["string", "int4", "uint4", "float8_e4m3fn", "float8_e5m2", "qint8", "qint32"]
#: The types that each way takes. It refuses all others.
_TAKEN = {
    "average": [*_NUMBERS, *_COMPLEX],
    "sum": [*_COMBINED, *_COMPLEX],
    "min": _COMBINED,
    "reducescatter": [*_NUMBERS, *_COMPLEX],
    "reducescatter max": _COMBINED,
    "allgather": _MOVED,
    "broadcast": _MOVED,
    "alltoall": _MOVED,
    "variables": _MOVED,
    "tape": [*_FLOATS, *_COMPLEX],
    "compressed tape": [*_FLOATS, *_COMPLEX],
    "optimizer": _FLOATS,
}


def _values(dtype: tf.DType) -> Any:
    """Four rows of values; those of floating types need all bits of the type."""
    if dtype == tf.string:
        return tf.constant([["a"], ["b"], ["c"], ["d"]])
    if dtype.is_complex:
        return tf.constant([[1 / 3 - 2j / 3], [2 / 3j], [1], [4j / 7]], dtype)
    if dtype.is_floating and dtype.size > 1:
        return tf.constant([[1 / 3], [-2 / 3], [1.0], [4 / 7]], dtype)
    if dtype.name.startswith("q"):
        return tf.bitcast(tf.ones((4, 1), tf.int8 if dtype.size == 1 else tf.int32), dtype)
    return tf.constant(np.array([[1], [0], [1], [1]]).astype(dtype.as_numpy_dtype), dtype)


def _collective(way: str, values: Any) -> tuple[Any, Any]:
    """The result of one collective, and what it should be. Both ranks have the same values."""
    name = f"{way} {values.dtype.name}"
    if way in ("average", "sum", "min"):
        found = hp.allreduce(values, op={"average": hp.Average, "sum": hp.Sum, "min": hp.Min}[way], name=name)
        return found, values + values if way == "sum" and values.dtype != tf.bool else values
    if way.startswith("reducescatter"):
        found = hp.reducescatter(values, op=hp.Max if way.endswith("max") else hp.Average, name=name)
        return found, values[2 * hp.rank() : 2 * hp.rank() + 2]
    if way == "allgather":
        return hp.allgather(values, name=name), tf.concat([values, values], 0)
    if way == "broadcast":
        return hp.broadcast(values, 1, name=name), values
    if way == "alltoall":
        found = hp.alltoall(values, name=name)
        half = values[2 * hp.rank() : 2 * hp.rank() + 2]
        return found, tf.concat([half, half], 0)
    variable = tf.Variable(values)
    hp.broadcast_variables([variable], 1)
    return variable.value(), values


def _gradient(way: str, values: Any) -> tuple[Any, Any]:
    """A synchronised gradient, and what it should be."""
    codec = {"codec": "fp16" if values.dtype.is_floating else "int8", "min_compress_bytes": 0}
    if way == "optimizer":
        variable = keras.Variable(np.zeros((4, 1)), dtype=values.dtype.name)
        optimizer = hp.DistributedOptimizer(keras.optimizers.SGD(1.0))
        optimizer.apply([values], [variable])
        return -variable.value, values
    variable = tf.Variable(tf.zeros((4, 1), values.dtype))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.math.real(variable * tf.math.conj(values)))
    tape = hp.DistributedGradientTape(tape, **(codec if way == "compressed tape" else {}))
    return tape.gradient(loss, variable), values


def _outcome(way: str, name: str) -> str:
    dtype = tf.as_dtype(name)
    values = _values(dtype)
    try:
        make = _gradient if way in ("tape", "compressed tape", "optimizer") else _collective
        found, expected = make(way, values)
    except hp.Unsupported as error:
        return "refused" if name in str(error) else f"the error does not name {name}: {error}"
    if found.dtype != dtype:
        return f"the result is of type {found.dtype.name}"
    wide = np.complex128 if dtype.is_complex else np.float64
    tolerance = 0.01 if way == "compressed tape" else 0.0
    near = np.allclose(
        np.asarray(found).astype(wide), np.asarray(expected).astype(wide), rtol=tolerance, atol=tolerance
    )
    return "right" if near else f"{found} is not {expected}"


def _outcomes() -> dict[tuple[str, str], str]:
    hp.init()
    gradients = ("tape", "compressed tape", "optimizer")
    return {
        (way, name): _outcome(way, name)
        for way in _TAKEN
        for name in [*_MOVED, *_REFUSED]
        # TensorFlow itself has no gradient of other types.
        if way not in gradients or name in ([*_FLOATS] if way == "optimizer" else [*_FLOATS, *_COMPLEX])
    }


def test_each_type_is_right_in_each_way_or_refused_by_its_name() -> None:
    for outcomes in run(_outcomes, 2):
        wrong = {
            key: found
            for key, found in outcomes.items()
            if found != ("right" if key[1] in _TAKEN[key[0]] else "refused")
        }
        assert not wrong
