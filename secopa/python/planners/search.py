# SPDX-License-Identifier: Apache-2.0
"""The planner's search: it finds the choices with which a cost model predicts the shortest step.

The duration of a step is not the sum over its gradients: a transfer that backward hides costs nothing, and the encoding
of one gradient delays another. So the search compares whole steps. It starts from plans with equal choices for all
gradients, from plans that compress only the gradients above a size, and from plans with the best choice of each
gradient on an idle cluster. It improves the best of them: it changes all gradients of similar size together, then
smaller blocks, at last single gradients and pairs, and it fuses small gradients. It ends when no change helps, or when
the budget of predictions is used up. It is deterministic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from hipress.errors import InvalidArgument
from hipress.secopa.models.linked_gradients import default_partitions
from hipress.secopa.plan.choice import RAW, Choice
from hipress.secopa.planners.improvement import Improvement
from hipress.secopa.planners.trials import Found, Trials, shortest
from hipress.secopa.planners.uncontended import UncontendedTimes
from hipress.secopa.planners.units import Unit, units_of

#: The number of sizes for which the search finds the best choice on an idle cluster.
_SIZES_ASKED = 24


@dataclass(frozen=True)
class Findings:
    best: Found
    raw: Found
    """The best candidate without compression."""
    rejected: Found | None
    """The best candidate with compression, if `best` does not compress."""


def search(trials: Trials) -> Findings:
    """Runs the search. Raises InvalidArgument if no plan without compression is within the limits."""
    units = units_of(trials.gradients, trials.model.profile, trials.options)
    times = UncontendedTimes(trials.model, trials.options.topologies)
    codecs = list(dict.fromkeys(codec for unit in units for codec in unit.codecs))
    uncompressed = best_uncompressed(trials)
    raw = shortest([uncompressed, _each_by_itself(trials, units, times, [RAW])]) or uncompressed
    uniform = [found for codec in codecs for found in _uniform(trials, units, codec)]
    starts: list[Found | None] = [*uniform, *_above_a_size(trials, units, uniform, raw)]
    if codecs:
        starts.append(_each_by_itself(trials, units, times, [RAW, *codecs]))
    found = sorted((one for one in starts if one is not None), key=lambda one: one.cost_s)
    # The search compares compression with the best uncompressed plan, so that plan is improved, too.
    improvement = Improvement(trials, times, [RAW])
    raw = improvement.of(raw, stop_at=trials.left * 3 // 4)
    if found:
        useful = list(dict.fromkeys(choice.codec for one in found for choice in one.choices if choice.compressed))
        improvement = Improvement(trials, times, [RAW, *useful[:3]])
        # justify() needs the reserved predictions. The second start helps if the first start cannot be improved.
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
    """The best uncompressed plan with equal choices. Raises InvalidArgument if none is within the limits."""
    raw = shortest(_uniform(trials, units_of(trials.gradients, trials.model.profile, trials.options), RAW))
    if raw is None:
        raise InvalidArgument("no plan without compression keeps the limit of memory: raise the limit")
    return raw


def _uniform(trials: Trials, units: list[Unit], codec: str) -> list[Found]:
    """One candidate per topology, with `codec` for all gradients that may have it. The number of partitions depends on
    the size, unless one partition per rank gains enough."""
    found: list[Found] = []
    for topology in trials.options.topologies:
        both = (
            trials.found(units, [_choice(trials, unit, codec, topology, shared) for unit in units])
            for shared in (False, True)
        )
        allowed = [one for one in both if one is not None]
        found += [_plainer(trials, allowed[-1], allowed[0])] if allowed else []
    return found


def _plainer(trials: Trials, best: Found, uniform: Found | None) -> Found:
    """Returns `uniform`, which has equal choices, unless `best` is enough shorter or compresses enough fewer bytes."""
    if uniform is None:
        return best
    less = 1 - trials.options.min_gain_of_differences
    gains = best.cost_s <= uniform.cost_s * less or _compressed_bytes(best) < _compressed_bytes(uniform) * less
    return best if gains else uniform


def _compressed_bytes(found: Found) -> int:
    return sum(unit.bytes for unit, choice in zip(found.units, found.choices, strict=True) if choice.compressed)


def _each_by_itself(trials: Trials, units: list[Unit], times: UncontendedTimes, codecs: Sequence[str]) -> Found | None:
    """The best choice of each gradient on an idle cluster, for the sizes that make up most of the model's bytes."""
    sizes: Counter[int] = Counter()
    for unit in units:
        sizes[unit.bytes] += unit.bytes
    asked = {size for size, _ in sizes.most_common(_SIZES_ASKED)}
    topology = trials.options.topologies[0]
    choices = [
        times.choices(unit, codecs)[0] if unit.bytes in asked else _choice(trials, unit, RAW, topology)
        for unit in units
    ]
    return trials.found(units, choices)


def _above_a_size(trials: Trials, units: list[Unit], uniform: list[Found], raw: Found) -> list[Found]:
    """The two best uniform plans, applied only to the largest gradients with a given share of all bytes."""
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


def _choice(trials: Trials, unit: Unit, codec: str, topology: str, shared: bool = False) -> Choice:
    """A choice with `codec`, if the unit may have it. `shared`: one partition per rank for every size."""
    world = trials.model.world
    codec = codec if codec in unit.codecs else RAW
    partitions = default_partitions(trials.model.profile, unit.gradient, codec, world)
    if shared and partitions > 1:
        partitions = world
    return Choice(codec, topology, partitions)
