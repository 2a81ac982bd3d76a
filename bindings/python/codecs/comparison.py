# SPDX-License-Identifier: Apache-2.0
"""Two codecs that should do the same: a class in Python is the oracle of a program in CompLL, or of another class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hipress.codecs.awkward import COUNTS, gradients
from hipress.codecs.laws import new_states

if TYPE_CHECKING:
    from hipress._core import Codec

_STEPS = 3


@dataclass(frozen=True)
class Difference:
    """The greatest difference of two codecs, by the greatest magnitude of the values."""

    size: float
    #: Where, and the two values.
    where: str


def difference(first: Codec, second: Codec) -> Difference:
    """Encodes awkward gradients in steps with both codecs, and compares decoded values and residuals."""
    worst = Difference(0.0, "")
    for count in COUNTS:
        for what, values in gradients(count):
            states = [new_states(codec, count) for codec in (first, second)]
            for step in range(_STEPS):
                sides = [
                    {"decoded": codec.decode(codec.encode(values, kept or None, step=step), count)} | kept
                    for codec, kept in zip((first, second), states, strict=True)
                ]
                for part in ("decoded", "residual"):
                    if part in sides[0] and part in sides[1]:
                        at = f"{part}, step {step} of {count} elements, {what}"
                        found = _away(sides[0][part], sides[1][part], values, at)
                        worst = max(worst, found, key=lambda each: each.size)
    return worst


def _away(first: NDArray[np.float32], second: NDArray[np.float32], values: NDArray[np.float32], at: str) -> Difference:
    scale = max(float(np.abs(values).max()), float(np.finfo(np.float32).tiny))
    with np.errstate(invalid="ignore"):
        away = np.nan_to_num(np.abs(first.astype(np.float64) - second) / scale, nan=np.inf)
    away[(first == second) | (np.isnan(first) & np.isnan(second))] = 0
    place = int(np.argmax(away))
    return Difference(float(away[place]), f"{at}, element {place}: {first[place]:g} and {second[place]:g}")
