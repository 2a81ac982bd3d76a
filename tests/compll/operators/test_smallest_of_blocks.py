# SPDX-License-Identifier: Apache-2.0
"""smallest_of_blocks: top-k of each block."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compll.programs import encoder, floats, vector

KEY = "[&](float x) -> float { return x; }"


@pytest.mark.parametrize(
    ("count", "block", "expected"),
    [
        (1, 3, [1, 4, 6]),
        (2, 3, [0, 1, 3, 4, 6]),
        (9, 3, list(range(7))),
        (2, 100, [1, 6]),
        (0, 3, []),
        (1, 1, list(range(7))),
    ],
)
def test_meaning(count: int, block: int, expected: list[int]) -> None:
    gradient = floats(5, 1, 5, 7, 2, 7, -3)
    assert vector(f"smallest_of_blocks(gradient, {KEY}, {count}, {block})", "int", gradient).tolist() == expected


def test_nan_comes_last_and_zeros_are_equal() -> None:
    key = "[&](float x) -> float { return x == 9 ? 0 / (x - x) : x; }"
    gradient = floats(9, 0, -0.0, 9, 9, 9)
    assert vector(f"smallest_of_blocks(gradient, {key}, 1, 3)", "int", gradient).tolist() == [1, 3]
    assert vector(f"smallest_of_blocks(gradient, {key}, 3, 6)", "int", gradient).tolist() == [0, 1, 2]


def test_the_greatest_length_follows_from_the_size() -> None:
    run = encoder(f"compressed = concat(smallest_of_blocks(gradient, {KEY}, 4, 10));")
    assert [run.max_encoded_bytes(n) for n in (1, 10, 13, 29)] == [4, 16, 28, 48]
    for n in (1, 10, 13, 29):
        assert len(run.encode(np.ones(n, np.float32))) == run.max_encoded_bytes(n)
