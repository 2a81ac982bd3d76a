# SPDX-License-Identifier: Apache-2.0
"""The typed IR: the checker makes it from a program; the interpreter and the emitters read it.

    program  = Program(name, Param* params, Function? encode, Function? decode)
    param    = Param(name, type, default?, Domain? domain, merged?)
    function = Function(name, str* states, stmt* body, (state, int block)* blocks_of_states)
    stmt     = Let(name, type, expr | op)                      one definition for each name in a function
             | LetMany(name*, type*, Map)                      a map with several results
             | If(expr condition, stmt* yes, stmt* no, Join*)  join = Join(name, type, yes_name, no_name)
             | WriteState(state, vector)                       at most one for each state, never inside If
             | WriteMessage(item*)                             item = a scalar expr | Vec; concat
             | WriteGradient(vector)
             | Extract(Field*)                                 field = Field(name, type, expr? length)
             | Require(expr)
    op       = Map(access*, lambda) | Reduce(vector, expr init, lambda) | ReduceBlocks(… as Reduce …, expr block)
             | Filter(vector, lambda) | Sort(vector, lambda key) | Scatter(base, indices, Vec | expr)
             | Take(vector, expr count) | Fill(expr count, expr) | Constants(number*, type)
             | the nodes of other operators, each in its file in operators/
    access   = Vec(vector) | Spread(vector, expr block)        element i, or element i / block
    lambda   = Lambda((name, type)* parameters, Let* lets, expr* results)
    expr     = Const | Var | ParamRef | Size(vector) | Index(vector, expr) | Unary | Binary | Select | Cast | Bitcast
             | Call | Random | StepNumber
    type     = Scalar(kind, bits, width_key) | Vector(Scalar element, length_key)

Invariants. Nodes are immutable and know their span, which does not count in comparisons. Operators take vectors by
name. Named functions are inlined and if/else inside lambdas is Select, so an expression is a pure tree: no expression
fails, and evaluating both sides of a Select is always allowed. All conversions are Casts, so both operands of a
Binary have its operand type. Vectors with equal `length` keys have equal lengths ("gradient.size" for one). "gradient"
and "compressed" are the names of a codec's two vectors, whatever the program calls them. The name of a state stands for
its old value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from hipress.compll.ir.expressions import (
    BOOL,
    DOUBLE,
    FLOAT,
    GRADIENT,
    INT,
    MESSAGE,
    UINT8,
    Binary,
    Bitcast,
    Call,
    Cast,
    Const,
    Expr,
    Index,
    Node,
    ParamRef,
    Random,
    Scalar,
    Select,
    Size,
    StepNumber,
    Type,
    Unary,
    Var,
    Vector,
)
from hipress.compll.ir.lengths import AtMost, Blocks, Exactly, First, Length, Like
from hipress.compll.ir.operators import (
    OPERATORS,
    Access,
    Constants,
    Fill,
    Filter,
    Lambda,
    Map,
    Operator,
    Reduce,
    ReduceBlocks,
    Scatter,
    Sort,
    Spread,
    Take,
    Usage,
    Vec,
)
from hipress.compll.ir.parameters import ERROR_FEEDBACK, GRADIENT_FACTOR, RESIDUAL, RESIDUAL_FACTOR, Domain, Param
from hipress.compll.ir.summed import Summed

# Statements


@dataclass(frozen=True, kw_only=True)
class Let(Node):
    name: str
    type: Type
    value: Expr | Operator


@dataclass(frozen=True, kw_only=True)
class LetMany(Node):
    names: tuple[str, ...]
    types: tuple[Vector, ...]
    value: Map


@dataclass(frozen=True, kw_only=True)
class Join(Node):
    """After an If: `name` is `yes` if the first branch ran, else `no`."""

    name: str
    type: Type
    yes: str
    no: str


@dataclass(frozen=True, kw_only=True)
class If(Node):
    condition: Expr
    yes: tuple[Statement, ...]
    no: tuple[Statement, ...]
    joins: tuple[Join, ...]


@dataclass(frozen=True, kw_only=True)
class WriteState(Node):
    state: str
    vector: str


@dataclass(frozen=True, kw_only=True)
class WriteMessage(Node):
    items: tuple[Vec | Expr, ...]


@dataclass(frozen=True, kw_only=True)
class WriteGradient(Node):
    vector: str


@dataclass(frozen=True, kw_only=True)
class Field(Node):
    """A part of the message; a vector without `length` takes all bytes that remain."""

    name: str
    type: Type
    length: Expr | None


@dataclass(frozen=True, kw_only=True)
class Extract(Node):
    fields: tuple[Field, ...]


@dataclass(frozen=True, kw_only=True)
class Require(Node):
    condition: Expr


Statement: TypeAlias = Let | LetMany | If | WriteState | WriteMessage | WriteGradient | Extract | Require


@dataclass(frozen=True, kw_only=True)
class Function(Node):
    name: str
    states: tuple[str, ...]
    body: tuple[Statement, ...]
    summed: Summed | None = None  # of encode: how ranks add its messages, if they can
    merges_decoded: bool = False  # of encode: an aggregator's own values are merged as decoded, too
    factors: tuple[tuple[str, str], ...] = ()  # of encode: states with the parameters that multiply them
    blocks_of_states: tuple[tuple[str, int], ...] = ()  # of encode: states with one value for each so many elements

    def block_of_state(self, state: str) -> int:
        """How many elements of the gradient share a value of the state."""
        return dict(self.blocks_of_states).get(state, 1)

    def state_length(self, state: str, count: int) -> int:
        """The number of values of the state for a gradient of `count` elements."""
        return -(-count // self.block_of_state(state))


@dataclass(frozen=True)
class Program:
    """A checked file. `encode` or `decode` is None only if the file was compiled as a part (complete=False)."""

    name: str
    params: tuple[Param, ...]
    encode: Function | None
    decode: Function | None

    @property
    def scales_gradients(self) -> bool:
        """Whether it has the implicit parameter gradient_factor."""
        return any(param.implicit and param.name == GRADIENT_FACTOR for param in self.params)


__all__ = [
    "BOOL",
    "DOUBLE",
    "ERROR_FEEDBACK",
    "FLOAT",
    "GRADIENT",
    "GRADIENT_FACTOR",
    "INT",
    "MESSAGE",
    "OPERATORS",
    "RESIDUAL",
    "RESIDUAL_FACTOR",
    "UINT8",
    "Access",
    "AtMost",
    "Binary",
    "Bitcast",
    "Blocks",
    "Call",
    "Cast",
    "Const",
    "Constants",
    "Domain",
    "Exactly",
    "Expr",
    "Extract",
    "Field",
    "Fill",
    "Filter",
    "First",
    "Function",
    "If",
    "Index",
    "Join",
    "Lambda",
    "Length",
    "Let",
    "LetMany",
    "Like",
    "Map",
    "Node",
    "Operator",
    "Param",
    "ParamRef",
    "Program",
    "Random",
    "Reduce",
    "ReduceBlocks",
    "Require",
    "Scalar",
    "Scatter",
    "Select",
    "Size",
    "Sort",
    "Spread",
    "Statement",
    "StepNumber",
    "Summed",
    "Take",
    "Type",
    "Unary",
    "Usage",
    "Var",
    "Vec",
    "Vector",
    "WriteGradient",
    "WriteMessage",
    "WriteState",
]
