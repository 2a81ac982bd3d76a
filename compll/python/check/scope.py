# SPDX-License-Identifier: Apache-2.0
"""The meanings of names while a function is checked, and the list that collects its statements."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hipress.compll import ir
from hipress.compll.check.length_keys import key
from hipress.compll.frontend import syntax as s
from hipress.compll.ir.source import CompileError, Source, Span, did_you_mean

_LONGEST_KEY = 200


@dataclass(frozen=True)
class VectorRef:
    """A vector of the IR; If each element stands for a block of elements, `spread` is the block's size."""

    name: str
    type: ir.Vector
    spread: ir.Expr | None = None


@dataclass(frozen=True)
class LambdaRef:
    """A lambda or a named function, and the scope that it sees."""

    name: str
    parameters: tuple[s.Parameter, ...]
    results: tuple[s.TypeName, ...]
    body: s.Block
    scope: Scope


@dataclass(frozen=True)
class Pending:
    """Declared, not yet assigned."""

    type: ir.Type


@dataclass(frozen=True)
class Output:
    """An output of the function. `role` is "compressed" or "gradient"."""

    role: str


@dataclass(frozen=True)
class Agreed:
    """agree(): the place of the statistics' definition in the function, how ranks combine them, and of which blocks
    they are."""

    statement: int
    how: str
    block: ir.Expr
    span: Span


@dataclass(frozen=True)
class Added:
    """add(): the levels, and the greatest magnitude that one can have."""

    vector: str
    most: ir.Expr
    span: Span


Binding = ir.Const | ir.Var | ir.ParamRef | VectorRef | LambdaRef | Pending | Output


@dataclass
class Unit:
    """The state of checking one function, shared by all its scopes."""

    source: Source
    role: str  # "encode" or "decode"
    functions: dict[str, s.Function]
    params: dict[str, ir.Param]
    states: dict[str, int] = field(default_factory=dict)  # with the number of elements that share a value
    states_read: set[str] = field(default_factory=set)
    params_read: set[str] = field(default_factory=set)
    lengths: dict[str, str] = field(default_factory=dict)
    definitions: dict[str, str] = field(default_factory=dict)
    inlining: list[str] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    numbers: dict[str, int] = field(default_factory=dict)  # the last one that fresh() gave to a base
    written: set[str] = field(default_factory=set)
    agreed: Agreed | None = None
    added: Added | None = None
    merge_decoded: Span | None = None  # of the statement merge_decoded()
    sites: int = 0
    calls: int = 0
    tables: dict[str, ir.Let] = field(default_factory=dict)
    tables_read: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        for name, let in self.tables.items():
            assert isinstance(let.type, ir.Vector)
            self.names.add(name)
            self.lengths[name] = let.type.length

    def error(self, span: Span, message: str, hint: str = "") -> CompileError:
        return CompileError(self.source, span, message, hint)

    def fresh(self, base: str) -> str:
        """An IR name that no other has: `base`, or base.1, base.2, …"""
        name, number = base, self.numbers.get(base, 0)
        while name in self.names:
            number += 1
            name = f"{base}.{number}"
        self.names.add(name)
        self.numbers[base] = number
        return name

    def key(self, expr: ir.Expr) -> str:
        return key(expr, self.definitions, self.lengths)


@dataclass
class Scope:
    """The names of a block. `lets` collects the definitions that the block's expressions need."""

    unit: Unit
    parent: Scope | None
    lets: list[ir.Statement]
    in_lambda: bool = False
    bindings: dict[str, Binding] = field(default_factory=dict)
    param_name: str | None = None  # the function's name for its param block

    def find(self, name: str) -> Binding | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.bindings:
                return scope.bindings[name]
            scope = scope.parent
        return self._table(name)

    def _table(self, name: str) -> VectorRef | None:
        """A table of the file, which every function sees."""
        let = self.unit.tables.get(name)
        if let is None:
            return None
        assert isinstance(let.type, ir.Vector)
        self.unit.tables_read.add(name)
        return VectorRef(name, let.type)

    def params(self) -> str | None:
        scope: Scope | None = self
        while scope is not None:
            if scope.param_name is not None:
                return scope.param_name
            scope = scope.parent
        return None

    def lookup(self, name: str, span: Span) -> Binding:
        found = self.find(name)
        if found is None:
            raise self.unit.error(span, f"unknown name '{name}'", did_you_mean(name, self.visible()))
        return found

    def visible(self) -> set[str]:
        inherited = self.parent.visible() if self.parent is not None else set(self.unit.tables)
        return inherited | set(self.bindings)

    def define(self, name: str, binding: Binding, span: Span) -> None:
        """Gives a new name its meaning. A name has one meaning in a function, so a name cannot hide another."""
        if self.find(name) is not None or name == self.params():
            raise self.unit.error(span, f"the name '{name}' is already in use here", "use another name")
        self.bindings[name] = binding

    def child(self, lets: list[ir.Statement], *, in_lambda: bool | None = None) -> Scope:
        return Scope(self.unit, self, lets, self.in_lambda if in_lambda is None else in_lambda)

    def let(self, base: str, type_: ir.Type, value: ir.Expr | ir.Operator, span: Span) -> str:
        """Adds a definition and returns its IR name."""
        unit = self.unit
        name = unit.fresh(base)
        self.lets.append(ir.Let(name=name, type=type_, value=value, span=span))
        if isinstance(type_, ir.Vector):
            unit.lengths[name] = type_.length
        elif isinstance(value, ir.Expr):
            # A long key would get longer with each use. The name alone is a key, too: it finds fewer equal lengths.
            found = unit.key(value)
            unit.definitions[name] = found if len(found) <= _LONGEST_KEY else name
        return name

    def rename(self, old: str, new: str) -> str:
        """Gives the newest definition the program's own name for it; returns the name that it then has in the IR."""
        last = self.lets[-1] if self.lets else None
        if not isinstance(last, ir.Let) or last.name != old:
            return old
        unit = self.unit
        name = unit.fresh(new)
        self.lets[-1] = replace(last, name=name)
        for table in (unit.lengths, unit.definitions):
            if old in table:
                table[name] = table.pop(old)
        return name
