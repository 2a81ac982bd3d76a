# SPDX-License-Identifier: Apache-2.0
"""Gradients with which codecs are tried: usual ones, and those at which codecs go wrong."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

COUNTS = (1, 7, 1000, 1025)


def gradients(count: int) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Finite float32 vectors, and what each is."""
    generator = np.random.default_rng(count)
    normal = generator.standard_normal(count).astype(np.float32)
    single = np.zeros(count, np.float32)
    single[count // 2] = -3
    yield "normal values", normal
    yield "zeros", np.zeros(count, np.float32)
    yield "equal values", np.full(count, 0.75, np.float32)
    yield "a single value", single
    yield "denormal values", normal * np.float32(1e-40)
    yield "values of about 1e30", normal * np.float32(1e30)
    yield (
        "values from 1e-20 to 1e20",
        normal * np.float32(10.0) ** generator.integers(-20, 20, count).astype(np.float32),
    )
