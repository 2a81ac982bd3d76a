# SPDX-License-Identifier: Apache-2.0
"""Stochastic rounding has no bias, and depends only on its key."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codecs.builtin import builtin, normal

SEEDS = 1000
COUNT = 500


@pytest.mark.parametrize("bitwidth", [1, 2, 4, 8])
def test_the_mean_over_many_seeds_is_the_input(bitwidth: int) -> None:
    """A value at fraction p between two levels becomes the upper level with probability p. The variance is gap²·p·(1 -
    p).

    Divided by its standard error, each value's mean error is nearly a standard normal number, and independent of the
    errors of the other values. The mean of these numbers must be within three standard errors of 0, and the mean of
    their squares within three standard errors of 1. Nearly all values must be within three standard errors of their
    own.
    """
    codec = builtin(f"terngrad(bitwidth={bitwidth}, stochastic=true)").codec
    values = normal(COUNT, bitwidth)
    total = np.zeros(COUNT)
    for seed in range(SEEDS):
        total += codec.decode(codec.encode(values, seed=seed), COUNT)
    exact = values.astype(np.float64)
    gap = (exact.max() - exact.min()) / (2**bitwidth - 1)
    fraction = (exact - exact.min()) / gap % 1
    error = total / SEEDS - exact
    # A value next to a level is always rounded to that level, so its error has no normal distribution.
    certain = np.minimum(fraction, 1 - fraction) < 0.01
    assert (np.abs(error[certain]) <= 0.02 * gap).all()
    assert certain.mean() < 0.05
    error, fraction = error[~certain], fraction[~certain]
    z = error / (gap * np.sqrt(fraction * (1 - fraction) / SEEDS))
    assert abs(z.mean()) <= 3 / np.sqrt(z.size)
    assert abs((z**2).mean() - 1) <= 3 * np.sqrt(2 / z.size)
    assert (np.abs(z) > 3).sum() <= 6, "1.3 of 500 values are expected, and 7 in one of 2000 tests"
    assert np.abs(z).max() < 5


@pytest.mark.parametrize("bitwidth", [1, 2, 4, 8])
def test_rounding_moves_by_less_than_a_level(bitwidth: int) -> None:
    values = normal(20_000)
    blocks = values.reshape(-1, 100)
    gap = np.ptp(blocks, axis=1) / (2**bitwidth - 1)
    for stochastic, moved in (("true", 1.0), ("false", 0.5)):
        codec = builtin(f"terngrad(bitwidth={bitwidth}, stochastic={stochastic}, block=100)").codec
        decoded = codec.decode(codec.encode(values), 20_000).reshape(-1, 100)
        assert (np.abs(decoded - blocks).max(axis=1) <= moved * gap * (1 + 1e-5)).all()


def test_what_random_numbers_depend_on() -> None:
    codec, values = builtin("terngrad").codec, normal(COUNT)
    keys = [{}, {"seed": 1}, {"seed": 1 << 32}, {"step": 1}, {"tensor": 1}, {"first_element": 4}]
    payloads = [codec.encode(values, **key) for key in keys]
    assert len(set(payloads)) == len(keys)
    assert payloads == [codec.encode(values, **key) for key in keys]
    nearest = builtin("terngrad(bitwidth=2, stochastic=false)").codec
    assert len({nearest.encode(values, **key) for key in keys}) == 1


def test_a_part_of_a_tensor_is_rounded_as_in_the_whole() -> None:
    codec, values = builtin("terngrad(bitwidth=8, block=100)").codec, normal(4000)
    whole = codec.encode(values, seed=3)[8 * 40 :]
    halves = [codec.encode(values[at : at + 2000], seed=3, first_element=at)[8 * 20 :] for at in (0, 2000)]
    assert b"".join(halves) == whole
