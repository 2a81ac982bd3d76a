# SPDX-License-Identifier: Apache-2.0
"""Operators on vectors, as nodes of the IR; ir/__init__.py has their grammar.

The passes treat the operators in this file differently from each other, so their nodes are here. The node of every
other operator is in the operator's own file in operators/.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, TypeAlias

from hipress.compll.ir.expressions import INT, Const, Expr, Node, Scalar
from hipress.compll.ir.lengths import AtMost, Blocks, Exactly, First, Length, Like

if TYPE_CHECKING:
    from hipress.compll.ir import Let


@dataclass(frozen=True, kw_only=True)
class Vec(Node):
    vector: str


@dataclass(frozen=True, kw_only=True)
class Spread(Node):
    vector: str
    block: Expr


Access: TypeAlias = Vec | Spread


@dataclass(frozen=True, kw_only=True)
class Lambda(Node):
    parameters: tuple[tuple[str, Scalar], ...]
    lets: tuple[Let, ...]
    results: tuple[Expr, ...]


@dataclass(frozen=True, kw_only=True)
class Operator(Node):
    """An operator. A field of it is the name of a vector (str), an Access or several, a Lambda, or a scalar (Expr)."""

    def length(self) -> Length:
        """The length of the vector that the operator makes. An operator that makes a scalar has none."""
        raise TypeError(f"{type(self).__name__} makes no vector")

    def vectors(self) -> Iterator[str]:
        """The names of the vectors that the operator takes."""
        for value in self._fields():
            if isinstance(value, str):
                yield value
            elif isinstance(value, Access):
                yield value.vector

    def functions(self) -> Iterator[Lambda]:
        """The functions of elements that the operator takes."""
        yield from (value for value in self._fields() if isinstance(value, Lambda))

    def scalars(self) -> Iterator[Expr]:
        """The scalars that the operator takes, sizes of blocks included."""
        for value in self._fields():
            if isinstance(value, Spread):
                yield value.block
            elif isinstance(value, Expr):
                yield value

    def _fields(self) -> Iterator[object]:
        for field in fields(self):
            value = getattr(self, field.name)
            yield from value if isinstance(value, tuple) else (value,)


@dataclass(frozen=True, kw_only=True)
class Map(Operator):
    inputs: tuple[Access, ...]
    function: Lambda

    def length(self) -> Length:
        return Like(next(access.vector for access in self.inputs if isinstance(access, Vec)))


@dataclass(frozen=True, kw_only=True)
class Reduce(Operator):
    """The order of combination is in reference/reductions.py. Elements are cast to the lambda's type first."""

    vector: str
    init: Expr
    function: Lambda


@dataclass(frozen=True, kw_only=True)
class ReduceBlocks(Reduce):
    """One result for each `block` successive elements; the last block may be shorter."""

    block: Expr

    def length(self) -> Length:
        return Blocks(self.vector, self.block)


@dataclass(frozen=True, kw_only=True)
class Filter(Operator):
    vector: str
    predicate: Lambda

    def length(self) -> Length:
        return AtMost(self.vector)


@dataclass(frozen=True, kw_only=True)
class Sort(Operator):
    """Stable, by ascending key; NaN keys last."""

    vector: str
    key: Lambda

    def length(self) -> Length:
        return Like(self.vector)


@dataclass(frozen=True, kw_only=True)
class Scatter(Operator):
    """`base` with `values` (a vector as long as `indices`, or one scalar) put at strictly increasing `indices`."""

    base: str
    indices: str
    values: Vec | Expr

    def length(self) -> Length:
        return Like(self.base)


@dataclass(frozen=True, kw_only=True)
class Take(Operator):
    vector: str
    count: Expr

    def length(self) -> Length:
        return First(self.vector, self.count)


@dataclass(frozen=True, kw_only=True)
class Fill(Operator):
    count: Expr
    value: Expr

    def length(self) -> Length:
        return Exactly(self.count)


@dataclass(frozen=True, kw_only=True)
class Constants(Operator):
    """A table of the program. The compiler knows its elements, which are finite."""

    values: tuple[int | float, ...]
    type: Scalar

    def length(self) -> Length:
        return Exactly(Const(value=len(self.values), type=INT, span=self.span))


@dataclass(frozen=True)
class Usage:
    """How a program calls an operator: `text` shows it, the number of arguments is between `fewest` and `most`."""

    text: str
    fewest: int
    most: int


#: All operators of the language, by name; operators/table.py fills it.
OPERATORS: dict[str, Usage] = {}
