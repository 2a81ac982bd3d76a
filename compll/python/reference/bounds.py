# SPDX-License-Identifier: Apache-2.0
"""The greatest length of a message for a given number of elements.

It is derived by running the program on lengths in place of vectors. A scalar is known if it follows from the gradient's
size and the parameters. Each vector has a greatest length: map, sort and scatter keep it, filter can only reduce it,
take(v, k) limits it to k if k is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from hipress.compll import ir
from hipress.compll.ir.source import CompileError, Source, Span
from hipress.compll.reference.evaluate import Environment, bits, evaluate
from hipress.compll.reference.instantiate import example
from hipress.compll.reference.message import packed_bytes, vector_bytes
from hipress.errors import InvalidArgument

_EXAMPLE_COUNT = 1000
_ANY = 1 << 31  # no limit here: the length is checked against the message's size when it arrives


class _Lengths(Environment):
    """An environment that has sizes of vectors in place of values. An unknown size raises KeyError."""

    sizes: dict[str, int]

    def size(self, vector: str) -> int:
        return self.sizes[vector]


class _Unbounded(Exception):
    def __init__(self, span: Span) -> None:
        self.span = span


def max_encoded_bytes(function: ir.Function, count: int, params: Mapping[str, Any]) -> int:
    """The bound for a gradient of `count` elements; 0 for none."""
    if count < 0:
        raise InvalidArgument(f"{count} elements")
    return _Bounds(function, count, params).total if count else 0


def require_bounded(function: ir.Function, source: Source, params: Iterable[ir.Param]) -> None:
    """Raises CompileError if the length of a vector has no bound, since no memory could be reserved for it.

    So a message cannot ask decode for more memory than it has bytes for: a message sets only the lengths of extract's
    fields, and extract checks these against the message's size.
    """
    try:
        _Bounds(function, _EXAMPLE_COUNT, {param.name: example(param) for param in params})
    except _Unbounded as found:
        raise CompileError(
            source,
            found.span,
            "the length of this vector has no bound",
            "compute its length from gradient.size and parameters, or cut it with take(v, k)",
        ) from None


class _Bounds:
    def __init__(self, function: ir.Function, count: int, params: Mapping[str, Any]) -> None:
        self.environment = _Lengths(params)
        self.environment.sizes = {
            ir.GRADIENT: count,
            **{state: function.state_length(state, count) for state in function.states},
        }
        self.most: dict[str, int] = dict(self.environment.sizes)
        self.types: dict[str, ir.Vector] = {}
        self.total = 0
        self.statements(function.body)

    @np.errstate(all="ignore")
    def known(self, expr: ir.Expr) -> Any:
        """The value, or None if it depends on the data."""
        try:
            return evaluate(expr, self.environment)
        except KeyError:
            return None

    def statements(self, body: Iterable[ir.Statement]) -> None:
        for statement in body:
            match statement:
                case ir.Let():
                    self.let(statement)
                case ir.LetMany():
                    for name, type_ in zip(statement.names, statement.types, strict=True):
                        self.define(name, type_, *self.length(statement.value))
                case ir.If():
                    self.branches(statement)
                case ir.Extract():
                    for field in statement.fields:
                        if isinstance(field.type, ir.Vector):
                            count = None if field.length is None else self.known(field.length)
                            self.define(field.name, field.type, count, _ANY if count is None else int(count))
                case ir.WriteMessage():
                    self.total = sum(self.item(item) for item in statement.items)

    def let(self, let: ir.Let) -> None:
        if isinstance(let.type, ir.Vector):
            assert not isinstance(let.value, ir.Expr)
            self.define(let.name, let.type, *self.length(let.value))
        elif isinstance(let.value, ir.Expr):
            value = self.known(let.value)
            if value is not None:
                self.environment.scalars[let.name] = value

    def define(self, name: str, type_: ir.Vector, exact: int | None, most: int | None) -> None:
        self.types[name] = type_
        if exact is not None:
            self.environment.sizes[name] = exact
        if most is not None:
            self.most[name] = most

    def like(self, vector: str) -> tuple[int | None, int | None]:
        return self.environment.sizes.get(vector), self.most.get(vector)

    def length(self, op: ir.Operator) -> tuple[int | None, int | None]:
        """The exact length if it is known, and the greatest length if there is one."""
        length = op.length()
        match length:
            case ir.Like(vector=vector):
                return self.like(vector)
            case ir.AtMost(vector=vector):
                return None, self.most.get(vector)
            case ir.Blocks(vector=vector, block=block):
                size = max(1, int(self.known(block)))
                exact, most = self.like(vector)
                return _blocks(exact, size), _blocks(most, size)
            case ir.First(vector=vector):
                count, (exact, most) = self.known(length.count), self.like(vector)
                if count is None:
                    return None, most
                count = max(0, int(count))
                return (None if exact is None else min(exact, count)), (count if most is None else min(most, count))
            case ir.Exactly():
                count = self.known(length.count)
                if count is None and isinstance(length.count, ir.Size) and length.count.vector in self.most:
                    return self.like(length.count.vector)
                if count is None:
                    raise _Unbounded(op.span)
                return (max(0, int(count)),) * 2

    def branches(self, statement: ir.If) -> None:
        condition = self.known(statement.condition)
        self.statements(statement.yes)
        self.statements(statement.no)
        for join in statement.joins:
            if not isinstance(join.type, ir.Vector):
                if condition is not None:
                    chosen = join.yes if condition else join.no
                    if chosen in self.environment.scalars:
                        self.environment.scalars[join.name] = self.environment.scalars[chosen]
            elif condition is not None:
                self.define(join.name, join.type, *self.like(join.yes if condition else join.no))
            else:
                (one, a), (other, b) = self.like(join.yes), self.like(join.no)
                most = None if a is None or b is None else max(a, b)
                self.define(join.name, join.type, one if one == other else None, most)

    def item(self, item: ir.Vec | ir.Expr) -> int:
        if isinstance(item, ir.Vec):
            element = ir.FLOAT if item.vector not in self.types else self.types[item.vector].element
            return vector_bytes(element, self.most[item.vector], self.environment)
        return packed_bytes(1, bits(item.type, self.environment))


def _blocks(length: int | None, block: int) -> int | None:
    return None if length is None else -(-length // block)
