# SPDX-License-Identifier: Apache-2.0
"""Bursts: the duration and the processor time of several messages of one size from one rank to another."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hipress.secopa.online.measure.point_to_point import Pair, PointToPoint
from hipress.secopa.online.measure.session import Session


@dataclass(frozen=True)
class Burst:
    """Messages that the source submits together.

    The destination answers the last one with an empty message; with `both` it sends an equal burst at the same time.
    """

    count: int
    size: int
    both: bool = False

    @property
    def bytes(self) -> int:
        return self.count * self.size


@dataclass(frozen=True)
class BurstCosts:
    """The costs of one burst. Processor times are medians over repetitions, of the rank's whole process."""

    elapsed_s: float
    """Seconds from the first submission until the answer: the 20th percentile of the repetitions. Other work on the
    machine lengthens bursts, and that is not a cost of the link."""
    source_cpu_s: float
    destination_cpu_s: float
    bystander_cpu_s: float | None
    """Processor seconds of a rank that is in no pair and receives the empty blocks; None if there is no such rank."""


class _Exchange:
    """The bursts of one pair of ranks."""

    def __init__(self, session: Session, pair: Pair, burst: Burst, repeats: int) -> None:
        self._volley = burst
        self._repeats = repeats
        self._is_source = session.rank == pair.source
        pairs = {pair, pair.back} if burst.both else {pair}
        self._messages = PointToPoint(session, burst.size, pairs, repeats * burst.count, burst.count)
        # With `both` the empty message goes first and starts the destination's burst.
        self._empty = PointToPoint(session, 0, {pair if burst.both else pair.back}, repeats)

    def begin(self) -> None:
        """Submits the receives of this rank; it must end on all ranks before the clock starts."""
        self._messages.begin()
        self._empty.begin()

    def play(self) -> tuple[float, float]:
        """Runs this rank's part of the bursts. Returns the seconds and the processor seconds of one burst."""
        elapsed, cpu = [], []
        for repeat in range(self._repeats):
            messages = range(repeat * self._volley.count, (repeat + 1) * self._volley.count)
            start, cpu_start = time.perf_counter(), time.process_time()
            if self._volley.both:
                self._both_ways(repeat, messages)
            else:
                self._answered(repeat, messages)
            elapsed.append(time.perf_counter() - start)
            cpu.append(time.process_time() - cpu_start)
        return sorted(elapsed)[(self._repeats - 1) // 5], statistics.median(cpu)

    def _answered(self, repeat: int, messages: range) -> None:
        if self._is_source:
            for message in messages:
                self._messages.send(message)
            self._empty.receive(repeat)
            return
        for message in reversed(messages):
            self._messages.receive(message)
        self._empty.send(repeat)

    def _both_ways(self, repeat: int, messages: range) -> None:
        if self._is_source:
            self._empty.send(repeat)
        else:
            self._empty.receive(repeat)
        for message in messages:
            self._messages.send(message)
        for message in reversed(messages):
            self._messages.receive(message)

    def end(self) -> None:
        self._messages.end()
        self._empty.end()


def run_bursts(session: Session, bursts: Mapping[Pair, Burst], repeats: int) -> dict[Pair, BurstCosts]:
    """Measures the bursts of all pairs at the same time. A rank is in one pair at most. All ranks get the same
    costs."""
    exchanges = {pair: _Exchange(session, pair, burst, repeats) for pair, burst in bursts.items()}
    for exchange in exchanges.values():
        exchange.begin()
    session.gather(None)
    mine = None
    start = time.process_time()
    for pair, exchange in exchanges.items():
        if session.rank in pair:
            mine = exchange.play()
    for exchange in exchanges.values():
        exchange.end()
    if mine is None:
        # Empty blocks reach this rank at any time, so it can measure only their total cost.
        mine = 0.0, (time.process_time() - start) / (repeats * len(bursts))
    told = session.gather(mine)
    members = {rank for pair in bursts for rank in pair}
    bystanders = [cpu_s for rank, (_, cpu_s) in enumerate(told) if rank not in members]
    bystander_s = statistics.median(bystanders) if bystanders else None
    return {pair: _costs(pair, told, bystander_s) for pair in bursts}


def _costs(pair: Pair, told: list[Any], bystander_s: float | None) -> BurstCosts:
    (elapsed_s, source_cpu_s), (_, destination_cpu_s) = (told[rank] for rank in pair)
    return BurstCosts(elapsed_s, source_cpu_s, destination_cpu_s, bystander_s)
