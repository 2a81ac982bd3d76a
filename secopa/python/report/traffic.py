# SPDX-License-Identifier: Apache-2.0
"""The bytes that a step sent, and the bytes that the same messages would have without compression."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from hipress.secopa.report.steps import Step
from hipress.secopa.report.trace import Work


@dataclass(frozen=True)
class Traffic:
    """Payload bytes that an average rank sends in a step."""

    sent_bytes: float
    raw_bytes: float
    messages: float

    @property
    def saved_bytes(self) -> float:
        return max(0.0, self.raw_bytes - self.sent_bytes)


def traffic_of(step: Step) -> dict[str, Traffic]:
    """The traffic of each tensor by name."""
    raw = partition_bytes(step)
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    for span in step.spans:
        if span.work is Work.SEND:
            found = sums[span.tensor]
            found[0] += span.bytes
            found[1] += max(span.bytes, raw.get((span.tensor, span.partition), 0))
            found[2] += 1
    ranks = len(step.by_rank)
    return {tensor: Traffic(*(value / ranks for value in values)) for tensor, values in sums.items()}


def total(traffic: Mapping[str, Traffic]) -> Traffic:
    """The traffic of all tensors together."""
    return Traffic(
        sum(one.sent_bytes for one in traffic.values()),
        sum(one.raw_bytes for one in traffic.values()),
        sum(one.messages for one in traffic.values()),
    )


def partition_bytes(step: Step) -> dict[tuple[str, int], int]:
    """Uncompressed bytes of each partition, known from the spans that encode, merge or decode it."""
    sizes: dict[tuple[str, int], int] = {}
    for span in step.spans:
        if span.work in (Work.ENCODE, Work.MERGE, Work.DECODE):
            key = span.tensor, span.partition
            sizes[key] = max(span.bytes, sizes.get(key, 0))
    return sizes
