# SPDX-License-Identifier: Apache-2.0
"""The planner's search: which way for each gradient makes the step shortest, by any cost model.

A step is no sum of its gradients: a transfer hidden under backward costs nothing, and one gradient's encoding delays
another's. So whole steps are compared. The search begins with plans that treat all gradients alike, those above a size,
or each as if it were alone. It improves the best of them, first for all gradients of about one size together, then for
ever fewer, at last one by one and in pairs, and fuses small ones. It ends when nothing is left to try, or after so many
predictions. There is no chance in it: the same question has the same answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from hipress.errors import InvalidArgument
from hipress.secopa.alone import Alone
from hipress.secopa.choice import RAW, Choice
from hipress.secopa.improvement import Improvement
from hipress.secopa.partitions import by_size
from hipress.secopa.trials import Found, Trials, shortest
from hipress.secopa.units import Unit, units_of

#: Of how many sizes a model is asked what each is best sent like alone.
_SIZES_ASKED = 24


@dataclass(frozen=True)
class Findings:
    best: Found
    raw: Found
    """The best that compresses nothing."""
    rejected: Found | None
    """The best that compresses, if `best` does not."""


def search(trials: Trials) -> Findings:
    """Raises InvalidArgument if not even sending everything as it is keeps to the limits."""
    units = units_of(trials.gradients, trials.model.profile, trials.options)
    alone = Alone(trials.model, trials.options.topologies)
    codecs = list(dict.fromkeys(codec for unit in units for codec in unit.codecs))
    uncompressed = best_uncompressed(trials)
    raw = shortest([uncompressed, _each_alone(trials, units, alone, [RAW])]) or uncompressed
    uniform = [found for codec in codecs for found in _uniform(trials, units, codec)]
    starts: list[Found | None] = [*uniform, *_above_a_size(trials, units, uniform, raw)]
    if codecs:
        starts.append(_each_alone(trials, units, alone, [RAW, *codecs]))
    found = sorted((one for one in starts if one is not None), key=lambda one: one.cost_s)
    # What a plan without compression can do is what one with it is compared with: it gets its part of the search.
    improvement = Improvement(trials, alone, [RAW])
    raw = improvement.of(raw, stop_at=trials.left * 3 // 4)
    if found:
        useful = list(dict.fromkeys(choice.codec for one in found for choice in one.choices if choice.compressed))
        improvement = Improvement(trials, alone, [RAW, *useful[:3]])
        # What is reserved is for justify(). The second start is there for when the first leads nowhere.
        reserved = trials.most // 8
        first = improvement.of(found[0], stop_at=reserved + (trials.left - reserved) // 4)
        found += [first, *(improvement.of(one, stop_at=reserved) for one in found[1:2])]
    raw = shortest([raw, *(one for one in found if not one.compressed)]) or raw
    raw = _plainer(trials, raw, uncompressed)
    best = shortest([one for one in found if one.compressed])
    if best is not None:
        best = _plainer(trials, best, shortest(uniform))
    if best is not None and best.step.step_s <= raw.step.step_s * (1 - trials.options.min_gain):
        return Findings(best, raw, None)
    return Findings(raw, raw, best)


def best_uncompressed(trials: Trials) -> Found:
    """The best that treats all gradients alike. Raises InvalidArgument if none keeps to the limits."""
    raw = shortest(_uniform(trials, units_of(trials.gradients, trials.model.profile, trials.options), RAW))
    if raw is None:
        raise InvalidArgument("no way to send the gradients keeps to the limits: allow more memory")
    return raw


def _uniform(trials: Trials, units: list[Unit], codec: str) -> list[Found]:
    """All gradients alike that may have the codec; cut by size, unless one partition per rank is so much shorter."""
    found: list[Found] = []
    for topology in trials.options.topologies:
        both = (
            trials.found(units, [_way(trials, unit, codec, topology, shared) for unit in units])
            for shared in (False, True)
        )
        allowed = [one for one in both if one is not None]
        found += [_plainer(trials, allowed[-1], allowed[0])] if allowed else []
    return found


def _plainer(trials: Trials, best: Found, uniform: Found | None) -> Found:
    """`uniform`, which treats all gradients alike, unless `best` gains enough by its differences: in time, or in bytes
    that keep their precision."""
    if uniform is None:
        return best
    less = 1 - trials.options.min_gain_of_differences
    gains = best.cost_s <= uniform.cost_s * less or _compressed_bytes(best) < _compressed_bytes(uniform) * less
    return best if gains else uniform


def _compressed_bytes(found: Found) -> int:
    return sum(unit.bytes for unit, choice in zip(found.units, found.choices, strict=True) if choice.compressed)


def _each_alone(trials: Trials, units: list[Unit], alone: Alone, codecs: Sequence[str]) -> Found | None:
    """What would be best for each if it were alone; asked for the sizes that make up most of a model only."""
    sizes: Counter[int] = Counter()
    for unit in units:
        sizes[unit.bytes] += unit.bytes
    asked = {size for size, _ in sizes.most_common(_SIZES_ASKED)}
    topology = trials.options.topologies[0]
    choices = [
        alone.ways(unit, codecs)[0] if unit.bytes in asked else _way(trials, unit, RAW, topology) for unit in units
    ]
    return trials.found(units, choices)


def _above_a_size(trials: Trials, units: list[Unit], uniform: list[Found], raw: Found) -> list[Found]:
    """The two best uniform plans, for the largest gradients only: those that make up such a part of all bytes."""
    order = sorted(range(len(units)), key=lambda index: (-units[index].bytes, units[index].release_s, index))
    total = sum(unit.bytes for unit in units)
    found = []
    for start in sorted(uniform, key=lambda one: one.cost_s)[:2]:
        for part in (0.3, 0.6, 0.8, 0.9, 0.97):
            choices, covered = list(raw.choices), 0
            for index in order:
                if covered >= part * total:
                    break
                covered += units[index].bytes
                choices[index] = start.choices[index]
            found.append(trials.found(units, choices))
    return [one for one in found if one is not None]


def _way(trials: Trials, unit: Unit, codec: str, topology: str, shared: bool = False) -> Choice:
    """`shared`: one partition per rank, whatever the size."""
    world = trials.model.world
    partitions = by_size(unit.elements, unit.dtype, world)
    if shared and partitions > 1:
        partitions = world
    return Choice(codec if codec in unit.codecs else RAW, topology, partitions)
