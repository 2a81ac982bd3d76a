# SPDX-License-Identifier: Apache-2.0
"""Compares element kernels and the codec fp16 with the host's code: all bits are equal, except the bits of NaN."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hipress import _core
from tests.compll.emit.cuda.table import Call, Memory, Refused
from tests.core.codec_reference import awkward_inputs, from_bfloat16, from_half, to_bfloat16, to_half
from tests.core.device.kernels import Elements, Fp16
from tests.core.ops.arrays import floats

INTEGERS = ["uint8", "int8", "int16", "int32", "int64"]
DTYPES = ["float32", "float64", "float16", "bfloat16", *INTEGERS, "bool"]
FLOATS = {"float32": np.float32, "float64": np.float64, "float16": np.uint16, "bfloat16": np.uint16}
#: Sizes around the number of threads, the size of a tile, and the tiles of a grid.
SIZES = [0, 1, 7, 255, 257, 1023, 1024, 1025, 5000]
#: Numbers of ranks around the number that one kernel adds.
RANKS = [1, 2, 5, 31, 32, 33, 64, 65, 70]


def stored(values: NDArray[Any], dtype: str) -> NDArray[Any]:
    """The values as the element type stores them; 16-bit floats are given as their bits."""
    narrowed = {"float16": to_half, "bfloat16": to_bfloat16}.get(dtype)
    with np.errstate(over="ignore"):
        result: NDArray[Any] = values.astype(dtype) if narrowed is None else narrowed(values.astype(np.float32))
    return result


def one_nan(values: NDArray[Any], dtype: str) -> NDArray[Any]:
    """The values, with the same bits for every NaN."""
    widen = {"float16": from_half, "bfloat16": from_bfloat16}.get(dtype)
    if dtype not in FLOATS:
        return values
    bad = np.isnan(values if widen is None else widen(values))
    result: NDArray[Any] = np.where(bad, stored(np.full(1, np.nan), dtype), values)
    return result


def same(left: NDArray[Any], right: NDArray[Any], dtype: str) -> bool:
    return left.shape == right.shape and one_nan(left, dtype).tobytes() == one_nan(right, dtype).tobytes()


def contributions(dtype: str, ranks: int, count: int) -> list[NDArray[Any]]:
    generator = np.random.default_rng(ranks * 10_000 + count)
    if dtype in FLOATS:
        return [stored(floats(count, np.float64, seed=ranks * 1000 + rank), dtype) for rank in range(ranks)]
    if dtype == "bool":
        return [generator.choice([0, 0, 0, 1, 2, 255], count).astype(np.uint8) for _ in range(ranks)]
    limits = np.iinfo(dtype)
    return [generator.integers(limits.min, limits.max, count, dtype, endpoint=True) for _ in range(ranks)]


def same_merges(elements: Elements, dtype: str, ranks: int, op: str) -> None:
    for count in SIZES:
        arrays = contributions(dtype, ranks, count)
        for factor in (1.0,) if dtype == "bool" else (1.0, 1 / ranks, -2.5, 1e30):
            expected = np.asarray(_core.reduce_in_order(arrays, dtype, factor, op=op)).view(arrays[0].dtype)
            for place in (None, 0, ranks // 2, ranks - 1):
                what = (dtype, ranks, count, factor, place, op)
                assert same(elements.reduce(arrays, dtype, factor, place, op=op), expected, dtype), what


def same_conversions(elements: Elements, dtype: str, values: NDArray[np.float32]) -> None:
    narrowed = np.frombuffer(_core.narrow(values, dtype), FLOATS[dtype])
    assert same(elements.narrow(values, dtype, FLOATS[dtype]), narrowed, dtype)
    total = floats(values.size, seed=1)
    with np.errstate(all="ignore"):
        scaled = np.float32(0.3) * _core.widen(narrowed, dtype)
        accumulated = total + scaled
    for accumulate, expected in ((False, scaled), (True, accumulated)):
        assert same(elements.add(narrowed, dtype, 0.3, total, accumulate=accumulate), expected, "float32")


def flags_what_is_not_finite(elements: Elements, dtype: str) -> None:
    for size in SIZES:
        values = stored(np.linspace(-60_000, 60_000, size), dtype)
        assert not elements.is_flagged(values, dtype), size
        for bad in (np.nan, np.inf, -np.inf) if size else ():
            for place in (0, size // 2, size - 1):
                changed = values.copy()
                changed[place : place + 1] = stored(np.full(1, bad), dtype)
                assert elements.is_flagged(changed, dtype), (size, bad, place)


def same_fp16(library: Path, memory: Memory, size: int) -> None:
    host, codec = _core.create_codec("fp16"), Fp16(library, memory)
    assert codec.max_encoded_bytes(size) == host.max_encoded_bytes(size)
    for values in [*awkward_inputs(size).values(), floats(size)]:
        message = codec.encode(values, None, Call(scale=0.7))
        with np.errstate(all="ignore"):
            expected = to_half(np.float32(0.7) * values)
        assert same(np.frombuffer(message, np.uint16), expected, "float16")
        for spare in (0, 64):
            total = floats(size, seed=2)
            for accumulate in (False, True):
                output = total.copy()
                codec.decode_into(message, output, accumulate=accumulate, spare=spare)
                with np.errstate(all="ignore"):
                    wanted = total + from_half(expected) if accumulate else from_half(expected)
                assert same(output, wanted, "float32")


def same_fp16_sums(library: Path, memory: Memory, size: int) -> None:
    """Checks sums of messages and values: those of one decode after the other."""
    codec = Fp16(library, memory)
    for ranks in RANKS:
        values = [floats(size, seed=rank) for rank in range(ranks)]
        parts: list[Any] = [codec.encode(each, None, Call()) for each in values]
        parts[ranks // 2] = values[ranks // 2]
        wanted = np.zeros(size, np.float32)
        for number, part in enumerate(parts):
            decoded = from_half(np.frombuffer(part, np.uint16)) if isinstance(part, bytes) else part
            with np.errstate(all="ignore"):
                wanted = wanted + decoded if number else decoded
        with np.errstate(all="ignore"):
            wanted = wanted * np.float32(0.3)
        found, errors = codec.sum(parts, size, factor=0.3)
        assert not any(errors)
        assert same(found, wanted, "float32")
    message = codec.encode(floats(size), None, Call())
    found, errors = codec.sum([b"", message[:-2], floats(size)], size)
    assert errors == ([0, 1, 0] if size > 1 else [0, 0, 0])
    assert np.isnan(found).all()


def refused_fp16(library: Path, memory: Memory) -> None:
    """Checks that a wrong payload is refused and changes nothing, and that an empty payload means a failed encode."""
    codec = Fp16(library, memory)
    for size, payload in ((0, b"\1\0"), (3, b"\0" * 5), (3, b"\0" * 8), (2000, b"\0" * 3998)):
        for spare in (0, 16):
            output = np.full(size, 7, np.float32)
            with pytest.raises(Refused, match="two bytes for each element"):
                codec.decode_into(payload, output, spare=spare)
            assert (output == 7).all()
    for spare in (0, 16):
        output = np.zeros(2000, np.float32)
        codec.decode_into(b"", output, spare=spare)
        assert np.isnan(output).all()
