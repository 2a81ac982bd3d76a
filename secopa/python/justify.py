# SPDX-License-Identifier: Apache-2.0
"""Why each decision of a plan found by search is as it is: what the step would be if it were the other way.

What turns out to gain nothing is undone: a gradient whose transfer is hidden loses precision for nothing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from hipress.secopa.choice import RAW
from hipress.secopa.partitions import by_size
from hipress.secopa.planning_options import PlanningOptions
from hipress.secopa.quantities import seconds
from hipress.secopa.search import Findings
from hipress.secopa.trials import Found, Trials

#: By how much a step may become longer for gradients that then keep their precision.
_HARDLY_LONGER = 1 + 1e-3


@dataclass(frozen=True)
class Justified:
    found: Found
    reasons: list[str]
    """One for each unit."""


def justify(trials: Trials, findings: Findings) -> Justified:
    """The best plan, less what it gains nothing by, and a sentence for each of its units."""
    best = findings.best
    if not best.compressed:
        return Justified(best, _all_as_it_is(trials.options, findings))
    limit_s = best.step.step_s * _HARDLY_LONGER
    codec = Counter(choice.codec for choice in best.choices if choice.compressed).most_common(1)[0][0]
    found, reasons = best, [""] * len(best.units)
    for block in _alike(best):
        ways = list(found.choices)
        compressed = ways[block[0]].compressed
        if not compressed and codec not in found.units[block[0]].codecs:
            _give(reasons, block, _no_codec(trials.options, found, block[0]))
            continue
        for index in block:
            unit, choice = found.units[index], ways[index]
            if compressed:
                # As large messages as the runtime would choose.
                count = by_size(unit.elements, unit.dtype, trials.model.world)
                ways[index] = choice._replace(codec=RAW, partitions=count)
            else:
                ways[index] = choice._replace(codec=codec)
        step = trials.predict(found.units, ways)
        together = f" (it and {len(block) - 1} like it)" if len(block) > 1 else ""
        if step is None:
            _give(reasons, block, "part of the shortest step that was found")
        elif compressed and step.step_s <= limit_s:
            found = replace(found, choices=ways, step=step)
            _give(reasons, block, f"compressed{together} it would not make the step shorter")
        else:
            done = "as it is" if compressed else f"with {codec}"
            longer = step.step_s - found.step.step_s
            said = f"would be {seconds(longer)} longer" if longer > 0 else "would hardly be shorter"
            _give(reasons, block, f"{done}{together} the step {said}")
    return Justified(found, reasons)


def _alike(found: Found) -> list[tuple[int, ...]]:
    """Units of about one size that travel alike; the smallest first, which are the first to lose nothing."""
    alike: dict[tuple[int, str, str, tuple[str, ...]], list[int]] = {}
    for index, (unit, choice) in enumerate(zip(found.units, found.choices, strict=True)):
        key = (unit.bytes.bit_length() // 2, choice.codec, unit.dtype, unit.codecs)
        alike.setdefault(key, []).append(index)
    return [tuple(alike[key]) for key in sorted(alike)]


def _all_as_it_is(options: PlanningOptions, findings: Findings) -> list[str]:
    rejected = findings.rejected
    if rejected is None:
        said = "no plan that compresses is within the limits"
    else:
        codec = Counter(choice.codec for choice in rejected.choices if choice.compressed).most_common(1)[0][0]
        said = (
            f"compressing does not pay: the best step with {codec} takes {seconds(rejected.step.step_s)}, "
            f"and {seconds(findings.raw.step.step_s)} without"
        )
    return [
        said if unit.codecs else _no_codec(options, findings.best, index)
        for index, unit in enumerate(findings.best.units)
    ]


def _no_codec(options: PlanningOptions, found: Found, index: int) -> str:
    if found.units[index].bytes < options.min_compress_bytes:
        return f"smaller than {options.min_compress_bytes} bytes"
    return "no codec is allowed for it"


def _give(reasons: list[str], block: tuple[int, ...], reason: str) -> None:
    for index in block:
        reasons[index] = reason
