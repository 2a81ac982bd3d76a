# SPDX-License-Identifier: Apache-2.0
"""The operators on vectors, as nodes of the IR; ir.py has its grammar."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from hipress.compll.ir_expressions import Expr, Node, Scalar

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
class Map(Node):
    inputs: tuple[Access, ...]
    function: Lambda


@dataclass(frozen=True, kw_only=True)
class Reduce(Node):
    """The order of combination is in operators_reduce.py. Elements are cast to the lambda's type first."""

    vector: str
    init: Expr
    function: Lambda


@dataclass(frozen=True, kw_only=True)
class ReduceBlocks(Reduce):
    """One result for each `block` successive elements; the last block may be shorter."""

    block: Expr


@dataclass(frozen=True, kw_only=True)
class Filter(Node):
    vector: str
    predicate: Lambda


@dataclass(frozen=True, kw_only=True)
class Sort(Node):
    """Stable, by ascending key; NaN keys last."""

    vector: str
    key: Lambda


@dataclass(frozen=True, kw_only=True)
class Gather(Node):
    vector: str
    indices: str


@dataclass(frozen=True, kw_only=True)
class Scatter(Node):
    """`base` with `values` (a vector as long as `indices`, or one scalar) put at strictly increasing `indices`."""

    base: str
    indices: str
    values: Vec | Expr


@dataclass(frozen=True, kw_only=True)
class Take(Node):
    vector: str
    count: Expr


@dataclass(frozen=True, kw_only=True)
class Range(Node):
    count: Expr


@dataclass(frozen=True, kw_only=True)
class Fill(Node):
    count: Expr
    value: Expr


Operator: TypeAlias = Map | Reduce | ReduceBlocks | Filter | Sort | Gather | Scatter | Take | Range | Fill
