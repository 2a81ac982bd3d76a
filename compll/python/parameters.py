# SPDX-License-Identifier: Apache-2.0
"""Parameters of a program and the values they may have; part of the IR."""

from __future__ import annotations

from dataclasses import dataclass

from hipress.compll.ir_expressions import Node, Scalar


@dataclass(frozen=True)
class Domain:
    """The values a parameter may have: one of `values`, or from `low` to `high`."""

    values: tuple[int | float, ...] | None = None
    low: float = 0.0
    high: float = 0.0
    low_open: bool = False
    high_open: bool = False

    def __contains__(self, value: float) -> bool:
        if self.values is not None:
            return value in self.values
        above = value > self.low if self.low_open else value >= self.low
        return above and (value < self.high if self.high_open else value <= self.high)

    def __str__(self) -> str:
        if self.values is not None:
            return "{" + ", ".join(f"{value:.12g}" for value in self.values) + "}"
        return f"{'(' if self.low_open else '['}{self.low:.12g}, {self.high:.12g}{')' if self.high_open else ']'}"


@dataclass(frozen=True, kw_only=True)
class Param(Node):
    name: str
    type: Scalar
    default: bool | int | float | None
    domain: Domain | None  # None: whatever the type holds
    merged: bool | int | float | None = None  # the value with which merged gradients are encoded again, if another
