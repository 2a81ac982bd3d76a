# SPDX-License-Identifier: Apache-2.0
"""Finds the reason of each decision: the change of the step's time under the opposite decision.

If the compression of a block of gradients does not shorten the step, the block becomes uncompressed, for its precision.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from hipress.secopa.plan.choice import RAW, Choice
from hipress.secopa.plan.partitions import by_size
from hipress.secopa.planners.options import PlanningOptions
from hipress.secopa.planners.trials import Found, Trials
from hipress.secopa.profile.quantities import seconds

#: The factor by which a step may become longer if gradients then keep their precision.
_HARDLY_LONGER = 1 + 1e-3


@dataclass(frozen=True)
class Justified:
    found: Found
    reasons: list[str]
    """One reason for each unit of `found`."""


def justify(trials: Trials, expected: Trials, best: Found) -> Justified:
    """Undoes compression that does not shorten the step, and finds a reason for each unit.

    The reasons quote the predictions of `expected`, which has the measured backward; `trials` has a shorter one.
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
        ways = _opposite(found, block, codec, trials.model.world)
        other = trials.found(found.units, ways)
        together = f" together with {len(block) - 1} similar gradients" if len(block) > 1 else ""
        if other is None:
            _give(reasons, block, "part of the shortest step that the search found")
        elif found.choices[block[0]].compressed and other.step.step_s <= limit_s:
            found = other
            _give(reasons, block, f"compression{together} would not make the step shorter")
        else:
            done = "uncompressed" if found.choices[block[0]].compressed else f"with {codec}"
            _give(reasons, block, f"{done}{together}, {_longer(expected, found, other)}")
    return Justified(found, reasons)


def _opposite(found: Found, block: tuple[int, ...], codec: str, world: int) -> list[Choice]:
    """The choices in which the block's compressed units are uncompressed and its uncompressed units are compressed."""
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
    """Blocks of units of similar size with the same codec, the smallest first, because these gain least."""
    alike: dict[tuple[int, str, str, tuple[str, ...]], list[int]] = {}
    for index, (unit, choice) in enumerate(zip(found.units, found.choices, strict=True)):
        key = (unit.bytes.bit_length() // 2, choice.codec, unit.dtype, unit.codecs)
        alike.setdefault(key, []).append(index)
    return [tuple(alike[key]) for key in sorted(alike)]


def nothing_compressed(expected: Trials, raw: Found, rejected: Found | None) -> list[str]:
    """The reasons of a plan without compression. `rejected`: the best candidate with compression, if there is one.

    The search may have predicted it with a shorter backward, so it is predicted again, as `raw` was.
    """
    said = _rejection(expected, raw, rejected)
    return [said if unit.codecs else _no_codec(expected.options, raw, index) for index, unit in enumerate(raw.units)]


def _rejection(expected: Trials, raw: Found, rejected: Found | None) -> str:
    if rejected is None:
        return "no plan that compresses is within the limits"
    codec = Counter(choice.codec for choice in rejected.choices if choice.compressed).most_common(1)[0][0]
    again = expected.found(rejected.units, rejected.choices)
    if again is None:
        return f"compressing does not pay: the best codec is {codec}"
    took = f"the best step with {codec} takes {seconds(again.step.step_s)}, and {seconds(raw.step.step_s)} without"
    least = f", and a plan compresses only for {expected.options.min_gain:.0%}"
    return f"compressing does not pay: {took}{least if again.step.step_s < raw.step.step_s else ''}"


def _no_codec(options: PlanningOptions, found: Found, index: int) -> str:
    if found.units[index].bytes < options.min_compress_bytes:
        return f"smaller than {options.min_compress_bytes} bytes"
    return "no codec is allowed for it"


def _give(reasons: list[str], block: tuple[int, ...], reason: str) -> None:
    for index in block:
        reasons[index] = reason
