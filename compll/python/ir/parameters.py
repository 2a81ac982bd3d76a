# SPDX-License-Identifier: Apache-2.0
"""Parameters of a program and the values that they may have; part of the IR."""

from __future__ import annotations

from dataclasses import dataclass

from hipress.compll.ir.expressions import Node, Scalar

#: The option with which users turn a codec's states off. A program that declares it chooses its default, which is
#: otherwise true.
ERROR_FEEDBACK = "error_feedback"
#: The state that keeps what encoding dropped.
RESIDUAL = "residual"
#: The factors of the residual and of the gradient beside it. Each program with a residual has these options, unless it
#: declares parameters of these names.
RESIDUAL_FACTOR = "residual_factor"
GRADIENT_FACTOR = "gradient_factor"


@dataclass(frozen=True)
class Domain:
    """The values that a parameter may have: one of `values`, or from `low` to `high`."""

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
    domain: Domain | None  # None: all values of the type
    merged: bool | int | float | None = None  # another value for encoding merged gradients again, if there is one
    implicit: bool = False  # the language adds the parameter to the program
