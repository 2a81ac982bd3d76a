# SPDX-License-Identifier: Apache-2.0
"""Predicts the end of the next forward: backward releases gradients, and forward needs the averages in order.

Nothing is computed: the rank sleeps during backward (release.py), and the end of forward follows from the times of the
averages. A layer begins when the layer before it has ended and the average of its own gradient is complete.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from benchmarks.models import GradientSet

#: A layer's backward makes two products where forward makes one: with its inputs and with its weights.
_FORWARD_SHARE = 0.5


def scaled(gradients: GradientSet, backward_s: float) -> GradientSet:
    """The same gradients with a backward of `backward_s` seconds; release times are scaled to it."""
    factor = backward_s / gradients.backward_s
    return replace(
        gradients,
        gradients=tuple(replace(one, ready_s=one.ready_s * factor) for one in gradients.gradients),
        backward_s=backward_s,
    )


def forward_seconds(gradients: GradientSet) -> list[float]:
    """Seconds of forward for the layer of each gradient."""
    seconds = [0.0] * len(gradients.gradients)
    before = 0.0
    for index in sorted(range(len(seconds)), key=lambda index: gradients.gradients[index].ready_s):
        ready = gradients.gradients[index].ready_s
        seconds[index] = _FORWARD_SHARE * (ready - before)
        before = ready
    return seconds


def step_end(start: float, averaged: Sequence[float], forward: Sequence[float]) -> float:
    """The end of a forward that may begin at `start`. `averaged` and `forward`: the time of each average and the
    seconds of its layer, in the order of registration."""
    end = start
    for ready, seconds in zip(averaged, forward, strict=True):
        end = max(end, ready) + seconds
    return end
