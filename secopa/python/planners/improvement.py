# SPDX-License-Identifier: Apache-2.0
"""Improves a plan step by step: it changes large blocks of gradients, then smaller blocks, and at last pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from hipress.secopa.plan.choice import Choice
from hipress.secopa.planners.trials import Found, Trials, shortest
from hipress.secopa.planners.uncontended import UncontendedTimes
from hipress.secopa.planners.units import Unit, fuse

#: A candidate must cost less than this share of the current cost to count as better.
_SHORTER = 1 - 1e-4
#: The sizes of groups to try; only gradients of up to a quarter of the size are fused.
_FUSED_BYTES = (1 << 18, 1 << 20, 1 << 22)
#: The number of choices to try per unit, at first few and at the end all. The shortest uncontended choices come first.
_FIRST_CHOICES, _ALL_CHOICES = 4, 1000


@dataclass(frozen=True)
class Improvement:
    """Improves plans with choices from `codecs`."""

    trials: Trials
    times: UncontendedTimes
    codecs: Sequence[str]

    def of(self, found: Found, stop_at: int) -> Found:
        """Improves `found` until no change helps, or only `stop_at` predictions are left."""
        spare = max(0, self.trials.left - stop_at) // 4
        found = self._descend(found, _FIRST_CHOICES, stop_at + spare)
        if self.trials.options.grouping:
            found = self._fused(found, stop_at)
        for most in (_FIRST_CHOICES, _ALL_CHOICES):
            found = self._descend(found, most, stop_at)
            found = self._in_pairs(found, most, stop_at)
        return found

    def _fused(self, found: Found, stop_at: int) -> Found:
        model = self.trials.model
        ways = (fuse(found.units, found.choices, most, model.world, model.profile.linked) for most in _FUSED_BYTES)
        better = shortest([self.trials.found(*way) for way in ways if self.trials.left > stop_at])
        return found if better is None or better.cost_s >= found.cost_s * _SHORTER else better

    def _descend(self, found: Found, most: int, stop_at: int) -> Found:
        """Changes blocks of units, and halves all blocks when no change of a whole block helps."""
        blocks = _blocks(found.units)
        while blocks and self.trials.left > stop_at:
            better = found
            for block in blocks:
                for ways in self._choices_of_all(better, block, most):
                    better = self._better_with(better, block, ways, stop_at)
            if better is found:
                blocks = [half for block in blocks for half in _halves(found.units, block)]
            found = better
        return found

    def _choices_of_all(self, found: Found, block: Sequence[int], most: int) -> Iterator[list[Choice]]:
        """For each unit of a block its shortest uncontended choice, then the second shortest, and so on."""
        ways = [self._choices(found.units[index], most) for index in block]
        for place in range(max(map(len, ways))):
            yield [one[min(place, len(one) - 1)] for one in ways]

    def _in_pairs(self, found: Found, most: int, stop_at: int) -> Found:
        """Changes two units at once, the largest units first: a pair may help where no single change helps."""
        begun = None
        while begun is not found and self.trials.left > stop_at:
            begun = found
            order = sorted(range(len(found.units)), key=lambda index: (-found.units[index].bytes, index))
            for pair in combinations(order, 2):
                for ways in product(*(self._choices(found.units[index], most) for index in pair)):
                    found = self._better_with(found, pair, ways, stop_at)
                if self.trials.left <= stop_at:
                    return found
        return found

    def _choices(self, unit: Unit, most: int) -> list[Choice]:
        """The shortest uncontended choices, and the two shortest uncompressed ones."""
        ways = self.times.choices(unit, self.codecs)
        raw = [way for way in ways if not way.compressed][:2]
        return list(dict.fromkeys([*ways[:most], *raw]))

    def _better_with(self, found: Found, which: Sequence[int], ways: Sequence[Choice], stop_at: int) -> Found:
        choices = list(found.choices)
        for index, way in zip(which, ways, strict=True):
            choices[index] = way
        if choices == found.choices or self.trials.left <= stop_at:
            return found
        other = self.trials.found(found.units, choices)
        if other is None or other.cost_s >= found.cost_s * _SHORTER:
            return found
        return other


def _blocks(units: Sequence[Unit]) -> list[tuple[int, ...]]:
    """Blocks of units of similar size, the blocks with the most bytes first."""
    alike: dict[tuple[int, str, tuple[str, ...]], list[int]] = {}
    for index, unit in enumerate(units):
        alike.setdefault((unit.bytes.bit_length() // 2, unit.dtype, unit.codecs), []).append(index)
    blocks = [tuple(block) for block in alike.values()]
    return sorted(blocks, key=lambda block: (-sum(units[index].bytes for index in block), block))


def _halves(units: Sequence[Unit], block: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """The earlier and the later released half of a block. A block of one unit has no halves."""
    if len(block) > 1:
        order = sorted(block, key=lambda index: (units[index].release_s, index))
        yield tuple(order[: len(order) // 2])
        yield tuple(order[len(order) // 2 :])
