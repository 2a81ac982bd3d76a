# SPDX-License-Identifier: Apache-2.0
"""When a model's next forward pass could be over: gradients come as backward has them, averages are used in order.

Nothing is computed. Backward is waited through (sync_release.py), the forward pass is reckoned from the times at which
averages were there: a layer begins when the one before it is done and the average of its own gradient has come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from models import GradientSet

#: A layer's backward makes two products where forward makes one: with its inputs and with its weights.
_FORWARD_SHARE = 0.5


def scaled(gradients: GradientSet, backward_s: float) -> GradientSet:
    """The same with a backward pass of that many seconds, shared out over its gradients as it was measured."""
    factor = backward_s / gradients.backward_s
    return replace(
        gradients,
        gradients=tuple(replace(one, ready_s=one.ready_s * factor) for one in gradients.gradients),
        backward_s=backward_s,
    )


def forward_seconds(gradients: GradientSet) -> list[float]:
    """What the forward pass takes for each gradient's layer."""
    seconds = [0.0] * len(gradients.gradients)
    before = 0.0
    for index in sorted(range(len(seconds)), key=lambda index: gradients.gradients[index].ready_s):
        ready = gradients.gradients[index].ready_s
        seconds[index] = _FORWARD_SHARE * (ready - before)
        before = ready
    return seconds


def step_end(start: float, averaged: Sequence[float], forward: Sequence[float]) -> float:
    """When the forward pass ends that may begin at `start`. In the order of registration: when each gradient's average
    was there, and what its layer takes."""
    end = start
    for ready, seconds in zip(averaged, forward, strict=True):
        end = max(end, ready) + seconds
    return end
