# SPDX-License-Identifier: Apache-2.0
"""The smallest keys of one block after the other: exact, whatever the last block made likely."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.cases import each
from tests.core.ops.arrays import SIZES, guarded, pointer, size

NAN_KEY = 2**32 - 1


def chosen(keys: NDArray[np.uint32], block: int, count: int) -> list[int]:
    """The positions that the interpreter selects, in ascending order. Of equal keys it selects the first ones."""
    result: list[int] = []
    for first in range(0, len(keys), block):
        order = np.argsort(keys[first : first + block], kind="stable")[:count]
        result += sorted(int(first + i) for i in order)
    return result


def select(ops: ctypes.CDLL, keys: NDArray[np.uint32], block: int, count: int) -> list[int]:
    ops.select_blocks.restype = ctypes.c_size_t
    wanted = sum(min(count, len(keys) - first, block) for first in range(0, len(keys), block))
    # The memory ends behind the last index, as if it belonged to another thread.
    out, given = guarded(np.empty(wanted, np.int32)), guarded(keys)
    found = ops.select_blocks(pointer(given), size(len(keys)), size(block), size(count), pointer(out))
    assert found == wanted
    return out.tolist()


def normal(random: np.random.Generator, n: int) -> Any:
    """Keys of floats of normal distribution, largest magnitude first."""
    return ~(np.abs(random.standard_normal(n)).astype(np.float32).view(np.uint32) | 2**31)


KEYS: dict[str, Any] = {
    "normal": normal,
    "constant": lambda random, n: np.full(n, 5),
    "few values": lambda random, n: random.integers(0, 3, n),
    "all NaN": lambda random, n: np.full(n, NAN_KEY),
    "some NaN": lambda random, n: np.where(random.random(n) < 0.5, NAN_KEY, random.integers(0, 2**32, n)),
    "least and greatest": lambda random, n: random.choice([0, 1, NAN_KEY - 1, NAN_KEY], n),
    "ascending": lambda random, n: np.arange(n) << 8,
    "descending": lambda random, n: (np.arange(n)[::-1]) << 8,
    # Each block has other keys than the last one: much smaller, much greater, or almost equal.
    "steps": lambda random, n: (np.arange(n) // 500 * 1_000_003 % 4096 << 20) + random.integers(0, 2**19, n),
    "a sharp edge": lambda random, n: 2**30 + random.integers(0, 2 ** (1 + np.arange(n) // 1000 % 20), n),
}


@each("kind", KEYS)
@pytest.mark.parametrize(("block", "count"), [(1, 1), (64, 5), (100, 100), (500, 0), (1000, 31), (4096, 64), (4096, 1)])
def test_many_blocks(ops: ctypes.CDLL, kind: str, block: int, count: int) -> None:
    keys = KEYS[kind](np.random.default_rng(block + count), 10 * block + block // 3).astype(np.uint32)
    assert select(ops, keys, block, count) == chosen(keys, block, count)


@each("kind", KEYS)
@each("n", SIZES)
def test_sizes(ops: ctypes.CDLL, n: int, kind: str) -> None:
    keys = KEYS[kind](np.random.default_rng(n), n).astype(np.uint32)
    for count in (1, 7, 2000):
        assert select(ops, keys, 64, count) == chosen(keys, 64, count)
        assert select(ops, keys, 1024, count) == chosen(keys, 1024, count)
