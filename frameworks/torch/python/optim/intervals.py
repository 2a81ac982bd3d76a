# SPDX-License-Identifier: Apache-2.0
"""The steps in which 0/1 Adam averages exactly and synchronises (arXiv 2202.06009): their intervals double."""

from __future__ import annotations


def updates_variance(step: int, scaler: int) -> bool:
    """Whether `step` (from 1) is a multiple of the interval. The interval begins at 1, and doubles after every `scaler`
    such steps.
    """
    end, interval = 0, 1
    while True:
        first = (end // interval + 1) * interval
        last = first + (scaler - 1) * interval
        if step <= last:
            return step % interval == 0
        end, interval = last, 2 * interval


def local_interval(after: int, scaler: int, largest: int) -> int:
    """The distance of synchronised steps, `after` steps after the freeze: 1, doubled every `scaler` steps."""
    doublings = max(after - 1, 0) // scaler
    return largest if doublings >= largest.bit_length() else min(largest, 1 << doublings)
