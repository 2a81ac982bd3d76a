# SPDX-License-Identifier: Apache-2.0
"""The costs of codecs that send a tensor as two linked tensors: the computations before, between and after both.

Clocks and memory are those of codec_costs.py.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from functools import cached_property
from math import isqrt

import numpy as np

from hipress import _core
from hipress.secopa.online.measure.codec_costs import (
    Floats,
    Measurement,
    crowded_piece,
    piece_lengths,
    relative_error,
    state_vectors,
)
from hipress.secopa.online.measure.crowding import crowding
from hipress.secopa.online.measure.samples import cost_point, rounded, sampled, sampled_in_turn
from hipress.secopa.profile.curves import CostPoint, EncodedSize, EncodedSizes, MeasuredCurve
from hipress.secopa.profile.linked import Factors, LinkedCosts, LinkedTimes, Summed

#: The fields of LinkedTimes.
_COSTS = ("first", "second", "result")
#: The factor of a sum of two ranks. With 1 one of the passes over the result would be left out.
_HALF = 0.5
#: Elements of the tensor whose time is the cost of a call from Python.
_SMALLEST = 16
#: Statistics of values with a residual are larger than those of values alone, at most by this factor.
_ROOM = 1.25

_Actions = Mapping[str, Callable[[], object]]


class LinkedMeasurement(Measurement):
    """Of such a codec."""

    def measure(self) -> LinkedCosts:
        """The codec's costs."""
        self.arena.forget()
        times = {threads: self._times(threads) for threads in self.threads}
        shares = [(index, self.cores) for index in range(self.cores)]
        count = crowded_piece(self.arena, self.cores)
        factors, summed = None, None
        if self._codec.low_rank is not None:
            factors = Factors(rank=self._codec.low_rank[0], min_ratio=self._codec.low_rank[1])
            count = isqrt(count) ** 2
        else:
            summed = Summed(statistics=self._statistics(), most_ranks=_most_ranks(self._codec))
        return LinkedCosts(
            threads=times,
            factors=factors,
            summed=summed,
            crowding=crowding([self._actions(count, 1, share)["second"] for share in shares]),
            relative_error=self._relative_error(),
            states=_states(self._codec),
        )

    def _statistics(self) -> EncodedSizes:
        sizes = (EncodedSize(raw_bytes=4 * n, encoded_bytes=4 * self._codec.statistics_count(n)) for n in self.sizes)
        return EncodedSizes(points=tuple(sizes))

    def _times(self, threads: int) -> LinkedTimes:
        clock = time.thread_time if threads == 1 else time.perf_counter
        budget_s = self.budget_s / (len(self.threads) * len(self.sizes))
        calls = {name: min(sampled(action, 0.0, clock)) for name, action in self._actions(_SMALLEST, 1).items()}
        curves: dict[str, list[CostPoint]] = {name: [] for name in _COSTS}
        for count in self.sizes:
            actions = self._actions(count, threads)
            # They alternate, because a step also uses other memory between them.
            samples = sampled_in_turn([actions[name] for name in _COSTS], budget_s, clock)
            for name, found in zip(_COSTS, samples, strict=True):
                curves[name].append(cost_point(4 * count, found, calls[name]))
        return LinkedTimes(**{name: MeasuredCurve(points=tuple(points)) for name, points in curves.items()})

    def _actions(self, count: int, threads: int, share: tuple[int, int] = (0, 1)) -> _Actions:
        """The measured actions. Each call computes with another piece of the arena."""
        if self._codec.low_rank is not None:
            return self._with_factors(count, threads, share)
        return self._with_levels(count, threads, share)

    def _with_levels(self, count: int, threads: int, share: tuple[int, int]) -> _Actions:
        codec, states = self._codec, len(self._codec.states)
        before, after = ([self.arena.state(which * states + i) for i in range(states)] for which in (0, 1))
        memory = itertools.cycle(([*before, *after], [*after, *before]))
        steps = [[values, *arrays] for values, arrays in zip(self.arena.steps, memory, strict=False)]
        lengths = piece_lengths(codec, count)
        given, taken = (self.arena.pieces(count, *steps, share=share, lengths=lengths) for _ in range(2))
        outputs = self.arena.pieces(count, [self.arena.output], share=share)
        statistics = np.empty(codec.statistics_count(count), np.float32)
        message, total = (np.zeros(statistics.nbytes + count + 1, np.uint8) for _ in range(2))
        numbers = {"seed": 0, "step": 0, "tensor": 0, "threads": threads}

        def first() -> None:
            values, *arrays = next(given)
            _core.summed_statistics(codec, values, arrays[:states], statistics=statistics, **numbers)

        agreed = np.full_like(statistics, self._agreed)

        def second() -> None:
            values, *arrays = next(taken)
            read, written = arrays[:states], arrays[states:]
            _core.summed_levels(codec, agreed, values, read, written, message=message, **numbers)

        def result() -> None:
            (output,) = next(outputs)
            _core.summed_result(codec, agreed, total, factor=_HALF, output=output, threads=threads)

        first()
        second()
        return dict(zip(_COSTS, (first, second, result), strict=True))

    @cached_property
    def _agreed(self) -> float:
        """Statistics on which all blocks of the arena could agree with those of another rank."""
        assert self._codec.summed is not None
        statistics = np.empty(self._codec.statistics_count(self.arena.elements), np.float32)
        nothing: list[Floats] = []
        _core.summed_statistics(
            self._codec, self.arena.values, nothing, statistics=statistics, seed=0, step=0, tensor=0
        )
        most = statistics.min() if self._codec.summed[0] == "min" else statistics.max()
        return float(most) * _ROOM

    def _with_factors(self, count: int, threads: int, share: tuple[int, int]) -> _Actions:
        assert self._codec.low_rank is not None
        most, _, error_feedback, _ = self._codec.low_rank
        side = isqrt(count)
        shape, rank = (side, side), min(most, side)
        steps = [[values, self.arena.state(0), self.arena.state(1)] for values in self.arena.steps]
        given = self.arena.pieces(side * side, *steps, share=share)
        matrices = self.arena.pieces(side * side, [self.arena.state(1)], share=share)
        results = self.arena.pieces(side * side, [self.arena.state(1), self.arena.output], share=share)
        left, right = (np.zeros(rank * side, np.float32) for _ in range(2))

        def first() -> None:
            values, residual, matrix = next(given)
            read = residual if error_feedback else None
            _core.low_rank_left(values, read, shape, step=1, right=right, matrix=matrix, left=left, threads=threads)

        def second() -> None:
            _core.low_rank_right(next(matrices)[0], shape, left=left, right=right, threads=threads)

        def result() -> None:
            matrix, output = next(results)
            _core.low_rank_result(
                matrix, shape, left=left, right=right, ranks=1, factor=_HALF, output=output, threads=threads
            )

        first()
        return dict(zip(_COSTS, (first, second, result), strict=True))

    def _relative_error(self) -> float:
        if self._codec.low_rank is None:
            return relative_error(self._codec, self.arena)
        side = isqrt(min(1 << 18, self.arena.elements))
        values = self.arena.values[: side * side]
        rank = min(self._codec.low_rank[0], side)
        left, right = (np.zeros(rank * side, np.float32) for _ in range(2))
        matrix, decoded = (np.empty(side * side, np.float32) for _ in range(2))
        shape = (side, side)
        _core.low_rank_left(values, None, shape, step=1, right=right, matrix=matrix, left=left)
        _core.low_rank_right(matrix, shape, left=left, right=right)
        _core.low_rank_result(matrix, shape, left=left, right=right, ranks=1, factor=1.0, output=decoded)
        return _lost(values, decoded)


def _lost(values: Floats, decoded: Floats) -> float:
    return rounded(float(np.linalg.norm(values - decoded) / np.linalg.norm(values)))


def _most_ranks(codec: _core.Codec) -> int:
    assert codec.summed is not None
    return codec.summed[2]


def _states(codec: _core.Codec) -> int | float:
    """The vectors of the gradient's length: the right factor, which is a state of powersgd, is shorter."""
    if codec.low_rank is not None:
        return int(codec.low_rank[2])
    return state_vectors(codec)
