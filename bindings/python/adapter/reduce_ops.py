# SPDX-License-Identifier: Apache-2.0
"""The values of `op=` of every framework's adapter: the operations that combine the values of all ranks."""

from __future__ import annotations

from dataclasses import dataclass

from hipress.errors import InvalidArgument, Unsupported


@dataclass(frozen=True)
class ReduceOp:
    """An operation that combines the ranks' values."""

    name: str
    """The name of the operation in the core."""

    def __repr__(self) -> str:
        return self.name.capitalize()


Average = ReduceOp("average")
"""The sum over the ranks, divided by their number. Integers are truncated toward zero."""
Sum = ReduceOp("sum")
"""The sum over the ranks. For booleans: whether any is true."""
Min = ReduceOp("min")
"""The smallest of the ranks' values; NaN if one is NaN. For booleans: whether all are true."""
Max = ReduceOp("max")
"""The largest of the ranks' values; NaN if one is NaN."""
Product = ReduceOp("product")
"""The product over the ranks."""
Adasum = ReduceOp("adasum")
"""Horovod's adaptive sum, by name only: every function that gets it raises Unsupported."""


def chosen(op: ReduceOp | None, average: bool | None = None) -> ReduceOp:
    """`op`, or the operation for `average`, Horovod's older form; without both, Average. Raises InvalidArgument."""
    if average is not None:
        if op is not None:
            raise InvalidArgument("give either op or average (its older form), not both")
        op = Average if average else Sum
    op = Average if op is None else op
    if not isinstance(op, ReduceOp):
        raise InvalidArgument(f"op={op!r}: choose Average, Sum, Min, Max or Product")
    if op == Adasum:
        raise Unsupported("op=Adasum: HiPress has no adaptive sum; choose Average, and scale the learning rate")
    return op
