# SPDX-License-Identifier: Apache-2.0
"""The sparse codecs send the largest values, the values from a threshold on, or the values at places that all ranks
draw."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tests.cases import each
from tests.codecs.builtin import SAMPLING, SPARSE, builtin, new_states, normal, option

SIZES = [(10_000, 0.001), (10_000, 0.05), (50_001, 0.01), (300_001, 0.001), (300_001, 0.02), (1_000_000, 0.001)]


@each("name", SAMPLING)
@each(("count", "ratio"), SIZES)
def test_the_largest_are_sent(name: str, count: int, ratio: float) -> None:
    """Between 0.7·k and k = ⌈count·ratio⌉ values are sent, and no value that stays is larger than a sent value.

    The second statement holds for every sample: all values from a threshold on are candidates, and the codec sends the
    largest candidates. The sample decides only the threshold, which is four standard deviations too low on purpose. So
    about one encoding of ten thousand has fewer than k candidates, and practically none has fewer than 0.7·k.
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


@each("name", SAMPLING)
def test_if_the_sample_would_be_everything_exactly_so_many_are_sent(name: str) -> None:
    for count, ratio in ((10_000, 0.001), (100_003, 0.0005), (999, 0.01)):
        of = builtin(f"{name}(ratio={ratio}, sample_rate=1)")
        for seed in range(5):
            (number,) = np.frombuffer(of.codec.encode(normal(count, seed))[:4], np.int32)
            assert number == math.ceil(count * ratio)


@each("name", [*SAMPLING, "topk", "threshold"])
def test_of_equal_values_the_first_are_sent(name: str) -> None:
    codec = builtin(f"{name}(ratio=0.1)").codec
    for value in (2.0, -2.0):
        decoded = codec.decode(codec.encode(np.full(1000, value, np.float32)), 1000)
        assert np.flatnonzero(decoded).tolist() == list(range(100))


@each("name", SAMPLING)
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
    """Adding a payload does not change elements that it does not name: a -0 stays -0."""
    codec = builtin(f"{name}(ratio=0.1)").codec
    output = np.full(1000, -0.0, np.float32)
    output[7] = np.nan
    gradient = normal(1000)
    gradient[7] = 0
    codec.decode_into(codec.encode(gradient), output, accumulate=True)
    assert np.isnan(output[7])
    assert np.signbit(output[output == 0]).all()
    assert (output == 0).sum() == 899


def places(payload: bytes) -> list[int]:
    (number,) = np.frombuffer(payload[:4], np.int32)
    return [int(index) for index in np.frombuffer(payload[4 : 4 + 4 * number], np.int32)]


@each(("count", "ratio"), [(1, 0.01), (7, 0.3), (10_000, 0.01), (50_001, 0.3), (300_001, 0.001)])
def test_topk_sends_exactly_the_largest(count: int, ratio: float, isa: str) -> None:
    codec, states = builtin(f"topk(ratio={ratio})").codec, new_states(builtin("topk"), count)
    for step in range(3):
        value = np.abs(states["residual"] + normal(count, step))
        payload = codec.encode(normal(count, step), states, step=step)
        order = np.argsort(-value, kind="stable")
        assert places(payload) == sorted(order[: math.ceil(count * ratio)].tolist())


@each("count", [1, 7, 1000, 50_001])
def test_threshold_sends_values_from_the_threshold_on(count: int, isa: str) -> None:
    of = builtin("threshold(threshold=2)")
    values = normal(count)
    values[: count // 2 : 5] = 2
    assert places(of.codec.encode(values)) == np.flatnonzero(np.abs(values) >= 2).tolist()


def test_threshold_sends_the_largest_if_too_many_reach_it() -> None:
    values = normal(1000) + 100 * np.sign(normal(1000))
    largest = np.argsort(-np.abs(values), kind="stable")[:250]
    assert places(builtin("threshold").codec.encode(values)) == sorted(largest.tolist())


def test_randomk_draws_the_same_places_on_all_ranks() -> None:
    """The engine puts the rank and the purpose of an encode into the upper half of the seed; randomk uses the lower
    half."""
    of = builtin("randomk(ratio=0.1)")
    first = places(of.codec.encode(normal(1000), seed=7))
    assert first == places(of.codec.encode(normal(1000, 1), seed=7 | 5 << 32))
    assert first != places(of.codec.encode(normal(1000), seed=8))
    assert first != places(of.codec.encode(normal(1000), seed=7, step=1))
    assert first != places(of.codec.encode(normal(1000), seed=7, tensor=1))


@each(("count", "ratio"), [(10, 0.3), (1000, 0.01), (1001, 0.7)])
def test_randomk_sends_one_value_of_each_stretch_and_every_value_some_day(count: int, ratio: float) -> None:
    of, sent = builtin(f"randomk(ratio={ratio})"), math.ceil(count * ratio)
    ends = np.append(np.floor(np.arange(sent) * (count / sent)), count)
    times = np.zeros(count)
    for step in range(2000):
        chosen = places(of.codec.encode(np.ones(count, np.float32), step=step))
        assert len(chosen) == sent
        assert (ends[:-1] <= chosen).all()
        assert (chosen < ends[1:]).all()
        times[chosen] += 1
    assert times.min() > 0
    # A place is drawn with probability 1 / (places of its stretch). The sizes of the stretches differ by one at most.
    assert times.max() < 2000 * sent / count * 2.5


def sampled_places(count: int, samples: int) -> NDArray[np.int64]:
    """The places that a selection samples to find its limit, by the formula of core/ops/cpu/candidates.h."""
    stretch = count // samples
    number = np.arange(count // stretch, dtype=np.uint64)
    return (number * stretch + (number * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(32)) % np.uint64(stretch)).astype(
        np.int64
    )


@each("threads", [1, 2])
def test_topk_is_exact_if_the_sample_is_unlike_the_other_values(threads: int, isa: str) -> None:
    """The limit from such a sample leaves too few candidates, or all values."""
    count, codec = 1 << 20, builtin("topk(ratio=0.01)").codec
    large, small = np.ones(count, np.float32), normal(count)
    large[sampled_places(count, 16384)] += np.abs(normal(16384))
    small[sampled_places(count, 16384)] = 0
    for values in (large, small, np.ones(count, np.float32)):
        order = np.argsort(-np.abs(values), kind="stable")
        states = new_states(builtin("topk"), count)
        payload = codec.encode(values, states, threads=threads)
        wanted = np.sort(order[: math.ceil(count * 0.01)])
        assert places(payload) == wanted.tolist()
        residual = values.copy()
        residual[wanted] = 0
        assert np.array_equal(states["residual"], residual)


@each("place", [0, 500_000, 999_999])
def test_topk_of_values_that_are_not_finite_changes_no_state(place: int) -> None:
    codec, values = builtin("topk").codec, normal(1_000_000)
    values[place] = np.inf
    states = new_states(builtin("topk"), len(values))
    assert len(codec.encode(values, states)) == 0
    assert not states["residual"].any()
