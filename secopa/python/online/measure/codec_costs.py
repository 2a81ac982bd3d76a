# SPDX-License-Identifier: Apache-2.0
"""The costs of codecs and sums on one machine, by the size of the tensor and the number of threads.

With one thread the costs are the thread's own processor time, which other processes hardly change. With several threads
they are the elapsed time.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hipress import _core
from hipress.secopa.online.measure.crowding import crowding
from hipress.secopa.online.measure.samples import cost_point, rounded, sampled, sampled_in_turn
from hipress.secopa.profile.curves import CostPoint, EncodedSize, EncodedSizes, MeasuredCurve
from hipress.secopa.profile.profile import CodecCosts, CodecTimes

Floats = NDArray[np.float32]

#: Measured sizes in elements, by factors of four: cache sizes, at which costs change, lie between them.
SIZES = tuple(4**power for power in range(5, 13))
#: Elements of the tensor for the relative error.
_ERROR_ELEMENTS = 1 << 18
#: The largest number of pieces of the arena for one size, over all steps. So many pieces exceed the caches of a core.
_MOST_PIECES = 4096
#: Elements of a piece while several cores compute.
_CROWDED_ELEMENTS = 1 << 18
#: Steps of a codec before its measurement, and their elements.
_TRAINED_STEPS, _TRAINED_ELEMENTS = 4, 1 << 20
#: Number of steps with different values, and their shift: a prime, so that the blocks of a codec get new values.
_STEPS, _STEP_SHIFT = 8, 65_521
#: The fields of CodecTimes.
_COSTS = ("encode", "decode", "merge")


class Arena:
    """Memory that measurements walk through in pieces: the gradients of a step are not in caches, either."""

    def __init__(self, elements: int) -> None:
        self.elements = elements
        room = elements + _STEPS * _STEP_SHIFT
        values = np.random.default_rng(1).standard_normal(room, dtype=np.float32)
        #: Values of one step.
        self.values: Floats = values[:elements]
        #: Values of several steps, which repeat. They change from step to step and their sum stays small: with constant
        #: values a residual would grow without bound.
        self.steps: list[Floats] = []
        opposite: Floats = -values
        for step in range(_STEPS):
            for signed, number in ((values, step), (opposite, (step + _STEPS // 2 - 1) % _STEPS)):
                first = number * _STEP_SHIFT
                self.steps.append(signed[first : first + elements])
        #: The output of decoding and adding.
        self.output = np.full(elements, 0.0, np.float32)
        self._states: list[Floats] = []

    def state(self, index: int) -> Floats:
        """Memory for a state vector of a codec."""
        while len(self._states) <= index:
            self._states.append(np.full(self.elements, 0.0, np.float32))
        return self._states[index]

    def forget(self) -> None:
        """Clears all state vectors."""
        for state in self._states:
            state.fill(0.0)

    def pieces(
        self,
        count: int,
        *steps: Sequence[Floats],
        share: tuple[int, int] = (0, 1),
        lengths: Sequence[int] | None = None,
    ) -> Iterator[list[Floats]]:
        """Pieces of `count` elements of the first step's arrays, then of the next step's, in an endless cycle.

        With `share` = (i, n) it yields only every n-th piece, from the i-th on. `lengths`: the elements of pieces of
        each array of a step; None: `count`.
        """
        firsts = range(0, self.elements - count + 1, count)[: _MOST_PIECES // len(steps)][share[0] :: share[1]]
        ends = lengths or [count] * max(map(len, steps), default=0)
        return itertools.cycle(
            [
                [array[first : first + end] for array, end in zip(arrays, ends, strict=True)]
                for arrays in steps
                for first in firsts
            ]
        )


def state_vectors(codec: _core.Codec) -> int | float:
    """The states of a codec as a number of vectors of the gradient's length."""
    total = sum(Fraction(1, codec.state_block(state)) for state in codec.states)
    return int(total) if total == int(total) else float(total)


