# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ctypes

import numpy as np
from numpy.typing import NDArray

from tests.cases import each
from tests.core.ops.arrays import SIZES, floats, guarded, pointer, size


def kept(count: int, share: float) -> NDArray[np.int32]:
    generator = np.random.default_rng(count)
    chosen = (generator.random(count) < share) * generator.choice([1, -1, 1 << 31, 256], count)
    return guarded(chosen.astype(np.uint32).view(np.int32))


@each("share", [0.0, 0.01, 0.5, 1.0])
@each("count", SIZES)
def test_indices(ops: ctypes.CDLL, count: int, share: float) -> None:
    ops.compact_indices.restype = ctypes.c_size_t
    keep, out = kept(count, share), guarded(np.empty(count + 16, np.int32))
    number = ops.compact_indices(pointer(keep), size(count), 5000, pointer(out))
    assert np.array_equal(out[:number], np.flatnonzero(keep) + 5000)


@each("kind", ["float", "double"])
@each("share", [0.0, 0.01, 0.5, 1.0])
@each("count", SIZES)
def test_values(ops: ctypes.CDLL, count: int, share: float, kind: str) -> None:
    function = getattr(ops, f"compact_{kind}s")
    function.restype = ctypes.c_size_t
    values = guarded(floats(count, {"float": np.float32, "double": np.float64}[kind]))
    keep, out = kept(count, share), guarded(np.empty(count + 16, values.dtype))
    number = function(pointer(keep), pointer(values), size(count), pointer(out))
    assert out[:number].tobytes() == values[keep != 0].tobytes()
