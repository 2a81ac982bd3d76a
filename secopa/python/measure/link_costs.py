# SPDX-License-Identifier: Apache-2.0
"""What a link costs, from a few volleys over it.

Every figure is a difference between two volleys, so that what both of them have is not in it: with many messages and
few of the same bytes, what a message costs; with many bytes and few, what a byte costs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from hipress.secopa.links import LinkCosts
from hipress.secopa.measure.letters import Pair
from hipress.secopa.measure.samples import rounded
from hipress.secopa.measure.session import Session
from hipress.secopa.measure.volleys import Volley, VolleyCosts, fire

_EMPTY, _EMPTY_REPEATS = Volley(1, 0), 20
#: Messages that no bundle takes. The same bytes as many and as few.
_MANY, _FEW, _SMALL_REPEATS = Volley(64, 20 << 10), Volley(8, 160 << 10), 6
#: Of a large volley: a message as CaSync cuts large tensors, if the link is fast enough for four of them.
_LARGEST_MESSAGE, _SMALLEST_MESSAGE, _MOST_BYTES = 4 << 20, 256 << 10, 32 << 20
_LARGE_REPEATS = 5


@dataclass(frozen=True)
class _Measured:
    """All volleys over one pair."""

    empty: VolleyCosts
    many: VolleyCosts
    few: VolleyCosts
    large: VolleyCosts
    quarter: VolleyCosts
    both: VolleyCosts | None = None
    both_quarter: VolleyCosts | None = None


def measure_pairs(
    session: Session, pairs: Sequence[Pair], sharing: Collection[Pair], *, submission_s: float, seconds: float
) -> dict[Pair, LinkCosts]:
    """Of pairs that do not disturb each other, at the same time. All ranks call it and get the same.

    Arguments:
        sharing: pairs on the same processors. Both ends of a transfer keep those busy, so that what they carry in both
            directions at once says nothing about the link.
        submission_s: what handing over a tensor costs, which is no part of a message.
        seconds: about what it may take.
    """
    empty = fire(session, dict.fromkeys(pairs, _EMPTY), _EMPTY_REPEATS)
    many = fire(session, dict.fromkeys(pairs, _MANY), _SMALL_REPEATS)
    few = fire(session, dict.fromkeys(pairs, _FEW), _SMALL_REPEATS)
    apart = [pair for pair in pairs if pair not in sharing]
    # A large volley, its quarter, and both once more both ways: two and a half of them per repetition.
    target_s = seconds / (2.5 * _LARGE_REPEATS)
    sizes = {pair: _large(few[pair].elapsed_s - empty[pair].elapsed_s, target_s) for pair in pairs}

    def large(divisor: int, both: bool) -> dict[Pair, VolleyCosts]:
        asked = apart if both else pairs
        volleys = {pair: Volley(sizes[pair].count // divisor, sizes[pair].size, both) for pair in asked}
        return fire(session, volleys, _LARGE_REPEATS) if volleys else {}

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


def _large(few_s: float, target_s: float) -> Volley:
    """As many bytes as take about `target_s`, in messages as large as the engine would make them."""
    wanted = int(min(_MOST_BYTES, max(4 * _SMALLEST_MESSAGE, target_s * _FEW.bytes / max(few_s, 1e-6))))
    size = min(_LARGEST_MESSAGE, wanted // 4)
    return Volley(wanted // size // 4 * 4, size)


def _link_costs(measured: _Measured, large: Volley, *, bystanders: int, submission_s: float) -> LinkCosts:
    more_messages, more_bytes = _MANY.count - _FEW.count, large.bytes * 3 // 4
    send_s = (measured.many.source_cpu_s - measured.few.source_cpu_s) / more_messages - submission_s
    receive_s = (measured.many.destination_cpu_s - measured.few.destination_cpu_s) / more_messages
    if measured.many.bystander_cpu_s is not None and measured.few.bystander_cpu_s is not None:
        # With every message the source sends an empty one to each bystander, who does nothing but receive it.
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
    """By the difference; by the large volley alone if something else took longer in the small one."""
    return more_bytes / more_s if more_s > 0.25 * all_s else all_bytes / all_s
