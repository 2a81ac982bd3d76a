# SPDX-License-Identifier: Apache-2.0
"""Reductions on a processor: the type that a reduction computes in, and its functor."""

from __future__ import annotations

from hipress.compll import ir
from hipress.compll.emit.function import Function
from hipress.compll.emit.scope import c_type
from hipress.compll.emit.steps import combine_functor

#: Functors that core/ops/cpu has vector code for.
VECTOR_FUNCTORS = ("ops::Sum", "ops::Least", "ops::Greatest")


def combiner(function: Function, op: ir.Reduce) -> tuple[str, str]:
    """The type of a reduction, and the type of its functor."""
    return c_type(op.function.parameters[0][1]), combine_functor(function, op)


def functor(type_: str, frame: str = "f") -> str:
    """An object of the functor's type; only functors made for the program need the frame."""
    return type_ + (f"{{{frame}}}" if type_.startswith("Combine") else "{}")
