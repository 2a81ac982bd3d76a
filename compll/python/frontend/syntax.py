# SPDX-License-Identifier: Apache-2.0
"""The syntax tree: the text of a program, before its meaning is known. It has a class for each rule of grammar.lark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from hipress.compll.ir.source import Span


@dataclass(frozen=True)
class Syntax:
    span: Span


@dataclass(frozen=True)
class Number(Syntax):
    text: str


@dataclass(frozen=True)
class Boolean(Syntax):
    value: bool


@dataclass(frozen=True)
class Name(Syntax):
    name: str


@dataclass(frozen=True)
class Prefix(Syntax):
    operator: str
    operand: Expression


@dataclass(frozen=True)
class Binary(Syntax):
    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True)
class Conditional(Syntax):
    condition: Expression
    yes: Expression
    no: Expression


@dataclass(frozen=True)
class Cast(Syntax):
    type: TypeName
    operand: Expression


@dataclass(frozen=True)
class Attribute(Syntax):
    owner: Expression
    name: str


@dataclass(frozen=True)
class Index(Syntax):
    vector: Expression
    index: Expression


@dataclass(frozen=True)
class Call(Syntax):
    name: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True)
class Random(Syntax):
    type: TypeName
    bits: str
    shared: bool
    arguments: tuple[Expression, ...]


@dataclass(frozen=True)
class Bitcast(Syntax):
    type: TypeName
    arguments: tuple[Expression, ...]


@dataclass(frozen=True)
class Lambda(Syntax):
    parameters: tuple[Parameter, ...]
    results: tuple[TypeName, ...]
    body: Block


Expression: TypeAlias = (
    Number
    | Boolean
    | Name
    | Prefix
    | Binary
    | Conditional
    | Cast
    | Attribute
    | Index
    | Call
    | Random
    | Bitcast
    | Lambda
)


@dataclass(frozen=True)
class TypeName(Syntax):
    """`name` is "uint" with `width` for uint<width>, otherwise the keyword, or the name of a param block."""

    name: str
    width: Expression | None
    vector: bool


@dataclass(frozen=True)
class Parameter(Syntax):
    type: TypeName
    name: str
    state: bool
    length: Expression | None = None  # only of a state


@dataclass(frozen=True)
class SetDomain(Syntax):
    values: tuple[Expression, ...]


@dataclass(frozen=True)
class IntervalDomain(Syntax):
    low: Expression
    high: Expression
    low_open: bool
    high_open: bool


@dataclass(frozen=True)
class ParamField(Syntax):
    type: TypeName
    name: str
    default: Expression | None
    domain: SetDomain | IntervalDomain | None
    merged: Expression | None


@dataclass(frozen=True)
class ParamBlock(Syntax):
    name: str
    fields: tuple[ParamField, ...]


@dataclass(frozen=True)
class Function(Syntax):
    """`results` is empty for void."""

    name: str
    results: tuple[TypeName, ...]
    parameters: tuple[Parameter, ...]
    body: Block


@dataclass(frozen=True)
class Table(Syntax):
    """`values` are listed, or a function gives them."""

    name: str
    type: TypeName
    size: Expression
    values: tuple[Expression, ...] | Lambda


@dataclass(frozen=True)
class GlobalVariable(Syntax):
    name: str


@dataclass(frozen=True)
class File(Syntax):
    items: tuple[ParamBlock | Function | Table | GlobalVariable, ...]


@dataclass(frozen=True)
class Block(Syntax):
    statements: tuple[Statement, ...]


@dataclass(frozen=True)
class Declaration(Syntax):
    type: TypeName
    name: str
    value: Expression | None


@dataclass(frozen=True)
class Assignment(Syntax):
    name: str
    value: Expression


@dataclass(frozen=True)
class Target(Syntax):
    type: TypeName | None
    name: str


@dataclass(frozen=True)
class MultiAssignment(Syntax):
    targets: tuple[Target, ...]
    value: Expression


@dataclass(frozen=True)
class LambdaDefinition(Syntax):
    name: str
    value: Lambda


@dataclass(frozen=True)
class If(Syntax):
    condition: Expression
    yes: Block
    no: Block | None


@dataclass(frozen=True)
class Return(Syntax):
    values: tuple[Expression, ...]


@dataclass(frozen=True)
class Field(Syntax):
    type: TypeName | None
    name: str
    length: Expression | None


@dataclass(frozen=True)
class Extract(Syntax):
    source: str
    fields: tuple[Field, ...]


@dataclass(frozen=True)
class CallStatement(Syntax):
    name: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True)
class ElementAssignment(Syntax):
    name: str


@dataclass(frozen=True)
class CompoundAssignment(Syntax):
    name: str


Statement: TypeAlias = (
    Declaration
    | Assignment
    | MultiAssignment
    | LambdaDefinition
    | If
    | Return
    | Extract
    | CallStatement
    | ElementAssignment
    | CompoundAssignment
)
