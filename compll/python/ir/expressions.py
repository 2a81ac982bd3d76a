# SPDX-License-Identifier: Apache-2.0
"""Types and scalar expressions of the IR; ir/__init__.py has its grammar."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from hipress.compll.ir.source import Span

GRADIENT, MESSAGE = "gradient", "compressed"


@dataclass(frozen=True)
class Scalar:
    """bool, uint (of `bits`), int (of `bits`, or 32 bits if they are 0), float (of 16 bits, or 32 if they are 0),
    double. A uint's `bits` are 0 if its width depends on parameters; then `width` is its expression. With `base` 3 a
    uint is 0, 1 or 2, and a message holds five of them in a byte."""

    kind: Literal["bool", "uint", "int", "float", "double"]
    bits: int = 0
    width_key: str = ""
    width: Expr | None = field(default=None, compare=False, repr=False)
    base: int = 2

    def __str__(self) -> str:
        if self.base == 3:
            return "trit"
        if self.kind == "uint":
            return f"uint<{self.width_key}>" if self.width_key else f"uint{self.bits}"
        return f"{self.kind}{self.bits}" if self.bits else self.kind

    @property
    def packed(self) -> bool:
        """Whether a message holds vectors of the type in packed bytes: integers of at most 12 bits."""
        return (self.kind == "uint" and self.bits <= 12) or (self.kind == "int" and self.bits != 0)

    @property
    def wide(self) -> bool:
        """Whether the bits of an element do not fit into a byte, although vectors are packed."""
        return self.packed and self.bits > 8

    @property
    def message_bytes(self) -> int:
        """The bytes that a scalar of the type takes in a message."""
        return 2 if self.bits == 16 or self.wide else 1 if self.packed else 4


@dataclass(frozen=True)
class Vector:
    element: Scalar
    length: str

    def __str__(self) -> str:
        return f"{self.element}*"


Type: TypeAlias = Scalar | Vector
BOOL, INT, FLOAT, DOUBLE = Scalar("bool"), Scalar("int"), Scalar("float"), Scalar("double")
UINT8, FLOAT16, TRIT = Scalar("uint", 8), Scalar("float", 16), Scalar("uint", 2, base=3)


def limits(type_: Scalar) -> tuple[int, int]:
    """The smallest and the largest value of an integer type. A width that depends on parameters counts as 8 bits."""
    if type_.kind == "bool":
        return 0, 1
    if type_ == TRIT:
        return 0, 2
    if type_.kind == "uint":
        return 0, (1 << (type_.bits or 8)) - 1
    half = 1 << ((type_.bits or 32) - 1)
    return -half, half - 1


#: Up to this magnitude every integer is a float16.
_FLOAT16_INTEGERS = 2048
#: Each holds the values of those before it, or values close to them.
_RANK = {"bool": 0, "uint": 1, "int": 2, "float": 3, "double": 4}


def widens(source: Scalar, to: Scalar) -> bool:
    """Whether every value of `source` is a value of `to`, or close to one (int to float). Elements may only widen."""
    if source == to:
        return True
    if source.kind in ("uint", "int") and to.kind in ("uint", "int"):
        (least, greatest), (low, high) = limits(source), limits(to)
        return not to.width_key and low <= least and greatest <= high
    if to == FLOAT16 and source.kind in ("uint", "int"):
        least, greatest = limits(source)
        return least >= -_FLOAT16_INTEGERS and greatest <= _FLOAT16_INTEGERS
    if source == FLOAT16 and to == FLOAT:
        return True
    return _RANK[source.kind] < _RANK[to.kind]


@dataclass(frozen=True, kw_only=True)
class Node:
    span: Span = field(compare=False, repr=False)


# Expressions


@dataclass(frozen=True, kw_only=True)
class TypedNode(Node):
    type: Scalar


@dataclass(frozen=True, kw_only=True)
class Const(TypedNode):
    """`value` is exactly the number in the text; it is rounded to `type` where it is used."""

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
    """Both operands have one type: `type`, or for comparisons any type. Arithmetic is in int, float or double."""

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
    """A conversion. A value that does not fit becomes the nearest value that fits, NaN 0; fractions are cut off."""

    operand: Expr


@dataclass(frozen=True, kw_only=True)
class Bitcast(TypedNode):
    """The 32 bits of a float as an int, or of an int as a float."""

    operand: Expr


@dataclass(frozen=True, kw_only=True)
class Call(TypedNode):
    function: str
    arguments: tuple[Expr, ...]


@dataclass(frozen=True, kw_only=True)
class Random(TypedNode):
    """Uniform in [low, high), from 16 or 32 bits; `shared`: the same on all ranks. `site` numbers the calls of a
    function; see reference/philox.py."""

    low: Expr
    high: Expr
    bits: int
    shared: bool
    site: int


@dataclass(frozen=True, kw_only=True)
class StepNumber(TypedNode):
    """How often the tensor was synchronised before, modulo 2³¹; in encode, and not in a function of elements."""


Expr: TypeAlias = (
    Const | Var | ParamRef | Size | Index | Unary | Binary | Select | Cast | Bitcast | Call | Random | StepNumber
)
