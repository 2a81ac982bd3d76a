# SPDX-License-Identifier: Apache-2.0
"""The rule by which a method is cleared, written before the first run, and the one by which it loses, made stricter
after the first results: a gap within the spread had counted as a loss.

All methods train with the seeds of the baseline: the same first weights and the same data in the same order. Of each
seed the *gap* is the method's loss minus the baseline's (bf16). The *gain* is what the baseline takes off the loss of
the first weights. A method is cleared at a margin if

    mean gap + 3.09 σ / √n  <=  margin × gain,

where n is the number of its seeds and σ the standard deviation of the baseline's loss over at least ten seeds: the gap
is then below the margin with 99.9 %. A training that ends in NaN has an infinite gap. A method without this proof is
not cleared, also if no difference was found. It loses if the mean gap minus the same uncertainty is above the margin.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.convergence.methods import BASELINE

#: No measured loss, and a bounded one, as parts of the gain.
SAFE, ECONOMY = 0.005, 0.02
#: Of a normal distribution: 99.9 % lie below so many standard deviations.
_DEVIATIONS = 3.09
#: The smallest numbers of trainings that prove anything.
LEAST_BASELINES, LEAST_SEEDS = 10, 3


@dataclass(frozen=True)
class Baseline:
    """The trainings with bf16 of one task and optimizer."""

    losses: dict[int, float]
    """By seed."""
    start: float
    """The mean loss of the first weights."""
    ended_in_nan: int
    """Trainings that are left out: with fewer than LEAST_BASELINES others nothing is proved."""
    late_gain: float
    """The part of the gain that the last tenth of the steps brings: what is missing until the curve is flat."""

    @property
    def mean(self) -> float:
        """Of the losses."""
        return statistics.mean(self.losses.values())

    @property
    def sigma(self) -> float:
        """The standard deviation of the losses; not a number if there are too few."""
        return statistics.stdev(self.losses.values()) if len(self.losses) >= LEAST_BASELINES else math.nan

    @property
    def gain(self) -> float:
        """See the module."""
        return self.start - self.mean


@dataclass(frozen=True)
class Verdict:
    """What the trainings of a method show, beside the baseline of the same task and optimizer."""

    n: int
    mean: float
    """Of the losses."""
    gap: float
    """Mean."""
    sigma: float
    gain: float

    @property
    def gap_in_sigma(self) -> float:
        """The mean gap as a multiple of the baseline's spread."""
        return self.gap / self.sigma

    @property
    def gap_share(self) -> float:
        """The mean gap as a part of the gain."""
        return self.gap / self.gain

    @property
    def limit(self) -> float:
        """The upper limit of the gap as a part of the gain; not a number without proof."""
        return (self.gap + self._uncertainty) / self.gain

    @property
    def least(self) -> float:
        """The lower limit."""
        return (self.gap - self._uncertainty) / self.gain

    @property
    def _uncertainty(self) -> float:
        return _DEVIATIONS * self.sigma / math.sqrt(self.n) if self.n >= LEAST_SEEDS else math.nan

    def is_cleared(self, margin: float = SAFE) -> bool:
        """Whether the gap is proved to lie below a margin."""
        return self.limit <= margin

    def loses(self, margin: float = SAFE) -> bool:
        """Whether the gap is proved to lie above a margin."""
        return self.least > margin


def baseline(rows: Sequence[dict[str, Any]], task: str, optimizer: str, learning_rate: float) -> Baseline | None:
    """The baseline of a task and an optimizer; None: it has no training that ended well."""
    trained = rows_of(rows, task, optimizer, BASELINE, learning_rate)
    found = [row for row in trained if row["loss"] is not None]
    if not found:
        return None
    start = statistics.mean(row["losses"][0] for row in found)
    losses = {row["seed"]: row["loss"] for row in found}
    tenth = len(found[0]["losses"]) // 10
    late = statistics.mean(row["losses"][-1 - tenth] - row["losses"][-1] for row in found)
    return Baseline(losses, start, len(trained) - len(found), late / (start - statistics.mean(losses.values())))


def verdict(
    rows: Sequence[dict[str, Any]], task: str, optimizer: str, method: str, learning_rate: float, beside: Baseline
) -> Verdict | None:
    """None: there is no training of the method."""
    gaps, losses = [], []
    for row in rows_of(rows, task, optimizer, method, learning_rate):
        if row["seed"] in beside.losses:
            losses.append(math.inf if row["loss"] is None else row["loss"])
            gaps.append(losses[-1] - beside.losses[row["seed"]])
    if not gaps:
        return None
    return Verdict(len(gaps), statistics.mean(losses), statistics.mean(gaps), beside.sigma, beside.gain)


def rows_of(
    rows: Sequence[dict[str, Any]], task: str, optimizer: str, method: str, learning_rate: float
) -> list[dict[str, Any]]:
    """The trainings of a method with a learning rate."""
    wanted = (task, optimizer, method, learning_rate)
    return [row for row in rows if (row["task"], row["optimizer"], row["method"], row["learning_rate"]) == wanted]
