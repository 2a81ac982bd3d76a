# SPDX-License-Identifier: Apache-2.0
"""What the codecs, conversions and the merge mean, in plain NumPy, and the inputs that tests put to them."""

from __future__ import annotations

import numpy as np

ONEBIT_BLOCK = 65536  # values that share two means
LANES = 16  # partial sums of onebit: part of the format's meaning, so that all ranks and devices get the same means

# Around bytes, vectors, lanes, and the blocks that kernels work in.
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


def lane_sum(values: np.ndarray) -> float:
    """float64 sum in 16 interleaved lanes: each lane in order, then the lanes in order."""
    padded = np.zeros(-(-len(values) // LANES) * LANES)
    padded[: len(values)] = values
    total = 0.0
    for lane in range(LANES):
        total += np.cumsum(padded[lane::LANES])[-1] if len(padded) else 0.0
    return total


def onebit_encode(
    values: np.ndarray, residual: np.ndarray | None = None, scale: float = 1.0, block: int = ONEBIT_BLOCK
) -> bytes:
    """The payload; a residual is updated in place. Empty if a value is not finite: the residual stays."""
    with np.errstate(all="ignore"):
        corrected = np.float32(scale) * values
        if residual is not None:
            corrected = corrected + residual
        if not np.isfinite(corrected).all():
            return b""
        signs = corrected >= 0
        means: list[list[np.float32]] = [[], []]
        for first in range(0, len(values), block):
            part, positive = corrected[first : first + block], signs[first : first + block]
            for chosen, of_sign in zip((~positive, positive), means, strict=True):
                total = lane_sum(np.where(chosen, part, 0).astype(np.float64))
                of_sign.append(np.float32(total / chosen.sum() if chosen.any() else 0))
        low, high = (np.repeat(np.array(of_sign, np.float32), block)[: len(values)] for of_sign in means)
        if residual is not None:
            residual[:] = corrected - np.where(signs, high, low)
    return np.array(means, np.float32).tobytes() + np.packbits(signs, bitorder="little").tobytes()


def onebit_decode(payload: bytes, count: int, block: int = ONEBIT_BLOCK) -> np.ndarray:
    if not payload:
        return np.full(count, np.nan, np.float32)
    blocks = -(-count // block)
    low, high = np.repeat(np.frombuffer(payload[: 8 * blocks], np.float32).reshape(2, blocks), block, axis=1)[:, :count]
    signs = np.unpackbits(np.frombuffer(payload[8 * blocks :], np.uint8), bitorder="little")[:count]
    decoded: np.ndarray = np.where(signs, high, low)
    return decoded


def to_half(values: np.ndarray) -> np.ndarray:
    """float32 to the bits of float16; NumPy keeps NaN payloads as hardware does, but not always quietly."""
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
