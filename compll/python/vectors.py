# SPDX-License-Identifier: Apache-2.0
"""What the vectors of a function are: defined how, as long as what, and what an element needs to be computed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from hipress.compll import ir


@dataclass(frozen=True)
class Source:
    """The gradient or a state."""

    name: str


@dataclass(frozen=True)
class Payload:
    """A field of the message, in decode."""

    field: ir.Field


@dataclass(frozen=True)
class Mapped:
    op: ir.Map
    result: int


@dataclass(frozen=True)
class Stored:
    """In memory: what reduce_blocks, filter, sort, scatter or a join made."""

    op: ir.Operator | ir.Join


Definition: TypeAlias = Source | Payload | Mapped | Stored | ir.Range | ir.Fill | ir.Take | ir.Gather


@dataclass
class Vectors:
    """All vectors of one function, by name."""

    function: ir.Function
    definitions: dict[str, Definition] = field(default_factory=dict)
    types: dict[str, ir.Vector] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in (ir.GRADIENT, *self.function.states):
            self.define(name, ir.Vector(ir.FLOAT, "gradient.size"), Source(name))
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
        match op:
            case ir.Map():
                self.define(let.name, let.type, Mapped(op, 0))
            case ir.Range() | ir.Fill() | ir.Gather():
                self.define(let.name, let.type, op)
            case ir.Take() if not self.sorted(op.vector):
                self.define(let.name, let.type, op)
            case ir.ReduceBlocks() | ir.Filter() | ir.Sort() | ir.Scatter() | ir.Take():
                self.define(let.name, let.type, Stored(op))
            case _:
                raise AssertionError(op)

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
        """The vector that has its own count; as many elements as `name`."""
        match self.definitions[name]:
            case Source():
                return ir.GRADIENT
            case Mapped(op, _):
                return self.counted(next(a.vector for a in op.inputs if isinstance(a, ir.Vec)))
            case ir.Gather(indices=indices):
                return self.counted(indices)
            case Stored(ir.Scatter(base=base)):
                return self.counted(base)
            case Stored(ir.Sort(vector=vector)):
                return self.counted(vector)
        return name

    def increasing(self, name: str) -> bool:
        """Whether every element is certainly greater than the one before it."""
        match self.definitions[name]:
            case ir.Range():
                return True
            case ir.Take(vector=vector) | Stored(ir.Filter(vector=vector)):
                return self.increasing(vector)
            case Stored(ir.Sort(key=key) as op):
                return identity(key) and self.distinct(op.vector)
        return False

    def distinct(self, name: str) -> bool:
        """Whether no element certainly occurs twice."""
        match self.definitions[name]:
            case Stored(ir.Sort(vector=vector)) | Stored(ir.Take(vector=vector)):
                return self.distinct(vector)
        return self.increasing(name)


def identity(function: ir.Lambda) -> bool:
    """Whether it gives back its only argument."""
    (result,), parameters = function.results, function.parameters
    return isinstance(result, ir.Var) and len(parameters) == 1 and result.name == parameters[0][0]


def parts(expr: ir.Expr) -> Iterator[ir.Expr]:
    """The expression and everything in it."""
    yield expr
    inner: tuple[ir.Expr, ...] = ()
    match expr:
        case ir.Index():
            inner = (expr.index,)
        case ir.Unary() | ir.Cast():
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
