# SPDX-License-Identifier: Apache-2.0
"""What links have in common, and which of them are unlike the others."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from hipress.secopa.links import LinkCosts

#: A link is unlike the others if its rate or its latency is so much less, or more: what is measured varies, too.
_UNLIKE = 1.25
_USUAL_BYTES = 1 << 20
#: Below it a latency is mostly that of waking up a thread.
_SHORT_LATENCY_S = 2e-4


def typical(found: Sequence[LinkCosts]) -> LinkCosts:
    """Field by field the median; of an even number the upper one of the middle."""

    def middle(name: str) -> float | None:
        known = [value for one in found if (value := getattr(one, name)) is not None]
        return statistics.median_high(known) if known else None

    return LinkCosts.model_validate({name: middle(name) for name in LinkCosts.model_fields})


def better(one: LinkCosts, other: LinkCosts) -> LinkCosts:
    """Of two measurements of a link, the one with which a message of usual size is there sooner."""
    return min(one, other, key=lambda link: link.latency_s + _USUAL_BYTES / link.both_ways_bytes_per_s)


def unlike(one: LinkCosts, other: LinkCosts) -> bool:
    """Whether a plan should know of the difference."""
    pairs = (
        (one.bandwidth_bytes_per_s, other.bandwidth_bytes_per_s),
        (one.both_ways_bytes_per_s, other.both_ways_bytes_per_s),
        (max(one.latency_s, _SHORT_LATENCY_S), max(other.latency_s, _SHORT_LATENCY_S)),
    )
    return any(max(pair) > _UNLIKE * min(pair) for pair in pairs)
