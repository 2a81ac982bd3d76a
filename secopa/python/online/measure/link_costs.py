# SPDX-License-Identifier: Apache-2.0
"""The costs of a link, from a few bursts over it.

Each cost is the difference between two bursts, so that their common costs cancel. Two bursts with the same bytes in
many and in few messages give the cost of a message; two bursts with many and with few bytes give the cost of a byte.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from hipress.secopa.online.measure.bursts import Burst, BurstCosts, run_bursts
from hipress.secopa.online.measure.point_to_point import Pair
from hipress.secopa.online.measure.samples import rounded
from hipress.secopa.online.measure.session import Session
from hipress.secopa.profile.links import LinkCosts

_EMPTY, _EMPTY_REPEATS = Burst(1, 0), 20
#: Two bursts of the same bytes, in many and in few messages; the messages are too large for bundles.
_MANY, _FEW, _SMALL_REPEATS = Burst(64, 20 << 10), Burst(8, 160 << 10), 6
#: Sizes of a large burst: messages of CaSync's largest partition, if the link is fast enough for four of them.
_LARGEST_MESSAGE, _SMALLEST_MESSAGE, _MOST_BYTES = 4 << 20, 256 << 10, 32 << 20
_LARGE_REPEATS = 5


@dataclass(frozen=True)
class _Measured:
    """The bursts of one pair."""

    empty: BurstCosts
    many: BurstCosts
    few: BurstCosts
    large: BurstCosts
    quarter: BurstCosts
    both: BurstCosts | None = None
    both_quarter: BurstCosts | None = None


def measure_pairs(
    session: Session, pairs: Sequence[Pair], sharing: Collection[Pair], *, submission_s: float, seconds: float
) -> dict[Pair, LinkCosts]:
    """Measures the links of all pairs at the same time; the pairs do not disturb each other. All ranks get the same
    costs.

    Arguments:
        sharing: pairs whose ends share processors. There the processors limit the rate of both directions at once, so
            that rate is not measured.
        submission_s: cost of a tensor's submission, which is subtracted from the cost of a message.
        seconds: approximate duration.
    """
    empty = run_bursts(session, dict.fromkeys(pairs, _EMPTY), _EMPTY_REPEATS)
    many = run_bursts(session, dict.fromkeys(pairs, _MANY), _SMALL_REPEATS)
    few = run_bursts(session, dict.fromkeys(pairs, _FEW), _SMALL_REPEATS)
    apart = [pair for pair in pairs if pair not in sharing]
    # A large burst and its quarter, both in one direction and in two: 2.5 large bursts per repetition.
    target_s = seconds / (2.5 * _LARGE_REPEATS)
    sizes = {pair: _large(few[pair].elapsed_s - empty[pair].elapsed_s, target_s) for pair in pairs}

    def large(divisor: int, both: bool) -> dict[Pair, BurstCosts]:
        asked = apart if both else pairs
        bursts = {pair: Burst(sizes[pair].count // divisor, sizes[pair].size, both) for pair in asked}
        return run_bursts(session, bursts, _LARGE_REPEATS) if bursts else {}

    one_way = [large(divisor, False) for divisor in (1, 4)]
    both_ways = [large(divisor, True) for divisor in (1, 4)]
    return {
        pair: _link_costs(
            _Measured(
                empty[pair],
                many[pair],
                few[pair],
                *(found[pair] for found in one_way),
                *(found.get(pair) for found in both_ways),
            ),
            sizes[pair],
            bystanders=session.world - 2,
            submission_s=submission_s,
        )
        for pair in pairs
    }


def _large(few_s: float, target_s: float) -> Burst:
    """A burst of about `target_s`, with messages of the size that the engine would choose."""
    wanted = int(min(_MOST_BYTES, max(4 * _SMALLEST_MESSAGE, target_s * _FEW.bytes / max(few_s, 1e-6))))
    size = min(_LARGEST_MESSAGE, wanted // 4)
    return Burst(wanted // size // 4 * 4, size)


def _link_costs(measured: _Measured, large: Burst, *, bystanders: int, submission_s: float) -> LinkCosts:
    more_messages, more_bytes = _MANY.count - _FEW.count, large.bytes * 3 // 4
    send_s = (measured.many.source_cpu_s - measured.few.source_cpu_s) / more_messages - submission_s
    receive_s = (measured.many.destination_cpu_s - measured.few.destination_cpu_s) / more_messages
    if measured.many.bystander_cpu_s is not None and measured.few.bystander_cpu_s is not None:
        # With every message the source sends an empty block to each bystander, and the bystander only receives it.
        send_s -= bystanders * max(0.0, measured.many.bystander_cpu_s - measured.few.bystander_cpu_s) / more_messages
    per_large = large.size
    one_way_s = measured.large.elapsed_s - measured.quarter.elapsed_s
    duplex = None
    if measured.both is not None and measured.both_quarter is not None:
        both_ways_s = measured.both.elapsed_s - measured.both_quarter.elapsed_s
        duplex = rounded(_rate(more_bytes, both_ways_s, large.bytes, measured.both.elapsed_s))
    send_byte_s = (measured.large.source_cpu_s - measured.quarter.source_cpu_s) / more_bytes
    receive_byte_s = (measured.large.destination_cpu_s - measured.quarter.destination_cpu_s) / more_bytes
    return LinkCosts(
        latency_s=rounded(measured.empty.elapsed_s / 2),
        bandwidth_bytes_per_s=rounded(_rate(more_bytes, one_way_s, large.bytes, measured.large.elapsed_s)),
        duplex_bytes_per_s=duplex,
        send_cpu_s_per_message=rounded(max(0.0, send_s)),
        send_cpu_s_per_byte=rounded(max(0.0, send_byte_s - (send_s + submission_s) / per_large)),
        receive_cpu_s_per_message=rounded(max(0.0, receive_s)),
        receive_cpu_s_per_byte=rounded(max(0.0, receive_byte_s - receive_s / per_large)),
    )


def _rate(more_bytes: int, more_s: float, all_bytes: int, all_s: float) -> float:
    """The rate by the difference of two bursts; by the large burst alone if the difference is mostly noise."""
    return more_bytes / more_s if more_s > 0.25 * all_s else all_bytes / all_s
