# SPDX-License-Identifier: Apache-2.0
"""Philox4x32-7 (Salmon et al., 2011), and how the language's random numbers are taken from it.

Random number of `element` at call `site`:
    key     = (low, high half of the seed)
    counter = (low 32 bits of element / 4, bits 32..47 of element / 4 | site << 16, low 32 bits of step, tensor)
    word    = output[element mod 4]
so four successive elements share one evaluation, and the number of any element can be computed alone. With 16 bits,
eight elements share one evaluation, and a half stands for the middle of all words that begin with it:
    group   = element / 8 in place of element / 4
    half    = output[element mod 8 / 2], its lower half if the element is even
    word    = half · 2¹⁶ + 2¹⁵
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 7
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def philox(counter: NDArray[np.uint32], key: tuple[int, int]) -> NDArray[np.uint32]:
    """The four output words of each counter; `counter` has shape (4, n)."""
    c0, c1, c2, c3 = (row.astype(np.uint64) for row in counter)
    k0, k1 = key
    for _ in range(_ROUNDS):
        p0, p1 = _MULTIPLIERS[0] * c0, _MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = (p1 >> _HALF) ^ c1 ^ np.uint64(k0), p1 & _LOW, (p0 >> _HALF) ^ c3 ^ np.uint64(k1), p0 & _LOW
        k0, k1 = (k0 + _WEYL[0]) & 0xFFFFFFFF, (k1 + _WEYL[1]) & 0xFFFFFFFF
    return np.stack([c0, c1, c2, c3]).astype(np.uint32)


@dataclass(frozen=True)
class RandomKey:
    """The inputs of a random number besides the element and the call; the same on all devices."""

    seed: int = 0
    step: int = 0
    tensor: int = 0
    first_element: int = 0

    def of_all_ranks(self) -> RandomKey:
        """Of the seed only the part that all ranks share: the upper half has the rank and the purpose of an encode."""
        return replace(self, seed=self.seed & 0xFFFFFFFF)

    def words(self, indices: Any, site: int, bits: int) -> NDArray[np.uint32]:
        """A random word for each index into the vector that is being mapped."""
        elements = np.atleast_1d(np.asarray(indices)).astype(np.uint64) + np.uint64(self.first_element)
        group = elements >> np.uint64(2 if bits == 32 else 3)
        counter = np.empty((4, elements.size), np.uint32)
        counter[0] = group & _LOW
        counter[1] = ((group >> _HALF) & np.uint64(0xFFFF)) | np.uint64((site & 0xFFFF) << 16)
        counter[2] = self.step & 0xFFFFFFFF
        counter[3] = self.tensor & 0xFFFFFFFF
        output = philox(counter, (self.seed & 0xFFFFFFFF, (self.seed >> 32) & 0xFFFFFFFF))
        each = np.arange(elements.size)
        drawn: NDArray[np.uint32]
        if bits == 32:
            drawn = output[(elements & np.uint64(3)).astype(np.int64), each]
        else:
            drawn = output[((elements & np.uint64(7)) >> np.uint64(1)).astype(np.int64), each]
            drawn = np.where(elements & np.uint64(1), drawn & np.uint32(0xFFFF0000), drawn << np.uint32(16))
            drawn |= np.uint32(0x8000)
        return drawn


def uniform(words: NDArray[np.uint32], low: Any, high: Any) -> Any:
    """Floats: low + u·(high − low), u = the upper 24 bits / 2²⁴, each operation rounded to float32."""
    u = (words >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)
    return np.float32(low) + u * (np.float32(high) - np.float32(low))


def uniform_int(words: NDArray[np.uint32], low: Any, high: Any) -> Any:
    """Integers: low + ⌊word·(high − low) / 2³²⌋; `low` if the range is empty."""
    span = np.maximum(np.asarray(high, np.int64) - np.asarray(low, np.int64), 0).astype(np.uint64)
    return (np.asarray(low, np.int64) + ((words.astype(np.uint64) * span) >> _HALF).astype(np.int64)).astype(np.int32)
