# SPDX-License-Identifier: Apache-2.0
"""dgc and graddrop send the largest values, and nearly as many as their ratio allows."""

from __future__ import annotations

import math

import numpy as np

from tests.cases import each
from tests.codecs.builtin import SPARSE, builtin, new_states, normal, option

SIZES = [(10_000, 0.001), (10_000, 0.05), (50_001, 0.01), (300_001, 0.001), (300_001, 0.02), (1_000_000, 0.001)]


@each("name", SPARSE)
@each(("count", "ratio"), SIZES)
def test_the_largest_are_sent(name: str, count: int, ratio: float) -> None:
    """Between 0.7·k and k = ⌈count·ratio⌉ values are sent, and no value that is held back is larger than a sent value.

    The second is exact, whatever the sample was: all values from a threshold on are candidates, and the largest of
    them are sent. The sample decides only where the threshold lies. It is aimed four standard deviations low, so that
    there are fewer than k candidates in one encoding of ten thousand, and fewer than 0.7·k practically never.
    """
    of = builtin(f"{name}(ratio={ratio})")
    limit, states = math.ceil(count * ratio), new_states(of, count)
    for step in range(4):
        gradient = normal(count, step)
        speed = gradient
        if name == "dgc":
            speed = np.float32(option(of, "momentum")) * states["velocity"] + gradient
        value = np.abs(states["residual"] + speed)
        payload = of.codec.encode(gradient, states, step=step, seed=count)
        (number,) = np.frombuffer(payload[:4], np.int32)
        index = np.frombuffer(payload[4 : 4 + 4 * number], np.int32)
        assert 0.7 * limit <= number <= limit
        assert (np.diff(index) > 0).all()
        held_back = np.ones(count, bool)
        held_back[index] = False
        assert value[index].min() >= value[held_back].max()


@each("name", SPARSE)
def test_if_the_sample_would_be_everything_exactly_so_many_are_sent(name: str) -> None:
    for count, ratio in ((10_000, 0.001), (100_003, 0.0005), (999, 0.01)):
        of = builtin(f"{name}(ratio={ratio}, sample_rate=1)")
        for seed in range(5):
            (number,) = np.frombuffer(of.codec.encode(normal(count, seed))[:4], np.int32)
            assert number == math.ceil(count * ratio)


@each("name", SPARSE)
def test_of_equal_values_the_first_are_sent(name: str) -> None:
    codec = builtin(f"{name}(ratio=0.1)").codec
    for value in (2.0, -2.0):
        decoded = codec.decode(codec.encode(np.full(1000, value, np.float32)), 1000)
        assert np.flatnonzero(decoded).tolist() == list(range(100))


@each("name", SPARSE)
def test_zeros_are_not_sent(name: str) -> None:
    codec = builtin(f"{name}(ratio=0.1)").codec
    assert codec.encode(np.zeros(1000, np.float32)) == bytes(4)
    three = np.full(1000, -0.0, np.float32)
    three[[5, 6, 999]] = [1, -1, 1e-45]
    payload = codec.encode(three)
    assert np.frombuffer(payload[:16], np.int32).tolist() == [3, 5, 6, 999]
    assert np.isfinite(codec.decode(payload, 1000)).all()


@each("name", SPARSE)
def test_what_has_no_index_is_not_touched_by_adding(name: str) -> None:
    """It does not even turn -0 into +0."""
    codec = builtin(f"{name}(ratio=0.1)").codec
    output = np.full(1000, -0.0, np.float32)
    output[7] = np.nan
    gradient = normal(1000)
    gradient[7] = 0
    codec.decode_into(codec.encode(gradient), output, accumulate=True)
    assert np.isnan(output[7])
    assert np.signbit(output[output == 0]).all()
    assert (output == 0).sum() == 899
