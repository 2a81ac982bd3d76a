# SPDX-License-Identifier: Apache-2.0
"""What codecs and sums cost on one machine, by the size of the tensor and the number of threads.

With one thread the thread's own processor time is measured, which other processes cannot make much longer; with more,
the time that passes.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hipress import _core
from hipress.secopa.curves import CostPoint, EncodedSize, EncodedSizes, MeasuredCurve
from hipress.secopa.measure.samples import cost_point, rounded, sampled
from hipress.secopa.profile import CodecCosts, CodecTimes

Floats = NDArray[np.float32]

#: Elements. Each is four times the one before: what costs bend at, caches, lies between.
SIZES = tuple(4**power for power in range(5, 13))
#: A tensor of so many tells how much a codec loses.
_ERROR_ELEMENTS = 1 << 18
#: Of the arena that one size goes through: with 16 MB for the smallest one, more than a core's own caches hold.
_MOST_PIECES = 4096
#: As CodecTimes calls them.
_COSTS = ("encode", "decode", "merge")


class Arena:
    """Memory that measurements go through piece by piece: gradients of a step do not lie in caches either."""

    def __init__(self, elements: int) -> None:
        self.elements = elements
        self.values = np.random.default_rng(1).standard_normal(elements, dtype=np.float32)
        self._others: list[Floats] = []

    def other(self, index: int) -> Floats:
        """As much memory again, touched before."""
        while len(self._others) <= index:
            self._others.append(np.full(self.elements, 0.0, np.float32))
        return self._others[index]

    def pieces(self, count: int, *arrays: Floats) -> Iterator[tuple[Floats, ...]]:
        """Of so many elements of all arrays, for ever."""
        firsts = range(0, self.elements - count + 1, count)[:_MOST_PIECES]
        return itertools.cycle([tuple(array[first : first + count] for array in arrays) for first in firsts])


@dataclass
class CodecMeasurement:
    """Of one codec."""

    text: str
    arena: Arena
    budget_s: float
    threads: Sequence[int] = (1,)
    sizes: Sequence[int] = field(default=SIZES)

    @cached_property
    def _codec(self) -> _core.Codec:
        return _core.create_codec(self.text)

    def measure(self) -> CodecCosts:
        """Raises InvalidArgument if there is no such codec."""
        times = {threads: self._times(threads) for threads in self.threads}
        sizes = tuple(EncodedSize(raw_bytes=4 * count, encoded_bytes=self._encoded(count)) for count in self.sizes)
        return CodecCosts(threads=times, encoded=EncodedSizes(points=sizes), relative_error=self._relative_error())

    def _times(self, threads: int) -> CodecTimes:
        clock = time.thread_time if threads == 1 else time.perf_counter
        # Three costs; and large sizes take their three samples whatever is left.
        budget_s = self.budget_s / (3 * len(self.threads) * len(self.sizes))
        curves: dict[str, list[CostPoint]] = {name: [] for name in _COSTS}
        calls = {name: min(sampled(action, 0.0, clock)) for name, action in self._actions("none", 1, 1).items()}
        for count in self.sizes:
            for name, action in self._actions(self.text, count, threads).items():
                samples = sampled(action, budget_s, clock)
                curves[name].append(cost_point(4 * count, samples, calls[name]))
        return CodecTimes(**{name: MeasuredCurve(points=tuple(points)) for name, points in curves.items()})

    def _actions(self, text: str, count: int, threads: int) -> dict[str, Callable[[], object]]:
        """What is measured, each on another piece of the arena every time."""
        codec = _core.create_codec(text)
        states = len(codec.states)
        before, after = ([self.arena.other(which * states + i) for i in range(states)] for which in (0, 1))
        given = self.arena.pieces(count, self.arena.values, *before, *after)
        taken = self.arena.pieces(count, self.arena.other(0))
        output = np.empty(codec.max_encoded_bytes(count), np.uint8)
        payload = np.frombuffer(codec.encode(self.arena.values[:count]), np.uint8)

        def encode() -> None:
            values, *memory = next(given)
            codec.encode_into(values, memory[:states], memory[states:], output, threads=threads)

        def decode() -> None:
            codec.decode_into(payload, next(taken)[0], threads=threads)

        def merge() -> None:
            codec.decode_into(payload, next(taken)[0], accumulate=True, threads=threads)

        return dict(zip(_COSTS, (encode, decode, merge), strict=True))

    def _encoded(self, count: int) -> int:
        """What travels: no more than the values themselves."""
        return min(4 * count, len(self._codec.encode(self.arena.values[:count])))

    def _relative_error(self) -> float:
        values = self.arena.values[:_ERROR_ELEMENTS]
        decoded = self._codec.decode(self._codec.encode(values), len(values))
        return rounded(float(np.linalg.norm(values - decoded) / np.linalg.norm(values)))


def sum_curve(arena: Arena, budget_s: float, sizes: Sequence[int] = SIZES) -> MeasuredCurve:
    """Adding values to a sum, by the bytes of the values."""

    def adding(count: int) -> Callable[[], object]:
        pieces = arena.pieces(count, arena.other(0), arena.values)

        def add() -> None:
            total, values = next(pieces)
            _core.reduce_in_order([total, values], "float32", 1.0, total)

        return add

    clock = time.thread_time
    call_s = min(sampled(adding(1), 0.0, clock))
    points = (cost_point(4 * count, sampled(adding(count), budget_s / len(sizes), clock), call_s) for count in sizes)
    return MeasuredCurve(points=tuple(points))
