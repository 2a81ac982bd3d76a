# SPDX-License-Identifier: Apache-2.0
"""thc equals a definition in NumPy that uses neither CompLL nor its interpreter, and its error is bounded."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hipress import _core
from tests.cases import each
from tests.codecs.builtin import Floats, builtin, inputs, normal
from tests.core.casync.summed.reference import Reference

BLOCK = 1024
LARGEST = float(np.finfo(np.float32).max)


def parts(payload: bytes, count: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The value that the greatest level of each block stands for, and the levels."""
    blocks = -(-count // BLOCK)
    most, level = payload[: 4 * blocks], payload[4 * blocks :]
    return np.frombuffer(most, "<f4").astype(np.float64), np.frombuffer(level, np.int8).astype(np.int64)


def cut_off(reach: float) -> float:
    """The mean square of what a standard normal value has beyond ±reach."""
    density = math.exp(-reach * reach / 2) / math.sqrt(2 * math.pi)
    return (1 + reach * reach) * math.erfc(reach / math.sqrt(2)) - 2 * reach * density


def shapes(count: int) -> dict[str, Floats]:
    """Vectors of which a codec without a rotation would lose much."""
    alone = np.zeros(count, np.float32)
    alone[count // 3] = 1000
    return {
        "normal": normal(count),
        "heavy tails": normal(count) ** 5,
        "one value": alone,
        "constant": np.full(count, -0.1, np.float32),
        "one block is large": normal(count) * np.where(np.arange(count) < BLOCK, 100, 1).astype(np.float32),
    }


@each("reach", [1.0, 2.5, 8.0])
def test_whole_blocks_agree_on_their_norm_and_a_short_one_on_its_greatest_value(reach: float, isa: str) -> None:
    codec = _core.create_codec(f"thc(reach={reach})")
    for count in (1, 1023, 1024, 1025, 5000):
        for name, values in inputs(count).items():
            if not np.isfinite(values).all():
                continue
            most, level = parts(codec.encode(values), count)
            assert np.abs(level).max() <= 7, (count, name)
            for block, found in enumerate(most):
                here = values[block * BLOCK : (block + 1) * BLOCK].astype(np.float64)
                whole = reach * math.sqrt((here**2).mean())
                expected = min(whole if len(here) == BLOCK else np.abs(here).max(), LARGEST)
                assert abs(found - expected) <= 1e-6 * expected + 2.0**-149, (count, name, block)


def test_a_short_block_is_rounded_as_it_is() -> None:
    values = np.array([7, -7, 0.5, 1.5, -2.5, 0.49, 0], np.float32)
    codec = _core.create_codec("thc")
    decoded = codec.decode(codec.encode(values), 7)
    np.testing.assert_array_equal(np.abs(decoded), [7, 7, 0, 2, 2, 0, 0])
    assert (np.sign(decoded) == np.sign(np.rint(values))).all()


@each("levels", [1, 7, 31, 127])
def test_the_error_is_that_of_a_normal_distribution_whatever_the_values_are(levels: int, isa: str) -> None:
    """Rounding to the nearest level loses at most half a step. Beyond the greatest level, a value loses what it has
    more; so many of 1024 nearly normal values do that the loss is near its mean."""
    reach = 2.5
    codec = _core.create_codec(f"thc(levels={levels}, reach={reach}, error_feedback=false)")
    bound = (reach / levels) ** 2 / 4 + 2 * cut_off(reach)
    for name, values in shapes(4 * BLOCK).items():
        if name == "one value":  # its block has two magnitudes only, both a standard deviation
            continue
        decoded = codec.decode(codec.encode(values), len(values)).astype(np.float64)
        assert ((decoded - values) ** 2).sum() <= bound * (values.astype(np.float64) ** 2).sum(), name


def test_random_rounding_is_right_on_average() -> None:
    """No value is beyond 8 standard deviations here, so that none is cut off."""
    codec, count, runs = (
        _core.create_codec("thc(reach=8, stochastic=true, error_feedback=false)"),
        2 * BLOCK + 100,
        1000,
    )
    values = normal(count, 3) ** 3
    payloads = [codec.encode(values, seed=seed) for seed in range(runs)]
    decoded = np.array([codec.decode(payload, count) for payload in payloads], np.float64)
    # The transform makes each value's error a sum of 1024 errors over 32: its deviation is half a step at most.
    step = parts(payloads[0], count)[0].repeat(BLOCK)[:count] / 7
    deviation = (decoded.mean(axis=0) - values) / (step / 2 / np.sqrt(runs))
    assert np.abs(deviation).max() < 4.5
    assert np.mean(deviation**2) < 1.1
    assert np.ptp(decoded, axis=0).max() > 0
    nearest = _core.create_codec("thc")
    assert nearest.encode(values, seed=1) == nearest.encode(values, seed=2)


@each("world", [2, 4, 16])
@each("stochastic", [True, False])
def test_the_average_of_ranks_errs_within_the_bound(world: int, stochastic: bool) -> None:
    """Uniform stochastic quantisation after a rotation, for values that the rotation makes normal. With T = `reach` a
    step is T·|x|/(√d·levels), where |x| is the greatest norm of a rank. A rounded value's variance is at most a quarter
    of a squared step, and the errors of N ranks are independent, so that the mean's error has at most
    |x|²·T²/(4·levels²·N). What is cut off has the mean square c(T)·|x|² on each rank, and the same at most in the mean.

    To the nearest level no error is greater than half a step, and the errors of ranks need not be independent: the
    first term is not divided by N.
    """
    levels, reach, count = 7, 2.5, 8 * BLOCK
    text = f"thc(levels={levels}, reach={reach}, stochastic={str(stochastic).lower()}, error_feedback=false)"
    for name, common in shapes(count).items():
        if name == "one value":
            continue
        ranks = [common + np.abs(common).mean() * normal(count, 10 + rank) for rank in range(world)]
        reference = Reference(builtin(text).definition, count, world)
        result = reference.step(ranks)
        assert result is not None
        error = ((result - np.mean(ranks, axis=0, dtype=np.float64)) ** 2).reshape(-1, BLOCK).sum(axis=1)
        norms = np.max([(rank.astype(np.float64) ** 2).reshape(-1, BLOCK).sum(axis=1) for rank in ranks], axis=0)
        rounding = (reach / levels) ** 2 / 4 / (world if stochastic else 1)
        assert error.sum() <= (rounding + cut_off(reach)) * norms.sum(), name


def test_values_beyond_the_greatest_scale_stay_finite_and_come_later(isa: str) -> None:
    codec = _core.create_codec("thc")
    for value in (np.float32(3e38), np.float32(-1e38), np.float32(1e36), np.float32(3e-45)):
        values = np.full(3000, value, np.float32)
        states = {"residual": np.zeros(3000, np.float32)}
        decoded = codec.decode(codec.encode(values, states), 3000).astype(np.float64)
        assert np.isfinite(decoded).all()
        np.testing.assert_allclose(decoded + states["residual"], values, rtol=1e-6, atol=2.0**-149)
