# SPDX-License-Identifier: Apache-2.0
"""What compression did to the averages of a training, as figures of a window: some steps, one after the other.

They compare the averages that the ranks have got with the exact ones, at sampled places that all ranks have alike.

- `error` is the square of the difference by the square of the exact average: what rounding does to single steps.
- `fresh` is the product of both by the square of the exact average: how much of a step's own gradient its average has.
  With error feedback a codec sends the rest in later steps. Random rounding that is right on average has a large error
  and is fresh.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class TensorFigures:
    """A gradient that travels with a codec. Squares and products are sums over its elements and the steps, estimated
    from the sampled ones."""

    name: str
    codec: str
    elements: int
    squared_error: float
    squared_gradient: float
    product: float
    """Of the averages with the exact ones."""

    @property
    def error(self) -> float:
        """See the module; 0: no error, infinite: an error where the gradient is zero."""
        return _error([self])

    @property
    def fresh(self) -> float:
        """See the module; 1: all of it, also where the gradient is zero."""
        return _fresh([self])


@dataclass(frozen=True)
class Figures:
    """The figures of one window."""

    step: int
    """How many steps the training had taken at the end of the window."""
    steps: int
    """The steps of the window that count: those with finite averages."""
    not_finite: int
    """The others."""
    sent_bytes: float
    """What this rank has sent per step, see counters(); for DDP's carrier "group": encoded gradients only."""
    waited_s: float
    """How long this rank has waited for averages after its own last gradient, per step."""
    step_s: float
    """Seconds per step."""
    tensors: Mapping[str, TensorFigures] = field(default_factory=dict)
    """Those that travel with a codec, by name."""

    @property
    def error(self) -> float:
        """Of all gradients together, see the module."""
        return _error(self.tensors.values())

    @property
    def fresh(self) -> float:
        """Of all gradients together, see the module."""
        return _fresh(self.tensors.values())

    def only(self, names: Collection[str]) -> Figures:
        """The figures without those of other gradients."""
        return replace(self, tensors={name: each for name, each in self.tensors.items() if name in names})

    def as_dict(self, prefix: str = "hipress/") -> dict[str, float]:
        """The figures by name, flat, as W&B and others take them. Those of one gradient have its name at the end."""
        found = {
            "steps_not_finite": self.not_finite,
            "sent_bytes_per_step": self.sent_bytes,
            "waited_s_per_step": self.waited_s,
            "step_s": self.step_s,
            "error": self.error,
            "fresh": self.fresh,
        }
        for name, each in self.tensors.items():
            found[f"error/{name}"] = each.error
            found[f"fresh/{name}"] = each.fresh
        return {prefix + name: float(value) for name, value in found.items()}


def _error(tensors: Iterable[TensorFigures]) -> float:
    every = list(tensors)
    error, gradient = sum(each.squared_error for each in every), sum(each.squared_gradient for each in every)
    if gradient > 0:
        return error / gradient
    return math.inf if error > 0 else 0.0


def _fresh(tensors: Iterable[TensorFigures]) -> float:
    every = list(tensors)
    gradient = sum(each.squared_gradient for each in every)
    return sum(each.product for each in every) / gradient if gradient > 0 else 1.0
