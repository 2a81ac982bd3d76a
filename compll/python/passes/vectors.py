# SPDX-License-Identifier: Apache-2.0
"""The vectors of a function: how each is defined, and which vector it is as long as."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from hipress.compll import ir
from hipress.compll.passes.operators import PLANNING


@dataclass(frozen=True)
class Source:
    """The gradient or a state. `block` elements of the gradient share a value of it."""

    name: str
    block: int = 1

    def count(self, elements: str) -> str:
        """The text of its number of values for so many elements of the gradient."""
        return elements if self.block == 1 else f"(({elements} + {self.block - 1}) / {self.block})"


@dataclass(frozen=True)
class Payload:
    """A field of the message, in decode."""

    field: ir.Field


@dataclass(frozen=True)
class Mapped:
    """One of a map's results; an element is computed where it is used."""

    op: ir.Map
    result: int


@dataclass(frozen=True)
class Computed:
    """The result of another operator whose elements are computed where they are used."""

    op: ir.Operator


@dataclass(frozen=True)
class Stored:
    """In memory: the result of an operator, or of the branch that ran."""

    op: ir.Operator | ir.Join


Definition: TypeAlias = Source | Payload | Mapped | Computed | Stored


@dataclass
class Vectors:
    """All vectors of one function, by name."""

    function: ir.Function
    definitions: dict[str, Definition] = field(default_factory=dict)
    types: dict[str, ir.Vector] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.define(ir.GRADIENT, ir.Vector(ir.FLOAT, "gradient.size"), Source(ir.GRADIENT))
        for state in self.function.states:
            block = self.function.block_of_state(state)
            length = "gradient.size" if block == 1 else f"ceil(gradient.size / {block})"
            self.define(state, ir.Vector(ir.FLOAT, length), Source(state, block))
        self._statements(self.function.body)

    def define(self, name: str, type_: ir.Type, definition: Definition) -> None:
        assert isinstance(type_, ir.Vector)
        self.definitions[name], self.types[name] = definition, type_

    def _statements(self, body: tuple[ir.Statement, ...]) -> None:
        for statement in body:
            match statement:
                case ir.Let() if isinstance(statement.type, ir.Vector):
                    self._let(statement)
                case ir.LetMany():
                    for result, (name, type_) in enumerate(zip(statement.names, statement.types, strict=True)):
                        self.define(name, type_, Mapped(statement.value, result))
                case ir.If():
                    self._statements(statement.yes)
                    self._statements(statement.no)
                    for join in statement.joins:
                        if isinstance(join.type, ir.Vector):
                            self.define(join.name, join.type, Stored(join))
                case ir.Extract():
                    for part in statement.fields:
                        if isinstance(part.type, ir.Vector):
                            self.define(part.name, part.type, Payload(part))

    def _let(self, let: ir.Let) -> None:
        op = let.value
        assert isinstance(op, ir.Operator)
        self.define(let.name, let.type, Mapped(op, 0) if isinstance(op, ir.Map) else self._result(op))

    def _result(self, op: ir.Operator) -> Computed | Stored:
        planning = PLANNING[type(op)]
        computed = planning.needs is not None and not planning.in_memory(self, op)
        return Computed(op) if computed else Stored(op)

    def sorted(self, name: str) -> ir.Sort | None:
        """The sort that made the vector."""
        definition = self.definitions.get(name)
        op = definition.op if isinstance(definition, Stored) else None
        return op if isinstance(op, ir.Sort) else None

    def element(self, name: str) -> ir.Scalar:
        return self.types[name].element

    def length(self, name: str) -> str:
        return self.types[name].length

    def counted(self, name: str) -> str:
        """The vector whose count `name` shares: the gradient, a state of blocks, or a vector with its own count."""
        definition = self.definitions[name]
        if isinstance(definition, Source):
            return ir.GRADIENT if definition.block == 1 else name
        op = getattr(definition, "op", None)
        length = op.length() if isinstance(op, ir.Operator) else None
        return self.counted(length.vector) if isinstance(length, ir.Like) else name

    def increasing(self, name: str) -> bool:
        """Whether every element is certainly greater than the element before it."""
        op = getattr(self.definitions[name], "op", None)
        return isinstance(op, ir.Operator) and PLANNING[type(op)].increasing(self, op)

    def distinct(self, name: str) -> bool:
        """Whether certainly no element occurs twice."""
        op = getattr(self.definitions[name], "op", None)
        distinct = isinstance(op, ir.Operator) and PLANNING[type(op)].distinct(self, op)
        return distinct or self.increasing(name)


def identity(function: ir.Lambda) -> bool:
    """Whether the function returns its only argument."""
    (result,), parameters = function.results, function.parameters
    return isinstance(result, ir.Var) and len(parameters) == 1 and result.name == parameters[0][0]


def parts(expr: ir.Expr) -> Iterator[ir.Expr]:
    """The expression and all expressions in it."""
    yield expr
    inner: tuple[ir.Expr, ...] = ()
    match expr:
        case ir.Index():
            inner = (expr.index,)
        case ir.Unary() | ir.Cast() | ir.Bitcast():
            inner = (expr.operand,)
        case ir.Binary():
            inner = (expr.left, expr.right)
        case ir.Select():
            inner = (expr.condition, expr.yes, expr.no)
        case ir.Call():
            inner = expr.arguments
        case ir.Random():
            inner = (expr.low, expr.high)
    for part in inner:
        yield from parts(part)
    if expr.type.width is not None:
        yield from parts(expr.type.width)


def expressions(function: ir.Lambda) -> Iterator[ir.Expr]:
    """All expressions of a lambda, with their parts."""
    for let in function.lets:
        assert isinstance(let.value, ir.Expr)
        yield from parts(let.value)
    for result in function.results:
        yield from parts(result)
