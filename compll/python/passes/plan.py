# SPDX-License-Identifier: Apache-2.0
"""The plan of a function: its passes over memory, and the results of each pass. The emitters read it.

    plan  = Plan(step*)                      in the order in which they run
    step  = Loop(length, block?, sink* first, sink* per_block, sink* second, sink** later)
          | Scalar(name, type, expr)         a scalar of the frame
          | Count(vector, kind, expr?)       the number of elements of a vector that is not the gradient
          | Offset(item)                     the place of an item in the message
          | Order(name, vector, mode, expr?) the rest of a sort, after a loop has computed the keys
          | Starts(name, widths, count, block, words?)
          | CheckIndices(indices, vector, operator, increasing)
          | Read(field*) | Demand(expr, line) | Branch(expr, plan, plan, join*) | Finish(item*)
    sink  = ReduceTo | BlocksTo | ByBlocks | FilterTo | KeysTo | StoreTo | ScatterTo

A Loop goes over all elements of its length once and feeds its sinks. A map has no place in memory: its elements are
computed where a sink needs them. With `block`, the loop takes one block after the other: `first` over the block's
elements, then `per_block` once, then `second` over the elements again, which are still in the cache; there a spread
vector is a scalar. So error feedback with a scale for each block is one pass over memory. What ByBlocks makes of a
block is ready after the pass that has it, so `later` has more passes over the same block.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from hipress.compll import ir


@dataclass(frozen=True)
class Place:
    """The destination of a vector: a buffer of that name, a state's new value, an item of the message, the output."""

    kind: Literal["buffer", "state", "message", "gradient"]
    name: str = ""
    item: int = 0


class Sink:
    """A result that a loop computes. Each target has a way to compute it (emit/target.py, Target.sinks)."""


@dataclass(frozen=True)
class OperatorSink(Sink):
    """An operator that takes each element of `op.vector`; its result is called `name`."""

    name: str
    op: Any


@dataclass(frozen=True)
class ReduceTo(OperatorSink):
    op: ir.Reduce


@dataclass(frozen=True)
class BlocksTo(OperatorSink):
    op: ir.ReduceBlocks


class ByBlocks(OperatorSink):
    """An operator that makes elements of whole blocks. They are in memory after a pass over the block's elements."""


@dataclass(frozen=True)
class FilterTo(OperatorSink):
    op: ir.Filter


@dataclass(frozen=True)
class KeysTo(OperatorSink):
    """The keys by which `name` will be sorted. If `first` is given, only so many of the smallest keys are needed."""

    op: ir.Sort
    first: ir.Expr | None = None


@dataclass(frozen=True)
class StoreTo(Sink):
    vector: str
    place: Place


@dataclass(frozen=True)
class ScatterTo(Sink):
    """A loop over `indices` puts `values` into a place that an earlier loop has stored `base` to."""

    base: str
    indices: str
    values: ir.Vec | ir.Expr
    place: Place


@dataclass
class Loop:
    length: str
    """The key of the length; `vector` is one that has it."""
    vector: str
    block: ir.Expr | None = None
    first: list[Sink] = field(default_factory=list)
    per_block: list[Sink] = field(default_factory=list)
    second: list[Sink] = field(default_factory=list)
    later: list[list[Sink]] = field(default_factory=list)

    def sinks(self) -> list[Sink]:
        return [*self.first, *self.per_block, *self.second, *(sink for sinks in self.later for sink in sinks)]

    def apart(self) -> list[Loop]:
        """Loops that do the same one after the other. None of them reads what it makes by blocks."""
        passes = self.later
        together = replace(self, later=[])
        if any(isinstance(sink, ByBlocks) for sink in self.first):
            passes, together = [self.second, *passes], replace(together, second=[])
        return [together, *(Loop(self.length, self.vector, self.block, second=sinks) for sinks in passes if sinks)]


@dataclass(frozen=True)
class Scalar:
    name: str
    type: ir.Scalar
    value: ir.Expr


@dataclass(frozen=True)
class Count:
    """The number of elements: `value`; for "take" at most the length of `of`; for "blocks" ⌈length of `of` / value⌉."""

    vector: str
    kind: Literal["exact", "take", "blocks"]
    value: ir.Expr
    of: str = ""


@dataclass(frozen=True)
class Offset:
    item: int


@dataclass(frozen=True)
class Order:
    """A sort by keys that a loop has computed.

    `mode`: "all" sorts all elements, "take" the first `count`; "set" selects the first `count` and keeps their old
    order; "rank" stores nothing, and each use finds the element of a rank.
    """

    name: str
    vector: str
    mode: Literal["rank", "all", "take", "set"]
    count: ir.Expr | None = None


@dataclass(frozen=True)
class Starts:
    """The number of the first word of each block, for codes that are packed block by block.

    Without `words`, it counts the elements of the vector `name`. `words` must have exactly as many words.
    """

    name: str
    widths: str
    count: ir.Expr
    block: ir.Expr
    words: str | None = None


@dataclass(frozen=True)
class CheckIndices:
    """Each index must be in the vector; `operator` is named in the error."""

    indices: str
    vector: str
    operator: str
    increasing: bool = False


@dataclass(frozen=True)
class Read:
    fields: tuple[ir.Field, ...]


@dataclass(frozen=True)
class Demand:
    condition: ir.Expr
    line: int


@dataclass(frozen=True)
class Branch:
    condition: ir.Expr
    yes: Plan
    no: Plan
    joins: tuple[ir.Join, ...]


@dataclass(frozen=True)
class Finish:
    """Writes the message's scalars and computes its size."""

    items: tuple[ir.Vec | ir.Expr, ...]


Step: TypeAlias = Loop | Scalar | Count | Offset | Order | Starts | CheckIndices | Read | Demand | Branch | Finish


@dataclass
class Plan:
    steps: list[Step]
