# SPDX-License-Identifier: Apache-2.0
"""The conversions of element types in plain NumPy, and the inputs with which tests check codecs and conversions."""

from __future__ import annotations

import numpy as np

# Sizes around bytes, vectors, lanes, and the blocks of kernels.
SIZES = [0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 256, 257, 1023, 1024, 1025, 2047, 2048, 2049, 4097]

LARGEST = float(np.finfo(np.float32).max)
SMALLEST = float(np.finfo(np.float32).smallest_subnormal)


def awkward_inputs(count: int) -> dict[str, np.ndarray]:
    """Finite inputs of `count` elements that have broken codecs before."""
    generator = np.random.default_rng(count)
    normal = generator.standard_normal(count).astype(np.float32)
    inputs = {
        "normal": normal,
        "zero": np.zeros(count),
        "negative zero": np.full(count, -0.0),
        "constant": np.full(count, 0.1),
        "negative constant": np.full(count, -3.7),
        "denormal": np.where(np.arange(count) % 2, SMALLEST, -3 * SMALLEST),
        "largest": np.full(count, LARGEST),
        "huge of both signs": np.where(np.arange(count) % 3, 3e38, -3e38),
        "many scales": normal * np.exp2(generator.integers(-100, 100, count)),
        "one element sticks out": np.where(np.arange(count) == count - 1, 1e6, 0),
    }
    return {name: np.ascontiguousarray(values, dtype=np.float32) for name, values in inputs.items()}


def to_half(values: np.ndarray) -> np.ndarray:
    """The bits of float16 values. NumPy keeps NaN payloads as hardware does, but not always quietly, so this function
    sets them."""
    with np.errstate(all="ignore"):
        bits = values.astype(np.float16).view(np.uint16)
    pattern = values.view(np.uint32)
    nan = ((pattern >> 16) & 0x8000) | 0x7E00 | ((pattern >> 13) & 0x3FF)
    return np.where(np.isnan(values), nan, bits).astype(np.uint16)


def from_half(bits: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        values = bits.view(np.float16).astype(np.float32).view(np.uint32)
    wide = bits.astype(np.uint32)
    nan = ((wide & 0x8000) << 16) | 0x7FC00000 | ((wide & 0x3FF) << 13)
    return np.where((wide & 0x7FFF) > 0x7C00, nan, values).astype(np.uint32).view(np.float32)


def to_bfloat16(values: np.ndarray) -> np.ndarray:
    bits = values.view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(values), (bits >> 16) | 0x40, rounded).astype(np.uint16)


def from_bfloat16(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def same_bits(left: np.ndarray, right: np.ndarray) -> bool:
    return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()
