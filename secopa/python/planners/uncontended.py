# SPDX-License-Identifier: Apache-2.0
"""Predicts the time of one tensor on idle links and processors. A search tries the shortest choices first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

from hipress.secopa.models.cost_model import CostModel
from hipress.secopa.models.suitability import suits
from hipress.secopa.plan.choice import RAW, Choice
from hipress.secopa.plan.partitions import sensible
from hipress.secopa.planners.units import Unit
from hipress.secopa.profile.gradients import Gradient, GradientSet


class UncontendedTimes:
    """Caches the model's predictions. Sizes are rounded to two per power of two, so that few predictions are needed."""

    def __init__(self, model: CostModel, topologies: Sequence[str]) -> None:
        self._model = model
        self._topologies = topologies
        self._known: dict[tuple[int, Choice], float] = {}
        self._known_matrices: dict[tuple[Gradient, Choice], float] = {}

    def seconds(self, unit: Unit, choice: Choice) -> float:
        if choice.codec in self._model.profile.linked:
            return self._linked_s(unit.gradient, choice)
        # The model takes elements of float32. An uncompressed gradient is described by its bytes, whatever its type.
        elements = _rounded(unit.elements if choice.compressed else unit.bytes // 4)
        known = self._known.get((elements, choice))
        if known is None:
            known = self._known[elements, choice] = self._model.gradient_s(elements, choice)
        return known

    def _linked_s(self, gradient: Gradient, choice: Choice) -> float:
        """For two linked tensors: their sizes depend on the gradient's shape, so the model gets a whole gradient."""
        known = self._known_matrices.get((gradient, choice))
        if known is None:
            known = self._model.step(GradientSet(gradients=(gradient,)), [choice]).step_s
            self._known_matrices[gradient, choice] = known
        return known

    def choices(self, unit: Unit, codecs: Sequence[str]) -> list[Choice]:
        """All choices with `codecs` and the numbers of partitions worth trying, the shortest first."""
        allowed = [codec for codec in codecs if codec == RAW or codec in unit.codecs]
        counts = sensible(unit.elements, unit.dtype, self._model.world)
        choices = [
            Choice(*each)
            for each in product(allowed, self._topologies, counts)
            if each[0] == RAW or suits(self._model.profile.costs(each[0]), each[1], len(unit.members) > 1)
        ]
        return sorted(choices, key=lambda choice: self.seconds(unit, choice))


def _rounded(elements: int) -> int:
    return round(2 ** (round(2 * math.log2(elements)) / 2)) if elements else 0
