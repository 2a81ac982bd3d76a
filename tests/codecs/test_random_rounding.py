# SPDX-License-Identifier: Apache-2.0
"""qsgd, natural and efsignsgd compute the definitions of their papers."""

from __future__ import annotations

import numpy as np
import pytest

from hipress import _core
from tests.cases import each
from tests.codecs.builtin import normal

LARGEST = np.float32(np.finfo(np.float32).max)


@each(("text", "block"), [("qsgd", 512), ("qsgd(levels=7, block=64)", 64), ("natural", 1)])
def test_right_on_average(text: str, block: int) -> None:
    """Each value is one of its two neighbouring levels; the mean's error is at most half their distance over √runs."""
    values, codec, runs = normal(256, 5), _core.create_codec(text), 2000
    decoded = np.array([codec.decode(codec.encode(values, seed=seed), 256) for seed in range(runs)], np.float64)
    distance = np.ptp(decoded, axis=0).reshape(-1, min(block, 256)).max(axis=1).repeat(min(block, 256))
    assert (np.abs(decoded - values) <= distance * 1.0001).all()
    deviation = (decoded.mean(axis=0) - values) / (distance / 2 / np.sqrt(runs))
    assert np.abs(deviation).max() < 4.5
    assert np.mean(deviation**2) < 1.3


@each("levels", [1, 7, 127])
def test_qsgd_levels_are_of_the_euclidean_length(levels: int, isa: str) -> None:
    values, codec = normal(1000), _core.create_codec(f"qsgd(levels={levels}, block=128)")
    payload = codec.encode(values, seed=3)
    rows = np.zeros((8, 128))
    rows.reshape(-1)[:1000] = values
    scale = np.frombuffer(payload[:32], "<f4")
    np.testing.assert_allclose(scale, np.linalg.norm(rows, axis=1) / levels, rtol=1e-6)
    sent = np.frombuffer(payload[32:], np.int8)
    assert np.abs(sent).max() <= levels
    assert (np.abs(sent * np.repeat(scale, 128)[:1000] - values) <= np.repeat(scale, 128)[:1000] * 1.0001).all()


@each("text", ["qsgd(block=16777216)", "natural", "efsignsgd(block=16777216)"])
def test_huge_and_tiny_values_stay_finite(text: str, isa: str) -> None:
    codec = _core.create_codec(text)
    for value in (LARGEST, -LARGEST, np.float32(1e-45), np.float32(-1e-39)):
        values = np.full(100_001, value, np.float32)
        assert np.isfinite(codec.decode(codec.encode(values), len(values))).all()


def test_natural_sends_a_neighbouring_power_of_two(isa: str) -> None:
    codec, values = (
        _core.create_codec("natural"),
        (normal(10_000) * 10.0 ** np.arange(-20, 20).repeat(250)).astype(np.float32),
    )
    decoded = codec.decode(codec.encode(values, seed=9), 10_000).astype(np.float64)
    lower = 2.0 ** np.floor(np.log2(np.abs(values.astype(np.float64))))
    assert ((np.abs(decoded) == lower) | (np.abs(decoded) == 2 * lower)).all()
    assert (np.sign(decoded) == np.sign(values)).all()
    powers = 2.0 ** np.arange(-126, 128).astype(np.float32)
    np.testing.assert_array_equal(codec.decode(codec.encode(powers), len(powers)), powers)


@pytest.mark.parametrize(("value", "nearest"), [(1.4999, 1.0), (1.5, 2.0), (-3.1, -4.0), (-2.9, -2.0), (0.0, 0.0)])
def test_natural_without_chance_takes_the_nearer_power(value: float, nearest: float) -> None:
    codec = _core.create_codec("natural(stochastic=false)")
    assert codec.decode(codec.encode(np.array([value], np.float32)), 1)[0] == nearest


@each("count", [1, 7, 99, 100, 101, 1000])
def test_efsignsgd_sends_signs_of_the_mean_magnitude(count: int, isa: str) -> None:
    values, codec = normal(count), _core.create_codec("efsignsgd(block=100)")
    decoded = codec.decode(codec.encode(values), count)
    for first in range(0, count, 100):
        mean = np.abs(values[first : first + 100].astype(np.float64)).mean()
        np.testing.assert_allclose(np.abs(decoded[first : first + 100]), mean, rtol=1e-5)
    assert (np.signbit(decoded) == (values < 0)).all()
