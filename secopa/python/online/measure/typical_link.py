# SPDX-License-Identifier: Apache-2.0
"""The typical costs of the links, and the links that differ from them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from hipress.secopa.profile.links import LinkCosts

#: A link differs from the typical one if a rate or the latency differs by more than this factor. Measurements vary,
#: too.
_UNLIKE = 1.25
_USUAL_BYTES = 1 << 20
#: Shorter latencies are mostly the time in which a thread wakes up, so they count as this.
_SHORT_LATENCY_S = 2e-4


def typical(found: Sequence[LinkCosts]) -> LinkCosts:
    """The median of each field; for an even number of values the upper one of the middle two."""

    def middle(name: str) -> float | None:
        known = [value for one in found if (value := getattr(one, name)) is not None]
        return statistics.median_high(known) if known else None

    return LinkCosts.model_validate({name: middle(name) for name in LinkCosts.model_fields})


def better(one: LinkCosts, other: LinkCosts) -> LinkCosts:
    """The one of two measurements with the shorter time for a message of 1 MiB."""
    return min(one, other, key=lambda link: link.latency_s + _USUAL_BYTES / link.both_ways_bytes_per_s)


def unlike(one: LinkCosts, other: LinkCosts) -> bool:
    """Whether two links differ by enough for a planner."""
    pairs = (
        (one.bandwidth_bytes_per_s, other.bandwidth_bytes_per_s),
        (one.both_ways_bytes_per_s, other.both_ways_bytes_per_s),
        (max(one.latency_s, _SHORT_LATENCY_S), max(other.latency_s, _SHORT_LATENCY_S)),
    )
    return any(max(pair) > _UNLIKE * min(pair) for pair in pairs)
