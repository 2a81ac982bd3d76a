# SPDX-License-Identifier: Apache-2.0
"""The C++ function for the greatest length of a message: the computation of reference/bounds.py, in C++."""

from __future__ import annotations

from hipress.compll import ir
from hipress.compll.emit.scope import Names, Scope, c_type
from hipress.compll.passes.vectors import Source, Vectors


def emit_bound(function: ir.Function, vectors: Vectors) -> list[str]:
    """The function's body. Its arguments are `n`, the number of elements, and `params`."""
    bounds = Bounds(function, vectors)
    bounds.statements(function.body)
    return [*bounds.lines, f"return {bounds.total};"]


def emit_number(expr: ir.Expr, vectors: Vectors) -> str:
    """The text of a number that depends on `params` only."""
    return _Lengths(vectors, Names()).expr(expr)


class _Unknown(Exception):
    """The value depends on the data."""


class _Lengths(Scope):
    def __init__(self, vectors: Vectors, names: Names) -> None:
        super().__init__(vectors, names)
        self.sizes: dict[str, str] = {}
        self.scalars: set[str] = set()

    def scalar(self, name: str) -> str:
        if name not in self.scalars:
            raise _Unknown
        return f"s_{self.names(name)}"

    def param(self, name: str) -> str:
        return f"params.p_{name}"

    def count(self, vector: str) -> str:
        if vector not in self.sizes:
            raise _Unknown
        return self.sizes[vector]

    def at(self, vector: str, index: str) -> str:
        raise _Unknown

    def step(self) -> str:
        raise _Unknown

    def position(self) -> str:
        raise _Unknown

    def word(self, random: ir.Random) -> str:
        raise _Unknown


class Bounds:
    """Numbers of elements, as variables that `lines` declare: exact in `scope.sizes`, the greatest in `most`."""

    def __init__(self, function: ir.Function, vectors: Vectors) -> None:
        self.names = Names()
        self.scope = _Lengths(vectors, self.names)
        for name in (ir.GRADIENT, *function.states):
            source = vectors.definitions[name]
            assert isinstance(source, Source)
            self.scope.sizes[name] = source.count("n")
        self.most = dict(self.scope.sizes)
        self.vectors = vectors
        self.lines: list[str] = []
        self.total = "0"

    def known(self, expr: ir.Expr) -> str | None:
        try:
            return self.scope.expr(expr)
        except _Unknown:
            return None

    def statements(self, body: tuple[ir.Statement, ...]) -> None:
        for statement in body:
            match statement:
                case ir.Let():
                    self.let(statement)
                case ir.LetMany():
                    for name in statement.names:
                        self.length(name, statement.value)
                case ir.If():
                    self.branches(statement)
                case ir.WriteMessage():
                    self.total = " + ".join(self.item(item) for item in statement.items)

    def variable(self, name: str, type_: str, text: str, kind: str) -> str:
        variable = f"{kind}_{self.names(name)}"
        self.lines.append(f"[[maybe_unused]] const {type_} {variable} = {text};")
        return variable

    def let(self, let: ir.Let) -> None:
        op = let.value
        if isinstance(op, ir.Expr):
            text = self.known(op)
            if text is not None:
                self.variable(let.name, c_type(op.type), text, "s")
                self.scope.scalars.add(let.name)
            return
        if isinstance(let.type, ir.Vector):
            self.length(let.name, op)

    def length(self, name: str, op: ir.Operator) -> None:
        length = op.length()
        match length:
            case ir.Like(vector=vector):
                self.like(name, vector)
            case ir.AtMost(vector=vector):
                self.most[name] = self.most[vector]
            case ir.Blocks(vector=vector):
                block = self.known(length.block)
                for sizes, kind in ((self.scope.sizes, "n"), (self.most, "most")):
                    if vector in sizes:
                        text = f"ops::blockCount({sizes[vector]}, ops::atLeastOne({block}))"
                        sizes[name] = self.variable(name, "size_t", text, kind)
            case ir.First():
                self.first(name, length)
            case ir.Exactly(count=ir.Size(vector=vector)) if vector not in self.scope.sizes:
                self.like(name, vector)
            case ir.Exactly():
                text = f"ops::asCount({self.known(length.count)})"
                self.scope.sizes[name] = self.most[name] = self.variable(name, "size_t", text, "n")

    def like(self, name: str, other: str) -> None:
        for sizes in (self.scope.sizes, self.most):
            if other in sizes:
                sizes[name] = sizes[other]

    def first(self, name: str, op: ir.First) -> None:
        count = self.known(op.count)
        if count is None:
            if op.vector in self.most:
                self.most[name] = self.most[op.vector]
            return
        for sizes, kind in ((self.scope.sizes, "n"), (self.most, "most")):
            if op.vector in sizes:
                text = f"std::min(ops::asCount({count}), {sizes[op.vector]})"
                sizes[name] = self.variable(name, "size_t", text, kind)
        if name not in self.most:
            self.most[name] = self.variable(name, "size_t", f"ops::asCount({count})", "most")

    def branches(self, statement: ir.If) -> None:
        condition = self.known(statement.condition)
        self.statements(statement.yes)
        self.statements(statement.no)
        for join in statement.joins:
            if not isinstance(join.type, ir.Vector):
                both = {join.yes, join.no} <= self.scope.scalars
                if condition is not None and both:
                    text = f"{condition} ? {self.scope.scalar(join.yes)} : {self.scope.scalar(join.no)}"
                    self.variable(join.name, c_type(join.type), text, "s")
                    self.scope.scalars.add(join.name)
                continue
            for sizes, kind in ((self.scope.sizes, "n"), (self.most, "most")):
                if join.yes not in sizes or join.no not in sizes:
                    continue
                yes, no = sizes[join.yes], sizes[join.no]
                if condition is not None:
                    sizes[join.name] = self.variable(join.name, "size_t", f"{condition} ? {yes} : {no}", kind)
                elif kind == "most" or yes == no:
                    sizes[join.name] = self.variable(join.name, "size_t", f"std::max({yes}, {no})", kind)

    def item(self, item: ir.Vec | ir.Expr) -> str:
        if isinstance(item, ir.Vec):
            return f"ops::packedBytes({self.most[item.vector]}, {self.scope.bits(self.vectors.element(item.vector))})"
        return str(item.type.message_bytes)
