# SPDX-License-Identifier: Apache-2.0
"""The plan of a function: which passes over memory it makes, and what each of them computes. Emitters read it.

    plan  = Plan(step*)                      in the order in which they run
    step  = Loop(length, block?, sink* first, sink* per_block, sink* second)
          | Scalar(name, type, expr)         a scalar of the frame
          | Count(vector, kind, expr?)       the number of elements of a vector that is not the gradient
          | Offset(item)                     where an item of the message begins
          | Order(name, vector, mode, expr?) what is left of a sort, once the keys are there
          | CheckIndices(indices, vector, operator, increasing)
          | Read(field*) | Demand(expr, line) | Branch(expr, plan, plan, join*) | Finish(item*)
    sink  = ReduceTo | BlocksTo | FilterTo | KeysTo | StoreTo | ScatterTo

A Loop goes over all elements of its length once and feeds its sinks; a map has no place of its own, its elements are
computed where a sink needs them. With `block`, the loop takes one block after the other: `first` over the block's
elements, then `per_block` once, then `second` over the elements again, which are still in the cache; there a spread
vector is a scalar. That is the fusion of error feedback with block-wise parameters.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from hipress.compll import ir


@dataclass(frozen=True)
class Target:
    """Where a vector goes: a buffer of that name, a state's new value, an item of the message, or the output."""

    kind: Literal["buffer", "state", "message", "gradient"]
    name: str = ""
    item: int = 0


@dataclass(frozen=True)
class ReduceTo:
    name: str
    op: ir.Reduce


@dataclass(frozen=True)
class BlocksTo:
    name: str
    op: ir.ReduceBlocks


@dataclass(frozen=True)
class FilterTo:
    name: str
    op: ir.Filter


@dataclass(frozen=True)
class KeysTo:
    """The keys by which `name` will be sorted."""

    name: str
    op: ir.Sort


@dataclass(frozen=True)
class StoreTo:
    vector: str
    target: Target


@dataclass(frozen=True)
class ScatterTo:
    """A loop over `indices` that puts `values` into a target which `base` has been stored to before."""

    base: str
    indices: str
    values: ir.Vec | ir.Expr
    target: Target


Sink: TypeAlias = ReduceTo | BlocksTo | FilterTo | KeysTo | StoreTo | ScatterTo


@dataclass
class Loop:
    length: str
    """The key of the length; `vector` is one that has it."""
    vector: str
    block: ir.Expr | None = None
    first: list[Sink] = field(default_factory=list)
    per_block: list[Sink] = field(default_factory=list)
    second: list[Sink] = field(default_factory=list)

    def sinks(self) -> list[Sink]:
        return [*self.first, *self.per_block, *self.second]


@dataclass(frozen=True)
class Scalar:
    name: str
    type: ir.Scalar
    value: ir.Expr


@dataclass(frozen=True)
class Count:
    """`value` elements; "take": no more than `of` has; "blocks": ⌈of / value⌉."""

    vector: str
    kind: Literal["exact", "take", "blocks"]
    value: ir.Expr
    of: str = ""


@dataclass(frozen=True)
class Offset:
    item: int


@dataclass(frozen=True)
class Order:
    """rank: nothing is stored, elements are asked for by rank; set: the first `count`, in their old order."""

    name: str
    vector: str
    mode: Literal["rank", "all", "take", "set"]
    count: ir.Expr | None = None


@dataclass(frozen=True)
class CheckIndices:
    indices: str
    vector: str
    operator: Literal["gather", "scatter"]


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
    """The message's scalars are written, its size is known."""

    items: tuple[ir.Vec | ir.Expr, ...]


Step: TypeAlias = Loop | Scalar | Count | Offset | Order | CheckIndices | Read | Demand | Branch | Finish


@dataclass
class Plan:
    steps: list[Step]
