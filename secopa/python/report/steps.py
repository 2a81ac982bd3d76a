# SPDX-License-Identifier: Apache-2.0
"""The training steps of a trace, and the time of each gradient in them.

A tensor's own step count restarts when the ranks agree on the tensor again, so this module numbers the steps of a
tensor in their order. The training steps are the steps of the tensors with most steps; other tensors, which are not
averaged in every step, are left out.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from hipress.errors import InvalidArgument
from hipress.secopa.report.trace import Span, Trace, Work


@dataclass(frozen=True)
class GradientTime:
    """The times of one gradient, in seconds from the first span of the trace."""

    start_s: float
    """The time at which the last rank began to encode or to send it."""
    end_s: float
    """The time at which the last rank had the average."""

    @property
    def seconds(self) -> float:
        return max(0.0, self.end_s - self.start_s)


@dataclass(frozen=True)
class Step:
    """The spans of all ranks in one training step."""

    spans: tuple[Span, ...]

    @cached_property
    def start_s(self) -> float:
        return min(span.start_s for span in self.spans)

    @cached_property
    def end_s(self) -> float:
        return max(span.end_s for span in self.spans)

    @property
    def seconds(self) -> float:
        return self.end_s - self.start_s

    @cached_property
    def by_rank(self) -> Mapping[int, list[Span]]:
        spans: dict[int, list[Span]] = defaultdict(list)
        for span in self.spans:
            spans[span.rank].append(span)
        return spans

    def computed_until_s(self, rank: int) -> float:
        """The time at which the rank had its last gradient. The backward span ends later, when the rank has all
        averages.

        The spans of a rank that sends no own values do not show this time; for it, the function returns the end of the
        step.
        """
        spans = self.by_rank[rank]
        starts = [_first_own(one) for one in _by_tensor(spans).values()]
        return max((start for start in starts if start is not None), default=self.end_s)

    def gradients(self) -> dict[str, GradientTime]:
        """The times of the tensors by name."""
        times: dict[str, GradientTime] = {}
        for tensor, spans in _by_tensor(self.spans).items():
            of_ranks: dict[int, list[Span]] = defaultdict(list)
            for span in spans:
                of_ranks[span.rank].append(span)
            starts = [start for start in map(_first_own, of_ranks.values()) if start is not None]
            start_s = max(starts) if starts else min(span.start_s for span in spans)
            times[tensor] = GradientTime(start_s, max(span.end_s for span in spans))
        return times


def _first_own(spans: Iterable[Span]) -> float | None:
    """The time at which a rank began to encode or to send its own values. None if it only merges other ranks' values
    and sends sums, because these spans show when the other ranks were ready."""
    spans = list(spans)
    merged = {span.partition for span in spans if span.work is Work.MERGE}
    own = (span for span in spans if span.work in (Work.ENCODE, Work.SEND) and span.partition not in merged)
    return min((span.start_s for span in own), default=None)


def _by_tensor(spans: Iterable[Span]) -> Mapping[str, list[Span]]:
    found: dict[str, list[Span]] = defaultdict(list)
    for span in spans:
        if span.tensor:
            found[span.tensor].append(span)
    return found


def training_steps(trace: Trace) -> list[Step]:
    """The training steps in order. Raises InvalidArgument if the trace has no synchronised tensor."""
    numbered: dict[str, dict[int, list[Span]]] = {}
    for tensor, spans in _by_tensor(trace.spans).items():
        numbered[tensor] = _numbered(spans)
    if not numbered:
        raise InvalidArgument("the trace shows no tensor that was synchronised")
    count = max(len(steps) for steps in numbered.values())
    gradients = [steps for steps in numbered.values() if len(steps) == count]
    return [_with_backward([span for steps in gradients for span in steps[number]], trace) for number in range(count)]


def _numbered(spans: Iterable[Span]) -> dict[int, list[Span]]:
    """The spans of a tensor by step, counted on each rank."""
    steps: dict[int, list[Span]] = defaultdict(list)
    of_rank: dict[int, list[Span]] = defaultdict(list)
    for span in spans:
        of_rank[span.rank].append(span)
    for mine in of_rank.values():
        number, last = -1, None
        for span in sorted(mine, key=lambda one: one.start_s):
            if span.step != last:
                number, last = number + 1, span.step
            steps[number].append(span)
    return steps


def _with_backward(spans: list[Span], trace: Trace) -> Step:
    """The step with the backward span of each rank that contains the rank's first span."""
    firsts: dict[int, float] = {}
    for span in spans:
        firsts[span.rank] = min(span.start_s, firsts.get(span.rank, span.start_s))
    backward = [
        span
        for span in trace.spans
        if span.work is Work.BACKWARD and span.rank in firsts and span.start_s <= firsts[span.rank] <= span.end_s
    ]
    return Step(tuple(sorted([*spans, *backward], key=lambda one: one.start_s)))


def settled(steps: list[Step]) -> list[Step]:
    """The steps without the first one, which allocates memory and opens connections, if there are others."""
    return steps[1:] or steps


def typical(steps: list[Step]) -> Step:
    """The step of median duration; the lower one of the middle two."""
    return sorted(steps, key=lambda step: step.seconds)[(len(steps) - 1) // 2]


def gradient_seconds(steps: list[Step]) -> dict[str, float]:
    """The median time of each tensor by name."""
    found: dict[str, list[float]] = defaultdict(list)
    for step in steps:
        for tensor, times in step.gradients().items():
            found[tensor].append(times.seconds)
    return {tensor: statistics.median(seconds) for tensor, seconds in found.items()}