def piece_lengths(codec: _core.Codec, count: int) -> list[int]:
    """The elements of a piece of the gradient, of the old states and of the new ones."""
    states = [-(-count // codec.state_block(state)) for state in codec.states]
    return [count, *states, *states]


@dataclass
class Measurement:
    """The measurement of one codec."""

    text: str
    arena: Arena
    budget_s: float
    threads: Sequence[int] = (1,)
    cores: int = 1
    """Number of cores that compute at the same time when all are busy."""
    sizes: Sequence[int] = field(default=SIZES)

    @cached_property
    def _codec(self) -> _core.Codec:
        return _core.create_codec(self.text)


class CodecMeasurement(Measurement):
    """Of a codec whose messages stand for one tensor."""

    def measure(self) -> CodecCosts:
        """The codec's costs. Raises InvalidArgument if there is no such codec."""
        self._train()
        times = {threads: self._times(threads) for threads in self.threads}
        sizes = tuple(EncodedSize(raw_bytes=4 * count, encoded_bytes=self._encoded(count)) for count in self.sizes)
        count = crowded_piece(self.arena, self.cores)
        shares = [(index, self.cores) for index in range(self.cores)]
        return CodecCosts(
            threads=times,
            encoded=EncodedSizes(points=sizes),
            crowding=crowding([self._actions(self.text, count, 1, share)["encode"] for share in shares]),
            relative_error=relative_error(self._codec, self.arena),
            states=state_vectors(self._codec),
            merges_decoded=self._codec.merges_decoded,
            takes_groups=all(self._codec.state_block(state) == 1 for state in self._codec.states),
        )

    def _train(self) -> None:
        """Encodes for some steps: the states of later steps determine the cost of some codecs."""
        self.arena.forget()
        if self._codec.states:
            count = min(_TRAINED_ELEMENTS, self.arena.elements)
            encode = self._actions(self.text, count, 1)["encode"]
            for _ in range(_TRAINED_STEPS * (self.arena.elements // count)):
                encode()

    def _times(self, threads: int) -> CodecTimes:
        clock = time.thread_time if threads == 1 else time.perf_counter
        # The budget is divided by three costs; large sizes take at least three samples, even beyond it.
        budget_s = self.budget_s / (3 * len(self.threads) * len(self.sizes))
        curves: dict[str, list[CostPoint]] = {name: [] for name in _COSTS}
        calls = {name: min(sampled(action, 0.0, clock)) for name, action in self._actions("none", 1, 1).items()}
        for count in self.sizes:
            actions = self._actions(self.text, count, threads)
            # Encoding and decoding alternate, because a step also uses other memory between them. The sum of a merge
            # was just written, so it is in a cache if it fits.
            both = sampled_in_turn([actions["encode"], actions["decode"]], 2 * budget_s, clock)
            for name, samples in zip(_COSTS, [*both, sampled(actions["merge"], budget_s, clock)], strict=True):
                curves[name].append(cost_point(4 * count, samples, calls[name]))
        return CodecTimes(**{name: MeasuredCurve(points=tuple(points)) for name, points in curves.items()})

    def _actions(
        self, text: str, count: int, threads: int, share: tuple[int, int] = (0, 1)
    ) -> dict[str, Callable[[], object]]:
        """The measured actions. Each call encodes or decodes another piece of the arena."""
        codec = _core.create_codec(text)
        count_of_states = len(codec.states)
        before, after = (
            [self.arena.state(which * count_of_states + i) for i in range(count_of_states)] for which in (0, 1)
        )
        # A step reads the states that the previous step wrote.
        memory = itertools.cycle(([*before, *after], [*after, *before]))
        steps = [[values, *states] for values, states in zip(self.arena.steps, memory, strict=False)]
        given = self.arena.pieces(count, *steps, share=share, lengths=piece_lengths(codec, count))
        taken = self.arena.pieces(count, [self.arena.output], share=share)
        # Merging adds to the same piece every time, because a rank merges all contributions to a sum in a row.
        total = next(taken)[0]
        output = np.empty(codec.max_encoded_bytes(count), np.uint8)
        payload = np.frombuffer(codec.encode(self.arena.values[:count]), np.uint8)

        def encode() -> None:
            values, *states = next(given)
            read, written = states[:count_of_states], states[count_of_states:]
            codec.encode_into(values, read, written, output, threads=threads)

        def decode() -> None:
            codec.decode_into(payload, next(taken)[0], threads=threads)

        def merge() -> None:
            codec.decode_into(payload, total, accumulate=True, threads=threads)

        return dict(zip(_COSTS, (encode, decode, merge), strict=True))

    def _encoded(self, count: int) -> int:
        """Bytes of the message, at most those of the values: the runtime sends a tensor raw if that is smaller."""
        return min(4 * count, len(self._codec.encode(self.arena.values[:count])))


def relative_error(codec: _core.Codec, arena: Arena) -> float:
    """‖x − decoded‖ / ‖x‖ of one encoding of normally distributed values."""
    values = arena.values[:_ERROR_ELEMENTS]
    decoded = codec.decode(codec.encode(values), len(values))
    return rounded(float(np.linalg.norm(values - decoded) / np.linalg.norm(values)))


def sum_curve(arena: Arena, budget_s: float, sizes: Sequence[int] = SIZES) -> MeasuredCurve:
    """The cost of adding values to a sum, by the bytes of the values."""
    clock = time.thread_time
    call_s = min(sampled(_adding(arena, 1), 0.0, clock))
    points = []
    for count in sizes:
        points.append(cost_point(4 * count, sampled(_adding(arena, count), budget_s / len(sizes), clock), call_s))
    return MeasuredCurve(points=tuple(points))


def sum_crowding(arena: Arena, cores: int) -> tuple[float, ...]:
    """crowding() for adding values to a sum."""
    count = crowded_piece(arena, cores)
    return crowding([_adding(arena, count, (index, cores)) for index in range(cores)])


def _adding(arena: Arena, count: int, share: tuple[int, int] = (0, 1)) -> Callable[[], object]:
    pieces = arena.pieces(count, [arena.output, arena.values], share=share)

    def add() -> None:
        total, values = next(pieces)
        _core.reduce_in_order([total, values], "float32", 1.0, total)

    return add


def crowded_piece(arena: Arena, cores: int) -> int:
    """Elements of a piece: large enough for a queue, and small enough that every core has its own pieces."""
    return min(_CROWDED_ELEMENTS, arena.elements // cores)
