# SPDX-License-Identifier: Apache-2.0
"""How long it takes, and what processors do, when one rank sends some messages of one size to another."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hipress.secopa.measure.letters import Letters, Pair
from hipress.secopa.measure.session import Session


@dataclass(frozen=True)
class Volley:
    """Messages that are submitted together. When all are there an empty one goes back; or, if they go `both` ways at
    the same time, as many."""

    count: int
    size: int
    both: bool = False

    @property
    def bytes(self) -> int:
        return self.count * self.size


@dataclass(frozen=True)
class VolleyCosts:
    """Of one volley. Processor time is the median of what a rank's whole process took."""

    elapsed_s: float
    """From the first message's submission until the answer is there; of five volleys four take longer. Whatever else
    a machine does makes volleys longer, and is nothing that a link costs."""
    source_cpu_s: float
    destination_cpu_s: float
    bystander_cpu_s: float | None
    """Of a rank that gets an empty block with every message and every answer; None: there is no such rank."""


class _Exchange:
    """A pair's volleys."""

    def __init__(self, session: Session, pair: Pair, volley: Volley, repeats: int) -> None:
        self._volley = volley
        self._repeats = repeats
        self._is_source = session.rank == pair.source
        ways = {pair, pair.back} if volley.both else {pair}
        self._messages = Letters(session, volley.size, ways, repeats * volley.count, volley.count)
        # Before they send both ways at the same time, the destination waits for a word.
        self._empty = Letters(session, 0, {pair if volley.both else pair.back}, repeats)

    def begin(self) -> None:
        """What must have happened before the clock starts."""
        self._messages.begin()
        self._empty.begin()

    def play(self) -> tuple[float, float]:
        """This rank's part in it; the seconds of a volley, and the processor's."""
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


def fire(session: Session, volleys: Mapping[Pair, Volley], repeats: int) -> dict[Pair, VolleyCosts]:
    """Each pair's volleys, at the same time; no rank is in two pairs. All ranks call it and get the same costs."""
    exchanges = {pair: _Exchange(session, pair, volley, repeats) for pair, volley in volleys.items()}
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
        # Messages that it has no part in reach it at any time: only their sum can be told.
        mine = 0.0, (time.process_time() - start) / (repeats * len(volleys))
    told = session.gather(mine)
    members = {rank for pair in volleys for rank in pair}
    bystanders = [cpu_s for rank, (_, cpu_s) in enumerate(told) if rank not in members]
    bystander_s = statistics.median(bystanders) if bystanders else None
    return {pair: _costs(pair, told, bystander_s) for pair in volleys}


def _costs(pair: Pair, told: list[Any], bystander_s: float | None) -> VolleyCosts:
    (elapsed_s, source_cpu_s), (_, destination_cpu_s) = (told[rank] for rank in pair)
    return VolleyCosts(elapsed_s, source_cpu_s, destination_cpu_s, bystander_s)
