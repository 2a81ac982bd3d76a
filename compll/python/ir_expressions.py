# SPDX-License-Identifier: Apache-2.0
"""Types and scalar expressions of the IR; ir.py has its grammar."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from hipress.compll.source import Span

GRADIENT, MESSAGE = "gradient", "compressed"


@dataclass(frozen=True)
class Scalar:
    """bool, uint (of `bits`), int (32 bits), float, double. `bits` is 0 if parameters decide: then `width` tells."""

    kind: Literal["bool", "uint", "int", "float", "double"]
    bits: int = 0
    width_key: str = ""
    width: Expr | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        if self.kind == "uint":
            return f"uint<{self.width_key}>" if self.width_key else f"uint{self.bits}"
        return self.kind


@dataclass(frozen=True)
class Vector:
    element: Scalar
    length: str

    def __str__(self) -> str:
        return f"{self.element}*"


Type: TypeAlias = Scalar | Vector
BOOL, INT, FLOAT, DOUBLE = Scalar("bool"), Scalar("int"), Scalar("float"), Scalar("double")
UINT8 = Scalar("uint", 8)


@dataclass(frozen=True, kw_only=True)
class Node:
    span: Span = field(compare=False, repr=False)


# Expressions


@dataclass(frozen=True, kw_only=True)
class TypedNode(Node):
    type: Scalar


@dataclass(frozen=True, kw_only=True)
class Const(TypedNode):
    """`value` is exact as written; it is rounded to `type` where it is used."""

    value: bool | int | float


@dataclass(frozen=True, kw_only=True)
class Var(TypedNode):
    name: str


@dataclass(frozen=True, kw_only=True)
class ParamRef(TypedNode):
    name: str


@dataclass(frozen=True, kw_only=True)
class Size(TypedNode):
    vector: str


@dataclass(frozen=True, kw_only=True)
class Index(TypedNode):
    """The element, or 0 if the index is out of range."""

    vector: str
    index: Expr


@dataclass(frozen=True, kw_only=True)
class Unary(TypedNode):
    operator: Literal["-", "!", "~"]
    operand: Expr


@dataclass(frozen=True, kw_only=True)
class Binary(TypedNode):
    """Operands of one type: of `type`, or for comparisons any. Arithmetic only in int, float and double."""

    operator: str
    left: Expr
    right: Expr


@dataclass(frozen=True, kw_only=True)
class Select(TypedNode):
    condition: Expr
    yes: Expr
    no: Expr


@dataclass(frozen=True, kw_only=True)
class Cast(TypedNode):
    """Conversion; what does not fit becomes the nearest value that does, NaN becomes 0, fractions are cut off."""

    operand: Expr


@dataclass(frozen=True, kw_only=True)
class Call(TypedNode):
    function: str
    arguments: tuple[Expr, ...]


@dataclass(frozen=True, kw_only=True)
class Random(TypedNode):
    """Uniform in [low, high), from 16 or 32 bits. `site` numbers the calls of a function; see philox.py."""

    low: Expr
    high: Expr
    bits: int
    site: int


Expr: TypeAlias = Const | Var | ParamRef | Size | Index | Unary | Binary | Select | Cast | Call | Random
