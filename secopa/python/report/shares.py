# SPDX-License-Identifier: Apache-2.0
"""The shares of a step's time: computing gradients, codecs, the network, and waiting."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hipress.secopa.report.steps import Step
from hipress.secopa.report.trace import Work


@dataclass(frozen=True)
class Shares:
    """Seconds of a step, averaged over the ranks; their sum is the step.

    At every moment the first share that applies counts, so communication that computing hides costs nothing.
    """

    gradients_s: float
    """Computing gradients."""
    compute_s: float
    """The rank encodes, merges or decodes, and computes no gradients."""
    network_s: float
    """Messages are in flight, and the shares above do not apply."""
    waiting_s: float
    """No share above applies: mostly the rank waits for other ranks."""

    @property
    def step_s(self) -> float:
        return self.gradients_s + self.compute_s + self.network_s + self.waiting_s


def shares_of(step: Step) -> Shares:
    """The shares of one step."""
    sums = [0.0, 0.0, 0.0]
    for rank, spans in step.by_rank.items():
        computed_until_s = step.computed_until_s(rank)
        layers: list[list[tuple[float, float]]] = [[], [], []]
        for span in spans:
            if span.work is Work.BACKWARD:
                layers[0].append((span.start_s, max(span.start_s, min(span.end_s, computed_until_s))))
            else:
                layers[2 if span.work.on_network else 1].append((span.start_s, span.end_s))
        covered = 0.0
        for layer in range(3):
            together = _length(interval for below in layers[: layer + 1] for interval in below)
            sums[layer] += together - covered
            covered = together
    count = len(step.by_rank)
    gradients_s, compute_s, network_s = (total / count for total in sums)
    waiting_s = max(0.0, step.seconds - gradients_s - compute_s - network_s)
    return Shares(gradients_s, compute_s, network_s, waiting_s)


def _length(intervals: Iterable[tuple[float, float]]) -> float:
    """The length of the union of the intervals."""
    total, until = 0.0, float("-inf")
    for start, end in sorted(intervals):
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total
