# SPDX-License-Identifier: Apache-2.0
"""Why each decision of a plan found by search is as it is: what the step would be if it were the other way.

What turns out to gain nothing is undone: a gradient whose transfer is hidden loses precision for nothing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from hipress.secopa.choice import RAW, Choice
from hipress.secopa.partitions import by_size
from hipress.secopa.planning_options import PlanningOptions
from hipress.secopa.quantities import seconds
from hipress.secopa.trials import Found, Trials

#: By how much a step may become longer for gradients that then keep their precision.
_HARDLY_LONGER = 1 + 1e-3


@dataclass(frozen=True)
class Justified:
    found: Found
    reasons: list[str]
    """One for each unit."""


def justify(trials: Trials, expected: Trials, best: Found) -> Justified:
    """A plan that `trials` found, less what it gains nothing by, and a sentence for each of its units.

    Reasons tell what `expected` predicts: that of the step as it should be, while `trials` may be for a harder one.
    """
    if not best.compressed:
        return Justified(best, [""] * len(best.units))
    limit_s = best.step.step_s * _HARDLY_LONGER
    codec = Counter(choice.codec for choice in best.choices if choice.compressed).most_common(1)[0][0]
    found, reasons = best, [""] * len(best.units)
    for block in _alike(best):
        if not found.choices[block[0]].compressed and codec not in found.units[block[0]].codecs:
            _give(reasons, block, _no_codec(trials.options, found, block[0]))
            continue
        ways = _the_other_way(found, block, codec, trials.model.world)
        other = trials.found(found.units, ways)
        together = f" (it and {len(block) - 1} like it)" if len(block) > 1 else ""
        if other is None:
            _give(reasons, block, "part of the shortest step that was found")
        elif found.choices[block[0]].compressed and other.step.step_s <= limit_s:
            found = other
            _give(reasons, block, f"compressed{together} it would not make the step shorter")
        else:
            done = "as it is" if found.choices[block[0]].compressed else f"with {codec}"
            _give(reasons, block, f"{done}{together} {_longer(expected, found, other)}")
    return Justified(found, reasons)


def _the_other_way(found: Found, block: tuple[int, ...], codec: str, world: int) -> list[Choice]:
    """With what is compressed of the block as it is, and what is not compressed."""
    ways = list(found.choices)
    for index in block:
        unit, choice = found.units[index], ways[index]
        if choice.compressed:
            ways[index] = choice._replace(codec=RAW, partitions=by_size(unit.elements, unit.dtype, world))
        else:
            ways[index] = choice._replace(codec=codec)
    return ways


def _longer(expected: Trials, found: Found, other: Found) -> str:
    steps = [expected.found(one.units, one.choices) for one in (found, other)]
    if steps[0] is None or steps[1] is None:
        return "the step would be longer"
    longer_s = steps[1].step.step_s - steps[0].step.step_s
    if longer_s > 1e-6:
        return f"the step would be {seconds(longer_s)} longer"
    return "the step would be longer if sending took longer than predicted"


def _alike(found: Found) -> list[tuple[int, ...]]:
    """Units of about one size that travel alike; the smallest first, which are the first to lose nothing."""
    alike: dict[tuple[int, str, str, tuple[str, ...]], list[int]] = {}
    for index, (unit, choice) in enumerate(zip(found.units, found.choices, strict=True)):
        key = (unit.bytes.bit_length() // 2, choice.codec, unit.dtype, unit.codecs)
        alike.setdefault(key, []).append(index)
    return [tuple(alike[key]) for key in sorted(alike)]


def all_as_it_is(options: PlanningOptions, raw: Found, rejected: Found | None) -> list[str]:
    """Why a plan compresses nothing, for each of its units. `rejected`: the best that does; None: there is none."""
    if rejected is None:
        said = "no plan that compresses is within the limits"
    else:
        codec = Counter(choice.codec for choice in rejected.choices if choice.compressed).most_common(1)[0][0]
        said = (
            f"compressing does not pay: the best step with {codec} takes {seconds(rejected.step.step_s)}, "
            f"and {seconds(raw.step.step_s)} without"
        )
    return [said if unit.codecs else _no_codec(options, raw, index) for index, unit in enumerate(raw.units)]


def _no_codec(options: PlanningOptions, found: Found, index: int) -> str:
    if found.units[index].bytes < options.min_compress_bytes:
        return f"smaller than {options.min_compress_bytes} bytes"
    return "no codec is allowed for it"


def _give(reasons: list[str], block: tuple[int, ...], reason: str) -> None:
    for index in block:
        reasons[index] = reason
