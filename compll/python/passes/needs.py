# SPDX-License-Identifier: Apache-2.0
"""Needs of a value: the scalars, vectors in memory and counts of vectors that must be known before it is computed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hipress.compll import ir
from hipress.compll.passes import plan
from hipress.compll.passes.operators import PLANNING
from hipress.compll.passes.vectors import Computed, Mapped, Payload, Source, Stored, Vectors, expressions, parts


@dataclass(frozen=True)
class Need:
    kind: str  # "scalar", "stored", "count" or "starts"
    name: str


@dataclass(frozen=True)
class Nest:
    """A loop that takes block after block, the vectors of block results that it computes, and the vectors of which the
    block's elements are in memory."""

    block: ir.Expr
    results: frozenset[str]
    elements: frozenset[str] = frozenset()


Needs = frozenset[Need]


def union(many: Iterable[Needs]) -> Needs:
    return frozenset().union(*many)


class NeedsOf:
    """Needs of expressions and elements. Inside `nest`, the block results of that loop are known."""

    def __init__(self, vectors: Vectors, nest: Nest | None = None) -> None:
        self.vectors = vectors
        self.nest = nest

    def count(self, vector: str) -> Needs:
        counted = self.vectors.counted(vector)
        if isinstance(self.vectors.definitions[counted], Source):
            return frozenset()
        return frozenset((Need("count", counted),))

    def expr(self, expr: ir.Expr, local: frozenset[str] = frozenset()) -> Needs:
        found: set[Need] = set()
        for part in parts(expr):
            match part:
                case ir.Var() if part.name not in local:
                    found.add(Need("scalar", part.name))
                case ir.Size():
                    found |= self.count(part.vector)
                case ir.Index():
                    found |= self.indexed(part.vector)
        return frozenset(found)

    def indexed(self, vector: str) -> Needs:
        """An element at any place. Its vector must be ready before the loop, not only the element at hand."""
        return NeedsOf(self.vectors).element(vector) | self.count(vector)

    def function(self, function: ir.Lambda) -> Needs:
        local = frozenset([name for name, _ in function.parameters] + [let.name for let in function.lets])
        return union(self.expr(e, local) for e in expressions(function))

    def element(self, vector: str, *, per_block: bool = False) -> Needs:
        """The element at hand, in the loop over elements, or `per_block` in the nest's loop over blocks."""
        definition = self.vectors.definitions[vector]
        match definition:
            case Source():
                return frozenset()
            case Payload():
                return frozenset((Need("stored", vector),))
            case Mapped(op, _):
                accesses = union(self.access(a, per_block=per_block) for a in op.inputs)
                return accesses | self.function(op.function)
            case Stored(ir.Sort(vector=of)):
                return frozenset((Need("stored", vector),)) | self.indexed(of)
            case Stored():
                if self.nest is not None and vector in (self.nest.results if per_block else self.nest.elements):
                    return frozenset()
                return frozenset((Need("stored", vector),))
            case Computed(op):
                needs = PLANNING[type(op)].needs
                assert needs is not None, op
                return needs(self, op)

    def spreads(self, sink: plan.Sink) -> tuple[ir.Expr, ...]:
        """The different blocks by which vectors are spread in what the sink computes."""
        found: list[ir.Expr] = []
        seen: set[str] = set()

        def visit(vector: str) -> None:
            definition = self.vectors.definitions[vector]
            if vector in seen or not isinstance(definition, Mapped):
                return
            seen.add(vector)
            for access in definition.op.inputs:
                if isinstance(access, ir.Vec):
                    visit(access.vector)
                elif access.block not in found:
                    found.append(access.block)

        match sink:
            case plan.StoreTo(vector=vector):
                visit(vector)
            case plan.ScatterTo(values=ir.Vec(vector=vector)):
                visit(vector)
            case plan.OperatorSink(op=op):
                visit(op.vector)
        return tuple(found)

    def access(self, access: ir.Vec | ir.Spread, *, per_block: bool) -> Needs:
        if isinstance(access, ir.Spread):
            inside = self.nest is not None and access.block == self.nest.block and not per_block
            return self.element(access.vector, per_block=inside) | self.expr(access.block)
        return self.element(access.vector, per_block=per_block)
