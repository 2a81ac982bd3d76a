# SPDX-License-Identifier: Apache-2.0
"""Which ways are short for a gradient that has everything to itself: where a search looks first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

from hipress.secopa.choice import RAW, Choice
from hipress.secopa.cost_model import CostModel
from hipress.secopa.partitions import sensible
from hipress.secopa.units import Unit


class Alone:
    """Asks the model about few sizes: two between each power of two and the next."""

    def __init__(self, model: CostModel, topologies: Sequence[str]) -> None:
        self._model = model
        self._topologies = topologies
        self._known: dict[tuple[int, Choice], float] = {}

    def seconds(self, unit: Unit, choice: Choice) -> float:
        # The model is asked about float32; what counts of a raw gradient are its bytes.
        elements = _rounded(unit.elements if choice.compressed else unit.bytes // 4)
        known = self._known.get((elements, choice))
        if known is None:
            known = self._known[elements, choice] = self._model.gradient_s(elements, choice)
        return known

    def ways(self, unit: Unit, codecs: Sequence[str]) -> list[Choice]:
        """All that `codecs` and sensible numbers of partitions allow, the shortest first."""
        allowed = [codec for codec in codecs if codec == RAW or codec in unit.codecs]
        counts = sensible(unit.elements, unit.dtype, self._model.world)
        ways = [Choice(*way) for way in product(allowed, self._topologies, counts)]
        return sorted(ways, key=lambda way: self.seconds(unit, way))


def _rounded(elements: int) -> int:
    return round(2 ** (round(2 * math.log2(elements)) / 2)) if elements else 0
